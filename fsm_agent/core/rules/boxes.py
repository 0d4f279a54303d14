"""Box algebra: regions of facts as disjoint boxes, exactly.

A fact has finitely many values, so a set of them is the bits of one integer; a box is one such set per fact, all
independent; a region is a list of disjoint boxes. Intersection and difference are exact and cheap, and every
non-empty box hands out a witness.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import and_
from typing import Final

import attrs

from fsm_agent.core.rules.rows import Allowed

Box = tuple[int, ...]
"""For each fact of a space the allowed values, as bits; none is zero."""
Region = list[Box]
"""Disjoint boxes."""
Domain = tuple[str, ...] | tuple[int, int]

FUEL: Final = 1_500_000
"""How many boxes may be cut in one analysis."""


class TangledError(Exception):
    """The rows overlap so intricately that checking them would take too long."""


@attrs.define(eq=False)
class Fuel:
    """What is left of the work that one analysis may do; at zero it ends with :class:`TangledError`."""

    left: int = FUEL

    def burn(self, amount: int) -> None:
        """Count *amount* boxes.

        Raises:
            TangledError: Nothing is left.
        """
        self.left -= amount
        if self.left < 0:
            raise TangledError


class Space:
    """The facts that matter at one place of a table, with their values.

    Attributes:
        facts: Names, in a fixed order.
        full: The box that holds everything.
    """

    def __init__(self, domains: Mapping[str, Domain], fuel: Fuel) -> None:
        """Span the *domains* of the facts; work is taken from *fuel*."""
        self.facts = tuple(domains)
        self._values: list[tuple[str | int, ...]] = [
            tuple(d) if isinstance(d[0], str) else tuple(range(int(d[0]), int(d[1]) + 1))
            for d in domains.values()
        ]
        self.full: Box = tuple((1 << len(values)) - 1 for values in self._values)
        self._at = {fact: place for place, fact in enumerate(self.facts)}
        self._fuel = fuel

    def index(self, fact: str) -> int | None:
        """Return the place of *fact* in a box, or None if it does not matter here."""
        return self._at.get(fact)

    def box(self, tests: Iterable[tuple[str, Allowed]]) -> Box | None:
        """Return the box of a conjunction; None if nothing fits. Tests of facts outside the space are ignored."""
        masks = list(self.full)
        for fact, allowed in tests:
            place = self._at.get(fact)
            if place is not None:
                masks[place] &= self.mask(place, allowed)
        return tuple(masks) if all(masks) else None

    def mask(self, place: int, allowed: Allowed) -> int:
        """Return the bits of *allowed* for the fact at *place*."""
        values = self._values[place]
        if isinstance(allowed, range):
            first = int(values[0])
            low, high = max(allowed.start, first) - first, min(allowed.stop - first, len(values))
            return ((1 << (high - low)) - 1) << low if high > low else 0
        return self.mask_of(place, allowed)

    def mask_of(self, place: int, allowed: Collection[str | int] | Collection[str]) -> int:
        """Return the bits of single values of the fact at *place*."""
        return sum(1 << bit for bit, value in enumerate(self._values[place]) if value in allowed)

    def subtract(self, region: Region, box: Box) -> Region:
        """Return *region* without *box*."""
        out: Region = []
        for piece in region:
            if not all(map(and_, piece, box)):
                out.append(piece)
                continue
            rest = list(piece)
            for place, keep in enumerate(box):
                outside = rest[place] & ~keep
                if outside:
                    cut = rest.copy()
                    cut[place] = outside
                    out.append(tuple(cut))
                    rest[place] &= keep
        self._fuel.burn(len(region))
        return out

    def intersect(self, region: Region, box: Box) -> Region:
        """Return the part of *region* that lies in *box*."""
        self._fuel.burn(len(region))
        return [cut for piece in region if all(cut := tuple(map(and_, piece, box)))]

    def first(self, region: Region, box: Box) -> Box | None:
        """Return a part of *region* that lies in *box*, or None."""
        for tried, piece in enumerate(region, 1):
            if all(cut := tuple(map(and_, piece, box))):
                self._fuel.burn(tried)
                return cut
        self._fuel.burn(len(region))
        return None

    def values(self, place: int, mask: int) -> tuple[str | int, ...]:
        """Return the values that *mask* allows of the fact at *place*, in the domain's order."""
        return tuple(value for bit, value in enumerate(self._values[place]) if mask >> bit & 1)

    def witness(self, box: Box, usual: Mapping[str, str | int]) -> dict[str, str | int]:
        """Return facts in *box*, the *usual* value wherever it is allowed."""
        facts: dict[str, str | int] = {}
        for place, fact in enumerate(self.facts):
            values = self.values(place, box[place])
            facts[fact] = usual[fact] if usual.get(fact) in values else values[0]
        return facts

    def describe(self, box: Box) -> dict[str, str]:
        """Return the facts that *box* restricts, in words, such as ``{"retries_left": "1..20"}``."""
        return {
            fact: _words(self.values(place, box[place]))
            for place, fact in enumerate(self.facts)
            if box[place] != self.full[place]
        }


def _words(values: Sequence[str | int]) -> str:
    runs: list[list[str | int]] = []
    for value in values:
        last = runs[-1][-1] if runs else None
        if isinstance(value, int) and isinstance(last, int) and value == last + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs)


def merge(boxes: Iterable[Box]) -> Region:
    """Return *boxes* with those joined that differ in one fact only; for showing, not for proving."""
    pending = list(boxes)
    done: Region = []
    while pending:
        box = pending.pop()
        for other in done:
            differ = [place for place, (a, b) in enumerate(zip(box, other, strict=True)) if a != b]
            if len(differ) == 1:
                place = differ[0]
                done.remove(other)
                pending.append((*box[:place], box[place] | other[place], *box[place + 1 :]))
                break
        else:
            done.append(box)
    return done
