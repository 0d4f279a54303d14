"""A store that breaks at the n-th call, and what a reader finds on its disk afterwards.

Everything since the last barrier is at the mercy of the crash: of those changes the first *kept* survive, in order
(0: a power cut that took all of them; many: a killed process whose changes the system still wrote).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

from fsm_agent.core.errors import StoreDeadError, UsageError
from fsm_agent.core.events import Head, Record
from fsm_agent.stores.base import Lease, Letter, Repair, RunInfo, Tombstone
from fsm_agent.stores.memory import MemoryStore

_T = TypeVar("_T")


class Breakage(StrEnum):
    """What happens at the chosen call."""

    ERROR_BEFORE = "error-before"
    """``StoreDeadError``, and nothing of the call was written."""
    ERROR_AFTER = "error-after"
    """``StoreDeadError``, although the call was carried out: the caller cannot know."""
    CRASH_BEFORE = "crash-before"
    """The process ends before the call."""
    CRASH_AFTER = "crash-after"
    """The process ends after the call, before anybody sees its result."""


class Crash(BaseException):
    """The process has ended. No ``except Exception`` catches it, and every later call of the store raises it."""


class FaultyStore:
    """A store in memory with a disk that remembers only what was made durable.

    Args:
        disk: What is there at the start; a copy is used.
        break_at: Number of the call that breaks, from 1; None: no call does. Every method but ``close`` counts.
        breakage: What happens then.

    Attributes:
        calls: How many calls there were; run a scenario once without a breakage to learn how many it makes.
    """

    def __init__(
        self,
        disk: MemoryStore | None = None,
        *,
        break_at: int | None = None,
        breakage: Breakage = Breakage.CRASH_AFTER,
    ) -> None:
        self.location = ":faulty:"
        self.repairs: list[Repair] = []
        self.calls = 0
        self._live = MemoryStore() if disk is None else disk.copy()
        self._disk = self._live.copy()
        self._soft: list[Callable[[MemoryStore], object]] = []
        self._break_at = break_at
        self._breakage = breakage
        self._end: BaseException | None = None

    def crash(self) -> None:
        """End the process now: every later call raises :class:`Crash`."""
        self._end = Crash(f"the process ended after {self.calls} calls of its store")

    def survivor(self, *, kept: int = 0) -> MemoryStore:
        """Return what is found when the store is opened again.

        Args:
            kept: How many of the changes since the last barrier survive, from the oldest.

        Raises:
            UsageError: *kept* is negative.
        """
        if kept < 0:
            raise UsageError(f"survivor: {kept} kept changes were asked for; use 0 or more")
        disk = self._disk.copy()
        for change in self._soft[:kept]:
            change(disk)
        return disk

    def soft_changes(self) -> int:
        """Return how many changes a crash may take now."""
        return len(self._soft)

    def create(self, run: str, owner: str, *, now_us: int, ttl_us: int) -> Lease:
        """Register the run; as in the contract."""
        return self._change(lambda store: store.create(run, owner, now_us=now_us, ttl_us=ttl_us))

    def acquire(self, run: str, owner: str, *, now_us: int, ttl_us: int, force: bool | str = False) -> Lease:
        """Take the run over; as in the contract."""
        return self._change(
            lambda store: store.acquire(run, owner, now_us=now_us, ttl_us=ttl_us, force=force)
        )

    def renew(self, lease: Lease, *, now_us: int, ttl_us: int) -> None:
        """Extend the lease; as in the contract."""
        self._change(lambda store: store.renew(lease, now_us=now_us, ttl_us=ttl_us))

    def release(self, lease: Lease) -> None:
        """Give the run up; as in the contract."""
        self._change(lambda store: store.release(lease))

    def append(
        self,
        lease: Lease,
        expected: Head,
        records: Sequence[Record],
        *,
        blobs: Mapping[str, bytes],
        barrier: bool,
        state: str,
        now_us: int,
    ) -> Head:
        """Append the records; as in the contract."""
        records, blobs = list(records), dict(blobs)
        return self._change(
            lambda store: store.append(
                lease, expected, records, blobs=blobs, barrier=barrier, state=state, now_us=now_us
            ),
            barrier=barrier,
        )

    def write(self) -> None:
        """Do nothing but count: whoever ends the process says how much the system had by then."""
        self._call(lambda: None)

    def flush(self) -> None:
        """Make everything appended so far durable; as in the contract."""
        self._change(lambda store: store.flush(), barrier=True)

    def head(self, run: str) -> Head:
        """Return the head; as in the contract."""
        return self._call(lambda: self._live.head(run))

    def read(self, run: str, *, since: int = 0, until: int | None = None) -> Iterator[Record]:
        """Yield the records; as in the contract."""
        return self._call(lambda: self._live.read(run, since=since, until=until))

    def blob(self, digest: str) -> bytes:
        """Return a large value; as in the contract."""
        return self._call(lambda: self._live.blob(digest))

    def runs(self) -> list[RunInfo]:
        """List the runs; as in the contract."""
        return self._call(self._live.runs)

    def info(self, run: str) -> RunInfo:
        """Return one run's line; as in the contract."""
        return self._call(lambda: self._live.info(run))

    def post(self, run: str, body: dict[str, Any], *, now_us: int) -> int:
        """Put a letter into the inbox; as in the contract."""
        return self._change(lambda store: store.post(run, body, now_us=now_us), barrier=True)

    def letters(self, run: str) -> list[Letter]:
        """Return the unanswered letters; as in the contract."""
        return self._call(lambda: self._live.letters(run))

    def answer(self, lease: Lease, letter: int, answer: dict[str, Any]) -> None:
        """Record the answer; as in the contract."""
        self._change(lambda store: store.answer(lease, letter, answer), barrier=True)

    def letter(self, letter: int) -> Letter:
        """Return a letter; as in the contract."""
        return self._call(lambda: self._live.letter(letter))

    def remove(self, lease: Lease, tombstone: dict[str, Any]) -> None:
        """Forget the run; as in the contract."""
        self._change(lambda store: store.remove(lease, tombstone), barrier=True)

    def tombstones(self) -> list[Tombstone]:
        """Return what is left of removed runs; as in the contract."""
        return self._call(self._live.tombstones)

    def changes(self) -> int:
        """Return how often this store has been changed."""
        return self._call(self._live.changes)

    def close(self) -> None:
        """Make everything durable and refuse everything from now on; silent if the store is broken or closed."""
        if self._end is None:
            self._harden()
            self._end = StoreDeadError("store :faulty:: it is closed; open what survived")

    def _change(self, change: Callable[[MemoryStore], _T], *, barrier: bool = False) -> _T:
        def carry_out() -> _T:
            result = change(self._live)
            self._soft.append(change)
            if barrier:
                self._harden()
            return result

        return self._call(carry_out)

    def _harden(self) -> None:
        for change in self._soft:
            change(self._disk)
        self._soft.clear()

    def _call(self, call: Callable[[], _T]) -> _T:
        if self._end is not None:
            raise self._end
        self.calls += 1
        if self.calls != self._break_at:
            return call()
        if self._breakage in (Breakage.ERROR_AFTER, Breakage.CRASH_AFTER):
            call()
        if self._breakage in (Breakage.CRASH_BEFORE, Breakage.CRASH_AFTER):
            self._end = Crash(f"the process ended at call {self.calls} of its store")
        else:
            self._end = StoreDeadError(
                f"store :faulty:: an I/O error at call {self.calls}; open what survived and verify it"
            )
        raise self._end
