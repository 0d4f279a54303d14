"""A plan is intent: versioned data that never proves that anything happened.

Types only. :mod:`fsm_agent.core.plans.planning` reads a document into them and reports every fault at once;
:mod:`fsm_agent.core.plans.text` reads text that a model wrote.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import attrs

from fsm_agent.core.language.expr import Expr
from fsm_agent.core.language.refs import Template, parse
from fsm_agent.core.signals import Decision

SIGNAL_ANY = "*"
_NO_ARGS: Final = parse({})


class Dependency(NamedTuple):
    """An edge to an earlier step; ``optional`` lets the dependent run when that step was cancelled."""

    id: str
    optional: bool = False


@attrs.frozen(kw_only=True)
class Condition:
    """A precondition: ``check`` in the expression language, ``severity`` ``stop`` or ``warn``."""

    check: Expr
    severity: str = "stop"
    say: str = ""


@attrs.frozen(kw_only=True)
class Constraint:
    """A rule over the whole run, checked again after every finished step.

    Attributes:
        key: Its name, unique in the plan.
        value: What ``value`` means in ``check``.
        check: Broken when false while running, and when unknown at the end.
        severity: ``stop`` acts, ``warn`` is noted.
        say: Words for the person who reads it.
    """

    key: str
    value: Any
    check: Expr
    severity: str = "stop"
    say: str = ""


@attrs.frozen(kw_only=True)
class OnFailure:
    """The step's own row in front of the table: only ``escalate``, ``skip`` (optional steps) or ``abort``."""

    decide: Decision
    say: str = ""


_NO_ROWS: Final[Mapping[str, OnFailure]] = {}


@attrs.frozen(kw_only=True)
class Estimate:
    """What a step is expected to cost: tokens, seconds, and money in millionths of the unit."""

    tokens: int = 0
    seconds: float = 0.0
    cost_micros: int = 0


@attrs.frozen(kw_only=True)
class Budgets:
    """Limits of a run; None is no limit. ``reserve_*`` is kept back. Money in millionths of the unit.

    ``local_replans`` and ``global_replans`` narrow the table's params: the smaller wins.
    """

    tool_calls: int | None = None
    planner_calls: int | None = None
    tokens: int | None = None
    cost_micros: int | None = None
    active_s: float | None = None
    local_replans: int | None = None
    global_replans: int | None = None
    reserve_tool_calls: int = 0
    reserve_tokens: int = 0
    reserve_cost_micros: int = 0
    reserve_active_s: float = 0.0


@attrs.frozen(kw_only=True)
class Alternative:
    """A prepared fall-back: another tool, other arguments, or both."""

    tool: str
    args: Template


@attrs.define(eq=False)
class OpenStep:
    """The fields of a :class:`Step`, while it is being made.

    A frozen class fills in each field by a call, and a step has many: made open and closed then, it takes a quarter of
    the time. They are given by name; what can only be so is looked up one by one where it is not given, and that takes
    longer than all the rest.
    """

    id: str
    description: str = ""
    tool: str | None = None
    args: Template = _NO_ARGS
    depends_on: tuple[Dependency, ...] = ()
    join: str = "all"
    produces: tuple[str, ...] | None = None
    done_when: Expr | None = None
    when: Expr | None = None
    preconditions: tuple[Condition, ...] = ()
    requires_confirmation: bool = False
    confirm_within_us: int | None = None
    optional: bool = False
    timeout_us: int | None = None
    replaces: str | None = None
    alternatives: tuple[Alternative, ...] = ()
    on_failure: Mapping[str, OnFailure] = _NO_ROWS
    approvers: int = 1
    estimate: Estimate | None = None
    for_each: Template | None = None
    max_parallel: int | None = None
    on_item_failure: str | float = "stop"
    plan: tuple["Step", ...] = ()
    budgets: Budgets | None = None

    def closed(self) -> "Step":
        """Return this very object as a step: from now on nobody changes it."""
        self.__class__ = Step
        return self  # type: ignore[return-value]


@attrs.frozen(kw_only=True, eq=False)
class Step(OpenStep):
    """One step of a plan. Field meanings: the plan format in the documentation.

    Attributes:
        id: Unique in the plan. Nested steps are ``s4/a``.
        tool: Name in the toolbox, or None: the toolbox's default tool runs it, or a person answers.
        args: Arguments with references, parsed once.
        join: ``all``, ``any`` (when one dependency is done and no other can still be) or ``first`` (at once).
        produces: Declared result fields, or None when nothing is declared.
        for_each: Reference to a list, or None; the step is then a template for one task per record.
        plan: The nested plan's steps, or empty.
        timeout_us: Microseconds, or None for the tool's own.
        approvers: How many different people must approve.
    """

    @property
    def group(self) -> bool:
        """Whether other tasks do what this step says: those of a nested plan, or of the records of a batch."""
        return bool(self.plan) or self.for_each is not None


@attrs.frozen(kw_only=True, eq=False)
class Plan:
    """A whole plan, structurally sound; whether a toolbox can run it is :func:`~fsm_agent.core.plans.planning.check`.

    Attributes:
        goal: In words; may be empty.
        inputs: Values for ``$inputs.…``.
        constraints: Rules over the whole run.
        budgets: Limits.
        steps: In plan order, which is the order ready tasks start in.
        doc: The normalised JSON document, equal for equal plans.
        digest: SHA-256 over the canonical bytes of ``doc``, 64 hex digits.
        aliases: By an id that a step ``replaces``, that step's id; references may use either. ``depends_on``
            needs no look-up: it names steps of this plan.
    """

    goal: str = ""
    inputs: Mapping[str, Any] = attrs.field(factory=dict)
    constraints: tuple[Constraint, ...] = ()
    budgets: Budgets = Budgets()
    steps: tuple[Step, ...]
    doc: Mapping[str, Any]
    digest: str
    aliases: Mapping[str, str] = attrs.field(factory=dict)
