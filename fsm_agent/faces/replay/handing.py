"""``export --format ocel|cloudevents``: the log for programs that read those; what proves anything is the log itself."""

from collections.abc import Callable
from typing import Final

from fsm_agent.core import canon
from fsm_agent.core.errors import NotFoundError, UsageError
from fsm_agent.core.replay.cloudevents import cloud_events
from fsm_agent.core.replay.ocel import ocel
from fsm_agent.core.replay.player import Replay
from fsm_agent.faces.frame import places
from fsm_agent.faces.frame.files import write_whole
from fsm_agent.faces.frame.screen import Screen
from fsm_agent.faces.frame.spec import Outcome
from fsm_agent.faces.look.results import Exported


def _ocel(log: Replay) -> bytes:
    return canon.encode(ocel(log.id, log.events)) + b"\n"


def _cloudevents(log: Replay) -> bytes:
    lines = cloud_events(log.id, log.events, log.heads[1:])
    return b"".join(canon.encode(line) + b"\n" for line in lines)


FORMATS: Final[dict[str, Callable[[Replay], bytes]]] = {"ocel": _ocel, "cloudevents": _cloudevents}


def hand_on(screen: Screen, run: str, form: str, output: str | None) -> Outcome:
    """Write a run's log in another format to a file, or to standard output.

    Raises:
        NotFoundError: No such run, or it has no events.
        UsageError: One JSON document was asked for, and the log was to go there too.
    """
    with places.reading(screen, run) as store:
        head = store.head(run)
        log = Replay(run, store.read(run, until=head.seq), store.blob)
    if not log.last:
        raise NotFoundError(f"run {run}: it has no events yet; there is nothing to export")
    data = FORMATS[form](log)
    if output is None:
        if screen.form == "json":
            raise UsageError(
                "export: --json prints one document, and the log itself was to go there too; add -o FILE"
            )
        screen.write_bytes(data)
    else:
        write_whole("export", output, data)
    return Outcome(Exported(run=run, file=output, head=head))
