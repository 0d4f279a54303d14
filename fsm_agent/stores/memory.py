"""The store in memory: the same contract, one process, nothing survives it.

For tests, trials and runs that nobody needs to find again. Every append is as durable as the process.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from fsm_agent.core import canon
from fsm_agent.core.errors import StoreDeadError
from fsm_agent.core.events import Head, Record, genesis
from fsm_agent.stores import checks
from fsm_agent.stores.base import Lease, Letter, Repair, RunInfo, Tombstone


@attrs.define(eq=False, kw_only=True)
class _Run:
    """One run; bodies and hashes lie apart, so that the garbage collector has nothing to walk."""

    bodies: list[bytes]
    hashes: list[bytes]
    head: Head
    epoch: int
    owner: str | None
    lease_until_us: int
    state: str
    created_us: int
    updated_us: int


class _Entry(NamedTuple):
    run: str
    posted_us: int
    body: bytes
    answer: bytes | None


class Inbox:
    """Letters in memory, numbered from 1; shared by the stores that have no tables."""

    def __init__(self, entries: "Iterable[_Entry | None]" = ()) -> None:
        self._entries = list(entries)

    def copy(self) -> "Inbox":
        """Return an inbox that holds the same."""
        return Inbox(self._entries)

    def __iter__(self) -> "Iterator[_Entry | None]":
        """Go through all letters in order of their numbers; None stands for one that was removed."""
        return iter(self._entries)

    def remove(self, run: str) -> None:
        """Forget the letters of *run*; the numbers of the others stay."""
        self._entries = [None if e is not None and e.run == run else e for e in self._entries]

    def skip(self) -> None:
        """Use up a number: its letter was removed."""
        self._entries.append(None)

    def post(self, run: str, posted_us: int, body: bytes) -> int:
        """Add a letter and return its number."""
        self._entries.append(_Entry(run, posted_us, body, None))
        return len(self._entries)

    def check_answer(self, letter: int, run: str) -> None:
        """Refuse to answer a letter that is not in the inbox of *run*, or that has been answered.

        Raises:
            NotFoundError: No such letter there.
            ConflictError: It has been answered.
        """
        found = self.letter(letter)
        if found.run != run:
            raise checks.unknown_letter(letter, run)
        if found.answer is not None:
            raise checks.answered(letter)

    def answer(self, letter: int, answer: bytes) -> None:
        """Keep the answer to a letter."""
        entry = self._entries[letter - 1]
        assert entry is not None, "a removed letter is not answered"
        self._entries[letter - 1] = entry._replace(answer=answer)

    def letter(self, letter: int) -> Letter:
        """Return a letter. Raises ``NotFoundError``."""
        entry = self._entries[letter - 1] if 1 <= letter <= len(self._entries) else None
        if entry is None:
            raise checks.unknown_letter(letter)
        run, posted_us, body, answer = entry
        return Letter(
            id=letter,
            run=run,
            posted_us=posted_us,
            body=canon.decode(body),
            answer=None if answer is None else canon.decode(answer),
        )

    def waiting(self, run: str) -> list[Letter]:
        """Return the unanswered letters to *run*, oldest first."""
        entries = enumerate(self._entries, 1)
        return [
            self.letter(number)
            for number, e in entries
            if e is not None and e.run == run and e.answer is None
        ]


class MemoryStore:
    """A store that lives as long as the object; see :class:`fsm_agent.stores.base.Store` for the contract."""

    def __init__(self) -> None:
        self.location = ":memory:"
        self.repairs: list[Repair] = []
        self._runs: dict[str, _Run] = {}
        self._tombstones: dict[str, bytes] = {}
        self._blobs: dict[str, bytes] = {}
        self._uses: dict[str, set[str]] = {}
        self._inbox = Inbox()
        self._changes = 0
        self._closed = False
        self._lock = threading.RLock()

    def copy(self) -> "MemoryStore":
        """Return a store that holds the same and shares nothing that changes; open even if this one is closed."""
        twin = MemoryStore()
        with self._lock:
            twin._runs = {
                name: attrs.evolve(run, bodies=list(run.bodies), hashes=list(run.hashes))
                for name, run in self._runs.items()
            }
            twin._tombstones = dict(self._tombstones)
            twin._blobs = dict(self._blobs)
            twin._uses = {name: set(runs) for name, runs in self._uses.items()}
            twin._inbox = self._inbox.copy()
        return twin

    def create(self, run: str, owner: str, *, now_us: int, ttl_us: int) -> Lease:
        """Register the run; as in the contract."""
        checks.check_run(run)
        with self._lock:
            self._open()
            if run in self._runs or run in self._tombstones:
                raise checks.taken_id(run)
            self._runs[run] = _Run(
                bodies=[],
                hashes=[],
                head=genesis(run),
                epoch=1,
                owner=owner,
                lease_until_us=now_us + ttl_us,
                state="pending",
                created_us=now_us,
                updated_us=now_us,
            )
            self._changes += 1
            return Lease(run=run, epoch=1, owner=owner)

    def acquire(self, run: str, owner: str, *, now_us: int, ttl_us: int, force: bool | str = False) -> Lease:
        """Take the run over; as in the contract."""
        with self._lock:
            found = self._run(run)
            checks.check_free(run, found.owner, found.lease_until_us, now_us, force)
            found.epoch += 1
            found.owner = owner
            found.lease_until_us = now_us + ttl_us
            self._changes += 1
            return Lease(run=run, epoch=found.epoch, owner=owner)

    def renew(self, lease: Lease, *, now_us: int, ttl_us: int) -> None:
        """Extend the lease; as in the contract."""
        with self._lock:
            self._current(lease).lease_until_us = now_us + ttl_us
            self._changes += 1

    def release(self, lease: Lease) -> None:
        """Give the run up; as in the contract."""
        with self._lock:
            found = self._run(lease.run)
            if (found.epoch, found.owner) == (lease.epoch, lease.owner):
                found.owner = None
                found.lease_until_us = 0
                self._changes += 1

    def append(
        self,
        lease: Lease,
        expected: Head,
        records: Sequence[Record],
        *,
        blobs: Mapping[str, bytes],
        barrier: bool,  # noqa: ARG002 - the same in memory
        state: str,
        now_us: int,
    ) -> Head:
        """Append the records; as in the contract."""
        with self._lock:
            found = self._current(lease)
            if found.head != expected:
                raise checks.moved(lease.run, expected, found.head)
            head = checks.check_batch(lease.run, expected, records, blobs)
            _, bodies, hashes = zip(*records, strict=True)
            found.bodies.extend(bodies)
            found.hashes.extend(hashes)
            found.head = head
            found.state = state
            found.updated_us = now_us
            for name in blobs:
                self._blobs[name] = blobs[name]
                self._uses.setdefault(name, set()).add(lease.run)
            self._changes += 1
            return head

    def write(self) -> None:
        """Do nothing: nothing here outlives the process."""
        self._open()

    def flush(self) -> None:
        """Do nothing: there is nothing more durable than memory here."""
        self._open()

    def head(self, run: str) -> Head:
        """Return the head; as in the contract."""
        return self._run(run).head

    def read(self, run: str, *, since: int = 0, until: int | None = None) -> Iterator[Record]:
        """Yield the records as they are at the call; as in the contract."""
        checks.check_since(since)
        found, end = self._run(run), None if until is None else max(until, 0)
        rows = zip(found.bodies[since:end], found.hashes[since:end], strict=True)
        return (Record(seq, body, digest) for seq, (body, digest) in enumerate(rows, since + 1))

    def blob(self, digest: str) -> bytes:
        """Return a large value; as in the contract."""
        self._open()
        if digest not in self._blobs:
            raise checks.unknown_blob(digest)
        return self._blobs[digest]

    def runs(self) -> list[RunInfo]:
        """List the runs; as in the contract."""
        self._open()
        return sorted((self.info(run) for run in list(self._runs)), key=lambda info: info.created_us)

    def info(self, run: str) -> RunInfo:
        """Return one run's line; as in the contract."""
        with self._lock:
            found = self._run(run)
            return RunInfo(
                run=run,
                head=found.head,
                state=found.state,
                created_us=found.created_us,
                updated_us=found.updated_us,
                owner=found.owner,
                lease_until_us=found.lease_until_us,
            )

    def post(self, run: str, body: dict[str, Any], *, now_us: int) -> int:
        """Put a letter into the inbox; as in the contract."""
        data = checks.letter_bytes(body)
        with self._lock:
            self._run(run)
            self._changes += 1
            return self._inbox.post(run, now_us, data)

    def letters(self, run: str) -> list[Letter]:
        """Return the unanswered letters; as in the contract."""
        self._run(run)
        return self._inbox.waiting(run)

    def answer(self, lease: Lease, letter: int, answer: dict[str, Any]) -> None:
        """Record the answer; as in the contract."""
        data = checks.letter_bytes(answer)
        with self._lock:
            self._current(lease)
            self._inbox.check_answer(letter, lease.run)
            self._inbox.answer(letter, data)
            self._changes += 1

    def letter(self, letter: int) -> Letter:
        """Return a letter; as in the contract."""
        self._open()
        return self._inbox.letter(letter)

    def remove(self, lease: Lease, tombstone: dict[str, Any]) -> None:
        """Forget the run; as in the contract."""
        data = checks.letter_bytes(tombstone, "tombstone")
        with self._lock:
            self._current(lease)
            del self._runs[lease.run]
            self._tombstones[lease.run] = data
            self._inbox.remove(lease.run)
            for name, runs in list(self._uses.items()):
                runs.discard(lease.run)
                if not runs:
                    del self._uses[name], self._blobs[name]
            self._changes += 1

    def tombstones(self) -> list[Tombstone]:
        """Return what is left of removed runs; as in the contract."""
        self._open()
        return [Tombstone(run=run, body=canon.decode(body)) for run, body in sorted(self._tombstones.items())]

    def changes(self) -> int:
        """Return how often this store has been changed, by anyone."""
        self._open()
        return self._changes

    def close(self) -> None:
        """Refuse everything from now on."""
        self._closed = True

    def _open(self) -> None:
        if self._closed:
            raise StoreDeadError("store :memory:: it is closed; what it held is gone, open a new one")

    def _run(self, run: str) -> _Run:
        self._open()
        found = self._runs.get(run)
        if found is None and run in self._tombstones:
            raise checks.removed_run(run, canon.decode(self._tombstones[run]))
        if found is None:
            raise checks.unknown_run(run)
        return found

    def _current(self, lease: Lease) -> _Run:
        found = self._runs.get(lease.run)
        if self._closed or found is None:
            found = self._run(lease.run)
        if found.epoch != lease.epoch or found.owner != lease.owner:
            raise checks.fenced(lease, found.epoch, found.owner)
        return found
