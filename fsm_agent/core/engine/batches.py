"""What a batch allows: how many of its records are at work at once, and how many may fail.

Looked up, never decided: whether a record may pass the door, and whether one that failed may be given up.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from fsm_agent.core.engine.records import Order, Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.plans import members


def batch_of(run: Run, task: Task) -> Task | None:
    """Return the innermost batch that *task* is a record of, or works for a record of; None for none."""
    record = run.tasks.get(members.record_of(task.id))
    return run.tasks.get(record.parent) if record is not None else None


def admits(run: Run, task: Task) -> bool:
    """Whether a ready task may come to the door now, as far as what it is a part of is concerned.

    Not while a person is asked whether that may stand. A record that has been begun before is let in whatever has
    failed meanwhile.
    """
    if task.parent and asked_about(run, task.parent):
        return False
    batch = run.tasks.get(task.parent)
    if batch is None or batch.step.for_each is None:
        return True
    most = batch.step.max_parallel
    if most is not None and batch.active >= most:
        return False
    return task.attempt > 0 or task.opened > 0 or not stopped(batch)


def surplus(run: Run, task: Task) -> bool:
    """Whether *task* is a record beyond the end of the list that its batch goes over."""
    batch = run.tasks.get(task.parent)
    return batch is not None and batch.step.for_each is not None and members.index_of(task.id) >= batch.size


def stopped(batch: Task) -> bool:
    """Whether *batch* begins no further record, because too many have failed."""
    allowed = batch.step.on_item_failure
    if allowed == "collect":
        return False
    if allowed == "stop":
        return batch.failed > 0
    return batch.failed > 0 and batch.failed + batch.given_up > float(allowed) * batch.size


def tolerates(run: Run, task: Task) -> Task | None:
    """Return the batch that may give up the record of *task*, which has failed; None if none may.

    Never a record of which a call had an effect, or may have had one, be it an earlier one of its plan: half of it is
    done, and a person looks at that.
    """
    batch = batch_of(run, task) if task.parent else None
    if batch is None or batch.step.on_item_failure == "stop":
        return None
    if any(t.effect != "read" and t.applied != "no" for t in with_parts(run, [members.record_of(task.id)])):
        return None
    if batch.step.on_item_failure == "collect":
        return batch
    return batch if batch.given_up + 1 <= float(batch.step.on_item_failure) * batch.size else None


def with_parts(run: Run, names: Iterable[str]) -> Iterator[Task]:
    """Yield the tasks called *names*, and all that is under them."""
    for name in names:
        yield run.tasks[name]
        yield from with_parts(run, run.members.get(name, ()))


def park(run: Run, task: Task) -> None:
    """Take *task*, the first of those that are ready, aside until its batch admits it.

    An index and no fact: nothing of this is undone with a turn.
    """
    begun = task.attempt > 0 or task.opened > 0
    heappush(run.parked.setdefault((task.parent, begun), []), heappop(run.ready_heap))


def unpark(run: Run) -> None:
    """Let records come to the door again, as many as their batch may admit."""
    for key in list(run.parked):
        waiting, room = run.parked[key], _room(run, *key)
        while waiting and room > 0:
            entry = heappop(waiting)
            heappush(run.ready_heap, entry)
            task = run.tasks[entry[1]]
            room -= task.order == entry[0] and task.ready  # who has begun since takes nobody's place
        if not waiting:
            del run.parked[key]


def _room(run: Run, name: str, begun: bool) -> int:
    """How many more parts the task called *name* would admit, of those that have *begun* before or have not."""
    batch = run.tasks[name]
    if asked_about(run, name) or (not begun and stopped(batch)):
        return 0
    if batch.step.for_each is None:
        return len(run.members[name])
    most = batch.step.max_parallel
    return batch.size if most is None else max(0, most - batch.active)


def admissible(run: Run) -> bool:
    """Whether a record is ready, at the door or aside, that its batch admits by now."""
    if any(_comes(run, entry) for entry in run.ready_heap):
        return True
    return any(_room(run, *key) and any(_comes(run, e) for e in aside) for key, aside in run.parked.items())


def asked_about(run: Run, name: str) -> str:
    """Return the task called *name*, or what it is a part of, if a person is asked about that; else an empty string."""
    while name and run.questions:
        if name in run.questions:
            return name
        name = run.tasks[name].parent
    return ""


def _comes(run: Run, entry: tuple[Order, str]) -> bool:
    task = run.tasks[entry[1]]
    return task.order == entry[0] and task.ready and admits(run, task)
