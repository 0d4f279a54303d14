"""``run --watch``: the run as a table that keeps itself up to date, a bar per attempt on one time line, and the budgets.

What is shown is made from the state and from the events told so far; nothing here decides or waits for anything.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final, NamedTuple

from fsm_agent.core.engine.state import Run
from fsm_agent.core.events import Event
from fsm_agent.core.machine import TaskState
from fsm_agent.faces.drive.persons import Progress
from fsm_agent.faces.frame.columns import columns, cut, padded
from fsm_agent.faces.frame.screen import GLYPHS, Screen, duration, safe, short, wrapped
from fsm_agent.runtime.controller import RunController
from fsm_agent.runtime.driving.status import budgets_of, waiting_for
from fsm_agent.runtime.ports import SystemPorts

REFRESH_S: Final = 0.25
"""How often bars of running calls grow, in seconds."""
MOST: Final = 20
"""Of more tasks than this, those that are done or have not begun are counted instead of shown."""
WORDS: Final = 24
"""So many columns are kept for words, where there are any."""
LEAST: Final = 8
"""A bar takes so many columns at least, and words are shown in no fewer."""
_BARS: Final = {"done": "━=", "failed": "✖x", "unknown-result": "?~", "running": "╍-", "cancelled": "⊘x"}


class Span(NamedTuple):
    """An attempt on the time line, in microseconds since the epoch; one that is out has no end."""

    start: int
    end: int | None
    became: str


class Row(NamedTuple):
    """What a line of the table tells of a task, beside its bar."""

    state: str
    task: str
    tries: int
    words: str


class Timeline:
    """When which attempt ran, from the events told so far."""

    def __init__(self) -> None:
        """Begin empty."""
        self.spans: dict[str, list[Span]] = {}
        self.first = 0

    def listen(self, events: Sequence[Event]) -> None:
        """Take *events*."""
        for event in events:
            if event.type != "task_moved" or event.task is None:
                continue
            own = self.spans.setdefault(event.task, [])
            if event.data["trigger"] == "start":
                own.append(Span(event.at, None, "running"))
                self.first = self.first or event.at
            elif own and own[-1].end is None:
                own[-1] = Span(own[-1].start, event.at, event.data["dest"])

    def bar(self, task: str, now: int, width: int, *, unicode: bool) -> str:
        """Return the attempts of *task* between the first start of the run and *now*, in *width* characters."""
        whole = max(1, now - self.first)
        cells = [" "] * width
        for span in self.spans.get(task, ()):
            begin = int((span.start - self.first) * width / whole)
            stop = int(((span.end if span.end is not None else now) - self.first) * width / whole)
            sign = _BARS.get(span.became, "━=")[0 if unicode else 1]
            for at in range(min(begin, width - 1), min(max(stop, begin + 1), width)):
                cells[at] = sign
        return "".join(cells)


def rows(run: Run) -> list[Row]:
    """Return what the table shows: every task, or of many those that matter now."""
    tasks = list(run.tasks.values())
    left_out = ""
    if len(tasks) > MOST:
        busy = [t for t in tasks if t.state not in (TaskState.DONE, TaskState.PENDING, TaskState.CANCELLED)]
        left_out = f"{len(tasks) - len(busy[:MOST])} more: {run.counts[TaskState.DONE]} done, "
        left_out += f"{run.counts[TaskState.PENDING]} pending"
        tasks = busy[:MOST]
    found = [
        Row(t.state.value, t.id, t.attempt, t.reason if t.state is not TaskState.DONE else "") for t in tasks
    ]
    return [*found, Row("", "...", 0, left_out)] if left_out else found


def table(run: Run, line: Timeline, now: int, *, width: int, unicode: bool) -> Iterator[str]:
    """Yield the lines that are shown, none wider than *width* columns: what does not fit is cut at the end of a line.

    Bars and words share what the other columns leave; words get it first, up to :data:`WORDS` columns.
    """
    found = rows(run)
    task = max(len("task"), *(min(20, columns(safe(row.task))) for row in found))
    state = max(len("state"), *(len(row.state) for row in found))
    left = width - len("?   ") - task - len("    tries  ") - state
    words = min(WORDS, max(columns(safe(row.words)) for row in found))
    bar = max(LEAST, min(width // 3, left - words - 2))
    yield short(f"run {run.id}: {run.state.value}", width)
    yield cut(f"  {padded('task', task)}  {padded('state', state)}  tries  time", width)
    for row in found:
        sign = GLYPHS[row.state][0 if unicode else 1] if row.state else " "
        head = (
            f"{sign} {padded(short(row.task, 20), task)}  {padded(row.state, state)}  {row.tries or '':<5}  "
        )
        head += line.bar(row.task, now, bar, unicode=unicode)
        room = width - columns(head) - 2
        yield cut(f"{head}  {short(row.words, room)}" if room > LEAST else head, width).rstrip()
    yield from wrapped("", footer(run, line, now), width)


def footer(run: Run, line: Timeline, now: int) -> str:
    """Return the line below the table: time, budgets, and what is waited for."""
    parts = [duration(max(0, now - line.first) / 1_000_000) if line.first else "not begun"]
    for name, amounts in budgets_of(run).items():
        if "left" in amounts:
            parts.append(f"{name} {amounts['used']:g} ({amounts['left']:g} left)")
    waits = waiting_for(run)
    return " | ".join([*parts, *([f"waits: {waits}"] if waits else [])])


class Watch(Progress):
    """Shows the table instead of telling of events."""

    def __init__(self, screen: Screen) -> None:
        """Show on stderr.

        Raises:
            ModuleNotFoundError: The extra ``cli`` is not installed.
        """
        from rich.console import Console
        from rich.live import Live

        super().__init__(lambda _: None)
        self._screen = screen
        self._line = Timeline()
        self._controller: RunController | None = None
        console = Console(
            file=screen.err,
            width=screen.width,
            no_color=not screen.colour,
            legacy_windows=False,
            highlight=False,
        )
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def listen(self, events: Sequence[Event]) -> None:
        """Take *events*; the table follows."""
        self._line.listen(events)
        self._show()

    @asynccontextmanager
    async def shown(self, controller: RunController) -> AsyncIterator[None]:
        """Show *controller*'s run for as long as the context lasts, and how it ended after it."""
        self._controller = controller
        self._live.start()
        task = asyncio.get_running_loop().create_task(self._keep(), name="watch")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._show()
            self._live.stop()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Step aside while somebody is asked something."""
        shown = self._live.is_started
        if shown:
            self._live.stop()
        try:
            yield
        finally:
            if shown:
                self._live.start()
                self._show()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            self._show()

    def _show(self) -> None:
        if self._controller is None or not self._live.is_started:
            return
        from rich.text import Text

        screen, now = self._screen, SystemPorts().now_us()
        lines = table(self._controller.run, self._line, now, width=screen.width, unicode=screen.unicode)
        shown = Text("\n".join(map(screen.fit, lines)), no_wrap=True, overflow="crop")
        self._live.update(shown, refresh=True)
