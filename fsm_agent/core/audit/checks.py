"""What every event of a log is held against; the decisions among them are made again.

The facts of a decision are computed anew, and the rule table is the one in the log. Moves and calls have modules of
their own.
"""

from collections.abc import Callable
from typing import Final

from fsm_agent.core.audit import calls, moves
from fsm_agent.core.audit.checker import CHECKS, Checker, Finding
from fsm_agent.core.engine.derived import failure
from fsm_agent.core.engine.fold import apply
from fsm_agent.core.engine.policy import rule_on, settle_us
from fsm_agent.core.engine.records import RUN, Task
from fsm_agent.core.events import Event
from fsm_agent.core.signals import HOME, Signal

__all__ = ["CHECKS", "Checker", "Finding", "check"]

Check = Callable[[Checker, Event], None]


def check(log: Checker, event: Event) -> bool:
    """Check *event* against the state before it, then apply it; False if it cannot be applied."""
    try:
        log.order(event)
        held_against = _BY_TYPE.get(event.type)
        if held_against is not None:
            held_against(log, event)
        apply(log.run, event)
        log.remember(event)
    except Exception as error:  # noqa: BLE001 - whatever a forged event makes a check stumble over is a finding
        words = f"{event.type} cannot be applied to the state before it ({type(error).__name__}: {error})"
        log.find("fold", words)
        return False
    if event.seq == log.tx_end:
        log.settle_up()
    return True


def decided(log: Checker, event: Event) -> None:
    """Decide again, from the facts as the log gives them, and compare everything."""
    log.decisions += 1
    run, data = log.run, event.data
    task = log.task(event) if event.task is not None else None
    machine, state = ("task", task.state.value) if task is not None else ("run", "running")
    signal = Signal(data["signal"])
    if data["state"] != state or signal not in HOME.get((machine, state), ()):
        log.find("signal", f"{signal.value} fires in {machine} {data['state']}; it is not at home there")
        return
    _pay(log, event, task)
    ruling = rule_on(run, task, signal)
    said, right = (data["rule"], data["decide"]), (ruling.rule, ruling.decide.value)
    if said != right:
        words = f"the log says {said[1]} by {said[0]}; the table says {right[1]} by {right[0]}"
        log.find("decision", words)
    if ruling.facts != data["facts"]:
        log.find("decision", f"the log saw the facts {data['facts']}; they were {ruling.facts}")
    _follow_up(log, event, task)


def _follow_up(log: Checker, event: Event, task: Task | None) -> None:
    """Note what must follow in the batch."""
    data, name = event.data, event.task or RUN
    match data["decide"]:
        case "retry":
            log.due[name, "retry"] = event.seq
        case "skip":
            log.due[name, "cancel"] = event.seq
        case "escalate":
            log.due[name, "a question"] = event.seq
        case "abort" if log.run.wish in ("none", "pause"):
            log.due[RUN, "abort"] = event.seq
        case "reconcile" if task is not None:
            early = task.deadline_at + settle_us(log.run, task) - data["params"]["probe_at"]
            if early > 0:
                log.find("probe", f"{task.id} is to be asked about {early / 1e6:g} s too early")


def _pay(log: Checker, event: Event, task: Task | None) -> None:
    """Match a decision with the signal that called for it."""
    if task is None:
        for name in event.data.get("for", ())[:1]:
            log.owed.pop(name, None)
        return
    owed = log.owed.pop(task.id, None)
    signal = event.data["signal"]
    if owed is None:
        log.find("signal", f"a decision about {signal} of {task.id}, which signals nothing")
        return
    right = failure(log.run, task, Signal(owed[0]))[0].value
    if signal != right:
        words = f"event {owed[1]} signals {owed[0]}, which makes {right} here"
        log.find("signal", f"{words}, but the decision is about {signal}")


_BY_TYPE: Final[dict[str, Check]] = {
    "approval_answered": calls.approval_answered,
    "approval_requested": calls.approval_requested,
    "decided": decided,
    "late_result": calls.late_result,
    "owner_changed": moves.owner_changed,
    "plan_adopted": moves.plan_adopted,
    "probe_sent": calls.probe_sent,
    "reconciled": calls.reconciled,
    "run_asked": moves.run_asked,
    "run_closed": moves.run_closed,
    "run_created": moves.run_created,
    "run_moved": moves.run_moved,
    "task_moved": moves.task_moved,
}
