"""Tasks with parts: when the parts may begin, and what becomes of the task when they have ended.

A nested plan's steps and a batch's records are tasks like any other; the task that they are parts of stays pending
while they work, is done when all of them have ended well, and is cancelled along with one that was not given up in
peace.
"""

from typing import Any

from fsm_agent.core import canon
from fsm_agent.core.engine import batches, changes, derived
from fsm_agent.core.engine.expansion import records
from fsm_agent.core.engine.failing import refuse
from fsm_agent.core.engine.policy import fire
from fsm_agent.core.engine.records import Task
from fsm_agent.core.engine.state import BENIGN, SPARED, Run
from fsm_agent.core.engine.turn import Turn
from fsm_agent.core.errors import UnresolvedReferenceError
from fsm_agent.core.language.refs import kind
from fsm_agent.core.machine import TaskState
from fsm_agent.core.plans.members import MAX_RECORDS, MAX_TASKS, index_of, walk
from fsm_agent.core.signals import Signal

GIVEN_UP = SPARED | {"collected", "rejected"}
"""Reasons to cancel a record after which a batch that tolerates failures may still be done."""
_OVER = (TaskState.PENDING, TaskState.AWAITING)


def tidy(turn: Turn) -> None:
    """Let every task follow what has ended: cancel what lost a dependency, end or reopen what has parts."""
    run = turn.run
    if run.doomed:
        cancel_doomed(turn)
    while run.unsettled:
        task = run.tasks[run.take(run.unsettled)[1]]
        if not run.plans(task) or task.id not in run.members:
            continue
        if task.state is TaskState.DONE and task.left:
            turn.cause = None
            turn.move(
                task, "invalidate", {"reason": "a part of it has to be done again, or for the first time"}
            )
        elif over(run, task):
            _end(turn, task)
        cancel_doomed(turn)


def over(run: Run, task: Task) -> bool:
    """Whether all parts of a pending *task* have ended, and nobody is asked whether they may stand."""
    ended = task.state is TaskState.PENDING and task.opened > 0 and not task.left and task.met
    return ended and task.id not in run.questions


def cancel_doomed(turn: Turn) -> None:
    """Cancel every task whose dependency is gone for good, and what hangs on it."""
    run = turn.run
    while run.doomed:
        task = run.tasks[run.take(run.doomed)[1]]
        if task.bereft:
            turn.cause = max(t.moved for t in _gone(run, task))
            changes.bereft(turn, task, turn.cause)
            continue
        if not task.doomed:
            continue
        gone = _gone(run, task)
        root = next((t for t in gone if t.reason_code not in BENIGN), gone[0])
        origin = run.tasks[root.origin or root.id]
        via = "" if origin is root else f" because of {origin.id}"
        turn.cause = max(t.moved for t in gone)
        turn.move(
            task,
            "cancel",
            {
                "reason": f"{root.id}, which it {_hangs(task, root)}, was cancelled{via}: {origin.reason}",
                "code": root.reason_code,
                "origin": origin.id,
            },
        )


def _gone(run: Run, task: Task) -> list[Task]:
    above = [d.id for d in task.step.depends_on if not d.optional]
    found = (run.tasks[name] for name in (*above, *([task.parent] if task.parent else [])))
    return [t for t in found if t.state is TaskState.CANCELLED]


def _hangs(task: Task, on: Task) -> str:
    return "is a part of" if task.parent == on.id else "depends on"


def open_parts(turn: Turn, task: Task) -> None:
    """Let the parts of a ready task begin, or refuse it if nobody can tell what they are."""
    run, step = turn.run, task.step
    data: dict[str, Any] = {"steps": len(step.plan)}
    items: list[Any] = []
    if step.for_each is not None:
        try:
            items = records(run, task)
        except UnresolvedReferenceError as error:
            refuse(turn, task, Signal.UNRESOLVED_REFERENCE, str(error))
            return
        fault = _fault(run, task, items)
        if fault:
            refuse(turn, task, Signal.BAD_REQUEST, fault)
            return
        _give_up_surplus(turn, task, len(items))
        data = {"records": len(items), "digest": canon.value_digest("records", items)}
    parts = (run.tasks[name] for name in run.members[task.id][: data.get("records")])
    back = [part for part in parts if part.moved or part.opened]
    other = {part.id for part, item in zip(back, _items(back, items), strict=True) if part.item != item}
    turn.cause = turn.cause or task.moved or None
    event = turn.emit("expanded", data, task.id)
    for part in back:
        turn.cause = event.seq
        if part.state is TaskState.CANCELLED and _comes_back(
            part, anew=step.for_each is None or part.id in other
        ):
            turn.move(part, "invalidate", {"reason": f"{task.id} has it again"})
    again = batches.with_parts(run, [part.id for part in back])
    changes.look_again(turn, list(again), f"{task.id}, which it is a part of, has begun anew")


def _items(parts: list[Task], items: list[Any]) -> list[Any]:
    """Return of a batch what its records *parts* are of now; of a nested plan nothing."""
    return [items[index_of(part.id)] for part in parts] if items else [None for _ in parts]


def _comes_back(part: Task, *, anew: bool) -> bool:
    """Whether a cancelled part is there again; one that was given up only if it is *anew*, not the same once more."""
    return part.reason_code == "superseded" or (anew and part.reason_code == "collected")


def _fault(run: Run, batch: Task, items: Any) -> str:
    assert batch.step.for_each is not None, f"{batch.id} is no batch"
    source = batch.step.for_each.source
    if not isinstance(items, list):
        return f"for_each: {source} is {kind(items)}; a list is needed, one task for each of its records"
    if len(items) > MAX_RECORDS:
        return f"for_each: {source} has {len(items)} records; at most {MAX_RECORDS} are allowed"
    more = max(0, len(items) - len(run.members[batch.id])) * (1 + sum(1 for _ in walk(batch.step.plan)))
    if len(run.tasks) + more > MAX_TASKS:
        return f"for_each: {source} would make {more} more tasks; at most {MAX_TASKS} are allowed in a run"
    return ""


def _give_up_surplus(turn: Turn, batch: Task, size: int) -> None:
    """Cancel the records beyond *size* that a list had before; whatever may have had an effect ends by itself."""
    run = turn.run
    for name in run.members[batch.id][size:]:
        part = run.tasks[name]
        idle = part.state in _OVER or (
            part.effect == "read" and part.state in (TaskState.FAILED, TaskState.RUNNING)
        )
        if idle:
            give_up_surplus(turn, part, size)


def give_up_surplus(turn: Turn, part: Task, size: int) -> None:
    """Cancel a record beyond the *size* of its batch, which does nothing, or has come to the door once more."""
    turn.move(part, "cancel", {"reason": f"{part.parent} has {size} records now", "code": "superseded"})


def _end(turn: Turn, task: Task) -> None:
    """All parts have ended: the task is done with their results, or is cancelled or refused."""
    run, batch = turn.run, task.step.for_each is not None
    parts = _parts(run, task)
    if any(p.left and p.state is TaskState.DONE for p in parts):
        return  # one of them has more to do, and is about to say so
    turn.cause = max((p.moved for p in parts), default=task.opened)
    bad = spoiled(run, task)
    if bad is not None:
        words = f"{bad.id}, a part of it, was cancelled: {bad.reason}"
        turn.move(task, "cancel", {"reason": words, "code": bad.reason_code, "origin": bad.origin or bad.id})
        return
    value = result_of(run, task)
    signal, words = (None, "") if batch else derived.verify(run, task, value)
    if signal is not None:
        refuse(turn, task, signal, words)
        return
    again = bool(task.was)
    data = {
        "evidence": {"words": _count(parts, "records" if batch else "steps")},
        "result": value,
        "result_digest": canon.value_digest("result", value),
        "signal": Signal.SUCCESS.value,
    }
    turn.move(task, "settle", data)
    fire(turn, task, Signal.SUCCESS)
    if again:
        changes.result_changed(turn, task)


def _parts(run: Run, task: Task) -> list[Task]:
    names = run.members[task.id]
    return [run.tasks[name] for name in (names if task.step.for_each is None else names[: task.size])]


def spoiled(run: Run, task: Task) -> Task | None:
    """Return the first part of *task* that was cancelled for a reason for which the task cannot be done; or None."""
    tolerant = task.step.for_each is not None and task.step.on_item_failure != "stop"
    spared = GIVEN_UP if tolerant else SPARED
    cancelled = (p for p in _parts(run, task) if p.state is TaskState.CANCELLED)
    return next((p for p in cancelled if p.reason_code not in spared), None)


def result_of(run: Run, task: Task) -> Any:
    """Return what the parts of *task* make in all: a batch's results in order, null for each record given up; of a
    nested plan the results of its done steps by their own names.
    """
    parts = _parts(run, task)
    if task.step.for_each is not None:
        return [p.result if p.state is TaskState.DONE else None for p in parts]
    cut = len(task.id) + 1
    return {p.id[cut:]: p.result for p in parts if p.state is TaskState.DONE}


def _count(parts: list[Task], what: str) -> str:
    lost = [p.id for p in parts if p.state is not TaskState.DONE]
    words = f"{len(parts) - len(lost)} of {len(parts)} {what} are done"
    more = f" and {len(lost) - 8} more" if len(lost) > 8 else ""
    return f"{words}; cancelled: {', '.join(lost[:8])}{more}" if lost else words
