"""One connection to a store's SQLite file: its lock, its transactions, and the end of its life.

After an I/O error nothing is tried again: the connection is closed and every later call is refused. So it is when
the file was deleted, moved or replaced by another: SQLite would go on in a file that nobody finds any more.
"""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import apsw
import orjson

from fsm_agent.core.errors import CorruptError, StoreDeadError
from fsm_agent.stores import checks
from fsm_agent.stores.files import identity
from fsm_agent.stores.sqlite_file import connect, log_of, side_files, translate

_NORMAL: Final = 1
_FULL: Final = 2


class Link:
    """A connection that several threads take in turns.

    Args:
        path: The file.
        read_only: Refuse every transaction.
        create: Make the file if it does not exist.
        vfs: SQLite VFS to use; the system's by default.
    """

    def __init__(self, path: Path, *, read_only: bool, create: bool, vfs: str | None) -> None:
        self.lock = threading.RLock()
        self.dead = ""
        self.read_only = read_only
        self._path = path
        self._vfs = vfs
        self._opened = 0
        self._level = 0
        self._found: tuple[int, int] | None
        self._found_wal: tuple[int, int] | None
        self.db: apsw.Connection
        self._connect(create=create)

    def check(self, *, writing: bool = False) -> None:
        """Refuse to go on with a dead or closed store, or to change one that is open for reading.

        Raises:
            StoreDeadError: It is dead or closed.
            StoreUnusableError: It is open for reading only.
        """
        if self.dead:
            raise StoreDeadError(self.dead)
        if writing and self.read_only:
            raise checks.read_only(str(self._path))
        if self._standing and side_files(
            self._path
        ):  # a writer came: read through its write-ahead log from now on
            self.db.close()
            self._connect(create=False)

    @contextlib.contextmanager
    def statement(self, *, writing: bool = False) -> Iterator[None]:
        """Take the connection for the body, and turn SQLite's errors into ours."""
        with self.lock:
            self.check(writing=writing)
            try:
                yield
            except apsw.Error as error:
                meaning = translate(str(self._path), error)
                if isinstance(meaning, StoreDeadError):
                    self.close(str(meaning))
                raise meaning from error
            except (UnicodeDecodeError, orjson.JSONDecodeError) as error:
                raise CorruptError(
                    f"store {self._path}: text that is no UTF-8, or no JSON ({error}); audit it"
                ) from error

    @contextlib.contextmanager
    def transaction(self, *, barrier: bool) -> Iterator[None]:
        """Commit what the body writes; nothing of it if the body raises.

        Args:
            barrier: Return only when this and everything before is durable.
        """
        with self.statement(writing=True):
            self._stay()
            level = _FULL if barrier else _NORMAL
            if level != self._level:  # SQLite refuses to change it inside a transaction
                self.db.pragma("synchronous", level)
                self._level = level
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(apsw.Error):
                    self.db.execute("ROLLBACK")  # SQLite may have done it itself
                raise
            if barrier:
                self._stay()

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file and empty it, unless somebody reads it now."""
        with self.statement(writing=True), contextlib.suppress(apsw.BusyError, apsw.LockedError):
            self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _stay(self) -> None:
        """Refuse to go on in a file that is no longer the one at the path, or whose write-ahead log is not."""
        self._found_wal = self._found_wal or identity(self._wal)
        if self._found == identity(self._path) is not None and self._found_wal == identity(self._wal):
            return
        if self._found != identity(
            self._path
        ):  # another store may be there by now: its log is not ours to delete
            self.db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self.close(
            f"store {self._path}: its file, or its write-ahead log, was deleted, moved or replaced while it was open, "
            "so what was written lately may be nowhere; put the files back, or restore a backup, and audit it"
        )
        raise StoreDeadError(self.dead)

    def row(self, sql: str, *values: Any) -> Any:
        """Return the first row of a query, or None."""
        return self.db.execute(sql, values).fetchone()

    def version(self) -> int:
        """Return a number that differs after another connection has changed the file."""
        version: int = self.db.pragma("data_version")
        return self._opened << 32 | version

    def close(self, why: str) -> None:
        """Close for good; *why* is what every later call is told."""
        self.dead = self.dead or why
        with contextlib.suppress(apsw.Error):
            self.db.close()

    def _connect(self, *, create: bool) -> None:
        self._standing = self.read_only and not side_files(self._path)
        self._opened += 1
        self._level = 0
        self.db = connect(self._path, read_only=self.read_only, create=create, vfs=self._vfs)
        self._wal = log_of(self._path)
        self._found, self._found_wal = identity(self._path), None
