"""A process that its own tool, probe or planner ends: ``python -m tests.crash.deadly PLACE WHO``.

WHO kills: ``read`` (behind reads that do not), ``probe`` or ``planner``. Each kill leaves a line in ``PLACE/deaths``.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from fsm_agent import Plan, RunController, Toolbox, ToolError

STEPS = {
    "read": [
        {"id": "a", "tool": "look"},
        {"id": "b", "tool": "look", "depends_on": ["a"]},
        {"id": "t", "tool": "die", "depends_on": ["b"]},
    ],
    "probe": [{"id": "t", "tool": "pay"}],
    "planner": [{"id": "t", "tool": "fail"}],
}


def die(place):
    with (place / "deaths").open("a") as file:
        file.write("x\n")
    os.kill(os.getpid(), signal.SIGKILL)


def toolbox(place):
    tools = Toolbox()
    tools.add(lambda: 1, effect="read", name="look")
    tools.add(lambda: die(place), effect="read", name="die")

    @tools.read
    def fail():
        raise ToolError("not_found", "nothing is there")

    @tools.write(settle_s=0, timeout_s=0.1)
    def pay():
        raise ToolError("unclassified_error", "the line went dead", applied="maybe")

    @pay.reconcile
    def find():
        die(place)

    return tools


class Deadly:
    """A planner whose client ends the process."""

    def __init__(self, place):
        self.place = place

    async def propose(self, request):
        del request
        die(self.place)


async def live(place, who):
    """Begin the run or go on with it, until it rests."""
    plan = Plan.make({"steps": STEPS[who], "budgets": {"planner_calls": 3}})
    store, tools = place / "runs.db", toolbox(place)
    planner = Deadly(place) if who == "planner" else None
    if not (place / "begun").exists():
        (place / "begun").touch()
        run = await RunController.start(
            plan, tools, store=store, run_id="r", planner=planner, params={"cooldown_s": 0, "retries": 3}
        )
    else:
        run = await RunController.open(store, "r", tools, planner=planner)
    async with run:
        await run.wait()


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1]), sys.argv[2]))
