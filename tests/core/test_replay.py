"""Reading a log back: verified, large values put in, folded; or refused with the seq of what does not fit."""

import pytest

from fsm_agent.core.audit import replay
from fsm_agent.core.errors import CorruptError, PlanError, RulesError
from fsm_agent.core.events import chain, genesis
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
