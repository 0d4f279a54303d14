"""Time and chance of the real world; everything below takes them as arguments."""

import random
import time


class SystemPorts:
    """The system clock and a private source of jitter."""

    def __init__(self, seed: int | None = None) -> None:
        """Draw jitter from *seed*, or from the system."""
        self._random = random.Random(seed)  # noqa: S311 - jitter, nothing secret

    def now_us(self) -> int:
        """Return the UTC epoch in microseconds."""
        return time.time_ns() // 1000

    def jitter(self) -> float:
        """Return a number in [0, 1)."""
        return self._random.random()
