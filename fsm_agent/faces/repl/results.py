"""What the commands of the prompt return: values, which :mod:`fsm_agent.faces.repl.showing` renders."""

from collections.abc import Mapping
from typing import Any

import attrs

from fsm_agent.core.events import Event
from fsm_agent.core.plans.plan import Plan, Step
from fsm_agent.core.rules.table import Row as TableRow
from fsm_agent.core.rules.table import Table
from fsm_agent.faces.frame.spec import Command
from fsm_agent.faces.plans.diff import Compared as Changed
from fsm_agent.runtime.driving.status import Status

__all__ = [
    "Breaks",
    "Changed",
    "Driven",
    "Help",
    "Left",
    "Planned",
    "Row",
    "Seated",
    "Shown",
    "Spent",
    "Valid",
]


@attrs.frozen(kw_only=True)
class Seated:
    """The run that the prompt has come to.

    Attributes:
        status: The run as it is now.
        plan: The plan in force.
        rules: The table.
        driven: ``here``, ``elsewhere`` or ``nowhere``.
        writes: (step, tool, whether it can be looked up) of what changes the world.
        asks: Steps that ask a person first.
        ready: How many steps could start now.
    """

    status: Status
    plan: Plan
    rules: Table
    driven: str
    writes: tuple[tuple[str, str, bool], ...]
    asks: tuple[str, ...]
    ready: int


@attrs.frozen(kw_only=True)
class Driven:
    """Where a drive left the run: its status, the condition it came to, whether it goes on behind the prompt."""

    status: Status
    hit: str
    background: bool = False


@attrs.frozen(kw_only=True)
class Breaks:
    """The break points, as typed."""

    texts: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Planned:
    """The plan in force.

    Attributes:
        version: From 1.
        plan: The plan.
        states: State by step.
        tools: Tool and effect class by step; empty where a person answers.
        one: A single step that was asked for, or None.
        args: Of that step: (name, value, where it comes from); the value is None while it is not known.
    """

    version: int
    plan: Plan
    states: Mapping[str, str]
    tools: Mapping[str, tuple[str, str]]
    one: Step | None = None
    args: tuple[tuple[str, Any, str], ...] = ()


@attrs.frozen(kw_only=True)
class Valid:
    """A plan that was checked: its size, how many tools it was checked against, and what deserves a look."""

    plan: Plan
    tools: int
    warnings: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Shown:
    """One event of a run."""

    run: str
    event: Event


@attrs.frozen(kw_only=True)
class Spent:
    """What was used of each budget, and by whom.

    Attributes:
        budgets: Used and left, by name.
        calls: Attempts by task, of those that were started.
        counters: Run-scope counters of the table that were spent.
    """

    budgets: Mapping[str, Any]
    calls: Mapping[str, int]
    counters: Mapping[str, int]


@attrs.frozen(kw_only=True)
class Row:
    """A row of the run's table and the events at which it decided."""

    table: Table
    row: TableRow
    hits: tuple[int, ...]


@attrs.frozen(kw_only=True)
class Help:
    """What can be typed: all rows with whether they make sense now, or one row."""

    rows: tuple[tuple[Command, bool], ...]
    one: Command | None = None


@attrs.frozen(kw_only=True)
class Left:
    """The run that was left, and whether it can be gone on with; no run if there was none."""

    run: str | None
    open: bool
