"""Where a log is that a command was given: an exported file (or a report with one in it), a store, or a run of the store."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fsm_agent.core.audit.replay import events
from fsm_agent.core.errors import NotFoundError
from fsm_agent.core.events import Event
from fsm_agent.faces.frame import places
from fsm_agent.faces.frame.files import is_folder, is_there
from fsm_agent.faces.frame.screen import Screen
from fsm_agent.runtime.proof.logs import Log, in_bytes, is_store, opened, reading
from fsm_agent.stores.embedded import is_report, unpack


@contextmanager
def log_of(screen: Screen, name: str) -> Iterator[Log]:
    """Open what *name* names for reading; ``-`` is a log file on standard input.

    Raises:
        NotFoundError: There is neither such a file nor such a run.
        UsageError: It is a store that holds several runs.
        CorruptError: It does not begin like a log.
    """
    if name == "-":
        yield in_bytes(screen.piped or read_stdin(screen))
        return
    if is_there(name):
        with opened(name) as log:
            yield log
        return
    if name.endswith((".jsonl", ".html", ".db")) or "/" in name:
        raise NotFoundError(f"log {name}: there is no such file; check the path")
    with places.reading(screen, name) as store, opened(store, name) as log:
        yield log


def logs_of(screen: Screen, source: str) -> Iterator[tuple[str, list[Event]]]:
    """Yield the logs that *source* stands for: a file, a run, every run of a store, every log of a directory."""
    path = Path(source)
    if is_store(path):
        with reading(path) as store:
            for info in store.runs():
                yield info.run, list(events(info.run, store.read(info.run), store.blob))
        return
    names = [source]
    if is_folder(path):
        names = sorted(str(file) for file in path.glob("*.jsonl"))
        if not names:
            raise NotFoundError(
                f"directory {source}: it holds no log (*.jsonl); name a log, a run or a directory of logs"
            )
    for name in names:
        with log_of(screen, name) as log:
            yield log.run, list(events(log.run, log.records, log.blob))


def read_stdin(screen: Screen) -> bytes:
    """Return the log that comes on standard input; of a report the log in it."""
    data = sys.stdin.buffer.read()
    screen.piped = unpack(data) if is_report(data) else data
    return screen.piped
