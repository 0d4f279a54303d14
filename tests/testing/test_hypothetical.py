"""Beyond the first decision that differs only a declared world can speak, of itself, and only if it tells the log's story."""

import attrs
import pytest

from fsm_agent.core.errors import CorruptError, UsageError
from fsm_agent.core.replay.whatif import what_if
from fsm_agent.runtime.configs import load_rules
from fsm_agent.testing.hypothetical import beyond
from fsm_agent.testing.scenario import parse
from fsm_agent.testing.simulate import simulate
from tests.audits import clean
from tests.core.replay.logs import log_of, named, scenario, simulated

FLAKY = {"raise": {"class": "ConnectionRefusedError", "message": "refused"}}


def world(*calls, **more):
    return parse(
        {
            "name": "w",
            "plan": {"steps": [{"id": "a", "tool": "look"}]},
            "tools": {"look": {"effect": "read", "calls": list(calls)}},
            **more,
        },
        "w",
    )


def recorded(story):
    return clean(simulate(story)).events


def asked(log, table, scenario):
    return beyond(what_if([("r", log)], table), "r", log, table, scenario)


def test_the_world_that_the_log_came_from_shows_both_stories_and_neither_is_called_a_fact():
    story = world(FLAKY, FLAKY, {"return": 1})
    log = recorded(story)
    found = asked(log, load_rules("default", {"retries": 1}), story)
    assert (found.apart, found.old.run, found.new.run) == ("", "done", "awaiting-confirmation")
    assert found.old.calls == {"look": 3}
    assert found.new.calls == {"look": 2}
    assert found.new.questions == 1
    assert found.to_json()["hypothetical"] is True


def test_a_world_that_tells_another_story_before_any_decision_differs_says_nothing():
    log = recorded(world(FLAKY, FLAKY, {"return": 1}))
    found = asked(log, load_rules("default", {"retries": 1}), world({"return": 1}))
    assert (found.old, found.new) == (None, None)
    assert "the log says of a: fail; in this world it is succeed" in found.apart


def test_a_world_that_ends_earlier_says_nothing_either():
    log = recorded(world(FLAKY, {"return": 1}))
    short = world(FLAKY, workers=1)
    cut = attrs.evolve(short, operator=())
    found = asked(log, load_rules("default"), cut)
    assert "in this world it is" in found.apart


def test_a_world_may_differ_behind_the_first_difference():
    log = recorded(world(FLAKY, FLAKY, {"return": 1}))
    other = load_rules("default", {"retries": 0})
    assert asked(log, other, world(FLAKY, {"return": 2})).apart == ""


def test_a_world_is_declared_for_one_plan():
    log = recorded(world({"return": 1}))
    another = world({"return": 1}, plan={"steps": [{"id": "b", "tool": "look"}]})
    with pytest.raises(UsageError, match="its plan is not the first plan of run r"):
        asked(log, load_rules("default"), another)
    refused = world({"return": 1}, plan={"steps": []}, expect={"refused": ["empty"]})
    with pytest.raises(UsageError, match="its plan is not"):
        asked(log, load_rules("default"), refused)


def test_a_log_without_a_plan_has_nothing_to_go_on_with():
    story = world({"return": 1})
    log = recorded(story)
    with pytest.raises(CorruptError, match="it has no plan"):
        beyond(what_if([("r", log)], load_rules("default")), "r", log[:1], load_rules("default"), story)


def test_a_scenario_with_crashes_people_and_replans_is_its_own_world():
    for words in ("killed-while-the-ticket-is-made", "local-local-global", "a-missing-source-becomes"):
        path = named(words)
        result, _ = simulated(path)
        found = asked(result.events, load_rules("conservative"), scenario(path))
        assert found.apart == "", words
        assert found.old.run == result.run
        assert log_of(path)
