"""What becomes of the run as a whole: it waits, goes on, or ends, and every end has a report.

Wishes (cancel over abort over pause) drain first: nothing starts, running reads are cancelled, running writes are
awaited and reconciled; then the trigger fires. A run never ends while a task is running, nor with an unknown
effect that nobody acknowledged.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from fsm_agent.core.engine import batches, budget, groups
from fsm_agent.core.engine.arguments import scope_of
from fsm_agent.core.engine.door import (
    schedule,
)
from fsm_agent.core.engine.policy import fire
from fsm_agent.core.engine.records import RUN, Order, Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.engine.turn import Turn
from fsm_agent.core.language.expr import Verdict
from fsm_agent.core.machine import FINAL_RUN_STATES, RunState, TaskState
from fsm_agent.core.plans.plan import Constraint
from fsm_agent.core.replanning import replanning
from fsm_agent.core.signals import Signal

_PENDING: Final = RunState.PENDING
_RUNNING: Final = RunState.RUNNING
_FAILED: Final = RunState.FAILED


def proceed(turn: Turn) -> None:
    """Let the run go as far as it can, after the input's own facts have moved."""
    run = turn.run
    reopened = run.state is _FAILED and run.wish == "cancel"  # an aborted run may still be cancelled
    if run.state in FINAL_RUN_STATES and not reopened:
        return
    if run.state is _PENDING:
        turn.move_run("start", "the plan is adopted")
    if run.state is not _RUNNING:
        _wake(turn)
    while True:
        before, running = run.seq, len(run.running)
        if run.replans and turn.env.slots:
            replanning.go_on(turn)
        held = schedule(turn)
        if turn.newly:
            hold_against_constraints(turn)  # a task with parts, or one that stands for a call of another one
            continue
        if run.wish != "none":
            drain(turn)
        if run.limited:
            _check_budget(turn)
        if not run.running and not run.probing:
            _conclude(turn, held)
        # calls that have started make nothing else possible; whatever else has happened may
        if run.seq - before == len(run.running) - running or run.state is not _RUNNING:
            return


def drain(turn: Turn) -> None:
    """Cancel what a wish to cancel or abort lets go at once."""
    run = turn.run
    if run.wish not in ("cancel", "abort"):
        return
    code = "cancelled" if run.wish == "cancel" else "aborted"
    for name in list(run.running):
        task = run.tasks[name]
        if task.effect == "read":
            turn.move(task, "cancel", {"reason": f"the run is being {code}", "code": code})
    counts = run.counts
    if (
        run.wish == "cancel"
        and counts[TaskState.PENDING] + counts[TaskState.AWAITING] + counts[TaskState.FAILED]
    ):
        for task in run.tasks.values():
            if task.state in (TaskState.PENDING, TaskState.AWAITING, TaskState.FAILED):
                turn.move(task, "cancel", {"reason": "the run is being cancelled", "code": code})


def _wake(turn: Turn) -> None:
    """Resume a waiting run when something can move again, or when what it waited for is no longer there."""
    run = turn.run
    if run.state not in (RunState.AWAITING, RunState.UNKNOWN) or run.paused:
        return
    ends = run.wish in ("none", "pause") and (_all_ended(run) or not _waits(run))
    if ends or movable(run):
        if run.wish == "none":
            turn.move_run("resume", "something can move again")
        else:
            turn.move_run("resume", f"something can move, before the {run.wish}", keep_wish=True)


def _waits(run: Run) -> bool:
    """Whether there still is what a waiting run says that it waits for: an unknown result, or a question."""
    if run.state is RunState.AWAITING:
        return bool(run.questions)
    return run.counts[TaskState.UNKNOWN] > 0 if run.wish == "none" else run.unacknowledged() > 0


def movable(run: Run) -> bool:
    """Whether something goes on in a run that waits, without a person; after a wish only probes still do."""
    if run.wish != "none":
        return any(run.meant(t) for t in run.timers if t[1] == "probe")
    if run.asked or replanning.due(run, run.at, woken=True) is not None:
        return True
    return _startable(run) or _timed(run)


def _timed(run: Run) -> bool:
    """Whether a timer moves something on that no person has to."""
    return any(run.meant(t) for t in run.timers if t[1] in ("backoff", "probe", "cooldown"))


def _startable(run: Run) -> bool:
    if run.wish != "none" or RUN in run.questions:
        return False
    if any(run.tasks[n].doomed for _, n in run.doomed) or any(_unsettled(run, n) for _, n in run.unsettled):
        return True
    return batches.admissible(run)


def _unsettled(run: Run, name: str) -> bool:
    task = run.tasks[name]
    return task.left > 0 if task.state is TaskState.DONE else groups.over(run, task)


def _all_ended(run: Run) -> bool:
    counts = run.counts
    return counts[TaskState.DONE] + counts[TaskState.CANCELLED] == len(run.tasks)


def _check_budget(turn: Turn) -> None:
    run = turn.run
    if run.account.band != "ok" or run.state is not RunState.RUNNING:
        return
    if not _all_ended(run):
        words = budget.low(run)
        if words:
            fire(turn, None, Signal.BUDGET_LOW, because=words)


def _conclude(turn: Turn, held: list[tuple[Order, str]]) -> None:
    """No call is out: end the run, or say what it waits for, or do what was wished."""
    run = turn.run
    if run.wish == "none":
        if run.state is RunState.RUNNING:
            _rest(turn, held)
        return
    if any(run.meant(t) for t in run.timers if t[1] == "probe"):
        return
    unknown = run.unacknowledged()
    if unknown:
        if run.state is RunState.RUNNING:
            words = (
                f"{unknown} results are unknown; a person must say what became of them, or acknowledge them"
            )
            turn.move_run("lose", words)
        return
    if run.wish == "pause":
        if run.state is RunState.RUNNING:
            turn.move_run("hold", "paused", paused=True)
        return
    trigger = "cancel" if run.wish == "cancel" else "abort"
    turn.move_run(trigger, _why_wished(run), acknowledged=sorted(run.acknowledged))
    close(turn)


def _why_wished(run: Run) -> str:
    return f"{run.wish} was asked for (event {run.wish_by})"


def _rest(turn: Turn, held: list[tuple[Order, str]]) -> None:
    """Nothing runs: end the run, or say what it waits for."""
    run = turn.run
    if not turn.env.slots and _startable(run):
        return  # this owner only delivers words; the next one starts what is ready
    if _all_ended(run):
        _end(turn)
    elif run.asked or _timed(run) or (not turn.env.slots and replanning.due(run, run.at)):
        return
    elif held and not run.questions.get(RUN):
        task = run.tasks[held[0][1]]
        spec = run.spec_of(task)
        wanted = budget.estimate(run, task.step, spec.name if spec is not None else "")
        words = f"{task.id} cannot start: {budget.lacking(run, task, wanted)}"
        fire(turn, None, Signal.BUDGET_EXHAUSTED, because=words)
    elif run.counts[TaskState.UNKNOWN]:
        turn.move_run("lose", "a result is unknown, and nothing moves without a person's word")
    elif run.questions:
        turn.move_run("hold", f"waiting for a person: {run.asking()}")
    else:
        waiting = [t.id for t in run.tasks.values() if t.state in (TaskState.PENDING, TaskState.FAILED)]
        fire(turn, None, Signal.DEADLOCK, because=f"nothing can move; left: {', '.join(waiting[:8])}")


def _end(turn: Turn) -> None:
    run = turn.run
    if run.questions:
        turn.move_run("hold", f"waiting for a person: {run.asking()}")
        return
    if check_constraints(turn, at_end=True):
        return
    if run.barred:
        return  # the new plan that a broken constraint asked for is still to come
    bad = next(filter(run.denied, run.tasks.values()), None)
    if bad is not None:
        turn.move_run("cancel", f"nothing is left to do: {bad.id} was cancelled, {bad.reason}")
    else:
        turn.move_run("succeed", "everything is done, or cancelled for a reason that the plan allows")
    close(turn)


def hold_against_constraints(turn: Turn, *, changed: bool = False) -> None:
    """Hold what is newly done against the constraints that it can have broken, before anything rests on it.

    Args:
        turn: The turn.
        changed: A person has changed what constraints rest on: all of them are looked at.
    """
    run, done = turn.run, turn.newly
    turn.newly = []
    if (
        (done or changed)
        and run.plan is not None
        and run.plan.constraints
        and run.state not in FINAL_RUN_STATES
    ):
        check_constraints(turn, done=None if changed else done)


def check_constraints(turn: Turn, *, at_end: bool = False, done: Collection[str] | None = None) -> bool:
    """Evaluate the plan's constraints; fire for those newly broken.

    Args:
        turn: The turn.
        done: The tasks that are newly done, if nothing else has changed; None: whatever may have.
        at_end: At the end of a run an unknown constraint is broken too.

    Returns:
        Whether one that stops the run is broken.
    """
    run = turn.run
    assert run.plan is not None, "no plan"
    found = []
    looked_at = run.plan.constraints if done is None else concerned(run, done)
    names = products(run) if any(map(_reads_names, looked_at)) else {}
    for constraint in looked_at:
        if constraint.key in run.broken:
            continue
        verdict = verdict_on(run, constraint, names)
        if verdict.value is True or (verdict.value is None and not at_end):
            continue
        words = "is false" if verdict.value is False else f"is unknown at the end: {verdict.why}"
        said = f"{constraint.say + ': ' if constraint.say else ''}{constraint.key}: `{constraint.check.text}` {words}"
        found.append((constraint, said))
    stops = [(c, w) for c, w in found if c.severity == "stop"]
    for constraint, words in found:
        if constraint.severity == "warn":
            turn.emit("note_added", {"text": f"tolerated: {words}", "constraints": [constraint.key]})
    if stops:
        words = "; ".join(w for _, w in stops)
        keys = [c.key for c, _ in stops]
        fire(turn, None, Signal.CONSTRAINT_VIOLATED, because=words, extra={"constraints": keys})
    return bool(stops)


def verdict_on(run: Run, constraint: Constraint, names: Mapping[str, Any]) -> Verdict:
    """Return what *constraint* comes to now, with *names* from :func:`products`."""
    scope = {**names, "value": run.constraint_values[constraint.key], "$inputs": run.inputs}
    return constraint.check.evaluate({**scope, **scope_of(run, constraint.check.roots)})


def concerned(run: Run, done: Collection[str]) -> Sequence[Constraint]:
    """Return the constraints that tasks which are newly *done* can have broken: those that read something of them, or
    an input that was wrong from the beginning.

    Once an input or the plan has been changed, results come and go, and every one may be.
    """
    assert run.plan is not None, "no plan"
    constraints = run.plan.constraints
    if run.changed_at or run.plan_version > 1 or run.plan.aliases:
        return constraints
    brought: set[str] = set()
    for name in done:
        result = run.tasks[name].result
        brought.add(f"${name}")
        if isinstance(result, dict):
            brought.update(result)
            brought.update(("costs",) if "cost" in result else ())
    brought.add("$inputs")
    return [c for c in constraints if not brought.isdisjoint(c.check.roots)]


def _reads_names(constraint: Constraint) -> bool:
    return any(root[0] != "$" and root != "value" for root in constraint.check.roots)


def products(run: Run) -> dict[str, Any]:
    """Return every result field of the done tasks by name; later steps win.

    A read that the present plan does without counts no more; the effect of another call stays what it is.
    ``costs`` is, unless a step produces it, the list of every ``cost`` so far.
    """
    names: dict[str, Any] = {}
    costs: list[Any] = []
    for task in _counted(run):
        if task.state is TaskState.DONE and isinstance(task.result, dict) and not task.step.group:
            names.update(task.result)
            if "cost" in task.result:
                costs.append(task.result["cost"])
    if costs:
        names.setdefault("costs", costs)
    return names


def _counted(run: Run) -> Iterable[Task]:
    """Return the tasks whose results constraints see: calls that left the plan and cannot be undone, then the plan's."""
    tasks = run.tasks.values()
    if run.plan_version <= 1:
        return tasks
    left = [task for task in tasks if task.effect != "read" and not run.plans(task)]
    return [*left, *filter(run.plans, tasks)]


def close(turn: Turn) -> None:
    """End the run's log with its report."""
    turn.emit("run_closed", {"report": report(turn.run)})


def report(run: Run) -> dict[str, Any]:
    """Return what was done, what was not and why, and what remains for a person."""
    ended = TaskState.DONE
    done = [t.id for t in run.tasks.values() if t.state is ended]
    left = [t for t in run.tasks.values() if t.state is not ended]
    used = run.account
    return {
        "state": run.state.value,
        "done": done if len(done) <= 100 else len(done),
        "not_done": [{"task": t.id, "state": t.state.value, "reason": _why_not(run, t)} for t in left],
        "unknown": sorted(t.id for t in left if t.state is TaskState.UNKNOWN),
        "remains": [words for t in left if (words := _remains(t))],
        "used": {
            "tool_calls": used.tool_calls,
            "planner_calls": used.planner_calls,
            "tokens": used.tokens,
            "cost_micros": used.cost_micros,
            "active_us": used.active_us,
        },
    }


def _why_not(run: Run, task: Task) -> str:
    if task.reason:
        return task.reason
    waits = [d.id for d in task.step.depends_on if run.tasks[d.id].state is not TaskState.DONE]
    return f"waiting for {', '.join(waits)}" if waits else "it was not started"


def _remains(task: Task) -> str:
    if task.state is TaskState.UNKNOWN:
        return f"find out whether {task.id} ({task.tool}) took effect, key {task.key}"
    if task.effect != "read" and task.applied == "yes":
        return f"see to {task.id} ({task.tool}), which took effect, key {task.key}: {task.reason}"
    return f"see to {task.id}: {task.reason}" if task.state is TaskState.FAILED else ""
