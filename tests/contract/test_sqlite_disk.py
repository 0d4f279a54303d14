"""The SQLite store on a disk that breaks, or loses its power, at every single write."""

import random
import shutil

import apsw
import pytest

from fsm_agent.core.canon import blob_digest
from fsm_agent.core.errors import FsmAgentError, StoreDeadError
from fsm_agent.core.events import genesis
from fsm_agent.stores.sqlite import SqliteStore
from fsm_agent.testing.store_contract import batch, head_of, put
from tests.contract.disk import Disk, lay_out

BLOB = b'"' + b"b" * 9000 + b'"'
WHOLE = {
    "a": {8 * round_ + seq for round_ in range(7) for seq in (0, 1, 4, 6)},
    "b": {6 * round_ + seq for round_ in range(7) for seq in (0, 1, 4)},
}
"""Where the batches of `work` end."""


def work(path, disk, acknowledge, *, honest=True):
    """Two runs, groups of batches, a value, a letter; `acknowledge(run, seq)` after what must never be lost."""
    store = SqliteStore(path, vfs=disk.name)
    leases = {run: store.create(run, "ann", now_us=0, ttl_us=1000) for run in ("a", "b")}
    for round_ in range(6):
        for run, lease in leases.items():
            head = store.head(run)
            for size in (1, 3, 2):
                records = batch(head, size, note="n" * 300)
                head = store.append(lease, head, records, blobs={}, barrier=False, state="running", now_us=1)
        head = store.head("a")
        records = batch(head, 2)
        blobs = {blob_digest(BLOB): BLOB} if round_ == 3 else {}
        barrier = honest and round_ % 2 == 0
        store.append(leases["a"], head, records, blobs=blobs, barrier=barrier, state="running", now_us=1)
        if not barrier:
            if honest:
                store.flush()
            else:
                store.head("a")  # written, but the disk was not asked to keep it
        for run in leases:
            acknowledge(run, store.head(run).seq)
    if honest:
        acknowledge("letter", store.post("a", {"hello": 1}, now_us=2))
    store.close()


def recorded(tmp_path, name, **how):
    disk = Disk(name)
    acknowledged = []
    work(tmp_path / "runs.db", disk, lambda *what: acknowledged.append((len(disk.operations), *what)), **how)
    return disk, acknowledged


def losses(tmp_path, disk, acknowledged, count):
    """How many of `count` power cuts lost something acknowledged; anything else wrong fails at once."""
    rng = random.Random(7)
    first = next(i for i, op in enumerate(disk.operations) if op[0] == "write" and op[1].endswith("-wal"))
    lost = 0
    for number in range(count):
        upto = rng.randrange(first, len(disk.operations) + 1)
        place = tmp_path / "image"
        place.mkdir()
        lay_out(disk.image(upto, rng, keep=(0.0, 0.5, 0.9, 1.0)[number % 4]), place)
        store = SqliteStore(place / "runs.db", create=False)
        known = {info.run for info in store.runs()}
        for run in known:
            seqs = [record.seq for record in store.read(run)]  # verifies the chain
            assert len(seqs) in WHOLE[run]
        due = {}
        for at, what, seq in acknowledged:
            if at <= upto:
                due[what] = seq
        for what, seq in due.items():
            if what == "letter":
                lost += [letter.id for letter in store.letters("a")] != [seq] if "a" in known else 1
            else:
                lost += what not in known or store.head(what).seq < seq
        if due.get("a", 0) >= 32 and "a" in known and store.head("a").seq >= 32:
            assert store.blob(blob_digest(BLOB)) == BLOB
        store.close()
        shutil.rmtree(place)
    return lost


def test_a_power_cut_at_any_write_loses_nothing_that_was_acknowledged(tmp_path):
    disk, acknowledged = recorded(tmp_path, "power")
    assert losses(tmp_path, disk, acknowledged, 240) == 0


def test_the_power_cut_test_would_see_a_missing_barrier(tmp_path):
    disk, acknowledged = recorded(tmp_path, "dishonest", honest=False)
    assert losses(tmp_path, disk, acknowledged, 60) > 5


@pytest.mark.parametrize("error", [apsw.IOError, apsw.FullError])
def test_an_io_error_at_any_write_ends_the_store_and_loses_nothing_that_was_acknowledged(tmp_path, error):
    disk = Disk(f"broken-{error.__name__}", error)
    work(tmp_path / "whole.db", disk, lambda *what: None)
    total = len(disk.operations)
    dead = 0
    for at in range(1, total + 1, 3):
        path = tmp_path / f"{error.__name__}{at}.db"
        disk.operations.clear()
        disk.fail_at = at
        acknowledged = {}
        try:
            work(path, disk, acknowledged.__setitem__)
        except StoreDeadError:
            dead += 1
        except FsmAgentError:
            at_opening = not acknowledged
            assert at_opening
        disk.fail_at = None
        store = SqliteStore(path)
        for run, seq in acknowledged.items():
            if run == "letter":
                assert store.letter(seq).body == {"hello": 1}
            else:
                assert len(list(store.read(run))) == store.head(run).seq >= seq
        store.close()
    assert dead > total // 6


def test_a_dead_store_refuses_everything_and_its_file_can_be_opened_again(tmp_path):
    disk = Disk("dying")
    store = SqliteStore(tmp_path / "runs.db", vfs=disk.name)
    lease = store.create("a", "ann", now_us=0, ttl_us=1000)
    head = head_of(put(store, lease, 2, barrier=True))
    disk.fail_at = len(disk.operations) + 1
    with pytest.raises(StoreDeadError, match="open it again"):
        put(store, lease, barrier=True)
    for call in (
        store.flush,
        store.runs,
        store.changes,
        lambda: store.head("a"),
        lambda: list(store.read("a")),
        lambda: store.renew(lease, now_us=1, ttl_us=1),
        lambda: store.append(lease, head, batch(head), blobs={}, barrier=False, state="done", now_us=1),
    ):
        with pytest.raises(StoreDeadError, match="broken at operation"):
            call()
    store.close()
    again = SqliteStore(tmp_path / "runs.db")
    assert again.head("a") == head
    again.close()


def test_a_full_file_ends_the_store_and_keeps_what_was_acknowledged(tmp_path):
    store = SqliteStore(tmp_path / "runs.db")
    lease = store.create("a", "ann", now_us=0, ttl_us=1000)
    store._link.db.execute(f"PRAGMA max_page_count = {store._link.db.pragma('page_count') + 3}")
    kept = genesis("a")
    with pytest.raises(StoreDeadError, match="Full"):
        for _ in range(100):
            kept = head_of(put(store, lease, 3, barrier=True, note="n" * 500))
    with pytest.raises(StoreDeadError, match="Full"):
        store.head("a")
    again = SqliteStore(tmp_path / "runs.db")
    assert again.head("a") == kept != genesis("a")
    again.close()
