"""Nobody is believed that a call had no effect while it is under way in this process, whatever he says it with."""

import asyncio
import contextlib
import threading

import pytest

from fsm_agent import Reconciled, RefusedError
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
