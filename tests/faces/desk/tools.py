"""Tools of a small hotel desk; what was really booked stands in ``ledger.txt`` of the working directory."""

from pathlib import Path

from fsm_agent import CallContext, Toolbox, ToolError

tools = Toolbox()


@tools.read
def look_up(guest: str) -> dict:
    return {"known": guest != "nobody"}


@tools.read
async def price(nights: int, luck: str) -> dict:
    if luck == "wrong":
        raise ToolError("E-NIGHTS", "there are no such nights", applied="no")
    return {"total": 90 * nights}


@tools.write
def book(guest: str, total: float, luck: str, *, ctx: CallContext) -> dict:
    with Path("ledger.txt").open("a") as ledger:
        ledger.write(f"{ctx.idempotency_key} {guest} {total}\n")
    if luck == "bad":
        raise ToolError("E-GONE", "the desk hung up", applied="maybe")
    return {"booking": "B-1"}
