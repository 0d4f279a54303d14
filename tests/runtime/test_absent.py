"""Nobody is believed that a call had no effect while it is under way in this process, whatever he says it with."""

import asyncio
import contextlib
import threading

import pytest

from fsm_agent import FsmAgentError, Reconciled, RefusedError, RunController
from fsm_agent.runtime.driving.engine import LEASE_US
from fsm_agent.runtime.ports import SystemPorts
from tests.runtime.runs import go, one, resumed, running, toolbox


@pytest.mark.parametrize("by_answer", [True, False], ids=["by an answer", "by a verdict"])
def test_absent_is_refused_while_the_call_is_under_way_here(by_answer):
    goes_on, made = threading.Event(), []

    def pay() -> dict:
        made.append("once")
        goes_on.wait(10)
        return {"paid": len(made)}

    async def play():
        async with running(one("do"), toolbox(pay, "write", timeout_s=0.05, settle_s=0)) as run:
            assert (await run.wait())["state"] == "unknown-result"
            with pytest.raises(RefusedError, match="still running here"):
                if by_answer:
                    await run.answer("t", {"decide": "absent", "evidence": "nothing to be seen"}, by="ann")
                else:
                    await run.reconcile("t", verdict="absent", evidence="nothing to be seen")
            goes_on.set()
            async for _ in run.events(follow=True):
                pass  # until it is closed: the late reply settles it
            assert (run.report["done"], run.run.tasks["t"].result) == (["t"], {"paid": 1})

    go(play())
    assert made == ["once"]


@pytest.mark.parametrize("kind", ["a thread", "a coroutine"])
def test_absent_says_nothing_while_a_call_of_a_controller_before_runs_on_in_this_process(kind, tmp_path):
    """Closing a controller ends no thread, and no coroutine that will not; opening the run here again knows of both."""
    store, goes_on, made = tmp_path / "runs.db", threading.Event(), []

    def pay() -> dict:
        made.append("once")
        goes_on.wait(10)
        return {"paid": len(made)}

    async def pay_stubbornly() -> dict:
        made.append("once")
        while not goes_on.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        return {"paid": len(made)}

    def probe() -> Reconciled:
        return Reconciled.absent("nothing to be seen")

    async def play():
        tools = toolbox(
            pay if kind == "a thread" else pay_stubbornly,
            "write",
            timeout_s=0.05,
            settle_s=0,
            reconcile=probe,
        )
        async with running(one("do"), tools, store=store) as run:
            await run.wait(until=lambda _: run.run.tasks["t"].state == "unknown-result")
        async with resumed(store, run.id, tools) as again:
            task = again.run.tasks["t"]
            await again.wait(until=lambda _: task.trouble.probes and not task.probing)
            assert (task.state, made) == ("unknown-result", ["once"])  # the probe said absent
            with pytest.raises(RefusedError, match="still running here"):
                await again.reconcile("t", verdict="absent", evidence="nothing to be seen")
            goes_on.set()
            while task.state == "unknown-result":
                with contextlib.suppress(RefusedError):
                    await again.reconcile("t", verdict="absent", evidence="nothing to be seen")
                await asyncio.sleep(0)
            assert (await again.wait())["state"] == "done"

    go(play())
    assert made == ["once", "once"]


class LaterByALease(SystemPorts):
    """The time when a lease that is taken now and not renewed has run out."""

    def now_us(self) -> int:
        """Return it."""
        return super().now_us() + 2 * LEASE_US


@pytest.mark.parametrize("by", ["a word from beside", "a probe after a take-over"])
def test_absent_says_nothing_in_the_process_that_makes_the_call_whoever_owns_the_run(by, tmp_path):
    """Nobody drives the run, and a word to it is delivered here; or its driver stands still until another takes it over."""
    store, goes_on, made = tmp_path / "runs.db", threading.Event(), []

    def pay() -> dict:
        made.append("once")
        goes_on.wait(10)
        return {"paid": len(made)}

    def probe() -> Reconciled:
        return Reconciled.absent("nothing to be seen")

    beside = by == "a word from beside"
    tools = toolbox(pay, "write", timeout_s=0.05, settle_s=0, reconcile=None if beside else probe)
    loop = asyncio.new_event_loop()

    async def first():
        run = await RunController.start(one("do"), tools, store=store)
        await run.wait(until=lambda _: made)
        if beside:
            await run.close()
        return run

    async def second():
        if beside:
            word = await RunController.attach(store, run.id)
            with pytest.raises(RefusedError, match="still running here"):
                await word.reconcile("t", verdict="absent", evidence="nothing to be seen")
        async with resumed(store, run.id, tools, ports=None if beside else LaterByALease()) as again:
            task = again.run.tasks["t"]
            await again.wait(until=lambda _: beside or (task.trouble.probes and not task.probing))
            assert (task.state, made) == ("unknown-result", ["once"])
            goes_on.set()
            await again.wait()

    run = loop.run_until_complete(first())
    go(second())
    with contextlib.suppress(FsmAgentError):  # what stood still has lost the run
        loop.run_until_complete(run.close())
    loop.close()
