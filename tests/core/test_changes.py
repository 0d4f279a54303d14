"""A person corrects an input: what rested on it runs again, what had an effect is a question, the rest stays."""

import pytest

from fsm_agent.core.inputs import Replan
from tests.core.kit import ANN, lab, refused

USES = {"id": "a", "tool": "look", "args": {"w": "$inputs.w"}}
PAYS = {"id": "p", "tool": "pay", "args": {"w": "$inputs.w"}}
OTHER = {"id": "o", "tool": "look", "args": {"o": 1}}


def test_only_what_used_the_input_runs_again():
    with lab(
        [USES, OTHER, {"id": "z", "tool": "look", "args": {"z": "$a.n"}, "depends_on": ["a"]}],
        inputs={"w": 1},
    ) as it:
        it.returns("a", {"n": 1})
        it.returns("o", 1)
        it.set(w=2)
        assert it.states == {"a": "running", "o": "done", "z": "running"}
        it.returns("a", {"n": 1})
        it.returns("z", 1)
        assert [len(it.starts(n)) for n in "aoz"] == [2, 1, 1]
        assert it.run.state == "done"


def test_another_result_reaches_those_that_use_it():
    with lab(
        [
            USES,
            {"id": "z", "tool": "look", "args": {"z": "$a.n"}, "depends_on": ["a"]},
            {**OTHER, "requires_confirmation": True},
        ],
        inputs={"w": 1},
    ) as it:
        it.returns("a", {"n": 1})
        it.returns("z", 1)
        it.set(w=2)
        it.returns("a", {"n": 2})
        assert it.states["z"] == "running"
        assert it.calls()[-1].args == {"z": 2}
        it.returns("z", 2)


def test_a_done_write_whose_input_changed_is_asked_about_once_and_never_repeated():
    with lab([PAYS, {**OTHER, "timeout_s": 999}], inputs={"w": 1}) as it:
        it.returns("p", 1)
        it.set(w=2)
        assert it.question("p").answers[:1] == ("keep",)
        first = it.question("p").digest
        it.set(w=3)
        assert it.question("p").digest == first
        with refused():
            it.decide("p", "keep")
        it.decide("p", "keep", note="it was right after all")
        it.returns("o", 1)
        assert it.run.state == "done"
        assert len(it.starts("p")) == 1


def test_the_same_value_again_changes_nothing():
    with lab([USES, PAYS, {**OTHER, "timeout_s": 999}], inputs={"w": 1}) as it:
        it.returns("a", 1)
        it.returns("p", 1)
        it.set(w=1)
        assert it.states == {"a": "done", "p": "done", "o": "running"}
        assert it.run.questions == {}


@pytest.mark.parametrize("gone", [True, False])
def test_a_request_whose_arguments_lose_their_value_is_taken_back(gone):
    step = {"id": "a", "tool": "burn", "args": {"x": "$inputs.deep.x"}}
    with lab([step], inputs={"deep": {"x": 1}}) as it:
        it.set(deep={} if gone else {"x": 2})
        if gone:
            assert it.states == {"a": "failed"}
            assert it.decisions("a")[-1][0] == "unresolved_reference"
        else:
            assert it.question("a").args == {"x": 2}


def test_a_question_for_an_answer_stays_open_when_inputs_change():
    with lab([{"id": "q", "description": "?"}], inputs={"w": 1}) as it:
        digest = it.question("q").digest
        it.set(w=2)
        assert it.question("q").digest == digest


def test_a_request_for_a_tool_that_is_gone_is_taken_back_and_the_door_says_why():
    with lab([{"id": "a", "tool": "burn", "args": {"w": "$inputs.w"}}], inputs={"w": 1}) as it:
        it.crash(tools=())
        it.set(w=2)
        assert it.decisions("a")[-1][0] == "undeclared_tool"


def test_a_failed_step_whose_input_was_wrong_is_tried_again_with_the_right_one():
    with lab([USES], inputs={"w": 1}) as it:
        it.fails("a", "auth_denied")
        it.set(w=1)
        assert it.states == {"a": "failed"}
        it.set(w=2)
        it.until_due()
        assert it.calls()[-1].args == {"w": 2}


def test_what_never_ran_has_nothing_to_run_again():
    with lab([{"id": "a", "tool": "fly", "args": {"w": "$inputs.w"}}], inputs={"w": 1}) as it:
        assert it.states == {"a": "failed"}
        it.set(w=2)
        assert it.states == {"a": "failed"}


def test_a_branch_that_a_condition_cut_off_comes_back_as_a_whole_and_each_step_once():
    steps = [
        {**USES, "when": "$inputs.w == 2"},
        {"id": "b", "tool": "look", "args": {"b": 1}, "depends_on": ["a"]},
        {"id": "c", "tool": "look", "args": {"c": 1}, "depends_on": ["a"]},
        {"id": "d", "tool": "look", "args": {"d": 1}, "depends_on": ["b", "c"]},
        {**OTHER, "timeout_s": 999},
    ]
    with lab(steps, inputs={"w": 1}) as it:
        assert [it.states[n] for n in "abcd"] == ["cancelled"] * 4
        it.set(w=2)
        assert [it.states[n] for n in "abcd"] == ["running", "pending", "pending", "pending"]
        for name in "abcd":
            it.returns(name, 1)
        assert [it.states[n] for n in "abcd"] == ["done"] * 4


def test_a_step_may_take_over_what_another_one_did_also_after_a_try_of_its_own():
    steps = [
        {"id": "a", "tool": "look", "args": {"n": 1}},
        {"id": "b", "tool": "look", "args": {"n": 2}},
        {"id": "q", "description": "go on?"},
    ]
    with lab(steps) as it:
        it.returns("a", "the answer")
        it.fails("b", "auth_denied")
        again = [{"id": "b", "tool": "look", "args": {"n": 1}}, steps[2]]
        it.feed(Replan(document={"goal": "test", "steps": again}, who=ANN))
        assert it.states["b"] == "done"
        assert it.task("b").result == "the answer"
        assert len(it.calls()) == 2
        it.returns("b", "late", attempt=1)
        assert it.task("b").result == "the answer"


def test_a_branch_whose_condition_still_does_not_hold_stays_cut_off():
    with lab([{**USES, "when": "$inputs.w == 2"}, {**OTHER, "timeout_s": 999}], inputs={"w": 1}) as it:
        it.set(w=3)
        assert it.states["a"] == "cancelled"


def test_a_step_that_hangs_on_two_steps_that_are_back_comes_back_once():
    steps = [
        {**USES, "when": "$inputs.w == 2"},
        {"id": "x", "tool": "look", "args": {"x": 1}, "depends_on": ["a"]},
        {"id": "d", "tool": "look", "args": {"d": 1}, "depends_on": ["a", {"id": "x", "optional": True}]},
        {**OTHER, "timeout_s": 999},
    ]
    with lab(steps, inputs={"w": 1}) as it:
        it.set(w=2)
        assert [it.moves(n).count("invalidate") for n in "axd"] == [1, 1, 1]
        assert it.states["d"] == "pending"
