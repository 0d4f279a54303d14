"""Budgets over time: what was used, step by step, with the limit as a line where there is one."""

from collections.abc import Sequence
from typing import Final

from fsm_agent.core.replay.story import METERS, Story
from fsm_agent.faces.frame.screen import duration
from fsm_agent.faces.report.markup import Markup, tag
from fsm_agent.faces.report.scale import Scale
from fsm_agent.faces.report.words import money

WIDE: Final = 320.0
HIGH: Final = 96.0
MOST_POINTS: Final = 400
NAMES: Final = {
    "tool_calls": "tool calls",
    "planner_calls": "planner calls",
    "tokens": "tokens",
    "cost_micros": "money",
    "active_us": "active time",
}


def meters(told: Story) -> Markup:
    """Return a small picture for everything that was used, or that has a limit."""
    last = told.used[-1].amounts
    shown = [
        _meter(told, i, name) for i, name in enumerate(METERS) if last[i] or told.limits[name] is not None
    ]
    if not shown:
        return tag("p", "Nothing was used, and nothing is limited.", cls="note")
    return tag("div", shown, cls="meters")


def amount(name: str, value: float) -> str:
    """Return an amount of a meter for people."""
    if name == "cost_micros":
        return money(int(value))
    return duration(value / 1e6) if name == "active_us" else f"{value:,.0f}"


def _meter(told: Story, index: int, name: str) -> Markup:
    limit = told.limits[name]
    points = [(u.at, u.amounts[index]) for u in told.used]
    used = points[-1][1]
    top = max(used, limit or 0, 1) * 1.08
    words = amount(name, used) + (f" of {amount(name, limit)}" if limit is not None else "")
    over = " low" if limit and used >= 0.8 * limit else ""
    return tag(
        "figure",
        tag("figcaption", tag("span", NAMES[name]), tag("b", words, cls=f"amount{over}")),
        tag(
            "svg",
            tag("title", f"{NAMES[name]} over time: {words}"),
            tag("path", d=_line(told, points, top), cls="curve"),
            _limit(limit, top),
            viewBox=f"0 0 {WIDE:.0f} {HIGH:.0f}",
            role="img",
            cls="meter",
        ),
    )


def _limit(limit: float | None, top: float) -> Markup | None:
    if limit is None:
        return None
    y = _y(limit, top)
    return tag("line", x1=0, y1=y, x2=WIDE, y2=y, cls="limit")


def _y(value: float, top: float) -> float:
    return HIGH - 4 - value / top * (HIGH - 10)


def _line(told: Story, points: Sequence[tuple[int, int]], top: float) -> str:
    """Return the path of a stair; of very many points an even choice."""
    every = max(1, len(points) // MOST_POINTS)
    chosen = [*points[::every], points[-1]]
    scale = Scale([told.log.events[0].at, *(at for at, _ in points)], 2, WIDE - 4)
    path = f"M2,{_y(0, top):.1f}"
    for at, value in chosen:
        path += f" H{scale.x(at):.1f} V{_y(value, top):.1f}"
    return path
