"""The commands that draw: ``fsm show``, ``plan graph`` and ``graph`` of a run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from fsm_agent.core.errors import ConfigError, NotFoundError
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


def run_graph(screen: Screen, *, run: str, format: str, output: str | None) -> Outcome:  # noqa: A002 - the option's name
    """Draw the plan of a run, with the state of each step."""
    from fsm_agent.faces.drawing import runs
    from fsm_agent.faces.frame import places

    with places.reading(screen, run) as store:
        state, _ = places.look(store, run)
    if state.plan is None:
        raise NotFoundError(f"run {run}: it has no plan yet; look again once it has begun")
    text = runs.run(state, format, unicode=screen.unicode, width=screen.width)
    if output is None:
        return Outcome(Drawing(shows=f"run {run}", format=format, text=text))
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"graph to {output}: {error.strerror}; choose a place that can be written"
        ) from None
    return Outcome(Drawing(shows=f"run {run}", format=format, text=f"written to {output}\n"))


def plain(value: Drawing, screen: Screen) -> Iterator[str]:
    """A drawing as it is."""
    del screen
    yield from value.text.splitlines()


def data(value: Drawing, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/drawing@1``."""
    del screen
    return {"schema": "fsm-agent/drawing@1", "shows": value.shows, "format": value.format, "text": value.text}
