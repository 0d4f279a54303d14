"""Burr: an action for each step. It runs one action at a time, so the steps go in topological order."""

import contextlib
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiosqlite
from burr.core import ApplicationBuilder, State, action, default
from burr.integrations.persisters.b_aiosqlite import AsyncSQLitePersister

from benchmarks.shapes import Graph, Step, Work, ends


def acting(step: Step, work: Work) -> Any:
    """Return the action that runs *step*."""
    reads = [f"s{dep}" for dep in step.deps]

    @action(reads=reads, writes=[f"s{step.id}"])
    async def act(state: State) -> State:
        result = await work.tool(step.id, [state[name]["d"] for name in reads])
        return state.update(**{f"s{step.id}": result})

    return act


async def run(graph: Graph, work: Work, file: Path | None, ready: Callable[[], None]) -> int:
    """Carry *graph* out."""
    sys.setrecursionlimit(20_000)  # its builder recurses along the graph
    names = [f"n{step.id}" for step in graph]
    builder = (
        ApplicationBuilder()
        .with_identifiers(app_id="bench")
        .with_actions(**{f"n{step.id}": acting(step, work) for step in graph})
        .with_transitions(*((one, other, default) for one, other in itertools.pairwise(names)))
    )
    async with contextlib.AsyncExitStack() as stack:
        if file is None:
            app = builder.with_entrypoint(names[0]).with_state(State({})).build()
        else:
            db = await stack.enter_async_context(aiosqlite.connect(file))
            await db.execute("PRAGMA journal_mode = WAL")
            await db.execute("PRAGMA synchronous = NORMAL")
            persister = AsyncSQLitePersister(db)
            await persister.initialize()
            begun = builder.with_state_persister(persister).initialize_from(
                persister, resume_at_next_action=True, default_state={}, default_entrypoint=names[0]
            )
            app = await begun.abuild()
        ready()
        _, _, state = await app.arun(halt_after=[names[-1]])
    return sum(state[f"s{i}"]["d"] for i in ends(graph))
