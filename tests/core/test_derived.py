"""Signals and counters that follow from the log: dear steps, strategies, and what an audit makes of a false name."""

import pytest

from fsm_agent.core.audit.audit import audit
from fsm_agent.core.inputs import Progressed, Usage
from fsm_agent.core.machine import TaskState
from tests.core.kit import error, lab, reseal, tool

# ── inefficient ───────────────────────────────────────────────────────────────────────────────────────────────


def dear(estimate: dict, *others: dict, **more):
    """A step with an estimate, and steps that come after it."""
    first = {"id": "a", "tool": "look", "estimate": estimate}
    return lab(
        [first, *({"depends_on": ["a"], **o} for o in others)], tools=(tool("look"), tool("pay")), **more
    )


LIKE = {"id": "b", "tool": "look"}


@pytest.mark.parametrize(
    ("estimate", "spent", "words"),
    [
        ({"tokens": 100}, {"usage": Usage(tokens=2000)}, "2000 tokens, 20 times its estimate"),
        ({"cost": "0.01"}, {"usage": Usage(cost_micros=200_000)}, "200000 millionths of money, 20 times"),
        ({"seconds": 2}, {"duration_us": 40_000_000}, "40 seconds, 20 times its estimate"),
    ],
)
def test_a_step_that_cost_far_more_than_estimated_is_said_while_steps_like_it_are_to_come(
    estimate, spent, words
):
    """000: a traversal measured at 20 times its estimate, like steps pending."""
    with dear(estimate, LIKE, {"id": "c", "tool": "look"}) as run:
        run.returns("a", 1, **spent)
        (decided,) = run.events("decided")[1:]
        assert (decided.task, decided.data["signal"], decided.data["decide"]) == (
            None,
            "inefficient",
            "continue",
        )
        assert words in decided.data["reason"]
        assert "look is still to be called for b, c" in decided.data["reason"]
        assert "inefficiency_factor 10" in decided.data["reason"]
        assert (decided.data["tool"], decided.data["dear"]) == ("look", "a")
        run.returns("b")
        run.returns("c")


@pytest.mark.parametrize(
    ("estimate", "others", "spent"),
    [
        ({"tokens": 100}, [LIKE], {"usage": Usage(tokens=1000)}),
        ({"tokens": 100}, [{"id": "b", "tool": "pay"}], {"usage": Usage(tokens=9000)}),
        ({"tokens": 100}, [], {"usage": Usage(tokens=9000)}),
        ({"seconds": 2}, [LIKE], {"usage": Usage(tokens=9000)}),
    ],
    ids=["just at the factor", "no step like it", "the last step", "no estimate of what was dear"],
)
def test_what_is_not_far_above_its_estimate_or_matters_no_more_is_not_said(estimate, others, spent):
    with dear(estimate, *others) as run:
        run.returns("a", 1, **spent)
        assert run.decisions() == []
        for other in others:
            run.returns(other["id"])


def test_a_dear_tool_is_said_once_and_a_second_one_by_itself():
    plan = [
        {"id": n, "tool": t, "estimate": {"tokens": 1}, **({"depends_on": [d]} if d else {})}
        for n, t, d in (
            ("a", "look", ""),
            ("b", "pay", "a"),
            ("c", "look", "b"),
            ("d", "pay", "c"),
            ("e", "look", "d"),
        )
    ]
    with lab(plan, tools=(tool("look"), tool("pay"))) as run:
        for name in "abcde":
            run.returns(name, 1, usage=Usage(tokens=999))
        said = [e.data["dear"] for e in run.events("decided") if e.data["signal"] == "inefficient"]
        assert said == ["a", "b"]
        assert run.run.seen == {"inefficient": 2}


def test_what_a_call_reported_on_its_way_counts_and_earlier_attempts_do_not():
    with dear({"tokens": 100}, LIKE) as run:
        run.feed(Progressed(task="a", attempt=1, advanced=True, usage=Usage(tokens=900)))
        run.fails("a")
        run.until_due()
        run.feed(Progressed(task="a", attempt=2, advanced=True, usage=Usage(tokens=600)))
        run.returns("a", 1, usage=Usage(tokens=401))
        assert run.decisions() == [("inefficient", "continue")]
        assert "1001 tokens" in run.events("decided")[-1].data["reason"]
        run.returns("b")


def test_a_run_that_is_asked_to_stop_looks_for_no_cheaper_way():
    plan = [
        {"id": "a", "tool": "put", "estimate": {"tokens": 1}},
        {"id": "b", "tool": "put", "depends_on": ["a"]},
    ]
    with lab(plan) as run:
        run.ask("pause")
        run.returns("a", 1, usage=Usage(tokens=999))
        assert run.decisions() == []


# ── counters and their scopes ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def by_strategy(tmp_path):
    path = tmp_path / "by_strategy.toml"
    path.write_text(
        """
        schema = 1
        extends = "conservative"
        [params]
        retries = 2
        breaker_failures = 100
        [counters.retries_left]
        initial = "$retries"
        scope = "strategy"
        """
    )
    return str(path)


PATIENT = {"breaker_failures": 100}


def spend(run, name: str, times: int) -> None:
    for _ in range(times):
        run.fails(name)
        run.until_due()


def test_a_counter_of_a_strategy_is_full_again_when_tool_or_arguments_change(by_strategy):
    with lab(
        [{"id": "r", "tool": "look", "args": {"q": "$inputs.q"}}], rules=by_strategy, inputs={"q": 1}
    ) as run:
        spend(run, "r", 1)
        run.fails("r")
        run.set(q=2)
        run.until_due()
        spend(run, "r", 2)
        run.fails("r")
        assert run.decisions("r") == [("transient_error", "retry")] * 4 + [("transient_error", "escalate")]


def test_a_counter_of_a_series_does_not_care_what_the_arguments_are():
    with lab(
        [{"id": "r", "tool": "look", "args": {"q": "$inputs.q"}}], rules="conservative", inputs={"q": 1}
    ) as run:
        spend(run, "r", 1)
        run.fails("r")
        run.set(q=2)
        run.until_due()
        run.fails("r")
        assert run.decisions("r") == [("transient_error", "retry")] * 2 + [("transient_error", "escalate")]


@pytest.mark.parametrize("rules", ["series", "strategy"])
def test_a_crash_ends_neither_a_series_nor_a_strategy(rules, by_strategy):
    with lab(
        [{"id": "r", "tool": "look"}],
        rules="conservative" if rules == "series" else by_strategy,
        params=PATIENT,
    ) as run:
        for _ in range(2):
            run.fails("r")
            run.crash()
            run.until_due()
        run.fails("r")
        assert run.decisions("r")[-1] == ("transient_error", "escalate")


@pytest.mark.parametrize("rules", ["series", "strategy"])
def test_a_person_who_lets_it_try_again_fills_the_counters_of_the_step(rules, by_strategy):
    with lab(
        [{"id": "r", "tool": "look"}],
        rules="conservative" if rules == "series" else by_strategy,
        params=PATIENT,
    ) as run:
        spend(run, "r", 2)
        run.fails("r")
        run.retry("r")
        assert run.events("task_moved", task="r")[-1].data["series"] is True
        run.until_due()
        run.fails("r")
        assert run.decisions("r")[-1] == ("transient_error", "retry")


def test_another_steps_success_resets_nothing_of_mine():
    plan = [{"id": "r", "tool": "look"}, {"id": "s", "tool": "put"}]
    with lab(plan, rules="conservative") as run:
        run.fails("r")
        run.returns("s", 1)
        run.until_due()
        run.fails("r")
        run.until_due()
        run.fails("r")
        assert run.decisions("r")[-1] == ("transient_error", "escalate")


def test_counters_of_the_run_are_shared_by_its_steps_and_never_filled_again():
    """The article's table replans twice; where nobody plans, each is put to a person, who goes on."""
    plan = [{"id": "r", "tool": "look"}, {"id": "s", "tool": "look", "args": {"n": 1}}]
    with lab(plan, rules="seed_replan_decider", slots=1) as run:
        for name in ("r", "s", "r"):
            while run.task(name).state is not TaskState.RUNNING:
                if run.task(name).state is TaskState.FAILED:
                    run.retry(name)
                else:
                    run.until_due()
            run.fails(name, "validation_failed")
        found = [e.data["decide"] for e in run.events("decided")]
        assert found == ["replan-global", "replan-global", "abort"]


# ── the audit asks the same question ──────────────────────────────────────────────────────────────────────────


def forged(run, signal: str):
    """The log with its last decision about another signal, sealed anew."""
    events = run.events()
    last = max(e.seq for e in events if e.type == "decided")
    fake = [e._replace(data={**e.data, "signal": signal}) if e.seq == last else e for e in events]
    records, head = reseal("r", fake)
    return [
        f.message
        for f in audit("r", records, run.store.blob, head=head).findings
        if f.check == "decision-for-a-signal"
    ]


def test_an_audit_finds_a_failure_that_was_given_another_name_than_it_has():
    with lab([{"id": "r", "tool": "look"}], rules="default") as run:
        run.ends("r", error("unclassified_error"))
        run.until_due()
        run.ends("r", error("unclassified_error"))
        assert run.decisions("r")[-1][0] == "repeated_error"
        assert forged(run, "repeated_error") == []
        (found,) = forged(run, "unclassified_error")
        assert "signals unclassified_error, which makes repeated_error here" in found
        assert forged(run, "progress_stall")


def test_an_audit_finds_a_stall_that_was_none():
    with lab([{"id": "r", "tool": "look"}], rules="default") as run:
        run.ends("r", error("not_found"))
        (found,) = forged(run, "progress_stall")
        assert "which makes not_found here" in found
