"""A returned value can be an error in disguise: ``{"ok": false}``, ``isError``, a non-null ``error``.

Which keys say so is data. What an envelope says about the effect is nothing: without a code it is ``maybe``.
"""

from typing import Any

from fsm_agent.core.classification import bodies
from fsm_agent.core.classification.facts import MAX_CODES, ErrorFacts
from fsm_agent.core.classification.gently import NAME_BYTES, clean
from fsm_agent.core.classification.rows import EnvelopeRules
from fsm_agent.core.classification.waits import wait_s


def read(rules: EnvelopeRules, value: Any) -> ErrorFacts | None:
    """Return the error that *value* stands for, or None if it is a result.

    Args:
        rules: From the table.
        value: JSON value that a tool returned.
    """
    if type(value) is str:
        head = value[:200]
        return ErrorFacts(message=clean(value)) if any(p.search(head) for p in rules.text) else None
    if type(value) is not dict or rules.telling.isdisjoint(value) or not _is_error(rules, value):
        return None
    inner = value.get("error")
    places = [value, *([inner] if type(inner) is dict else [])]
    return ErrorFacts(
        message=clean(next((text for p in places for k in rules.message if (text := _words(p.get(k)))), "")),
        status=next(
            (s for p in places for k in rules.status if (s := _http_status(p.get(k))) is not None), None
        ),
        codes=tuple(clean(c, NAME_BYTES) for c in dict.fromkeys(bodies.codes(value)))[:MAX_CODES],
        retry_after_s=next(
            (w for p in places for k in rules.retry_after_s if (w := _seconds(p.get(k))) is not None), None
        ),
    )


def _is_error(rules: EnvelopeRules, value: dict[str, Any]) -> bool:
    return (
        any(value.get(key) is False for key in rules.false_means_error)
        or any(value.get(key) is True for key in rules.true_means_error)
        # null, false, "", 0 and empty lists and tables are how replies say that there was no error
        or any(bool(value.get(key)) for key in rules.non_null_means_error)
    )


def _words(value: Any) -> str:
    """Return the text of a message, which may be a string, an error object, or MCP's list of content parts."""
    match value:
        case str():
            return value
        case {"message": str(text)} | {"text": str(text)}:
            return text
        case list():
            return "\n".join(text for item in value[:20] if (text := _words(item)))
        case _:
            return ""


def _http_status(value: Any) -> int | None:
    return value if type(value) is int and 100 <= value <= 599 else None


def _seconds(value: Any) -> float | None:
    return wait_s(float(value)) if type(value) in (int, float) else None
