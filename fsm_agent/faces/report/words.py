"""Small things that every part of a report says in the same way: times, states, links to events, values."""

from typing import Any, Final

from fsm_agent.core import canon
from fsm_agent.core.engine.records import Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.machine import TaskState
from fsm_agent.core.replay.moments import moment
from fsm_agent.faces.frame.screen import duration
from fsm_agent.faces.report.markup import Markup, code, fold, join, shortened, tag

SIGNS: Final = {
    "pending": "○",
    "running": "▶",
    "awaiting-confirmation": "‖",
    "unknown-result": "?",
    "done": "✔",
    "failed": "✖",
    "cancelled": "⊘",
}
"""State → a sign that the fonts of every system have."""
VALUE: Final = 3_000
"""Of a longer value only so many characters are shown; the whole one is in the log that the report carries."""


def clock(at_us: int, start_us: int) -> Markup:
    """Return a time as it lies behind the start, the full one when pointed at."""
    since = (at_us - start_us) / 1e6
    return tag("time", f"+{duration(since)}" if since else "0", title=moment(at_us))


def day(at_us: int) -> str:
    """Return a time for people, in UTC to the second."""
    return moment(at_us)[:19].replace("T", " ") + " UTC"


def event_link(seq: int) -> Markup:
    """Return a link to an event."""
    return tag("a", f"#{seq}", href=f"#e{seq}", cls="ev")


def pill(state: str) -> Markup:
    """Return a state as a coloured word with its sign."""
    return tag("span", f"{SIGNS.get(state, '')} {state}".strip(), cls=f"pill {state}")


def value(given: Any, *, most: int = VALUE) -> Markup:
    """Return a JSON value: short ones in the line, longer ones folded."""
    text = canon.encode(given).decode()
    if len(text) <= 90:
        return code(text)
    return fold(code(shortened(text, 80).split(" … (")[0] + "…"), tag("pre", shortened(pretty(given), most)))


def pretty(given: Any, indent: int = 0) -> str:
    """Return a JSON value over several lines."""
    pad, inner = "  " * indent, "  " * (indent + 1)
    if isinstance(given, dict) and given:
        rows = [
            f"{inner}{canon.encode(key).decode()}: {pretty(item, indent + 1)}" for key, item in given.items()
        ]
        return "{\n" + ",\n".join(rows) + f"\n{pad}}}"
    if isinstance(given, list) and any(isinstance(item, dict | list) for item in given):
        return "[\n" + ",\n".join(inner + pretty(item, indent + 1) for item in given) + f"\n{pad}]"
    return canon.encode(given).decode()


def money(micros: int) -> str:
    """Return an amount of money, given in millionths."""
    return f"{micros / 1_000_000:.6f}".rstrip("0").rstrip(".")


def arguments(args: dict[str, Any] | None) -> Markup:
    """Return arguments exactly as they were shown, one per line."""
    if args is None:
        return join()
    if not args:
        return tag("span", "no arguments", cls="soft")
    return tag(
        "dl",
        [
            join(tag("dt", name), tag("dd", tag("pre", pretty(item), cls="flat")))
            for name, item in args.items()
        ],
        cls="args",
    )


def in_order(run: Run) -> list[Task]:
    """Return the tasks in plan order, the parts of each right behind it, and what a later plan dropped at the end."""
    out: dict[str, Task] = {}

    def add(name: str) -> None:
        if name in run.tasks and name not in out:
            out[name] = run.tasks[name]
            for part in run.members.get(name, ()):
                add(part)

    for task in run.tasks.values():
        if not task.parent:
            add(task.id)
    return [*out.values(), *(t for t in run.tasks.values() if t.id not in out)]


def does(run: Run, task: Task) -> str:
    """Return what runs a task: its tool, its parts, or a person."""
    tool = task.tool or run.tool_of(task.step)
    parts = run.members.get(task.id, ())
    if tool and not parts:
        return tool
    if parts or task.step.for_each is not None or task.step.plan:
        kind = "records" if task.step.for_each is not None else "steps"
        done = sum(run.tasks[p].state is TaskState.DONE for p in parts)
        return f"{done} of {len(parts)} {kind}" if parts else f"no {kind} yet"
    return task.step.description or "a person"
