"""Time and chance of the real world; everything below takes them as arguments.

Time never goes back. A machine's clock may be set back under a process, or have been set back since a log was
written; a deadline that lies an hour ahead then passes after its own time all the same, not after an hour.
"""

import random
import time
from typing import Protocol


class Ports(Protocol):
    """Time and chance."""

    def now_us(self) -> int:
        """Return the UTC epoch in microseconds."""
        ...

    def jitter(self) -> float:
        """Return a number in [0, 1)."""
        ...


class SystemPorts:
    """The system clock and a private source of jitter."""

    def __init__(self, seed: int | None = None) -> None:
        """Draw jitter from *seed*, or from the system."""
        self._random = random.Random(seed)  # noqa: S311 - jitter, nothing secret
        self._ahead_ns = time.time_ns() - time.monotonic_ns()

    def now_us(self) -> int:
        """Return the UTC epoch in microseconds: the system clock's, but never slower than time passes here.

        If that clock is set back, this one stays ahead of it. If it is set forward (a machine that slept wakes up),
        this one follows.
        """
        steady = time.monotonic_ns()
        ahead = time.time_ns() - steady
        if ahead > self._ahead_ns:  # noqa: PLR1730 - asked several times a step, and a call of max takes longer
            self._ahead_ns = ahead
        return (steady + self._ahead_ns) // 1000

    def jitter(self) -> float:
        """Return a number in [0, 1)."""
        return self._random.random()


class Ahead:
    """Ports whose time is later by a constant: for a log whose last event lies in the future of this clock."""

    def __init__(self, ports: Ports, by_us: int) -> None:
        """Tell the time of *ports*, *by_us* microseconds later."""
        self._ports = ports
        self._by_us = by_us

    def now_us(self) -> int:
        """Return the UTC epoch in microseconds, as the log counts it."""
        return self._ports.now_us() + self._by_us

    def jitter(self) -> float:
        """Return a number in [0, 1)."""
        return self._ports.jitter()
