"""What people say about a run as a whole: stop it, go on, other inputs, a note.

Cancel outranks abort outranks pause; a weaker wish never replaces a stronger one. A word that adds nothing is
refused, so that nobody believes it was heard.
"""

from typing import Any, Final

from fsm_agent.core.engine import changes
from fsm_agent.core.engine.outcomes import task_named
from fsm_agent.core.engine.policy import STRENGTH, escalate, fire, last_signal, may_retry
from fsm_agent.core.engine.state import Run
from fsm_agent.core.engine.turn import Turn, actor_of
from fsm_agent.core.errors import PlanError, RefusedError
from fsm_agent.core.inputs import Ask, Note, Person, Resume, SetInputs
from fsm_agent.core.machine import FINAL_RUN_STATES, RunState, TaskState
from fsm_agent.core.signals import Signal

WISHES: Final = ("cancel", "abort", "pause")


def wish(turn: Turn, given: Ask) -> None:
    """Record a wish: cancel outranks abort outranks pause."""
    run = turn.run
    if given.wish not in WISHES:
        raise RefusedError(f"run {run.id}: the wish is {given.wish!r}; allowed: {', '.join(WISHES)}")
    if run.state in FINAL_RUN_STATES and not (run.state is RunState.FAILED and given.wish == "cancel"):
        raise RefusedError(
            f"run {run.id}: it is {run.state.value} already; there is nothing to {given.wish}",
            code="E-CLOSED",
        )
    record(turn, given.wish, given.who, acknowledged(run, given.acknowledged))


def record(turn: Turn, wanted: str, who: Person, accepted: tuple[str, ...]) -> None:
    """Record a wish, unless one at least as strong is in force and nothing is accepted with it.

    Raises:
        RefusedError: It would change nothing.
    """
    refuse_weaker(turn.run, wanted, accepted)
    data: dict[str, Any] = {"wish": wanted, "by": who.by, "reason": who.note or f"{who.by} asked for it"}
    if accepted:
        data["acknowledged"] = list(accepted)
    turn.emit("run_asked", data, None, actor_of(who))


def refuse_weaker(run: Run, wanted: str, accepted: tuple[str, ...]) -> None:
    """Refuse a wish that would change nothing.

    Raises:
        RefusedError: One at least as strong is in force, and nothing new is accepted with it.
    """
    held = "pause" if run.paused and run.wish == "none" else run.wish
    stronger = STRENGTH.index(wanted) - STRENGTH.index(held)
    if stronger < 0 or (stronger == 0 and frozenset(accepted) <= run.acknowledged):
        raise RefusedError(
            f"run {run.id}: {held} is in force already; {wanted} adds nothing to it", code="E-WISH"
        )


def acknowledged(run: Run, names: object) -> tuple[str, ...]:
    """Return *names*, the tasks whose unknown effect is accepted.

    Raises:
        RefusedError: One of them is no task with an unknown result.
    """
    if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
        raise RefusedError(f"run {run.id}: acknowledge takes a list of task ids, not {names!r}")
    for name in names:
        if task_named(run, name).state is not TaskState.UNKNOWN:
            raise RefusedError(
                f"task {name}: it is {run.tasks[name].state.value}; only an unknown result can be acknowledged",
                task=name,
            )
    return tuple(names)


def open_run(run: Run, verb: str) -> None:
    """Refuse *verb* on a run that has ended.

    Raises:
        RefusedError: It has.
    """
    if run.state in FINAL_RUN_STATES:
        hint = "resume it first" if run.state is RunState.FAILED else "start a new one"
        raise RefusedError(
            f"run {run.id}: it is {run.state.value}, {verb} is not possible; {hint}", code="E-CLOSED"
        )


def resume(turn: Turn, given: Resume) -> None:
    """Lift a pause, or go on from the breakpoint of an aborted run."""
    run, by = turn.run, given.who.by
    reason = given.who.note or f"{by} resumes it"
    actor = actor_of(given.who)
    if run.state is RunState.FAILED:
        turn.move_run("resume", reason, by=by, actor=actor)
        _reopen(turn, given.who)
    elif run.paused and run.wish == "none":
        turn.move_run("resume", reason, by=by, actor=actor)
    elif run.wish == "pause":
        turn.emit("run_asked", {"wish": "none", "by": by, "reason": reason}, None, actor)
    else:
        raise RefusedError(
            f"run {run.id}: it is {run.state.value} and not paused; there is nothing to resume",
            code="E-RESUME",
        )


def _reopen(turn: Turn, who: Person) -> None:
    for task in list(turn.run.tasks.values()):
        if task.state is TaskState.FAILED:
            if may_retry(task):
                retry_anew(turn, task.id, who)
            else:
                words = f"its effect was applied, it is not repeated: {task.reason}"
                escalate(turn, task, last_signal(task), words)
        elif task.state is TaskState.UNKNOWN:
            escalate(turn, task, Signal.OUTCOME_UNKNOWN, task.reason or "its result is unknown")
        elif task.state is TaskState.AWAITING:
            turn.move(
                task, "invalidate", {"reason": "its question was closed with the run; it is asked again"}
            )
        elif task.questioned:
            changes.ask_again(turn, task)
        elif task.state is TaskState.CANCELLED and task.reason_code == "aborted":
            turn.move(task, "invalidate", {"reason": "the abort that cancelled it is lifted"})


def retry_anew(turn: Turn, name: str, who: Person) -> None:
    """Let a failed task try again because a person says so: a new attempt series."""
    data = {"delay_ms": 1, "series": True, "reason": f"{who.by} lets it try again"}
    turn.move(turn.run.tasks[name], "retry", data, actor=actor_of(who))


def set_inputs(turn: Turn, given: SetInputs) -> None:
    """Correct inputs, constraint values and budgets; what waits for a person on other arguments asks again."""
    run = turn.run
    inputs, constraints, budgets = _sorted_out(run, given)
    if run.state is not RunState.FAILED or inputs or constraints:
        open_run(run, "a change")
    actor = actor_of(given.who)
    if budgets:
        turn.emit("budget_changed", {"budgets": budgets, "by": given.who.by}, None, actor)
    if inputs or constraints:
        old = {k: run.inputs.get(k) for k in inputs}
        data = {"inputs": inputs, "constraints": constraints, "was": old, "by": given.who.by}
        turn.emit("input_changed", data, None, actor)
        names = (*inputs, *(f"constraints.{k}" for k in constraints))
        fire(turn, None, Signal.INPUT_CHANGED, because=", ".join(names))
        changes.inputs_changed(turn)


def _sorted_out(run: Run, given: SetInputs) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    inputs: dict[str, Any] = {}
    constraints: dict[str, Any] = {}
    budgets: dict[str, Any] = {}
    if not given.values:
        raise RefusedError(f"run {run.id}: nothing is set; give K=V")
    for name, value in given.values.items():
        kind, _, key = name.partition(".")
        if kind == "constraints" and key:
            if key not in run.constraint_values:
                raise RefusedError(
                    f"constraint {key}: unknown; the plan has {', '.join(run.constraint_values) or 'none'}"
                )
            constraints[key] = value
        elif kind == "budgets" and key:
            budgets.update(_budget(key, value))
        elif name in run.inputs:
            inputs[name] = value
        else:
            raise RefusedError(f"input {name}: unknown; the plan has {', '.join(run.inputs) or 'none'}")
    return inputs, constraints, budgets


def _budget(key: str, value: Any) -> dict[str, Any]:
    """Return the limit under the name that :class:`Budgets` has for it."""
    from fsm_agent.core.plans import planning  # few runs get another limit

    try:
        limits = planning.budgets({key: value})
    except PlanError as error:
        raise RefusedError(f"budgets.{key}: {error.faults[0].message}; {error.faults[0].fix}") from None
    field = "cost_micros" if key == "cost" else key
    if not hasattr(limits, field):
        raise RefusedError(f"budgets.{key}: the part kept back is set in the plan; set the limit itself")
    return {field: getattr(limits, field)}


def note(turn: Turn, given: Note) -> None:
    """Put words into the log."""
    if not given.text.strip():
        raise RefusedError("note: it is empty; say something")
    if given.task is not None:
        task_named(turn.run, given.task)
    turn.emit("note_added", {"text": given.text, "by": given.who.by}, given.task, actor_of(given.who))
