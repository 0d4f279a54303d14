"""A planner's answer comes later than its question: what has become unknown meanwhile comes first."""

import json

from fsm_agent.core.inputs import Proposed
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
