"""LangGraph's functional API: a task for each step, called level by level.

A task is known again by the order in which it was called, so the order must not depend on which step ends first: all of a
level end before the next begins. ``durability="sync"`` writes before it goes on; the default may lose steps that ended.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiosqlite
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.func import entrypoint, task

from benchmarks.shapes import Graph, Work, ends, levels


async def run(graph: Graph, work: Work, file: Path | None, ready: Callable[[], None]) -> int:
    """Carry *graph* out."""
    if file is None:
        return await _run(graph, work, InMemorySaver(), ready)
    async with aiosqlite.connect(file) as db:
        saver = AsyncSqliteSaver(db)
        await saver.setup()  # sets the write-ahead log
        await db.execute("PRAGMA synchronous = NORMAL")
        return await _run(graph, work, saver, ready)


async def _run(graph: Graph, work: Work, saver: Any, ready: Callable[[], None]) -> int:
    @task
    async def step(i: int, parents: list[int]) -> dict[str, Any]:
        return await work.tool(i, parents)

    @entrypoint(checkpointer=saver)
    async def flow(_: Any) -> int:
        depth: dict[int, int] = {}
        for level in levels(graph):
            results = await asyncio.gather(*(step(s.id, [depth[d] for d in s.deps]) for s in level))
            depth |= {s.id: result["d"] for s, result in zip(level, results, strict=True)}
        return sum(depth[i] for i in ends(graph))

    ready()
    found: int = await flow.ainvoke({}, {"configurable": {"thread_id": "bench"}}, durability="sync")
    return found
