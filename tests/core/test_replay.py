"""Reading a log back: verified, large values put in, folded; or refused with the seq of what does not fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.audit import replay
from fsm_agent.core.errors import CorruptError, PlanError, RulesError
from fsm_agent.core.events import Chained, Head, Record, chain, genesis
from tests.core.kit import Lab

BIG = "x" * 9000


def a_run():
    it = Lab([{"id": "a", "tool": "look"}], checked=False)
    it.returns("a", BIG)
    it.check()
    return it


RUN = a_run()
RECORDS, BLOB = RUN.records, RUN.store.blob


def test_a_log_comes_back_with_its_large_values():
    assert replay.replay("r", RECORDS, BLOB).tasks["a"].result == BIG
    assert replay.one(RECORDS[-3], BLOB) == list(replay.events("r", RECORDS, BLOB))[-3]
    assert list(replay.verified("r", RECORDS)) == RECORDS


def test_an_empty_log_is_a_run_that_has_not_begun():
    run = replay.replay("r", [], BLOB)
    assert (run.seq, run.state, run.plan) == (0, "pending", None)
    with pytest.raises(AssertionError, match="has not begun"):
        _ = run.rules


@pytest.mark.parametrize(
    ("damage", "seq"),
    [
        (lambda rs: rs[1:], 1),
        (lambda rs: [*rs[:3], *rs[4:]], 4),
        (lambda rs: [*rs[:3], rs[3]._replace(body=rs[3].body + b" "), *rs[4:]], 4),
        (lambda rs: [*rs[:3], rs[3]._replace(hash=bytes(32)), *rs[4:]], 4),
    ],
)
def test_a_damaged_log_is_refused_at_the_first_event_that_does_not_fit(damage, seq):
    with pytest.raises(CorruptError) as refused:
        replay.replay("r", damage(list(RECORDS)), BLOB)
    assert refused.value.seq == seq


def chained(records, *, start=None, size=2):
    """Return *records* as a store does that hashes what it reads."""
    rows = [tuple(record) for record in records]
    blocks = [rows[at : at + size] for at in range(0, len(rows), size)]
    return Chained(start or genesis("r"), blocks, lambda seq: CorruptError(f"seq {seq}", seq=seq))


def damaged(records, what, at):
    """Damage one record."""
    record = records[at]
    other = {
        "body": record._replace(body=record.body + b" "),
        "kind": record._replace(body=bytearray(record.body)),
        "hash": record._replace(hash=bytes(32)),
        "none": record._replace(hash=None),
        "seq": record._replace(seq=record.seq + 1),
    }
    return [*records[:at], *([other[what]] if what in other else []), *records[at + 1 :]]


@given(
    st.sampled_from(("", "body", "kind", "hash", "none", "seq", "gone")),
    st.integers(0, len(RECORDS) - 2),
    st.integers(1, len(RECORDS)),
)
def test_what_a_store_hashes_ends_where_hashing_one_after_the_other_does(what, at, size):
    records = damaged(RECORDS, what, at) if what else RECORDS
    found, fault = [], None
    try:
        found.extend(chained(records, size=size))
    except CorruptError as error:
        fault = error.seq
    assert (found, fault) == ((RECORDS[:at], at + 1) if what else (RECORDS, None))
    assert all(type(record) is Record for record in found)


def hashed(monkeypatch):
    """Return the bodies that a replay hashes from now on."""
    bodies = []
    monkeypatch.setattr(replay, "chain", lambda previous, body: bodies.append(body) or chain(previous, body))
    return bodies


def test_what_a_store_has_hashed_is_not_hashed_again(monkeypatch):
    bodies = hashed(monkeypatch)
    assert replay.replay("r", chained(RECORDS), BLOB).seq == RECORDS[-1].seq
    assert bodies == []
    assert list(replay.verified("r", chained(RECORDS))) == RECORDS
    replay.replay("r", iter(chained(RECORDS)), BLOB)
    assert bodies == [record.body for record in RECORDS]


def test_records_of_another_beginning_are_hashed_and_refused(monkeypatch):
    bodies = hashed(monkeypatch)
    begun = chained(RECORDS)
    assert next(begun) == RECORDS[0]
    with pytest.raises(CorruptError, match="event 2 follows event 0"):
        replay.replay("r", begun, BLOB)
    with pytest.raises(CorruptError, match="event 3 follows event 0"):
        replay.replay("r", chained(RECORDS[2:], start=Head(2, RECORDS[1].hash)), BLOB)
    own = list(chained(RECORDS, start=genesis("r")))
    with pytest.raises(CorruptError, match="event 1 does not have the hash of its contents"):
        replay.replay("other", chained(own), BLOB)
    assert bodies == [RECORDS[0].body]


def test_whoever_only_says_that_the_records_were_hashed_is_not_believed():
    class Says(Chained):
        def __iter__(self):
            return iter(damaged(RECORDS, "hash", 3))

    with pytest.raises(CorruptError, match="event 4 does not have the hash of its contents"):
        replay.replay("r", Says(genesis("r"), [], CorruptError), BLOB)


def test_what_is_hashed_is_what_is_handed_out():
    rows = [[*record] for record in RECORDS]

    def blocks():
        yield rows

    records = Chained(genesis("r"), blocks(), CorruptError)
    assert next(records) == RECORDS[0]
    rows[1][1] = b"{}"
    rows[2:] = []
    assert list(records) == RECORDS[1:]


def test_a_body_that_names_another_seq_is_refused():
    body = RECORDS[0].body.replace(b'"seq":1', b'"seq":2')
    record = RECORDS[0]._replace(body=body, hash=chain(genesis("r").hash, body))
    with pytest.raises(CorruptError, match="the body of event 1 says seq 2"):
        list(replay.events("r", [record], BLOB))


def test_errors_of_plans_and_tables_carry_what_was_found():
    assert PlanError("x").faults == ()
    found = RulesError("x", ["a finding"])
    assert found.findings == ("a finding",)
    assert found.exit_code == 3
