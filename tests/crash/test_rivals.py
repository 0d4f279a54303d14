"""Four processes fight for the same runs with leases shorter than their pauses: one writer per epoch, no fork, and
no effect of an owner who was one no longer."""

import json
import subprocess
import sys
from collections import Counter, deque
from pathlib import Path

import pytest

from fsm_agent import audit
from fsm_agent.core.events import from_body
from fsm_agent.stores import open_store
from tests.crash.fighter import RUNS, Fighter, begin, pause

ROOT = Path(__file__).parents[2]
NAMES = ("ann", "bob", "cho", "dee")


def owners(store, run):
    """Who owned the run at each event: (seq, type, data, owner), and the epochs in order."""
    owner, epochs, out = "founder", [1], []
    for record in store.read(run):
        event = from_body(record.body)
        if event.type == "owner_changed":
            owner = event.data["owner"]
            epochs.append(event.data["epoch"])
        out.append((event, owner))
    return out, epochs


def finish_in_peace(location, ledger, run):
    """Drive a run to its end without rivals; return how many steps it has."""
    peace = Fighter(location, ledger, "peace")
    peace.maybe_pause = lambda: None
    while peace.store.info(run).lease_until_us > peace.ports.now_us():
        pause(0.005)
    engine, commands = peace.take(run)
    peace.drive(engine, deque(commands), patience=100_000)
    assert engine.run.state == "done"
    engine.close()
    peace.store.close()
    return len(engine.run.tasks)


@pytest.mark.parametrize(("name", "takeovers"), [("runs.db", 300), ("runs.jsonl", 100)])
def test_rivals_never_fork_a_run_or_repeat_an_effect(tmp_path, name, takeovers, full):
    location, ledger = tmp_path / name, tmp_path / "ledger"
    takeovers *= 10 if full else 1
    store = open_store(location)
    for run in RUNS:
        begin(store, run, steps=takeovers)
    each = takeovers // len(NAMES)
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.crash.fighter", str(location), str(ledger), who, str(each)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for who in NAMES
    ]
    found = Counter()
    for child in children:
        out, err = child.communicate(timeout=280)
        assert child.returncode == 0, err
        found.update(json.loads(out))
    assert found["taken"] >= takeovers
    assert found["fenced"] > 10, "nobody was ever a zombie"
    steps = finish_in_peace(location, ledger, RUNS[0])
    effects = [tuple(json.loads(line)) for line in ledger.read_text().splitlines()]
    started = {}
    for run in RUNS:
        events, epochs = owners(store, run)
        assert epochs == sorted(set(epochs)), "an epoch with two writers"
        for event, owner in events:
            if event.type == "task_moved" and event.data["trigger"] == "start":
                started.setdefault((run, event.data["key"]), set()).add(owner)
        report = audit(store, run=run, head=store.head(run))
        assert report.verdict != "violations", report.findings
    assert len({effect[:2] for effect in effects}) == len(effects), "an effect happened twice"
    for run, key, owner in effects:
        assert owner in started[run, key], "an effect of somebody whose intent is not in the log"
    assert sum(effect[0] == RUNS[0] for effect in effects) == sum(n % 4 != 3 for n in range(steps))
    store.close()
