"""Text that a model wrote becomes JSON, or is refused with the line: never a guess, never a shorter plan.

Tolerated are things that leave no doubt about the meaning: code fences and prose around the JSON, a byte order
mark, comments (``//``, ``/* */``, ``#``) and trailing commas. Refused is whatever leaves doubt: two JSON blocks that
differ, a text cut off at either end, a key given twice, anything that is no JSON.

How: outside of JSON only an opening bracket means something. One that begins JSON must then hold JSON to its
closing bracket, or the whole text is refused; so no inner part of a broken plan can pass for the plan.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from fsm_agent.core import canon
from fsm_agent.core.errors import Fault, PlanError
from fsm_agent.core.plans.faults import quoted

MAX_BYTES: Final = 16 * 1024 * 1024
"""Longest text that is read."""
MAX_DEPTH: Final = canon.MAX_DEPTH
_MAX_BRACKETS: Final = 1000
"""Brackets outside of JSON, its own first one included; each costs a bounded look ahead, so this bounds the work."""
_MAX_WORD: Final = 400

_BLANK = r"(?:\s{1,2000}+|(?://|\#(?!\w))[^\n]{0,2000}+|/\*.{0,2000}?\*/){0,50}+"
_NUMBER = r"-?(?:0|[1-9]\d*+)(?:\.\d++)?+(?:[eE][+-]?\d++)?+"
_TOKEN: Final = re.compile(
    r"""  (?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")
        | (?P<comment>//[^\n]*+|\#[^\n]*+|/\*.*?\*/)
        | (?P<open>[\[{])
        | (?P<close>[\]}])
        | (?P<comma>,)
        | (?P<colon>:)
        | (?P<word>[^\s"\[\]{},:/\#]++)
        | (?P<broken>["/])""",
    re.VERBOSE | re.DOTALL,
)
_OPENING: Final = re.compile(r"[\[{]")
_OBJECT: Final = re.compile(rf"""\{{{_BLANK}(?:["'}}]|/\*|[^\W\d]\w*+\s*+:|\Z)""", re.DOTALL)
_ARRAY: Final = re.compile(rf"""\[{_BLANK}(?:\[{_BLANK}){{0,9}}+(?:["{{]|/\*|\Z)""", re.DOTALL)
_SET: Final = re.compile(r'\{\s*+[^\s{}\[\]"/#][^{}\[\]"]*+\}')
_SCALARS: Final = re.compile(
    rf"\[\s*+(?:(?:{_NUMBER}|true|false|null)\s*+(?:,\s*+(?:{_NUMBER}|true|false|null)\s*+)*+)?+\]"
)
_WORD: Final = re.compile(rf"{_NUMBER}|true|false|null")
_HEADLESS: Final = re.compile(r"""\s*+(?:[\]}]|,\s*+")""")
_PARTNER: Final = {"[": "]", "{": "}"}
_WHOLE: Final = "send the whole plan again; a part of it is never run"


class _Block(NamedTuple):
    """JSON found in the text: its value, and where it begins and ends."""

    value: Any
    start: int
    end: int


def read(text: str | bytes) -> Any:
    """Return the one JSON object or array that *text* holds.

    What it means is for :func:`fsm_agent.core.plans.planning.load` to say.

    Args:
        text: Text, or bytes in UTF-8; at most 16 MiB.

    Raises:
        PlanError: With one fault that names line and column: no JSON, or cut off, or not well-formed, or a key
            given twice, or nested too deeply; or two blocks of JSON that differ.
    """
    source = _decoded(text)
    blocks = list(_blocks(source))
    telling = [block for block in blocks if _tells(block.value)]
    if not telling and len(blocks) != 1:
        found = "no JSON object or array was found"
        raise _refusal(source, 0, "no-json", found, "give the plan as one JSON document")
    telling = telling or blocks
    for block in telling[1:]:
        if json.dumps(block.value, sort_keys=True) != json.dumps(telling[0].value, sort_keys=True):
            found = f"two different JSON blocks were found, the first at {_place(source, telling[0].start)}"
            raise _refusal(source, block.start, "ambiguous", found, "give exactly one plan")
    return telling[0].value


def _tells(value: Any) -> bool:
    """Whether a block can be more than a citation such as ``[1]`` in the prose."""
    return bool(value) if isinstance(value, dict) else any(isinstance(item, dict | list) for item in value)


def _decoded(text: str | bytes) -> str:
    if len(text) > MAX_BYTES:
        found = f"{len(text):,} {'bytes' if isinstance(text, bytes) else 'characters'} were found"
        raise _refusal("", 0, "too-large", found, f"at most {MAX_BYTES:,} are read; nest or split the plan")
    plain = text if isinstance(text, str) else _utf8(text)
    return plain.removeprefix("\ufeff")


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        found = f"the byte 0x{data[error.start]:02x} is no UTF-8 text"
        fix = "give the plan as text in UTF-8"
        raise _refusal(before, len(before), "not-text", found, fix) from None


def _blocks(text: str) -> Iterator[_Block]:
    at = 0
    for _ in range(_MAX_BRACKETS):
        found = _OPENING.search(text, at)
        if found is None:
            return
        at = found.start()
        if not _begins_json(text, at):
            at += 1
            continue
        block = _block(text, at)
        _complete(text, block)
        yield block
        at = block.end
    many = f"more than {_MAX_BRACKETS} brackets stand outside of JSON"
    raise _refusal(text, at, "no-json", many, "give the plan alone")


def _begins_json(text: str, at: int) -> bool:
    """Whether the bracket at *at* begins JSON; else it belongs to the prose, as in ``[see above]`` or ``{name}``."""
    if text[at] == "[":
        return bool(_ARRAY.match(text, at) or _SCALARS.match(text, at))
    return bool(_OBJECT.match(text, at)) and not _SET.match(text, at)


def _block(text: str, start: int) -> _Block:
    """Return the JSON that begins at *start*."""
    end, drop = _extent(text, start)
    body = text[start:end]
    if drop:  # blanked, not removed: places stay what they are
        pieces, last = [], 0
        for first, behind in drop:
            pieces += [body[last : first - start], " " * (behind - first)]
            last = behind - start
        body = "".join(pieces) + body[last:]
    try:
        return _Block(canon.loads(body), start, end)
    except json.JSONDecodeError as error:
        at, found = start + error.pos, f"this is no JSON ({error.msg})"
        raise _refusal(text, at, "bad-json", found, "correct it there") from None
    except ValueError:
        at, key = _second(text, start, end)
        found = f"the key {quoted(key)} is given twice in one object"
        raise _refusal(text, at, "duplicate-key", found, "give it once") from None


def _extent(text: str, start: int) -> tuple[int, list[tuple[int, int]]]:
    """Return where the JSON that begins at *start* ends, and the comments and trailing commas in it."""
    open_: list[tuple[str, int]] = []
    drop: list[tuple[int, int]] = []
    before = last = ""
    comma = start
    for token in _TOKEN.finditer(text, start):
        kind = token.lastgroup or ""
        at = token.start()
        match kind:
            case "comment":
                drop.append((at, token.end()))
                continue
            case "open":
                open_.append((token[0], at))
                if len(open_) > MAX_DEPTH:
                    raise _refusal(
                        text, at, "too-deep", f"the JSON is nested deeper than {MAX_DEPTH}", "nest it less"
                    )
            case "close":
                opened, where = open_.pop()
                if _PARTNER[opened] != token[0]:
                    found = f"{token[0]!r} closes the {opened!r} of {_place(text, where)}"
                    raise _refusal(text, at, "bad-json", found, f"close it with {_PARTNER[opened]!r}")
                if last == "comma" and before not in {"open", "comma", "colon"}:
                    drop.append((comma, comma + 1))
                if not open_:
                    drop.sort()
                    return token.end(), drop
            case "comma":
                comma = at
            case "word":
                _check_word(text, start, at, token[0])
            case "broken":
                if token[0] == "/" and not text.startswith("/*", at):
                    raise _refusal(
                        text, at, "bad-json", "a '/' stands outside of text", "put text in double quotes"
                    )
                break
        before, last = last, kind
    found = "the JSON that begins here has no end"
    raise _refusal(text, start, "cut-off", found, _WHOLE)


def _check_word(text: str, start: int, at: int, word: str) -> None:
    if word.startswith("```"):
        found = f"a code fence ends the JSON that begins at {_place(text, start)} before its closing bracket"
        raise _refusal(text, at, "cut-off", found, _WHOLE)
    shown = word if len(word) <= 40 else word[:40] + "…"
    if len(word) > _MAX_WORD or not _WORD.fullmatch(word):
        fix = "JSON knows text in double quotes, numbers, true, false and null"
        raise _refusal(text, at, "bad-json", f"{shown!r} is no JSON", fix)
    if word[0] in "-0123456789" and float(word) in {float("inf"), float("-inf")}:
        raise _refusal(text, at, "bad-json", f"the number {shown} is too large", "give it as text")


def _complete(text: str, block: _Block) -> None:
    """Refuse a block that was part of something larger whose beginning is missing."""
    before = block.start - 1
    while before >= 0 and text[before].isspace():
        before -= 1
    member = before > 0 and text[before] == ":" and text[before - 1] == '"'
    if member or _HEADLESS.match(text, block.end):
        found = "the JSON that begins here is part of something whose beginning is missing"
        raise _refusal(text, block.start, "cut-off", found, _WHOLE)


def _second(text: str, start: int, end: int) -> tuple[int, str]:
    """Return the place and the name of the last key that its object had already, in JSON that has one."""
    seen: list[set[str]] = []
    key, at = "", start
    found = start, ""
    for token in _TOKEN.finditer(text, start, end):
        match token.lastgroup:
            case "open":
                seen.append(set())
            case "close":
                seen.pop()
            case "string":
                key, at = token[0], token.start()
            case "colon":
                name = json.loads(key)
                if name in seen[-1]:
                    found = at, name
                seen[-1].add(name)
    return found


def _place(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1} column {at - text.rfind(chr(10), 0, at)}"


def _refusal(text: str, at: int, code: str, found: str, fix: str) -> PlanError:
    message = f"plan text at {_place(text, at)}: {found}"
    return PlanError(f"{message}; {fix}", [Fault(at="", code=code, message=message, fix=fix)])
