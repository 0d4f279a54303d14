"""What logs teach: every count adds up to what is in the log, and a replan has a trigger, a price and an effect."""

from pathlib import Path

import attrs
import pytest

from fsm_agent.core.audit.historian import history
from fsm_agent.core.audit.history import together
from fsm_agent.core.events import Event
from fsm_agent.testing.scenario import load, parse
from fsm_agent.testing.simulate import simulate
from tests.audits import clean

FOLDER = Path(__file__).parents[1] / "scenarios"
FILES = sorted(FOLDER.glob("*/*.json"))
READ = {"effect": "read"}
NO = {"raise": {"code": "not_found", "message": "no such thing"}}


def events_of(**scenario):
    """Simulate and return the log."""
    return clean(simulate(parse({"expect": {}, **scenario}, "a case"))).events


def of(**scenario):
    return history("r", events_of(**scenario))


def moves(events, *triggers):
    return [e for e in events if e.type == "task_moved" and e.data["trigger"] in triggers]


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_counts_add_up_to_what_the_log_holds(file):
    events = clean(simulate(load(file))).events
    if not events:
        return
    found = history("r", events)
    account = events[-1].data["report"]["used"] if events[-1].type == "run_closed" else None
    assert sum(t.calls for t in found.tools) == len(moves(events, "start"))
    assert sum(t.done for t in found.tools if t.calls) == len(moves(events, "succeed"))
    assert sum(e.times for e in found.errors) == len(
        moves(events, "fail", "lose", "refuse", "clear", "expire")
    )
    assert sum(r.planner_calls for r in found.replans) == sum(e.type == "planner_asked" for e in events)
    adopted = [e for e in events if e.type == "plan_adopted" and e.data["origin"] != "initial"]
    assert len({r.plan_version for r in found.replans if r.outcome == "adopted"}) == len(adopted)
    assert sum(s.plan_version is not None for s in found.strategies) == 1 + len(adopted)
    assert sum(t.replans for t in found.triggers) == len(found.replans)
    if account is not None:
        assert account["tool_calls"] == sum(t.calls + t.probes for t in found.tools)
        assert account["tokens"] == sum(t.tokens for t in found.tools) + sum(r.tokens for r in found.replans)


def test_errors_and_tools_are_ranked_by_how_often():
    calls = [NO, NO, {"return": 1, "usage": {"tokens": 7, "cost": "0.5"}}]
    found = of(
        plan=[
            {"id": "a", "tool": "look", "optional": True, "on_failure": {"*": "skip"}},
            {
                "id": "b",
                "tool": "look",
                "depends_on": [{"id": "a", "optional": True}],
                "optional": True,
                "on_failure": {"*": "skip"},
            },
            {"id": "c", "tool": "look", "depends_on": [{"id": "b", "optional": True}]},
            {"id": "d", "tool": "file", "depends_on": ["c"]},
        ],
        tools={"look": {**READ, "calls": calls}, "file": READ},
    )
    (error,) = found.errors
    assert (error.tool, error.signal, error.what, error.times) == ("look", "not_found", "not_found", 2)
    assert (error.tasks, error.example) == (("a", "b"), "no such thing")
    assert [(t.tool, t.calls, t.done, t.failed) for t in found.tools] == [
        ("look", 3, 1, 2),
        ("file", 1, 1, 0),
    ]
    assert (found.tools[0].tokens, found.tools[0].cost_micros) == (7, 500_000)


def test_an_error_without_a_code_is_named_by_status_or_class():
    for raised, what in (
        ({"status": 404, "message": "m"}, "status 404"),
        ({"class": "builtins.KeyError", "message": "m"}, "KeyError"),
    ):
        (error,) = of(
            plan=[{"id": "a", "tool": "look", "on_failure": {"*": "abort"}}],
            tools={"look": {**READ, "calls": [{"raise": raised}]}},
        ).errors
        assert what in error.what


def test_a_replan_has_trigger_price_and_help():
    plan = [{"id": "a", "tool": "look"}, {"id": "z", "tool": "more", "depends_on": ["a"]}]
    again = [
        {"id": "b", "tool": "more"},
        {"id": "z", "tool": "more", "args": {"x": "$b"}, "depends_on": ["b"]},
    ]
    found = of(
        plan=plan,
        tools={"look": {**READ, "calls": [NO]}, "more": READ},
        planner=["no plan", [{"id": "a", "tool": "gone"}], again],
        rules={"base": "default", "params": {"local_replans": 5}},
    )
    (replan,) = found.replans
    assert (replan.task, replan.trigger, replan.scope) == ("a", "not_found", "local")
    assert (replan.planner_calls, replan.refused) == (3, ("parse", "validate"))
    assert (replan.outcome, replan.origin, replan.plan_version) == ("adopted", "model", 2)
    assert (replan.newly_done, replan.helped) == (2, True)
    assert replan.wait_us is not None
    (trigger,) = found.triggers
    assert (trigger.trigger, trigger.replans, trigger.adopted, trigger.helped) == ("not_found", 1, 1, 1)
    assert [(s.plan_version, s.origin, s.outcome) for s in found.strategies] == [
        (1, "initial", "replaced"),
        (None, "model", "refused"),
        (2, "model", "reached the goal"),
    ]
    assert found.strategies[1].why.startswith("validate: ")
    assert found.strategies[2].steps == ("b (more)", "z (more)")


def test_what_a_planner_uses_up_is_part_of_the_price():
    adopted, refused = {"tokens": 30, "cost_micros": 3}, {"tokens": 12, "cost_micros": 1}
    changed = []
    for event in events_of(
        plan=[{"id": "a", "tool": "look"}],
        tools={"look": {**READ, "calls": [NO]}, "more": READ},
        planner=["no plan", [{"id": "b", "tool": "more"}]],
    ):
        usage = {"plan_adopted": adopted, "replan_refused": refused}.get(event.type)
        changed.append(event._replace(data={**event.data, "usage": usage}) if usage else event)
    (replan,) = history("r", changed).replans
    assert (replan.tokens, replan.cost_micros) == (42, 4)


def test_a_replan_that_brings_nothing_did_not_help_and_one_under_way_is_open():
    chain = [[{"id": "b", "tool": "look", "args": {"n": 2}}], [{"id": "c", "tool": "slow"}]]
    events = events_of(
        plan=[{"id": "a", "tool": "look"}],
        tools={"look": {**READ, "calls": [NO]}, "slow": READ},
        planner=chain,
    )
    found = history("r", events)
    assert [r.helped for r in found.replans] == [False, True]
    assert [s.outcome for s in found.strategies] == ["replaced", "replaced", "reached the goal"]
    at = next(i for i, e in enumerate(events) if e.type == "planner_asked") + 1
    (early,) = history("r", events[:at]).replans
    assert (early.outcome, early.helped, early.wait_us) == ("open", None, None)
    at = next(i for i, e in enumerate(events) if e.type == "plan_adopted" and e.data["origin"] == "model") + 1
    (later,) = history("r", events[:at]).replans
    assert (later.outcome, later.helped) == ("adopted", None)


@pytest.mark.parametrize(
    ("planner", "outcome"),
    [(["no"] * 9, "person"), ([{"infeasible": "cannot be"}], "person")],
    ids=["never a plan", "infeasible"],
)
def test_a_replan_that_ends_without_a_plan_was_handed_to_a_person(planner, outcome):
    found = of(plan=[{"id": "a", "tool": "look"}], tools={"look": {**READ, "calls": [NO]}}, planner=planner)
    assert found.replans[-1].outcome == outcome
    assert found.replans[-1].helped is None
    assert found.strategies[0].outcome == "in force"


def test_a_replan_whose_reason_is_gone_is_moot():
    data = {"gate": "moot", "why": "a is done by now", "request": 3, "ended": True}
    events = events_of(
        plan=[{"id": "a", "tool": "look"}], tools={"look": {**READ, "calls": [NO]}}, planner=["x"]
    )
    at = next(i for i, e in enumerate(events) if e.type == "planner_asked")
    moot = Event(events[at].seq, events[at].at, "replan_refused", data, "a")
    (replan,) = history("r", [*events[:at], moot]).replans
    assert (replan.outcome, replan.refused) == ("moot", ("moot",))


def test_a_prepared_fall_back_costs_no_planner_call():
    (replan,) = of(
        plan=[{"id": "a", "tool": "look", "alternatives": [{"tool": "more"}]}],
        tools={"look": {**READ, "calls": [NO]}, "more": READ},
    ).replans
    assert (replan.origin, replan.planner_calls, replan.helped) == ("alternative", 0, True)


def test_a_plan_that_a_person_gives_unasked_is_a_replan_of_its_own():
    found = of(
        plan=[{"id": "a", "description": "a question"}],
        tools={"more": READ},
        operator=[
            {
                "when": {"task": "a", "state": "awaiting-confirmation"},
                "do": {"replan": [{"id": "b", "tool": "more"}], "by": "ann"},
            }
        ],
    )
    (replan,) = found.replans
    assert (replan.trigger, replan.origin, replan.outcome, replan.helped) == (
        "person",
        "human",
        "adopted",
        True,
    )
    assert found.strategies[0].steps == ("a (a person)",)


def test_an_unknown_result_counts_apart_from_failures():
    found = of(
        plan=[{"id": "a", "tool": "pay"}],
        tools={
            "pay": {
                "effect": "write",
                "reconcile": "truth",
                "calls": [{"timeout": True, "commit": True, "return": {}}],
            }
        },
    )
    (tool,) = found.tools
    assert (tool.calls, tool.done, tool.failed, tool.unknown) == (1, 0, 0, 1)
    (error,) = found.errors
    assert error.signal == "outcome_unknown"


def test_histories_of_several_runs_are_summed_and_their_replans_follow_each_other():
    one = of(
        plan=[{"id": "a", "tool": "look"}],
        tools={"look": {**READ, "calls": [NO]}, "more": READ},
        planner=[[{"id": "b", "tool": "more"}]],
    )
    two = attrs.evolve(one, runs=("s",))
    both = together([one, two])
    assert both.runs == ("r", "s")
    assert both.errors[0].times == 2
    assert sum(t.calls for t in both.tools) == 4
    assert (len(both.replans), len(both.strategies)) == (2, 4)
    assert both.triggers[0].replans == 2
    assert together([]).runs == ()


def test_of_a_very_large_first_plan_the_steps_are_named_too():
    steps = [{"id": f"s{i}", "tool": "more"} for i in range(120)]
    (strategy,) = of(plan=steps, tools={"more": READ}).strategies
    assert len(strategy.steps) == 120


def test_the_tool_of_a_step_that_could_not_start_is_the_plans():
    (error,) = of(
        plan=[{"id": "a", "tool": "look", "preconditions": ["1 == 2"], "on_failure": {"*": "abort"}}],
        tools={"look": READ},
    ).errors
    assert (error.tool, error.signal) == ("look", "precondition_violated")


def test_a_default_tool_is_counted_by_its_name():
    found = of(plan=[{"id": "a", "description": "do it"}], tools={"do": READ}, default_tool="do")
    assert found.tools[0].tool == "do"
