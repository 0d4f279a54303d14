"""What a step costs, counted: calls, commits, waits for the disk, events, bytes that are written, bytes that stay.

None of it is a time, so none of it depends on the machine or on what else it does. Every figure is what one step more
costs: the difference of two runs, divided by the steps that the larger one has more.

Whoever makes a step cheaper lowers the ceiling: ``python -m tests.speed.test_counts`` prints what is measured now.
"""

import asyncio
import functools
import gc
import json
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from benchmarks.parts import begun, drive
from benchmarks.shapes import Work, shape
from benchmarks.slot import RUN, document, toolbox
from fsm_agent import Plan, RunController
from fsm_agent.core.audit import replay
from fsm_agent.runtime.driving import driver
from fsm_agent.stores import open_store
from fsm_agent.stores.sqlite import SqliteStore
from tests.contract.disk import Disk
from tests.runtime.runs import check

CEILINGS = {
    "calls per read, in memory": 148,
    "calls per read, durable": 148,
    "calls per write, 64 at once": 157,
    "calls per write, one after the other": 276,
    "calls per decision": 77,
    "calls per step of a plan that is read": 30,
    "calls per event that is read back": 14.9,
    "events per read": 3,
    "commits per read": 0.013,
    "commits per write, 64 at once": 0.03,
    "commits per write, one after the other": 1,
    "waits for the disk per read": 0,
    "waits for the disk per write, 64 at once": 0.03,
    "waits for the disk per write, one after the other": 1,
    "bytes of log per read, results of 64 B": 1_121,
    "bytes of log per read, results of 2 KB": 3_165,
    "bytes of file per read, results of 64 B": 1_325,
    "bytes of file per read, results of 2 KB": 3_882,
    "bytes alive per read that has ended": 1_255,
    "blocks alive per read that has ended": 13.3,
}
"""No more than this: what was measured with Python 3.11, and a few percent. Calls are those of Python functions."""
GROWTH = 1.05
"""So much more may one step more of a plan of 2,000 cost than one of a plan of 200."""
LEAST, FEW, MANY, LARGE = 50, 100, 200, 2000


class Calls:
    """Counts the calls of Python functions in this thread; generators count each time they go on."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        sys.setprofile(self._one)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _one(self, frame: Any, event: str, arg: Any) -> None:
        del frame, arg
        if event == "call":
            self.count += 1


@pytest.fixture(autouse=True)
def no_timers(monkeypatch):
    """Nothing happens because time has passed."""
    monkeypatch.setattr(driver, "FLUSH_S", 600)
    monkeypatch.setattr(driver, "POLL_S", 600)


async def carry_out(graph, store, *, effect="read", workers=64, payload=64, watch=None):
    """Run *graph* to its end; *watch* is told when it is about to begin and when it has ended."""
    watch = watch or (lambda moment: None)
    plan = Plan.make(document(graph))
    tools = toolbox(Work(payload), "side_effect" if effect == "write" else "")
    watch("before")
    async with await RunController.start(plan, tools, store=store, run_id=RUN, workers=workers) as run:
        report = await run.wait()
        watch("after")
        assert report["state"] == "done"
        return run.head


@contextmanager
def somewhere() -> Iterator[Path]:
    """A directory that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@functools.cache
def calls_of(n: int, *, form: str = "layers", durable: bool = True, **options: Any) -> int:
    """Return how many calls a run of *n* steps takes, from its beginning to its end."""
    counts = Calls()
    watch = {"before": counts.__enter__, "after": counts.__exit__}
    with somewhere() as folder:
        store = open_store(folder / "runs.db" if durable else None)
        head = asyncio.run(carry_out(shape(form, n), store, watch=lambda moment: watch[moment](), **options))
        check(store, RUN, head)
        store.close()
    return counts.count


@functools.cache
def disk_of(n: int, *, form: str = "layers", **options: Any) -> tuple[int, int]:
    """Return how often a run of *n* steps commits, and how often it waits for the disk."""
    name = f"counted-{form}-{n}"
    commits = 0

    def seen(_: Any, sql: str, __: Any) -> bool:
        nonlocal commits
        commits += sql == "COMMIT"
        return True

    with somewhere() as folder:
        disk = Disk(name)
        store = SqliteStore(folder / "runs.db", vfs=name)
        store._link.db.exec_trace = seen
        head = asyncio.run(carry_out(shape(form, n), store, **options))
        waits = sum(kind == "sync" for kind, *_ in disk.operations)
        check(store, RUN, head)
        store.close()
    return commits, waits


@functools.cache
def log_of(n: int, payload: int) -> tuple[int, int, int]:
    """Return the events of a run of *n* reads, the bytes of them, and those of its file."""
    with somewhere() as folder:
        store = open_store(folder / "runs.db")
        head = asyncio.run(carry_out(shape("layers", n), store, payload=payload))
        check(store, RUN, head)
        length = sum(len(record.body) + len(record.hash) for record in store.read(RUN))
        store.close()
        return head.seq, length, sum(file.stat().st_size for file in folder.iterdir())


@functools.cache
def alive_of(n: int) -> tuple[int, int]:
    """Return the bytes and the blocks that a durable run of *n* reads holds when it has ended, without its plan."""
    found: list[tuple[int, int]] = []

    def watch(_: str) -> None:
        gc.collect()
        found.append((tracemalloc.get_traced_memory()[0], sys.getallocatedblocks()))

    with somewhere() as folder:
        store = open_store(folder / "runs.db")
        tracemalloc.start()
        try:
            head = asyncio.run(carry_out(shape("layers", n), store, watch=watch))
        finally:
            tracemalloc.stop()
        check(store, RUN, head)
        store.close()
    (bytes_before, blocks_before), (bytes_after, blocks_after) = found
    return bytes_after - bytes_before, blocks_after - blocks_before


def counted(work: Callable[[], Any]) -> int:
    """Return how many calls *work* takes."""
    with Calls() as counts:
        work()
    return counts.count


@functools.cache
def decisions_of(n: int) -> int:
    """Return how many calls deciding the whole of a run takes, in the core alone."""
    run, found = begun(n)
    return counted(lambda: drive(run, found, sealed=False))


@functools.cache
def plan_of(n: int) -> int:
    """Return how many calls it takes to read a plan and hold it against its tools."""
    text, tools = json.dumps(document(shape("layers", n))), toolbox(Work(), "")
    return counted(lambda: Plan.parse(text, tools=tools))


@functools.cache
def back_of(n: int) -> tuple[int, int]:
    """Return how many events a run of *n* reads has, and how many calls it takes to read them back."""
    with somewhere() as folder:
        store = open_store(folder / "runs.db")
        head = asyncio.run(carry_out(shape("layers", n), store))
        check(store, RUN, head)
        calls = counted(lambda: replay.replay(RUN, store.read(RUN), store.blob))
        store.close()
    return head.seq, calls


def per_step(measure: Callable[..., Any], *, few: int = FEW, many: int = MANY, **options: Any) -> Any:
    """Return what one step more costs, for every figure that *measure* returns."""
    less, more = measure(few, **options), measure(many, **options)
    if isinstance(less, tuple):
        return tuple((b - a) / (many - few) for a, b in zip(less, more, strict=True))
    return (more - less) / (many - few)


ROW: dict[str, Any] = {"form": "chain", "effect": "write", "workers": 1}
WIDE: dict[str, Any] = {"form": "layers", "effect": "write"}
MEASURES: dict[str, Callable[[], float]] = {
    "calls per read, in memory": lambda: per_step(calls_of, durable=False),
    "calls per read, durable": lambda: per_step(calls_of),
    "calls per write, 64 at once": lambda: per_step(calls_of, **WIDE),
    "calls per write, one after the other": lambda: per_step(calls_of, **ROW),
    "calls per decision": lambda: per_step(decisions_of),
    "calls per step of a plan that is read": lambda: per_step(plan_of),
    "calls per event that is read back": lambda: (lambda events, calls: calls / events)(*per_step(back_of)),
    "events per read": lambda: per_step(log_of, payload=64)[0],
    "commits per read": lambda: per_step(disk_of)[0],
    "commits per write, 64 at once": lambda: per_step(disk_of, **WIDE)[0],
    "commits per write, one after the other": lambda: per_step(disk_of, **ROW)[0],
    "waits for the disk per read": lambda: per_step(disk_of)[1],
    "waits for the disk per write, 64 at once": lambda: per_step(disk_of, **WIDE)[1],
    "waits for the disk per write, one after the other": lambda: per_step(disk_of, **ROW)[1],
    "bytes of log per read, results of 64 B": lambda: per_step(log_of, payload=64)[1],
    "bytes of log per read, results of 2 KB": lambda: per_step(log_of, payload=2048)[1],
    "bytes of file per read, results of 64 B": lambda: log_of(1000, 64)[2] / 1000,
    "bytes of file per read, results of 2 KB": lambda: log_of(500, 2048)[2] / 500,
    "bytes alive per read that has ended": lambda: per_step(alive_of)[0],
    "blocks alive per read that has ended": lambda: per_step(alive_of)[1],
}


def assert_within(name: str, measured: float) -> None:
    """Say what was measured, and what is allowed, if that is more."""
    allowed = CEILINGS[name]
    assert measured <= allowed, f"{name}: {measured:.2f} measured, {allowed:g} allowed; make it cheaper again"


@pytest.fixture(scope="module", autouse=True)
def warm():
    """What the first run of a process loads and fills is no step's cost."""
    log_of(LEAST, 64)
    plan_of(LEAST)


def test_every_ceiling_is_one_of_something_that_is_measured():
    assert list(MEASURES) == list(CEILINGS)


@pytest.mark.parametrize("name", CEILINGS)
def test_a_step_costs_no_more_than_its_ceiling(name):
    assert_within(name, MEASURES[name]())


@pytest.mark.parametrize("name", CEILINGS)
def test_a_step_that_costs_more_than_its_ceiling_is_told_of_with_both_figures(name):
    with pytest.raises(AssertionError, match=rf"{name}: .* measured, .* allowed"):
        assert_within(name, CEILINGS[name] + 1)


def test_the_last_steps_of_a_large_plan_cost_what_the_first_ones_do():
    for measure in (calls_of, plan_of, decisions_of):
        first = per_step(measure, few=LEAST, many=MANY)
        last = per_step(measure, few=MANY, many=LARGE)
        assert last <= GROWTH * first, f"{measure.__name__}: {last:.1f} calls per step, {first:.1f} at first"


def test_neither_the_log_nor_the_memory_of_a_step_grows_with_the_plan():
    """Compared from 300 steps on: Python keeps one of each small number, and a new one of each larger number."""
    for measure in (functools.partial(log_of, payload=64), alive_of):
        first, last = per_step(measure, few=300, many=600), per_step(measure, few=600, many=1500)
        assert all(b <= GROWTH * a for a, b in zip(first, last, strict=True)), (measure, first, last)


def test_calls_are_counted():
    def leaf() -> None: ...

    def root() -> None:
        for _ in range(3):
            leaf()

    assert counted(root) - counted(leaf) == 3


if __name__ == "__main__":
    driver.FLUSH_S = driver.POLL_S = 600
    log_of(LEAST, 64)
    plan_of(LEAST)
    for what, most in CEILINGS.items():
        print(f"{what:44} {MEASURES[what]():10.2f} measured {most:10g} allowed", flush=True)
