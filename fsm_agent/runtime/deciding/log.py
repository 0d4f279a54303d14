"""The log behind a decider: one run, its owner, and a state that is nothing but the fold of what was appended."""

from collections.abc import Iterator
from os import PathLike
from typing import Self

from fsm_agent.core.audit import replay
from fsm_agent.core.engine import decider as core
from fsm_agent.core.engine.decide import apply
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import RefusedError
from fsm_agent.core.events import Event, Head, genesis, seal, to_line
from fsm_agent.core.inputs import Create, Env
from fsm_agent.runtime.driving.barriers import needs_barrier
from fsm_agent.runtime.driving.engine import LEASE_US
from fsm_agent.runtime.driving.owner import is_dead, owner_name
from fsm_agent.runtime.ports import Ports
from fsm_agent.stores import open_store
from fsm_agent.stores.base import Lease, Store
from fsm_agent.stores.lines import blob_line, named_blobs
from fsm_agent.stores.memory import MemoryStore
from fsm_agent.stores.transfer import import_run

Location = Store | str | PathLike[str] | None


class DecisionLog:
    """A run that moves by a caller's observations alone.

    Attributes:
        run: The state. Read it, never change it.
    """

    def __init__(self, run: Run, store: Store, own: bool, lease: Lease, head: Head, ports: Ports) -> None:
        """Take what :meth:`create`, :meth:`open` or :meth:`restore` prepared; *own* closes the store at the end."""
        self.run = run
        self._store = store
        self._own = own
        self._lease = lease
        self._lease_until = ports.now_us() + LEASE_US
        self._head = head
        self._ports = ports
        self._closed = False

    @classmethod
    def create(cls, location: Location, given: Create, ports: Ports) -> Self:
        """Begin the log of *given*.

        Raises:
            ConflictError: The id is taken.
        """
        store, own = _store(location, create=True)
        try:
            lease = store.create(given.run, given.owner, now_us=ports.now_us(), ttl_us=LEASE_US)
            self = cls(Run(given.run), store, own, lease, genesis(given.run), ports)
            self.take(core.opening(self.run, given, self.env()))
        except BaseException:
            if own:
                store.close()
            raise
        return self

    @classmethod
    def open(cls, location: Location, run: str, ports: Ports) -> Self:
        """Go on where the log of *run* ends, as another owner.

        Raises:
            NotFoundError: No such log.
            OwnedError: Another living process holds it.
            CorruptError: The log is not what was written.
        """
        store, own = _store(location, create=False)
        try:
            self = cls._of(store, own, run, ports)
            self.take(core.taken_over(self.run, self._lease.epoch, self._lease.owner, self.env()))
        except BaseException:
            if own:
                store.close()
            raise
        return self

    @classmethod
    def restore(cls, lines: list[str], ports: Ports) -> Self:
        """Return the log that :attr:`lines` gave, in memory.

        Raises:
            CorruptError: It was changed.
        """
        store = MemoryStore()
        data = "".join(f"{line}\n" for line in lines).encode()
        found = import_run(store, data, owner=owner_name(), now_us=ports.now_us())
        return cls._of(store, True, found.run, ports)

    @classmethod
    def _of(cls, store: Store, own: bool, run: str, ports: Ports) -> Self:
        holder = store.info(run).owner
        lease = store.acquire(
            run,
            owner_name(),
            now_us=ports.now_us(),
            ttl_us=LEASE_US,
            force=holder if holder is not None and is_dead(holder) else False,
        )
        state = replay.replay(run, store.read(run), store.blob)
        core.forget_timers(state)
        return cls(state, store, own, lease, store.head(run), ports)

    def env(self) -> Env:
        """Return time and chance as they are now."""
        return Env(now_us=self._ports.now_us(), jitter=self._ports.jitter())

    def now_us(self) -> int:
        """Return the time, UTC epoch in microseconds."""
        return self._ports.now_us()

    def take(self, events: tuple[Event, ...]) -> None:
        """Append *events*, then apply them.

        Raises:
            RefusedError: The log was given up.
            FencedError: Another owner took it over.
            StoreError: The append failed; nothing was applied.
        """
        if self._closed:
            raise RefusedError(f"decider {self.run.id}: it is closed; open its log again to go on")
        if not events:
            return
        now = self._ports.now_us()
        if now > self._lease_until - LEASE_US // 2:
            self._store.renew(self._lease, now_us=now, ttl_us=LEASE_US)
            self._lease_until = now + LEASE_US
        records, blobs = seal(self._head, events)
        moved = [e.data["dest"] for e in events if e.type == "run_moved"]
        self._head = self._store.append(
            self._lease,
            self._head,
            records,
            blobs=blobs,
            barrier=any(map(needs_barrier, events)),
            state=moved[-1] if moved else self.run.state.value,
            now_us=now,
        )
        for event in events:
            apply(self.run, event)
        core.forget_timers(self.run)

    def events(self, until: int) -> Iterator[Event]:
        """Yield the events up to seq *until*."""
        return replay.events(self.run.id, self._store.read(self.run.id, until=until), self._store.blob)

    @property
    def lines(self) -> list[str]:
        """The lines of the log as a file has them, large values before the event that names them."""
        lines: list[str] = []
        written: set[str] = set()
        for record in self._store.read(self.run.id):
            for name in named_blobs(record.body):
                if name not in written:
                    written.add(name)
                    lines.append(blob_line(name, self._store.blob(name)).decode())
            lines.append(to_line(record).decode())
        return lines

    def close(self) -> None:
        """Give the log up. Silent when that was done already."""
        if self._closed:
            return
        self._closed = True
        self._store.flush()
        self._store.release(self._lease)
        if self._own:
            self._store.close()


def _store(location: Location, *, create: bool) -> tuple[Store, bool]:
    if location is None:
        return MemoryStore(), True
    if isinstance(location, str | PathLike):
        return open_store(location, create=create), True
    return location, False
