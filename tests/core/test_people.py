"""Yes, no, other arguments, answers, another try, verdicts: what a person's word about one call does."""

import attrs
import pytest

from fsm_agent.core.errors import IllegalTransitionError, RefusedError
from fsm_agent.core.inputs import Answer, Approve, Ask, Edit, Note, Person, ReconcileAs, Reject, SetInputs
from tests.core.kit import ANN, BOB, READ, lab, refused, tool

BURN = [{"id": "a", "tool": "burn", "args": {"x": 1}}]
ASK = [{"id": "a", "description": "which colour?"}]
TWO = [{"id": "a", "tool": "pay", "requires_confirmation": True, "approvers": 2}]


# ── approval ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_that_needs_a_yes_waits_for_one_and_then_starts_once():
    with lab(BURN) as it:
        assert it.states == {"a": "awaiting-confirmation"}
        assert it.run.state == "awaiting-confirmation"
        assert it.calls() == []
        it.approve("a")
        assert len(it.calls()) == 1
        (start,) = it.starts("a")
        assert start.data["approval"] == it.events("approval_answered")[0].seq
        it.returns("a", 1)
        assert it.run.state == "done"


@pytest.mark.parametrize("digest", [None, "", 0, "yes", {}, [], True, "0" * 64, "abcdef1"])
def test_an_approval_that_does_not_state_the_digest_of_the_request_is_refused(digest):
    with lab(BURN) as it:
        with refused("E-DIGEST"):
            it.feed(Approve(task="a", digest=digest, who=ANN))
        assert it.states == {"a": "awaiting-confirmation"}
        assert len(it.events("move_refused")) == 1


@pytest.mark.parametrize("cut", [8, 20, 64])
def test_the_first_eight_digits_suffice_in_either_case(cut):
    with lab(BURN) as it:
        it.approve("a", digest=it.question("a").digest[:cut].upper())
        assert len(it.calls()) == 1


@pytest.mark.parametrize("task", ["zz", "", None])
def test_an_approval_of_an_unknown_task_is_refused(task):
    with lab(BURN) as it, refused("E-NO-TASK"):
        it.feed(Approve(task=task, digest=it.question("a").digest, who=ANN))


def test_a_second_yes_finds_nothing_to_approve():
    with lab(BURN) as it:
        digest = it.question("a").digest
        it.approve("a")
        with refused("E-NOT-ASKED"):
            it.feed(Approve(task="a", digest=digest, who=ANN))


def test_an_approval_is_used_once_and_a_retry_asks_again():
    with lab(BURN) as it:
        it.approve("a")
        it.fails("a", "transient_error", "no")
        it.until_due()
        assert it.states == {"a": "awaiting-confirmation"}
        assert len(it.calls()) == 1
        it.approve("a")
        assert len(it.calls()) == 2


def test_two_approvers_must_differ_however_they_write_their_names():
    with lab(TWO) as it:
        it.approve("a")
        assert it.states == {"a": "awaiting-confirmation"}
        for name in ("ann", " Ann ", "ANN"):
            with refused("E-SAME-APPROVER"):
                it.approve("a", Person(by=name))
        assert it.calls() == []
        it.approve("a", BOB)
        assert len(it.calls()) == 1


def test_an_edit_takes_the_first_of_two_approvals_back():
    with lab(TWO) as it:
        it.approve("a")
        it.edit("a", BOB, x=2)
        assert it.question("a").approved_by == ()
        it.approve("a", BOB)
        assert it.calls() == []
        it.approve("a", ANN)
        assert it.calls()[0].args == {"x": 2}


def test_each_of_two_equal_calls_needs_a_yes_of_its_own():
    steps = [{"id": n, "tool": "burn", "args": {"x": 1}} for n in "ab"]
    with lab(steps) as it:
        assert it.question("a").digest != it.question("b").digest
        with refused("E-DIGEST"):
            it.approve("b", digest=it.question("a").digest)
        it.approve("b")
        assert it.states == {"a": "awaiting-confirmation", "b": "running"}


OTHERS = {
    "a no": (BURN, lambda digest: Reject(task="a", who=ANN, digest=digest)),
    "a change": (BURN, lambda digest: Edit(task="a", args={"x": 2}, who=ANN, digest=digest)),
    "a result": (ASK, lambda digest: Answer(task="a", value="red", who=ANN, digest=digest)),
    "a decision": (
        [{"id": "a", "tool": "burn", "args": {"x": 1}}],
        lambda digest: Answer(task="a", value={"decide": "retry"}, who=ANN, digest=digest),
    ),
}


@pytest.mark.parametrize("word", OTHERS)
def test_every_other_word_may_say_which_request_it_answers_and_then_answers_no_other(word):
    steps, say = OTHERS[word]
    with lab(steps) as it:
        if word == "a decision":
            it.approve("a")
            it.fails("a", "auth_denied", "no")
        digest = it.question("a").digest
        for other in ("0" * 64, digest[:7], "yes", digest[::-1], True, "", 0, [], {}):
            with refused("E-DIGEST"):
                it.feed(say(other))
        assert it.question("a").digest == digest
        it.feed(say(digest[:8].upper()))
        assert it.events("approval_answered")[-1].data["args_digest"] == digest


def test_a_word_to_the_wrong_kind_of_question_is_refused_with_the_right_one():
    with lab([*BURN, {"id": "q", "description": "?"}]) as it:
        with refused("E-OTHER-QUESTION"):
            it.answer("a", {"decide": "abort"})
        with refused("E-OTHER-QUESTION"):
            it.approve("q")
        with refused("E-OTHER-QUESTION"):
            it.edit("q", x=1)


def test_no_to_a_call_cancels_it_and_keeps_the_words():
    with lab([*BURN, {"id": "b", "tool": "look", "depends_on": ["a"]}]) as it:
        it.reject("a", Person(by="ann", note="too dear"))
        assert it.states == {"a": "cancelled", "b": "cancelled"}
        assert it.task("a").reason == "rejected by ann: too dear"
        assert it.decisions("a") == [("rejected", "continue")]
        assert it.run.state == "cancelled"
        assert "a, which it depends on, was cancelled: rejected by ann: too dear" in it.task("b").reason


def test_no_to_a_question_without_words():
    with lab(ASK) as it:
        it.reject("a")
        assert it.task("a").reason == "rejected by ann"
        assert it.run.state == "cancelled"


# ── edits ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_edit_is_a_new_request_and_approves_nothing():
    with lab(BURN) as it:
        old = it.question("a").digest
        it.edit("a", x=2, y=3)
        assert it.calls() == []
        with refused("E-DIGEST"):
            it.approve("a", digest=old)
        it.approve("a")
        assert it.calls()[0].args == {"x": 2, "y": 3}


def test_an_edit_can_be_edited_again_and_back():
    with lab(BURN) as it:
        original = it.question("a").digest
        it.edit("a", x=2)
        it.edit("a", x=3)
        assert it.question("a").base_args == {"x": 1}
        it.edit("a", x=1)
        assert it.question("a").digest == original
        it.approve("a")
        assert it.calls()[0].args == {"x": 1}


@pytest.mark.parametrize("args", [{"x": 1}, {}, {"z": 1}, {"x": "text"}, {"x": float("nan")}, {"x": {1, 2}}])
def test_an_edit_that_changes_nothing_or_does_not_fit_the_tool_leaves_the_request(args):
    burn = tool("burn", "irreversible", parameters={"x": ("integer",)})
    with lab(BURN, tools=[burn]) as it:
        before = it.question("a")
        with refused():
            it.feed(Edit(task="a", args=args, who=ANN))
        assert it.question("a") == before


def test_an_edit_of_a_call_whose_tool_is_gone_is_refused():
    with lab(BURN) as it:
        it.crash(tools=(READ,))
        with pytest.raises(RefusedError, match="not in the toolbox"):
            it.edit("a", x=2)


def test_edited_arguments_are_held_against_the_preconditions():
    step = {**BURN[0], "preconditions": ["args.x < 10"]}
    with lab([step]) as it:
        it.edit("a", x=80)
        it.approve("a")
        assert it.calls() == []
        assert it.states == {"a": "failed"}
        assert it.decisions("a")[0][0] == "precondition_violated"


def test_an_input_that_changes_after_an_edit_voids_it():
    step = {"id": "a", "tool": "burn", "args": {"week": "$inputs.week", "x": 1}}
    with lab([step], inputs={"week": 1, "other": 1}) as it:
        it.edit("a", x=2)
        edited = it.question("a").digest
        it.set(other=2)
        assert it.question("a").digest == edited
        it.set(week=2)
        assert it.question("a").args == {"week": 2, "x": 1}
        with refused("E-DIGEST"):
            it.approve("a", digest=edited)
        it.approve("a")
        assert it.calls()[0].args == {"week": 2, "x": 1}


def test_an_input_that_changes_before_the_start_voids_an_approval_and_says_what_changed():
    steps = [
        {"id": "slow", "tool": "look", "timeout_s": 99},
        {"id": "a", "tool": "burn", "args": {"week": "$inputs.week"}},
    ]
    with lab(steps, inputs={"week": 1}, slots=1) as it:
        it.returns("slow", 1)
        it.ask("pause")
        it.approve("a")
        it.set(week=2)
        it.resume()
        assert it.calls()[1:] == []
        asked = it.events("approval_requested", task="a")[-1].data
        assert asked["changed"] == ["week"]
        it.approve("a")
        assert it.calls()[-1].args == {"week": 2}


def test_an_edited_and_approved_call_survives_a_crash_and_a_wait_for_a_slot():
    steps = [{"id": "slow", "tool": "look", "timeout_s": 99}, BURN[0]]
    with lab(steps, slots=1) as it:
        assert it.states == {"slow": "running", "a": "pending"}
        it.returns("slow", 1)
        it.edit("a", x=7)
        it.ask("pause")
        it.approve("a")
        it.crash()
        it.resume()
        assert it.calls()[-1].args == {"x": 7}


# ── expiry ────────────────────────────────────────────────────────────────────────────────────────────────────

WITHIN = [{**BURN[0], "confirm_within_s": 60}]


def test_silence_is_no_approval():
    with lab(WITHIN) as it:
        it.until_due()
        assert it.states == {"a": "failed"}
        assert it.decisions("a") == [("approval_expired", "escalate")]
        assert it.calls() == []
        assert "retry" in it.question("a").answers


@pytest.mark.parametrize("early", range(-3, 8))
def test_an_approval_near_its_expiry_starts_the_call_or_asks_again_but_is_never_used_late(early):
    with lab(WITHIN) as it:
        expiry = it.question("a").expires_at
        digest = it.question("a").digest
        it.ports.clock.move_to(expiry - early)
        if early <= 0:
            with refused("E-EXPIRED"):
                it.approve("a")
        else:
            it.approve("a")
        for start in it.starts("a"):
            assert start.at <= expiry
            assert early > 0
        it.tick()
        if early <= 0:
            assert it.states == {"a": "failed"}
        elif not it.starts("a"):
            assert it.question("a").digest == digest
            assert it.events("approval_requested")[-1].data["changed"] == ["the earlier approval has expired"]


def test_an_approval_waits_for_a_slot_only_until_it_expires():
    steps = [{"id": "b", "tool": "look", "timeout_s": 999}, WITHIN[0]]
    with lab(steps, slots=1) as it:
        it.returns("b", 1)
        it.ask("pause")
        it.approve("a")
        it.tick(61)
        it.resume()
        assert it.calls()[1:] == []
        assert it.states["a"] == "awaiting-confirmation"


def test_a_question_for_an_answer_expires_too():
    with lab([{**ASK[0], "confirm_within_s": 5}]) as it:
        it.tick(6)
        assert it.states == {"a": "failed"}
        it.answer("a", {"result": "blue", "evidence": "said at lunch"})
        assert it.task("a").result == "blue"
        assert it.run.state == "done"


def test_a_question_that_was_answered_no_longer_expires():
    with lab(WITHIN) as it:
        it.approve("a")
        it.returns("a", 1)
        it.tick(120)
        assert it.run.state == "done"


# ── answers ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_answer_is_the_result_of_a_step_without_a_tool():
    with lab([*ASK, {"id": "b", "tool": "look", "args": {"c": "$a"}, "depends_on": ["a"]}]) as it:
        assert it.question("a").say == "which colour?"
        it.answer("a", "blue")
        assert it.states == {"a": "done", "b": "running"}
        assert it.calls()[0].args == {"c": "blue"}


@pytest.mark.parametrize(
    ("done_when", "value", "fits"),
    [("n > 1", {"n": 2}, True), ("n > 1", {"n": 1}, False), ("n > 1", 5, False), ("result > 1", 5, True)],
)
def test_an_answer_must_fulfil_done_when(done_when, value, fits):
    with lab([{**ASK[0], "done_when": done_when}]) as it:
        if fits:
            it.answer("a", value)
            assert it.task("a").result == value
        else:
            with refused("E-ANSWER"):
                it.answer("a", value)
            assert it.states == {"a": "awaiting-confirmation"}


def failed(it):
    it.fails("a", "auth_denied")
    assert it.run.state == "awaiting-confirmation"


LOOK = [{"id": "a", "tool": "look"}]


def test_a_person_lets_a_failed_read_try_again():
    with lab(LOOK) as it:
        failed(it)
        it.decide("a", "retry")
        it.until_due()
        assert it.task("a").attempt == 2
        assert it.task("a").trouble.spent == {}


def test_a_person_gives_the_result_that_the_call_did_not():
    with lab(LOOK) as it:
        failed(it)
        for value in ({"result": 1}, {"result": 1, "evidence": " "}, {"result": 1, "evidence": 7}):
            with refused("E-ANSWER"):
                it.answer("a", value)
        it.answer("a", {"result": None, "evidence": "I saw it"})
        assert it.states == {"a": "done"}
        assert it.decisions("a")[-1] == ("reconciled_applied", "accept")


def test_an_optional_step_can_be_skipped_and_others_cannot():
    with lab([{**LOOK[0], "optional": True}, {"id": "b", "tool": "look", "args": {"y": 1}}]) as it:
        it.fails("a", "auth_denied")
        it.fails("b", "auth_denied")
        with refused("E-ANSWER"):
            it.decide("b", "skip")
        it.decide("a", "skip")
        assert it.states == {"a": "cancelled", "b": "failed"}
        it.answer("b", {"result": 1, "evidence": "x"})
        assert it.run.state == "done"


@pytest.mark.parametrize(
    "value",
    [
        None,
        "retry",
        {},
        {"decide": "accept"},
        {"decide": None},
        {"decide": ["retry"]},
        {"decide": "result"},
        {"decide": "retry", "result": 1},
        {"decide": "retry", "please": True},
        {"decide": "retry", "acknowledge": ["a"]},
        {"decide": "abort", "acknowledge": "a"},
        {"decide": "abort", "acknowledge": ["a"]},
        {"decide": "abort", "acknowledge": [1]},
    ],
)
def test_an_answer_that_the_question_does_not_list_is_refused(value):
    with lab(LOOK) as it:
        failed(it)
        with refused():
            it.answer("a", value)
        assert it.states == {"a": "failed"}
        assert it.run.questions


def test_an_answer_to_a_run_that_asks_nothing_is_refused():
    with lab(LOOK) as it, refused("E-NOT-ASKED"):
        it.decide("run", "continue")


# ── unknown results ───────────────────────────────────────────────────────────────────────────────────────────

MAIL = [{"id": "a", "tool": "mail"}]


def unknown(it, task="a"):
    it.times_out(task)
    assert it.run.state == "unknown-result"


def test_a_person_says_that_it_happened():
    with lab(MAIL) as it:
        unknown(it)
        it.answer("a", {"result": {"id": 5}, "evidence": "it is in the outbox"})
        assert it.states == {"a": "done"}
        assert it.run.state == "done"


def test_a_person_says_that_it_did_not_happen_and_it_is_tried_again():
    with lab(MAIL) as it:
        unknown(it)
        with refused("E-ANSWER"):
            it.decide("a", "absent")
        it.decide("a", "absent", evidence="the outbox is empty")
        assert it.decisions("a")[-1] == ("reconciled_absent", "retry")
        assert it.run.state == "running"
        it.until_due()
        assert it.task("a").attempt == 2


def test_a_verdict_needs_words_and_an_unknown_result():
    with lab([*MAIL, {"id": "b", "tool": "look"}]) as it:
        with pytest.raises(RefusedError, match="nothing to reconcile"):
            it.reconcile("a", "applied")
        it.returns("b", 1)
        unknown(it)
        for evidence in ("", " \n"):
            with refused("E-EVIDENCE"):
                it.reconcile("a", "absent", evidence=evidence)
        with pytest.raises(RefusedError, match="allowed: applied, absent"):
            it.reconcile("a", "perhaps")
        with pytest.raises(RefusedError, match="nothing to reconcile"):
            it.reconcile("b", "applied")
        with refused("E-NO-TASK"):
            it.reconcile("zz", "applied")
        it.reconcile("a", "applied", {"id": 1})
        assert it.states["a"] == "done"


def test_a_verdict_of_a_person_goes_above_done_when_but_a_probe_does_not():
    with lab([{**MAIL[0], "done_when": "id == 2"}]) as it:
        unknown(it)
        it.reconcile("a", "applied", {"id": 1})
        assert it.states == {"a": "done"}


@pytest.mark.parametrize("state", ["pending", "failed"])
def test_a_person_may_know_better_that_a_cleared_write_happened(state):
    with lab(MAIL, params={"retries": 1 if state == "pending" else 0}) as it:
        unknown(it)
        it.decide("a", "absent", evidence="not there")
        assert it.states == {"a": state}
        with pytest.raises(RefusedError, match="nothing to reconcile"):
            it.reconcile("a", "absent")
        it.reconcile("a", "applied", {"id": 1})
        assert it.states == {"a": "done"}
        assert it.run.state == "done"


def test_a_retry_of_what_is_unknown_is_refused_by_name():
    with lab(MAIL) as it:
        with pytest.raises(RefusedError, match="running; only a failed task"):
            it.retry("a")
        unknown(it)
        with refused("E-UNKNOWN"):
            it.retry("a")


def test_a_person_asks_for_one_more_probe():
    with lab([{"id": "a", "tool": "pay"}], params={"reconciles": 1}) as it:
        it.times_out("a")
        with pytest.raises(RefusedError, match="on its way"):
            it.reconcile("a", None)
        it.until_due()
        with pytest.raises(RefusedError, match="on its way"):
            it.reconcile("a", None)
        it.finds("a", "inconclusive")
        assert it.run.state == "unknown-result"
        it.reconcile("a", None)
        assert it.run.state == "running"
        it.tick(1)
        assert len(it.probes()) == 2
        it.finds("a", "inconclusive")
        it.decide("a", "probe")
        it.tick(1)
        it.finds("a", "applied", 1)
        assert it.run.state == "done"


def test_a_probe_that_a_person_wants_early_waits_until_an_effect_must_show():
    step = {"id": "a", "tool": "pay", "on_failure": {"outcome_unknown": "escalate"}}
    with lab([step]) as it:
        it.fails("a", "transient_error", "maybe")
        due = it.task("a").deadline_at + 2_000_000
        it.decide("a", "probe")
        assert it.run.next_due() == due
        it.until_due()
        assert len(it.probes()) == 1


def test_a_tool_without_a_probe_cannot_be_asked():
    with lab(MAIL) as it:
        unknown(it)
        with pytest.raises(RefusedError, match="has no probe"):
            it.reconcile("a", None)


def test_a_probe_of_what_was_acknowledged_is_still_possible():
    steps = [{"id": n, "tool": "pay", "args": {"n": n}} for n in "ab"]
    with lab(steps, params={"reconciles": 0}) as it:
        it.times_out("a")
        it.times_out("b")
        assert it.states == {"a": "unknown-result", "b": "unknown-result"}
        it.decide("a", "abort", acknowledge=["a"])
        assert it.run.state == "unknown-result"
        it.tick(5)
        it.reconcile("a", None)
        assert it.run.state == "running"
        it.tick(1)
        it.finds("a", "applied", 1)
        assert it.run.state == "unknown-result"
        it.ask("abort", "b")
        assert it.run.state == "failed"
        assert it.states == {"a": "done", "b": "unknown-result"}


def test_an_abort_over_an_unknown_result_keeps_asking_until_somebody_knows_or_accepts():
    with lab(MAIL) as it:
        unknown(it)
        it.decide("a", "abort")
        assert it.run.state == "unknown-result"
        assert "a" in it.run.questions
        with refused("E-WISH"):
            it.decide("a", "abort")
        it.decide("a", "abort", acknowledge=["a"])
        assert it.run.state == "failed"
        assert it.events("run_closed")[0].data["report"]["unknown"] == ["a"]


def test_an_acceptance_is_of_one_unknown_result_and_not_of_the_next_one():
    with lab([*MAIL, {"id": "b", "tool": "mail", "args": {"b": 1}}]) as it:
        it.times_out("a")
        it.times_out("b")
        it.ask("pause", "a")
        it.decide("a", "absent", evidence="not there")
        it.reconcile("b", "applied", 1)
        it.resume()
        it.until_due()
        it.times_out("a")
        assert it.run.acknowledged == frozenset()
        it.ask("abort")
        assert it.run.state == "unknown-result"


# ── what words are made of ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("by", ["", "  ", None, 5, ["ann"]])
def test_a_word_needs_a_speaker(by):
    with lab(BURN) as it, refused("E-NO-NAME"):
        it.approve("a", Person(by=by))


BAD = "\udcff"
ODD_WORDS = [
    Approve(task=["a"], digest="0" * 8, who=ANN),
    Reject(task=BAD, who=ANN),
    Reject(task="a", who=Person(by=BAD)),
    Reject(task="a", who=Person(by="ann", note="a\x00b")),
    Reject(task="a", who=Person(by="ann", channel=7)),
    Edit(task="a", args=[1], who=ANN),
    Edit(task="a", args={"x": float("nan")}, who=ANN),
    Edit(task="a", args={1: 2}, who=ANN),
    Answer(task="a", value=float("inf"), who=ANN),
    Answer(task="a", value={"decide": {1}}, who=ANN),
    SetInputs(values=[("a", 1)], who=ANN),
    SetInputs(values={"week": float("nan")}, who=ANN),
    SetInputs(values={3: 1}, who=ANN),
    ReconcileAs(task="a", verdict="applied", who=ANN, evidence=None),
    ReconcileAs(task="a", verdict="applied", who=ANN, evidence="x", result=2**70),
    Note(text=5, who=ANN),
    Note(text=BAD, who=ANN),
    Note(text="x", task=4, who=ANN),
    Note(text="  ", who=ANN),
    Note(text="x", task="zz", who=ANN),
    Ask(wish={"cancel": 1}, who=ANN),
    Ask(wish="cancel", who=ANN, acknowledged=(["a"],)),
]


@pytest.mark.parametrize("word", ODD_WORDS, ids=lambda w: repr(attrs.asdict(w, recurse=False))[:60])
def test_a_word_that_cannot_be_stored_or_makes_no_sense_is_refused_logged_and_changes_nothing(word):
    with lab(BURN, inputs={"week": 1}) as it:
        with refused():
            it.feed(word)
        (logged,) = it.events("move_refused")
        assert logged.data["input"] == type(word).__name__


def test_a_note_is_kept():
    with lab(BURN) as it:
        it.feed(Note(text="remember", task="a", who=ANN))
        assert it.events("note_added", task="a")[0].data == {"text": "remember", "by": "ann"}


def test_a_retry_that_the_evidence_forbids_is_an_illegal_transition():
    with lab([{"id": "a", "tool": "pay", "done_when": "ok == true"}], params={"retries": 0}) as it:
        it.times_out("a")
        it.until_due()
        it.finds("a", "absent")
        old = it.question("a")
        it.returns("a", {"ok": False})
        assert old.answers != it.question("a").answers
        with pytest.raises((IllegalTransitionError, RefusedError)):
            it.decide("a", "retry")
