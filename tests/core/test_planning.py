"""A document becomes a plan, or all its faults are reported at once, each where it stands."""

import copy
import gc
import json
import pathlib
import weakref

import attrs
import pytest

from fsm_agent.core import canon
from fsm_agent.core.errors import Fault, PlanError
from fsm_agent.core.plans import known, planning
from fsm_agent.core.plans import text as plantext
from fsm_agent.core.plans.plan import Budgets, Dependency, Estimate, OnFailure, Step
from fsm_agent.core.signals import Decision, Effect
from fsm_agent.core.tools import Parameter, ToolSpec

HERE = pathlib.Path(__file__).parent / "plans"
TRIP, COMPARISON, REPLANNED, REIMBURSEMENT = (
    json.loads((HERE / f"{name}.json").read_text())
    for name in ("trip", "comparison", "replanned", "reimbursement")
)


def faults(document, **how) -> list[Fault]:
    with pytest.raises(PlanError) as caught:
        planning.load(document, **how)
    found = list(caught.value.faults)
    assert all(fault.severity == "error" for fault in found)
    assert all(fault.message and fault.fix for fault in found)
    assert str(found[0]) in str(caught.value)
    return found


def places(document, **how) -> set[tuple[str, str]]:
    return {(fault.at, fault.code) for fault in faults(document, **how)}


def only(document, **how) -> Fault:
    (fault,) = faults(document, **how)
    return fault


def step(id_="a", **keys):
    return {"id": id_, "tool": "t", **keys}


def with_step(**keys):
    return {"steps": [step(**keys)]}


# ── the shapes of the sources ─────────────────────────────────────────────────────────────────────────────────


def test_the_trip_plan_is_read_with_its_short_form_lowered():
    plan = planning.load(TRIP)
    assert [s.id for s in plan.steps] == ["s1", "s2", "s3", "s4"]
    assert plan.steps[3].depends_on == (Dependency(id="s2"), Dependency(id="s3"))
    assert plan.steps[3].requires_confirmation
    assert plan.constraints[1].check.text == "all(f in flights, f.depart_hour >= 7)"
    assert plan.doc["constraints"][1]["check"] == plan.constraints[1].check.text
    assert "plan_version" not in plan.doc


def test_a_bare_array_of_descriptions_is_read():
    plan = planning.load(COMPARISON)
    assert [s.tool for s in plan.steps] == [None] * 4
    assert plan.steps[0].depends_on == ()
    assert plan.digest == planning.load({"steps": COMPARISON, "goal": ""}).digest


def test_an_ordered_list_of_actions_runs_in_its_order_under_new_ids():
    plan = planning.load(REPLANNED)
    assert [(s.id, s.tool) for s in plan.steps] == [
        ("step1", "authenticate"),
        ("step2", "query_stock"),
        ("step3", "place_order"),
    ]
    assert [[d.id for d in s.depends_on] for s in plan.steps] == [[], ["step1"], ["step2"]]
    assert plan.steps[1].args.source == {"sku": "A-1", "token": "$step1.token"}
    assert set(plan.doc) == {"steps"}


def test_new_ids_are_those_of_no_other_step_and_of_no_earlier_plan():
    steps = [{"action": "a"}, {"action": "b", "id": "step2"}, {"action": "c"}]
    plan = planning.load(steps, earlier={"step1", "step4"})
    assert [s.id for s in plan.steps] == ["step3", "step2", "step5"]


def test_actions_with_stated_dependencies_are_no_ordered_list():
    plan = planning.load([{"action": "a"}, {"action": "b"}, {"action": "c", "depends_on": ["step1"]}])
    assert [[d.id for d in s.depends_on] for s in plan.steps] == [[], [], ["step1"]]


def test_the_whole_schema_is_read():
    plan = planning.load(REIMBURSEMENT)
    t4, t6, t7, t8 = plan.steps[3], plan.steps[5], plan.steps[6], plan.steps[7]
    assert (plan.goal, plan.inputs) == ("能报的话帮我提单", {"week": "2026-W46"})
    assert plan.budgets == Budgets(
        tool_calls=40,
        planner_calls=4,
        tokens=20000,
        cost_micros=5_000_000,
        active_s=600.0,
        local_replans=2,
        global_replans=2,
        reserve_tokens=1000,
        reserve_cost_micros=500_000,
        reserve_active_s=1.5,
    )
    assert (plan.constraints[0].key, plan.constraints[0].value) == ("limit", 500)
    assert (plan.constraints[0].severity, plan.constraints[0].say) == ("warn", "above the usual")
    assert t4.on_failure == {"unverified": OnFailure(decide=Decision.ESCALATE, say="the evidence conflicts")}
    assert t6.depends_on == (Dependency(id="T5"), Dependency(id="T4", optional=True))
    assert [c.check.text for c in t6.preconditions] == ["args.amount > 0", "$T3.duplicates == 0"]
    assert (t6.confirm_within_us, t6.timeout_us) == (3_600_000_000, 2_500_000)
    assert [(a.tool, a.args.source) for a in t6.alternatives] == [
        ("file_by_mail", {"amount": "$T4.total", "note": "for $inputs.week"}),
        ("create_ticket", {"amount": 1}),
    ]
    assert t6.on_failure["*"] == OnFailure(decide=Decision.ABORT)
    assert t6.approvers == 2
    assert t6.estimate == Estimate(tokens=200, seconds=2.0, cost_micros=10_000)
    assert t7.for_each is not None
    assert (t7.for_each.source, t7.max_parallel, t7.on_item_failure) == ("$T2.invoices", 4, 0.1)
    assert [s.id for s in t8.plan] == ["T8/a", "T8/b"]
    assert t8.plan[1].depends_on == (Dependency(id="T8/a"),)
    assert t8.budgets == Budgets(tool_calls=5)


# ── the normal form ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_normal_form_leaves_out_defaults_and_has_one_form_for_each_value():
    doc = planning.load(REIMBURSEMENT).doc
    assert doc["budgets"]["cost"] == "5"
    assert doc["budgets"]["active_s"] == 600
    assert doc["budgets"]["reserve"] == {"tokens": 1000, "cost": "0.5", "active_s": 1.5}
    assert doc["steps"][0] == {
        "id": "T1",
        "tool": "search_policy",
        "produces": ["clause"],
        "done_when": "clause != null",
    }
    t6 = doc["steps"][5]
    assert t6["depends_on"] == ["T5", {"id": "T4", "optional": True}]
    assert t6["preconditions"] == [
        {"check": "args.amount > 0"},
        {"check": "$T3.duplicates == 0", "say": "possible duplicate"},
    ]
    assert t6["on_failure"] == {
        "outcome_unknown": {"decide": "escalate", "say": "look it up"},
        "*": {"decide": "abort"},
    }
    assert t6["estimate"] == {"tokens": 200, "seconds": 2, "cost": "0.01"}
    assert type(t6["confirm_within_s"]) is int
    assert not {"join", "optional", "replaces"} & set(t6)


@pytest.mark.parametrize("document", [TRIP, COMPARISON, REPLANNED, REIMBURSEMENT])
def test_the_normal_form_is_a_plan_whose_normal_form_it_is(document):
    plan = planning.load(document)
    again = planning.load(plan.doc)
    assert again.doc == plan.doc
    assert again.digest == plan.digest == canon.value_digest("plan", plan.doc)


@pytest.mark.parametrize(
    "frame",
    [
        "{}",
        "\ufeff{}",
        "Here is the plan:\n```json\n{}\n```\nI hope it helps.",
        "// mine\n{}",
        "{}\nand once more\n{}",
    ],
)
@pytest.mark.parametrize("indent", [None, 3])
def test_the_same_plan_in_any_dress_has_one_digest(frame, indent):
    text = frame.replace("{}", json.dumps(TRIP, ensure_ascii=False, indent=indent))
    dressed = text.replace('"11-20"}', '"11-20" /* a Friday */, }')
    assert planning.load(plantext.read(dressed)).digest == planning.load(TRIP).digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"timeout_s": 2}, {"timeout_s": 2.0}),
        ({"estimate": {"cost": "0.10"}}, {"estimate": {"cost": 0.1}}),
        ({"estimate": {"cost": 0, "tokens": 0, "seconds": 0}}, {}),
        ({"join": "all", "approvers": 1, "optional": False, "args": {}, "depends_on": []}, {}),
        ({"description": "", "on_failure": {}, "alternatives": [], "preconditions": []}, {}),
        ({"tool": "t", "timeout_s": None, "on_failure": {"*": None}, "produces": None}, {}),
        ({"preconditions": ["args.x>0"]}, {"preconditions": [{"check": "args.x > 0", "severity": "stop"}]}),
        ({"on_failure": {"*": "abort"}}, {"on_failure": {"*": {"decide": "abort", "say": ""}}}),
        ({"for_each": "$inputs.xs"}, {"for_each": "$inputs.xs", "on_item_failure": "stop"}),
        (
            {"produces": ["rows"], "done_when": "all(r.ok==true)"},
            {"produces": ["rows"], "done_when": "all(r in rows, r.ok == true)"},
        ),
    ],
)
def test_two_ways_of_saying_the_same_have_one_digest(one, other):
    assert planning.load(with_step(**one)).digest == planning.load(with_step(**other)).digest


def test_a_plan_is_not_changed_through_the_document_it_came_from():
    document = with_step(args={"x": [1]})
    plan = planning.load(document)
    document["steps"][0]["args"]["x"].append(2)
    assert plan.doc["steps"][0]["args"] == {"x": [1]}
    assert plan.steps[0].args.resolve({}) == {"x": [1]}


def test_declaring_no_products_differs_from_declaring_nothing():
    assert planning.load(with_step(produces=[])).steps[0].produces == ()
    assert planning.load(with_step()).steps[0].produces is None


def test_a_plan_without_budgets_has_the_one_value_for_that():
    assert planning.load(with_step()).budgets is planning.NO_BUDGETS
    assert known.trusted(planning.load(with_step()).doc).budgets is planning.NO_BUDGETS


def test_what_a_step_replaces_means_that_step():
    plan = planning.load(
        [
            step("T4b", replaces="T4"),
            step("T5", depends_on=["T4"], args={"x": "$T4.total"}),
            step("T6", depends_on=[{"id": "T4", "optional": True}]),
        ]
    )
    assert plan.aliases == {"T4": "T4b"}
    assert plan.steps[1].depends_on == (Dependency(id="T4b"),)
    assert plan.steps[2].depends_on == (Dependency(id="T4b", optional=True),)
    assert plan.doc["steps"][1]["depends_on"] == ["T4b"]


def test_limits_alone_are_read_as_those_of_a_plan():
    assert planning.budgets({"tokens": 5, "cost": "0.5"}) == Budgets(tokens=5, cost_micros=500_000)
    assert planning.budgets({}) == Budgets()
    with pytest.raises(PlanError, match="/budgets/tokens"):
        planning.budgets({"tokens": -1})


# ── faults ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_six_faults_of_one_plan_are_one_report():
    document = {
        "steps": [
            step("a", depends_on=["c"]),
            step("a"),
            step("b", depends_on=["b", "nowhere"]),
            step("c", depends_on=["a"], tool="unknown"),
        ]
    }
    tools = {"t": ToolSpec(name="t", effect=Effect.READ)}
    assert places(document, tools=tools) == {
        ("/steps/0/depends_on", "cycle"),
        ("/steps/1/id", "duplicate-id"),
        ("/steps/2/depends_on/0", "self-dependency"),
        ("/steps/2/depends_on/1", "unknown-dependency"),
        ("/steps/3/tool", "unknown-tool"),
    }


@pytest.mark.parametrize(
    ("keys", "at", "code"),
    [
        ({"id": 7}, "id", "bad-type"),
        ({"id": ""}, "id", "bad-id"),
        ({"id": "a b"}, "id", "bad-id"),
        ({"id": "s4/a"}, "id", "bad-id"),
        ({"id": "-a"}, "id", "bad-id"),
        ({"id": "x" * 201}, "id", "bad-id"),
        ({"id": "run"}, "id", "reserved-id"),
        ({"id": "inputs"}, "id", "reserved-id"),
        ({"description": 1}, "description", "bad-type"),
        ({"tool": ["t"]}, "tool", "bad-type"),
        ({"tool": ""}, "tool", "bad-name"),
        ({"tool": "a\nb"}, "tool", "bad-name"),
        ({"args": []}, "args", "bad-type"),
        ({"args": {"x": "${"}}, "args/x", "bad-reference"),
        ({"args": {"a/b": ["ok", {"y": "$s1["}]}}, "args/a~1b/1/y", "bad-reference"),
        ({"depends_on": "b"}, "depends_on", "bad-type"),
        ({"depends_on": [1]}, "depends_on/0", "bad-type"),
        ({"depends_on": [{"optional": True}]}, "depends_on/0", "missing-key"),
        ({"depends_on": [{"id": 1}]}, "depends_on/0/id", "bad-type"),
        ({"depends_on": [{"id": "a", "optional": False}]}, "depends_on/0", "self-dependency"),
        ({"join": "some"}, "join", "bad-type"),
        ({"join": ["all"]}, "join", "bad-type"),
        ({"produces": "x"}, "produces", "bad-type"),
        ({"produces": [1]}, "produces/0", "bad-type"),
        ({"produces": ["x", "x"]}, "produces/1", "duplicate-name"),
        ({"done_when": True}, "done_when", "bad-type"),
        ({"done_when": ""}, "done_when", "bad-expression"),
        ({"done_when": "x >"}, "done_when", "bad-expression"),
        ({"done_when": "len(x)"}, "done_when", "bad-expression"),
        ({"done_when": "all(x.y > 0)"}, "done_when", "bad-expression"),
        ({"produces": ["x1", "x2"], "done_when": "all(x.y > 0)"}, "done_when", "bad-expression"),
        ({"when": 1}, "when", "bad-type"),
        ({"when": "total > 0"}, "when", "unknown-name"),
        ({"preconditions": "x"}, "preconditions", "bad-type"),
        ({"preconditions": [1]}, "preconditions/0", "bad-type"),
        ({"preconditions": ["x >"]}, "preconditions/0", "bad-expression"),
        ({"preconditions": [{"say": "x"}]}, "preconditions/0", "missing-key"),
        (
            {"preconditions": [{"check": "args.x > 0", "severity": "hard"}]},
            "preconditions/0/severity",
            "bad-type",
        ),
        ({"preconditions": ["total > 0"]}, "preconditions/0/check", "unknown-name"),
        ({"requires_confirmation": 1}, "requires_confirmation", "bad-type"),
        ({"confirm_within_s": "60"}, "confirm_within_s", "bad-type"),
        ({"confirm_within_s": 0}, "confirm_within_s", "out-of-range"),
        ({"timeout_s": True}, "timeout_s", "bad-type"),
        ({"timeout_s": -1}, "timeout_s", "out-of-range"),
        ({"timeout_s": 1e9}, "timeout_s", "out-of-range"),
        ({"optional": "no"}, "optional", "bad-type"),
        ({"replaces": "a b"}, "replaces", "bad-id"),
        ({"replaces": "a"}, "replaces", "replaces-present"),
        ({"alternatives": [1]}, "alternatives/0", "bad-type"),
        ({"alternatives": [{}]}, "alternatives/0", "missing-key"),
        ({"alternatives": [{"args": {}}]}, "alternatives/0", "same-call"),
        ({"tool": None, "description": "d", "alternatives": [{"args": {}}]}, "alternatives/0", "missing-key"),
        ({"alternatives": [{"tool": "u", "arg": {}}]}, "alternatives/0/arg", "unknown-key"),
        ({"alternatives": [{"args": {"x": "$b.x"}}]}, "alternatives/0/args/x", "unknown-reference"),
        ({"on_failure": "abort"}, "on_failure", "bad-type"),
        ({"on_failure": {"boom": "abort"}}, "on_failure/boom", "unknown-signal"),
        ({"on_failure": {"budget_low": "abort"}}, "on_failure/budget_low", "unknown-signal"),
        ({"on_failure": {"success": "abort"}}, "on_failure/success", "unknown-signal"),
        ({"on_failure": {"*": "retry"}}, "on_failure/*", "bad-decision"),
        ({"on_failure": {"outcome_unknown": "abort"}}, "on_failure/outcome_unknown", "bad-decision"),
        ({"on_failure": {"*": {"say": "x"}}}, "on_failure/*", "missing-key"),
        ({"on_failure": {"*": {"decide": 1}}}, "on_failure/*/decide", "bad-type"),
        ({"on_failure": {"*": 1}}, "on_failure/*", "bad-type"),
        ({"on_failure": {"*": "skip"}}, "on_failure/*", "skip-needs-optional"),
        ({"approvers": 0}, "approvers", "out-of-range"),
        ({"approvers": 1.0}, "approvers", "bad-type"),
        ({"estimate": 5}, "estimate", "bad-type"),
        ({"estimate": {"tokens": -1}}, "estimate/tokens", "out-of-range"),
        ({"estimate": {"cost": "1,50"}}, "estimate/cost", "out-of-range"),
        ({"estimate": {"cost": "-1"}}, "estimate/cost", "out-of-range"),
        ({"estimate": {"cost": "0.0000001"}}, "estimate/cost", "out-of-range"),
        ({"estimate": {"cost": 1e30}}, "estimate/cost", "out-of-range"),
        ({"estimate": {"cost": [1]}}, "estimate/cost", "bad-type"),
        ({"for_each": 1}, "for_each", "bad-type"),
        ({"for_each": "$inputs.x and $inputs.y"}, "for_each", "not-a-reference"),
        ({"for_each": "plain"}, "for_each", "not-a-reference"),
        ({"for_each": "${"}, "for_each", "bad-reference"),
        ({"for_each": "$item.x"}, "for_each", "item-outside-batch"),
        ({"max_parallel": 2}, "max_parallel", "needs-for-each"),
        ({"for_each": "$inputs.x", "max_parallel": 0}, "max_parallel", "out-of-range"),
        ({"on_item_failure": "collect"}, "on_item_failure", "needs-for-each"),
        ({"for_each": "$inputs.x", "on_item_failure": "skip"}, "on_item_failure", "bad-type"),
        ({"for_each": "$inputs.x", "on_item_failure": None, "optional": 0}, "optional", "bad-type"),
        ({"for_each": "$inputs.x", "on_item_failure": 1}, "on_item_failure", "out-of-range"),
        ({"for_each": "$inputs.x", "on_item_failure": [1]}, "on_item_failure", "bad-type"),
        ({"plan": {"steps": [{"id": "b", "tool": "t"}]}}, "tool", "tool-and-plan"),
        (
            {"tool": None, "args": {"x": 1}, "plan": {"steps": [{"id": "b", "tool": "t"}]}},
            "args",
            "not-with-plan",
        ),
        ({"tool": None, "plan": {"steps": []}}, "plan/steps", "no-steps"),
        ({"tool": None, "plan": {}}, "plan", "no-steps"),
        ({"tool": None, "plan": [step("b")]}, "plan", "bad-type"),
        ({"tool": None, "plan": {"steps": [step("b")], "goal": "x"}}, "plan/goal", "unknown-key"),
        (
            {"tool": None, "plan": {"steps": [step("b", args={"x": "$a.x"})]}},
            "plan/steps/0/args/x",
            "not-an-ancestor",
        ),
        ({"budgets": {"tokens": 1}}, "budgets", "needs-plan"),
        ({"tool": None}, "", "nothing-to-do"),
        ({"tool": None, "description": ""}, "", "nothing-to-do"),
        ({"depend_on": ["b"]}, "depend_on", "unknown-key"),
        ({"args": {"x": "$item"}}, "args/x", "item-outside-batch"),
        ({"done_when": "x == $index"}, "done_when", "item-outside-batch"),
        ({"args": {"x": "$a.y"}}, "args/x", "not-an-ancestor"),
        ({"args": {"x": ["$b.y"]}}, "args/x/0", "unknown-reference"),
        ({"args": {"x": "at ${b.y}"}}, "args/x", "unknown-reference"),
        ({"produces": ["total"], "done_when": "totl > 0"}, "done_when", "unknown-name"),
        ({"done_when": "x == $b.y"}, "done_when", "unknown-reference"),
        ({"description": "\ud800"}, "description", "bad-value"),
        ({"args": {"x": [float("nan")]}}, "args/x/0", "bad-value"),
        ({"args": {"x": (1, 2)}}, "args/x", "bad-value"),
        ({"args": {"x": 2**63}}, "args/x", "bad-value"),
        ({"args": {1: "x"}}, "args", "bad-value"),
        ({"args": {"x\x00": "x"}}, "args", "bad-value"),
    ],
)
def test_each_fault_of_a_step_is_reported_where_it_stands(keys, at, code):
    fault = only(with_step(**keys))
    assert (fault.at, fault.code) == (f"/steps/0/{at}".rstrip("/"), code)


@pytest.mark.parametrize(
    ("document", "at", "code"),
    [
        (None, "", "bad-shape"),
        ("a plan", "", "bad-shape"),
        (3.5, "", "bad-shape"),
        ({}, "/steps", "no-steps"),
        ({"steps": None}, "/steps", "no-steps"),
        ({"steps": []}, "/steps", "no-steps"),
        ([], "", "no-steps"),
        ({"steps": {"a": {}}}, "/steps", "bad-type"),
        ({"steps": ["a"]}, "/steps/0", "bad-type"),
        (["a"], "/0", "bad-type"),
        ([{"tool": "t"}], "/0", "missing-key"),
        ([{"action": "a", "params": [1]}], "/0/params", "bad-type"),
        ([{"action": "a", "depends_on": ["x"]}], "/0/depends_on/0", "unknown-dependency"),
        ([{"action": "a", "tool": "a"}], "/0/action", "two-names"),
        ({"steps": [{"action": 1}]}, "/steps/0/action", "bad-type"),
        ({"steps": [step()], "goals": "x"}, "/goals", "unknown-key"),
        ({"steps": [step()], "a/b~c": "x"}, "/a~1b~0c", "unknown-key"),
        ({"steps": [step()], "goal": 1}, "/goal", "bad-type"),
        ({"steps": [step()], "inputs": []}, "/inputs", "bad-type"),
        ({"steps": [step()], "plan_version": "1"}, "/plan_version", "bad-type"),
        ({"steps": [step()], "strategy": 1}, "/strategy", "bad-type"),
        ({"steps": [step()], "budgets": []}, "/budgets", "bad-type"),
        ({"steps": [step()], "budgets": {"money": 1}}, "/budgets/money", "unknown-key"),
        ({"steps": [step()], "budgets": {"tokens": 1.5}}, "/budgets/tokens", "bad-type"),
        ({"steps": [step()], "budgets": {"cost": -1}}, "/budgets/cost", "out-of-range"),
        ({"steps": [step()], "budgets": {"active_s": -1}}, "/budgets/active_s", "out-of-range"),
        ({"steps": [step()], "budgets": {"reserve": {"planner_calls": 1}}}, "/budgets/reserve/planner_calls", "unknown-key"),
        ({"steps": [step()], "budgets": {"cost": "1", "reserve": {"cost": "1.01"}}}, "/budgets/reserve/cost", "reserve-too-large"),
        ({"steps": [step()], "constraints": {}}, "/constraints", "bad-type"),
        ({"steps": [step()], "constraints": [{"check": "x > 0"}]}, "/constraints/0", "missing-key"),
        ({"steps": [step()], "constraints": [{"key": "k"}]}, "/constraints/0", "missing-key"),
        ({"steps": [step()], "constraints": [{"key": "k", "check": "x > 0"}] * 2}, "/constraints/1/key", "duplicate-key"),
        ({"steps": [step()], "constraints": [{"key": "k", "check": "x >"}]}, "/constraints/0/check", "bad-expression"),
        ({"steps": [step()], "constraints": [{"key": "k", "check": 1}]}, "/constraints/0/check", "bad-type"),
        ({"steps": [step()], "constraints": [{"key": "k", "check": "all(f.x > 0)"}]}, "/constraints/0/check", "bad-expression"),
        ({"steps": [step()], "constraints": [{"key": "k", "check": "x > 0", "bind": "f"}]}, "/constraints/0/bind", "bad-type"),
        ({"steps": [step()], "constraints": [{"key": "k", "check": "x > 0", "bind": {"f": 1}}]}, "/constraints/0/bind/f", "bad-type"),
        ({"steps": [step()], "constraints": [{"key": "k", "check": "$b.x > 0"}]}, "/constraints/0/check", "unknown-reference"),
        ({"steps": [step()], "constraints": [{"key": "k", "check": "x > $item"}]}, "/constraints/0/check", "item-outside-batch"),
        ({"steps": [step(produces=["x"])], "constraints": [{"key": "k", "check": "$a.y > 0"}]}, "/constraints/0/check", "unknown-field"),
        ({"steps": [step("b", replaces="x"), step("c", replaces="x")]}, "/steps/1/replaces", "replaces-twice"),
        ({"steps": [step(), step("b", depends_on=["a", "a"])]}, "/steps/1/depends_on/1", "duplicate-dependency"),
        ({"steps": [step(), step("b", args={"x": "$a.x"})]}, "/steps/1/args/x", "not-an-ancestor"),
        ({"steps": [step(), step("b", when="$a.x > 0")]}, "/steps/1/when", "not-an-ancestor"),
        ({"steps": [step(produces=["date"]), step("b", depends_on=["a"], args={"x": "$a.dat"})]}, "/steps/1/args/x", "unknown-field"),
        ({"steps": [step(produces=["date"]), step("b", depends_on=["a"], args={"x": "$a[0]"})]}, "/steps/1/args/x", "unknown-field"),
        ({"steps": [step(for_each="$inputs.x"), step("b", depends_on=["a"], args={"x": "$a.date"})]}, "/steps/1/args/x", "unknown-field"),
        (
            {"steps": [step(for_each="$inputs.x", produces=["y"]), step("b", depends_on=["a"], args={"x": "$a[0].z"})]},
            "/steps/1/args/x",
            "unknown-field",
        ),
    ],
)  # fmt: skip
def test_each_fault_of_a_document_is_reported_where_it_was_written(document, at, code):
    fault = only(document)
    assert (fault.at, fault.code) == (at, code)


def test_what_may_be_replaced_is_known_from_the_plan_before():
    document = [step("b", replaces="T4")]
    assert planning.load(document, earlier=["T4"]).aliases == {"T4": "b"}
    fault = only(document, earlier=["T3", "T44"])
    assert (fault.at, fault.code) == ("/0/replaces", "replaces-unknown")
    assert "did you mean 'T44'?" in fault.fix


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"depnds_on": []}, "did you mean 'depends_on'?"),
        ({"on_failure": {"time_out": "abort"}}, "outcome_unknown"),
        ({"on_failure": {"validation_fail": "abort"}}, "did you mean 'validation_failed'?"),
        ({"produces": ["ticket_id"], "done_when": "ticket_di != null"}, "did you mean 'ticket_id'?"),
    ],
)
def test_a_slip_of_the_pen_is_answered_with_the_word_that_was_meant(keys, words):
    assert words in only(with_step(**keys)).fix


def test_a_bad_expression_is_reported_with_its_offset():
    assert "at 7" in only(with_step(done_when="x == 1 &")).message


def test_every_cycle_is_named():
    document = [
        step("a", depends_on=["b"]),
        step("b", depends_on=["c", "free"]),
        step("c", depends_on=["a"]),
        step("free"),
        step("x", depends_on=["y", "a"]),
        step("y", depends_on=["x"]),
        step("behind", depends_on=["x"]),
        step("beside", depends_on=["behind", "x"], args={"v": "$free.v"}),
    ]
    found = {fault.at: fault for fault in faults(document)}
    assert {fault.code for fault in found.values()} == {"cycle"}
    assert set(found) == {"/0/depends_on", "/4/depends_on"}
    assert "a → b → c → a" in found["/0/depends_on"].message
    assert "x → y → x" in found["/4/depends_on"].message


def test_a_long_cycle_is_named_by_its_ends():
    size = 50
    document = [step(f"s{i}", depends_on=[f"s{(i + 1) % size}"]) for i in range(size)]
    message = only(document).message
    assert "s0 → s1" in message
    assert "…" in message
    assert message.endswith("s0")


def test_distant_ancestors_may_be_read_and_others_may_not():
    chain = [step("s0", produces=["v"])] + [step(f"s{i}", depends_on=[f"s{i - 1}"]) for i in range(1, 6)]
    assert planning.load([*chain, step("end", depends_on=["s5"], args={"v": "$s0.v", "w": "$s4"})])
    aside = step("aside", depends_on=["s2"], args={"v": "$s4.v"})
    fault = only([*chain, aside])
    assert (fault.at, fault.code) == ("/6/args/v", "not-an-ancestor")
    assert "let 'aside' depend on 's4'" in fault.fix


def test_an_ancestor_may_stand_behind_its_descendant():
    plan = planning.load([step("b", depends_on=["a"], args={"x": "$a.x"}), step("a")])
    assert [s.id for s in plan.steps] == ["b", "a"]


def test_an_optional_dependency_is_an_ancestor():
    assert planning.load([step(), step("b", depends_on=[{"id": "a", "optional": True}], args={"x": "$a.x"})])


def test_a_batch_reads_its_record_and_is_read_as_a_list():
    assert planning.load(
        [
            step("list", produces=["rows"]),
            step("each", depends_on=["list"], for_each="$list.rows", produces=["ok"], args={"r": "$item", "n": "n$index"},
                 when="$item.open == true", done_when="ok == $item.ok"),
            step("end", depends_on=["each"], args={"all": "$each", "one": "$each[0].ok", "third": "$each.2"}),
        ]
    )  # fmt: skip


def nested(*steps, **keys):
    return {"id": "n", "plan": {"steps": list(steps)}, **keys}


def test_a_nested_step_reads_beside_it_and_what_its_enclosing_step_may_read():
    before = step("before", produces=["v"])
    inner = [
        step("a", args={"v": "$before.v"}, produces=["w"]),
        step("b", depends_on=["a"], args={"w": "$a.w"}),
    ]
    after = step("after", depends_on=["n"], args={"w": "${n/a.w}", "n": "$n", "b": "${n/b.any}"})
    plan = planning.load([before, nested(*inner, depends_on=["before"]), after])
    assert plan.steps[1].plan[1].id == "n/b"
    assert places([before, nested(*inner)]) == {("/1/plan/steps/0/args/v", "not-an-ancestor")}
    assert places([before, nested(*inner, depends_on=["before"]), {**after, "depends_on": []}]) == {
        ("/2/args/w", "not-an-ancestor"),
        ("/2/args/n", "not-an-ancestor"),
        ("/2/args/b", "not-an-ancestor"),
    }


def test_what_is_wrong_inside_a_nested_plan_is_reported_there():
    document = [
        nested(
            step("a", depends_on=["b", "outer"]),
            step("b", depends_on=["a"], args={"x": "$nowhere.x"}),
            step("a"),
            step("c", args={"x": "$item"}, depends_on=["x" * 300]),
            step("y" * 199),
        ),
        step("outer", depends_on=["n"], args={"w": "${n/nope.w}", "v": "${outer/x.y}", "u": "${n/b/c.y}"}),
    ]
    assert places(document) == {
        ("/0/plan/steps/0/depends_on", "cycle"),
        ("/0/plan/steps/0/depends_on/1", "unknown-dependency"),
        ("/0/plan/steps/1/args/x", "unknown-reference"),
        ("/0/plan/steps/2/id", "duplicate-id"),
        ("/0/plan/steps/3/args/x", "item-outside-batch"),
        ("/0/plan/steps/3/depends_on/0", "unknown-dependency"),
        ("/0/plan/steps/4/id", "bad-id"),
        ("/1/args/w", "unknown-reference"),
        ("/1/args/v", "unknown-reference"),
        ("/1/args/u", "unknown-reference"),
    }


def test_the_record_of_a_batch_reaches_its_nested_plan():
    inner = [step("a", args={"x": "$item.x"}), step("b", for_each="$item.list", args={"y": "$item.y"})]
    plan = planning.load(
        [nested(*inner, for_each="$inputs.rows"), step("c", depends_on=["n"], args={"x": "${n[3]/a.x}"})]
    )
    assert plan.steps[0].plan[0].args.refs[0].root == "$item"


def test_what_replaces_a_nested_step_is_bound_inside():
    plan = planning.load([nested(step("b", replaces="a"), step("c", depends_on=["a"], args={"x": "$a.x"}))])
    assert plan.steps[0].plan[1].depends_on == (Dependency(id="n/b"),)


def test_constraints_read_every_step():
    constraint = {
        "key": "k",
        "check": "$a.x > 0 and ${n/b.y} > 0 and $inputs.z > 0 and all(f.price < value)",
        "bind": {"f": "flights"},
    }
    steps = [step(produces=["x"]), nested(step("b", produces=["y", "flights", "fares"]))]
    plan = planning.load({"constraints": [constraint], "steps": steps})
    assert "all(f in flights, f.price < value)" in plan.constraints[0].check.text


def test_many_typos_cost_little():
    size = 5000
    document = [
        step(f"step-number-{i}", depends_on=[f"step-numbr-{i}"], args={"x": "$nope.x"}) for i in range(size)
    ]
    assert len(faults(document)) == 2 * size


def test_a_name_too_long_to_compare_gets_no_suggestion():
    assert "did you mean" not in only(with_step(**{"x" * 100: 1})).fix


def test_messages_stay_short_whatever_the_plan_says():
    huge = "n" * 10**6
    document = [
        step(
            huge,
            tool=huge,
            args={"x": f"${huge}.x", "y": "${" + huge, huge: 1},
            depends_on=[huge, "z"],
            **{huge: 1},
        ),
        step("b", produces=["x"], depends_on=["c"], done_when=huge, join=huge),
        step("c", args={huge: "$inputs." + huge}, depends_on=[huge[:300]], on_failure={huge: "abort"}),
    ]
    for fault in faults(document, tools={"x": ToolSpec(name="x", effect=Effect.READ)}):
        assert len(fault.message) + len(fault.fix) < 1000


def test_many_known_names_are_cut():
    document = [*(step(f"s{i}") for i in range(20)), step("z", depends_on=["nowhere"])]
    assert "and 9 more" in only(document).fix


def test_too_many_steps_are_refused_at_once():
    fault = only([{}] * 100_001)
    assert (fault.at, fault.code) == ("", "too-many-steps")
    inner = {"plan": {"steps": [{}] * 100_000}}
    assert only({"steps": [inner]}).at == "/steps"


def test_what_is_nested_too_deeply_or_contains_itself_is_refused():
    loop: list[object] = []
    loop += [loop, loop]
    for value in (loop, json.loads('{"x":' * 95 + "1" + "}" * 95)):
        assert only(with_step(args={"x": value})).code == "bad-value"


def test_faults_of_values_do_not_hide_the_others():
    document = with_step(args={"x": 2**70, "y": "$nope.x"}, join="some")
    assert places(document) == {
        ("/steps/0/args/x", "bad-value"),
        ("/steps/0/args/y", "unknown-reference"),
        ("/steps/0/join", "bad-type"),
    }


def test_a_fault_in_an_ordered_list_leaves_the_order_of_the_others():
    document = [{"action": "a"}, {"action": "b", "id": 5}, "c", {"action": "d"}, {"tool": "e", "id": "e"}]
    assert places(document) == {("/1/id", "bad-type"), ("/2", "bad-type")}


def test_a_collector_that_is_off_stays_off():
    gc.disable()
    try:
        known.trusted(planning.load(TRIP).doc)
        assert not gc.isenabled()
    finally:
        gc.enable()
    planning.load(TRIP)
    faults({})
    assert gc.isenabled()


def test_a_plan_is_what_its_document_says_whatever_digest_it_is_said_to_have():
    one, other = planning.load(TRIP), planning.load({"steps": [step("only")]})
    assert known.trusted(dict(one.doc), said=one.digest) is one
    assert known.trusted(dict(one.doc), said=other.digest) is one
    assert known.trusted({**one.doc, "goal": "another"}, said=one.digest).goal == "another"
    assert known.trusted({"steps": one.doc["steps"]}, said=one.digest).goal == ""


class Knot:
    """Garbage that only the collector finds: it holds itself."""

    def __init__(self):
        self.itself = self


def test_who_reads_large_plans_again_and_again_does_not_keep_garbage_for_ever(monkeypatch):
    monkeypatch.setattr(known, "_VERY_MANY", 10)
    monkeypatch.setattr(known, "_MOST", 5_000)
    plan = {"steps": [step(f"s{place}", args={"x": [1, [2]]}) for place in range(200)]}
    gc.collect()
    garbage, kept = weakref.ref(Knot()), []
    for _ in range(20):
        kept.append([[] for _ in range(500)])  # fewer than the collector looks at by itself
        planning.load(plan)
    assert garbage() is None


def test_a_nested_step_may_be_named_before_its_plan_stands():
    inner = nested(step("a", produces=["w"]), nested(step("b")))
    after = step("after", depends_on=["n"], args={"w": "${n/a.w}", "b": "${n/n/b.any}"})
    assert planning.load([after, inner])
    after["args"] = {"w": "${n/nope/b.w}"}
    assert places([after, inner]) == {("/0/args/w", "unknown-reference")}


def test_a_refused_document_is_left_as_it_was():
    document = {"steps": [{"action": "a", "params": {}}, {"action": "b", "bad": 1}]}
    before = copy.deepcopy(document)
    faults(document)
    assert document == before


# ── against a toolbox ─────────────────────────────────────────────────────────────────────────────────────────

READ = ToolSpec(
    name="find",
    effect=Effect.READ,
    parameters=(
        Parameter(name="city", types=("string",)),
        Parameter(name="days", types=("integer",), required=False),
        Parameter(name="kind", types=("string",), required=False, choices=("rail", "air")),
        Parameter(name="tags", types=("array",), required=False, choices=(["x"],)),
    ),
)
CHECKED = ToolSpec(name="check", effect=Effect.READ, extra_arguments=True)
WRITE = ToolSpec(
    name="pay",
    effect=Effect.WRITE,
    requires=("check",),
    secret=("token",),
    extra_arguments=True,
    reconcile=True,
)
BLIND = ToolSpec(name="mail", effect=Effect.IRREVERSIBLE, extra_arguments=True)
TOOLS = {tool.name: tool for tool in (READ, CHECKED, WRITE, BLIND)}


def verdict(*steps, default_tool=None, **keys) -> set[tuple[str, str, str]]:
    plan = planning.load({"steps": list(steps), **keys})
    found = planning.check(plan, TOOLS, default_tool=default_tool)
    assert all(fault.message and fault.fix for fault in found)
    return {(fault.severity, fault.at, fault.code) for fault in found}


def find(id_="a", **args):
    return {"id": id_, "tool": "find", "args": args, "done_when": "x != null"}


def call(id_, tool, *depends_on, **keys):
    return {"id": id_, "tool": tool, "done_when": "x != null", "depends_on": list(depends_on), **keys}


@pytest.mark.parametrize(
    ("args", "at", "code"),
    [
        ({}, "args", "missing-argument"),
        ({"city": "X", "cty": "X"}, "args/cty", "unknown-argument"),
        ({"city": 5}, "args/city", "bad-argument"),
        ({"city": ["$inputs.x"]}, "args/city", "bad-argument"),
        ({"city": "X", "days": "for $inputs.x"}, "args/days", "bad-argument"),
        ({"city": "X", "days": 1.5}, "args/days", "bad-argument"),
        ({"city": "X", "kind": "sea"}, "args/kind", "bad-argument"),
    ],
)
def test_arguments_that_the_signature_refuses_are_faults(args, at, code):
    found = verdict(find(**args), inputs={"x": 1})
    assert found == {("error", f"/steps/0/{at}", code)}


@pytest.mark.parametrize(
    "args",
    [
        {"city": "$inputs.x"},
        {"city": "to $inputs.x", "days": "$inputs.x", "kind": "$inputs.x"},
        {"city": "$$5", "days": 2, "kind": "air", "tags": ["$inputs.x"]},
    ],
)
def test_what_only_the_run_can_tell_is_no_fault(args):
    assert verdict(find(**args), inputs={"x": 1}) == set()


def test_an_unknown_tool_is_named_with_the_one_that_was_meant():
    plan = planning.load([call("a", "fnid")])
    (fault,) = planning.check(plan, TOOLS)
    assert (fault.at, fault.code) == ("/steps/0/tool", "unknown-tool")
    assert fault.fix.startswith("did you mean 'find'?")


def test_alternatives_are_held_to_the_same():
    step_ = call(
        "a", "check", alternatives=[{"tool": "pay"}, {"tool": "nope"}, {"tool": "find", "args": {"days": 1}}]
    )
    assert verdict(step_) == {
        ("error", "/steps/0/alternatives/0/tool", "requires-not-done"),
        ("error", "/steps/0/alternatives/1/tool", "unknown-tool"),
        ("error", "/steps/0/alternatives/2/args", "missing-argument"),
    }


REFUSED = {("error", "requires-not-done")}


@pytest.mark.parametrize(
    ("steps", "proved"),
    [
        ([call("p", "pay")], False),
        ([call("c", "check"), call("p", "pay")], False),
        ([call("c", "check"), call("p", "pay", "c")], True),
        ([call("p", "pay", "m"), call("m", "mail", "c"), call("c", "check")], True),
        ([call("c", "check"), call("p", "pay", {"id": "c", "optional": True})], False),
        ([call("c", "check", optional=True), call("p", "pay", "c")], True),
        ([call("c", "check"), call("m", "mail"), call("p", "pay", "c", "m", join="any")], False),
        ([call("c", "check"), call("d", "check"), call("p", "pay", "c", "d", join="first")], True),
        ([call("c", "check", alternatives=[{"tool": "mail"}]), call("p", "pay", "c")], False),
        ([call("c", "check", alternatives=[{"args": {"x": 1}}]), call("p", "pay", "c")], True),
        ([nested(call("c", "check")), call("p", "pay", "n")], True),
        ([nested(call("c", "check", optional=True)), call("p", "pay", "n")], False),
        ([nested(call("c", "check", when="$inputs.x == 1")), call("p", "pay", "n")], False),
        ([nested(call("m", "mail", optional=True), call("c", "check", "m")), call("p", "pay", "n")], False),
        ([nested(call("m", "mail"), call("c", "check", "m", join="first")), call("p", "pay", "n")], False),
        ([call("c", "check"), nested(call("p", "pay"), depends_on=["c"])], True),
        ([nested(call("c", "check"), call("p", "pay"))], False),
        ([nested(call("c", "check"), call("p", "pay", "c"))], True),
    ],
)
def test_a_tool_starts_only_where_what_it_requires_is_surely_done(steps, proved):
    found = verdict(*steps, inputs={"x": 1})
    refused = {(severity, code) for severity, _, code in found if severity == "error"}
    assert refused == (set() if proved else REFUSED)


def test_a_secret_is_a_whole_value():
    check = call("c", "check")
    for token, expected in [
        ("$inputs.token", set()),
        ("Bearer $inputs.token", {("error", "/steps/1/args/token", "secret-embedded")}),
        (["$inputs.token"], {("error", "/steps/1/args/token", "secret-embedded")}),
        ("hunter2", {("warning", "/steps/1/args/token", "secret-in-plan")}),
    ]:
        found = verdict(check, call("p", "pay", "c", args={"token": token}), inputs={"token": "x"})
        assert found == expected, token
    assert verdict(check, call("p", "pay", "c", args={"amount": 1})) == set()


def test_steps_in_a_circle_are_held_against_the_tools_as_the_others_are():
    with pytest.raises(PlanError) as refused:
        planning.load(
            {"steps": [call("a", "nope", "b"), call("b", "pay", "a"), call("c", "find")]}, tools=TOOLS
        )
    found = {(fault.at, fault.code) for fault in refused.value.faults}
    assert found >= {("/steps/0/tool", "unknown-tool"), ("/steps/2/args", "missing-argument")}
    assert "requires-not-done" not in {code for _, code in found}  # nobody can say what comes before it
    assert any("circle" in str(fault) or fault.code == "cycle" for fault in refused.value.faults)


def test_what_will_be_regretted_is_warned_of():
    assert verdict({"id": "a", "description": "analyse a bit"}, default_tool="check") == {
        ("warning", "/steps/0", "no-done-when")
    }
    assert verdict(call("m", "mail")) == {("warning", "/steps/0/tool", "no-probe")}
    assert verdict(*(call(f"s{i}", "check") for i in range(9))) == {("warning", "/steps", "many-steps")}
    assert verdict(*(call(f"s{i}", "check") for i in range(8))) == set()


def test_inputs_that_nobody_gives_are_warned_of():
    steps = [
        call(
            "a",
            "check",
            args={"x": "$inputs.week", "y": "$inputs.week", "z": "$inputs"},
            when="$inputs.wek == 1",
        ),
        nested({"id": "b", "tool": "check", "done_when": "y == ${inputs.year}"}),
        {"id": "c", "tool": "check", "done_when": "x > 0", "when": "$a.x > 0", "depends_on": ["a"]},
    ]
    assert verdict(*steps, inputs={"week": 1}) == {
        ("warning", "/steps/0/when", "input-not-given"),
        ("warning", "/steps/1/plan/steps/0/done_when", "input-not-given"),
    }


def test_a_name_in_a_constraint_that_no_step_produces_is_warned_of():
    plan = planning.load(TRIP)
    tools = {
        s.tool: ToolSpec(name=s.tool or "", effect=Effect.READ, extra_arguments=True) for s in plan.steps
    }
    (fault,) = planning.check(plan, tools)
    assert (fault.at, fault.code, fault.severity) == ("/constraints/0/check", "unproduced-name", "warning")
    assert "'costs'" in fault.message


def test_names_in_constraints_are_not_warned_of_where_a_step_declares_nothing():
    constraints = [{"key": "k", "check": "costs < value and $a.x > 0", "value": 1}]
    inner = nested(call("b", "check", produces=["x"]))
    assert verdict(call("a", "check"), constraints=constraints) == set()
    assert verdict(inner, call("a", "check", produces=["x"]), constraints=constraints) == {
        ("warning", "/constraints/0/check", "unproduced-name")
    }


def test_a_step_without_a_tool_is_a_question_and_takes_no_arguments():
    assert verdict({"id": "q", "description": "Which account?"}) == set()
    asked = {"id": "q", "description": "Which account?", "args": {"x": 1}}
    assert verdict(asked) == {("error", "/steps/0/args", "arguments-without-tool")}


def test_the_default_tool_takes_what_it_is_given_and_may_need_more():
    asked = {"id": "q", "description": "Go", "done_when": "x > 0", "args": {"days": "two"}}
    assert verdict(asked, default_tool="find") == {("error", "/steps/0/args/days", "bad-argument")}


def test_faults_of_a_call_that_follow_from_others_are_not_reported():
    assert places(with_step(tool=5, args={"x": 1}), tools=TOOLS) == {("/steps/0/tool", "bad-type")}
    assert places(with_step(tool="find", args={"city": "${"}), tools=TOOLS) == {
        ("/steps/0/args/city", "bad-reference")
    }
    assert places([*with_step(tool="find", args=[])["steps"], step("b", tool="find")], tools=TOOLS) == {
        ("/0/args", "bad-type"),
        ("/1/args", "missing-argument"),
    }


def test_loading_against_a_toolbox_lets_warnings_pass():
    assert planning.load(with_step(tool="mail"), tools=TOOLS).steps[0].tool == "mail"


@pytest.mark.parametrize(
    ("odd", "codes"),
    [
        ("a/b", {"bad-id", "unknown-reference"}),
        ("b[1]", {"bad-id", "unknown-reference"}),
        ("item", {"reserved-id", "item-outside-batch"}),
        ("inputs", {"reserved-id"}),
    ],
)
def test_what_is_no_id_names_no_step_that_is_read(odd, codes):
    reader = step("r", depends_on=[odd], args={"x": f"${{{odd}.x}}"})
    assert {fault.code for fault in faults({"steps": [step(odd), reader]})} == codes


def test_nobody_changes_a_step_of_a_plan_nor_what_it_is_made_of():
    made = planning.load(TRIP).steps[2]
    assert type(made) is Step
    assert attrs.evolve(made, id="other").id == "other"
    for value, field in ((made, "tool"), (made.args, "source"), (made.depends_on[0], "id")):
        with pytest.raises(AttributeError):
            setattr(value, field, "another")


def test_a_step_that_depends_on_many_reads_each_of_them_and_no_other():
    many = [step(f"s{place}") for place in range(20)]
    join = step(
        "join",
        depends_on=[one["id"] for one in many[1:]],
        args={"all": [f"${one['id']}.x" for one in many[1:]]},
    )
    assert len(planning.load({"steps": [*many, join]}).steps[-1].args.refs) == 19
    join["args"]["all"].append("$s0.x")
    assert only({"steps": [*many, join]}).code == "not-an-ancestor"
