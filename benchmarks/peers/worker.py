"""One contestant, one run, in a process of its own; prints one line of JSON.

``python -m benchmarks.peers.worker ADAPTER SHAPE N [FOLDER]``, in the environment of that adapter. The time of its imports
is not counted, nor is what its first run loads and fills: a run of ten steps goes before. A run with a folder is durable,
and what it left there is counted, with every write-ahead log folded in.
"""

import asyncio
import contextlib
import gc
import importlib
import json
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.shapes import Work, checksum, shape
from benchmarks.timing import timed


def size(folder: Path) -> int:
    """Return the bytes of all files."""
    for file in folder.rglob("*.db"):
        with contextlib.closing(sqlite3.connect(file)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main() -> None:
    """Measure and print."""
    name, form, n, *folders = sys.argv[1:]
    adapter = importlib.import_module(f"benchmarks.peers.{name}")
    end = getattr(adapter, "end", lambda: None)
    graph, work = shape(form, int(n)), Work()
    folder = Path(folders[0]) if folders else None
    with tempfile.TemporaryDirectory() as warm:
        place = None if folder is None else Path(warm) / "peer.db"
        asyncio.run(adapter.run(shape(form, 10), Work(), place, lambda: None))
        end()
    gc.collect()
    marks = [time.perf_counter()]

    def ready() -> None:
        marks.append(time.perf_counter())

    with timed() as took:
        found = asyncio.run(adapter.run(graph, work, None if folder is None else folder / "peer.db", ready))
    end()
    line = {
        "wall_s": took.wall_s,
        "cpu_s": took.cpu_s,
        "setup_s": marks[1] - marks[0],
        "right": found == checksum(graph),
        "calls": work.calls,
        "steps": len(graph),
        "bytes": 0 if folder is None else size(folder),
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
