"""Logs as files: written out, read back and taken in, with the bytes and the hashes they had.

A file is JSON lines without a header: the first bytes are event 1. The form of a line is in
:mod:`fsm_agent.stores.lines`. Lines of signed checkpoints may follow the events; they are read past here.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import attrs

from fsm_agent.core.errors import ConflictError, CorruptError, NotFoundError, UsageError
from fsm_agent.core.events import Head, Record, from_body, from_line, genesis, to_line
from fsm_agent.stores import checks
from fsm_agent.stores.base import Store
from fsm_agent.stores.embedded import is_report, unpack
from fsm_agent.stores.lines import CHECKPOINT, Blob, Scan, blob_line, named_blobs, parse, scan

Source = str | os.PathLike[str] | bytes | Iterable[bytes]
"""A path, the bytes of a file, or an open binary file (any iterable of byte lines).

A file may be a report, which carries a log (:mod:`fsm_agent.stores.embedded`); the log in it is what is read.
"""
_TTL_US: Final = 60_000_000


class Entry(NamedTuple):
    """A line of a log file: its number from 1, and the event or the large value in it."""

    line: int
    item: Record | Blob


@attrs.frozen(kw_only=True)
class Imported:
    """What an import did.

    Attributes:
        run: The run's id, from event 1.
        head: Of the imported log.
        new: False: the store had exactly this log already, and nothing was changed.
        message: The same for people.
    """

    run: str
    head: Head
    new: bool
    message: str


def export_run(store: Store, run: str, out: BinaryIO, *, checkpoints: Iterable[bytes] = ()) -> Head:
    """Write the log of *run*, every large value before the first event that names it.

    Args:
        store: Holds the run.
        run: Its id.
        out: Where to.
        checkpoints: Lines of signed checkpoints, with their ends; they follow the events.

    Returns:
        The head of what was written; keep it elsewhere, for a cut file does not show by itself.

    Raises:
        NotFoundError: No such run, or it has no events yet.
        CorruptError: The log does not verify, or a value is missing or changed; what was written is a part.
    """
    head = genesis(run)
    written: set[str] = set()
    for record in store.read(run):
        for name in named_blobs(record.body):
            if name not in written:
                written.add(name)
                out.write(blob_line(name, _value(store, name, record.seq)) + b"\n")
        out.write(to_line(record) + b"\n")
        head = Head(record.seq, record.hash)
    if head.seq == 0:
        raise NotFoundError(f"run {checks.shown(run)}: it has no events yet; there is nothing to export")
    out.writelines(checkpoints)
    return head


def _value(store: Store, name: str, seq: int) -> bytes:
    try:
        return store.blob(name)
    except NotFoundError:
        raise CorruptError(
            f"event {seq}: it names value {name}, which the store lacks; restore a backup", seq=seq
        ) from None


def read_log(source: Source) -> Iterator[Entry]:
    """Yield the lines of a log file, in order. Chain and batches are for the reader to check.

    Raises:
        NotFoundError: No such file.
        CorruptError: While reading, at the first line that is neither an event nor a large value, by number.
    """
    number = 0
    for number, line in enumerate(_lines(source), 1):
        if not line.endswith(b"\n"):
            raise CorruptError(f"log line {number}: it has no end; the file was cut there")
        if line.startswith(CHECKPOINT):
            continue
        try:
            yield Entry(number, parse(line[:-1]))
        except CorruptError as error:
            raise CorruptError(f"log line {number}: {error}") from None
    if number == 0:
        raise CorruptError("log: the file is empty; a log starts with event 1")


def _lines(source: Source) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield from _split(unpack(source) if is_report(source) else source)
    elif isinstance(source, str | os.PathLike):
        try:
            with Path(source).open("rb") as file:
                first = file.readline()
                if is_report(first):
                    yield from _split(unpack(first + file.read()))
                    return
                if first:
                    yield first
                yield from file
        except FileNotFoundError:
            raise NotFoundError(f"log {os.fspath(source)}: there is no such file; check the path") from None
        except OSError as error:
            raise UsageError(
                f"log {os.fspath(source)}: {error.strerror}; name a file that can be read"
            ) from None
    else:
        yield from source


def _split(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        stop = data.find(b"\n", at) + 1 or len(data)
        yield data[at:stop]
        at = stop


def import_run(store: Store, source: Source, *, owner: str, now_us: int) -> Imported:
    """Take a log into *store*, byte for byte, and give it up again, so that anyone may go on with it.

    Args:
        store: Where to.
        source: The log.
        owner: Named in the lease while the log is written.
        now_us: UTC epoch in microseconds.

    Raises:
        CorruptError: The log is torn or changed, or a value is missing; the line is named and nothing was stored.
        ConflictError: The store has another log under this id.
        NotFoundError: No such file.
    """
    data = b"".join(_lines(source))
    run = _run_of(data)
    found = scan(data, genesis(run))
    if found.fault is not None:
        raise CorruptError(
            f"log line {found.fault.line}: {found.fault.what}; import a whole log", seq=found.fault.seq
        )
    state = _check_events(data, found)
    try:
        lease = store.create(run, owner, now_us=now_us, ttl_us=_TTL_US)
    except ConflictError:
        if store.head(run).seq > 0:
            return _compare(store, run, found)
        lease = store.acquire(run, owner, now_us=now_us, ttl_us=_TTL_US)  # an import that was cut off
    try:
        store.append(
            lease, genesis(run), found.records, blobs=found.blobs, barrier=True, state=state, now_us=now_us
        )
    finally:
        store.release(lease)
    text = f"run {checks.shown(run)}: {found.head.seq} events imported, head {found.head.hash.hex()}"
    return Imported(run=run, head=found.head, new=True, message=text)


def _run_of(data: bytes) -> str:
    line = data[: data.find(b"\n") + 1].rstrip(b"\n")
    try:
        event = from_body(from_line(line).body)
    except CorruptError as error:
        raise CorruptError(f"log line 1: {error}; a log starts with event 1", seq=1) from None
    run = event.data.get("run") if isinstance(event.data, dict) else None
    if event.type != "run_created" or not isinstance(run, str):
        raise CorruptError(
            f"log line 1: a {event.type} event; a log starts with run_created, which names the run", seq=1
        )
    checks.check_run(run)
    return run


def _check_events(data: bytes, found: Scan) -> str:
    """Return the run's state for listings; refuse what is no event or names a value that the file lacks."""
    state = "pending"
    for record in found.records:
        try:
            event = from_body(record.body)
            missing = [name for name in named_blobs(record.body) if name not in found.blobs]
        except CorruptError as error:
            raise CorruptError(f"log line {_line_of(data, record)}: {error}", seq=record.seq) from None
        if missing:
            raise CorruptError(
                f"log line {_line_of(data, record)}: value {missing[0]} is named and not in the file; "
                "export the run again",
                seq=record.seq,
            )
        if event.type == "run_moved":
            state = str(event.data.get("dest", state))
    return state


def _line_of(data: bytes, record: Record) -> int:
    return data[: data.find(to_line(record))].count(b"\n") + 1


def _compare(store: Store, run: str, found: Scan) -> Imported:
    head = store.head(run)
    if head != found.head:
        raise ConflictError(
            f"run {checks.shown(run)}: the store has another log of it, which ends at seq {head.seq} "
            f"({head.hash.hex()[:12]}); the file ends at seq {found.head.seq} ({found.head.hash.hex()[:12]}): "
            "import it into another store"
        )
    text = f"run {checks.shown(run)}: the store has exactly this log already; nothing was changed"
    return Imported(run=run, head=head, new=False, message=text)
