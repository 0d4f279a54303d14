"""Checks of moves: legal by the tables, with evidence, and brought about by what may bring them about."""

from typing import Any, Final

from fsm_agent.core import canon
from fsm_agent.core.audit.calls import starts
from fsm_agent.core.audit.checker import Checker, by_person
from fsm_agent.core.engine.changes import drifted
from fsm_agent.core.engine.policy import STRENGTH
from fsm_agent.core.engine.records import RUN, Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.events import Event
from fsm_agent.core.machine import (
    FINAL_RUN_STATES,
    GUARDS,
    MACHINES_DIGEST,
    TABLES,
    TaskState,
    run_fault,
)

_SAID: Final = {"approve": "approved", "answer": "answered", "reject": "rejected", "expire": "expired"}
"""Trigger → the verdict of the answer that must stand before it in its batch."""


def run_created(log: Checker, event: Event) -> None:
    """Check the beginning: this run, these machines, the table whose digest it names."""
    data = event.data
    if data["run"] != log.run.id:
        log.find("begin", f"the log is of run {data['run']}, not of {log.run.id}")
    if data["machines_digest"] != MACHINES_DIGEST:
        log.find("legal", "the run was made by other state tables than these")
    if canon.value_digest("rules", data["rules"]) != data["rules_digest"]:
        log.find("begin", "the rule table is not the one that its digest names")
    if data.get("review"):
        log.due[RUN, "a request"] = event.seq


def plan_adopted(log: Checker, event: Event) -> None:
    """Check that a plan is what its digest names, and the next version."""
    data = event.data
    if canon.value_digest("plan", data["plan"]) != data["digest"]:
        log.find("begin", "the plan is not the one that its digest names")
    if data["plan_version"] != log.run.plan_version + 1:
        log.find("order", f"plan version {data['plan_version']} follows version {log.run.plan_version}")
    log.adopted = True


def owner_changed(log: Checker, event: Event) -> None:
    """Check that epochs rise."""
    if event.data["epoch"] <= log.run.epoch:
        log.find("order", f"epoch {event.data['epoch']} follows epoch {log.run.epoch}")


def run_asked(log: Checker, event: Event) -> None:
    """Check the rank of a wish and what it acknowledges, and note that a decided abort was wished for."""
    log.due.pop((RUN, "abort"), None)
    held, wish = log.run.wish, event.data["wish"]
    lifted = wish == "none" and held == "pause"
    if not lifted and not (STRENGTH.index(wish) >= STRENGTH.index(held) and wish != "none"):
        log.find("move", f"{wish} is wished while {held} is in force")
    for name in event.data.get("acknowledged", ()):
        if log.run.tasks[name].state is not TaskState.UNKNOWN:
            log.find("end", f"{name} is acknowledged, and its result is not unknown")


def run_moved(log: Checker, event: Event) -> None:
    """Check a run's move: legal, allowed by its tasks, and wished for where it needs a wish."""
    log.transitions += 1
    run, data = log.run, event.data
    trigger, source = data["trigger"], data["source"]
    if run.plan is None:
        log.find("begin", f"the run moves by {trigger} before it has a plan")
    if source != run.state.value or TABLES["run"].get((source, trigger)) != data["dest"]:
        words = f"the run is {run.state.value}; the move says {source} × {trigger} → {data['dest']}"
        log.find("legal", words)
    log.ended = data["dest"] in ("done", "failed", "cancelled")
    fault = run_fault(trigger, **run.tally(trigger))
    if fault:
        log.find("end", f"the run moves by {trigger}: {fault}")
    idle = not any(
        t.state is not TaskState.DONE and t.state is not TaskState.CANCELLED for t in run.tasks.values()
    )
    if trigger in ("abort", "cancel") and run.wish != trigger and not (trigger == "cancel" and idle):
        log.find("move", f"the run moves by {trigger}, and nobody wished it (wish {run.wish})")
    if trigger == "resume" and (source == "failed" or run.paused) and not by_person(event):
        log.find("move", "an aborted or paused run is resumed, and no person did it")
    if trigger == "hold" and not (run.wish == "pause" if data.get("paused") else run.questions):
        log.find("move", "the run waits, and neither is anybody asked nor did anybody pause it")
    if trigger == "lose" and not run.counts[TaskState.UNKNOWN]:
        log.find("move", "the run waits for evidence, and no result is unknown")


def run_closed(log: Checker, event: Event) -> None:
    """Check the end of the log."""
    state = log.run.state
    if not log.ended:
        log.find("end", "the log is closed, and the run has not moved to an end since it was closed before")
    log.ended = False
    if state not in FINAL_RUN_STATES:
        log.find("end", f"the log is closed while the run is {state.value}")
    if event.data["report"]["state"] != state.value:
        log.find("end", f"the report says {event.data['report']['state']}, the run is {state.value}")


def task_moved(log: Checker, event: Event) -> None:
    """Check a task's move: legal, with evidence, brought about by what may bring it about."""
    log.transitions += 1
    task, data = log.task(event), event.data
    trigger, source = data["trigger"], data["source"]
    if source != task.state.value or TABLES["task"].get((source, trigger)) != data["dest"]:
        words = f"{task.id} is {task.state.value}; the move says {source} × {trigger} → {data['dest']}"
        log.find("legal", words)
    fault = GUARDS[trigger](data, _effect_of(log.run, task, data), _applied_of(task, data))
    if fault:
        log.find("evidence", f"{task.id} {trigger}: {fault}")
    if trigger == "start":
        starts(log, task, data, event.at)
    elif trigger in ("settle", "clear"):
        _cited(log, task, data)
    elif trigger == "hold":
        log.due[task.id, "a request"] = event.seq
    if "result_digest" in data:
        value = data["outcome"].get("value") if trigger == "succeed" else data["result"]
        if canon.value_digest("result", value) != data["result_digest"]:
            log.find("evidence", f"{task.id}: the result is not the one that its digest names")
    _brought_about(log, task, event)
    signal = "success" if trigger in ("succeed", "answer") else data.get("signal")
    if signal is not None:
        log.owed[task.id] = (signal, event.seq)


def _brought_about(log: Checker, task: Task, event: Event) -> None:
    """A move that somebody must have caused: by a word, by a decision, by a wish or by a plan."""
    data, trigger = event.data, event.data["trigger"]
    decided = log.due.pop((task.id, trigger), None) is not None
    said = _SAID.get(trigger)
    if said is not None and log.said.pop(task.id, None) != said:
        log.find("move", f"{task.id} moves by {trigger}, and no answer says so")
    if trigger == "approve" and task.armed is None:
        log.find("approval", f"{task.id} is approved, and not everybody who must has said so")
    if decided or log.adopted:
        return
    if by_person(event):
        if trigger == "cancel" and log.said.get(task.id) != "answered":
            log.find("move", f"{task.id} is cancelled by a person, and no answer says so")
        return
    if trigger == "retry" and not drifted(log.run, task):
        log.find("move", f"{task.id} is tried again, and neither a decision nor a person said so")
    elif trigger == "cancel" and not _may_cancel(log, task, data):
        log.find("move", f"{task.id} is cancelled as {data['code']}, and nothing made it so")


def _may_cancel(log: Checker, task: Task, data: dict[str, Any]) -> bool:
    origin = log.run.tasks.get(data.get("origin", ""))
    if origin is not None:
        return origin.state is TaskState.CANCELLED and origin.reason_code == data["code"] and task.doomed
    wish = {"cancelled": "cancel", "aborted": "abort"}.get(data["code"])
    return (
        log.run.wish == wish
        if wish is not None
        else (data["code"] == "condition" and task.step.when is not None)
    )


def _cited(log: Checker, task: Task, data: dict[str, Any]) -> None:
    """Check that the evidence is an earlier event that says just this of this task."""
    seq = data["evidence"].get("seq")
    about, says, digest = log.evidence.get(seq, ("", "", None))
    needed = "absent" if data.get("applied") == "no" else "applied"
    mine = about == task.id or (says == "done" and log.adopted)
    if not mine or says not in (needed, "done"):
        log.find("evidence", f"{task.id}: event {seq!r} is no evidence that the effect is {needed}")
    elif data["trigger"] == "settle" and digest != data["result_digest"]:
        log.find("evidence", f"{task.id}: event {seq} gives another result")


def _effect_of(run: Run, task: Task, data: dict[str, Any]) -> str:
    if data["trigger"] == "start":
        spec = run.tools.get(data.get("tool", ""))
        return spec.effect.value if spec is not None else "read"
    return task.effect


def _applied_of(task: Task, data: dict[str, Any]) -> str:
    trigger = data["trigger"]
    if trigger in ("fail", "lose"):
        return str(data["outcome"].get("applied", "maybe"))
    if trigger == "clear":
        return str(data["applied"])
    return task.applied
