"""Values that somebody else holds and changes: the run goes by what its log says, whoever gave or was shown them."""

from types import MappingProxyType

import pytest

from fsm_agent import Toolbox, ToolError
from fsm_agent.runtime.planning.planner import Proposal
from tests.runtime.runs import go, plan_of, running


def spoiled(value):
    """Change everything in *value* that can be changed."""
    if isinstance(value, dict):
        for inner in value.values():
            spoiled(inner)
        value["changed"] = 1
    elif isinstance(value, list):
        for inner in value:
            spoiled(inner)
        value.append("changed")


def tools_that_tell(paid):
    tools = Toolbox()

    def pay(rows):
        paid.append(list(rows))
        return {"rows": rows}

    def fail(rows):
        raise ToolError("bad_request", "no such rows", applied="no")

    tools.add(lambda rows: {"rows": rows}, effect="read", name="look")
    tools.add(fail, effect="read", name="fail")
    tools.add(pay, effect="write", name="pay", confirm=True)
    return tools


def what_was_given_at_the_start(run, given):
    spoiled(given)


def results_in_a_status(run, given):
    for task in run.status().tasks.values():
        spoiled(task.result)
    spoiled(run.status().to_json())


def arguments_of_a_question(run, given):
    for question in (*run.questions, *run.status().questions):
        spoiled(question.args)


def the_report(run, given):
    spoiled(run.report)


@pytest.mark.parametrize(
    "harm", [what_was_given_at_the_start, results_in_a_status, arguments_of_a_question, the_report]
)
def test_a_value_that_is_changed_outside_changes_nothing_in_the_run(harm):
    async def scenario():
        paid, given = [], {"rows": ["a"]}
        plan = plan_of(
            {"id": "l", "tool": "look", "args": {"rows": "$inputs.rows"}},
            {"id": "q", "description": "which rows?", "depends_on": ["l"]},
            {"id": "p", "tool": "pay", "args": {"rows": "$l.rows"}, "depends_on": ["q"]},
            {"id": "p2", "tool": "pay", "args": {"rows": "$inputs.rows"}, "depends_on": ["p"]},
            inputs={"rows": []},
        )
        async with running(plan, tools_that_tell(paid), inputs=given) as run:
            for word in ("q", "p", "p2"):
                harm(run, given)
                await run.wait()
                harm(run, given)
                (question,) = run.questions
                assert question.task == word
                harm(run, given)
                await (question.answer({"ok": 1}, by="ann") if word == "q" else question.approve(by="ann"))
            assert (await run.wait())["state"] == "done"
        assert paid == [["a"], ["a"]]

    go(scenario())


async def an_input(run, value):
    await run.set_input(rows=value)


async def an_answer(run, value):
    await run.answer("q", {"rows": value}, by="ann")


async def a_plan(run, value):
    step = {"id": "p", "tool": "pay", "args": {"rows": value}, "depends_on": ["q"]}
    question = {"id": "q", "description": "which rows?"}
    await run.replan({"steps": [question, step]}, by="ann")


async def an_edit(run, value):
    await run.answer("q", {"rows": ["a"]}, by="ann")
    await run.wait()
    await run.edit("p", {"rows": value}, by="ann")


async def an_edit_by_another_mapping(run, value):
    await run.answer("q", {"rows": ["a"]}, by="ann")
    await run.wait()
    await run.edit("p", MappingProxyType({"rows": value}), by="ann")


@pytest.mark.parametrize(
    ("say", "source"),
    [
        (an_input, "$inputs.rows"),
        (an_answer, "$q.rows"),
        (a_plan, "$q.rows"),
        (an_edit, "$q.rows"),
        (an_edit_by_another_mapping, "$q.rows"),
    ],
)
def test_a_value_that_a_person_gave_and_changes_afterwards_counts_as_it_was_given(say, source):
    async def scenario():
        paid, value = [], ["given"]
        plan = plan_of(
            {"id": "q", "description": "which rows?"},
            {"id": "p", "tool": "pay", "args": {"rows": source}, "depends_on": ["q"]},
            inputs={"rows": []},
        )
        async with running(plan, tools_that_tell(paid)) as run:
            await run.wait()
            await say(run, value)
            value.append("changed")
            while (await run.wait())["state"] != "done":
                (question,) = run.questions
                if question.kind == "approval":
                    await question.approve(by="ann")
                elif question.kind == "answer":
                    await question.answer({"rows": []}, by="ann")
                else:
                    pytest.fail(question.say)
        assert paid == [["given"]]

    go(scenario())


def test_a_listener_that_changes_what_it_is_told_changes_nothing_in_the_run():
    def listen(events):
        for event in events:
            spoiled(event.data)
            spoiled(event.actor)

    async def scenario():
        paid = []
        plan = plan_of(
            {"id": "l", "tool": "look", "args": {"rows": "$inputs.rows"}},
            {"id": "p", "tool": "pay", "args": {"rows": "$l.rows"}, "depends_on": ["l"]},
            inputs={"rows": ["a"]},
        )
        async with running(plan, tools_that_tell(paid), listeners=[listen]) as run:
            await run.wait()
            (question,) = run.questions
            await question.approve(by="ann")
            assert (await run.wait())["state"] == "done"
        assert paid == [["a"]]

    go(scenario())


def test_a_planner_that_changes_its_briefing_changes_nothing_in_the_run():
    asked = []

    class Planner:
        async def propose(self, briefing):
            asked.append(1)
            spoiled(briefing)
            return Proposal(text="no plan")

    async def scenario():
        paid = []
        plan = plan_of(
            {"id": "l", "tool": "look", "args": {"rows": "$inputs.rows"}},
            {"id": "f", "tool": "fail", "args": {"rows": "$l.rows"}, "depends_on": ["l"]},
            {"id": "p", "tool": "pay", "args": {"rows": "$l.rows"}, "depends_on": ["l"]},
            inputs={"rows": ["a"]},
        )
        async with running(plan, tools_that_tell(paid), planner=Planner()) as run:
            await run.wait()
            for question in run.questions:
                if question.task == "p":
                    await question.approve(by="ann")
            await run.wait()
            assert run.status().tasks["l"].result == {"rows": ["a"]}
        assert paid == [["a"]]
        assert asked

    go(scenario())
