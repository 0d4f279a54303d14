"""Looking at objects of unknown libraries: by name, without trusting them, without ever raising.

An attribute may be a property that raises, a mock that answers everything, or a number that lies about itself. So
kinds are asked of ``type(value)``, and what is returned is a plain ``str`` or ``int``.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

NAME_BYTES: Final = 200
"""Longest name or code kept, in bytes of UTF-8."""
MESSAGE_BYTES: Final = 2048
"""Longest message kept, in bytes of UTF-8."""


def guard(read: Callable[[], _T]) -> _T | None:
    """Return what *read* returns, or None if it raises anything at all."""
    try:
        return read()
    except BaseException:  # noqa: BLE001 - an error that is hostile to its reader is still only an error
        return None


def get(obj: object, name: str) -> Any:
    """Return the attribute *name* of *obj*, or None if there is none or it cannot be read."""
    return guard(lambda: getattr(obj, name, None))


def is_a(value: object, kind: type) -> bool:
    """Return whether *value* is of *kind*; ``isinstance`` would ask the value's own ``__class__``."""
    return issubclass(type(value), kind)


def clean(text: str, limit: int = MESSAGE_BYTES) -> str:
    """Return *text* as it can be stored: no NUL, no lone surrogate, at most *limit* bytes of UTF-8."""
    data = text[:limit].replace("\x00", "\ufffd").encode("utf-8", "replace")
    return data[:limit].decode("utf-8", "ignore")


def word(value: object) -> str | None:
    """Return text or an integer as a code, or None if it is neither."""
    if is_a(value, str):
        return clean(str.__str__(value), NAME_BYTES) or None
    if is_a(value, int) and not is_a(value, bool):
        return clean(int.__repr__(value), NAME_BYTES)
    return None


def number(value: object) -> int | None:
    """Return an integer as a plain one, or None if *value* is none."""
    return int.__add__(value, 0) if is_a(value, int) and not is_a(value, bool) else None  # type: ignore[operator]
