"""Events on their way to the screen: one line each, oldest first, and folded when too many come at once."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from fsm_agent.core.events import Event

MOST: Final = 20
"""So many lines are shown at once; what comes with them is counted."""
PAUSE_S: Final = 0.25
"""Lines that come within so many seconds are shown together."""


def folded(events: Sequence[Event], line: Callable[[Event], str], most: int = MOST) -> list[str]:
    """Return a line for each of *events*, or for the first of them and how many more there are.

    Args:
        events: Oldest first.
        line: Makes the line of one.
        most: The longest list.
    """
    if len(events) <= most:
        return [line(event) for event in events]
    shown = events[: most - 1]
    more = f"  ... and {len(events) - len(shown)} more events: events --since {shown[-1].seq}"
    return [*map(line, shown), more]


class Printer:
    """Collects what is to be told and shows it: at once when asked, else a moment later."""

    def __init__(
        self, write: Callable[[Sequence[str]], None], line: Callable[[Event], str], *, most: int = MOST
    ) -> None:
        """Write through *write* what *line* makes of an event; at most *most* lines at once."""
        self._write = write
        self._line = line
        self._most = most
        self._events: list[Event] = []
        self._timer: asyncio.TimerHandle | None = None

    def listen(self, events: Sequence[Event]) -> None:
        """Tell of *events* soon."""
        self._events += events
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PAUSE_S, self.flush)

    def flush(self) -> None:
        """Show what has come so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        events, self._events = self._events, []
        if events:
            self._write(folded(events, self._line, self._most))
