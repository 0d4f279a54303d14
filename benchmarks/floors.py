"""The floor: what a graph costs if nobody decides, checks, hashes or explains anything.

A counter of missing dependencies for each step, one task of the event loop for each step, and, for a durable floor, one
row of SQLite for each step, committed for all steps of one turn of the loop together. A step starts what waits for it
after its row is there. With *intents* a row says that a step is about to start, and is committed before it does.
"""

import asyncio
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

from benchmarks.shapes import Graph, Work, children, ends
from benchmarks.timing import Took, timed

_TABLE = "CREATE TABLE IF NOT EXISTS steps(seq INTEGER PRIMARY KEY, step INTEGER, kind TEXT, body TEXT)"
_ROW = "INSERT INTO steps(step, kind, body) VALUES(?, ?, ?)"


class Counter:
    """A graph on its way, in memory."""

    def __init__(self, graph: Graph, work: Work) -> None:
        self.graph = graph
        self.tool = work.tool
        self.children = children(graph)
        self.need = [len(step.deps) for step in graph]
        self.depth: list[int] = [0] * len(graph)
        self.left = len(graph)
        self.loop = asyncio.get_running_loop()
        self.end: asyncio.Future[None] = self.loop.create_future()

    async def run(self) -> int:
        """Carry out what is not done, and return the graph's checksum."""
        if self.left:
            for step in self.graph:
                if not self.need[step.id] and not self.depth[step.id]:
                    self.start(step.id)
            await self.end
        return sum(self.depth[i] for i in ends(self.graph))

    def start(self, i: int) -> None:
        """Let step *i* begin."""
        step, depth = self.graph[i], self.depth
        task = self.loop.create_task(self.tool(i, [depth[dep] for dep in step.deps], step.sleep))
        task.add_done_callback(lambda done: self.finished(i, done.result()))

    def finished(self, i: int, result: dict[str, Any]) -> None:
        """Take the result of step *i*."""
        self.depth[i] = result["d"]
        self.release(i)

    def release(self, i: int) -> None:
        """Start what waited for step *i* last."""
        self.left -= 1
        need = self.need
        for child in self.children[i]:
            need[child] -= 1
            if not need[child]:
                self.start(child)
        if not self.left:
            self.end.set_result(None)


class Rows(Counter):
    """The same with a row for each step; goes on with what the file holds."""

    def __init__(self, graph: Graph, work: Work, db: sqlite3.Connection, *, intents: bool) -> None:
        super().__init__(graph, work)
        self.db = db
        self.intents = intents
        self.results: list[tuple[int, str, str]] = []
        self.starting: list[int] = []
        for i, body in db.execute("SELECT step, body FROM steps WHERE kind = 'done'").fetchall():
            self.depth[i] = json.loads(body)["d"]
            self.left -= 1
            for child in self.children[i]:
                self.need[child] -= 1

    def commit(self, rows: list[tuple[int, str, str]]) -> None:
        """Write *rows* as one transaction."""
        self.db.execute("BEGIN")
        self.db.executemany(_ROW, rows)
        self.db.execute("COMMIT")

    def start(self, i: int) -> None:
        """Let step *i* begin, after a row that says so where one is asked for."""
        if not self.intents:
            super().start(i)
            return
        self.starting.append(i)
        if len(self.starting) == 1:
            self.loop.call_soon(self.write_intents)

    def write_intents(self) -> None:
        """Write that all these are about to start, and start them."""
        starting, self.starting = self.starting, []
        self.commit([(i, "intent", "{}") for i in starting])
        for i in starting:
            super().start(i)

    def finished(self, i: int, result: dict[str, Any]) -> None:
        """Take the result of step *i*; what waits for it starts after the commit."""
        self.depth[i] = result["d"]
        self.results.append((i, "done", json.dumps(result, separators=(",", ":"))))
        if len(self.results) == 1:
            self.loop.call_soon(self.write_results)

    def write_results(self) -> None:
        """Write all results of this turn of the loop."""
        rows, self.results = self.results, []
        self.commit(rows)
        for i, *_ in rows:
            self.release(i)


async def memory(graph: Graph, work: Work) -> int:
    """Carry *graph* out in memory, and return its checksum."""
    return await Counter(graph, work).run()


async def durable(
    graph: Graph, work: Work, file: Path, *, intents: bool = False, synchronous: str = "NORMAL"
) -> int:
    """Carry *graph* out, or go on with it, with a row for each step in *file*; return its checksum."""
    db = sqlite3.connect(file, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {synchronous}")
        db.execute(_TABLE)
        return await Rows(graph, work, db, intents=intents).run()
    finally:
        db.close()


def syncs(file: Path, n: int, size: int = 512) -> Took:
    """Append *size* bytes *n* times, and have them on the disk each time."""
    descriptor = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    data = b"x" * size
    try:
        with timed() as took:
            for _ in range(n):
                os.write(descriptor, data)
                os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    return took


def commits(file: Path, n: int, synchronous: str, body: str = "x" * 64) -> Took:
    """Commit one row *n* times."""
    db = sqlite3.connect(file, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {synchronous}")
        db.execute(_TABLE)
        with timed() as took:
            for i in range(n):
                db.execute(_ROW, (i, "done", body))
    finally:
        db.close()
    return took
