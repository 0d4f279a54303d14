"""The commands that draw: ``fsm show`` and ``plan graph``."""

from collections.abc import Iterator
from typing import Any

import attrs

from fsm_agent.faces.drawing import graph
from fsm_agent.faces.frame.screen import Screen
from fsm_agent.faces.frame.spec import Outcome


@attrs.frozen(kw_only=True)
class Drawing:
    """A drawing: what it shows, in which format, and its text."""

    shows: str
    format: str
    text: str


def fsm_show(screen: Screen, *, machine: str, format: str) -> Outcome:  # noqa: A002 - the option's name
    """Draw a state machine."""
    del screen
    return Outcome(Drawing(shows=f"machine {machine}", format=format, text=graph.machine(machine, format)))


def plan_graph(screen: Screen, *, plan: str, format: str) -> Outcome:  # noqa: A002 - the option's name
    """Draw a plan."""
    from fsm_agent.faces.drive.jobs import plan_file
    from fsm_agent.runtime.planning.plans import Plan

    file = plan_file(plan)
    text = graph.plan(Plan.load(file), format, unicode=screen.unicode, width=screen.width)
    return Outcome(Drawing(shows=f"plan {file}", format=format, text=text))


def plain(value: Drawing, screen: Screen) -> Iterator[str]:
    """A drawing as it is."""
    del screen
    yield from value.text.splitlines()


def data(value: Drawing, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/drawing@1``."""
    del screen
    return {"schema": "fsm-agent/drawing@1", "shows": value.shows, "format": value.format, "text": value.text}
