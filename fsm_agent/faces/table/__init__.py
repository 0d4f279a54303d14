"""Every command is a row here, once; the command line, its help, and whatever else shows commands read it.

To add a command, add a row to its section and write its handler.
"""

from typing import Final

from fsm_agent.faces.table import drive, files, look, replay, speak
from fsm_agent.faces.table.shared import DRIVE, FILES, LOOK, SPEAK

SECTIONS: Final = (DRIVE, SPEAK, LOOK, FILES)
GROUPS: Final = {
    "plan": "Check, show and draw plan files.",
    "rules": "Check, show, compare, draw and try rule tables.",
    "fsm": "Show the two state machines.",
    "config": "Show the settings in force.",
}
"""First words of two-word commands."""
GROUP_SECTIONS: Final = {"plan": FILES, "rules": FILES, "fsm": LOOK, "config": LOOK}

COMMANDS: Final = (*drive.ROWS, *speak.ROWS, *look.ROWS, *replay.ROWS, *files.ROWS)

BY_NAME: Final = {command.name: command for command in COMMANDS}
"""Name → row."""
