"""DBOS: one workflow with a step of it for each of ours, called level by level.

A step is known again by the order in which it was called, as in ``langgraph_tasks``. There is no run in memory only: that
one is a file without any waiting for the disk.
"""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from dbos import DBOS, SetWorkflowID

from benchmarks.shapes import Graph, Work, ends, levels


def engine(file: Path, synchronous: str) -> sa.Engine:
    """Return connections to *file* with the settings that favour it."""
    found = sa.create_engine(f"sqlite:///{file}")

    @sa.event.listens_for(found, "connect")
    def tune(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")

    return found


async def run(graph: Graph, work: Work, file: Path | None, ready: Callable[[], None]) -> int:
    """Carry *graph* out."""
    if file is not None:
        return await _run(graph, work, file, "NORMAL", ready)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return await _run(graph, work, Path(folder) / "memory.db", "OFF", ready)


async def _run(graph: Graph, work: Work, file: Path, synchronous: str, ready: Callable[[], None]) -> int:
    DBOS(
        config={
            "name": "benchmark",
            "system_database_url": f"sqlite:///{file}",
            "system_database_engine": engine(file, synchronous),
            "log_level": "CRITICAL",
            "application_version": "1",
            "executor_id": "one",
        }
    )

    @DBOS.step()
    async def step(i: int, parents: list[int]) -> dict[str, Any]:
        return await work.tool(i, parents)

    @DBOS.workflow()
    async def flow() -> int:
        depth: dict[int, int] = {}
        for level in levels(graph):
            results = await asyncio.gather(*(step(s.id, [depth[d] for d in s.deps]) for s in level))
            depth |= {s.id: result["d"] for s, result in zip(level, results, strict=True)}
        return sum(depth[i] for i in ends(graph))

    DBOS.launch()
    ready()
    with SetWorkflowID("bench"):
        found: int = await flow()
    return found


def end() -> None:
    """Shut down; it waits for its threads, which is no step's time."""
    DBOS.destroy()
