"""What counts in a log file, and what a batch is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.errors import CorruptError
from fsm_agent.core.events import Event, genesis, seal, to_line
from fsm_agent.stores import files
from fsm_agent.stores.lines import named_blobs, scan, tx_of, whole
from fsm_agent.testing.store_contract import batch, head_of

SIZES = st.lists(st.integers(1, 5), max_size=6)


def log(sizes):
    head, batches = genesis("r"), []
    for size in sizes:
        batches.append(batch(head, size))
        head = head_of(batches[-1])
    return batches


@given(SIZES, st.integers(1, 30))
def test_records_are_whole_batches_exactly_when_the_cut_lies_between_two(sizes, cut):
    records = [record for records in log(sizes) for record in records]
    ends = {sum(sizes[:n]) for n in range(len(sizes) + 1)}
    for part, edge in ((records[:cut], min(cut, len(records))), (records[cut:], min(cut, len(records)))):
        assert whole(part) == (edge in ends)


@given(SIZES, st.integers(0, 6))
def test_a_scan_goes_on_where_another_ended(sizes, at):
    batches = log(sizes)
    data = [b"".join(to_line(record) + b"\n" for record in records) for records in batches]
    first = scan(b"".join(data[:at]), genesis("r"))
    second = scan(b"".join(data[at:]), first.head, line=first.lines + 1)
    together = scan(b"".join(data), genesis("r"))
    assert first.records + second.records == together.records
    assert (second.head, first.lines + second.lines) == (together.head, together.lines)
    assert first.fault is second.fault is None


def test_a_batch_of_one_whose_data_speaks_of_a_tx_is_a_batch_of_one():
    records, _ = seal(genesis("r"), [Event(1, 1, "note_added", {"tx": [5, 5], "text": '"tx":[1,9]'})])
    assert tx_of(records[0]) == (1, 1)
    assert whole(records)


@pytest.mark.parametrize("tx", ["x", [1], [1, 2, 3], [1.5, 2], [4, 2], [1, 2], None, {}, [True, 9]])
def test_a_tx_that_does_not_hold_its_own_event_is_corrupt(tx):
    record = seal(genesis("r"), [Event(3, 1, "note_added", {})])[0][0]
    text = {"x": b'"x"', "None": b"9"}.get(str(tx), str(tx).replace("True", "true").encode())
    record = record._replace(body=record.body.replace(b'"seq":3', b'"seq":3,"tx":' + text))
    with pytest.raises(CorruptError, match="tx"):
        tx_of(record)


def test_events_of_two_batches_do_not_mix():
    first = seal(
        genesis("r"), [Event(1, 1, "note_added", {}, tx=[1, 3]), Event(2, 2, "note_added", {}, tx=[2, 2])]
    )[0]
    third = seal(head_of(first), [Event(3, 3, "note_added", {}, tx=[1, 3])])[0]
    data = b"".join(to_line(record) + b"\n" for record in first + third)
    found = scan(data, genesis("r"))
    assert (found.records, found.fault.line, found.fault.torn) == ([], 2, False)
    assert "does not belong" in found.fault.what
    assert not whole(first + third)


def test_only_real_markers_name_values():
    marker = {"$blob": "0" * 64, "len": 3}
    events = [
        Event(1, 1, "note_added", {"text": '{"$blob":"' + "1" * 64 + '","len":1}', "deep": {"x": marker}})
    ]
    records, blobs = seal(genesis("r"), events)
    assert (named_blobs(records[0].body), blobs) == ([], {})
    large = {"args": {"a": marker, "b": "y" * 5000}, "result": ["z" * 5000], "outcome": {"value": "x" * 5000}}
    records, blobs = seal(genesis("r"), [Event(1, 1, "task_moved", large)])
    assert sorted(named_blobs(records[0].body)) == sorted(blobs)
    assert len(blobs) == 4


def test_a_replacement_that_fails_leaves_the_old_file_and_no_draft(tmp_path):
    place = tmp_path / "x"
    place.mkdir()
    with pytest.raises(IsADirectoryError):
        files.replace(place, b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_half_a_write_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(files.os, "write", lambda descriptor, data: len(data) - 1)
    with pytest.raises(OSError, match="4 of 5 bytes"):
        files.write_all(1, b"hello")
