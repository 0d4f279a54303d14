"""Whose fault it is that a log cannot be read: of a log that fails its audit it is the log's, not the program's.

A chain that holds says nothing about who wrote the log, so what tells of events may meet anything in them. It need
not expect that at every place: an unexpected error is held against the audit of what was read, which asks of every
event that it has the form of its type.
"""

import io
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from fsm_agent.core.audit.audit import Audit
from fsm_agent.core.errors import CorruptError, FsmAgentError
from fsm_agent.faces.frame.screen import Screen
from fsm_agent.faces.look.auditing import audit
from fsm_agent.runtime.proof.auditing import audit_log

_WHOLE: Final = ("runs", "inbox")
"""Commands that name no log, for they read every run of the store."""


def corrupt(screen: Screen, command: str, values: Mapping[str, Any]) -> CorruptError | None:
    """Return what it means that *command* met an unexpected error in a log; None if what it read is as we write it.

    Args:
        screen: Names the store.
        command: The command's name.
        values: What it was given.
    """
    whole = command in _WHOLE or ("run" in values and values["run"] is None)
    names = (screen.store,) if whole else values.get("logs") or (values.get("log") or values.get("run"),)
    quiet = attrs.evolve(screen, quiet=True, err=io.StringIO())
    try:
        return next((found for name in names if name for found in _faults(quiet, name)), None)
    except FsmAgentError:  # nothing there that can be audited
        return None


def _faults(screen: Screen, name: str) -> Iterator[CorruptError]:
    """Yield what is wrong with the logs that *name* stands for."""
    for one in _audits(screen, name):
        if one.findings:
            first = one.findings[0]
            yield CorruptError(
                f"log of {one.run}: it cannot be read, for its audit fails at event {first.seq} ({first.message}); "
                "audit it to see all findings",
                seq=first.seq,
            )


def _audits(screen: Screen, name: str) -> Iterator[Audit]:
    if name == "-":
        yield audit_log(screen.piped)
        return
    found = audit(screen, log=name, head=None, key=None, hash_only=False, jobs=1)
    yield from (one for _, one in found.value.audits)
