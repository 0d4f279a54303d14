"""What a scenario file cannot say of some public cases: reports to people, and tools that are gone after a restart."""

from pathlib import Path

import pytest

from fsm_agent.testing.scenario import load
from fsm_agent.testing.simulate import simulate
from tests.audits import clean
from tests.core.kit import lab, tool

SCENARIOS = Path(__file__).parent.parent / "scenarios"


def report_of(name):
    """Return the closing report of a scenario."""
    result = clean(simulate(load(SCENARIOS / f"{name}.json")))
    (closed,) = (e for e in result.events if e.type == "run_closed")
    return closed.data["report"]


def test_a20_a_tool_that_is_gone_after_the_restart_leaves_its_question_and_is_named_when_it_is_approved():
    send = tool("send", "write", confirm=True)
    with lab([{"id": "w", "tool": "send"}], tools=(send,)) as run:
        run.crash(tools=())
        assert list(run.run.questions) == ["w"]
        assert run.run.state == "awaiting-confirmation"
        run.approve("w")
        assert run.decisions("w")[-1] == ("undeclared_tool", "escalate")
        assert run.calls() == []
        assert run.question("w").kind == "decide"
        assert "send" in run.question("w").say


@pytest.mark.parametrize("name", ["A46-a-skipped-branch-takes-its-join-along"])
def test_a46_the_report_says_what_was_not_done_and_why(name):
    told = {item["task"]: item["reason"] for item in report_of(f"scheduling/{name}")["not_done"]}
    assert told.keys() == {"B", "C", "D"}
    assert "optional" in told["B"]
    assert "B, which it depends on" in told["C"]
    assert "because of B" in told["D"]


@pytest.mark.parametrize("workers", ["1-worker", "4-workers"])
def test_a47_dependents_of_a_failed_step_are_reported_as_waiting_for_it(workers):
    told = {
        item["task"]: item["reason"]
        for item in report_of(f"scheduling/A47-dependents-of-a-failed-step-{workers}")["not_done"]
    }
    assert told["B"] == "waiting for A"
    assert told["C"] == "waiting for B"


def test_a61_a_cancelled_run_lists_what_is_unknown_and_what_remains_for_a_person():
    told = report_of("cancel/A61-a-cancel-leaves-a-record-of-what-was-under-way")
    assert told["unknown"] == ["A"]
    (remains,) = told["remains"]
    assert "whether A (pay) took effect" in remains
