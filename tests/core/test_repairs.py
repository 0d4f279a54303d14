"""Repairs as data: what a file may say, which repair fits a failure, and that none of them passes by the gate."""

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.audit.audit import audit
from fsm_agent.core.errors import ConfigError
from fsm_agent.core.replanning import repairing, repairs, strategy
from fsm_agent.core.replanning.repairs import Repair
from fsm_agent.core.tools import Parameter
from fsm_agent.runtime.configs import load_repairs
from fsm_agent.testing.scenario import parse
from fsm_agent.testing.simulate import RUN_ID, simulate
from tests.core.kit import reseal, tool

DENIED = {"raise": {"status": 403, "message": "no entry"}}
MISSING = {"raise": {"status": 404, "message": "no such order"}}
SLOW = {"timeout": True}
FINE = {"return": {"n": 3}}
LOGIN = {"id": "login", "signal": "auth_denied", "do": "insert", "tool": "login", "why": "log in first"}
OTHER = {
    "id": "other",
    "signal": "not_found",
    "do": "switch",
    "tool": "{tool}_two",
    "why": "ask the other one",
}


def row(**more):
    return {**OTHER, **more}


def file(*rows, **more):
    return {"schema": 1, "repair": list(rows), **more}


def read(*rows, **more):
    return repairs.read(file(*rows, **more), where="some.toml")


def play(tools, *rows, plan=None, rules="exploratory", operator=(), **more):
    """Simulate one step ``a`` that calls ``fetch``, and ``b`` that needs it; everything must audit clean."""
    steps = [{"id": "a", "tool": "fetch", "args": {"k": 1}}, {"id": "b", "tool": "use", "depends_on": ["a"]}]
    world = {"use": {"effect": "read"}, **tools}
    document = {
        "plan": steps if plan is None else plan,
        "tools": {name: {"effect": "read", **spec} for name, spec in world.items()},
        "rules": rules,
        "repairs": file(*rows),
        "operator": list(operator),
        "expect": {},
        **more,
    }
    result = simulate(parse(document, "a case"))
    assert result.ok, result.failures
    return result


def told(result, *types):
    return [e.data for e in result.events if e.type in types]


def adopted(result):
    return [(d["origin"], d.get("repair")) for d in told(result, "plan_adopted")[1:]]


# ── the file ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_is_read_in_its_order():
    first, second = read(
        LOGIN, row(of=["orders.*", "find"], effect=["read", "write"], args={"deep": True}, copy="k")
    )
    assert (first.id, first.do, first.signals, first.tools) == (
        "login",
        "insert",
        ("auth_denied",),
        ("login",),
    )
    assert (first.copy, first.effects) == ((), ("read",))
    assert (second.of, second.effects, second.args, second.copy) == (
        ("orders.*", "find"),
        ("read", "write"),
        {"deep": True},
        ("k",),
    )


def test_what_the_log_holds_is_what_was_read():
    found = read(LOGIN, row(of=["orders.*"], args={"n": 1}), row(id="third", copy=[]))
    assert repairs.from_log(json.loads(json.dumps([r.to_data() for r in found]))) == found


def test_an_own_repair_takes_the_place_of_one_that_it_extends():
    base = read(LOGIN, OTHER)
    own = repairs.read(file(row(tool="elsewhere"), extends="repairs"), where="own.toml", base=base)
    assert [(r.id, r.tools) for r in own] == [("other", ("elsewhere",)), ("login", ("login",))]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"repair": []}, "schema: left out; write schema = 1"),
        (file(schema=True), "schema: True; write schema = 1"),
        (file(schema=2), "schema: 2; write schema = 1"),
        (file(rows=[]), "'rows': unknown; it has schema, extends, repair"),
        (file(repair={}), "repair: {}; write at most 100 [[repair]] tables"),
        (file(*[OTHER] * 101), "write at most 100 [[repair]] tables"),
        (file("x"), "repair 1: 'x'; write a [[repair]] table"),
        (file(row(shell="rm")), "repair 1: 'shell' is unknown; it has id, signal, do, tool"),
        (file(row(id="1st")), "repair 1: id is '1st'; a letter, then"),
        (file(row(id=7)), "repair 1: id is 7;"),
        (file(OTHER, OTHER), "repair 2: the id other stands twice; give each its own"),
        (file(row(do="delete")), "repair 1: do is 'delete'; one of insert, switch"),
        (file(row(signal="boom")), "repair 1: signal is 'boom'; of unverified"),
        (file(row(signal=[])), "repair 1: signal is []; of"),
        (file(row(signal="outcome_unknown")), "repair 1: signal is 'outcome_unknown'; of"),
        (file(row(effect="maybe")), "repair 1: effect is 'maybe'; of read, idempotent, write, irreversible"),
        (file(row(tool=[])), "repair 1: tool is []; names of tools"),
        (file(row(tool="a b")), "repair 1: tool is 'a b'; names of tools"),
        (file(row(tool="{tool}{tool}")), "repair 1: tool is '{tool}{tool}'; names of tools"),
        (file(row(tool=["ok", 3])), "repair 1: tool is 3; names of tools"),
        (file(row(of="*")), "repair 1: of has '*'; the name of a tool"),
        (file(row(of=["x"] * 101)), "repair 1: of has ['x',"),
        (file(row(copy="a b")), "repair 1: copy has 'a b'; the name of an argument"),
        (file(row(args=[1])), "repair 1: args is [1]; texts, whole numbers, true and false by name"),
        (file(row(args={"x": 0.5})), "repair 1: args is {'x': 0.5}; texts"),
        (file(row(args={"x": {"y": 1}})), "repair 1: args is"),
        (file(row(args={"x": 2**63})), "repair 1: args is"),
        (file(row(args={str(n): 1 for n in range(101)})), "repair 1: args is"),
        (file(row(why="")), "repair 1: why is ''; say on one line why it helps"),
        (file(row(why="x\ny")), "repair 1: why is 'x\\ny'; say on one line"),
        (file(row(why="x" * 501)), "repair 1: why is 'xxx"),
        (file({}), "repair 1: id is left out"),
    ],
)
def test_a_file_that_says_anything_else_is_refused_on_one_line(document, words):
    with pytest.raises(ConfigError) as caught:
        repairs.read(document, where="bad.toml")
    message = str(caught.value)
    assert message.startswith("repairs bad.toml: ")
    assert words in message
    assert message.isprintable()


def test_everything_that_is_wrong_is_said_at_once():
    with pytest.raises(ConfigError) as caught:
        repairs.read(file(row(do="x", why=None), row(id="two", signal="y"), odd=1), where="bad.toml")
    assert str(caught.value).count(" | ") == 3


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_whatever_a_file_holds_it_is_read_or_refused(value):
    for document in (
        {"schema": 1, "repair": value},
        file(value),
        file(row(tool=value)),
        file(row(args=value)),
    ):
        try:
            found = repairs.read(document, where="x")
        except ConfigError as error:
            found = str(error).splitlines()
        assert len(found) <= 1
        assert all(isinstance(r, Repair) or r.isprintable() for r in found)


# ── which one fits ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_step_is_put_before_the_failed_one_and_only_once():
    result = play({"fetch": {"calls": [DENIED, DENIED]}, "login": {}}, LOGIN)
    assert adopted(result) == [("rule", "login")]
    assert (result.calls["login"], result.calls["fetch"]) == (1, 2)
    assert result.run == "awaiting-confirmation"  # the second time nobody has an idea
    assert told(result, "plan_adopted")[1]["diff"] == {
        "kept": ["b"],
        "changed": ["a"],
        "added": ["login"],
        "removed": [],
    }


def test_an_inserted_step_waits_for_what_the_failed_one_waited_for_and_takes_a_free_name():
    plan = [
        {"id": "login", "tool": "use"},
        {"id": "login-2", "tool": "use", "args": {"x": 1}},
        {"id": "a", "tool": "fetch", "depends_on": ["login"]},
    ]
    result = play({"fetch": {"calls": [DENIED, FINE]}, "login": {}}, LOGIN, plan=plan)
    new = told(result, "plan_adopted")[1]["plan"]["steps"]
    assert [(s["id"], s.get("depends_on")) for s in new][2:] == [
        ("login-3", ["login"]),
        ("a", ["login", "login-3"]),
    ]
    assert result.run == "done"


def test_an_insertion_that_is_no_read_asks_a_person_first():
    result = play({"fetch": {"calls": [DENIED, FINE]}, "login": {"effect": "write"}}, LOGIN)
    assert result.tasks == {"login": "awaiting-confirmation", "a": "pending", "b": "pending"}
    assert result.effects["login"] == 0


def test_another_source_is_asked_the_same():
    result = play(
        {"fetch": {"calls": [MISSING]}, "fetch_two": {"calls": [{"match": {"k": 1}, **FINE}]}}, OTHER
    )
    assert adopted(result) == [("rule", "other")]
    assert result.run == "done"
    assert result.planner_calls == 0
    assert result.results["a"] == {"n": 3}
    assert told(result, "decided")[0]["facts"]["has_alternative"] == "yes"
    assert "ask the other one" in told(result, "plan_adopted")[1]["explanation"]


def test_the_arguments_can_be_others():
    other = row(copy=["k"], args={"deep": True})
    plan = [{"id": "a", "tool": "fetch", "args": {"k": 1, "page": 2}}]
    result = play({"fetch": {"calls": [MISSING]}, "fetch_two": {}}, other, plan=plan)
    assert told(result, "plan_adopted")[1]["plan"]["steps"][0]["args"] == {"k": 1, "deep": True}


@pytest.mark.parametrize(
    ("rows", "tools"),
    [
        ([], {"fetch_two": {}}),
        ([OTHER], {}),
        ([row(signal="auth_denied")], {"fetch_two": {}}),
        ([row(of=["find", "get.*"])], {"fetch_two": {}}),
        ([row(effect="write")], {"fetch_two": {}}),
        ([row(tool="fetch")], {}),
        ([OTHER], {"fetch_two": {"effect": "write"}}),
    ],
    ids=["none", "no tool", "other signal", "other tools", "other effect", "itself", "a write for a read"],
)
def test_where_none_fits_a_person_is_asked(rows, tools):
    result = play({"fetch": {"calls": [MISSING]}, **tools}, *rows)
    assert adopted(result) == []
    assert result.run == "awaiting-confirmation"
    assert [d["decide"] for d in told(result, "decided")] == ["escalate"]
    assert "has_alternative" not in told(result, "decided")[0]["facts"]


def test_the_order_of_the_file_and_of_its_names_counts():
    rows = [row(id="first", tool=["nowhere", "second", "third"], of="fet*"), OTHER]
    result = play({"fetch": {"calls": [MISSING]}, "third": {}, "second": {}, "fetch_two": {}}, *rows)
    assert told(result, "plan_adopted")[1]["plan"]["steps"][0]["tool"] == "second"


def test_prepared_alternatives_come_first_and_the_planner_last():
    plan = [
        {"id": "a", "tool": "fetch", "args": {"k": 1}, "alternatives": [{"tool": "prepared", "args": {}}]}
    ]
    tools = {
        "fetch": {"calls": [MISSING]},
        "prepared": {"calls": [MISSING]},
        "prepared_two": {"calls": [MISSING]},
        "model": {},
    }
    answers = [[{"id": "m", "tool": "model", "replaces": "a"}]]
    result = play(tools, OTHER, plan=plan, planner=answers)
    assert adopted(result) == [("alternative", None), ("rule", "other"), ("model", None)]
    assert result.planner_calls == 1
    assert result.run == "done"


def test_what_the_gate_refuses_is_logged_with_its_name_and_told_to_the_planner():
    plan = [
        {"id": "a", "tool": "fetch", "args": {"k": "$b.n"}, "depends_on": ["b"]},
        {"id": "b", "tool": "use"},
    ]
    bad = row(args={"k": "$nowhere.n"})
    result = play(
        {"fetch": {"calls": [MISSING]}, "fetch_two": {}, "use": {"calls": [FINE]}},
        bad,
        plan=plan,
        planner=[[{"id": "m", "tool": "use", "args": {"q": 1}, "replaces": "a"}]],
    )
    refused = told(result, "replan_refused")
    assert [(d["repair"], d["origin"], d["gate"]) for d in refused] == [("other", "rule", "validate")]
    assert "nowhere" in refused[0]["why"]
    assert adopted(result) == [("model", None)]


def test_without_a_planner_a_refused_repair_ends_with_a_person():
    result = play({"fetch": {"calls": [MISSING]}, "fetch_two": {}}, row(args={"k": "$nowhere.n"}))
    assert [d["gate"] for d in told(result, "replan_refused")] == ["validate", "nobody"]
    assert result.run == "awaiting-confirmation"


def test_a_repair_that_was_refused_is_not_proposed_again_for_the_same_failure():
    result = play(
        {"fetch": {"calls": [MISSING]}, "fetch_two": {}},
        row(args={"k": "$nowhere.n"}),
        planner=[
            "no plan",
            [
                {"id": "m", "tool": "use", "args": {"q": 1}, "replaces": "a"},
                {"id": "b", "tool": "use", "depends_on": ["m"]},
            ],
        ],
    )
    assert [d["gate"] for d in told(result, "replan_refused")] == ["validate", "parse"]
    assert result.run == "done"


def test_a_step_that_joins_otherwise_gets_nothing_inserted():
    plan = [{"id": "x", "tool": "use"}, {"id": "a", "tool": "fetch", "depends_on": ["x"], "join": "any"}]
    result = play({"fetch": {"calls": [DENIED]}, "login": {}}, LOGIN, plan=plan)
    assert adopted(result) == []


def test_a_write_that_may_have_happened_is_never_mended():
    lost = {"raise": {"code": "auth_denied", "message": "no", "applied": "yes"}, "commit": True}
    result = play(
        {"fetch": {"effect": "write", "calls": [lost]}, "login": {}}, {**LOGIN, "effect": ["read", "write"]}
    )
    assert adopted(result) == []
    assert result.effects["fetch"] == 1


def test_a_write_that_was_denied_is_mended_and_asked_about():
    result = play(
        {"fetch": {"effect": "write", "calls": [DENIED, FINE]}, "login": {}},
        {**LOGIN, "effect": ["write"]},
        operator=[
            {"when": {"task": "a", "state": "awaiting-confirmation"}, "do": {"approve": "a", "by": "ann"}}
        ],
    )
    assert adopted(result) == [("rule", "login")]
    assert (result.run, result.effects["fetch"]) == ("done", 1)


def test_a_person_s_step_and_a_step_without_a_known_tool_are_no_matter_of_repairs():
    plan = [{"id": "q", "description": "how many?", "confirm_within_s": 1}, {"id": "a", "tool": "fetch"}]
    result = play({"fetch": {}}, {**OTHER, "signal": "approval_expired"}, plan=plan, rules="default")
    assert adopted(result) == []


def test_a_repair_needs_the_arguments_of_its_tool():
    k = Parameter(name="k")
    fetch, two = tool("fetch", parameters={"k": ()}), tool("fetch_two", parameters={"k": ()})
    assert [r.id for r in repairing.usable(read(LOGIN, OTHER), (fetch, two))] == ["other"]
    assert k.required


def test_the_log_holds_only_what_could_ever_fit():
    result = play({"fetch": {}, "fetch_two": {}}, OTHER, LOGIN, row(id="third", of=["find"]))
    assert [r["id"] for r in told(result, "run_created")[0]["repairs"]] == ["other"]
    assert "repairs" not in told(play({"fetch": {}}, OTHER), "run_created")[0]


def test_a_run_that_is_taken_over_goes_on_with_the_repairs_it_began_with():
    result = play(
        {"fetch": {"calls": [{"crash": "after"}, MISSING]}, "fetch_two": {}},
        OTHER,
        rules={"base": "exploratory"},
    )
    assert adopted(result) == [("rule", "other")]
    assert result.run == "done"


def test_an_audit_sees_a_repair_that_proposes_something_else():
    result = play(
        {"fetch": {"calls": [MISSING]}, "fetch_two": {}, "fetch_three": {}},
        OTHER,
        row(id="third", tool="fetch_three"),
    )
    events = list(result.events)
    place = next(n for n, e in enumerate(events) if e.type == "plan_adopted" and e.data["origin"] == "rule")
    for name in ("third", "nobody"):
        forged = events[place]._replace(data={**events[place].data, "repair": name})
        records, head = reseal(RUN_ID, [*events[:place], forged, *events[place + 1 :]])
        checks = {f.check for f in audit(RUN_ID, records, lambda digest: None, head=head).findings}
        assert checks == {"plan-through-the-gate"}


def test_the_example_of_the_page_is_one_that_can_be_read():
    page = (Path(__file__).parents[2] / "docs" / "replanning.md").read_text("utf-8")
    document = tomllib.loads(page.partition("```toml\n")[2].partition("```")[0])
    (own, *shipped) = repairs.read(document, where="page", base=load_repairs())
    assert (own.id, own.names("orders.find"), own.copy) == (
        "ask-the-archive",
        ("orders.find_archive",),
        ("number",),
    )
    assert tuple(shipped) == load_repairs()


def test_the_shipped_repairs_say_why_in_both_languages():
    assert {r.id for r in load_repairs()} >= {
        "authenticate",
        "other-source",
        "faster-route",
        "parallel-route",
        "wait",
    }
    assert all(r.why and r.why_zh for r in load_repairs())


def test_a_record_of_a_batch_mends_the_template_for_all_that_is_not_done():
    plan = [
        {"id": "list", "tool": "use"},
        {
            "id": "each",
            "tool": "fetch",
            "for_each": "$list.rows",
            "args": {"k": "$item"},
            "max_parallel": 1,
            "depends_on": ["list"],
        },
        {"id": "end", "tool": "use", "args": {"all": "$each"}, "depends_on": ["each"]},
    ]
    tools = {
        "use": {"calls": [{"return": {"rows": [1, 2, 3]}}]},
        "fetch": {"calls": [{"match": {"k": 1}, "return": "one"}, {"match": {"k": 2}, **MISSING}]},
        "fetch_two": {
            "calls": [{"match": {"k": 2}, "return": "two"}, {"match": {"k": 3}, "return": "three"}]
        },
    }
    result = play(tools, OTHER, plan=plan)
    assert adopted(result) == [("rule", "other")]
    assert (result.run, result.calls["fetch"], result.calls["fetch_two"]) == ("done", 2, 2)
    assert result.results["each"] == ["one", "two", "three"]


def test_a_step_of_a_nested_plan_is_mended_where_it_stands():
    inner = {
        "steps": [
            {"id": "a", "tool": "fetch", "args": {"k": 1}},
            {"id": "b", "tool": "use", "depends_on": ["a"]},
        ]
    }
    plan = [{"id": "s", "plan": inner}, {"id": "end", "tool": "use", "args": {"n": 1}, "depends_on": ["s"]}]
    result = play({"fetch": {"calls": [MISSING]}, "fetch_two": {}}, OTHER, plan=plan)
    assert (adopted(result), result.run) == ([("rule", "other")], "done")
    denied = play({"fetch": {"calls": [DENIED, FINE]}, "login": {}}, LOGIN, plan=plan)
    assert (adopted(denied), denied.run, denied.calls["login"]) == ([("rule", "login")], "done", 1)
    assert denied.tasks["s/login"] == "done"


def test_what_a_plan_states_is_found_where_it_stands_and_nowhere_else():
    inner = {"id": "a", "tool": "x"}
    docs = [{"id": "s", "plan": {"steps": [inner]}}, {"id": "t", "tool": "y"}]
    assert strategy.stated(docs, "s/a") is inner
    assert strategy.stated(docs, "t[3]") is docs[1]
    assert [strategy.stated(docs, name) for name in ("u", "t/a", "s/b")] == [None, None, None]
