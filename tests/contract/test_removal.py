"""Removing a run from files: no byte of it is left, and a crash in the middle leaves it removed or whole."""

import os

import pytest

from fsm_agent.core.errors import NotFoundError, StoreDeadError
from fsm_agent.stores import files, open_store
from fsm_agent.stores.sqlite import SqliteStore
from fsm_agent.testing.store_contract import put
from tests.contract.disk import Disk

MARK = "q7-the-secret-of-the-old-run-7q"


def filled(store):
    """A run to remove, another one to keep, a letter to each."""
    lease = store.create("old", "ann", now_us=0, ttl_us=10)
    for _ in range(20):
        put(store, lease, 3, note=MARK * 20)
    other = store.create("new", "ann", now_us=0, ttl_us=10)
    put(store, other, 2, barrier=True)
    store.post("old", {"text": MARK}, now_us=1)
    store.post("new", {"text": "stays"}, now_us=1)
    return lease


def bytes_of(directory):
    return b"".join(p.read_bytes() for p in directory.rglob("*") if p.is_file())


@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl"])
def test_no_byte_of_a_removed_run_is_left_on_disk(tmp_path, name):
    store = open_store(tmp_path / name)
    lease = filled(store)
    store.flush()
    assert MARK.encode() in bytes_of(tmp_path)
    store.remove(lease, {"why": "old"})
    assert MARK.encode() not in bytes_of(tmp_path)
    store.close()
    assert MARK.encode() not in bytes_of(tmp_path)
    assert b"stays" in bytes_of(tmp_path)


def test_torn_tails_of_a_removed_run_go_with_it(tmp_path):
    store = open_store(tmp_path / "runs.jsonl")
    lease = filled(store)
    with (tmp_path / "runs.jsonl" / "old.jsonl").open("ab") as file:
        file.write(MARK.encode())
    lease = store.acquire("old", "bob", now_us=1000, ttl_us=10)
    assert (tmp_path / "runs.jsonl" / "old.jsonl.torn-1").exists()
    store.remove(lease, {})
    store.close()
    assert MARK.encode() not in bytes_of(tmp_path)


def test_what_a_crash_left_of_a_removed_run_is_swept_by_the_next_removal(tmp_path, monkeypatch):
    store = open_store(tmp_path / "runs.jsonl")
    lease = filled(store)
    with monkeypatch.context() as patch:
        patch.setattr("fsm_agent.stores.jsonl_log.LogFile.delete", lambda self: os.close(-1))
        with pytest.raises(StoreDeadError):
            store.remove(lease, {"why": "old"})
    store = open_store(tmp_path / "runs.jsonl")
    with pytest.raises(NotFoundError, match="removed"):
        store.head("old")
    assert MARK.encode() in bytes_of(tmp_path)
    lease = store.acquire("new", "bob", now_us=1000, ttl_us=10)
    store.remove(lease, {"why": "old"})
    assert MARK.encode() not in bytes_of(tmp_path)
    assert [t.run for t in store.tombstones()] == ["new", "old"]
    store.close()


def test_a_disk_that_breaks_during_a_removal_leaves_the_run_whole_or_removed(tmp_path):
    disk = Disk("removal")
    seen = set()
    for at in range(1, 200):
        place = tmp_path / f"{at}.db"
        store = SqliteStore(place, vfs=disk.name)
        lease = filled(store)
        before = list(store.read("old"))
        disk.operations.clear()
        disk.fail_at = at
        try:
            store.remove(lease, {"why": "old"})
            whole = True
        except StoreDeadError:
            whole = False
        disk.fail_at = None
        store.close()
        again = SqliteStore(place)
        try:
            assert list(again.read("old")) == before
            seen.add("whole")
        except NotFoundError:
            assert [t.body for t in again.tombstones()] == [{"why": "old"}]
            seen.add("removed")
        assert len(list(again.read("new"))) == 2
        again.close()
        if whole:
            break
    assert seen == {"whole", "removed"}
    assert at < 199


def test_an_inbox_that_was_written_anew_twice_is_still_read_right(tmp_path):
    one, two = (open_store(tmp_path / "runs.jsonl") for _ in range(2))
    leases = [one.create(f"r{n}", "ann", now_us=0, ttl_us=10) for n in range(4)]
    numbers = [one.post(f"r{n % 4}", {"n": n}, now_us=n) for n in range(12)]
    for lease in leases[:2]:
        two.letters("r3")
        one.remove(lease, {})
        assert [x.body["n"] for x in two.letters("r3")] == [3, 7, 11]
    one.answer(leases[3], numbers[7], {"ok": 1})
    assert [x.id for x in two.letters("r3")] == [numbers[3], numbers[11]]
    assert two.post("r2", {}, now_us=1) == 13
    assert [x.id for x in one.letters("r2")] == [numbers[2], numbers[6], numbers[10], 13]
    assert files.file_name("r2") == "r2"
    one.close()
    two.close()
