"""The JSONL store: a directory, one log file per run that any tool can read, for small embeds and exchange.

A batch is one ``write``, whole or torn, and nothing is appended before the tail has been looked at. Beside each log
``<name>.meta.json`` holds its lease and its line of the list of runs; ``inbox.jsonl`` holds the letters. Every call
holds ``flock`` on the file ``lock``, so threads and processes take turns. Logs that were looked at are kept in
memory. A torn tail is cut (a copy stays as ``<file>.torn-<n>``) when the run is acquired or appended to; whoever
only reads sees the whole batches before it.

Appends without a barrier are in the system's hands at once: a killed process loses nothing, a power cut may leave
a tail that looks damaged in the middle, and then the store refuses the run instead of guessing.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from fsm_agent.core import canon
from fsm_agent.core.errors import ConflictError, NotFoundError, StoreDeadError, UsageError
from fsm_agent.core.events import Head, Record
from fsm_agent.stores import checks, files, lines
from fsm_agent.stores.base import Lease, Letter, Repair, RunInfo, Tombstone
from fsm_agent.stores.jsonl_log import LogFile
from fsm_agent.stores.jsonl_parts import InboxFile, Meta, meta_path, open_directory, read_meta


class JsonlStore:
    """A store in a directory; see :class:`fsm_agent.stores.base.Store` for the contract.

    Args:
        path: The directory; made if *create* says so.
        read_only: Change nothing; every change is refused with ``StoreUnusableError``.
        create: Make the store if there is none; otherwise that is a ``NotFoundError``.
        anchored: Returns a run's head as known outside the store, or None: a cut below it is corruption.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        create: bool = True,
        anchored: Callable[[str], Head | None] | None = None,
    ) -> None:
        self.location = str(files.whole(path))
        self.repairs: list[Repair] = []
        self._path = Path(self.location)
        self._read_only = read_only
        self._anchored = anchored
        self._dead = ""
        self._logs: dict[str, LogFile] = {}
        self._unsaved: dict[str, Meta] = {}
        self._inbox = InboxFile(self._path)
        self._lock = threading.RLock()
        self._depth = 0
        self._swept = False
        self._lock_file = open_directory(self._path, read_only=read_only, create=create)

    # Owners

    def create(self, run: str, owner: str, *, now_us: int, ttl_us: int) -> Lease:
        """Register the run; as in the contract."""
        checks.check_run(run)
        with self._turn(writing=True):
            if meta_path(self._path, run).exists():
                raise checks.taken_id(run)
            path = self._log(run).path
            if path.exists() and path.stat().st_size > 0:
                raise ConflictError(
                    f"run {checks.shown(run)}: {path} lies there without its meta file; move it away and import it"
                )
            path.touch()
            meta = Meta(
                run=run,
                epoch=1,
                owner=owner,
                lease_until_us=now_us + ttl_us,
                state="pending",
                created_us=now_us,
                updated_us=now_us,
            )
            self._save(meta)
            return Lease(run=run, epoch=1, owner=owner)

    def acquire(self, run: str, owner: str, *, now_us: int, ttl_us: int, force: bool | str = False) -> Lease:
        """Take the run over; as in the contract. Cuts a torn tail."""
        with self._turn(writing=True):
            meta = self._meta(run)
            checks.check_free(run, meta.owner, meta.lease_until_us, now_us, force)
            self._look(run, repair=True)
            self._save(attrs.evolve(meta, epoch=meta.epoch + 1, owner=owner, lease_until_us=now_us + ttl_us))
            return Lease(run=run, epoch=meta.epoch + 1, owner=owner)

    def renew(self, lease: Lease, *, now_us: int, ttl_us: int) -> None:
        """Extend the lease; as in the contract."""
        with self._turn(writing=True):
            self._save(attrs.evolve(self._current(lease), lease_until_us=now_us + ttl_us), entry=False)

    def release(self, lease: Lease) -> None:
        """Give the run up; as in the contract."""
        with self._turn(writing=True):
            meta = self._meta(lease.run)
            if (meta.epoch, meta.owner) == (lease.epoch, lease.owner):
                self._save(attrs.evolve(meta, owner=None, lease_until_us=0), entry=False)
                log = self._log(lease.run)
                log.sync()
                log.rest()

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
        """Append the records; as in the contract.

        Several batches in one call are written together, and if they begin the log, all of them are there or none.
        """
        with self._turn(writing=True):
            meta = self._current(lease)
            log = self._look(lease.run, repair=True)
            if log.head != expected:
                raise checks.moved(lease.run, expected, log.head)
            head = checks.check_batch(lease.run, expected, records, blobs)
            if not lines.whole(records):
                raise UsageError(
                    f"append to run {checks.shown(lease.run)}: the records are no whole batches; "
                    "give the events of one append the same tx, [first seq, count]"
                )
            log.append(records, blobs, head)
            if barrier:
                self._sync()
            changed = attrs.evolve(meta, state=state, updated_us=now_us)
            if state != meta.state:
                self._save(changed, entry=False)
            else:
                self._unsaved[lease.run] = changed
            return head

    def write(self) -> None:
        """Do nothing: every append is in the system's hands at once."""
        self._check()

    def flush(self) -> None:
        """Make everything appended so far durable; as in the contract."""
        if self._read_only:
            self._check()
            return
        with self._turn(writing=True):
            self._sync()
            for shown in list(self._unsaved.values()):
                with contextlib.suppress(NotFoundError):  # somebody may have removed it
                    meta = self._meta(shown.run)  # with what is unsaved, if the run is still ours
                    if (meta.epoch, meta.owner) == (shown.epoch, shown.owner):
                        self._save(meta, entry=False)
            self._unsaved.clear()

    def head(self, run: str) -> Head:
        """Return the head; as in the contract."""
        with self._turn():
            self._meta(run)
            return self._look(run).head

    def read(self, run: str, *, since: int = 0, until: int | None = None) -> Iterator[Record]:
        """Yield the records as they are at the call, verified when they were first looked at."""
        checks.check_since(since)
        with self._turn():
            self._meta(run)
            return iter(self._look(run).records[since : None if until is None else max(until, 0)])

    def blob(self, digest: str) -> bytes:
        """Return a large value; as in the contract. Looks through all logs if it has to."""
        with self._turn():
            for log in self._logs.values():
                if digest in log.blobs:
                    return log.blobs[digest]
            for run in self._names():
                if digest in self._look(run).blobs:
                    return self._logs[run].blobs[digest]
            raise checks.unknown_blob(digest)

    def runs(self) -> list[RunInfo]:
        """List the runs; as in the contract."""
        with self._turn():
            return sorted((self.info(run) for run in self._names()), key=lambda info: info.created_us)

    def info(self, run: str) -> RunInfo:
        """Return one run's line; as in the contract."""
        with self._turn():
            meta = self._meta(run)
            return RunInfo(
                run=run,
                head=self._look(run).head,
                state=meta.state,
                created_us=meta.created_us,
                updated_us=meta.updated_us,
                owner=meta.owner,
                lease_until_us=meta.lease_until_us,
            )

    # The inbox

    def post(self, run: str, body: dict[str, Any], *, now_us: int) -> int:
        """Put a letter into the inbox; as in the contract."""
        checks.letter_bytes(body)
        with self._turn(writing=True):
            self._meta(run)
            self._inbox.look()
            return self._inbox.post(run, now_us, body)

    def letters(self, run: str) -> list[Letter]:
        """Return the unanswered letters; as in the contract."""
        with self._turn():
            self._meta(run)
            return self._inbox.look().waiting(run)

    def answer(self, lease: Lease, letter: int, answer: dict[str, Any]) -> None:
        """Record the answer; as in the contract."""
        checks.letter_bytes(answer)
        with self._turn(writing=True):
            self._current(lease)
            self._inbox.look().check_answer(letter, lease.run)
            self._sync()
            self._inbox.answer(letter, answer)

    def letter(self, letter: int) -> Letter:
        """Return a letter; as in the contract."""
        with self._turn():
            return self._inbox.look().letter(letter)

    # Retention

    def remove(self, lease: Lease, tombstone: dict[str, Any]) -> None:
        """Forget the run; as in the contract. The tombstone comes first, so a crash leaves files that are swept."""
        checks.letter_bytes(tombstone, "tombstone")
        with self._turn(writing=True):
            meta = attrs.evolve(self._current(lease), owner=None, lease_until_us=0, tombstone=tombstone)
            self._save(meta)
            for left in [meta] if self._swept else [m for m in self._metas() if m.tombstone is not None]:
                self._inbox.remove(left.run)
                log = self._logs.pop(left.run, None) or LogFile(left.run, self._path)
                log.delete()
            self._swept = True
            files.sync_directory(self._path)

    def tombstones(self) -> list[Tombstone]:
        """Return what is left of removed runs; as in the contract."""
        with self._turn():
            found = [Tombstone(run=m.run, body=m.tombstone) for m in self._metas() if m.tombstone is not None]
            return sorted(found, key=lambda tombstone: tombstone.run)

    def changes(self) -> int:
        """Return a number that differs after anybody has changed the store."""
        with self._turn():
            found = [(entry.name, entry.stat()) for entry in os.scandir(self._path)]
            return hash(tuple(sorted((name, at.st_ino, at.st_mtime_ns, at.st_size) for name, at in found)))

    def close(self) -> None:
        """Make everything durable and close; silent if the store is closed or dead."""
        with self._lock:
            if self._dead:
                return
            try:
                self.flush()
            finally:
                self._die(self._dead or f"store {self.location}: it is closed; open it again")

    # Mechanism

    def _check(self, *, writing: bool = False) -> None:
        if self._dead:
            raise StoreDeadError(self._dead)
        if writing and self._read_only:
            raise checks.read_only(self.location)

    def _die(self, why: str) -> None:
        self._dead = why
        for log in self._logs.values():
            log.rest()
        if self._lock_file >= 0:
            os.close(self._lock_file)

    @contextlib.contextmanager
    def _turn(self, *, writing: bool = False) -> Iterator[None]:
        """Hold the directory's lock for the body; an I/O error in it is the end of this instance."""
        with self._lock:
            self._check(writing=writing)
            if self._depth == 0 and self._lock_file >= 0:
                how = fcntl.LOCK_EX if writing else fcntl.LOCK_SH
                files.lock(self._lock_file, how, f"store {self.location}")
            self._depth += 1
            try:
                if self._depth == 1:
                    self._stay()
                yield
            except OSError as error:
                self._die(
                    f"store {self.location}: {error}; whether the last change was written is open: "
                    "close this store, look at the disk, open it again"
                )
                raise StoreDeadError(self._dead) from error
            finally:
                self._depth -= 1
                if self._depth == 0 and self._lock_file >= 0 and not self._dead:
                    fcntl.flock(self._lock_file, fcntl.LOCK_UN)

    def _stay(self) -> None:
        """Refuse to go on under a lock that is no longer the one in the directory: others may hold that one."""
        if self._lock_file < 0:
            return
        held = os.fstat(self._lock_file)
        if (held.st_dev, held.st_ino) != files.identity(self._path / "lock"):
            raise OSError("its directory or its lock was deleted, moved or replaced while it was open")

    def _sync(self) -> None:
        for log in self._logs.values():
            log.sync()

    def _names(self) -> list[str]:
        return [meta.run for meta in self._metas() if meta.tombstone is None]

    def _metas(self) -> list[Meta]:
        return [read_meta(path) for path in self._path.glob("*.meta.json")]

    def _meta(self, run: str) -> Meta:
        try:
            meta = read_meta(meta_path(self._path, run))
        except (FileNotFoundError, UnicodeEncodeError):
            raise checks.unknown_run(run) from None
        if meta.tombstone is not None:
            raise checks.removed_run(run, meta.tombstone)
        mine = self._unsaved.get(run)
        if mine is not None and (mine.epoch, mine.owner) == (meta.epoch, meta.owner):
            return attrs.evolve(meta, state=mine.state, updated_us=mine.updated_us)
        return meta

    def _current(self, lease: Lease) -> Meta:
        meta = self._meta(lease.run)
        if (meta.epoch, meta.owner) != (lease.epoch, lease.owner):
            raise checks.fenced(lease, meta.epoch, meta.owner)
        return meta

    def _save(self, meta: Meta, *, entry: bool = True) -> None:
        files.replace(meta_path(self._path, meta.run), canon.encode(attrs.asdict(meta)) + b"\n", entry=entry)
        self._unsaved.pop(meta.run, None)

    def _log(self, run: str) -> LogFile:
        log = self._logs.get(run)
        if log is None:
            log = self._logs[run] = LogFile(run, self._path)
        return log

    def _look(self, run: str, *, repair: bool = False) -> LogFile:
        log = self._log(run)
        tail = log.look()
        if tail and repair:
            self.repairs.append(log.cut(tail, None if self._anchored is None else self._anchored(run)))
        return log
