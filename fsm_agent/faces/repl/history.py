"""What was typed, kept for the next time; a line that may hold a secret is not."""

import os
import re
from pathlib import Path
from typing import Final

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from fsm_agent.core.engine.state import Run
from fsm_agent.faces.repl.desk import Desk
from fsm_agent.runtime.secrets.hiding import secrets_of

_SECRET: Final = re.compile(
    r"(?i)secret|token|passw|api[_-]?key|bearer|authori[sz]ation|credential|private[_-]?key|\bsk-\w{8}"
)


def place() -> Path:
    """Return where the history is kept."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "fsm-agent" / "history"


def may_keep(line: str, run: Run | None) -> bool:
    """Whether *line* holds nothing that looks like a secret, or that *run* declares as one."""
    if _SECRET.search(line):
        return False
    if run is None or run.plan is None:
        return True
    names = set(secrets_of(run)) | {name for spec in run.tools.values() for name in spec.secret}
    return not any(re.search(rf"\b{re.escape(name)}\s*=", line) for name in names)


class _Kept(FileHistory):
    """A file of lines, readable by its owner alone."""

    def __init__(self, file: Path, desk: Desk) -> None:
        self._desk = desk
        super().__init__(file)

    def store_string(self, string: str) -> None:
        """Keep a line, unless it may hold a secret; where it cannot be kept, it is not."""
        if may_keep(string, self._desk.view()):
            try:
                super().store_string(string)
            except OSError:
                return


def history(desk: Desk) -> History:
    """Return the history of the person at *desk*; one that ends with the session where no file can be had."""
    file = place()
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600, exist_ok=True)
    except OSError:
        return InMemoryHistory()
    return _Kept(file, desk)
