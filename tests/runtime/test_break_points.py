"""A break point stops before the effect: what an input would cause is foreseen, and nothing starts from that input on."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent import Plan, RefusedError, Toolbox
from tests.runtime.runs import go, running


def starts(events, *names):
    return [
        e.task
        for e in events
        if e.type == "task_moved" and e.data["trigger"] == "start" and (not names or e.task in names)
    ]


def toolbox(called):
    tools = Toolbox()

    @tools.read
    async def look(name: str) -> dict:
        called.append(name)
        return {"seen": name}

    return tools


def step(name, *after, **more):
    return {"id": name, "tool": "look", "args": {"name": name}, "depends_on": list(after), **more}


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sets(st.integers(0, 7), max_size=3), min_size=2, max_size=8),
    st.integers(0, 7),
    st.integers(1, 4),
)
def test_the_step_of_a_break_point_never_starts_and_the_rest_does_as_ever(needs, stop, workers):
    called = []
    steps = [step(f"s{i}", *(f"s{d}" for d in own if d < i)) for i, own in enumerate(needs)]
    name = f"s{stop % len(steps)}"

    async def run():
        async with running(Plan.make({"steps": steps}), toolbox(called), workers=workers) as run:
            await run.wait(stop_before=lambda events: bool(starts(events, name)))
            assert name not in called
            assert run.run.running == {}
            assert run.run.tasks[name].attempt == 0
            before = list(called)
            report = await run.wait()
            assert report["state"] == "done"
            assert sorted(called) == sorted(s["id"] for s in steps)
            assert called[: len(before)] == before

    go(run())


def test_a_start_that_another_one_brings_along_in_the_same_batch_is_foreseen():
    """With one worker everything that follows a success would start in the batch of that success."""
    called = []
    steps = [
        step("a"),
        step("b", "a", when="$a.seen == 'nobody'".replace("'", '"')),
        step("c", {"id": "b", "optional": True}),
    ]

    async def run():
        async with running(Plan.make({"steps": steps}), toolbox(called)) as run:
            await run.wait(stop_before=lambda events: bool(starts(events, "c")))
            assert called == ["a"]
            assert (
                run.run.tasks["b"].state.value == "pending"
            )  # it would be cancelled in the batch that starts c
            assert (await run.wait())["state"] == "done"
            assert called == ["a", "c"]

    go(run())


def test_what_is_out_may_end_and_is_recorded():
    called = []
    gate = asyncio.Event

    async def run():
        tools, held = toolbox(called), gate()

        @tools.read
        async def slow() -> dict:
            await held.wait()
            return {}

        steps = [{"id": "slow", "tool": "slow"}, step("a"), step("b", "a")]
        async with running(Plan.make({"steps": steps}), tools) as run:
            seen = []

            def stop(events):
                seen.append(starts(events))
                if starts(events, "b"):
                    held.set()
                    return True
                return False

            await run.wait(stop_before=stop)
            assert run.run.tasks["slow"].state.value == "done"
            assert run.run.tasks["b"].attempt == 0

    go(run())


def test_a_word_that_is_refused_is_refused_under_a_break_point_too():
    async def run():
        async with running(Plan.make({"steps": [step("a")]}), toolbox([])) as run:
            waiting = asyncio.ensure_future(run.wait(stop_before=lambda events: bool(starts(events))))
            await waiting
            with pytest.raises(RefusedError):
                await run.retry("a", by="ann")
            assert run.run.tasks["a"].attempt == 0

    go(run())


def test_halting_lets_what_is_out_end_and_starts_nothing_more():
    called = []

    async def run():
        async with running(Plan.make({"steps": [step("a"), step("b", "a")]}), toolbox(called)) as run:
            run.halt()
            assert (await run.step()).done == 1
            run.halt()
            run.flush()
            assert called == ["a"]
            assert (await run.wait())["state"] == "done"

    go(run())
