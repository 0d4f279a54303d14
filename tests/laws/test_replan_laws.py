"""Laws of plans that change: whatever is proposed, done work stays, effects happen once, everything has an end."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.laws.replans import Gamble

BATCH = 40


@pytest.mark.parametrize("first", range(0, 400, BATCH))
def test_four_hundred_plans_with_proposals_of_every_kind_keep_the_laws(first):
    for seed in range(first, first + BATCH):
        try:
            Gamble(random.Random(seed).randrange).play()
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_proposal_to_any_plan_keeps_the_laws(data):
    def choose(n):
        return data.draw(st.integers(0, n - 1))

    Gamble(choose).play()


def test_the_gambles_are_worth_their_name():
    """Plans are adopted and refused for many reasons, and things go wrong and right."""
    gates, origins, ends = set(), set(), set()
    for seed in range(200, 400):
        result = Gamble(random.Random(seed).randrange).play()
        gates |= {e.data["gate"] for e in result.events if e.type == "replan_refused"}
        origins |= {e.data["origin"] for e in result.events if e.type == "plan_adopted"}
        ends.add(result.run)
    assert gates >= {"parse", "validate", "scope", "reuse", "strategy", "planner", "infeasible"}
    assert origins >= {"initial", "model", "rule", "alternative", "human"}
    assert ends >= {"done", "awaiting-confirmation", "unknown-result"}
