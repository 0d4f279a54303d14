"""Who waits for whom: the indexes over a plan's dependencies, kept so that a move costs its dependents and not the plan.

A part of a task (a step of its nested plan, a record of its batch) waits for that task to let its parts begin, whatever
its dependencies are and however it joins them; and the task waits for its parts to end.

What is done is there for those that wait for it, unless a person is asked whether it may stand, or what it rests on itself
is being done again: then they wait for that, too, or they would begin on a result that is about to be another one.
"""

from bisect import insort
from collections.abc import Collection, Mapping
from heapq import heappush
from typing import Final

from fsm_agent.core.engine.records import DONE, GONE, OPEN, Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.machine import TaskState
from fsm_agent.core.plans.plan import Dependency

Fresh = dict[str, list[tuple[str, bool]]]
"""New tasks by id, each with the list of who depends on it."""

_DONE: Final = TaskState.DONE
_PENDING: Final = TaskState.PENDING
KIND: Final = dict.fromkeys(TaskState, OPEN) | {TaskState.DONE: DONE, TaskState.CANCELLED: GONE}
"""How a task in a state stands for those that wait for it."""


def leave(run: Run, tasks: Collection[Task]) -> dict[str, int]:
    """Take *tasks*, which are about to be changed, out of the indexes: of a task with parts all of them.

    Returns:
        How each stands for those that depend on it, which :func:`enter` has to know.
    """
    stood = {task.id: _stands(task, task.state) for task in tasks}
    given: dict[str, None] = {}
    for task in tasks:
        run.touch(task)
        estimate(run, task, -1 if KIND[task.state] == OPEN else 0)
        given.update(dict.fromkeys(dependency.id for dependency in task.step.depends_on))
        run.drop(run.members, task.id)
    for name in given:
        run.put(run.children, name, [entry for entry in run.children[name] if entry[0] not in stood])
    return stood


def bring_in(run: Run, tasks: Collection[Task]) -> Fresh:
    """Let there be new tasks, which have not begun; they are entered next.

    Returns:
        The lists of who depends on each.
    """
    fresh: Fresh = {task.id: [] for task in tasks}
    if run.journal is not None:
        for name, waiting in fresh.items():
            run.put(run.children, name, waiting)
    else:
        run.children.update(fresh)
    run.counts[TaskState.PENDING] += len(tasks)
    return fresh


def enter(run: Run, tasks: Collection[Task], stood: Mapping[str, int], fresh: Fresh) -> None:
    """Enter *tasks* into the indexes, and tell who depends on one that stands otherwise now.

    Args:
        run: The state.
        tasks: New ones, and those that :func:`leave` has taken out, in plan order: each before its parts.
        stood: What it returned.
        fresh: What :func:`bring_in` returned.
    """
    if run.journal is not None:
        for name in dict.fromkeys(dependency.id for task in tasks for dependency in task.step.depends_on):
            if name not in fresh:
                run.put(run.children, name, [*run.children[name]])
    for task in tasks:
        step = task.step
        if task.id in stood:  # a new one has nothing counted yet
            task.left = task.active = task.failed = 0
            if step.for_each is not None:
                task.given_up = 0
        if (step.plan or step.for_each is not None) and run.plans(task):
            run.put(run.members, task.id, [])
        if task.parent:
            run.members[task.parent].append(task.id)
        count(run, task, stood, fresh)
    again = [(task, stood[task.id], _stands(task, task.state)) for task in map(run.tasks.__getitem__, stood)]
    for task, before, after in again:  # found before any of them is told: whoever hears of it tells on
        if before != after:
            _tell(run, task, before, after)
    for task in tasks:
        index(run, task)


def index(run: Run, task: Task) -> None:
    """Have *task* found by who looks for what can move, at the place that it has now; its timers stand as they are."""
    state = task.state
    if state is TaskState.PENDING or state is TaskState.AWAITING:
        run.index_ready(task)
    elif task.id in run.members:
        unsettle(run, task)


def count(run: Run, task: Task, stood: Mapping[str, int], fresh: Fresh) -> None:
    """Enter *task* into the indexes of those that it waits for and is a part of; they have been entered before.

    Args:
        run: The state.
        task: The task.
        stood: How those stand, for whoever depends on them, that are told of it later.
        fresh: Who depends on those that are new: they have not begun, and *task* comes after whoever was entered there.
    """
    step = task.step
    if step.estimate is not None:
        estimate(run, task, 1 if KIND[task.state] == OPEN else 0)
    task.open_deps = task.done_deps = task.dead_deps = 0
    entry = task.id, False  # one for all that it depends on
    for dependency in step.depends_on:
        waiting = fresh.get(dependency.id)
        if waiting is not None:
            waiting.append((task.id, True) if dependency.optional else entry)
            task.open_deps += 1
        else:
            _count(task, _wait(run, task, dependency, stood), dependency.optional, 1)
    if not task.parent:
        task.above = DONE
        return
    parent = run.tasks[task.parent]
    task.above = gate(parent)
    parent.left += KIND[task.state] == OPEN
    parent.active += _works(task, task.state)
    parent.given_up += task.given_up if parent.step.for_each is not None else 0
    if task.state is TaskState.FAILED:
        _fail(run, task, 1)


def _wait(run: Run, task: Task, dependency: Dependency, stood: Mapping[str, int]) -> int:
    """List *task* with those that wait for a task that there was, and return how that stands."""
    name, tasks = dependency.id, run.tasks
    children, entry = run.children[name], (task.id, dependency.optional)
    if not children or tasks[children[-1][0]].order < task.order:
        children.append(entry)
    else:  # they stand in plan order
        insort(children, entry, key=lambda child: tasks[child[0]].order)
    if name in stood:
        return stood[name]
    return _stands(tasks[name], tasks[name].state)


def gate(task: Task) -> int:
    """Return how *task* stands as what its parts wait for."""
    if task.state is TaskState.CANCELLED:
        return GONE
    return DONE if task.opened and task.met else OPEN


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
    if gate(task) != before:
        _tell(run, task, before, gate(task), inside=True)


def release(run: Run, task: Task, old: TaskState) -> None:
    """Tell the dependents of *task*, which was *old*, and what it is a part of, if it makes a difference to them."""
    if task.parent:
        _tell_above(run, task, old)
    before, after = KIND[old], KIND[task.state]
    if before == after:
        return
    if task.step.estimate is not None:  # one of the two is open: done and cancelled never meet
        estimate(run, task, -1 if before == OPEN else 1)
    if task.open_deps or task.dead_deps or task.questioned or task.above != DONE:  # nearly never
        _note_lost(run, task)
        before, after = _stands(task, old), _stands(task, task.state)
    if before != after:
        _tell(run, task, before, after)


def question(run: Run, task: Task, *, is_open: bool) -> None:
    """Say that it is asked whether *task*, which is done, may stand, or is no more; what rests on it waits meanwhile."""
    before = _stands(task, task.state)
    task.questioned = is_open
    if _stands(task, task.state) != before:
        _tell(run, task, before, _stands(task, task.state))


def _stands(task: Task, state: TaskState) -> int:
    """Return how *task*, in *state*, stands as what others depend on."""
    return OPEN if state is TaskState.DONE and task.in_doubt else KIND[state]


def _note_lost(run: Run, task: Task) -> None:
    """Have a done task looked at if what it depends on has been cancelled."""
    if task.bereft:
        heappush(run.doomed, (task.order, task.id))


def _tell(run: Run, task: Task, before: int, after: int, *, inside: bool = False) -> None:
    """Tell those that depend on *task*, or *inside* its parts, how it stands; and whoever stands otherwise by that tells on."""
    tasks, members, journal = run.tasks, run.members, run.journal
    left = [(task, before, after, inside)]
    while left:
        giver, before, after, inside = left.pop()
        told = [(name, False) for name in members[giver.id]] if inside else run.children[giver.id]
        arrived = before == OPEN and after == DONE and not inside
        for name, optional in told:
            waiting = tasks[name]
            if journal is not None:
                run.touch(waiting)
            if arrived and waiting.state is _PENDING and name not in members:  # nearly always
                waiting.open_deps -= 1
                waiting.done_deps += 1
                run.index_ready(waiting)
                continue
            done, has_parts = waiting.state is _DONE, name in members
            stood = _stands(waiting, waiting.state) if done else OPEN
            opened = gate(waiting) if has_parts else OPEN
            if inside:
                waiting.above = gate(giver)
            else:
                _count(waiting, before, optional, -1)
                _count(waiting, after, optional, 1)
            if not done or has_parts:
                run.index_ready(waiting)
            if done:
                if after == GONE:
                    _note_lost(run, waiting)
                if _stands(waiting, waiting.state) != stood:
                    left.append((waiting, stood, _stands(waiting, waiting.state), False))
            if has_parts and gate(waiting) != opened:
                left.append((waiting, opened, gate(waiting), True))


def _tell_above(run: Run, task: Task, old: TaskState) -> None:
    """Tell what *task* is a part of."""
    parent, new = run.tasks[task.parent], task.state
    run.touch(parent)
    parent.left += (KIND[new] == OPEN) - (KIND[old] == OPEN)
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
    return state is TaskState.RUNNING or (bool(task.opened) and state is TaskState.PENDING)


def _count(task: Task, kind: int, optional: bool, by: int) -> None:
    if kind == OPEN:
        task.open_deps += by
    elif kind == DONE:
        task.done_deps += by
    elif not optional:
        task.dead_deps += by


def estimate(run: Run, task: Task, by: int) -> None:
    """Count what a task is declared to need; one with parts needs what they do."""
    declared = task.step.estimate
    if declared is not None and by and not task.step.group:
        run.todo_tokens += by * declared.tokens
        run.todo_cost_micros += by * declared.cost_micros
