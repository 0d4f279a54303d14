"""The commands that look at runs and move their logs: ``status``, ``events``, ``export``, ``import``."""

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from fsm_agent.core.audit.replay import one
from fsm_agent.core.errors import NotFoundError, UsageError
from fsm_agent.core.events import Head, Record
from fsm_agent.core.machine import FINAL_RUN_STATES
from fsm_agent.faces.frame import places
from fsm_agent.faces.frame.files import is_there, whole
from fsm_agent.faces.frame.screen import Screen
from fsm_agent.faces.frame.spec import Outcome
from fsm_agent.faces.look.results import Exported, Line
from fsm_agent.runtime.driving.owner import owner_name
from fsm_agent.runtime.driving.status import status_of
from fsm_agent.runtime.ports import SystemPorts
from fsm_agent.runtime.proof.signing import place_of, read_checkpoints, write_checkpoints
from fsm_agent.stores.base import Store
from fsm_agent.stores.lines import named_blobs
from fsm_agent.stores.transfer import export_run, import_run

POLL_S: Final = 0.1
"""How often ``events --follow`` looks for news, in seconds."""


def status(screen: Screen, *, run: str, at: int | None) -> Outcome:
    """Return how a run stands, or stood after an event."""
    with places.reading(screen, run) as store:
        return Outcome(status_of(*places.look(store, run, at=at)))


async def events(screen: Screen, *, run: str, since: int, follow: bool) -> AsyncIterator[Line]:
    """Yield the events of a run after number *since*; with *follow* until the run ends."""
    with places.following(screen, run) if follow else places.reading(screen, run) as store:
        store.info(run)
        seen = since
        shown: set[str] = set()
        while True:
            for record in store.read(run, since=seen):
                seen = record.seq
                yield _line(store, run, record, shown)
            if not follow or (store.info(run).state in FINAL_RUN_STATES and store.head(run).seq <= seen):
                return
            await asyncio.sleep(POLL_S)


def _line(store: Store, run: str, record: Record, shown: set[str]) -> Line:
    names = [name for name in dict.fromkeys(named_blobs(record.body)) if name not in shown]
    shown.update(names)
    return Line(
        run=run,
        record=record,
        event=one(record, store.blob),
        blobs=tuple((name, store.blob(name)) for name in names),
    )


def export(screen: Screen, *, run: str, format: str, output: str | None) -> Outcome:  # noqa: A002 - the option's name
    """Write a run's log to a file, or to standard output."""
    if format != "jsonl":
        from fsm_agent.faces.replay.handing import hand_on

        return hand_on(screen, run, format, output)
    with places.reading(screen, run) as store:
        if output is not None:
            return Outcome(Exported(run=run, file=output, head=_export_to(store, run, Path(output))))
        if screen.form == "json":
            raise UsageError(
                "export: --json prints one document, and the log itself was to go there too; add -o FILE"
            )
        log = io.BytesIO()
        head = export_run(store, run, log, checkpoints=_checkpoints(store, run))
        screen.write_bytes(log.getvalue())
        return Outcome(Exported(run=run, file=None, head=head))


def _checkpoints(store: Store, run: str) -> list[bytes]:
    return [found.line for found in read_checkpoints(place_of(store.location), run)]


def _export_to(store: Store, run: str, file: Path) -> Head:
    with whole("export", file) as out:
        return export_run(store, run, out, checkpoints=_checkpoints(store, run))


def take_in(screen: Screen, *, log: str) -> Outcome:
    """Take a log into the store."""
    if not is_there(log):
        raise NotFoundError(f"log {log}: there is no such file; check the path")
    with places.writing(screen, create=True) as store:
        imported = import_run(store, log, owner=owner_name(), now_us=SystemPorts().now_us())
        signed, place = read_checkpoints(log, imported.run), place_of(store.location)
        if imported.new and signed and place is not None:
            write_checkpoints(place, signed)
        places.keep_head(screen, store, imported.run)
        return Outcome(imported)
