"""How long the other side asked us to wait: ``Retry-After`` in seconds or as a date, gRPC push-back, rate headers."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from fsm_agent.core.classification.gently import guard

MAX_WAIT_S: Final = 315_360_000.0
"""Ten years. A longer wait is the same wait, and stays within 64 bits of microseconds."""
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def retry_after(header: Callable[[str], str | None], now_us: int | None = None) -> float | None:
    """Return the wait that a reply asks for, in seconds, or None if it asks for none that can be read.

    Args:
        header: Returns a header of the reply by its lower-case name.
        now_us: UTC epoch in microseconds; a date in the reply is read against the reply's own ``Date`` if it has one.
    """
    for name, unit in (("retry-after-ms", 0.001), ("grpc-retry-pushback-ms", 0.001), ("retry-after", 1.0)):
        seconds = _float(header(name))
        if seconds is not None:
            return wait_s(seconds * unit)
    until = http_date(header("retry-after") or "")
    if (
        until is None and header("x-ratelimit-remaining") == "0"
    ):  # GitHub's way; the reset is an epoch in seconds
        until = _float(header("x-ratelimit-reset"))
    now = http_date(header("date") or "")
    if now is None and now_us is not None:
        now = now_us / 1e6
    return None if until is None or now is None else wait_s(max(0.0, until - now))


def wait_s(seconds: float) -> float | None:
    """Return *seconds* as a wait that can be stored, or None if it is none (negative, not a number)."""
    return min(seconds, MAX_WAIT_S) if seconds >= 0 else None


def _float(text: str | None) -> float | None:
    return guard(lambda: float(text or ""))


def http_date(text: str) -> float | None:
    """Return the UTC epoch in seconds of an HTTP date in any of its three forms, or None if it is none.

    Source: RFC 9110 §5.6.7.
    """
    words = text.replace("-", " ").replace(",", " ").lower().split()[1:]
    if len(words) == 4 and words[0] in _MONTHS:  # asctime: Nov 6 08:49:37 1994
        words = [words[1], words[0], words[3], words[2]]
    return guard(lambda: _epoch(words))


def _epoch(words: list[str]) -> float:
    day, month, year, clock = words[:4]
    hour, minute, second = (int(part) for part in clock.split(":"))
    full_year = int(year)
    if len(year) == 2:
        full_year += 1900 if full_year >= 70 else 2000
    return datetime(
        full_year, _MONTHS.index(month) + 1, int(day), hour, minute, min(second, 59), tzinfo=UTC
    ).timestamp()
