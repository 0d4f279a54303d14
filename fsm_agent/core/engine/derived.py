"""Signals that no call reports by itself: they follow from what the log already holds.

The engine raises them here, and the audit asks here what it should have raised.
"""

from typing import Any

from fsm_agent.core.engine import breaker, stall
from fsm_agent.core.engine.arguments import scope_of
from fsm_agent.core.engine.records import Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.inputs import Usage
from fsm_agent.core.machine import TaskState
from fsm_agent.core.signals import REPEATABLE, Signal

_PENDING = (TaskState.PENDING, TaskState.AWAITING)


def failure(run: Run, task: Task, signal: Signal, retry_after_us: int | None = None) -> tuple[Signal, str]:
    """Return the signal that a failed task fires, and why it is another one than *signal*; empty if it is not.

    What is worth retrying keeps its name and its budget, unless the other side asks to be left alone for longer than
    anybody waits in silence (``longest_wait_s``): that is a quota which is gone. A read whose call has given the same
    answers too often, in whatever step and with whatever in between, has stalled; the same failure too often in a row
    on one step and strategy is a repeated error.

    Args:
        run: The state; the task has moved to failed.
        task: The task.
        signal: What its outcome, or the door, said.
        retry_after_us: How long the other side asks to be left alone, in microseconds, or None.
    """
    if retry_after_us is not None and signal in breaker.FAILURES:
        longest = run.rules.params.get("longest_wait_s")
        if longest is not None and retry_after_us > longest * 1_000_000:
            words = f"{signal.value}, and it asks to be left alone for {retry_after_us / 1e6:g} s"
            return Signal.QUOTA_EXHAUSTED, f"{words} (at most {longest:g} s are waited)"
    if signal not in REPEATABLE or task.trouble is None:
        return signal, ""
    times, threshold = same_answers(run, task), int(run.rules.params["stall_threshold"])
    if times >= threshold:
        return Signal.PROGRESS_STALL, (
            f"{signal.value}, and the same call has given the same answers {times} times (threshold {threshold})"
        )
    times, threshold = task.trouble.streak, int(run.rules.params["repeat_threshold"])
    if task.trouble.fingerprint and times >= threshold:
        return Signal.REPEATED_ERROR, f"{signal.value} {times} times in a row (threshold {threshold})"
    return signal, ""


def same_answers(run: Run, task: Task) -> int:
    """Return how often the call that a failed read has just made gave the same answers in a row; 0 if it made none."""
    trail = run.trails.get(task.args_digest)
    return stall.repeats(trail.marks) if trail is not None and trail.seq == task.moved else 0


def inefficiency(run: Run, task: Task, used: Usage, duration_us: int) -> str:
    """Return in words that a done task cost far more than it was estimated at; empty if it did not, or it is no matter.

    It matters once per tool, and only while steps with the same tool wait to be started.

    Args:
        run: The state; the task is done.
        task: The task.
        used: What its last attempt used.
        duration_us: How long that took, in microseconds.
    """
    estimate = task.step.estimate
    if estimate is None or task.tool is None or task.tool in run.inefficient:
        return ""
    factor = float(run.rules.params["inefficiency_factor"])
    measured = (
        ("tokens", used.tokens, estimate.tokens),
        ("millionths of money", used.cost_micros, estimate.cost_micros),
        ("seconds", duration_us / 1_000_000, estimate.seconds),
    )
    for unit, cost, expected in measured:
        if expected > 0 and cost > factor * expected:
            like = [
                t.id for t in run.tasks.values() if t.state in _PENDING and run.tool_of(t.step) == task.tool
            ]
            if not like:
                return ""
            return (
                f"{task.id} used {cost:g} {unit}, {cost / expected:.3g} times its estimate, and {task.tool} is "
                f"still to be called for {', '.join(like[:8])}"
            )
    return ""


def verify(run: Run, task: Task, value: Any) -> tuple[Signal | None, str]:
    """Return (None, "") when ``done_when`` is true of *value*, else the signal and why."""
    done_when = task.step.done_when
    if done_when is None:
        return None, ""
    scope = scope_of(run, done_when.roots, at=task.id)
    if isinstance(value, dict):
        scope = {**value, **scope}
    scope.setdefault("result", value)
    verdict = done_when.evaluate(scope)
    if verdict.value is True:
        return None, ""
    if verdict.value is False:
        return Signal.VALIDATION_FAILED, f"`{done_when.text}` is false of the result"
    return Signal.UNVERIFIED, f"`{done_when.text}` is unknown of the result: {verdict.why}"
