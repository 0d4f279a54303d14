"""A stall is the same call with the same answer, again and again, whatever else happens in between.

Calls are followed by tool and arguments, each for itself: so a log line, another file or a second stubborn call in
between hides nothing, and a circle over several calls shows in each of them. What a call answers is its *mark*: the
digest of its result, or the fingerprint of its error. Marks that change are honest polling and no stall; marks that
come round in circles of two or three are.
"""

from typing import Final, NamedTuple

PERIODS: Final = (1, 2, 3)
"""Lengths of the circles that are looked for, in calls."""

MAX_TRAILS: Final = 64
"""Of how many different calls the answers are remembered: those that failed last."""


class Trail(NamedTuple):
    """What one call (tool and arguments) answered of late.

    Attributes:
        seq: Of the event of its last answer.
        marks: Its last answers, oldest first.
    """

    seq: int
    marks: tuple[str, ...]


def followed(marks: tuple[str, ...], mark: str, threshold: int) -> tuple[str, ...]:
    """Return *marks* with one more, and no more of them than *threshold* circles can hold."""
    return (*marks, mark)[-threshold * PERIODS[-1] :]


def repeats(marks: tuple[str, ...]) -> int:
    """Return how often the last answer, or the last circle of answers, came in a row; 0 without any answer."""
    return max(_periodic(marks, period) // period for period in PERIODS)


def _periodic(marks: tuple[str, ...], period: int) -> int:
    """Return how many of the last *marks* repeat what stands *period* places before."""
    length = min(period, len(marks))
    while length < len(marks) and marks[-length - 1] == marks[-length - 1 + period]:
        length += 1
    return length


def oldest(trails: dict[str, Trail]) -> str:
    """Return the call whose last answer is the longest ago."""
    return min(trails, key=lambda name: trails[name].seq)
