"""Checks of calls (E): each passed the door as it was, has its key, was never made twice, and ends as its evidence says."""

from collections.abc import Mapping
from typing import Any, Final

from fsm_agent.core.audit.check import Check, Said, check
from fsm_agent.core.audit.checker import Checker, by_person
from fsm_agent.core.engine import arguments, breaker, budget, derived
from fsm_agent.core.engine.policy import settle_us
from fsm_agent.core.engine.records import Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import UnresolvedReferenceError
from fsm_agent.core.events import Event
from fsm_agent.core.inputs import NO_USAGE
from fsm_agent.core.language.expr import Expr
from fsm_agent.core.machine import RunState, TaskState
from fsm_agent.core.plans import members
from fsm_agent.core.tools import argument_faults

_NOT_PEOPLE: Final = ("probe", "door", "recovery")
_CALLER: Final = "caller"


# ── the door ──────────────────────────────────────────────────────────────────────────────────────────────────


def run_lets_it_start(log: Checker, event: Event) -> Said:
    """A call goes out only while the run is running, nobody wishes it to stop, and no question about all of it is open."""
    run, name = log.run, event.task
    if run.state is not RunState.RUNNING or run.wish != "none":
        return f"{name} starts while the run is {run.state.value} with wish {run.wish}"
    if run.barred:
        return f"{name} starts while a question about the whole run is open, or a broken constraint awaits another plan"
    return ""


def dependencies_let_it(log: Checker, event: Event) -> Said:
    """A task starts, or asks a person, when the steps that it depends on are done."""
    del event
    task = log.task
    return "" if task.ready else f"{task.id} starts although its dependencies do not let it"


def back_off_is_over(log: Checker, event: Event) -> Said:
    """A task starts again when its delay is over, and not before."""
    early = log.task.not_before - event.at
    return "" if early <= 0 else f"{event.task} starts {early / 1e6:g} s before its delay is over"


def breaker_is_closed(log: Checker, event: Event) -> Said:
    """No call goes out to a tool whose circuit breaker is open."""
    run, tool = log.run, event.data["tool"]
    if not run.breakers or log.by_caller:  # who keeps a loop of their own is told, and may call all the same
        return ""
    return breaker.refusal(run.breaker_of(tool), tool, event.at)


def call_of_the_plan(log: Checker, event: Event) -> Said:
    """A call is of the tool that the plan in force names, with the effect class that the registry declares."""
    run, task, data = log.run, log.task, event.data
    spec = log.run.tools.get(event.data["tool"])
    if spec is None or spec.effect != data["effect"]:
        return f"{task.id} starts {data['tool']} as {data['effect']}; the registry knows it otherwise"
    if not run.plans(task):
        return f"{task.id} starts, and the plan in force does without it"
    planned = run.tool_of(task.step)
    return "" if data["tool"] == planned else f"{task.id} starts {data['tool']}; the plan says {planned}"


def arguments_of_the_plan(log: Checker, event: Event) -> Said:
    """A call has the arguments that the plan resolves to, or those that a person made of exactly these."""
    run, task, spec = log.run, log.task, log.run.tools.get(event.data["tool"])
    if spec is None or log.by_caller:
        return None
    planned = _planned(run, task)
    if planned is None:
        return f"{task.id} starts, and a reference in its arguments has no value"
    right = arguments.edited(run, task, spec, planned)
    if event.data["args"] != right:
        return f"{task.id} starts with other arguments than the plan resolves to"
    digest = arguments.args_digest(spec, planned) if right is not planned else ""
    return (
        ""
        if event.data.get("planned_digest", "") == digest
        else f"{task.id}: the digest of what was planned is wrong"
    )


def _planned(run: Run, task: Task) -> dict[str, Any] | None:
    try:
        return arguments.resolve(run, task, run.tool_of(task.step))
    except UnresolvedReferenceError:
        return None


def arguments_fit_the_tool(log: Checker, event: Event) -> Said:
    """A call has the arguments that its tool declares."""
    spec = log.run.tools.get(event.data["tool"])
    return None if spec is None else "; ".join(argument_faults(spec, event.data["args"]))


def digest_and_key(log: Checker, event: Event) -> Said:
    """The digest of a call is that of tool and arguments; its key is that of run, step and digest, so it never changes."""
    spec, data, task = log.run.tools.get(event.data["tool"]), event.data, log.task
    if spec is None:
        return None
    digest = arguments.args_digest(spec, data["args"])
    if digest != data["args_digest"]:
        return f"{task.id}: the arguments are not those that their digest names"
    return (
        "" if log.run.key_of(task, digest) == data["key"] else f"{task.id}: the key is not that of this call"
    )


def never_twice(log: Checker, event: Event) -> Said:
    """No write is started while an effect under its key is, or may be, there."""
    spec = log.run.tools.get(event.data["tool"])
    if spec is None:
        return None
    why = arguments.effect_before(log.run, log.task, spec, event.data["key"])
    return f"{event.task} starts a {spec.effect.value}: {why}" if why else ""


def deadline_of_the_tool(log: Checker, event: Event) -> Said:
    """A call is waited for as long as its step, or else its tool, says; in a loop that somebody else keeps, as that says."""
    spec, step = log.run.tools.get(event.data["tool"]), log.task.step
    if spec is None or log.by_caller:
        return None
    right = event.at + (spec.timeout_us if step.timeout_us is None else step.timeout_us)
    apart = (event.data["deadline_at"] - right) / 1e6
    return "" if not apart else f"the deadline of {event.task} lies {apart:+g} s from where it must"


def within_budget(log: Checker, event: Event) -> Said:
    """No call and no probe goes out that the budgets do not allow; what it reserves is what it is expected to use."""
    run, data = log.run, event.data
    wanted = NO_USAGE
    if event.type == "task_moved":
        step, said = log.task.step, data.get("reserve")
        if said is not None or step.estimate is not None or run.account.by_tool:
            wanted = budget.estimate(run, step, data["tool"])
            if said != {"tokens": wanted.tokens, "cost_micros": wanted.cost_micros} and (
                said or wanted != NO_USAGE
            ):
                return f"{event.task} reserves {said}; it is expected to use {wanted}"
    if not log.task.parent and not run.limited:
        return None
    why = budget.lacking(run, log.task, wanted)
    return f"{event.task}: {why}" if why else ""


def conditions_hold(log: Checker, event: Event) -> Said:
    """A task starts, or asks a person, when its condition and the preconditions that stop it are true."""
    run, step, data = log.run, log.task.step, event.data
    if step.when is None and not step.preconditions:
        return None
    if step.when is not None and _verdict(run, step.when, event.task) is not True:
        return f"{event.task} moves on, and its condition `{step.when.text}` is not true"
    args = data["args"] if "args" in data else _planned(run, log.task) or {}
    if "args" not in data and log.task.armed is not None:
        return ""  # with arguments that a person changed; the request that follows shows them
    for condition in step.preconditions:
        if (
            condition.severity == "stop"
            and _verdict(run, condition.check, event.task, {"args": args}) is not True
        ):
            return f"{event.task} moves on, and its precondition `{condition.check.text}` is not true"
    return ""


def given_up_for_its_condition(log: Checker, event: Event) -> Said:
    """A task is given up for its condition only if that is false."""
    when, data = members.condition(log.task.step), event.data
    if data["code"] != "condition" or data.get("origin") or when is None:
        return None
    false = _verdict(log.run, when, event.task) is False
    return "" if false else f"{event.task} is given up, and its condition `{when.text}` is not false"


def _verdict(run: Run, check_: Expr, task: str | None, more: Mapping[str, Any] | None = None) -> bool | None:
    scope = {**arguments.scope_of(run, check_.roots, at=task or ""), **(more or {})}
    value = check_.evaluate(scope).value
    return value if isinstance(value, bool) else None


def plain_start(log: Checker, event: Event) -> bool:
    """Whether a start is one that cites no approval, of a step outside of batches, without conditions and budgets."""
    run, task, data = log.run, log.task, event.data
    step = task.step
    return not (
        "approval" in data
        or "reserve" in data
        or run.limited
        or run.account.by_tool
        or task.parent
        or step.when is not None
        or step.preconditions
        or step.estimate is not None
    )


# ── how calls end ─────────────────────────────────────────────────────────────────────────────────────────────


def success_is_verified(log: Checker, event: Event) -> Said:
    """A call has succeeded only if what it returned makes ``done_when`` true, and failed by it only if it does not."""
    task, data = log.task, event.data
    done_when = task.step.done_when
    outcome = data.get("outcome", {})
    if done_when is None or outcome.get("kind") != "value":
        return None
    true = derived.verify(log.run, task, outcome.get("value"))[0] is None
    if true == (data["trigger"] == "succeed"):
        return ""
    return f"`{done_when.text}` is {'' if true else 'not '}true of what {task.id} returned, and it moves by {data['trigger']}"


def outcome_signal(log: Checker, event: Event) -> Said:
    """What failed or was lost names the signal of its outcome."""
    del log
    data, outcome = event.data, event.data["outcome"]
    if data["trigger"] == "lose":
        lost = "interrupted" if outcome["kind"] == "lost" else "outcome_unknown"
        return "" if data["signal"] == lost else f"a lost call signals {data['signal']}; it must be {lost}"
    said = outcome.get("signal") or (None if outcome["kind"] == "value" else "unclassified_error")
    if said is None:
        fits = data["signal"] in ("validation_failed", "unverified")
        return "" if fits else f"a returned value signals {data['signal']}"
    return "" if data["signal"] == said else f"the outcome says {said}, and {data['signal']} is signalled"


def probe_in_time(log: Checker, event: Event) -> Said:
    """A probe asks about an unknown result, one at a time, and not before its effect must be visible."""
    task = log.task
    if task.state is not TaskState.UNKNOWN or task.probing:
        return f"{task.id} is {task.state.value}; there is nothing to ask, or a probe is out"
    early = task.deadline_at + settle_us(log.run, task) - event.at
    if early > 0:
        return f"{task.id} is asked about {early / 1e6:g} s before its effect must be visible"
    if event.data["repeat"] and log.run.wish != "none":
        return f"{task.id} is sent again although the run is asked to {log.run.wish}"
    return ""


def probe_of_the_attempt(log: Checker, event: Event) -> Said:
    """A probe, and a verdict, is about the last attempt; a tool that has a probe is asked by it, another by its key."""
    task, data = log.task, event.data
    if data["attempt"] != task.attempt:
        return f"{task.id}: attempt {data['attempt']} is asked about; it is attempt {task.attempt}"
    if event.type == "probe_sent":
        spec = log.run.spec_of(task)
        has = spec is not None and spec.reconcile
        return (
            ""
            if data["repeat"] != has
            else f"{task.id}: the call is sent again although its tool has a probe"
        )
    return ""


def verdict_has_a_source(log: Checker, event: Event) -> Said:
    """A verdict on an unknown result has words, and comes from a probe that is out, or from a person."""
    task, data = log.task, event.data
    by = data["by"]
    if not data["evidence"]:
        return f"a verdict on {task.id} without words"
    if by == "probe" and not task.probing:
        return f"a probe of {task.id} answers, and none is out"
    if by in _NOT_PEOPLE:
        sure = data["verdict"] != "inconclusive" and by != "probe"
        return f"{by} cannot know what became of {task.id}" if sure else ""
    if by == _CALLER and log.by_caller:
        return ""
    named = by_person(event) and (event.actor or {}).get("id") == by
    return "" if named else f"{by!r} gives a verdict on {task.id}, and is not its author"


def late_result_of_a_call(log: Checker, event: Event) -> Said:
    """A late result is of an attempt that was made and is not running any more."""
    task, attempt = log.task, event.data["attempt"]
    running = task.state is TaskState.RUNNING and attempt == task.attempt
    fits = not running and 1 <= attempt <= task.attempt
    return "" if fits else f"a late result of attempt {attempt} of {task.id}, which is none"


CALLS: Final[tuple[Check, ...]] = (
    check("E6", run_lets_it_start, "task:start"),
    check("C5", dependencies_let_it, "task:start", "task:hold"),
    check("D5", back_off_is_over, "task:start"),
    check("E8", breaker_is_closed, "task:start"),
    check("E4", call_of_the_plan, "task:start"),
    check("E4", arguments_of_the_plan, "task:start"),
    check("E4", arguments_fit_the_tool, "task:start"),
    check("E3", digest_and_key, "task:start"),
    check("E2", never_twice, "task:start"),
    check("D5", deadline_of_the_tool, "task:start"),
    check("D4", within_budget, "task:start", "probe_sent"),
    check("E8", conditions_hold, "task:start", "task:hold"),
    check("E8", given_up_for_its_condition, "task:cancel"),
    check("E8", success_is_verified, "task:succeed", "task:fail"),
    check("D2", outcome_signal, "task:fail", "task:lose"),
    check("D5", probe_in_time, "probe_sent"),
    check("B3", probe_of_the_attempt, "probe_sent", "reconciled"),
    check("E5", verdict_has_a_source, "reconciled"),
    check("E5", late_result_of_a_call, "late_result"),
)
"""Checks of calls, probes and replies."""
