"""How a plan's steps become tasks: at once, but for the records of a batch, which are known when it is let begin.

Part of the one reducer, see :mod:`fsm_agent.core.engine.fold`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from fsm_agent.core.engine import dependents
from fsm_agent.core.engine.arguments import scope_of
from fsm_agent.core.engine.records import Order, Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.events import Event
from fsm_agent.core.machine import TaskState
from fsm_agent.core.plans import members
from fsm_agent.core.plans.plan import Step


def adopt(run: Run, steps: tuple[Step, ...]) -> None:
    """Let the tasks of *run* be those of *steps*, and after them what the plan does without."""
    old = run.tasks
    if run.journal is not None:
        for earlier in old.values():
            run.touch(earlier)
    run.tasks = {}
    for place, step in enumerate(steps):
        _place(run, old, step, (place,), "")
    for task in old.values():
        if task.id not in run.tasks:
            _set_aside(run, task)
            run.tasks[task.id] = task
    dependents.recount(run)


def _place(run: Run, old: Mapping[str, Task], step: Step, order: Order, parent: str) -> None:
    task = old.get(step.id)
    if task is None:
        task = Task(step.id, order, step, parent=parent, since=run.seq if run.plan_version > 1 else 0)
    else:
        run.touch(task)
        task.order, task.step, task.parent = order, step, parent
        if not step.group:
            task.opened = 0
    run.tasks[step.id] = task
    if step.for_each is None:
        for place, part in enumerate(step.plan):
            _place(run, old, part, (*order, place), step.id)
        return
    template, index = members.template(step), 0
    while (name := f"{step.id}[{index}]") in old:
        _place(run, old, members.renamed(template, name), (*order, index), step.id)
        index += 1


def _set_aside(run: Run, task: Task) -> None:
    """The plan in force does without *task*; it comes after all that it has."""
    run.touch(task)
    task.order, task.parent = (len(run.plan.steps) if run.plan else 0, len(run.tasks)), ""


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
        run.index(task)
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
                dependents.count(run, task)
            for task in fresh:
                run.index(task)
        task = run.tasks[name]
        run.touch(task)
        task.item = item


def _made(run: Run, step: Step, order: Order, parent: str) -> Iterator[Task]:
    """Make the task of *step* and those of its parts, and yield them, each before its parts."""
    task = Task(step.id, order, step, parent=parent)
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
