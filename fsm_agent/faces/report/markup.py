"""HTML and SVG from values: whatever is not markup made here is text, and is escaped.

Text comes from tools, models and people, and may be hostile: it cannot open a tag or an attribute, break a line of
code, turn the reading direction, or hide a character.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from fsm_agent.faces.frame.screen import UNSEEN

_CONTROLS: Final = {c: f"\\x{c:02x}" for c in (*range(9), 11, 12, *range(14, 32), *range(127, 160))}
_TEXT: Final = {**_CONTROLS, **UNSEEN, 13: "\\r", ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}
_QUOTED: Final = {**_TEXT, ord('"'): "&quot;", ord("'"): "&#39;"}
_VOID: Final = frozenset({"meta", "br", "line", "rect", "path", "circle", "polyline", "use"})


class Markup(str):
    """Text that is markup already; made by this module alone."""

    __slots__ = ()


Part = str | int | float | Markup | None
"""What may stand in an element: markup as it is, everything else as text, None as nothing."""


def escape(text: str) -> str:
    """Return *text* as it may stand between tags; control characters are spelled out."""
    return text.translate(_TEXT)


def join(*parts: Part | Iterable[Part]) -> Markup:
    """Return *parts*, one after the other; of an iterable its parts."""
    out: list[str] = []
    for part in parts:
        if isinstance(part, Markup):
            out.append(part)
        elif part is None:
            continue
        elif isinstance(part, str | int | float):
            out.append(escape(str(part)))
        else:
            out.append(join(*part))
    return Markup("".join(out))


def tag(name: str, /, *parts: Part | Iterable[Part], **attributes: Part) -> Markup:
    """Return an element.

    Args:
        name: Its name.
        parts: What stands in it.
        attributes: ``cls`` is ``class``; underscores become hyphens; one that is None is left out.
    """
    said = []
    for key, value in attributes.items():
        if value is not None:
            own = "class" if key == "cls" else key.rstrip("_").replace("_", "-")
            said.append(f' {own}="{_short(value).translate(_QUOTED)}"')
    opening = f"<{name}{''.join(said)}"
    if name in _VOID and not parts:
        return Markup(f"{opening}>" if name in ("meta", "br") else f"{opening}/>")
    return Markup(f"{opening}>{join(*parts)}</{name}>")


def _short(value: Part) -> str:
    """Return an attribute's value; coordinates to a tenth."""
    return f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def table(head: Iterable[Part], rows: Iterable[Iterable[Part]], cls: str = "") -> Markup:
    """Return a table in a box that scrolls sideways by itself."""
    body = [tag("tr", [tag("td", cell) for cell in row]) for row in rows]
    return tag(
        "div",
        tag(
            "table",
            tag("thead", tag("tr", [tag("th", cell, scope="col") for cell in head])),
            tag("tbody", body),
        ),
        cls=f"scroll {cls}".strip(),
    )


def long_table(
    head: Sequence[Part], rows: Sequence[Iterable[Part]], what: str, *, first: int, cls: str = ""
) -> Markup:
    """Return a table of the *first* rows, and the others behind a fold that says how many there are."""
    left = len(rows) - first
    if left <= 0:
        return table(head, rows, cls)
    return join(table(head, rows[:first], cls), fold(f"{left} more {what}", table(head, rows[first:], cls)))


def fold(summary: Part | Iterable[Part], *parts: Part | Iterable[Part], opened: bool = False) -> Markup:
    """Return what is folded behind a line."""
    return tag("details", tag("summary", summary), *parts, open="" if opened else None)


def code(text: str) -> Markup:
    """Return text in the hand of a machine."""
    return tag("code", text)


def shortened(text: str, most: int) -> str:
    """Return *text*, cut to *most* characters with a word of how much was cut."""
    return text if len(text) <= most else f"{text[:most]} … ({len(text) - most} more characters)"
