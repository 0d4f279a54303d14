"""Time on a page: one straight scale, in which a stretch that would crush all others is cut out and shown as cut.

A person may take a day to answer what took a second to ask. Such a stretch gets a fixed, marked width; everything else
stays in proportion.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

GAP: Final = 46.0
"""Width of a stretch that is cut out."""
_MOST_GAPS: Final = 6
_SHARE: Final = 0.45
"""A stretch in which nothing begins or ends, and which is longer than this share of what is left, is cut out."""
_NEAR: Final = 72.0
"""Ticks stand no closer than this."""


class Gap(NamedTuple):
    """A stretch that is cut out: where it stands, and how long it is in microseconds."""

    left: float
    right: float
    lasts_us: int


class _Piece(NamedTuple):
    start: int
    end: int
    left: float
    right: float
    cut: bool


class Scale:
    """From times in microseconds to places on the page.

    Attributes:
        gaps: The stretches that are cut out, from left to right.
        step: Microseconds from one tick to the next.
    """

    def __init__(self, times: Sequence[int], left: float, width: float) -> None:
        """Span *times*, of which there is at least one, from *left* over *width*."""
        moments = sorted(set(times))
        if len(moments) == 1:
            moments.append(moments[0] + 1)
        self.start, self.end = moments[0], moments[-1]
        spans = list(pairwise(moments))
        cut = _cut(spans)
        rest = sum(b - a for i, (a, b) in enumerate(spans) if i not in cut) or 1
        unit = max(1.0, width - GAP * len(cut)) / rest
        self._pieces: list[_Piece] = []
        at = left
        for i, (a, b) in enumerate(spans):
            wide = GAP if i in cut else (b - a) * unit
            last = self._pieces[-1] if self._pieces else None
            if last is not None and i not in cut and not last.cut:
                self._pieces[-1] = last._replace(end=b, right=at + wide)
            else:
                self._pieces.append(_Piece(a, b, at, at + wide, i in cut))
            at += wide
        self.gaps = [Gap(p.left, p.right, p.end - p.start) for p in self._pieces if p.cut]
        self.step = _nice(rest / max(1.0, width / 110))

    def x(self, at: int) -> float:
        """Return where a time stands; one outside of what is spanned stands at its border."""
        for piece in self._pieces:
            if at <= piece.end:
                share = max(0, at - piece.start) / (piece.end - piece.start)
                return piece.left + share * (piece.right - piece.left)
        return self._pieces[-1].right

    def ticks(self) -> Iterator[tuple[float, int]]:
        """Yield (place, microseconds since the start) at round times, not too close to each other."""
        before = -_NEAR
        for piece in self._pieces:
            if piece.cut:
                continue
            first = -(-(piece.start - self.start) // self.step) * self.step
            for since in range(first, piece.end - self.start + 1, self.step):
                place = self.x(self.start + since)
                if place - before >= _NEAR:
                    before = place
                    yield place, since


def _cut(spans: Sequence[tuple[int, int]]) -> set[int]:
    """Return the places of the stretches to cut out: the longest, as long as it outweighs the others."""
    lengths = {i: b - a for i, (a, b) in enumerate(spans)}
    cut: set[int] = set()
    while len(cut) < _MOST_GAPS and len(lengths) > 3:
        longest = max(lengths, key=lambda i: (lengths[i], -i))
        if lengths[longest] <= _SHARE * sum(lengths.values()):
            break
        cut.add(longest)
        del lengths[longest]
    return cut


def _nice(step: float) -> int:
    """Return a round number of microseconds, at least *step*."""
    for unit in (1, 1_000, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000):
        for times in (1, 2, 5, 10, 15, 20, 30, 50, 100, 200, 500):
            if unit * times >= step and (unit < 1_000_000 or times <= 30):
                return unit * times
    return max(1, -(-int(step) // 86_400_000_000) * 86_400_000_000)
