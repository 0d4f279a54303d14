"""The decider alone: the article's three scenarios to the letter, every signal at its home, and a log that audits."""

import json

import pytest

from fsm_agent.core.errors import (
    ConflictError,
    CorruptError,
    FencedError,
    NotFoundError,
    OwnedError,
    PlanError,
    RefusedError,
    RulesError,
    UsageError,
    ValueRefusedError,
)
from fsm_agent.core.signals import HOME, Effect, Signal
from fsm_agent.core.tools import ToolSpec
from fsm_agent.runtime.configs import load_rules
from fsm_agent.runtime.deciding.decider import Decider
from fsm_agent.runtime.proof.logs import audit, replay
from fsm_agent.stores.memory import MemoryStore
from fsm_agent.stores.transfer import import_run
from fsm_agent.testing.clock import FakeClock
from tests.audits import clean_log

SEED = "seed_replan_decider"


class Ports:
    """A clock that stands still unless it is moved; the jitter is always one half."""

    def __init__(self) -> None:
        self.clock = FakeClock()

    def now_us(self) -> int:
        return self.clock.now_us()

    def jitter(self) -> float:
        return 0.5


@pytest.fixture
def decider():
    """Make deciders; when the test is over each of their logs is audited and folded anew."""
    made: list[tuple[Decider, MemoryStore]] = []

    def make(rules="default", **more) -> Decider:
        store = MemoryStore()
        found = Decider(rules, store=store, ports=Ports(), run_id="d", **more)
        made.append((found, store))
        return found

    yield make
    for found, store in made:
        checked = audit(store, run="d")
        assert checked.findings == (), [str(f) for f in checked.findings]
        assert checked.verdict == ("clean" if found.closed else "open")
        folded = replay(store, run="d").end()
        for name in (
            "seq",
            "at",
            "spent",
            "seen",
            "breakers",
            "trails",
            "replans_in_a_row",
            "plan_version",
            "replans",
        ):
            assert getattr(folded, name) == getattr(found.run, name), name


def play(d: Decider, script, **more) -> list[tuple[str, int]]:
    """Observe until the decider says to stop; return what it said, in the article's words, and the plan's version."""
    said = []
    for signal, error in script:
        found = d.observe(signal, error=error, **more)
        said.append((found.decision, found.plan_version))
        if found.decision in ("abort", "done"):
            break
    return said


# ── the rows of the acceptance list ───────────────────────────────────────────────────────────────────────────


def test_002_a_the_same_error_again_is_planned_anew_twice_and_then_given_up(decider):
    said = play(decider(SEED), [("repeated_error", "API 401")] * 4)
    assert said == [("replan", 1), ("replan", 2), ("abort", 2)]


def test_002_b_no_progress_is_gone_on_with_four_times_then_planned_anew_and_given_up_at_step_15(decider):
    said = play(decider(SEED), [("progress_stall", "")] * 15)
    assert [word for word, _ in said] == [
        *["retry"] * 4, "replan", *["retry"] * 4, "replan", *["retry"] * 4, "abort",
    ]  # fmt: skip
    assert len(said) == 15
    assert [version for word, version in said if word == "replan"] == [1, 2]


def test_002_c_passing_errors_are_retried_until_it_is_done(decider):
    said = play(
        decider(SEED), [("transient_error", "timeout"), ("transient_error", "timeout"), ("success", "")]
    )
    assert said == [("retry", 0), ("retry", 0), ("done", 0)]


def test_002_four_passing_errors_are_retried_three_times_and_then_given_up(decider):
    said = play(decider(SEED), [("transient_error", "timeout")] * 4)
    assert [word for word, _ in said] == ["retry", "retry", "retry", "abort"]


def test_002_default_a_denied_access_is_no_matter_of_retrying(decider):
    d = decider()
    found = d.observe("auth_denied", error="API 401")
    assert (found.action, found.rule) == ("escalate", "ask-for-access")
    assert [d.observe("auth_denied", error="API 401").action for _ in range(3)] == ["escalate"] * 3


def test_002_default_table_the_same_fingerprint_twice_is_a_replan(decider):
    d = decider()
    assert d.observe("unclassified_error", error="timeout at 12:00:01").action == "retry"
    found = d.observe("unclassified_error", error="timeout at 12:00:02")
    assert (found.signal, found.action) == ("repeated_error", "replan-local")
    assert "repeated_error (repeat_threshold 2)" in found.reason
    assert "unclassified_error 2 times in a row (threshold 2)" in found.reason


def test_002_default_table_a_stall_of_five_is_a_replan(decider):
    d = decider()
    for _ in range(4):
        assert d.progress(False) is None
    found = d.progress(False)
    assert (found.signal, found.action) == ("progress_stall", "replan-local")
    assert "progress_stall (stall_threshold 5)" in found.reason
    assert "5 reports in a row without progress (threshold 5)" in found.reason


def test_002_default_table_a_validation_that_fails_twice_is_a_replan(decider):
    d = decider()
    assert d.observe("validation_failed", error="no total").action == "replan-local"
    assert d.observe("validation_failed", error="no total").action == "replan-local"


def test_002_default_table_an_open_breaker_is_waited_for_and_then_put_to_a_person(decider):
    d = decider(tasks=["a", "b"], params={"breaker_failures": 3, "retries": 3})
    for _ in range(3):
        d.observe("transient_error", error="down", task="a")
    found = d.before_call(task="b")
    assert (found.signal, found.action) == ("blocked_dependency", "retry")
    assert 29 < found.delay_s <= 30
    assert "blocked_dependency (breaker_failures 3)" in found.reason
    for _ in range(2):
        assert d.observe("blocked_dependency", task="b").action == "retry"
    assert d.observe("blocked_dependency", task="b").action == "escalate"


def test_002_default_table_when_the_replans_are_spent_a_person_is_asked(decider):
    d = decider(params={"local_replans": 1, "global_replans": 1})
    said = [d.observe("bad_request", error=f"no such field {'abc'[n]}") for n in range(3)]
    assert [s.action for s in said] == ["replan-local", "replan-global", "escalate"]
    assert said[-1].rule == "replans-spent"


def test_002_pitfall_2_what_only_looks_like_work_does_not_fool_the_stall(decider):
    d = decider(tasks=["search", "log", "file"])
    found = None
    for n in range(5):
        assert found is None
        d.observe("success", task="log", error=f"line {n}")
        d.observe("success", task="file", result={"text": "the same"})
        found = d.progress(False, task="search")
    assert found.signal == "progress_stall"
    assert d.run.tasks["search"].state == "failed"


def test_002_pitfall_2_progress_starts_the_count_again(decider):
    d = decider()
    for advanced in (False, False, False, False, True, False, False, False, False):
        assert d.progress(advanced) is None
    assert d.observe("success").decision == "done"


def test_002_pitfall_4_an_abort_is_gone_on_from_and_what_is_done_stays_done(decider):
    d = decider(SEED, tasks={"pay": "write", "fetch": "read"})
    d.observe("success", task="pay")
    assert d.observe("blocked_dependency", task="fetch").decision == "abort"
    assert d.closed
    with pytest.raises(RefusedError, match="it was aborted, and decides nothing more; resume it"):
        d.observe("success", task="fetch")
    d.resume()
    assert not d.closed
    assert d.observe("success", task="fetch").decision == "done"
    with pytest.raises(RefusedError, match="a write is never run again"):
        d.observe("success", task="pay")


def test_a42_one_varying_call_in_between_does_not_hide_the_loop_over_replans(decider):
    d = decider("exploratory", tasks=["a", "b"], params={"stall_threshold": 3})
    said = []
    for n in range(3):
        said.append(d.observe("not_found", error="no row", task="a", args={"q": "same"}))
        d.observe("success", task="b", args={"n": n}, result={"n": n})
    assert [s.signal for s in said] == ["not_found", "not_found", "progress_stall"]
    assert "3 times (threshold 3)" in said[-1].reason


# ── signals at home ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("signal", [s.value for s in HOME["run", "running"]])
def test_a_signal_of_the_run_is_about_the_run(signal, decider):
    d = decider()
    if signal == "plan_rejected":
        d.observe("constraint_violated")
    found = d.observe(signal, error="because")
    assert (found.task, found.signal) == (None, signal)
    assert "because" in found.reason


FAILED = [s for s in HOME["task", "failed"] if s not in (Signal.RECONCILED_ABSENT, Signal.PROGRESS_STALL)]


@pytest.mark.parametrize("signal", [s.value for s in FAILED])
@pytest.mark.parametrize("effect", ["read", "idempotent", "write", "irreversible"])
def test_a_failure_that_proves_there_was_no_effect_finds_the_task_failed(signal, effect, decider):
    d = decider(SEED if signal == "repeated_error" else "default")
    found = d.observe(signal, effect=effect, applied="no")
    (decided,) = [e for e in replay_events(d) if e.type == "decided"]
    assert (decided.data["state"], decided.data["signal"]) == ("failed", signal)
    assert found.seq == decided.seq
    assert decided.data["facts"].get("effect", "read") == effect


def replay_events(d: Decider):
    from fsm_agent.core.audit import replay as replays

    return list(replays.events("d", d._log._store.read("d"), d._log._store.blob))


NOT_SENT = (
    "precondition_violated",
    "unresolved_reference",
    "undeclared_tool",
    "blocked_dependency",
    "approval_expired",
)


@pytest.mark.parametrize("effect", ["idempotent", "write", "irreversible"])
@pytest.mark.parametrize("signal", [s.value for s in FAILED if s.value not in NOT_SENT])
def test_a_failure_of_anything_but_a_read_proves_nothing_by_its_name(signal, effect, decider):
    d = decider()
    found = d.observe(signal, effect=effect)
    assert found.state == "unknown-result"
    assert found.action == "reconcile"
    assert found.signal == ("interrupted" if signal == "interrupted" else "outcome_unknown")
    assert found.delay_s > 4.9


def test_an_unknown_result_is_looked_up_and_what_was_found_settles_it(decider):
    d = decider(tasks={name: "write" for name in ("a", "b", "c")})
    for name in "abc":
        assert d.observe("outcome_unknown", task=name).action == "reconcile"
    done = d.observe("reconciled_applied", task="a", result={"id": 7}, error="seen in the portal")
    assert (done.action, done.state) == ("accept", "done")
    assert d.run.tasks["a"].result == {"id": 7}
    absent = d.observe("reconciled_absent", task="b")
    assert (absent.action, absent.state) == ("retry", "pending")
    assert d.observe("reconcile_inconclusive", task="c").action == "reconcile"
    assert d.run.tasks["c"].state == "unknown-result"


def test_when_the_look_ups_are_used_up_a_persons_finding_settles_it(decider):
    d = decider(tasks={"w": "write"}, params={"reconciles": 1})
    assert d.observe("outcome_unknown", task="w").action == "reconcile"
    assert d.observe("reconcile_inconclusive", task="w").action == "escalate"
    assert d.observe("reconcile_inconclusive", task="w").action == "escalate"
    assert d.observe("reconciled_absent", task="w", error="I looked").action == "retry"
    assert d.observe("success", task="w").decision == "done"


def test_where_nobody_can_look_it_up_a_person_is_asked(decider):
    d = decider(probes=False)
    assert d.observe("outcome_unknown", effect="write").action == "escalate"
    assert d.observe("reconciled_applied", error="I looked").action == "accept"


def test_a_late_answer_settles_what_is_unknown(decider):
    d = decider(tasks={"a": "write", "b": "write", "c": "write"})
    for name in "abc":
        d.observe("outcome_unknown", task=name)
    assert d.observe("success", task="a", result=1).action == "accept"
    assert d.observe("rate_limited", task="b", applied="no").signal == "reconciled_absent"
    with pytest.raises(RefusedError, match="its result is unknown, and transient_error does not settle that"):
        d.observe("transient_error", task="c")


def test_evidence_without_anything_unknown_is_refused(decider):
    d = decider()
    for signal in ("reconciled_applied", "reconciled_absent", "reconcile_inconclusive"):
        with pytest.raises(RefusedError, match="nothing to reconcile"):
            d.observe(signal)


def test_evidence_that_a_failed_write_did_happen_settles_it(decider):
    d = decider()
    d.observe("bad_request", effect="write", applied="no")
    assert d.observe("reconciled_applied", error="it is there after all").state == "done"


def test_a_read_has_no_unknown_result_and_a_write_does_not_stall(decider):
    d = decider(tasks={"r": "read", "w": "write", "i": "idempotent"})
    with pytest.raises(
        RefusedError, match="a read has no effect that could be unknown; observe transient_error"
    ):
        d.observe("outcome_unknown", task="r")
    for name in "wi":
        with pytest.raises(RefusedError, match="that stalls is awaited"):
            d.observe("progress_stall", task=name)


def test_a_person_who_said_no_is_not_asked_again(decider):
    d = decider()
    found = d.observe("rejected", error="too dear")
    assert (found.action, found.state) == ("continue", "cancelled")
    assert "too dear" in found.reason
    with pytest.raises(RefusedError, match="it was rejected or skipped, so no call of it can start"):
        d.observe("success")


def test_a_call_under_way_cannot_be_rejected_any_more(decider):
    d = decider()
    d.progress(True)
    with pytest.raises(RefusedError, match="its call is under way"):
        d.observe("rejected")


def test_what_is_unknown_cannot_be_rejected_or_reported_on(decider):
    d = decider(tasks={"w": "write"})
    d.observe("outcome_unknown", task="w")
    with pytest.raises(RefusedError, match="its result is unknown, so no call of it can start"):
        d.observe("rejected", task="w")
    with pytest.raises(RefusedError, match="its result is unknown"):
        d.progress(True, task="w")


def test_a_precondition_that_fails_under_way_is_an_outcome_and_before_it_a_refusal(decider):
    d = decider(tasks=["a", "b"])
    d.progress(True, task="a")
    d.observe("precondition_violated", task="a")
    d.observe("precondition_violated", task="b", error="no stock")
    moves = {
        e.task: e.data["trigger"]
        for e in replay_events(d)
        if e.type == "task_moved" and e.data["dest"] == "failed"
    }
    assert moves == {"a": "fail", "b": "refuse"}


# ── exceptions ────────────────────────────────────────────────────────────────────────────────────────────────


class Http(Exception):
    """An error of a client, with a status."""

    def __init__(self, status: int, **more) -> None:
        super().__init__(f"HTTP {status}")
        self.status_code = status
        self.__dict__.update(more)


def test_an_exception_is_classified_like_a_tools(decider):
    d = decider(tasks=["a", "b", "c"])
    assert d.observe(TimeoutError("slow"), task="a").signal == "transient_error"
    found = d.observe(PermissionError("no"), task="b")
    assert (found.signal, found.action) == ("auth_denied", "escalate")
    assert d.observe(RuntimeError("?"), task="c").signal == "unclassified_error"


def test_an_exception_of_a_write_that_proves_nothing_is_an_unknown_result(decider):
    d = decider(tasks={"a": "write", "b": "write"})
    assert d.observe(TimeoutError("slow"), task="a").action == "reconcile"
    assert d.observe(TimeoutError("slow"), task="b", applied="no").action == "retry"


def test_the_wait_that_the_other_side_asks_for_is_kept(decider):
    d = decider()
    assert d.observe("rate_limited", retry_after_s=90).delay_s == 90
    for no_time in (-3, float("nan")):
        assert d.observe("rate_limited", retry_after_s=no_time).delay_s < 90


@pytest.mark.parametrize("wait", [3601, 1e18, float("inf")])
def test_whoever_asks_for_a_wait_that_nobody_waits_has_no_quota_left(wait, decider):
    d = decider()
    found = d.observe("rate_limited", retry_after_s=wait)
    assert (found.signal, found.action) == ("quota_exhausted", "escalate")
    assert d.observe("success").decision == "done"


# ── going on ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_who_goes_on_after_a_person_was_asked_begins_a_new_series(decider):
    d = decider(params={"breaker_failures": 100})
    for _ in range(2):
        assert [d.observe("rate_limited").action for _ in range(4)] == ["retry"] * 3 + ["escalate"]
    (series,) = {e.actor["id"] for e in replay_events(d) if e.type == "task_moved" and e.data.get("series")}
    assert series == "caller"


def test_who_goes_on_after_the_run_was_asked_about_has_said_so(decider):
    d = decider(planner=False)
    assert d.observe("constraint_violated", error="too dear").action == "escalate"
    assert d.run.questions["run"].say
    assert d.observe("success").decision == "done"
    assert d.run.questions == {}


def test_a_read_that_is_done_may_run_again_and_counts_from_the_start(decider):
    d = decider(params={"breaker_failures": 100})
    for _ in range(3):
        d.observe("transient_error")
    d.observe("success")
    assert [d.observe("transient_error").action for _ in range(3)] == ["retry"] * 3


def test_a_write_with_other_arguments_under_the_same_name_is_refused_once_it_took_effect(decider):
    d = decider(tasks={"w": "idempotent"}, tools={"pay": "write"})
    d.observe("bad_request", task="w", tool="pay", args={"n": 1}, applied="yes")
    with pytest.raises(RefusedError, match="never repeated"):
        d.observe("success", task="w", tool="pay", args={"n": 2})


def test_what_took_effect_by_another_tool_is_no_reason_to_write_it_again(decider):
    d = decider()
    d.observe("success", effect="idempotent")
    with pytest.raises(RefusedError, match="took effect; give the next write a name of its own"):
        d.observe("success", effect="write")


def test_another_tool_of_a_task_is_a_change_of_the_plan_and_no_replan(decider):
    d = decider(
        "conservative",
        tools={"fetch": "read", "mirror": "read"},
        tasks={"t1": "fetch"},
        params={"breaker_failures": 100},
    )
    d.observe("transient_error")
    d.observe("transient_error", tool="mirror")
    assert d.run.tasks["t1"].step.tool == "mirror"
    assert (d.plan_version, d.run.plan_version, d.run.replans_in_a_row) == (0, 2, 0)
    assert d.observe("transient_error").action == "escalate"


def test_a_strategys_counters_are_full_for_another_tool_or_other_arguments(decider):
    d = decider(
        SEED,
        tools={"fetch": "read", "mirror": "read"},
        tasks={"t1": "fetch"},
        params={"retries": 2, "transient_retries": 1},
    )
    for more in ({}, {"tool": "mirror"}, {"args": {"page": 2}}):
        d.observe("progress_stall", **more)
        assert d.run.tasks["t1"].trouble.spent == {"retries_left": 1}


def test_a_new_plan_waits_until_what_is_unknown_is_settled(decider):
    d = decider(tasks={"r": "read", "w": "write"})
    d.observe("outcome_unknown", task="w")
    found = d.observe("not_found", task="r")
    assert (found.action, found.waits_for) == ("replan-local", ("w",))
    with pytest.raises(RefusedError, match="its new plan waits until it is known what became of w"):
        d.observe("success", task="r")
    d.observe("reconciled_applied", task="w")
    assert d.observe("success", task="r").decision == "done"
    assert d.run.plan_version == 2


def test_a_replan_of_the_run_is_drawn_when_the_loop_goes_on(decider):
    d = decider(tasks={"r": "read", "w": "write"})
    assert d.observe("constraint_violated").decision == "replan"
    d.observe("success", task="r")
    assert (d.plan_version, d.run.plan_version) == (1, 2)
    d.observe("outcome_unknown", task="w")
    d.observe("deadlock")
    d.observe("success", task="r")
    assert (d.plan_version, d.run.plan_version) == (2, 2)


def test_a_new_plan_for_the_whole_run_answers_every_replan_of_a_task(decider):
    d = decider(tasks={"w": "write", "r": "read"})
    assert d.observe("precondition_violated", task="w").decision == "replan"
    assert d.observe("constraint_violated").decision == "replan"
    d.observe("success", task="r")
    assert d.run.replans == {}
    assert d.observe("success", task="w").decision == "done"


def test_a_second_new_plan_keeps_the_cool_down(decider):
    d = decider()
    first = d.observe("bad_request", error="a")
    second = d.observe("bad_request", error="b")
    assert first.delay_s == 0
    assert 4.9 < second.delay_s <= 5


def test_a_plan_that_the_caller_refuses_is_asked_for_again_while_one_is_left(decider):
    d = decider(params={"local_replans": 2, "global_replans": 0})
    with pytest.raises(RefusedError, match="no new plan was asked for, so none can be rejected"):
        d.observe("plan_rejected")
    assert d.observe("bad_request").action == "replan-local"
    again = d.observe("plan_rejected", error="it has a circle")
    assert (again.action, again.plan_version) == ("replan-local", 2)
    assert d.run.replans["t1"].refusals == ("caller: it has a circle",)
    assert d.observe("plan_rejected").action == "escalate"
    assert d.observe("success").decision == "done"


def test_where_nobody_plans_a_replan_is_put_to_a_person(decider):
    d = decider(SEED, planner=False, tasks=["a"])
    assert d.observe("validation_failed", task="a").action == "replan-global"
    assert d.run.questions["a"].say.startswith("the caller draws no plans")
    assert d.observe("success", task="a").decision == "done"
    strict = decider("exploratory", planner=False)
    assert strict.observe("validation_failed").action == "escalate"


def test_an_abort_waits_until_nothing_is_unknown(decider):
    d = decider(SEED, tasks={"r": "read", "s": "read", "w": "write"})
    d.observe("outcome_unknown", task="w")
    d.progress(True, task="s")
    assert d.observe("blocked_dependency", task="r").decision == "abort"
    assert not d.closed
    assert d.run.tasks["s"].state == "cancelled"
    with pytest.raises(RefusedError, match="being aborted, and waits only for w"):
        d.observe("success", task="r")
    d.observe("reconciled_applied", task="w")
    assert d.closed


def test_an_abort_waits_for_a_write_that_is_under_way(decider):
    d = decider(SEED, tasks={"r": "read", "w": "write"})
    d.progress(True, task="w")
    d.observe("blocked_dependency", task="r")
    assert not d.closed
    assert d.run.state == "running"
    with pytest.raises(RefusedError):
        d.observe("success", task="r")
    d.observe("success", task="w")
    assert d.closed


def test_what_was_not_aborted_is_not_resumed(decider):
    with pytest.raises(RefusedError, match="nothing to resume"):
        decider().resume()


# ── the breaker ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_tool_that_works_is_called(decider):
    d = decider()
    assert d.before_call() is None
    assert d.run.tasks["t1"].state == "pending"


def test_the_breaker_counts_by_tool_and_closes_when_the_tool_answers(decider):
    d = decider(tasks=["a", "b"], tools={"x": "read", "y": "read"}, params={"breaker_failures": 1})
    d.observe("transient_error", task="a", tool="x")
    assert d.before_call(task="b", tool="y") is None
    assert d.before_call(task="b", tool="x").signal == "blocked_dependency"
    assert d.run.tasks["b"].step.tool == "x"
    assert d.before_call(task="b", tool="x") is None, "the delay was waited for"
    d.observe("success", task="b", tool="x")
    assert d.run.breakers == {}


# ── names ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda d: d.observe("transient_eror"),
            "signal 'transient_eror': there is no such signal; did you mean transient_error?",
        ),
        (lambda d: d.observe("?" * 200), "there is no such signal; there are success"),
        (
            lambda d: d.observe("success", task="t2"),
            "task 't2': it was not declared; there are t1, or declare it: declare",
        ),
        (
            lambda d: d.observe("success", tool="serch"),
            "tool 'serch': it was not declared; did you mean search",
        ),
        (
            lambda d: d.observe("success", effect="wrte"),
            "'wrte' is no declared tool and no effect class; did you mean write",
        ),
        (
            lambda d: d.observe("success", tool="search", effect="write"),
            "tool search: it was declared read, not write",
        ),
        (
            lambda d: d.observe("success", applied="perhaps"),
            "applied: 'perhaps' was given; it is one of no, maybe, yes",
        ),
        (lambda d: d.progress(True, task="nope"), "task 'nope': it was not declared; there are t1"),
        (lambda d: d.declare("t9", "nope"), "'nope' is no declared tool and no effect class"),
    ],
)
def test_names_that_nobody_declared_are_refused_and_change_nothing(call, words, decider):
    d = decider(tools={"search": "read"})
    before = d.run.seq
    with pytest.raises(UsageError, match=words.replace("?", r"\?") if "?" * 9 not in words else "signal"):
        call(d)
    assert d.run.seq == before


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"tasks": "t1"}, "'t1' is one name; give a list of names"),
        ({"tasks": []}, "give at least one name"),
        ({"tasks": ["run"]}, "none of them 'run'"),
        ({"tasks": {"a": "nope"}}, "'nope' is no declared tool and no effect class"),
        (
            {"tools": {"a": "nope"}},
            "'nope' is no effect class; it is one of read, idempotent, write, irreversible",
        ),
        ({"tools": {"write": "read"}}, "tool write: the name is taken"),
    ],
)
def test_what_is_declared_wrongly_is_refused(more, words):
    with pytest.raises(UsageError, match=words):
        Decider(**more)


def test_tables_come_by_name_by_file_or_as_they_are(tmp_path, decider):
    table = load_rules("conservative")
    assert decider(table).observe("not_found").action == "escalate"
    with pytest.raises(NotFoundError):
        Decider("conservativ")
    bad = tmp_path / "bad.toml"
    bad.write_text("schema = 1")
    with pytest.raises(RulesError):
        Decider(bad)


def test_a_task_may_be_declared_later_with_its_tool(decider):
    d = decider(tools={"search": "read"})
    d.declare("t2", "search")
    d.declare("t3", "write")
    d.declare("t4")
    assert [t.step.tool for t in d.run.tasks.values()] == ["read", "search", "write", "read"]
    assert d.observe("success", task="t3").decision == "done"
    assert (d.plan_version, d.run.replans_in_a_row) == (0, 0)
    with pytest.raises(RefusedError, match="task t2: it is declared already"):
        d.declare("t2")
    with pytest.raises(PlanError):
        d.declare("no/such id")


def test_declarations_of_a_toolbox_are_taken_as_they_are(decider):
    spec = ToolSpec(
        name="pay", effect=Effect.WRITE, settle_us=9_000_000, reconcile=True, extra_arguments=True
    )
    d = decider(tasks={"w": "pay"}, tools=[spec])
    assert d.observe("outcome_unknown", task="w").delay_s > 8.9


def test_what_cannot_be_stored_is_refused_before_anything_changes(decider):
    d = decider()
    before = d.run.seq
    with pytest.raises(ValueRefusedError):
        d.observe("success", result={"n": float("nan")})
    with pytest.raises(ValueRefusedError):
        d.observe("success", args={"f": object()})
    assert d.run.seq == before
    assert d.observe("bad_request", error="half a pair \ud800 and much more " * 300).reason


# ── state, stores, explanations ───────────────────────────────────────────────────────────────────────────────


def test_before_anything_was_decided_there_is_nothing_to_explain(decider):
    with pytest.raises(RefusedError, match="nothing was decided yet"):
        decider().explain()


def test_a_decision_is_explained_by_its_row_its_line_and_what_would_have_changed_it(decider):
    d = decider()
    first = d.observe("transient_error", error="timeout")
    last = d.observe("auth_denied", error="401")
    assert d.explain().seq == last.seq
    found = d.explain(first)
    (row,) = [r for r in load_rules("default").rows if r.id == "retry-read"]
    assert (found.rule, found.where) == ("retry-read", f"default:{row.line}")
    assert ("retries_left", "0") in [(o.fact, o.values) for o in found.otherwise]
    again = Decider.from_json(d.to_json())
    assert again.explain(first) == found
    with pytest.raises(RefusedError):
        again.explain()


def test_a_decision_reads_as_a_line(decider):
    d = decider()
    assert str(d.observe("rate_limited", retry_after_s=7)).startswith(
        "retry in 7 s (retry-read): rate_limited: "
    )
    assert str(d.observe("success")).startswith("done (accept): ")
    assert repr(d) == f"<Decider d by default: running, plan 0, head {d.run.seq}>"


def test_the_state_goes_through_json_and_decides_on_exactly_as_before(decider):
    d = decider(tasks={"a": "read", "b": "write"}, params={"stall_threshold": 3})
    d.progress(False, task="a")
    d.observe("outcome_unknown", task="b", args={"text": "x" * 5000})
    d.observe("reconciled_absent", task="b")
    d.observe("outcome_unknown", task="b", args={"text": "x" * 5000})
    text = json.dumps(d.to_json())
    twin = Decider.from_json(json.loads(text), ports=Ports())
    assert json.dumps(twin.to_json()) == text
    for signal, task in (
        ("progress_stall", "a"),
        ("reconciled_absent", "b"),
        ("not_found", "a"),
        ("success", "b"),
    ):
        one, other = d.observe(signal, task=task), twin.observe(signal, task=task)
        assert one == other
    assert twin.to_json() == d.to_json()


@pytest.mark.parametrize(
    "data", [{}, {"schema": "fsm-agent/decider@1"}, {"schema": "fsm-agent/decider@1", "log": []}]
)
def test_what_is_no_state_is_refused(data):
    with pytest.raises(UsageError, match="no state of schema"):
        Decider.from_json(data)


def test_a_state_that_was_changed_is_refused(decider):
    data = decider().to_json()
    data["log"][1] = data["log"][1].replace("decided step by step", "decided otherwise")
    with pytest.raises(CorruptError):
        Decider.from_json(data)


def test_with_a_store_the_log_is_there_and_anybody_may_go_on_with_it(tmp_path):
    place = tmp_path / "runs.db"
    with Decider(store=place, run_id="d", ports=Ports(), params={"breaker_failures": 100}) as d:
        for _ in range(3):
            d.observe("transient_error")
        with pytest.raises(OwnedError):
            Decider.open(place, "d", ports=Ports())
    d.close()
    with pytest.raises(RefusedError, match="it is closed"):
        d.observe("transient_error")
    with Decider.open(place, "d", ports=Ports()) as again:
        assert again.observe("transient_error").action == "replan-local"
    assert audit(place).verdict == "open"
    with pytest.raises(NotFoundError):
        Decider.open(place, "nope")
    with pytest.raises(ConflictError):
        Decider(store=place, run_id="d")


def test_without_a_store_the_log_is_in_memory_and_leaves_as_json(decider):
    with Decider() as d:
        assert d.observe("success").decision == "done"
        log = d.to_json()["log"]
    assert audit_of_lines(log) == ()


def audit_of_lines(lines: list[str]):
    store = MemoryStore()
    run = import_run(store, "".join(f"{line}\n" for line in lines).encode(), owner="test", now_us=1).run
    return audit(store, run=run).findings


def test_a_store_that_was_given_open_stays_open():
    store = MemoryStore()
    Decider(store=store, run_id="d").close()
    with pytest.raises(ConflictError):
        Decider(store=store, run_id="d")
    assert store.head("d").seq > 0
    with Decider.open(store, "d") as d:
        d.observe("success")
    assert store.head("d").seq > 4
    clean_log(store, "d")


def test_whoever_lost_the_log_to_another_writes_nothing_more():
    store, ports = MemoryStore(), Ports()
    d = Decider(store=store, run_id="d", ports=ports)
    ports.clock.advance(100)
    other = Decider.open(store, "d", ports=ports)
    with pytest.raises(FencedError):
        d.observe("success")
    assert other.observe("success").decision == "done"
    clean_log(store, "d")


def test_a_lease_is_renewed_while_observations_come():
    store, ports = MemoryStore(), Ports()
    d = Decider(store=store, run_id="d", ports=ports)
    for _ in range(5):
        ports.clock.advance(20)
        d.observe("success")
    with pytest.raises(OwnedError):
        Decider.open(store, "d", ports=ports)
    clean_log(store, "d")


def test_an_irreversible_call_carries_the_callers_own_approval(decider):
    d = decider()
    assert d.observe("success", effect="irreversible").decision == "done"
    (given,) = [e for e in replay_events(d) if e.type == "approval_answered"]
    assert given.data["by"] == "caller"
