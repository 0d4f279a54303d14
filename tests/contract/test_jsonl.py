"""What only the JSONL store promises: files that any tool reads, and tails that are cut only where nothing is lost."""

import itertools
import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.canon import blob_digest
from fsm_agent.core.errors import (
    ConflictError,
    CorruptError,
    FsmAgentError,
    NotFoundError,
    StoreDeadError,
    StoreUnusableError,
    UsageError,
)
from fsm_agent.core.events import Head, chain, genesis, to_line
from fsm_agent.stores import files, open_store
from fsm_agent.stores.jsonl import JsonlStore
from fsm_agent.stores.jsonl_parts import open_directory
from fsm_agent.stores.lines import scan
from fsm_agent.testing.store_contract import batch, head_of, put

VALUE = b'"' + "报销".encode() * 20 + b'"'


def filled(place):
    """A store with one run of four batches (1, 3, 2 and 2 events; a value before the last); its records by batch."""
    store = JsonlStore(place)
    lease = store.create("r", "ann", now_us=0, ttl_us=1)
    batches = [put(store, lease, size, note="报销 \U0001f680") for size in (1, 3, 2)]
    head = head_of(batches[-1])
    batches.append(batch(head, 2))
    store.append(
        lease, head, batches[-1], blobs={blob_digest(VALUE): VALUE}, barrier=True, state="running", now_us=1
    )
    store.close()
    return batches


def events(batches):
    return [record for records in batches for record in records]


def taken_over(place, **how):
    store = JsonlStore(place, **how)
    lease = store.acquire("r", "bob", now_us=10, ttl_us=1000)
    return store, lease


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a filled run's file, the offsets where its batches end, and the batches."""
    place = tmp_path_factory.mktemp("whole") / "store.jsonl"
    batches = filled(place)
    ends, size = [0], 0
    lines = (place / "r.jsonl").read_bytes().splitlines(keepends=True)
    for records in batches:
        while True:
            line = lines.pop(0)
            size += len(line)
            if line.startswith(to_line(records[-1])):
                break
        ends.append(size)
    assert lines == []
    return place, (place / "r.jsonl").read_bytes(), ends, batches


def with_bytes(whole, tmp_path, content):
    place = tmp_path / "store.jsonl"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(whole[0], place)
    (place / "r.jsonl").write_bytes(content)
    return place


# The files


def test_a_log_file_starts_with_event_1_and_holds_values_before_the_batch_that_names_them(whole):
    _, content, _, batches = whole
    lines = content.splitlines()
    value = b'{"$blob":"%b","value":%b}' % (blob_digest(VALUE).encode(), VALUE)
    assert lines == [to_line(r) for r in events(batches)[:6]] + [value] + [
        to_line(r) for r in events(batches)[6:]
    ]
    assert json.loads(lines[0])["seq"] == 1


def test_the_log_verifies_with_nothing_but_sha256(whole):
    _, content, _, _ = whole
    previous = genesis("r").hash
    for line in content.splitlines():
        if not line.startswith(b'{"$blob"'):
            body, digest = line[: line.rindex(b',"hash":')] + b"}", json.loads(line)["hash"]
            previous = chain(previous, body)
            assert previous.hex() == digest


def test_a_value_is_written_once_per_log(tmp_path):
    store = JsonlStore(tmp_path / "s.jsonl")
    name = blob_digest(VALUE)
    for run in ("a", "b"):
        lease = store.create(run, "ann", now_us=0, ttl_us=1)
        head = genesis(run)
        for _ in range(3):
            head = store.append(
                lease, head, batch(head), blobs={name: VALUE}, barrier=True, state="running", now_us=1
            )
    store.close()
    assert [(tmp_path / "s.jsonl" / f"{run}.jsonl").read_bytes().count(b"$blob") for run in ("a", "b")] == [
        1,
        1,
    ]
    assert JsonlStore(tmp_path / "s.jsonl").blob(name) == VALUE


def test_events_of_one_append_share_a_batch(tmp_path):
    store = JsonlStore(tmp_path / "s.jsonl")
    lease = store.create("r", "ann", now_us=0, ttl_us=1)
    head = genesis("r")
    half = batch(head, 3)[:2]
    with pytest.raises(UsageError, match="tx"):
        store.append(lease, head, half, blobs={}, barrier=True, state="running", now_us=1)
    assert store.head("r") == head
    store.close()


@given(
    st.lists(
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=30), min_size=2, max_size=8, unique=True
    )
)
def test_different_ids_have_different_file_names_even_where_case_is_ignored(ids):
    names = [files.file_name(run) for run in ids]
    assert len({name.lower() for name in names}) == len(ids)
    assert all(name.isascii() and "/" not in name and not name.startswith(".") for name in names)


# Where a store may be


@pytest.mark.parametrize("how", [{}, {"read_only": True}])
def test_a_directory_with_other_things_is_refused_and_left_alone(tmp_path, how):
    (tmp_path / "x.jsonl").mkdir()
    (tmp_path / "x.jsonl" / "notes.txt").write_text("mine")
    with pytest.raises(StoreUnusableError):
        open_store(tmp_path / "x.jsonl", **how)
    assert os.listdir(tmp_path / "x.jsonl") == ["notes.txt"]


def test_a_single_file_and_a_newer_store_are_refused(tmp_path, whole):
    file = tmp_path / "log.jsonl"
    file.write_bytes(whole[1])
    with pytest.raises(StoreUnusableError, match="imported"):
        open_store(file)
    place = with_bytes(whole, tmp_path, whole[1])
    (place / "fsm_agent-store.json").write_text('{"format":"fsm_agent/jsonl-store","version":2}')
    with pytest.raises(StoreUnusableError, match="'version': 2"):
        open_store(place)
    (place / "fsm_agent-store.json").write_text("{")
    with pytest.raises(StoreUnusableError, match="mark"):
        open_store(place)


def test_a_directory_that_may_not_be_written_is_refused_when_it_is_opened(tmp_path, monkeypatch):
    JsonlStore(tmp_path / "store").close()
    tmp_path.chmod(0o755)
    (tmp_path / "store").chmod(0o555)
    monkeypatch.chdir(tmp_path)  # whoever root becomes below may not come here by the whole path
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setuid(65534)  # root may write everywhere
            open_directory(Path("store"), read_only=False, create=True)
        except StoreUnusableError as error:
            code = 0 if "it may not be written; give write permission" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(open_directory(Path("store"), read_only=True, create=False))
    (tmp_path / "store").chmod(0o755)


def test_a_location_says_which_store_it_is(tmp_path):
    for location in (tmp_path / "a.jsonl", f"{tmp_path}/b/"):
        store = open_store(location)
        assert isinstance(store, JsonlStore)
        store.close()
    assert isinstance(open_store(tmp_path / "b", read_only=True), JsonlStore)
    for how in ({"read_only": True}, {"create": False}):
        with pytest.raises(NotFoundError):
            open_store(tmp_path / "c.jsonl", **how)
    with pytest.raises(NotFoundError):
        open_store(":memory:", read_only=True)


def test_reading_only_changes_nothing_even_with_a_torn_tail(tmp_path, whole):
    _, content, ends, batches = whole
    place = with_bytes(whole, tmp_path, content[: ends[-1] - 5])
    before = {entry.name: entry.read_bytes() for entry in place.iterdir()}
    store = open_store(place, read_only=True)
    assert list(store.read("r")) == events(batches[:3])
    with pytest.raises(StoreUnusableError, match="reading only"):
        store.acquire("r", "bob", now_us=10, ttl_us=1)
    store.flush()
    store.close()
    assert {entry.name: entry.read_bytes() for entry in place.iterdir()} == before


# Tails


def test_a_file_cut_anywhere_counts_up_to_the_last_whole_batch(whole):
    _, content, ends, batches = whole
    for size in range(len(content) + 1):
        found = scan(content[:size], genesis("r"))
        kept = sum(end <= size for end in ends) - 1
        assert (found.records, found.end) == (events(batches[:kept]), ends[kept])
        assert found.fault is None if size == ends[kept] else found.fault.torn


def test_a_file_cut_anywhere_is_repaired_and_goes_on(whole, tmp_path):
    _, content, ends, batches = whole
    edges = {at + near for at in [*ends, content.index("报".encode()) + 1] for near in (-1, 0, 1)}
    for size in sorted(
        size for size in edges | set(range(0, len(content), 197)) if 0 <= size <= len(content)
    ):
        place = with_bytes(whole, tmp_path, content[:size])
        store, lease = taken_over(place)
        kept = sum(end <= size for end in ends) - 1
        assert list(store.read("r")) == events(batches[:kept])
        tail = content[ends[kept] : size]
        assert [(r.run, r.bytes_cut, r.head) for r in store.repairs] == (
            [("r", len(tail), store.head("r"))] if tail else []
        )
        for repair in store.repairs:
            assert (repair.kept, repair.digest) == (str(place / "r.jsonl.torn-1"), blob_digest(tail))
            assert (place / "r.jsonl.torn-1").read_bytes() == tail
        more = put(store, lease, 2, barrier=True)
        store.close()
        assert list(JsonlStore(place).read("r")) == events(batches[:kept]) + more


@pytest.mark.parametrize(
    "rubbish", [b"\0" * 700, b"\n", b"{}", b"\xe6\x8a", b'{"$blob":"', "halb".encode("utf-16")]
)
def test_rubbish_behind_the_last_batch_is_cut_and_kept(whole, tmp_path, rubbish):
    _, content, _, batches = whole
    place = with_bytes(whole, tmp_path, content + rubbish)
    assert list(JsonlStore(place, read_only=True).read("r")) == events(batches)
    store, lease = taken_over(place)
    assert [repair.bytes_cut for repair in store.repairs] == [len(rubbish)]
    put(store, lease, barrier=True)
    store.close()
    assert JsonlStore(place).head("r").seq == 9


@pytest.mark.parametrize(
    "damage", ["nul", "flip", "line missing", "line twice", "batch missing", "batches swapped"]
)
def test_damage_before_a_later_batch_is_corruption_and_nothing_is_touched(whole, tmp_path, damage):
    _, content, ends, _ = whole
    parts = [content[a:b] for a, b in itertools.pairwise(ends)]
    lines = parts[1].splitlines(keepends=True)
    changed = {
        "nul": parts[0] + bytes(len(parts[1])) + parts[2] + parts[3],
        "flip": parts[0] + parts[1].replace(b"note", b"nota", 1) + parts[2] + parts[3],
        "line missing": parts[0] + lines[0] + lines[2] + parts[2] + parts[3],
        "line twice": parts[0] + lines[0] + lines[0] + lines[1] + lines[2] + parts[2] + parts[3],
        "batch missing": parts[0] + parts[2] + parts[3],
        "batches swapped": parts[0] + parts[2] + parts[1] + parts[3],
    }[damage]
    place = with_bytes(whole, tmp_path, changed)
    with pytest.raises(CorruptError, match="line") as refusal:
        taken_over(place)
    assert refusal.value.seq == 2
    store = JsonlStore(place)
    for call in (lambda: list(store.read("r")), lambda: store.head("r"), lambda: store.info("r"), store.runs):
        with pytest.raises(CorruptError):
            call()
    assert (place / "r.jsonl").read_bytes() == changed
    assert not list(place.glob("*.torn-*"))


@given(st.integers(0, 2**20), st.integers(0, 7))
def test_no_flipped_bit_changes_what_is_read_unnoticed(whole, where, bit):
    place, content, ends, batches = whole
    at = where % len(content)
    flipped = place.parent / "flipped.jsonl"
    shutil.rmtree(flipped, ignore_errors=True)
    shutil.copytree(place, flipped)
    (flipped / "r.jsonl").write_bytes(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
    store = JsonlStore(flipped, read_only=True)
    try:
        found = list(store.read("r"))
    except CorruptError:
        pass  # also where a flipped tx or seq makes the last batch look like a later one
    else:
        assert at >= ends[-2]  # the last batch cannot be told from a torn one; an anchored head can
        assert found == events(batches[:3])
        anchored = JsonlStore(flipped, anchored=lambda run: head_of(batches[-1]))
        with pytest.raises(CorruptError, match="anchored head is seq 8"):
            anchored.acquire("r", "bob", now_us=10, ttl_us=1)
        assert len((flipped / "r.jsonl").read_bytes()) == len(content)


def test_a_tail_behind_the_anchored_head_is_cut(whole, tmp_path):
    _, content, ends, batches = whole
    place = with_bytes(whole, tmp_path, content[: ends[-1] - 1])
    store = open_store(place, anchored=lambda run: head_of(batches[2]))
    store.acquire("r", "bob", now_us=10, ttl_us=1)
    assert store.head("r") == head_of(batches[2])
    assert len(store.repairs) == 1


def test_a_copy_of_a_tail_never_overwrites_another(whole, tmp_path):
    _, content, _, _ = whole
    place = with_bytes(whole, tmp_path, content + b"one")
    taken_over(place)[0].close()
    with (place / "r.jsonl").open("ab") as file:
        file.write(b"two")
    store = JsonlStore(place)
    store.acquire("r", "eve", now_us=10**9, ttl_us=1)
    kept = sorted(place.glob("*.torn-*"))
    assert [path.read_bytes() for path in kept] == [b"one", b"two"]


def test_a_file_that_shrinks_or_vanishes_under_an_open_store_is_corruption(whole, tmp_path):
    _, content, ends, _ = whole
    place = with_bytes(whole, tmp_path, content)
    store = JsonlStore(place)
    assert store.head("r").seq == 8
    (place / "r.jsonl").write_bytes(content[: ends[2]])
    with pytest.raises(CorruptError, match="had"):
        store.head("r")
    (place / "r.jsonl").unlink()
    with pytest.raises(CorruptError, match="gone"):
        JsonlStore(place).head("r")


def test_a_log_without_its_lease_file_is_not_taken_for_a_new_run(whole, tmp_path):
    place = with_bytes(whole, tmp_path, whole[1])
    (place / "r.meta.json").unlink()
    store = JsonlStore(place)
    assert store.runs() == []
    with pytest.raises(ConflictError, match="import"):
        store.create("r", "ann", now_us=0, ttl_us=1)
    (place / "x.meta.json").write_text("[]")
    with pytest.raises(CorruptError, match="lease"):
        store.info("x")


# The inbox file, and the end


def test_a_torn_letter_is_written_over_and_a_broken_one_is_corruption(whole, tmp_path):
    place = with_bytes(whole, tmp_path, whole[1])
    store = JsonlStore(place)
    first = store.post("r", {"n": 1}, now_us=1)
    with (place / "inbox.jsonl").open("ab") as file:
        file.write(b'{"body":{"n":2},"posted_us')
    other = JsonlStore(place)
    assert [letter.id for letter in other.letters("r")] == [first]
    second = other.post("r", {"n": 3}, now_us=2)
    assert [letter.body for letter in store.letters("r")] == [{"n": 1}, {"n": 3}]
    assert second == first + 1
    with (place / "inbox.jsonl").open("ab") as file:
        file.write(b'{"letter":9}\n')
    with pytest.raises(CorruptError, match="no letter"):
        store.letters("r")


def test_an_io_error_ends_the_store_and_it_can_be_opened_again(whole, tmp_path):
    place = with_bytes(whole, tmp_path, whole[1])
    store, lease = taken_over(place)
    (place / "r.jsonl").rename(place / "moved")
    (place / "r.jsonl").symlink_to("/dev/full")
    log = store._log("r")
    log._size, log._found = 0, None  # what a device says of itself
    head = store.head("r")
    with pytest.raises(StoreDeadError, match="No space left"):
        store.append(lease, head, batch(head), blobs={}, barrier=True, state="running", now_us=1)
    for call in (store.flush, store.runs, store.changes, lambda: store.head("r"), lambda: store.letter(1)):
        with pytest.raises(StoreDeadError, match="No space left"):
            call()
    store.close()
    (place / "r.jsonl").unlink()
    (place / "moved").rename(place / "r.jsonl")
    again = JsonlStore(place)
    assert again.head("r") == Head(8, head.hash)
    again.close()


def test_every_refusal_of_a_damaged_store_is_one_of_ours(whole, tmp_path):
    _, content, _, _ = whole
    for number, line in enumerate((b"null", b"[]", b'{"seq":1}', b"\xff\xff", b'"x"')):
        place = with_bytes(whole, tmp_path / str(number), line + b"\n" + content)
        with pytest.raises(FsmAgentError):
            taken_over(place)


def test_an_inbox_that_was_deleted_or_cut_under_its_store_is_said_and_no_zeros_take_its_place(tmp_path):
    store = JsonlStore(tmp_path / "runs")
    store.create("r", "ann", now_us=0, ttl_us=1)
    store.post("r", {"say": "one"}, now_us=1)
    inbox = tmp_path / "runs" / "inbox.jsonl"
    whole = inbox.read_bytes()
    for harm in (inbox.unlink, lambda: inbox.write_bytes(whole[:-9]), lambda: inbox.write_bytes(b"")):
        harm()
        for call in (
            lambda: store.post("r", {}, now_us=2),
            lambda: store.letters("r"),
            lambda: store.letter(1),
        ):
            with pytest.raises(CorruptError, match="letters were lost"):
                call()
        assert not inbox.exists() or b"\0" not in inbox.read_bytes()
        inbox.write_bytes(whole)
        assert [letter.body for letter in store.letters("r")] == [{"say": "one"}]
    store.close()
