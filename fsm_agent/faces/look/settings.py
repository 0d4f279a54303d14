"""``config show``: the settings in force, and where each comes from."""

from collections.abc import Iterator
from typing import Any

import attrs

from fsm_agent.faces.frame.screen import Screen, short
from fsm_agent.faces.frame.settings import SECRET, SETTINGS, Found
from fsm_agent.faces.frame.spec import Outcome


@attrs.frozen(kw_only=True)
class Config:
    """The settings by name, and whether their origins are to be shown."""

    found: dict[str, Found]
    origin: bool


def config_show(screen: Screen, *, origin: bool) -> Outcome:
    """Return the settings."""
    given = {"store": screen.flags.get("store"), "ascii": screen.flags.get("ascii")}
    given["no_color"] = screen.flags.get("no_color")
    found = {s.name: screen.settings.find(s.name, given.get(s.name)) for s in SETTINGS}
    hidden = {
        name: Found("set" if one.value else None, one.origin) for name, one in found.items() if name in SECRET
    }
    return Outcome(Config(found=found | hidden, origin=origin))


def plain(value: Config, screen: Screen) -> Iterator[str]:
    """One line each."""
    helps = {setting.name: setting.help for setting in SETTINGS}
    for name, one in value.found.items():
        shown = (
            "-" if one.value is None else str(one.value).lower() if isinstance(one.value, bool) else one.value
        )
        tail = one.origin if value.origin else helps[name]
        head = f"{name:<13} = "
        yield head + short(f"{shown}  ({tail})", screen.width - len(head))


def data(value: Config, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/config@1``."""
    del screen
    rows = {name: {"value": one.value, "origin": one.origin} for name, one in value.found.items()}
    return {"schema": "fsm-agent/config@1", "settings": rows}
