"""A person to whom a failure is put may ask for another plan: of the part, or of the whole."""

import pytest

from fsm_agent.core.audit.audit import audit
from fsm_agent.testing.scenario import parse
from fsm_agent.testing.simulate import RUN_ID, simulate
from tests.core.kit import reseal

DENIED = {"raise": {"status": 403, "message": "no entry"}}
TOOLS = {
    "open": {"effect": "read", "calls": [DENIED]},
    "use": {"effect": "read"},
    "pay": {
        "effect": "write",
        "reconcile": "truth",
        "calls": [{"raise": {"code": "bad_request", "message": "no", "applied": "no"}}],
    },
}
PLAN = [
    {"id": "a", "tool": "open"},
    {"id": "b", "tool": "use", "depends_on": ["a"]},
    {"id": "c", "tool": "use", "args": {"n": 3}},
]
OTHER = [
    PLAN[2],
    {"id": "a2", "tool": "use", "args": {"n": 9}, "replaces": "a"},
    {"id": "b", "tool": "use", "depends_on": ["a2"]},
]


def play(decide, *answers, plan=PLAN, task="a", note="by the back door", **more):
    said = {"answer": task, "value": {"decide": decide, "note": note}, "by": "ann"}
    document = {
        "plan": plan,
        "tools": TOOLS,
        "operator": [{"when": {"task": task, "decision": "escalate"}, "do": said}],
        "expect": {},
        **({"planner": list(answers)} if answers else {}),
        **more,
    }
    result = simulate(parse(document, "a case"))
    assert result.ok, result.failures
    return result


def told(result, kind):
    return [e.data for e in result.events if e.type == kind]


@pytest.mark.parametrize("scope", ["local", "global"])
def test_the_planner_is_asked_in_the_scope_wished_and_told_in_whose_words(scope):
    result = play(
        f"replan-{scope}",
        OTHER,
        expect={"prompts": [{"holds": ["ann asks for another plan: by the back door"]}]},
    )
    assert told(result, "approval_requested")[0]["answers"] == [
        "retry",
        "replan-local",
        "replan-global",
        "result",
        "abort",
    ]
    (request,) = told(result, "replan_requested")
    assert (request["scope"], request["trigger"]) == (scope, "auth_denied")
    assert (result.run, result.planner_calls) == ("done", 1)


def test_a_prepared_alternative_or_a_repair_is_taken_without_a_planner():
    prepared = [{**PLAN[0], "alternatives": [{"tool": "use", "args": {"n": 1}}]}]
    assert play("replan-local", plan=prepared).run == "done"
    repair = {"id": "back", "signal": "auth_denied", "do": "switch", "tool": "use", "why": "it is open"}
    assert play("replan-local", repairs={"schema": 1, "repair": [repair]}).run == "done"


def test_where_nobody_could_propose_it_is_not_offered():
    result = play("replan-local")
    assert told(result, "approval_requested")[0]["answers"] == ["retry", "result", "abort"]
    assert "legal answers: retry, result, abort" in result.refused[0]
    assert told(result, "replan_requested") == []


def test_a_proposal_that_is_refused_is_asked_for_again_as_the_table_says_and_then_put_to_the_person():
    result = play("replan-global", "no plan", "no plan", "no plan")
    assert [d["gate"] for d in told(result, "replan_refused")][:2] == ["parse", "parse"]
    assert result.run == "awaiting-confirmation"


def test_a_write_that_did_nothing_may_be_planned_around_if_a_person_says_so():
    plan = [{"id": "p", "tool": "pay", "args": {"n": 1}}]
    result = play(
        "replan-local", [{"id": "x", "tool": "use", "args": {"n": 2}, "replaces": "p"}], plan=plan, task="p"
    )
    assert (result.run, result.effects["pay"]) == ("done", 0)


def test_a_broken_plan_may_be_planned_anew_as_a_whole():
    plan = {
        "constraints": [{"key": "most", "value": 1, "check": "n <= value"}],
        "budgets": {"global_replans": 0},
        "steps": [
            {"id": "a", "tool": "use"},
            {"id": "b", "tool": "use", "args": {"n": 2}, "depends_on": ["a"]},
        ],
    }
    tools = {"use": {"effect": "read", "calls": [{"return": {"n": 5}}, {"return": {"n": 1}}]}}
    result = play(
        "replan-global", [{"id": "c", "tool": "use", "args": {"n": 7}}], plan=plan, task="run", tools=tools
    )
    assert told(result, "approval_requested")[0]["answers"] == ["continue", "replan-global", "abort"]
    assert told(result, "replan_requested")[0]["trigger"] == "constraint_violated"
    assert result.tasks == {"c": "done", "a": "done", "b": "cancelled"} or result.run == "done"


def test_an_audit_sees_a_wish_that_was_not_carried_out_or_not_as_it_was_said():
    events = list(play("replan-local", OTHER).events)
    place = next(n for n, e in enumerate(events) if e.type == "replan_requested")
    wider = events[place]._replace(data={**events[place].data, "scope": "global"})
    none = events[place]._replace(type="note_added", data={"text": "later"}, task=None)
    for forged, check in ((wider, "replan-as-decided"), (none, "carried-out")):
        records, head = reseal(RUN_ID, [*events[:place], forged, *events[place + 1 :]])
        found = {f.check for f in audit(RUN_ID, records, lambda digest: None, head=head).findings}
        assert check in found
