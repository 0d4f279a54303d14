"""What is typed at the prompt, cut into commands and words.

Commands end at the end of a line or at ``;``. A word may be quoted as in a shell; a JSON value that begins with ``{`` or
``[`` is one word as it stands, so that nobody has to quote quotes.
"""

import json
from collections.abc import Iterator

from fsm_agent.core.errors import UsageError

_DECODER = json.JSONDecoder()
_ESCAPED = '"\\$`'


def commands(text: str) -> list[str]:
    """Return the commands in *text*, without comments and empty ones.

    Raises:
        UsageError: A quote is not closed.
    """
    found: list[str] = []
    for line in text.splitlines():
        if not line.lstrip().startswith("#"):
            found += [part for part in _parts(line) if part and not part.startswith("#")]
    return found


def _parts(line: str) -> Iterator[str]:
    start = at = 0
    while at < len(line):
        if line[at] == ";":
            yield line[start:at].strip()
            start = at + 1
            at += 1
        else:
            at = _past(line, at, begins=at == start or line[at - 1] in " \t=;")
    yield line[start:].strip()


def split(line: str) -> list[str]:
    """Return the words of one command.

    Raises:
        UsageError: A quote is not closed.
    """
    words: list[str] = []
    word: str | None = None
    at = 0
    while at < len(line):
        if line[at] in " \t":
            if word is not None:
                words.append(word)
            word = None
            at += 1
            continue
        end = _past(line, at, begins=word is None or word.endswith("="))
        word = (word or "") + _meant(line[at:end])
        at = end
    return words if word is None else [*words, word]


def _past(line: str, at: int, *, begins: bool) -> int:
    """Return where the character, the quoted text or the JSON value at *at* ends."""
    sign = line[at]
    if sign in "{[" and begins:
        try:
            return _DECODER.raw_decode(line, at)[1]
        except (ValueError, RecursionError):
            return at + 1
    if sign == "\\" and at + 1 < len(line):
        return at + 2
    if sign == "'":
        end = line.find("'", at + 1)
        if end < 0:
            raise _unclosed(line, at)
        return end + 1
    if sign == '"':
        end = at + 1
        while end < len(line) and line[end] != '"':
            end += 2 if line[end] == "\\" else 1
        if end >= len(line):
            raise _unclosed(line, at)
        return end + 1
    return at + 1


def _meant(piece: str) -> str:
    """Return what a piece of a word means, without its quotes."""
    if len(piece) == 2 and piece[0] == "\\":
        return piece[1]
    if len(piece) > 1 and piece[0] == piece[-1] == "'":
        return piece[1:-1]
    if len(piece) > 1 and piece[0] == piece[-1] == '"':
        inner, out, at = piece[1:-1], "", 0
        while at < len(inner):
            if inner[at] == "\\" and inner[at + 1 : at + 2] in _ESCAPED and at + 1 < len(inner):
                at += 1
            out += inner[at]
            at += 1
        return out
    return piece


def _unclosed(line: str, at: int) -> UsageError:
    return UsageError(
        f"line: the quote at character {at + 1} is not closed; close it, or write \\{line[at]} for the sign itself"
    )
