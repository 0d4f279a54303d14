"""``report``: one HTML file that tells a run, proves it with the log it carries, and needs nothing else to be read."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from fsm_agent.core.audit.audit import Audit
from fsm_agent.core.errors import NotFoundError, UsageError
from fsm_agent.core.replay.player import Replay
from fsm_agent.core.replay.story import Story, story
from fsm_agent.core.rules import table as tables
from fsm_agent.faces.frame import places
from fsm_agent.faces.frame.files import is_file, write_whole
from fsm_agent.faces.frame.screen import Screen, safe
from fsm_agent.faces.frame.spec import Outcome
from fsm_agent.faces.look.data import head as head_data
from fsm_agent.faces.replay.sources import read_stdin
from fsm_agent.faces.report.page import page
from fsm_agent.runtime.configs import with_lines
from fsm_agent.runtime.proof.auditing import audit_log, audit_run
from fsm_agent.runtime.proof.heads import Heads
from fsm_agent.runtime.proof.logs import in_bytes, is_store
from fsm_agent.runtime.proof.signing import place_of, read_checkpoints
from fsm_agent.stores.embedded import is_report, unpack
from fsm_agent.stores.transfer import export_run


@attrs.frozen(kw_only=True)
class Written:
    """A report that was written: the run, the file, its size in bytes, and what the audit says."""

    run: str
    file: str
    size: int
    audit: Audit


def report(screen: Screen, *, log: str, output: str) -> Outcome:
    """Write the report of a run, or of a log file."""
    path = Path(log)
    if log == "-":
        raw = read_stdin(screen)
        audit = audit_log(raw)
    elif is_file(path) and not is_store(path):
        try:
            data = path.read_bytes()
        except OSError as error:
            raise UsageError(f"log {log}: {error.strerror}; name a file that can be read") from None
        raw = unpack(data) if is_report(data) else data
        audit = audit_log(raw)
    else:
        raw, audit = _of_store(screen, log)
    told = _told(raw)
    made = page(told, audit, raw)
    write_whole("report", output, made)
    return Outcome(Written(run=told.run.id, file=output, size=len(made), audit=audit))


def _told(raw: bytes) -> Story:
    """Return what the log tells."""
    log = in_bytes(raw)
    replay = Replay(log.run, log.records, log.blob)
    return story(replay, table=with_lines(tables.from_canonical(replay.events[0].data["rules"])))


def _of_store(screen: Screen, run: str) -> tuple[bytes, Audit]:
    if run.endswith((".jsonl", ".html")) or "/" in run:
        raise NotFoundError(f"log {run}: there is no such file; check the path")
    with places.reading(screen, run) as store:
        kept = Heads.beside(store.location).read(run)
        checkpoints = [found.line for found in read_checkpoints(place_of(store.location), run)]
        out = io.BytesIO()
        export_run(store, run, out, checkpoints=checkpoints)
        return out.getvalue(), audit_run(store, run, head=kept)


def plain(value: Written, screen: Screen) -> Iterator[str]:
    """Where the report is, and what the audit says."""
    del screen
    audit = value.audit
    yield f"report of run {safe(value.run)} written to {value.file}, {value.size / 1024:.0f} KB"
    yield f"audit: {audit.verdict}, {audit.events} events, {len(audit.findings)} findings"
    yield f"head {audit.head.seq} {audit.head.hash.hex()}"


def data(value: Written, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/report@1``."""
    del screen
    return {
        "schema": "fsm-agent/report@1",
        "run": value.run,
        "file": value.file,
        "bytes": value.size,
        "verdict": value.audit.verdict,
        "head": head_data(value.audit.head),
    }
