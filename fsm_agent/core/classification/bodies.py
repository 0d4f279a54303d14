"""Where the bodies of error replies keep their code: the most specific place first.

Bodies are JSON values. Google nests a reason in ``error.errors`` or ``error.details``, the model vendors have
``error.code`` and ``error.type``, AWS has ``Error.Code`` or ``__type``, OAuth and Slack put a word into ``error``,
GraphQL has ``errors[0].extensions.code``.
"""

from typing import Any, Final

from fsm_agent.core import canon

MAX_BODY_BYTES: Final = 65_536
"""Longer bodies are no error envelopes; they are not parsed."""

_CODE_KEYS: Final = (
    "reason",
    "code",
    "Code",
    "type",
    "status",
    "__type",
    "error_code",
    "errorCode",
    "title",
    "errcode",
)


def parse(content: bytes) -> Any:
    """Return the JSON value in *content*, or None if it is too long or no JSON."""
    if len(content) > MAX_BODY_BYTES:
        return None
    try:
        return canon.loads(content)
    except ValueError:
        return None


def codes(body: Any) -> list[str]:
    """Return the codes that *body* carries, the most specific first; empty if it carries none."""
    found: list[str] = []
    if type(body) is dict:
        inner = body.get("error", body.get("Error"))
        if type(inner) is str and len(inner) <= 100:
            found.append(inner)
        elif type(inner) is dict:
            for key in ("errors", "details"):
                items = inner.get(key)
                first = items[0] if type(items) is list and items else None
                found += _of(first) if type(first) is dict else []
            found += _of(inner)
        errors = body.get("errors")  # GraphQL
        if type(errors) is list and errors and type(errors[0]) is dict:
            extensions = errors[0].get("extensions")
            found += _of(extensions) if type(extensions) is dict else []
            found += _of(errors[0])
        found += _of(body)
    return found


def _of(place: dict[Any, Any]) -> list[str]:
    values = [place.get(key) for key in _CODE_KEYS]
    # AWS: "com.amazon.coral.service#ThrottlingException"
    return [str(v).rpartition("#")[2] for v in values if type(v) in (str, int) and v != ""]
