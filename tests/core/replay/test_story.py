"""A story holds every plan, decision, question and effect of its log, and knows of an effect what the log proves."""

import pytest

from fsm_agent.core.engine.decide import state_digest
from fsm_agent.core.errors import CorruptError
from fsm_agent.core.replay.player import Replay
from fsm_agent.core.replay.story import METERS, story
from fsm_agent.runtime.configs import read_rules
from tests.core.kit import lab, value
from tests.core.replay.logs import SEEDS, named, scenario, simulated

RAN = [path for path in SEEDS if not scenario(path).expect.refused]


def told(it, table=None):
    return story(Replay(it.run.id, it.records, it.store.blob), table=table)


def simulated_story(path):
    _, store = simulated(path)
    return story(Replay("simulation", store.read("simulation"), store.blob))


@pytest.mark.parametrize("path", RAN, ids=lambda path: path.stem[4:40])
def test_every_log_is_told_whole(path):
    found = simulated_story(path)
    log = found.log.events
    assert [d.seq for d in found.decisions] == [e.seq for e in log if e.type == "decided"]
    assert [p.seq for p in found.plans] == [e.seq for e in log if e.type == "plan_adopted"]
    assert [p.version for p in found.plans] == list(range(1, len(found.plans) + 1))
    assert [q.seq for q in found.questions] == [e.seq for e in log if e.type == "approval_requested"]
    replies = [r.seq for q in found.questions for r in q.replies]
    assert sorted(replies) == [e.seq for e in log if e.type == "approval_answered"]
    intents = [
        e
        for e in log
        if e.type == "task_moved" and e.data["trigger"] == "start" and e.data["effect"] != "read"
    ]
    assert [e.seq for e in found.effects] == [e.seq for e in intents]
    assert sum(found.rows.values()) == len(found.decisions)
    assert state_digest(found.run) == state_digest(found.log.run)
    assert found.created == log[0].data


@pytest.mark.parametrize("path", RAN, ids=lambda path: path.stem[4:40])
def test_the_ledger_knows_as_many_effects_as_the_world(path):
    """What the world did, the log must know of: as done, or as possibly done."""
    result, _ = simulated(path)
    found = simulated_story(path)
    known = {e.key for e in found.effects if e.applied != "no"}
    assert {done.key for done in result.ledger if done.key} <= known
    keys = [done.key for done in result.ledger]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("path", RAN, ids=lambda path: path.stem[4:40])
def test_meters_only_rise_and_end_where_the_account_ends(path):
    found = simulated_story(path)
    for index, name in enumerate(METERS):
        amounts = [u.amounts[index] for u in found.used]
        assert amounts == sorted(amounts)
        assert amounts[-1] == int(getattr(found.run.account, name))
    assert [u.at for u in found.used] == sorted(u.at for u in found.used)


def test_an_approval_names_what_was_shown_who_said_yes_and_which_call_consumed_it():
    with lab([{"id": "w", "tool": "burn", "args": {"n": 1}}]) as it:
        it.edit("w", n=2)
        it.approve("w")
        it.returns("w", 7)
    found = told(it, read_rules("default"))
    first, second = found.questions
    assert (first.args, first.replies[0].verdict, first.used_by) == ({"n": 1}, "edited", None)
    assert first.replies[0].value == {"n": 2}
    assert (second.args, second.replies[0].by) == ({"n": 2}, "ann")
    (effect,) = found.effects
    assert second.used_by == effect.seq
    assert effect.approval == second.replies[0].seq
    assert (effect.applied, effect.proof[0][1]) == ("yes", "succeed")
    assert found.decisions[0].where.startswith("default:")


def test_an_effect_is_known_from_everything_that_says_something_of_it():
    with lab([{"id": "w", "tool": "pay"}]) as it:
        it.times_out("w")
        assert told(it).effects[0].applied == "maybe"
        it.until_due()
        it.finds("w", "absent")
        assert told(it).effects[0].applied == "no"
        it.until_due()
        it.returns("w", 1)
    found = told(it)
    assert [(e.attempt, e.applied) for e in found.effects] == [(1, "no"), (2, "yes")]
    assert [words for _, words in found.effects[0].proof] == ["lose", "the probe of pay says absent"]
    assert found.effects[0].key == found.effects[1].key


def test_a_late_reply_is_evidence_and_nothing_says_it_away():
    with lab([{"id": "w", "tool": "pay"}]) as it:
        it.times_out("w")
        it.until_due()
        it.finds("w", "absent")
        it.until_due()
        it.ends("w", value(5), attempt=1)
        it.returns("w", 6)
    first, second = told(it).effects
    assert (first.applied, first.proof[-1][1]) == ("yes", "a late reply")
    assert second.applied == "yes"


def test_a_late_reply_of_a_read_is_no_effect():
    with lab([{"id": "r", "tool": "look"}]) as it:
        it.times_out("r")
        it.ends("r", value(5), attempt=1)
    assert told(it).effects == ()


def test_limits_are_those_at_the_end():
    with lab([{"id": "a", "tool": "look"}], budgets={"tool_calls": 5, "active_s": 60}) as it:
        it.returns("a")
    found = told(it)
    assert found.limits["tool_calls"] == 5
    assert found.limits["active_us"] == 60_000_000
    assert found.limits["tokens"] is None
    begun = story(Replay("r", it.records[:1], it.store.blob))
    assert set(begun.limits.values()) == {None}
    assert begun.plans == ()


def test_a_plan_says_what_it_has_of_the_one_before_and_why():
    found = simulated_story(named("a-missing-source-becomes"))
    second = found.plans[1]
    assert second.why
    assert second.explanation
    assert set(second.diff) >= {"kept", "changed", "added", "removed"}
    assert found.plans[0].why == ""


def test_an_empty_log_tells_nothing():
    with pytest.raises(CorruptError, match="it is empty"):
        story(Replay("r", [], lambda _: b""))
