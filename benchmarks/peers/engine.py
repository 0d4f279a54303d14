"""This engine as a contestant: the plan is read and checked, the log hash-chained, nothing switched off."""

import contextlib
from collections.abc import Callable
from pathlib import Path

from benchmarks.shapes import Graph, Work, ends
from benchmarks.slot import document, toolbox
from fsm_agent import Plan, RunController
from fsm_agent.stores import open_store


async def run(graph: Graph, work: Work, file: Path | None, ready: Callable[[], None]) -> int:
    """Carry *graph* out."""
    plan = Plan.make(document(graph))
    tools = toolbox(work, "")
    with contextlib.closing(open_store(file)) as store:
        ready()  # as for the others: the graph is built and the file is there; beginning the run is a part of it
        async with await RunController.start(plan, tools, store=store, workers=64) as control:
            await control.wait()
            return sum(control.run.tasks[f"s{i}"].result["d"] for i in ends(graph))
