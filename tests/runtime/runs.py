"""Real runs for tests: started through the real controller, audited when they are left."""

import asyncio
from contextlib import asynccontextmanager

from fsm_agent import Plan, RunController, Toolbox, audit
from fsm_agent.stores import open_store


def go(coroutine):
    """Run a test's coroutine on a loop of its own; nothing may take longer than 20 s."""
    return asyncio.run(asyncio.wait_for(coroutine, 20))


def plan_of(*steps, **more):
    """Return a plan of *steps*."""
    return Plan.make({"steps": list(steps), **more})


def one(tool, **more):
    """Return a plan whose only step ``t`` calls *tool*."""
    return plan_of({"id": "t", "tool": tool, **more})


@asynccontextmanager
async def running(plan, tools, *, store=None, **options):
    """Start a run; at the end its log must audit without a finding, whatever happened in it."""
    place = open_store(store)
    try:
        async with await RunController.start(plan, tools, store=place, **options) as run:
            yield run
        check(place, run.id, run.head)
    finally:
        place.close()


@asynccontextmanager
async def resumed(store, run_id, tools, **options):
    """Take a run over; audited as above."""
    place = open_store(store)
    try:
        async with await RunController.open(place, run_id, tools, **options) as run:
            yield run
        check(place, run_id, run.head)
    finally:
        place.close()


def check(store, run_id, head):
    """Audit a run of *store*."""
    found = audit(store, run=run_id, head=head)
    assert found.findings == (), found.findings


def toolbox(fn, effect="read", **options):
    """Return a toolbox with one tool called ``do``."""
    tools = Toolbox()
    tools.add(fn, effect=effect, name="do", **options)
    return tools
