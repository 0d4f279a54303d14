"""What a store is: an append-only log per run, one owner at a time, an inbox, large values by digest.

Nothing above this room may know which store it talks to. Every store passes the same contract suite
(:mod:`fsm_agent.testing.store_contract`). Times are arguments: a store reads no clock.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import attrs

from fsm_agent.core.events import Head, Record


@attrs.frozen(kw_only=True)
class Lease:
    """The right to append to one run.

    Attributes:
        run: The run.
        epoch: Rises by one with every owner; the fencing token of every append.
        owner: Who holds it (``host:pid:start:random`` for processes; any text otherwise).
    """

    run: str
    epoch: int
    owner: str


@attrs.frozen(kw_only=True)
class RunInfo:
    """A line of the list of runs: ``state`` is a projection for listings only, the log is the truth."""

    run: str
    head: Head
    state: str
    created_us: int
    updated_us: int
    owner: str | None
    lease_until_us: int


@attrs.frozen(kw_only=True)
class Letter:
    """A message to a run's owner, from a process that owns nothing.

    Attributes:
        id: Rises; letters are taken in this order.
        run: The run.
        posted_us: When it was posted, UTC epoch in microseconds.
        body: JSON object.
        answer: JSON object once the owner has handled it; None before.
    """

    id: int
    run: str
    posted_us: int
    body: dict[str, Any]
    answer: dict[str, Any] | None


@attrs.frozen(kw_only=True)
class Repair:
    """A torn tail that a store cut off when it took a log up again; the runtime logs it.

    Attributes:
        run: The run.
        head: The log's head after the cut.
        bytes_cut: How many bytes were cut.
        digest: SHA-256 of the bytes cut, 64 hex digits.
        kept: Path of the copy of these bytes.
    """

    run: str
    head: Head
    bytes_cut: int
    digest: str
    kept: str


@attrs.frozen(kw_only=True)
class Tombstone:
    """What is left of a run that was removed.

    Attributes:
        run: Its id; never given again.
        body: JSON object: where its log ended, who removed it, when and why.
    """

    run: str
    body: dict[str, Any]


class Store(Protocol):
    """The port between the runtime and whatever keeps the log.

    Errors, all from :mod:`fsm_agent.core.errors`: ``NotFoundError`` for an unknown or removed run, ``OwnedError`` when
    another owner's lease is alive, ``FencedError`` when this lease is no longer the current one,
    ``ConflictError`` when the head has moved, ``StoreDeadError`` after an I/O error (and from then on for every
    call), ``StoreUnusableError`` for a file that is not ours, too new or not writable, ``CorruptError`` for
    bytes that do not fit, ``UsageError`` for an argument that no store could take.

    Calls may come from several threads; a store takes them one at a time.

    Attributes:
        location: Where it is: a path, or a name in colons for one that no file holds.
        repairs: Torn tails cut since the store was opened, oldest first; empty where a store has none to cut.
    """

    location: str
    repairs: list[Repair]

    def create(self, run: str, owner: str, *, now_us: int, ttl_us: int) -> Lease:
        """Register *run* with an empty log and return its first lease (epoch 1).

        Raises:
            ConflictError: The id is taken.
        """
        ...

    def acquire(self, run: str, owner: str, *, now_us: int, ttl_us: int, force: bool | str = False) -> Lease:
        """Take the run over: epoch + 1.

        Allowed when nobody holds it, when the lease has expired, or with *force*: the name of a holder that the
        caller knows to be dead, if it still is the holder; True for whoever holds it. The same owner name asking
        twice is two owners: the second is refused while the first lease is alive.

        Raises:
            OwnedError: A living lease; names the holder and when it expires.
        """
        ...

    def renew(self, lease: Lease, *, now_us: int, ttl_us: int) -> None:
        """Extend the lease to ``now_us + ttl_us``. Raises ``FencedError`` if it is no longer current."""
        ...

    def release(self, lease: Lease) -> None:
        """Give the run up; the epoch stays. Silent if the lease is no longer current."""
        ...

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
        """Append *records* atomically after *expected* and return the new head.

        Args:
            lease: Must be the current one.
            expected: Must be the head of the log as it is; ``genesis(run)`` for an empty log.
            records: Sealed, in order, the first with seq ``expected.seq + 1``.
            blobs: Large values by digest that these records name; stored once.
            barrier: Return only when this and everything before is durable under power loss. Without it the
                store may return earlier, but keeps order: nothing later is ever durable without this.
            state: Projection for listings.
            now_us: For the listing.

        Raises:
            FencedError: The lease is not current; nothing was written. Always at once with *barrier*; without it
                a store may accept the records and learn only at the next write that the run has been taken over:
                then they are dropped, and the next append under this lease, ``flush`` or ``close`` says so.
            ConflictError: The head has moved; nothing was written.
            UsageError: No records, or they do not follow *expected*, or a blob is not what its digest says.
            StoreDeadError: I/O error; whether it was written is known only after reopening.
        """
        ...

    def write(self) -> None:
        """Hand everything appended so far to the system: it outlives this process, though perhaps no power cut."""
        ...

    def flush(self) -> None:
        """Make everything appended so far durable."""
        ...

    def head(self, run: str) -> Head:
        """Return the head as stored."""
        ...

    def read(self, run: str, *, since: int = 0, until: int | None = None) -> Iterator[Record]:
        """Yield the records with ``since < seq <= until``, in order, from one consistent view.

        Whoever folds them hashes them first, whatever the store does. One that hashes what it reads returns a
        :class:`~fsm_agent.core.events.Chained`, which does that itself: those are not hashed twice.
        """
        ...

    def blob(self, digest: str) -> bytes:
        """Return a large value's canonical bytes. Raises ``NotFoundError``, or ``CorruptError`` if they changed."""
        ...

    def runs(self) -> list[RunInfo]:
        """List all runs, oldest first."""
        ...

    def info(self, run: str) -> RunInfo:
        """Return one run's line."""
        ...

    def post(self, run: str, body: dict[str, Any], *, now_us: int) -> int:
        """Put a letter into the run's inbox, durably; needs no lease. Returns its id."""
        ...

    def letters(self, run: str) -> list[Letter]:
        """Return the unanswered letters, oldest first."""
        ...

    def answer(self, lease: Lease, letter: int, answer: dict[str, Any]) -> None:
        """Record the owner's answer to a letter, durably, with everything appended before.

        Raises:
            FencedError: The lease is not current.
            ConflictError: The letter has been answered.
            NotFoundError: No such letter in the inbox of the lease's run.
        """
        ...

    def letter(self, letter: int) -> Letter:
        """Return a letter with its answer, if there is one."""
        ...

    def remove(self, lease: Lease, tombstone: dict[str, Any]) -> None:
        """Forget a run, durably: its log, its letters, and the large values that no other run names.

        Its id stays taken, and whoever still holds a lease of it writes nothing any more.

        Args:
            lease: Must be the current one; it ends with the run.
            tombstone: JSON object that is kept in its place.

        Raises:
            FencedError: The lease is not current; nothing was removed.
        """
        ...

    def tombstones(self) -> list[Tombstone]:
        """Return what is left of removed runs, in the order of their ids."""
        ...

    def changes(self) -> int:
        """Return a number that differs after somebody else has changed the store, or a letter was posted.

        Somebody else is another connection or process; whoever posts through this very store counts as well.
        """
        ...

    def close(self) -> None:
        """Flush and close. The store refuses everything afterwards."""
        ...
