"""Facts move first: what a call, a probe or a late reply proves moves the task, then the new state fires the table.

A result of a read is success or failure. A call that may have had an effect and cannot say so is an unknown
result, whatever its error was called; only evidence leads out of there.
"""

from collections.abc import Mapping
from typing import Any, Final

from fsm_agent.core import canon
from fsm_agent.core.classification.fingerprint import fingerprint
from fsm_agent.core.engine import changes, derived
from fsm_agent.core.engine.arguments import (
    present_digest,
)
from fsm_agent.core.engine.failing import fire_failed
from fsm_agent.core.engine.policy import escalate, fire, last_signal, may_retry
from fsm_agent.core.engine.records import Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.engine.turn import Turn
from fsm_agent.core.errors import RefusedError
from fsm_agent.core.inputs import NO_USAGE, Outcome, Probed, Progressed, Returned, Usage
from fsm_agent.core.machine import TaskState
from fsm_agent.core.signals import Applied, Signal

TOOL = {"kind": "tool"}
_RUNNING: Final = TaskState.RUNNING
_SUCCESS: Final = Signal.SUCCESS


def task_named(run: Run, name: str) -> Task:
    """Return a task by id.

    Raises:
        RefusedError: There is none.
    """
    task = run.tasks.get(name)
    if task is None:
        near = ", ".join(list(run.tasks)[:8])
        raise RefusedError(
            f"task {name}: the plan has no such step; it has {near}", task=name, code="E-NO-TASK"
        )
    return task


def returned(turn: Turn, given: Returned) -> None:
    """Handle a call's end, in time or late."""
    task = turn.run.tasks.get(given.task) or task_named(turn.run, given.task)
    if task.state is not _RUNNING or task.attempt != given.attempt:
        _late(turn, task, given.attempt, given.outcome)
        return
    ended(turn, task, given.outcome)


def ended(turn: Turn, task: Task, outcome: Outcome) -> None:
    """Move a running task by its call's outcome and fire the table."""
    data = outcome_data(outcome)
    if outcome.kind == "value":
        signal, words = derived.verify(turn.run, task, outcome.value)
        if signal is None:
            again = bool(task.was)
            turn.move(task, "succeed", {"outcome": data}, applied="yes")
            fire(turn, task, _SUCCESS)
            if again:
                changes.result_changed(turn, task)
            changes.ended(turn, task)
            if task.step.estimate is not None:
                _weigh_cost(turn, task, outcome)
            return
        data["applied"] = Applied.YES.value
        data["error"] = _error(task, signal, words)
    else:
        signal = outcome.signal or Signal.UNCLASSIFIED_ERROR
        words = (outcome.error or {}).get("message") or outcome.kind
    applied = data.get("applied", Applied.MAYBE.value)
    if task.effect != "read" and applied == Applied.MAYBE:
        lost = Signal.INTERRUPTED if outcome.kind == "lost" else Signal.OUTCOME_UNKNOWN
        turn.move(task, "lose", {"outcome": data, "signal": lost.value, "reason": words}, applied=applied)
        if not _weigh_late(turn, task):
            fire(turn, task, lost, because=words)
        return
    turn.move(task, "fail", {"outcome": data, "signal": signal.value, "reason": words}, applied=applied)
    if not _weigh_late(turn, task):
        fire_failed(turn, task, signal, because=words, retry_after_us=outcome.retry_after_us)


def _weigh_cost(turn: Turn, task: Task, outcome: Outcome) -> None:
    """Fire for the run where a done task shows that steps like it are far dearer than planned."""
    used = Usage(
        tokens=task.used.tokens + outcome.usage.tokens,
        cost_micros=task.used.cost_micros + outcome.usage.cost_micros,
    )
    words = derived.inefficiency(turn.run, task, used, outcome.duration_us)
    if words and turn.run.wish == "none":
        fire(turn, None, Signal.INEFFICIENT, because=words, extra={"tool": task.tool, "dear": task.id})


def _weigh_late(turn: Turn, task: Task) -> bool:
    """Weigh an earlier attempt's reply that came while this one ran; whether it decided what becomes of the task."""
    if task.trouble is None or task.trouble.late is None:
        return False
    seq, value = task.trouble.late
    words = "an earlier attempt with the same arguments had returned"
    return settle(turn, task, value, {"seq": seq, "words": words})


def outcome_data(outcome: Outcome) -> dict[str, Any]:
    """Return what an event records of an outcome."""
    data: dict[str, Any] = {"kind": outcome.kind}
    if outcome.kind == "value":
        data["value"] = outcome.value
    else:
        data["applied"] = outcome.applied.value
        if outcome.value is not None:
            data["value"] = outcome.value
        if outcome.signal is not None:
            data["signal"] = outcome.signal.value
    if outcome.error:
        data["error"] = dict(outcome.error)
    if outcome.retry_after_us is not None:
        data["retry_after_us"] = outcome.retry_after_us
    if outcome.usage is not NO_USAGE and outcome.usage != NO_USAGE:
        data["usage"] = usage_data(outcome.usage)
    if outcome.duration_us:
        data["duration_us"] = outcome.duration_us
    return data


def usage_data(usage: Usage) -> dict[str, int]:
    """Return what an event records of a usage."""
    return {"tokens": usage.tokens, "cost_micros": usage.cost_micros}


def _error(task: Task, signal: Signal, words: str) -> dict[str, Any]:
    mark = fingerprint(tool=task.tool or "", signal=signal.value, code=None, class_name=None, message=words)
    return {"message": words, "fingerprint": mark}


# ── evidence ──────────────────────────────────────────────────────────────────────────────────────────────────


def settle(
    turn: Turn,
    task: Task,
    value: Any,
    evidence: Mapping[str, Any],
    *,
    person: bool = False,
) -> bool:
    """Evidence says that the effect happened, with *value* as its result; return whether the task has moved.

    The task is done if ``done_when`` is true of the value, or if a person says so; else the effect is there and
    the step has failed. After the end of the run the fact is recorded, and nothing is decided any more.
    """
    signal, words = (None, "") if person else derived.verify(turn.run, task, value)
    if signal is None:
        again = bool(task.was)
        digest = canon.value_digest("result", value)
        data = {"evidence": dict(evidence), "result": value, "result_digest": digest}
        if turn.run.closed:
            turn.move(task, "settle", data)
        else:
            turn.move(task, "settle", {**data, "signal": Signal.RECONCILED_APPLIED.value})
            fire(turn, task, Signal.RECONCILED_APPLIED, because=str(evidence["words"]))
            if again:
                changes.result_changed(turn, task)
            changes.ended(turn, task)
        return True
    if task.state is TaskState.UNKNOWN:
        _clear(turn, task, "yes", evidence, signal, words, error=_error(task, signal, words))
        return True
    turn.emit("note_added", {"text": f"the late result does not settle it: {words}"}, task.id)
    return False


def absent(turn: Turn, task: Task, evidence: Mapping[str, Any]) -> None:
    """Evidence says that the effect did not happen."""
    _clear(turn, task, "no", evidence, Signal.RECONCILED_ABSENT, str(evidence["words"]))


def _clear(
    turn: Turn, task: Task, applied: str, evidence: Mapping[str, Any], signal: Signal, words: str, **more: Any
) -> None:
    data = {"evidence": dict(evidence), "applied": applied, "reason": words, **more}
    if turn.run.closed:
        turn.move(task, "clear", data, applied=applied)
    else:
        turn.move(task, "clear", {**data, "signal": signal.value}, applied=applied)
        fire_failed(turn, task, signal, because=words)


def probed(turn: Turn, given: Probed) -> None:
    """Handle a probe's answer.

    Raises:
        RefusedError: No probe of this attempt is out, or the verdict is none; nothing is changed.
    """
    task = task_named(turn.run, given.task)
    if given.verdict not in ("applied", "absent", "inconclusive"):
        raise RefusedError(
            f"task {task.id}: a probe answered {given.verdict!r}; allowed: applied, absent, inconclusive",
            task=task.id,
        )
    if task.state is not TaskState.UNKNOWN or task.attempt != given.attempt or not task.probing:
        raise RefusedError(
            f"task {task.id}: a probe answered {given.verdict}, but no probe of attempt {given.attempt} is out; "
            "it was not used",
            task=task.id,
        )
    data: dict[str, Any] = {
        "verdict": given.verdict,
        "evidence": given.evidence or f"the probe of {task.tool} says {given.verdict}",
        "by": "probe",
        "attempt": given.attempt,
    }
    if given.verdict == "applied":
        data["result"] = given.result
    if given.usage != NO_USAGE:
        data["usage"] = usage_data(given.usage)
    event = turn.emit("reconciled", data, task.id, TOOL)
    weigh(turn, task, given.verdict, given.result, {"seq": event.seq, "words": data["evidence"]})


def weigh(turn: Turn, task: Task, verdict: str, result: Any, evidence: Mapping[str, Any]) -> None:
    """Move an unknown task by a probe's verdict, or fire for one that says nothing."""
    if verdict == "applied":
        settle(turn, task, result, evidence)
    elif verdict == "absent":
        absent(turn, task, evidence)
    else:
        fire(turn, task, Signal.RECONCILE_INCONCLUSIVE, because=str(evidence["words"]))


def inconclusive(turn: Turn, task: Task, words: str, *, by: str) -> None:
    """Record that a probe found out nothing, although no probe says so, and fire for it."""
    data = {"verdict": "inconclusive", "evidence": words, "by": by, "attempt": task.attempt}
    turn.emit("reconciled", data, task.id)
    fire(turn, task, Signal.RECONCILE_INCONCLUSIVE, because=words)


def _late(turn: Turn, task: Task, attempt: int, outcome: Outcome) -> None:
    """Record a reply that nobody waited for any more, and use it where it is evidence about the present arguments."""
    if attempt < 1 or attempt > task.attempt:
        raise RefusedError(
            f"task {task.id}: a result of attempt {attempt} arrived, but only {task.attempt} were started",
            task=task.id,
        )
    digest = task.digest_of(attempt)
    event = turn.emit("late_result", {"attempt": attempt, "outcome": outcome_data(outcome)}, task.id, TOOL)
    evidence = {"seq": event.seq, "words": f"the reply of attempt {attempt} arrived after its deadline"}
    if outcome.kind == "value":
        if task.state in _SETTLED_LATE and digest == present_digest(turn.run, task):
            settle(turn, task, outcome.value, evidence)
    elif task.state is TaskState.UNKNOWN and attempt == task.attempt and outcome.applied is not Applied.MAYBE:
        words = str((outcome.error or {}).get("message") or evidence["words"])
        if outcome.applied is Applied.NO:
            absent(turn, task, {**evidence, "words": words})
        else:
            signal = outcome.signal or Signal.UNCLASSIFIED_ERROR
            _clear(turn, task, "yes", evidence, signal, words, error=dict(outcome.error or {}))
    _ask_anew(turn, task)


_SETTLED_LATE = (TaskState.UNKNOWN, TaskState.FAILED, TaskState.PENDING, TaskState.AWAITING)


def _ask_anew(turn: Turn, task: Task) -> None:
    """Take back the offer to send, or to try again, what a late reply has shown to be there."""
    question = turn.run.questions.get(task.id)
    if question is None or may_retry(task):
        return
    if task.state is TaskState.AWAITING:
        turn.move(task, "invalidate", {"reason": "a late reply shows that an effect of it is there"})
    elif "retry" in question.answers:
        escalate(
            turn, task, last_signal(task), f"a late reply shows that its effect is there: {question.say}"
        )


def progressed(turn: Turn, given: Progressed) -> None:
    """Record a report of a running call; a stalled read is stopped.

    Raises:
        RefusedError: The call is not running.
    """
    task = task_named(turn.run, given.task)
    if task.state is not TaskState.RUNNING or task.attempt != given.attempt:
        raise RefusedError(
            f"task {task.id}: attempt {given.attempt} reports progress, but it is not running; it was not used",
            task=task.id,
        )
    data: dict[str, Any] = {"attempt": given.attempt, "advanced": given.advanced}
    if given.note:
        data["note"] = given.note
    if given.usage != NO_USAGE:
        data["usage"] = usage_data(given.usage)
    turn.emit("progressed", data, task.id, TOOL)
    threshold = int(turn.run.rules.params["stall_threshold"])
    if task.effect == "read" and task.trouble is not None and task.trouble.stall >= threshold:
        words = f"{task.trouble.stall} reports in a row without progress (threshold {threshold})"
        outcome = Outcome(
            kind="lost", signal=Signal.PROGRESS_STALL, applied=Applied.NO, error={"message": words}
        )
        ended(turn, task, outcome)
