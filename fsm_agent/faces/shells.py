"""Completion in a shell: the script that teaches it, and the values that it asks for. A shell is never told an error."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ZshComplete

from fsm_agent.core.errors import FsmAgentError
from fsm_agent.faces.frame import places
from fsm_agent.faces.frame.screen import Screen
from fsm_agent.faces.frame.settings import Settings
from fsm_agent.faces.frame.spec import COMPLETE, PROGRAM, Outcome, Param

_SHELLS: Final = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@attrs.frozen(kw_only=True)
class Script:
    """A script for a shell."""

    shell: str
    text: str


def completion(screen: Screen, *, shell: str) -> Outcome:
    """Return the script."""
    del screen
    own = _SHELLS[shell](click.Group(PROGRAM), {}, PROGRAM, COMPLETE)
    return Outcome(Script(shell=shell, text=own.source_template % own.source_vars()))


def plain(value: Script, screen: Screen) -> Iterator[str]:
    """The script."""
    del screen
    yield from value.text.splitlines()


def data(value: Script, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/completion@1``."""
    del screen
    return {"schema": "fsm-agent/completion@1", "shell": value.shell, "script": value.text}


def offered(param: Param, given: Mapping[str, Any], incomplete: str) -> list[CompletionItem]:
    """Return what can stand for *param*: files, the runs of the store, or the tasks of the run that is named."""
    if param.kind == "file":
        return [CompletionItem(incomplete, type="file")]
    try:
        screen = Screen.of(store=given.get("store"), settings=Settings.here())
        with places.reading(screen) as store:
            if param.kind == "run":
                found = [(info.run, info.state) for info in reversed(list(store.runs()))]
            else:
                state, _ = places.look(store, str(given.get("run")))
                found = [(task.id, task.state.value) for task in state.tasks.values()]
    except FsmAgentError:
        return []
    return [CompletionItem(name, help=state) for name, state in found if name.startswith(incomplete)]
