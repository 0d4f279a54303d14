"""``audit``: a log file, a run of the store, or every log of a directory, each proved from itself alone."""

import gc
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import BinaryIO, Final

from fsm_agent.core.audit.audit import Audit
from fsm_agent.core.errors import NotFoundError, UsageError
from fsm_agent.core.events import Head
from fsm_agent.faces.frame import places
from fsm_agent.faces.frame.files import is_file, is_folder, is_there
from fsm_agent.faces.frame.screen import Screen
from fsm_agent.faces.frame.spec import Outcome
from fsm_agent.faces.look.results import Audits
from fsm_agent.runtime.proof.auditing import HeadOf, audit_hashes, audit_log, audit_run, none_kept
from fsm_agent.runtime.proof.heads import Heads
from fsm_agent.runtime.proof.logs import is_store
from fsm_agent.runtime.proof.signing import Verifier, place_of, read_checkpoints
from fsm_agent.stores import open_store
from fsm_agent.stores.anchors import read_anchor
from fsm_agent.stores.base import Store

VIOLATIONS: Final = 7
"""Exit code when an audit found something."""
_BAR: Final = 30

Named = tuple[str, Audit]


def audit(
    screen: Screen, *, log: str, head: str | None, key: str | None, hash_only: bool, jobs: int
) -> Outcome:
    """Audit what *log* names; exit code 7 if anything is wrong."""
    before = gc.get_threshold()
    if screen.desk is None:
        _lean()
    try:
        found = _found(screen, log, head=head, key=key, hash_only=hash_only, jobs=jobs)
    finally:
        gc.set_threshold(*before)
    return Outcome(found, VIOLATIONS if found.verdict == "violations" else 0)


def _found(
    screen: Screen, log: str, *, head: str | None, key: str | None, hash_only: bool, jobs: int
) -> Audits:
    path = Path(log)
    one = partial(_file, head=head, key=key, hash_only=hash_only)
    if log == "-":
        return Audits(audits=((log, one(_seekable(sys.stdin.buffer))),), many=False)
    if hash_only and (is_store(path) or not is_there(path)):
        raise UsageError(f"log {log}: --hash-only follows the chain of log files; export the run first")
    if is_store(path):
        return Audits(audits=_many(screen, partial(_run_of, log, head, key), _runs_of(log), jobs), many=True)
    if is_folder(path):
        return Audits(audits=_many(screen, one, _logs_of(path), jobs), many=True)
    if is_file(path):
        return Audits(audits=((log, one(log)),), many=False)
    return Audits(audits=((log, _of_store(screen, log, head, key)),), many=False)


# ── many ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _many(screen: Screen, one: Callable[[str], Audit], names: list[str], jobs: int) -> tuple[Named, ...]:
    """Audit logs one after the other, or in *jobs* processes; the order is that of *names* either way."""
    if jobs < 1:
        raise UsageError(f"--jobs {jobs}: how many processes audit at a time; give 1 or more")
    if min(jobs, len(names)) == 1:
        return tuple(_shown(screen, names, map(one, names)))
    with ProcessPoolExecutor(
        min(jobs, len(names)), mp_context=get_context("spawn"), initializer=_lean
    ) as pool:
        return tuple(_shown(screen, names, pool.map(one, names)))


def _shown(screen: Screen, names: list[str], audits: Iterable[Audit]) -> Iterator[Named]:
    """Yield audits with their names, and draw a bar where a person looks on."""
    drawn = not screen.quiet and screen.err.isatty()
    for number, named in enumerate(zip(names, audits, strict=True), 1):
        if drawn:
            full = _BAR * number // len(names)
            screen.err.write(f"\r[{'#' * full}{'.' * (_BAR - full)}] {number} of {len(names)} logs")
            screen.err.flush()
        yield named
    if drawn:
        screen.err.write("\r\x1b[K")
        screen.err.flush()


def _runs_of(place: str) -> list[str]:
    store = open_store(place, read_only=True, create=False)
    try:
        return [info.run for info in store.runs()]
    finally:
        store.close()


def _run_of(place: str, head: str | None, key: str | None, run: str) -> Audit:
    store = open_store(place, read_only=True, create=False)
    try:
        return _run(store, run, head, key)
    finally:
        store.close()


def _logs_of(path: Path) -> list[str]:
    files = sorted(map(str, path.glob("*.jsonl")))
    if not files:
        raise NotFoundError(
            f"directory {path}: it holds no log (*.jsonl); name a log, a run or a directory of logs"
        )
    return files


# ── one ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _lean() -> None:
    """Let this process, which does nothing else, look less often for what refers to itself: an audit makes none of it."""
    gc.set_threshold(200_000, 20, 100)


def _file(source: str | BinaryIO, *, head: str | None, key: str | None, hash_only: bool) -> Audit:
    look = audit_hashes if hash_only else audit_log
    return look(source, head_of=_kept_in(head), key=Verifier(key) if key is not None else None)


def _seekable(stream: BinaryIO) -> BinaryIO:
    """Return *stream* as a file that can be read from any place."""
    if stream.seekable():
        return stream
    file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as what it is read by
    shutil.copyfileobj(stream, file)
    return file


def _kept_in(file: str | None) -> HeadOf:
    """Return what looks heads up in *file*.

    Raises:
        NotFoundError: There is no such file.
    """
    if file is None:
        return none_kept
    if not is_there(file):
        raise NotFoundError(f"heads {file}: there is no such file; check the path")

    def head_of(run: str) -> Head:
        found = read_anchor(file, run)
        if found is None:
            raise UsageError(
                f"heads {file}: no head of run {run} is kept there; name the file that `run` wrote"
            )
        return found

    return head_of


def _of_store(screen: Screen, run: str, head: str | None, key: str | None) -> Audit:
    if run.endswith(".jsonl") or "/" in run:
        raise NotFoundError(f"log {run}: there is no such file; check the path")
    with places.reading(screen) as store:
        return _run(store, run, head, key)


def _run(store: Store, run: str, head: str | None, key: str | None) -> Audit:
    """Audit a run of *store* against the head in the file *head*, else the one kept beside the store."""
    return audit_run(
        store,
        run,
        head=_kept_in(head)(run) if head is not None else Heads.beside(store.location).read(run),
        key=Verifier(key) if key is not None else None,
        checkpoints_of=lambda name: read_checkpoints(place_of(store.location), name),
    )
