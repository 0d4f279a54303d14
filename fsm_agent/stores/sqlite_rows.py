"""Rows of the SQLite store: what is asked for, and what the answers are as values."""

from collections.abc import Iterator
from typing import Any, Final

from fsm_agent.core import canon
from fsm_agent.core.errors import CorruptError
from fsm_agent.core.events import Chained, Head
from fsm_agent.stores import checks
from fsm_agent.stores.base import Letter, RunInfo
from fsm_agent.stores.sqlite_file import SEQ_BITS
from fsm_agent.stores.sqlite_link import Link

FETCH: Final = 512
"""So many events are fetched at once: what was hashed is still near the processor when it is read."""
INFO: Final = (
    "SELECT run, head_seq, head_hash, state, created_us, updated_us, owner, lease_until_us FROM runs"
)
LETTER: Final = (
    "SELECT inbox.id, runs.run, posted_us, body, answer FROM inbox JOIN runs ON runs.number = inbox.run"
)
BURY: Final = "UPDATE runs SET tombstone = ?, owner = NULL, lease_until_us = 0 WHERE number = ?"
FREE_BLOBS: Final = (
    "DELETE FROM blobs WHERE digest IN (SELECT digest FROM blob_uses AS own WHERE run = ? AND NOT EXISTS "
    "(SELECT 1 FROM blob_uses WHERE digest = own.digest AND run <> own.run))"
)
MOVE: Final = (
    "UPDATE runs SET head_seq = ?, head_hash = ?, state = ?, updated_us = ? "
    "WHERE number = ? AND head_seq = ? AND head_hash = ? AND epoch = ? AND owner = ?"
)


def records(link: Link, location: str, run: tuple[str, int], after: Head, until: int, head: Head) -> Chained:
    """Return the records of a run, each verified against the hash before it.

    Args:
        link: To the file.
        location: What errors call the file.
        run: Its id and its number in the file.
        after: Where to begin.
        until: Seq of the last record wanted.
        head: Where the log ends.

    Returns:
        The records; going through them raises ``CorruptError`` at the first event that does not fit.
    """
    name, number = run
    rows = _rows(link, location, name, number << SEQ_BITS, after, until, head)
    return Chained(after, rows, lambda seq: corrupt(location, name, seq))


def _rows(
    link: Link, location: str, run: str, base: int, after: Head, until: int, head: Head
) -> Iterator[list[tuple[int, bytes, bytes]]]:
    """Yield the rows of a run in blocks; whoever asks for the next one has found that the last one follows."""
    seq, previous = after
    if type(previous) is not bytes:
        raise corrupt(location, run, seq)
    # The log only grows, so blocks of what was there at the call are one consistent view.
    while seq < until:
        with link.statement():
            rows: list[Any] = link.db.execute(
                "SELECT id - ?1, body, hash FROM events WHERE id > ?1 + ?2 AND id <= ?1 + ?3 ORDER BY id LIMIT ?4",
                (base, seq, until, FETCH),
            ).fetchall()
        if not rows:
            raise corrupt(location, run, seq + 1)
        yield rows
        seq, _, previous = rows[-1]
    if seq == head.seq and previous != head.hash:
        raise corrupt(location, run, seq)


def info(row: tuple[Any, ...]) -> RunInfo:
    """Return a row of :data:`INFO` as a value."""
    run, seq, digest, state, created_us, updated_us, owner, until_us = row
    return RunInfo(
        run=run,
        head=Head(seq, digest),
        state=state,
        created_us=created_us,
        updated_us=updated_us,
        owner=owner,
        lease_until_us=until_us,
    )


def letter(row: tuple[int, str, int, bytes, bytes | None]) -> Letter:
    """Return a row of :data:`LETTER` as a value."""
    number, run, posted_us, body, answer = row
    return Letter(
        id=number,
        run=run,
        posted_us=posted_us,
        body=canon.decode(body),
        answer=None if answer is None else canon.decode(answer),
    )


def corrupt(location: str, run: str, seq: int | None) -> CorruptError:
    """Return the error for an event, or with None for the line of a run, that does not fit."""
    where = "its line in the list of runs does" if seq is None else f"event {seq} does"
    return CorruptError(
        f"run {checks.shown(run)} in store {location}: {where} not fit what precedes it; "
        "the bytes were changed after they were written: audit the log, restore a backup",
        seq=seq,
    )
