"""An error is the end of a story. Clients repeat and redirect by themselves; what went out before decides.

In each story the server acted on a first copy of the call, and the error that comes out looks like a proof that
nothing happened: refused, unauthorised, not found. Every one of them must be ``maybe``.
"""

import asyncio

import aiohttp
import backoff
import httpx
import pytest
import tenacity
import urllib3

from fsm_agent.core.signals import Applied, Signal
from tests.clients import callers
from tests.clients.fault_server import Reply

RETRY = urllib3.Retry(2, allowed_methods=None, backoff_factor=0)
REPEATERS = {
    "requests": lambda url: callers.call_requests(url, retries=RETRY),
    "urllib3": lambda url: callers.call_urllib3(url, retries=RETRY),
    "openai": lambda url: callers.call_openai(url, max_retries=1),
    "anthropic": lambda url: callers.call_anthropic(url, max_retries=1),
    "botocore": lambda url: callers.call_botocore(url, attempts=2),
}
TWICE = {"stop": tenacity.stop_after_attempt(2), "reraise": True}


def by_tenacity(url):
    tenacity.retry(**TWICE)(callers.call_httpx)(url)


def by_tenacity_wrapped(url):
    tenacity.retry(stop=tenacity.stop_after_attempt(2))(callers.call_httpx)(url)


def by_tenacity_loop(url):
    for attempt in tenacity.Retrying(**TWICE):
        with attempt:
            callers.call_httpx(url)


def by_tenacity_async(url):
    asyncio.run(tenacity.retry(**TWICE)(_asynchronous)(url))


def by_tenacity_async_loop(url):
    async def run():
        async for attempt in tenacity.AsyncRetrying(**TWICE):
            with attempt:
                await _asynchronous(url)

    asyncio.run(run())


def by_backoff(url):
    backoff.on_exception(backoff.constant, httpx.HTTPError, max_tries=2, interval=0)(callers.call_httpx)(url)


def by_backoff_async(url):
    again = backoff.on_exception(backoff.constant, httpx.HTTPError, max_tries=2, interval=0)
    asyncio.run(again(_asynchronous)(url))


async def _asynchronous(url):
    await asyncio.to_thread(callers.call_httpx, url)


LOOPS = [
    by_tenacity,
    by_tenacity_wrapped,
    by_tenacity_loop,
    by_tenacity_async,
    by_tenacity_async_loop,
    by_backoff,
    by_backoff_async,
]
FOLLOWERS = {
    "httpx": lambda url: callers.call_httpx(url, follow_redirects=True),
    "requests": callers.call_requests,
    "urllib3": lambda url: callers.call_urllib3(url, retries=urllib3.Retry(None, connect=0, redirect=1)),
    "aiohttp": callers.call_aiohttp,
    "openai": callers.call_openai,
    "anthropic": callers.call_anthropic,
    "urllib": callers.call_urllib,
}


@pytest.mark.parametrize("client", REPEATERS)
def test_refused_after_the_client_had_sent_a_copy_by_itself_is_no_proof(client, server, failing):
    server.stories["story"] = ["last"]
    failure = failing(lambda: REPEATERS[client](server.url("story")))
    assert server.effects == 1
    assert failure.facts.resent is True
    assert (failure.found.signal, failure.found.applied) == (Signal.TRANSIENT_ERROR, Applied.MAYBE)
    assert "already sent" in failure.found.why


@pytest.mark.parametrize("loop", LOOPS)
def test_refused_in_the_second_round_of_a_loop_that_retries_is_no_proof(loop, server, failing):
    server.stories["story"] = ["last"]
    failure = failing(lambda: loop(server.url("story")))
    assert server.effects == 1
    assert (failure.found.signal, failure.found.applied) == (Signal.TRANSIENT_ERROR, Applied.MAYBE)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_refusal_in_the_second_round_of_a_loop_that_retries_is_no_proof(loop, server, failing):
    server.stories["story"] = ["closed-after", "401"]
    failure = failing(lambda: loop(server.url("story")))
    assert (server.seen, server.effects) == (2, 1)
    assert (failure.found.signal, failure.found.applied) == (Signal.AUTH_DENIED, Applied.MAYBE)


@pytest.mark.parametrize("client", ["openai", "anthropic", "botocore"])
def test_unauthorised_after_the_client_had_sent_a_copy_by_itself_is_no_proof(client, server, failing):
    server.stories["story"] = ["500", "401"]
    failure = failing(lambda: REPEATERS[client](server.url("story")))
    assert (server.seen, server.effects) == (2, 1)
    assert (failure.found.signal, failure.found.applied) == (Signal.AUTH_DENIED, Applied.MAYBE)


@pytest.mark.parametrize("client", ["requests", "urllib3"])
def test_a_refusal_after_a_repetition_by_urllib3_is_no_proof(client, server, failing):
    server.stories["story"] = ["closed-after", "422"]
    failure = failing(lambda: REPEATERS[client](server.url("story")))
    assert (server.seen, server.effects) == (2, 1)
    assert (failure.found.signal, failure.found.applied) == (Signal.BAD_REQUEST, Applied.MAYBE)


@pytest.mark.parametrize("client", FOLLOWERS)
def test_refused_behind_a_redirect_that_was_followed_is_no_proof(client, server, failing):
    server.replies["away"] = Reply(303, acts=True, Location=server.url("refused"))
    failure = failing(lambda: FOLLOWERS[client](server.url("away")))
    assert server.effects == 1
    assert failure.found.applied is Applied.MAYBE
    assert failure.found.signal is Signal.TRANSIENT_ERROR


@pytest.mark.parametrize("client", FOLLOWERS)
def test_a_missing_page_behind_a_redirect_that_was_followed_is_no_proof(client, server, failing):
    server.replies["away"] = Reply(303, acts=True, Location=server.url("404"))
    failure = failing(lambda: FOLLOWERS[client](server.url("away")))
    assert server.effects == 1
    assert (failure.found.signal, failure.found.applied) == (Signal.NOT_FOUND, Applied.MAYBE)


def test_refused_after_aiohttp_repeated_a_put_on_a_dropped_connection_is_no_proof(server, failing):
    server.replies["fine"] = Reply(200, {}, Connection="keep-alive")
    server.stories["story"] = ["fine", "last"]

    async def run():
        async with aiohttp.ClientSession() as session:
            for _ in range(2):
                async with session.put(server.url("story"), json={"n": 1}) as response:
                    await response.read()

    failure = failing(lambda: asyncio.run(run()))
    assert (server.seen, server.effects) == (2, 1)
    assert failure.found.class_ == "aiohttp.client_exceptions.ClientConnectorError"
    assert failure.found.applied is Applied.MAYBE


def test_a_second_delete_that_finds_nothing_is_no_proof(server, failing):
    failure = failing(lambda: callers.call_httpx(server.url("404"), method="DELETE"))
    assert (failure.found.signal, failure.found.applied) == (Signal.NOT_FOUND, Applied.MAYBE)


def test_refused_while_a_timeout_was_being_handled_is_no_proof(server, failing):
    def tool():
        try:
            callers.call_httpx(server.url("hang"))
        except httpx.ReadTimeout:
            callers.call_httpx(server.url("refused"))

    failure = failing(tool)
    assert server.effects == 1
    assert failure.found.class_ == "httpx.ConnectError"
    assert failure.found.applied is Applied.MAYBE
    assert "before it there was" in failure.found.why


def test_refused_by_a_raw_socket_while_a_timeout_was_being_handled_is_no_proof(server, failing):
    def tool():
        try:
            callers.call_http_client(server.url("hang"))
        except TimeoutError:
            callers.call_http_client(server.url("refused"))

    failure = failing(tool)
    assert failure.found.class_ == "ConnectionRefusedError"
    assert failure.found.applied is Applied.MAYBE


def test_refused_while_a_refusal_was_being_handled_still_proves_no(server, failing):
    def tool():
        try:
            callers.call_httpx(server.url("refused"))
        except httpx.ConnectError:
            callers.call_requests(server.url("refused"))

    assert failing(tool).found.applied is Applied.NO


def test_a_bug_met_while_a_refusal_was_handled_proves_nothing(server, failing):
    def tool():
        try:
            callers.call_httpx(server.url("404"))
        except httpx.HTTPStatusError:
            callers.call_httpx(server.url("500"), method="POST") if False else {}["key"]

    failure = failing(tool)
    assert failure.found.class_ == "KeyError"
    assert failure.found.applied is Applied.MAYBE


def test_an_error_of_the_tools_own_that_names_its_reason_keeps_what_the_reason_proves(server, failing):
    class BookingError(Exception):
        pass

    def tool():
        try:
            callers.call_httpx(server.url("401"))
        except httpx.HTTPStatusError as error:
            raise BookingError("could not book") from error

    failure = failing(tool)
    assert (failure.found.signal, failure.found.applied) == (Signal.AUTH_DENIED, Applied.NO)
    assert failure.found.status == 401
    assert "BookingError" in failure.found.why


def test_a_task_group_does_not_list_the_call_that_it_cancelled_and_proves_nothing(server, failing):
    async def one(url):
        async with httpx.AsyncClient(timeout=callers.WAIT_S, verify=callers.TLS) as client:
            await client.post(url)

    async def both():
        async with asyncio.TaskGroup() as group:
            group.create_task(one(server.url("hang")))
            await asyncio.to_thread(server.acted.wait)
            group.create_task(one(server.url("refused")))

    failure = failing(lambda: asyncio.run(both()))
    assert server.effects == 1
    assert [m.classes[0] for m in failure.facts.members] == ["httpx.ConnectError"]
    assert (failure.found.signal, failure.found.applied) == (Signal.TRANSIENT_ERROR, Applied.MAYBE)


@pytest.mark.parametrize("client", ["httpx", "requests", "aiohttp"])
def test_a_limit_that_calls_itself_forbidden_is_a_limit(client, server, failing):
    found = failing(lambda: callers.CALLERS[client](server.url("403-rate"))).found
    expected = (
        (Signal.AUTH_DENIED, None) if client == "aiohttp" else (Signal.RATE_LIMITED, "rateLimitExceeded")
    )
    assert (found.signal, found.code) == expected  # aiohttp's error does not hold the body
