"""Which call an effect stands for, where rows and steps move: nothing is sent again because it goes by another name now.

A record is known by its place in the list. When the list changes, or another plan goes over it, a row may stand at
another place than the one where its call was made; equal calls keep their results wherever they stand.
"""

from fsm_agent.core.engine import batches
from fsm_agent.core.engine.changes import drifted, result_changed
from fsm_agent.core.engine.failing import refuse
from fsm_agent.core.engine.policy import fire
from fsm_agent.core.engine.records import Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.engine.turn import Turn
from fsm_agent.core.machine import TaskState
from fsm_agent.core.plans.members import record_of
from fsm_agent.core.signals import Signal


def made_before(turn: Turn, task: Task, digest: str) -> bool:
    """Give *task*, a record that comes to the door, the result of its very call where that was made under another name.

    Where nobody knows yet what became of that call, the record is refused.

    Args:
        turn: The turn.
        task: A ready task.
        digest: Of the call that it would make, which is no read.

    Returns:
        Whether the call is not to be made.
    """
    source = elsewhere(turn.run, task, digest)
    if source is None:
        return False
    if source.state is TaskState.DONE:
        take_over(turn, task, source)
    else:
        words = f"{source.id} made this very call for a row that stands here now, and is {source.state.value}"
        refuse(turn, task, Signal.PRECONDITION_VIOLATED, words)
    return True


def elsewhere(run: Run, task: Task, digest: str) -> Task | None:
    """Return the task that made the call of the record *task* for a row, or under a plan, that it has no more; or None.

    Two equal rows of one list are two calls: each has one of its own, or stands for its own.
    """
    if not (run.changed_at or run.plan_version > 1) or not record_of(task.id):
        return None
    made = [
        t for t in run.tasks.values() if t.args_digest == digest and t.effect != "read" and t.applied != "no"
    ]
    held = {t.key for t in made if not _left(run, t)}  # whoever took a result over has the key of the call
    free = (t for t in made if t.key not in held and t is not task)
    return min(free, key=lambda t: t.state is not TaskState.DONE, default=None)


def _left(run: Run, task: Task) -> bool:
    """Whether *task* is not what its call was made for any more: dropped, beyond its list, or of another row."""
    record = run.tasks.get(record_of(task.id))
    beyond = record is not None and batches.surplus(run, record)
    return beyond or not run.plans(task) or drifted(run, task)


def take_over(turn: Turn, task: Task, source: Task) -> None:
    """Let *task* be done with the result of *source*, which made its call."""
    if task.state is TaskState.CANCELLED:
        turn.move(task, "invalidate", {"reason": "the plan has it again"}, applied="no")
    again, words = bool(task.was), f"the same call was made by {source.id}"
    evidence = {"seq": source.moved, "words": words}
    data = {"evidence": evidence, "result": source.result, "result_digest": source.result_digest}
    call = {
        "tool": source.tool,
        "effect": source.effect,
        "args_digest": source.args_digest,
        "key": source.key,
    }
    turn.move(task, "settle", {**data, "call": call, "signal": Signal.RECONCILED_APPLIED.value})
    fire(turn, task, Signal.RECONCILED_APPLIED, because=words)
    if again:
        result_changed(turn, task)
