"""How much is measured: sizes, rounds, and where there is room for files."""

from pathlib import Path

import attrs

from benchmarks.shapes import REAL
from benchmarks.timing import ROUNDS


@attrs.frozen(kw_only=True)
class Settings:
    """What a call of the runner asked for.

    Attributes:
        folder: For files that are gone afterwards.
        quick: A minute at most, small sizes.
        full: 100,000 steps, and as many records, as well.
        rounds: Of each contestant, at least.
    """

    folder: Path
    quick: bool = False
    full: bool = False
    rounds: int = ROUNDS

    @property
    def sizes(self) -> list[int]:
        """Numbers of steps."""
        return [100, 1000] if self.quick else [100, 1000, 10_000]

    def sizes_of(self, name: str) -> list[int]:
        """Return the numbers of steps of the graph *name*: plans and batches have 100,000 at most."""
        if name in REAL:
            return [n for n in (100, 1000, 5000) if n <= self.sizes[-1]]
        return [*self.sizes, *([100_000] if self.full else [])]

    def rounds_of(self, n: int) -> int:
        """Return how many rounds *n* steps get: small ones more, for they are noisier; the largest a few."""
        if self.quick:
            return self.rounds
        return 3 if n > 20_000 else self.rounds if n > 200 else 3 * self.rounds
