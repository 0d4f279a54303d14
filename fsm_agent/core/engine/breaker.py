"""A circuit breaker stands before each tool: closed lets calls by, open refuses them, half-open lets one try.

It counts failures of a tool in a row, whichever steps made the calls. After an outage exactly one call may find out
whether the tool is back; all others are refused until that call has ended. A breaker is a value folded from the log,
so a crash keeps it. Probes pass it: an unknown result must be looked up whatever else fails.
"""

from typing import Final

import attrs

from fsm_agent.core.signals import Signal

FAILURES: Final = frozenset({Signal.TRANSIENT_ERROR.value, Signal.RATE_LIMITED.value})
"""Signals of a call's outcome that say that the tool, or what stands behind it, is down; a time-out is one of them."""

ANSWERS: Final = frozenset(
    {
        Signal.UNVERIFIED.value,
        Signal.VALIDATION_FAILED.value,
        Signal.BAD_REQUEST.value,
        Signal.AUTH_DENIED.value,
        Signal.NOT_FOUND.value,
        Signal.CONFLICT.value,
        Signal.QUOTA_EXHAUSTED.value,
        Signal.PRECONDITION_VIOLATED.value,
    }
)
"""Signals that a tool gives that is there, like a returned value. All others say nothing about it: nobody knows the
error, or we ended the call ourselves."""


@attrs.frozen(kw_only=True)
class Breaker:
    """What a tool's calls have shown of late.

    Attributes:
        failures: Failures in a row.
        until: When an open breaker lets one call try, UTC epoch in microseconds; 0 while it is closed.
        trial: The task whose call is trying, or None.
    """

    failures: int = 0
    until: int = 0
    trial: str | None = None


CLOSED: Final = Breaker()


def state(breaker: Breaker, now: int) -> str:
    """Return ``closed``, ``open`` or ``half-open``, as the table's fact ``breaker``."""
    if not breaker.until:
        return "closed"
    return "open" if now < breaker.until else "half-open"


def refusal(breaker: Breaker, tool: str, now: int) -> str:
    """Return why no call of *tool* may go out at *now*, in words; empty if one may."""
    found = state(breaker, now)
    if found == "open":
        left = (breaker.until - now) / 1_000_000
        return f"{tool} failed {breaker.failures} times in a row; it is tried again in {left:g} s"
    if found == "half-open" and breaker.trial is not None:
        return (
            f"{tool} failed {breaker.failures} times in a row; {breaker.trial} is trying whether it is back"
        )
    return ""


def wait_us(breaker: Breaker, now: int, open_us: int) -> int:
    """Return how long a refused call waits, in microseconds: what is left of the outage, else a whole one."""
    left = breaker.until - now
    return left if left > 0 else open_us


def started(breaker: Breaker, task: str, now: int) -> Breaker:
    """Return the breaker after a call of *task* went out: the first one after an outage is the one that tries."""
    if state(breaker, now) == "half-open" and breaker.trial is None:
        return attrs.evolve(breaker, trial=task)
    return breaker


def ended(breaker: Breaker, task: str, signal: str | None, now: int, *, limit: int, open_us: int) -> Breaker:
    """Return the breaker after a call of *task* ended.

    Args:
        breaker: As it was.
        task: Whose call.
        signal: The outcome's own signal; None for a returned value.
        now: When it ended.
        limit: Failures in a row that open it.
        open_us: How long it then stays open, in microseconds.
    """
    if signal is None or signal in ANSWERS:
        return CLOSED
    if signal not in FAILURES:
        return left(breaker, task)
    trying = breaker.trial == task
    if breaker.until and not trying:
        return breaker  # a call from before the outage; it tells nothing new
    failures = breaker.failures + 1
    until = now + open_us if trying or failures >= limit else 0
    return Breaker(failures=failures, until=until)


def left(breaker: Breaker, task: str) -> Breaker:
    """Return the breaker after a call of *task* was given up, with no verdict about the tool."""
    return attrs.evolve(breaker, trial=None) if breaker.trial == task else breaker
