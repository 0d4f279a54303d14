"""Whose fault it is that a log cannot be read: of a log that fails its audit it is the log's, not the program's.

A chain that holds says nothing about who wrote the log, so what tells of events may meet anything in them. It need
not expect that at every place: an unexpected error is held against the audit of what was read.
"""

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
    """Return what it means that *command* met an unexpected error in a log; None if the logs that it read are sound.

    Args:
        screen: Names the store.
        command: The command's name.
        values: What it was given.
    """
    try:
        for found in _audits(screen, command, values):
            if found.findings:
                first = found.findings[0]
                return CorruptError(
                    f"log of {found.run}: it cannot be read, for its audit fails at event {first.seq} "
                    f"({first.message}); audit it to see all findings",
                    seq=first.seq,
                )
    except FsmAgentError:  # nothing there that can be audited
        return None
    return None


def _audits(screen: Screen, command: str, values: Mapping[str, Any]) -> Iterator[Audit]:
    """Yield the audits of what *command* read."""
    whole = command in _WHOLE or ("run" in values and values["run"] is None)
    names = (screen.store,) if whole else values.get("logs") or (values.get("log") or values.get("run"),)
    quiet = attrs.evolve(screen, quiet=True)
    for name in names:
        if name == "-":
            yield audit_log(screen.piped)
        elif name is not None:
            found = audit(quiet, log=name, head=None, key=None, hash_only=False, jobs=1)
            yield from (one for _, one in found.value.audits)
