"""What is read in one go is what the checks of bytes find readable and canonical; of all else they have the last word."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.audit.reading import plain
from fsm_agent.core.errors import CorruptError
from fsm_agent.core.events import Event, from_body, is_canonical
from tests.audit.corpus import logs, sealed

BODIES = [
    record.body for log in logs()[::20] for record in sealed(log.events).records if len(record.body) < 900
]
ODD = st.sampled_from(
    [None, True, 0, 1, -1, 2, 1.0, "", "x", [], [1], [1, 1], [1, 2], [1, 2.0], [True, 2], {}, {"a": 1}]
)
NAMES = st.sampled_from(["actor", "at", "cause", "data", "hash", "seq", "task", "tx", "type", "v"])


def asked(body):
    """Return the event if the checks find nothing wrong with its bytes; None if they do."""
    try:
        event = from_body(body)
    except CorruptError:
        return None
    return event if is_canonical(event, body) else None


def test_every_event_that_a_run_writes_is_read_in_one_go():
    for body in BODIES:
        event = plain(body)
        assert type(event) is Event
        assert event == from_body(body)


@given(st.sampled_from(BODIES), st.dictionaries(NAMES, ODD, max_size=3), st.sets(NAMES, max_size=2))
def test_with_other_members_it_is_read_only_if_the_checks_would_let_it_pass(body, put, dropped):
    changed = {k: v for k, v in {**orjson.loads(body), **put}.items() if k not in dropped}
    odd = orjson.dumps(changed, option=orjson.OPT_SORT_KEYS)
    assert plain(odd) == asked(odd)


@given(st.sampled_from(BODIES), st.data())
def test_with_other_bytes_it_is_read_only_if_the_checks_would_let_it_pass(body, data):
    start = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(start, min(len(body), start + 3)))
    put = data.draw(
        st.sampled_from([b"", b" ", b'"', b"0", b"1.0", b"1", b"\xff", b'"v":1,', b",", b"}", b"[]"])
    )
    odd = body[:start] + put + body[end:]
    assert plain(odd) == asked(odd)


@given(st.one_of(st.binary(max_size=40), ODD.map(orjson.dumps)))
def test_what_is_no_event_at_all_is_not_read(body):
    assert plain(body) is None
