"""Auditing a log where it lies: whatever is wrong with the bytes is a finding, never the end of the audit.

The core judges events; here lines and rows become records, and what is kept outside the log (a head, checkpoints)
is held against it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Self

import attrs

from fsm_agent.core.audit.audit import Audit, Finding
from fsm_agent.core.audit.audit import audit as audit_records
from fsm_agent.core.errors import CorruptError, NotFoundError
from fsm_agent.core.events import Head, Record, from_body
from fsm_agent.runtime.proof.signing import Checkpoint, Verifier
from fsm_agent.stores.base import Store
from fsm_agent.stores.lines import Blob
from fsm_agent.stores.transfer import Source, read_log

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
    """Audit a run of *store*, also against where the store says that its log ends.

    Args:
        store: Holds the run.
        run: Its id.
        head: A head kept outside.
        key: Whose signatures count; None: none are looked at.
        checkpoints_of: Where the checkpoints are.

    Raises:
        NotFoundError: No such run.
    """
    stated = store.head(run)
    records = _Guarded(lambda: store.read(run))
    done = audit_records(run, records, _guarded(store.blob), head=head)
    if records.fault is None and done.head != stated and not done.findings:
        fault = f"the store says that the log ends at event {stated.seq}; it ends at event {done.head.seq}"
        done = _with(done, fault, "head")
    else:
        done = _with(done, records.fault, "body")
    return done if key is None else _signed(done, records.hashes, checkpoints_of(run), key)


def audit_log(
    source: Source,
    *,
    head_of: HeadOf = none_kept,
    key: Verifier | None = None,
    checkpoints_of: CheckpointsOf = no_checkpoints,
) -> Audit:
    """Audit a log file; a line that cannot be read is a finding, and nothing behind it is looked at.

    Args:
        source: The file.
        head_of: Where heads are kept outside.
        key: Whose signatures count; None: none are looked at.
        checkpoints_of: Where the checkpoints are.

    Raises:
        NotFoundError: There is no such file.
    """
    values: dict[str, bytes] = {}
    records = _Guarded(lambda: _records(source, values))
    first = next(records, None)
    run = _run_of(first)

    def blob(name: str) -> bytes:
        if name not in values:
            raise CorruptError(f"value {name[:12]} is named and stands nowhere before; export the run again")
        return values[name]

    def everything() -> Iterator[Record]:
        if first is not None:
            yield first
            yield from records

    head = head_of(run) if first is not None else None
    done = _with(audit_records(run, everything(), blob, head=head), records.fault, "body")
    return done if key is None else _signed(done, records.hashes, checkpoints_of(run), key)


def _records(source: Source, values: dict[str, bytes]) -> Iterator[Record]:
    for entry in read_log(source):
        if isinstance(entry.item, Blob):
            values[entry.item.digest] = entry.item.value
        else:
            yield entry.item


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
        hashes: Of the records so far, by seq.
    """

    def __init__(self, read: Callable[[], Iterator[Record]]) -> None:
        self.fault: str | None = None
        self.hashes: dict[int, bytes] = {}
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
        self.hashes[record.seq] = record.hash
        return record


def _with(done: Audit, fault: str | None, check: str) -> Audit:
    """Return *done* with a finding for what could not be read."""
    if fault is None:
        return done
    finding = Finding(seq=done.head.seq + 1, check=check, message=fault)
    empty = [f for f in done.findings if not (f.check == "begin" and f.seq == 0)]
    return attrs.evolve(done, verdict="violations", findings=(*empty, finding))


def _signed(done: Audit, hashes: dict[int, bytes], checkpoints: Iterable[Checkpoint], key: Verifier) -> Audit:
    """Return *done* with how far checkpoints vouch for it, and a finding for each that does not fit."""
    signed = 0
    findings = []
    for found in checkpoints:
        if found.key != key.key:
            continue
        seq, digest = found.head
        if not key.holds(found):
            findings.append(
                Finding(seq=seq, check="signature", message=f"{key.key} did not sign this checkpoint")
            )
        elif hashes.get(seq) != digest:
            there = "another event" if seq in hashes else "no event"
            words = f"a checkpoint signed by {key.key} names event {seq} ({digest.hex()[:12]}); the log has {there} there"
            findings.append(Finding(seq=seq, check="signature", message=words))
        else:
            signed = max(signed, seq)
    if not signed and not findings:
        findings.append(
            Finding(seq=0, check="signature", message=f"no checkpoint of this run is signed by {key.key}")
        )
    verdict = "violations" if findings else done.verdict
    return attrs.evolve(done, verdict=verdict, findings=(*done.findings, *findings), signed=signed)
