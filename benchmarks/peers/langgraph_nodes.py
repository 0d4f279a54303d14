"""LangGraph's graph API: a node for each step, one channel that holds a dictionary of all results."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypedDict

import aiosqlite
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

from benchmarks.shapes import Graph, Step, Work, ends

Results = dict[str, Any]


def merged(old: Results, new: Results) -> Results:
    """Return the results of both."""
    return {**old, **new}


class State(TypedDict):
    """All results, by step."""

    results: Annotated[Results, merged]


def node(step: Step, work: Work) -> Callable[[State], Coroutine[Any, Any, State]]:
    """Return the node that runs *step*."""

    async def go(state: State) -> State:
        parents = [state["results"][str(dep)]["d"] for dep in step.deps]
        return {"results": {str(step.id): await work.tool(step.id, parents)}}

    return go


async def run(graph: Graph, work: Work, file: Path | None, ready: Callable[[], None]) -> int:
    """Carry *graph* out."""
    builder = StateGraph(State)
    for step in graph:
        builder.add_node(f"n{step.id}", node(step, work))
    for step in graph:
        match [f"n{dep}" for dep in step.deps]:
            case []:
                builder.add_edge(START, f"n{step.id}")
            case [one]:
                builder.add_edge(one, f"n{step.id}")
            case several:
                builder.add_edge(several, f"n{step.id}")  # a list: all of them
    for i in ends(graph):
        builder.add_edge(f"n{i}", END)
    if file is None:
        return await _run(graph, builder, InMemorySaver(), ready)
    async with aiosqlite.connect(file) as db:
        saver = AsyncSqliteSaver(db)
        await saver.setup()
        await db.execute("PRAGMA synchronous = NORMAL")
        return await _run(graph, builder, saver, ready)


async def _run(graph: Graph, builder: Any, saver: Any, ready: Callable[[], None]) -> int:
    app = builder.compile(checkpointer=saver)
    config = {"recursion_limit": len(graph) + 10, "configurable": {"thread_id": "bench"}}
    ready()
    state = await app.ainvoke({"results": {}}, config, durability="sync")
    return sum(state["results"][str(i)]["d"] for i in ends(graph))
