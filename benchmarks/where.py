"""Where the time of a durable step goes, by room: a profile, whose shares mean something and whose times do not.

What C code takes counts for whoever called it, except what can be named: SQLite, JSON, hashes.
"""

import cProfile
import pstats
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import ours
from benchmarks.goals import Row
from benchmarks.settings import Settings
from benchmarks.shapes import Work, shape

PACKAGE = Path(ours.ROOT / "fsm_agent")
NAMED = {
    "apsw": "SQLite",
    "orjson": "JSON",
    "hashlib": "hashes",
    "_hashlib": "hashes",
    "openssl_sha256": "hashes",
}
"""Part of the name of a C function → what it is."""
Where = tuple[str, int, str]


def room(where: Where) -> str:
    """Return the room of a function: a directory of the package, or what it is elsewhere."""
    file, _, name = where
    if file == "~":
        return next((words for part, words in NAMED.items() if part in name), "")
    path = Path(file)
    if PACKAGE in path.parents:
        parts = path.relative_to(PACKAGE).parts
        return "fsm_agent/" + "/".join(parts[:-1][:2] or parts)
    if "asyncio" in path.parts:
        return "asyncio"
    if "benchmarks" in path.parts:
        return "the tool of the benchmark"
    return "attrs" if file.startswith("<attrs") else "others"


def shares(stats: dict[Where, tuple[Any, ...]]) -> Counter[str]:
    """Return the seconds of each room; *stats* as :class:`pstats.Stats` has them."""
    found: Counter[str] = Counter()
    for where, (_, _, own, _, callers) in stats.items():
        name = room(where)
        if name or not callers:
            found[name or "others"] += own
            continue
        for caller, (_, _, part, _) in callers.items():
            found[room(caller) or "others"] += part
    return found


def where(settings: Settings) -> Iterator[Row]:
    """Yield the share of each room in a durable run of reads, largest first."""
    n = 1000
    graph = shape("layers", n)
    ours.on_disk(graph, settings.folder)
    profile = cProfile.Profile()
    with ours.Place(settings.folder) as place:
        profile.enable()
        ours.go(graph, Work(), place / "runs.db")
        profile.disable()
    stats: Any = pstats.Stats(profile)
    found = shares(stats.stats)
    total = found.total()
    for name, seconds in found.most_common():
        if seconds / total >= 0.01:
            yield Row("where", f"time in {name}", f"layers {n:,}, durable reads", 100 * seconds / total, "%")
