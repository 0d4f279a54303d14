"""The SQLite store: one file, many runs, several processes; durable where the contract says barrier.

Whatever this instance writes, the buffer goes first, in the same transaction. Appends without a barrier are kept
in memory, in order, until the next write, the next read of their run, ``flush`` or ``close``; so a process that is
killed loses them, as the contract allows, and a stale owner may learn only then that it was fenced.
"""

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final

import attrs

from fsm_agent.core import canon
from fsm_agent.core.errors import CorruptError, FencedError, NotFoundError, StoreError
from fsm_agent.core.events import Head, Record, genesis
from fsm_agent.stores import checks
from fsm_agent.stores import sqlite_rows as rows
from fsm_agent.stores.base import Lease, Letter, Repair, RunInfo, Tombstone
from fsm_agent.stores.files import whole
from fsm_agent.stores.sqlite_file import SEQ_BITS
from fsm_agent.stores.sqlite_link import Link

BUFFER_RECORDS: Final = 256
"""A buffer that grows beyond this is written without waiting for a barrier: what a process that dies has to do again."""


@attrs.define(eq=False)
class _Tip:
    """What this instance knows of a run it appends to, and what it has not written yet."""

    number: int
    lease: Lease
    written: Head
    head: Head
    records: list[Record]
    state: str
    now_us: int


class SqliteStore:
    """A store in one SQLite file; see :class:`fsm_agent.stores.base.Store` for the contract.

    Args:
        path: The file; made, with its directories, if *create* says so.
        read_only: Change nothing; every change is refused with ``StoreUnusableError``.
        create: Make the file if it does not exist; otherwise that is a ``NotFoundError``.
        vfs: SQLite VFS to use, for tests that break the disk.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        read_only: bool = False,
        create: bool = True,
        vfs: str | None = None,
    ) -> None:
        self.location = str(whole(path))
        self.repairs: list[Repair] = []
        self._link = Link(Path(self.location), read_only=read_only, create=create, vfs=vfs)
        self._tips: dict[str, _Tip] = {}
        self._waiting: dict[str, _Tip] = {}
        self._blobs: dict[str, bytes] = {}
        self._uses: set[tuple[str, int]] = set()
        self._lost: dict[str, StoreError] = {}
        self._records = 0
        self._posted = 0
        self._soft = False

    # Owners

    def create(self, run: str, owner: str, *, now_us: int, ttl_us: int) -> Lease:
        """Register the run; as in the contract."""
        checks.check_run(run)
        with self._transaction(barrier=False):
            if self._link.row("SELECT 1 FROM runs WHERE run = ?", run) is not None:
                raise checks.taken_id(run)
            self._link.db.execute(
                "INSERT INTO runs(run, head_seq, head_hash, epoch, owner, lease_until_us, state, created_us, updated_us) "
                "VALUES(?, 0, ?, 1, ?, ?, 'pending', ?, ?)",
                (run, genesis(run).hash, owner, now_us + ttl_us, now_us, now_us),
            )
        return Lease(run=run, epoch=1, owner=owner)

    def acquire(self, run: str, owner: str, *, now_us: int, ttl_us: int, force: bool | str = False) -> Lease:
        """Take the run over; as in the contract."""
        with self._transaction(barrier=False):
            number, _, _, epoch, holder, until = self._run(run)
            checks.check_free(run, holder, until, now_us, force)
            self._link.db.execute(
                "UPDATE runs SET epoch = epoch + 1, owner = ?, lease_until_us = ? WHERE number = ?",
                (owner, now_us + ttl_us, number),
            )
        return Lease(run=run, epoch=epoch + 1, owner=owner)

    def renew(self, lease: Lease, *, now_us: int, ttl_us: int) -> None:
        """Extend the lease; as in the contract."""
        with self._transaction(barrier=False):
            number = self._current(lease)[0]
            self._link.db.execute(
                "UPDATE runs SET lease_until_us = ? WHERE number = ?", (now_us + ttl_us, number)
            )

    def release(self, lease: Lease) -> None:
        """Give the run up; as in the contract. Events that turn out lost are reported by ``flush`` or ``close``."""
        with self._transaction(barrier=False):
            self._run(lease.run)
            self._link.db.execute(
                "UPDATE runs SET owner = NULL, lease_until_us = 0 WHERE run = ? AND epoch = ? AND owner = ?",
                (lease.run, lease.epoch, lease.owner),
            )
        self._tips.pop(lease.run, None)

    # The log

    def append(
        self,
        lease: Lease,
        expected: Head,
        records: Sequence[Record],
        *,
        blobs: Mapping[str, bytes],
        barrier: bool,
        state: str,
        now_us: int,
    ) -> Head:
        """Append the records; as in the contract."""
        with self._link.lock:
            self._link.check(writing=True)
            run = lease.run
            tip = self._tips.get(run)
            if tip is None or tip.head != expected or tip.lease != lease:
                tip = self._look(lease, expected)
            before, kept = (tip.head, tip.state, tip.now_us), len(tip.records)
            tip.head = checks.check_batch(run, expected, records, blobs)
            tip.state, tip.now_us = state, now_us
            tip.records.extend(records)
            self._records += len(records)
            self._blobs.update(blobs)
            self._uses.update((name, tip.number) for name in blobs)
            self._waiting[run] = tip
            if not barrier and self._records <= BUFFER_RECORDS:
                return tip.head
            head = tip.head
            try:
                with self._transaction(barrier=barrier):
                    pass
            except BaseException:
                # Busy: nothing was written, and the caller keeps the batch; what was accepted before stays.
                self._records -= len(tip.records) - kept
                del tip.records[kept:]
                tip.head, tip.state, tip.now_us = before
                if not kept:
                    self._waiting.pop(run, None)
                raise
            if run in self._lost and self._tips.get(run) is not tip:
                raise self._lost.pop(run)
            return head

    def write(self) -> None:
        """Write the buffer; as in the contract."""
        with self._reading(*self._waiting):
            pass

    def flush(self) -> None:
        """Write the buffer and make it durable; as in the contract.

        Raises:
            FencedError: Events of a run that was taken over are lost; everything else is durable.
        """
        with self._link.lock:
            self._link.check()
            if self._waiting or self._soft:
                with self._transaction(barrier=True):
                    if not self._waiting:  # only a commit that writes a page waits for the disk
                        self._link.db.execute("UPDATE barriers SET count = count + 1")
            for run in self._lost:
                raise self._lost.pop(run)

    def head(self, run: str) -> Head:
        """Return the head; as in the contract."""
        with self._reading(run):
            _, seq, digest, *_ = self._run(run)
            return Head(seq, digest)

    def read(self, run: str, *, since: int = 0, until: int | None = None) -> Iterator[Record]:
        """Yield the records as they are at the call, each verified against the hash before it.

        Raises:
            CorruptError: While reading, at the first event that does not fit; ``seq`` names it.
        """
        checks.check_since(since)
        with self._reading(run):
            number, last, digest, *_ = self._run(run)
            head = Head(last, digest)
            if since == 0:
                previous = genesis(run).hash
            elif since >= last:
                return iter(())
            else:
                row = self._link.row("SELECT hash FROM events WHERE id = ?", (number << SEQ_BITS) + since)
                if row is None:
                    raise rows.corrupt(self.location, run, since)
                previous = row[0]
        upto = last if until is None else min(until, last)
        return rows.records(self._link, self.location, (run, number), Head(since, previous), upto, head)

    def blob(self, digest: str) -> bytes:
        """Return a large value; as in the contract."""
        with self._link.statement():
            value = self._blobs.get(digest)
            if value is not None:
                return value
            row = self._link.row("SELECT value FROM blobs WHERE digest = ?", digest)
        if row is None:
            raise checks.unknown_blob(digest)
        if type(row[0]) is not bytes or hashlib.sha256(row[0]).hexdigest() != digest:
            raise CorruptError(f"value {digest}: the stored bytes have another digest; restore a backup")
        return row[0]

    def runs(self) -> list[RunInfo]:
        """List the runs; as in the contract."""
        with self._reading(*self._waiting):
            found = self._link.db.execute(rows.INFO + " WHERE tombstone IS NULL ORDER BY created_us, number")
            return [rows.info(row) for row in found]

    def info(self, run: str) -> RunInfo:
        """Return one run's line; as in the contract."""
        with self._reading(run):
            self._run(run)
            return rows.info(self._link.row(rows.INFO + " WHERE run = ?", run))

    # The inbox

    def post(self, run: str, body: dict[str, Any], *, now_us: int) -> int:
        """Put a letter into the inbox; as in the contract."""
        data = checks.letter_bytes(body)
        with self._transaction(barrier=True):
            self._link.db.execute(
                "INSERT INTO inbox(run, posted_us, body) VALUES(?, ?, ?)", (self._run(run)[0], now_us, data)
            )
            self._posted += 1
            return self._link.db.last_insert_rowid()

    def letters(self, run: str) -> list[Letter]:
        """Return the unanswered letters; as in the contract."""
        with self._link.statement():
            number = self._run(run)[0]
            found = self._link.db.execute(
                rows.LETTER + " WHERE inbox.run = ? AND answer IS NULL ORDER BY inbox.id", (number,)
            )
            return [rows.letter(row) for row in found]

    def answer(self, lease: Lease, letter: int, answer: dict[str, Any]) -> None:
        """Record the answer; as in the contract."""
        data = checks.letter_bytes(answer)
        with self._transaction(barrier=True) as lost:
            number = self._current(lease)[0]
            if lease.run in lost:
                raise lost[lease.run]
            row = self._link.row("SELECT answer FROM inbox WHERE id = ? AND run = ?", letter, number)
            if row is None:
                raise checks.unknown_letter(letter, lease.run)
            if row[0] is not None:
                raise checks.answered(letter)
            self._link.db.execute("UPDATE inbox SET answer = ? WHERE id = ?", (data, letter))

    def letter(self, letter: int) -> Letter:
        """Return a letter; as in the contract."""
        with self._link.statement():
            row = self._link.row(rows.LETTER + " WHERE inbox.id = ?", letter)
        if row is None:
            raise checks.unknown_letter(letter)
        return rows.letter(row)

    # Retention

    def remove(self, lease: Lease, tombstone: dict[str, Any]) -> None:
        """Forget the run; as in the contract. What is freed is overwritten with zeros."""
        data = checks.letter_bytes(tombstone, "tombstone")
        with self._link.lock:
            with self._transaction(barrier=True):
                number = self._current(lease)[0]
                self._link.db.execute(rows.BURY, (data, number))
                self._link.db.execute(
                    "DELETE FROM events WHERE id BETWEEN ? AND ?",
                    (number << SEQ_BITS, (number + 1 << SEQ_BITS) - 1),
                )
                self._link.db.execute("DELETE FROM inbox WHERE run = ?", (number,))
                self._link.db.execute(rows.FREE_BLOBS, (number,))
                self._link.db.execute("DELETE FROM blob_uses WHERE run = ?", (number,))
            self._tips.pop(lease.run, None)
            self._link.checkpoint()

    def tombstones(self) -> list[Tombstone]:
        """Return what is left of removed runs; as in the contract."""
        with self._link.statement():
            found = self._link.db.execute(
                "SELECT run, tombstone FROM runs WHERE tombstone IS NOT NULL ORDER BY run"
            )
            return [Tombstone(run=run, body=canon.decode(body)) for run, body in found]

    def changes(self) -> int:
        """Return a number that differs after others have changed the store, or a letter was posted here."""
        with self._link.statement():
            return self._link.version() << 32 | self._posted

    def close(self) -> None:
        """Write the buffer, make it durable and close; silent if the store is closed or dead.

        Raises:
            FencedError: As :meth:`flush`; the store is closed all the same.
        """
        with self._link.lock:
            if self._link.dead:
                return
            try:
                if not self._link.read_only:
                    self.flush()
            finally:
                self._link.close(f"store {self.location}: it is closed; open it again")

    # Mechanism

    @contextlib.contextmanager
    def _reading(self, *runs: str) -> Iterator[None]:
        """As :meth:`_statement`, after what was appended to *runs* has been written."""
        with self._link.statement():
            if any(run in self._waiting for run in runs):
                with self._transaction(barrier=False):
                    pass
            yield

    @contextlib.contextmanager
    def _transaction(self, *, barrier: bool) -> Iterator[dict[str, StoreError]]:
        """Write the buffer and whatever the body writes: all of it, or nothing if the body raises.

        Yields the runs whose buffered events could not be written, with the reason.
        """
        with self._link.lock:
            with self._link.transaction(barrier=barrier):
                lost = self._write()
                yield lost
            self._settle(lost, barrier=barrier)

    def _write(self) -> dict[str, StoreError]:
        lost: dict[str, StoreError] = {}
        events: list[tuple[int, bytes, bytes]] = []
        for run, tip in self._waiting.items():
            head, base, lease = tip.head, tip.written, tip.lease
            self._link.db.execute(
                rows.MOVE,
                (head.seq, head.hash, tip.state, tip.now_us, tip.number, *base, lease.epoch, lease.owner),
            )
            if self._link.db.changes() == 1:
                first = tip.number << SEQ_BITS
                events += [(first + seq, digest, body) for seq, body, digest in tip.records]
            else:
                lost[run] = self._why_lost(tip)
        if events:
            self._link.db.executemany("INSERT INTO events VALUES(?, ?, ?)", events)
        if self._blobs:
            self._link.db.executemany("INSERT OR IGNORE INTO blobs VALUES(?, ?)", self._blobs.items())
            self._link.db.executemany("INSERT OR IGNORE INTO blob_uses VALUES(?, ?)", self._uses)
        return lost

    def _why_lost(self, tip: _Tip) -> StoreError:
        try:
            _, seq, digest, epoch, owner, _ = self._run(tip.lease.run)
        except NotFoundError as error:
            return FencedError(str(error))
        if (epoch, owner) != (tip.lease.epoch, tip.lease.owner):
            return checks.fenced(tip.lease, epoch, owner)
        return checks.moved(tip.lease.run, tip.written, Head(seq, digest))

    def _settle(self, lost: dict[str, StoreError], *, barrier: bool) -> None:
        self._soft = not barrier and (self._soft or bool(self._waiting))
        for tip in self._waiting.values():
            tip.written = tip.head
            tip.records = []
        for run, error in lost.items():
            self._tips.pop(run, None)
            self._lost[run] = error
        self._waiting.clear()
        self._blobs.clear()
        self._uses.clear()
        self._records = 0

    def _look(self, lease: Lease, expected: Head) -> _Tip:
        """Return what the file says of the run, if *lease* may append there after *expected*."""
        with self._reading(lease.run):
            number, seq, digest, *_ = self._current(lease)
            found = Head(seq, digest)
            if found != expected:
                raise checks.moved(lease.run, expected, found)
        tip = self._tips[lease.run] = _Tip(number, lease, found, found, [], "", 0)
        return tip

    def _current(self, lease: Lease) -> tuple[int, int, bytes, int, str | None, int]:
        found = self._run(lease.run)
        if found[3:5] != (lease.epoch, lease.owner):
            raise checks.fenced(lease, found[3], found[4])
        return found

    def _run(self, run: str) -> tuple[int, int, bytes, int, str | None, int]:
        row = self._link.row(
            "SELECT number, head_seq, head_hash, epoch, owner, lease_until_us, tombstone FROM runs WHERE run = ?",
            run,
        )
        if row is None:
            raise checks.unknown_run(run)
        *row, tombstone = row
        if tombstone is not None:
            raise checks.removed_run(run, canon.decode(tombstone))
        if [type(value) for value in row[:4]] != [int, int, bytes, int]:
            raise rows.corrupt(self.location, run, None)
        number, seq, digest, epoch, owner, until_us = row
        return number, seq, digest, epoch, owner, until_us
