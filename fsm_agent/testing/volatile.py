"""A store in memory that forgets, when it crashes, what no barrier and no flush made durable."""

from collections.abc import Mapping, Sequence

from fsm_agent.core.events import Head, Record, genesis
from fsm_agent.stores.base import Lease
from fsm_agent.stores.memory import MemoryStore


class VolatileStore(MemoryStore):
    """A store whose durability can be tested: see :class:`fsm_agent.stores.base.Store` for the contract."""

    def __init__(self) -> None:
        super().__init__()
        self._durable: dict[str, int] = {}

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
        head = super().append(
            lease, expected, records, blobs=blobs, barrier=barrier, state=state, now_us=now_us
        )
        if barrier:
            self.flush()
        return head

    def flush(self) -> None:
        """Make everything appended so far durable."""
        super().flush()
        for name, run in self._runs.items():
            self._durable[name] = len(run.bodies)

    def crash(self) -> None:
        """Lose what is not durable, in every run. Leases stay: nobody was there to give them up."""
        for name, run in self._runs.items():
            kept = self._durable.get(name, 0)
            del run.bodies[kept:], run.hashes[kept:]
            run.head = Head(kept, run.hashes[-1]) if kept else genesis(name)
