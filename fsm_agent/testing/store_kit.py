"""What the suites of the store contract share: batches to append, refusals to expect, a store to open."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from fsm_agent.core.errors import FsmAgentError
from fsm_agent.core.events import Event, Head, Record, seal
from fsm_agent.stores.base import Lease, Store

TTL_US = 10_000_000
"""How long the suite's leases live."""


@contextlib.contextmanager
def refuses(error: type[FsmAgentError], *words: str) -> Iterator[None]:
    """Expect the body to raise *error* with a message that holds *words*."""
    try:
        yield
    except error as found:
        message = str(found)
    else:
        raise AssertionError(f"{error.__name__} was expected; the call was carried out")
    missing = [word for word in words if word not in message]
    assert not missing, f"the message {message!r} does not say {missing}"


def batch(head: Head, count: int = 1, *, note: str = "x") -> list[Record]:
    """Return *count* sealed records that follow *head*, as one batch."""
    first = head.seq + 1
    events = [
        Event(first + n, first + n, "note_added", {"note": note, "n": n}, tx=[first, count])
        for n in range(count)
    ]
    return list(seal(head, events)[0])


def head_of(records: list[Record]) -> Head:
    """Return the head after *records*."""
    return Head(records[-1].seq, records[-1].hash)


def put(
    store: Store,
    lease: Lease,
    count: int = 1,
    *,
    barrier: bool = False,
    note: str = "x",
    state: str = "running",
) -> list[Record]:
    """Append a batch of *count* records to the head as it is."""
    head = store.head(lease.run)
    records = batch(head, count, note=note)
    found = store.append(lease, head, records, blobs={}, barrier=barrier, state=state, now_us=records[-1].seq)
    assert found == head_of(records)
    return records


class StoreSuite:
    """Tests that open a store in a directory of their own."""

    shared = True
    """Two stores opened at one place see the same; False for a store that is gone with its object."""

    def open(self, place: Path) -> Store:
        """Open the store that lies in the directory *place*."""
        raise NotImplementedError
