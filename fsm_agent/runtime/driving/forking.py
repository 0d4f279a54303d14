"""Forking a run of a store: its family is looked at, the new log is written at once, and nobody drives it yet."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from fsm_agent.core.audit import replay
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import ConflictError
from fsm_agent.core.events import Event, Head, Record, chain, from_body, genesis, seal
from fsm_agent.core.inputs import Env, Person
from fsm_agent.core.machine import TaskState
from fsm_agent.core.replay import fork as forks
from fsm_agent.core.replay.fork import Known
from fsm_agent.core.replay.player import Replay
from fsm_agent.runtime.driving.engine import LEASE_US
from fsm_agent.runtime.driving.owner import owner_name
from fsm_agent.runtime.ports import Ports
from fsm_agent.runtime.proof.heads import NOWHERE, Heads
from fsm_agent.stores.base import Store
from fsm_agent.stores.checks import check_run
from fsm_agent.stores.lines import named_blobs


@attrs.frozen(kw_only=True)
class Forked:
    """A run that was forked.

    Attributes:
        run: The new run.
        parent: Where it comes from.
        at: Number of the last event that it has from there.
        head: Where its log ends now.
        done: Tasks that are done, with the results that they had.
        brought: What the family did behind the cut, and is not done again.
        asked: Tasks whose requests were dropped, and are asked anew.
    """

    run: str
    parent: str
    at: int
    head: Head
    done: tuple[str, ...]
    brought: tuple[Known, ...]
    asked: tuple[str, ...]


def fork_run(
    store: Store,
    run: str,
    at: int,
    *,
    who: Person,
    ports: Ports,
    new: str | None = None,
    heads: Heads = NOWHERE,
) -> Forked:
    """Begin a new run with the events of *run* up to *at*; results are kept, approvals are not, no effect is made again.

    Args:
        store: Holds the run, and every other run of its family that there is.
        run: The parent.
        at: Number of the last event to keep; the last of a batch.
        who: Who forks.
        ports: Time and chance.
        new: Id of the new run; left out, that of the first of the family with the next number.
        heads: Where heads are kept outside of logs.

    Raises:
        NotFoundError: No such run or event.
        RefusedError: Nothing can go on from there, a run of the family could still act, or what became of one of its
            writes is not known.
        ConflictError: The new id is taken, or somebody else forked a run of the family at the same moment.
        CorruptError: A log of the family is not what was written.
    """
    head = store.head(run)
    heads.check(store, run)
    log = Replay(run, store.read(run, until=head.seq), store.blob)
    root = str(log.events[0].data.get("root", run)) if log.events else run
    family = {run: log.events, **_family(store, root, run)}
    for name, events in family.items():
        forks.check_family(forks.folded(name, events))
    known = forks.known_effects(log.events[:at], family.items(), forks.cut(log, at))
    name = _name(store, root) if new is None else new
    check_run(name)
    source = forks.origin(log, at)
    records = _records(name, source, store.read(run, until=at))
    state = replay.replay(name, records, store.blob)
    asked = tuple(t.id for t in state.tasks.values() if t.state is TaskState.AWAITING)
    env = Env(now_us=ports.now_us(), jitter=ports.jitter(), slots=0)
    events = forks.begin(state, source, known, who, env)
    end = _write(
        store,
        name,
        records,
        events,
        state,
        ports.now_us(),
        lambda: _family(store, root, name).keys() - family,
    )
    heads.keep(store, name, end)
    done = tuple(t.id for t in state.tasks.values() if t.state is TaskState.DONE)
    there = tuple(k for k in known if k.there)
    return Forked(run=name, parent=run, at=at, head=end, done=done, brought=there, asked=asked)


def _family(store: Store, root: str, but: str) -> dict[str, Sequence[Event]]:
    """Return the logs of every run of the store whose keys are made under *root*, but for one."""
    found: dict[str, Sequence[Event]] = {}
    for info in store.runs():
        first = next(iter(store.read(info.run, until=1)), None)
        if info.run == but or first is None:
            continue
        if from_body(first.body).data.get("root", info.run) == root:
            found[info.run] = tuple(replay.events(info.run, store.read(info.run), store.blob))
    return found


def _name(store: Store, root: str) -> str:
    """Return the first free name of the form ROOT.fN; two who fork at once want the same one, and one of them gets it."""
    taken = {info.run for info in store.runs()} | {left.run for left in store.tombstones()}
    return next(name for n in range(1, len(taken) + 2) if (name := f"{root}.f{n}") not in taken)


def _records(run: str, source: Mapping[str, Any], records: Iterable[Record]) -> list[Record]:
    """Return the parent's records under the new name: the first with other contents, the others byte for byte."""
    out: list[Record] = []
    previous = genesis(run).hash
    for record in records:
        body = forks.first_body(record.body, run, source) if record.seq == 1 else record.body
        previous = chain(previous, body)
        out.append(Record(record.seq, body, previous))
    return out


def _write(
    store: Store,
    run: str,
    records: list[Record],
    events: Sequence[Event],
    state: Run,
    now_us: int,
    strangers: Callable[[], Iterable[str]],
) -> Head:
    """Write the log of a fork, and take it back if the family has another run by now that could act as well.

    Whoever forks looks before and after; so of two at once the later one, or both, see the other's run.
    """
    head = Head(records[-1].seq, records[-1].hash)
    more, blobs = seal(head, events)
    named = {name: store.blob(name) for record in records for name in named_blobs(record.body)}
    lease = store.create(run, owner_name(), now_us=now_us, ttl_us=LEASE_US)
    try:
        end = store.append(
            lease,
            genesis(run),
            [*records, *more],
            blobs={**named, **blobs},
            barrier=True,
            state=state.state.value,
            now_us=now_us,
        )
        others = sorted(strangers())
    except BaseException:
        store.release(lease)
        raise
    if others:
        words = f"run {others[0]} was forked from the same family at the same moment"
        store.remove(lease, {"why": words, "head": {"seq": end.seq, "hash": end.hash.hex()}})
        raise ConflictError(f"fork {run}: {words}; let that one end, then fork again under another id")
    store.release(lease)
    return end
