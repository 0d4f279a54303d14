"""The JSONL form of a log: how a line reads, and how much of a file counts.

An event line is its body with the hash as the last member. A large value is a line
``{"$blob":"<sha256>","value":<canonical JSON>}`` before the first event that names it. Events that share a ``tx``
are one batch and count together or not at all. What follows the last whole batch is a torn tail, unless a later
batch stands in it: then bytes in the middle were changed, and nothing may be cut.
"""

import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import attrs
import orjson

from fsm_agent.core.errors import CorruptError
from fsm_agent.core.events import Head, Record, chain, from_body, from_line, named_values

CHECKPOINT: Final = b'{"$checkpoint":'
"""How the line of a signed checkpoint begins; it is no part of the log, and read past."""
OPEN: Final = b'{"$blob":"'
"""How the line of a large value begins."""
_MIDDLE: Final = b'","value":'
_DIGEST_END: Final = len(OPEN) + 64
_VALUE_START: Final = _DIGEST_END + len(_MIDDLE)


class Blob(NamedTuple):
    """A large value as it stands in a file: its SHA-256 (64 hex digits) and its canonical bytes."""

    digest: str
    value: bytes


class Fault(NamedTuple):
    """Why a file does not count to its end.

    Attributes:
        line: Number of the line at fault, from 1.
        seq: Of the first event that does not count.
        what: What was found there.
        torn: The rest is a torn tail; False: a later batch follows, so the file is corrupt.
    """

    line: int
    seq: int
    what: str
    torn: bool


@attrs.frozen(kw_only=True)
class Scan:
    """What counts in a file.

    Attributes:
        records: Of whole batches, in order.
        blobs: Their large values, by digest.
        head: After the last of them.
        end: Offset after the last whole batch, in bytes.
        lines: How many lines lie before ``end``.
        fault: What lies behind ``end``; None if nothing does.
    """

    records: list[Record]
    blobs: dict[str, bytes]
    head: Head
    end: int
    lines: int
    fault: Fault | None


def blob_line(digest: str, value: bytes) -> bytes:
    """Return the line of a large value, without the line end."""
    return OPEN + digest.encode() + _MIDDLE + value + b"}"


def parse(line: bytes) -> Record | Blob:
    """Read a line.

    Raises:
        CorruptError: It is neither an event nor a large value, or the value has another digest.
    """
    if not line.startswith(OPEN):
        return from_line(line)
    digest, value = line[len(OPEN) : _DIGEST_END].decode("ascii", "replace"), line[_VALUE_START:-1]
    whole = line[_DIGEST_END:_VALUE_START] == _MIDDLE and line.endswith(b"}")
    if not whole or hashlib.sha256(value).hexdigest() != digest:
        raise CorruptError("log line: a large value that is not what its digest says; restore a backup")
    return Blob(digest, value)


def named_blobs(body: bytes) -> list[str]:
    """Return the digests of the large values that an event names, in order.

    Raises:
        CorruptError: The bytes are no event.
    """
    if b'"$blob"' in body or b'"value_digest"' in body:
        return named_values(from_body(body))
    return []


def tx_of(record: Record) -> tuple[int, int]:
    """Return the first seq and the size of the batch that *record* belongs to.

    Raises:
        CorruptError: Its ``tx`` is no pair of integers that holds its own seq.
    """
    if b'"tx":' not in record.body:
        return record.seq, 1
    tx = orjson.loads(record.body).get("tx")
    if tx is None:
        return record.seq, 1
    if type(tx) is not list or [type(part) for part in tx] != [int, int] or not tx[0] <= record.seq < sum(tx):
        raise CorruptError(f"event {record.seq}: its tx is {tx!r}; it is [first seq, count] of its batch")
    return tx[0], tx[1]


def whole(records: Sequence[Record]) -> bool:
    """Say whether *records* are whole batches, one after the other."""
    at = 0
    while at < len(records):
        first, count = tx_of(records[at])
        batch = records[at : at + count]
        if first != records[at].seq or any(tx_of(record) != (first, count) for record in batch):
            return False
        at += count
    return at == len(records)


def scan(data: bytes, head: Head, *, line: int = 1) -> Scan:
    """Take whole batches that follow *head* from *data* until something does not fit.

    Args:
        data: A log file, or its part after *head*.
        line: Number of the first line of *data*.
        head: Where the log ended before *data*.
    """
    records: list[Record] = []
    blobs: dict[str, bytes] = {}
    batch: list[Record] = []
    values: dict[str, bytes] = {}
    start, end, lines, at, what = line, 0, 0, 0, ""
    while at < len(data):
        stop = data.find(b"\n", at)
        if stop < 0:
            what = "the line has no end"
            break
        if data.startswith(CHECKPOINT, at) and not batch and not values:
            at, line = stop + 1, line + 1
            end, lines = at, line - start
            continue
        try:
            item = parse(data[at:stop])
            if isinstance(item, Blob):
                values[item.digest] = item.value
            else:
                _follow(head, batch, item)
                batch.append(item)
        except CorruptError as error:
            what = str(error)
            break
        at, line = stop + 1, line + 1
        if isinstance(item, Record) and item.seq + 1 == sum(tx_of(item)):
            records += batch
            blobs |= values
            head = Head(item.seq, item.hash)
            batch, values = [], {}
            end, lines = at, line - start
    if not what and end < len(data):
        what = "the file ends before the batch is whole"
    fault = Fault(line, head.seq + 1, what, not _later_batch(data, end, head.seq + 1)) if what else None
    return Scan(records=records, blobs=blobs, head=head, end=end, lines=lines, fault=fault)


def _follow(head: Head, batch: list[Record], record: Record) -> None:
    """Refuse a record that is not the next one of its batch."""
    seq, previous = (batch[-1].seq, batch[-1].hash) if batch else head
    if record.seq != seq + 1:
        raise CorruptError(f"event {record.seq} after event {seq}: the next one has seq {seq + 1}")
    if chain(previous, record.body) != record.hash:
        raise CorruptError(f"event {record.seq}: its hash does not fit what precedes it")
    if tx_of(record) != (tx_of(batch[0]) if batch else (record.seq, tx_of(record)[1])):
        raise CorruptError(f"event {record.seq}: it does not belong to the batch that it stands in")


def _later_batch(data: bytes, start: int, seq: int) -> bool:
    """Say whether an event of another batch than the one that starts at *seq* stands behind *start*."""
    for line in data[start:].split(b"\n"):
        try:
            if tx_of(from_line(line))[0] != seq:
                return True
        except CorruptError:
            continue
    return False
