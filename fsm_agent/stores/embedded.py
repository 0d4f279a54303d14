"""A log inside a report: packed so that it stands in HTML as plain letters, and found there again.

Whoever reads a log may be given the report instead; what counts is the log in it, never what is written around it.
"""

import base64
import binascii
import gzip
import re
import zlib
from typing import Final

from fsm_agent.core.errors import CorruptError

HTML: Final = b"<!doctype html"
"""How a report begins."""
ID: Final = "fsm-agent-log"
LINE: Final = 120
"""Letters per line."""
LARGEST: Final = 2 << 30
"""A log that would unpack to more bytes than this is refused."""
_FOUND: Final = re.compile(rb'<template id="fsm-agent-log"[^>]*>([A-Za-z0-9+/=\s]*)</template>')


def is_report(start: bytes) -> bool:
    """Whether a file that begins like this is a report."""
    return start[: len(HTML)].lower() == HTML


def pack(log: bytes) -> str:
    """Return the bytes of a log file as letters that can stand in HTML, in lines; equal bytes give equal letters."""
    letters = base64.b64encode(gzip.compress(log, 9, mtime=0)).decode()
    return "\n".join(letters[at : at + LINE] for at in range(0, len(letters), LINE))


def unpack(report: bytes) -> bytes:
    """Return the bytes of the log that *report* carries.

    Raises:
        CorruptError: It carries none, more than one, or one that cannot be unpacked.
    """
    found = _FOUND.findall(report)
    if len(found) != 1:
        many = "no log" if not found else f"{len(found)} logs"
        raise CorruptError(f"report: it carries {many}; one that fsm-agent wrote carries one")
    try:
        unpacking = zlib.decompressobj(wbits=31)
        log = unpacking.decompress(base64.b64decode(b"".join(found[0].split()), validate=True), LARGEST)
    except (binascii.Error, zlib.error) as error:
        raise CorruptError(
            f"report: the log in it cannot be unpacked ({error}); it was changed or cut"
        ) from None
    if not unpacking.eof or unpacking.unused_data:
        raise CorruptError("report: the log in it is cut off, or something follows it; it was changed")
    return log
