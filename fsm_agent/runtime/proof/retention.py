"""Removing old runs: only those that are closed and owe nobody an answer, and each leaves where its log ended.

A run that could still be resumed, whose effect nobody knows, or that somebody drives, stays, and it is said why.
"""

from typing import Any

import attrs

from fsm_agent.core.audit import replay
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import CorruptError, FencedError, NotFoundError, OwnedError
from fsm_agent.core.events import Head
from fsm_agent.core.machine import RunState, TaskState
from fsm_agent.runtime.driving.engine import LEASE_US
from fsm_agent.runtime.driving.owner import is_dead, owner_name
from fsm_agent.runtime.proof.heads import Heads
from fsm_agent.stores.base import RunInfo, Store


@attrs.frozen(kw_only=True)
class Collected:
    """What became of an old run.

    Attributes:
        run: Its id.
        head: Where its log ended.
        kept: Why it was not removed; empty if it was.
    """

    run: str
    head: Head
    kept: str = ""


def collect(store: Store, *, older_than_us: int, now_us: int, by: str) -> list[Collected]:
    """Remove the runs that nobody has touched for *older_than_us* microseconds and that are over and done with.

    Args:
        store: Where from.
        older_than_us: Younger runs are not looked at.
        now_us: UTC epoch in microseconds.
        by: Who wants it; kept in the tombstones.

    Returns:
        Every run that is old enough: removed, or kept and why.
    """
    old = [info for info in store.runs() if info.updated_us <= now_us - older_than_us]
    found = [_collect(store, info, now_us=now_us, by=by) for info in old]
    return [one for one in found if one is not None]


def _collect(store: Store, info: RunInfo, *, now_us: int, by: str) -> Collected | None:
    """Remove a run, or say why not; None if somebody else has removed it meanwhile."""
    dead = info.owner if info.owner is not None and is_dead(info.owner) else False
    try:
        lease = store.acquire(info.run, owner_name(), now_us=now_us, ttl_us=LEASE_US, force=dead)
    except NotFoundError:
        return None
    except OwnedError:
        return Collected(
            run=info.run, head=info.head, kept=f"{info.owner} drives it; wait until it is given up"
        )
    except CorruptError as error:
        return Collected(run=info.run, head=info.head, kept=str(error))
    kept, tombstone = _judge(store, info.run)
    if kept:
        store.release(lease)
        return Collected(run=info.run, head=info.head, kept=kept)
    try:
        store.remove(lease, {**tombstone, "removed_us": now_us, "by": by})
    except FencedError as error:
        return Collected(run=info.run, head=info.head, kept=f"somebody took it over meanwhile: {error}")
    return Collected(run=info.run, head=info.head)


def _judge(store: Store, run: str) -> tuple[str, dict[str, Any]]:
    """Return why *run* stays, or else an empty text and the facts of its tombstone."""
    try:
        Heads.beside(store.location).check(store, run)
        state = replay.replay(run, store.read(run), store.blob)
    except (CorruptError, NotFoundError) as error:
        return f"its log does not verify, which somebody should look at first: {error}", {}
    waiting = len(store.letters(run))
    if waiting:
        letters = "1 letter to it is" if waiting == 1 else f"{waiting} letters to it are"
        return f"{letters} unread; resume it, so that somebody answers", {}
    seq, digest = store.head(run)
    facts = {"head": {"seq": seq, "hash": digest.hex()}, "state": state.state.value, "closed_us": state.at}
    return why_kept(state), facts


def why_kept(run: Run) -> str:
    """Return why a run must not be removed yet, and what to do about it; empty if it may."""
    if not run.closed:
        return f"it is {run.state.value} and not closed; let it end, or cancel it"
    if run.state is RunState.FAILED:
        return "it failed and can still be resumed from where it stopped; resume it, or cancel it"
    unknown = [task.id for task in run.tasks.values() if task.state is TaskState.UNKNOWN]
    if unknown:
        return (
            f"nobody knows what became of {', '.join(unknown)}; say so first: "
            f"fsm-agent reconcile {run.id} {unknown[0]} --as applied|absent --evidence TEXT"
        )
    return ""
