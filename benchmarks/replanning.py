"""What another plan costs, the planner's own time apart: the gate, and adopting it by how many steps it changes.

``python benchmarks/replanning.py [STEPS ...]`` prints, for plans of so many steps of which half is done, processor time
(so that a busy machine does not show) at best and in the median, and how many calls of functions each of both makes.

Reading an answer and judging it looks at the whole plan. Adopting costs what changed; beside that every step is looked
at once without a call, and the event that says the whole plan is written, hashed and stored by its format: ``event``
is what that takes alone. ``all`` is the whole way of an answer, from its text to the events in the log.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

import attrs

from fsm_agent.core import canon
from fsm_agent.core.audit import replay
from fsm_agent.core.engine.state import Run
from fsm_agent.core.engine.turn import Turn
from fsm_agent.core.events import Record
from fsm_agent.core.inputs import AskPlanner, Command, Create, Env, Outcome, Proposed, Returned
from fsm_agent.core.plans import planning
from fsm_agent.core.replanning import gate, replanning
from fsm_agent.core.signals import Applied, Effect, Signal
from fsm_agent.core.tools import ToolSpec
from fsm_agent.runtime.configs import load_repairs, load_rules
from fsm_agent.runtime.driving.engine import Engine
from fsm_agent.stores.memory import MemoryStore
from fsm_agent.testing.clock import FakeClock

RUNS = 7
CHANGES = (1, 10, 100, 500)
"""So many steps are changed."""
LONG = 1000
"""Of a longer plan the whole way is gone once."""
LOOK = ToolSpec(name="look", effect=Effect.READ, extra_arguments=True)


def steps_of(count: int) -> list[dict[str, Any]]:
    """Return a chain of *count* steps, each with the result of the one before it among its arguments."""
    return [
        {
            "id": f"s{n}",
            "description": f"step number {n}",
            "tool": "look",
            "args": {"n": n, **({"before": f"$s{n - 1}.n"} if n else {})},
            **({"depends_on": [f"s{n - 1}"]} if n else {}),
        }
        for n in range(count)
    ]


@attrs.frozen(kw_only=True)
class Half:
    """A run whose first half is done and whose next step has failed.

    Attributes:
        engine: It.
        request: The question to the planner.
        records: Its log so far.
    """

    engine: Engine
    request: int
    records: tuple[Record, ...]

    def again(self) -> Run:
        """Return the state once more, which anybody may change."""
        return replay.replay("r", self.records, self.engine.store.blob)


def half_done(count: int) -> Half:
    """Return a run of *count* steps."""
    create = Create(
        run="r",
        plan=planning.load({"goal": "measure", "steps": steps_of(count)}),
        rules=load_rules("default"),
        tools=(LOOK,),
        inputs={},
        owner="benchmark",
        classify_digest="0" * 64,
        version="benchmark",
        has_planner=True,
        repairs=load_repairs(),
    )
    engine, _ = Engine.create(MemoryStore(), create, FakeClock(), slots=4)
    commands: list[Command] = []
    for n in range(count // 2 + 1):
        outcome = Outcome(kind="value", value={"n": n})
        if n == count // 2:
            error = {"message": "no such thing", "fingerprint": "gone"}
            outcome = Outcome(kind="error", signal=Signal.NOT_FOUND, applied=Applied.NO, error=error)
        commands = engine.feed(Returned(task=f"s{n}", attempt=1, outcome=outcome))
    request = next(c.request for c in commands if isinstance(c, AskPlanner))
    return Half(engine=engine, request=request, records=tuple(engine.store.read("r")))


def proposal(count: int, changes: int) -> list[dict[str, Any]]:
    """Return what a planner proposes: the steps to do, of which the first *changes* are other calls."""
    todo = steps_of(count)[count // 2 :]
    return [
        {**step, "args": {**step["args"], "more": 1}} if place < changes else step
        for place, step in enumerate(todo)
    ]


def timed(work: Callable[[], object]) -> float:
    """Return the processor time that *work* takes, in ms."""
    begun = time.process_time()
    work()
    return (time.process_time() - begun) * 1000


def calls_of(work: Callable[[], object]) -> int:
    """Return how many calls of functions, of Python's and of C's, *work* makes."""
    found = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal found
        del frame, arg
        found += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def adopting(run: Run, passed: gate.Passed) -> Callable[[], object]:
    """Return what puts a plan that passed the gate in force in *run*."""
    turn = Turn(run, Env(now_us=run.at + 1))
    return lambda: replanning.adopt(
        turn, passed, origin="model", scope="local", why="measure", name=None, signal="not_found"
    )


def event_alone(doc: Mapping[str, Any]) -> None:
    """Write and hash a plan as an adoption does by its format: once to know it again, and once into the log."""
    canon.value_digest("plan", doc)
    canon.blob_digest(canon.encode(doc))


def line(what: str, took: Sequence[float], calls: int | None = None) -> str:
    """Return a line of the table."""
    counted = "" if calls is None else f"{calls:>9} calls"
    return f"    {what:<22}{min(took):8.2f} ms at best{statistics.median(took):8.2f} ms median{counted}"


def judging(half: Half, changes: int) -> Callable[[], gate.Passed]:
    """Return what lets a proposal with so many changes through the gate."""
    run = half.engine.run
    count = len(run.tasks)
    document, failed = proposal(count, changes), f"s{count // 2}"
    return lambda: gate.judge(run, document, scope="local", failed=failed)


def whole(count: int) -> float:
    """Return the processor time from the text of an answer that changes one step to the events in the log, in ms."""
    half = half_done(count)
    answer = Proposed(request=half.request, answer=json.dumps(proposal(count, 1)))
    took = timed(lambda: half.engine.feed(answer))
    if half.engine.run.plan_version != 2:
        raise SystemExit("the proposal was refused; what was measured is nothing")
    return took


def measure(count: int) -> None:
    """Print what a plan of *count* steps costs to change."""
    half = half_done(count)
    print(f"{count} steps, {count // 2} of them done")
    for changes in CHANGES:
        judge = judging(half, changes)
        passed = judge()
        if len(passed.diff.changed) != min(changes, count // 2):
            raise SystemExit("other steps than meant were changed; what was measured is something else")
        judged = [timed(judge) for _ in range(RUNS)]
        adopted = [timed(adopting(half.again(), passed)) for _ in range(RUNS)]
        print(line(f"{changes} changed: gate", judged, calls_of(judge)))
        print(line(f"{changes} changed: adopting", adopted, calls_of(adopting(half.again(), passed))))
    doc = judging(half, 1)().plan.doc
    print(line("event", [timed(lambda: event_alone(doc)) for _ in range(RUNS)]))
    print(line("1 changed: all", [whole(count) for _ in range(RUNS if count <= LONG else 1)]))


def main() -> None:
    """Print a block for each size."""
    for count in [int(word) for word in sys.argv[1:]] or [1000, 10_000]:
        measure(count)


if __name__ == "__main__":
    main()
