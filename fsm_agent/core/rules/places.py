"""The regions of a table: where each row really answers, place by place.

A place is (machine, state, signal). There the rows are boxes in the space of the facts that any of them looks at;
a row answers where its box is left over by the tiers above it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from fsm_agent.core.rules.boxes import Box, Domain, Fuel, Region, Space
from fsm_agent.core.rules.rows import TIERS, Row
from fsm_agent.core.rules.table import Place, Table
from fsm_agent.core.signals import DOMAIN, HOME


@attrs.frozen(kw_only=True, eq=False)
class Answers:
    """Who answers at one place.

    Attributes:
        place: Machine, state, signal.
        space: The facts that matter there.
        boxes: The box of every row there; rows whose conditions nothing fits are left out.
        regions: Where each row answers, given the tiers above it.
        free: By tier, what the tiers above it leave.
        gap: Where no row answers.
    """

    place: Place
    space: Space
    boxes: Mapping[str, Box]
    regions: Sequence[tuple[Row, Region]]
    free: Mapping[str, Region]
    gap: Region

    @property
    def everywhere(self) -> Iterator[tuple[Row | None, Region]]:
        """Yield who answers where, and None for where nobody does."""
        yield from self.regions
        yield None, self.gap


def places() -> Iterator[Place]:
    """Yield every place of the engine."""
    for (machine, state), signals in HOME.items():
        for signal in signals:
            yield machine, state, signal.value


def domain_of(table: Table, fact: str) -> Domain:
    """Return the values of *fact* in *table*; those of the engine where the table does not declare it."""
    return table.inputs.get(fact, DOMAIN[fact])


def answers(
    table: Table,
    place: Place,
    rows: Sequence[Row],
    fuel: Fuel,
    *,
    also: Iterable[str] = (),
    domains: Mapping[str, Domain] | None = None,
) -> Answers:
    """Return who answers at *place*.

    Args:
        table: Whose domains count.
        place: Machine, state, signal.
        rows: The rows that can fire there, highest tier first.
        fuel: What work may be done.
        also: Facts that matter besides those of the rows.
        domains: The facts that matter, with their values, instead of those of the rows and *also*.

    Raises:
        TangledError: The fuel does not suffice.
    """
    if domains is None:
        facts = {c.fact for row in rows for c in row.when}.union(also)
        domains = {fact: domain_of(table, fact) for fact in DOMAIN if fact in facts}
    space = Space(domains, fuel)
    boxes = {row.id: box for row in rows if (box := space.box(row.tests)) is not None}
    left: Region = [space.full]
    free: dict[str, Region] = {}
    regions: list[tuple[Row, Region]] = []
    for tier in TIERS:
        free[tier] = left
        here = [row for row in rows if row.tier == tier]
        for row in here:
            regions.append((row, space.intersect(left, boxes[row.id]) if row.id in boxes else []))
        for row in here:
            if row.id in boxes:
                left = space.subtract(left, boxes[row.id])
    return Answers(place=place, space=space, boxes=boxes, regions=regions, free=free, gap=left)
