"""Tools that take as long as a test wants: ringing waits until somebody writes into ``gate``, a named pipe."""

import asyncio
import contextlib
from pathlib import Path

from fsm_agent import Toolbox

tools = Toolbox()


@tools.read
def listen() -> dict:
    return {"heard": True}


@tools.write(timeout_s=3600)
def ring(times: int) -> dict:
    with Path("bell.txt").open("a") as bell:
        bell.write("ding\n")
    Path("gate").read_text()
    return {"rung": times}


@tools.write(timeout_s=3600)
async def hold_on() -> dict:
    """Go on as if nobody had asked to stop."""
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
