"""A DAG of steps, run by this engine under the contract of a side-by-side harness: one function, :func:`run`.

The harness hands over a DAG, a place for the log and a counter that is also the tool; a log that holds a run already is
gone on with. ``variant`` says what the steps are: reads (``pure``, or nothing), or writes (``side_effect``).
"""

import asyncio
from pathlib import Path
from typing import Any

from fsm_agent import Plan, RunController, Toolbox

RUN = "bench"
WORKERS = 64


def document(dag: Any) -> dict[str, Any]:
    """Return *dag* (steps with ``id``, ``deps`` and ``sleep``) as the document of a plan."""
    return {
        "steps": [
            {
                "id": f"s{step.id}",
                "tool": "step",
                "args": {
                    "sid": step.id,
                    "parents": [f"$s{d}.d" for d in step.deps],
                    **({"sleep": step.sleep} if step.sleep else {}),
                },
                **({"depends_on": [f"s{d}" for d in step.deps]} if step.deps else {}),
            }
            for step in dag
        ]
    }


def toolbox(ctl: Any, variant: str) -> Toolbox:
    """Return a toolbox whose one tool is the harness's own."""
    tools = Toolbox()

    async def step(sid: int, parents: list[int], sleep: float = 0.0) -> dict[str, Any]:
        return await ctl.tool(sid, parents, sleep)  # type: ignore[no-any-return]

    tools.add(step, effect="write" if variant == "side_effect" else "read", timeout_s=600)
    return tools


async def carry_out(dag: Any, mode: str, db: str, ctl: Any, opt: Any, *, begun: bool) -> int:
    """Run, or go on with one that was *begun*; return the sum of ``d`` over the steps on which none depends."""
    tools = toolbox(ctl, getattr(opt, "variant", ""))
    needed = {d for step in dag for d in step.deps}
    if begun:
        control = await RunController.open(db, RUN, tools, workers=WORKERS)
    else:
        store = db if mode == "durable" else None
        control = await RunController.start(
            Plan.make(document(dag)), tools, run_id=RUN, workers=WORKERS, store=store
        )
    async with control as run:
        await run.wait()
        return sum(run.run.tasks[f"s{step.id}"].result["d"] for step in dag if step.id not in needed)


def run(dag: Any, mode: str, db: str, ctl: Any, opt: Any) -> int:
    """Fill the harness's slot: see the module."""
    begun = mode == "durable" and Path(db).exists()
    return asyncio.run(carry_out(dag, mode, db, ctl, opt, begun=begun))
