"""Checks of tasks with parts (E): when the parts may begin, which there are, and what ends the task."""

from typing import Final

from fsm_agent.core import canon
from fsm_agent.core.audit.check import Check, Said, check
from fsm_agent.core.audit.checker import Checker
from fsm_agent.core.engine import batches
from fsm_agent.core.engine.expansion import records
from fsm_agent.core.engine.groups import result_of, spoiled
from fsm_agent.core.engine.records import Task
from fsm_agent.core.events import Event
from fsm_agent.core.machine import RunState
from fsm_agent.core.plans.members import index_of


def parts_may_begin(log: Checker, event: Event) -> Said:
    """The parts of a task begin when a call of it might: the run is running, and its dependencies let it."""
    task, run = log.task, log.run
    if task.id not in run.members:
        return f"{task.id} has no parts, and they begin"
    if "again" in event.data:
        return "" if task.opened else f"the parts of {task.id} are to wait, and they have not begun"
    if run.state is not RunState.RUNNING or run.wish != "none" or run.barred:
        return f"the parts of {task.id} begin while the run is {run.state.value} with wish {run.wish}"
    return "" if task.ready else f"the parts of {task.id} begin although its dependencies do not let it"


def parts_of_the_plan(log: Checker, event: Event) -> Said:
    """A nested plan has the steps that the plan states; a batch goes over the very list that the plan names."""
    task, data = log.task, event.data
    if "again" in data:
        return None
    if task.step.for_each is None:
        stated = len(task.step.plan)
        return "" if data["steps"] == stated else f"{task.id} has {stated} steps, and {data['steps']} begin"
    items = records(log.run, task)
    same = data["records"] == len(items) and data["digest"] == canon.value_digest("records", items)
    return "" if same else f"{task.id} goes over {data['records']} records, which are not those of its list"


def batch_admits_it(log: Checker, event: Event) -> Said:
    """A record starts only while its batch has room for it, and has not stopped because of those that failed."""
    del event
    task = log.task
    if not task.parent:
        return None
    admitted = batches.admits(log.run, task)
    return "" if admitted else f"{task.id} starts, and its batch admits no further record now"


def parts_have_ended(log: Checker, event: Event) -> Said:
    """A task with parts is done when they have ended well, with just their results."""
    task, data = log.task, event.data
    if not ends_with_its_parts(task, data["evidence"]):
        return None
    if not task.opened or task.left or not task.met:
        return f"{task.id} is done, and {task.left} of its parts have not ended"
    bad = spoiled(log.run, task)
    if bad is not None:
        return f"{task.id} is done, and {bad.id}, a part of it, was cancelled: {bad.reason}"
    right = canon.value_digest("result", result_of(log.run, task)) == data["result_digest"]
    return "" if right else f"{task.id}: the result is not that of its parts"


def ends_with_its_parts(task: Task, evidence: object) -> bool:
    """Whether *task* is done because its parts are: by nobody's word, and by no event that says so."""
    return task.step.group and isinstance(evidence, dict) and "seq" not in evidence


def cancelled_along(log: Checker, task: Task, origin: Task) -> bool:
    """Whether *task* may be cancelled because of *origin*, something under it that was not given up in peace."""
    bad = spoiled(log.run, task) if task.id in log.run.members and not task.left else None
    return bad is not None and (bad.origin or bad.id) == origin.id


def surplus(log: Checker, task: Task) -> bool:
    """Whether *task* is a record beyond the end of the list that its batch goes over now."""
    batch = log.run.tasks.get(task.parent)
    if batch is None or batch.step.for_each is None:
        return False
    return (
        batches.surplus(log.run, task) if batch.opened else index_of(task.id) >= len(records(log.run, batch))
    )


PARTS: Final[tuple[Check, ...]] = (
    check("C10", parts_may_begin, "expanded"),
    check("C10", parts_of_the_plan, "expanded"),
    check("C10", batch_admits_it, "task:start"),
    check("C4", parts_have_ended, "task:settle"),
)
"""Checks of tasks with parts."""
