"""Logs as files: bytes and hashes survive any way through stores and files, and nothing damaged gets in."""

import contextlib
import io
import itertools
import resource
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.errors import (
    ConflictError,
    CorruptError,
    NotFoundError,
    OwnedError,
    StoreError,
    UsageError,
)
from fsm_agent.core.events import Event, Head, Record, chain, genesis, seal, to_line
from fsm_agent.stores import open_store
from fsm_agent.stores.lines import Blob
from fsm_agent.stores.memory import MemoryStore
from fsm_agent.stores.transfer import export_run, import_run, read_log
from fsm_agent.testing.store_contract import batch, head_of, put
from tests.crash.rig import lives

RUN = "reise/报销 2026"
NEWLINE = b"\n"
LARGE = {"text": "x" * 5000, "who": "李"}


def history(run=RUN):
    """Batches of a small run: created, started, a large result named twice, done; with their large values."""
    at = itertools.count(1)

    def event(seq, kind, data, tx=None, **more):
        return Event(seq, next(at), kind, data, tx=tx, **more)

    outcome = {"kind": "ok", "value": LARGE}
    head, out = genesis(run), []
    for events in (
        [event(1, "run_created", {"run": run, "goal": "g", "note": '"$blob":"' + "0" * 64})],
        [
            event(
                2, "run_moved", {"trigger": "start", "source": "pending", "dest": "running"}, [2, 3], cause=1
            ),
            event(3, "task_moved", {"trigger": "start", "args": {"a": 1, "big": LARGE}}, [2, 3], task="T1"),
            event(4, "note_added", {"text": "\n\r\u2028 \U0001f680"}, [2, 3]),
        ],
        [event(5, "task_moved", {"trigger": "succeed", "outcome": outcome}, task="T1")],
        [
            event(6, "reconciled", {"result": {"other": "y" * 4200}}, [6, 2], task="T1"),
            event(7, "run_moved", {"trigger": "finish", "source": "running", "dest": "done"}, [6, 2]),
        ],
    ):
        records, blobs = seal(head, events)
        out.append((records, blobs))
        head = head_of(records)
    return out


def stored(store, run=RUN):
    lease = store.create(run, "ann", now_us=1, ttl_us=10)
    head = genesis(run)
    for records, blobs in history(run):
        head = store.append(lease, head, records, blobs=blobs, barrier=False, state="running", now_us=2)
    store.release(lease)
    return store


def exported(store, run=RUN):
    out = io.BytesIO()
    head = export_run(store, run, out)
    assert head == store.head(run)
    return out.getvalue()


@pytest.fixture(scope="module")
def log():
    return exported(stored(MemoryStore()))


def test_a_log_goes_through_every_store_and_comes_out_byte_for_byte(tmp_path, log):
    stores = [open_store(tmp_path / "b.db"), open_store(tmp_path / "c.jsonl"), open_store(None)]
    assert exported(stored(open_store(tmp_path / "a.db"))) == log
    found = log
    for number, store in enumerate(stores):
        done = import_run(store, found, owner="import", now_us=50 + number)
        assert (done.run, done.head, done.new) == (RUN, store.head(RUN), True)
        assert "7 events imported" in done.message
        info = store.info(RUN)
        assert (info.state, info.owner, info.created_us) == ("done", None, 50 + number)
        found = exported(store)
        assert found == log
        store.acquire(RUN, "bob", now_us=60, ttl_us=1)
        store.close()


def test_values_come_before_the_first_event_that_names_them_and_once(log):
    lines = log.splitlines()
    kinds = [b"v" if line.startswith(b'{"$blob":') else b"e" for line in lines]
    assert b"".join(kinds) == b"eeveeevee"
    records = [record for records, _ in history() for record in records]
    assert [line for line in lines if not line.startswith(b'{"$blob"')] == [
        to_line(record) for record in records
    ]


def test_a_log_is_read_from_a_path_from_bytes_and_from_a_file(tmp_path, log):
    path = tmp_path / "log.jsonl"
    path.write_bytes(log)
    expected = list(read_log(log))
    assert [entry.line for entry in expected] == list(range(1, 10))
    assert [type(entry.item) for entry in expected].count(Blob) == 2
    assert [entry.item.seq for entry in expected if isinstance(entry.item, Record)] == list(range(1, 8))
    with path.open("rb") as file:
        assert list(read_log(path)) == list(read_log(str(path))) == list(read_log(file)) == expected
    assert list(read_log(log.splitlines(keepends=True))) == expected
    assert import_run(MemoryStore(), path, owner="o", now_us=1).run == RUN


@pytest.mark.parametrize("source", ["no/such/file.jsonl", "/proc"])
def test_a_path_that_cannot_be_read_is_a_clear_error(source):
    with pytest.raises((NotFoundError, UsageError), match=f"log {source}: "):
        list(read_log(source))


def test_reading_stops_at_the_first_bad_line_and_names_it(log):
    lines = log.splitlines(keepends=True)
    for number, bad in ((1, b"{}\n"), (4, b"\n"), (9, lines[8][:-1]), (3, lines[2].replace(b"x", b"y"))):
        source = [*lines[: number - 1], bad, *lines[number:]]
        found = []
        with pytest.raises(CorruptError, match=f"^log line {number}: "):
            for entry in read_log(source):
                found.append(entry.line)
        assert found == list(range(1, number))
    with pytest.raises(CorruptError, match="empty"):
        list(read_log(b""))


def test_the_same_log_twice_changes_nothing_and_says_so(log):
    store = MemoryStore()
    import_run(store, log, owner="o", now_us=1)
    before = store.changes()
    again = import_run(store, log, owner="o", now_us=2)
    assert (again.run, again.head, again.new) == (RUN, store.head(RUN), False)
    assert "exactly this log" in again.message
    assert store.changes() == before


def test_another_log_under_the_same_id_is_refused(log):
    store = stored(MemoryStore())
    lease = store.acquire(RUN, "bob", now_us=100, ttl_us=10)
    put(store, lease)
    with pytest.raises(ConflictError, match=r"ends at seq 8 .* ends at seq 7 "):
        import_run(store, log, owner="o", now_us=200)
    assert store.head(RUN).seq == 8


def test_an_import_that_was_cut_off_before_its_events_goes_on(log):
    store = MemoryStore()
    store.create(RUN, "dead", now_us=0, ttl_us=10)
    with pytest.raises(OwnedError):
        import_run(store, log, owner="o", now_us=5)
    assert import_run(store, log, owner="o", now_us=10).new
    assert exported(store) == log


def test_a_log_cut_anywhere_is_refused_with_the_line_where_it_ends_or_is_a_whole_shorter_log(log):
    for size in range(len(log)):
        store = MemoryStore()
        try:
            done = import_run(store, log[:size], owner="o", now_us=1)
        except CorruptError as refusal:
            message = str(refusal)
            assert store.runs() == []
        else:
            message = f"log line {log[:size].count(NEWLINE) + 1}: "
            assert done.head.seq in (1, 4, 5)
            assert log[:size].endswith(NEWLINE)
        assert message.startswith(f"log line {log[:size].count(NEWLINE) + 1}: ")


@given(st.data())
def test_no_flipped_bit_gets_in(log, data):
    at = data.draw(st.integers(0, len(log) - 1))
    flipped = log[:at] + bytes([log[at] ^ 1 << data.draw(st.integers(0, 7))]) + log[at + 1 :]
    store = MemoryStore()
    with pytest.raises((CorruptError, UsageError)):
        import_run(store, flipped, owner="o", now_us=1)
    assert store.runs() == []


def test_a_missing_value_is_named_by_import_and_export(log):
    lines = log.splitlines(keepends=True)
    without = [line for line in lines if b'"yyyy' not in line]
    with pytest.raises(CorruptError, match=r"log line 7: value .* not in the file") as refusal:
        import_run(MemoryStore(), without, owner="o", now_us=1)
    assert refusal.value.seq == 6
    store = MemoryStore()
    lease = store.create(RUN, "ann", now_us=1, ttl_us=10)
    head = genesis(RUN)
    for records, _ in history():
        head = store.append(lease, head, records, blobs={}, barrier=True, state="running", now_us=2)
    with pytest.raises(CorruptError, match="event 3: it names value"):
        export_run(store, RUN, io.BytesIO())


def test_a_log_must_start_with_the_event_that_names_the_run():
    for data, words in (
        ({"run": 7}, "names the run"),
        ({}, "names the run"),
        ({"run": ""}, "run id"),
    ):
        records, _ = seal(genesis("r"), [Event(1, 1, "run_created", data)])
        with pytest.raises((CorruptError, UsageError), match=words):
            import_run(MemoryStore(), to_line(records[0]) + b"\n", owner="o", now_us=1)
    other = to_line(batch(genesis("r"))[0]) + b"\n"
    with pytest.raises(CorruptError, match="note_added"):
        import_run(MemoryStore(), other, owner="o", now_us=1)
    with pytest.raises(CorruptError, match="line 1"):
        import_run(MemoryStore(), b"", owner="o", now_us=1)


def test_an_event_of_another_version_is_refused_although_its_hash_fits():
    first, _ = seal(genesis("r"), [Event(1, 1, "run_created", {"run": "r"})])
    body = batch(head_of(first))[0].body.replace(b'"v":1', b'"v":9')
    second = Record(2, body, chain(first[0].hash, body))
    with pytest.raises(CorruptError, match=r"log line 2: .*version 9"):
        import_run(MemoryStore(), b"".join(to_line(r) + b"\n" for r in (*first, second)), owner="o", now_us=1)


def test_a_run_without_events_is_not_exported():
    store = MemoryStore()
    store.create("r", "ann", now_us=1, ttl_us=1)
    with pytest.raises(NotFoundError, match="no events yet"):
        export_run(store, "r", io.BytesIO())
    assert store.head("r") == Head(0, genesis("r").hash)


@contextlib.contextmanager
def files_of_at_most(size):
    """As on a full disk: a file that grows beyond *size* bytes ends there, with an error."""
    old, heard = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, heard)


@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl"])
def test_a_log_whose_import_finds_the_disk_full_is_not_there_in_part(tmp_path, name):
    """Half a log would look like a run that stands where it did long ago, and its effects would be made again."""
    _, _, store, _ = lives("fine", [])
    log = tmp_path / "log.jsonl"
    with log.open("wb") as file:
        head = export_run(store.survivor(kept=store.soft_changes()), "r", file)
    size, failed = log.stat().st_size, 0
    for number, limit in enumerate(range(600, 4 * size, size // 11)):
        place = tmp_path / str(number) / name
        open_store(place).close()
        with files_of_at_most(limit):
            try:
                store = open_store(place)
                import_run(store, log, owner="ann", now_us=1)
                store.close()
            except StoreError:
                failed += 1
        again = open_store(place)
        assert [info.head.seq for info in again.runs()] in ([], [0], [head.seq])
        import_run(again, log, owner="ann", now_us=10**9)
        assert again.head("r") == head
        again.close()
    assert failed > 3
