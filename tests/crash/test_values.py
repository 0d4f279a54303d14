"""Values that other engines lose or change: each comes back exactly, or is refused at the tool with its path."""

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from fsm_agent import audit
from fsm_agent.core import canon
from fsm_agent.stores import open_store
from fsm_agent.stores.transfer import export_run
from tests.runtime.runs import go, plan_of, running, toolbox

STORES = ("runs.db", "runs.jsonl", None)
KEPT = {
    "-0.0": -0.0,
    "a large integer": 2**63 - 1,
    "the smallest integer": -(2**63),
    "a tiny float": 5e-324,
    "0.1": 0.1,
    "zero": 0,
    "false": False,
    "empty list": [],
    "empty text": "",
    "empty object": {},
    "null": None,
    "deep": [[[[{"a": [None, True, -1.5]}]]]],
    "line separators": "a\u2028b\u2029c\r\n\t",
    "beyond the plane": "𝄞 👩‍👩‍👧 é vs é",
    "keys in odd order": {"b": 1, "a": 2, "é": 3, "": 4},
    "what looks like our own marks": {"$blob": "0" * 64, "len": 1},
    "a large text": "ü" * 5000,
}
REFUSED = {
    "2**70": ([1, 2**70], "$[1]"),
    "Decimal": ({"a": Decimal("1.5")}, "$.a"),
    "Fraction": (Fraction(1, 3), "$"),
    "naive datetime": ({"at": dt.datetime(2026, 1, 1)}, "$.at"),
    "aware datetime": ([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)], "$[0]"),
    "NaN": ({"x": [float("nan")]}, "$.x[0]"),
    "inf": (float("inf"), "$"),
    "bytes": ({"b": b"x"}, "$.b"),
    "lone surrogate": ({"s": "a\ud800"}, "$.s"),
    "NUL": ({"s": "a\0b"}, "$.s"),
    "tuple": ([(1, 2)], "$[0]"),
    "set": ({1}, "$"),
    "integer keys": ({1: "a"}, "$"),
    "Path": ({"p": Path("/tmp")}, "$.p"),
}


def outcome_of(value, store, effect="read"):
    """Run a tool that returns *value* and a second one that takes it; return both tasks and the log's events."""
    got = []

    async def scenario():
        tools = toolbox(lambda: value, effect=effect)
        tools.add(lambda v: got.append(v), effect="read", name="take")
        plan = plan_of(
            {"id": "t", "tool": "do", "optional": True, "on_failure": {"*": "skip"}},
            {"id": "u", "tool": "take", "args": {"v": "$t"}, "depends_on": ["t"]},
        )
        async with running(plan, tools, store=store, run_id="r") as run:
            await run.wait()
            return run.status().tasks["t"], [e async for e in run.events()]

    task, events = go(scenario())
    return task, events, got


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("store", STORES)
def test_a64_every_odd_value_comes_back_exactly_or_is_refused_by_its_path(tmp_path, store, name):
    value = KEPT[name]
    place = tmp_path / store if store else None
    task, events, got = outcome_of(value, place)
    assert task.state == "done"
    assert got == [value]
    assert repr(got[0]) == repr(value) or isinstance(value, dict)
    (done,) = [e for e in events if e.data.get("dest") == "done" and e.task == "t"]
    assert done.data["outcome"]["value"] == value
    if place is not None:
        opened = open_store(place)
        with (tmp_path / "out.jsonl").open("wb") as out:
            export_run(opened, "r", out)
        opened.close()
        assert audit(tmp_path / "out.jsonl").verdict == "clean"


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("effect", ["read", "write"])
def test_a65_a_value_that_no_log_can_hold_is_refused_by_its_path(tmp_path, name, effect):
    value, path = REFUSED[name]
    task, events, got = outcome_of(value, tmp_path / "runs.db", effect)
    assert got == []
    assert task.state in ("failed", "cancelled")
    messages = [e.data["outcome"]["error"]["message"] for e in events if "error" in e.data.get("outcome", {})]
    assert any(f"{path}:" in words or f" {path} " in words or f"at {path}" in words for words in messages), (
        messages
    )
    applied = {e.data["outcome"]["applied"] for e in events if "error" in e.data.get("outcome", {})}
    assert applied == ({"yes"} if effect == "write" else {"maybe"})


def test_stores_and_exports_hold_the_same_bytes_of_a_value(tmp_path):
    """Whatever the store, a result's canonical bytes are the same."""
    for number, value in enumerate(KEPT.values()):
        digests = set()
        for store in ("runs.db", "runs.jsonl", None):
            place = tmp_path / str(number) / store if store else None
            _, events, _ = outcome_of(value, place)
            (kept,) = [
                e.data["outcome"]["value"] for e in events if e.data.get("dest") == "done" and e.task == "t"
            ]
            digest = canon.value_digest("result", kept)
            digests.add(digest)
        assert len(digests) == 1
