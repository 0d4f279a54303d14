"""A log may be hashed well and say nonsense: whoever reads it back says at which event, and never stumbles."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.audit.replay import replay
from fsm_agent.core.errors import CorruptError
from fsm_agent.core.replay.player import Replay
from tests.audit.corpus import logs, sealed

LOG = max(logs()[:20], key=lambda log: len(log.events))
ODD = (None, True, -1, 1e300, 2**63 - 1, "", "x", [], ["x"], {}, {"x": ["x"]}, [[1]])


def sealed_with(seq, data):
    found = [e._replace(data=data) if e.seq == seq else e for e in LOG.events]
    return sealed(found)


def blob_of(forged):
    values = dict(
        (line[10:74].decode(), line[84:-1]) for line in forged.lines.splitlines() if line[:8] == b'{"$blob"'
    )
    return values.__getitem__


@pytest.mark.parametrize("kind", ["task_moved", "run_moved", "plan_adopted"])
def test_an_event_without_what_it_must_say_is_named(kind):
    seq = next(e.seq for e in LOG.events if e.type == kind)
    forged = sealed_with(seq, {})
    with pytest.raises(CorruptError, match=f"event {seq} .{kind}. cannot be applied") as refused:
        replay(forged.run, forged.records, blob_of(forged))
    assert refused.value.seq == seq


@given(st.data())
def test_whatever_an_event_says_a_log_is_read_back_or_refused(data):
    event = data.draw(st.sampled_from([e for e in LOG.events if e.seq > 1]))
    name = data.draw(st.sampled_from(sorted(event.data)))
    forged = sealed_with(event.seq, {**event.data, name: data.draw(st.sampled_from(ODD))})
    blob = blob_of(forged)
    for read in (
        lambda: replay(forged.run, forged.records, blob),
        lambda: Replay(forged.run, forged.records, blob).end(),
    ):
        with suppress(CorruptError):
            assert read().seq == len(LOG.events)
