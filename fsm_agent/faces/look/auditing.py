"""``audit``: a log file, a run of the store, or every log of a directory, each proved from itself alone."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fsm_agent.core.audit.audit import Audit
from fsm_agent.core.errors import NotFoundError, UsageError
from fsm_agent.core.events import Head
from fsm_agent.faces.frame import places
from fsm_agent.faces.frame.screen import Screen
from fsm_agent.faces.frame.spec import Outcome
from fsm_agent.faces.look.results import Audits
from fsm_agent.runtime.proof.auditing import HeadOf, audit_log, audit_run, none_kept
from fsm_agent.runtime.proof.heads import Heads
from fsm_agent.runtime.proof.logs import is_store
from fsm_agent.runtime.proof.signing import Verifier, place_of, read_checkpoints
from fsm_agent.stores import open_store
from fsm_agent.stores.anchors import read_anchor
from fsm_agent.stores.base import Store

VIOLATIONS: Final = 7
"""Exit code when an audit found something."""


def audit(screen: Screen, *, log: str, head: str | None, key: str | None) -> Outcome:
    """Audit what *log* names; exit code 7 if anything is wrong."""
    path, signer = Path(log), Verifier(key) if key is not None else None
    if log == "-":
        found = Audits(audits=((log, _of_file(sys.stdin.buffer.read(), head, signer)),), many=False)
    elif is_store(path):
        found = Audits(audits=tuple(_whole_store(path, head, signer)), many=True)
    elif path.is_dir():
        found = Audits(audits=tuple(_directory(path, head, signer)), many=True)
    elif path.is_file():
        found = Audits(audits=((log, _of_file(path, head, signer)),), many=False)
    else:
        found = Audits(audits=((log, _of_store(screen, log, head, signer)),), many=False)
    return Outcome(found, VIOLATIONS if found.verdict == "violations" else 0)


def _kept_in(file: str | None) -> HeadOf:
    """Return what looks heads up in *file*.

    Raises:
        NotFoundError: There is no such file.
    """
    if file is None:
        return none_kept
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


def _whole_store(path: Path, head: str | None, key: Verifier | None) -> Iterator[tuple[str, Audit]]:
    store = open_store(path, read_only=True, create=False)
    try:
        for info in store.runs():
            yield info.run, _run(store, info.run, head, key)
    finally:
        store.close()


def _directory(path: Path, head: str | None, key: Verifier | None) -> Iterator[tuple[str, Audit]]:
    files = sorted(path.glob("*.jsonl"))
    if not files:
        raise NotFoundError(
            f"directory {path}: it holds no log (*.jsonl); name a log, a run or a directory of logs"
        )
    for file in files:
        yield str(file), _of_file(file, head, key)


def _of_file(source: Path | bytes, head: str | None, key: Verifier | None) -> Audit:
    return audit_log(
        source,
        head_of=_kept_in(head),
        key=key,
        checkpoints_of=lambda run: read_checkpoints(source, run),
    )


def _of_store(screen: Screen, run: str, head: str | None, key: Verifier | None) -> Audit:
    if run.endswith(".jsonl") or "/" in run:
        raise NotFoundError(f"log {run}: there is no such file; check the path")
    with places.reading(screen) as store:
        return _run(store, run, head, key)


def _run(store: Store, run: str, head: str | None, key: Verifier | None) -> Audit:
    """Audit a run of *store* against the head in the file *head*, else the one kept beside the store."""
    return audit_run(
        store,
        run,
        head=_kept_in(head)(run) if head is not None else Heads.beside(store.location).read(run),
        key=key,
        checkpoints_of=lambda name: read_checkpoints(place_of(store.location), name),
    )
