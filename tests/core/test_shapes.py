"""The form of events: what every scenario and every released version wrote has it, and nothing else does."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent import Decider
from fsm_agent.core.audit.replay import events
from fsm_agent.core.audit.shapes import misshapen, well_formed
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
    assert {("run_created", "owner"), ("owner_changed", "owner")} <= told
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
    assert misshapen(noted) == "its actor: kind is missing"
    assert (
        misshapen(noted._replace(actor={"kind": "human", "id": 7}))
        == "its actor: id is a whole number, where text belongs"
    )
    assert misshapen(noted._replace(actor={"kind": "human", "id": "ann"})) == ""


def test_of_a_type_that_is_not_known_nothing_is_demanded():
    assert misshapen(Event(1, 1, "what", {"x": 1})) == ""


WRITTEN = list(written())
ODD = st.sampled_from(
    [None, True, 7, 1.5, "x", "approval", [], [7], ["x"], {}, {"kind": "value"}, {"words": 7}]
)
NAMES = st.sampled_from(sorted({name for event in WRITTEN for name in event.data}))
RIGHT = {}
"""Forms that were right in one example are believed in the next ones, as in the audit of one log."""


@given(st.sampled_from(WRITTEN), st.dictionaries(NAMES, ODD, max_size=2), st.sets(NAMES, max_size=1), ODD)
def test_what_was_seen_before_changes_nothing_about_what_is_well_formed(event, put, dropped, inside):
    """A form that was found right is not looked at again: nothing that its form does not say may be believed with it."""
    data = {n: v for n, v in {**event.data, **put}.items() if n not in dropped}
    changed = event._replace(data=data)
    assert well_formed(changed.type, changed.data, RIGHT) == (misshapen(changed) == "")
    inner = {n: {k: inside for k in v} for n, v in event.data.items() if type(v) is dict}
    changed = event._replace(data={**event.data, **inner})
    assert well_formed(changed.type, changed.data, RIGHT) == (misshapen(changed) == "")


def test_a_log_with_ever_new_forms_costs_no_ever_growing_memory():
    right = {}
    for n in range(1200):
        assert well_formed("note_added", {"text": "x", f"more{n}": n}, right)
    assert len(right) == 1000
    assert not well_formed("note_added", {"text": 7, "more7": 7}, right)


def test_a_large_first_plan_says_how_many_steps_are_added():
    plan = next(event for event in WRITTEN if event.type == "plan_adopted")
    counted = plan._replace(data={**plan.data, "diff": {**plan.data["diff"], "added": 101}})
    assert misshapen(counted) == ""
    counted = plan._replace(data={**plan.data, "diff": {**plan.data["diff"], "kept": 101}})
    assert misshapen(counted) == "kept is a whole number, where a list belongs"
