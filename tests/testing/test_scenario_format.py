"""The format of scenarios: what is read, what is refused, and how the refusal reads."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent.core.errors import NotFoundError
from fsm_agent.core.events import Event
from fsm_agent.core.inputs import Answer, Ask, Edit, ReconcileAs, Reject, Resume, RetryTask, SetInputs, Usage
from fsm_agent.core.signals import Applied, Effect
from fsm_agent.testing import operator
from fsm_agent.testing.document import Node, ScenarioError
from fsm_agent.testing.operator import Approval, Crash, NewPlan, Script, When
from fsm_agent.testing.scenario import Reply, load, parse

PLAN = {"steps": [{"id": "a", "tool": "t"}]}


def scenario(**parts):
    return parse({"plan": PLAN, **parts}, "case.json")


def refused(pointer, *words, **parts):
    with pytest.raises(ScenarioError) as caught:
        scenario(**parts)
    assert caught.value.pointer == pointer, str(caught.value)
    assert caught.value.file == "case.json"
    assert caught.value.exit_code == 3
    message = str(caught.value)
    assert message.startswith(f"case.json {pointer or '/'}: ")
    for word in words:
        assert word in message, message
    return message


def tool(**parts):
    return {"tools": {"t": {"effect": "write", **parts}}}


def call(**parts):
    return scenario(**tool(calls=[parts])).tools["t"].calls[0]


def operator_of(*reactions):
    return scenario(operator=list(reactions)).operator


def action(do):
    return operator_of({"at_s": 0, "do": do})[0].actions[0]


def move(task, dest, seq=1):
    return Event(seq, seq, "task_moved", {"dest": dest}, task)


def decision(task, signal, decide, seq=1):
    return Event(seq, seq, "decided", {"signal": signal, "decide": decide}, task)


def test_a_plan_is_all_that_a_scenario_needs():
    read = scenario()
    assert read.plan == PLAN
    assert (read.name, read.rules, read.workers, read.planner) == ("case.json", "default", 4, None)
    assert read.tools == {}
    assert read.operator == ()
    assert read.inputs == {}
    assert read.params == {}


def test_the_example_of_the_format_is_read_whole():
    read = parse(
        {
            "name": "n",
            "source": "a/b#1",
            "what": "w",
            "plan": [{"id": "a", "tool": "t"}],
            "rules": {"base": "conservative", "params": {"retries": 3}},
            "inputs": {"week": "w1"},
            "workers": 2,
            "tools": {
                "t": {
                    "effect": "idempotent",
                    "timeout_s": 10,
                    "settle_s": 2.5,
                    "reconcile": "truth",
                    "lag_s": 1,
                    "requires": ["u"],
                    "confirm": True,
                    "confirm_within_s": 60,
                    "secret": ["token"],
                    "description": "d",
                    "calls": [
                        {
                            "return": 1,
                            "usage": {"tokens": 5, "cost": "0.25"},
                            "progress": [True, False],
                            "progress_usage": {"tokens": 3},
                        }
                    ],
                },
                "u": {"effect": "read"},
            },
            "default_tool": "u",
            "planner": [{"steps": []}, "text", {"answer": None, "usage": {"tokens": 7}, "retry_after_s": 2}],
            "expect": {
                "run": "done",
                "within_s": 1,
                "audit": "clean",
                "refused": ["cycle"],
                "events": {"decided": 1},
            },
        },
        "f",
    )
    t = read.tools["t"]
    assert (t.spec.timeout_us, t.spec.settle_us, t.lag_us, t.probes) == (
        10_000_000,
        2_500_000,
        1_000_000,
        None,
    )
    assert (t.spec.effect, t.spec.requires, t.spec.confirm) == (Effect.IDEMPOTENT, ("u",), True)
    assert (t.spec.confirm_within_us, t.spec.secret, t.spec.reconcile) == (60_000_000, ("token",), True)
    assert t.calls[0].usage == Usage(tokens=5, cost_micros=250_000)
    assert (t.calls[0].progress, t.calls[0].progress_usage) == ((True, False), Usage(tokens=3))
    assert (read.rules, read.params, read.workers) == ("conservative", {"retries": 3}, 2)
    busy = Reply(answer=None, usage=Usage(tokens=7), retry_after_us=2_000_000)
    assert (read.planner, read.default_tool, read.source) == (({"steps": []}, "text", busy), "u", "a/b#1")
    assert (read.expect.run, read.expect.within_us, read.expect.refused) == ("done", 1_000_000, ("cycle",))


def test_the_name_of_a_table_may_stand_alone():
    assert scenario(rules="exploratory").rules == "exploratory"
    assert scenario(rules={}).rules == "default"
    assert scenario(rules={"rows": [{"id": "x"}]}).rows == ({"id": "x"},)


@pytest.mark.parametrize(
    ("pointer", "words", "parts"),
    [
        ("/tool", ["'tool' is unknown", "allowed here: name, source"], {"tool": {}}),
        ("/plan", ["a number was found", "a plan"], {"plan": 3}),
        ("/workers", ["0 was found", "1 or more"], {"workers": 0}),
        ("/workers", ["true or false was found"], {"workers": True}),
        ("/rules/param", ["allowed here: base, params, rows"], {"rules": {"param": {}}}),
        ("/rules/rows", ["a list of rows"], {"rules": {"rows": {}}}),
        ("/rules/rows/0", ["a row of a table"], {"rules": {"rows": ["retry"]}}),
        ("/rules/params/retries", ["a text was found", "a number"], {"rules": {"params": {"retries": "3"}}}),
        ("/planner/0", ["null was found"], {"planner": [None]}),
        ("/planner/0/answer", ["a plan, a text or null"], {"planner": [{"answer": 5}]}),
        ("/planner/0/why", ["the key 'why' is unknown"], {"planner": [{"answer": None, "why": ""}]}),
        ("/planner", ["an object was found", "a list of answers"], {"planner": {}}),
        ("/planner/0", ["cannot be stored exactly", "as text"], {"planner": [{"steps": [2**64]}]}),
        ("/planner/0", ["cannot be stored exactly", "as text"], {"planner": [{"answer": ["\ud800"]}]}),
        ("/inputs", ["a list was found"], {"inputs": []}),
        ("/name", ["the text is empty"], {"name": ""}),
        ("/name", ["a number was found", "write a text"], {"name": 1}),
        ("/default_tool", ["'x' was found", "allowed: "], {"default_tool": "x"}),
        ("/tools/t", ["'effect' is missing"], {"tools": {"t": {}}}),
        (
            "/tools/t/effect",
            ["'writes' was found", "read, idempotent"],
            {"tools": {"t": {"effect": "writes"}}},
        ),
        ("/tools/a~1b/effct", ["'effct' is unknown"], {"tools": {"a/b": {"effct": "read"}}}),
        ("/tools/t/timeout_s", ["-1 seconds", "0 to"], tool(timeout_s=-1)),
        ("/tools/t/timeout_s", ["a text was found"], tool(timeout_s="10")),
        ("/tools/t/timeout_s", ["1e+30 seconds"], tool(timeout_s=1e30)),
        ("/tools/t/reconcile", ["'lies' was found", "truth, none"], tool(reconcile="lies")),
        ("/tools/t/reconcile", ["an empty list"], tool(reconcile=[])),
        ("/tools/t/reconcile/0", ["no finding"], tool(reconcile=[{}])),
        ("/tools/t/reconcile/0", ["applied and absent"], tool(reconcile=[{"applied": 1, "absent": True}])),
        ("/tools/t/reconcile/0/absent", ["false was found"], tool(reconcile=[{"absent": False}])),
        ("/tools/t/calls/0/returns", ["'returns' is unknown"], tool(calls=[{"returns": 1}])),
        ("/tools/t/calls/0/crash", ["'now' was found", "before, after"], tool(calls=[{"crash": "now"}])),
        ("/tools/t/calls/0/late_s", ["does not hang"], tool(calls=[{"late_s": 1}])),
        (
            "/tools/t/calls/0/raise",
            ["hangs for ever"],
            tool(calls=[{"timeout": True, "raise": {"status": 500}}]),
        ),
        ("/tools/t/calls/0/raise", ["without any sign"], tool(calls=[{"raise": {}}])),
        ("/tools/t/calls/0/raise/code", ["a list was found"], tool(calls=[{"raise": {"code": []}}])),
        (
            "/tools/t/calls/0/raise/applied",
            ["stands with a class"],
            tool(calls=[{"raise": {"class": "E", "applied": "no"}}]),
        ),
        ("/tools/t/calls/0/progress/1", ["a number was found"], tool(calls=[{"progress": [True, 1]}])),
        ("/tools/t/calls/0/usage/cost", ["'much' is no amount"], tool(calls=[{"usage": {"cost": "much"}}])),
        ("/tools/t/calls/0/usage/cost", ["'-1' is no amount"], tool(calls=[{"usage": {"cost": "-1"}}])),
        ("/tools/t/calls/0/usage/cost", ["null was found"], tool(calls=[{"usage": {"cost": None}}])),
        ("/tools/t/calls/0/match", ["a text was found"], tool(calls=[{"match": "x"}])),
        ("/operator/0", ["no trigger"], {"operator": [{"do": "cancel"}]}),
        ("/operator/0", ["at_s and at_seq"], {"operator": [{"at_s": 1, "at_seq": 1, "do": "cancel"}]}),
        ("/operator/0", ["'do' is missing"], {"operator": [{"at_s": 1}]}),
        ("/operator/0/do", ["'stop' was found", "cancel, pause"], {"operator": [{"at_s": 1, "do": "stop"}]}),
        ("/operator/0/do", ["an empty list"], {"operator": [{"at_s": 1, "do": []}]}),
        ("/operator/0/do", ["a number was found"], {"operator": [{"at_s": 1, "do": 1}]}),
        ("/operator/0/do", ["no action"], {"operator": [{"at_s": 1, "do": {"by": "ann"}}]}),
        (
            "/operator/0/do",
            ["approve and reject"],
            {"operator": [{"at_s": 1, "do": {"approve": "a", "reject": "a"}}]},
        ),
        (
            "/operator/0/do/args",
            ["'args' is unknown"],
            {"operator": [{"at_s": 1, "do": {"reject": "a", "args": {}}}]},
        ),
        ("/operator/0/do", ["'value' is missing"], {"operator": [{"at_s": 1, "do": {"answer": "a"}}]}),
        ("/operator/0/do/cancel", ["false was found"], {"operator": [{"at_s": 1, "do": {"cancel": False}}]}),
        (
            "/operator/0/every",
            ["every goes with when"],
            {"operator": [{"at_s": 1, "every": True, "do": "pause"}]},
        ),
        ("/operator/0/at_seq", ["0 was found"], {"operator": [{"at_seq": 0, "do": "pause"}]}),
        (
            "/operator/0/when",
            ["task were found together"],
            {"operator": [{"when": {"task": "a"}, "do": "pause"}]},
        ),
        ("/operator/0/when", ["(none) were found"], {"operator": [{"when": {}, "do": "pause"}]}),
        (
            "/operator/0/when/state",
            ["'finished' was found", "pending, running"],
            {"operator": [{"when": {"task": "a", "state": "finished"}, "do": "pause"}]},
        ),
        ("/expect/task", ["'task' is unknown"], {"expect": {"task": {}}}),
        ("/expect/run", ["'finished' was found"], {"expect": {"run": "finished"}}),
        ("/expect/effects/u", ["no tool 'u'", "its tools: none"], {"expect": {"effects": {"u": 0}}}),
        ("/expect/moves/0", ["a list of 3", "[TASK, STATE]"], {"expect": {"moves": [["a", "b", "c"]]}}),
        ("/expect/moves/0/1", ["'don' was found"], {"expect": {"moves": [["a", "don"]]}}),
        ("/expect/never/0/1", ["'oops' was found"], {"expect": {"never": [["a", "oops", "retry"]]}}),
        ("/expect/audit", ["'open' was found", "clean"], {"expect": {"audit": "open"}}),
        ("/expect/events/moved", ["no event type 'moved'"], {"expect": {"events": {"moved": 1}}}),
        ("", ["'plan' is missing"], None),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place_and_what_is_allowed(pointer, words, parts):
    if parts is None:
        with pytest.raises(ScenarioError, match="'plan' is missing"):
            parse({}, "case.json")
        return
    refused(pointer, *words, **parts)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def fault_of(**parts):
    """Return the pointer of the fault; None when the document is a scenario."""
    try:
        parse(parts, "f")
    except ScenarioError as error:
        return error.pointer if str(error).startswith(f"f {error.pointer or '/'}: ") else "no place"
    return None


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["plan", "tools", "operator", "expect", "rules", "planner", "workers", "x"]), JSON
    )
)
def test_any_document_is_read_or_refused_with_a_place(document):
    assert fault_of(**document) != "no place"


@settings(deadline=None)
@given(JSON)
def test_any_tool_is_read_or_refused_with_a_place(document):
    pointer = fault_of(plan=PLAN, tools={"t": document})
    assert pointer is None or pointer.startswith("/tools/t")


@settings(deadline=None)
@given(st.lists(JSON, max_size=3) | JSON)
def test_any_script_of_a_person_is_read_or_refused_with_a_place(document):
    pointer = fault_of(plan=PLAN, operator=document)
    assert pointer is None or pointer.startswith("/operator")


def test_what_returns_has_had_its_effect_unless_it_is_a_read_or_says_otherwise():
    assert call(**{"return": 1}).commit
    assert call().commit
    assert not call(**{"return": 1, "commit": False}).commit
    assert not scenario(tools={"t": {"effect": "read", "calls": [{"return": 1}]}}).tools["t"].calls[0].commit


def test_an_error_or_a_time_out_has_an_effect_only_if_it_says_so_or_says_what_would_be_found():
    assert not call(**{"raise": {"status": 500}}).commit
    assert not call(timeout=True).commit
    assert call(timeout=True, commit=True).commit
    assert call(**{"raise": {"status": 500}, "return": {"id": 1}}).commit
    assert not call(**{"timeout": True, "return": 1, "commit": False}).commit


def test_an_error_keeps_every_sign_it_is_given():
    raised = call(**{"raise": {"code": 17, "message": "m", "retry_after_s": 1.5, "applied": "no"}}).raised
    assert raised.code == "17"
    assert (raised.message, raised.retry_after_us, raised.applied) == ("m", 1_500_000, Applied.NO)
    raised = call(**{"raise": {"class": "E", "status": 503}}).raised
    assert (raised.class_name, raised.status, raised.applied) == ("E", 503, None)


def test_every_action_of_a_person_has_its_value():
    assert action("crash") == Crash()
    assert isinstance(action("resume"), Resume)
    cancel = action({"cancel": True, "acknowledge": ["a"], "by": "ann", "note": "n"})
    assert isinstance(cancel, Ask)
    assert (cancel.wish, cancel.acknowledged, cancel.who.by, cancel.who.note) == (
        "cancel",
        ("a",),
        "ann",
        "n",
    )
    assert action("pause").wish == "pause"
    assert action("pause").who.by == "operator"
    approve = action({"approve": "a", "args": {"x": 1}, "digest": "ab"})
    assert isinstance(approve, Approval)
    assert (approve.task, approve.args, approve.digest) == ("a", {"x": 1}, "ab")
    assert action({"approve": "a"}).args is None
    assert isinstance(action({"reject": "a", "note": "no"}), Reject)
    edit = action({"edit": "a", "args": {"x": 2}})
    assert isinstance(edit, Edit)
    assert edit.args == {"x": 2}
    answer = action({"answer": "run", "value": {"decide": "abort"}})
    assert isinstance(answer, Answer)
    assert answer.value == {"decide": "abort"}
    inputs = action({"set_input": {"week": "w"}})
    assert isinstance(inputs, SetInputs)
    assert inputs.values == {"week": "w"}
    assert isinstance(action({"retry": "a"}), RetryTask)
    verdict = action({"reconcile": "a", "as": "applied", "evidence": "seen", "result": 3})
    assert isinstance(verdict, ReconcileAs)
    assert (verdict.verdict, verdict.result, verdict.evidence) == ("applied", 3, "seen")
    assert action({"reconcile": "a"}).verdict is None
    assert action({"replan": []}) == NewPlan(document=[], who=action("pause").who)


def test_a_script_for_a_real_run_must_state_what_it_approves_and_cannot_crash():
    def real(do):
        return operator.parse(Node([{"at_s": 0, "do": do}], "op.json"), real=True)

    with pytest.raises(ScenarioError, match="add the args or the digest"):
        real({"approve": "a"})
    with pytest.raises(ScenarioError, match="only a simulation"):
        real("crash")
    assert real({"approve": "a", "args": {}})
    assert real({"approve": "a", "digest": "00112233"})
    assert real("cancel")


@pytest.mark.parametrize(
    ("when", "fits", "others"),
    [
        (
            {"task": "a", "state": "done"},
            move("a", "done"),
            [move("b", "done"), move("a", "failed"), decision("a", "success", "accept")],
        ),
        (
            {"run": "done"},
            Event(1, 1, "run_moved", {"dest": "done"}),
            [move("run", "done"), Event(1, 1, "run_moved", {"dest": "failed"})],
        ),
        (
            {"signal": "conflict"},
            decision("a", "conflict", "escalate"),
            [decision("a", "success", "accept"), move("a", "done")],
        ),
        ({"decision": "retry"}, decision(None, "conflict", "retry"), [decision("a", "conflict", "escalate")]),
        (
            {"task": "run", "decision": "abort"},
            decision(None, "deadlock", "abort"),
            [decision("a", "deadlock", "abort")],
        ),
        (
            {"task": "a", "signal": "conflict", "decision": "skip"},
            decision("a", "conflict", "skip"),
            [decision("a", "conflict", "retry")],
        ),
    ],
)
def test_a_reaction_waits_for_exactly_its_event(when, fits, others):
    waits = When(**when)
    assert waits.fits(fits)
    assert not any(waits.fits(other) for other in others)


def test_a_reaction_fires_once_and_a_repeating_one_every_time():
    script = Script(
        operator_of(
            {"when": {"task": "a", "state": "failed"}, "do": "pause"},
            {"when": {"task": "a", "state": "failed"}, "every": True, "do": "resume"},
            {"at_seq": 3, "do": "crash"},
            {"at_s": 5, "do": "cancel"},
        )
    )
    assert script.after([move("a", "failed", 1), move("a", "failed", 2)]) == [0, 1, 1]
    assert script.after([move("b", "done", 4)]) == [2]
    assert script.after([move("a", "failed", 5)]) == [1]
    assert script.timed() == [(5_000_000, 3)]


def test_a_file_is_read_and_a_bad_one_is_refused_in_one_sentence(tmp_path):
    good = tmp_path / "good.json"
    good.write_text(json.dumps({"plan": PLAN}), "utf-8-sig")
    assert load(good).file == str(good)
    with pytest.raises(NotFoundError, match=r"none\.json: there is no such file"):
        load(tmp_path / "none.json")
    for name, data, words in [
        ("cut.json", b'{"plan": ', "it is no JSON"),
        ("twice.json", b'{"plan": [], "plan": []}', "duplicate key 'plan'"),
        ("bytes.json", b"\xff\xfe\x00", "it is no JSON"),
        ("deep.json", b"[" * 100_000, "nested too deeply"),
        ("large.json", b" " * (16 * 1024 * 1024 + 1), "more than 16777216 bytes"),
    ]:
        file = tmp_path / name
        file.write_bytes(data)
        with pytest.raises(ScenarioError, match=words) as caught:
            load(file)
        assert caught.value.exit_code == 3
    with pytest.raises(ScenarioError, match="Is a directory"):
        load(tmp_path)
