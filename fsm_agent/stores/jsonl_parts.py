"""What lies beside the logs in a JSONL store: the directory's mark and lock, the leases, the inbox."""

import errno
import os
from pathlib import Path
from typing import Any, Final

import attrs
import orjson

from fsm_agent.core import canon
from fsm_agent.core.errors import CorruptError, NotFoundError, StoreUnusableError
from fsm_agent.stores import files
from fsm_agent.stores.memory import Inbox

_GENERATION: Final = b'{"generation":'
_GENERATION_BYTES: Final = 40
_FORMAT: Final = {"format": "fsm_agent/jsonl-store", "version": 1}


@attrs.frozen(kw_only=True)
class Meta:
    """A run's lease and its line of the list of runs, or what is left of a removed one; ``<name>.meta.json``."""

    run: str
    epoch: int
    owner: str | None
    lease_until_us: int
    state: str
    created_us: int
    updated_us: int
    tombstone: dict[str, Any] | None = None


def meta_path(directory: Path, run: str) -> Path:
    """Return where the run's lease lies."""
    return directory / f"{files.file_name(run)}.meta.json"


def read_meta(path: Path) -> Meta:
    """Read a lease.

    Raises:
        FileNotFoundError: There is none.
        CorruptError: The file holds something else.
    """
    data = path.read_bytes()
    try:
        return _typed(Meta(**orjson.loads(data)))
    except (ValueError, TypeError) as error:
        raise CorruptError(f"{path}: it is no lease file ({error}); restore a backup") from None


def _typed(meta: Meta) -> Meta:
    numbers = (meta.epoch, meta.lease_until_us, meta.created_us, meta.updated_us)
    owner, tombstone = type(meta.owner), type(meta.tombstone)
    fits = {type(n) for n in numbers} == {int} and type(meta.run) is type(meta.state) is str
    if not fits or owner not in (str, type(None)) or tombstone not in (dict, type(None)):
        raise TypeError("a field of another type")
    return meta


class InboxFile:
    """``inbox.jsonl``: a line for every letter and every answer. The caller holds the store's lock.

    When letters are removed the file is written anew, and its first line counts how often that happened.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "inbox.jsonl"
        self._inbox = Inbox()
        self._size = 0
        self._first = b""

    def look(self) -> Inbox:
        """Take in what has been added, and return all letters."""
        if not self._path.exists():
            if self._size:
                raise self._lost("is gone")
            return self._inbox
        with self._path.open("rb") as file:
            first = file.readline(_GENERATION_BYTES)
            if first != self._first and first.startswith(_GENERATION):  # written anew by somebody else
                self._inbox, self._size, self._first = Inbox(), 0, first
            size = file.seek(0, os.SEEK_END)
            if size < self._size:
                raise self._lost(f"has {size} bytes and had {self._size}")
            file.seek(self._size)
            data = file.read()
        for line in data.splitlines(keepends=True):
            if not line.endswith(b"\n"):  # torn: whoever wrote it was never told that it is there
                break
            try:
                self._take(orjson.loads(line))
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise CorruptError(
                    f"{self._path} byte {self._size}: no letter ({error}); restore a backup"
                ) from None
            self._size += len(line)
        return self._inbox

    def _lost(self, found: str) -> CorruptError:
        return CorruptError(
            f"{self._path}: it {found}, so letters were lost that nobody has answered; restore a backup, "
            "or open the store again to go on without them"
        )

    def post(self, run: str, posted_us: int, body: dict[str, Any]) -> int:
        """Write a letter, durably, and return its number."""
        return self._write({"run": run, "posted_us": posted_us, "body": body})

    def answer(self, letter: int, answer: dict[str, Any]) -> None:
        """Write an answer, durably."""
        self._write({"letter": letter, "answer": answer})

    def remove(self, run: str) -> None:
        """Forget the letters of *run*, durably; the numbers of the others stay."""
        inbox = self.look()
        if not any(entry is not None and entry.run == run for entry in inbox):
            return
        inbox.remove(run)
        generation = orjson.loads(self._first)["generation"] if self._first else 0
        lines: list[dict[str, Any]] = [{"generation": generation + 1}]
        for number, entry in enumerate(inbox, 1):
            if entry is None:
                lines.append({"removed": number})
                continue
            body = canon.decode(entry.body)
            lines.append({"run": entry.run, "posted_us": entry.posted_us, "body": body})
            if entry.answer is not None:
                lines.append({"letter": number, "answer": canon.decode(entry.answer)})
        data = b"".join(canon.encode(line) + b"\n" for line in lines)
        files.replace(self._path, data)
        self._first, self._size = canon.encode(lines[0]) + b"\n", len(data)

    def _take(self, line: dict[str, Any]) -> int:
        if "generation" in line:
            return 0
        if "removed" in line:
            self._inbox.skip()
            return int(line["removed"])
        if "letter" in line:
            self._inbox.answer(line["letter"], canon.encode(line["answer"]))
            return int(line["letter"])
        return self._inbox.post(line["run"], line["posted_us"], canon.encode(line["body"]))

    def _write(self, line: dict[str, Any]) -> int:
        data = canon.encode(line) + b"\n"
        new = not self._path.exists()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.ftruncate(descriptor, self._size)
            os.lseek(descriptor, 0, os.SEEK_END)
            files.write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if new:
            files.sync_directory(self._path.parent)
        self._size += len(data)
        return self._take(line)


def open_directory(path: Path, *, read_only: bool, create: bool) -> int:
    """Find the store, or make it, and return a descriptor of its lock file.

    Returns:
        The descriptor; -1 if there is no lock file and nothing may be made.

    Raises:
        NotFoundError: There is no store and none may be made.
        StoreUnusableError: It is a file, holds other things, is of another version, or cannot be written.
    """
    may_create = create and not read_only
    mark = path / files.JSONL_MARK
    try:
        if not path.exists() and not may_create:
            raise NotFoundError(
                f"store {path}: there is no such directory; check the path, or start a run in it"
            )
        if may_create and not mark.exists():
            path.mkdir(parents=True, exist_ok=True)
            strange = any(not entry.name.startswith(".") for entry in path.iterdir())
            if strange and not mark.exists():  # another process may have made the store by now, mark first
                raise _unusable(
                    path, "a directory that holds other things", "choose an empty one, or another name"
                )
            files.replace(mark, canon.encode(_FORMAT) + b"\n")
        found = orjson.loads(mark.read_bytes())
        if found != _FORMAT:
            raise _unusable(
                path, f"it says {found}, this program knows {_FORMAT}", "use the program that wrote it"
            )
        if read_only:
            lock = path / "lock"
            return os.open(lock, os.O_RDONLY | os.O_CLOEXEC) if lock.exists() else -1
        if not os.access(path, os.W_OK):  # found now, not at the first append
            raise _unusable(path, "it may not be written", "give write permission, or choose another path")
        return os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except ValueError as error:
        raise _unusable(
            path, f"its mark {files.JSONL_MARK} cannot be read ({error})", "restore a backup"
        ) from None
    except OSError as error:
        hint = "choose another path; a single log file is imported, not opened"
        name = errno.errorcode.get(error.errno or 0, "OSError")
        raise _unusable(path, f"it cannot be opened ({name}: {error.strerror})", hint) from None


def _unusable(path: Path, found: str, advice: str) -> StoreUnusableError:
    return StoreUnusableError(f"store {path}: {found}; {advice}")
