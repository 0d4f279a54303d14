"""Budgets are reserved before a call and settled after it; nothing overshoots and nothing starves."""

import pytest

from fsm_agent.core.engine import budget
from fsm_agent.core.inputs import Note, Progressed, Resume, Usage
from tests.core.kit import ANN, lab, refused, tool

A, B, C = ({"id": n, "tool": "look", "args": {"n": n}} for n in "abc")


def used(tokens=0, cost=0):
    return Usage(tokens=tokens, cost_micros=cost)


def test_a_run_never_makes_more_calls_than_it_may():
    with lab([A, B, C], budgets={"tool_calls": 2}) as it:
        assert [c.task for c in it.calls()] == ["a", "b"]
        it.returns("a", 1)
        assert it.run.state == "running"
        it.returns("b", 1)
        assert it.decisions() == [("budget_low", "continue"), ("budget_exhausted", "abort")]
        assert it.run.state == "failed"
        assert it.states["c"] == "pending"


def test_raising_a_budget_and_resuming_goes_on_from_there():
    with lab([A, B], budgets={"tool_calls": 1}) as it:
        it.returns("a", 1)
        assert it.run.state == "failed"
        it.set(**{"budgets.tool_calls": 2})
        it.resume()
        it.returns("b", 1)
        assert it.run.state == "done"
        assert it.run.account.tool_calls == 2


def test_resuming_without_raising_it_ends_again_and_calls_nothing():
    with lab([A, B], budgets={"tool_calls": 1}) as it:
        it.returns("a", 1)
        it.resume()
        assert it.run.state == "failed"
        assert len(it.calls()) == 1


def test_failed_calls_and_probes_count():
    with lab([{"id": "a", "tool": "pay"}], budgets={"tool_calls": 2}) as it:
        it.times_out("a")
        it.until_due()
        assert it.run.account.tool_calls == 2
        it.finds("a", "absent")
        it.until_due()
        assert len(it.calls()) == 1
        assert it.run.state == "failed"


def test_without_a_call_left_no_probe_is_decided_on_and_a_person_is_asked_at_once():
    with lab([{"id": "a", "tool": "pay"}], budgets={"tool_calls": 1}) as it:
        it.times_out("a")
        assert it.probes() == []
        assert it.decisions("a") == [("outcome_unknown", "escalate")]
        assert "2 tool calls would be used, 1 are allowed" in it.question("a").say
        assert it.run.state == "unknown-result"


def test_a_probe_whose_call_is_used_by_somebody_else_meanwhile_is_not_sent_and_a_person_is_asked():
    steps = [
        {"id": "a", "tool": "pay"},
        {"id": "q", "description": "?"},
        {"id": "b", "tool": "look", "depends_on": ["q"]},
    ]
    with lab(steps, budgets={"tool_calls": 2}) as it:
        it.times_out("a")
        assert it.decisions("a") == [("outcome_unknown", "reconcile")]
        it.answer("q", 1)
        it.returns("b", 1)
        it.until_due()
        assert it.probes() == []
        assert it.decisions("a")[1:] == [("reconcile_inconclusive", "escalate")]
        assert "no probe was sent: 3 tool calls would be used, 2 are allowed" in it.question("a").say


@pytest.mark.parametrize("later", [(), (tool("put", "write"),)], ids=["gone", "a write by now"])
def test_a_look_up_that_no_tool_can_make_any_more_is_decided_on_once(later):
    with lab([{"id": "a", "tool": "put"}], tools=(tool("put", "idempotent"),)) as it:
        it.times_out("a")
        assert it.decisions("a") == [("outcome_unknown", "reconcile")]
        it.crash(tools=later)
        it.until_due()
        assert it.probes() == []
        assert it.decisions("a")[1:] == [("reconcile_inconclusive", "escalate")]
        assert it.question("a").answers == ("applied", "absent", "abort")


def test_tokens_are_reserved_while_a_call_runs_and_settled_when_it_ends():
    with lab(
        [{**A, "estimate": {"tokens": 60}}, {**B, "estimate": {"tokens": 60}}], budgets={"tokens": 100}
    ) as it:
        assert it.states == {"a": "running", "b": "pending"}
        assert it.run.account.reserved_tokens == 60
        it.returns("a", 1, usage=used(tokens=10))
        assert it.states["b"] == "running"
        assert (it.run.account.tokens, it.run.account.reserved_tokens) == (10, 60)
        it.returns("b", 1, usage=used(tokens=60))
        assert (it.run.account.tokens, it.run.account.reserved_tokens) == (70, 0)


def test_money_is_exact():
    step = {**A, "estimate": {"cost": "0.30"}}
    with lab([step, {**B, "estimate": {"cost": "0.3"}}], budgets={"cost": "0.6"}) as it:
        assert it.states == {"a": "running", "b": "running"}
        it.returns("a", 1, usage=used(cost=300_000))
        it.returns("b", 1, usage=used(cost=300_000))
        assert it.run.account.cost_micros == 600_000
        assert it.run.state == "done"


@pytest.mark.parametrize("wish", ["cancel", "abort"])
def test_a_read_that_a_wish_cuts_off_gives_its_reservation_back(wish):
    with lab([{**A, "estimate": {"tokens": 60, "cost": "1"}}], budgets={"tokens": 100}) as it:
        it.ask(wish)
        assert (it.run.account.reserved_tokens, it.run.account.reserved_cost_micros) == (0, 0)


def test_what_a_call_reports_and_what_comes_late_counts():
    with lab([A], budgets={"tokens": 1000}) as it:
        it.feed(Progressed(task="a", attempt=1, advanced=True, usage=used(tokens=5)))
        it.times_out("a")
        it.returns("a", 1, usage=used(tokens=7))
        assert it.run.account.tokens == 12


def test_nothing_starts_when_a_budget_is_used_up_even_if_nothing_is_estimated():
    with lab([A, B], budgets={"tokens": 10}, slots=1) as it:
        it.returns("a", 1, usage=used(tokens=25))
        assert it.states["b"] == "pending"
        assert it.run.state == "failed"
        reason = it.events("decided")[-1].data["reason"]
        assert "b cannot start: no tokens are left" in reason or "tokens would be used" in reason


def test_a_tools_mean_so_far_is_its_estimate():
    with lab([A, B, C], budgets={"tokens": 100}, slots=1) as it:
        it.returns("a", 1, usage=used(tokens=40))
        assert it.run.account.reserved_tokens == 40
        it.returns("b", 1, usage=used(tokens=20))
        assert it.run.account.reserved_tokens == 30
        assert it.states["c"] == "running"


def test_a_part_is_kept_back():
    with lab([A, B], budgets={"tool_calls": 2, "reserve": {"tool_calls": 1}}) as it:
        assert budget.limit(it.run, "tool_calls") == 1
        assert it.states == {"a": "running", "b": "pending"}


def test_only_active_time_counts():
    with lab(
        [{**A, "requires_confirmation": True}, {**B, "depends_on": ["a"]}], budgets={"active_s": 20}
    ) as it:
        it.tick(1000)
        it.approve("a")
        assert it.states["a"] == "running"
        it.tick(5)
        it.returns("a", 1)
        assert it.states["b"] == "running"
        assert 5_000_000 <= it.run.account.active_us < 6_000_000


def test_a_step_does_not_start_when_the_active_time_is_over():
    with lab([{**A, "timeout_s": 99}, {**B, "depends_on": ["a"]}], budgets={"active_s": 20}) as it:
        it.tick(21)
        it.returns("a", 1)
        assert it.run.state == "failed"
        assert "of active time are used, 20 s are allowed" in it.events("decided")[-1].data["reason"]


def test_a_wait_that_goes_beyond_the_active_time_is_not_begun():
    with lab([A], budgets={"active_s": 20}) as it:
        it.fails("a", "rate_limited", retry_after_us=30_000_000)
        assert it.decisions("a") == []
        assert it.decisions() == [("budget_exhausted", "abort")]
        assert it.run.state == "failed"
        it.set(**{"budgets.active_s": 200})
        it.resume()
        it.until_due()
        it.returns("a", 1)
        assert it.run.state == "done"


def test_a_low_budget_is_said_once_and_stops_nothing_that_fits():
    with lab([A, B, C], budgets={"tool_calls": 3}, slots=1) as it:
        for name in "abc":
            it.returns(name, 1)
        assert [s for s, _ in it.decisions()] == ["budget_low"]
        assert it.run.state == "done"


def test_a_budget_is_low_when_what_is_left_to_do_needs_more():
    with lab(
        [{**A, "estimate": {"tokens": 40}}, {**B, "estimate": {"tokens": 70}}], budgets={"tokens": 100}
    ) as it:
        assert it.decisions() == [("budget_low", "continue")]
        assert "the remaining steps are estimated at 110" in it.events("decided")[0].data["reason"]


def test_a_change_of_budgets_makes_it_be_weighed_anew():
    with lab([A, B], budgets={"tool_calls": 2}, slots=1) as it:
        it.returns("a", 1)
        assert it.run.account.band == "low" or it.decisions() == []
        it.set(**{"budgets.tool_calls": 2})
        it.returns("b", 1)
        assert it.run.state == "done"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("budgets.reserve", {"tokens": 5}),
        ("budgets.tokens", -1),
        ("budgets.tokens", "many"),
        ("budgets.nothing", 1),
        ("constraints.zz", 1),
        ("zz", 1),
        ("budgets.", 1),
    ],
)
def test_what_is_no_input_no_constraint_and_no_budget_is_refused(key, value):
    with lab([A], inputs={"w": 1}, budgets={"tokens": 5}) as it:
        with refused():
            it.set(**{key: value})
        with refused():
            it.set()
        assert it.run.budgets == {}


def test_cost_is_set_in_money_and_kept_in_millionths():
    with lab([A]) as it:
        it.set(**{"budgets.cost": "1.50"})
        assert it.run.budgets == {"cost_micros": 1_500_000}
        assert it.run.limited


def test_replans_have_the_smaller_of_two_limits():
    with lab([A], budgets={"local_replans": 1}, params={"local_replans": 2, "global_replans": 2}) as it:
        assert budget.replan_limit(it.run, "local_replans_left") == 1
        assert budget.replan_limit(it.run, "global_replans_left") is None
        assert budget.replan_limit(it.run, "retries_left") is None
        it.set(**{"budgets.global_replans": 0})
        assert budget.replan_limit(it.run, "global_replans_left") == 0


def test_without_any_budget_nothing_is_limited():
    with lab([A]) as it:
        assert not it.run.limited
        assert budget.low(it.run) == ""
        assert budget.time_allows(it.run, 10**12)
        assert budget.missing(it.run, used(tokens=10**9)) == ""


@pytest.mark.parametrize("share", [False, True], ids=["of the run", "of a nested plan"])
def test_what_fits_no_budget_stands_at_the_door_once_however_much_is_said_meanwhile(share):
    """Each word was weighed with twice as many of it: after thirty of them a run did nothing else any more."""
    budgets = {"budgets": {"tool_calls": 1}}
    plan = [{"id": "g", "plan": {"steps": [A, B]}, **budgets}] if share else [A, B]
    with lab(plan, **({} if share else budgets)) as it:
        for _ in range(6):
            it.feed(Note(text="still there?", who=ANN))
            assert len(it.run.ready_heap) == 1
        it.returns("g/a" if share else "a", 1)
        for _ in range(6):
            assert it.run.state == "failed"
            it.feed(Resume(who=ANN))
        assert len(it.run.ready_heap) <= 6
