"""gRPC: one class for everything, and statuses that the library makes up by itself after the server acted."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from fsm_agent.core.signals import Applied, Signal
from tests.clients.callers import WAIT_S

EXPECTED = {
    "INVALID_ARGUMENT": (Signal.BAD_REQUEST, Applied.NO),
    "UNAUTHENTICATED": (Signal.AUTH_DENIED, Applied.NO),
    "PERMISSION_DENIED": (Signal.AUTH_DENIED, Applied.NO),
    "NOT_FOUND": (Signal.NOT_FOUND, Applied.NO),
    "ABORTED": (Signal.TRANSIENT_ERROR, Applied.NO),
    "ALREADY_EXISTS": (Signal.CONFLICT, Applied.MAYBE),
    "FAILED_PRECONDITION": (Signal.PRECONDITION_VIOLATED, Applied.MAYBE),
    "RESOURCE_EXHAUSTED": (Signal.RATE_LIMITED, Applied.MAYBE),
    "UNAVAILABLE": (Signal.TRANSIENT_ERROR, Applied.MAYBE),
    "INTERNAL": (Signal.TRANSIENT_ERROR, Applied.MAYBE),
    "DATA_LOSS": (Signal.UNCLASSIFIED_ERROR, Applied.MAYBE),
}


class Service(grpc.GenericRpcHandler):
    """Acts, then fails as the message says."""

    def __init__(self) -> None:
        self.effects = 0

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return grpc.unary_unary_rpc_method_handler(self._handle) if details.method == "/Shop/Pay" else None

    def _handle(self, data: bytes, context: grpc.ServicerContext) -> bytes:
        wish = json.loads(data)
        if "refuse" in wish:
            context.set_trailing_metadata([("grpc-retry-pushback-ms", "1500")])
            context.abort(grpc.StatusCode[wish["refuse"]], "no")
        self.effects += 1
        if "hang" in wish:
            over = threading.Event()
            context.add_callback(over.set)
            over.wait()
        return b"x" * wish.get("size", 1)


@pytest.fixture
def service() -> Iterator[tuple[Service, str]]:
    handler = Service()
    running = grpc.server(ThreadPoolExecutor(2), handlers=[handler])
    port = running.add_insecure_port("127.0.0.1:0")
    running.start()
    yield handler, f"127.0.0.1:{port}"
    running.stop(None).wait(5)


def pay(address: str, **wish: object) -> bytes:
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        return channel.unary_unary("/Shop/Pay")(json.dumps(wish).encode(), timeout=WAIT_S)


@pytest.mark.parametrize("status", EXPECTED)
def test_a_status_of_the_service_is_what_it_says(status, service, failing):
    handler, address = service
    failure = failing(lambda: pay(address, refuse=status))
    assert (failure.found.signal, failure.found.applied) == EXPECTED[status]
    assert failure.found.message == "no"
    assert failure.found.retry_after_us == 1_500_000
    assert handler.effects == 0


def test_a_reply_that_is_too_large_to_receive_proves_nothing(service, failing):
    handler, address = service
    failure = failing(lambda: pay(address, size=5_000_000))
    assert handler.effects == 1
    assert failure.facts.grpc == "RESOURCE_EXHAUSTED"
    assert failure.found.applied is Applied.MAYBE


def test_a_deadline_that_passes_proves_nothing(service, failing):
    handler, address = service
    failure = failing(lambda: pay(address, hang=True))
    assert handler.effects == 1
    assert failure.facts.grpc == "DEADLINE_EXCEEDED"
    assert (failure.found.signal, failure.found.applied) == (Signal.TRANSIENT_ERROR, Applied.MAYBE)


@pytest.mark.parametrize("fault", ["refused", "closed-before", "garbage"])
def test_what_is_no_grpc_server_is_unavailable_and_proves_nothing(fault, server, failing):
    address = server.url(fault).removeprefix("http://").partition("/")[0]
    failure = failing(lambda: pay(address))
    assert failure.facts.grpc in {"UNAVAILABLE", "DEADLINE_EXCEEDED"}
    assert (failure.found.signal, failure.found.applied) == (Signal.TRANSIENT_ERROR, Applied.MAYBE)
