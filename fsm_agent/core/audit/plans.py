"""Checks of plans (D6): a plan is changed only when a decision or a person asked for it, and as the gate allows."""

from collections.abc import Mapping
from typing import Any, Final

from fsm_agent.core import canon
from fsm_agent.core.audit.check import Check, Said, check
from fsm_agent.core.audit.checker import Checker, by_person
from fsm_agent.core.engine import budget
from fsm_agent.core.engine.records import RUN, Replanning
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import FsmAgentError
from fsm_agent.core.events import Event
from fsm_agent.core.machine import TaskState
from fsm_agent.core.plans import known
from fsm_agent.core.plans import text as plantext
from fsm_agent.core.replanning import gate, repairing, strategy


def plan_digest(log: Checker, event: Event) -> Said:
    """A plan is the one that its digest names."""
    del log
    same = canon.value_digest("plan", event.data["plan"]) == event.data["digest"]
    return "" if same else "the plan is not the one that its digest names"


def plan_versions(log: Checker, event: Event) -> Said:
    """Versions of the plan follow one another; the first is there from the beginning."""
    version = event.data["plan_version"]
    right = log.run.plan_version + 1
    return "" if version == right else f"plan version {version} follows version {right - 1}"


def plan_asked_for(log: Checker, event: Event) -> Said:
    """A further plan answers an open replan after its cool-down, or is a person's; never while a result is unknown.

    In the log of a decision layer (origin ``caller``) it is the word of whoever keeps the loop.
    """
    run, data = log.run, event.data
    if run.plan is None:
        return "" if data["origin"] == "initial" else f"the first plan is of origin {data['origin']}"
    if data["origin"] == "caller":
        return None if log.by_caller else "it is the plan of a loop that somebody else keeps, and nobody does"
    if run.counts[TaskState.UNKNOWN]:
        return "the plan is changed while a result is unknown"
    if data["origin"] == "human":
        return "" if by_person(event) else "it is a person's plan, and no person gave it"
    request = run.replans.get(data["answers"])
    if request is None:
        return (
            f"a plan of origin {data['origin']} answers a replan of {data['answers']} that nobody asked for"
        )
    if event.at < request.not_before:
        return f"the plan is changed {(request.not_before - event.at) / 1e6:g} s before the cool-down is over"
    if data["origin"] == "model" and (not run.asked or run.asked_for != data["answers"]):
        return "a model's plan is adopted, and no planner was asked for it"
    return ""


def plan_through_the_gate(log: Checker, event: Event) -> Said:
    """A plan that nobody gave is what the gate makes of its source: the planner's answer, a repair, an alternative."""
    run, data = log.run, event.data
    if (
        data["origin"] not in ("model", "rule", "alternative")
        or run.plan is None
        or data["answers"] not in run.replans
    ):
        return None
    request, model = run.replans[data["answers"]], data["origin"] == "model"
    scope = "local" if data["origin"] == "alternative" else request.scope
    document = _proposal(run, request, data)
    if document is None:
        return f"nothing in the log proposes this plan of origin {data['origin']}"
    try:
        passed = gate.judge(
            run, document, scope=scope, failed=request.task, by_person=data["origin"] == "alternative"
        )
    except (FsmAgentError, gate.RefusedProposalError) as error:
        return f"the gate does not let the {'planner' if model else data['origin']}'s proposal in: {error}"
    found: dict[str, Any] = {
        "digest": passed.plan.digest,
        "strategy": passed.signature,
        "diff": passed.diff.to_data(),
        "scope": scope,
    }
    wrong = [key for key, value in found.items() if data[key] != value]
    return f"{', '.join(wrong)} is not what the gate makes of what was proposed" if wrong else ""


def _proposal(run: Run, request: Replanning, data: Mapping[str, Any]) -> Any:
    """Return what was proposed, from the source that the log has of it; None if it has none."""
    task = run.tasks.get(request.task or "")
    if data["origin"] == "model":
        document = plantext.read(data["answer"])
        if isinstance(document, dict) and document.get("infeasible") in (None, "", False):
            document.pop("infeasible", None)
        return document
    if task is None or run.plan is None:
        return None
    if data["origin"] == "rule":
        proposed = repairing.proposals(run, task, request.signal)
        return next((docs for repair, docs in proposed if repair.id == data["repair"]), None)
    return strategy.switched(run.plan.doc["steps"], task.id)


def plan_difference(log: Checker, event: Event) -> Said:
    """What a plan says that it keeps, changes, adds and removes is what differs from the plan before."""
    run, data = log.run, event.data
    if run.plan is None:
        return None
    found, said = strategy.diff(run.plan, known.trusted(data["plan"], run.plan)), data["diff"]
    both = {*found.kept, *found.changed}
    anew = {*found.kept} - {*said["kept"]}
    fits = (
        {*said["kept"], *said["changed"]} == both
        and all(gate.outdated(run, run.tasks[name]) for name in anew)
        and set(said["added"]) == set(found.added)
        and set(said["removed"]) == set(found.removed)
    )
    return "" if fits else "the difference to the plan before is not the one that it states"


def answer_digest(log: Checker, event: Event) -> Said:
    """A planner's answer is the one that its digest names."""
    del log
    if "answer_digest" not in event.data or "\ufffd" in event.data["answer"]:
        return None  # none was given, or it was none that a log can hold as it came
    same = canon.blob_digest(str(event.data["answer"]).encode()) == event.data["answer_digest"]
    return "" if same else "the planner's answer is not the one that its digest names"


def replan_as_decided(log: Checker, event: Event) -> Said:
    """A replan is asked for by a decision of its batch, in the scope decided, after the cool-down, for this strategy."""
    run, data, name = log.run, event.data, event.task or RUN
    scope = log.decided.get(name, log.decided.get(RUN) if log.by_caller else None)
    if scope != data["scope"]:
        return f"another plan ({data['scope']}) is asked for {name}; decided was {scope}"
    if run.plan is None or data["strategy"] != strategy.signature(run.plan, strategy.done_calls(run)):
        return "the strategy that failed is not that of the plan in force"
    task = run.tasks.get(name)
    prepared = task is not None and bool(task.step.alternatives)
    pause = 0 if prepared or not run.replanned_at else round(run.rules.params["cooldown_s"] * 1_000_000)
    early = max(event.at, run.replanned_at + pause) - data["not_before"]
    return f"the replan goes on {early / 1e6:g} s before the cool-down is over" if early > 0 else ""


def planner_in_turn(log: Checker, event: Event) -> Said:
    """A planner is asked once at a time, for an open replan after its cool-down, while planner calls are left."""
    run, name = log.run, event.task or RUN
    request = run.replans.get(name)
    if request is None or request.seq != event.data["request"]:
        return f"a planner is asked about a replan of {name} that nobody asked for"
    if run.asked:
        return "a planner is asked while another question to it is open"
    if event.at < request.not_before and not log.by_caller:
        return f"a planner is asked {(request.not_before - event.at) / 1e6:g} s before the cool-down is over"
    allowed = budget.limit(run, "planner_calls")
    spent = allowed is not None and run.account.planner_calls >= allowed
    return f"a planner is asked, and {allowed} calls are allowed" if spent else ""


def refusal_of_a_replan(log: Checker, event: Event) -> Said:
    """What is refused is a replan that is open; a planner's answer is refused only after it was asked."""
    run, data, name = log.run, event.data, event.task or RUN
    request = run.replans.get(name)
    if request is None or request.seq != data["request"]:
        return f"a replan of {name} is refused, and nobody asked for it"
    told = "usage" in data and not run.asked
    return "a planner's answer is refused, and no planner was asked" if told else ""


PLANS: Final[tuple[Check, ...]] = (
    check("D1", plan_digest, "plan_adopted"),
    check("D6", plan_versions, "plan_adopted"),
    check("D6", plan_asked_for, "plan_adopted"),
    check("D6", plan_through_the_gate, "plan_adopted"),
    check("D6", plan_difference, "plan_adopted"),
    check("D6", answer_digest, "plan_adopted", "replan_refused"),
    check("D6", replan_as_decided, "replan_requested"),
    check("D6", planner_in_turn, "planner_asked"),
    check("D6", refusal_of_a_replan, "replan_refused"),
)
"""Checks of plans and of what leads to them."""
