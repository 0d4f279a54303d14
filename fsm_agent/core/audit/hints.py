"""What a task or a run waits for, in words, and the commands that move it on, ready to be typed."""

from shlex import quote
from typing import Final, NamedTuple

from fsm_agent.core.engine import batches, budget
from fsm_agent.core.engine.records import RUN, Question, Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.machine import FINAL_RUN_STATES, RunState, TaskState

_MANY: Final = 8
"""Of more things that are waited for only the first so many are named."""


class Wait(NamedTuple):
    """What something waits for: in words (empty for nothing), and what a person can type about it."""

    words: str
    commands: tuple[str, ...] = ()


NOTHING: Final = Wait("")


def next_commands(run: Run) -> tuple[str, ...]:
    """Return commands that move the run on from here."""
    name = quote(run.id)
    if run.state is RunState.FAILED:
        return (*_go_on(run), f"fsm-agent cancel {name}", f"fsm-agent audit {name}")
    if run.state in FINAL_RUN_STATES:
        return (f"fsm-agent audit {name}", f"fsm-agent export {name}")
    commands = [command for q in run.questions.values() for command in for_question(run, q)]
    if run.paused or run.wish == "pause" or not run.questions:
        commands.append(f"fsm-agent resume {name}")
    return (*commands, *_cancel(run))


def _go_on(run: Run) -> tuple[str, ...]:
    """Return the commands that let an aborted run go on; first what it was aborted for, or it would be again."""
    raised = (f"fsm-agent set {quote(run.id)} budgets.KEY=V",) if run.account.band == "exhausted" else ()
    return (*raised, f"fsm-agent resume {quote(run.id)}")


def _cancel(run: Run) -> tuple[str, ...]:
    """Return the command that cancels the run, if it adds anything to what was wished."""
    command = f"fsm-agent cancel {quote(run.id)}"
    unknown = _unaccepted(run) if run.wish in ("cancel", "abort") else []
    if unknown:
        return (f"{command} {' '.join(f'--acknowledge {quote(name)}' for name in unknown)}",)
    return () if run.wish == "cancel" else (command,)


def _unaccepted(run: Run) -> list[str]:
    """Return the tasks whose unknown result nobody has accepted."""
    unknown = (t.id for t in run.tasks.values() if t.state is TaskState.UNKNOWN)
    return [name for name in unknown if name not in run.acknowledged]


def for_question(run: Run, question: Question) -> tuple[str, ...]:
    """Return the commands that answer *question*."""
    where = f"{quote(run.id)} {quote(question.task)}"
    meant = f"--digest {question.digest[:8]}"  # another request may have followed by the time it is typed
    if question.kind == "approval":
        other = (f"fsm-agent replan {quote(run.id)} --plan FILE",) if question.task == RUN else ()
        return (
            f"fsm-agent approve {where} {meant}",
            f'fsm-agent reject {where} -m "why"',
            *other,
        )
    if question.kind == "answer":
        return (f"fsm-agent answer {where} JSON {meant}",)
    task = run.tasks.get(question.task)
    if task is not None and task.state is TaskState.UNKNOWN:
        return _evidence(run, task)
    choice = next((a for a in question.answers if a != "result"), "abort")
    why = ' -m "why"' if choice == "keep" else ""
    return (f'fsm-agent answer {where} \'{{"decide": "{choice}"}}\' {meant}{why}',)


def _evidence(run: Run, task: Task) -> tuple[str, ...]:
    where = f"{quote(run.id)} {quote(task.id)}"
    return (
        f"fsm-agent reconcile {where} --as applied --evidence TEXT --result JSON",
        f"fsm-agent reconcile {where} --as absent --evidence TEXT",
    )


def of_run(run: Run) -> Wait:
    """Return what the run as a whole waits for."""
    resume = (f"fsm-agent resume {quote(run.id)}",)
    if run.state in FINAL_RUN_STATES:
        return NOTHING
    if run.paused or run.wish == "pause":
        return Wait("an operator paused it", resume)
    if run.wish != "none":
        unknown = _unaccepted(run) if run.state is RunState.UNKNOWN else []
        if not unknown:
            return Wait(f"it is asked to {run.wish}, and lets end what is under way", ())
        words = f"a person's word about {', '.join(unknown[:_MANY])}, of which nobody knows; then it can {run.wish}"
        said = [c for name in unknown[:_MANY] for c in _evidence(run, run.tasks[name])]
        return Wait(words, (*said, *_cancel(run)))
    if run.questions:
        names = ", ".join(list(run.questions)[:_MANY])
        commands = [c for q in list(run.questions.values())[:_MANY] for c in for_question(run, q)]
        return Wait(f"a person's word about {names}", tuple(commands))
    out = [*run.running][:_MANY]
    if out:
        return Wait(f"the calls of {', '.join(out)}")
    return Wait("whoever drives it", resume)


def of_task(run: Run, task: Task) -> Wait:
    """Return what *task* waits for; nothing where it is done or cancelled for good."""
    question = run.questions.get(task.id)
    if question is not None:
        return Wait(f"a person's word: {question.say}", for_question(run, question))
    ended = _idle(run)
    if ended is not None and task.state in (TaskState.PENDING, TaskState.FAILED):
        return ended
    match task.state:
        case TaskState.RUNNING:
            return Wait(f"{task.tool}, called at attempt {task.attempt}, until {_in(run, task.deadline_at)}")
        case TaskState.UNKNOWN:
            return _unknown(run, task)
        case TaskState.PENDING:
            return _pending(run, task)
        case TaskState.FAILED:
            return _failed(run, task)
        case _:
            return NOTHING


def _unknown(run: Run, task: Task) -> Wait:
    if task.id in run.acknowledged:
        return Wait("nothing more; a person accepted that it is not known")
    if task.probing:
        return Wait(f"the answer of the look-up what became of {task.tool}")
    if task.probe_at:
        return Wait(f"the look-up what became of {task.tool}, {_in(run, task.probe_at)}")
    return Wait("evidence of what became of it", _evidence(run, task))


def _idle(run: Run) -> Wait | None:
    """Return what a task of a run that has ended waits for, if the run has."""
    if run.state is RunState.FAILED:
        return Wait("the run to be resumed", _go_on(run))
    return NOTHING if run.state in FINAL_RUN_STATES else None


def _failed(run: Run, task: Task) -> Wait:
    name = task.id if task.id in run.replans else RUN
    if name not in run.replans or run.wish != "none":
        whole = of_run(run)
        return Wait(f"the whole run: {whole.words}", whole.commands)
    return _new_plan(run, name)


def _new_plan(run: Run, name: str) -> Wait:
    """Return what the replan called *name* waits for."""
    if run.asked and run.asked_for == name:
        return Wait("a new plan: the planner is being asked")
    unknown = [t.id for t in run.tasks.values() if t.state is TaskState.UNKNOWN]
    if unknown:
        return Wait(f"a new plan, which waits until it is known what became of {', '.join(unknown[:_MANY])}")
    out = [n for n in run.running if run.tasks[n].effect != "read"]
    if out:
        return Wait(f"a new plan, which waits for the calls of {', '.join(out[:_MANY])} to end")
    return Wait(f"a new plan, {_in(run, run.replans[name].not_before)}")


def _pending(run: Run, task: Task) -> Wait:
    if run.paused or run.wish != "none" or RUN in run.questions:
        whole = of_run(run)
        return Wait(f"the whole run: {whole.words}", whole.commands)
    if run.barred:
        return _new_plan(run, RUN)  # a constraint is broken
    if not task.ready:
        return _dependencies(run, task)
    if not batches.admits(run, task):
        asked = batches.asked_about(run, task.parent)
        return of_task(run, run.tasks[asked]) if asked else _batch(run, run.tasks[task.parent])
    if task.not_before > run.at:
        return Wait(f"its next try, {_in(run, task.not_before)}")
    lacking = budget.lacking(run, task, budget.estimate(run, task.step, run.tool_of(task.step) or ""))
    if lacking:
        return Wait(f"a budget: {lacking}", (f"fsm-agent set {quote(run.id)} budgets.KEY=V",))
    return Wait(
        "a free place among the calls, or somebody who drives the run", (f"fsm-agent resume {quote(run.id)}",)
    )


def _batch(run: Run, batch: Task) -> Wait:
    if not batches.stopped(batch):
        return Wait(f"a place among the {batch.step.max_parallel} records that {batch.id} works on at once")
    failed = [
        t for t in run.tasks.values() if t.state is TaskState.FAILED and t.id.startswith(f"{batch.id}[")
    ]
    waits = [(t, of_task(run, t)) for t in failed[:_MANY]]
    words = "; ".join(f"{t.id} has failed and waits for {w.words}" for t, w in waits)
    commands = tuple(dict.fromkeys(c for _, w in waits for c in w.commands))
    return Wait(f"{batch.id}, which begins no further record: {words}", commands)


def _before(run: Run, task: Task) -> list[str]:
    """Return what *task* waits for directly: the parts that it let begin, or what comes before it."""
    if task.opened and task.met:
        return run.members[task.id]
    above = [task.parent] if task.parent else []
    return [*(d.id for d in task.step.depends_on), *above]


def _dependencies(run: Run, task: Task) -> Wait:
    """Name the steps at the far end of what is waited for: those that wait for no other step."""
    roots: dict[str, Task] = {}
    seen: set[str] = set()
    left = [task]
    while left:
        later = left.pop()
        for name in _before(run, later):
            before = run.tasks[name]
            again = before.state is TaskState.DONE and before.in_doubt
            ended = before.state in (TaskState.DONE, TaskState.CANCELLED) and not again
            if before.id in seen or ended or (later.parent == name and before.opened and before.met):
                continue
            seen.add(before.id)
            if (again and before.id not in run.questions) or (
                before.state is TaskState.PENDING and not before.ready
            ):
                left.append(before)
            else:
                roots[before.id] = before
    waits = [(t, of_task(run, t)) for t in list(roots.values())[:_MANY]]
    words = "; ".join(f"{t.id}, which is {t.state.value} and waits for {w.words}" for t, w in waits)
    return Wait(words, tuple(dict.fromkeys(c for _, w in waits for c in w.commands)))


def _in(run: Run, at: int) -> str:
    """Say a time from the point of view of the last event."""
    left = (at - run.at) / 1_000_000
    return f"in {left:.3g} s" if left > 0 else "now"
