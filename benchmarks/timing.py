"""Two clocks around a piece of work, and contestants in turns: never one after the other's last round.

What a shared machine does in between then hits all of them alike. The median of the rounds counts.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

N = TypeVar("N")

ROUNDS = 5


class Took:
    """What one round took.

    Attributes:
        wall_s: Seconds by the clock on the wall.
        cpu_s: Seconds of this process's processor time.
        more: Whatever else was found, by name.
    """

    def __init__(self) -> None:
        self.wall_s = self.cpu_s = 0.0
        self.more: dict[str, Any] = {}


@contextmanager
def timed(took: Took | None = None) -> Iterator[Took]:
    """Add what the body takes to *took*, or to a new one."""
    took = Took() if took is None else took
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        yield took
    finally:
        took.wall_s += time.perf_counter() - wall
        took.cpu_s += time.process_time() - cpu


class Rounds:
    """All rounds of one contestant."""

    def __init__(self, took: list[Took]) -> None:
        self.took = took

    @property
    def wall_s(self) -> float:
        """The median by the clock on the wall, in seconds."""
        return statistics.median(t.wall_s for t in self.took)

    @property
    def cpu_s(self) -> float:
        """The median of processor time, in seconds."""
        return statistics.median(t.cpu_s for t in self.took)

    @property
    def best_s(self) -> float:
        """The fastest round by the clock on the wall, in seconds."""
        return min(t.wall_s for t in self.took)

    def more(self, name: str) -> float:
        """Return the median of something else that was found."""
        return float(statistics.median(t.more[name] for t in self.took))


def in_turns(contestants: Mapping[N, Callable[[], Took]], rounds: int = ROUNDS) -> dict[N, Rounds]:
    """Let all contestants run *rounds* times in turns, after one round of each that does not count."""
    took: dict[N, list[Took]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, run in contestants.items():
            gc.collect()
            found = run()
            if turn:
                took[name].append(found)
    return {name: Rounds(found) for name, found in took.items()}
