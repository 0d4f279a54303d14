"""Logs of every released version are read, replayed, audited and explained by today's code, and say what they said then."""

import json
from pathlib import Path

import pytest

from fsm_agent import audit, replay, what_if, why
from fsm_agent.core.engine.decide import state_digest
from fsm_agent.core.replay.ocel import ocel
from fsm_agent.core.replay.story import story
from fsm_agent.core.rules import table as tables
from fsm_agent.stores.memory import MemoryStore
from fsm_agent.stores.transfer import import_run

HERE = Path(__file__).parent
LOGS = sorted(HERE.glob("*/*.jsonl"))
NAMES = [f"{path.parent.name}-{path.stem[:40]}" for path in LOGS]


def expected(path):
    return json.loads((path.parent / "index.json").read_text())[path.stem]


def test_there_are_logs_of_a_version_and_each_is_listed():
    assert LOGS
    for index in HERE.glob("*/index.json"):
        assert set(json.loads(index.read_text())) == {path.stem for path in index.parent.glob("*.jsonl")}


@pytest.mark.parametrize("path", LOGS, ids=NAMES)
def test_a_golden_log_replays_to_the_state_that_it_led_to(path):
    log = replay(path)
    assert state_digest(log.end()) == expected(path)["state"]
    assert (log.last, log.head.hash.hex()) == (expected(path)["events"], expected(path)["hash"])


@pytest.mark.parametrize("path", LOGS, ids=NAMES)
def test_a_golden_log_audits_as_it_did(path):
    found = audit(path)
    assert found.findings == ()
    assert found.verdict == expected(path)["verdict"]


@pytest.mark.parametrize("path", LOGS, ids=NAMES)
def test_a_golden_log_is_decided_today_as_it_was_then(path):
    log = replay(path)
    table = tables.from_canonical(log.events[0].data["rules"])
    assert [one for one in what_if(path, table).decisions if one.differs] == []


@pytest.mark.parametrize("path", LOGS, ids=NAMES)
def test_a_golden_log_can_be_explained_told_handed_on_and_taken_in(path):
    log = replay(path)
    run = log.end()
    for task in run.tasks:
        assert why(path, task).state == run.tasks[task].state
    assert len(story(log).decisions) == sum(e.type == "decided" for e in log.events)
    assert len(ocel(log.id, log.events)["events"]) == log.last
    store = MemoryStore()
    assert import_run(store, path, owner="golden", now_us=1).head.seq == log.last
