"""Whoever answers too late is told how the question was answered, and by whom."""

import pytest

from fsm_agent.core.errors import RefusedError
from tests.core.kit import BOB, lab

ASKS = {"id": "a", "tool": "pay", "requires_confirmation": True}


def test_a_no_after_a_yes_is_told_who_said_yes():
    with lab([ASKS]) as given:
        given.approve("a")
        with pytest.raises(RefusedError, match=r"approved by ann, state running"):
            given.reject("a", BOB)
        given.returns("a", {"n": 1})
        with pytest.raises(RefusedError, match=r"approved by ann, state done"):
            given.approve("a", BOB, digest="0" * 8)


def test_a_yes_after_a_no_is_told_who_said_no():
    with lab([ASKS]) as given:
        digest = given.question("a").digest
        given.reject("a", BOB)
        with pytest.raises(RefusedError, match=r"rejected by bob, state cancelled"):
            given.approve("a", digest=digest)


def test_a_word_after_the_time_given_is_told_that_it_expired():
    with lab([{**ASKS, "confirm_within_s": 60}, {"id": "b", "tool": "look"}]) as given:
        digest = given.question("a").digest
        given.tick(61)
        if "a" in given.run.questions:  # a failure of this kind is a question again
            given.decide("a", "abort")
        with pytest.raises(RefusedError, match="asks for nothing now"):
            given.approve("a", digest=digest)


def test_who_was_never_asked_is_told_only_the_state():
    with lab([{"id": "a", "tool": "look"}]) as given:
        with pytest.raises(RefusedError, match=r"nothing now \(state running\)"):
            given.approve("a", digest="0" * 8)
        given.returns("a", 1)
