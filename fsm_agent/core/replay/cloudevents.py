"""A log as CloudEvents 1.0, one per event: for whoever listens, and not instead of the log.

``id`` is ``RUN/SEQ``, so a receiver that gets one twice knows it. The chain goes along in extensions (``hash``,
``prevhash``), but what proves a log is the log: its bytes, not these.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import quote

from fsm_agent.core.events import Event, Head, genesis
from fsm_agent.core.replay.moments import moment

TYPE: Final = "dev.fsm-agent."
"""What every type begins with; then the event's own type and ``.v1``."""


def cloud_events(run: str, events: Iterable[Event], heads: Iterable[Head]) -> Iterator[dict[str, Any]]:
    """Yield the events of *run* in the JSON format of CloudEvents.

    Args:
        run: The run's id.
        events: From the first on, large values put back.
        heads: Seq and hash of each.
    """
    previous = genesis(run)
    for event, head in zip(events, heads, strict=True):
        out: dict[str, Any] = {
            "specversion": "1.0",
            "id": f"{run}/{event.seq}",
            "source": f"/fsm-agent/runs/{quote(run, safe='')}",
            "type": f"{TYPE}{event.type}.v1",
            "time": moment(event.at),
            "datacontenttype": "application/json",
            "sequence": f"{event.seq:010d}",
            "hash": head.hash.hex(),
            "prevhash": previous.hash.hex(),
            "data": event.data,
        }
        if event.task is not None:
            out["subject"] = event.task
        if event.cause is not None:
            out["causationid"] = f"{run}/{event.cause}"
        who = event.actor or {}
        out |= {
            f"actor{name}": str(who[name]) for name in ("kind", "id") if who.get(name)
        }  # none may be empty
        yield out
        previous = head
