"""What stays: bytes of log, memory that is alive when a step has ended, and whether any of it grows with the plan."""

import asyncio
import gc
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks import ours
from benchmarks.goals import GOALS, Row
from benchmarks.settings import Settings
from benchmarks.shapes import Graph, Work, shape
from benchmarks.slot import RUN, toolbox
from benchmarks.timing import Took, in_turns
from fsm_agent import Plan, RunController


def log(settings: Settings) -> Iterator[Row]:
    """Yield the bytes that a read adds to the file of a log, its share of the plan included.

    What the file has anyway (its schema, the rule table) is left out: the larger of two runs less the smaller. The whole
    of the smaller file, divided by its steps, stands beside it.
    """
    for payload, n, name in ((64, 1000, "log at 64 B"), (2048, 500, "log at 2 KB")):
        small = ours.on_disk(shape("layers", n), settings.folder, payload=payload).more
        large = ours.on_disk(shape("layers", 2 * n), settings.folder, payload=payload).more
        per_step = 2 * large["bytes"] - small["bytes"]
        by = 1 if payload == 64 else payload
        unit = "B per step" if by == 1 else "× payload"
        more = {
            "bytes per step": per_step,
            "of the whole file": small["bytes"],
            "events per step": small["events"] / n,
        }
        case = f"layers {n:,} to {2 * n:,}"
        yield Row("log", f"log, results of {payload:,} B", case, per_step / by, unit, GOALS[name], more)


async def _alive(graph: Graph, file: Path | None) -> dict[str, int]:
    """Return the bytes that are alive before the run begins, when it has begun, and when it has ended."""
    plan = Plan.make(ours.document_of(graph))
    tools = toolbox(Work(), "")
    await asyncio.sleep(0)
    gc.collect()
    found = {"before": tracemalloc.get_traced_memory()[0]}
    async with await RunController.start(plan, tools, store=file, run_id=RUN, workers=64) as run:
        gc.collect()
        found["begun"] = tracemalloc.get_traced_memory()[0]
        await run.wait()
        gc.collect()
        found["ended"] = tracemalloc.get_traced_memory()[0]
        ours.result_of(run, graph)
    return found


def alive(graph: Graph, folder: Path) -> tuple[float, float]:
    """Return the bytes per step that a durable run of *graph* holds when it has ended, and those since it began.

    The first few hundred steps of a process fill what is filled once; a small run goes before.
    """
    n = len(graph)
    with ours.Place(folder) as place:
        asyncio.run(_alive(shape("layers", 100), place / "warm.db"))
        tracemalloc.start()
        try:
            found = asyncio.run(_alive(graph, place / "runs.db"))
        finally:
            tracemalloc.stop()
    return (found["ended"] - found["before"]) / n, (found["ended"] - found["begun"]) / n


def memory(settings: Settings) -> Iterator[Row]:
    """Yield what is alive for each step that has ended; the plan, which the caller holds, is not counted."""
    n = 1000
    whole, since = alive(shape("layers", n), settings.folder)
    yield Row(
        "alive",
        "memory alive per step that has ended",
        f"layers {n:,}",
        whole,
        "B",
        GOALS["alive"],
        {"of it since it began, B": since},
    )


def uncollected(graph: Graph, folder: Path) -> Took:
    """Run *graph* as :func:`~benchmarks.ours.on_disk` does, without Python's collector of cycles."""
    gc.disable()
    try:
        return ours.on_disk(graph, folder)
    finally:
        gc.enable()


def growth(settings: Settings) -> Iterator[Row]:
    """Yield by how much a step costs more in the largest plan, and in the largest batch, than in one of 1,000."""
    for name in ("layers", "records"):
        few, many = 1000, 3000 if settings.quick else settings.sizes_of(name)[-1]
        graphs = {n: shape(name, n) for n in (few, many)}
        contestants: dict[int, Callable[[], Took]] = {
            n: partial(ours.on_disk, graph, settings.folder) for n, graph in graphs.items()
        }
        contestants[-many] = partial(uncollected, graphs[many], settings.folder)
        found = in_turns(contestants, settings.rounds_of(many))
        us = {n: found[n].cpu_s / n * 1e6 for n in graphs}
        size = {n: found[n].more("bytes") for n in graphs}
        held = {n: alive(graph, settings.folder)[0] for n, graph in graphs.items()}
        for part, what, unit, values in (
            ("time", "growth of CPU time per step", "µs", us),
            ("log", "growth of log per step", "B", size),
            ("memory", "growth of memory alive per step", "B", held),
        ):
            more = {f"{unit} at {n:,}": value for n, value in values.items()}
            if part == "time":
                more["µs without Python's collector"] = found[-many].cpu_s / many * 1e6
            case, goal = f"{name} {many:,} to {few:,}", GOALS[f"growth of {part}"]
            yield Row("growth", what, case, values[many] / values[few], "×", goal, more)
