"""Two failures are the same failure when they differ only in what changes by itself.

Times, durations, ids, numbers, addresses, directories and the queries of URLs become ``#``. Words, quoted
identifiers, status numbers and exit codes stay: ``KeyError 'price'`` is not ``KeyError 'date'``, and 403 is not 404.

Repetitions are bounded or possessive, so the time is linear in the message whatever it holds. ``VERSION`` is part of
every fingerprint and grows with any change of a mask: old and new fingerprints never meet.
"""

import json
import re
from functools import cache
from typing import Final

from fsm_agent.core import canon

VERSION: Final = 1
MAX_CHARS: Final = 2048
"""Longer messages are cut before they are masked."""

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_CLOCK = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?:[.,][0-9]{1,9})?(?:\ ?[AaPp][Mm](?![A-Za-z]))?"
_ZONE = r"(?:\ ?(?:Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2})(?![A-Za-z0-9]))?"
_UNIT = (
    r"(?:[nuµm]?s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|milliseconds?|microseconds?"
    r"|[KMGT]i?B|[kB]|bytes?|毫秒|微秒|秒钟?|分钟?|小?时|天|字节)"
)
_NAMED_DATE = (  # Wed, 04 Mar 2026 05:06:07 GMT · Wed Mar  4 05:06:07 2026 · 04/Mar/2026:05:06:07 +0000
    rf"(?:{_WEEKDAY},?\ )?(?:[0-9]{{1,2}}[-\ /]{_MONTH}[-\ /][0-9]{{4}}|{_MONTH}\ {{1,2}}[0-9]{{1,2}}),?[\ :T]"
    rf"{_CLOCK}(?:\ [0-9]{{4}}(?![-/0-9]))?{_ZONE}"
)
_NUMBERED_DATE = rf"[0-9]{{4}}[-/][0-9]{{2}}[-/][0-9]{{2}}(?:[T\ ]{_CLOCK})?{_ZONE}"
_CHINESE_DATE = (
    r"[0-9]{2,4}年[0-9]{1,2}月[0-9]{1,2}[日号]"
    rf"(?:\ ?(?:上午|下午)?(?:{_CLOCK}|[0-9]{{1,2}}[时点](?:[0-9]{{1,2}}分)?(?:[0-9]{{1,2}}秒)?))?"
)
_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_TEMPORARY = r"tmp[a-z0-9_]{8}(?![A-Za-z0-9_])"  # tempfile's names
_COLONS = r"[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}"  # IPv6 and MAC addresses
_QUANTITY = rf"(?:[0-9]+(?:\.[0-9]+)?\ ?{_UNIT}(?![A-Za-z])\ ?){{1,4}}"
_MASKED: Final = rf"""
      ['"`“‘「](?P<quoted>[A-Za-z_][A-Za-z0-9_.]{{0,60}}+)['"`”’」]
    | (?P<url>://(?:\[[^\]\s]{{1,64}}\])?+[^\s"'`<>)\]|，。；）”]++)
    | (?P<path>(?<![A-Za-z0-9_/])/[^\s"'`,;:()\[\]{{}}<>|，。；：（）“”]*+
        | (?<![A-Za-z0-9])[A-Za-z]:\\[^\s"'`,;:()\[\]{{}}<>|，。；：（）“”]*+)
    | (?<![A-Za-z0-9])(?:
        (?P<all>{_NAMED_DATE}|{_NUMBERED_DATE}|{_CHINESE_DATE}|{_UUID}|{_TEMPORARY}|{_CLOCK}{_ZONE}(?![:A-Za-z0-9])
          | {_QUANTITY}(?<![\ ])(?![A-Za-z0-9]|:[0-9a-fA-F:]))
      | (?P<colons>{_COLONS})
      | (?P<number>[0-9]++(?:[.,][0-9]++)*+(?:[eE][-+]?[0-9]++)?+(?![A-Za-z]))
      | (?P<token>[A-Za-z]*+[0-9][A-Za-z0-9]*+|(?<=[_-])[A-Za-z]{{14,}}+)
    )
    """
_WIDE_DIGITS: Final = {0xFF10 + digit: str(digit) for digit in range(10)}
_MASKS_IN_NAME: Final = re.compile(
    rf"(?<![A-Za-z0-9])(?:(?P<all>{_UUID}|{_TEMPORARY})|[A-Za-z]*+[0-9][A-Za-z0-9]*+)", re.ASCII
)
_DIGITS: Final = re.compile(r"[0-9]+")
_HEX: Final = re.compile(r"(?:0x)?[0-9a-fA-F]{6,}")
_CAMEL_WORD: Final = re.compile(r"[A-Z]*+[a-z]++|[A-Z]++|[0-9]++")
_SYSTEM_FOLDERS: Final = re.compile(
    r"/(?:tmp|home|var|usr|etc|opt|root|Users|mnt|data|srv|private|app|proc|dev|work|workspace|builds|run|lib)/"
)
_BEFORE_CODE: Final = re.compile(
    r"(?:(?<![a-z])(?:errno|winerror|sqlstate|exit|signal|http|(?:error|status|exit|return)?[ _-]?code)|status"
    r"|状态码|错误码|返回码|退出码)\Z"
)
_BEFORE_STATUS: Final = re.compile(r"(?<![a-z])(?:returned|got|response|received|返回)\Z")


@cache
def _masks() -> re.Pattern[str]:
    """Return what changes by itself, as a pattern; it takes milliseconds to build, and many runs never fail."""
    return re.compile(_MASKED, re.VERBOSE | re.ASCII)


def mask(message: str) -> str:
    """Return *message*, cut to ``MAX_CHARS``, with ``#`` for everything that changes by itself."""
    text = message[:MAX_CHARS]
    if "%5" in text:  # gRPC quotes the brackets of IPv6 addresses
        text = text.replace("%5B", "[").replace("%5D", "]")
    if not text.isascii():
        text = text.translate(_WIDE_DIGITS)
    return _masks().sub(_replace, text)


def fingerprint(*, tool: str, signal: str, code: str | None, class_name: str | None, message: str) -> str:
    """Return what identifies a failure, such as ``f1:0a1b2c3d4e5f6071``.

    Args:
        tool: The tool's name.
        signal: The classification.
        code: The code of the error, or None.
        class_name: The class of the exception, or None.
        message: The message, unmasked.
    """
    parts = json.dumps([tool, signal, code, class_name, mask(message)])  # escapes whatever is no UTF-8
    return f"f{VERSION}:{canon.digest('fingerprint', parts.encode())[:16]}"


def _replace(match: re.Match[str]) -> str:
    text = match[0]
    match match.lastgroup:
        case "number":
            return text if _is_code(match) else "#"
        case "token":
            return _token(text)
        case "quoted":
            keep = sum(map(str.isdigit, text)) <= 2 and not any(map(_is_random, match["quoted"].split("_")))
            return text if keep else text[0] + _masks().sub(_replace, text[1:-1]) + text[-1]
        case "path":
            return _path(text)
        case "url":
            return _url(text)
        case "colons":
            is_address = text.count(":") in {5, 7} or ("::" in text and _DIGITS.search(text))
            return "#" if is_address else ":".join(map(_word, text.split(":")))
        case _:
            return "#"


def _is_code(match: re.Match[str]) -> bool:
    """Return whether the number is a status, an errno or an exit code, by what stands around it."""
    text, start, end = match.string, match.start(), match.end()
    if end - start > 5 or not match[0].isdigit():
        return False
    before = text[max(0, start - 24) : start].lower()
    word = before.rstrip(" :=：'\"[(_-")
    if word[-1:].isalpha() and _BEFORE_CODE.search(word):
        return True
    if before.rstrip(" (").endswith(("error", " ora-")) or before == "ora-":
        return True
    if end - start != 3 or text[start] not in "45":
        return False
    after = text[end : end + 3]
    named = after[:1] == " " and after[1:2].isupper()  # 404 Not Found
    ends = after[:1] == ")" or (after[:1] == "," and not after[2:].isdigit())
    alone = before[-1:] == "(" and before[-2:-1] != "=" and ends  # ConflictError(409, 'version conflict')
    return start == 0 or named or alone or _BEFORE_STATUS.search(before.rstrip(" :：")) is not None


def _word(word: str) -> str:
    return _token(word) if _DIGITS.search(word) else word


def _token(text: str) -> str:
    """Mask letters and digits without anything between: all of it if it looks drawn at random, else the digits."""
    if text[:1] == "E" and text[1:].isdigit() and 4 <= len(text) <= 6:  # E11000
        return text
    if _is_random(text):
        return "#"
    return _DIGITS.sub("#", text)


def _is_random(text: str) -> bool:
    """Return whether letters and digits look drawn: hex, many digits, or letter case that no name has."""
    length = len(text)
    if length < 5:
        return False
    if _HEX.fullmatch(text) and _DIGITS.search(text):
        return True
    if length >= 10 and sum(map(str.isdigit, text)) >= 3:
        return True
    parts = len(_CAMEL_WORD.findall(text))
    return 2 * parts >= length or (length >= 14 and 4 * parts > length)


def _path(text: str) -> str:
    """Mask the folders of a file, or the ids of a route; a query is dropped."""
    route = text.partition("?")[0].replace("\\", "/").rstrip("/.")
    first, *folders = route.split("/")
    name = folders[-1] if folders else ""
    is_file = first or (len(folders) > 1 and (_SYSTEM_FOLDERS.match(route) or "." in name))
    shown = "…/" + name if is_file else "/" + "/".join(folders)
    return _MASKS_IN_NAME.sub(_in_name, shown)


def _in_name(match: re.Match[str]) -> str:
    return "#" if match["all"] else _token(match[0])


def _url(text: str) -> str:
    """Mask host and path of what follows a scheme; credentials, query and fragment are dropped."""
    place = text[3:].partition("?")[0].partition("#")[0]
    authority, slash, path = place.partition("/")
    if "[" in authority:
        return "://#" + slash + _MASKS_IN_NAME.sub(_in_name, path)
    return "://" + _MASKS_IN_NAME.sub(_in_name, authority.rpartition("@")[2] + slash + path)
