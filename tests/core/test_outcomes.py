"""What a call's end, a probe and a late reply do to a task, in every state it can be in."""

import pytest

from fsm_agent.core.errors import RefusedError
from fsm_agent.core.inputs import Outcome, Progressed, Returned, Usage
from fsm_agent.core.signals import Applied, Signal
from tests.core.kit import BLIND, READ, WRITE, error, lab, tool, value

PAY = [{"id": "a", "tool": "pay", "args": {"x": 1}}]
LOOK = [{"id": "a", "tool": "look"}]


def to_unknown(it, task="a"):
    """Let a running write pass its deadline."""
    it.times_out(task)
    assert it.states[task] == "unknown-result"


def to_probe(it, task="a"):
    """Go on until a probe is out."""
    to_unknown(it, task)
    it.until_due()
    assert it.task(task).probing


# ── a call ends ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["look", "pay", "put"])
def test_a_value_makes_a_task_done_and_proves_that_its_effect_is_there(name):
    with lab([{"id": "a", "tool": name}]) as it:
        it.returns("a", {"ok": 1})
        assert it.states == {"a": "done"}
        assert it.task("a").result == {"ok": 1}
        assert it.task("a").applied == ("no" if name == "look" else "yes")
        assert it.decisions("a") == [("success", "accept")]
        assert it.run.state == "done"


def test_null_is_a_result():
    with lab(
        [{"id": "a", "tool": "pay"}, {"id": "b", "tool": "look", "args": {"x": "$a"}, "depends_on": ["a"]}]
    ) as it:
        it.returns("a", None)
        assert it.calls()[-1].args == {"x": None}


@pytest.mark.parametrize(
    ("result", "signal"),
    [
        ({"id": "R-1"}, None),
        ({"id": "x"}, "validation_failed"),
        ({"no": 1}, "unverified"),
        ("text", "unverified"),
    ],
)
def test_done_when_must_be_true_of_the_result(result, signal):
    with lab([{"id": "a", "tool": "look", "done_when": "id matches /^R-/"}]) as it:
        it.returns("a", result)
        if signal is None:
            assert it.states == {"a": "done"}
        else:
            assert it.decisions("a")[0][0] == signal
            assert it.task("a").state in ("failed", "pending")


def test_done_when_can_speak_of_a_result_that_is_no_object():
    with lab([{"id": "a", "tool": "look", "done_when": "len(result) > 1"}]) as it:
        it.returns("a", [1, 2])
        assert it.states == {"a": "done"}


def test_a_write_whose_result_fails_its_check_is_applied_and_never_repeated():
    with lab([{"id": "a", "tool": "pay", "done_when": "ok == true"}]) as it:
        it.returns("a", {"ok": False})
        assert it.states == {"a": "failed"}
        assert it.task("a").applied == "yes"
        assert it.decisions("a") == [("validation_failed", "escalate")]
        assert "retry" not in it.question("a").answers
        with pytest.raises(RefusedError) as refused:
            it.retry("a")
        assert refused.value.code == "E-APPLIED"


@pytest.mark.parametrize("kind", ["error", "timeout", "lost"])
@pytest.mark.parametrize("applied", Applied)
@pytest.mark.parametrize("name", ["look", "put", "pay"])
def test_a_call_that_may_have_had_an_effect_is_unknown_whatever_its_error_was_called(name, applied, kind):
    with lab([{"id": "a", "tool": name}]) as it:
        it.ends("a", Outcome(kind=kind, signal=Signal.RATE_LIMITED, applied=applied, error={"message": "m"}))
        if name != "look" and applied == "maybe":
            expected = "interrupted" if kind == "lost" else "outcome_unknown"
            assert it.decisions("a")[0] == (expected, "reconcile")
            assert it.states == {"a": "unknown-result"}
        else:
            assert it.decisions("a")[0][0] == "rate_limited"


def test_an_outcome_without_a_classification_is_unclassified():
    with lab(LOOK) as it:
        it.ends("a", Outcome(kind="error", applied=Applied.NO))
        assert it.decisions("a") == [("unclassified_error", "retry")]
        assert it.task("a").reason == "error"


def test_what_a_call_reports_is_recorded():
    with lab(LOOK) as it:
        it.ends(
            "a",
            error(
                retry_after_us=5_000_000,
                usage=Usage(tokens=7, cost_micros=9),
                duration_us=3,
                value={"ok": False},
            ),
        )
        outcome = it.events("task_moved", task="a")[-2].data["outcome"]
        assert outcome["retry_after_us"] == 5_000_000
        assert outcome["usage"] == {"tokens": 7, "cost_micros": 9}
        assert outcome["duration_us"] == 3
        assert outcome["value"] == {"ok": False}
        assert it.events("decided")[0].data["params"]["delay_ms"] >= 5_000
        assert (it.run.account.tokens, it.run.account.cost_micros) == (7, 9)


# ── probes ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_probe_goes_out_before_the_deadline_plus_the_time_to_settle():
    with lab(PAY) as it:
        it.fails("a", "transient_error", "maybe")
        deadline = it.task("a").deadline_at
        assert it.run.next_due() == deadline + 2_000_000
        it.tick(5)
        assert it.probes() == []
        it.until_due()
        assert len(it.probes()) == 1


@pytest.mark.parametrize(
    ("verdict", "state", "decision"),
    [
        ("applied", "done", ("reconciled_applied", "accept")),
        ("absent", "pending", ("reconciled_absent", "retry")),
        ("inconclusive", "unknown-result", ("reconcile_inconclusive", "reconcile")),
    ],
)
def test_a_probes_verdict_moves_the_task(verdict, state, decision):
    with lab(PAY) as it:
        to_probe(it)
        it.finds("a", verdict, {"id": 1}, Usage(tokens=3))
        assert it.states == {"a": state}
        assert it.decisions("a")[-1] == decision
        assert it.run.account.tokens == 3


def test_the_retry_after_absent_carries_the_same_key():
    with lab(PAY) as it:
        to_probe(it)
        it.finds("a", "absent")
        it.until_due()
        first, second = it.calls()
        assert first.key == second.key
        assert (first.attempt, second.attempt) == (1, 2)


def test_a_probe_that_answers_twice_is_heard_once():
    with lab(PAY) as it:
        to_probe(it)
        it.finds("a", "inconclusive")
        for verdict in ("absent", "applied", "inconclusive"):
            with pytest.raises(RefusedError, match="no probe of attempt 1 is out"):
                it.finds("a", verdict)
        assert it.states == {"a": "unknown-result"}
        assert len(it.events("reconciled")) == 1


def test_a_verdict_of_another_word_is_refused():
    with lab(PAY) as it:
        to_probe(it)
        with pytest.raises(RefusedError, match="allowed: applied, absent, inconclusive"):
            it.finds("a", "perhaps")


def test_a_probe_shows_an_effect_that_does_not_fulfil_done_when():
    with lab([{"id": "a", "tool": "pay", "done_when": "id == 2"}]) as it:
        to_probe(it)
        it.finds("a", "applied", {"id": 1})
        assert it.states == {"a": "failed"}
        assert it.task("a").applied == "yes"
        assert it.decisions("a")[-1] == ("validation_failed", "escalate")


def test_probes_are_spent_and_then_a_person_is_asked():
    with lab(PAY, params={"reconciles": 2}) as it:
        to_probe(it)
        it.finds("a", "inconclusive")
        it.until_due()
        it.finds("a", "inconclusive")
        assert it.decisions("a")[-1] == ("reconcile_inconclusive", "escalate")
        assert it.question("a").answers == ("probe", "applied", "absent", "abort")
        assert it.run.state == "unknown-result"
        assert it.run.account.tool_calls == 3


# ── late replies ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_reply_from_an_attempt_that_was_never_made_is_refused():
    with lab(LOOK) as it:
        for attempt in (0, -1, 2):
            with pytest.raises(RefusedError, match="only 1 were started"):
                it.returns("a", 1, attempt=attempt)
        with pytest.raises(RefusedError, match="no such step"):
            it.feed(Returned(task="zz", attempt=1, outcome=value()))


def test_a_late_reply_settles_an_unknown_result():
    with lab(PAY) as it:
        to_unknown(it)
        it.returns("a", {"id": 1})
        assert it.states == {"a": "done"}
        assert it.moves("a") == ["start", "lose", "settle"]


def test_a_late_reply_settles_while_its_probe_is_out_and_the_probe_then_says_nothing():
    with lab([*PAY, {"id": "b", "tool": "look", "timeout_s": 99}]) as it:
        to_probe(it)
        it.returns("a", {"id": 1})
        assert it.states["a"] == "done"
        with pytest.raises(RefusedError):
            it.finds("a", "absent")


def test_a_late_error_that_proves_absence_clears_an_unknown_result():
    with lab(PAY) as it:
        to_unknown(it)
        it.fails("a", "conflict", "no")
        assert it.decisions("a")[-1] == ("reconciled_absent", "retry")


def test_a_late_error_that_proves_the_effect_clears_an_unknown_result_as_applied():
    with lab(PAY) as it:
        to_unknown(it)
        it.fails("a", "bad_request", "yes")
        assert it.states == {"a": "failed"}
        assert it.task("a").applied == "yes"
        assert it.decisions("a")[-1] == ("bad_request", "escalate")


def test_a_late_error_that_proves_nothing_leaves_it_unknown():
    with lab(PAY) as it:
        to_unknown(it)
        it.fails("a", "transient_error", "maybe")
        assert it.states == {"a": "unknown-result"}
        assert len(it.events("late_result")) == 1


def test_a_late_reply_settles_a_task_that_waits_for_its_next_try():
    with lab(LOOK) as it:
        it.times_out("a")
        assert it.states == {"a": "pending"}
        it.returns("a", 1)
        assert it.states == {"a": "done"}
        assert it.run.state == "done"


def test_a_late_reply_settles_a_failed_task_and_takes_its_question_back():
    with lab(LOOK, params={"retries": 0}) as it:
        it.times_out("a")
        assert it.states == {"a": "failed"}
        assert it.run.state == "awaiting-confirmation"
        it.returns("a", 1)
        assert it.states == {"a": "done"}
        assert it.run.questions == {}
        assert it.run.state == "done"


def test_a_late_reply_settles_a_task_that_waits_for_an_approval():
    with lab([{"id": "a", "tool": "pay", "requires_confirmation": True}]) as it:
        it.approve("a")
        to_probe(it)
        it.finds("a", "absent")
        it.until_due()
        assert it.states == {"a": "awaiting-confirmation"}
        it.returns("a", {"id": 1})
        assert it.states == {"a": "done"}
        assert it.run.state == "done"


@pytest.mark.parametrize("state", ["done", "cancelled"])
def test_a_late_reply_to_what_is_done_or_cancelled_is_recorded_and_nothing_more(state):
    steps = [*LOOK, {"id": "b", "tool": "look", "args": {"y": 1}}]
    with lab(steps) as it:
        if state == "done":
            it.returns("a", 1)
        else:
            it.ask("cancel")
        it.returns("a", 2)
        assert it.states["a"] == state
        assert it.task("a").result == (1 if state == "done" else None)
        assert len(it.events("late_result")) == 1


def retried(it):
    """Have a second attempt run after the first was proved absent."""
    to_probe(it)
    it.finds("a", "absent")
    it.until_due()
    assert it.task("a").attempt == 2
    assert it.states["a"] == "running"


def test_a_late_reply_waits_while_a_new_attempt_runs_and_is_forgotten_when_that_succeeds():
    with lab(PAY) as it:
        retried(it)
        it.returns("a", "first", attempt=1)
        assert it.states == {"a": "running"}
        it.returns("a", "second")
        assert it.task("a").result == "second"


@pytest.mark.parametrize("applied", ["no", "maybe"])
def test_a_late_reply_settles_when_the_new_attempt_fails_or_is_lost(applied):
    with lab(PAY) as it:
        retried(it)
        it.returns("a", "first", attempt=1)
        it.fails("a", "transient_error", applied)
        assert it.states == {"a": "done"}
        assert it.task("a").result == "first"
        assert it.run.state == "done"


@pytest.mark.parametrize("applied", ["no", "maybe", "yes"])
def test_a_late_reply_that_fails_its_check_proves_the_effect_all_the_same_and_nothing_is_repeated(applied):
    with lab([{"id": "a", "tool": "pay", "done_when": "ok == true"}]) as it:
        retried(it)
        it.returns("a", {"ok": False}, attempt=1)
        it.fails("a", "transient_error", applied)
        assert it.states == {"a": "failed"}
        assert it.task("a").applied == "yes"
        assert it.decisions("a")[-1][1] == "escalate"
        assert "retry" not in it.question("a").answers


def test_a_late_reply_that_fails_its_check_keeps_a_waiting_write_from_being_sent_again():
    with lab([{"id": "a", "tool": "pay", "done_when": "ok == true"}]) as it:
        to_probe(it)
        it.finds("a", "absent")
        assert it.states == {"a": "pending"}
        it.returns("a", {"ok": False})
        it.until_due()
        assert len(it.calls()) == 1
        assert it.states == {"a": "failed"}
        assert it.task("a").applied == "yes"
        assert "retry" not in it.question("a").answers


def test_a_late_reply_to_a_failed_write_that_fails_its_check_takes_the_retry_away():
    with lab([{"id": "a", "tool": "pay", "done_when": "ok == true"}], params={"retries": 0}) as it:
        to_probe(it)
        it.finds("a", "absent")
        assert "retry" in it.question("a").answers
        it.returns("a", {"ok": False})
        with pytest.raises(RefusedError):
            it.decide("a", "retry")
        with pytest.raises(RefusedError):
            it.retry("a")
        assert it.states == {"a": "failed"}


def test_a_late_reply_to_other_arguments_is_recorded_and_settles_nothing():
    with lab([{"id": "a", "tool": "look", "args": {"week": "$inputs.week"}}], inputs={"week": 1}) as it:
        it.times_out("a")
        it.set(week=2)
        it.returns("a", "of week 1", attempt=1)
        assert it.states == {"a": "pending"}
        it.until_due()
        assert it.calls()[-1].args == {"week": 2}
        it.returns("a", "of week 1 once more", attempt=1)
        it.fails("a", "auth_denied")
        assert it.states == {"a": "failed"}


def test_a_write_that_took_effect_late_with_other_arguments_is_a_question_and_no_second_call():
    with lab([{"id": "a", "tool": "pay", "args": {"week": "$inputs.week"}}], inputs={"week": 1}) as it:
        to_probe(it)
        it.finds("a", "absent")
        it.set(week=2)
        it.returns("a", "of week 1", attempt=1)
        it.until_due()
        assert len(it.calls()) == 1
        assert it.states == {"a": "failed"}
        assert it.decisions("a")[-1] == ("precondition_violated", "escalate")


def test_a_late_reply_to_a_write_takes_the_request_for_another_one_back():
    step = {"id": "a", "tool": "pay", "args": {"week": "$inputs.week"}, "requires_confirmation": True}
    with lab([step], inputs={"week": 1}) as it:
        it.approve("a")
        to_probe(it)
        it.finds("a", "absent")
        it.until_due()
        it.set(week=2)
        assert it.states == {"a": "awaiting-confirmation"}
        it.returns("a", "of week 1", attempt=1)
        assert it.states == {"a": "failed"}
        assert it.decisions("a")[-1] == ("precondition_violated", "escalate")
        assert "retry" not in it.question("a").answers


def test_a_late_reply_whose_references_are_gone_is_only_recorded():
    steps = [
        {"id": "r", "tool": "look", "args": {"r": 1}, "done_when": "x == 1"},
        {"id": "a", "tool": "look", "args": {"x": "$inputs.deep.x"}},
    ]
    with lab(steps, inputs={"deep": {"x": 1}}) as it:
        it.times_out("a")
        it.set(deep={})
        it.returns("a", 1, attempt=1)
        assert it.states["a"] == "pending"


def test_a_late_reply_to_edited_arguments_settles_what_was_edited():
    with lab([{"id": "a", "tool": "burn", "args": {"x": 1}}]) as it:
        it.edit("a", x=2)
        it.approve("a")
        to_unknown(it)
        it.returns("a", "of x = 2")
        assert it.states == {"a": "done"}


def test_a_late_reply_after_the_end_settles_what_was_acknowledged():
    with lab([{"id": "a", "tool": "mail"}]) as it:
        to_unknown(it)
        it.ask("cancel", "a")
        assert it.run.state == "cancelled"
        it.returns("a", {"sent": 1})
        assert it.states == {"a": "done"}
        assert it.run.state == "cancelled"
        assert it.decisions("a")[-1] == ("outcome_unknown", "escalate")


def test_a_late_reply_after_the_end_that_fails_its_check_clears_what_was_acknowledged():
    with lab([{"id": "a", "tool": "mail", "done_when": "ok == true"}]) as it:
        to_unknown(it)
        it.ask("cancel", "a")
        it.returns("a", {"ok": False})
        assert it.states == {"a": "failed"}
        assert it.task("a").applied == "yes"


def test_the_usage_of_a_late_reply_counts():
    with lab(PAY) as it:
        to_unknown(it)
        it.returns("a", 1, usage=Usage(tokens=5))
        assert it.run.account.tokens == 5


# ── progress ──────────────────────────────────────────────────────────────────────────────────────────────────


def report(it, advanced, task="a", attempt=1, **more):
    it.feed(Progressed(task=task, attempt=attempt, advanced=advanced, **more))


def test_a_read_that_does_not_advance_is_stopped():
    with lab(LOOK, params={"stall_threshold": 3}) as it:
        for advanced in (False, False, True, False, False, False):
            assert it.states == {"a": "running"}
            report(it, advanced, note="still here", usage=Usage(tokens=1))
        assert it.decisions("a") == [("progress_stall", "escalate")]
        assert it.run.account.tokens == 6
        assert it.commands[-1].cut_off


def test_a_write_that_does_not_advance_is_awaited():
    with lab(PAY, params={"stall_threshold": 1}) as it:
        report(it, advanced=False)
        report(it, advanced=False)
        assert it.states == {"a": "running"}
        it.returns("a", 1)


def test_reports_of_what_does_not_run_are_refused():
    with lab(LOOK) as it:
        for attempt in (0, 2):
            with pytest.raises(RefusedError, match="not running"):
                report(it, advanced=True, attempt=attempt)
        it.returns("a", 1)
        with pytest.raises(RefusedError, match="not running"):
            report(it, advanced=True)


# ── fingerprints ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_failure_in_a_row_is_a_repeated_error():
    with lab(LOOK) as it:
        it.fails("a", "unclassified_error")
        it.until_due()
        it.fails("a", "unclassified_error")
        assert it.decisions("a") == [("unclassified_error", "retry"), ("repeated_error", "escalate")]
        assert it.task("a").trouble.streak == 2


def test_another_failure_in_between_breaks_the_row_and_what_is_worth_retrying_keeps_its_name():
    with lab(LOOK, params={"retries": 9, "breaker_failures": 99}) as it:
        for message in ("x", "y", "x"):
            it.ends("a", error("transient_error", message=message))
            it.until_due()
        for _ in range(3):
            it.fails("a", "transient_error")
            it.until_due()
        assert {signal for signal, _ in it.decisions("a")} == {"transient_error"}


def test_other_arguments_are_another_strategy_and_begin_anew():
    with lab([{"id": "a", "tool": "look", "args": {"x": "$inputs.x"}}], inputs={"x": 1}) as it:
        it.fails("a", "unclassified_error")
        it.set(x=2)
        it.until_due()
        it.fails("a", "unclassified_error")
        assert it.decisions("a")[-1] == ("unclassified_error", "escalate")
        assert it.task("a").trouble.streak == 1


def test_a_blind_write_that_is_unknown_asks_at_once():
    with lab([{"id": "a", "tool": "mail"}], tools=(READ, BLIND)) as it:
        to_unknown(it)
        assert it.question("a").answers == ("applied", "absent", "abort")
        assert it.run.state == "unknown-result"


def test_an_idempotent_call_is_probed_by_sending_it_again():
    with lab([{"id": "a", "tool": "put"}]) as it:
        to_probe(it)
        (probe,) = it.probes()
        assert probe.repeat
        assert probe.key == it.calls()[0].key


def test_a_tool_whose_probe_vanished_leaves_the_question_to_a_person():
    with lab(PAY) as it:
        to_unknown(it)
        it.crash(tools=(READ,))
        it.until_due()
        assert it.probes() == []
        assert it.decisions("a")[-1] == ("reconcile_inconclusive", "escalate")
        it.crash(tools=(READ, tool("pay", "write")))
        assert it.question("a").answers
        assert WRITE.reconcile
