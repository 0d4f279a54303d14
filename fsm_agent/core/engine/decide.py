"""The core handles one input at a time: ``decide(run, input, env) → events``.

Facts move first, then the table fires, then the decision moves the machines on, then everything that can start
starts: one input, one atomic batch. What the shell must do then is derived from the events (:func:`commands`), so
the loop around the core can be replaced.

Two ways to use it. :func:`decide` changes nothing: append its events, then :func:`apply` each. :func:`advance`
leaves the run as its events say, which saves applying them again; whoever uses it throws the run away if the
append fails.
"""

from collections.abc import Iterable
from typing import Any, assert_never

from fsm_agent.core import canon
from fsm_agent.core.engine import budget, people, spoken, wishes
from fsm_agent.core.engine.ending import hold_against_constraints, proceed
from fsm_agent.core.engine.fold import apply
from fsm_agent.core.engine.outcomes import ended, inconclusive, probed, progressed, returned
from fsm_agent.core.engine.policy import no_probe, settle_us
from fsm_agent.core.engine.records import RUN, Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.engine.turn import Turn
from fsm_agent.core.events import Event
from fsm_agent.core.inputs import (
    Answer,
    Approve,
    Ask,
    AskPlanner,
    Call,
    Command,
    Create,
    Edit,
    Env,
    Input,
    Note,
    Outcome,
    Probe,
    Probed,
    Progressed,
    Proposed,
    ReconcileAs,
    Reject,
    Replan,
    Resume,
    RetryTask,
    Returned,
    SetInputs,
    StopCall,
    TakeOver,
    Tick,
    Usage,
    Word,
)
from fsm_agent.core.machine import MACHINES_DIGEST
from fsm_agent.core.plans.members import walk
from fsm_agent.core.replanning import repairing, replanning, review
from fsm_agent.core.replanning.briefing import briefing
from fsm_agent.core.signals import Applied, Signal

__all__ = ["advance", "apply", "commands", "decide"]


def decide(run: Run, given: Input, env: Env) -> tuple[Event, ...]:
    """Return the events that *given* causes in *run*, oldest first; empty if nothing changes.

    Pure: the same arguments give the same events, and *run* is as before. Costs what the input touches, not the
    size of the run.

    Args:
        run: The state: ``Run(id=…)`` for a run that does not exist yet (only ``Create`` fits it).
        given: What happened.
        env: Time (UTC epoch in microseconds), jitter in [0, 1), free slots.

    Raises:
        RefusedError: *given* does not fit the run's state (the shell logs it as ``move_refused``).
        IllegalTransitionError: It would need a move that the tables or the evidence forbid.
    """
    run.begin()
    try:
        return advance(run, given, env)
    finally:
        run.rollback()


def advance(run: Run, given: Input, env: Env) -> tuple[Event, ...]:
    """As :func:`decide`, but *run* is left as the events say.

    After an exception *run* may be half changed: read it again from its log.
    """
    turn = Turn(run, env)
    _handle(turn, given)
    if run.unreviewed:
        review.look_again(turn)
    hold_against_constraints(turn, changed=isinstance(given, SetInputs))
    proceed(turn)
    return tuple(turn.events)


def _handle(turn: Turn, given: Input) -> None:
    match given:
        case Returned():
            returned(turn, given)
        case Tick():
            _tick(turn)
        case Progressed():
            progressed(turn, given)
        case Probed():
            probed(turn, given)
        case Create():
            _create(turn, given)
        case TakeOver():
            _take_over(turn, given)
        case Proposed():
            replanning.proposed(turn, given)
        case _:
            spoken.check(given)
            _hear(turn, given)


def _hear(turn: Turn, given: Word) -> None:
    """Weigh what a person says."""
    match given:
        case Approve():
            people.approve(turn, given)
        case Reject():
            people.reject(turn, given)
        case Edit():
            people.edit(turn, given)
        case Answer():
            people.answer(turn, given)
        case SetInputs():
            wishes.set_inputs(turn, given)
        case Ask():
            wishes.wish(turn, given)
        case Resume():
            wishes.resume(turn, given)
        case RetryTask():
            people.retry(turn, given)
        case ReconcileAs():
            people.reconcile_as(turn, given)
        case Replan():
            replanning.by_person(turn, given)
        case Note():
            wishes.note(turn, given)
        case _:
            assert_never(given)


def _create(turn: Turn, given: Create) -> None:
    plan, table = given.plan, given.rules
    unknown = sorted(set(given.inputs) - set(plan.inputs))
    data: dict[str, Any] = {
        "run": given.run,
        "goal": plan.goal,
        "inputs": {**plan.inputs, **given.inputs},
        "rules": table.canonical,
        "rules_name": table.name,
        "rules_digest": table.digest,
        "classify_digest": given.classify_digest,
        "machines_digest": MACHINES_DIGEST,
        "tools": [t.to_data() for t in given.tools],
        "default_tool": given.default_tool,
        "tools_locator": given.tools_locator,
        "has_planner": given.has_planner,
        "budgets": dict(plan.doc.get("budgets", {})),
        "owner": given.owner,
        "version": given.version,
    }
    if given.planner_locator is not None:
        data["planner_locator"] = given.planner_locator
    kept = repairing.usable(given.repairs, given.tools)
    if kept:
        data["repairs"] = [repair.to_data() for repair in kept]
    if given.review:
        data["review"] = True
    if unknown:
        data["extra_inputs"] = unknown
    turn.emit("run_created", data)
    ids = [s.id for s in walk(plan.steps)]
    turn.emit(
        "plan_adopted",
        {
            "plan_version": 1,
            "plan": dict(plan.doc),
            "digest": plan.digest,
            "origin": "initial",
            "scope": "global",
            "diff": {"kept": [], "changed": [], "added": ids if len(ids) <= 100 else len(ids), "removed": []},
            "explanation": plan.goal,
        },
    )


def _take_over(turn: Turn, given: TakeOver) -> None:
    """A new owner: reads found running restart, writes become unknown results, lost probes said nothing.

    A lost probe counts like one that answered nothing: what kills its process each time comes to an end.
    """
    run = turn.run
    data: dict[str, Any] = {"epoch": given.epoch, "owner": given.owner}
    if given.tools is not None:
        specs = [t.to_data() for t in given.tools]
        known = ([t.to_data() for t in run.tools.values()], run.default_tool, run.has_planner)
        if known != (specs, given.default_tool, given.has_planner):
            data.update(tools=specs, default_tool=given.default_tool, has_planner=given.has_planner)
    event = turn.emit("owner_changed", data, None, {"kind": "recovery", "id": given.owner})
    for name in list(run.running):
        task = run.tasks[name]
        turn.cause = event.seq
        applied = Applied.NO if task.effect == "read" else Applied.MAYBE
        words = f"the owner of the run changed while {task.tool} was running; nobody here heard its answer"
        ended(
            turn,
            task,
            Outcome(kind="lost", signal=Signal.INTERRUPTED, applied=applied, error={"message": words}),
        )
    for task in [t for t in run.tasks.values() if t.probing] if run.probing else ():
        turn.cause = event.seq
        words = f"the owner of the run changed while {task.tool} was looked up; nobody here heard the answer"
        inconclusive(turn, task, words, by="recovery")


def _tick(turn: Turn) -> None:
    """Do what is due: deadlines, back-offs, probes, expiries."""
    run = turn.run
    while (due := run.next_due()) is not None and due <= turn.env.now_us:
        _, kind, name, token = run.take(run.timers)
        turn.cause = None
        if kind == "cooldown":
            continue  # what waited for it goes on below, with everything else
        if kind == "expiry":
            turn.cause = token
            people.expire(turn, name)
            continue
        task = run.tasks[name]
        turn.cause = task.moved or None
        if kind == "backoff":
            run.index_ready(task)
        elif kind == "probe":
            _send_probe(turn, task)
        else:
            _deadline(turn, task)


def _deadline(turn: Turn, task: Task) -> None:
    """We stop waiting; the call may still be running."""
    words = f"{task.tool} gave no answer before its deadline; nobody waits any more, it may still be running"
    outcome = Outcome(
        kind="timeout",
        signal=Signal.TRANSIENT_ERROR,
        applied=Applied.NO if task.effect == "read" else Applied.MAYBE,
        error={"message": words, "class": "timeout", "fingerprint": f"timeout:{task.tool}"},
    )
    ended(turn, task, outcome)


def _send_probe(turn: Turn, task: Task) -> None:
    """Send a probe through the door's checks of budget and wish."""
    run = turn.run
    spec = run.spec_of(task)
    early = task.deadline_at + settle_us(run, task)
    if turn.now < early:  # an owner without the tool had set the time, and knew nothing of how long it takes
        words = "no probe was sent: its effect need not be visible yet"
        data = {"verdict": "inconclusive", "evidence": words, "by": "door", "attempt": task.attempt}
        turn.emit("reconciled", {**data, "probe_at": early}, task.id)
        return
    why = budget.lacking(run, task, Usage()) or no_probe(run, task)
    if why:
        inconclusive(turn, task, f"no probe was sent: {why}", by="door")
        return
    assert spec is not None, "checked above"
    turn.emit(
        "probe_sent",
        {
            "attempt": task.attempt,
            "repeat": not spec.reconcile,
            "deadline_at": turn.now + spec.timeout_us,
        },
        task.id,
    )


def commands(run: Run, events: Iterable[Event]) -> list[Command]:
    """Return what the shell must do now that *events* are stored, in order.

    Args:
        run: The state after the events.
        events: A batch that ``decide`` or ``advance`` returned for this run.
    """
    out: list[Command] = []
    for event in events:
        kind = event.type
        if kind == "decided":
            continue  # as nearly always; what follows of it is an event of its own
        if kind == "task_moved":
            data = event.data
            trigger = data["trigger"]
            if trigger == "start":
                name, attempt, deadline_at = event.task or "", data["attempt"], data["deadline_at"]
                # by place: the names of so many would take longer than the rest of it
                out.append(Call(name, attempt, data["tool"], data["args"], data["key"], deadline_at))
            elif trigger in _CALL_LEFT and data["source"] == "running" and _stopped(data):
                task = run.tasks[event.task or ""]
                out.append(StopCall(task=task.id, attempt=data["attempt"], cut_off=task.effect == "read"))
        elif kind == "planner_asked":
            request = run.replans[event.task or RUN]
            out.append(AskPlanner(request=event.seq, briefing=briefing(run, request)))
        elif kind == "probe_sent":
            task = run.tasks[event.task or ""]
            out.append(
                Probe(
                    task=task.id,
                    attempt=task.attempt,
                    tool=task.tool or "",
                    args=task.args or {},
                    key=task.key,
                    repeat=event.data["repeat"],
                    deadline_at=event.data["deadline_at"],
                )
            )
    return out


_CALL_LEFT = frozenset({"fail", "lose", "cancel"})


def _stopped(data: dict[str, Any]) -> bool:
    """Whether the call behind a move out of running is still out there."""
    if data["trigger"] == "cancel":
        return True
    outcome = data.get("outcome", {})
    stalled: bool = outcome.get("kind") == "lost" and outcome.get("signal") != "interrupted"
    return stalled or outcome.get("kind") == "timeout"


def state_digest(run: Run) -> str:
    """Return a digest of everything that people can see of the state; equal for equal states."""
    return canon.value_digest(
        "state",
        [
            run.state.value,
            run.plan_version,
            [
                [t.id, t.state.value, t.attempt, t.args_digest, t.result_digest, t.applied]
                for t in run.tasks.values()
            ],
            sorted(run.questions),
        ],
    )
