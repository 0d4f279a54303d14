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
from fsm_agent.core.engine.arguments import (
    approval_digest,
)
from fsm_agent.core.engine.caller import (
    CALLER,
    Seen,
    amend,
    bring_to_pending,
    bring_to_running,
    call_of,
    check_end,
    ready_task,
    wait_until,
)
from fsm_agent.core.engine.decide import decide
from fsm_agent.core.engine.door import (
    ask_approval,
)
from fsm_agent.core.engine.failing import refuse
from fsm_agent.core.engine.policy import escalate, fire
from fsm_agent.core.engine.records import Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.engine.turn import Turn
from fsm_agent.core.errors import RefusedError
from fsm_agent.core.events import Event
from fsm_agent.core.inputs import (
    Create,
    Env,
    Outcome,
    Probed,
    Progressed,
    ReconcileAs,
    Reject,
    Resume,
    Returned,
)
from fsm_agent.core.machine import FINAL_RUN_STATES, TaskState
from fsm_agent.core.signals import HOME, Applied, Effect, Signal

_OF_RUN: Final = frozenset(HOME["run", "running"])
_AT_THE_DOOR: Final = frozenset(
    {
        Signal.PRECONDITION_VIOLATED,
        Signal.UNRESOLVED_REFERENCE,
        Signal.UNDECLARED_TOOL,
        Signal.BLOCKED_DEPENDENCY,
    }
)
_VERDICTS: Final = {
    Signal.RECONCILED_APPLIED: "applied",
    Signal.RECONCILED_ABSENT: "absent",
    Signal.RECONCILE_INCONCLUSIVE: "inconclusive",
}


def opening(run: Run, given: Create, env: Env) -> tuple[Event, ...]:
    """Return the events with which the log of a decider begins. Its plan's steps name their tools."""
    return decide(run, given, env._replace(slots=0))


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
        task = ready_task(turn, given.task)
        bring_to_running(turn, task, given, goes_on=True)
        word = Progressed(task=task.id, attempt=task.attempt, advanced=advanced, note=given.words)
        outcomes.progressed(turn, word)

    return _tentative(run, env, make)


def before_call(run: Run, given: Seen, env: Env) -> tuple[Event, ...]:
    """Return nothing if the call may be made, or the events of its refusal by the tool's circuit breaker.

    Raises:
        RefusedError: As :func:`observe`.
    """

    def make(turn: Turn) -> None:
        task = ready_task(turn, given.task)
        tool = given.tool if given.tool is not None else run.tool_of(task.step) or ""
        why = breaker.refusal(run.breaker_of(tool), tool, max(turn.now, task.not_before))
        if why:
            bring_to_pending(turn, task)
            call_of(turn, task, given)
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
    return _tentative(run, env, lambda turn: amend(turn, task, tool))


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
        turn = Turn(run, env._replace(slots=0))
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
        _looked_up(turn, outcomes.task_named(run, given.task), given)
        return
    task = ready_task(turn, given.task)
    if signal in (Signal.REJECTED, Signal.APPROVAL_EXPIRED):
        _answered(turn, task, given)
    elif task.state is TaskState.UNKNOWN:
        _late(turn, task, given)
    elif given.named and signal in _AT_THE_DOOR and task.state is not TaskState.RUNNING:
        bring_to_pending(turn, task)
        call_of(turn, task, given)
        refuse(turn, task, signal, given.words or f"the caller says {signal.value}")
    else:
        bring_to_running(turn, task, given)
        check_end(task, signal)
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
        wait_until(turn, task.probe_at)
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
    bring_to_pending(turn, task)
    spec, args = call_of(turn, task, given)
    expired = given.signal is Signal.APPROVAL_EXPIRED
    digest = approval_digest(turn.run, task, spec, args)
    ask_approval(turn, task, spec, args, digest, within_us=0 if expired else None)
    if expired:
        people.expire(turn, task.id)
    else:
        people.reject(turn, Reject(task=task.id, who=attrs.evolve(CALLER, note=given.words)))


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
