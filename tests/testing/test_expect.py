"""Expectations: what counts as met, and how what was missed reads."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent.testing.document import Node
from fsm_agent.testing.expect import Observed, failures, matches, parse, same


def observed(**parts):
    seen = {
        "run": "done",
        "tasks": {"a": "done", "b": "failed"},
        "results": {"a": {"x": 1}},
        "effects": {"t": 1},
        "calls": {"t": 2},
        "planner_calls": 0,
        "moves": [("a", "running"), ("b", "running"), ("a", "done"), ("b", "failed"), ("run", "done")],
        "decisions": [
            ("a", "success", "accept"),
            ("b", "conflict", "escalate"),
            ("run", "budget_low", "continue"),
        ],
        "virtual_us": 1_500_000,
        "events": {"decided": 3, "late_result": 0},
        "words": ["may it be done?", "because of x", "done"],
        "prompts": ["one and two", "three"],
    }
    return Observed(**{**seen, **parts})


def missed(expect, **parts):
    return failures(parse(Node(expect, "f"), ("t",)), observed(**parts))


@pytest.mark.parametrize(
    "expect",
    [
        {},
        {"run": "done", "tasks": {"b": "failed"}, "results": {"a": {"x": 1}}, "planner_calls": 0},
        {"effects": {"t": 1}, "calls": {"t": 2}, "events": {"decided": 3, "late_result": 0}},
        {"within_s": 1.5},
        {"moves": [["a", "running"], ["b", "failed"]]},
        {"moves": [["*", "running"], ["*", "running"], ["*", "done"], ["run", "*"]]},
        {"decisions": [["a", "*", "accept"], ["run", "budget_low", "*"]]},
        {"never": [["a", "failed"], ["*", "*", "retry"], ["b", "success", "accept"]]},
        {"audit": "clean"},
        {"says": ["may", "it", "because of x", "done"]},
        {"prompts": [{"holds": ["one", "two"], "lacks": ["three"]}, {}]},
    ],
)
def test_what_is_met_says_nothing(expect):
    assert missed(expect) == []


@pytest.mark.parametrize(
    ("expect", "sentence"),
    [
        ({"run": "failed"}, "run: expected failed, was done"),
        ({"tasks": {"a": "failed"}}, "task a: expected 'failed', was 'done'"),
        ({"tasks": {"c": "done"}}, "task c: expected 'done', but there is no such task"),
        ({"effects": {"t": 0}}, "effects of t: expected 0, was 1"),
        ({"calls": {"t": 1}}, "calls of t: expected 1, was 2"),
        ({"planner_calls": 1}, "planner calls: expected 1, was 0"),
        ({"events": {"decided": 2}}, "events of type decided: expected 2, was 3"),
        ({"results": {"a": {"x": 2}}}, "result of a: expected {'x': 2}, was {'x': 1}"),
        ({"results": {"b": None}}, "result of b: expected None, but it has no result"),
        ({"within_s": 1.4}, "time: expected at most 1.4 s, took 1.5 s"),
        (
            {"moves": [["a", "done"], ["a", "running"]]},
            "moves: a → running was not seen after a → done; seen: a → running, b → running, a → done",
        ),
        ({"moves": [["a", "done"], ["a", "done"]]}, "moves: a → done was not seen after a → done; seen: "),
        ({"decisions": [["a", "*", "retry"]]}, "decisions: a * retry was not seen; seen: a success accept, "),
        ({"never": [["b", "failed"]]}, "never: b → failed happened, and b → failed must not"),
        (
            {"never": [["*", "conflict", "*"]]},
            "never: b conflict escalate happened, and * conflict * must not",
        ),
        ({"says": ["nobody"]}, "says: 'nobody' was not said; said: may it be done? | because of x | done"),
        ({"says": ["because", "may it"]}, "says: 'may it' was not said by then; said: may it be done? | "),
        ({"prompts": [{"holds": ["four"]}]}, "prompt 1: it lacks 'four'"),
        ({"prompts": [{}, {"lacks": ["three"]}]}, "prompt 2: it holds 'three', and must not"),
        ({"prompts": [{}, {}, {"holds": ["x"]}]}, "prompt 3: the planner was asked 2 times"),
        (
            {"refused": ["cycle"]},
            "refused: the plan was expected to be refused for cycle; found: the plan was accepted",
        ),
    ],
)
def test_what_is_missed_is_one_sentence(expect, sentence):
    (found,) = missed(expect)
    assert found.startswith(sentence)


def test_without_any_move_nothing_is_what_was_seen():
    assert missed({"moves": [["a", "done"]]}, moves=[]) == ["moves: a → done was not seen; seen: nothing"]


def test_violations_and_gaps_fail_whatever_is_expected():
    assert missed({}, violations=["event 3: x"], gaps=["no call fits"]) == [
        "audit: event 3: x",
        "scenario: no call fits",
    ]


def test_a_plan_that_must_be_refused_must_be_refused_for_that():
    assert missed({"refused": ["cycle"]}, refused=("cycle", "unknown-tool")) == []
    (found,) = missed({"refused": ["cycle"]}, refused=("unknown-tool",))
    assert found.endswith("found: unknown-tool")


WORDS = st.sampled_from(["a", "b", "run", "*"])
ITEMS = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["running", "done", "failed"])), max_size=8
)


@settings(deadline=None)
@given(ITEMS, st.data())
def test_every_subsequence_is_met_in_its_order(moves, data):
    kept = data.draw(st.lists(st.booleans(), min_size=len(moves), max_size=len(moves)))
    wanted = [list(m) for m, keep in zip(moves, kept, strict=True) if keep]
    assert missed({"moves": wanted}, moves=moves) == []
    assert missed({"moves": [*wanted, ["run", "done"]]}, moves=moves) != []


@settings(deadline=None)
@given(ITEMS, ITEMS)
def test_subsequence_and_a_slow_oracle_agree(wanted, moves):
    rest = iter(moves)
    oracle = all(any(w == m for m in rest) for w in wanted)
    assert (missed({"moves": [list(w) for w in wanted]}, moves=moves) == []) == oracle


@settings(deadline=None)
@given(ITEMS, st.tuples(st.sampled_from(["a", "b", "*"]), st.sampled_from(["running", "done", "*"])))
def test_never_is_met_exactly_when_nothing_matches(moves, pattern):
    hit = any(matches(pattern, m) for m in moves)
    assert (missed({"never": [list(pattern)]}, moves=moves) != []) == hit


def test_patterns_of_another_length_match_nothing():
    assert not matches(("*", "*"), ("a", "b", "c"))


def test_values_are_equal_as_json_is():
    assert same({"a": [1, 2.0, None]}, {"a": [1.0, 2, None]})
    assert not same(True, 1)
    assert not same({"a": 1}, {"a": 1, "b": 2})
    assert not same([1], [1, 2])
    assert not same({"a": False}, {"a": 0})
