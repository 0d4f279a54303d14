"""Checks of calls: intents, the words of people that they need, probes, and replies that came late."""

from typing import Any

from fsm_agent.core.audit.checker import Checker
from fsm_agent.core.engine import budget
from fsm_agent.core.engine.arguments import (
    approval_digest,
    args_digest,
    effect_before,
    needs_approval,
)
from fsm_agent.core.engine.policy import settle_us
from fsm_agent.core.engine.records import RUN, Task
from fsm_agent.core.events import Event
from fsm_agent.core.inputs import Usage
from fsm_agent.core.machine import RunState, TaskState
from fsm_agent.core.replanning import review


def starts(log: Checker, task: Task, data: dict[str, Any], at: int) -> None:
    """Check the intent of a call: that it may go out now, just so."""
    run = log.run
    if run.state is not RunState.RUNNING or run.wish != "none":
        log.find("intent", f"{task.id} starts while the run is {run.state.value} with wish {run.wish}")
    if run.barred:
        words = "a question about the whole run is open, or a broken constraint awaits another plan"
        log.find("intent", f"{task.id} starts while {words}")
    if not task.ready:
        log.find("intent", f"{task.id} starts although its dependencies do not let it")
    if task.not_before > at:
        early = (task.not_before - at) / 1e6
        log.find("intent", f"{task.id} starts {early:g} s before its delay is over")
    spec = run.tools.get(data["tool"])
    if spec is None or spec.effect.value != data["effect"]:
        words = f"{task.id} starts {data['tool']} as {data['effect']}; the registry knows it otherwise"
        log.find("intent", words)
        return
    if not run.plans(task):
        log.find("intent", f"{task.id} starts, and the plan in force does without it")
    if data["tool"] != run.tool_of(task.step):
        log.find("intent", f"{task.id} starts {data['tool']}; the plan says {run.tool_of(task.step)}")
    digest = args_digest(spec, data["args"])
    if digest != data["args_digest"] or data["attempt"] != task.attempt + 1:
        words = "the arguments' digest or the number of the attempt is not what it must be"
        log.find("intent", f"{task.id}: {words}")
    if run.key_of(task, digest) != data["key"]:
        log.find("intent", f"{task.id}: the key is not the digest of run, step and arguments")
    why = effect_before(run, task, spec, data["key"])
    if why:
        log.find("twice", f"{task.id} starts a {spec.effect.value}: {why}")
    _affordable(log, f"{task.id} starts", Usage(**data.get("reserve", {})))
    if needs_approval(task, spec):
        _needs_approval(log, task, data, approval_digest(run, task, spec, data["args"]), at)


def _affordable(log: Checker, what: str, wanted: Usage) -> None:
    why = budget.missing(log.run, wanted) if budget.limited(log.run) else ""
    if why:
        log.find("budget", f"{what}: {why}")


def probe_sent(log: Checker, event: Event) -> None:
    """Check that a probe asks about an unknown result, late enough, and is paid for."""
    task = log.task(event)
    if task.state is not TaskState.UNKNOWN or task.probing:
        log.find("probe", f"{task.id} is {task.state.value}; there is nothing to ask, or a probe is out")
    early = task.deadline_at + settle_us(log.run, task) - event.at
    if early > 0:
        log.find("probe", f"{task.id} is asked about {early / 1e6:g} s before its effect must be visible")
    if event.data["repeat"] and log.run.wish != "none":
        log.find("probe", f"{task.id} is sent again although the run is asked to {log.run.wish}")
    _affordable(log, f"a probe of {task.id}", Usage())


def reconciled(log: Checker, event: Event) -> None:
    """Check where a verdict comes from; one that says nothing must be decided on, unless it asks for a probe."""
    task, data = log.task(event), event.data
    if data["by"] == "probe" and not task.probing:
        log.find("probe", f"a probe of {task.id} answers, and none is out")
    if not data["evidence"]:
        log.find("evidence", f"a verdict on {task.id} without words")
    if data["verdict"] == "inconclusive" and "probe_at" not in data:
        log.owed[task.id] = ("reconcile_inconclusive", event.seq)


def late_result(log: Checker, event: Event) -> None:
    """Check that a late reply is of an attempt that was made and is not running."""
    task, attempt = log.task(event), event.data["attempt"]
    running = task.state is TaskState.RUNNING and attempt == task.attempt
    if running or not 1 <= attempt <= task.attempt:
        log.find("evidence", f"a late result of attempt {attempt} of {task.id}, which is none")


def approval_requested(log: Checker, event: Event) -> None:
    """Check that a request is for the call it shows."""
    data, name = event.data, event.task or RUN
    if data["kind"] == "approval" and name == RUN:
        _review_requested(log, data)
        return
    if data["kind"] != "decide" and (name, "a request") not in log.due:
        log.find("approval", f"{name} asks for a word of kind {data['kind']}, and nothing made it ask")
    for due in (
        (name, "a request"),
        (name, "a question"),
        (RUN, "a question"),
    ):  # the run may ask about a task
        log.due.pop(due, None)
    if data["kind"] != "approval":
        return
    task = log.task(event)
    spec = log.run.tools.get(data["tool"])
    if spec is None or approval_digest(log.run, task, spec, data["args"]) != data["args_digest"]:
        log.find("approval", f"the request of {task.id} does not have the digest of what it shows")


def _review_requested(log: Checker, data: dict[str, Any]) -> None:
    """Check that a question about the plan is one about the plan in force, and that there is a reason to ask."""
    log.due.pop((RUN, "a request"), None)
    if not log.run.unreviewed:
        log.find("approval", "a person is asked about the plan, and nothing makes it ask")
    if review.digest(log.run) != data["args_digest"]:
        log.find("approval", "the question about the plan does not have the digest of the plan in force")


def approval_answered(log: Checker, event: Event) -> None:
    """Check that an answer answers an open question, by its digest, in time."""
    data, name = event.data, event.task or RUN
    question = log.run.questions.get(name)
    if question is None:
        log.find("approval", f"an answer for {name}, which asks for nothing")
        return
    log.people = frozenset(question.approved_by)
    if data["args_digest"] != question.digest or data["kind"] != question.kind:
        log.find("approval", f"an answer for {name} to another question")
    if data["verdict"] == "approved" and data["by"] in question.approved_by:
        log.find("approval", f"{data['by']} approves {name} twice")
    if data["verdict"] == "edited":
        log.due[name, "a request"] = event.seq
    over = question.expires_at is not None and event.at >= question.expires_at
    if over != (data["verdict"] == "expired"):
        log.find(
            "approval", f"{name} is {data['verdict']}, and its time was {'over' if over else 'not over'}"
        )


def _needs_approval(log: Checker, task: Task, data: dict[str, Any], digest: str, at: int) -> None:
    seq = data.get("approval", 0)
    given = log.approved.get(seq)
    if given is None:
        log.find("approval", f"{task.id} starts without the approval that it needs")
        return
    name, approved, expires_at, wanted, people = given
    if name != task.id or approved != digest:
        log.find("approval", f"{task.id}: approval {seq} was given for something else")
    if expires_at is not None and at > expires_at:
        log.find("approval", f"{task.id}: approval {seq} had expired")
    if people < wanted:
        log.find("approval", f"{task.id}: {wanted} people must approve, {people} did")
    if seq in log.used:
        log.find("approval", f"{task.id}: approval {seq} is used a second time")
    log.used.add(seq)
