"""Others that carry out the same graphs, each in a virtual environment of its own, with the versions that were measured.

An adapter is a module here with one coroutine function::

    async def run(graph, work, file, ready) -> int

It carries *graph* out by the means of its library: every step awaits ``work.tool(id, depths of its dependencies)`` once,
results travel by the library's own ways, and the checksum that comes back is made of them. *file* is where a durable run
keeps its SQLite file; None for a run in memory. ``ready()`` is called when everything is built and launched, and the first
step is next. Each adapter takes the fastest durable way that we found in its library, with a write-ahead log and
``synchronous = NORMAL``, as the floor does.
"""

from typing import NamedTuple


class Peer(NamedTuple):
    """Somebody to be measured.

    Attributes:
        name: As the table calls it.
        module: Its adapter in this directory.
        pins: The file with the versions of its environment; None: what runs the benchmark has it already.
        durable: Whether it can keep a run in a file.
        goal: The promise about it, by its name in ``goals.py``.
    """

    name: str
    module: str
    pins: str | None
    durable: bool = True
    goal: str = ""


PEERS = (
    Peer("floor", "bare", None),
    Peer("fsm_agent", "engine", None),
    Peer("LangGraph, functional", "langgraph_tasks", "langgraph.txt", goal="against langgraph"),
    Peer("LangGraph, graph", "langgraph_nodes", "langgraph.txt"),
    Peer("DBOS", "dbos_steps", "dbos.txt", goal="against dbos"),
    Peer("Burr", "burr_actions", "burr.txt"),
    Peer("pydantic-graph", "pydantic_levels", "pydantic-graph.txt", durable=False),
)
"""The first two are what the others are set against."""
