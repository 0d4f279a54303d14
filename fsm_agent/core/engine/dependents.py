"""Who waits for whom: the indexes over a plan's dependencies, kept so that a move costs its dependents and not the plan.

A part of a task (a step of its nested plan, a record of its batch) waits for that task to let its parts begin, as if it
were one more dependency; and the task waits for its parts to end.
"""

from heapq import heappush
from typing import Final

from fsm_agent.core.engine.records import Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.machine import TaskState

_OPEN, _DONE, _GONE = 0, 1, 2
_KIND: Final = dict.fromkeys(TaskState, _OPEN) | {TaskState.DONE: _DONE, TaskState.CANCELLED: _GONE}


def recount(run: Run) -> None:
    """Build the indexes over the tasks anew; a task comes before its parts."""
    run.children = {name: [] for name in run.tasks}
    run.members = {name: [] for name, task in run.tasks.items() if task.step.group and run.plans(task)}
    run.counts = dict.fromkeys(TaskState, 0)
    run.todo_tokens = run.todo_cost_micros = 0
    for task in run.tasks.values():
        run.counts[task.state] += 1
        task.left = task.active = task.failed = 0
        if task.step.for_each is not None:
            task.given_up = 0
    for task in run.tasks.values():
        if task.parent:
            run.members[task.parent].append(task.id)
        count(run, task)
    for task in run.tasks.values():
        if task.state is TaskState.PENDING:
            run.index(task)
        elif task.id in run.members:
            unsettle(run, task)


def count(run: Run, task: Task) -> None:
    """Enter *task* into the indexes of those that it waits for and is a part of; they have been entered before."""
    estimate(run, task, 1 if _KIND[task.state] == _OPEN else 0)
    task.open_deps = task.done_deps = task.dead_deps = 0
    for dependency in task.step.depends_on:
        run.children[dependency.id].append((task.id, dependency.optional))
        _count(task, _KIND[run.tasks[dependency.id].state], dependency.optional, 1)
    parent = run.tasks.get(task.parent)
    if parent is None:
        return
    _count(task, gate(parent), False, 1)
    parent.left += _KIND[task.state] == _OPEN
    parent.active += _works(task, task.state)
    parent.given_up += task.given_up if parent.step.for_each is not None else 0
    if task.state is TaskState.FAILED:
        _fail(run, task, 1)


def gate(task: Task) -> int:
    """Return how *task* stands as what its parts wait for."""
    if task.state is TaskState.CANCELLED:
        return _GONE
    return _DONE if task.opened and task.met else _OPEN


def begin(run: Run, task: Task, opened: int) -> None:
    """Let a pending *task* be opened at a seq, or with 0 not be; a record is at work while it is."""
    before = _works(task, task.state)
    task.opened = opened
    if task.parent:
        above = run.tasks[task.parent]
        run.touch(above)
        above.active += _works(task, task.state) - before


def regate(run: Run, task: Task, before: int) -> None:
    """Tell the parts of *task* if it lets them begin, or no longer, or never will."""
    after = gate(task)
    if before != after:
        for name in run.members[task.id]:
            _shift(run, run.tasks[name], before, after, optional=False)


def release(run: Run, task: Task, old: TaskState) -> None:
    """Tell the dependents of *task*, which was *old*, and what it is a part of, if it makes a difference to them."""
    before, after = _KIND[old], _KIND[task.state]
    if task.parent:
        _tell(run, task, old)
    if before == after:
        return
    estimate(run, task, -1 if before == _OPEN else 1)  # one of the two is open: done and cancelled never meet
    for name, optional in run.children[task.id]:
        _shift(run, run.tasks[name], before, after, optional=optional)


def _shift(run: Run, waiting: Task, before: int, after: int, *, optional: bool) -> None:
    run.touch(waiting)
    has_parts = waiting.id in run.members
    stood = gate(waiting) if has_parts else _OPEN
    _count(waiting, before, optional, -1)
    _count(waiting, after, optional, 1)
    run.index_ready(waiting)
    if has_parts:
        regate(run, waiting, stood)


def _tell(run: Run, task: Task, old: TaskState) -> None:
    """Tell what *task* is a part of."""
    parent, new = run.tasks[task.parent], task.state
    run.touch(parent)
    parent.left += (_KIND[new] == _OPEN) - (_KIND[old] == _OPEN)
    parent.active += _works(task, new) - _works(task, old)
    if old is TaskState.FAILED:
        _fail(run, task, -1)
    elif new is TaskState.FAILED:
        _fail(run, task, 1)
    unsettle(run, parent)


def unsettle(run: Run, task: Task) -> None:
    """Have a task with parts looked at if it may have come to its end, or has been given more to do."""
    if (task.opened and not task.left) or (task.left and task.state is TaskState.DONE):
        heappush(run.unsettled, (task.order, task.id))


def _fail(run: Run, task: Task, by: int) -> None:
    name = task.parent
    while name:
        above = run.tasks[name]
        run.touch(above)
        above.failed += by
        name = above.parent


def _works(task: Task, state: TaskState) -> bool:
    """Whether a record in *state* is at work: its call is out, or the steps of its plan may run."""
    return state is TaskState.RUNNING or (task.opened > 0 and state is TaskState.PENDING)


def _count(task: Task, kind: int, optional: bool, by: int) -> None:
    if kind == _OPEN:
        task.open_deps += by
    elif kind == _DONE:
        task.done_deps += by
    elif not optional:
        task.dead_deps += by


def estimate(run: Run, task: Task, by: int) -> None:
    """Count what a task is declared to need; one with parts needs what they do."""
    declared = task.step.estimate
    if declared is not None and by and not task.step.group:
        run.todo_tokens += by * declared.tokens
        run.todo_cost_micros += by * declared.cost_micros
