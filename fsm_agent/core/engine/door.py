"""The one door into running: every attempt of every task passes it, whatever led there.

Ready tasks come in plan order. Here, and only here, conditions, references, preconditions, the approval, the
budget and the law against repeating a write are checked, each time anew.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fsm_agent.core import canon
from fsm_agent.core.engine import batches, breaker, budget, groups, standing
from fsm_agent.core.engine.arguments import (
    approval_digest,
    args_digest,
    edited,
    effect_before,
    needs_approval,
    resolve,
    scope_of,
)
from fsm_agent.core.engine.failing import refuse
from fsm_agent.core.engine.records import Order, Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.engine.turn import Turn
from fsm_agent.core.errors import UnresolvedReferenceError
from fsm_agent.core.inputs import NO_USAGE, Usage
from fsm_agent.core.machine import WRITES, RunState, TaskState
from fsm_agent.core.plans.members import condition
from fsm_agent.core.signals import Effect, Signal
from fsm_agent.core.tools import ToolSpec, argument_faults

_RUNNING: Final = RunState.RUNNING
_READ: Final = Effect.READ


def schedule(turn: Turn) -> list[tuple[Order, str]]:
    """Let everything that may move through the door, as far as slots and budgets go.

    What comes to be done on the way is held against the plan's constraints before anything else goes.

    Returns:
        What is ready but fits no budget, as (order, id).
    """
    run = turn.run
    held: list[tuple[Order, str]] = []
    if run.state is not _RUNNING or run.wish != "none" or run.barred:
        return held  # after a wish, or with a question about the whole run open, nobody passes
    if run.doomed or run.unsettled:
        groups.tidy(turn)
    if run.parked:
        batches.unpark(run)
    assert run.plan is not None, "no plan"
    heap, limited = run.ready_heap, bool(run.plan.constraints)
    while heap and run.wish == "none" and not run.barred and not (limited and turn.newly):
        order, name = heap[0]
        task = run.tasks[name]
        waits = not task.ready or (task.not_before and task.not_before > turn.now)
        if task.order != order or waits or (held and held[-1] == heap[0]):
            run.take(heap)  # stale, or the back-off timer brings it back, or it stands there twice
            continue
        if task.parent and not batches.admits(run, task):
            batches.park(run, task)
            continue
        if len(run.running) + run.probing >= turn.env.slots:
            break
        run.take(heap)
        if not enter(turn, task):
            held.append((order, name))
        if run.doomed or run.unsettled:
            groups.tidy(turn)
    for entry in held:
        run.give_back(heap, entry)
    return held


def enter(turn: Turn, task: Task) -> bool:
    """Bring a ready task to the next state that it may have: running, cancelled, failed, or waiting for a person.

    Returns:
        False if it stays pending because no budget is left for it now.
    """
    run, step = turn.run, task.step
    if task.parent and batches.surplus(run, task):
        groups.give_up_surplus(turn, task, run.tasks[task.parent].size)
        return True
    if step.when is not None and not _wanted(turn, task):
        return True
    if step.plan or step.for_each is not None:
        if not step.preconditions or step.for_each is not None or _tolerated(turn, task, {}) is not None:
            groups.open_parts(turn, task)
        return True
    name = step.tool or run.default_tool
    spec = run.tools.get(name) if name is not None else None
    try:
        planned = resolve(run, task, name)
    except UnresolvedReferenceError as error:
        refuse(turn, task, Signal.UNRESOLVED_REFERENCE, str(error))
        return True
    args = planned
    if spec is not None and (task.armed is not None or task.planned_digest or task.id in run.questions):
        args = edited(run, task, spec, planned)
    tolerated = _tolerated(turn, task, args) if step.preconditions else ()
    if tolerated is None:
        return True
    if name is None:
        _note_tolerated(turn, task, tolerated)
        ask_person(turn, task)
        return True
    if spec is None:
        known = ", ".join(sorted(run.tools)) or "none"
        refuse(turn, task, Signal.UNDECLARED_TOOL, f"the tool {name!r} is not in the toolbox; there: {known}")
        return True
    return _call(turn, task, spec, args, planned, tolerated)


def _wanted(turn: Turn, task: Task) -> bool:
    """Whether the task's condition is true; if it is not, the task is cancelled, or refused where nobody can tell."""
    when = condition(task.step)
    if when is None:
        return True
    verdict = when.evaluate(scope_of(turn.run, when.roots, at=task.id))
    if verdict.value is None:
        words = f"its condition `{when.text}` is unknown: {verdict.why}"
        refuse(turn, task, Signal.UNRESOLVED_REFERENCE, words)
    elif not verdict.value:
        turn.move(task, "cancel", {"reason": f"its condition `{when.text}` is false", "code": "condition"})
    return bool(verdict.value)


def _tolerated(turn: Turn, task: Task, args: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return what the preconditions find and the plan tolerates; None if the task was refused."""
    run = turn.run
    noted: list[str] = []
    for stated in task.step.preconditions:
        scope = scope_of(run, stated.check.roots, at=task.id)
        scope["args"] = args
        verdict = stated.check.evaluate(scope)
        if verdict.value is True:
            continue
        found = "is false" if verdict.value is False else f"is unknown: {verdict.why}"
        words = f"{stated.say + ': ' if stated.say else ''}the precondition `{stated.check.text}` {found}"
        if stated.severity == "warn":
            noted.append(words)
            continue
        broken = verdict.value is False
        refuse(turn, task, Signal.PRECONDITION_VIOLATED if broken else Signal.UNRESOLVED_REFERENCE, words)
        return None
    return tuple(noted)


def _note_tolerated(turn: Turn, task: Task, tolerated: Iterable[str]) -> None:
    """Note what is tolerated, once the task really moves: one that a budget holds back is looked at ever again."""
    for words in tolerated:
        turn.emit("note_added", {"text": f"tolerated: {words}"}, task.id)


def ask_person(turn: Turn, task: Task) -> None:
    """A step that no tool runs is a question to a person."""
    run, step = turn.run, task.step
    turn.move(task, "hold", {"kind": "answer"})
    data: dict[str, Any] = {
        "kind": "answer",
        "args_digest": canon.value_digest("question", [run.id, task.id, run.seq]),
        "answers": ["result"],
        "say": step.description or f"what is the result of {task.id}?",
    }
    if step.confirm_within_us is not None:
        data["expires_at"] = turn.now + step.confirm_within_us
    turn.emit("approval_requested", data, task.id)


def _call(
    turn: Turn,
    task: Task,
    spec: ToolSpec,
    args: dict[str, Any],
    planned: dict[str, Any],
    tolerated: Iterable[str],
) -> bool:
    run, step = turn.run, task.step
    faults = [] if spec.takes(args) else argument_faults(spec, args)
    if faults:
        refuse(turn, task, Signal.BAD_REQUEST, "; ".join(faults))
        return True
    digest = args_digest(spec, args)
    key = run.key_of(task, digest)
    if spec.effect is not _READ:
        if standing.made_before(turn, task, digest):
            return True
        why = effect_before(run, task, spec, key)
        if why:
            refuse(turn, task, Signal.PRECONDITION_VIOLATED, why)
            return True
    blocked = breaker.refusal(run.breaker_of(spec.name), spec.name, turn.now) if run.breakers else ""
    if blocked:
        refuse(turn, task, Signal.BLOCKED_DEPENDENCY, blocked)
        return True
    approval: int | None = None
    if needs_approval(run, task, spec, digest):
        wanted_yes = approval_digest(run, task, spec, args)
        armed = task.armed
        if armed is None or armed.digest != wanted_yes or _past(armed.expires_at, turn.now):
            _note_tolerated(turn, task, tolerated)
            base = (approval_digest(run, task, spec, planned), planned) if args is not planned else None
            ask_approval(turn, task, spec, args, wanted_yes, edited_from=base)
            return True
        approval = armed.seq
    wanted = budget.estimate(run, step, spec.name)
    if (run.limited or task.parent) and budget.lacking(run, task, wanted):
        return False
    _note_tolerated(turn, task, tolerated)
    timeout = spec.timeout_us if step.timeout_us is None else step.timeout_us
    start(
        turn,
        task,
        spec,
        args,
        (digest, key),
        deadline_at=turn.now + timeout,
        approval=approval,
        wanted=wanted,
        planned=args_digest(spec, planned) if args is not planned else "",
    )
    return True


def start(
    turn: Turn,
    task: Task,
    spec: ToolSpec,
    args: Mapping[str, Any],
    known_as: tuple[str, str],
    *,
    deadline_at: int,
    approval: int | None = None,
    wanted: Usage = NO_USAGE,
    planned: str = "",
) -> None:
    """Record the intent of a call that has passed the door.

    Args:
        turn: The turn.
        task: A pending task.
        spec: The tool.
        args: Its arguments.
        known_as: Digest of tool and arguments, and the idempotency key.
        deadline_at: Until when its answer is waited for.
        approval: Seq of the approval that it consumes.
        wanted: What is reserved for it.
        planned: Digest of what the plan resolved to, where a person made other arguments of it.
    """
    digest, key = known_as
    effect = spec.effect._value_
    data: dict[str, Any] = {
        "attempt": task.attempt + 1,
        "tool": spec.name,
        "args": args,
        "args_digest": digest,
        "effect": effect,
        "key": key,
        "deadline_at": deadline_at,
    }
    if approval is not None:
        data["approval"] = approval
    if planned:
        data["planned_digest"] = planned
    if wanted is not NO_USAGE and (wanted.tokens or wanted.cost_micros):
        data["reserve"] = {"tokens": wanted.tokens, "cost_micros": wanted.cost_micros}
    turn.move(task, "start", data, effect=effect)


def _past(at: int | None, now: int) -> bool:
    return at is not None and now > at


def ask_approval(
    turn: Turn,
    task: Task,
    spec: ToolSpec,
    args: Mapping[str, Any],
    digest: str,
    *,
    edited_from: tuple[str, Mapping[str, Any]] | None = None,
    within_us: int | None = None,
) -> None:
    """Ask a person for a yes to exactly these arguments; *within_us* goes before the step's own time."""
    step = task.step
    armed = task.armed
    data: dict[str, Any] = {
        "kind": "approval",
        "tool": spec.name,
        "effect": spec.effect.value,
        "args_digest": digest,
        "args": dict(args),
        "answers": ["approve", "reject", "edit"],
        "say": step.description or f"may {spec.name} be called?",
        "approvers": step.approvers,
    }
    made = _made_before(turn.run, task, spec, args)
    if made:
        data["same_as"] = made
        data["say"] = f"{data['say']} (the same call was made by {', '.join(made)} already)"
    if edited_from is not None:
        data["base_digest"], data["base_args"] = edited_from[0], dict(edited_from[1])
    before = task.shown if task.shown is not None and edited_from is None else args
    changed = sorted(k for k in {*args, *before} if args.get(k, ...) != before.get(k, ...))
    if changed:
        data["say"] = f"{data['say']} (asked again, because {', '.join(changed)} changed)"
    elif armed is not None:
        expired = _past(armed.expires_at, turn.now)
        changed = ["the earlier approval has expired" if expired else "it was given for another call"]
        data["say"] = f"{data['say']} (asked again: {changed[0]})"
    if changed:
        data["changed"] = changed
    own = spec.confirm_within_us if step.confirm_within_us is None else step.confirm_within_us
    within = own if within_us is None else within_us
    if within is not None:
        data["expires_at"] = turn.now + within
    if task.state is TaskState.PENDING:
        turn.move(task, "hold", {"kind": "approval"})
    turn.emit("approval_requested", data, task.id)


def _made_before(run: Run, task: Task, spec: ToolSpec, args: Mapping[str, Any]) -> list[str]:
    """Return the first tasks that made exactly this call with an effect that is or may be there.

    In a first plan two equal calls are meant to be two; after a change of the plan whoever approves has to know.
    """
    if run.plan_version < 2 or spec.effect not in WRITES:
        return []
    digest = args_digest(spec, args)
    found = [
        t.id for t in run.tasks.values() if t.args_digest == digest and t.applied != "no" and t is not task
    ]
    return found[:8]
