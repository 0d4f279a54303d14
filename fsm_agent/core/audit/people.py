"""Checks of approvals and answers (E1, B6): who may say yes to what, until when, and how often that counts."""

from typing import Any, Final

from fsm_agent.core.audit.check import Check, Said, check
from fsm_agent.core.audit.checker import Checker, name_of
from fsm_agent.core.engine.arguments import approval_digest, edited, needs_approval, resolve
from fsm_agent.core.engine.records import RUN
from fsm_agent.core.errors import UnresolvedReferenceError
from fsm_agent.core.events import Event
from fsm_agent.core.replanning import review

_CLOCK_US: Final = 1000
"""So much, in microseconds, may lie between reading the clock for a request and the time of its event."""


def approved_before(log: Checker, event: Event) -> Said:
    """A call that needs a person's word starts with an approval of exactly this call."""
    run, task, data = log.run, log.task, event.data
    spec = run.tools.get(data["tool"])
    if spec is None or not needs_approval(run, task, spec, data["args_digest"]):
        return None if "approval" not in data else f"{task.id} cites an approval, and needs none"
    given = log.approvals.get(task.id)
    if given is None or given.seq != data.get("approval"):
        return f"{task.id} starts without the approval that it needs"
    same = given.digest == approval_digest(run, task, spec, data["args"])
    return "" if same else f"{task.id}: approval {given.seq} was given for something else"


def approval_in_time(log: Checker, event: Event) -> Said:
    """An approval is used before it expires."""
    given = log.approvals.get(event.task or "")
    if given is None or given.expires_at is None or "approval" not in event.data:
        return None
    return "" if event.at <= given.expires_at else f"{event.task}: approval {given.seq} had expired"


def approved_by_enough(log: Checker, event: Event) -> Said:
    """As many different people have approved a call as its step wants."""
    given = log.approvals.get(event.task or "")
    if given is None or "approval" not in event.data:
        return None
    if given.people >= given.wanted:
        return ""
    return f"{event.task}: {given.wanted} people must approve, {given.people} did"


def approval_used_once(log: Checker, event: Event) -> Said:
    """An approval is used up by the start that cites it."""
    if "approval" not in event.data:
        return None
    seq = event.data["approval"]
    return (
        "" if log.used.get(event.task or "") != seq else f"{event.task}: approval {seq} is used a second time"
    )


def request_was_due(log: Checker, event: Event) -> Said:
    """A request follows a task that waits for it, or a person's change of its arguments, in the same batch."""
    name, kind = event.task or RUN, event.data["kind"]
    if kind == "approval" and name == RUN:
        return "" if log.run.unreviewed else "a person is asked about the plan, and nothing makes it ask"
    if kind == "decide" or (name, "a request") in log.due:
        return ""
    return f"{name} asks for a word of kind {kind}, and nothing made it ask"


def request_shows_the_call(log: Checker, event: Event) -> Said:
    """A request shows the call that the plan resolves to, or what a person made of it, under its own digest."""
    run, data = log.run, event.data
    if data["kind"] != "approval" or log.by_caller:
        return None
    if event.task is None:
        same = review.digest(run) == data["args_digest"]
        return "" if same else "the question about the plan does not have the digest of the plan in force"
    task = log.task
    spec = run.tools.get(data["tool"])
    if spec is None or approval_digest(run, task, spec, data["args"]) != data["args_digest"]:
        return f"the request of {task.id} does not have the digest of what it shows"
    try:
        planned = resolve(run, task, spec.name)
    except UnresolvedReferenceError:
        return f"a call of {task.id} is shown, and a reference in its arguments has no value"
    if log.said.get(task.id) == "edited":
        question = run.questions.get(task.id)
        right: dict[str, Any] = log.edited if question is not None else planned
    else:
        right = edited(run, task, spec, planned)
    if data["args"] != right:
        return f"the request of {task.id} shows other arguments than the plan resolves to"
    return "" if data["effect"] == spec.effect else f"the request of {task.id} shows another effect class"


def request_wants_enough(log: Checker, event: Event) -> Said:
    """A request asks as many people as the step wants, and expires when the step, or its tool, says."""
    data = event.data
    if data["kind"] == "decide" or event.task is None or log.by_caller:
        return None
    task = log.task
    step, spec = task.step, log.run.spec_of(task)
    if data["kind"] == "approval" and data["approvers"] != step.approvers:
        return f"{data['approvers']} people are asked about {task.id}; the plan wants {step.approvers}"
    within = step.confirm_within_us
    if within is None and data["kind"] == "approval":
        within = spec.confirm_within_us if spec is not None else None
    at = data.get("expires_at")
    if within is None:
        return "" if at is None else f"the request of {task.id} expires, and nothing says so"
    early = event.at + within - at if at is not None else -1
    return "" if 0 <= early <= _CLOCK_US else f"the request of {task.id} does not expire when it must"


def answers_the_question(log: Checker, event: Event) -> Said:
    """An answer is to the open question, by its digest, and one of the answers that it allows."""
    data, name = event.data, event.task or RUN
    question = log.run.questions.get(name)
    if question is None:
        return f"an answer for {name}, which asks for nothing"
    if data["args_digest"] != question.digest or data["kind"] != question.kind:
        return f"an answer for {name} to another question"
    if name in log.said:
        return f"{name} is answered twice in one batch"
    if event.task is None and question.kind == "approval" and question.digest != review.digest(log.run):
        return "an answer to the question about the plan, which is another one by now"
    value = data.get("value")
    said = value.get("decide") if question.kind == "decide" and isinstance(value, dict) else None
    return (
        ""
        if said is None or said in question.answers
        else f"{name} is answered by {said}, which is not offered"
    )


def answered_in_time(log: Checker, event: Event) -> Said:
    """An answer comes before the question expires; a question expires when its time is over."""
    question, verdict = log.run.questions.get(event.task or RUN), event.data["verdict"]
    if question is None:
        return None
    over = question.expires_at is not None and event.at >= question.expires_at
    if over == (verdict == "expired"):
        return ""
    return f"{event.task or RUN} is {verdict}, and its time was {'over' if over else 'not over'}"


def nobody_approves_twice(log: Checker, event: Event) -> Said:
    """Nobody approves the same request twice."""
    question = log.run.questions.get(event.task or RUN)
    if question is None or event.data["verdict"] != "approved":
        return None
    again = name_of(event.data["by"]) in map(name_of, question.approved_by)
    return f"{event.data['by']} approves {event.task} twice" if again else ""


PEOPLE: Final[tuple[Check, ...]] = (
    check("E1", approved_before, "task:start"),
    check("E1", approval_in_time, "task:start"),
    check("E7", approved_by_enough, "task:start"),
    check("E1", approval_used_once, "task:start"),
    check("B6", request_was_due, "approval_requested"),
    check("E1", request_shows_the_call, "approval_requested"),
    check("E1", request_wants_enough, "approval_requested"),
    check("B6", answers_the_question, "approval_answered"),
    check("E1", answered_in_time, "approval_answered"),
    check("E7", nobody_approves_twice, "approval_answered"),
)
"""Checks of what people are asked and say."""
