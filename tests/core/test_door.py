"""The one door into running: who passes, who is turned away, and in which order."""

import pytest

from tests.core.kit import lab, tool

A, B, C = ({"id": n, "tool": "look", "args": {"n": n}} for n in "abc")


def after(step, *deps, **more):
    return {**step, "depends_on": list(deps), **more}


def maybe(name):
    return {"id": name, "optional": True}


# ── order, slots, dependencies ────────────────────────────────────────────────────────────────────────────────


def test_ready_tasks_start_in_plan_order_as_far_as_slots_go():
    with lab([C, A, B], slots=2) as it:
        assert [c.task for c in it.calls()] == ["c", "a"]
        it.returns("a", 1)
        assert [c.task for c in it.calls()] == ["c", "a", "b"]


def test_a_task_that_can_start_earlier_in_the_plan_goes_first_when_a_slot_is_free():
    with lab([after(A, "c"), B, C], slots=1) as it:
        it.returns("b", 1)
        it.returns("c", 1)
        assert [c.task for c in it.calls()] == ["b", "c", "a"]


def test_probes_take_slots_too():
    steps = [{"id": "w", "tool": "pay"}, A]
    with lab(steps, slots=1) as it:
        it.times_out("w")
        it.returns("a", 1)
        it.until_due()
        assert it.run.probing == 1


@pytest.mark.parametrize(
    ("step", "started"),
    [
        (after(C, "a", "b"), "ab"),
        (after(C, "a", maybe("b")), "ab"),
        (after(C, "a", "b", join="any"), "ab"),
        (after(C, "a", "b", join="first"), "a"),
    ],
)
def test_a_join_says_how_many_dependencies_a_task_waits_for(step, started):
    with lab([A, B, step]) as it:
        for name in started:
            assert it.states["c"] == "pending"
            it.returns(name, 1)
        assert it.states["c"] == "running"
        it.returns("b", 1) if it.states["b"] == "running" else None
        assert it.task("c").attempt == 1


NO = {"when": "1 == 2"}


@pytest.mark.parametrize(
    ("deps", "join", "state"),
    [
        (["a"], "all", "cancelled"),
        ([maybe("a")], "all", "running"),
        (["a", "b"], "all", "cancelled"),
        ([maybe("a"), "b"], "all", "pending"),
        (["a", "b"], "any", "pending"),
        (["a", "b"], "first", "pending"),
        (["a"], "any", "cancelled"),
        (["a"], "first", "cancelled"),
        ([maybe("a")], "any", "running"),
        ([maybe("a")], "first", "running"),
    ],
)
def test_a_cancelled_dependency_takes_along_what_needs_it(deps, join, state):
    with lab([{**A, **NO}, B, after(C, *deps, join=join)]) as it:
        assert it.states["a"] == "cancelled"
        assert it.states["c"] == state
        if state == "pending":
            it.returns("b", 1)
            assert it.states["c"] == "running"


@pytest.mark.parametrize("join", ["any", "first"])
@pytest.mark.parametrize("optional", [True, False])
def test_a_join_of_which_nothing_is_left_runs_only_if_it_needed_none_of_it(join, optional):
    deps = [maybe("a"), maybe("b") if optional else "b"]
    with lab([{**A, **NO}, {**B, **NO}, after(C, *deps, join=join)]) as it:
        assert it.states["c"] == ("running" if optional else "cancelled")


@pytest.mark.parametrize("join", ["any", "first"])
def test_a_failed_dependency_may_still_be_tried_again_so_any_waits_and_first_does_not(join):
    with lab([A, B, after(C, "a", "b", join=join)]) as it:
        it.fails("a", "auth_denied")
        it.returns("b", 1)
        assert it.states["c"] == ("running" if join == "first" else "pending")
        it.answer("a", {"result": 1, "evidence": "x"})
        assert it.states["c"] == "running"


def test_the_reason_of_a_cancellation_stays_short_however_long_the_chain():
    steps = [{**A, **NO}] + [
        {"id": f"s{n}", "tool": "look", "depends_on": [f"s{n - 1}" if n else "a"]} for n in range(60)
    ]
    with lab(steps) as it:
        assert set(it.states.values()) == {"cancelled"}
        assert it.task("s59").reason == (
            "s58, which it depends on, was cancelled because of a: its condition `1 == 2` is false"
        )
        assert it.run.state == "done"


def test_dependents_of_what_a_person_rejected_carry_that_reason_even_beside_a_condition():
    steps = [
        {**A, **NO},
        {**B, "requires_confirmation": True},
        after(C, "a"),
        {"id": "d", "tool": "look", "depends_on": ["b"]},
    ]
    with lab(steps) as it:
        it.reject("b")
        assert it.task("c").reason_code == "condition"
        assert it.task("d").reason_code == "rejected"
        assert it.run.state == "cancelled"


def test_of_two_lost_dependencies_the_one_that_nobody_foresaw_is_named():
    steps = [{**A, **NO}, {**B, "requires_confirmation": True}, after(C, "a", "b", join="any")]
    with lab(steps) as it:
        assert it.states["c"] == "pending"
        it.reject("b")
        assert it.task("c").reason.startswith("b, which it depends on, was cancelled: rejected by ann")
        assert it.task("c").reason_code == "rejected"


# ── conditions, references, preconditions ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("when", "state", "signal"),
    [
        ("$a.n == 1", "running", None),
        ("$a.n == 2", "cancelled", None),
        ("$a.missing == 1", "failed", "unresolved_reference"),
    ],
)
def test_a_condition_is_weighed_at_the_door(when, state, signal):
    with lab([A, after(B, "a", when=when)]) as it:
        it.returns("a", {"n": 1})
        assert it.states["b"] == state
        assert it.decisions("b") == ([(signal, "escalate")] if signal else [])


def test_a_reference_without_a_value_stops_the_step_by_name():
    with lab([A, after({**B, "args": {"x": "$a.deep.er"}}, "a")]) as it:
        it.returns("a", {"deep": {}})
        assert it.states["b"] == "failed"
        assert "$a.deep.er" in it.task("b").reason
        assert len(it.calls()) == 1


def test_a_reference_to_what_was_cancelled_has_no_value():
    with lab([{**A, **NO}, after({**B, "args": {"x": "$a.n"}}, maybe("a"))]) as it:
        assert it.states["b"] == "failed"
        assert it.decisions("b")[0][0] == "unresolved_reference"


@pytest.mark.parametrize(
    ("check", "severity", "state"),
    [
        ('args.n == "b"', "stop", "running"),
        ('args.n == "z"', "stop", "failed"),
        ('args.n == "z"', "warn", "running"),
        ("args.n == 3", "stop", "failed"),
        ("$a.missing == 1", "stop", "failed"),
        ("$a.missing == 1", "warn", "running"),
    ],
)
def test_a_precondition_stops_a_step_or_is_noted(check, severity, state):
    condition = {"check": check, "severity": severity, "say": "mind this"}
    with lab([A, after(B, "a", preconditions=[condition])]) as it:
        it.returns("a", {"n": 1})
        assert it.states["b"] == state
        notes = it.events("note_added", task="b")
        assert len(notes) == (severity == "warn")
        if state == "failed":
            expected = "precondition_violated" if '"z"' in check else "unresolved_reference"
            assert it.decisions("b")[0][0] == expected
            assert it.task("b").reason.startswith("mind this: the precondition")


def test_preconditions_are_weighed_again_at_every_try():
    step = {**A, "preconditions": ["$inputs.w == 1"]}
    with lab([step], inputs={"w": 1}) as it:
        it.fails("a")
        it.set(w=2)
        it.until_due()
        assert len(it.calls()) == 1
        assert it.states == {"a": "failed"}


# ── tools and arguments ───────────────────────────────────────────────────────────────────────────────────────


def test_a_tool_that_is_not_in_the_toolbox_is_named_with_those_that_are():
    with lab([{"id": "a", "tool": "fly"}]) as it:
        assert it.states == {"a": "failed"}
        assert (
            it.task("a").reason == "the tool 'fly' is not in the toolbox; there: burn, look, mail, pay, put"
        )
    with lab([{"id": "a", "tool": "fly"}], tools=[]) as it:
        assert it.task("a").reason.endswith("there: none")


def test_arguments_that_do_not_fit_the_signature_stop_before_the_call():
    strict = tool("strict", parameters={"n": ("integer",)})
    with lab([{"id": "a", "tool": "strict", "args": {"n": "text", "m": 1}}], tools=[strict]) as it:
        assert it.states == {"a": "failed"}
        assert it.decisions("a")[0][0] == "bad_request"
        assert it.calls() == []


def test_the_default_tool_gets_what_it_asks_for_by_name():
    agent = tool("agent", parameters={"id": ("string",), "description": ("string",), "x": ("integer",)})
    with lab(
        [{"id": "a", "description": "first", "args": {"x": 5}}], tools=[agent], default_tool="agent"
    ) as it:
        assert it.calls()[0].args == {"id": "a", "description": "first", "x": 5}


def test_a_default_tool_is_told_about_finished_dependencies():
    agent = tool("agent", parameters={"description": ("string",), "results": ("object",)})
    steps = [{"id": "a", "description": "first"}, {"id": "b", "description": "second", "depends_on": ["a"]}]
    with lab(steps, tools=[agent], default_tool="agent") as it:
        it.returns("a", {"n": 1})
        assert it.calls()[-1].args == {"description": "second", "results": {"a": {"n": 1}}}


def test_a_default_tool_that_is_gone_is_an_undeclared_tool():
    with lab([{"id": "a", "description": "first"}], tools=[], default_tool="agent") as it:
        assert it.states == {"a": "failed"}
        assert it.decisions("a")[0][0] == "undeclared_tool"


def test_a_steps_own_time_goes_before_the_tools():
    with lab([{**A, "timeout_s": 3}, B]) as it:
        a, b = it.calls()
        starts = [it.starts(n)[0].at for n in "ab"]
        assert [a.deadline_at - starts[0], b.deadline_at - starts[1]] == [3_000_000, 10_000_000]


def test_the_tools_own_word_asks_for_a_yes_whatever_the_plan_says():
    with lab([{"id": "a", "tool": "sign"}], tools=[tool("sign", "write", confirm=True)]) as it:
        assert it.states == {"a": "awaiting-confirmation"}


def test_the_tools_own_time_limits_how_long_a_yes_is_waited_for():
    sign = tool("sign", "write", confirm=True, confirm_within_us=5_000_000)
    with lab([{"id": "a", "tool": "sign"}], tools=[sign]) as it:
        it.tick(6)
        assert it.decisions("a") == [("approval_expired", "escalate")]


def test_a_tool_that_no_longer_asks_for_a_yes_is_called_without_it():
    sign = tool("sign", "write", confirm=True)
    with lab([{"id": "a", "tool": "sign"}], tools=[sign]) as it:
        it.ask("pause")
        it.approve("a")
        it.crash(tools=[tool("sign", "write")])
        it.resume()
        assert it.states == {"a": "running"}
        assert "approval" not in it.starts("a")[0].data


def test_two_equal_writes_in_two_steps_are_two_effects_and_have_two_keys():
    with lab([{"id": n, "tool": "pay", "args": {"x": 1}} for n in "ab"]) as it:
        first, second = it.calls()
        assert first.key != second.key


def test_what_is_held_for_want_of_money_starts_when_there_is_some_again_and_keeps_its_approval():
    steps = [{**A, "estimate": {"tokens": 80}}, {"id": "b", "tool": "burn", "estimate": {"tokens": 80}}]
    with lab(steps, budgets={"tokens": 100}) as it:
        it.approve("b")
        assert it.states == {"a": "running", "b": "pending"}
        it.returns("a", 1)
        assert it.states["b"] == "running"
