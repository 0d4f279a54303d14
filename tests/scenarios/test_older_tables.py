"""A run that began with a table of the first release goes on as that release would have gone on, and passes its audit."""

from pathlib import Path

import attrs

from fsm_agent.core.rules import table as tables
from fsm_agent.runtime.configs import load_rules
from fsm_agent.testing.scenario import load
from fsm_agent.testing.simulate import simulate
from tests.audits import clean

HERE = Path(__file__).parent


def played(name):
    """Play a scenario, without its people, with the default table as it stands in a log of the first release."""
    canonical = dict(load_rules("default", {}).canonical)
    canonical["params"] = {k: v for k, v in canonical["params"].items() if k != "longest_wait_s"}
    scenario = attrs.evolve(load(HERE / f"{name}.json"), operator=())
    return clean(simulate(scenario, rules=tables.from_canonical(canonical)))


def decided(result):
    return [(e.data["signal"], e.data["decide"]) for e in result.events if e.type == "decided" and e.task]


def test_a_look_up_that_no_budget_is_left_for_was_tried_until_none_was_left():
    result = played("budget/a-look-up-that-no-call-is-left-for-is-a-question-at-once")
    assert decided(result)[:2] == [("outcome_unknown", "reconcile"), ("reconcile_inconclusive", "reconcile")]
    assert decided(result)[-1] == ("reconcile_inconclusive", "escalate")


def test_a_wait_was_waited_however_long():
    result = played("retry/a-wait-of-ten-years-is-not-a-wait")
    assert decided(result) == [("rate_limited", "retry"), ("success", "accept")]
