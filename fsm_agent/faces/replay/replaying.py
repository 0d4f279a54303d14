"""``replay``: the state of a run at any event of its log, and every place where something that was asked for happens."""

from collections.abc import Iterator
from typing import Any

import attrs

from fsm_agent.core.audit.causes import words_of
from fsm_agent.core.errors import UsageError
from fsm_agent.core.events import Event
from fsm_agent.core.replay.player import Replay, breaking
from fsm_agent.faces.frame.screen import Screen, safe, wrapped
from fsm_agent.faces.frame.spec import Outcome
from fsm_agent.faces.look import data as look_data
from fsm_agent.faces.look import plain as look_plain
from fsm_agent.faces.replay.sources import log_of
from fsm_agent.runtime.driving.status import Status, status_of


@attrs.frozen(kw_only=True)
class Place:
    """Where a replay stands.

    Attributes:
        status: The state right after the event, with the head there.
        event: The event; None before the first.
        last: Number of the last event of the log.
        stops: The events that were asked for, up to the place, oldest first.
        asked: Whether any were asked for.
    """

    status: Status
    event: Event | None
    last: int
    stops: tuple[Event, ...]
    asked: bool


def replay(screen: Screen, *, log: str, until: int | None, breaks: tuple[str, ...], first: bool) -> Outcome:
    """Fold a log up to an event, or up to where something happens."""
    wanted = [breaking(text) for text in breaks]
    if first and not wanted:
        raise UsageError("replay: --first was given and no --break; say where to stop")
    with log_of(screen, log) as found:
        replay = Replay(found.run, found.records, found.blob)
    last = replay.last
    limit = last if until is None else until
    if first:
        replay.to(*wanted) or replay.end()
        if replay.seq > limit:
            replay.at(limit)
    else:
        replay.at(limit)
    stops = tuple(e for e in replay.events[: replay.seq] if any(b.fits(e) for b in wanted))
    return Outcome(
        Place(
            status=status_of(replay.run, replay.head),
            event=replay.event,
            last=last,
            stops=stops,
            asked=bool(wanted),
        )
    )


def plain(value: Place, screen: Screen) -> Iterator[str]:
    """The places that were asked for, the event at the place, and the state after it."""
    for stop in value.stops:
        yield from wrapped(f"{stop.seq:>5}  ", words_of(stop), screen.width)
    if value.asked:
        yield f"{len(value.stops)} of {value.status.head.seq} events fit"
    if value.event is None:
        yield f"before event 1 of {value.last}"
        return
    head = f"at event {value.event.seq} of {value.last}: "
    yield from wrapped(head, words_of(value.event), screen.width)
    yield from look_plain.status(_past(value), screen)
    if value.event.seq < value.last:
        screen.hint(f"this is how run {safe(value.status.run)} stood then; nothing can be typed about it")


def _past(value: Place) -> Status:
    """Return the status without what can be typed now, unless the place is the end."""
    at_the_end = value.status.head.seq == value.last
    return value.status if at_the_end else attrs.evolve(value.status, next=())


def data(value: Place, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/replay@1``."""
    return {
        "schema": "fsm-agent/replay@1",
        "run": value.status.run,
        "seq": value.status.head.seq,
        "last": value.last,
        "event": None if value.event is None else event_data(value.event),
        "stops": [event_data(stop) for stop in value.stops],
        "status": look_data.status(_past(value), screen),
    }


def event_data(event: Event) -> dict[str, Any]:
    """Return an event with its words."""
    out = {"seq": event.seq, "at": look_data.moment(event.at), "type": event.type, "words": words_of(event)}
    return out if event.task is None else {**out, "task": event.task}
