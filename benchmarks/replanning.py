"""What another plan costs, the planner's own time apart: gate and adoption of a plan of which half is done.

Run: ``python benchmarks/replanning.py [STEPS ...]``. Processor time, so that a busy machine does not show; the best and
the median of some runs. ``small`` changes one step and leaves the rest as it stands, ``large`` changes every step to do.
"""

import json
import statistics
import sys
import time
from typing import Any

from fsm_agent.core.inputs import AskPlanner, Command, Create, Outcome, Proposed, Returned
from fsm_agent.core.plans import planning
from fsm_agent.core.signals import Applied, Effect, Signal
from fsm_agent.core.tools import ToolSpec
from fsm_agent.runtime.configs import load_repairs, load_rules
from fsm_agent.runtime.driving.engine import Engine
from fsm_agent.stores.memory import MemoryStore
from fsm_agent.testing.clock import FakeClock

RUNS = 7
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


def half_done(count: int) -> tuple[Engine, int]:
    """Return a run whose first half is done and whose next step has failed, and the question to the planner."""
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
    return engine, next(c.request for c in commands if isinstance(c, AskPlanner))


def proposal(count: int, kind: str) -> str:
    """Return what a planner answers: the steps to do, one of them or each of them another."""
    todo = steps_of(count)[count // 2 :]
    first = {**todo[0], "id": "other", "args": {"n": -1}, "replaces": todo[0]["id"]}
    rest = (
        [{**step, "args": {**step["args"], "more": kind}} for step in todo[1:]]
        if kind == "large"
        else todo[1:]
    )
    return json.dumps([first, *rest])


def measure(count: int, kind: str) -> list[float]:
    """Return how long the answer took to go through the gate and into force, in ms, run by run."""
    took = []
    for _ in range(RUNS):
        engine, request = half_done(count)
        answer = proposal(count, kind)
        begun = time.process_time()
        engine.feed(Proposed(request=request, answer=answer))
        took.append((time.process_time() - begun) * 1000)
        if engine.run.plan_version != 2:
            raise SystemExit("the proposal was refused; what was measured is nothing")
    return took


def main() -> None:
    """Print one line for each size and kind."""
    for count in [int(word) for word in sys.argv[1:]] or [10, 100, 1000]:
        for kind in ("small", "large"):
            took = measure(count, kind)
            print(
                f"{count:>6} steps, {kind}: {min(took):7.1f} ms at best, {statistics.median(took):7.1f} ms median"
            )


if __name__ == "__main__":
    main()
