"""A log file read once, line by line, as it lies there: nothing of it is kept but where its large values stand.

What the audit needs of a line is its bytes: body and hash. The body is parsed by whoever judges it.
"""

import hashlib
import io
import os
from binascii import unhexlify
from collections.abc import Container, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from fsm_agent.core.errors import CorruptError, NotFoundError, UsageError
from fsm_agent.core.events import Head, Record, from_line, genesis
from fsm_agent.runtime.proof.signing import Checkpoint
from fsm_agent.runtime.proof.signing import parse as parse_checkpoints
from fsm_agent.stores.embedded import HTML, is_report, unpack
from fsm_agent.stores.lines import CHECKPOINT, OPEN, parse
from fsm_agent.stores.transfer import Source

_EVENT: Final = b"fsm_agent/event/v1\x00"
_HASH: Final = b',"hash":"'
_TAIL: Final = len(_HASH) + 64 + len('"}')
_LINE: Final = len(_HASH) + 64 + len('"}\n')
_MARK: Final = slice(-_LINE, -_LINE + len(_HASH))
_DIGEST: Final = slice(-_LINE + len(_HASH), -3)
_BODY: Final = slice(-_LINE)
_END: Final = b'"}\n'
_SPECIAL: Final = (CHECKPOINT, OPEN)
_NAME: Final = len(OPEN)
_VALUE: Final = _NAME + 64 + len('","value":')
_AHEAD: Final = 1 << 20


def opened(source: Source | BinaryIO) -> BinaryIO:
    """Return *source* as a file that can be read from any place; one that is open already is taken as it is.

    Raises:
        NotFoundError: No such file.
        UsageError: It cannot be read.
    """
    if isinstance(source, bytes):
        return _log_in(io.BytesIO(source))
    if isinstance(source, str | os.PathLike):
        try:
            return _log_in(Path(source).open("rb", buffering=_AHEAD))
        except FileNotFoundError:
            raise NotFoundError(f"log {os.fspath(source)}: there is no such file; check the path") from None
        except OSError as error:
            raise UsageError(
                f"log {os.fspath(source)}: {error.strerror}; name a file that can be read"
            ) from None
    if isinstance(source, io.IOBase):
        return source  # type: ignore[return-value]
    return io.BytesIO(b"".join(source))


def _log_in(file: BinaryIO) -> BinaryIO:
    """Return *file*, or the log that it carries, if it is a report; one that carries none is read as it is."""
    start = file.read(len(HTML))
    file.seek(0)
    if not is_report(start):
        return file
    with file:
        report = file.read()
    try:
        return io.BytesIO(unpack(report))
    except CorruptError:
        return io.BytesIO(report)  # no line of it is an event, which is what the audit finds


class Lines:
    """The lines of a log file.

    Attributes:
        fault: Why the file does not count to its end; empty if it does. Nothing behind the fault is read.
    """

    def __init__(self, file: BinaryIO) -> None:
        """Read *file* from its beginning."""
        self.fault = ""
        self._file = file
        self._values: dict[bytes, tuple[int, int]] = {}
        self._moved = False

    def __iter__(self) -> Iterator[Record]:
        """Yield the events as they are stored."""
        file = self._file
        file.seek(0)
        at = number = seq = 0
        for number, line in enumerate(file, 1):
            try:
                if line.startswith(_SPECIAL):
                    self._special(line, at)
                else:
                    seq += 1
                    yield record_of(line, seq)
            except CorruptError as error:
                self.fault = f"log line {number}: {error}"
                return
            at += len(line)
            if self._moved:
                file.seek(at)  # a value was looked up
                self._moved = False
        if not number:
            self.fault = "log: the file is empty; a log starts with event 1"

    def _special(self, line: bytes, at: int) -> None:
        """Of a large value remember where it stands; a checkpoint is for those who ask for them."""
        _whole(line)
        if not line.startswith(CHECKPOINT):
            parse(line[:-1])
            digest = line[_NAME : _NAME + 64]
            self._values[bytes.fromhex(digest.decode())] = (at + _VALUE, len(line) - _VALUE - 2)

    def value(self, digest: str) -> bytes:
        """Return a large value's bytes.

        Raises:
            CorruptError: None of that name stands before the event that names it.
        """
        place = self._values.get(_bytes(digest))
        if place is None:
            raise CorruptError(
                f"value {digest[:12]} is named and stands nowhere before; export the run again"
            )
        self._moved = True
        self._file.seek(place[0])
        return self._file.read(place[1])

    def checkpoints(self, run: str) -> list[Checkpoint]:
        """Return the signed checkpoints of *run* that stand in the file."""
        self._file.seek(0)
        return list(parse_checkpoints(self._file, run))


def _bytes(digest: str) -> bytes:
    try:
        return bytes.fromhex(digest)
    except ValueError:
        return b""


def _whole(line: bytes) -> None:
    if not line.endswith(b"\n"):
        raise CorruptError("it has no end; the file was cut there, or it is no log")


def record_of(line: bytes, number: int) -> Record:
    """Return the event in *line*, which has an end, as the log's *number*; what it says is not parsed.

    Raises:
        CorruptError: The line is no event line.
    """
    mark, name, before = line[_MARK], line[_DIGEST], line[_BODY]
    if mark == _HASH and line[-3:] == _END and name.islower():
        try:
            return Record(number, before + b"}", unhexlify(name))
        except ValueError:
            pass
    _whole(line)
    return from_line(line[:-1])


def follow(run: str, file: BinaryIO, wanted: Container[int] = ()) -> tuple[Head, str, dict[int, bytes]]:
    """Follow the chain of a log file and nothing else: whether its bytes are those that were written.

    Args:
        run: The run's id.
        file: The log.
        wanted: Numbers of events whose hashes are asked for.

    Returns:
        Where the chain holds to, why it does not go on (empty if it holds to the end), and the hashes asked for.
    """
    sha256, previous, seq = hashlib.sha256, genesis(run).hash, 0
    hashes: dict[int, bytes] = {}
    file.seek(0)
    for number, line in enumerate(file, 1):
        if line.startswith(_SPECIAL):
            try:
                _whole(line)
                if not line.startswith(CHECKPOINT):
                    parse(line[:-1])
            except CorruptError as error:
                return Head(seq, previous), f"log line {number}: {error}", hashes
            continue
        found = sha256(_EVENT + previous + line[: -_TAIL - 1] + b"}")
        if line[-_TAIL - 1 :] != b'%b%b"}\n' % (_HASH, found.hexdigest().encode()):
            words = f"log line {number}: it does not have the hash of its contents after event {seq}"
            return Head(seq, previous), words, hashes
        previous = found.digest()
        seq += 1
        if seq in wanted:
            hashes[seq] = previous
    return Head(seq, previous), "", hashes
