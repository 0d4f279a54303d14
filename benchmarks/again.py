"""What it takes to take a run up again: one that has ended, and one whose process was killed half-way."""

import gc
from collections.abc import Iterator
from functools import partial

from benchmarks import ours
from benchmarks.goals import GOALS, Row
from benchmarks.settings import Settings
from benchmarks.shapes import Work, shape
from benchmarks.timing import Rounds, Took, in_turns


def reopen(settings: Settings) -> Iterator[Row]:
    """Yield what taking up a finished run costs against running it: its log is verified and folded."""
    for n in [n for n in settings.sizes if n >= 1000]:
        graph = shape("layers", n)
        ran: list[Took] = []
        took: list[Took] = []
        for _ in range(settings.rounds_of(n)):
            with ours.Place(settings.folder) as place:
                work, file = Work(), place / "runs.db"
                gc.collect()
                ran.append(ours.go(graph, work, file))
                gc.collect()
                took.append(ours.reopened(graph, work, file))
                if work.calls != n:
                    raise SystemExit(
                        f"benchmark: {work.calls} calls of {n} steps; a step that was done ran again"
                    )
        one, other = Rounds(took), Rounds(ran)
        yield Row(
            "reopen",
            "reopen a finished run, verified",
            f"layers {n:,}",
            one.wall_s / other.wall_s,
            "of running it",
            GOALS["reopen"],
            {"reopen ms": one.wall_s * 1e3, "run ms": other.wall_s * 1e3, "by CPU": one.cpu_s / other.cpu_s},
        )


def finish(settings: Settings) -> Iterator[Row]:
    """Yield what finishing a run costs that was killed after half of its steps."""
    for n in [n for n in settings.sizes if 1000 <= n <= 10_000]:
        graph = shape("layers", n)
        left = {who: settings.folder / f"{who}-{n}" for who in ("floor", "ours")}
        for who, place in left.items():
            ours.crashed(who, "layers", n, place)
        found = in_turns(
            {who: partial(ours.finished, who, graph, left[who], settings.folder) for who in left},
            settings.rounds_of(n),
        )
        more = {f"{who} ms": found[who].wall_s * 1e3 for who in left}
        more |= {"× by CPU": found["ours"].cpu_s / found["floor"].cpu_s}
        more |= {f"{who} ran": found[who].more("calls") for who in left}
        ratio = found["ours"].wall_s / found["floor"].wall_s
        yield Row(
            "finish", "finish a run killed half-way", f"layers {n:,}", ratio, "× floor", GOALS["finish"], more
        )
