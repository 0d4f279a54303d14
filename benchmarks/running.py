"""What running costs: graphs in memory and on disk, reads and writes, wide and in a row, against the floor."""

import statistics
from collections.abc import Iterator
from functools import partial

from benchmarks import floors, ours
from benchmarks.goals import GOALS, Row
from benchmarks.settings import Settings
from benchmarks.shapes import REAL, Work, shape
from benchmarks.timing import Rounds, Took, in_turns

QUICK = ("layers", "chain", "fan", "records", "montage")
SHAPES = (*QUICK[:-1], *REAL)
JUDGED = {"layers"}
"""Shapes for which something is promised, from 1,000 steps on."""


def _cases(settings: Settings) -> Iterator[tuple[str, int]]:
    for name in QUICK if settings.quick else SHAPES:
        yield from ((name, n) for n in settings.sizes_of(name))


def against(
    group: str,
    what: str,
    name: str,
    n: int,
    floor: Rounds,
    mine: Rounds,
    *,
    goal: str = "",
    of: str = "floor",
    waits: bool = True,
) -> Row:
    """Return the row that sets our time against the floor's.

    Args:
        group: See :class:`~benchmarks.goals.Row`, as for *what*.
        what: What was run.
        name: The graph.
        n: Its steps.
        floor: All rounds of the floor.
        mine: All rounds of ours.
        goal: What is promised of the shapes that are judged.
        of: What the floor is called.
        waits: Whether steps wait for a disk: then it is the clock on the wall that counts. Otherwise processor time
            does: on a busy machine the longer of two rounds is interrupted, and the shorter is not; and a disk
            that is slow at the beginning and at the end of a run hides what its steps cost.
    """
    us = 1e6 / n
    parts = ("plan_us", "start_us", "drive_us")
    wall, cpu = mine.wall_s / floor.wall_s, mine.cpu_s / floor.cpu_s if floor.cpu_s else 0.0
    more = {
        f"{of} µs": (floor.wall_s if waits else floor.cpu_s) * us,
        "ours µs": (mine.wall_s if waits else mine.cpu_s) * us,
        **({"× by CPU": cpu} if waits else {"× by the wall": wall}),
        "× at best": mine.best_s / floor.best_s,
        **{
            f"CPU {part.removesuffix('_us')} µs": mine.more(part)
            for part in parts
            if part in mine.took[0].more
        },
    }
    judged = GOALS[goal] if goal and name in JUDGED and n >= 1000 else None
    return Row(group, what, f"{name} {n:,}", wall if waits else cpu, f"× {of}", judged, more)


def memory(settings: Settings) -> Iterator[Row]:
    """Yield what runs in memory cost."""
    for name, n in _cases(settings):
        graph = shape(name, n)
        found = in_turns(
            {"floor": partial(ours.floor_in_memory, graph), "ours": partial(ours.in_memory, graph)},
            settings.rounds_of(n),
        )
        yield against(
            "memory", "memory", name, len(graph), found["floor"], found["ours"], goal="memory", waits=False
        )


def reads(settings: Settings) -> Iterator[Row]:
    """Yield what durable runs of reads cost; events are committed in groups."""
    folder = settings.folder
    for name, n in _cases(settings):
        graph = shape(name, n)
        found = in_turns(
            {
                "floor": partial(ours.floor_on_disk, graph, folder),
                "ours": partial(ours.on_disk, graph, folder),
            },
            settings.rounds_of(n),
        )
        what = "durable, reads, group commit"
        yield against(
            "reads", what, name, len(graph), found["floor"], found["ours"], goal="reads", waits=False
        )


def writes(settings: Settings) -> Iterator[Row]:
    """Yield what durable runs of writes cost: the intent of each is on the disk before it starts."""
    folder = settings.folder
    for n in settings.sizes:
        graph = shape("layers", n)
        found = in_turns(
            {
                "floor": partial(ours.floor_on_disk, graph, folder, intents=True),
                "full": partial(ours.floor_on_disk, graph, folder, intents=True, synchronous="FULL"),
                "ours": partial(ours.on_disk, graph, folder, effect="write"),
            },
            settings.rounds_of(n),
        )
        mine, what = found["ours"], "durable, writes, 64 at once"
        yield against(
            "writes", what, "layers", n, found["floor"], mine, goal="writes", of="floor with intents"
        )
        yield against("writes", what, "layers", n, found["full"], mine, of="floor with intents, FULL")


def serial(settings: Settings) -> Iterator[Row]:
    """Yield what a chain of writes costs: every step waits for the disk once, one after the other."""
    folder = settings.folder
    for n in [100] if settings.quick else [100, 1000]:
        graph = shape("chain", n)

        def waits(n: int = n) -> Took:
            with ours.Place(folder) as place:
                return floors.syncs(place / "file", n)

        found = in_turns(
            {
                "fdatasync": waits,
                "floor": partial(ours.floor_on_disk, graph, folder, intents=True, synchronous="FULL"),
                "ours": partial(ours.on_disk, graph, folder, effect="write", workers=1),
            },
            settings.rounds_of(n),
        )
        what = "durable, writes, one after the other"
        row = against("chain", what, "chain", n, found["fdatasync"], found["ours"], of="fdatasync")
        yield row._replace(goal=GOALS["chain of writes"] if n >= 100 else None)
        yield against("chain", what, "chain", n, found["floor"], found["ours"], of="floor with intents, FULL")


def disk(settings: Settings) -> Iterator[Row]:
    """Yield what the disk and SQLite cost by themselves."""
    n = 100 if settings.quick else 500
    folder = settings.folder

    def of(how: str) -> Took:
        with ours.Place(folder) as place:
            return (
                floors.syncs(place / "file", n)
                if how == "fdatasync"
                else floors.commits(place / "db", n, how)
            )

    found = in_turns({how: partial(of, how) for how in ("fdatasync", "NORMAL", "FULL")}, settings.rounds)
    words = {
        "fdatasync": "one fdatasync",
        "NORMAL": "one commit of SQLite, NORMAL",
        "FULL": "one commit of SQLite, FULL",
    }
    for how, rounds in found.items():
        yield Row("disk", words[how], f"{n} times", rounds.wall_s / n * 1e6, "µs")


def straggler(settings: Settings) -> Iterator[Row]:
    """Yield when the fast branch beside a slow one has ended, against its own critical path."""
    graph = shape("straggler", 0)
    slow = max(step.sleep for step in graph)
    last = next(step.id for step in reversed(graph) if len(step.deps) == 2) - 1
    path = sum(graph[i].sleep for i in (*range(last - 4, last + 1),))
    assert path < slow

    def mine(durable: bool) -> float:
        work = Work(timed=True)
        if durable:
            with ours.Place(settings.folder) as place:
                ours.go(graph, work, place / "runs.db")
        else:
            ours.go(graph, work, None)
        return work.done_at[last] - work.done_at[0]

    for durable in (False, True):
        ends = [mine(durable) for _ in range(1 if settings.quick else 3)]
        yield Row(
            "straggler",
            f"fast branch beside one of 1 s, {'durable' if durable else 'memory'}",
            "straggler",
            statistics.median(ends) / path,
            "× its own path",
            GOALS["straggler"],
            {"path ms": path * 1e3, "ours ms": statistics.median(ends) * 1e3},
        )
