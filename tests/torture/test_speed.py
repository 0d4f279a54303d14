"""What a step costs does not grow with the number of steps: counted in lines of our own code, not in time.

A clock would measure whatever else the machine does. Lines that are executed, and tasks that are walked over, are the
same on every machine and in every repetition.
"""

import sys
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.shapes import shape
from benchmarks.slot import document
from fsm_agent.core.audit.audit import audit
from fsm_agent.core.inputs import Call, Create, Outcome, Returned
from fsm_agent.core.plans import planning
from fsm_agent.runtime.configs import load_rules
from fsm_agent.runtime.driving.engine import Engine
from fsm_agent.stores.memory import MemoryStore
from fsm_agent.testing.clock import FakeClock
from tests.core.kit import tool

TOOLS = (tool("step"),)
GROWTH = 1.5
"""So much more may a step cost in a large plan than in one of a hundred steps; what is seen is about 1."""


class Walked(dict[str, Any]):
    """Tasks by id, counting how many are walked over from end to end."""

    walked = 0

    def values(self):
        self.walked += len(self)
        return super().values()

    def items(self):
        self.walked += len(self)
        return super().items()

    def __iter__(self):
        self.walked += len(self)
        return super().__iter__()


def lines(work: Callable[[], Any]) -> int:
    """Return how many lines of this package *work* executes."""
    count = 0

    def local(frame: Any, event: str, arg: Any) -> Any:
        nonlocal count
        del frame, arg
        count += event == "line"
        return local

    def call(frame: Any, event: str, arg: Any) -> Any:
        del event, arg
        return local if "fsm_agent" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def per_step(name: str, n: int) -> float:
    """Return what a step of a plan of *n* costs: lines executed, and tasks walked over beside them."""
    create = Create(
        run="r",
        plan=planning.load(document(shape(name, n))),
        rules=load_rules("default", {}),
        tools=TOOLS,
        inputs={},
        owner="owner",
        classify_digest="0" * 64,
        version="test",
    )
    store = MemoryStore()
    engine, first = Engine.create(store, create, FakeClock(), slots=64)
    tasks = engine.run.tasks = Walked(engine.run.tasks)

    def drive() -> None:
        queue = deque(first)
        while queue:
            call = queue.popleft()
            assert isinstance(call, Call)
            outcome = Outcome(kind="value", value={"d": 1})
            queue.extend(engine.feed(Returned(task=call.task, attempt=call.attempt, outcome=outcome)))

    cost = lines(drive)
    assert engine.final
    assert audit("r", list(store.read("r")), store.blob, head=engine.head).findings == ()
    return (cost + tasks.walked) / n


@pytest.mark.parametrize("name", ["chain", "fan", "layers"])
def test_a91_what_a_step_costs_does_not_grow_with_the_plan(name, full):
    few = per_step(name, 100)
    for n in (1_000, 5_000, 10_000) if full else (800,):
        assert per_step(name, n) <= GROWTH * few, f"{name} of {n}"


@pytest.mark.parametrize("name", ["chain", "fan", "layers"])
def test_a91_what_reading_a_plan_costs_grows_in_a_straight_line(name, full):
    few, many = 600, 10_000 if full else 1_800
    documents = {n: document(shape(name, n)) for n in (few, many)}
    cost = {n: lines(lambda plan=plan: planning.load(plan)) / n for n, plan in documents.items()}
    assert cost[many] <= 1.2 * cost[few]
    assert cost[many] < 2_000, "10,000 steps in two seconds allow for about so many lines per step"


def test_the_count_would_see_a_cost_that_grows():
    def quadratic(n: int) -> float:
        tasks = Walked({str(i): i for i in range(n)})
        for _ in range(n):
            sum(tasks.values())
        return tasks.walked / n

    assert quadratic(800) > GROWTH * quadratic(100)
