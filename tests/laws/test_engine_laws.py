"""Laws of the engine under chance: one effect, no lost wake-up, no illegal move, a log that audits clean."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.laws.chaos import Chaos

BATCH = 25


@pytest.mark.parametrize("first", range(0, 500, BATCH))
def test_five_hundred_interleavings_of_results_crashes_words_and_wishes_each_come_to_one_good_end(first):
    for seed in range(first, first + BATCH):
        try:
            Chaos(random.Random(seed).randrange).live(30)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_history_can_be_decided_twice_folded_and_audited(data):
    def choose(n):
        return data.draw(st.integers(0, n - 1))

    Chaos(choose, checked=True).live(12)
