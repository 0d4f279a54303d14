"""A document becomes a plan, or every fault of it is reported at once; nothing is repaired in silence.

:func:`load` answers what a plan can be asked by itself, :func:`check` what only a toolbox can tell, and
:func:`trusted` reads back what was adopted. The shapes that are accepted are in
:mod:`~fsm_agent.core.plans.shape`, the keys and the normal form in :mod:`~fsm_agent.core.plans.form`.
"""

import contextlib
import gc
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from fsm_agent.core import canon
from fsm_agent.core.errors import Fault
from fsm_agent.core.plans import build as planbuild
from fsm_agent.core.plans import check as plancheck
from fsm_agent.core.plans import faults as planfaults
from fsm_agent.core.plans import form as planform
from fsm_agent.core.plans import read as planread
from fsm_agent.core.plans import shape as planshape
from fsm_agent.core.plans import uses as planuses
from fsm_agent.core.plans.plan import Budgets, Plan
from fsm_agent.core.tools import ToolSpec

P = TypeVar("P", bound=Plan)

NO_BUDGETS: Final = planbuild.NO_BUDGETS
"""The budgets of every plan that states none."""
_CALL: Final = re.compile(r"/steps/\d+/(?=(?:tool|args)\b)")
_VERY_MANY: Final = 20_000
"""So many new objects that are old at once are far more than what else is new then."""
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
    with collecting_later():
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
    with collecting_later():
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
    _KNOWN[plan.digest] = plan
    return plan


@contextlib.contextmanager
def collecting_later() -> Iterator[None]:
    """Keep the garbage collector from looking for garbage while many values are made that all stay.

    It finds none, and takes most of the time of a plan of 10,000 steps. If very many were made, they are counted among the
    old ones at once (that is what thawing does with what was frozen), instead of being walked three times on their way.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] > _VERY_MANY and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        gc.enable()


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


_KNOWN: Final[WeakValueDictionary[str, Plan]] = WeakValueDictionary()
"""Plans that are alive, by digest: the run that adopts a plan need not hold a second copy of it."""


def trusted(doc: Mapping[str, Any], base: Plan | None = None) -> Plan:
    """Return the plan whose normal form is *doc*, from our own log, without proving again what was proved.

    The same value as :func:`load` gives for it. What *base*, the plan before it, says in the same bytes is taken over.
    """
    digest = canon.value_digest("plan", doc)
    plan = _KNOWN.get(digest)
    if plan is None:
        parsed = planbuild.Parsed()
        with collecting_later():
            if base is not None:
                doc = {**doc, "steps": parsed.take_over(doc["steps"], base)}
            fields = planbuild.build(doc, parsed)
        _KNOWN[digest] = plan = Plan(**fields, doc=doc, digest=digest)
    return plan
