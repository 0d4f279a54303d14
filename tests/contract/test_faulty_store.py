"""The store that breaks on purpose: where it says, how it says, and nothing durable is ever gone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.errors import StoreDeadError, UsageError
from fsm_agent.core.events import genesis
from fsm_agent.testing.faulty_store import Breakage, Crash, FaultyStore
from fsm_agent.testing.store_contract import batch

STEPS = st.lists(st.booleans(), min_size=1, max_size=12)


def work(store, steps, durable):
    """Append a batch per step, with a barrier where it is true; `durable` gets what must never be lost."""
    lease = store.create("r", "ann", now_us=0, ttl_us=1)
    head = genesis("r")
    for barrier in steps:
        head = store.append(lease, head, batch(head, 2), blobs={}, barrier=barrier, state="running", now_us=1)
        if barrier:
            durable.append(head)
    store.flush()
    durable.append(head)


@given(STEPS, st.data())
def test_a_crash_at_any_call_keeps_what_was_durable_and_a_prefix_of_the_rest(steps, data):
    calm = FaultyStore()
    work(calm, steps, [])
    at = data.draw(st.integers(1, calm.calls))
    store = FaultyStore(
        break_at=at, breakage=data.draw(st.sampled_from([Breakage.CRASH_BEFORE, Breakage.CRASH_AFTER]))
    )
    durable = []
    with pytest.raises(Crash):
        work(store, steps, durable)
    with pytest.raises(Crash):
        store.runs()
    store.close()
    kept = data.draw(st.integers(0, store.soft_changes()))
    disk = store.survivor(kept=kept)
    lengths = {info.run: info.head.seq for info in disk.runs()}
    assert lengths.get("r", 0) >= (durable[-1].seq if durable else 0)
    assert kept == 0 or sum(lengths.values()) >= (kept - 1) * 2
    if lengths:
        assert [record.seq for record in disk.read("r")] == list(range(1, lengths["r"] + 1))


@pytest.mark.parametrize(
    ("breakage", "kept"),
    [
        (Breakage.ERROR_BEFORE, 2),
        (Breakage.ERROR_AFTER, 4),
        (Breakage.CRASH_BEFORE, 2),
        (Breakage.CRASH_AFTER, 4),
    ],
)
def test_before_means_not_written_and_after_means_written(breakage, kept):
    store = FaultyStore(break_at=3, breakage=breakage)
    with pytest.raises((StoreDeadError, Crash), match="at call 3"):
        work(store, [True, True, True], [])
    with pytest.raises((StoreDeadError, Crash), match="at call 3"):
        store.head("r")
    assert store.calls == 3
    assert store.survivor().head("r").seq == kept


def test_a_crash_is_no_exception_that_anybody_handles():
    assert not issubclass(Crash, Exception)
    store = FaultyStore()
    store.crash()
    with pytest.raises(Crash):
        try:
            store.runs()
        except Exception:  # what a careless caller writes
            pytest.fail("a crash was caught")


def test_what_survived_is_where_the_next_process_starts():
    first = FaultyStore()
    lease = first.create("r", "ann", now_us=0, ttl_us=1)
    head = first.append(
        lease, genesis("r"), batch(genesis("r")), blobs={}, barrier=True, state="running", now_us=1
    )
    first.append(lease, head, batch(head), blobs={}, barrier=False, state="running", now_us=1)
    assert (first.head("r").seq, first.soft_changes()) == (2, 1)
    first.crash()
    second = FaultyStore(first.survivor())
    heir = second.acquire("r", "bob", now_us=2, ttl_us=1)
    assert (heir.epoch, second.head("r")) == (2, head)
    second.post("r", {"n": 1}, now_us=3)
    second.crash()
    assert (first.survivor().info("r").owner, second.survivor().info("r").owner) == ("ann", "bob")
    with pytest.raises(UsageError, match="-1"):
        first.survivor(kept=-1)
