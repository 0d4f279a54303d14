"""A clock that stands still until it is told to move, and chance that repeats itself.

Both fit wherever the engine asks for time and chance (:class:`fsm_agent.runtime.driving.engine.Ports`).
"""

import random

from fsm_agent.core.errors import UsageError

EPOCH_US = 1_767_225_600_000_000
"""Where a clock starts unless told otherwise: 2026-01-01T00:00:00Z."""


class FakeClock:
    """Time as a value. Reading it never moves it.

    Args:
        start_us: UTC epoch in microseconds.
        seed: Of the jitter: equal seeds give equal numbers, in any process.
    """

    def __init__(self, start_us: int = EPOCH_US, *, seed: int = 0) -> None:
        self.start_us = start_us
        self._now_us = start_us
        self._random = random.Random(seed)  # noqa: S311 - jitter is no secret

    def now_us(self) -> int:
        """Return the UTC epoch in microseconds."""
        return self._now_us

    def jitter(self) -> float:
        """Return the next number in [0, 1)."""
        return self._random.random()

    @property
    def elapsed_us(self) -> int:
        """Microseconds since the start."""
        return self._now_us - self.start_us

    def advance(self, seconds: float) -> None:
        """Move on by *seconds*.

        Raises:
            UsageError: *seconds* is negative.
        """
        if seconds < 0:
            raise UsageError(f"fake clock: it was to move by {seconds} s; time moves forward only")
        self._now_us += round(seconds * 1_000_000)

    def move_to(self, at_us: int) -> None:
        """Move on to *at_us* (UTC epoch in microseconds); a moment that has passed leaves the clock as it is."""
        self._now_us = max(self._now_us, at_us)
