"""Events: one for every fact, every decision, every transition, chained by hash.

The body is canonical JSON; the stored bytes are what is hashed, and nothing is ever serialised again to verify
them. ``hash`` covers the hash of the event before it, so an edit anywhere shows; a cut tail shows only against
a head kept elsewhere.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain as joined
from itertools import repeat
from operator import itemgetter
from typing import Any, Final, NamedTuple

import orjson

from fsm_agent.core import canon, upcasting
from fsm_agent.core.errors import CorruptError

_EVENT: Final = b"fsm_agent/event/v1\x00"
_GENESIS: Final = b"fsm_agent/genesis/v1\x00"
_BEFORE_BODY: Final = len(_EVENT) + 32
_SORTED = orjson.OPT_SORT_KEYS
_NAMED: Final[Any] = tuple.__new__
"""Makes a named tuple of a class and a tuple; the class called with its members takes nearly twice as long."""

TYPES: Final = (
    "approval_answered",
    "approval_requested",
    "budget_changed",
    "decided",
    "expanded",
    "input_changed",
    "late_result",
    "move_refused",
    "note_added",
    "owner_changed",
    "plan_adopted",
    "planner_asked",
    "probe_sent",
    "progressed",
    "reconciled",
    "replan_refused",
    "replan_requested",
    "run_asked",
    "run_closed",
    "run_created",
    "run_forked",
    "run_moved",
    "task_moved",
)
"""Stable: types and fields may be added, none is renamed or dropped."""


class Event(NamedTuple):
    """One fact.

    Attributes:
        seq: From 1, without gaps.
        at: UTC epoch in microseconds, strictly increasing within a run.
        type: One of :data:`TYPES`.
        data: JSON object; what each type holds is in the documentation of events.
        task: The task concerned; None for events of the run.
        cause: Seq of the event that caused this one; None for inputs from outside.
        tx: ``[first seq, count]`` of the atomic batch, shared by its events; None for a batch of one.
        actor: ``{"kind": human|tool|model|recovery, "id": …}``; None for the controller.
    """

    seq: int
    at: int
    type: str
    data: dict[str, Any]
    task: str | None = None
    cause: int | None = None
    tx: list[int] | None = None
    actor: dict[str, Any] | None = None


class Head(NamedTuple):
    """Where a log ends: the last event's seq (0 for an empty log) and hash (32 bytes)."""

    seq: int
    hash: bytes


class Record(NamedTuple):
    """An event as it is stored.

    Attributes:
        seq: Of the event.
        body: Canonical JSON, exactly as stored.
        hash: SHA-256 over the domain, the previous hash and the body; 32 bytes.
    """

    seq: int
    body: bytes
    hash: bytes


def genesis(run: str) -> Head:
    """Return the head of the empty log of *run*."""
    return Head(0, hashlib.sha256(_GENESIS + run.encode()).digest())


def chain(previous: bytes, body: bytes) -> bytes:
    """Return the hash of *body* after *previous*."""
    return hashlib.sha256(_EVENT + previous + body).digest()


def to_body(event: Event) -> bytes:
    """Return the canonical body of *event*; values must be checked."""
    seq, at, type_, data, task, cause, tx, actor = event
    version = upcasting.UPCASTERS.versions.get(type_, 1)
    body: dict[str, Any] = {"at": at, "data": data, "seq": seq, "type": type_, "v": version}
    if task is not None:
        body["task"] = task
    if cause is not None:
        body["cause"] = cause
    if tx is not None and tx[1] > 1:
        body["tx"] = tx
    if actor is not None:
        body["actor"] = actor
    return orjson.dumps(body, option=_SORTED)


_NEEDED: Final = itemgetter("v", "type", "data", "seq", "at")
_NEEDED_TYPES: Final = (str, dict, int, int)


def from_body(body: bytes) -> Event:
    """Read a body back; one that an older version wrote is read as this version writes it.

    Raises:
        CorruptError: The bytes are no event of this version or one before.
    """
    try:
        raw = orjson.loads(body)
        version, name, data, seq, at = _NEEDED(raw)
        if type(version) is not int or version != 1 or name in upcasting.UPCASTERS.versions:
            data = upcasting.UPCASTERS.up(name, version, data)
        task, cause, tx, actor = raw.get("task"), raw.get("cause"), raw.get("tx"), raw.get("actor")
        if (
            (type(name), type(data), type(seq), type(at)) != _NEEDED_TYPES
            or (task is not None and type(task) is not str)
            or (cause is not None and type(cause) is not int)
            or (
                tx is not None
                and (type(tx) is not list or len(tx) != 2 or type(tx[0]) is not int or type(tx[1]) is not int)
            )
            or (actor is not None and type(actor) is not dict)
        ):
            raise ValueError("a member of its envelope is of another type")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptError(
            f"event: the stored bytes are no event ({error}); nothing was read from them"
        ) from None
    made: Event = _NAMED(Event, (seq, at, name, data, task, cause, tx, actor))
    return made


def is_canonical(event: Event, body: bytes) -> bool:
    """Whether *body*, from which *event* was read, is in the canonical form: sorted keys, no spaces, no key twice."""
    if to_body(event) == body:
        return True
    raw = orjson.loads(body)
    older: bool = raw["v"] < upcasting.UPCASTERS.version_of(event.type)
    return older and orjson.dumps(raw, option=_SORTED) == body


class Chained:
    """Records on their way out of a store, each hashed before it is handed out: whoever has them need not hash them again.

    It hashes them itself, so there is none whose records nobody has hashed.

    Attributes:
        start: The head that the first one follows; None as soon as somebody has begun to take them out.
    """

    __slots__ = ("_records", "start")

    def __init__(
        self,
        start: Head,
        rows: Iterable[Iterable[tuple[int, bytes, bytes]]],
        fault: Callable[[int], Exception],
    ) -> None:
        """Let what is in *rows* be handed out.

        Args:
            start: The head that they follow.
            rows: Seq, body and hash of every record, as they are stored, in blocks; the next block is asked for when
                this one was found to follow.
            fault: Returns what is raised where the record of a seq does not follow the one before it.
        """
        self.start: Head | None = start
        self._records = joined.from_iterable(_following(start, rows, fault))

    def __iter__(self) -> Iterator[Record]:
        self.start = None
        return self._records

    def __next__(self) -> Record:
        self.start = None
        return next(self._records)


def _following(
    start: Head, rows: Iterable[Iterable[tuple[int, bytes, bytes]]], fault: Callable[[int], Exception]
) -> Iterator[Iterable[Record]]:
    sha256 = hashlib.sha256
    seq, previous = start
    for found in rows:
        block = tuple(map(tuple, found))  # what is hashed is what is handed out, whatever becomes of the rows
        first = seq + 1
        for key, body, digest in block:
            seq += 1
            if key != seq or type(body) is not bytes or sha256(_EVENT + previous + body).digest() != digest:
                yield map(_NAMED, repeat(Record), block[: seq - first])
                raise fault(seq)
            previous = digest
        yield map(_NAMED, repeat(Record), block)


class Sealed(tuple[Record, ...]):  # noqa: SLOT001 - a tuple has no room for slots
    """Records that :func:`seal` has chained: whoever has them need not hash them again.

    Attributes:
        start: The head that they follow without a gap; None if they do not.
        end: The head after them.
    """

    start: Head | None
    end: Head


def seal(head: Head, events: Iterable[Event]) -> tuple[Sealed, dict[str, bytes]]:
    """Return *events* as records that follow *head*, and the large values they name, by digest."""
    seq, previous = head
    gaps = 0
    rows = []
    blobs: dict[str, bytes] = {}
    sha256 = hashlib.sha256
    for event in events:
        body = to_body(event)
        if len(body) > canon.BLOB_BYTES or (canon.DOLLAR in body and b'"$blob"' in body):
            data, moved = shrink(event.data)
            if moved:
                blobs.update(moved)
                body = to_body(event._replace(data=data))
        hashed = _EVENT + previous + body
        previous = sha256(hashed).digest()
        body = hashed[_BEFORE_BODY:]  # what the encoder returns keeps a buffer of 1 KB
        before, seq = seq, event.seq
        gaps += seq != before + 1
        rows.append((seq, body, previous))
    sealed = Sealed(map(_NAMED, repeat(Record), rows))
    sealed.start, sealed.end = None if gaps else head, Head(seq, previous)
    return sealed, blobs


def to_line(record: Record) -> bytes:
    """Return the JSONL line of *record*, without the line end: the body with the hash as its last member."""
    return record.body[:-1] + b',"hash":"' + record.hash.hex().encode() + b'"}'


_TAIL: Final = len(',"hash":"') + 64 + len('"}')


def from_line(line: bytes) -> Record:
    """Read a JSONL line back, byte for byte.

    Raises:
        CorruptError: The line is no event line.
    """
    tail = line[-_TAIL:]
    if not (tail.startswith(b',"hash":"') and tail.endswith(b'"}')):
        raise CorruptError('log line: it does not end in a hash; a whole line ends in ,"hash":"<64 hex>"}')
    try:
        digest = bytes.fromhex(tail[9:73].decode("ascii"))
        if tail[9:73] != digest.hex().encode():
            raise ValueError("upper-case digits")
        body = line[:-_TAIL] + b"}"
        return Record(orjson.loads(body)["seq"], body, digest)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptError(f"log line: it is no event ({error}); nothing was read from it") from None


_WHOLE: Final = ("result", "answer")
"""Members of an event's data that may be a large value as a whole."""
_HOLDERS: Final = frozenset({*_WHOLE, "outcome", "args"})
"""Members that may hold one."""


def _is_marker(value: Any) -> bool:
    return type(value) is dict and value.keys() == {"$blob", "len"}


def shrink(data: dict[str, Any]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Move large values of an event's data out of it, to be stored once by digest.

    Looked at: ``outcome.value`` (becomes ``outcome.value_digest``), ``result``, ``answer`` and each of ``args``
    (become ``{"$blob": digest, "len": bytes}``). A value that looks like such a marker is moved too, so that a marker is
    never ambiguous.

    Returns:
        The data to store and the canonical bytes of what was moved, by SHA-256.
    """
    blobs: dict[str, bytes] = {}

    def moved(value: Any) -> str | None:
        if type(value) in (str, dict, list):
            encoded = orjson.dumps(value, option=_SORTED)
            if len(encoded) > canon.BLOB_BYTES or _is_marker(value):
                name = canon.blob_digest(encoded)
                blobs[name] = encoded
                return name
        return None

    def marker(value: Any) -> Any:
        name = moved(value)
        return value if name is None else {"$blob": name, "len": len(blobs[name])}

    out = dict(data)
    outcome = data.get("outcome")
    if isinstance(outcome, dict) and "value" in outcome:
        name = moved(outcome["value"])
        if name is not None:
            out["outcome"] = {k: v for k, v in outcome.items() if k != "value"} | {"value_digest": name}
    for key in _WHOLE:
        if key in data:
            out[key] = marker(data[key])
    if isinstance(data.get("args"), dict):
        out["args"] = {k: marker(v) for k, v in data["args"].items()}
    return out, blobs


def named_values(event: Event) -> list[str]:
    """Return the digests of the large values that *event* names, in order."""
    data = event.data
    outcome, args = data.get("outcome"), data.get("args")
    names = [outcome["value_digest"]] if isinstance(outcome, dict) and "value_digest" in outcome else []
    holders = [*(data.get(key) for key in _WHOLE), *(args.values() if isinstance(args, dict) else ())]
    return names + [holder["$blob"] for holder in holders if _is_marker(holder)]


def hydrate(event: Event, blob: Callable[[str], bytes]) -> Event:
    """Put the large values back that :func:`shrink` moved out.

    Args:
        event: As read.
        blob: Returns the canonical bytes of a digest.

    Raises:
        CorruptError: The bytes are not those that the digest names.
    """
    data = event.data
    if _HOLDERS.isdisjoint(data):
        return event
    outcome = data.get("outcome")
    args = data.get("args")
    changed: dict[str, Any] = {}
    if isinstance(outcome, dict) and "value_digest" in outcome:
        value = _fetched(blob, outcome["value_digest"])
        changed["outcome"] = {k: v for k, v in outcome.items() if k != "value_digest"} | {"value": value}
    for key in _WHOLE:
        if _is_marker(data.get(key)):
            changed[key] = _fetched(blob, data[key]["$blob"])
    if isinstance(args, dict) and any(_is_marker(v) for v in args.values()):
        changed["args"] = {k: _fetched(blob, v["$blob"]) if _is_marker(v) else v for k, v in args.items()}
    return event._replace(data={**data, **changed}) if changed else event


def _fetched(blob: Callable[[str], bytes], name: Any) -> Any:
    stored = blob(name) if type(name) is str else b""
    try:
        if canon.blob_digest(stored) != name:
            raise ValueError("it is not what its digest says")
        return orjson.loads(stored)
    except ValueError as error:
        raise CorruptError(f"large value {name}: {error}; the event that names it cannot be read") from None
