"""Auditing a log where it lies: whatever is wrong with the bytes is a finding, never the end of the audit.

The core judges events; here lines and rows become records, and what is kept outside the log (a head, checkpoints)
is held against it. Read, never changed; a store may be written to by its owner meanwhile.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Self

import attrs

from fsm_agent.core.audit.audit import Audit, Finding, chain_alone
from fsm_agent.core.audit.audit import audit as audit_records
from fsm_agent.core.audit.integrity import READABLE, kept_head, signature, stored_head, stored_state
from fsm_agent.core.errors import CorruptError, NotFoundError
from fsm_agent.core.events import Head, Record, from_body
from fsm_agent.runtime.proof.lines import Lines, follow, opened
from fsm_agent.runtime.proof.signing import Checkpoint, Verifier
from fsm_agent.stores.base import Store
from fsm_agent.stores.transfer import Source

HeadOf = Callable[[str], Head | None]
"""Returns the head of a run that is kept outside its log."""
CheckpointsOf = Callable[[str], Iterable[Checkpoint]]
"""Returns the checkpoints of a run."""


def none_kept(run: str) -> None:
    """Return no head: nobody kept one."""
    del run


def no_checkpoints(run: str) -> Iterable[Checkpoint]:
    """Return no checkpoints: nobody signed."""
    del run
    return ()


def audit_run(
    store: Store,
    run: str,
    *,
    head: Head | None = None,
    key: Verifier | None = None,
    checkpoints_of: CheckpointsOf = no_checkpoints,
) -> Audit:
    """Audit a run of *store* up to where it ends now, also against what the store itself says of it.

    Args:
        store: Holds the run; its owner may go on meanwhile.
        run: Its id.
        head: A head kept outside.
        key: Whose signatures count; None: none are looked at.
        checkpoints_of: Where the checkpoints are.

    Raises:
        NotFoundError: No such run.
    """
    signed = [] if key is None else list(checkpoints_of(run))  # before the log, which may grow
    info = store.info(run)
    records = _Guarded(lambda: store.read(run, until=info.head.seq), {c.head.seq for c in signed})
    done = _unread(audit_records(run, records, _guarded(store.blob), head=head), records.fault)
    if not done.findings:
        done = done.made("stored-head", *_told(done.head.seq, stored_head(info.head, done.head)))
        done = done.made("stored-state", *_told(done.head.seq, stored_state(info.state, done.state)))
    return done if key is None else _signed(done, records.hashes, signed, key)


def audit_log(
    source: Source,
    *,
    head_of: HeadOf = none_kept,
    key: Verifier | None = None,
    checkpoints_of: CheckpointsOf | None = None,
) -> Audit:
    """Audit a log file; a line that cannot be read is a finding, and nothing behind it is looked at.

    Args:
        source: The file.
        head_of: Where heads are kept outside.
        key: Whose signatures count; None: none are looked at.
        checkpoints_of: Where the checkpoints are; None: in the file itself.

    Raises:
        NotFoundError: There is no such file.
    """
    with opened(source) as file:
        lines = Lines(file)
        first = next(iter(lines), None)
        run = _run_of(first)
        signed = [] if key is None else list((checkpoints_of or lines.checkpoints)(run))
        records = _Guarded(lambda: iter(lines), {c.head.seq for c in signed})
        head = head_of(run) if first is not None else None
        read = records if signed else lines
        done = _unread(audit_records(run, read, lines.value, head=head), lines.fault)
    return done if key is None else _signed(done, records.hashes, signed, key)


def audit_hashes(
    source: Source,
    *,
    head_of: HeadOf = none_kept,
    key: Verifier | None = None,
    checkpoints_of: CheckpointsOf | None = None,
) -> Audit:
    """Follow the chain of a log file, and hold what is kept outside against it; no rule is looked at.

    Args:
        source: The file.
        head_of: Where heads are kept outside.
        key: Whose signatures count; None: none are looked at.
        checkpoints_of: Where the checkpoints are; None: in the file itself.

    Raises:
        NotFoundError: There is no such file.
    """
    with opened(source) as file:
        lines = Lines(file)
        run = _run_of(next(iter(lines), None))
        signed = [] if key is None else list((checkpoints_of or lines.checkpoints)(run))
        kept = head_of(run) if not lines.fault else None
        wanted = {c.head.seq for c in signed} | ({kept.seq} if kept is not None else set())
        end, fault, hashes = follow(run, file, wanted)
    return _hashed(run, end, fault, kept, hashes, signed, key)


def _hashed(
    run: str,
    end: Head,
    fault: str,
    kept: Head | None,
    hashes: dict[int, bytes],
    signed: list[Checkpoint],
    key: Verifier | None,
) -> Audit:
    done = chain_alone(run, end, fault, kept=kept)
    if kept is not None and not done.findings:
        words = kept_head(kept, end, hashes.get(kept.seq, b""))
        done = done.made("head", *_told(kept.seq, words))
    return done if key is None else _signed(done, hashes, signed, key)


def _run_of(first: Record | None) -> str:
    try:
        return str(from_body(first.body).data["run"]) if first is not None else "?"
    except (CorruptError, KeyError, TypeError):
        return "?"


def _guarded(blob: Callable[[str], bytes]) -> Callable[[str], bytes]:
    def found(digest: str) -> bytes:
        try:
            return blob(digest)
        except NotFoundError as error:
            raise CorruptError(str(error)) from None

    return found


class _Guarded:
    """Records until one cannot be read; then ``fault`` says why, and the log counts as ended there.

    Attributes:
        hashes: Of the records that are wanted, by seq.
    """

    def __init__(self, read: Callable[[], Iterator[Record]], wanted: set[int]) -> None:
        self.fault = ""
        self.hashes: dict[int, bytes] = {}
        self._wanted = wanted
        self._read = read
        self._records: Iterator[Record] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        try:
            if self._records is None:
                self._records = self._read()
            record = next(self._records)
        except CorruptError as error:
            self.fault = str(error)
            raise StopIteration from None
        if record.seq in self._wanted:
            self.hashes[record.seq] = record.hash
        return record


def _told(seq: int, words: str) -> list[tuple[int, str]]:
    return [(seq, words)] if words else []


def _unread(done: Audit, fault: str) -> Audit:
    """Return *done* with a finding for what could not be read."""
    if not fault:
        return done
    finding = Finding(seq=done.head.seq + 1, check=READABLE.id, rule=READABLE.rule, message=fault)
    told = tuple(f for f in done.findings if f.check != "last-batch")
    checks = tuple(attrs.evolve(t, failed=t.failed + 1) if t.check == READABLE.id else t for t in done.checks)
    return attrs.evolve(done, verdict="violations", findings=(*told, finding), checks=checks)


def _signed(done: Audit, hashes: dict[int, bytes], checkpoints: Iterable[Checkpoint], key: Verifier) -> Audit:
    """Return *done* with how far checkpoints vouch for it, and a finding for each that does not fit."""
    signed = 0
    faults: list[tuple[int, str]] = []
    for found in checkpoints:
        if found.key != key.key:
            continue
        seq, digest = found.head
        words = signature(seq, digest, hashes.get(seq), key.key, holds=key.holds(found))
        faults += _told(seq, words)
        if not words:
            signed = max(signed, seq)
    if not signed and not faults:
        faults.append((0, f"no checkpoint of this run is signed by {key.key}"))
    return attrs.evolve(done.made("signature", *faults), signed=signed)
