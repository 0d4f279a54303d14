"""However a command fails, people get one line (or one per fault), programs one document and an exit code."""

import json
import traceback
from collections.abc import Sequence
from typing import Any, Final

import attrs

from fsm_agent.core.errors import FsmAgentError, PlanError, RulesError, StoreDeadError, StoreUnusableError
from fsm_agent.faces.frame.screen import UNSEEN, Screen, safe

SCHEMA: Final = "fsm-agent/error@1"


@attrs.frozen(kw_only=True)
class Failure:
    """An error as the faces show it.

    Attributes:
        code: Stable, such as ``E-PLAN``.
        message: One line.
        faults: The single faults of a plan or a table, as JSON objects.
        lines: For people, the code in front.
        exit_code: Of the command.
    """

    code: str
    message: str
    faults: tuple[dict[str, Any], ...]
    lines: tuple[str, ...]
    exit_code: int

    def to_json(self) -> dict[str, Any]:
        """Return the document of schema ``fsm-agent/error@1``."""
        return {"schema": SCHEMA, "code": self.code, "message": self.message, "faults": list(self.faults)}


def failure_of(error: BaseException) -> Failure:
    """Return what *error* means to whoever ran the command."""
    error = _directory(error) or error
    if not isinstance(error, FsmAgentError):
        message = f"{type(error).__name__}: {safe(str(error))[:500]}; this is a fault of the program (-v -v shows where)"
        return Failure(
            code="E-INTERNAL", message=message, faults=(), lines=(f"E-INTERNAL {message}",), exit_code=70
        )
    message = safe(str(error))
    parts: list[tuple[dict[str, Any], str]] = []
    if isinstance(error, PlanError):
        parts = [(attrs.asdict(fault), safe(str(fault))) for fault in error.faults]
    elif isinstance(error, RulesError):
        parts = [(_finding(finding), safe(str(finding))) for finding in error.findings]
    lines: tuple[str, ...] = (f"{error.code} {message}",)
    if len(parts) > 1:
        words = tuple(words for _, words in parts)
        lines = tuple(f"{error.code} {line}" for line in (_head(message, words), *words))
    return Failure(
        code=error.code,
        message=message,
        faults=tuple(data for data, _ in parts),
        lines=lines,
        exit_code=error.exit_code,
    )


def _directory(error: BaseException) -> StoreUnusableError | None:
    """Return what it means that a directory stands where a store has a file; no disk has failed, so it is unusable, not dead."""
    cause = error.__cause__
    if not isinstance(error, StoreDeadError) or not isinstance(cause, IsADirectoryError):
        return None
    return StoreUnusableError(
        f"store file {cause.filename}: it is a directory; put the file back, or restore a backup, and audit it"
    )


def _head(message: str, words: Sequence[str]) -> str:
    """Return the first half of a message that goes on to quote the first of the faults, which are told in *words*."""
    if ", the first at " in message:
        return message.partition(", the first at ")[0]
    head, quotes, _ = message.partition(f": {words[0]}")
    return f"{head}: {len(words)} findings" if quotes else message


def _finding(finding: object) -> dict[str, Any]:
    names = ("kind", "row", "witness", "message")
    data = {name: getattr(finding, name) for name in names if hasattr(finding, name)}
    return data or {"message": str(finding)}


IN_JSON: Final = {0x7F: "\\u007f"} | {c: json.dumps(chr(c))[1:-1] for c in (*range(0x80, 0xA0), *UNSEEN)}
"""What could drive a terminal, or does not show, is written the way JSON can write it."""


def dumps(data: Any, screen: Screen) -> str:
    """Return a JSON document as text: in ASCII where the screen takes no more, on several lines for a person."""
    if screen.form == "json" and screen.out.isatty():
        text = json.dumps(data, ensure_ascii=not screen.unicode, allow_nan=False, indent=2)
    else:
        text = json.dumps(data, ensure_ascii=not screen.unicode, allow_nan=False, separators=(",", ":"))
    return text.translate(IN_JSON)


def fail(screen: Screen, error: BaseException) -> int:
    """Show *error* and return the exit code."""
    found = failure_of(error)
    if screen.form != "plain":
        screen.write([dumps(found.to_json(), screen)])
    for line in found.lines:
        screen.complain(line)
    if found.code == "E-INTERNAL" and screen.verbose > 1:
        screen.complain("".join(traceback.format_exception(error)).rstrip())
    return found.exit_code
