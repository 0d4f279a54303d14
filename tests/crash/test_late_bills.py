"""What a reply costs that comes after its deadline: it stands in the account, and nothing more is begun on credit."""

import asyncio

import pytest

from fsm_agent import CallContext, Toolbox
from tests.runtime.runs import go, plan_of, running


@pytest.mark.parametrize(("spent", "goes_on"), [(50, True), (5000, False)])
def test_a_late_reply_that_costs_more_than_was_left_is_counted_and_nothing_more_is_begun(spent, goes_on):
    async def scenario():
        gate, looked = asyncio.Event(), []
        tools = Toolbox()

        @tools.write(timeout_s=0.1, settle_s=0)
        async def pay(*, ctx: CallContext):
            await gate.wait()
            ctx.spend(tokens=spent, cost="0.25")
            return 1

        @tools.read
        async def look(*, ctx: CallContext):
            looked.append(1)
            ctx.spend(tokens=10)
            return 1

        plan = plan_of(
            {"id": "a", "tool": "pay"},
            {"id": "b", "tool": "look", "depends_on": ["a"]},
            budgets={"tokens": 100},
        )
        async with running(plan, tools) as run:
            await run.wait(until=lambda status: status.state == "unknown-result")
            assert run.status().budgets["tokens"]["used"] == 0
            gate.set()
            await run._driving().wait(lambda: run.run.tasks["a"].state == "done")
            report = await run.wait()
            tokens = run.status().budgets["tokens"]
            assert tokens == {"used": spent + 10 * goes_on, "left": 100 - spent - 10 * goes_on}
            assert run.status().budgets["cost_micros"]["used"] == 250_000
            assert len(looked) == goes_on
            assert report["used"]["tokens"] == tokens["used"]
            if goes_on:
                assert report["state"] == "done"
                return
            assert report["state"] == "failed"
            decided = [e.data["signal"] async for e in run.events() if e.type == "decided"]
            assert "budget_exhausted" in decided
            await run.set_input(**{"budgets.tokens": 9000}, by="ann")
            await run.resume(by="ann")
            assert (await run.wait())["state"] == "done"
            assert looked == [1]

    go(scenario())
