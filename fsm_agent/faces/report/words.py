"""Small things that every part of a report says in the same way: times, states, links to events, values."""

from typing import Any, Final

from fsm_agent.core import canon
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
