"""Scripted tools under the real controller do what the same script does in a simulation."""

import asyncio

import pytest

from fsm_agent import Plan, RunController, audit
from fsm_agent.core.classification.classify import describe
from fsm_agent.core.errors import UsageError
from fsm_agent.runtime.classifying import load_classifier
from fsm_agent.runtime.tools.context import ToolError
from fsm_agent.stores import open_store
from fsm_agent.testing import replies
from fsm_agent.testing.scenario import Raised, parse
from fsm_agent.testing.simulate import simulate
from fsm_agent.testing.tools import ScriptedTools, exception
from tests.audits import clean


def read(*calls, **tool):
    return {"effect": "read", "calls": list(calls), **tool}


def write(*calls, **tool):
    return {"effect": "write", "calls": list(calls), **tool}


def scenario(steps, tools):
    return parse({"plan": {"steps": steps}, "tools": tools}, "case")


def real(scenario, **options):
    """Run the scenario's plan for real; return the scripted tools and the log's events."""

    async def drive():
        scripted = ScriptedTools(scenario.tools, **options)
        store = open_store(None)
        async with await RunController.start(Plan.make(scenario.plan), scripted.toolbox, store=store) as run:
            await run.wait(timeout_s=20)
            events = [event async for event in run.events()]
        assert audit(store, run=run.id, head=run.head).findings == ()
        return scripted, events

    return asyncio.run(drive())


def told(events):
    """Return what both ways must agree on: moves and decisions, in order."""
    return [
        (e.task, e.data.get("dest") or e.data["decide"], e.data.get("signal"), e.data.get("rule"))
        for e in events
        if e.type in ("task_moved", "run_moved", "decided")
    ]


@pytest.mark.parametrize(
    "tools",
    [
        {"t": read({"return": {"x": 1}}), "u": write({"return": 2})},
        {"t": read({"raise": {"status": 403}}), "u": write()},
        {
            "t": read({"return": {"ok": False, "error": "no"}}, {"raise": {"code": "bad_request"}}),
            "u": write(),
        },
        {"t": read({"raise": {"class": "acme.Odd", "message": "at 12:00:01"}}), "u": write()},
        {"t": read({"return": "a\x00b"}), "u": write()},
        {
            "t": write(
                {"raise": {"class": "OSError"}, "return": 5}, settle_s=0, timeout_s=0.01, reconcile="truth"
            ),
            "u": write(),
        },
        {
            "t": write({"timeout": True}, {"return": 6}, settle_s=0, timeout_s=0.01, reconcile="none"),
            "u": write(),
        },
        {
            "t": {
                "effect": "idempotent",
                "settle_s": 0,
                "timeout_s": 0.05,
                "calls": [{"timeout": True}, {"return": 7}],
            },
            "u": write(),
        },
        {"t": write({"return": 1}, confirm=True), "u": write()},
    ],
)
def test_a_real_run_and_a_simulation_move_alike(tools):
    case = scenario([{"id": "a", "tool": "t"}, {"id": "b", "tool": "u", "depends_on": ["a"]}], tools)
    scripted, events = real(case)
    simulated = clean(simulate(case))
    assert told(events) == told(simulated.events)
    assert scripted.world.calls == simulated.calls
    assert scripted.world.effect_counts() == simulated.effects


def test_reports_and_usage_reach_the_run():
    case = scenario(
        [{"id": "a", "tool": "t"}],
        {
            "t": read(
                {
                    "return": 1,
                    "progress": [True, False],
                    "usage": {"tokens": 7, "cost": "0.25"},
                    "delay_s": 0.01,
                }
            )
        },
    )
    _, events = real(case)
    reports = [e.data["advanced"] for e in events if e.type == "progressed"]
    assert reports == [True, False]
    told = [
        e.data.get("usage") or e.data.get("outcome", {}).get("usage") for e in events
    ]  # with whatever comes next
    assert [usage for usage in told if usage] == [{"tokens": 7, "cost_micros": 250_000}]


def test_a_script_that_crashes_needs_to_know_how():
    tools = scenario([], {"t": write({"crash": "after"})}).tools
    with pytest.raises(UsageError, match="say with crash="):
        ScriptedTools(tools)


def test_a_crash_comes_at_its_place_and_the_effect_before_it_stays():
    class KilledError(BaseException):
        pass

    def kill():
        raise KilledError

    tools = scenario([], {"t": write({"crash": "after"}), "u": write({"crash": "before"})}).tools
    scripted = ScriptedTools(tools, crash=kill)
    for name, effects in [("t", 1), ("u", 0)]:
        tool = scripted.toolbox.tool(name)
        with pytest.raises(KilledError):
            asyncio.run(tool(ctx=_context()))
        assert scripted.world.effect_counts()[name] == effects


def _context():
    from fsm_agent.runtime.tools.context import CallContext

    return CallContext(idempotency_key="k")


@pytest.mark.parametrize(
    "raised",
    [
        Raised(class_name="TimeoutError", message="m"),
        Raised(class_name="ConnectionRefusedError"),
        Raised(class_name="httpx.ReadTimeout"),
        Raised(class_name="KeyboardInterrupt"),
        Raised(class_name="acme.OddError", message="m"),
        Raised(status=429, retry_after_us=2_500_000),
        Raised(status=404),
        Raised(class_name="acme.ApiError", code="insufficient_quota"),
        Raised(code="not_found", message="m"),
        Raised(message="rate limit"),
    ],
)
def test_a_scripted_error_and_the_exception_made_of_it_are_one_to_the_classifier(raised):
    classifier = load_classifier()
    made = classifier.classify(describe(exception(raised)))
    said = classifier.classify(replies.facts(raised))
    assert (made.signal, made.applied, made.code, made.status, made.message, made.retry_after_us) == (
        said.signal,
        said.applied,
        said.code,
        said.status,
        said.message,
        said.retry_after_us,
    )


def test_an_error_that_says_what_was_applied_is_a_tool_error():
    error = exception(Raised(status=503, applied="no", message="m"))
    assert isinstance(error, ToolError)
    assert (error.code, error.applied, error.message) == ("503", "no", "m")
