"""Bars: every stretch of a run lies in exactly one bar of its kind, begins and ends with an event, and none is lost."""

from itertools import pairwise

import pytest

from fsm_agent.core.replay.bars import KINDS, Bars, rows
from tests.core.kit import BOB, lab
from tests.core.replay.logs import SEEDS, log_of, named, scenario

RAN = [path for path in SEEDS if not scenario(path).expect.refused]
NAMES = [path.stem[4:40] for path in RAN]


def told(log):
    bars = Bars()
    for event in log:
        bars.add(event)
    return bars.told()


def of(log, kind, task=None):
    return [b for b in told(log) if b.kind == kind and task in (None, b.task)]


@pytest.mark.parametrize("path", RAN, ids=NAMES)
def test_every_call_and_every_unknown_result_has_its_bar(path):
    log = log_of(path)
    starts = [e.seq for e in log if e.type == "task_moved" and e.data["trigger"] == "start"]
    lost = [e.seq for e in log if e.type == "task_moved" and e.data["trigger"] == "lose"]
    asked = [e.seq for e in log if e.type == "approval_requested"]
    assert [b.seq for b in of(log, "call")] == starts
    assert sorted(b.seq for b in of(log, "unknown")) == lost
    assert sorted(b.seq for b in of(log, "person")) == asked


@pytest.mark.parametrize("path", RAN, ids=NAMES)
def test_bars_of_a_kind_do_not_overlap_in_a_row_and_lie_within_the_log(path):
    log = log_of(path)
    found = told(log)
    for task in {b.task for b in found}:
        for kind in KINDS:
            own = [b for b in found if (b.task, b.kind) == (task, kind)]
            assert all(a.end <= b.start for a, b in pairwise(own)) or kind == "cooldown"
            assert all(log[0].at <= b.start <= b.end for b in own)
            assert all(b.until is None or b.until >= b.seq for b in own)
    assert [b.start for b in found] == sorted(b.start for b in found)


def test_a_bar_that_is_open_at_the_end_says_so():
    with lab([{"id": "a", "tool": "look"}]) as it:
        log = it.events()
        (call,) = of(log, "call")
        assert (call.until, call.outcome, call.end) == (None, "", log[-1].at)
        it.returns("a")
    (call,) = of(it.events(), "call")
    assert call.outcome == "done"


def test_a_lost_result_is_unknown_and_looked_up_until_evidence():
    with lab([{"id": "w", "tool": "pay"}]) as it:
        it.times_out("w")
        it.until_due()
        it.finds("w", "inconclusive")
        it.until_due()
        it.finds("w", "applied", 1)
    log = it.events()
    assert [b.outcome for b in of(log, "probe")] == ["inconclusive", "applied"]
    assert [b.outcome for b in of(log, "unknown")] == ["done"]
    assert of(log, "call")[0].outcome == "unknown-result"


def test_a_probe_that_is_overtaken_by_a_late_reply_ends_with_it():
    with lab([{"id": "w", "tool": "pay"}]) as it:
        it.times_out("w")
        it.until_due()
        it.returns("w", 1)
    assert [b.outcome for b in of(it.events(), "probe")] == ["done"]


def test_waiting_before_another_try_is_a_bar_and_a_pause_of_a_millisecond_is_none():
    with lab([{"id": "a", "tool": "look"}]) as it:
        it.fails("a")
        it.until_due()
        it.fails("a", "not_found")
        it.retry("a")
        it.until_due()
        it.returns("a")
    (wait,) = of(it.events(), "backoff")
    assert wait.outcome == "running"


def test_a_question_lasts_until_the_last_of_those_who_must_has_said_yes():
    with lab([{"id": "w", "tool": "mail", "requires_confirmation": True, "approvers": 2}]) as it:
        it.approve("w")
        it.approve("w", BOB)
        it.returns("w")
    (asked,) = of(it.events(), "person")
    assert asked.outcome == "approved"
    assert asked.until == next(e.seq for e in it.events("task_moved") if e.data["trigger"] == "approve")


def test_a_question_that_is_asked_anew_is_two_and_one_that_the_end_leaves_open_ends_there():
    with lab([{"id": "w", "tool": "mail", "requires_confirmation": True}, {"id": "x", "tool": "look"}]) as it:
        it.edit("w", n=1)
        it.fails("x", "auth_denied")
        it.ask("cancel")
    found = of(it.events(), "person", "w")
    assert [b.outcome for b in found] == ["asked anew", "cancelled"]
    assert [b.outcome for b in of(it.events(), "person", "x")] == ["cancelled"]


def test_a_question_about_the_run_ends_with_the_run():
    with lab(
        [{"id": "a", "tool": "look"}], constraints=[{"key": "k", "value": 1, "check": "n <= value"}]
    ) as it:
        it.returns("a", {"n": 2})
        it.ask("cancel")
    (asked,) = of(it.events(), "person", "run")
    assert asked.outcome == "the run ended"


def test_replans_last_until_the_plan_is_there_and_cool_downs_lie_within():
    log = log_of(named("a-cooldown-delays"))
    replans, cools = of(log, "replan"), of(log, "cooldown")
    assert {b.outcome.split()[0] for b in replans} == {"plan"}
    assert cools
    for cool in cools:
        assert any(r.start <= cool.start and cool.end <= r.end for r in replans)


def test_a_replan_that_cannot_be_had_ends_at_the_gate_that_said_so():
    found = [b for path in RAN for b in of(log_of(path), "replan")]
    assert "infeasible" in {b.outcome for b in found}


def test_a_result_that_the_end_leaves_unknown_stays_so():
    with lab([{"id": "w", "tool": "mail"}]) as it:
        it.times_out("w")
        it.ask("cancel", "w")
    assert it.run.closed
    (bar,) = of(it.events(), "unknown")
    assert (bar.until, bar.outcome) == (None, "")


def test_what_happens_to_the_whole_run_is_a_mark():
    bars = Bars()
    for event in log_of(named("killed-while-the-ticket-is-made")):
        bars.add(event)
    kinds = [mark.kind for mark in bars.marks]
    assert kinds[:2] == ["plan_adopted", "run_moved"]
    assert "owner_changed" in kinds
    with lab([{"id": "a", "tool": "look"}], inputs={"week": 1}) as it:
        it.set(week=2)
        it.ask("pause")
        it.returns("a")
        it.resume()
    bars = Bars()
    for event in it.events():
        bars.add(event)
    assert {"input_changed", "run_asked"} <= {mark.kind for mark in bars.marks}


def test_rows_stand_in_the_order_of_the_plan_the_run_first_if_it_has_any():
    with lab([{"id": "b", "tool": "look"}, {"id": "a", "tool": "look", "depends_on": ["b"]}]) as it:
        it.returns("b")
        it.returns("a")
    assert [name for name, _ in rows(told(it.events()), ("b", "a", "c"))] == ["b", "a", "c"]
    with lab(
        [{"id": "a", "tool": "look"}], constraints=[{"key": "k", "value": 1, "check": "n <= value"}]
    ) as it:
        it.returns("a", {"n": 2})
    assert [name for name, _ in rows(told(it.events()), ("a",))] == ["run", "a"]
