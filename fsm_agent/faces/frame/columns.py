"""How many columns of a terminal a text takes: two for a wide sign (CJK, most emoji), none for a mark on the sign before.

Where a screen takes ASCII only, every other sign is spelled out, and takes as many columns as it has letters then.
"""

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_MARKS: Final = ("Mn", "Me", "Cf")
"""Categories of what is drawn on the sign before it, or joins two signs."""
_PLAINER: Final = str.maketrans(
    {"→": "->", "←": "<-", "…": "...", "·": "-", "–": "-", "×": "x", "«": "<<", "»": ">>"}
)
_SPELLED: Final = ContextVar("spelled", default=False)
"""Whether what is laid out now will be spelled out: a text does not know its screen, and its width depends on it."""


@contextmanager
def laid_out(*, unicode: bool) -> Iterator[None]:
    """Count columns for a screen that takes every sign, or else ASCII only, as long as the context lasts."""
    before = _SPELLED.set(not unicode)
    try:
        yield
    finally:
        _SPELLED.reset(before)


def spelled(text: str) -> str:
    """Return *text* in ASCII: arrows and dots as people write them there, other signs as escapes."""
    return text.translate(_PLAINER).encode("ascii", "backslashreplace").decode()


def columns(text: str) -> int:
    """Return how many columns *text* takes."""
    return len(text) if text.isascii() else sum(map(_of, text))


def _of(sign: str) -> int:
    if _SPELLED.get():
        return len(spelled(sign))
    if unicodedata.category(sign) in _MARKS:
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def signs(text: str) -> Iterator[str]:
    """Yield the signs of *text*, each with the marks on it."""
    sign = ""
    for character in text:
        if sign and _of(character):
            yield sign
            sign = ""
        sign += character
    if sign:
        yield sign


def cut(text: str, width: int) -> str:
    """Return as much of the beginning of *text* as *width* columns hold, with the marks on its last sign."""
    if text.isascii():
        return text[: max(0, width)]
    left = width
    for at, sign in enumerate(text):
        left -= _of(sign)
        if left < 0:
            return text[:at]
    return text


def padded(text: str, width: int) -> str:
    """Return *text* with spaces behind it, up to *width* columns."""
    return text + " " * (width - columns(text))


def filled(text: str, width: int, head: str, inner: str) -> Iterator[str]:
    """Yield the words of *text* on lines of *width* columns, as many on each as it holds; a longer word is cut.

    Args:
        text: Words with single spaces between them.
        width: Of a line, more than *inner* takes.
        head: What the first line begins with.
        inner: What the others begin with.
    """
    start, line, gap = head, head, ""
    for word in text.split():
        rest = word
        while columns(line + gap + rest) > width:
            long = columns(start + rest) > width
            part = cut(rest, width - columns(line + gap)) if long else ""
            if not part and line == inner:
                part = rest[:1]  # a sign that no line holds stands alone on one
            yield (line + gap + part).rstrip()
            start, line, gap, rest = inner, inner, "", rest[len(part) :]
        line, gap = line + gap + rest, " "
    yield line.rstrip()
