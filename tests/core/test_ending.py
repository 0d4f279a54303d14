"""What becomes of a run as a whole: wishes and their ranks, waiting, ending, reports, constraints."""

import pytest

from fsm_agent.core.engine.ending import concerned
from fsm_agent.core.errors import RefusedError
from fsm_agent.core.inputs import Note
from tests.core.kit import ANN, lab, refused

LOOK, PAY, MAIL = ({"id": "a", "tool": t} for t in ("look", "pay", "mail"))
NEXT = {"id": "b", "tool": "look", "args": {"b": 1}, "depends_on": ["a"]}
SLOW = {"id": "b", "tool": "look", "args": {"b": 1}, "timeout_s": 999}


# ── wishes and their ranks ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("first", ["pause", "abort", "cancel"])
@pytest.mark.parametrize("second", ["pause", "abort", "cancel"])
def test_a_stronger_wish_replaces_a_weaker_one_and_never_the_other_way_round(first, second):
    ranks = ["pause", "abort", "cancel"]
    with lab([PAY]) as it:
        it.ask(first)
        assert it.run.state == "running"
        if ranks.index(second) > ranks.index(first):
            it.ask(second)
        else:
            with refused("E-WISH"):
                it.ask(second)
        strongest = max(first, second, key=ranks.index)
        assert it.run.wish == strongest
        it.returns("a", 1)
        assert (
            it.run.state
            == {"pause": "awaiting-confirmation", "abort": "failed", "cancel": "cancelled"}[strongest]
        )


def test_an_answer_does_not_turn_a_cancel_into_an_abort():
    steps = [{"id": n, "tool": "mail", "args": {"n": n}} for n in "ab"]
    with lab(steps) as it:
        it.times_out("a")
        it.ask("cancel")
        with refused("E-WISH"):
            it.decide("a", "abort")
        assert it.run.wish == "cancel"
        it.returns("b", 1)
        it.ask("cancel", "a")
        assert it.run.state == "cancelled"


def test_a_rule_that_aborts_does_not_weaken_a_cancel():
    steps = [{**PAY, "on_failure": {"*": "abort"}}, {"id": "b", "tool": "pay", "args": {"b": 1}}]
    with lab(steps) as it:
        it.ask("cancel")
        it.fails("a", "conflict", "no")
        assert it.run.wish == "cancel"
        it.returns("b", 1)
        assert it.run.state == "cancelled"


@pytest.mark.parametrize("wish", ["stop", "", "none", "CANCEL"])
def test_a_wish_of_another_word_is_refused(wish):
    with lab([LOOK]) as it, pytest.raises(RefusedError, match="allowed: cancel, abort, pause"):
        it.ask(wish)


def test_a_cancel_cuts_reads_off_and_awaits_writes():
    with lab([LOOK, {"id": "b", "tool": "pay"}, {"id": "c", "tool": "look", "depends_on": ["b"]}]) as it:
        it.ask("cancel")
        assert it.states == {"a": "cancelled", "b": "running", "c": "cancelled"}
        assert it.commands[-1].cut_off
        it.returns("b", 1)
        assert it.states["b"] == "done"
        assert it.run.state == "cancelled"
        assert it.moves("run") == ["start", "cancel"]


@pytest.mark.parametrize("wish", ["cancel", "abort", "pause"])
def test_a_wish_waits_for_an_unknown_write_to_be_looked_up(wish):
    with lab([PAY]) as it:
        it.ask(wish)
        it.times_out("a")
        assert it.states == {"a": "unknown-result"}
        it.until_due()
        assert len(it.probes()) == 1
        it.finds("a", "applied", 1)
        assert it.states == {"a": "done"}
        assert (
            it.run.state == {"pause": "awaiting-confirmation", "abort": "failed", "cancel": "cancelled"}[wish]
        )


@pytest.mark.parametrize("wish", ["cancel", "abort", "pause"])
def test_after_a_wish_an_idempotent_call_is_not_sent_again(wish):
    with lab([{"id": "a", "tool": "put"}]) as it:
        it.times_out("a")
        it.ask(wish)
        it.until_due()
        assert it.probes() == []
        assert it.run.state == "unknown-result"
        assert it.question("a").answers == ("probe", "applied", "absent", "abort")
        it.reconcile("a", "absent")
        assert it.calls()[1:] == []


@pytest.mark.parametrize("wish", ["cancel", "abort"])
def test_unknown_writes_are_accepted_one_by_one(wish):
    with lab([{"id": n, "tool": "mail", "args": {"n": n}} for n in "abc"]) as it:
        for name in "abc":
            it.times_out(name)
        assert it.run.state == "unknown-result"
        it.ask(wish, "a")
        with refused("E-WISH"):
            it.ask(wish, "a")
        it.ask(wish, "b")
        assert it.run.state == "unknown-result"
        it.reconcile("c", "applied", 1)
        assert it.run.state == {"cancel": "cancelled", "abort": "failed"}[wish]
        report = it.events("run_closed")[0].data["report"]
        assert report["unknown"] == ["a", "b"]
        assert report["done"] == ["c"]
        assert all("find out whether" in words for words in report["remains"])


@pytest.mark.parametrize("names", [["zz"], ["b"], ["a", "b"], [None]])
def test_only_what_is_unknown_can_be_accepted(names):
    with lab([MAIL, SLOW]) as it:
        it.times_out("a")
        with refused():
            it.ask("cancel", *names)
        assert it.run.wish == "none"


def test_a_cleared_write_is_cancelled_with_the_run_and_the_report_says_that_its_effect_is_there():
    with lab([{**PAY, "done_when": "ok == true"}, {"id": "b", "tool": "pay", "args": {"b": 1}}]) as it:
        it.returns("a", {"ok": False})
        it.ask("cancel")
        it.returns("b", 1)
        assert it.states == {"a": "cancelled", "b": "done"}
        (words,) = it.events("run_closed")[0].data["report"]["remains"]
        assert "see to a (pay), which took effect" in words


# ── pause ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pause_lets_what_runs_end_and_starts_nothing():
    with lab([LOOK, NEXT]) as it:
        it.ask("pause")
        assert it.states == {"a": "running", "b": "pending"}
        it.returns("a", 1)
        assert it.states == {"a": "done", "b": "pending"}
        assert it.run.state == "awaiting-confirmation"
        assert it.run.paused
        with refused("E-WISH"):
            it.ask("pause")
        it.resume()
        assert it.states == {"a": "done", "b": "running"}


def test_a_pause_can_be_taken_back_before_it_has_fired():
    with lab([LOOK, NEXT]) as it:
        it.ask("pause")
        it.resume()
        assert it.run.wish == "none"
        it.returns("a", 1)
        assert it.states == {"a": "done", "b": "running"}
        assert it.moves("run") == ["start"]


def test_nothing_but_an_explicit_resume_ends_a_pause():
    with lab([{**LOOK, "requires_confirmation": True}, NEXT], inputs={"w": 1}) as it:
        it.ask("pause")
        it.approve("a")
        it.set(w=2)
        it.tick(100)
        it.crash()
        assert it.states["a"] == "pending"
        assert it.run.paused
        it.resume()
        assert it.states["a"] == "running"


def test_a_back_off_that_ends_during_a_pause_is_not_forgotten():
    with lab([LOOK]) as it:
        it.fails("a")
        it.ask("pause")
        assert it.run.paused
        it.tick(100)
        assert it.calls()[1:] == []
        it.resume()
        assert len(it.calls()) == 2


def test_a_pause_asked_for_while_a_person_is_asked_holds_when_the_answer_comes():
    with lab([{**LOOK, "requires_confirmation": True}]) as it:
        assert it.run.state == "awaiting-confirmation"
        it.ask("pause")
        it.approve("a")
        assert it.run.paused
        assert it.moves("run") == ["start", "hold", "resume", "hold"]
        it.resume()
        it.returns("a", 1)
        assert it.run.state == "done"


def test_a_paused_run_can_be_cancelled_or_aborted():
    for wish, state in (("cancel", "cancelled"), ("abort", "failed")):
        with lab([LOOK, NEXT]) as it:
            it.ask("pause")
            it.returns("a", 1)
            it.ask(wish)
            assert it.run.state == state


def test_a_pause_over_an_accepted_unknown_result_holds():
    with lab([MAIL, NEXT]) as it:
        it.times_out("a")
        it.ask("pause")
        assert it.run.state == "unknown-result"
        it.ask("pause", "a")
        assert it.run.paused
        it.resume()
        assert it.run.state == "unknown-result"


def test_a_run_that_is_neither_paused_nor_aborted_cannot_be_resumed():
    with lab([LOOK]) as it:
        with refused("E-RESUME"):
            it.resume()
        it.ask("cancel")
        with refused("E-RESUME"):
            it.resume()


# ── abort and resume ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_aborted_run_keeps_its_breakpoint_and_nothing_done_runs_twice():
    steps = [
        LOOK,
        {"id": "b", "tool": "look", "args": {"b": 1}},
        {"id": "c", "tool": "pay", "depends_on": ["a", "b"]},
    ]
    with lab(steps) as it:
        it.returns("a", 1)
        it.ask("abort")
        assert it.states == {"a": "done", "b": "cancelled", "c": "pending"}
        assert it.run.state == "failed"
        it.crash()
        it.resume()
        assert it.states == {"a": "done", "b": "running", "c": "pending"}
        it.returns("b", 2)
        it.returns("c", 3)
        assert it.run.state == "done"
        assert [len(it.starts(n)) for n in "abc"] == [1, 2, 1]


def test_resuming_tries_again_what_may_be_tried_and_asks_about_the_rest():
    steps = [
        LOOK,
        {"id": "b", "tool": "pay", "args": {"b": 1}, "done_when": "ok == true"},
        {**MAIL, "id": "c"},
    ]
    with lab(steps) as it:
        it.fails("a", "auth_denied")
        it.returns("b", {"ok": False})
        it.times_out("c")
        it.ask("abort", "c")
        assert it.run.state == "failed"
        assert it.run.questions == {}
        it.resume()
        assert it.states == {"a": "pending", "b": "failed", "c": "unknown-result"}
        assert set(it.run.questions) == {"b", "c"}
        assert "retry" not in it.question("b").answers
        it.ask("abort")
        assert it.run.state == "unknown-result"


def test_resuming_asks_again_what_was_asked_when_the_run_was_aborted():
    with lab([{"id": "a", "tool": "burn"}, {"id": "b", "description": "?"}]) as it:
        it.ask("abort")
        it.resume()
        assert set(it.run.questions) == {"a", "b"}
        it.approve("a")
        it.answer("b", 1)
        it.returns("a", 1)
        assert it.run.state == "done"


def test_an_aborted_run_hears_only_resume_cancel_budgets_verdicts_and_notes():
    with lab([LOOK, NEXT], inputs={"w": 1}, budgets={"tool_calls": 9}) as it:
        it.ask("abort")
        for word in (
            lambda: it.ask("abort"),
            lambda: it.ask("pause"),
            lambda: it.retry("a"),
            lambda: it.set(w=2),
        ):
            with refused("E-CLOSED"):
                word()
        it.set(**{"budgets.tool_calls": 20})
        it.feed(Note(text="so it goes", who=ANN))
        it.ask("cancel")
        assert it.run.state == "cancelled"
        assert it.states == {"a": "cancelled", "b": "cancelled"}
        assert len(it.events("run_closed")) == 2


@pytest.mark.parametrize("end", ["done", "cancelled"])
def test_a_run_that_is_over_hears_notes_and_late_replies_only(end):
    with lab([LOOK], inputs={"w": 1}) as it:
        if end == "done":
            it.returns("a", 1)
        else:
            it.ask("cancel")
        words = (
            lambda: it.ask("cancel"),
            lambda: it.ask("pause"),
            lambda: it.retry("a"),
            lambda: it.set(w=2),
            lambda: it.set(**{"budgets.tool_calls": 9}),
            it.resume,
            lambda: it.reconcile("a", "applied"),
            lambda: it.approve("a", digest="0" * 8),
        )
        for word in words:
            with refused():
                word()
        it.returns("a", 2, attempt=1)
        it.feed(Note(text="thanks", who=ANN))
        it.tick(1000)
        it.crash()
        assert it.run.state == end


def test_after_the_end_a_person_may_still_say_what_became_of_an_accepted_effect():
    for verdict, state in (("applied", "done"), ("absent", "failed")):
        with lab([MAIL]) as it:
            it.times_out("a")
            it.ask("cancel", "a")
            it.reconcile("a", verdict, 1)
            assert it.states == {"a": state}
            assert it.run.state == "cancelled"
            with refused():
                it.reconcile("a", None)


def test_a_probe_after_the_end_is_refused():
    with lab([PAY], params={"reconciles": 0}) as it:
        it.times_out("a")
        it.ask("cancel", "a")
        with refused("E-CLOSED"):
            it.reconcile("a", None)


# ── waiting ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_whose_unknown_result_became_a_question_waits_for_a_person_and_no_longer_for_evidence():
    with lab([{**PAY, "done_when": "ok == true"}], params={"reconciles": 0}) as it:
        it.times_out("a")
        assert it.run.state == "unknown-result"
        it.returns("a", {"ok": False})
        assert it.states == {"a": "failed"}
        assert it.run.state == "awaiting-confirmation"


def test_a_question_holds_nothing_but_its_own_branch():
    with lab(
        [{**LOOK, "requires_confirmation": True}, NEXT, {"id": "c", "tool": "look", "args": {"c": 1}}]
    ) as it:
        assert it.states["c"] == "running"
        assert it.run.state == "running"
        it.returns("c", 1)
        assert it.run.state == "awaiting-confirmation"


def test_a_failed_branch_keeps_asking_while_others_go_on():
    steps = [{**LOOK, "optional": True}, {"id": "b", "tool": "look", "args": {"b": 1}}]
    with lab(steps, params={"retries": 0}) as it:
        it.fails("a", "auth_denied")
        it.fails("b", "auth_denied")
        it.decide("b", "retry")
        it.until_due()
        it.returns("b", 1)
        assert it.run.state == "awaiting-confirmation"
        it.decide("a", "skip")
        assert it.run.state == "done"


def test_the_names_of_those_who_wait_are_cut_short():
    with lab([{"id": f"q{n}", "description": "?"} for n in range(12)]) as it:
        reason = it.events("run_moved")[-1].data["reason"]
        assert reason.endswith("q6, q7 and 4 more")


def test_a_run_taken_over_only_to_deliver_a_word_starts_nothing():
    with lab([{**LOOK, "requires_confirmation": True}, NEXT]) as it:
        it.crash(slots=0)
        it.approve("a")
        assert it.states["a"] == "pending"
        assert it.run.state == "running"
        it.crash(slots=4)
        assert it.states["a"] == "running"


# ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        ([{**LOOK, "when": "1 == 2"}, NEXT], "done"),
        ([{**LOOK, "when": "1 == 2"}, {**NEXT, "depends_on": [{"id": "a", "optional": True}]}], "running"),
        ([{**LOOK, "when": "$inputs.x == 1"}], "awaiting-confirmation"),
    ],
)
def test_what_a_condition_cancels_does_not_keep_a_run_from_being_done(steps, state):
    with lab(steps, inputs={"y": 1}) as it:
        assert it.run.state == state


def test_a_report_says_what_was_done_what_was_not_and_why_and_what_was_used():
    steps = [
        LOOK,
        {"id": "b", "tool": "look", "args": {"b": 1}},
        {"id": "c", "tool": "look", "depends_on": ["b"]},
        SLOW | {"id": "d", "depends_on": ["c"]},
    ]
    with lab(steps) as it:
        it.returns("a", 1)
        it.fails("b", "auth_denied", message="no key")
        it.ask("abort")
        report = it.events("run_closed")[0].data["report"]
        assert report["done"] == ["a"]
        assert {d["task"]: d["reason"] for d in report["not_done"]} == {
            "b": "no key",
            "c": "waiting for b",
            "d": "waiting for c",
        }
        assert report["remains"] == ["see to b: no key"]
        assert report["used"]["tool_calls"] == 2
        assert report["state"] == "failed"


def test_a_report_of_a_long_run_counts_instead_of_listing():
    with lab(
        [{"id": f"s{n}", "tool": "look", "args": {"n": n}} for n in range(101)], slots=200, checked=False
    ) as it:
        for n in range(101):
            it.returns(f"s{n}", n)
        assert it.events("run_closed")[0].data["report"]["done"] == 101


def test_a_step_that_never_started_is_reported_as_such():
    with lab([LOOK, {"id": "b", "tool": "look", "args": {"b": 1}}], slots=1) as it:
        it.ask("abort")
        reasons = {d["task"]: d["reason"] for d in it.events("run_closed")[0].data["report"]["not_done"]}
        assert reasons["b"] == "it was not started"


# ── constraints ───────────────────────────────────────────────────────────────────────────────────────────────

CAP = {"key": "cap", "value": 10, "check": "sum(costs) <= value", "say": "too dear"}
TWO = [LOOK, {"id": "b", "tool": "look", "args": {"b": 1}, "depends_on": ["a"]}]


def test_a_broken_constraint_stops_everything_until_a_person_decides():
    with lab(TWO, constraints=[CAP]) as it:
        it.returns("a", {"cost": 11})
        assert it.states == {"a": "done", "b": "pending"}
        assert it.decisions() == [("constraint_violated", "escalate")]
        assert "too dear: cap: `sum(costs) <= value` is false" in it.question("run").say
        it.decide("run", "continue")
        it.returns("b", {"cost": 1})
        assert it.run.state == "done"
        assert len(it.decisions()) == 1


def test_what_a_batch_makes_in_all_is_held_against_constraints_before_anything_rests_on_it():
    """The batch is done by its last record, in the same turn; nobody returns it."""
    cap = {"key": "cap", "value": 3, "check": "$c[0].n <= value"}
    batch = {"id": "c", "for_each": "$inputs.rows", "tool": "look", "args": {"k": "$item"}}
    pay = {"id": "p", "tool": "pay", "depends_on": ["c"]}
    with lab([batch, pay], inputs={"rows": [1, 2]}, constraints=[cap]) as it:
        it.returns("c[0]", {"n": 5})
        assert it.decisions() == []
        it.returns("c[1]", {"n": 1})
        assert it.decisions() == [("constraint_violated", "escalate")]
        assert it.states == {"c": "done", "c[0]": "done", "c[1]": "done", "p": "pending"}


def test_a_result_that_voids_another_one_is_held_against_constraints_all_the_same():
    """As many are done after the turn as before it."""
    cap = {"key": "cap", "value": 3, "check": "$a.n <= value"}
    steps = [
        {"id": "a", "tool": "look", "args": {"x": "$inputs.x"}},
        {"id": "b", "tool": "look", "args": {"of": "$a.n"}, "depends_on": ["a"]},
        {"id": "c", "tool": "look", "args": {"of": "$b"}, "depends_on": ["b"]},
    ]
    with lab(steps, inputs={"x": 1}, constraints=[cap]) as it:
        it.returns("a", {"n": 1})
        it.returns("b", 1)
        it.set(x=2)
        it.returns("a", {"n": 5})
        assert ("constraint_violated", "escalate") in it.decisions()
        assert it.states["b"] == "pending"


def test_a_person_may_change_the_value_of_a_constraint_and_it_is_weighed_anew():
    with lab(TWO, constraints=[CAP]) as it:
        it.returns("a", {"cost": 11})
        it.set(**{"constraints.cap": 5})
        assert [d for s, d in it.decisions() if s == "constraint_violated"] == ["escalate", "escalate"]
        it.set(**{"constraints.cap": 50})
        it.decide("run", "continue")
        it.returns("b", {"cost": 39})
        assert it.run.state == "done"


def test_a_tolerated_constraint_is_noted_once():
    with lab(TWO, constraints=[{**CAP, "severity": "warn"}]) as it:
        it.returns("a", {"cost": 11})
        it.returns("b", {"cost": 11})
        assert it.run.state == "done"
        (note,) = it.events("note_added")
        assert note.data["text"].startswith("tolerated: too dear")


def test_a_constraint_that_is_unknown_at_the_end_is_broken_then_and_not_before():
    unknown = {"key": "k", "value": 1, "check": "never_made == value"}
    with lab(TWO, constraints=[unknown]) as it:
        it.returns("a", 1)
        assert it.decisions() == []
        it.returns("b", 1)
        assert it.run.state == "awaiting-confirmation"
        assert "unknown at the end" in it.question("run").say
        it.decide("run", "continue")
        assert it.run.state == "done"


def test_a_constraint_sees_inputs_results_and_products_by_name():
    rules = [
        {"key": "i", "value": 1, "check": "$inputs.w == value"},
        {"key": "r", "value": 2, "check": "$a.n == value"},
        {"key": "p", "value": 2, "check": "n == value"},
        {"key": "c", "value": 7, "check": "costs == value"},
    ]
    with lab([LOOK], inputs={"w": 1}, constraints=rules) as it:
        it.returns("a", {"n": 2, "costs": 7, "cost": 1})
        assert it.run.state == "done"
    with lab([LOOK], inputs={"w": 2}, constraints=rules) as it:
        it.returns("a", {"n": 3, "costs": 8})
        assert "i: " in it.question("run").say
        assert "c: " in it.question("run").say


def test_a_broken_constraint_can_end_the_run():
    with lab(TWO, constraints=[CAP]) as it:
        it.returns("a", {"cost": 11})
        it.decide("run", "abort")
        assert it.run.state == "failed"


def test_an_input_can_break_a_constraint_while_the_run_waits():
    with lab(
        [{"id": "a", "tool": "burn"}],
        inputs={"w": 1},
        constraints=[{"key": "k", "value": 2, "check": "$inputs.w < value"}],
    ) as it:
        it.set(w=5)
        assert "run" in it.run.questions
        it.approve("a")
        assert it.calls() == []
        it.decide("run", "continue")
        assert len(it.calls()) == 1


def test_a_question_about_the_whole_run_holds_the_door_and_what_is_out_may_come_in():
    with lab([LOOK, SLOW, {"id": "c", "tool": "look", "depends_on": ["b"]}], constraints=[CAP]) as it:
        it.returns("a", {"cost": 11})
        it.returns("b", 1)
        assert it.states["c"] == "pending"
        assert it.run.state == "awaiting-confirmation"
        it.decide("run", "continue")
        assert it.states["c"] == "running"


# ── which constraints are looked at ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("check", "looked_at"),
    [
        ("n < 9", ["b"]),
        ("sum(costs) < 9", ["c"]),
        ("$a.m < 9", ["a"]),
        ("$inputs.w < 9", ["a", "b", "c"]),
        ("never_made < 9", []),
        ("$a.m < n", ["a", "b"]),
    ],
)
def test_a_constraint_is_looked_at_when_a_step_that_it_reads_is_newly_done(check, looked_at):
    steps = [{"id": name, "tool": "look", "args": {"n": name}} for name in "abc"]
    with lab(steps, inputs={"w": 1}, constraints=[{"key": "k", "value": 1, "check": check}], slots=3) as it:
        for name, value in zip("abc", ({"m": 1}, {"n": 2}, {"cost": 3}), strict=True):
            it.returns(name, value)
        assert [name for name in "abc" if concerned(it.run, [name])] == looked_at


def test_once_an_input_has_been_changed_every_constraint_is_looked_at():
    rule = {"key": "k", "value": 1, "check": "never_made < 9"}
    with lab([LOOK, {**NEXT, "depends_on": []}], inputs={"w": 1}, constraints=[rule]) as it:
        it.returns("a", {"m": 1})
        assert not concerned(it.run, ["a"])
        it.set(w=2)
        assert concerned(it.run, ["a"])
