"""A planner's answer comes later than its question: what has happened meanwhile comes first."""

import json

from fsm_agent.core.inputs import AskPlanner, Proposed
from tests.core.kit import Lab, lab

STEPS = [
    {"id": "a", "tool": "look", "done_when": "v == 1"},
    {"id": "s", "tool": "put"},
    {"id": "p", "tool": "mail", "args": {"x": 1}, "depends_on": ["s"]},
]
OTHER = [{"id": "a", "tool": "look", "args": {"q": 2}}, *STEPS[1:]]


def propose(it: Lab) -> None:
    it.feed(Proposed(request=it.run.asked, answer=json.dumps(OTHER)))


def test_no_plan_is_adopted_while_a_result_is_unknown_although_it_was_asked_for_before():
    with lab(STEPS, planner=True, params={"retries": 0}, slots=1) as it:
        it.returns("a", {"v": 0})
        it.returns("s")
        it.times_out("p")
        assert it.states == {"a": "failed", "s": "done", "p": "unknown-result"}
        propose(it)
        (refused,) = it.events("replan_refused")
        assert (refused.data["gate"], "ended" in refused.data) == ("unknown", False)
        assert "the result of p is unknown" in refused.data["why"]
        assert it.run.plan_version == 1
        it.reconcile("p", "applied", {"n": 1})
        assert it.run.asked, "it is asked again when that is known"
        propose(it)
        assert it.run.plan_version == 2
        assert it.task("a").state == "pending"


def test_a_plan_for_what_was_corrected_meanwhile_is_asked_for_again():
    steps = [
        {"id": "a", "tool": "look", "done_when": "v == 1"},
        {"id": "s", "tool": "put", "args": {"day": "$inputs.day"}},
    ]
    with lab(steps, inputs={"day": 1}, planner=True, params={"retries": 0}) as it:
        it.returns("a", {"v": 0})
        it.returns("s")
        it.set(day=2)
        it.feed(
            Proposed(
                request=it.run.asked, answer=json.dumps([{"id": "a", "tool": "look", "args": {"day": 1}}])
            )
        )
        assert [e.data["gate"] for e in it.events("replan_refused")] == ["stale"]
        assert it.run.plan_version == 1
        assert it.run.asked, "it is asked again, with what holds now"
        again = [c for c in it.commands if isinstance(c, AskPlanner)][-1]
        assert again.briefing["inputs"] == {"day": 2}


def test_no_plan_is_adopted_for_a_step_that_has_not_failed_any_more():
    with lab(STEPS, planner=True, params={"retries": 0}, slots=2) as it:
        it.returns("a", {"v": 0})
        it.returns("s")
        it.retry("a")
        it.returns("a", {"v": 1})
        propose(it)
        (refused,) = it.events("replan_refused")
        assert (refused.data["gate"], refused.data["ended"]) == ("moot", True)
        assert (it.run.state, it.run.plan_version) == ("running", 1)
