"""What every store refuses, in the same words: ids, batches that do not follow, owners that are not current."""

from collections.abc import Mapping, Sequence
from typing import Any

from fsm_agent.core import canon
from fsm_agent.core.errors import (
    ConflictError,
    FencedError,
    NotFoundError,
    OwnedError,
    StoreUnusableError,
    UsageError,
)
from fsm_agent.core.events import Head, Record, Sealed, chain
from fsm_agent.stores.base import Lease

MAX_RUN_CHARS = 10_000
"""Longest run id, in characters."""


def shown(run: str) -> str:
    """Return *run* for a message: quoted, escaped, at most about 80 characters."""
    return ascii(run) if len(run) <= 60 else f"{run[:60]!a}… ({len(run)} characters)"


def check_run(run: str) -> None:
    """Refuse an id that cannot name a run.

    Raises:
        UsageError: It is empty, longer than 10,000 characters or holds a lone surrogate.
    """
    if not isinstance(run, str) or not run or len(run) > MAX_RUN_CHARS:
        found = shown(run) if isinstance(run, str) else type(run).__name__
        raise UsageError(f"run id: {found} was given; use a text of 1 to {MAX_RUN_CHARS} characters")
    try:
        run.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"run id {shown(run)}: it holds a lone surrogate; decode the text properly first"
        ) from None


def check_batch(run: str, expected: Head, records: Sequence[Record], blobs: Mapping[str, bytes]) -> Head:
    """Return the head after *records*; the log of a store is a chain because nothing else gets past here.

    Raises:
        UsageError: No records, or one does not follow the one before it, or a blob's digest is wrong.
    """
    if not records:
        raise UsageError(
            f"append to run {shown(run)}: no records were given; use flush to make a log durable"
        )
    if type(records) is Sealed and records.start == expected:
        _check_blobs(run, blobs)
        return records.end
    seq, previous = expected
    for record in records:
        seq += 1
        if record.seq != seq or chain(previous, record.body) != record.hash:
            raise UsageError(
                f"append to run {shown(run)}: record {record.seq} does not follow seq {seq - 1}; "
                "seal the events onto the expected head"
            )
        previous = record.hash
    _check_blobs(run, blobs)
    return Head(seq, previous)


def _check_blobs(run: str, blobs: Mapping[str, bytes]) -> None:
    for name, value in blobs.items():
        if canon.blob_digest(value) != name or b"\n" in value:
            raise UsageError(
                f"append to run {shown(run)}: value {name} is not what its digest says, or no canonical JSON; "
                "name canonical bytes by their SHA-256"
            )


def check_since(since: int) -> None:
    """Refuse to read from before the first event. Raises ``UsageError``."""
    if since < 0:
        raise UsageError(f"read since {since}: seqs start at 1; use 0 to read from the beginning")


def letter_bytes(value: dict[str, Any], what: str = "letter") -> bytes:
    """Return the canonical bytes of a letter's body or answer, or of another JSON object called *what*.

    Raises:
        UsageError: It is no JSON object.
        ValueRefusedError: JSON cannot hold a part of it exactly.
    """
    if type(value) is not dict:
        raise UsageError(
            f"{what}: a value of type {type(value).__name__} was given; a {what} is a JSON object"
        )
    return canon.snapshot(value)[1]


def unknown_run(run: str) -> NotFoundError:
    """Return the refusal of a run that is not in the store."""
    return NotFoundError(f"run {shown(run)}: this store has no such run; list the runs to see what it has")


def removed_run(run: str, tombstone: dict[str, Any]) -> NotFoundError:
    """Return the refusal of a run that was removed."""
    return NotFoundError(
        f"run {shown(run)}: it was removed, and this is left of it: {canon.encode(tombstone).decode()}; "
        "take an export of it into another store to see more"
    )


def unknown_letter(letter: int, run: str | None = None) -> NotFoundError:
    """Return the refusal of a letter that is not in the inbox (of *run*)."""
    inbox = "this store" if run is None else f"the inbox of run {shown(run)}"
    return NotFoundError(f"letter {letter}: {inbox} has no such letter; list the letters to see what it has")


def unknown_blob(digest: str) -> NotFoundError:
    """Return the refusal of a value that is not in the store."""
    return NotFoundError(
        f"value {digest}: this store has no such value; restore it from a backup or an export"
    )


def taken_id(run: str) -> ConflictError:
    """Return the refusal of an id that is in use."""
    return ConflictError(
        f"run {shown(run)}: the id is taken; choose another, or go on with the run that has it"
    )


def check_free(run: str, holder: str | None, until_us: int, now_us: int, force: bool | str) -> None:
    """Refuse a run that *holder* keeps from whoever asks for it with *force*; see ``Store.acquire``.

    Raises:
        OwnedError: It is kept.
    """
    if holder is not None and until_us > now_us and force is not True and force != holder:
        raise owned(run, holder, until_us)


def owned(run: str, owner: str, until_us: int) -> OwnedError:
    """Return the refusal of a run whose lease is alive."""
    from fsm_agent.core.replay.moments import moment  # whoever gets the run needs no calendar

    return OwnedError(
        f"run {shown(run)}: {owner} holds it until {moment(until_us)}; "
        "wait until the lease ends, or force it if that owner is dead"
    )


def fenced(lease: Lease, epoch: int, owner: str | None) -> FencedError:
    """Return the refusal of a lease that is no longer the current one."""
    holder = "nobody holds it" if owner is None else f"{owner} holds it"
    return FencedError(
        f"run {shown(lease.run)}: {lease.owner} wrote under epoch {lease.epoch}, but {holder} under epoch {epoch}; "
        "stop, and acquire it anew to go on"
    )


def moved(run: str, expected: Head, found: Head) -> ConflictError:
    """Return the refusal of an append to a head that has moved."""
    return ConflictError(
        f"run {shown(run)}: the log ends at seq {found.seq} ({found.hash.hex()[:12]}), not at the expected "
        f"seq {expected.seq} ({expected.hash.hex()[:12]}); read on from there and decide again"
    )


def answered(letter: int) -> ConflictError:
    """Return the refusal of a second answer."""
    return ConflictError(f"letter {letter}: it has been answered; a letter is answered once")


def read_only(location: str) -> StoreUnusableError:
    """Return the refusal of a change through a store that was opened for reading."""
    return StoreUnusableError(
        f"store {location}: it is open for reading only; open it without read_only to change it"
    )
