"""Use the installed package as a library, without extras and outside the checkout: a run, a resume, an audit."""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from fsm_agent import CallContext, Plan, Reconciled, RunController, Toolbox, audit

tools = Toolbox()


@tools.read
async def look(city: str) -> dict[str, int]:
    """Return a price."""
    return {"price": len(city)}


@tools.write(confirm=True)
async def book(price: int, *, ctx: CallContext) -> dict[str, str]:
    """Book something."""
    return {"order": f"O-{price}-{ctx.idempotency_key[:4]}"}


@book.reconcile
async def find(price: int, *, ctx: CallContext) -> Reconciled:
    """Say whether it was booked."""
    return Reconciled.inconclusive(f"{price} {ctx.task}")


PLAN = """{"steps": [
  {"id": "s1", "tool": "look", "args": {"city": "Oslo"}, "done_when": "price > 0"},
  {"id": "s2", "tool": "book", "args": {"price": "$s1.price"}, "depends_on": ["s1"], "done_when": "order != null"}]}"""


async def main(store: Path) -> None:
    """Start, approve, finish, audit."""
    async with await RunController.start(Plan.parse(PLAN), tools, store=store, run_id="smoke") as run:
        await run.wait(timeout_s=30)
        if [q.task for q in run.questions] != ["s2"]:
            raise SystemExit(f"s2 should ask: {run.status()!r}")
    async with await RunController.open(store, "smoke", tools) as run:
        await run.questions[0].approve(by="ann")
        report = await run.wait(timeout_s=30)
        if report["state"] != "done":
            raise SystemExit(f"the run should be done: {report}")
    verdict = audit(store, run="smoke")
    if verdict.verdict != "clean":
        raise SystemExit(f"the audit should be clean: {verdict.findings}")


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder) / "runs.db"))
asked = subprocess.run([sys.executable, "-m", "fsm_agent"], capture_output=True, text=True, check=False)
if "fsm-agent[cli]" not in asked.stderr:
    raise SystemExit(f"the command line should name the extra that it needs: {asked.stderr!r}")
print("smoke: a run, a resume and an audit from the wheel are fine")
