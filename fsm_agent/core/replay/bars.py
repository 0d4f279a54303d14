"""What lasted how long in a run: calls, unknown results, waits for people, back-offs, replans with their cool-downs.

One pass over the log; a bar that is still open at its end says so.
"""

from collections.abc import Iterator
from typing import Final

import attrs

from fsm_agent.core.engine.records import RUN
from fsm_agent.core.events import Event

KINDS: Final = ("call", "unknown", "probe", "person", "backoff", "cooldown", "replan")
"""What a bar can be, in the order in which they are drawn upon each other."""


@attrs.frozen(kw_only=True)
class Bar:
    """Something that lasted.

    Attributes:
        task: Whose row it stands in; ``run`` for the run as a whole.
        kind: One of :data:`KINDS`.
        start: UTC epoch in microseconds.
        end: The same; for one that is open, the time of the last event.
        seq: Of the event that began it.
        until: Of the event that ended it; None while it is open.
        words: What it is, for people.
        outcome: How it ended: a state, a verdict, or empty.
    """

    task: str
    kind: str
    start: int
    end: int
    seq: int
    until: int | None
    words: str
    outcome: str = ""


@attrs.frozen(kw_only=True)
class Mark:
    """Something that happened at one moment to the run as a whole: a plan, a wish, an owner, an input."""

    at: int
    seq: int
    kind: str
    words: str


class Bars:
    """The bars and marks of a log in the making.

    Attributes:
        marks: What happened at one moment, oldest first.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.marks: list[Mark] = []
        self._done: list[Bar] = []
        self._open: dict[tuple[str, str], Bar] = {}
        self._last = 0

    def add(self, event: Event) -> None:
        """Take in the next event."""
        name = event.task or RUN
        self._last = event.at
        match event.type:
            case "task_moved":
                self._moved(event, name)
            case "approval_requested":
                self._close("person", name, event, "asked anew")
                self._begin("person", name, event, f"asks a person ({event.data['kind']})")
            case "approval_answered":
                if event.data["verdict"] not in ("approved", "edited"):
                    self._close("person", name, event, event.data["verdict"])
                elif event.data["verdict"] == "approved":
                    self._approved(name)
            case "probe_sent":
                self._begin("probe", name, event, "is looked up")
            case "reconciled":
                self._close("probe", name, event, event.data["verdict"])
            case "replan_requested":
                self._replan(event, name)
            case "replan_refused" if event.data.get("ended"):
                self._close("replan", name, event, event.data["gate"])
            case "run_moved":
                self._mark(
                    event, f"run {event.data['source']} → {event.data['dest']}: {event.data['reason']}"
                )
            case "plan_adopted":
                self._adopted(event)
            case "owner_changed":
                self._mark(event, f"another owner: {event.data['owner']}")
            case "run_asked":
                self._mark(event, f"asked to {event.data['wish']}")
            case "input_changed" | "budget_changed":
                self._mark(event, event.type.replace("_", " "))
            case "run_closed":
                for kind, task in list(self._open):
                    if kind in ("person", "replan"):
                        self._close(kind, task, event, "the run ended")

    def told(self) -> tuple[Bar, ...]:
        """Return the bars so far, in order of their beginnings; open ones end at the last event."""
        left = [attrs.evolve(bar, end=max(bar.start, self._last)) for bar in self._open.values()]
        return tuple(
            sorted((*self._done, *left), key=lambda bar: (bar.start, bar.seq, KINDS.index(bar.kind)))
        )

    def _moved(self, event: Event, name: str) -> None:
        data = event.data
        trigger, source, dest = data["trigger"], data["source"], data["dest"]
        if source == "running":
            self._close("call", name, event, dest)
        elif source == "unknown-result":
            self._close("unknown", name, event, dest)
            self._close("probe", name, event, dest)
        self._close("backoff", name, event, dest)
        self._close("person", name, event, dest)
        if dest == "running":
            self._begin("call", name, event, f"{data['tool']}, attempt {data['attempt']}")
        elif dest == "unknown-result":
            self._begin("unknown", name, event, "its result is unknown")
        elif trigger == "retry" and data["delay_ms"] > 1:
            self._begin("backoff", name, event, f"waits {data['delay_ms']} ms before its next try")

    def _approved(self, name: str) -> None:
        """One of several yeses leaves the question open; the last one moves the task, which ends it."""
        self._open["person", name] = attrs.evolve(self._open["person", name], outcome="approved")

    def _replan(self, event: Event, name: str) -> None:
        if ("replan", name) not in self._open:
            self._begin("replan", name, event, f"another plan is wanted ({event.data['trigger']})")
        wait = event.data["not_before"]
        if wait > event.at + 1:
            words = "the replan cools down"
            bar = self._bar("cooldown", name, event, words)
            self._done.append(attrs.evolve(bar, end=wait, until=event.seq))

    def _adopted(self, event: Event) -> None:
        data = event.data
        for kind, task in list(self._open):
            if kind == "replan" and data.get("answers", RUN) in (task, RUN):
                self._close(kind, task, event, f"plan {data['plan_version']}")
        self._mark(event, f"plan {data['plan_version']} ({data['origin']})")

    def _mark(self, event: Event, words: str) -> None:
        self.marks.append(Mark(at=event.at, seq=event.seq, kind=event.type, words=words))

    def _bar(self, kind: str, name: str, event: Event, words: str) -> Bar:
        return Bar(task=name, kind=kind, start=event.at, end=event.at, seq=event.seq, until=None, words=words)

    def _begin(self, kind: str, name: str, event: Event, words: str) -> None:
        self._open[kind, name] = self._bar(kind, name, event, words)

    def _close(self, kind: str, name: str, event: Event, outcome: str) -> None:
        bar = self._open.pop((kind, name), None)
        if bar is not None:
            said = bar.outcome or outcome
            self._done.append(attrs.evolve(bar, end=event.at, until=event.seq, outcome=said))


def rows(bars: tuple[Bar, ...], tasks: tuple[str, ...]) -> Iterator[tuple[str, tuple[Bar, ...]]]:
    """Yield (task, its bars) for the run, if it has any, and then for every task in the order given."""
    by_task: dict[str, list[Bar]] = {}
    for bar in bars:
        by_task.setdefault(bar.task, []).append(bar)
    for name in (RUN, *tasks):
        own = tuple(by_task.get(name, ()))
        if own or name != RUN:
            yield name, own
