"""Stalls: what counts as the same again, what does not, and what each derived signal replaces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.engine import stall
from fsm_agent.core.engine.stall import MAX_TRAILS, Trail
from tests.core.kit import SAME, WRITE, error, lab, tool, value

N = 3
"""The threshold of these tests: so many times the same."""


@pytest.fixture
def patient(tmp_path):
    """A table that reads again whatever a read answers, so that only the engine ends it."""
    path = tmp_path / "patient.toml"
    path.write_text(
        f"""
        schema = 1
        extends = "conservative"
        [params]
        retries = 20
        repeat_threshold = 20
        stall_threshold = {N}
        breaker_failures = 100
        [[row]]
        id = "again"
        state = "failed"
        signal = ["validation_failed", "not_found", "unverified", "unclassified_error"]
        when = {{ effect = "read", retries_left = ">=1", budget_band = ["ok", "low"] }}
        decide = "retry"
        why = "it may change"
        """
    )
    return str(path)


# ── the table of cases: what one call answers, time after time, and at which answer it has stalled ─────────────


def failing(message: str):
    return error("not_found", message=message)


def pending(n: object):
    """A result that ``done_when`` does not accept; ``n`` is what it says of its progress."""
    return value({"ready": False, "n": n})


DOWN, SLOW = error("transient_error"), error("rate_limited")
CASES = [
    ("the same error", [failing("no row")] * 9, N),
    ("the same result, which does not pass", [pending(1)] * 9, N),
    ("an honest poll: the result changes each time", [pending(n) for n in range(12)], None),
    (
        "an honest poll that stands still for a while, but not for long",
        [pending(n // (N - 1)) for n in range(12)],
        None,
    ),
    ("two results in turn", [pending(n % 2) for n in range(12)], 2 * N),
    ("three results in turn", [pending(n % 3) for n in range(12)], 3 * N),
    ("four results in turn are no small circle", [pending(n % 4) for n in range(19)], None),
    ("a poll that got stuck after it had moved", [*(pending(n) for n in range(4)), *[pending(9)] * 9], 4 + N),
    ("another error each time", [failing("abcdefgh"[n]) for n in range(8)], None),
    ("a passing error keeps its own name and budget", [DOWN] * 12, None),
    ("a rate limit too", [SLOW] * 12, None),
    (
        "passing errors in between hide nothing",
        [failing("no row"), DOWN, failing("no row"), DOWN, failing("no row")],
        5,
    ),
    (
        "passing errors in between add nothing",
        [failing("no row"), DOWN, DOWN, failing("no row"), DOWN, DOWN],
        None,
    ),
    ("an error and a result in turn", [failing("no row"), pending(1)] * 6, 2 * N),
]


@pytest.mark.parametrize(("answers", "at"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_read_has_stalled_when_its_answers_have_come_round_so_often(answers, at, patient):
    with lab([{"id": "r", "tool": "look", "done_when": "ready == true"}], rules=patient) as run:
        for number, answer in enumerate(answers, 1):
            run.ends("r", answer)
            signal, decide = run.decisions("r")[-1]
            if number == at:
                assert (signal, decide) == ("progress_stall", "escalate")
                reason = run.events("decided", task="r")[-1].data["reason"]
                assert f"stall_threshold {N}" in reason
                assert f"{N} times (threshold {N})" in reason
                assert run.events("decided", task="r")[-1].data["facts"]["stall_steps"] == N
                return
            assert decide == "retry", number
            run.until_due()
        assert at is None


@given(st.lists(st.sampled_from("abc"), max_size=40), st.integers(1, 5))
def test_marks_repeat_as_often_as_the_plainest_count_says(marks, threshold):
    """The oracle looks at the last p·k marks for every circle p and every number k of rounds."""
    kept: tuple[str, ...] = ()
    for mark in marks:
        kept = stall.followed(kept, mark, threshold)
    seen = marks[-3 * threshold :]
    rounds = [
        k for p in (1, 2, 3) for k in range(1, 20) if p * k <= len(seen) and seen[-p * k :] == seen[-p:] * k
    ]
    assert stall.repeats(kept) == max(rounds, default=0)
    assert len(kept) <= 3 * threshold


@given(st.lists(st.sampled_from("abc"), max_size=40), st.integers(1, 5))
def test_what_is_forgotten_never_hides_a_stall(marks, threshold):
    kept: tuple[str, ...] = ()
    for mark in marks:
        kept = stall.followed(kept, mark, threshold)
    assert (stall.repeats(kept) >= threshold) == (stall.repeats(tuple(marks)) >= threshold)


# ── over several steps ────────────────────────────────────────────────────────────────────────────────────────


def twins(count: int, between: dict | None = None) -> list[dict]:
    """The same call in several steps, one after another, with another call between each two of them."""
    plan = []
    for n in range(count):
        plan.append({"id": f"a{n}", "tool": "look", "args": {"q": "same"}, "optional": True})
        if between is not None:
            plan.append({"id": f"b{n}", "args": {"n": n}, **between})
    return plan


def test_the_same_call_in_other_steps_is_the_same_call_whatever_succeeds_in_between(patient):
    """A42: one varying call in between does not hide the loop."""
    plan = twins(N, {"tool": "other"})
    with lab(plan, rules=patient, slots=1, params={"retries": 0}, tools=(tool("look"), tool("other"))) as run:
        for n in range(N):
            run.ends(f"a{n}", failing("no row"))
            run.returns(f"b{n}", {"news": n})
        signals = [run.decisions(f"a{n}")[-1][0] for n in range(N)]
        assert signals == ["not_found"] * (N - 1) + ["progress_stall"]


def test_calls_in_between_that_fail_otherwise_each_time_hide_nothing(patient):
    plan = twins(N, {"tool": "other"})
    with lab(plan, rules=patient, slots=1, params={"retries": 0}, tools=(tool("look"), tool("other"))) as run:
        for n in range(N):
            run.ends(f"a{n}", failing("no row"))
            run.ends(f"b{n}", failing("xyz"[n]))
        assert run.decisions(f"a{N - 1}")[-1][0] == "progress_stall"
        assert all(run.decisions(f"b{n}")[-1][0] == "not_found" for n in range(N))


def test_the_same_answer_to_other_arguments_is_no_stall(patient):
    plan = [{"id": f"a{n}", "tool": "look", "args": {"n": n}} for n in range(2 * N)]
    with lab(plan, rules=patient, slots=1, params={"retries": 0}) as run:
        for n in range(2 * N):
            run.ends(f"a{n}", failing("no row"))
        assert {run.decisions(f"a{n}")[-1][0] for n in range(2 * N)} == {"not_found"}


@pytest.mark.parametrize("spec", [WRITE, SAME], ids=lambda s: s.effect.value)
def test_writes_keep_the_name_of_their_failure(spec, patient):
    plan = [{"id": f"w{n}", "tool": spec.name, "args": {}} for n in range(2 * N)]
    with lab(plan, rules=patient, slots=1) as run:
        for n in range(2 * N):
            run.ends(f"w{n}", failing("no row"))
        assert {run.decisions(f"w{n}")[-1][0] for n in range(2 * N)} == {"not_found"}


def test_what_never_reached_the_tool_is_no_answer_of_it(patient):
    plan = [{"id": f"a{n}", "tool": "look", "preconditions": ["$inputs.ok == true"]} for n in range(2 * N)]
    with lab(plan, rules=patient, slots=1, inputs={"ok": False}) as run:
        assert {run.decisions(f"a{n}")[-1][0] for n in range(2 * N)} == {"precondition_violated"}
        assert run.run.trails == {}


def test_an_error_without_a_fingerprint_is_like_no_other(patient):
    nameless = error("not_found")
    nameless = type(nameless)(
        kind="error", signal=nameless.signal, applied=nameless.applied, error={"message": "?"}
    )
    with lab([{"id": "r", "tool": "look"}], rules=patient) as run:
        for _ in range(2 * N):
            run.ends("r", nameless)
            assert run.decisions("r")[-1] == ("not_found", "retry")
            run.until_due()


def test_a_crash_forgets_no_answer(patient):
    with lab([{"id": "r", "tool": "look"}], rules=patient) as run:
        for _ in range(N - 1):
            run.ends("r", failing("no row"))
            run.until_due()
        run.crash()
        run.until_due()
        run.ends("r", failing("no row"))
        assert run.decisions("r")[-1] == ("progress_stall", "escalate")


def test_a_person_who_lets_it_try_again_expects_another_answer(patient):
    with lab([{"id": "r", "tool": "look"}], rules=patient) as run:
        for _ in range(N):
            run.ends("r", failing("no row"))
            if run.task("r").state == "pending":
                run.until_due()
        run.retry("r")
        run.until_due()
        run.ends("r", failing("no row"))
        assert run.decisions("r")[-1] == ("not_found", "retry")


def test_of_many_failing_calls_the_ones_that_failed_last_are_remembered(patient):
    count = MAX_TRAILS + 3
    plan = [{"id": f"a{n}", "tool": "look", "args": {"n": n}} for n in range(count)]
    with lab(plan, rules=patient, slots=1, params={"retries": 0}, checked=False) as run:
        for n in range(count):
            run.ends(f"a{n}", failing("no row"))
        kept = [t.args_digest for t in run.run.tasks.values()][-MAX_TRAILS:]
        assert sorted(run.run.trails) == sorted(kept)


def test_the_oldest_trail_is_the_one_with_the_lowest_number():
    assert stall.oldest({"a": Trail(5, ("x",)), "b": Trail(2, ("x",)), "c": Trail(9, ())}) == "b"


def test_no_answer_repeats_nothing():
    assert stall.repeats(()) == 0


# ── reports of one call ───────────────────────────────────────────────────────────────────────────────────────


def test_reports_without_progress_are_counted_over_the_tries_of_one_strategy(patient):
    from fsm_agent.core.inputs import Progressed

    with lab(
        [{"id": "r", "tool": "look", "args": {"q": "$inputs.q"}}], rules=patient, inputs={"q": 1}
    ) as run:

        def report(advanced: bool) -> None:
            run.feed(Progressed(task="r", attempt=run.task("r").attempt, advanced=advanced))

        report(False)
        report(True)
        report(False)
        report(False)
        run.fails("r")
        run.until_due()
        report(False)
        assert run.decisions("r")[-1] == ("progress_stall", "escalate")


def test_another_strategy_starts_with_nothing_counted_against_it(patient):
    from fsm_agent.core.inputs import Progressed

    with lab(
        [{"id": "r", "tool": "look", "args": {"q": "$inputs.q"}}], rules=patient, inputs={"q": 1}
    ) as run:
        for _ in range(N - 1):
            run.feed(Progressed(task="r", attempt=1, advanced=False))
        run.fails("r")
        run.set(q=2)
        run.until_due()
        run.feed(Progressed(task="r", attempt=2, advanced=False))
        assert run.task("r").trouble.stall == 1
        assert run.task("r").state == "running"
