"""A replay: the state at any event is the fold up to there, however one came to stand there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.audit import replay as folding
from fsm_agent.core.engine.decide import state_digest
from fsm_agent.core.errors import CorruptError, NotFoundError, UsageError
from fsm_agent.core.events import chain, genesis
from fsm_agent.core.replay.player import Break, Replay, breaking, signals_of
from tests.core.kit import lab


def a_run():
    """A read that fails twice, a write whose result is lost and found, and a question in between."""
    with lab([{"id": "a", "tool": "look"}, {"id": "w", "tool": "pay", "depends_on": ["a"]}]) as it:
        it.fails("a")
        it.until_due()
        it.returns("a", {"n": 1})
        it.times_out("w")
        it.until_due()
        it.finds("w", "applied", {"id": 7})
    return it


RUN = a_run()
LAST = RUN.run.seq


def player(**more):
    return Replay("r", RUN.records, RUN.store.blob, **more)


def folded(seq):
    return state_digest(folding.replay("r", RUN.records, RUN.store.blob, until=seq))


@given(st.lists(st.integers(0, LAST), max_size=6))
def test_wherever_it_went_before_the_state_is_the_fold_up_to_its_place(places):
    it = player()
    for place in places:
        assert state_digest(it.at(place)) == (folded(place) if place else state_digest(player().run))
        assert it.seq == place
        assert it.head.seq == place


@given(st.lists(st.integers(-9, 9), max_size=8))
def test_steps_forth_and_back_stay_within_the_log(steps):
    it, at = player(), 0
    for step in steps:
        run = it.forward(step) if step >= 0 else it.back(-step)
        at = min(LAST, max(0, at + step))
        assert it.seq == run.seq == at


def test_it_begins_before_the_first_event_and_iterating_leads_to_the_end():
    it = player()
    assert (it.seq, it.event, it.head, len(it)) == (0, None, genesis("r"), LAST)
    seen = [(moment.event.seq, moment.run.seq) for moment in it]
    assert seen == [(n, n) for n in range(1, LAST + 1)]
    assert it.event.type == "run_closed"
    assert it.head == RUN.engine.head
    assert list(it) == []
    assert repr(it) == f"<replay of r: at event {LAST} of {LAST}, done>"


def test_iterating_goes_on_from_the_place():
    it = player()
    it.at(LAST - 2)
    assert [moment.event.seq for moment in it] == [LAST - 1, LAST]


def test_nothing_is_read_after_the_event_that_is_named():
    assert player(until=4).end().seq == 4
    assert player(until=4).last == 4


def test_an_event_that_is_not_there_is_refused_and_the_place_stays():
    it = player()
    it.at(3)
    for seq in (-1, LAST + 1):
        with pytest.raises(NotFoundError, match=f"has events 1 to {LAST}"):
            it.at(seq)
    assert it.seq == 3


def test_it_stops_at_a_task_a_signal_a_decision_and_at_all_of_them_together():
    it = player()
    assert it.to(Break(decision="retry")).data["signal"] == "transient_error"
    assert it.to(Break(signal="outcome_unknown")).data["trigger"] == "lose"
    assert it.to(Break(task="w", decision="reconcile")).data["rule"] == "reconcile"
    assert it.run.tasks["w"].state == "unknown-result"
    here = it.seq
    assert it.to(Break(task="a")) is None
    assert it.seq == here
    assert it.to(Break(task="a", signal="success"), back=True).data["decide"] == "accept"
    assert it.to(Break(task="run", decision="retry"), Break(task="run")).type == "run_moved"


def test_going_back_stops_before_the_place_and_not_at_it():
    it = player()
    it.at(LAST)
    moves = [e.seq for e in it.events if e.type == "run_moved"]
    assert it.to(Break(task="run"), back=True).seq == LAST - 1 == moves[-1]
    it.at(1)
    assert it.to(Break(task="run"), back=True) is None


def test_a_replan_of_either_scope_is_a_replan():
    with_scope = RUN.events("decided")[0]._replace(data={"decide": "replan-local", "signal": "not_found"})
    assert Break(decision="replan").fits(with_scope)
    assert Break(decision="replan-local").fits(with_scope)
    assert not Break(decision="replan-global").fits(with_scope)


def test_where_to_stop_can_be_written_down():
    assert breaking("task=T6, decision=retry") == Break(task="T6", decision="retry")
    assert breaking("signal=outcome_unknown") == Break(signal="outcome_unknown")
    assert breaking("decision=replan") == Break(decision="replan")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("T6", "write task=ID"),
        ("task=", "write task=ID"),
        ("state=done", "write task=ID"),
        ("signal=oops", "there is no signal oops; there are success"),
        ("decision=oops", "there is no decision oops; there are accept"),
    ],
)
def test_what_is_no_place_to_stop_is_refused_with_what_would_be(text, says):
    with pytest.raises(UsageError, match=says):
        breaking(text)


def test_the_signals_of_an_event_are_those_it_carries_the_final_one_first():
    found = {e.seq: signals_of(e) for e in player().events}
    moved = next(e for e in player().events if e.data.get("trigger") == "lose")
    assert found[moved.seq] == ("outcome_unknown", "transient_error")
    assert found[1] == ()
    asked = moved._replace(type="replan_requested", data={"trigger": "not_found"})
    assert signals_of(asked) == ("not_found",)


def test_a_log_that_was_changed_is_not_replayed():
    with pytest.raises(CorruptError):
        Replay("r", RUN.records[1:], RUN.store.blob)
    body = RUN.records[0].body.replace(b'"seq":1', b'"seq":2')
    forged = RUN.records[0]._replace(body=body, hash=chain(genesis("r").hash, body))
    with pytest.raises(CorruptError, match="the body of event 1 says seq 2"):
        Replay("r", [forged], RUN.store.blob)
