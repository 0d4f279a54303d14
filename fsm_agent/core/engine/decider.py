"""The decision layer alone, for people who keep their own loop: what they saw goes in, what to do comes out.

It is not a second engine. What a caller saw is brought through the same machines as events of a real
:class:`~fsm_agent.core.engine.state.Run`, by the functions that the engine uses itself (the door's record of a start, the
outcome that moves the facts, the table that fires): so counters, streaks, stalls, breakers and replans cannot differ,
and the log passes the same audit.

What the log says of a caller's loop, and why it is true. The plan holds one step per declared task, with the tool that
the caller last named for it; arguments stand in the record of each start. A task that is seen again starts again,
which the caller decided; where a person was asked before, or the task was done, that is a new attempt series, in the
caller's name. A delay that was given is taken as waited for, and a call that was seen to end had a start. A plan that
was asked for is taken as drawn when its task is seen again, and not before what is unknown is settled. What is
irreversible carries the caller's own approval. The run ends by an abort alone.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from fsm_agent.core.engine import breaker, ending, outcomes, people, wishes
from fsm_agent.core.engine.decide import decide
from fsm_agent.core.engine.door import (
    approval_digest,
    args_digest,
    ask_approval,
    effect_before,
    needs_approval,
    refuse,
    start,
)
from fsm_agent.core.engine.policy import escalate, fire
from fsm_agent.core.engine.state import RUN, Run, Task
from fsm_agent.core.engine.turn import Turn
from fsm_agent.core.errors import RefusedError
from fsm_agent.core.events import Event
from fsm_agent.core.inputs import (
    Answer,
    Approve,
    Create,
    Env,
    Outcome,
    Person,
    Probed,
    Progressed,
    ReconcileAs,
    Reject,
    Resume,
    RetryTask,
    Returned,
)
from fsm_agent.core.machine import FINAL_RUN_STATES, WRITES, TaskState
from fsm_agent.core.plans import planning
from fsm_agent.core.plans.plan import Plan
from fsm_agent.core.signals import HOME, Applied, Effect, Signal
from fsm_agent.core.tools import ToolSpec

CALLER: Final = Person(by="caller", channel="decider")
"""Whose word it is that a loop goes on."""

_OF_RUN: Final = frozenset(HOME["run", "running"])
_AT_THE_DOOR: Final = frozenset(
    {
        Signal.PRECONDITION_VIOLATED,
        Signal.UNRESOLVED_REFERENCE,
        Signal.UNDECLARED_TOOL,
        Signal.BLOCKED_DEPENDENCY,
    }
)
_OPEN: Final = frozenset({TaskState.UNKNOWN, TaskState.RUNNING})
"""States of tasks that an abort waits for."""
_VERDICTS: Final = {
    Signal.RECONCILED_APPLIED: "applied",
    Signal.RECONCILED_ABSENT: "absent",
    Signal.RECONCILE_INCONCLUSIVE: "inconclusive",
}


@attrs.frozen(kw_only=True)
class Seen:
    """What a caller saw of one call, or of the run as a whole.

    Attributes:
        task: The task; ignored for signals of the run.
        signal: What happened.
        outcome: How the call ended, for signals that a call ends with.
        tool: Its tool; None for the one that the task had before.
        args: Its arguments.
        words: What is known in words; evidence where the signal is a finding.
        result: Of an effect that was found.
        named: The signal was named by the caller, not read from an exception: some names say that the call was
            never sent.
    """

    task: str
    signal: Signal
    outcome: Outcome
    tool: str | None = None
    args: Mapping[str, Any] = attrs.field(factory=dict)
    words: str = ""
    result: Any = None
    named: bool = True


def opening(run: Run, given: Create, env: Env) -> tuple[Event, ...]:
    """Return the events with which the log of a decider begins. Its plan's steps name their tools."""
    return decide(run, given, attrs.evolve(env, slots=0))


def observe(run: Run, given: Seen, env: Env) -> tuple[Event, ...]:
    """Return the events that what was seen causes, at least one decision among them.

    Pure, like :func:`fsm_agent.core.engine.decide.decide`: append them, then apply each.

    Raises:
        RefusedError: It does not fit what is known of the task; the message says what would.
    """
    return _tentative(run, env, lambda turn: _observe(turn, given))


def report(run: Run, given: Seen, advanced: bool, env: Env) -> tuple[Event, ...]:
    """Return the events of a report from a call that goes on; a decision is among them if it has stalled.

    Raises:
        RefusedError: As :func:`observe`.
    """

    def make(turn: Turn) -> None:
        task = _ready_task(turn, given.task)
        _running(turn, task, given, goes_on=True)
        word = Progressed(task=task.id, attempt=task.attempt, advanced=advanced, note=given.words)
        outcomes.progressed(turn, word)

    return _tentative(run, env, make)


def before_call(run: Run, given: Seen, env: Env) -> tuple[Event, ...]:
    """Return nothing if the call may be made, or the events of its refusal by the tool's circuit breaker.

    Raises:
        RefusedError: As :func:`observe`.
    """

    def make(turn: Turn) -> None:
        task = _ready_task(turn, given.task)
        tool = given.tool if given.tool is not None else run.tool_of(task.step) or ""
        why = breaker.refusal(run.breaker_of(tool), tool, max(turn.now, task.not_before))
        if why:
            _pending(turn, task)
            _call_of(turn, task, given)
            refuse(turn, task, Signal.BLOCKED_DEPENDENCY, why)

    return _tentative(run, env, make)


def resume(run: Run, env: Env) -> tuple[Event, ...]:
    """Return the events of going on after an abort; nothing done is run again.

    Raises:
        RefusedError: The run was not aborted.
    """
    return _tentative(run, env, lambda turn: wishes.resume(turn, Resume(who=CALLER)), closed=True)


def add(run: Run, task: str, tool: str, env: Env) -> tuple[Event, ...]:
    """Return the events of a task that is declared later.

    Raises:
        RefusedError: There is one of this name.
        PlanError: No step can have this name.
    """
    if task in run.tasks:
        raise RefusedError(f"task {task}: it is declared already; observe it", task=task)
    return _tentative(run, env, lambda turn: _amend(turn, task, tool))


def taken_over(run: Run, epoch: int, owner: str, env: Env) -> tuple[Event, ...]:
    """Return the event of another owner; what the caller has out is still the caller's."""
    run.begin()
    try:
        turn = Turn(run, env)
        turn.emit("owner_changed", {"epoch": epoch, "owner": owner}, None, {"kind": "recovery", "id": owner})
        return tuple(turn.events)
    finally:
        run.rollback()


def forget_timers(run: Run) -> None:
    """Empty the indexes over what starts or falls due by itself: here nothing does, so nobody would take from them."""
    run.ready_heap.clear()
    run.doomed.clear()
    run.timers.clear()


def _tentative(
    run: Run, env: Env, make: Callable[[Turn], None], *, closed: bool = False
) -> tuple[Event, ...]:
    """Make a turn, with whatever the decision asks of the caller, and leave *run* as it was."""
    if run.state in FINAL_RUN_STATES and not closed:
        raise RefusedError(
            f"run {run.id}: it was aborted, and decides nothing more; resume it to go on", code="E-CLOSED"
        )
    run.begin()
    try:
        turn = Turn(run, attrs.evolve(env, slots=0))
        make(turn)
        _ask_instead(turn)
        _end(turn)
        return tuple(turn.events)
    finally:
        run.rollback()


# ── what was seen ─────────────────────────────────────────────────────────────────────────────────────────────


def _observe(turn: Turn, given: Seen) -> None:
    run, signal = turn.run, given.signal
    if signal in _OF_RUN:
        about = _plan_rejected(turn, given) if signal is Signal.PLAN_REJECTED else None
        fire(turn, None, signal, because=given.words, about=about)
        return
    if signal in _VERDICTS:
        _looked_up(turn, _task(run, given.task), given)
        return
    task = _ready_task(turn, given.task)
    if signal in (Signal.REJECTED, Signal.APPROVAL_EXPIRED):
        _answered(turn, task, given)
    elif task.state is TaskState.UNKNOWN:
        _late(turn, task, given)
    elif given.named and signal in _AT_THE_DOOR and task.state is not TaskState.RUNNING:
        _pending(turn, task)
        _call_of(turn, task, given)
        refuse(turn, task, signal, given.words or f"the caller says {signal.value}")
    else:
        _running(turn, task, given)
        _fits(task, signal)
        if signal is Signal.PROGRESS_STALL:
            word = Progressed(task=task.id, attempt=task.attempt, advanced=False, note=given.words)
            outcomes.progressed(turn, word)
        if task.state is TaskState.RUNNING:
            outcomes.ended(turn, task, given.outcome)


def _plan_rejected(turn: Turn, given: Seen) -> Task | None:
    """A plan that was drawn for a replan cannot be used; return the task that it was drawn for."""
    run = turn.run
    name = given.task if given.task in run.replans else next(iter(run.replans), "")
    if not name:
        raise RefusedError("run: no new plan was asked for, so none can be rejected", code="E-PROPOSAL")
    request = run.replans[name]
    turn.emit("planner_asked", {"request": request.seq, "scope": request.scope}, request.task)
    words = given.words or "the caller refused it"
    turn.emit("replan_refused", {"gate": "caller", "why": words, "request": request.seq}, request.task)
    return run.tasks.get(name)


def _looked_up(turn: Turn, task: Task, given: Seen) -> None:
    """A look-up found something out: by a probe that the table asked for, or by whoever was asked then."""
    verdict = _VERDICTS[given.signal]
    words = given.words or f"the caller says {verdict}"
    if task.state is TaskState.UNKNOWN and task.probe_at:
        _wait_until(turn, task.probe_at)
        data = {"attempt": task.attempt, "repeat": False, "deadline_at": turn.now}
        turn.emit("probe_sent", data, task.id)
        word = Probed(
            task=task.id, attempt=task.attempt, verdict=verdict, result=given.result, evidence=words
        )
        outcomes.probed(turn, word)
    elif verdict == "inconclusive" and task.state is TaskState.UNKNOWN:
        outcomes.inconclusive(turn, task, words, by=CALLER.by)
    else:
        person = ReconcileAs(task=task.id, verdict=verdict, evidence=words, result=given.result, who=CALLER)
        people.reconcile_as(turn, person)


def _late(turn: Turn, task: Task, given: Seen) -> None:
    """The answer of a call whose result was given up as unknown."""
    outcomes.returned(turn, Returned(task=task.id, attempt=task.attempt, outcome=given.outcome))
    if not any(e.type == "decided" for e in turn.events):
        raise RefusedError(
            f"task {task.id}: its result is unknown, and {given.signal.value} does not settle that; observe "
            "reconciled_applied, reconciled_absent or reconcile_inconclusive once it was looked up",
            task=task.id,
            code="E-UNKNOWN",
        )


def _answered(turn: Turn, task: Task, given: Seen) -> None:
    """A person said no before the call, or nobody said anything."""
    _pending(turn, task)
    spec, args = _call_of(turn, task, given)
    expired = given.signal is Signal.APPROVAL_EXPIRED
    digest = approval_digest(turn.run, task, spec, args)
    ask_approval(turn, task, spec, args, digest, within_us=0 if expired else None)
    if expired:
        people.expire(turn, task.id)
    else:
        people.reject(turn, Reject(task=task.id, who=attrs.evolve(CALLER, note=given.words)))


# ── bringing a task to where the signal is at home ────────────────────────────────────────────────────────────


def _task(run: Run, name: str) -> Task:
    return outcomes.task_named(run, name)


def _ready_task(turn: Turn, name: str) -> Task:
    """Return a task of a run in which calls may be made."""
    task = _task(turn.run, name)
    if turn.run.wish != "none" and task.state not in _OPEN:
        left = ", ".join(t.id for t in turn.run.tasks.values() if t.state in _OPEN)
        raise RefusedError(f"task {name}: the run is being aborted, and waits only for {left}", task=name)
    _go_on(turn)
    return task


def _go_on(turn: Turn) -> None:
    """Whoever was asked about the run as a whole has let the loop go on."""
    if RUN in turn.run.questions:
        people.answer(turn, Answer(task=RUN, value={"decide": "continue"}, who=CALLER))
    if RUN in turn.run.replans and not turn.run.counts[TaskState.UNKNOWN]:
        _planned(turn, RUN)


def _pending(turn: Turn, task: Task) -> None:
    """Bring *task* to where a call of it can start."""
    run = turn.run
    if task.state is TaskState.FAILED and task.id in run.questions:
        people.retry(turn, RetryTask(task=task.id, who=CALLER))
    elif task.state is TaskState.FAILED:
        _planned(turn, task.id)
    elif task.state is TaskState.DONE:
        if task.effect in WRITES:
            raise RefusedError(
                f"task {task.id}: it is done, and a {task.effect} is never run again; give the next one a name of "
                "its own",
                task=task.id,
                code="E-APPLIED",
            )
        turn.move(task, "invalidate", {"reason": "the caller runs it again"})
    elif task.state is not TaskState.PENDING:
        found = {
            TaskState.CANCELLED: "it was rejected or skipped",
            TaskState.UNKNOWN: "its result is unknown",
        }
        raise RefusedError(
            f"task {task.id}: {found.get(task.state, 'its call is under way')}, so no call of it can start",
            task=task.id,
        )
    _wait_until(turn, task.not_before)


def _wait_until(turn: Turn, at: int) -> None:
    """A delay that was given is taken as waited for."""
    if at > turn.now:
        turn.env = attrs.evolve(turn.env, now_us=at)


def _planned(turn: Turn, name: str) -> None:
    """The plan that was asked for by the replan called *name* is drawn, or the caller would not go on."""
    run = turn.run
    assert run.plan is not None, "a decider begins with a plan"
    unknown = [t.id for t in run.tasks.values() if t.state is TaskState.UNKNOWN]
    if unknown:
        raise RefusedError(
            f"task {name}: its new plan waits until it is known what became of {', '.join(unknown)}; observe "
            "what the look-up found",
            task=name,
            code="E-UNKNOWN",
        )
    request = run.replans[name]
    _wait_until(turn, request.not_before)
    turn.emit("planner_asked", {"request": request.seq, "scope": request.scope}, request.task)
    _adopt(turn, run.plan, scope=request.scope, why=request.why, answers=name)
    version = run.plan_version
    for task in run.tasks.values():
        own = task.id == name or (task.effect not in WRITES and task.id not in run.replans)
        if task.state is TaskState.FAILED and own:
            turn.move(task, "retry", {"delay_ms": 1, "series": True, "reason": f"plan {version}"})


def _amend(turn: Turn, name: str, tool: str) -> None:
    """The plan has the step *name* with this tool, and is otherwise the same."""
    run = turn.run
    assert run.plan is not None, "a decider begins with a plan"
    step = {"id": name, "tool": tool}
    steps = [step if s["id"] == name else s for s in run.plan.doc["steps"]]
    if name not in run.tasks:
        steps.append(step)
    plan: Plan = planning.load({**run.plan.doc, "steps": steps})
    _adopt(turn, plan, scope="local", why=f"the caller calls {tool} for {name}", changed=name)


def _adopt(turn: Turn, plan: Plan, *, why: str, changed: str = "", **more: Any) -> None:
    run = turn.run
    new = bool(changed) and changed not in run.tasks
    found = {
        "kept": [s.id for s in plan.steps if s.id != changed],
        "changed": [changed] if changed and not new else [],
        "added": [changed] if new else [],
        "removed": [],
    }
    turn.emit(
        "plan_adopted",
        {
            "plan_version": run.plan_version + 1,
            "plan": dict(plan.doc),
            "digest": plan.digest,
            "origin": "caller",
            "why": why,
            "diff": found,
            "explanation": "the caller's own plan",
            **more,
        },
    )


def _call_of(turn: Turn, task: Task, given: Seen) -> tuple[ToolSpec, dict[str, Any]]:
    """Return tool and arguments of the task's next call; another tool than before is a change of the plan."""
    run = turn.run
    planned = run.tool_of(task.step) or ""
    tool = planned if given.tool is None else given.tool
    if tool != planned:
        _amend(turn, task.id, tool)
    return run.tools[tool], dict(given.args)


def _running(turn: Turn, task: Task, given: Seen, *, goes_on: bool = False) -> None:
    """Bring *task* to running: the call that was seen had a start.

    Args:
        turn: The turn.
        task: The task.
        given: What was seen.
        goes_on: The call goes on; else it has ended, and nobody waits for it any more.
    """
    if task.state is TaskState.RUNNING:
        return
    run = turn.run
    _pending(turn, task)
    spec, args = _call_of(turn, task, given)
    digest = args_digest(spec, args)
    key = run.key_of(task, digest)
    why = effect_before(run, task, spec, key)
    if why:
        raise RefusedError(f"task {task.id}: {why}; give the next write a name of its own", task=task.id)
    approval = None
    if needs_approval(task, spec):
        yes = approval_digest(run, task, spec, args)
        ask_approval(turn, task, spec, args, yes)
        people.approve(turn, Approve(task=task.id, digest=yes, who=CALLER))
        assert task.armed is not None, "one yes suffices"
        approval = task.armed.seq
    waits = spec.timeout_us if goes_on else 1
    start(turn, task, spec, args, (digest, key), deadline_at=turn.now + waits, approval=approval)


def _fits(task: Task, signal: Signal) -> None:
    """Refuse signals that a call of this effect class cannot end with."""
    if task.effect == Effect.READ and signal is Signal.OUTCOME_UNKNOWN:
        found = "a read has no effect that could be unknown; observe transient_error"
    elif task.effect != Effect.READ and signal is Signal.PROGRESS_STALL:
        found = f"a {task.effect} that stalls is awaited; report its progress, and observe how it ends"
    else:
        return
    raise RefusedError(f"task {task.id}: {found}", task=task.id)


# ── what a decision asks of the caller ────────────────────────────────────────────────────────────────────────


def _ask_instead(turn: Turn) -> None:
    """Where nobody plans, a replan is put to a person."""
    run = turn.run
    for request in [] if run.has_planner else list(run.replans.values()):
        why = "the caller draws no plans"
        data = {"gate": "nobody", "why": why, "request": request.seq, "ended": True}
        turn.emit("replan_refused", data, request.task)
        task = run.tasks[request.task] if request.task is not None else None
        escalate(turn, task, Signal(request.signal), f"{why}: {request.why}")


def _end(turn: Turn) -> None:
    """An abort that was decided ends the run, once nothing is unknown."""
    run = turn.run
    if run.wish != "abort":
        return
    ending.drain(turn)
    if not run.running and not run.unacknowledged():
        turn.move_run("abort", f"abort was decided (event {run.wish_by})", acknowledged=[])
        ending.close(turn)


def outcome_of(signal: Signal, effect: Effect, applied: Applied | None, error: Mapping[str, Any]) -> Outcome:
    """Return the outcome of a call that a caller names by its signal.

    Args:
        signal: ``success``, or a signal of a failure.
        effect: Of the tool.
        applied: What is proved about the effect; None for nothing, which for anything but a read is ``maybe``.
        error: What an event records of it.
    """
    if signal is Signal.SUCCESS:
        return Outcome(kind="value", applied=Applied.YES)
    known = applied if applied is not None else Applied.NO if effect is Effect.READ else Applied.MAYBE
    if signal is Signal.OUTCOME_UNKNOWN:
        return Outcome(kind="timeout", signal=Signal.TRANSIENT_ERROR, applied=Applied.MAYBE, error=error)
    kind = "lost" if signal in (Signal.INTERRUPTED, Signal.PROGRESS_STALL) else "error"
    return Outcome(kind=kind, signal=signal, applied=known, error=error)
