"""The commands about rule tables: ``rules check``, ``show``, ``diff``, ``graph`` and ``test``.

Whether a table may be used is for ``check`` to say. The others show any table that has the form of one, so that an
unsound one can be looked at.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from fsm_agent.core.errors import RulesError, UsageError
from fsm_agent.core.rules.analysis import Report
from fsm_agent.core.rules.diff import Change, Region, changes, diff, to_mermaid
from fsm_agent.core.rules.places import domain_of
from fsm_agent.core.rules.rows import Row
from fsm_agent.core.rules.table import Table
from fsm_agent.core.rules.words import listed, near, shown
from fsm_agent.core.signals import DOMAIN, HOME
from fsm_agent.faces.drawing.drawings import Drawing
from fsm_agent.faces.frame.screen import Screen
from fsm_agent.faces.frame.spec import Outcome
from fsm_agent.runtime.checking import check_rules
from fsm_agent.runtime.configs import read_rules

UNSOUND: Final = 3
"""Exit code of ``rules check`` when a table is not sound."""


@attrs.frozen(kw_only=True)
class Checks:
    """What is known about tables.

    Attributes:
        reports: Each table as it was named, and its report.
    """

    reports: tuple[tuple[str, Report], ...]

    @property
    def sound(self) -> bool:
        """Whether all of them are."""
        return all(report.sound for _, report in self.reports)


@attrs.frozen(kw_only=True)
class Compared:
    """Two tables, and where they decide differently.

    Attributes:
        a: The first table.
        b: The second one.
        regions: Where they decide differently.
        params: Name → its value in the first and in the second table, where these differ; None: it has none.
    """

    a: Table
    b: Table
    regions: tuple[Region, ...]
    params: Mapping[str, tuple[int | float | None, int | float | None]]


@attrs.frozen(kw_only=True)
class Trial:
    """What a table would decide.

    Attributes:
        table: The table.
        machine: ``task`` or ``run``.
        state: The state that fires.
        signal: What happened.
        facts: Every fact.
        seen: Those that some row looks at there, in the engine's order.
        row: The row that answers.
        near: The rows that did not fit, the nearest first, with what they missed.
        changes: Single facts that would lead to another decision; None where the table has no answer to some.
    """

    table: Table
    machine: str
    state: str
    signal: str
    facts: Mapping[str, str | int]
    seen: tuple[str, ...]
    row: Row
    near: tuple[tuple[Row, tuple[str, ...]], ...]
    changes: tuple[Change, ...] | None


def rules_check(screen: Screen, *, rules: Sequence[str], params: Mapping[str, int | float]) -> Outcome:
    """Prove tables sound, or find where they are not."""
    del screen
    checks = Checks(reports=tuple((name, check_rules(name, params)[1]) for name in rules))
    return Outcome(checks, 0 if checks.sound else UNSOUND)


def rules_show(screen: Screen, *, rules: str, params: Mapping[str, int | float]) -> Outcome:
    """Read a table."""
    del screen
    return Outcome(read_rules(rules, params))


def rules_diff(screen: Screen, *, a: str, b: str) -> Outcome:
    """Compare two tables."""
    del screen
    one, other = read_rules(a), read_rules(b)
    names = dict.fromkeys((*one.params, *other.params))
    both = {name: (one.params.get(name), other.params.get(name)) for name in names}
    return Outcome(
        Compared(
            a=one,
            b=other,
            regions=tuple(diff(one, other)),
            params={name: values for name, values in both.items() if values[0] != values[1]},
        )
    )


def rules_graph(screen: Screen, *, rules: str) -> Outcome:
    """Draw a table."""
    del screen
    table = read_rules(rules)
    return Outcome(Drawing(shows=f"table {table.name}", format="mermaid", text=to_mermaid(table)))


def rules_test(
    screen: Screen,
    *,
    rules: str,
    state: str,
    signal: str,
    facts: Mapping[str, Any],
    params: Mapping[str, int | float],
) -> Outcome:
    """Ask a table what it would decide.

    Raises:
        UsageError: There is no such signal there, no such fact, or it is never so.
        RulesError: The table has no answer, or two.
    """
    del screen
    table = read_rules(rules, params)
    place = _place(state, signal)
    given = {**table.initial, **{name: _fact(table, name, value) for name, value in facts.items()}}
    looked_at = {c.fact for row in table.place(*place) for c in row.when}
    row = table.match(*place, given)
    return Outcome(
        Trial(
            table=table,
            machine=place[0],
            state=place[1],
            signal=place[2],
            facts=given,
            seen=tuple(fact for fact in DOMAIN if fact in looked_at),
            row=row,
            near=tuple(table.near(*place, given)),
            changes=_changes(table, place, given),
        )
    )


def _place(state: str, signal: str) -> tuple[str, str, str]:
    machine, there = ("run", "running") if state == "run" else ("task", state)
    known = [s.value for s in HOME[machine, there]]
    if signal not in known:
        raise UsageError(
            f"signal {shown(signal)}: it never fires in state {state}; there are {listed(known)}"
        )
    return machine, there, signal


def _fact(table: Table, name: str, value: Any) -> str | int:
    if name not in DOMAIN:
        raise UsageError(f"fact {shown(name)}: there is no such fact{near(name, DOMAIN)}")
    domain = domain_of(table, name)
    if isinstance(domain[0], str):
        allowed = f"one of {listed(domain)}"
        fits = isinstance(value, str) and value in domain
    else:
        allowed = f"a whole number from {domain[0]} to {domain[1]}"
        fits = type(value) is int and int(domain[0]) <= value <= int(domain[1])
    if not fits:
        raise UsageError(f"fact {name}: {shown(value)}; it is {allowed}")
    return value  # type: ignore[no-any-return]  # just shown to be one of the domain


def _changes(
    table: Table, place: tuple[str, str, str], facts: Mapping[str, str | int]
) -> tuple[Change, ...] | None:
    try:
        return tuple(changes(table, *place, facts))
    except RulesError:
        return None
