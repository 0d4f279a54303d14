"""A document becomes a plan, or every fault of it is reported at once; nothing is repaired in silence.

:func:`load` answers what a plan can be asked by itself, and :func:`check` what only a toolbox can tell; what was adopted
is read back by :mod:`~fsm_agent.core.plans.known`. The shapes that are accepted are in
:mod:`~fsm_agent.core.plans.shape`, the keys and the normal form in :mod:`~fsm_agent.core.plans.form`.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeVar

from fsm_agent.core import canon
from fsm_agent.core.errors import Fault
from fsm_agent.core.plans import build as planbuild
from fsm_agent.core.plans import check as plancheck
from fsm_agent.core.plans import faults as planfaults
from fsm_agent.core.plans import form as planform
from fsm_agent.core.plans import known
from fsm_agent.core.plans import read as planread
from fsm_agent.core.plans import shape as planshape
from fsm_agent.core.plans import uses as planuses
from fsm_agent.core.plans.plan import Budgets, Plan
from fsm_agent.core.tools import ToolSpec

P = TypeVar("P", bound=Plan)

NO_BUDGETS: Final = planbuild.NO_BUDGETS
"""The budgets of every plan that states none."""
_CALL: Final = re.compile(r"/steps/\d+/(?=(?:tool|args)\b)")
_FOLLOWING: Final = ("arguments-without-tool", "missing-argument")
"""Faults that a tool or arguments left out as faulty would seem to have."""


def load(
    document: Any,
    *,
    into: type[P] = Plan,  # type: ignore[assignment]  # the default is the bound itself
    tools: Mapping[str, ToolSpec] | None = None,
    default_tool: str | None = None,
    earlier: Collection[str] | None = None,
) -> P:
    """Return the plan that *document* describes.

    Args:
        document: Parsed JSON: the full document, a bare array of steps, or the replanner's ordered list.
        into: The class of the plan.
        tools: If given, the errors that :func:`check` finds are reported together with the others.
        default_tool: As for :func:`check`.
        earlier: Ids of the plan that this one would take the place of: what ``replaces`` may name, and what is
            not given as id to steps without one. None: not known, anything may be replaced.

    Raises:
        PlanError: With all faults; their pointers lead into *document* as it was given.
    """
    faults = planfaults.Faults()
    with known.collecting_later():
        full, origin = planshape.full(document, faults, earlier or ())
        if full is None:
            raise planfaults.error([_as_written(fault, origin) for fault in faults.found])
        plan = _planned(full, into, planbuild.Parsed(), faults, earlier)
    return _sound(plan, origin, faults, tools, default_tool)


def changed(
    document: dict[str, Any],
    base: Plan,
    *,
    tools: Mapping[str, ToolSpec] | None = None,
    default_tool: str | None = None,
    earlier: Collection[str] | None = None,
) -> Plan:
    """Return the plan that *document* describes and that takes the place of *base*: the same as :func:`load` gives.

    What *base* says in the same bytes is taken over as it stands there, and not read again.

    Args:
        document: A full document as :func:`fsm_agent.core.plans.shape.full` gives it; nobody changes it any more.
        base: The plan in force.
        tools: As for :func:`load`.
        default_tool: As for :func:`load`.
        earlier: As for :func:`load`.

    Raises:
        PlanError: With all faults.
    """
    faults, parsed = planfaults.Faults(), planbuild.Parsed()
    if not planshape.bearable(document["steps"], faults):
        raise planfaults.error(faults.found)
    with known.collecting_later():
        steps = parsed.take_over(document["steps"], base)
        plan = _planned({**document, "steps": steps}, Plan, parsed, faults, earlier)
    return _sound(plan, planshape.Origin(), faults, tools, default_tool)


def _planned(
    full: dict[str, Any],
    into: type[P],
    parsed: planbuild.Parsed,
    faults: planfaults.Faults,
    earlier: Collection[str] | None,
) -> P:
    doc = planform.normal(full, planread.Form(faults, parsed))
    plan = into(**planbuild.build(doc, parsed), doc=doc, digest=canon.value_digest("plan", doc))
    planuses.look(plan, faults, earlier)
    return plan


def _sound(
    plan: P,
    origin: planshape.Origin,
    faults: planfaults.Faults,
    tools: Mapping[str, ToolSpec] | None,
    default_tool: str | None,
) -> P:
    """Return *plan* if it has no fault, also none that only *tools* can tell."""
    if tools is not None:
        found = check(plan, tools, default_tool=default_tool, warnings=False)
        faults.found += _of_toolbox(found, faults.found)
    if faults.found:
        raise planfaults.error([_as_written(fault, origin) for fault in faults.found])
    known.remember(plan)
    return plan


def _of_toolbox(found: Iterable[Fault], before: Iterable[Fault]) -> list[Fault]:
    """Return the errors of *found* that are not mere consequences of the faults *before*."""
    faulty = {match[0] for fault in before if (match := _CALL.match(fault.at))}
    return [fault for fault in found if not (fault.code in _FOLLOWING and fault.at.startswith(tuple(faulty)))]


def _as_written(fault: Fault, origin: planshape.Origin) -> Fault:
    at = origin.pointer(fault.at)
    return Fault(at=at, code=fault.code, message=fault.message, fix=fault.fix, severity=fault.severity)


def check(
    plan: Plan, tools: Mapping[str, ToolSpec], *, default_tool: str | None = None, warnings: bool = True
) -> tuple[Fault, ...]:
    """Return what is wrong or doubtful with *plan* when it is run with *tools*; pointers lead into ``plan.doc``.

    Errors: unknown tools, arguments against the signature (constants wholly, references by presence), secrets
    that are no whole value, tools that must be done before and are not. Warnings, each with what to do: a step
    without ``done_when``, a write without a probe, more than 8 top-level steps, a secret written into the plan,
    an input or a name in a constraint that nobody provides.

    Args:
        plan: A plan from :func:`load`.
        tools: By name.
        default_tool: Runs the steps that name no tool; None: a person answers them.
        warnings: Whether warnings are wanted, too.
    """
    return plancheck.check(plan, tools, default_tool, warnings=warnings)


def budgets(document: Any) -> Budgets:
    """Return the limits that *document*, the ``budgets`` of a plan, describes.

    Raises:
        PlanError: With all faults.
    """
    faults = planfaults.Faults()
    doc = planform.budgets(planread.Form(faults, planbuild.Parsed()), document, "/budgets")
    if faults.found:
        raise planfaults.error(faults.found)
    return planbuild.budgets(doc or {})
