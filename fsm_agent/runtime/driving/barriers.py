"""What has to be on the disk before something is done about it, or anybody is told of it.

Everything else is written along with the next batch that has to be, or after a moment: a read whose start is lost is
made again, a result that is lost is looked for again, and neither has done anything.
"""

from collections.abc import Sequence
from typing import Final

from fsm_agent.core.events import Event

NOTHING, WRITTEN, DURABLE, KEPT = range(4)
"""What is owed to a batch, the least first: nothing; that it outlives the process; that it is on the disk; that the
head of the log is kept outside of it, too."""

_AWAITED: Final = frozenset(
    {"run_created", "run_closed", "owner_changed", "approval_answered", "run_asked", "planner_asked"}
)
_KEPT: Final = frozenset({"approval_answered", "run_closed"})
"""After these the head is kept at once."""


def needs_barrier(event: Event) -> bool:
    """Whether *event* must be durable before anything is done about it, or anybody is told that it is.

    The beginning and the end of a run, every word of a person, the intent of every call that is no read, and every
    question to a planner, which is counted before it costs anything.
    """
    kind = event.type
    if kind == "decided":
        return False  # as nearly always; what is done about it is an event of its own
    if kind == "task_moved" and event.data["trigger"] == "start":
        return event.data["effect"] != "read"  # type: ignore[no-any-return]
    if kind == "probe_sent":
        return bool(event.data["repeat"])  # it is the call once more, and what kills its process must count
    if event.actor is not None and event.actor["kind"] == "human" and kind != "move_refused":
        return True
    return kind in _AWAITED


def owed(events: Sequence[Event], *, heir: bool) -> int:
    """Return what is owed to the batch *events* before anything follows from it.

    Args:
        events: A batch.
        heir: The run has been taken over before. Then a read that ends its process must count, too, or it would end
            one process after the other: its start is written before it is made. That waits for no disk.
    """
    if any(map(needs_barrier, events)):
        return KEPT if any(event.type in _KEPT for event in events) else DURABLE
    return WRITTEN if heir and any(map(_goes_out, events)) else NOTHING


def _goes_out(event: Event) -> bool:
    """Whether a call or a probe follows *event*."""
    return event.type == "probe_sent" or (event.type == "task_moved" and event.data["trigger"] == "start")
