"""What a step costs, and whether that grows with the number of steps.

``python benchmarks/scaling.py [--json] [--durable]`` runs no-op read tools over three shapes (chain, fan-out, layers of
50) at N = 1,000 and 10,000 through the real controller, and prints CPU microseconds per step and their ratio. Beside
it a bare ready counter over the same graph (the floor), measured in the same process, interleaved.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from fsm_agent import Plan, RunController, Toolbox

PAD = "x" * 44


def shape(name: str, n: int) -> list[tuple[int, tuple[int, ...]]]:
    """Return the graph *name* with *n* steps, as (step, dependencies) in topological order."""
    match name:
        case "chain":
            return [(i, (i - 1,) if i else ()) for i in range(n)]
        case "fan":
            return [(0, ()), *((i, (0,)) for i in range(1, n - 1)), (n - 1, tuple(range(1, n - 1)))]
        case "layers":
            width = 50
            return [
                (
                    i,
                    ()
                    if i < width
                    else tuple(sorted({i - width, i // width * width - width + (i + 1) % width})),
                )
                for i in range(n)
            ]
    raise ValueError(name)


def document(graph: list[tuple[int, tuple[int, ...]]]) -> dict[str, Any]:
    """Return the graph as a plan of one read tool; each step gets its dependencies' depths."""
    return {
        "steps": [
            {
                "id": f"s{i}",
                "tool": "step",
                "args": {"parents": [f"$s{d}.d" for d in deps]},
                "depends_on": [f"s{d}" for d in deps],
            }
            for i, deps in graph
        ]
    }


async def ours(plan: Plan, store: Path | None) -> float:
    """Run *plan* and return the CPU seconds from the first start to the report."""
    tools = Toolbox()

    @tools.read
    async def step(parents: list[int]) -> dict[str, Any]:
        return {"d": 1 + max(parents, default=0), "pad": PAD}

    async with await RunController.start(plan, tools, store=store, workers=64) as run:
        begun = time.process_time()
        report = await run.wait()
        took = time.process_time() - begun
    if report["state"] != "done":
        raise SystemExit(f"the run ended {report['state']}")
    return took


async def floor(graph: list[tuple[int, tuple[int, ...]]]) -> float:
    """Run the graph by a bare ready counter with one asyncio task per step; return the CPU seconds."""
    children: dict[int, list[int]] = {i: [] for i, _ in graph}
    need = {i: len(deps) for i, deps in graph}
    parents = dict(graph)
    depth: dict[int, int] = {}
    for i, deps in graph:
        for d in deps:
            children[d].append(i)
    left = len(graph)
    loop = asyncio.get_running_loop()
    end = loop.create_future()

    async def step(given: list[int]) -> dict[str, Any]:
        return {"d": 1 + max(given, default=0), "pad": PAD}

    def finished(i: int, task: asyncio.Task[dict[str, Any]]) -> None:
        nonlocal left
        depth[i] = task.result()["d"]
        left -= 1
        for child in children[i]:
            need[child] -= 1
            if not need[child]:
                start(child)
        if not left:
            end.set_result(None)

    def start(i: int) -> None:
        task = loop.create_task(step([depth[d] for d in parents[i]]))
        task.add_done_callback(lambda done: finished(i, done))

    begun = time.process_time()
    for i, deps in graph:
        if not deps:
            start(i)
    await end
    return time.process_time() - begun


def measure(name: str, n: int, *, durable: bool, repeats: int) -> dict[str, Any]:
    """Return medians of our cost and the floor's, in microseconds per step."""
    graph = shape(name, n)
    plan = Plan.make(document(graph))
    mine, bare = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            mine.append(asyncio.run(ours(plan, Path(folder) / "runs.db" if durable else None)))
        bare.append(asyncio.run(floor(graph)))
    us, floor_us = statistics.median(mine) / n * 1e6, statistics.median(bare) / n * 1e6
    return {
        "shape": name,
        "n": n,
        "us_per_step": round(us, 1),
        "floor_us": round(floor_us, 1),
        "x_floor": round(us / floor_us, 1),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--durable", action="store_true", help="a SQLite file instead of memory")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rows = []
    for name in ("chain", "fan", "layers"):
        small, large = (
            measure(name, n, durable=options.durable, repeats=options.repeats) for n in (1000, 10000)
        )
        large["growth"] = round(large["us_per_step"] / small["us_per_step"], 2)
        rows += [small, large]
        if not options.json:
            print(
                f"{name:8} {small['us_per_step']:7.1f} µs/step at 1,000  {large['us_per_step']:7.1f} at 10,000  "
                f"growth {large['growth']:.2f}  x floor {small['x_floor']:.1f} / {large['x_floor']:.1f}",
                flush=True,
            )
    if options.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
