"""A process that drives a run until it is told to stop: ``python -m tests.crash.owner PLACE RUN HOW``.

HOW is ``start`` or ``open``. It says ``begun`` when its slow write has begun; the write then waits for a file. With ``late``
it is started, and its slow write waits before it has its effect.
"""

import asyncio
import os
import sys
from pathlib import Path

from fsm_agent import CallContext, Plan, Reconciled, RunController, Toolbox
from fsm_agent.core.errors import FsmAgentError

LEASE_S = 0.6
PLAN = Plan.make(
    {
        "steps": [
            {"id": "a", "tool": "look"},
            {"id": "w", "tool": "pay", "args": {"n": 1}, "depends_on": ["a"]},
            {"id": "b", "tool": "pay", "args": {"n": 2}, "depends_on": ["w"]},
        ]
    }
)


def toolbox(place, *, slow, late=False):
    """A look and a payment; payments stand in a file. A slow one says that it has begun, and waits for `go`."""
    ledger = Path(place) / "ledger"
    tools = Toolbox()
    tools.add(lambda: 1, effect="read", name="look")

    async def wait():
        print("begun", flush=True)
        while not (Path(place) / "go").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)

    @tools.write(timeout_s=1.5, settle_s=0.1)
    async def pay(n: int, *, ctx: CallContext):
        if late and n == 1:
            await wait()
        with ledger.open("a") as file:
            file.write(f"{ctx.idempotency_key} {n} {os.getpid()}\n")
        if slow and n == 1:
            await wait()
        return {"n": n}

    @pay.reconcile
    async def find(n: int, *, ctx: CallContext):
        lines = ledger.read_text().splitlines() if ledger.exists() else []
        found = any(line.startswith(ctx.idempotency_key) for line in lines)
        return Reconciled.applied({"n": n}) if found else Reconciled.absent()

    return tools


async def own(place, run_id, how):
    store = str(Path(place) / "runs.db")
    tools = toolbox(place, slow=how != "late", late=how == "late")
    if how in ("start", "late"):
        run = await RunController.start(PLAN, tools, store=store, run_id=run_id, lease_s=LEASE_S)
    else:
        run = await RunController.open(store, run_id, tools, lease_s=LEASE_S)
    async with run:
        report = await run.wait()
        print(report["state"], flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(own(*sys.argv[1:]))
    except FsmAgentError as error:
        print(type(error).__name__, error, flush=True)
        sys.exit(3)
