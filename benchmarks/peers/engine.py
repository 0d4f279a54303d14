"""This engine as a contestant: the plan is read and checked, the log hash-chained, nothing switched off."""

from collections.abc import Callable
from pathlib import Path

from benchmarks.shapes import Graph, Work, ends
from benchmarks.slot import document, toolbox
from fsm_agent import Plan, RunController


async def run(graph: Graph, work: Work, file: Path | None, ready: Callable[[], None]) -> int:
    """Carry *graph* out."""
    plan = Plan.make(document(graph))
    async with await RunController.start(plan, toolbox(work, ""), store=file, workers=64) as control:
        ready()
        await control.wait()
        return sum(control.run.tasks[f"s{i}"].result["d"] for i in ends(graph))
