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
    play(
        {"id": "a", "tool": "look"},
        {"id": "b", "tool": "gone", "depends_on": ["a"]},
        tools={"look": READ, "gone": DENIED, "other": {"effect": "read", "calls": [{"return": {"v": 2}}]}},
        planner=[
            {
                "steps": [
                    {"id": "a", "tool": "other"},
                    {"id": "c", "tool": "look"},
                    {"id": "b", "tool": "other", "args": {"q": 1}},
                ]
            }
        ],
        expect={"run": "done", "results": {"a": {"v": 2}, "c": {"v": 1}}, "calls": {"look": 1}},
    )
