"""A caller's loop as moves of a real run: how a task gets to where a signal of the caller is at home.

What these moves say, and why it is true, stands in :mod:`fsm_agent.core.engine.decider`.
"""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from fsm_agent.core.engine import outcomes, people
from fsm_agent.core.engine.arguments import (
    approval_digest,
    args_digest,
    effect_before,
    needs_approval,
)
from fsm_agent.core.engine.door import (
    ask_approval,
    start,
)
from fsm_agent.core.engine.records import RUN, Task
from fsm_agent.core.engine.turn import Turn
from fsm_agent.core.errors import RefusedError
from fsm_agent.core.inputs import Answer, Approve, Outcome, Person, RetryTask
from fsm_agent.core.machine import WRITES, TaskState
from fsm_agent.core.plans import planning
from fsm_agent.core.plans.plan import Plan
from fsm_agent.core.signals import Effect, Signal
from fsm_agent.core.tools import ToolSpec

CALLER: Final = Person(by="caller", channel="decider")
"""Whose word it is that a loop goes on."""

_OPEN: Final = frozenset({TaskState.UNKNOWN, TaskState.RUNNING})
"""States of tasks that an abort waits for."""


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


def ready_task(turn: Turn, name: str) -> Task:
    """Return a task of a run in which calls may be made."""
    task = outcomes.task_named(turn.run, name)
    if turn.run.wish != "none" and task.state not in _OPEN:
        left = ", ".join(t.id for t in turn.run.tasks.values() if t.state in _OPEN)
        raise RefusedError(f"task {name}: the run is being aborted, and waits only for {left}", task=name)
    go_on(turn)
    return task


def go_on(turn: Turn) -> None:
    """Whoever was asked about the run as a whole has let the loop go on."""
    if RUN in turn.run.questions:
        people.answer(turn, Answer(task=RUN, value={"decide": "continue"}, who=CALLER))
    if RUN in turn.run.replans and not turn.run.counts[TaskState.UNKNOWN]:
        _planned(turn, RUN)


def bring_to_pending(turn: Turn, task: Task) -> None:
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
    wait_until(turn, task.not_before)


def wait_until(turn: Turn, at: int) -> None:
    """A delay that was given is taken as waited for."""
    if at > turn.now:
        turn.env = turn.env._replace(now_us=at)


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
    request, before = run.replans[name], set(run.replans)
    wait_until(turn, request.not_before)
    turn.emit("planner_asked", {"request": request.seq, "scope": request.scope}, request.task)
    _adopt(turn, run.plan, scope=request.scope, why=request.why, answers=name)
    answered, version = before - set(run.replans), run.plan_version
    for task in run.tasks.values():
        again = task.id in answered or (task.effect not in WRITES and task.id not in run.replans)
        if task.state is TaskState.FAILED and again:
            turn.move(task, "retry", {"delay_ms": 1, "series": True, "reason": f"plan {version}"})


def amend(turn: Turn, name: str, tool: str) -> None:
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


def call_of(turn: Turn, task: Task, given: Seen) -> tuple[ToolSpec, dict[str, Any]]:
    """Return tool and arguments of the task's next call; another tool than before is a change of the plan."""
    run = turn.run
    planned = run.tool_of(task.step) or ""
    tool = planned if given.tool is None else given.tool
    if tool != planned:
        amend(turn, task.id, tool)
    return run.tools[tool], dict(given.args)


def bring_to_running(turn: Turn, task: Task, given: Seen, *, goes_on: bool = False) -> None:
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
    bring_to_pending(turn, task)
    spec, args = call_of(turn, task, given)
    digest = args_digest(spec, args)
    key = run.key_of(task, digest)
    why = effect_before(run, task, spec, key)
    if why:
        raise RefusedError(f"task {task.id}: {why}; give the next write a name of its own", task=task.id)
    approval = None
    if needs_approval(run, task, spec, digest):
        yes = approval_digest(run, task, spec, args)
        ask_approval(turn, task, spec, args, yes)
        people.approve(turn, Approve(task=task.id, digest=yes, who=CALLER))
        assert task.armed is not None, "one yes suffices"
        approval = task.armed.seq
    waits = spec.timeout_us if goes_on else 1
    start(turn, task, spec, args, (digest, key), deadline_at=turn.now + waits, approval=approval)


def check_end(task: Task, signal: Signal) -> None:
    """Refuse signals that a call of this effect class cannot end with."""
    if task.effect == Effect.READ and signal is Signal.OUTCOME_UNKNOWN:
        found = "a read has no effect that could be unknown; observe transient_error"
    elif task.effect != Effect.READ and signal is Signal.PROGRESS_STALL:
        found = f"a {task.effect} that stalls is awaited; report its progress, and observe how it ends"
    else:
        return
    raise RefusedError(f"task {task.id}: {found}", task=task.id)
