"""A controller that somebody closes leaves nobody waiting for it."""

import asyncio

import pytest

from fsm_agent import RefusedError, Toolbox
from tests.runtime.runs import go, one, running


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
