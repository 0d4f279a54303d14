"""Events as bytes: what is stored is what is hashed, and it comes back as it was."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core import canon
from fsm_agent.core.errors import CorruptError
from fsm_agent.core.events import (
    TYPES,
    Event,
    Record,
    chain,
    from_body,
    from_line,
    genesis,
    hydrate,
    named_values,
    seal,
    shrink,
    to_body,
    to_line,
)
from tests.core.test_canon import JSON, TEXT

ACTORS = st.none() | st.fixed_dictionaries({"kind": st.sampled_from(["human", "tool"]), "id": TEXT})
BIG = "x" * (canon.BLOB_BYTES + 1)
EVENTS = st.builds(
    Event,
    seq=st.integers(1, 10**6),
    at=st.integers(1, 2**62),
    type=st.sampled_from(TYPES),
    data=st.dictionaries(TEXT, JSON, max_size=4),
    task=st.none() | TEXT,
    cause=st.none() | st.integers(1, 10**6),
    tx=st.none() | st.lists(st.integers(2, 9), min_size=2, max_size=2),
    actor=ACTORS,
)


@given(EVENTS)
def test_an_event_comes_back_from_its_body_and_from_its_line(event):
    body = to_body(event)
    assert from_body(body) == event
    record = Record(event.seq, body, chain(bytes(32), body))
    line = to_line(record)
    assert from_line(line) == record
    assert json.loads(line) == {**json.loads(body), "hash": record.hash.hex()}


def test_a_batch_of_one_names_no_batch():
    event = Event(1, 1, "note_added", {}, None, None, [1, 1])
    assert b"tx" not in to_body(event)


@given(st.lists(EVENTS, min_size=1, max_size=4))
def test_sealed_events_form_a_chain_from_the_head(events):
    head = genesis("r")
    records, blobs = seal(head, events)
    assert blobs == {}
    previous = head.hash
    for event, record in zip(events, records, strict=True):
        assert record.seq == event.seq
        assert record.hash == chain(previous, record.body)
        previous = record.hash


def test_two_runs_begin_with_two_hashes():
    assert genesis("a").hash != genesis("b").hash
    assert genesis("a").seq == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b"not json",
        b'{"at":1,"data":{},"seq":1,"type":"note_added"}',
        b'{"at":1,"data":{},"type":"note_added","v":1}',
        b'{"at":1,"data":{},"seq":1,"type":"note_added","v":2}',
        b'{"at":"1","data":{},"seq":1,"type":"note_added","v":1}',
        b'{"at":1,"data":[],"seq":1,"type":"note_added","v":1}',
        b'{"at":1,"data":{},"seq":1.5,"type":"note_added","v":1}',
        b'{"at":1,"data":{},"seq":true,"type":"note_added","v":1}',
        b'{"at":1,"data":{},"seq":1,"type":7,"v":1}',
        b'{"at":1,"data":{},"seq":1,"task":7,"type":"note_added","v":1}',
        b'{"at":1,"cause":"x","data":{},"seq":1,"type":"note_added","v":1}',
        b'{"at":1,"data":{},"seq":1,"tx":[1],"type":"note_added","v":1}',
        b'{"at":1,"data":{},"seq":1,"tx":["a",2],"type":"note_added","v":1}',
        b'{"actor":"ann","at":1,"data":{},"seq":1,"type":"note_added","v":1}',
    ],
)
def test_bytes_that_are_no_event_are_refused(body):
    with pytest.raises(CorruptError, match="event"):
        from_body(body)


GONE = object()
ODD = st.sampled_from(
    (GONE, None, True, 1, 2, 1.0, "x", [], [1], [1, 2], [1, True], [None, 2], [1, 2, 3], {}, {"a": 1})
)
KINDS = {
    "type": str,
    "data": dict,
    "seq": int,
    "at": int,
    "task": str,
    "cause": int,
    "tx": list,
    "actor": dict,
}
NEEDED = ("v", "type", "data", "seq", "at")


def looked_at(raw):
    """Return what is wrong with an envelope, looked at member by member; empty if nothing is."""
    for key in NEEDED:
        if key not in raw:
            return f"no event ('{key}')"
    if type(raw["type"]) in (list, dict):
        return "unhashable type"
    if type(raw["v"]) is not int or raw["v"] != 1:
        return f"version {raw['v']!r} of {raw['type']} was found"
    for key, kind in KINDS.items():
        value = raw.get(key)
        if type(value) is not kind and (value is not None or key in NEEDED):
            return "a member of its envelope is of another type"
        if kind is list and value is not None and [type(number) for number in value] != [int, int]:
            return "a member of its envelope is of another type"
    return ""


@given(EVENTS, st.dictionaries(st.sampled_from(("v", *KINDS)), ODD, min_size=1, max_size=3))
def test_an_envelope_is_refused_for_the_first_member_that_is_odd(event, odd):
    raw = {**json.loads(to_body(event)), **odd}
    raw = {key: value for key, value in raw.items() if value is not GONE}
    body, fault = json.dumps(raw).encode(), looked_at(raw)
    if fault:
        with pytest.raises(CorruptError) as refused:
            from_body(body)
        assert fault in str(refused.value)
    else:
        assert from_body(body) == Event(**{key: raw.get(key) for key in KINDS})


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b'{"seq":1,"hash":"' + b"0" * 63 + b'"}',
        b'{"seq":1,"hash":"' + b"0" * 64 + b'"} ',
        b'{"seq":1,"hash":"' + b"A" * 64 + b'"}',
        b'{"seq":1,"hash":"' + b"g" * 64 + b'"}',
        b'{"nothing":1,"hash":"' + b"0" * 64 + b'"}',
        b'[1,"hash":"' + b"0" * 64 + b'"}',
        '{"seq":1,"hash":"é'.encode() + b"0" * 62 + b'"}',
    ],
)
def test_lines_that_are_no_event_lines_are_refused(line):
    with pytest.raises(CorruptError, match="log line"):
        from_line(line)


def through_the_log(data):
    """Seal an event with *data*, read it back, and return the blobs beside it."""
    event = Event(1, 1, "task_moved", data, "a")
    (record,), blobs = seal(genesis("r"), [event])
    return hydrate(from_body(record.body), blobs.__getitem__), blobs, record


MARKER = {"$blob": "0" * 64, "len": 3}
VALUES = (
    st.sampled_from([BIG, [BIG], {"x": BIG}, MARKER, {"$blob": 1}, {**MARKER, "more": 1}, None, 1, "small"])
    | JSON
)


@given(VALUES, VALUES, VALUES, VALUES)
def test_large_values_leave_the_body_and_come_back_whatever_they_look_like(result, first, second, outcome):
    data = {
        "result": result,
        "args": {"a": first, "b": second},
        "outcome": {"kind": "value", "value": outcome},
    }
    back, blobs, record = through_the_log(data)
    assert back.data == data
    for name, stored in blobs.items():
        assert canon.blob_digest(stored) == name
    assert len(record.body) < 5 * canon.BLOB_BYTES


@given(VALUES, VALUES, VALUES)
def test_an_event_names_the_large_values_that_left_it(result, first, outcome):
    data = {
        "result": result,
        "args": {"a": first},
        "outcome": {"kind": "value", "value": outcome},
        "answer": result,
    }
    _, blobs, record = through_the_log(data)
    assert set(named_values(from_body(record.body))) == set(blobs)


def test_a_large_value_is_stored_once_by_digest_and_small_ones_stay():
    data = {"result": BIG, "args": {"big": BIG, "small": 1}, "outcome": {"kind": "value", "value": BIG}}
    kept, blobs = shrink(data)
    name = canon.blob_digest(canon.encode(BIG))
    assert list(blobs) == [name]
    assert kept["result"] == {"$blob": name, "len": len(canon.encode(BIG))}
    assert kept["args"] == {"big": kept["result"], "small": 1}
    assert kept["outcome"] == {"kind": "value", "value_digest": name}
    assert data["result"] is BIG


def test_data_without_large_values_stays_in_the_body():
    back, blobs, _ = through_the_log({"text": BIG})
    assert blobs == {}
    assert back.data == {"text": BIG}


def test_a_large_value_that_is_not_what_its_digest_says_is_corruption():
    _, _, record = through_the_log({"result": BIG})
    with pytest.raises(CorruptError, match="large value"):
        hydrate(from_body(record.body), lambda _: canon.encode(BIG + "!"))
    with pytest.raises(CorruptError, match="large value"):
        hydrate(from_body(record.body)._replace(data={"result": {"$blob": 7, "len": 1}}), lambda _: b"1")
