"""One question to a model behind an OpenAI-compatible endpoint, and one answer, or an error that says what went wrong.

The SDK's own retries are off and its answer is read by us: up to a size, within a deadline, and with nothing taken for
granted. Structured output is asked for as strictly as the server can: a strict schema, else any JSON object, else
plain text; what it refuses with 400 is not asked for again. Needs the extra ``llm``.
"""

import asyncio
import importlib
import math
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

import attrs

from fsm_agent.core import canon
from fsm_agent.core.classification import waits
from fsm_agent.core.errors import ConfigError
from fsm_agent.core.inputs import NO_USAGE, Usage
from fsm_agent.core.replanning import prompt
from fsm_agent.runtime.planning.planner import PlannerError
from fsm_agent.runtime.planning.prices import FREE, Prices

MODES: Final = ("json_schema", "json_object", "text")
"""How an answer can be asked for, the strictest first."""
MOST_BYTES: Final = 2 * 1024 * 1024
"""Longest reply that is read, in bytes; a plan of many hundred steps is far shorter."""
DEADLINE_S: Final = 90.0
"""How long an answer is waited for, in seconds; below the engine's own limit for a planner."""
_MOST_TOKENS: Final = 10**12
_CANNOT: Final = (400, 422)
"""Statuses with which servers refuse a form of answer that they do not know."""
_MOST_WORDS: Final = 300
_HINTS: Final = {
    401: "; check the API key",
    403: "; check the API key",
    404: "; check the address and the model's name",
}


@attrs.frozen(kw_only=True)
class Reply:
    """What a model said.

    Attributes:
        text: Its words.
        model: Who answered, as the server says; else who was asked.
        usage: Tokens, as the server counts them, and what they cost; none if it does not say.
    """

    text: str
    model: str
    usage: Usage


class Endpoint:
    """A model at an address.

    Args:
        model: Its name there.
        base_url: Address up to and with the version, such as ``http://127.0.0.1:8000/v1``.
        api_key: Empty for a server that wants none.
        deadline_s: How long an answer is waited for, in seconds.
        most_bytes: Longest reply that is read.
        prices: What its tokens cost.

    Attributes:
        mode: How answers are asked for at present, one of :data:`MODES`.

    Raises:
        ConfigError: The extra ``llm`` is not installed.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str,
        api_key: str = "",
        deadline_s: float = DEADLINE_S,
        most_bytes: int = MOST_BYTES,
        prices: Prices = FREE,
    ) -> None:
        self._sdk = _sdk()  # now: it is slow to load, and later a run may be under way
        self.model = model
        self.base_url = base_url
        self.mode = MODES[0]
        self._key = api_key
        self._deadline_s = deadline_s
        self._most_bytes = most_bytes
        self._prices = prices

    async def ask(self, messages: prompt.Messages, schema: Mapping[str, Any]) -> Reply:
        """Return the model's answer to *messages*.

        Args:
            messages: What it is asked.
            schema: JSON schema of the answer, for servers that can hold a model to one.

        Raises:
            PlannerError: There is no answer that could be used, and why; with what is known of it.
        """
        try:
            async with asyncio.timeout(self._deadline_s):
                body = await self._in_a_mode_it_knows(messages, schema)
        except TimeoutError:
            raise self._error(f"it gave no answer within {self._deadline_s:g} s; it was left") from None
        return self._read(body)

    async def _in_a_mode_it_knows(self, messages: prompt.Messages, schema: Mapping[str, Any]) -> bytes:
        """Ask in the present mode; where the server refuses it, in the next, and keep to the one that it takes."""
        refused: PlannerError | None = None
        for mode in MODES[MODES.index(self.mode) :]:
            try:
                body = await self._send(messages, _format(mode, schema))
            except _ModeRefusedError as error:
                refused = error.as_planner_error
                continue
            self.mode = mode
            return body
        assert refused is not None, "there is a mode to ask in"
        raise refused

    async def _send(self, messages: prompt.Messages, more: Mapping[str, Any]) -> bytes:
        sdk = self._sdk
        try:
            async with (
                sdk.AsyncOpenAI(
                    api_key=self._key or "none",
                    base_url=self.base_url,
                    max_retries=0,
                    timeout=self._deadline_s,
                ) as client,
                client.chat.completions.with_streaming_response.create(
                    model=self.model, messages=messages, **more
                ) as response,
            ):
                return await self._body(response)
        except sdk.APIStatusError as error:
            refused = self._of_status(error)
            if error.status_code in _CANNOT:
                raise _ModeRefusedError(refused) from None
            raise refused from None
        except sdk.APITimeoutError:
            raise self._error("it did not answer in time; it was left") from None
        except sdk.APIConnectionError as error:
            cause = error.__cause__ or error
            words = f"it cannot be reached ({type(cause).__name__}: {self._said(cause)}); check the address"
            raise self._error(words) from None
        except sdk.OpenAIError as error:
            raise self._error(f"{type(error).__name__}: {self._said(error)}") from None

    async def _body(self, response: Any) -> bytes:
        """Read the reply as far as it may go."""
        data = bytearray()
        try:
            async for chunk in response.iter_bytes():
                data += chunk
                if len(data) > self._most_bytes:
                    words = f"its answer is longer than {self._most_bytes:,} bytes; it was left unread"
                    raise self._error(words)
        except (PlannerError, TimeoutError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - the SDK hands on whatever its transport raises here
            words = f"its answer broke off after {len(data):,} bytes ({type(error).__name__})"
            raise self._error(f"{words}; nothing of it was used") from None
        return bytes(data)

    # ── what came ─────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, body: bytes) -> Reply:
        try:
            found = canon.loads(body)
        except ValueError:
            raise self._error(f"its reply is no JSON ({self._said(body.decode(errors='replace'))})") from None
        if type(found) is not dict:
            raise self._error("its reply is no JSON object; is this an OpenAI-compatible address?")
        model, usage = _model(found, self.model), _usage(found.get("usage"), self._prices)
        choices = found.get("choices")
        choice = choices[0] if type(choices) is list and choices else None
        message = choice.get("message") if type(choice) is dict else None
        if type(choice) is not dict or type(message) is not dict:
            error = found.get("error")
            words = (
                f"its reply holds no answer ({self._said(error)})" if error else "its reply holds no answer"
            )
            raise self._error(words, model=model, usage=usage)
        text = _text(message.get("content"))
        self._refuse_unfinished(choice, message, text, model=model, usage=usage)
        assert text is not None, "refused otherwise"
        return Reply(text=text, model=model, usage=usage)

    def _refuse_unfinished(
        self, choice: dict[str, Any], message: dict[str, Any], text: str | None, **known: Any
    ) -> None:
        finish = choice.get("finish_reason")
        if message.get("refusal"):
            raise self._error(f"it refused: {self._said(message['refusal'])}", answer=text, **known)
        if finish == "length":
            words = "its answer was cut off at its limit of tokens; a cut plan is never used"
            raise self._error(words, answer=text, **known)
        if finish == "content_filter":
            raise self._error("its answer was held back by a filter of the server", answer=text, **known)
        if text is None:
            words = "calls of tools" if message.get("tool_calls") else "no text"
            raise self._error(f"it answered with {words}; a text is wanted", **known)

    def _of_status(self, error: Any) -> PlannerError:
        status, headers = int(error.status_code), error.response.headers
        said = self._said(_server_words(error.body) or error.response.reason_phrase)
        wait = waits.retry_after(headers.get)
        if status == 429 or wait is not None:
            when = f" for {wait:g} s" if wait is not None else ""
            return self._error(f"it asks to be left alone{when} ({status}: {said})", retry_after_s=wait)
        return self._error(f"it answered {status}: {said}{_HINTS.get(status, '')}")

    def _error(self, words: str, **known: Any) -> PlannerError:
        return PlannerError(f"model {self.model} at {self.base_url}: {words}", **known)

    def _said(self, words: object) -> str:
        """Return words from outside on one line, short, and without the key."""
        text = " ".join(str(words).split())
        if self._key:
            text = text.replace(self._key, "…")
        return text if len(text) <= _MOST_WORDS else text[:_MOST_WORDS] + "…"


class _ModeRefusedError(Exception):
    """The server does not take a request of this form."""

    def __init__(self, error: PlannerError) -> None:
        super().__init__(str(error))
        self.as_planner_error = error


def _sdk() -> ModuleType:
    try:
        return importlib.import_module("openai")
    except ModuleNotFoundError as error:
        if error.name != "openai":
            raise
        raise ConfigError(
            "model planner: the package openai is not installed; install fsm-agent[llm]"
        ) from None


def _format(mode: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    match mode:
        case "json_schema":
            own = {"name": "plan", "strict": True, "schema": dict(schema)}
            return {"response_format": {"type": mode, "json_schema": own}}
        case "json_object":
            return {"response_format": {"type": mode}}
        case _:
            return {}


def _server_words(body: object) -> str:
    """Return what the body of an error says, wherever servers put it."""
    for key in ("error", "message", "detail"):
        if type(body) is dict and key in body:
            body = body[key]
    return body if type(body) is str else ""


def _text(content: object) -> str | None:
    """Return the text of a message: as it is, or in parts."""
    if type(content) is list:
        parts = [part.get("text") for part in content if type(part) is dict]
        return "".join(part for part in parts if type(part) is str) or None
    return content if type(content) is str else None


def _model(reply: dict[str, Any], asked: str) -> str:
    name = reply.get("model")
    return name[:200] if type(name) is str and name and name.isprintable() else asked


def _usage(found: object, prices: Prices) -> Usage:
    """Return the tokens of a reply as an integer, whatever the server made of it, and what they cost."""
    if type(found) is not dict:
        return NO_USAGE
    read, written = _count(found.get("prompt_tokens")), _count(found.get("completion_tokens"))
    total = _count(found.get("total_tokens")) or read + written
    return Usage(tokens=total, cost_micros=prices.of(read, written, total))


def _count(value: object) -> int:
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return min(_MOST_TOKENS, max(0, int(value)))
    return 0
