"""pydantic-graph: the steps of a level are mapped and joined, level after level; it keeps no runs in a file.

A join there needs one fork that all its branches come from, so a graph of any shape goes level by level, round a loop.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic_graph import GraphBuilder, StepContext, reduce_list_append

from benchmarks.shapes import Graph, Work, ends, levels


async def run(graph: Graph, work: Work, file: Path | None, ready: Callable[[], None]) -> int:
    """Carry *graph* out.

    Raises:
        ValueError: A file was given.
    """
    if file is not None:
        raise ValueError("pydantic-graph keeps no runs in a file")
    waiting = list(reversed(levels(graph)))
    builder = GraphBuilder(state_type=dict, input_type=int, output_type=int)

    async def next_level(_: StepContext[Any, Any, Any]) -> list[int] | str:
        return [step.id for step in waiting.pop()] if waiting else "end"

    async def one(context: StepContext[Any, Any, Any]) -> int:
        step, depth = graph[context.inputs], context.state
        depth[step.id] = (await work.tool(step.id, [depth[dep] for dep in step.deps]))["d"]
        return step.id

    async def total(context: StepContext[Any, Any, Any]) -> int:
        return sum(context.state[i] for i in ends(graph))

    level = builder.step(next_level, node_id="level")
    each = builder.step(one, node_id="each")
    end = builder.step(total, node_id="end")
    join = builder.join(
        reduce_list_append, initial_factory=list, node_id="join", preferred_parent_fork="closest"
    )
    over, some = builder.match(str).to(end), builder.match(list).map().to(each)
    builder.add(
        builder.edge_from(builder.start_node).to(level),
        builder.edge_from(level).to(builder.decision().branch(over).branch(some)),
        builder.edge_from(each).to(join),
        builder.edge_from(join).to(level),
        builder.edge_from(end).to(builder.end_node),
    )
    flow = builder.build()
    ready()
    found: int = await flow.run(state={}, inputs=0)
    return found
