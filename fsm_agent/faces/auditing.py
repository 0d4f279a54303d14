"""``audit``: a log file, a run of the store, or every log of a directory, each proved from itself alone."""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, Self

import attrs

from fsm_agent.core.audit import Audit, Finding
from fsm_agent.core.audit import audit as audit_records
from fsm_agent.core.errors import CorruptError, NotFoundError, UsageError
from fsm_agent.core.events import Head, Record, from_body
from fsm_agent.faces import places
from fsm_agent.faces.results import Audits
from fsm_agent.faces.screen import Screen
from fsm_agent.faces.spec import Outcome
from fsm_agent.stores import JSONL_MARK, open_store
from fsm_agent.stores.anchors import read_anchor
from fsm_agent.stores.base import Store
from fsm_agent.stores.lines import Blob
from fsm_agent.stores.transfer import Source, read_log

VIOLATIONS: Final = 7
"""Exit code when an audit found something."""
HeadOf = Callable[[str], Head | None]


def audit(screen: Screen, *, log: str, head: str | None) -> Outcome:
    """Audit what *log* names; exit code 7 if anything is wrong."""
    path = Path(log)
    if log == "-":
        found = Audits(audits=((log, audit_log(sys.stdin.buffer, _kept_in(head))),), many=False)
    elif path.is_dir():
        found = Audits(audits=tuple(_directory(path, head)), many=True)
    elif path.is_file():
        found = Audits(audits=((log, audit_log(path, _kept_in(head))),), many=False)
    else:
        found = Audits(audits=((log, _of_store(screen, log, head)),), many=False)
    return Outcome(found, VIOLATIONS if found.verdict == "violations" else 0)


def _kept_in(file: str | None) -> HeadOf:
    """Return what looks heads up in *file*.

    Raises:
        NotFoundError: There is no such file.
    """
    if file is None:
        return lambda _: None
    if not Path(file).exists():
        raise NotFoundError(f"heads {file}: there is no such file; check the path")

    def head_of(run: str) -> Head:
        found = read_anchor(file, run)
        if found is None:
            raise UsageError(
                f"heads {file}: no head of run {run} is kept there; name the file that `run` wrote"
            )
        return found

    return head_of


def _directory(path: Path, head: str | None) -> Iterator[tuple[str, Audit]]:
    if (path / JSONL_MARK).exists():
        store = open_store(path, read_only=True, create=False)
        try:
            for info in store.runs():
                yield info.run, audit_run(store, info.run, _kept_in(head)(info.run))
        finally:
            store.close()
        return
    files = sorted(path.glob("*.jsonl"))
    if not files:
        raise NotFoundError(
            f"directory {path}: it holds no log (*.jsonl); name a log, a run or a directory of logs"
        )
    for file in files:
        yield str(file), audit_log(file, _kept_in(head))


def _of_store(screen: Screen, run: str, head: str | None) -> Audit:
    if run.endswith(".jsonl") or "/" in run:
        raise NotFoundError(f"log {run}: there is no such file; check the path")
    with places.reading(screen) as store:
        kept = _kept_in(head)(run) if head is not None else places.kept_head(screen, run)
        return audit_run(store, run, kept)


def audit_run(store: Store, run: str, head: Head | None) -> Audit:
    """Audit a run of *store*, also against where the store says that its log ends.

    Raises:
        NotFoundError: No such run.
    """
    stated = store.head(run)
    records = _Guarded(store.read(run))
    done = audit_records(run, records, store.blob, head=head)
    if records.fault is None and done.head != stated and not done.findings:
        records.fault = (
            f"the store says that the log ends at event {stated.seq}; it ends at event {done.head.seq}"
        )
        return _with(done, records.fault, "head")
    return _with(done, records.fault, "body")


def audit_log(source: Source, head_of: HeadOf) -> Audit:
    """Audit a log file; a line that cannot be read is a finding, and nothing behind it is looked at.

    Raises:
        NotFoundError: There is no such file.
    """
    values: dict[str, bytes] = {}
    records = _Guarded(_records(source, values))
    first = next(iter(records), None)
    run = _run_of(first)

    def blob(name: str) -> bytes:
        if name not in values:
            raise CorruptError(f"value {name[:12]} is named and stands nowhere before; export the run again")
        return values[name]

    def everything() -> Iterator[Record]:
        if first is not None:
            yield first
            yield from records

    return _with(
        audit_records(run, everything(), blob, head=head_of(run) if first is not None else None),
        records.fault,
        "body",
    )


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


class _Guarded:
    """Records until one cannot be read; then ``fault`` says why, and the log counts as ended there."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.fault: str | None = None
        self._records = iter(records)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        try:
            return next(self._records)
        except CorruptError as error:
            self.fault = str(error)
            raise StopIteration from None


def _with(done: Audit, fault: str | None, check: str) -> Audit:
    """Return *done* with a finding for what could not be read."""
    if fault is None:
        return done
    finding = Finding(seq=done.head.seq + 1, check=check, message=fault)
    empty = [f for f in done.findings if not (f.check == "begin" and f.seq == 0)]
    return attrs.evolve(done, verdict="violations", findings=(*empty, finding))
