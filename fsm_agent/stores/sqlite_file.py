"""The SQLite file: its schema, how it is opened, and what its errors mean.

A file is ours by its ``application_id``; any other file is refused and left as it is. The file is never opened
but through SQLite: closing any other descriptor of it would drop this process's locks (POSIX).
"""

import os
import stat
import time
from pathlib import Path
from typing import Final
from urllib.parse import quote

import apsw

from fsm_agent.core.errors import (
    CorruptError,
    FsmAgentError,
    NotFoundError,
    StoreDeadError,
    StoreError,
    StoreUnusableError,
)

APPLICATION_ID: Final = 0x46534D41
"""``FSMA`` in ASCII, in the file's header."""
SCHEMA: Final = 1
"""``user_version`` of the files that this program writes and reads."""
SEQ_BITS: Final = 40
"""``events.id`` is the run's number times 2 to the power of this, plus seq."""
PAGE_BYTES: Final = 8192
"""Measured with three events of 270 bytes per commit: written per commit 11 KiB at 4096, 20 at 8192. A page of 8192
leaves half as much of the file unused, and of results of 2 KB, which go one to a page of 4096, much less."""
BUSY_MS: Final = 10_000
"""How long a call waits for other processes before it gives up."""
WAL_BYTES: Final = 16 << 20
"""The write-ahead log is cut back to this after a burst."""

# One integer key: the events of a run lie together, and a commit touches the fewest pages.
_TABLES: Final = """
CREATE TABLE runs(
  number INTEGER PRIMARY KEY CHECK(number < 1 << 23), run TEXT NOT NULL UNIQUE,
  head_seq INTEGER NOT NULL, head_hash BLOB NOT NULL CHECK(length(head_hash) = 32),
  epoch INTEGER NOT NULL, owner TEXT, lease_until_us INTEGER NOT NULL,
  state TEXT NOT NULL, created_us INTEGER NOT NULL, updated_us INTEGER NOT NULL, tombstone BLOB) STRICT;
CREATE TABLE events(
  id INTEGER PRIMARY KEY, hash BLOB NOT NULL CHECK(length(hash) = 32), body BLOB NOT NULL) STRICT;
CREATE TABLE blobs(digest TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT;
CREATE TABLE blob_uses(digest TEXT NOT NULL, run INTEGER NOT NULL, PRIMARY KEY(digest, run)) STRICT, WITHOUT ROWID;
CREATE TABLE inbox(
  id INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL REFERENCES runs, posted_us INTEGER NOT NULL,
  body BLOB NOT NULL, answer BLOB) STRICT;
CREATE INDEX inbox_open ON inbox(run) WHERE answer IS NULL;
CREATE TABLE barriers(id INTEGER PRIMARY KEY CHECK(id = 1), count INTEGER NOT NULL) STRICT;
INSERT INTO barriers VALUES(1, 0);
CREATE TRIGGER events_no_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_no_delete BEFORE DELETE ON events
  WHEN (SELECT tombstone FROM runs WHERE number = old.id >> 40) IS NULL
  BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER blobs_no_update BEFORE UPDATE ON blobs BEGIN SELECT RAISE(ABORT, 'values are append-only'); END;
CREATE VIEW log AS SELECT runs.run, events.id & ((1 << 40) - 1) AS seq, lower(hex(events.hash)) AS hash,
  CAST(events.body AS TEXT) AS body FROM events JOIN runs ON runs.number = events.id >> 40;
"""


def translate(location: str, error: apsw.Error) -> FsmAgentError:
    """Return what *error*, raised in a store that is in use, means for its user."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreError(
                f"store {location}: another process kept it locked for {BUSY_MS // 1000} s; nothing was written, "
                "try again, and look for a process that holds a transaction open"
            )
        case apsw.CorruptError() | apsw.NotADBError() | apsw.ConstraintError() | apsw.SQLError():
            return CorruptError(
                f"store {location}: its pages do not fit ({error}); audit it, restore a backup"
            )
        case _:
            return StoreDeadError(
                f"store {location}: {type(error).__name__} ({error}); whether the last change was written is open: "
                "close this store, look at the disk, open it again"
            )


def connect(path: Path, *, read_only: bool, create: bool, vfs: str | None = None) -> apsw.Connection:
    """Open the file, or make a new one.

    Args:
        path: The file. An empty file is made a store.
        read_only: Change nothing. If nobody has the file open no side files are made either.
        create: Make the file, and its directories, if it does not exist.
        vfs: SQLite VFS to use; the system's by default.

    Raises:
        NotFoundError: No such file, and it may not be created.
        StoreUnusableError: It is a directory, not ours, of another version, or cannot be opened.
        CorruptError: Its pages do not fit.
        StoreError: Another process keeps it locked.
    """
    _look(path, may_create=create and not read_only)
    try:
        db = _open(path, read_only=read_only, vfs=vfs)
    except (apsw.Error, OSError) as error:
        raise _unusable(
            path, f"it cannot be opened ({error})", "check the path and its permissions"
        ) from error
    try:
        _prepare(path, db, read_only=read_only)
    except apsw.Error as error:
        db.close()
        raise _at_opening(path, error) from error
    except OSError as error:
        db.close()
        found = f"its directory cannot be made durable ({error.strerror})"
        raise _unusable(path, found, "look at the disk") from error
    except FsmAgentError:
        db.close()
        raise
    return db


def log_of(path: Path) -> Path:
    """Return where SQLite keeps the write-ahead log of the file at *path*: beside the file, not beside a link to it."""
    return Path(f"{os.path.realpath(path)}-wal")


def side_files(path: Path) -> bool:
    """Say whether someone has the file open for writing, or left without closing it."""
    return os.path.exists(log_of(path))  # noqa: PTH110 - pathlib raises where the directory may not be searched


def _look(path: Path, *, may_create: bool) -> None:
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise _unusable(path, "it is a directory", "name a file in it, such as runs.db")
        if not stat.S_ISREG(found.st_mode):
            raise _unusable(path, "it is no regular file", "name a file on a local disk")
        if found.st_size == 0 and not may_create:
            raise _empty(path)
    except FileNotFoundError:
        if not may_create:
            raise NotFoundError(
                f"store {path}: there is no such file; check the path, or start a run in it"
            ) from None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(
                path, f"its directory cannot be made ({error.strerror})", "choose another path"
            ) from None
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise _unusable(path, f"it cannot be looked at ({words})", "choose another path") from None


def _open(path: Path, *, read_only: bool, vfs: str | None) -> apsw.Connection:
    if not read_only:
        return apsw.Connection(str(path.absolute()), vfs=vfs)
    # Without a write-ahead log the file stands still; "immutable" then spares its directory the side files.
    query = "mode=ro" if side_files(path) else "mode=ro&immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"file:{quote(str(path.absolute()))}?{query}", flags=flags, vfs=vfs)


def _prepare(path: Path, db: apsw.Connection, *, read_only: bool) -> None:
    db.set_busy_timeout(BUSY_MS)
    for name, value in (("trusted_schema", 0), ("cell_size_check", 1), ("foreign_keys", 1), ("fullfsync", 1)):
        db.pragma(name, value)
    if _is_empty(db):
        if read_only:
            raise _empty(path)
        _make(path, db)
    found = db.pragma("application_id")
    if found != APPLICATION_ID:
        raise _unusable(
            path, f"another program's SQLite file (application_id {found})", "choose another path"
        )
    version = db.pragma("user_version")
    if version != SCHEMA:
        raise _unusable(
            path,
            f"its schema is version {version}, this program knows {SCHEMA}",
            "use the program that wrote it",
        )
    if read_only:
        return
    if db.readonly("main"):
        raise _unusable(path, "it may not be written", "open it with read_only, or give write permission")
    db.pragma("checkpoint_fullfsync", 1)
    db.pragma(
        "secure_delete", 1
    )  # what is removed, or moved by a split page, leaves no copy; costs nothing measurable
    db.pragma("journal_size_limit", WAL_BYTES)
    if not _to_wal(db):
        raise _unusable(
            path, "its file system has no shared memory for the write-ahead log", "use a local disk"
        )
    db.execute(
        "BEGIN IMMEDIATE; ROLLBACK"
    )  # fails now, not at the first append, if the directory is read-only


def _to_wal(db: apsw.Connection) -> bool:
    """Switch to a write-ahead log, and say whether that went. SQLite does not wait by itself for others who do."""
    patience = time.monotonic() + BUSY_MS / 1000
    while db.pragma("journal_mode") != "wal":
        try:
            return bool(db.pragma("journal_mode", "wal") == "wal")
        except apsw.BusyError:
            if time.monotonic() > patience:
                raise
            db.execute("BEGIN IMMEDIATE; ROLLBACK")  # this waits for whoever is at it
    return True


def _is_empty(db: apsw.Connection) -> bool:
    """Whether nothing is in the file: at most the page that says that it has a write-ahead log."""
    if db.pragma("page_count") > 1 or db.pragma("application_id") or db.pragma("user_version"):
        return False
    return db.execute("SELECT 1 FROM sqlite_schema").fetchone() is None


def _make(path: Path, db: apsw.Connection) -> None:
    """Make an empty file a store. Whoever dies meanwhile leaves one that is empty, or the whole store."""
    if db.readonly("main"):
        raise _unusable(path, "it may not be written", "give write permission, or choose another path")
    db.pragma("page_size", PAGE_BYTES)
    db.pragma("synchronous", 2)
    _to_wal(
        db
    )  # first, so that the disk is waited for half as often; where there can be none, it is told later
    db.execute("BEGIN EXCLUSIVE")
    try:
        if _is_empty(db):  # nobody was faster
            db.execute(_TABLES)
            db.pragma("application_id", APPLICATION_ID)
            db.pragma("user_version", SCHEMA)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    directory = os.open(path.absolute().parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _at_opening(path: Path, error: apsw.Error) -> FsmAgentError:
    match error:
        case apsw.NotADBError():
            return _unusable(path, "it is no SQLite file", "choose another path")
        case apsw.BusyError() | apsw.LockedError() | apsw.CorruptError():
            return translate(str(path), error)
        case _:
            return _unusable(
                path,
                f"{type(error).__name__} ({error})",
                "give write permission for the file and its directory, or copy it and its -wal file elsewhere",
            )


def _empty(path: Path) -> StoreUnusableError:
    return _unusable(path, "it is empty", "open it for writing once to make it a store")


def _unusable(path: Path, found: str, advice: str) -> StoreUnusableError:
    return StoreUnusableError(f"store {path}: {found}; {advice}")
