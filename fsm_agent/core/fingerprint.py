"""Two failures are the same failure when they differ only in what changes by itself.

Times, ids, numbers, addresses and directories are masked; words, status numbers and quoted identifiers stay.
The version is part of every fingerprint: changed masks never make old and new fingerprints meet.
"""

import re
from typing import Final

from fsm_agent.core import canon

VERSION: Final = 1
_MAX_CHARS: Final = 2048
_NUMBER = re.compile(r"\d+")


def mask(message: str) -> str:
    """Return *message*, cut to 2,048 characters, with everything replaced that changes by itself."""
    return _NUMBER.sub("#", message[:_MAX_CHARS])


def fingerprint(*, tool: str, signal: str, code: str | None, class_name: str | None, message: str) -> str:
    """Return what identifies a failure, such as ``f1:0a1b2c3d4e5f6071``.

    Args:
        tool: The tool's name.
        signal: The classification.
        code: The code of the error, or None.
        class_name: The class of the exception, or None.
        message: The message, unmasked.
    """
    parts = [tool, signal, code, class_name, mask(message)]
    return f"f{VERSION}:{canon.value_digest('fingerprint', parts)[:16]}"
