"""Combinations that no single rule thinks of: what must hold however words, calls, clocks and planners fall together."""

import pytest

from fsm_agent.testing.scenario import parse
from fsm_agent.testing.simulate import simulate

READ = {"effect": "read", "calls": [{"return": {"v": 1}}]}
DENIED = {"effect": "read", "calls": [{"raise": {"status": 404, "message": "no such thing"}}]}


def play(*steps, tools, expect=None, **more):
    plan = {"goal": "g", "inputs": more.pop("inputs", {}), "steps": list(steps)}
    for part in ("budgets", "constraints"):
        if part in more:
            plan[part] = more.pop(part)
    result = simulate(parse({"plan": plan, "tools": tools, "expect": expect or {}, **more}, "here"))
    assert result.ok, "\n".join(result.failures)
    return result


@pytest.mark.parametrize("severity", ["stop", "warn"])
@pytest.mark.parametrize("when", ["1 == 1", "1 == 2"])
def test_a_step_that_a_budget_holds_back_is_looked_at_again_without_a_trace(severity, when):
    play(
        {"id": "a", "tool": "slow"},
        {"id": "b", "tool": "look", "preconditions": [{"check": when, "severity": severity}]},
        tools={"slow": {**READ, "calls": [{"return": 1, "delay_s": 5}]}, "look": READ},
        budgets={"tool_calls": 1},
        expect={"run": "failed"} if (severity, when) != ("stop", "1 == 2") else {},
    )


def test_what_is_tolerated_is_noted_once_before_the_call():
    step = {"id": "a", "tool": "look", "preconditions": [{"check": "1 == 2", "severity": "warn"}]}
    result = play(step, tools={"look": READ}, expect={"run": "done", "events": {"note_added": 1}})
    kinds = [(e.type, e.data.get("trigger")) for e in result.events]
    assert kinds.index(("note_added", None)) < kinds.index(("task_moved", "start"))


def test_active_time_that_is_used_up_while_a_call_runs_is_a_budget_not_a_fault():
    play(
        {"id": "a", "tool": "slow"},
        {"id": "b", "tool": "slow", "depends_on": ["a"]},
        tools={"slow": {**READ, "calls": [{"return": 1, "delay_s": 30}]}},
        budgets={"active_s": 10},
        expect={"run": "failed", "tasks": {"a": "done", "b": "pending"}},
    )


@pytest.mark.parametrize(
    "answer", [{"steps": []}, {"infeasible": "no"}, {"steps": [{"id": "z", "tool": "look"}]}]
)
def test_a_run_is_not_done_while_a_broken_constraint_waits_for_another_plan(answer):
    result = play(
        {"id": "a", "tool": "look"},
        tools={"look": READ},
        constraints=[{"key": "c", "value": 0, "check": "v <= value"}],
        planner=[answer],
        expect={"never": [["run", "done"]], "run": "awaiting-confirmation"},
    )
    assert result.planner_calls >= 1


def test_a_new_plan_that_mends_nothing_leaves_the_constraint_broken():
    play(
        {"id": "a", "tool": "look"},
        {"id": "b", "tool": "look", "args": {"q": 2}, "depends_on": ["a"]},
        tools={"look": READ},
        constraints=[{"key": "c", "value": 0, "check": "v <= value"}],
        planner=[{"steps": [{"id": "z", "tool": "look", "args": {"q": 3}}]}],
        expect={"never": [["run", "done"]], "run": "awaiting-confirmation"},
    )


def test_a_plan_for_a_run_that_has_ended_is_refused():
    result = play(
        {"id": "a", "tool": "look"},
        tools={"look": READ},
        operator=[
            {
                "when": {"run": "done"},
                "do": {"replan": {"steps": [{"id": "z", "tool": "look", "args": {"q": 1}}]}},
            }
        ],
        expect={"run": "done", "tasks": {"a": "done"}},
    )
    assert "start a new one" in result.refused[0]


def test_an_answer_of_the_planner_after_the_end_changes_nothing():
    play(
        {"id": "a", "tool": "gone"},
        {"id": "b", "description": "may it go on?"},
        tools={"gone": DENIED, "look": READ},
        planner=[{"steps": [{"id": "a", "tool": "look"}]}],
        operator=[{"when": {"decision": "replan-local"}, "do": "cancel"}],
        expect={"run": "cancelled", "calls": {"look": 0}},
    )


def test_a_result_that_another_step_takes_over_is_the_one_that_was_there():
    plan = [
        {"id": "a", "tool": "other"},
        {"id": "c", "tool": "look"},
        {"id": "b", "tool": "other", "args": {"q": 1}},
    ]
    play(
        {"id": "a", "tool": "look"},
        {"id": "b", "tool": "gone", "depends_on": ["a"]},
        tools={"look": READ, "gone": DENIED, "other": {"effect": "read", "calls": [{"return": {"v": 2}}]}},
        operator=[{"at_s": 1, "do": {"replan": {"steps": plan}}}],
        expect={"run": "done", "results": {"a": {"v": 2}, "c": {"v": 1}}, "calls": {"look": 1}},
    )


# ── what changes while something is out, edited, taken over or dropped ────────────────────────────────────────

BY_Q = {"effect": "read", "calls": [{"match": {"q": q}, "return": {"v": q}} for q in (1, 2)]}
SLOW = {"effect": "read", "calls": [{"return": 1, "delay_s": 20}]}
CHANGE = {"at_s": 5, "do": {"set_input": {"a": 2}}}
CHAIN = (
    {"id": "a", "tool": "look", "args": {"q": "$inputs.a"}},
    {"id": "b", "tool": "slow", "args": {"x": "$a.v"}, "depends_on": ["a"]},
)


def test_a_call_that_was_out_while_what_it_rests_on_changed_runs_again():
    result = play(
        *CHAIN,
        inputs={"a": 1},
        tools={"look": BY_Q, "slow": SLOW},
        operator=[CHANGE],
        expect={"run": "done", "calls": {"look": 2, "slow": 2}},
    )
    started = [e.data["args"] for e in result.events if e.task == "b" and e.data.get("trigger") == "start"]
    assert started == [{"x": 1}, {"x": 2}]


@pytest.mark.parametrize(
    "call",
    [{"return": 1, "delay_s": 8}, {"timeout": True, "commit": True, "return": 1}],
    ids=["out", "unknown"],
)
def test_a_write_that_was_out_or_unknown_while_what_it_rests_on_changed_is_a_question(call):
    result = play(
        *CHAIN,
        inputs={"a": 1},
        tools={
            "look": BY_Q,
            "slow": {"effect": "write", "timeout_s": 10, "reconcile": "truth", "calls": [call]},
        },
        operator=[CHANGE],
        expect={"run": "awaiting-confirmation", "tasks": {"b": "done"}, "effects": {"slow": 1}},
    )
    assert [e.data["answers"] for e in result.events if e.type == "approval_requested"] == [["keep", "abort"]]


@pytest.mark.parametrize("effect", ["read", "write"])
def test_a_step_that_took_a_result_over_rests_on_what_that_rested_on(effect):
    took = {"id": "c", "tool": "look", "args": {"q": "$inputs.a"}}
    play(
        CHAIN[0],
        {"id": "b", "tool": "gone", "depends_on": ["a"]},
        inputs={"a": 1},
        tools={"look": {**BY_Q, "effect": effect}, "gone": DENIED, "slow": SLOW},
        planner=[{"steps": [took, {"id": "b", "tool": "slow", "args": {"x": "$c.v"}, "depends_on": ["c"]}]}],
        operator=[CHANGE, {"at_s": 90, "do": {"replan": {"steps": [{**took, "args": {"q": 7}}]}}}],
        expect={"run": "done", "calls": {"look": 3, "slow": 2}, "results": {"b": 1, "c": {"v": 2}}}
        if effect == "read"
        else {"run": "awaiting-confirmation", "effects": {"look": 1}, "tasks": {"c": "done", "b": "done"}},
    )


@pytest.mark.parametrize("when", [{"when": "$inputs.a == 2"}, {}], ids=["was-cancelled", "was-done"])
def test_a_step_that_the_plan_does_without_does_not_come_back(when):
    result = play(
        {"id": "w", "tool": "look", "args": {"q": "$inputs.a"}, **when},
        {"id": "b", "tool": "gone"},
        inputs={"a": 1},
        tools={"look": {**BY_Q, "effect": "write" if when else "read"}, "gone": DENIED, "slow": SLOW},
        operator=[
            {"at_s": 1, "do": {"replan": {"steps": [{"id": "b", "tool": "slow", "replaces": "w"}]}}},
            CHANGE,
        ],
        expect={"run": "done", "calls": {"look": 0 if when else 1}},
    )
    assert result.tasks["w"] == ("cancelled" if when else "done")


@pytest.mark.parametrize("effect", ["read", "write"])
def test_a_call_that_a_person_edited_is_no_other_call_than_the_plan_has(effect):
    play(
        {"id": "w", "tool": "pay", "args": {"x": 1}, "requires_confirmation": True},
        {"id": "b", "tool": "gone", "depends_on": ["w"]},
        inputs={"a": 1},
        tools={
            "look": READ,
            "pay": {"effect": effect, "calls": [{"return": 1, "delay_s": 9}]},
            "gone": DENIED,
        },
        planner=[{"steps": [{"id": "b", "tool": "look", "depends_on": ["w"]}]}],
        operator=[
            {
                "when": {"task": "w", "state": "awaiting-confirmation"},
                "do": [{"edit": "w", "args": {"x": 2}}, {"approve": "w"}],
            },
            CHANGE,
        ],
        expect={"run": "done", "calls": {"pay": 1}, "planner_calls": 1},
    )


@pytest.mark.parametrize("length", [3, 1500])
def test_a_branch_comes_back_as_a_whole_however_long_it_is(length):
    chain = [
        {
            "id": f"s{i}",
            "tool": "look",
            "depends_on": [f"s{i - 1}"],
            **({"when": "$s0.v == 1"} if i == 2 else {}),
        }
        for i in range(1, length)
    ]
    result = play(
        {"id": "s0", "tool": "look", "when": "$inputs.a == 2"},
        *chain,
        {"id": "slow", "tool": "slow"},
        inputs={"a": 1},
        tools={"look": READ, "slow": SLOW},
        operator=[CHANGE],
        expect={"run": "done", "calls": {"look": length}},
    )
    assert set(result.tasks.values()) == {"done"}


def test_who_did_without_a_step_that_is_back_looks_at_its_result():
    play(
        {"id": "s0", "tool": "look", "args": {"q": "$inputs.a"}, "when": "$inputs.a == 2"},
        {
            "id": "b",
            "tool": "look",
            "args": {"q": 1},
            "depends_on": [{"id": "s0", "optional": True}],
            "when": "$s0.v == null",
        },
        {"id": "slow", "tool": "slow"},
        inputs={"a": 1},
        tools={"look": BY_Q, "slow": SLOW},
        operator=[CHANGE],
        expect={"run": "done", "tasks": {"s0": "done", "b": "cancelled"}},
    )


def test_a_repeated_call_that_kills_its_process_each_time_comes_to_an_end():
    result = play(
        {"id": "a", "tool": "put"},
        tools={"put": {"effect": "idempotent", "calls": [{"return": 1, "crash": "after"}]}},
        expect={"run": "unknown-result", "effects": {"put": 1}},
    )
    assert result.calls["put"] <= 7
