"""What only the SQLite store promises: whose file it is, several processes, the buffer, changed bytes."""

import os
import random
import sqlite3
import threading
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.canon import blob_digest
from fsm_agent.core.errors import (
    ConflictError,
    CorruptError,
    FencedError,
    FsmAgentError,
    NotFoundError,
    StoreError,
    StoreUnusableError,
)
from fsm_agent.core.events import genesis
from fsm_agent.stores import open_store, sqlite, sqlite_file, sqlite_rows
from fsm_agent.stores.sqlite import SqliteStore
from fsm_agent.testing.store_contract import batch, head_of, put


def filled(path, *, records=5, run="r"):
    store = SqliteStore(path)
    lease = store.create(run, "ann", now_us=0, ttl_us=1000)
    for _ in range(records):
        put(store, lease)
    store.close()
    return path


def files(directory):
    return sorted(entry.name for entry in directory.iterdir())


# Whose file it is


def test_a_file_says_that_it_is_ours_and_guards_its_log(tmp_path):
    store = SqliteStore(tmp_path / "runs.db")
    put(store, store.create("r", "ann", now_us=0, ttl_us=1000), 2, barrier=True)
    db = store._link.db
    found = {
        name: db.pragma(name) for name in ("application_id", "user_version", "journal_mode", "page_size")
    }
    assert found == {
        "application_id": 0x46534D41,
        "user_version": 1,
        "journal_mode": "wal",
        "page_size": 8192,
    }
    assert (db.pragma("foreign_keys"), db.pragma("trusted_schema"), db.pragma("cell_size_check")) == (1, 0, 1)
    assert (tmp_path / "runs.db").read_bytes()[:16] == b"SQLite format 3\0"
    for sql in ("UPDATE events SET body = x'00'", "DELETE FROM events"):
        with pytest.raises(apsw.ConstraintError, match="append-only"):
            db.execute(sql)
    rows = db.execute("SELECT run, seq, body, hash FROM log ORDER BY seq").fetchall()
    assert [(run, seq, body.encode(), bytes.fromhex(digest)) for run, seq, body, digest in rows] == [
        ("r", *record[:2], record.hash) for record in store.read("r")
    ]
    store.close()


def test_parent_directories_are_made(tmp_path):
    filled(tmp_path / "a" / "b c" / "runs?x#.db")
    assert files(tmp_path / "a" / "b c") == ["runs?x#.db"]


def made_by(sql):
    """Return what makes the file of another program, which says *sql*."""

    def make(path):
        with sqlite3.connect(path) as db:
            db.execute(sql)
        db.close()

    return make


def newer(path):
    filled(path)
    db = apsw.Connection(str(path))
    db.pragma("user_version", 2)
    db.close()


UNUSABLE = {
    "another program's SQLite file": (made_by("CREATE TABLE other(x)"), "another program"),
    "another's with a view alone": (made_by("CREATE VIEW other AS SELECT 1"), "another program"),
    "another's with a name alone": (made_by("PRAGMA application_id = 7"), "another program"),
    "another's with a version alone": (made_by("PRAGMA user_version = 7"), "another program"),
    "a text": (lambda path: path.write_text("hello " * 1000), "no SQLite file"),
    "a short text": (lambda path: path.write_text("hello"), "SQLite"),
    "a newer schema": (newer, "version 2"),
    "a directory": (lambda path: path.mkdir(), "directory"),
    "a device": (lambda path: path.symlink_to("/dev/null"), "regular file"),
    "a broken link into nothing": (lambda path: path.symlink_to(path.parent / "no" / "where"), "opened"),
}


@pytest.mark.parametrize("what", UNUSABLE)
@pytest.mark.parametrize("read_only", [False, True])
def test_what_is_no_store_of_ours_is_refused_and_left_as_it_is(tmp_path, what, read_only):
    make, words = UNUSABLE[what]
    path = tmp_path / "runs.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(
        (StoreUnusableError, NotFoundError), match=words if path.exists() else "runs.db"
    ) as refusal:
        open_store(path, read_only=read_only)
    assert str(path) in str(refusal.value)
    assert "; " in str(refusal.value)
    assert (path.read_bytes() if path.is_file() else None) == before
    assert files(tmp_path) == ["runs.db"]


@pytest.mark.parametrize(
    "place", ["/proc/fsm_agent/runs.db", "/dev/null/runs.db", "x" * 300 + ".db", "nul\0.db"]
)
def test_a_place_that_cannot_be_written_is_refused(tmp_path, place):
    with pytest.raises(StoreUnusableError, match="store "):
        open_store(tmp_path / place)


def test_a_missing_file_is_not_found_unless_it_may_be_made(tmp_path):
    for how in ({"read_only": True}, {"create": False}):
        with pytest.raises(NotFoundError, match="no such file"):
            open_store(tmp_path / "runs.db", **how)
    assert files(tmp_path) == []


def left_by_one_that_died_while_it_made_it(path):
    db = apsw.Connection(str(path))
    db.pragma("journal_mode", "wal")
    db.close()


@pytest.mark.parametrize("make", [Path.touch, left_by_one_that_died_while_it_made_it])
def test_an_empty_file_becomes_a_store_when_it_is_opened_for_writing(tmp_path, make):
    path = tmp_path / "runs.db"
    make(path)
    with pytest.raises(StoreUnusableError, match="empty"):
        open_store(path, read_only=True)
    filled(path)
    assert open_store(path, read_only=True).head("r").seq == 5


@pytest.mark.parametrize("exists", [False, True])
def test_a_file_that_may_not_be_written_is_refused(tmp_path, exists):
    class WriteProtected(apsw.VFS):
        def xOpen(self, name, flags):
            flags[0] = (
                flags[0] & ~apsw.SQLITE_OPEN_READWRITE & ~apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_READONLY
            )
            return apsw.VFSFile("", name, flags)

    disk = WriteProtected(f"protected-{exists}", "")  # lives as long as it is used
    path = tmp_path / "runs.db"
    if exists:
        filled(path)
    else:
        path.touch()
    with pytest.raises(StoreUnusableError, match="give write permission"):
        SqliteStore(path, vfs=f"protected-{exists}")
    assert disk is not None


# Reading only


def test_reading_only_changes_nothing_and_leaves_no_files(tmp_path):
    path = filled(tmp_path / "runs.db")
    before = path.read_bytes()
    store = open_store(path, read_only=True)
    assert [record.seq for record in store.read("r")] == [1, 2, 3, 4, 5]
    assert files(tmp_path) == ["runs.db"]
    assert store.info("r").owner == "ann"
    for call in (
        lambda: store.create("s", "bob", now_us=0, ttl_us=1),
        lambda: store.acquire("r", "bob", now_us=0, ttl_us=1, force=True),
        lambda: store.post("r", {}, now_us=1),
    ):
        with pytest.raises(StoreUnusableError, match="reading only"):
            call()
    store.flush()
    store.close()
    assert (path.read_bytes(), files(tmp_path)) == (before, ["runs.db"])


def test_a_reader_follows_a_writer_that_came_after_it(tmp_path):
    path = filled(tmp_path / "runs.db")
    reader = open_store(path, read_only=True)
    before = reader.changes()
    assert reader.head("r").seq == 5
    writer = SqliteStore(path)
    lease = writer.acquire("r", "bob", now_us=5000, ttl_us=1000)
    for seq in (6, 7):
        put(writer, lease, barrier=True)
        assert (reader.head("r").seq, reader.changes() != before) == (seq, True)
        before = reader.changes()
    writer.close()
    assert [record.seq for record in reader.read("r")] == [1, 2, 3, 4, 5, 6, 7]
    reader.close()


# The buffer


def test_appends_without_a_barrier_wait_in_order_and_become_durable_together(tmp_path):
    path = tmp_path / "runs.db"
    store, outside = SqliteStore(path), SqliteStore(path)
    lease = store.create("r", "ann", now_us=0, ttl_us=1000)
    other = store.create("s", "ann", now_us=0, ttl_us=1000)
    head = genesis("r")
    for _ in range(3):
        head = store.append(lease, head, batch(head), blobs={}, barrier=False, state="running", now_us=1)
    assert outside.head("r").seq == 0
    put(store, other, barrier=True)
    assert (outside.head("r").seq, outside.head("s").seq) == (3, 1)
    outside.close()
    store.close()


def test_a_large_buffer_is_written_without_waiting_for_a_barrier(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "BUFFER_RECORDS", 10)
    store, outside = SqliteStore(tmp_path / "runs.db"), SqliteStore(tmp_path / "runs.db")
    lease = store.create("r", "ann", now_us=0, ttl_us=1000)
    head = genesis("r")
    seen = []
    for _ in range(6):
        head = store.append(lease, head, batch(head, 4), blobs={}, barrier=False, state="running", now_us=1)
        seen.append(outside.head("r").seq)
    assert seen == [0, 0, 12, 12, 12, 24]
    outside.close()
    store.close()


def test_flush_waits_for_the_disk_although_a_read_has_written_the_buffer(tmp_path):
    store = SqliteStore(tmp_path / "runs.db")
    lease = store.create("r", "ann", now_us=0, ttl_us=1000)
    put(store, lease)
    store.head("r")
    count = "SELECT count FROM barriers"
    before = store._link.row(count)[0]
    store.flush()
    store.flush()
    assert store._link.row(count)[0] == before + 1
    assert store._link.db.pragma("synchronous") == 2
    store.close()


def test_a_run_taken_over_elsewhere_loses_its_buffer_and_the_other_runs_keep_theirs(tmp_path):
    path = tmp_path / "runs.db"
    one, two = SqliteStore(path), SqliteStore(path)
    mine, gone = (
        one.create("mine", "ann", now_us=0, ttl_us=1000),
        one.create("gone", "ann", now_us=0, ttl_us=1),
    )
    first = put(one, gone, barrier=True)
    head = head_of(first)
    first += put(two, two.acquire("gone", "bob", now_us=2, ttl_us=1000), 2, barrier=True)
    records = batch(head, 3)
    head = one.append(gone, head, records, blobs={}, barrier=False, state="failed", now_us=3)
    put(one, mine, 2, barrier=True)  # writes the buffer; what is not its own is no fault of this append
    assert two.head("mine").seq == 2
    with pytest.raises(FencedError, match="bob"):
        one.flush()
    one.flush()
    with pytest.raises(FencedError, match="bob"):
        one.append(gone, head, batch(head), blobs={}, barrier=False, state="failed", now_us=4)
    assert list(one.read("gone")) == first
    assert one.info("gone").state == "running"
    one.close()
    two.close()


def test_closing_says_that_events_were_lost_and_closes_all_the_same(tmp_path):
    path = tmp_path / "runs.db"
    one, two = SqliteStore(path), SqliteStore(path)
    gone = one.create("gone", "ann", now_us=0, ttl_us=1)
    one.append(
        gone, genesis("gone"), batch(genesis("gone")), blobs={}, barrier=False, state="failed", now_us=1
    )
    two.acquire("gone", "bob", now_us=2, ttl_us=1000)
    with pytest.raises(FencedError, match="bob"):
        one.close()
    one.close()
    two.close()


def test_an_answer_does_not_overtake_the_events_before_it(tmp_path):
    path = tmp_path / "runs.db"
    one, two = SqliteStore(path), SqliteStore(path)
    lease = one.create("r", "ann", now_us=0, ttl_us=1000)
    letter = two.post("r", {}, now_us=1)
    head = genesis("r")
    one.append(lease, head, batch(head), blobs={}, barrier=False, state="running", now_us=1)
    put(two, lease, barrier=True, note="the same lease elsewhere")
    with pytest.raises(ConflictError, match="seq 1"):
        one.answer(lease, letter, {"ok": True})
    assert two.letter(letter).answer is None
    with pytest.raises(ConflictError, match="seq 1"):
        one.flush()
    one.answer(lease, letter, {"ok": True})
    assert two.letter(letter).answer == {"ok": True}
    one.close()
    two.close()


# Others in the same file


def test_a_locked_file_is_a_clear_error_and_nothing_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "BUSY_MS", 20)
    path = tmp_path / "runs.db"
    store = SqliteStore(path)
    lease = store.create("r", "ann", now_us=0, ttl_us=1000)
    head = genesis("r")
    head = store.append(lease, head, batch(head), blobs={}, barrier=False, state="running", now_us=1)
    blocker = apsw.Connection(str(path))
    blocker.execute("BEGIN IMMEDIATE")
    records = batch(head, 2)
    for _ in range(2):
        with pytest.raises(StoreError, match="kept it locked"):
            store.append(lease, head, records, blobs={}, barrier=True, state="done", now_us=2)
    with pytest.raises(StoreError, match="kept it locked"):
        SqliteStore(path)
    blocker.execute("ROLLBACK")
    blocker.close()
    assert store.info("r").state == "running"
    store.append(lease, head, records, blobs={}, barrier=True, state="done", now_us=2)
    assert [record.seq for record in store.read("r")] == [1, 2, 3]
    store.close()


def test_threads_may_share_a_store(tmp_path):
    store = SqliteStore(tmp_path / "runs.db")
    failures = []

    def use(name):
        try:
            lease = store.create(name, "ann", now_us=0, ttl_us=1000)
            head = genesis(name)
            for step in range(40):
                records = batch(head, 2, note=name)
                head = store.append(
                    lease, head, records, blobs={}, barrier=step % 8 == 0, state="running", now_us=step
                )
                if step % 5 == 0:
                    assert len(list(store.read(name))) == head.seq
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=use, args=(f"run-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [info.head.seq for info in store.runs()] == [80] * 4
    store.close()


# Changed bytes


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A closed store file of a few pages, and what is in it."""
    path = filled(tmp_path_factory.mktemp("pages") / "runs.db", records=25)
    store = SqliteStore(path)
    records = list(store.read("r"))
    store.close()
    return path, path.read_bytes(), records


def test_a_changed_event_is_named_by_its_seq(pages, tmp_path):
    _, content, records = pages
    for record in records[::7]:
        path = tmp_path / f"{record.seq}.db"
        path.write_bytes(content.replace(record.body, record.body.replace(b'"x"', b'"y"')))
        store = SqliteStore(path)
        with pytest.raises(CorruptError, match=f"event {record.seq} ") as refusal:
            list(store.read("r"))
        assert refusal.value.seq == record.seq
        if record.seq > 1:
            assert len(list(store.read("r", until=record.seq - 1))) == record.seq - 1
        store.close()


@given(st.integers(0, 2**30), st.integers(0, 7))
def test_no_flipped_bit_changes_what_is_read_unnoticed(pages, where, bit):
    path, content, records = pages
    at = where % len(content)
    flipped = path.with_name("flipped.db")
    for side in ("-wal", "-shm"):
        Path(f"{flipped}{side}").unlink(missing_ok=True)
    flipped.write_bytes(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
    try:
        store = SqliteStore(flipped)
    except FsmAgentError:
        return
    try:
        assert list(store.read("r")) == records
        assert store.head("r") == head_of(records)
    except FsmAgentError:
        pass
    finally:
        try:
            store.close()
        except FsmAgentError:
            pass


def test_a_missing_event_a_missing_end_and_a_moved_head_are_seen(tmp_path):
    damages = {
        "DELETE FROM events WHERE id & 255 = 3": 3,
        "DELETE FROM events WHERE id & 255 = 5": 5,
        "UPDATE runs SET head_seq = 6": 6,
        "UPDATE runs SET head_hash = zeroblob(32)": 5,
        "DELETE FROM events": 1,
    }
    for number, (damage, seq) in enumerate(damages.items()):
        path = filled(tmp_path / f"{number}.db")
        db = apsw.Connection(str(path))
        db.execute("DROP TRIGGER events_no_delete")
        db.execute(damage)
        db.close()
        store = SqliteStore(path)
        with pytest.raises(CorruptError) as refusal:
            list(store.read("r"))
        assert refusal.value.seq == seq
        store.close()


def test_columns_of_another_type_are_seen_before_they_are_used(tmp_path):
    damages = {
        "UPDATE events SET body = 7 WHERE id & 255 = 2": (2, 0),
        "UPDATE events SET body = 'text' WHERE id & 255 = 2": (2, 0),
        "UPDATE events SET body = CAST(x'ff' AS TEXT) WHERE id & 255 = 2": (None, 0),
        "UPDATE events SET hash = 12345678901234567890 WHERE id & 255 = 2": (2, 0),
        "UPDATE events SET hash = 7 WHERE id & 255 = 2 ": (2, 2),
        "DELETE FROM events WHERE id & 255 = 2": (2, 2),
        "UPDATE runs SET head_hash = 7": (None, 0),
        "UPDATE runs SET head_seq = 'x'": (None, 0),
    }
    for number, (damage, (seq, since)) in enumerate(damages.items()):
        path = filled(tmp_path / f"{number}.db")
        db = apsw.Connection(str(path))
        db.execute("PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', '')")
        db.execute("DELETE FROM sqlite_schema WHERE type = 'trigger'")
        db.close()
        db = apsw.Connection(str(path))
        db.execute("PRAGMA ignore_check_constraints = 1")
        db.execute(damage)
        db.close()
        store = SqliteStore(path)
        with pytest.raises(CorruptError) as refusal:
            list(store.read("r", since=since))
        assert refusal.value.seq == seq
        store.close()


def test_a_changed_value_is_not_returned(tmp_path):
    path = tmp_path / "runs.db"
    store = SqliteStore(path)
    lease = store.create("r", "ann", now_us=0, ttl_us=1000)
    value = b'"' + b"v" * 5000 + b'"'
    name = blob_digest(value)
    head = genesis("r")
    store.append(lease, head, batch(head), blobs={name: value}, barrier=True, state="running", now_us=1)
    with pytest.raises(apsw.ConstraintError, match="append-only"):
        store._link.db.execute("UPDATE blobs SET value = x'00'")
    store._link.db.execute("DROP TRIGGER blobs_no_update; UPDATE blobs SET value = CAST('\"other\"' AS BLOB)")
    with pytest.raises(CorruptError, match="another digest"):
        store.blob(name)
    store.close()


def test_a_large_log_is_read_in_chunks(tmp_path):
    path = tmp_path / "runs.db"
    store = SqliteStore(path)
    lease = store.create("r", "ann", now_us=0, ttl_us=1000)
    head, total = genesis("r"), 0
    rng = random.Random(3)
    while total < 2 * sqlite_rows.FETCH + 100:
        records = batch(head, rng.randrange(1, 900))
        head = store.append(lease, head, records, blobs={}, barrier=False, state="running", now_us=1)
        total += len(records)
    assert [record.seq for record in store.read("r")] == list(range(1, total + 1))
    since, until = sqlite_rows.FETCH - 48, 2 * sqlite_rows.FETCH + 90
    assert [record.seq for record in store.read("r", since=since, until=until)] == [
        *range(since + 1, until + 1)
    ]
    store.close()
    assert os.path.getsize(path) < total * 250
