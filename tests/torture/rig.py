"""Generated cases: what every one of them is made of, and what must be true of whatever comes of it.

A family is a function that takes a source of chance, makes one case of its kind and judges it; the public bugs of that
kind are points of the space that it draws from. Equal seeds give equal cases. Steps stand in the plan itself, in a
nested plan or in the records of a batch; the process may end at any event; the log is in memory that forgets what was
not durable, or in a file.
"""

import random
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fsm_agent.core.machine import FINAL_RUN_STATES
from fsm_agent.core.rules.table import Table
from fsm_agent.stores import open_store
from fsm_agent.testing.scenario import parse
from fsm_agent.testing.simulate import Result, simulate

Rng = random.Random
Family = Callable[[Rng], None]
Doc = dict[str, Any]

EFFECTS = ("read", "idempotent", "write", "irreversible")
PLACES = ("plain", "plain", "nested", "batch", "deep")
REST = ("awaiting-confirmation", "unknown-result")


class Place:
    """Where the steps of a case stand, and how they are called there."""

    def __init__(self, kind: str, rows: int = 1) -> None:
        self.kind = kind
        self.rows = rows if kind in ("batch", "deep") else 1
        self.inputs: Doc = {"rows": list(range(self.rows))} if kind in ("batch", "deep") else {}

    def put(self, steps: list[Doc]) -> list[Doc]:
        """Return the plan's steps, with *steps* at this place."""
        match self.kind:
            case "plain":
                return steps
            case "nested":
                return [{"id": "g", "plan": {"steps": steps}}]
            case "batch":
                return [{"id": "g", "for_each": "$inputs.rows", "plan": {"steps": steps}}]
            case _:
                inner = [{"id": "h", "plan": {"steps": steps}}]
                return [{"id": "g", "for_each": "$inputs.rows", "plan": {"steps": inner}}]

    def name(self, step: str, row: int = 0) -> str:
        """Return what the task of *step* is called."""
        prefix = {"plain": "", "nested": "g/", "batch": f"g[{row}]/", "deep": f"g[{row}]/h/"}
        return prefix[self.kind] + step

    def names(self, step: str) -> list[str]:
        """Return what every task of *step* is called."""
        return [self.name(step, row) for row in range(self.rows)]


def place(rng: Rng, rows: int = 1) -> Place:
    """Return a place for steps."""
    return Place(rng.choice(PLACES), 1 + rng.randrange(rows))


def crashes(rng: Rng, *, most: int = 2, within: int = 40) -> list[Doc]:
    """Return reactions that end the process at some events, often none."""
    return [{"at_seq": 2 + rng.randrange(within), "do": "crash"} for _ in range(rng.randrange(most + 1))]


def play(document: Doc, rng: Rng, *, rules: Table | None = None) -> Result:
    """Run a case in one of the stores; its audit must be clean, and nothing may be done twice or forgotten."""
    scenario = parse({"expect": {}, **document}, "a case")
    kind = rng.choice(("volatile",) * 60 + ("runs.db", "runs.jsonl"))
    with tempfile.TemporaryDirectory() if kind != "volatile" else nullcontext() as folder:
        store = open_store(Path(folder) / kind) if folder is not None else None
        try:
            result = simulate(scenario, seed=rng.randrange(100), store=store, rules=rules)
        finally:
            if store is not None:
                store.close()
    assert result.ok, result.failures
    once(result)
    remembered(result)
    return result


def starts(result: Result) -> dict[str, list[Any]]:
    """Return the starts of each task, oldest first."""
    found: dict[str, list[Any]] = {}
    for event in result.events:
        if event.type == "task_moved" and event.data["trigger"] == "start":
            found.setdefault(event.task or "", []).append(event)
    return found


def once(result: Result) -> None:
    """By the world's own books a write took effect at most once per task, and anything at most once per key."""
    owner = {e.data["key"]: (e.task, e.data["effect"]) for found in starts(result).values() for e in found}
    seen = set()
    for done in result.ledger:
        task, effect = owner[done.key]
        mark = (done.tool, done.key) if effect == "idempotent" else task
        assert mark not in seen, f"{done.tool} took effect twice for {mark}"
        seen.add(mark)


def remembered(result: Result) -> None:
    """Whatever took effect is a done task, an open question, or stands in the report as something to see to."""
    owner = {e.data["key"]: e.task for found in starts(result).values() for e in found}
    closed = next((e for e in reversed(result.events) if e.type == "run_closed"), None)
    assert result.run in (*REST, *FINAL_RUN_STATES), f"it rests as {result.run}: {result.tasks}"
    if closed is None:
        return
    told = " ".join(closed.data["report"]["remains"])
    for done in result.ledger:
        task = owner[done.key] or ""
        assert result.tasks[task] == "done" or f"{task} " in told, f"the effect of {task} is forgotten"


def final(result: Result) -> Doc:
    """Return what a crash may not change."""
    return {
        "run": result.run,
        "tasks": dict(result.tasks),
        "effects": dict(result.effects),
        "results": dict(result.results),
    }
