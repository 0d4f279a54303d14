"""One input, one atomic batch; what the shell must do follows from it; decisions are the table's, or the plan's own."""

from itertools import pairwise

import attrs
import pytest

from fsm_agent.core.audit import replay
from fsm_agent.core.engine.decide import advance, commands, decide, state_digest
from fsm_agent.core.engine.fold import apply
from fsm_agent.core.engine.policy import legal_answers
from fsm_agent.core.engine.state import Run
from fsm_agent.core.engine.turn import Turn
from fsm_agent.core.errors import IllegalTransitionError
from fsm_agent.core.inputs import Call, Env, Probe, Returned, StopCall, TakeOver, Tick
from fsm_agent.core.machine import RunState
from fsm_agent.core.plans import known
from fsm_agent.core.signals import Signal
from tests.core.kit import ANN, BLIND, READ, WRITE, Lab, difference, error, lab, picture, refused, tool, value

LOOK = {"id": "a", "tool": "look"}
PAY = {"id": "a", "tool": "pay"}


# ── a batch ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_input_is_one_batch_of_events_that_name_it_and_one_another():
    with lab([LOOK, {"id": "b", "tool": "look", "depends_on": ["a"]}]) as it:
        before = it.run.seq
        it.returns("a", 1)
        batch = it.events()[before:]
        assert [e.type for e in batch] == ["task_moved", "decided", "task_moved"]
        assert {tuple(e.tx) for e in batch} == {(before + 1, 3)}
        assert [e.cause for e in batch] == [None, before + 1, before + 2]
        assert all(a.at < b.at for a, b in pairwise(batch))


def test_each_decision_has_facts_of_its_own():
    made = Lab([LOOK, {"id": "b", "tool": "look", "args": {"x": 1}}])
    run, env = Run("mine"), Env(now_us=5)
    advance(run, attrs.evolve(made.create, run="mine"), env)
    told = [
        event
        for task in ("a", "b")
        for event in advance(run, Returned(task=task, attempt=1, outcome=value()), env)
    ]
    one, other = [event.data["facts"] for event in told if event.type == "decided"]
    assert one == other == {}
    assert one is not other


def test_nothing_happens_where_nothing_is_due():
    with lab([LOOK]) as it:
        assert it.tick() == []
        assert len(it.events()) == it.run.seq


def test_whoever_brings_his_own_loop_decides_appends_and_applies():
    made = Lab([LOOK, {"id": "b", "tool": "pay", "depends_on": ["a"]}])
    run, env = Run("mine"), Env(now_us=5)
    events = decide(run, attrs.evolve(made.create, run="mine"), env)
    assert run.seq == 0
    for event in events:
        apply(run, event)
    assert commands(run, events) == [
        Call(task="a", attempt=1, tool="look", args={}, key=run.tasks["a"].key, deadline_at=10_000_008)
    ]
    twin = Run("mine")
    assert [e._replace(tx=None) for e in advance(twin, attrs.evolve(made.create, run="mine"), env)] == [
        e._replace(tx=None) for e in events
    ]
    assert not difference(picture(run), picture(twin))
    assert state_digest(run) == state_digest(twin)


def test_inputs_beyond_the_plans_own_are_kept_and_named():
    made = Lab([LOOK], inputs={"w": 1})
    create = attrs.evolve(
        made.create, run="m", inputs={"w": 2, "x": 3}, planner_locator="m:plan", has_planner=True
    )
    run = Run("m")
    first = advance(run, create, Env(now_us=1))[0]
    assert run.inputs == {"w": 2, "x": 3}
    assert first.data["extra_inputs"] == ["x"]
    assert first.data["planner_locator"] == "m:plan"


# ── commands ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_that_nobody_waits_for_any_more_is_to_be_stopped_and_only_a_read_cut_off():
    with lab([LOOK, {"id": "b", "tool": "pay", "args": {"b": 1}}]) as it:
        it.tick(20)
        stops = [c for c in it.commands if isinstance(c, StopCall)]
        assert stops == [
            StopCall(task="a", attempt=1, cut_off=True),
            StopCall(task="b", attempt=1, cut_off=False),
        ]


def test_a_call_that_ended_or_died_with_its_owner_is_not_stopped():
    with lab([LOOK, {"id": "b", "tool": "look", "args": {"b": 1}}]) as it:
        it.returns("a", 1)
        it.crash()
        assert not [c for c in it.commands if isinstance(c, StopCall)]


def test_a_probe_carries_the_call_it_asks_about():
    with lab([{**PAY, "args": {"x": 1}}]) as it:
        it.times_out("a")
        it.until_due()
        (call,), (probe,) = it.calls(), it.probes()
        assert probe == Probe(
            task="a",
            attempt=1,
            tool="pay",
            args={"x": 1},
            key=call.key,
            repeat=False,
            deadline_at=probe.deadline_at,
        )
        assert probe.deadline_at == it.events("probe_sent")[0].at + 10_000_000


# ── another owner ─────────────────────────────────────────────────────────────────────────────────────────────


def test_after_a_crash_reads_start_again_and_writes_are_unknown():
    with lab([LOOK, {"id": "b", "tool": "pay"}, {"id": "c", "tool": "put", "args": {"c": 1}}]) as it:
        it.crash()
        assert it.states == {"a": "pending", "b": "unknown-result", "c": "unknown-result"}
        assert it.decisions("a") == [("interrupted", "retry")]
        assert it.decisions("b") == [("interrupted", "reconcile")]


def test_a_crash_during_recovery_is_one_more_crash():
    with lab([PAY]) as it:
        it.crash()
        it.crash()
        assert it.states == {"a": "unknown-result"}
        assert it.run.epoch == 3
        assert len(it.starts("a")) == 1


def test_a_new_owner_may_bring_other_tools_or_none():
    with lab([{**LOOK, "requires_confirmation": True}]) as it:
        it.crash(tools=None)
        assert "tools" not in it.events("owner_changed")[-1].data
        it.crash()
        assert "tools" not in it.events("owner_changed")[-1].data
        it.crash(tools=(READ, tool("new")))
        assert set(it.run.tools) == {"look", "new"}
        assert len(it.events("owner_changed")[-1].data["tools"]) == 2


def test_a_tool_that_became_a_write_is_one_from_the_next_start_on_and_a_person_says_whether_there_is_one():
    with lab([LOOK]) as it:
        it.crash(tools=(tool("look", "write"),))
        assert it.decisions("a") == [("interrupted", "escalate")]
        it.decide("a", "retry")
        it.until_due()
        it.fails("a", "transient_error", "maybe")
        assert it.states == {"a": "unknown-result"}


# ── decisions ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_steps_own_row_goes_before_the_table_where_it_is_legal():
    own = {"auth_denied": {"decide": "abort", "say": "no key, no run"}, "outcome_unknown": "escalate"}
    with lab([{**LOOK, "on_failure": own}, {**PAY, "id": "b", "on_failure": own}]) as it:
        it.times_out("b")
        assert it.decisions("b") == [("outcome_unknown", "escalate")]
        it.reconcile("b", "applied", 1)
        it.until_due()
        it.fails("a", "auth_denied")
        last = it.events("decided", task="a")[-1].data
        assert (last["rule"], last["decide"]) == ("plan:a.on_failure.auth_denied", "abort")
        assert last["reason"].startswith("no key, no run")
        assert it.run.state == "failed"


def test_a_steps_own_row_for_anything_speaks_of_failures_only():
    with lab([{**PAY, "on_failure": {"*": "abort"}}]) as it:
        it.times_out("a")
        assert it.decisions("a") == [("outcome_unknown", "reconcile")]
        it.until_due()
        it.finds("a", "absent")
        assert it.decisions("a")[-1] == ("reconciled_absent", "abort")


@pytest.mark.parametrize(
    ("own", "decided"),
    [
        ({"outcome_unknown": {"decide": "skip"}}, ("outcome_unknown", "reconcile")),
        ({"conflict": {"decide": "skip"}}, ("conflict", "escalate")),
    ],
)
def test_a_row_of_a_plan_that_nobody_checked_is_still_held_to_the_laws(own, decided):
    made = Lab([PAY])
    doc = {**made.create.plan.doc, "steps": [{"id": "a", "tool": "pay", "on_failure": own}]}
    run = Run("m")
    advance(run, attrs.evolve(made.create, run="m", plan=known.trusted(doc)), Env(now_us=1))
    outcome = error(
        decided[0] if decided[0] == "conflict" else "transient_error",
        "no" if decided[0] == "conflict" else "maybe",
    )
    events = advance(run, Returned(task="a", attempt=1, outcome=outcome), Env(now_us=2))
    (made_it,) = [e.data for e in events if e.type == "decided"]
    assert (made_it["signal"], made_it["decide"]) == decided


def test_an_optional_step_may_say_that_it_is_skipped():
    with lab([{**LOOK, "optional": True, "on_failure": {"*": "skip"}}]) as it:
        it.fails("a", "bad_request")
        assert it.states == {"a": "cancelled"}
        assert it.task("a").reason.startswith("skipped, it is optional")
        assert it.run.state == "done"


def test_a_rejection_may_be_a_reason_to_end_everything_or_to_ask():
    for decision, state in (("abort", "failed"), ("escalate", "awaiting-confirmation")):
        step = {**LOOK, "requires_confirmation": True, "on_failure": {"rejected": decision}}
        with lab([step, {"id": "b", "tool": "look", "args": {"b": 1}}]) as it:
            it.returns("b", 1)
            it.reject("a")
            assert it.run.state == state
            if decision == "escalate":
                assert it.question("a").answers == ("continue", "abort")
                it.decide("a", "continue")
                assert it.run.state == "cancelled"


def test_probes_wait_longer_each_time_and_never_shorter_than_what_must_settle():
    with lab([PAY], params={"reconciles": 4}) as it:
        it.times_out("a")
        at = []
        for _ in range(3):
            it.until_due()
            at.append(it.events("probe_sent")[-1].at)
            it.finds("a", "inconclusive")
        assert at[0] == it.task("a").deadline_at + 2_000_000
        assert at[1] - at[0] >= 2_000_000
        assert at[2] - at[1] >= at[1] - at[0]


def test_chance_spreads_the_wait_before_a_retry_and_is_recorded():
    waits = []
    for chance in (0.0, 0.999):
        with lab([LOOK]) as it:
            it.ports.chance = chance
            it.fails("a")
            waits.append(it.events("decided")[-1].data["params"]["delay_ms"])
    assert waits[0] == 1
    assert waits[1] > 900


def test_the_facts_in_the_log_are_those_not_at_their_first_value():
    with lab(
        [{"id": "a", "tool": "mail", "optional": True}], params={"retries": 2}, tools=(BLIND, WRITE)
    ) as it:
        it.times_out("a")
        assert it.events("decided")[-1].data["facts"] == {
            "effect": "write",
            "applied": "maybe",
            "optional": "yes",
            "signal_count": 1,
        }


def test_what_may_be_answered_depends_on_what_is_asked():
    with lab([LOOK]) as it:
        assert legal_answers(it.run, None) == ("continue", "abort")
        assert legal_answers(it.run, it.task("a")) == ("continue", "abort")


def test_a_decision_may_refill_a_counter_and_spend_none(tmp_path):
    path = tmp_path / "generous.toml"
    path.write_text(
        """
        schema = 1
        extends = "default"
        [decisions.escalate]
        refill = ["retries_left"]
        """
    )
    with lab([LOOK], rules=path, params={"retries": 1}) as it:
        it.fails("a")
        it.until_due()
        assert it.task("a").trouble.spent == {"retries_left": 1}
        it.fails("a", "auth_denied")
        assert it.task("a").trouble.spent == {"retries_left": 0}


# ── turns ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_move_that_the_tables_or_the_evidence_forbid_is_an_error_with_the_facts_and_leaves_nothing():
    with lab([LOOK, {**PAY, "id": "b"}]) as it:
        turn = Turn(it.run, Env(now_us=it.run.at))
        with pytest.raises(IllegalTransitionError) as illegal:
            turn.move(it.task("a"), "retry", {"delay_ms": 1})
        assert (illegal.value.machine, illegal.value.id, illegal.value.state) == ("task", "a", "running")
        with pytest.raises(IllegalTransitionError, match="awaited"):
            turn.move(it.task("b"), "cancel", {"reason": "r", "code": "c"})
        with pytest.raises(IllegalTransitionError, match="2 tasks are running"):
            turn.move_run("abort", "r")
        with pytest.raises(IllegalTransitionError, match="not legal in state running"):
            turn.move_run("start", "r")
        assert turn.events == []


def test_a_turn_is_never_earlier_than_the_last_event():
    with lab([LOOK]) as it:
        assert Turn(it.run, Env(now_us=0)).now == it.run.at + 1
        assert Turn(it.run, Env(now_us=it.run.at + 7)).now == it.run.at + 7


# ── budgets that ask, deadlocks, waiting ──────────────────────────────────────────────────────────────────────


@pytest.fixture
def asking(tmp_path):
    """A table that asks a person when a budget is used up."""
    path = tmp_path / "asking.toml"
    path.write_text(
        """
        schema = 1
        extends = "default"
        [[row]]
        id = "budget-exhausted"
        machine = "run"
        signal = "budget_exhausted"
        decide = "escalate"
        why = "a person has the purse"
        """
    )
    return path


def test_a_deadlock_is_put_to_a_person_again_and_again_until_something_can_move(asking):
    with lab([LOOK], rules=asking, budgets={"active_s": 20}) as it:
        it.fails("a", "rate_limited", retry_after_us=60_000_000)
        assert it.states == {"a": "failed"}
        for _ in range(2):
            it.decide("run", "continue")
            assert it.decisions()[-1] == ("deadlock", "escalate")
            assert "nothing can move; left: a" in it.question("run").say
        it.retry("a")
        it.decide("run", "continue")
        it.until_due()
        it.returns("a", 1)
        assert it.run.state == "done"


def test_what_waits_for_a_budget_waits_for_a_person_who_has_the_purse(asking):
    with lab(
        [LOOK, {"id": "b", "tool": "look", "depends_on": ["a"]}], rules=asking, budgets={"tool_calls": 1}
    ) as it:
        it.returns("a", 1)
        assert it.run.state == "awaiting-confirmation"
        it.set(**{"budgets.tool_calls": 5})
        assert it.states["b"] == "pending"
        it.decide("run", "continue")
        assert it.states["b"] == "running"


def test_what_a_rejection_takes_along_goes_at_once_also_while_others_wait():
    asks = {"requires_confirmation": True}
    steps = [{**LOOK, **asks}, {"id": "b", "tool": "look", "depends_on": ["a"]}, {**LOOK, **asks, "id": "c"}]
    with lab(steps) as it:
        it.reject("a")
        assert it.states == {"a": "cancelled", "b": "cancelled", "c": "awaiting-confirmation"}
        assert it.run.state == "awaiting-confirmation"


def test_a_replan_that_is_due_wakes_a_run_that_waits():
    constraint = {"key": "k", "value": 2, "check": "$inputs.w < value"}
    with lab(
        [{**LOOK, "requires_confirmation": True}], inputs={"w": 1}, constraints=[constraint], planner=True
    ) as it:
        assert it.run.state == "awaiting-confirmation"
        it.set(w=5)
        assert it.decisions()[-1] == ("constraint_violated", "replan-global")
        assert it.run.state == "running"
        assert it.run.asked
        with refused():
            it.approve("a", digest="0" * 64)


def test_a_question_about_a_task_goes_when_the_task_moves():
    with lab([LOOK]) as it:
        it.fails("a", "auth_denied")
        assert it.question("a").kind == "decide"
        it.ends("a", error(), attempt=1)
        it.returns("a", 1, attempt=1)
        assert it.run.questions == {}


# ── reading back ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_state_at_any_event_is_the_fold_up_to_it():
    with lab([LOOK, {"id": "b", "tool": "pay", "depends_on": ["a"]}]) as it:
        it.returns("a", 1)
        it.returns("b", 2)
        events = it.events()
        for until in range(len(events) + 1):
            run = Run("r")
            for event in events[:until]:
                apply(run, event)
            found = replay.replay("r", it.records, it.store.blob, until=until)
            assert not difference(picture(found), picture(run)) if until > 1 else found.seq == run.seq
        assert found.state is RunState.DONE


def test_take_over_of_a_run_that_ended_records_the_owner_and_nothing_else():
    with lab([LOOK]) as it:
        it.returns("a", 1)
        it.crash()
        assert it.events()[-1].type == "owner_changed"
        it.feed(Tick())
        it.feed(TakeOver(epoch=9, owner=ANN.by))
        assert it.events()[-1].data == {"epoch": 9, "owner": "ann"}
        assert Signal.SUCCESS == "success"
