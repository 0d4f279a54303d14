"""Logs to be tampered with: those of every scenario, and what a forger does to one who knows the hash function."""

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from fsm_agent.core.audit import replay
from fsm_agent.core.audit.audit import audit
from fsm_agent.core.errors import FsmAgentError
from fsm_agent.core.events import Event, Head, Record, genesis, seal, to_line
from fsm_agent.stores.lines import blob_line, named_blobs
from fsm_agent.testing.scenario import load
from fsm_agent.testing.simulate import RUN_ID, simulate
from fsm_agent.testing.volatile import VolatileStore

SCENARIOS = Path(__file__).parents[1] / "scenarios"


class Log(NamedTuple):
    """A log as it was written: the events with large values in them, and where it ends."""

    name: str
    file: Path
    events: tuple[Event, ...]
    head: Head


class Sealed(NamedTuple):
    """A log as bytes: hashed as whoever wrote it hashes."""

    run: str
    records: list[Record]
    blobs: dict[str, bytes]

    @property
    def lines(self):
        """The log as a file."""
        out, told = [], set()
        for record in self.records:
            for name in named_blobs(record.body):
                if name not in told:
                    told.add(name)
                    out.append(blob_line(name, self.blobs[name]) + b"\n")
            out.append(to_line(record) + b"\n")
        return b"".join(out)


def store_of(file, seed=0):
    """Return the store that a simulation of the scenario in *file* leaves; None if its plan is refused."""
    store = VolatileStore()
    try:
        simulate(load(file), store=store, seed=seed)
        store.head(RUN_ID)
    except FsmAgentError:
        return None
    return store


@functools.cache
def log_of(file, seed=0):
    """Return the log of the scenario in *file* under a *seed*; None if it makes none."""
    store = store_of(file, seed)
    if store is None or not store.head(RUN_ID).seq:
        return None
    events = tuple(replay.events(RUN_ID, store.read(RUN_ID), store.blob))
    return Log(f"{file.parent.name}/{file.stem}", file, events, store.head(RUN_ID))


@functools.cache
def logs():
    """Return the log of every scenario that makes one, in a fixed order."""
    return tuple(log for file in sorted(SCENARIOS.rglob("*.json")) if (log := log_of(file)) is not None)


def sealed(events: Iterable[Event], run: str = RUN_ID) -> Sealed:
    """Return *events* hashed anew from the first to the last."""
    records, blobs = seal(genesis(run), events)
    return Sealed(run, list(records), blobs)


def judged(log: Sealed, head: Head | None = None):
    """Audit a sealed log."""
    return audit(log.run, log.records, log.blobs.__getitem__, head=head)
