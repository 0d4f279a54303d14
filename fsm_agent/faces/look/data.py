"""What commands about runs and logs print with ``--json``: one function per kind of result, ``(value, screen) → JSON value``.

Every document names its schema. None instead of a value prints nothing: the data has been written already.
"""

from collections.abc import Sequence
from typing import Any

import attrs
import orjson

from fsm_agent.core.audit.audit import Audit
from fsm_agent.core.events import Head, to_line
from fsm_agent.core.replay import moments
from fsm_agent.faces.frame.screen import Screen
from fsm_agent.faces.look.results import Audits, Exported, Finished, Line, Runs, Said
from fsm_agent.runtime.driving.status import Status
from fsm_agent.stores.lines import blob_line
from fsm_agent.stores.transfer import Imported


def status(value: Status, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/status@1``; the next commands name the store where that is needed."""
    return {**value.to_json(), "next": [screen.command(line) for line in value.next]}


def finished(value: Finished, screen: Screen) -> dict[str, Any]:
    """The run's status."""
    return status(value.status, screen)


def said(value: Said, screen: Screen) -> dict[str, Any]:
    """The run's status after the word."""
    return status(value.status, screen)


def events(value: Sequence[Line], screen: Screen) -> dict[str, Any]:
    """``fsm-agent/events@1``: every event as its line has it, large values by digest."""
    del screen
    return {"schema": "fsm-agent/events@1", "events": [orjson.loads(to_line(line.record)) for line in value]}


def event_line(line: Line) -> bytes:
    """The lines of an exported log, byte for byte."""
    return b"".join(
        part + b"\n" for part in (*(blob_line(*blob) for blob in line.blobs), to_line(line.record))
    )


def runs(value: Runs, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/runs@1``."""
    del screen
    rows = [
        {
            "run": info.run,
            "state": info.state,
            "created": moment(info.created_us),
            "updated": moment(info.updated_us),
            "driven": info.run in value.driven,
            "head": head(info.head),
        }
        for info in value.infos
    ]
    out = {"schema": "fsm-agent/runs@1", "store": value.store, "runs": rows}
    if value.collected is not None:
        out["collected"] = [
            {"run": one.run, "removed": not one.kept, "why": one.kept, "head": head(one.head)}
            for one in value.collected
        ]
    return out


def audits(value: Audits, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/audit@1``; of several logs the sums, and each by itself under ``logs``."""
    del screen
    own = [{"name": name, **_audit(audit)} for name, audit in value.audits]
    if not value.many:
        return {"schema": "fsm-agent/audit@1", **_audit(value.audits[0][1])}
    return {
        "schema": "fsm-agent/audit@1",
        "verdict": value.verdict,
        **{what: sum(one[what] for one in own) for what in ("events", "transitions", "decisions")},
        "findings": [{**finding, "run": one["run"]} for one in own for finding in one["findings"]],
        "logs": own,
    }


def _audit(audit: Audit) -> dict[str, Any]:
    return {
        "run": audit.run,
        "verdict": audit.verdict,
        "events": audit.events,
        "unchecked": audit.unchecked,
        "transitions": audit.transitions,
        "decisions": audit.decisions,
        "findings": [attrs.asdict(finding) for finding in audit.findings],
        "checks": [attrs.asdict(check) for check in audit.checks],
        "head": head(audit.head),
        "kept": None if audit.kept is None else head(audit.kept),
        "signed": audit.signed,
    }


def exported(value: Exported, screen: Screen) -> dict[str, Any] | None:
    """``fsm-agent/export@1``, if the log went to a file."""
    del screen
    if value.file is None:
        return None
    return {"schema": "fsm-agent/export@1", "run": value.run, "file": value.file, "head": head(value.head)}


def imported(value: Imported, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/import@1``."""
    del screen
    return {"schema": "fsm-agent/import@1", "run": value.run, "new": value.new, "head": head(value.head)}


def head(value: Head) -> dict[str, Any]:
    """Return where a log ends."""
    return {"seq": value.seq, "hash": value.hash.hex()}


def moment(at_us: int) -> str:
    """Return a time as ISO 8601 in UTC, from microseconds since the epoch."""
    return moments.moment(at_us)
