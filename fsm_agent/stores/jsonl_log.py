"""A run's file in a JSONL store: looked at once, then only where it has grown."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from fsm_agent.core.errors import CorruptError
from fsm_agent.core.events import Head, Record, genesis, to_line
from fsm_agent.stores import checks, files, lines
from fsm_agent.stores.base import Repair


class LogFile:
    """What is known of one file. The caller holds the store's lock.

    Attributes:
        run: The run.
        path: The file.
        head: After the last whole batch.
        records: All records up to there.
        blobs: All large values up to there.
    """

    def __init__(self, run: str, directory: Path) -> None:
        self.run = run
        self.path = directory / f"{files.file_name(run)}.jsonl"
        self.head = genesis(run)
        self.records: list[Record] = []
        self.blobs: dict[str, bytes] = {}
        self._found: tuple[int, int] | None = None
        self._size = 0
        self._lines = 0
        self._descriptor = -1
        self._soft = False

    def look(self) -> bytes:
        """Take in what has been added to the file, and return the torn tail behind it.

        Raises:
            CorruptError: The file is gone, was replaced, is shorter than it was, or was changed in the middle.
        """
        try:
            at = self.path.stat()
        except FileNotFoundError:
            raise self._corrupt("it is gone", self.head.seq) from None
        if self._size and self._found != (at.st_dev, at.st_ino):
            raise self._corrupt("another file is in its place", self.head.seq)
        self._found = at.st_dev, at.st_ino
        if at.st_size == self._size:
            return b""
        if at.st_size < self._size:
            raise self._corrupt(f"it has {at.st_size} bytes and had {self._size}", self.head.seq)
        data = files.read_from(self.path, self._size)
        scan = lines.scan(data, self.head, line=self._lines + 1)
        self.records += scan.records
        self.blobs |= scan.blobs
        self.head = scan.head
        self._size += scan.end
        self._lines += scan.lines
        if scan.fault is not None and not scan.fault.torn:
            raise self._corrupt(
                f"line {scan.fault.line}: {scan.fault.what}, and later events follow", scan.fault.seq
            )
        return data[scan.end :]

    def cut(self, tail: bytes, anchor: Head | None) -> Repair:
        """Cut the torn tail off; a copy is kept beside the file.

        Args:
            tail: As :meth:`look` returned it.
            anchor: The run's head as known outside the store.

        Raises:
            CorruptError: The anchor lies in the tail; nothing was changed.
        """
        if anchor is not None and anchor.seq > self.head.seq:
            raise self._corrupt(
                f"it is whole up to seq {self.head.seq}, but its anchored head is seq {anchor.seq}",
                self.head.seq + 1,
            )
        number = 1
        while (kept := self.path.with_name(f"{self.path.name}.torn-{number}")).exists():
            number += 1
        files.replace(kept, tail)
        with self.path.open("r+b") as file:
            file.truncate(self._size)
            os.fsync(file.fileno())
        digest = hashlib.sha256(tail).hexdigest()
        return Repair(run=self.run, head=self.head, bytes_cut=len(tail), digest=digest, kept=str(kept))

    def append(self, records: Sequence[Record], blobs: Mapping[str, bytes], head: Head) -> None:
        """Write whole batches, in one call; the values that the file has are left out.

        Several batches at the beginning (an import, a fork) are there together or not at all: half a log that is
        whole in itself would be gone on with.

        Args:
            records: Follow :attr:`head`, checked.
            blobs: Large values by digest, checked.
            head: After *records*.

        Raises:
            OSError: As the system says; a part may have been written.
        """
        new = {name: value for name, value in blobs.items() if name not in self.blobs}
        data = b"".join(lines.blob_line(name, value) + b"\n" for name, value in new.items())
        data += b"".join(to_line(record) + b"\n" for record in records)
        if self._size == 0 and lines.tx_of(records[0])[1] < len(records):
            self.rest()
            files.replace(self.path, data)
            self._found = files.identity(self.path)
        else:
            if self._descriptor < 0:
                self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            self._soft = True
            files.write_all(self._descriptor, data)
        self._size += len(data)
        self._lines += len(new) + len(records)
        self.records += records
        self.blobs |= new
        self.head = head

    def sync(self) -> None:
        """Make what was appended durable."""
        if self._soft:
            files.sync_data(self._descriptor)
            self._soft = False

    def rest(self) -> None:
        """Close the file until the next append."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def delete(self) -> None:
        """Delete the file and the copies of tails that were cut off it, as far as they are there."""
        self.rest()
        for path in (self.path, *self.path.parent.glob(f"{self.path.name}.torn-*")):
            path.unlink(missing_ok=True)

    def _corrupt(self, found: str, seq: int) -> CorruptError:
        return CorruptError(
            f"run {checks.shown(self.run)} in {self.path}: {found}; nothing was changed, restore a backup",
            seq=seq,
        )
