"""Small files that are whole or not there: replaced atomically, synced, named so that any run id fits."""

import contextlib
import fcntl
import hashlib
import os
import re
import threading
import time
from pathlib import Path
from typing import Final

from fsm_agent.core.errors import NotFoundError, StoreError

JSONL_MARK: Final = "fsm_agent-store.json"
"""The file that makes a directory a JSONL store."""

_PLAIN: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}")
LOCK_S: Final = 10.0
"""How long a call waits for other processes before it gives up, in seconds."""
_PAUSE: Final = threading.Event()
sync_data = getattr(os, "fdatasync", os.fsync)
"""Make a file's data durable; macOS has no ``fdatasync``."""


def file_name(run: str) -> str:
    """Return a file name for *run*, without a suffix.

    Plain lower-case ids name themselves. Any other id gets what is plain in it, ``~`` and 32 hex digits of its
    SHA-256, so that ids which a file system would confuse (case, Unicode forms, ``..``) stay apart.
    """
    if _PLAIN.fullmatch(run):
        return run
    plain = re.sub(r"[^a-z0-9_-]+", "-", run[:40].lower()).strip("-")
    return f"{plain}~{hashlib.sha256(run.encode()).hexdigest()[:32]}"


def whole(path: str | os.PathLike[str]) -> Path:
    """Return *path* from the root on: a tool may change the working directory of its process.

    Raises:
        NotFoundError: It begins at a working directory that is gone.
    """
    try:
        return Path(path).absolute()
    except FileNotFoundError:
        raise NotFoundError(
            f"store {os.fspath(path)}: the directory that this process works in is gone; give the whole path"
        ) from None


def identity(path: Path) -> tuple[int, int] | None:
    """Return which file is at *path*, whatever is in it; None if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def lock(descriptor: int, how: int, what: str) -> None:
    """Take ``flock`` on a file, and give up when another process does not let it go: it may have been stopped.

    Args:
        descriptor: The file's.
        how: ``fcntl.LOCK_EX`` or ``fcntl.LOCK_SH``.
        what: Names the file in the error.

    Raises:
        StoreError: It was not free for :data:`LOCK_S` seconds.
    """
    patience = time.monotonic() + LOCK_S
    while True:
        try:
            return fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > patience:
                raise StoreError(
                    f"{what}: another process has kept it locked for {LOCK_S:g} s; nothing was written, try again, "
                    "and look for a process that was stopped"
                ) from None
        _PAUSE.wait(0.002)  # nothing tells when a lock becomes free, and to wait in the system has no end


def sync_directory(path: Path) -> None:
    """Make the entries of a directory durable."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def replace(path: Path, data: bytes, *, entry: bool = True) -> None:
    """Write *data* to *path*: afterwards the file is the old one or the new one, whole.

    Args:
        path: The file.
        data: All of it.
        entry: Make the new file's directory entry durable too, not only its bytes.
    """
    draft = path.with_name(f".{path.name[:80]}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    if entry:
        sync_directory(path.parent)


def read_from(path: Path, offset: int) -> bytes:
    """Return the bytes of *path* from *offset* to its end."""
    with path.open("rb") as file:
        file.seek(offset)
        return file.read()


def write_all(descriptor: int, data: bytes) -> None:
    """Write *data* in one call.

    Raises:
        OSError: It failed, or only a part was written; that part is left for recovery to cut.
    """
    written = os.write(descriptor, data)
    if written != len(data):
        raise OSError(f"{written} of {len(data)} bytes were written")
