"""Every installed client against every fault of a real server: what is the signal, and is the effect's fate right?

The server's own record is the judge: where it acted, no client's error may be read as ``applied = no``.
"""

import pytest

from fsm_agent.core.signals import Applied, Signal
from tests.clients.callers import CALLERS

NO, MAYBE = Applied.NO, Applied.MAYBE
EXPECTED = {
    "refused": (Signal.TRANSIENT_ERROR, NO),
    "full": (Signal.TRANSIENT_ERROR, NO),
    "closed-before": (Signal.TRANSIENT_ERROR, MAYBE),
    "closed-after": (Signal.TRANSIENT_ERROR, MAYBE),
    "hang": (Signal.TRANSIENT_ERROR, MAYBE),
    "partial": (Signal.TRANSIENT_ERROR, MAYBE),
    "garbage": (Signal.TRANSIENT_ERROR, MAYBE),
    "broken-json": (Signal.VALIDATION_FAILED, MAYBE),
    "400": (Signal.BAD_REQUEST, NO),
    "401": (Signal.AUTH_DENIED, NO),
    "403": (Signal.AUTH_DENIED, NO),
    "403-wait": (Signal.RATE_LIMITED, NO),
    "404": (Signal.NOT_FOUND, NO),
    "409-own": (Signal.CONFLICT, MAYBE),
    "412-own": (Signal.PRECONDITION_VIOLATED, MAYBE),
    "422": (Signal.BAD_REQUEST, NO),
    "429": (Signal.RATE_LIMITED, NO),
    "500": (Signal.TRANSIENT_ERROR, MAYBE),
    "502": (Signal.TRANSIENT_ERROR, MAYBE),
    "503-date": (Signal.TRANSIENT_ERROR, MAYBE),
}
OTHERWISE = {
    # one clock for everything: nobody can tell that it ran out while connecting
    ("aiohttp total", "full"): (Signal.TRANSIENT_ERROR, MAYBE),
    ("urllib", "full"): (Signal.TRANSIENT_ERROR, MAYBE),
    ("http.client", "full"): (Signal.TRANSIENT_ERROR, MAYBE),
}
SWALLOWED = {
    ("botocore", "partial"),
    ("botocore", "broken-json"),
}  # it takes what it cannot parse for an empty reply
WAITS = {"429": 7_000_000, "403-wait": 30_000_000, "503-date": 90_000_000}
CASES = [(client, fault) for client in CALLERS for fault in EXPECTED if (client, fault) not in SWALLOWED]


@pytest.mark.parametrize(("client", "fault"), CASES)
def test_an_error_is_what_the_server_did(client, fault, server, failing):
    found = failing(lambda: CALLERS[client](server.url(fault))).found
    if fault == "closed-before" and server.seen == 0 and found.applied is NO:
        return  # some notice that the connection is gone before they send anything
    assert (found.signal, found.applied) == OTHERWISE.get((client, fault), EXPECTED[fault]), found.why
    assert found.retry_after_us == WAITS.get(fault)
    if found.applied is NO:
        assert server.effects == 0
        assert found.status is not None or server.seen == 0
