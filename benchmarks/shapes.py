"""Graphs of steps that every contestant carries out, and the one number that proves that it did.

A graph is a list of steps in topological order. A step's result is ``{"d": depth, "pad": …}``: one more than the deepest
of its dependencies. The sum of the depths of the steps on which none depends is the graph's checksum: whoever does not
hand every result on along every edge gets another one. Nothing but the standard library is needed here: contestants
run in environments of their own.
"""

import asyncio
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

DAGS = Path(__file__).parent / "dags"
WIDTH = 50
SEED = 20_261_130
REAL = ("montage", "epigenomics", "genome")
"""Graphs of real workflows, of about 100, 1,000 and 5,000 steps; see ``dags/README.md``."""


class Step(NamedTuple):
    """A step, the steps that it needs, and how long its tool waits, in seconds."""

    id: int
    deps: tuple[int, ...]
    sleep: float = 0.0


Graph = list[Step]


def chain(n: int) -> Graph:
    """Return *n* steps, each after the one before."""
    return [Step(i, (i - 1,) if i else ()) for i in range(n)]


def fan(n: int) -> Graph:
    """Return a first step, *n* - 2 that need it, and one that needs them all."""
    return [Step(0, ()), *(Step(i, (0,)) for i in range(1, n - 1)), Step(n - 1, tuple(range(1, n - 1)))]


def layers(n: int) -> Graph:
    """Return layers of 50, where each step needs two of the layer before, drawn with a fixed seed."""
    draw = random.Random(SEED)
    return [
        Step(i, tuple(sorted(draw.sample(range(begin - WIDTH, begin), 2))) if begin else ())
        for i in range(n)
        for begin in [i // WIDTH * WIDTH]
    ]


def records(n: int) -> Graph:
    """Return *n* steps of which none needs another: the records of a batch."""
    return [Step(i, ()) for i in range(n)]


def straggler(slow: float = 1.0, fast: float = 0.02, length: int = 5) -> Graph:
    """Return a step, two branches of *length* after it, and one after both; the first branch begins with a slow step."""
    steps = [Step(0, ())]
    for branch in range(2):
        for at in range(length):
            before = len(steps) - 1 if at else 0
            steps.append(Step(len(steps), (before,), slow if not branch and not at else fast))
    return [*steps, Step(len(steps), (length, 2 * length))]


def real(name: str, n: int) -> Graph:
    """Return the graph of a real workflow, see ``dags/README.md``: a line for each step, with what it needs."""
    lines = (DAGS / f"{name}-{n}.txt").read_text(encoding="ascii").splitlines()
    return [
        Step(i, tuple(dep for part in line.split() if part != "-" for dep in _spread(part)))
        for i, line in enumerate(line for line in lines if not line.startswith("#"))
    ]


def _spread(part: str) -> range:
    first, _, last = part.partition("-")
    return range(int(first), int(last or first) + 1)


def shape(name: str, n: int) -> Graph:
    """Return the graph called *name* of about *n* steps.

    Raises:
        ValueError: There is no such graph.
    """
    if name in REAL:
        return real(name, n)
    makers = {"chain": chain, "fan": fan, "layers": layers, "records": records}
    if name == "straggler":
        return straggler()
    if name not in makers:
        raise ValueError(f"shape {name!r}: there is none; one of {', '.join([*makers, 'straggler', *REAL])}")
    return makers[name](n)


def children(graph: Graph) -> list[list[int]]:
    """Return, for each step, those that need it."""
    found: list[list[int]] = [[] for _ in graph]
    for step in graph:
        for dep in step.deps:
            found[dep].append(step.id)
    return found


def levels(graph: Graph) -> list[list[Step]]:
    """Return the steps by how many others lie at most before them."""
    at: list[int] = []
    found: list[list[Step]] = []
    for step in graph:
        level = 1 + max((at[dep] for dep in step.deps), default=-1)
        at.append(level)
        if level == len(found):
            found.append([])
        found[level].append(step)
    return found


def ends(graph: Graph) -> list[int]:
    """Return the steps on which none depends."""
    needed = {dep for step in graph for dep in step.deps}
    return [step.id for step in graph if step.id not in needed]


def checksum(graph: Graph) -> int:
    """Return what must come out."""
    depth: list[int] = []
    for step in graph:
        depth.append(1 + max((depth[dep] for dep in step.deps), default=0))
    return sum(depth[i] for i in ends(graph))


class Work:
    """The tool behind every step: it does nothing, counts itself, and can end its process.

    Args:
        payload: Bytes of a result as compact JSON, about.
        crash_at: The call that kills the process, counted from 1; 0 for none.
        timed: Note when each step ended, in ``done_at``, in seconds since ``begun``.

    Attributes:
        calls: How often it was called to the end.
    """

    def __init__(self, payload: int = 64, *, crash_at: int = 0, timed: bool = False) -> None:
        self.calls = 0
        self.pad = "x" * max(0, payload - 20)
        self.crash_at = crash_at
        self.timed = timed
        self.begun = time.perf_counter()
        self.done_at: dict[int, float] = {}

    async def tool(self, sid: int, parents: list[int], sleep: float = 0.0) -> dict[str, Any]:
        """Return the result of step *sid*, whose dependencies have these depths."""
        if sleep:
            await asyncio.sleep(sleep)
        self.calls += 1
        if self.timed:
            self.done_at[sid] = time.perf_counter() - self.begun
        if self.calls == self.crash_at:
            print(json.dumps({"calls": self.calls}))
            sys.stdout.flush()
            os._exit(17)
        return {"d": 1 + max(parents, default=0), "pad": self.pad}
