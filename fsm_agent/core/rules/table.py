"""Tables are data: what a table does not say does not happen.

A table answers (machine, state, signal, facts) with exactly one row: of the highest tier that has a fitting row,
the one row that fits. That there is always exactly one is proved before a table is used, by
:mod:`fsm_agent.core.rules.analysis`; here it is checked once more at every answer.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import attrs

from fsm_agent.core import canon
from fsm_agent.core.errors import RulesError
from fsm_agent.core.rules.form import Reader
from fsm_agent.core.rules.rows import (
    SCOPES,
    TIERS,
    Condition,
    Counter,
    Delay,
    Finding,
    Row,
    Spend,
    delay_us,
)
from fsm_agent.core.rules.words import PARAMS
from fsm_agent.core.signals import DOMAIN, HOME, Decision

__all__ = [
    "PARAMS",
    "SCOPES",
    "TIERS",
    "Condition",
    "Counter",
    "Delay",
    "Finding",
    "Row",
    "Ruling",
    "Spend",
    "Table",
    "delay_us",
    "from_canonical",
    "load",
]

Facts = Mapping[str, str | int]
Place = tuple[str, str, str]
"""(machine, state, signal): where a table can be asked."""

_THRESHOLD: Final = {
    "repeated_error": "repeat_threshold",
    "progress_stall": "stall_threshold",
    "inefficient": "inefficiency_factor",
    "blocked_dependency": "breaker_failures",
    "budget_low": "budget_low",
}
"""Signals that the engine raises at a threshold, so that a reason can name it."""


class Ruling(NamedTuple):
    """What a table, or a step's own row in front of it, says.

    Attributes:
        facts: Those it saw that are not at their initial value; a row without conditions sees none.
        rule: The row's id.
        decide: What follows.
        why: The row's words.
        row: The row of the table; None for a row of the plan.
    """

    facts: Facts
    rule: str
    decide: Decision
    why: str
    row: Row | None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Table:
    """A rule table, resolved. Equal tables have equal digests.

    Attributes:
        name: Of the table; for a file, its name without folder and ending.
        params: Thresholds by name, those left out at their usual value.
        inputs: The facts it may look at: an enumeration, or the lowest and highest integer.
        rows: In the order of the document.
        delays: Delay policies by name.
        counters: Budgets of decisions by name.
        decisions: What decisions spend and refill; one that is not here costs nothing.
        canonical: The whole table as JSON; :func:`from_canonical` builds an equal table of it.
        digest: SHA-256 over the canonical bytes, 64 hex digits.
        initial: Every fact at the value it has before anything happened.
    """

    name: str
    params: Mapping[str, int | float]
    inputs: Mapping[str, tuple[str, ...] | tuple[int, int]]
    rows: tuple[Row, ...]
    delays: Mapping[str, Delay]
    counters: Mapping[str, Counter]
    decisions: Mapping[Decision, Spend]
    canonical: Mapping[str, Any]
    digest: str
    initial: Mapping[str, str | int]
    _places: Mapping[Place, tuple[Row, ...]]
    _index: Mapping[Place, Row | tuple[tuple[Row, ...], ...]]
    _outright: dict[Place, Ruling | None] = attrs.field(init=False, factory=dict)

    @property
    def newer(self) -> bool:
        """Whether it was written after the first release; with a table of that time a run goes on as it began."""
        return any(param.added and name in self.params for name, param in PARAMS.items())

    def match(self, machine: str, state: str, signal: str, facts: Facts) -> Row:
        """Return the one row that answers.

        Args:
            machine: ``task`` or ``run``.
            state: The state that fires.
            signal: What happened.
            facts: Every fact of the declared domain.

        Raises:
            RulesError: No row fits, or two of one tier do, or a fact is missing. A checked table and the
                engine's facts lead to none of these.
        """
        entry = self._index.get((machine, state, signal))
        if isinstance(entry, Row):
            return entry
        try:
            for tier in entry or ():
                found = None
                for row in tier:
                    for fact, allowed in row.tests:
                        if facts[fact] not in allowed:
                            break
                    else:
                        if found is not None:
                            raise self._refusal(
                                machine, state, signal, f"rows {found.id} and {row.id} both fit"
                            )
                        found = row
                if found is not None:
                    return found
        except KeyError as error:
            raise self._refusal(machine, state, signal, f"the fact {error} is missing") from error
        raise self._refusal(machine, state, signal, "no row fits")

    def _refusal(self, machine: str, state: str, signal: str, found: str) -> RulesError:
        return RulesError(
            f"table {self.name} at {machine} {state} {signal}: {found}; check the table with `rules check`"
        )

    def sole(self, machine: str, state: str, signal: str) -> Row | None:
        """Return the row that answers there whatever the facts are, if there is such a row."""
        entry = self._index.get((machine, state, signal))
        return entry if isinstance(entry, Row) else None

    def outright(self, machine: str, state: str, signal: str) -> Ruling | None:
        """Return what the :meth:`sole` row says; worked out once, for most decisions are of this kind."""
        place = (machine, state, signal)
        if place not in self._outright:
            row = self.sole(*place)
            words = "" if row is None else self.reason(row, signal, {})
            self._outright[place] = None if row is None else Ruling({}, row.id, row.decide, words, row)
        return self._outright[place]

    def place(self, machine: str, state: str, signal: str) -> tuple[Row, ...]:
        """Return the rows that can fire there, highest tier first; empty if nothing fires there."""
        return self._places.get((machine, state, signal), ())

    def near(self, machine: str, state: str, signal: str, facts: Facts) -> list[tuple[Row, tuple[str, ...]]]:
        """Return the rows that could have fired there but did not fit, the nearest first.

        Each comes with the conditions that failed and the facts they saw, such as ``retries_left >= 1 (was 0)``.
        """
        missed = []
        for row in self.place(machine, state, signal):
            failed = tuple(
                f"{self.shown(c)} (was {facts[c.fact]})" for c in row.when if facts[c.fact] not in c.allowed
            )
            if failed:
                missed.append((row, failed))
        return sorted(missed, key=lambda pair: len(pair[1]))

    def shown(self, condition: Condition) -> str:
        """Return *condition* for people, with its params' values, such as ``stall_steps < $limit [limit = 5]``."""
        values = ", ".join(f"{p} = {self.params[p]}" for p in condition.params)
        return f"{condition} [{values}]" if values else str(condition)

    def reason(self, row: Row, signal: str, facts: Facts) -> str:
        """Return why *row* answered *signal*: the signal with its threshold, the row's words, the facts it saw."""
        param = _THRESHOLD.get(signal)
        threshold = f" ({param} {self.params[param]:g})" if param is not None else ""
        seen = ", ".join(f"{fact} {facts[fact]}" for fact in sorted(c.fact for c in row.when))
        return f"{signal}{threshold}: {row.why}" + (f" [{seen}]" if seen else "")

    def scope_of(self, counter: str) -> str:
        """Return the scope of *counter*: ``series``, ``strategy`` or ``run``."""
        return self.counters[counter].scope

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Table) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"<Table {self.name}: {len(self.rows)} rows, {self.digest[:8]}>"


def load(
    document: Mapping[str, Any],
    *,
    name: str,
    base: Callable[[str], Mapping[str, Any]] | None = None,
    params: Mapping[str, int | float] | None = None,
    lines: Mapping[str, int] | None = None,
) -> Table:
    """Read a table. Whether it is sound is for :func:`fsm_agent.core.rules.analysis.check` to say.

    Args:
        document: Parsed TOML or JSON: what it extends, params, inputs, counters, decisions, delays, rows.
        name: What the table is called.
        base: Returns the document that ``extends`` names; without it nothing can be extended.
        params: Values that go before the document's own.
        lines: Where rows are: ``table name:row id`` → line, from 1.

    Raises:
        RulesError: The document is no table; all that is wrong is in ``findings``.
    """
    return _load(
        document, name=name, base=base, params=params or {}, lines={} if lines is None else lines, flat=False
    )


def from_canonical(data: Mapping[str, Any]) -> Table:
    """Return the table whose ``canonical`` *data* is, as found in a log.

    Raises:
        RulesError: It is none.
    """
    return _of_canonical(canon.encode(data))


@lru_cache(maxsize=32)
def _of_canonical(encoded: bytes) -> Table:
    """Read a table back once: many runs have the same, and tables are values."""
    data = canon.decode(encoded)
    name = data.get("name")
    document = {key: value for key, value in data.items() if key != "name"}
    return _load(
        document, name=name if isinstance(name, str) else "?", base=None, params={}, lines={}, flat=True
    )


def _load(
    document: Mapping[str, Any],
    *,
    name: str,
    base: Callable[[str], Mapping[str, Any]] | None,
    params: Mapping[str, int | float],
    lines: Mapping[str, int],
    flat: bool,
) -> Table:
    reader = Reader(name=name, lines=lines)
    parts = reader.read(document, base=base, params=params, flat=flat)
    if reader.findings:
        more = f" (and {len(reader.findings) - 1} more)" if len(reader.findings) > 1 else ""
        raise RulesError(f"table {name} is refused: {reader.findings[0].message}{more}", reader.findings)
    rows = tuple(parts.rows)
    places = _places(rows)
    return Table(
        name=name,
        params=parts.params,
        inputs=parts.inputs,
        rows=rows,
        delays=parts.delays,
        counters=parts.counters,
        decisions=parts.decisions,
        canonical=parts.canonical,
        digest=canon.value_digest("rules", parts.canonical),
        initial=_initial(parts.counters),
        places=places,
        index={place: _tiers(there) for place, there in places.items()},
    )


def _initial(counters: Mapping[str, Counter]) -> dict[str, str | int]:
    facts: dict[str, str | int] = {name: values[0] for name, values in DOMAIN.items()}
    return facts | {name: counter.initial for name, counter in counters.items()}


def _places(rows: tuple[Row, ...]) -> dict[Place, tuple[Row, ...]]:
    """Return for every place of the engine the rows that can fire there, highest tier first."""
    ranked = sorted(rows, key=lambda row: TIERS.index(row.tier))
    places: dict[Place, tuple[Row, ...]] = {}
    for (machine, state), signals in HOME.items():
        here = [r for r in ranked if r.machine == machine and (r.states is None or state in r.states)]
        for signal in signals:
            places[machine, state, signal.value] = tuple(
                r for r in here if r.signals is None or signal in r.signals
            )
    return places


def _tiers(rows: tuple[Row, ...]) -> Row | tuple[tuple[Row, ...], ...]:
    """Return the rows grouped by tier; the row itself where the highest tier has just one, without conditions."""
    tiers = tuple(group for tier in TIERS if (group := tuple(r for r in rows if r.tier == tier)))
    if tiers and len(tiers[0]) == 1 and not tiers[0][0].tests:
        return tiers[0][0]
    return tiers
