"""Saying that a task has failed although no call of it did, and what follows from its failures so far."""

from fsm_agent.core.classification.fingerprint import fingerprint
from fsm_agent.core.engine import derived
from fsm_agent.core.engine.policy import fire
from fsm_agent.core.engine.records import Task
from fsm_agent.core.engine.turn import Turn
from fsm_agent.core.signals import Signal


def refuse(turn: Turn, task: Task, signal: Signal, why: str) -> None:
    """Say that *task* cannot start, and let the table decide."""
    mark = fingerprint(
        tool=task.step.tool or "", signal=signal.value, code=None, class_name=None, message=why
    )
    turn.cause = turn.cause or task.moved or None
    task_error = {"message": why, "fingerprint": mark}
    turn.move(task, "refuse", {"reason": why, "signal": signal.value, "error": task_error})
    fire_failed(turn, task, signal, because=why)


def fire_failed(
    turn: Turn, task: Task, signal: Signal, *, because: str, retry_after_us: int | None = None
) -> None:
    """Fire the table for a failed task, as what follows from its failures so far (:mod:`fsm_agent.core.engine.derived`)."""
    signal, instead = derived.failure(turn.run, task, signal, retry_after_us)
    if instead:
        because = f"{instead}: {because}"
    fire(turn, task, signal, because=because, retry_after_us=retry_after_us)
