"""What a scenario file cannot say of some public cases: reports to people, tools that are gone after a restart, and
errors that are the real ones.
"""

import asyncio
from pathlib import Path

import pytest

from fsm_agent.runtime.configs import load_rules
from fsm_agent.testing.scenario import load
from fsm_agent.testing.simulate import simulate
from tests.audits import clean
from tests.core.kit import lab, tool
from tests.runtime.calling import box, outcome_of
from tests.runtime.runs import go, one, running, toolbox

SCENARIOS = Path(__file__).parent.parent / "scenarios"


def report_of(name):
    """Return the closing report of a scenario."""
    result = clean(simulate(load(SCENARIOS / f"{name}.json")))
    (closed,) = (e for e in result.events if e.type == "run_closed")
    return closed.data["report"]


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
def test_a03_a_type_error_of_the_tool_itself_is_three_attempts_and_three_calls(is_async):
    calls = []

    def act(q):
        calls.append(q)
        raise TypeError("act() missing 1 required positional argument: 'q'")

    async def awaited(q):
        act(q)

    again = {
        "id": "retry-once",
        "state": "failed",
        "signal": ["unclassified_error", "unverified"],
        "when": {"effect": "read", "signal_count": "<=2", "retries_left": ">=1"},
        "decide": "retry",
        "why": "two more reads harm nothing",
    }

    async def scenario():
        table = load_rules("default", {"repeat_threshold": 10}, [again])
        async with running(
            one("do", args={"q": 1}), toolbox(awaited if is_async else act), rules=table
        ) as run:
            await run.wait()
            log = [event async for event in run.events()]
            moves = [e.data["trigger"] for e in log if e.type == "task_moved"]
            decided = [e.data["signal"] for e in log if e.type == "decided"]
            assert moves == ["start", "fail", "retry", "start", "fail", "retry", "start", "fail"]
            assert decided == ["unclassified_error"] * 3
            assert run.status().tasks["t"].attempts == 3

    go(scenario())
    assert calls == [1, 1, 1]


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


class PermissionDenied(Exception):  # it is named so in the case
    """A class of somebody's own, whose name sounds like something."""


def real(name):
    """Return the error itself that a scenario calls *name*."""
    if name.startswith("s"):
        httpx = pytest.importorskip("httpx")
        asked = httpx.Request("POST", "http://localhost/")
        answer = httpx.Response(int(name[1:]), request=asked)
        return httpx.HTTPStatusError("no", request=asked, response=answer)
    if name == "invalid":
        pydantic = pytest.importorskip("pydantic")
        with pytest.raises(pydantic.ValidationError) as caught:
            pydantic.TypeAdapter(int).validate_python("x")
        return caught.value
    kinds = (TimeoutError, ConnectionResetError, OSError, PermissionDenied, asyncio.CancelledError)
    return dict(zip(("deadline", "reset", "os", "denied", "cancelled"), kinds, strict=True))[name]("no")


MAPPED = {
    "deadline": ("transient_error", "maybe"),
    "reset": ("transient_error", "maybe"),
    "os": ("unclassified_error", "maybe"),
    "s401": ("auth_denied", "no"),
    "s403": ("auth_denied", "no"),
    "s404": ("not_found", "no"),
    "s409": ("conflict", "maybe"),
    "s422": ("bad_request", "no"),
    "s429": ("rate_limited", "no"),
    "s503": ("transient_error", "maybe"),
    "invalid": ("validation_failed", "maybe"),
    "denied": ("unclassified_error", "maybe"),
    "cancelled": ("unclassified_error", "maybe"),
}


@pytest.mark.parametrize("name", MAPPED)
@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
def test_a52_the_error_itself_has_the_signal_that_is_declared_for_it(name, is_async):
    error = real(name)

    def act():
        raise error

    async def awaited():
        raise error

    outcome = outcome_of(box("write")(awaited if is_async else act))
    assert (outcome.signal.value, outcome.applied.value) == MAPPED[name]
