"""The form of events: what every scenario and every released version wrote has it, and nothing else does."""

from pathlib import Path

import pytest

from fsm_agent import Decider
from fsm_agent.core.audit.replay import events
from fsm_agent.core.audit.shapes import misshapen
from fsm_agent.core.events import TYPES, Event
from fsm_agent.runtime.proof.logs import opened
from fsm_agent.stores import open_store
from tests.audit.corpus import logs

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*/*.jsonl"))
SAY = {"kind": "answer", "args_digest": "d", "answers": ["value"], "say": "which trip?"}


def written():
    """Yield every event of the scenarios, and of the logs of released versions."""
    for log in logs():
        yield from log.events
    for path in GOLDEN:
        with opened(path) as log:
            yield from events(log.run, log.records, log.blob)


def test_every_event_that_was_ever_written_has_its_form():
    assert {(event.type, misshapen(event)) for event in written()} <= {(kind, "") for kind in TYPES}


def test_so_have_those_of_a_loop_of_ones_own(tmp_path):
    place = tmp_path / "loop.db"
    with Decider("default", store=place, run_id="r") as decider:
        decider.observe("transient_error", error="timeout", task="t1")
        decider.observe("success", task="t1")
    store = open_store(place, read_only=True)
    found = list(events("r", store.read("r"), store.blob))
    store.close()
    assert {event.type for event in found} >= {"run_created", "decided"}
    assert [misshapen(event) for event in found if misshapen(event)] == []


def test_a_member_that_every_event_of_a_type_has_is_missed_by_name():
    always, seen = {}, {}
    for event in written():
        always[event.type] = always.get(event.type, event.data.keys()) & event.data.keys()
        seen.setdefault(event.type, event)
    told = {
        (kind, name)
        for kind, event in seen.items()
        for name in always[kind]
        if misshapen(event._replace(data={n: v for n, v in event.data.items() if n != name}))
        == f"{name} is missing"
    }
    relied_on = {"say", "answers", "reason", "dest", "trigger", "goal", "scope", "explanation", "rule", "why"}
    assert {name for _, name in told} >= relied_on
    assert len(told) > 60


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"say": []}, "say is a list, where text belongs"),
        ({"say": None}, "say is null, where text belongs"),
        ({"say": True}, "say is true or false, where text belongs"),
        ({"args": "x"}, "args is text, where an object belongs"),
        ({"approvers": 1.5}, "approvers is a number, where a whole number belongs"),
        ({"answers": {}}, "answers is an object, where a list belongs"),
        ({"answers": [["x"]]}, "answers holds something else than texts"),
        ({"kind": "bet"}, "kind is none of approval, answer, decide"),
        ({"value": [7], "unheard_of": 7}, ""),
    ],
)
def test_a_member_of_another_kind_is_said_by_name(change, words):
    assert misshapen(Event(1, 1, "approval_requested", {**SAY, **change})) == words


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ({"kind": "result", "duration_us": "x"}, "duration_us is text, where a whole number belongs"),
        ({"kind": "error", "error": ["a"]}, "error is a list, where an object belongs"),
        ({"kind": "error", "error": {"message": 3}}, "message is a whole number, where text belongs"),
        ({"kind": "error", "error": {}}, "message is missing"),
        ({"kind": "error", "error": {"message": "no"}, "usage": {"tokens": 3, "cost_micros": 0}}, ""),
        ({}, "kind is missing"),
    ],
)
def test_what_stands_inside_of_an_outcome_is_looked_at_too(outcome, words):
    moved = {"trigger": "fail", "source": "running", "dest": "failed", "attempt": 1, "outcome": outcome}
    assert misshapen(Event(1, 1, "task_moved", moved, "t")) == words


def test_an_actor_has_a_kind():
    noted = Event(1, 1, "note_added", {"text": "x"}, actor={"id": "ann"})
    assert misshapen(noted) == "its actor is of no kind"
    assert misshapen(noted._replace(actor={"kind": "human", "id": "ann"})) == ""


def test_of_a_type_that_is_not_known_nothing_is_demanded():
    assert misshapen(Event(1, 1, "what", {"x": 1})) == ""
