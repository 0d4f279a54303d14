"""Text to tokens: paths, numbers, texts and regexes are read here, whole; the parser sees no characters.

Every character is either part of a token or refused with its place and what to write instead.
"""

import json
import re

import attrs

from fsm_agent.core.errors import ExpressionError
from fsm_agent.core.language import refs
from fsm_agent.core.language.tree import MAX_INT, Literal, Node, Path

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?(?!\w)")
_TEXT = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_REGEX = re.compile(r"/(?:[^/\\\n\r]|\\.)+/(?!\w)")
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")
NAME = re.compile(r"[^\W\d]\w*")
_ROOT = re.compile(r"\$([^\W\d]\w*(?:-+\w+)*)")
_TAIL = re.compile(r'(?:\.\w+|\[(?:0|[1-9][0-9]{0,8})\]|\["(?:[^"\\\x00-\x1f]|\\.)*"\])*')
_SIGN = re.compile(r"==|!=|<=|>=|[-+*/<>(),\[\]]")

_CONSTANTS = {"null": None, "true": True, "false": False}
WORDS = frozenset({*_CONSTANTS, "and", "or", "not", "in", "matches"})
_FOREIGN = {
    "=": "equality is ==",
    "&": "write and",
    "|": "write or",
    "!": "write not, or != between two values",
    "'": 'text goes in double quotes: "…"',
    "`": 'text goes in double quotes: "…"',
    "%": "there are + - * /",
    "^": "there are + - * /",
    ".": "a number begins with a digit, a path with a name",
    "{": "there are no objects; lists are [a, b]",
}


@attrs.frozen
class Token:
    """A piece of the text: ``kind`` is the sign or word itself, or one of literal, path, regex, end."""

    kind: str
    at: int
    text: str
    value: Node | None = None


def quoted(text: str) -> str:
    """Quote *text* for a message: not too long, and with escapes for what does not print."""
    shown = text if len(text) <= 120 else text[:100] + "…"
    return json.dumps(shown, ensure_ascii=not shown.isprintable())


def fault(text: str, at: int, found: str, advice: str) -> ExpressionError:
    """Return the error for *text* at character *at*."""
    return ExpressionError(f"expression {quoted(text)} at {at}: {found}; {advice}", text=text, at=at)


def tokens_of(text: str) -> list[Token]:
    """Split *text* into tokens; the last one is the end.

    Raises:
        ExpressionError: A piece of it is no token.
    """
    if (bad := _FORBIDDEN.search(text)) is not None:
        raise fault(
            text, bad.start(), f"found the control character or half character {bad[0]!a}", "remove it"
        )
    out: list[Token] = []
    at = 0
    while True:
        space = _SPACE.match(text, at)
        at = space.end() if space else at
        if at >= len(text):
            out.append(Token("end", at, ""))
            return out
        token = _token(text, at, out[-1].kind if out else "")
        out.append(token)
        at += len(token.text)


def _token(text: str, at: int, before: str) -> Token:
    char = text[at]
    if before == "matches":
        found = _REGEX.match(text, at)
        if found is None:
            raise fault(
                text, at, "no regex follows matches", r"write /^R-\d+$/, a slash inside as \/, flags as (?i)"
            )
        return Token("regex", at, found[0])
    if char == '"':
        return Token("literal", at, *_string(text, at))
    if char == "$":
        return _reference(text, at)
    if (name := NAME.match(text, at)) is not None:
        return _word(text, at, name[0])
    if "0" <= char <= "9":
        return Token("literal", at, *_number(text, at))
    if (sign := _SIGN.match(text, at)) is not None:
        return Token(sign[0], at, sign[0])
    raise fault(text, at, f"found {quoted(char)}", _FOREIGN.get(char) or _plain_form(char))


def _plain_form(char: str) -> str:
    import unicodedata

    plain = unicodedata.normalize("NFKC", char)
    plain = {
        "“": '"',
        "”": '"',
        "‘": '"',
        "’": '"',
        "、": ",",
        "≥": ">=",
        "≤": "<=",
        "≠": "!=",
        "×": "*",
        "÷": "/",
    }.get(char, plain)
    if plain != char and plain.strip():
        return f"write {plain}"
    return "there are names, numbers, text in double quotes, operators and parentheses"


def _string(text: str, at: int) -> tuple[str, Literal]:
    found = _TEXT.match(text, at)
    if found is None:
        raise fault(
            text, at, "text that does not end, or holds a control character", 'close it with ", write \\n'
        )
    try:
        value = json.loads(found[0])
        value.encode()
    except ValueError:
        raise fault(
            text, at, f"{found[0]} is no JSON text", r"escapes are those of JSON, a backslash is \\"
        ) from None
    if "\x00" in value:
        raise fault(text, at, "text with a NUL character", "remove it")
    return found[0], Literal(value)


def _number(text: str, at: int) -> tuple[str, Literal]:
    found = _NUMBER.match(text, at)
    if found is None:
        raise fault(
            text, at, "found no number", "numbers are written 7, 0.5 or 1e3, with nothing directly behind"
        )
    value: int | float
    if found[1] or found[2]:
        value = float(found[0])
        if value in (float("inf"), float("-inf")):
            raise fault(text, at, "a number too large", "at most 1.7e308")
    else:
        value = int(found[0])
        if value > MAX_INT:
            raise fault(text, at, "an integer beyond 128 bits", "compare numbers of that size as text")
    return found[0], Literal(value)


def _reference(text: str, at: int) -> Token:
    root = _ROOT.match(text, at)
    if root is None:
        if text[at + 1 : at + 2] != "{":
            raise fault(text, at, "no id follows the dollar", "write $step.field, ${1.field} or $inputs.name")
        try:
            ref, end = refs.read(text, at)
        except ExpressionError as error:
            raise fault(
                text, at, "found no reference", "write ${1.field}, ${s4/a.field} or ${s3[17].field}"
            ) from error
        return Token("path", at, text[at:end], Path(ref.root, ref.path))
    tail = _tail(text, root.end())
    return Token("path", at, root[0] + tail[0], Path("$" + root[1], tail[1]))


def _tail(text: str, at: int) -> tuple[str, tuple[refs.Segment, ...]]:
    found = _TAIL.match(text, at)
    tail = found[0] if found else ""
    path = refs.segments(tail)
    end = at + len(tail)
    if path is None or text[end : end + 1] in (".", "["):
        raise fault(text, end, "no path goes on like this", 'write .field, [0] or ["any key"]')
    return tail, path


def _word(text: str, at: int, name: str) -> Token:
    if name in WORDS:
        if name in _CONSTANTS:
            return Token("literal", at, name, Literal(_CONSTANTS[name]))
        return Token(name, at, name)
    if name in ("None", "True", "False"):
        raise fault(text, at, f"found {name}", "write null, true, false")
    tail, path = _tail(text, at + len(name))
    return Token("path", at, name + tail, Path(name, path))
