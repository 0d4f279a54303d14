"""A full document becomes its normal form, key by key; whatever is wrong with a key is a fault at that key.

The normal form is what is logged and digested, so equal plans are equal bytes:

- what equals its default, is empty or null is left out;
- numbers of seconds that are whole are integers, money is a decimal string without trailing zeros;
- a dependency is its id, or ``{"id", "optional": true}``; its id is that of a step of this plan, also where the
  document names the step by what it ``replaces``;
- a precondition is ``{"check", "severity"?, "say"?}``, an entry of ``on_failure`` is ``{"decide", "say"?}``, an
  alternative has both ``tool`` and ``args``;
- expressions are in their canonical text, short forms lowered, ``bind`` used up;
- ``plan_version``, ``analysis`` and ``strategy`` are the planner's words, no part of the plan.

A faulty value is left out, so that the rest can still be looked at.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fsm_agent.core.language import refs
from fsm_agent.core.language.refs import Place
from fsm_agent.core.plans import numbers as plannumbers
from fsm_agent.core.plans import read
from fsm_agent.core.plans.faults import quoted, several
from fsm_agent.core.plans.plan import SIGNAL_ANY
from fsm_agent.core.plans.read import Form, Reader
from fsm_agent.core.signals import HOME, LEGAL_DECISIONS, Decision

_SAFE: Final = (Decision.ESCALATE, Decision.SKIP, Decision.ABORT)
_OWN_STATES: Final = (("task", "failed"), ("task", "unknown-result"), ("task", "cancelled"))
SAFE_DECISIONS: Final[Mapping[str, tuple[Decision, ...]]] = {
    SIGNAL_ANY: _SAFE,
    **{
        signal.value: tuple(
            d
            for d in _SAFE
            if any(d in LEGAL_DECISIONS[home] for home in _OWN_STATES if signal in HOME[home])
        )
        for signal in dict.fromkeys(signal for home in _OWN_STATES for signal in HOME[home])
    },
}
"""For each signal that ``on_failure`` may name, what a plan may decide: only what is safer than the table."""
_TEXTS: Final = frozenset({str})
_NEEDS: Final = (
    ("max_parallel", "for_each"),
    ("on_item_failure", "for_each"),
    ("budgets", "plan"),
)
_TIED: Final = frozenset({"plan", *(key for key, _ in _NEEDS)})
"""What alone can exclude or need another key of a step that has a tool."""
_NOT_SAID: Final = (("description", ""), ("requires_confirmation", False), ("approvers", 1))
_NOT_WITH_PLAN: Final = (
    "tool",
    "args",
    "alternatives",
    "timeout_s",
    "estimate",
    "requires_confirmation",
    "confirm_within_s",
    "approvers",
)


def normal(document: dict[str, Any], form: Form) -> dict[str, Any]:
    """Return the normal form of the full *document*; faults go into *form*."""
    out = read.members(form, document, "", _TOP)
    if "steps" not in out:
        form.faults.add("/steps", "no-steps", "the plan has no steps", "give at least one step")
        out["steps"] = []
    if "constraints" in out:
        names = dict.fromkeys(_products(out["steps"]), True)
        out["constraints"] = _constraints(form, out["constraints"], "/constraints", names)
    return {key: value for key, value in out.items() if value or key == "steps"}


# ── parts of a step ───────────────────────────────────────────────────────────────────────────────────────────


def _depends_on(form: Form, value: Any, at: Place) -> list[Any] | None:
    if type(value) is list and _TEXTS.issuperset(map(type, value)):
        return value or None  # nothing but ids, as nearly always
    return read.each(form, value, at, _dependency)


def _dependency(form: Form, value: Any, at: Place) -> str | dict[str, Any] | None:
    if type(value) is str:
        return value
    if type(value) is not dict:
        form.faults.bad_type(at, value, 'the id of a step, or {"id": …, "optional": true}')
        return None
    out = read.members(form, value, at, {"id": read.name, "optional": read.flag})
    if "id" not in out:
        read.missing(form, value, at, "id")
        return None
    return out if "optional" in out else str(out["id"])


def _precondition(form: Form, value: Any, at: Place) -> dict[str, Any] | None:
    if type(value) is str:
        check = read.condition(form, value, at)
        return {"check": check} if check else None
    out = read.members(form, value, at, {"check": read.condition, "severity": _SEVERITY, "say": read.text})
    read.missing(form, value, at, "check")
    return out if "check" in out else None


def _alternative(form: Form, value: Any, at: Place) -> dict[str, Any] | None:
    out = read.members(form, value, at, {"tool": read.name, "args": read.arguments})
    if value == {}:
        form.faults.add(
            at, "missing-key", "the alternative says nothing", "give another tool, other args, or both"
        )
    return out or None


def _on_failure(form: Form, value: Any, at: Place) -> dict[str, Any] | None:
    if type(value) is not dict:
        form.faults.bad_type(at, value, 'an object such as {"*": "escalate"}')
        return None
    out = {}
    for signal, row in value.items():
        here = (at, signal)
        allowed = SAFE_DECISIONS.get(signal)
        if allowed is None:
            near = form.faults.near(signal, SAFE_DECISIONS)
            fix = f"{near}Signals here: {several(SAFE_DECISIONS, 99)}"
            form.faults.add(
                here, "unknown-signal", f"{quoted(signal)} is no signal that a step can fail with", fix
            )
            continue
        decision = _decision(allowed)
        members: dict[str, Any] = {}
        if type(row) is str:
            members = {"decide": decision(form, row, here)}
        elif row is not None:
            members = read.members(form, row, here, {"decide": decision, "say": read.text})
            read.missing(form, row, here, "decide")
        if members.get("decide"):
            out[signal] = members
    return out


def _decision(allowed: Iterable[Decision]) -> Reader:
    words = [decision.value for decision in allowed]

    def one(form: Form, value: Any, at: Place) -> str | None:
        if value in words:
            return str(value)
        if type(value) is not str:
            form.faults.bad_type(at, value, f"one of {', '.join(words)}")
            return None
        fix = f"a plan may only choose what is safer than the table: {', '.join(words)}"
        form.faults.add(at, "bad-decision", f"{quoted(value)} cannot be decided here", fix)
        return None

    return one


def _estimate(form: Form, value: Any, at: Place) -> dict[str, Any] | None:
    return read.members(form, value, at, _ESTIMATE) or None


def _share(form: Form, value: Any, at: Place) -> str | float | None:
    if type(value) is str:
        return _ON_ITEM_FAILURE(form, value, at)  # type: ignore[no-any-return]
    return plannumbers.share(form.faults, value, at)


def budgets(form: Form, value: Any, at: Place) -> dict[str, Any] | None:
    """Read the limits of a run."""
    out = read.members(form, value, at, _BUDGETS)
    for key, kept in out.get("reserve", {}).items():
        limit = out.get(key)
        if limit is not None and float(kept) > float(limit):
            fix = "keep back less than the budget"
            form.faults.add(
                ((at, "reserve"), key), "reserve-too-large", f"{kept} of {limit} are kept back", fix
            )
    return out or None


def _reserve(form: Form, value: Any, at: Place) -> dict[str, Any] | None:
    return read.members(form, value, at, _RESERVE) or None


# ── steps ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _plan(form: Form, value: Any, at: Place) -> dict[str, Any] | None:
    out = read.members(form, value, at, {"steps": _steps})
    if type(value) is dict and value.get("steps") is None:
        form.faults.add(at, "no-steps", "the nested plan has no steps", "give at least one step")
    return out or None


def _steps(form: Form, value: Any, at: Place) -> list[dict[str, Any]] | None:
    if type(value) is not list:
        form.faults.bad_type(at, value, "an array of steps")
        return []
    if not value:
        form.faults.add(at, "no-steps", "the plan has no steps", "give at least one step")
    known = form.parsed if form.parsed.standing else None
    out = [
        step if known and known.stands(step) else _step(form, step, (at, place))
        for place, step in enumerate(value)
    ]
    new_names = {step["replaces"]: step["id"] for step in out if "replaces" in step}
    if new_names:
        out = [_bound_anew(step, new_names) for step in out]
    return out


def _bound_anew(step: dict[str, Any], new_names: Mapping[str, str]) -> dict[str, Any]:
    """Return *step* with what it depends on under the new names; one that is taken over is not changed in place."""
    old = step.get("depends_on", [])
    new = [_rebound(dependency, new_names) for dependency in old]
    return step if new == old else {**step, "depends_on": new}


def _rebound(dependency: str | dict[str, Any], new_names: Mapping[str, str]) -> str | dict[str, Any]:
    if isinstance(dependency, dict):
        return {**dependency, "id": new_names.get(dependency["id"], dependency["id"])}
    return new_names.get(dependency, dependency)


def _step(form: Form, value: Any, at: Place) -> dict[str, Any]:
    """Read one step; one without a usable id gets a stand-in that no reference can name."""
    out = read.members(form, value, at, STEP)
    if "id" not in out or "tool" not in out or not _TIED.isdisjoint(value):
        _whole(form, value, out, at)  # else no key excludes or needs another
    if "done_when" in out:
        names = dict.fromkeys(out["produces"], True) if out.get("produces") else None
        _replace(out, "done_when", read.condition(form, out["done_when"], (at, "done_when"), names))
    if "on_failure" in out:
        _replace(out, "on_failure", _skipping(form, out, (at, "on_failure")))
    if "alternatives" in out:
        out["alternatives"] = _completed(form, out, at)
    if "args" in out and not out["args"]:
        del out["args"]
    return out


def _whole(form: Form, value: Any, out: dict[str, Any], at: Place) -> None:
    """See that the step *value*, read as *out*, has an id, and keys that go together."""
    read.missing(form, value, at, "id")
    if "id" not in out:
        written = value.get("id") if type(value) is dict else None
        out["id"] = written if type(written) is str else f"?{refs.pointer(at)}"
    if type(value) is dict:
        given = {key for key, item in value.items() if item is not None and (key, item) not in _NOT_SAID}
        _fit_together(form, given, at)


def _skipping(form: Form, step: Mapping[str, Any], at: Place) -> dict[str, Any] | None:
    """Return what the step decides on failures, if it says anything; only an optional one is skipped."""
    rows: dict[str, Any] = step["on_failure"]
    for signal, row in rows.items():
        if row["decide"] == Decision.SKIP and not step.get("optional"):
            fix = 'say "optional": true, or decide escalate or abort'
            here = (at, signal)
            form.faults.add(here, "skip-needs-optional", "only an optional step may be skipped", fix)
    return rows or None


def _replace(out: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        del out[key]
    else:
        out[key] = value


def _fit_together(form: Form, given: set[str], at: Place) -> None:
    """Note keys of one step that exclude or need each other."""
    add = form.faults.add
    if "plan" in given:
        for key in _NOT_WITH_PLAN:
            if key in given:
                code = "tool-and-plan" if key == "tool" else "not-with-plan"
                fix = "drop one of them" if key == "tool" else f"give {key!r} to the steps of its plan"
                add((at, key), code, f"a step with a plan has no {key!r}", fix)
    elif not given & {"tool", "description"}:
        fix = "give a tool; or a description alone, for the default tool or a person; or a nested plan"
        add(at, "nothing-to-do", "the step has no tool, no description and no plan", fix)
    for key, needed in _NEEDS:
        if key in given and needed not in given:
            add(
                (at, key),
                f"needs-{needed.replace('_', '-')}",
                f"{key!r} means something only with {needed!r}",
                "drop it",
            )


def _completed(form: Form, step: Mapping[str, Any], at: Place) -> list[dict[str, Any]]:
    """Return the alternatives with both tool and args, what one leaves out taken from the step."""
    out = []
    own = {"tool": step.get("tool"), "args": step.get("args", {})}
    for place, alternative in enumerate(step["alternatives"]):
        whole = {**own, **alternative}
        here = ((at, "alternatives"), place)
        if whole["tool"] is None:
            form.faults.add(
                here, "missing-key", "neither the step nor the alternative names a tool", "name one"
            )
            continue
        if whole == own:
            form.faults.add(
                here, "same-call", "the alternative is the step's own call", "give another tool or other args"
            )
        out.append(whole)
    return out


# ── constraints ───────────────────────────────────────────────────────────────────────────────────────────────


def _constraints(form: Form, value: Any, at: Place, names: Mapping[str, bool]) -> list[dict[str, Any]] | None:
    """Read the constraints, now that the products of all steps, *names*, are known."""
    seen: set[str] = set()

    def one(form: Form, value: Any, at: Place) -> dict[str, Any] | None:
        out = read.members(form, value, at, _CONSTRAINT)
        read.missing(form, value, at, "key", "check")
        bind, key = out.pop("bind", None), out.get("key", "")
        if key and key in seen:
            form.faults.add(
                (at, "key"), "duplicate-key", f"the constraint {key!r} is there twice", "choose another key"
            )
        seen.add(key)
        if "check" in out:
            _replace(out, "check", read.condition(form, out["check"], (at, "check"), names, bind))
        return out if {"key", "check"} <= set(out) else None

    return read.each(form, value, at, one)


def _bind(form: Form, value: Any, at: Place) -> dict[str, str] | None:
    if type(value) is not dict:
        form.faults.bad_type(at, value, 'an object such as {"f": "flights"}')
        return None
    return {key: item for key, item in value.items() if read.text(form, item, (at, key))}


def _products(steps: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for step in steps:
        yield from step.get("produces", ())
        yield from _products(step.get("plan", {}).get("steps", ()))


# ── the keys ──────────────────────────────────────────────────────────────────────────────────────────────────

_SEVERITY: Final = read.one_of("stop", "warn")
_ON_ITEM_FAILURE: Final = read.one_of("stop", "collect")
_ESTIMATE: Final[Mapping[str, Reader]] = {
    "tokens": read.whole_number(0, 0),
    "seconds": read.seconds(0, 0),
    "cost": read.amount("0"),
}
_RESERVE: Final[Mapping[str, Reader]] = {
    "tool_calls": read.whole_number(0, 0),
    "tokens": read.whole_number(0, 0),
    "cost": read.amount("0"),
    "active_s": read.seconds(0, 0),
}
_SHARE: Final[Mapping[str, Reader]] = {
    "tool_calls": read.whole_number(0),
    "tokens": read.whole_number(0),
    "cost": read.amount(),
}
"""What a nested plan may have a share of; time and replans are those of the whole run."""
_BUDGETS: Final[Mapping[str, Reader]] = {
    "tool_calls": read.whole_number(0),
    "planner_calls": read.whole_number(0),
    "tokens": read.whole_number(0),
    "cost": read.amount(),
    "active_s": read.seconds(0),
    "local_replans": read.whole_number(0),
    "global_replans": read.whole_number(0),
    "reserve": _reserve,
}
_CONSTRAINT: Final[Mapping[str, Reader]] = {
    "key": read.identifier,
    "value": read.anything,
    "check": read.expression,
    "severity": _SEVERITY,
    "say": read.text,
    "bind": _bind,
}
STEP: Final[Mapping[str, Reader]] = {
    "id": read.identifier,
    "description": read.text,
    "tool": read.name,
    "args": read.arguments,
    "depends_on": _depends_on,
    "join": read.one_of("all", "any", "first"),
    "produces": read.names,
    "done_when": read.expression,
    "when": read.condition,
    "preconditions": lambda form, value, at: read.each(form, value, at, _precondition),
    "requires_confirmation": read.flag,
    "confirm_within_s": read.seconds(1e-6),
    "optional": read.flag,
    "timeout_s": read.seconds(1e-6),
    "replaces": read.identifier,
    "alternatives": lambda form, value, at: read.each(form, value, at, _alternative),
    "on_failure": _on_failure,
    "approvers": read.whole_number(1, 1),
    "estimate": _estimate,
    "for_each": read.whole_reference,
    "max_parallel": read.whole_number(1),
    "on_item_failure": _share,
    "plan": _plan,
    "budgets": lambda form, value, at: read.members(form, value, at, _SHARE) or None,
}
"""Every key of a step."""
_TOP: Final[Mapping[str, Reader]] = {
    "goal": read.text,
    "inputs": read.json_object,
    "constraints": read.anything,
    "budgets": budgets,
    "steps": _steps,
    "plan_version": read.ignored(read.whole_number(0)),
    "analysis": read.ignored(read.text),
    "strategy": read.ignored(read.text),
}
