"""What ``why`` answers: values alone, and how they are told.

They are apart from what finds them, so that a name in a signature brings no analysis along.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from fsm_agent.core.engine.records import RUN


@attrs.frozen(kw_only=True)
class Link:
    """An event of a causal chain: its number, and what it says in a sentence."""

    seq: int
    words: str


@attrs.frozen(kw_only=True)
class Near:
    """A row that could have answered there and did not.

    Attributes:
        row: Its id.
        where: Table and line.
        decide: What it decides.
        missed: Its conditions that did not hold, each with the fact; empty for a row of a lower tier that fits.
    """

    row: str
    where: str
    decide: str
    missed: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Otherwise:
    """One fact that alone would have led to another decision.

    Attributes:
        fact: Its name.
        was: Its value.
        values: What it would have to be, in words, such as ``>= 1``.
        decide: The decision then.
        row: The row that makes it.
    """

    fact: str
    was: str | int
    values: str
    decide: str
    row: str


@attrs.frozen(kw_only=True)
class Explained:
    """A decision, explained.

    Attributes:
        seq: Of the decision.
        at: When, UTC epoch in microseconds.
        task: Whose state fired; None for the run.
        state: That state.
        signal: What fired.
        decide: What was decided.
        rule: Id of the row; of a row that the plan has for its step, ``plan:STEP.on_failure.SIGNAL``.
        where: Table and line of the row, such as ``default:41``; the plan for its own row.
        why: The row's words.
        reason: As logged: the row's words with the case's own.
        facts: The facts that rows look at there, with their values then.
        near: Rows that nearly answered, the nearest first.
        otherwise: Single facts that would have changed the decision.
    """

    seq: int
    at: int
    task: str | None
    state: str
    signal: str
    decide: str
    rule: str
    where: str
    why: str
    reason: str
    facts: Mapping[str, str | int]
    near: tuple[Near, ...]
    otherwise: tuple[Otherwise, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return attrs.asdict(self)

    def __str__(self) -> str:
        """For people, in lines."""
        return "\n".join(lines_of(self))


@attrs.frozen(kw_only=True, repr=False)
class Why:
    """Why a task, the run, or an event is what it is.

    Attributes:
        run: The run.
        subject: A task's id, ``run``, or ``event N``.
        state: Of the task or the run at the end of the log; for an event, its type.
        reason: In words, as the log has it; may be empty.
        waits: What it waits for; empty for nothing.
        commands: What moves it on, ready to be typed.
        decision: The last decision about it, or the one that the event is or follows from; None if there is none.
        chain: What led to the last move, or to the event, oldest first.
        changes: What the changes of the plan that concern it meant, for an end user, oldest first; of an event that
            is such a change, this one's.
    """

    run: str
    subject: str
    state: str
    reason: str
    waits: str
    commands: tuple[str, ...]
    decision: Explained | None
    chain: tuple[Link, ...]
    changes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form, schema ``fsm-agent/why@1``."""
        return {"schema": "fsm-agent/why@1", **attrs.asdict(self)}

    def __repr__(self) -> str:
        """One line."""
        by = f", {self.decision.decide} by row {self.decision.rule}" if self.decision is not None else ""
        return f"<why {self.subject} of run {self.run}: {self.state}{by}>"

    def _repr_html_(self) -> str:
        from html import escape  # only a notebook needs it

        rows = [("state", self.state), ("reason", self.reason), ("waiting for", self.waits)]
        if self.decision is not None:
            by = f"{self.decision.decide} by row {self.decision.rule} ({self.decision.where})"
            rows += [("decided", by), ("because", self.decision.reason)]
        rows += [("then", f"{link.seq}: {link.words}") for link in self.chain]
        cells = "".join(f"<tr><th>{what}</th><td>{escape(words)}</td></tr>" for what, words in rows if words)
        return f"<p>{escape(repr(self))}</p><table>{cells}</table>"


def lines_of(decision: Explained) -> list[str]:
    """Return a decision for people: one thing per line."""
    who = decision.task if decision.task is not None else RUN
    lines = [
        f"event {decision.seq}: {who} is {decision.state}, {decision.signal} → {decision.decide}",
        f"  row {decision.rule} ({decision.where})",
        f"  because {decision.reason}",
    ]
    if decision.facts:
        lines.append("  facts: " + ", ".join(f"{name} {value}" for name, value in decision.facts.items()))
    for near in decision.near:
        missed = "; ".join(near.missed) or "it fits, and stands in a lower tier"
        lines.append(f"  not {near.row} ({near.where}), which decides {near.decide}: {missed}")
    for other in decision.otherwise:
        lines.append(
            f"  if {other.fact} were {other.values} (it was {other.was}): {other.decide} ({other.row})"
        )
    return lines
