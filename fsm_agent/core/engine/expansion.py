"""How a plan's steps become tasks: at once, but for the records of a batch, which are known when it is let begin.

Part of the one reducer, see :mod:`fsm_agent.core.engine.fold`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fsm_agent.core.engine import dependents
from fsm_agent.core.engine.arguments import scope_of
from fsm_agent.core.engine.records import Order, Task
from fsm_agent.core.engine.state import ASIDE, Run
from fsm_agent.core.events import Event
from fsm_agent.core.machine import TaskState
from fsm_agent.core.plans import members
from fsm_agent.core.plans.plan import Step


def adopt(run: Run, steps: tuple[Step, ...]) -> None:
    """Let the tasks of *run* be those of *steps*, and after them what the plan does without.

    A task is looked at once, and if its step stands where it stood and is the very one, that was all: what is counted
    anew is what changed. That a plan takes over the steps that stay is the work of
    :meth:`fsm_agent.core.plans.build.Parsed.take_over`; where it does not, they are counted again, to the same end.
    """
    old, run.tasks = run.tasks, {}
    tasks, placed, moves = run.tasks, list[Task](), list[_Move]()
    for place, step in enumerate(steps):
        name = step.id
        if name in old and old[name].step is step and old[name].order[0] < ASIDE:
            tasks[name] = task = old[name]
            if name in run.members or task.order[0] != place:
                _stay(run, old, task, place)
        else:
            _place(run, old, step, (place,), "", placed, moves)
    left = [task for name, task in old.items() if name not in tasks]  # what was dropped before stands last
    tasks.update({task.id: task for task in left})
    gone = [task for task in left if task.order[0] < ASIDE]
    stood = dependents.leave(run, [task for task, *_ in moves] + gone)
    for task, step, order, parent in moves:
        task.order, task.step, task.parent = order, step, parent
        if task.opened and not step.group:
            task.opened = 0
    fresh = dependents.bring_in(run, [task for task in placed if task.id not in old] if old else placed)
    for place, task in enumerate(gone):
        task.order, task.parent = (ASIDE, -run.seq, place), ""
    dependents.enter(run, placed + gone, stood, fresh)


def brought(run: Run, names: Iterable[str]) -> None:
    """Note of the steps called *names*, and of all under them, that a later plan brought or changed them."""
    left = [name for name in names if name in run.tasks]
    while left:
        task = run.tasks[left.pop()]
        run.touch(task)
        task.since = run.seq
        left.extend(run.members.get(task.id, ()))


_Move = tuple[Task, Step, Order, str]
"""A task that there was, and the step, the place and the parent that it gets."""


def _stay(run: Run, old: Mapping[str, Task], task: Task, place: int) -> None:
    """List *task* and its parts, which stay as they are, at *place*."""
    tasks, members, moves = run.tasks, run.members, task.order[0] != place
    tasks[task.id] = task
    if moves:
        run.touch(task)
        task.order = (place, *task.order[1:])
        dependents.index(run, task)
    for name in members.get(task.id, ()):
        if moves or name in members:
            _stay(run, old, old[name], place)
        else:
            tasks[name] = old[name]


def _place(
    run: Run,
    old: Mapping[str, Task],
    step: Step,
    order: Order,
    parent: str,
    placed: list[Task],
    moves: list[_Move],
) -> None:
    """Find or make the tasks of *step* and its parts, in plan order, and say where those belong that there were."""
    name = step.id
    task = old.get(name)
    if task is None:
        task = Task(name, order, step, parent=parent)
    else:
        moves.append((task, step, order, parent))
    run.tasks[name] = task
    placed.append(task)
    if step.for_each is not None:
        template, index = members.template(step), 0
        while (record := f"{name}[{index}]") in old:
            _place(run, old, members.renamed(template, record), (*order, index), name, placed, moves)
            index += 1
    elif step.plan:
        for place, part in enumerate(step.plan):
            _place(run, old, part, (*order, place), name, placed, moves)


def records(run: Run, task: Task) -> Any:
    """Return what the batch *task* goes over, as the plan refers to it now.

    Raises:
        UnresolvedReferenceError: It has no value.
    """
    source = task.step.for_each
    assert source is not None, f"{task.id} is no batch"
    return source.resolve(scope_of(run, [ref.root for ref in source.refs], at=task.id))


def expanded(run: Run, event: Event) -> None:
    """Fold an ``expanded`` event: the parts of a task may begin, those of a batch come to be; or they may not until
    the task has been at the door again.
    """
    assert event.task is not None, "expanded without a task"
    task = run.tasks[event.task]
    run.touch(task)
    stood = dependents.gate(task)
    again = "again" in event.data
    dependents.begin(run, task, 0 if again else event.seq)
    dependents.regate(run, task, stood)
    if again:
        run.index_ready(task)
        return
    if task.step.for_each is not None:
        task.args_digest = event.data["digest"]
        _grow(run, task, records(run, task))
    dependents.unsettle(run, task)


def _grow(run: Run, batch: Task, items: list[Any]) -> None:
    """Let the parts of *batch* be the records of *items*; what it had more of stays a part until it ends."""
    template, batch.size = members.template(batch.step), len(items)
    names = [f"{batch.id}[{index}]" for index in range(len(items))]
    run.put(run.members, batch.id, list(dict.fromkeys([*run.members[batch.id], *names])))
    for index, (name, item) in enumerate(zip(names, items, strict=True)):
        if name not in run.tasks:
            fresh = list(_made(run, members.renamed(template, name), (*batch.order, index), batch.id))
            for task in fresh:  # steps may stand in the plan before what they depend on
                dependents.count(run, task, {}, {})
            for task in fresh:
                run.index(task)
        task = run.tasks[name]
        run.touch(task)
        task.item = item


def _made(run: Run, step: Step, order: Order, parent: str) -> Iterator[Task]:
    """Make the task of *step* and those of its parts, and yield them, each before its parts."""
    task = Task(step.id, order, step, parent=parent, since=run.tasks[parent].since)
    if run.journal is not None:
        run.journal.grew = True
    run.put(run.tasks, task.id, task)
    run.put(run.children, task.id, [])
    if step.group:
        run.put(run.members, task.id, [])
    run.counts[TaskState.PENDING] += 1
    run.touch(run.tasks[parent])
    yield task
    if step.for_each is None:
        for place, part in enumerate(step.plan):
            run.members[step.id].append(part.id)
            yield from _made(run, part, (*order, place), step.id)
