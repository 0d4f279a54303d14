"""The floor as a contestant; see ``floors.py``."""

from collections.abc import Callable
from pathlib import Path

from benchmarks import floors
from benchmarks.shapes import Graph, Work


async def run(graph: Graph, work: Work, file: Path | None, ready: Callable[[], None]) -> int:
    """Carry *graph* out."""
    ready()
    return await (floors.memory(graph, work) if file is None else floors.durable(graph, work, file))
