"""A crash at every operation of the store and every edge of an effect, and another at every operation of the recovery.

What must come out is what comes out when nothing ends: the same effects, once each, and the same final state.
"""

import random
from collections import Counter

import pytest

from fsm_agent.testing.faulty_store import FaultyStore
from tests.crash.rig import GROWN, PLAN, Cut, check, lives, picture

STORIES = ("fine", "reply lost", "request lost")
KINDS = ("crash-before", "crash-after", "error-before", "error-after")


def first_cuts(ops):
    """Every way the first process can end."""
    calls, edges = ops
    for at in range(1, calls + 1):
        for kind in KINDS:
            for kept in (False, True):
                yield Cut(kind, at, kept)
    yield from edge_cuts(edges)


def later_cuts(ops, *, every):
    """How a recovery can end. What ends before a call is what ended after the one before it, so one of each will do."""
    calls, edges = ops
    for at in range(1, calls + 1):
        for kind in KINDS if every else ("crash-after",):
            yield Cut(kind, at, kept=False)
            yield Cut(kind, at, kept=True)
    yield from edge_cuts(edges)


def edge_cuts(edges):
    for at in range(1, edges + 1):
        yield Cut("edge", at, kept=False)
        yield Cut("edge", at, kept=True)


def assert_as_if_nothing_had_ended(story, cuts, calm, plan=PLAN):
    run, world, store, ops = lives(story, cuts, plan=plan)
    assert picture(run, world) == calm, cuts
    assert len(set(world.effects)) == len(world.effects)
    check(run, store)
    return ops


@pytest.mark.parametrize("story", STORIES)
def test_without_a_crash_each_effect_happens_once(story):
    run, world, store, (calls, edges) = lives(story, [])
    check(run, store)
    assert run.state == "done"
    assert [name for name, _ in world.effects] == ["put", "pay", "send"]
    assert calls >= 10
    assert edges >= 6


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("story", STORIES)
def test_two_crashes_anywhere_change_nothing(story, part, full):
    run, world, _, ops = lives(story, [])
    calm = picture(run, world)
    cuts = [cut for cut in first_cuts(ops) if full or cut.kind not in ("crash-before", "error-before")]
    pairs = 0
    for first in cuts[part::4]:
        recovery = assert_as_if_nothing_had_ended(story, [first], calm)
        for second in later_cuts(recovery, every=full):
            assert_as_if_nothing_had_ended(story, [first, second], calm)
            pairs += 1
    assert pairs > 100


@pytest.mark.parametrize("story", STORIES)
def test_crashes_change_nothing_in_a_batch_and_a_nested_plan_either(story, full):
    """One crash anywhere; then two to five in a row, drawn at random, the seed is the number."""
    run, world, _, ops = lives(story, [], plan=GROWN)
    assert run.state == "done"
    assert Counter(name for name, _ in world.effects) == {"put": 3, "pay": 1, "send": 1}
    calm, cuts = picture(run, world), list(first_cuts(ops))
    for cut in cuts:
        assert_as_if_nothing_had_ended(story, [cut], calm, GROWN)
    for seed in range(5_000 if full else 60):
        rng = random.Random(seed)
        chosen = [rng.choice(cuts) for _ in range(rng.randint(2, 5))]
        assert_as_if_nothing_had_ended(story, chosen, calm, GROWN)


class Forgetful(FaultyStore):
    """A store whose barriers are none: what was acknowledged may be gone after a power cut."""

    def append(self, lease, expected, records, *, barrier, **more):
        return super().append(lease, expected, records, barrier=False, **more)


def test_the_test_would_see_an_effect_whose_intent_was_not_durable():
    run, world, _, ops = lives("fine", [])
    calm = picture(run, world)
    wrong = 0
    for cut in first_cuts(ops):
        run, world, *_ = lives("fine", [cut], Forgetful)
        wrong += picture(run, world)["effects"] != calm["effects"]
    assert wrong > 3


@pytest.mark.parametrize("story", STORIES)
def test_many_crashes_in_a_row_change_nothing(story, full):
    """Drawn at random, three to six in a row; the seed is the number."""
    run, world, _, ops = lives(story, [])
    calm = picture(run, world)
    cuts = list(first_cuts(ops))
    for seed in range(20_000 if full else 250):
        rng = random.Random(seed)
        chosen = [rng.choice(cuts) for _ in range(rng.randint(3, 6))]
        assert_as_if_nothing_had_ended(story, chosen, calm)
