"""The time line: a row per task, a bar per attempt, and what was waited for; a table beside it says the same in words."""

from collections.abc import Iterator, Sequence
from typing import Final

from fsm_agent.core.engine.records import RUN
from fsm_agent.core.replay.bars import Bar, rows
from fsm_agent.core.replay.story import Story
from fsm_agent.faces.frame.screen import duration
from fsm_agent.faces.report.markup import Markup, fold, join, shortened, table, tag
from fsm_agent.faces.report.scale import Scale
from fsm_agent.faces.report.words import clock, event_link, in_order

MOST_ROWS: Final = 60
"""Of more tasks only the first so many get a row in the picture; the table has all."""
WIDTH: Final = 1080.0
LABEL: Final = 168.0
ROW: Final = 26.0
TOP: Final = 34.0
_LETTERS: Final = 22

LEGEND: Final = (
    ("call done", "a call that succeeded"),
    ("call failed", "that failed"),
    ("call unknown-result", "that gave no answer"),
    ("unknown", "its result is unknown"),
    ("probe", "it is looked up"),
    ("person", "a person is asked"),
    ("backoff", "waits before the next try"),
    ("replan", "another plan is wanted"),
    ("cooldown", "the replan cools down"),
)


def gantt(told: Story) -> Markup:
    """Return the picture with its legend, and the table behind a fold."""
    tasks = tuple(task.id for task in in_order(told.run))
    found = list(rows(told.bars, tasks))
    shown = found[:MOST_ROWS]
    left = len(found) - len(shown)
    note = tag("p", f"{left} more rows are in the table below.", cls="note") if left else None
    return join(_picture(told, shown), _legend(told.bars), note, _table(told))


def _picture(told: Story, shown: Sequence[tuple[str, tuple[Bar, ...]]]) -> Markup:
    events = told.log.events
    times = [events[0].at, events[-1].at]
    times += [t for _, bars in shown for bar in bars for t in (bar.start, min(bar.end, events[-1].at))]
    times += [mark.at for mark in told.marks]
    scale = Scale(times, LABEL, WIDTH - LABEL - 14)
    height = TOP + ROW * len(shown) + 10
    return tag(
        "div",
        tag(
            "svg",
            tag("title", "Time line: one row per task, one bar per attempt"),
            _patterns(),
            _grid(scale, shown, height),
            [_row(scale, i, name, bars) for i, (name, bars) in enumerate(shown)],
            _marks(told, scale, height),
            viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
            role="img",
            cls="gantt",
        ),
        cls="scroll chart",
    )


def _patterns() -> Markup:
    def hatch(name: str) -> Markup:
        stripe = tag("path", d="M-2,2 l4,-4 M0,8 l8,-8 M6,10 l4,-4", cls=f"stripe {name}")
        return tag(
            "pattern",
            tag("rect", width=8, height=8, cls=f"ground {name}"),
            stripe,
            id=f"hatch-{name}",
            width=8,
            height=8,
            patternUnits="userSpaceOnUse",
        )

    return tag("defs", hatch("unknown"), hatch("cooldown"))


def _grid(scale: Scale, shown: Sequence[tuple[str, tuple[Bar, ...]]], height: float) -> Markup:
    out: list[Markup] = []
    for i in range(0, len(shown), 2):
        out.append(tag("rect", x=0, y=TOP + i * ROW, width=WIDTH, height=ROW, cls="band"))
    for place, since in scale.ticks():
        out.append(tag("line", x1=place, y1=TOP - 6, x2=place, y2=height - 10, cls="tick"))
        out.append(tag("text", _since(since, scale.step), x=place, y=16, cls="axis"))
    for gap in scale.gaps:
        wide = gap.right - gap.left
        out.append(tag("rect", x=gap.left, y=TOP - 6, width=wide, height=height - TOP - 4, cls="gap"))
        middle = (gap.left + gap.right) / 2
        out.append(tag("text", duration(gap.lasts_us / 1e6), x=middle, y=28, cls="axis gapword"))
    return join(out)


def _since(us: int, step: int) -> str:
    """Return a time since the start as finely as the ticks are apart."""
    if not us:
        return "0"
    return f"+{us / 1000:g} ms" if step < 1_000_000 else f"+{duration(us / 1e6)}"


def _row(scale: Scale, index: int, name: str, bars: Sequence[Bar]) -> Markup:
    top = TOP + index * ROW
    label = "whole run" if name == RUN else name
    ordered = sorted(bars, key=lambda bar: (_LAYER[bar.kind], bar.start))
    return tag(
        "g",
        tag("text", shortened_id(label), tag("title", label), x=LABEL - 10, y=top + 17, cls="label"),
        [_bar(scale, top, bar) for bar in ordered],
    )


_LAYER: Final = {
    kind: i for i, kind in enumerate(("cooldown", "replan", "person", "backoff", "unknown", "call", "probe"))
}
_SHAPE: Final = {"probe": (8.0, 10.0), "backoff": (10.0, 6.0), "replan": (6.0, 14.0), "cooldown": (6.0, 14.0)}


def _bar(scale: Scale, top: float, bar: Bar) -> Markup:
    left, right = scale.x(bar.start), scale.x(bar.end)
    above, high = _SHAPE.get(bar.kind, (5.0, 16.0))
    state = f" {bar.outcome}" if bar.kind == "call" and bar.outcome else ""
    openly = " open" if bar.until is None else ""
    return tag(
        "a",
        tag(
            "rect",
            tag("title", words_of(bar)),
            x=left,
            y=top + above,
            width=max(2.5, right - left),
            height=high,
            rx=2.5,
            cls=f"bar {bar.kind}{state}{openly}",
        ),
        href=f"#e{bar.seq}",
    )


def words_of(bar: Bar) -> str:
    """Return what a bar stands for."""
    lasted = duration((bar.end - bar.start) / 1e6)
    ended = f" → {bar.outcome}" if bar.outcome else " (still so)" if bar.until is None else ""
    return f"{bar.task}: {bar.words}{ended}, {lasted}"


def _marks(told: Story, scale: Scale, height: float) -> Markup:
    kinds = ("plan_adopted", "owner_changed", "run_asked", "input_changed")
    marks = [m for m in told.marks if m.kind in kinds and m.seq > 2]
    return join(
        tag(
            "g",
            tag("title", mark.words),
            tag("line", x1=x, y1=TOP - 8, x2=x, y2=height - 10, cls=f"mark {mark.kind}"),
            tag("path", d=f"M{x - 4:.1f},{TOP - 12:.1f} h8 l-4,7 z", cls=f"flag {mark.kind}"),
        )
        for mark in marks
        for x in (scale.x(mark.at),)
    )


def _legend(bars: Sequence[Bar]) -> Markup:
    there = {f"{bar.kind} {bar.outcome}" if bar.kind == "call" else bar.kind for bar in bars}
    return tag(
        "ul",
        [tag("li", tag("span", cls=f"swatch {kind}"), words) for kind, words in LEGEND if kind in there],
        cls="legend",
    )


def _table(told: Story) -> Markup:
    start = told.log.events[0].at
    head = ("from", "lasted", "task", "what", "ended as", "events")
    return fold(
        f"The same as a table ({len(told.bars)} rows)", table(head, _cells(told.bars, start), cls="dense")
    )


def _cells(bars: Sequence[Bar], start: int) -> Iterator[tuple[Markup | str, ...]]:
    for bar in bars:
        until = event_link(bar.until) if bar.until is not None else "still so"
        yield (
            clock(bar.start, start),
            duration((bar.end - bar.start) / 1e6),
            "run" if bar.task == RUN else bar.task,
            bar.words,
            bar.outcome,
            join(event_link(bar.seq), " – ", until),
        )


def shortened_id(text: str) -> str:
    """Return a task's id as long as the label column takes it."""
    return text if len(text) <= _LETTERS else f"{shortened(text, _LETTERS - 1).split(' … (')[0]}…"
