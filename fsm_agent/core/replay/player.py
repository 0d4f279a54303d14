"""A log that can be stepped through, forth and back: the state at any event, and stops where something happens.

A state is only ever the fold of the events before it, so going back folds anew from the first event; nothing is
undone, and nothing that is shown can differ from what a replay to that place would show.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import attrs

from fsm_agent.core.audit.replay import take, verified
from fsm_agent.core.engine.records import RUN
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import CorruptError, NotFoundError, UsageError
from fsm_agent.core.events import Event, Head, Record, from_body, genesis, hydrate
from fsm_agent.core.signals import Decision, Signal


@attrs.frozen(kw_only=True)
class Break:
    """Where to stop: at an event that fits everything that is named.

    Attributes:
        task: Of this task (or ``run``, for the run as a whole).
        signal: That carries this signal: an outcome, a decision, a question.
        decision: That decides this; ``replan`` stands for both scopes.
    """

    task: str | None = None
    signal: str | None = None
    decision: str | None = None

    def fits(self, event: Event) -> bool:
        """Whether *event* is such a place."""
        if self.task is not None and (event.task or RUN) != self.task:
            return False
        if self.signal is not None and self.signal not in signals_of(event):
            return False
        if self.decision is None:
            return True
        decided = str(event.data.get("decide", "")) if event.type == "decided" else ""
        return decided == self.decision or (self.decision == "replan" and decided.startswith("replan-"))


_DECISIONS = (*(d.value for d in Decision), "replan")
_SIGNALS = tuple(s.value for s in Signal)


def breaking(text: str) -> Break:
    """Read ``task=T6``, ``signal=outcome_unknown`` or ``decision=retry``; several are joined by commas.

    Raises:
        UsageError: It is none, or names a signal or a decision that there is not.
    """
    given: dict[str, str] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        name, value = name.strip(), value.strip()
        if name not in ("task", "signal", "decision") or not value:
            raise UsageError(f"break {text[:60]!r}: write task=ID, signal=NAME or decision=NAME")
        known = {"signal": _SIGNALS, "decision": _DECISIONS}.get(name, (value,))
        if value not in known:
            raise UsageError(f"break {text[:60]!r}: there is no {name} {value}; there are {', '.join(known)}")
        given[name] = value
    return Break(**given)


def signals_of(event: Event) -> tuple[str, ...]:
    """Return the signals that *event* carries, the final one first."""
    data = event.data
    outcome = data.get("outcome")
    inner = outcome.get("signal") if isinstance(outcome, dict) else None
    own = (
        data.get("signal") or data.get("trigger") if event.type == "replan_requested" else data.get("signal")
    )
    success = "success" if event.type == "task_moved" and data["trigger"] in ("succeed", "answer") else None
    return tuple(dict.fromkeys(str(s) for s in (own, inner, success) if s is not None))


class Moment(NamedTuple):
    """One step of a replay: an event, and the state right after it. The state goes on changing with the replay."""

    event: Event
    run: Run


class Replay:
    """A run's log with a place in it. Iterating steps forward from there, one event at a time.

    Attributes:
        run: The state at the place; read it, never change it.
        events: The whole log, large values put back.
        heads: Where the log ends before its first event and after each.
    """

    def __init__(
        self, run: str, records: Iterable[Record], blob: Callable[[str], bytes], *, until: int | None = None
    ) -> None:
        """Read a log and stand before its first event.

        Args:
            run: The run's id.
            records: From seq 1 on; the chain is verified.
            blob: Returns a large value's canonical bytes by digest.
            until: Nothing after this event is read.

        Raises:
            CorruptError: The log is not what was written.
        """
        self.id = run
        self.heads = [genesis(run)]
        events: list[Event] = []
        for record in verified(run, records):
            if until is not None and record.seq > until:
                break
            event = from_body(record.body)
            if event.seq != record.seq:
                raise CorruptError(
                    f"log of {run}: the body of event {record.seq} says seq {event.seq}", seq=record.seq
                )
            events.append(hydrate(event, blob))
            self.heads.append(Head(record.seq, record.hash))
        self.events: tuple[Event, ...] = tuple(events)
        self.run = Run(run)

    @property
    def seq(self) -> int:
        """Number of the event at the place; 0 before the first."""
        return self.run.seq

    @property
    def last(self) -> int:
        """Number of the last event of the log."""
        return len(self.events)

    @property
    def head(self) -> Head:
        """Seq and hash of the event at the place."""
        return self.heads[self.run.seq]

    @property
    def event(self) -> Event | None:
        """The event at the place; None before the first."""
        return self.events[self.run.seq - 1] if self.run.seq else None

    def at(self, seq: int) -> Run:
        """Go to event *seq* (0: before the first) and return the state right after it.

        Raises:
            NotFoundError: The log has no such event.
        """
        if not 0 <= seq <= self.last:
            raise NotFoundError(f"event {seq}: the log of run {self.id} has events 1 to {self.last}")
        if seq < self.run.seq:
            self.run = Run(self.id)
        for event in self.events[self.run.seq : seq]:
            take(self.run, event)
        return self.run

    def end(self) -> Run:
        """Go to the last event and return the state after it."""
        return self.at(self.last)

    def forward(self, steps: int = 1) -> Run:
        """Go so many events on, at most to the last, and return the state there."""
        return self.at(min(self.last, self.run.seq + steps))

    def back(self, steps: int = 1) -> Run:
        """Go so many events back, at most before the first, and return the state there."""
        return self.at(max(0, self.run.seq - steps))

    def to(self, *places: Break, back: bool = False) -> Event | None:
        """Go to the next event (or with *back* the last one before) that fits any of *places*, and return it.

        Returns:
            The event; None if there is none, and then the place stays.
        """
        here = self.run.seq
        ahead = reversed(self.events[: max(0, here - 1)]) if back else iter(self.events[here:])
        found = next((e for e in ahead if any(place.fits(e) for place in places)), None)
        if found is not None:
            self.at(found.seq)
        return found

    def __iter__(self) -> Iterator[Moment]:
        """Step forward from the place to the end; the place moves along."""
        while self.run.seq < self.last:
            self.forward()
            yield Moment(self.events[self.run.seq - 1], self.run)

    def __len__(self) -> int:
        """How many events there are."""
        return self.last

    def __repr__(self) -> str:
        """One line."""
        return f"<replay of {self.id}: at event {self.seq} of {self.last}, {self.run.state.value}>"
