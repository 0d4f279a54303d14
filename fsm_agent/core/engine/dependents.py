"""Who waits for whom: the indexes over a plan's dependencies, kept so that a move costs its dependents and not the plan."""

from typing import Final

from fsm_agent.core.engine.records import Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.machine import TaskState

_OPEN, _DONE, _GONE = 0, 1, 2
_KIND: Final = dict.fromkeys(TaskState, _OPEN) | {TaskState.DONE: _DONE, TaskState.CANCELLED: _GONE}


def recount(run: Run) -> None:
    """Build the indexes over the tasks anew."""
    run.children = {name: [] for name in run.tasks}
    run.counts = dict.fromkeys(TaskState, 0)
    run.todo_tokens = run.todo_cost_micros = 0
    for task in run.tasks.values():
        run.counts[task.state] += 1
        _estimate(run, task, 1 if _KIND[task.state] == _OPEN else 0)
        task.open_deps = task.done_deps = task.dead_deps = 0
        for dependency in task.step.depends_on:
            run.children[dependency.id].append((task.id, dependency.optional))
            _count(task, _KIND[run.tasks[dependency.id].state], dependency.optional, 1)
    for task in run.tasks.values():
        if task.state is TaskState.PENDING:
            run.index(task)


def release(run: Run, task: Task, old: TaskState) -> None:
    """Tell the dependents of *task*, which was *old*, if it became done, cancelled, or open again."""
    before, after = _KIND[old], _KIND[task.state]
    if before == after:
        return
    _estimate(
        run, task, -1 if before == _OPEN else 1
    )  # one of the two is open: done and cancelled never meet
    for name, optional in run.children[task.id]:
        child = run.tasks[name]
        run.touch(child)
        _count(child, before, optional, -1)
        _count(child, after, optional, 1)
        run.index_ready(child)


def _count(task: Task, kind: int, optional: bool, by: int) -> None:
    if kind == _OPEN:
        task.open_deps += by
    elif kind == _DONE:
        task.done_deps += by
    elif not optional:
        task.dead_deps += by


def _estimate(run: Run, task: Task, by: int) -> None:
    estimate = task.step.estimate
    if estimate is not None and by:
        run.todo_tokens += by * estimate.tokens
        run.todo_cost_micros += by * estimate.cost_micros
