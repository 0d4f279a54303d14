"""What rested on something that changed runs again, and nothing else.

A changed input reaches the tasks whose resolved arguments or condition really differ; so does a result that came
out differently the second time, and one that came out equal reaches nobody. Reads run
again. A write that is done is never repeated: whether it may stand is a question to a person.
"""

from collections.abc import Iterable

from fsm_agent.core import canon
from fsm_agent.core.engine import batches, expansion
from fsm_agent.core.engine.arguments import (
    approval_digest,
    resolve,
    scope_of,
)
from fsm_agent.core.engine.policy import ask, may_retry
from fsm_agent.core.engine.records import Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.engine.turn import Turn
from fsm_agent.core.errors import UnresolvedReferenceError
from fsm_agent.core.machine import TaskState
from fsm_agent.core.plans.members import condition, readers, stated_as
from fsm_agent.core.replanning import gate


def inputs_changed(turn: Turn) -> None:
    """Let every task look again at the inputs it rests on."""
    tasks = turn.run.tasks.values()
    uses = [t for t in tasks if t.state is TaskState.AWAITING or _rests_on(t, "$inputs")]
    look_again(turn, uses, "an input that it rests on changed")


def result_changed(turn: Turn, task: Task) -> None:
    """Let those that use the result of *task*, which has come in once more, look whether it makes a difference.

    Those that depend on it, and those that read it and depend on something in between.
    """
    run = turn.run
    assert run.plan is not None, "no plan"
    names = dict.fromkeys(name for name, _ in run.children[task.id])
    names.update(dict.fromkeys(readers(run.plan).get(stated_as(task.id), ())))
    uses = {t.id: t for t in batches.with_parts(run, names)}
    look_again(turn, uses.values(), f"the result of {task.id}, which it rests on, is another one now")


def bereft(turn: Turn, task: Task, since: int) -> None:
    """What *task*, which is done, depends on was cancelled at the seq *since*: it goes along, unless it had an effect;
    then a person is asked, once.
    """
    why = "what it depends on was cancelled since"
    acted = [t for t in batches.with_parts(turn.run, [task.id]) if t.effect != "read" and t.applied != "no"]
    if not acted:
        turn.move(task, "invalidate", {"reason": why})
    elif since > task.asked:
        there = f"{acted[0].id} ({acted[0].tool}) had an effect and stays as it is"
        ask(turn, task, ("keep", "abort"), f"{task.id} is done, and {why}; {there}")


def ask_again(turn: Turn, task: Task) -> None:
    """A run goes on that ended before a person had said whether *task*, which is done, may stand."""
    words = f"{task.id} is done, and what it rests on had changed when the run ended; it is not repeated"
    ask(turn, task, ("keep", "abort"), f"{words}. Its result: {task.result!r:.200}")


def ended(turn: Turn, task: Task) -> None:
    """Let a task that is done by now look at what changed while its call was out, or its result unknown."""
    if turn.run.changed_at or turn.run.plan_version > 1:
        look_again(turn, [task], "what it rests on changed while its call was out")


def _rests_on(task: Task, root: str) -> bool:
    step = task.step
    if any(ref.root == root for source in (step.args, step.for_each) if source for ref in source.refs):
        return True
    conditions = [c.check for c in step.preconditions]
    return any(
        root in check.roots for check in (*conditions, *([step.when] if step.when is not None else []))
    )


def look_again(turn: Turn, tasks: Iterable[Task], why: str) -> None:
    """Let *tasks* look whether what they rest on makes another call of them; *why* it may, in words."""
    run = turn.run
    for task in tasks:
        if not run.plans(task):
            if task.state is TaskState.DONE and task.effect != "read" and not _stands_for(run, task):
                _done(turn, task, why)
        elif task.id in run.members and task.state is not TaskState.CANCELLED:
            _group(turn, task, why)
        elif task.state is TaskState.DONE:
            _done(turn, task, why)
        elif task.state is TaskState.AWAITING:
            _awaiting(turn, task, why)
        elif task.state is TaskState.FAILED:
            _failed(turn, task, why)
        elif task.state is TaskState.CANCELLED:
            _cancelled(turn, task, why)


def _stands_for(run: Run, dropped: Task) -> bool:
    """Whether a step of the plan has taken over the effect of one that it does without, and answers for it."""
    return any(t.key == dropped.key and t.id != dropped.id for t in run.tasks.values() if run.plans(t))


def drifted(run: Run, task: Task) -> bool:
    """Whether the task would be called with other arguments than it was."""
    if not task.args_digest:
        return False
    now = gate.call_digest(run, task.step)
    return now is not None and now != (task.planned_digest or task.args_digest)


def _group(turn: Turn, task: Task, why: str) -> None:
    """Let a task with parts come to the door again: its condition, or the list that it goes over, is another one.

    What its parts did stays done; a part whose own call would be another one is looked at by itself. If the condition
    no longer holds and a part had an effect, a person is asked.
    """
    run = turn.run
    if not task.opened:
        return  # the door will look
    if _condition_is_false(run, task):
        acted = [
            t
            for t in batches.with_parts(run, run.members[task.id])
            if t.effect != "read" and t.applied != "no"
        ]
        if acted and task.id not in run.questions:
            words = f"{task.id} has begun, and {why}; {acted[0].id} ({acted[0].tool}) had an effect and stays as it is"
            ask(turn, task, ("keep", "abort"), words)
        elif not acted:
            _begin_anew(turn, task, why)
    elif _other_records(run, task):
        _begin_anew(turn, task, why)


def stale(run: Run, task: Task) -> bool:
    """Whether the parts of *task* began on a condition, or a list, that is another one now."""
    if task.id not in run.members or not task.opened:
        return False
    return _condition_is_false(run, task) or _other_records(run, task)


def _begin_anew(turn: Turn, task: Task, why: str) -> None:
    if task.state is TaskState.DONE:
        turn.move(task, "invalidate", {"reason": why})
        return
    if task.state is TaskState.FAILED:
        turn.move(task, "retry", {"delay_ms": 1, "series": True, "reason": why})
    turn.emit("expanded", {"again": why}, task.id)


def _other_records(run: Run, task: Task) -> bool:
    if task.step.for_each is None:
        return False
    try:
        return canon.value_digest("records", expansion.records(run, task)) != task.args_digest
    except UnresolvedReferenceError:
        return task.met  # else what has the list is being done again, and tells when it is there


def _done(turn: Turn, task: Task, why: str) -> None:
    """Run a read again; ask about anything that had an effect."""
    run = turn.run
    if _condition_is_false(run, task) or drifted(run, task):
        if task.effect == "read":
            turn.move(task, "invalidate", {"reason": why})
        elif task.id not in run.questions:
            words = f"{task.id} ({task.tool}) is done, and {why}; it is not repeated. Its result: {task.result!r:.200}"
            ask(turn, task, ("keep", "abort"), words)


def _awaiting(turn: Turn, task: Task, why: str) -> None:
    """Void a request whose arguments are no longer what the plan resolves to, or whose step has no place any more; the
    door asks again, or drops it.
    """
    run = turn.run
    question, spec = run.questions.get(task.id), run.spec_of(task)
    if _condition_is_false(run, task):
        turn.move(task, "invalidate", {"reason": why})  # an answer would pass no door
        return
    if question is None or question.kind != "approval":
        return
    try:
        now = approval_digest(run, task, spec, resolve(run, task, spec.name)) if spec is not None else ""
    except UnresolvedReferenceError:
        now = ""
    if now != (question.base_digest or question.digest):
        turn.move(task, "invalidate", {"reason": why})


def _condition_is_false(run: Run, task: Task) -> bool:
    when = condition(task.step)
    return when is not None and when.evaluate(scope_of(run, when.roots, at=task.id)).value is False


def _failed(turn: Turn, task: Task, why: str) -> None:
    if may_retry(task) and drifted(turn.run, task):
        turn.move(task, "retry", {"delay_ms": 1, "series": True, "reason": why})


def _cancelled(turn: Turn, task: Task, why: str) -> None:
    """Bring back what a condition had cancelled and would no longer, and then what hung on it."""
    run = turn.run
    when = condition(task.step)
    if when is not None and when.evaluate(scope_of(run, when.roots, at=task.id)).value is not True:
        return
    back = [(task, why)] if task.reason_code == "condition" and not task.lost else []
    while back:
        task, why = back.pop()
        if task.state is not TaskState.CANCELLED:
            continue  # it hung on more than one that is back
        turn.move(task, "invalidate", {"reason": why})
        children = (run.tasks[name] for name, _ in reversed(run.children[task.id]))
        back.extend((c, f"{task.id}, which it depends on, is back") for c in children if _only_hung(run, c))


def _only_hung(run: Run, child: Task) -> bool:
    """Whether *child* was cancelled for nothing but a dependency that a condition had cancelled, and has them all again."""
    hung = child.state is TaskState.CANCELLED and child.reason_code == "condition" and bool(child.origin)
    return hung and run.plans(child) and not child.lost
