"""A model behind a real server on loopback: every fault of the protocol ends in words, and nothing half is used."""

import asyncio
import json
import socket

import pytest

from fsm_agent.core.inputs import Usage
from fsm_agent.runtime.planning.endpoint import Endpoint
from fsm_agent.runtime.planning.planner import PlannerError
from tests.runtime.model_server import MODES, Answer, ModelServer, said

MESSAGES = [{"role": "user", "content": "plan"}]
SCHEMA = {"type": "object"}


def ask(server, times=1, **options):
    """Ask the server's model and return its last reply."""

    async def scenario():
        endpoint = Endpoint(model="asked", base_url=server.url, **options)
        replies = [await endpoint.ask(MESSAGES, SCHEMA) for _ in range(times)]
        return replies[-1]

    return asyncio.run(asyncio.wait_for(scenario(), 20))


def fault(*answers, **options):
    """Return the error that *answers* end in."""
    with ModelServer(*answers) as server, pytest.raises(PlannerError) as caught:
        ask(server, **options)
    words = str(caught.value)
    assert words.startswith(f"model asked at {server.url}: "), words
    return caught.value


def forms(server):
    return [r.get("response_format", {"type": "text"})["type"] for r in server.requests]


def test_a_reply_is_text_model_and_tokens_and_the_key_is_sent():
    with ModelServer(said("hello", model="m-7", usage={"total_tokens": 12})) as server:
        reply = ask(server, api_key="secret-key")
    assert (reply.text, reply.model, reply.usage) == ("hello", "m-7", Usage(tokens=12))
    assert server.keys == ["Bearer secret-key"]
    assert server.requests[0]["model"] == "asked"
    assert server.requests[0]["messages"] == MESSAGES
    form = server.requests[0]["response_format"]["json_schema"]
    assert form["strict"] is True
    assert form["schema"] == SCHEMA


@pytest.mark.parametrize("knows", [MODES[at:] for at in range(3)], ids=lambda k: k[0])
def test_a_form_that_the_server_does_not_know_is_left_for_a_weaker_one_and_not_tried_again(knows):
    with ModelServer("one", "two", knows=knows) as server:
        assert ask(server, times=2).text == "two"
    first = MODES[: MODES.index(knows[0]) + 1]
    assert forms(server) == [*first, knows[0]]


def test_a_request_that_no_form_can_save_ends_in_the_servers_words_and_the_form_is_kept():
    with ModelServer(knows=()) as server:
        endpoint = Endpoint(model="asked", base_url=server.url)
        with pytest.raises(PlannerError, match="it answered 400: response_format text is not supported"):
            asyncio.run(endpoint.ask(MESSAGES, SCHEMA))
    assert endpoint.mode == "json_schema"


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4}, 7),
        ({"total_tokens": 7.0}, 7),
        ({"total_tokens": -5}, 0),
        ({"total_tokens": "7"}, 0),
        ({"total_tokens": True}, 0),
        ({"total_tokens": 10**30}, 10**12),
        ({}, 0),
        ([], 0),
    ],
    ids=str,
)
def test_usage_is_a_whole_number_whatever_the_server_makes_of_it(usage, tokens):
    with ModelServer(said("x", usage=usage)) as server:
        assert ask(server).usage == Usage(tokens=tokens)


def test_text_in_parts_is_joined_and_a_model_without_a_name_is_the_one_that_was_asked():
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, 3, {"type": "text", "text": "b"}]
    body = {"choices": [{"message": {"content": parts}}], "model": "\x1b[2J"}
    with ModelServer(Answer(body)) as server:
        reply = ask(server)
    assert (reply.text, reply.model, reply.usage) == ("ab", "asked", Usage())


def test_being_asked_to_wait_says_for_how_long():
    error = fault(Answer({"error": {"message": "slow down"}}, status=429, Retry_After="7"))
    assert "it asks to be left alone for 7 s (429: slow down)" in str(error)
    assert error.retry_after_s == 7
    assert fault(Answer({}, status=429)).retry_after_s is None
    assert fault(Answer({"message": "later"}, status=503, Retry_After="2")).retry_after_s == 2


def test_the_sdk_repeats_nothing_by_itself():
    for status in (408, 409, 429, 500, 503):
        with ModelServer(Answer({}, status=status), said("late")) as server:
            with pytest.raises(PlannerError):
                ask(server)
            assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "it answered 401: no; check the API key"),
        (403, "it answered 403: no; check the API key"),
        (404, "it answered 404: no; check the address and the model's name"),
        (500, "it answered 500: no"),
        (418, "it answered 418: no"),
    ],
)
def test_a_refusal_of_the_server_is_told_in_its_words(status, words):
    assert str(fault(Answer({"error": {"message": "no"}}, status=status))).endswith(words)


def test_what_the_server_says_of_the_key_does_not_show_it():
    answer = Answer({"error": {"message": "bad key secret-key given"}}, status=401)
    assert "bad key … given" in str(fault(answer, api_key="secret-key"))


def test_the_words_of_a_server_are_cut_and_on_one_line():
    assert len(str(fault(Answer({"error": {"message": "a\nb" * 9000}}, status=500)))) < 450
    assert "\n" not in str(fault(Answer(b"<html>\n\x1b[31mBad Gateway</html>", status=502)))


def test_a_reply_that_breaks_off_is_not_used():
    whole = said({"steps": [{"id": "a", "tool": "t"}]})
    error = fault(Answer(whole.body, missing=500))
    assert f"its answer broke off after {len(whole.body):,} bytes" in str(error)
    assert error.answer is None


def test_a_connection_that_nobody_takes_says_so():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and never listening
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(PlannerError, match=r"it cannot be reached \(.*\); check the address"):
            asyncio.run(Endpoint(model="asked", base_url=url).ask(MESSAGES, SCHEMA))


def test_an_answer_that_does_not_come_is_left_at_the_deadline():
    error = fault(Answer({}, hang=True), deadline_s=0.3)
    assert "within 0.3 s" in str(error) or "in time" in str(error)


def test_ten_megabytes_of_prose_are_refused_by_size():
    error = fault(said("word " * 2_000_000))
    assert "its answer is longer than 2,097,152 bytes; it was left unread" in str(error)


def test_an_answer_cut_at_the_limit_of_tokens_is_kept_and_not_used():
    error = fault(said('{"steps": [{"id": "a"', finish="length"))
    assert "cut off at its limit of tokens" in str(error)
    assert error.answer == '{"steps": [{"id": "a"'
    assert (error.model, error.usage) == ("test-model-1", Usage(tokens=100))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (said(None, refusal="I will not"), "it refused: I will not"),
        (said("{}", finish="content_filter"), "held back by a filter"),
        (said(None, tool_calls=[{"id": "1"}]), "it answered with calls of tools; a text is wanted"),
        (said(None), "it answered with no text"),
        (Answer({"choices": []}), "its reply holds no answer"),
        (Answer({"choices": [None]}), "its reply holds no answer"),
        (Answer({"choices": "x"}), "its reply holds no answer"),
        (Answer({"choices": [{"message": "x"}]}), "its reply holds no answer"),
        (Answer({"error": {"message": "overloaded"}}), "its reply holds no answer ("),
        (Answer([1]), "its reply is no JSON object"),
        (Answer(b"It works!"), "its reply is no JSON (It works!)"),
        (Answer(b""), "its reply is no JSON ()"),
        (Answer(b"[" * 100_000), "its reply is no JSON"),
    ],
)
def test_a_reply_without_an_answer_says_what_came_instead(answer, words):
    assert words in str(fault(answer))


def test_half_a_character_in_an_answer_harms_nobody():
    body = json.dumps({"choices": [{"message": {"content": "a\ud800\x00"}}]}).encode()
    with ModelServer(Answer(body)) as server:
        assert ask(server).text == "a\ud800\x00"
