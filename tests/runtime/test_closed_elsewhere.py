"""A controller that somebody closes leaves nobody waiting for it, and nothing behind."""

import asyncio
import gc
import weakref

import pytest

from fsm_agent import RefusedError, RunController, Toolbox
from tests.runtime.runs import go, one, running, toolbox


def test_who_waits_for_a_run_hears_that_its_controller_was_closed():
    async def play():
        called = asyncio.Event()
        tools = Toolbox()

        @tools.read(timeout_s=1000)
        async def look() -> None:
            called.set()
            await asyncio.Event().wait()

        async with running(one("look"), tools) as run:
            waiting = asyncio.ensure_future(run.wait())
            await called.wait()
            await run.close()
            with pytest.raises(RefusedError, match="was closed; open the run again"):
                await waiting

    go(play())


def plain():
    return {}


async def waiting():
    await asyncio.Event().wait()


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "durable"])
@pytest.mark.parametrize("tool", [plain, waiting], ids=["at its end", "with a call out"])
def test_a_run_that_was_closed_is_gone_without_the_collector(tool, durable, tmp_path):
    async def scenario():
        store = tmp_path / "runs.db" if durable else None
        async with await RunController.start(one("do"), toolbox(tool), store=store) as run:
            await run.wait(lambda status: tool is plain or status.tasks["t"].state == "running")
            return weakref.ref(run.run), weakref.ref(run)

    gc.collect()
    gc.disable()
    try:
        left = [held() for held in go(scenario())]
    finally:
        gc.enable()
    assert left == [None, None]
