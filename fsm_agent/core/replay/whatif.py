"""What if another table had decided: proved on the tables first, then shown on every decision that a log has.

Pointwise: at each recorded decision the state is what it was, and the other table is asked instead; that is exact, for
one step. Along a run that holds only until the first decision that differs: what the world would have answered to
another decision stands in no log. So everything behind it is marked, and nothing here says how a run would have ended.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from fsm_agent.core.audit.replay import take
from fsm_agent.core.engine import derived
from fsm_agent.core.engine.policy import rule_on
from fsm_agent.core.engine.records import RUN, Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import CorruptError
from fsm_agent.core.events import Event
from fsm_agent.core.replay.costs import NOTHING, Cost, costs
from fsm_agent.core.rules.diff import Region, diff
from fsm_agent.core.rules.rows import Delay
from fsm_agent.core.rules.table import Table
from fsm_agent.core.signals import Signal

POINTWISE: Final = frozenset({"retries", "reconciles", "local_replans", "global_replans", "repeat_threshold"})
"""Thresholds whose whole effect shows at recorded decisions; another value of any other raises signals elsewhere."""


@attrs.frozen(kw_only=True)
class Param:
    """A threshold that differs. ``seen``: its effect shows at recorded decisions; else it would raise signals elsewhere."""

    name: str
    old: int | float
    new: int | float
    seen: bool


@attrs.frozen(kw_only=True)
class Static:
    """What the two tables have of each other, whatever happens.

    Attributes:
        old: Name of the table of the logs.
        old_digest: Its digest.
        new: Name of the other table.
        new_digest: Its digest.
        regions: Where they decide differently, exactly.
        params: Thresholds that differ.
        runs: The runs whose table it is.
    """

    old: str
    old_digest: str
    new: str
    new_digest: str
    regions: tuple[Region, ...]
    params: tuple[Param, ...]
    runs: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether nothing can differ at all."""
        return not self.regions and not self.params


@attrs.frozen(kw_only=True)
class Answer:
    """What a table says at a place: the signal as it names it, the decision, the row, its delay policy."""

    signal: str
    decide: str
    rule: str
    delay: str = ""


@attrs.frozen(kw_only=True)
class Redecided:
    """A recorded decision, and what the other table says there.

    Attributes:
        run: The run.
        seq: Of the decision.
        task: Whose state fired, or ``run``.
        state: That state.
        old: As recorded.
        new: What the other table says.
        differs: ``decision``, ``delay`` (the same decision, another wait), ``row`` (the same, by another row) or empty.
        conditional: An earlier decision about the same task differs, so with the other table this place might not have
            been reached.
        cost: What followed in the log, until the next decision about the same task.
    """

    run: str
    seq: int
    task: str
    state: str
    old: Answer
    new: Answer
    differs: str
    conditional: bool
    cost: Cost


@attrs.frozen(kw_only=True)
class Trajectory:
    """How far a task goes the same way under both tables.

    Attributes:
        run: The run.
        task: The task, or ``run``.
        decisions: How many decisions it has in the log.
        same: How many of them come before the first that differs.
        until: Seq of that first one; None if none differs, and then the whole way is the same.
    """

    run: str
    task: str
    decisions: int
    same: int
    until: int | None


@attrs.frozen(kw_only=True)
class Cell:
    """A field of the matrix: how often *old* was decided where the other table says *new*, and what followed in the logs."""

    old: str
    new: str
    times: int
    cost: Cost


@attrs.frozen(kw_only=True)
class Looked:
    """A log that was looked at.

    Attributes:
        run: The run.
        events: How many it has.
        decisions: How many of them are decisions.
        differ: At how many of those the other table decides otherwise, or waits otherwise.
        until: Seq of the first of these; up to there the whole run is the same under both. None: to its end.
    """

    run: str
    events: int
    decisions: int
    differ: int
    until: int | None


@attrs.frozen(kw_only=True, repr=False)
class WhatIf:
    """The same logs under another table.

    Attributes:
        static: The tables compared, one entry for each table that the logs have.
        logs: What was looked at.
        decisions: Every recorded decision, in order, run by run.
        trajectories: How far each task goes the same way.
    """

    static: tuple[Static, ...]
    logs: tuple[Looked, ...]
    decisions: tuple[Redecided, ...]
    trajectories: tuple[Trajectory, ...]

    @property
    def matrix(self) -> tuple[Cell, ...]:
        """Old × new over all logs, the most frequent first; equal decisions stand on its diagonal."""
        cells: dict[tuple[str, str], Cell] = {}
        for one in self.decisions:
            key = (one.old.decide, one.new.decide)
            before = cells.get(key, Cell(old=key[0], new=key[1], times=0, cost=NOTHING))
            cells[key] = attrs.evolve(before, times=before.times + 1, cost=before.cost + one.cost)
        return tuple(sorted(cells.values(), key=lambda c: (c.old == c.new, -c.times, c.old, c.new)))

    @property
    def totals(self) -> Mapping[str, tuple[int, int]]:
        """How often each decision was made, and how often the other table says it at the same places."""
        names = dict.fromkeys(d for one in self.decisions for d in (one.old.decide, one.new.decide))
        return {
            name: (
                sum(one.old.decide == name for one in self.decisions),
                sum(one.new.decide == name for one in self.decisions),
            )
            for name in sorted(names)
        }

    @property
    def differing(self) -> tuple[Redecided, ...]:
        """The decisions where another one, or another wait, follows."""
        return tuple(one for one in self.decisions if one.differs in ("decision", "delay"))

    def __repr__(self) -> str:
        """One line."""
        names = ", ".join(dict.fromkeys(one.new for one in self.static)) or "no table"
        differ = f"{len(self.differing)} of {len(self.decisions)} decisions differ"
        return f"<what if {names} had decided {len(self.logs)} logs: {differ}>"


def what_if(logs: Iterable[tuple[str, Sequence[Event]]], table: Table) -> WhatIf:
    """Return what *table* would have decided at every decision of *logs*.

    Args:
        logs: Run id and events, from the first on, large values put back.
        table: The other table; a sound one answers everywhere.

    Raises:
        CorruptError: A log does not begin with ``run_created``.
        RulesError: *table* has no answer somewhere.
    """
    decided: list[Redecided] = []
    looked: list[Looked] = []
    trajectories: list[Trajectory] = []
    tables: dict[str, tuple[Table, list[str]]] = {}
    for run, events in logs:
        own, found = _redecide(run, events, table)
        tables.setdefault(own.digest, (own, []))[1].append(run)
        decided += found
        trajectories += _trajectories(run, found)
        differ = [one.seq for one in found if one.differs in ("decision", "delay")]
        looked.append(
            Looked(
                run=run,
                events=len(events),
                decisions=len(found),
                differ=len(differ),
                until=min(differ, default=None),
            )
        )
    return WhatIf(
        static=tuple(static(own, table, tuple(runs)) for own, runs in tables.values()),
        logs=tuple(looked),
        decisions=tuple(decided),
        trajectories=tuple(trajectories),
    )


def static(old: Table, new: Table, runs: tuple[str, ...] = ()) -> Static:
    """Return what two tables have of each other, with no log in sight.

    Raises:
        RulesError: They are too intricate to be compared.
    """
    names = dict.fromkeys((*old.params, *new.params))
    params = [
        Param(name=name, old=old.params[name], new=new.params[name], seen=name in POINTWISE)
        for name in names
        if name in old.params and name in new.params and old.params[name] != new.params[name]
    ]
    return Static(
        old=old.name,
        old_digest=old.digest,
        new=new.name,
        new_digest=new.digest,
        regions=tuple(diff(old, new)),
        params=tuple(params),
        runs=runs,
    )


def _redecide(run: str, events: Sequence[Event], table: Table) -> tuple[Table, list[Redecided]]:
    if not events or events[0].type != "run_created":
        raise CorruptError(f"log of {run}: it does not begin with run_created, which brings the table", seq=1)
    state = Run(run)
    spent = costs(events)
    raw: dict[str, str] = {}
    differed: set[str] = set()
    found: list[Redecided] = []
    for event in events:
        if event.type == "decided":
            one = _one(state, event, table, raw, spent[event.seq])
            one = attrs.evolve(one, conditional=one.task in differed)
            if one.differs in ("decision", "delay"):
                differed.add(one.task)
            found.append(one)
        take(state, event)
        _note_signal(raw, event)
    return state.rules, found


def _note_signal(raw: dict[str, str], event: Event) -> None:
    """Remember what a move or a verdict signals, before any threshold made something else of it."""
    data, name = event.data, event.task or RUN
    if event.type == "task_moved":
        success = data["trigger"] in ("succeed", "answer")
        raw[name] = "success" if success else str(data.get("signal", raw.get(name, "")))
    elif event.type == "reconciled" and data["verdict"] == "inconclusive":
        raw[name] = Signal.RECONCILE_INCONCLUSIVE.value


def _one(run: Run, event: Event, table: Table, raw: Mapping[str, str], cost: Cost) -> Redecided:
    data, old_table = event.data, run.rules
    task = run.tasks[event.task] if event.task is not None else None
    place = ("task" if task is not None else "run", str(data["state"]), str(data["signal"]))
    row = next((r for r in old_table.place(*place) if r.id == data["rule"]), None)
    old = Answer(
        signal=str(data["signal"]),
        decide=str(data["decide"]),
        rule=str(data["rule"]),
        delay=_delay(old_table, row.delay if row is not None else None),
    )
    new = _asked(run, task, event, table, raw)
    return Redecided(
        run=run.id,
        seq=event.seq,
        task=event.task or RUN,
        state=str(data["state"]),
        old=old,
        new=new,
        differs=_differs(old, new),
        conditional=False,
        cost=cost,
    )


def _asked(run: Run, task: Task | None, event: Event, table: Table, raw: Mapping[str, str]) -> Answer:
    """Ask *table* in the state as it was: what was spent is what the log says, what is left is what *table* allows."""
    signal, own = Signal(event.data["signal"]), run.table
    run.table = table
    try:
        if task is not None and event.data["state"] == "failed":
            signal = derived.failure(run, task, Signal(raw[task.id]))[0]
        ruling = rule_on(run, task, signal)
    finally:
        run.table = own
    delay = _delay(table, ruling.row.delay if ruling.row is not None else None)
    return Answer(signal=signal.value, decide=ruling.decide.value, rule=ruling.rule, delay=delay)


def _delay(table: Table, name: str | None) -> str:
    if name is None:
        return ""
    delay: Delay = table.delays[name]
    match delay.kind:
        case "exponential":
            jitter = "" if delay.jitter == "full" else ", no jitter"
            return f"{delay.base_s:g} s, times {delay.factor:g}, at most {delay.max_s:g} s{jitter}"
        case "fixed":
            return f"{delay.s:g} s"
        case _:
            return delay.kind


def _differs(old: Answer, new: Answer) -> str:
    if old.decide != new.decide:
        return "decision"
    if old.delay != new.delay:
        return "delay"
    return "row" if old.rule != new.rule else ""


def _trajectories(run: str, found: Sequence[Redecided]) -> list[Trajectory]:
    by_task: dict[str, list[Redecided]] = {}
    for one in found:
        by_task.setdefault(one.task, []).append(one)
    out = []
    for task, own in by_task.items():
        first = next((i for i, one in enumerate(own) if one.differs in ("decision", "delay")), len(own))
        until = own[first].seq if first < len(own) else None
        out.append(Trajectory(run=run, task=task, decisions=len(own), same=first, until=until))
    return out


def to_json(found: WhatIf) -> dict[str, Any]:
    """Return the documented JSON form, schema ``fsm-agent/what-if@1``; of the decisions those that differ."""
    return {
        "schema": "fsm-agent/what-if@1",
        "static": [
            {
                **{k: getattr(one, k) for k in ("old", "old_digest", "new", "new_digest", "same")},
                "runs": list(one.runs),
                "regions": [region.as_json() for region in one.regions],
                "params": [attrs.asdict(param) for param in one.params],
            }
            for one in found.static
        ],
        "logs": [attrs.asdict(one) for one in found.logs],
        "matrix": [attrs.asdict(cell) for cell in found.matrix],
        "totals": {name: {"old": old, "new": new} for name, (old, new) in found.totals.items()},
        "decisions": [attrs.asdict(one) for one in found.decisions if one.differs],
        "trajectories": [attrs.asdict(one) for one in found.trajectories],
    }
