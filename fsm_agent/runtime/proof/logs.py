"""Logs as they lie around: an exported file, a run in a store, an open store. Read, never changed.

:func:`audit`, :func:`replay`, :func:`what_if` and :func:`why` are the public functions of the package; they call no tool and need none.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from fsm_agent.core.audit import replay as replays
from fsm_agent.core.audit import why as whys
from fsm_agent.core.audit.answers import Why
from fsm_agent.core.audit.audit import Audit
from fsm_agent.core.errors import CorruptError, NotFoundError, UsageError
from fsm_agent.core.events import Event, Head, Record, from_body
from fsm_agent.core.replay import whatif as whatifs
from fsm_agent.core.replay.player import Replay
from fsm_agent.core.replay.whatif import WhatIf
from fsm_agent.core.rules import table as tables
from fsm_agent.core.rules.table import Table
from fsm_agent.runtime.configs import load_rules, with_lines
from fsm_agent.runtime.proof.auditing import audit_log, audit_run
from fsm_agent.runtime.proof.heads import Heads
from fsm_agent.runtime.proof.signing import Verifier, place_of, read_checkpoints
from fsm_agent.stores import JSONL_MARK, open_store
from fsm_agent.stores.base import Store
from fsm_agent.stores.transfer import read_log

Source = Store | str | os.PathLike[str]


class Log(NamedTuple):
    """A log that can be read once.

    Attributes:
        run: The run's id.
        records: From seq 1 on.
        blob: Returns a large value's canonical bytes by digest.
    """

    run: str
    records: Iterator[Record]
    blob: Callable[[str], bytes]


def is_store(path: Path) -> bool:
    """Whether *path* is a store rather than an exported log."""
    if os.path.isdir(path):  # noqa: PTH112 - pathlib raises for names that are too long
        return (path / JSONL_MARK).exists()
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\x00"
    except (OSError, ValueError):  # no path at all, such as one with NUL in it
        return False


@contextmanager
def opened(source: Source, run: str | None = None) -> Iterator[Log]:
    """Open a log for reading.

    Args:
        source: A store, where one is, or an exported log file.
        run: Which run of a store; may be left out if it holds only one.

    Raises:
        NotFoundError: No such file or run.
        UsageError: The store holds several runs and none was named.
        CorruptError: An exported log does not begin with ``run_created``.
    """
    if isinstance(source, str | os.PathLike) and not is_store(Path(source)):
        yield _of_file(source)
        return
    with reading(source) as store:
        name = run if run is not None else _only(store)
        store.head(name)
        yield Log(name, store.read(name), store.blob)


@contextmanager
def reading(source: Source) -> Iterator[Store]:
    """Open the store at *source*, and close it; one that is open already stays open."""
    if not isinstance(source, str | os.PathLike):
        yield source
        return
    store = open_store(source, read_only=True, create=False)
    try:
        yield store
    finally:
        store.close()


def _only(store: Store) -> str:
    names = [info.run for info in store.runs()]
    if len(names) != 1:
        raise UsageError(f"store: it holds {len(names)} runs ({', '.join(names[:8])}); name one")
    return names[0]


def in_bytes(data: bytes) -> Log:
    """Return the log that stands in the bytes of a file, exported or carried by a report.

    Raises:
        CorruptError: They do not begin like a log.
    """
    return _of_file(data)


def _of_file(source: str | os.PathLike[str] | bytes) -> Log:
    values: dict[str, bytes] = {}
    name = "in memory" if isinstance(source, bytes) else os.fspath(source)

    def blob(digest: str) -> bytes:
        try:
            return values[digest]
        except KeyError:
            raise NotFoundError(f"log {name}: the value {digest} is not in it") from None

    def records() -> Iterator[Record]:
        for entry in read_log(source):
            if isinstance(entry.item, Record):
                yield entry.item
            else:
                values[entry.item.digest] = entry.item.value

    found = records()
    first = next(found, None)
    run = from_body(first.body).data.get("run") if first is not None else None
    if first is None or not isinstance(run, str):
        raise CorruptError(f"log {name}: it does not begin with run_created, which names the run", seq=1)

    def all_records() -> Iterator[Record]:
        yield first
        yield from found

    return Log(run, all_records(), blob)


def audit(
    source: Source,
    *,
    run: str | None = None,
    head: Head | None = None,
    key: str | os.PathLike[str] | None = None,
) -> Audit:
    """Audit a log: was every event whole, every move legal, every decision what the table says?

    Whatever is wrong with the bytes is a finding.

    Args:
        source: A store, where one is, or an exported log file.
        run: Which run of a store.
        head: A head kept outside the log, to notice a cut or forked tail; left out, the one kept beside a store.
        key: File of the public key that checkpoints must be signed with.

    Raises:
        NotFoundError: No such file or run.
        UsageError: The store holds several runs and none was named.
    """
    verifier = Verifier(key) if key is not None else None
    if isinstance(source, str | os.PathLike) and not is_store(Path(source)):
        return audit_log(
            source,
            head_of=lambda _: head,
            key=verifier,
        )
    with reading(source) as store:
        name = run if run is not None else _only(store)
        return audit_run(
            store,
            name,
            head=head if head is not None else Heads.beside(store.location).read(name),
            key=verifier,
            checkpoints_of=lambda name: read_checkpoints(place_of(store.location), name),
        )


def replay(source: Source, *, run: str | None = None, until: int | None = None) -> Replay:
    """Read a log so that it can be stepped through: iterate, ``forward``, ``back``, ``at(seq)``, ``end()``, ``to(…)``.

    Args:
        source: A store, where one is, or an exported log file.
        run: Which run of a store.
        until: Nothing after this event is read.

    Raises:
        NotFoundError: No such file or run.
        CorruptError: The log is not what was written.
    """
    with opened(source, run) as log:
        return Replay(log.run, log.records, log.blob, until=until)


def why(source: Source, subject: str | int | None = None, *, run: str | None = None) -> Why:
    """Return why a task, an event, or the run is what it is: the decision, its row and line, what would change it.

    Args:
        source: A store, where one is, or an exported log file.
        subject: A task's id, an event's number, or None for the run.
        run: Which run of a store.

    Raises:
        NotFoundError: No such file, run, task or event.
        CorruptError: The log is not what was written.
    """
    with opened(source, run) as log:
        return why_of(log.run, replays.events(log.run, log.records, log.blob), subject)


def why_of(run: str, events: Iterable[Event], subject: str | int | None) -> Why:
    """As :func:`why`, from the events of a log; rows are named with the lines of their documents where these are found."""
    found = list(events)
    table = with_lines(tables.from_canonical(found[0].data["rules"])) if found else None
    return whys.why(run, found, subject, table=table)


def what_if(
    logs: Source | list[Source] | tuple[Source, ...],
    rules: Table | str | os.PathLike[str],
    *,
    params: Mapping[str, int | float] | None = None,
    run: str | None = None,
) -> WhatIf:
    """Return what another rule table would have decided at every decision of some logs.

    The tables are compared first (``static``); each decision is made again in the state as it was (``decisions``,
    ``matrix``); along a run that holds up to the first decision that differs (``trajectories``).

    Args:
        logs: A log, or several: stores, where they are, or exported log files.
        rules: The other table: a shipped one's name, a ``.toml`` file, or a table.
        params: Thresholds that go before the table's own; not with a table that is given as such.
        run: Which run of a store.

    Raises:
        NotFoundError: No such file, run or table.
        RulesError: The table is not sound.
        CorruptError: A log is not what was written.
    """
    table = rules if isinstance(rules, Table) else load_rules(os.fspath(rules), params)
    sources = logs if isinstance(logs, list | tuple) else [logs]
    return whatifs.what_if(_each(sources, run), table)


def _each(sources: Iterable[Source], run: str | None) -> Iterator[tuple[str, list[Event]]]:
    """Yield the run and the events of each log, one log at a time."""
    for source in sources:
        with opened(source, run) as log:
            yield log.run, list(replays.events(log.run, log.records, log.blob))
