"""Causes: from an event back to what it came from, over calls, questions and look-ups, each in a sentence."""

import pytest

from fsm_agent.core.audit.causes import MAX_CHAIN, chain, words_of
from fsm_agent.core.events import TYPES, Event
from fsm_agent.core.inputs import Note
from tests.core.kit import ANN, lab, value
from tests.core.replay.logs import SEEDS, log_of, scenario

RAN = [path for path in SEEDS if not scenario(path).expect.refused][::3]


def words(log, event):
    return [link.words for link in chain(log, event)]


def last(it, task, trigger):
    return [e for e in it.events("task_moved", task=task) if e.data["trigger"] == trigger][-1]


@pytest.mark.parametrize("path", RAN, ids=lambda path: path.stem[4:40])
def test_a_chain_goes_back_ends_at_its_event_and_every_link_is_a_sentence(path):
    log = log_of(path)
    for event in log:
        found = chain(log, event)
        seqs = [link.seq for link in found]
        assert seqs == sorted(set(seqs))
        assert seqs[-1] == event.seq
        assert len(found) <= MAX_CHAIN
        assert all(link.words and "\n" not in link.words.split(": ")[0] for link in found)


@pytest.mark.parametrize("path", RAN, ids=lambda path: path.stem[4:40])
def test_the_end_of_a_call_leads_back_to_its_start(path):
    log = log_of(path)
    for event in log:
        if event.type == "task_moved" and "outcome" in event.data:
            before = chain(log, event)[-2]
            assert f"{event.task} called" in before.words
            assert before.words.split("attempt ")[1].split(",")[0] == str(event.data["attempt"])


def test_a_lost_result_is_told_from_the_question_to_the_evidence():
    with lab([{"id": "w", "tool": "pay", "requires_confirmation": True, "description": "pay it?"}]) as it:
        it.edit("w", n=2)
        it.approve("w")
        it.times_out("w")
        it.until_due()
        it.finds("w", "applied", 7)
    told = words(it.events(), last(it, "w", "settle"))
    approval = it.starts("w")[0].data["approval"]
    assert told[-10:] == [
        "w asked a person: pay it?",
        "ann edited w",
        "w asked a person: pay it?",
        "ann approved w",
        f"w called pay, attempt 1, as approved (event {approval})",
        "w has an unknown result: pay gave no answer before its deadline; nobody waits any more, it may still be running",
        "on outcome_unknown of w the table decided reconcile (row reconcile)",
        "it was looked up what became of w",
        "a look-up says applied of w: the probe of pay says applied",
        "w is done, on evidence: the probe of pay says applied",
    ]


def test_what_people_say_names_them_and_their_words():
    with lab([{"id": "w", "tool": "mail"}, {"id": "q", "description": "which?"}]) as it:
        it.times_out("w")
        it.reconcile("w", "absent", evidence="I called them")
        it.answer("q", 1)
        it.ask("pause")
        it.resume()
        it.set(**{"budgets.tool_calls": 9})
        it.feed(Note(text="well", who=ANN))
        it.until_due() if it.task("w").state == "pending" else None
        it.returns("w") if it.task("w").state == "running" else None
    said = [words_of(e) for e in it.events()]
    for sentence in (
        "ann says absent of w: I called them",
        "ann answered q",
        "q is done, with the answer of a person by ann",
        "ann set tool_calls of the run",
        "a note on the run: well",
    ):
        assert sentence in said, sentence
    assert any(s.startswith("ann asked the run to pause") for s in said)
    told = words(it.events(), last(it, "w", "clear"))
    assert told[-2:] == ["ann says absent of w: I called them", "w failed: I called them"]
    assert told[-3].startswith("w has an unknown result")


def test_a_late_reply_leads_back_to_the_attempt_that_it_is_of():
    with lab([{"id": "w", "tool": "pay"}]) as it:
        it.times_out("w")
        it.ends("w", value(7), attempt=1)
    told = words(it.events(), last(it, "w", "settle"))
    assert told[-3:] == [
        "w called pay, attempt 1",
        "attempt 1 of w answered late",
        "w is done, on evidence: the reply of attempt 1 arrived after its deadline",
    ]


def test_an_answer_to_an_escalation_says_what_was_decided():
    with lab([{"id": "r", "tool": "look"}]) as it:
        it.fails("r", "auth_denied")
        it.decide("r", "retry", note="now there is a key")
        it.until_due()
        it.returns("r")
    said = [words_of(e) for e in it.events()]
    assert "ann answered r with retry" in said
    assert any(s.startswith("r is tried again in 0.001 s by ann") for s in said)


def test_a_question_that_nobody_answered_says_so():
    with lab([{"id": "w", "tool": "mail", "requires_confirmation": True, "confirm_within_s": 5}]) as it:
        it.until_due()
        it.ask("cancel")
    assert "nobody answered w in time" in [words_of(e) for e in it.events()]


BARE = {
    "late_result": {"attempt": 2},
    "move_refused": {"message": "no"},
    "owner_changed": {"owner": "me"},
    "planner_asked": {"scope": "local"},
    "progressed": {"advanced": False, "note": "still"},
    "replan_refused": {"gate": "scope", "why": "too wide"},
    "replan_requested": {"scope": "global", "why": "not_found"},
    "run_asked": {"wish": "none", "by": "ann"},
    "run_closed": {"report": {"state": "done"}},
    "run_forked": {"from": {"run": "r"}, "by": "ann"},
    "input_changed": {"inputs": {"week": 1}, "constraints": {}},
}


@pytest.mark.parametrize(
    ("type_", "says"),
    [
        ("late_result", "attempt 2 of t answered late"),
        ("move_refused", "a word to t was refused: no"),
        ("owner_changed", "another owner took t over (me)"),
        ("planner_asked", "the planner was asked about t (local)"),
        ("progressed", "t reported no progress: still"),
        ("replan_refused", "no plan for t (scope): too wide"),
        ("replan_requested", "another plan was wanted for t (global): not_found"),
        ("run_asked", "ann lifted the pause of t"),
        ("run_closed", "t was closed as done"),
        ("run_forked", "t was forked from r by ann"),
        ("input_changed", "somebody set week of t"),
    ],
)
def test_every_other_kind_of_event_has_its_sentence(type_, says):
    assert words_of(Event(1, 1, type_, BARE[type_], "t")) == says


def test_a_wish_of_a_decision_is_no_persons_and_a_type_of_tomorrow_is_named():
    assert words_of(Event(1, 1, "run_asked", {"wish": "abort", "reason": "gone"})) == (
        "a decision asked the run to abort: gone"
    )
    assert words_of(Event(1, 1, "moon_rose", {}, "t")) == "moon rose of t"
    assert words_of(Event(1, 1, "progressed", {"advanced": True}, "t")) == "t reported progress"
    assert "moon_rose" not in TYPES
