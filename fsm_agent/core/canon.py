"""Canonical JSON: one value, one sequence of bytes, or a refusal that names the path.

Values are exact or refused. What JSON cannot hold exactly (NaN, a lone surrogate, NUL, a tuple, Decimal,
bytes, an integer beyond 64 bits …) never enters, so that whatever is read back equals what was written.
Source: design of the log (canonical body, digests by domain).
"""

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import orjson

from fsm_agent.core.errors import ValueRefusedError

MAX_DEPTH = 100
"""Deepest nesting of a value; a value that contains itself ends here too."""
MAX_INT = 2**63 - 1
MIN_INT = -(2**63)
BLOB_BYTES = 4096
"""Canonical values longer than this are stored once, by digest."""

DOLLAR = ord("$")
"""What every reference and marker has in it. A number is found in bytes in a tenth of the time in which bytes are."""

_SORTED = orjson.OPT_SORT_KEYS
_BACKSLASH: Final = ord("\\")
"""What a NUL begins with when it is written. A number is found in bytes in a tenth of the time in which bytes are."""


def encode(value: Any) -> bytes:
    """Return the canonical bytes of *value*, which must have passed :func:`check`.

    Sorted keys, no spaces, UTF-8.
    """
    return orjson.dumps(value, option=_SORTED)


def decode(data: bytes | str) -> Any:
    """Parse bytes that :func:`encode` wrote. For text from outside use :func:`loads`."""
    return orjson.loads(data)


def check(value: Any, path: str = "$") -> None:
    """Refuse *value* unless JSON holds it exactly.

    Args:
        value: Anything a tool, a plan or a person may hand over.
        path: JSON path of *value*, named in the error.

    Raises:
        ValueRefusedError: With the path of the first part that cannot be stored and what to do instead.
    """
    if not exact(value):
        _check(value, path, 0)


def exact(value: Any, depth: int = 0) -> bool:
    """Whether JSON holds *value*, which lies *depth* levels deep, exactly: :func:`check` without a word about where."""
    return written(value, depth) is not None


def written(value: Any, depth: int = 0) -> bytes | None:
    """Return the canonical bytes of *value*, which lies *depth* levels deep; None if JSON does not hold it exactly.

    What is of JSON's very types is written without a look at its keys and text: half of a surrogate pair, a key that is not
    plain text and an integer below :data:`MIN_INT` cannot be written, and a NUL is looked for in all bytes at once. Nothing
    else is handed to the writer: for some types it runs code of theirs.
    """
    if not _of_json_types(value, depth):
        return None
    try:
        data = orjson.dumps(value, option=_SORTED)
    except TypeError:
        return None
    return None if _BACKSLASH in data and b"\\u0000" in data and _holds_nul(value) else data


def _of_json_types(value: Any, depth: int) -> bool:
    """Whether *value* is made of JSON's very types, no deeper than allowed, and no number in it is too large for it."""
    kind = type(value)
    parts: Iterable[Any]
    if kind is dict or kind is list:
        if depth >= MAX_DEPTH:
            return False
        parts = value.values() if kind is dict else value
    else:
        parts = (value,)
    for part in parts:  # only what has parts itself is worth a call
        kind = type(part)
        if kind is str:
            continue
        if kind is dict or kind is list:
            if not _of_json_types(part, depth + 1):
                return False
        elif kind is int:
            if part > MAX_INT:
                return False
        elif kind is float:
            if part - part != 0.0:  # infinite, or NaN
                return False
        elif part is not None and kind is not bool:
            return False
    return True


def _holds_nul(value: Any) -> bool:
    """Whether a NUL is in a text or a key of *value*, which is of JSON's very types; what is written may only look like one."""
    if type(value) is dict:
        return "\x00" in "".join(value) or any(map(_holds_nul, value.values()))
    return any(map(_holds_nul, value)) if type(value) is list else type(value) is str and "\x00" in value


def _check(value: Any, path: str, depth: int) -> None:
    kind = type(value)
    if kind is str:
        if "\x00" in value:
            _refuse(path, "text with a NUL character", "remove it")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                _refuse(path, "text with a lone surrogate", "decode it properly first")
    elif kind is int:
        if not MIN_INT <= value <= MAX_INT:
            _refuse(path, "an integer beyond 64 bits", "return it as a string")
    elif kind is float:
        if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124
            _refuse(path, f"the number {value}", "return null or a string")
    elif kind is dict:
        if depth >= MAX_DEPTH:
            _refuse(path, f"a value nested deeper than {MAX_DEPTH} (or containing itself)", "flatten it")
        for key, item in value.items():
            if type(key) is not str:
                _refuse(path, f"a key of type {type(key).__name__}", "use strings as keys")
            _check(key, f"{path} (key)", depth)
            _check(item, f"{path}.{key}", depth + 1)
    elif kind is list:
        if depth >= MAX_DEPTH:
            _refuse(path, f"a value nested deeper than {MAX_DEPTH} (or containing itself)", "flatten it")
        for index, item in enumerate(value):
            _check(item, f"{path}[{index}]", depth + 1)
    elif value is not None and kind is not bool:
        _refuse(path, f"a value of type {kind.__module__}.{kind.__qualname__}", _advice(kind))


def _advice(kind: type) -> str:
    if issubclass(kind, tuple | set | frozenset):
        return "return a list"
    if issubclass(kind, dict):
        return "return a plain dict"
    if issubclass(kind, str | int | float):
        return f"return a plain {next(t.__name__ for t in (str, int, float) if issubclass(kind, t))}"
    return "return null, booleans, numbers, text, lists and dicts only"


def _refuse(path: str, found: str, advice: str) -> None:
    shown = path if len(path) <= 200 else path[:120] + "…" + path[-60:]
    raise ValueRefusedError(f"value at {shown}: {found} cannot be stored exactly; {advice}", path=shown)


def storable(text: str) -> str:
    """Return *text* with what cannot be stored exactly replaced: for words that are told, never for values."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def snapshot(value: Any) -> tuple[Any, bytes]:
    """Return a private copy of *value* and its canonical bytes.

    The copy cannot be changed by whoever still holds *value*.

    Raises:
        ValueRefusedError: As :func:`check`.
    """
    data = written(value)
    if data is None:
        _check(value, "$", 0)
    assert data is not None, "whatever cannot be written is refused"
    return orjson.loads(data), data


def digest(domain: str, data: bytes) -> str:
    """Return the SHA-256 of *data* in *domain*, as 64 hex digits.

    Digests of different domains never collide by meaning: ``fsm_agent/<domain>/v1`` and a NUL precede the data.
    """
    hashed = _begun(domain).copy()
    hashed.update(data)
    return hashed.hexdigest()


@cache
def _begun(domain: str) -> "hashlib._Hash":
    """Return a hash of what precedes the data of a domain: to be copied, which takes less than to begin. Domains are few."""
    return hashlib.sha256(b"fsm_agent/%b/v1\x00" % domain.encode())


def value_digest(domain: str, value: Any) -> str:
    """Return the digest of the canonical bytes of *value*."""
    hashed = _begun(domain).copy()
    hashed.update(orjson.dumps(value, option=_SORTED))
    return hashed.hexdigest()


def blob_digest(data: bytes) -> str:
    """Return the plain SHA-256 of canonical bytes; names a large value in the log.

    No domain, so that anybody can verify it with nothing but SHA-256.
    """
    return hashlib.sha256(data).hexdigest()


def loads(text: str | bytes) -> Any:
    """Parse JSON text from outside, strictly.

    Raises:
        ValueError: Bad JSON, a duplicate key (named), NaN or Infinity, or nesting beyond what can be parsed.
    """

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, item in items:
            if key in out:
                raise ValueError(f"duplicate key {key!r}")
            out[key] = item
        return out

    def constant(name: str) -> Any:
        raise ValueError(f"{name} is no JSON number")

    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
