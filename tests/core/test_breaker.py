"""The circuit breaker: alone as a value, and before the door of a run."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent.core.engine import breaker
from fsm_agent.core.engine.breaker import CLOSED, Breaker
from fsm_agent.core.machine import TaskState
from tests.core.kit import SECOND, lab, tool

LIMIT, OPEN = 3, 30 * SECOND
DOWN = ("transient_error", "rate_limited")
ANSWERS = (
    None,
    "not_found",
    "bad_request",
    "auth_denied",
    "validation_failed",
    "conflict",
    "quota_exhausted",
)
SILENT = ("unclassified_error", "interrupted", "progress_stall")


def ended(b: Breaker, signal: str | None, now: int = 0, task: str = "t") -> Breaker:
    return breaker.ended(b, task, signal, now, limit=LIMIT, open_us=OPEN)


def failed(times: int) -> Breaker:
    b = CLOSED
    for n in range(times):
        b = ended(b, DOWN[n % 2])
    return b


def test_as_many_failures_in_a_row_as_the_limit_open_it_and_no_fewer():
    assert breaker.state(failed(LIMIT - 1), 0) == "closed"
    assert breaker.state(failed(LIMIT), 0) == "open"
    assert failed(LIMIT).until == OPEN


def test_any_answer_shows_that_the_tool_is_there_and_starts_the_count_again():
    for signal in ANSWERS:
        assert ended(failed(LIMIT - 1), signal) is CLOSED
        assert ended(failed(LIMIT), signal) is CLOSED


def test_what_says_nothing_about_the_tool_neither_counts_nor_resets():
    for signal in SILENT:
        assert ended(failed(LIMIT - 1), signal) == failed(LIMIT - 1)
        assert ended(CLOSED, signal) == CLOSED


def test_an_open_breaker_refuses_until_its_time_and_then_lets_exactly_one_by():
    b = failed(LIMIT)
    assert "tried again in 30 s" in breaker.refusal(b, "look", 0)
    assert "look failed 3 times in a row" in breaker.refusal(b, "look", OPEN - 1)
    assert breaker.started(b, "early", OPEN - 1) == b
    assert breaker.state(b, OPEN) == "half-open"
    assert breaker.refusal(b, "look", OPEN) == ""
    trying = breaker.started(b, "first", OPEN)
    assert "first is trying" in breaker.refusal(trying, "look", OPEN + 1)
    assert breaker.started(trying, "second", OPEN + 1) == trying


def test_the_call_that_tries_closes_or_opens_it():
    trying = breaker.started(failed(LIMIT), "first", OPEN)
    assert ended(trying, None, OPEN + 5, "first") is CLOSED
    again = ended(trying, "transient_error", OPEN + 5, "first")
    assert (breaker.state(again, OPEN + 5), again.until, again.trial) == ("open", 2 * OPEN + 5, None)


def test_a_call_from_before_the_outage_prolongs_nothing_and_does_not_end_the_trial():
    b = failed(LIMIT)
    assert ended(b, "transient_error", 5, "old") == b
    trying = breaker.started(b, "first", OPEN)
    assert ended(trying, "transient_error", OPEN + 1, "old") == trying
    assert ended(trying, "interrupted", OPEN + 1, "old") == trying


def test_a_trial_that_is_given_up_frees_the_place_for_another():
    trying = breaker.started(failed(LIMIT), "first", OPEN)
    for after in (breaker.left(trying, "first"), ended(trying, "interrupted", OPEN, "first")):
        assert breaker.refusal(after, "look", OPEN) == ""
        assert after.trial is None
    assert breaker.left(trying, "other") == trying


def test_a_refused_call_waits_for_what_is_left_of_the_outage_or_for_a_whole_one():
    b = failed(LIMIT)
    assert breaker.wait_us(b, 10 * SECOND, OPEN) == 20 * SECOND
    assert breaker.wait_us(breaker.started(b, "first", OPEN), OPEN, OPEN) == OPEN
    assert breaker.wait_us(CLOSED, 0, OPEN) == OPEN


calls = st.lists(
    st.tuples(
        st.sampled_from(["start", "end", "leave"]),
        st.sampled_from(["a", "b", "c", "d"]),
        st.sampled_from([*DOWN, *ANSWERS, *SILENT]),
        st.integers(0, 20) | st.just(35),
    ),
    max_size=60,
)


@given(calls)
def test_never_are_two_trial_calls_out_and_none_passes_an_open_breaker(steps):
    """Calls obey the refusal; whatever order they end in, at most one of them was let by to try."""
    b, now = CLOSED, 0
    trials: set[str] = set()
    out: set[str] = set()
    for what, task, signal, pause in steps:
        now += pause * SECOND
        if what == "start" and task not in out:
            found = breaker.state(b, now)
            if breaker.refusal(b, "look", now):
                assert found != "closed"
                continue
            assert found != "open"
            b = breaker.started(b, task, now)
            out.add(task)
            if found == "half-open":
                trials.add(task)
        elif what == "end" and task in out:
            out.discard(task)
            b = ended(b, signal, now, task)
            trials = trials - {task} if b.until else set()
        elif what == "leave" and task in out:
            out.discard(task)
            b = breaker.left(b, task)
            trials.discard(task)
        assert len(trials) <= 1
        assert (b.trial is not None) == bool(trials)


# ── in a run ──────────────────────────────────────────────────────────────────────────────────────────────────

PARAMS = {"breaker_failures": 2, "breaker_open_s": 60}


def steps(*names: str, **more):
    return [{"id": n, "tool": "look", "args": {"n": n}, **more} for n in names]


def opened(*names: str, slots: int = 1, **more):
    """A run whose tool failed twice, so that its breaker is open."""
    return lab(steps(*names), slots=slots, params=PARAMS | more)


def fail(run, name: str, signal: str = "transient_error") -> None:
    run.fails(name, signal)


def test_an_open_breaker_refuses_the_next_call_and_the_step_waits_for_the_tool():
    with opened("a", "b", "c") as run:
        fail(run, "a")
        fail(run, "b", "rate_limited")
        assert run.moves("c") == ["refuse", "retry"]
        (decided,) = run.events("decided", task="c")
        assert (decided.data["signal"], decided.data["decide"]) == ("blocked_dependency", "retry")
        assert decided.data["facts"]["breaker"] == "open"
        assert "breaker_failures 2" in decided.data["reason"]
        assert "look failed 2 times in a row" in decided.data["reason"]
        wait = decided.data["params"]["delay_ms"]
        assert 59_000 < wait <= 60_000


def test_after_the_outage_one_call_tries_and_the_others_are_refused_until_it_ends():
    with opened("a", "b", "c", "d", slots=4) as run:
        for name in "ab":
            fail(run, name)
        for name in "cd":
            run.fails(name)  # calls from before the outage
        while not run.run.running:
            run.until_due()
        (trial,) = run.run.running
        others = {"a", "b", "c", "d"} - {trial}
        assert run.run.breakers["look"].trial == trial
        run.tick(1)
        assert set(run.run.running) == {trial}
        run.returns(trial, 1)
        assert run.run.breakers == {}
        while run.run.state == "running":
            if run.run.running:
                run.returns(next(iter(run.run.running)), 1)
            else:
                run.until_due()
        assert set(run.states.values()) == {"done"}
        assert all("blocked_dependency" in dict(run.decisions(n)) for n in others)


def test_a_trial_that_fails_opens_the_breaker_for_another_while():
    with opened("a", "b", "c") as run:
        fail(run, "a")
        fail(run, "b")
        while not run.run.running:
            run.until_due()
        (trial,) = run.run.running
        fail(run, trial)
        found = run.run.breakers["look"]
        assert (found.failures, found.trial) == (3, None)
        assert found.until > run.ports.now_us() + 59 * SECOND


def test_when_its_repeats_are_used_up_a_blocked_step_is_put_to_a_person():
    with opened("a", "b", retries=1) as run:
        fail(run, "a")
        fail(run, "b")
        run.until_due()
        run.until_due()
        assert run.decisions("a") == [("transient_error", "retry"), ("blocked_dependency", "escalate")]
        assert set(run.run.questions) == {"a", "b"}


def test_a_time_out_counts_and_so_does_a_write_whose_outcome_is_unknown():
    plan = [{"id": "a", "tool": "look"}, {"id": "w", "tool": "mail"}]
    with lab(plan, params=PARAMS) as run:
        run.tick(11)
        assert run.states == {"a": "pending", "w": "unknown-result"}
        assert {name: b.failures for name, b in run.run.breakers.items()} == {"look": 1, "mail": 1}


def test_a_crash_keeps_the_breaker_and_does_not_count_the_calls_that_it_cut_off():
    with opened("a", "b", "c") as run:
        fail(run, "a")
        run.crash()
        assert run.run.breakers["look"].failures == 1
        fail(run, next(iter(run.run.running)))
        before = run.run.breakers["look"]
        run.crash()
        assert run.run.breakers["look"] == before
        assert before.until > run.ports.now_us()


def test_a_crash_frees_the_place_of_the_call_that_was_trying():
    with opened("a", "b", "c", slots=1) as run:
        fail(run, "a")
        fail(run, "b")
        while not run.run.running:
            run.until_due()
        (cut,) = run.run.running
        run.crash()
        assert run.run.breakers["look"].trial != cut
        while run.run.state == "running":
            if run.run.running:
                run.returns(next(iter(run.run.running)), 1)
            else:
                run.until_due()
        assert set(run.states.values()) == {"done"}


def test_a_wish_to_cancel_frees_the_place_of_the_call_that_was_trying():
    with opened("a", "b", "c") as run:
        fail(run, "a")
        fail(run, "b")
        while not run.run.running:
            run.until_due()
        run.ask("abort")
        assert run.run.breakers["look"].trial is None


def test_a_call_of_a_healthy_tool_that_is_given_up_says_nothing():
    with lab(steps("a")) as run:
        run.ask("abort")
        assert run.run.breakers == {}


def test_breakers_of_other_tools_are_their_own():
    plan = [*steps("a", "b"), {"id": "c", "tool": "other"}]
    with lab(plan, slots=2, tools=(tool("look"), tool("other")), params=PARAMS) as run:
        fail(run, "a")
        fail(run, "b")
        assert run.task("c").state is TaskState.RUNNING


def test_an_approval_waits_for_the_tool_along_with_the_call():
    """What a person approved is not asked again because the tool was away for a while."""
    plan = [*steps("a", "b"), {"id": "w", "tool": "look", "requires_confirmation": True}]
    with lab(plan, slots=3, params=PARAMS) as run:
        fail(run, "a")
        fail(run, "b")
        run.approve("w")
        assert run.moves("w") == ["hold", "approve", "refuse", "retry"]
        while "start" not in run.moves("w"):
            if run.run.running:
                run.returns(next(iter(run.run.running)), 1)
            else:
                run.until_due()
        assert run.moves("w").count("hold") == 1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["transient_error", "not_found", "ok", "crash"])),
        max_size=25,
    )
)
def test_however_calls_end_a_run_never_has_two_calls_out_behind_a_breaker_that_is_not_closed(script):
    with opened("a", "b", "c", "d", slots=3, retries=20) as run:
        for which, how in script:
            names = list(run.run.running)
            if how == "crash":
                run.crash()
            elif names:
                name = names[which % len(names)]
                run.returns(name, 1) if how == "ok" else run.fails(name, how)
            elif run.run.next_due() is not None:
                run.until_due()
            started = [e for e in run.events("task_moved") if e.data["trigger"] == "start"]
            b = run.run.breakers.get("look")
            if b is not None and b.trial is not None:
                since = [e for e in started if e.at >= b.until and run.run.tasks[e.task].moved == e.seq]
                assert [e.task for e in since] == [b.trial]
