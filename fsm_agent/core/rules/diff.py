"""Two tables, compared exactly: the regions of facts in which they decide differently, with both rows.

And one table, looked at from one place: what would have to differ for another decision, and the picture of it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from fsm_agent.core.errors import RulesError
from fsm_agent.core.rules.boxes import Box, Fuel, Space, TangledError, merge
from fsm_agent.core.rules.places import answers, domain_of, places
from fsm_agent.core.rules.rows import TIERS, Delay, Row
from fsm_agent.core.rules.table import Facts, Place, Table
from fsm_agent.core.signals import DOMAIN, HOME


@attrs.frozen(kw_only=True)
class Region:
    """Facts at which two tables decide differently.

    Attributes:
        machine: ``task`` or ``run``.
        state: The state that fires.
        signals: Signals for which the same holds, in the engine's order.
        where: Facts that are restricted, in words; all others may be anything.
        a: The row that answers in the first table, or None.
        b: The row that answers in the second table, or None.
    """

    machine: str
    state: str
    signals: tuple[str, ...]
    where: Mapping[str, str]
    a: Row | None
    b: Row | None

    def __str__(self) -> str:
        """One line for people."""
        said = ", ".join(f"{fact} {words}" for fact, words in self.where.items()) or "always"
        return f"{self.state} on {', '.join(self.signals)}, {said}: {_decided(self.a)} → {_decided(self.b)}"

    def as_json(self) -> dict[str, Any]:
        """Return the region as JSON."""
        return {
            "machine": self.machine,
            "state": self.state,
            "signals": list(self.signals),
            "where": dict(self.where),
            "a": None
            if self.a is None
            else {"row": self.a.id, "decide": self.a.decide.value, "delay": self.a.delay},
            "b": None
            if self.b is None
            else {"row": self.b.id, "decide": self.b.decide.value, "delay": self.b.delay},
        }


@attrs.frozen(kw_only=True)
class Change:
    """One fact that, being otherwise, would lead to another decision. ``values``: which values would do, in words."""

    fact: str
    values: str
    row: Row


def _decided(row: Row | None) -> str:
    return "no row" if row is None else f"{row.decide} ({row.id})"


def diff(a: Table, b: Table) -> list[Region]:
    """Return where *a* and *b* decide differently (another decision, or another delay), in the engine's order.

    Facts are compared over the values that both tables know.

    Raises:
        RulesError: The tables are too intricate to be compared.
    """
    fuel = Fuel()
    found: dict[tuple[Any, ...], list[str]] = {}
    rows: dict[tuple[Any, ...], tuple[Row | None, Row | None]] = {}
    try:
        for place in places():
            for one, other, where in _differences(a, b, place, fuel):
                key = (place[:2], _name(one), _name(other), tuple(where.items()))
                found.setdefault(key, []).append(place[2])
                rows[key] = (one, other)
    except TangledError:
        message = f"tables {a.name} and {b.name}: their rows overlap too intricately to be compared"
        raise RulesError(f"{message}; use fewer conditions per row") from None
    return [
        Region(
            machine=key[0][0],
            state=key[0][1],
            signals=tuple(signals),
            where=dict(key[3]),
            a=rows[key][0],
            b=rows[key][1],
        )
        for key, signals in found.items()
    ]


def _name(row: Row | None) -> str:
    return "" if row is None else row.id


def _differences(
    a: Table, b: Table, place: Place, fuel: Fuel
) -> Iterator[tuple[Row | None, Row | None, dict[str, str]]]:
    facts = {c.fact for table in (a, b) for row in table.place(*place) for c in row.when}
    shared = {fact: _shared(a, b, fact) for fact in DOMAIN if fact in facts}
    here = answers(a, place, a.place(*place), fuel, domains=shared)
    there = answers(b, place, b.place(*place), fuel, domains=shared)
    for one, boxes in here.everywhere:
        for other, others in there.everywhere:
            if _does(a, one) != _does(b, other):
                common: list[Box] = [cut for box in others for cut in here.space.intersect(boxes, box)]
                for box in merge(common):
                    yield one, other, here.space.describe(box)


def _shared(a: Table, b: Table, fact: str) -> Any:
    one, other = domain_of(a, fact), domain_of(b, fact)
    if isinstance(one[0], str):
        return tuple(value for value in one if value in other)
    return max(int(one[0]), int(other[0])), min(int(one[1]), int(other[1]))


def _does(table: Table, row: Row | None) -> tuple[str, Delay | None] | None:
    if row is None:
        return None
    return row.decide.value, None if row.delay is None else table.delays[row.delay]


def changes(table: Table, machine: str, state: str, signal: str, facts: Facts) -> list[Change]:
    """Return which single facts, being otherwise, would have led to another decision, and to which.

    Raises:
        RulesError: As :meth:`Table.match`.
    """
    decided = table.match(machine, state, signal, facts).decide
    found = []
    for fact in dict.fromkeys(c.fact for row in table.place(machine, state, signal) for c in row.when):
        space = Space({fact: domain_of(table, fact)}, Fuel())
        by_row: dict[str, list[str | int]] = {}
        rows = {}
        for value in space.values(0, space.full[0]):
            row = table.match(machine, state, signal, {**facts, fact: value})
            if row.decide is not decided:
                by_row.setdefault(row.id, []).append(value)
                rows[row.id] = row
        for id_, values in by_row.items():
            mask = space.mask_of(0, values)
            found.append(
                Change(fact=fact, values=space.describe((mask,)).get(fact, "anything"), row=rows[id_])
            )
    return found


def to_mermaid(table: Table) -> str:
    """Return the table as a Mermaid flow chart: states, and what each of their signals can lead to."""
    lines = ["flowchart LR"]
    for machine, state in HOME:
        here = f"{machine}_{state.replace('-', '_')}"
        lines.append(f'  {here}["{state if machine == "task" else "run"}"]')
        edges: dict[str, dict[str, list[str]]] = {}
        for signal in HOME[machine, state]:
            for row in sorted(table.place(machine, state, signal), key=lambda row: TIERS.index(row.tier)):
                edges.setdefault(row.decide.value, {}).setdefault(row.id, []).append(signal.value)
        for decide, rows in edges.items():
            end = f"{here}_{decide.replace('-', '_')}"
            lines.append(f'  {end}(["{decide}"])')
            for id_, signals in rows.items():
                said = signals[0] if len(signals) == 1 else f"{len(signals)} signals"
                lines.append(f'  {here} -- "{id_}: {said}" --> {end}')
    return "\n".join(lines) + "\n"
