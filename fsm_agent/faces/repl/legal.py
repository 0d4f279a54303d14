"""What makes sense now: which commands, and which tasks of a run they can name. The machines and the questions say so.

This decides what is offered, never what is allowed: that is the engine's word alone.
"""

from fsm_agent.core.engine.state import Run
from fsm_agent.core.machine import RunState, TaskState
from fsm_agent.faces.frame.spec import Command

_OVER = (RunState.DONE, RunState.CANCELLED)


def tasks(run: Run, among: str) -> list[str]:
    """Return the ids of the tasks that a parameter means: see :data:`fsm_agent.faces.frame.spec.AMONG`."""
    match among:
        case "approval":
            return [name for name, q in run.questions.items() if q.kind == "approval"]
        case "saying":
            return [name for name, q in run.questions.items() if q.kind in ("approval", "answer")]
        case "question":
            return [name for name, q in run.questions.items() if q.kind in ("answer", "decide")]
        case "retry":
            return [t.id for t in run.tasks.values() if t.state is TaskState.FAILED]
        case "reconcile":
            return [t.id for t in run.tasks.values() if t.state is TaskState.UNKNOWN]
        case _:
            return list(run.tasks)


def makes_sense(row: Command, run: Run | None) -> bool:
    """Whether *row* can do something now.

    Args:
        row: A command of the prompt.
        run: The run that the prompt is at, or None.
    """
    about_run = any(p.kind == "run" and p.name == "run" and p.required for p in row.params)
    if run is None:
        return not about_run and not row.when
    if row.when == "open" and run.state in _OVER:
        return False
    if row.when == "stopped" and not stopped(run):
        return False
    return all(
        bool(tasks(run, p.among))
        for p in row.params
        if p.kind == "task" and p.required and not p.flags and p.among
    )


def stopped(run: Run) -> bool:
    """Whether the run is paused or has failed, so that only a word of a person lets it go on."""
    return run.paused or run.wish == "pause" or run.state is RunState.FAILED
