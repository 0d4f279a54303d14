"""Events on their way to the screen: one line each, oldest first, and folded when too many come at once."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from fsm_agent.core.events import Event

MOST: Final = 20
"""So many lines are shown at once; what comes with them is counted."""
PAUSE_S: Final = 0.25
"""Lines that come within so many seconds are shown together."""


def folded(lines: Sequence[tuple[int, str]], most: int = MOST) -> list[str]:
    """Return the texts of numbered *lines*, or the first of them and how many more there are.

    Args:
        lines: (seq, text) of events, oldest first.
        most: The longest list.
    """
    if len(lines) <= most:
        return [text for _, text in lines]
    shown = lines[: most - 1]
    return [
        *(text for _, text in shown),
        f"  ... and {len(lines) - len(shown)} more events: events --since {shown[-1][0]}",
    ]


class Printer:
    """Collects what is to be told and shows it: at once when asked, else a moment later."""

    def __init__(
        self, write: Callable[[Sequence[str]], None], line: Callable[[Event], str], *, most: int = MOST
    ) -> None:
        """Write through *write* what *line* makes of an event; at most *most* lines at once."""
        self._write = write
        self._line = line
        self._most = most
        self._lines: list[tuple[int, str]] = []
        self._timer: asyncio.TimerHandle | None = None

    def listen(self, events: Sequence[Event]) -> None:
        """Tell of *events* soon."""
        self._lines += [(event.seq, self._line(event)) for event in events]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PAUSE_S, self.flush)

    def flush(self) -> None:
        """Show what has come so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = self._lines, []
        if lines:
            self._write(folded(lines, self._most))
