"""The same graphs through this engine: everything that makes it safe is on, nothing is left out of the time.

A round begins with the plan as a document and ends when the store is closed: the plan is read and checked, the run is
begun, driven to its end, and given up. How much of that was which part is kept beside it.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import floors
from benchmarks.shapes import Graph, Work, checksum, ends, shape
from benchmarks.slot import RUN, document, toolbox
from benchmarks.timing import Took, timed
from fsm_agent import Plan, RunController

ROOT = Path(__file__).resolve().parent.parent


def batch(graph: Graph) -> dict[str, Any]:
    """Return steps of which none needs another as the document of a plan with one step, the batch ``b``."""
    step = {"id": "b", "tool": "step", "args": {"sid": "$item", "parents": []}, "for_each": "$inputs.rows"}
    return {"inputs": {"rows": [step.id for step in graph]}, "steps": [step]}


def is_batch(graph: Graph) -> bool:
    """Whether *graph* is run as a batch: no step needs another."""
    return not any(step.deps for step in graph)


def document_of(graph: Graph) -> dict[str, Any]:
    """Return *graph* as the document of a plan."""
    return batch(graph) if is_batch(graph) else document(graph)


async def fresh(
    graph: Graph, work: Work, file: Path | None, *, effect: str = "read", workers: int = 64
) -> tuple[int, dict[str, Any]]:
    """Run *graph* from its document to its end; return its checksum and the CPU microseconds of the parts."""
    parts: dict[str, Any] = {}
    with timed() as reading:
        plan = Plan.make(document_of(graph))
    tools = toolbox(work, "side_effect" if effect == "write" else "")
    with timed() as starting:
        run = await RunController.start(plan, tools, store=file, run_id=RUN, workers=workers)
    async with run:
        with timed() as driving:
            await run.wait()
        parts["events"] = run.head.seq
        total = result_of(run, graph)
    for name, took in (("plan", reading), ("start", starting), ("drive", driving)):
        parts[f"{name}_us"] = took.cpu_s / len(graph) * 1e6
    return total, parts


async def again(graph: Graph, work: Work, file: Path, *, effect: str = "read", workers: int = 64) -> int:
    """Take up the run in *file*, verify it, finish it; return the graph's checksum."""
    tools = toolbox(work, "side_effect" if effect == "write" else "")
    async with await RunController.open(file, RUN, tools, workers=workers) as run:
        await run.wait()
        return result_of(run, graph)


def result_of(run: RunController, graph: Graph) -> int:
    """Return the graph's checksum as it came out."""
    state = run.run.state
    if state != "done":
        raise SystemExit(f"benchmark: the run ended {state}; what was measured is nothing")
    name = "b[{}]" if is_batch(graph) else "s{}"
    return sum(run.run.tasks[name.format(i)].result["d"] for i in ends(graph))


def judged(graph: Graph, run: Callable[[], Any]) -> Took:
    """Return what *run* took; it returns the checksum, alone or with more that it found.

    Raises:
        SystemExit: Something else came out.
    """
    with timed() as took:
        found = run()
    total, took.more = found if isinstance(found, tuple) else (found, {})
    if total != checksum(graph):
        raise SystemExit(f"benchmark: the checksum is {total}, not {checksum(graph)}; results went astray")
    return took


def go(graph: Graph, work: Work, file: Path | None, **options: Any) -> Took:
    """Run *graph* with a tool of one's own."""
    return judged(graph, lambda: asyncio.run(fresh(graph, work, file, **options)))


def reopened(graph: Graph, work: Work, file: Path) -> Took:
    """Take the run in *file* up again, and finish it if it has not ended."""
    return judged(graph, lambda: asyncio.run(again(graph, work, file)))


def in_memory(graph: Graph, **options: Any) -> Took:
    """Return what a run in memory takes."""
    return go(graph, Work(), None, **options)


def on_disk(graph: Graph, folder: Path, *, payload: int = 64, **options: Any) -> Took:
    """Return what a run in a file takes, and the bytes of log per step as ``bytes``."""
    with Place(folder) as place:
        took = go(graph, Work(payload), place / "runs.db", **options)
        took.more["bytes"] = sum(f.stat().st_size for f in place.iterdir()) / len(graph)
    return took


def floor_in_memory(graph: Graph) -> Took:
    """Return what the floor in memory takes."""
    return judged(graph, lambda: asyncio.run(floors.memory(graph, Work())))


def floor_on_disk(graph: Graph, folder: Path, **options: Any) -> Took:
    """Return what the durable floor takes."""
    with Place(folder) as place:
        return judged(graph, lambda: asyncio.run(floors.durable(graph, Work(), place / "rows.db", **options)))


class Place:
    """A directory that is gone after the body."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "place"

    def __enter__(self) -> Path:
        self.path.mkdir()
        return self.path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path)


def crashed(who: str, name: str, n: int, place: Path) -> int:
    """Let *who* (``ours`` or ``floor``) be killed half-way through a graph; return how many steps had ended."""
    place.mkdir()
    command = [sys.executable, "-m", "benchmarks.ours", who, name, str(n), str(place)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 17:
        raise SystemExit(
            f"benchmark: {who} should have been killed and ended with {done.returncode}: {done.stderr}"
        )
    return int(json.loads(done.stdout)["calls"])


def finished(who: str, graph: Graph, left: Path, folder: Path) -> Took:
    """Return what it takes to finish what a crash *left*, and how many steps ran as ``calls``."""
    work = Work()
    with Place(folder) as place:
        shutil.copytree(left, place, dirs_exist_ok=True)
        if who == "ours":
            took = reopened(graph, work, place / "runs.db")
        else:
            took = judged(graph, lambda: asyncio.run(floors.durable(graph, work, place / "rows.db")))
    took.more["calls"] = work.calls
    return took


def main() -> None:
    """Run a graph and be killed half-way: ``python -m benchmarks.ours ours|floor SHAPE N PLACE``."""
    who, name, n, place = sys.argv[1:]
    graph = shape(name, int(n))
    work = Work(crash_at=len(graph) // 2)
    if who == "ours":
        asyncio.run(fresh(graph, work, Path(place) / "runs.db"))
    else:
        asyncio.run(floors.durable(graph, work, Path(place) / "rows.db"))


if __name__ == "__main__":
    main()
