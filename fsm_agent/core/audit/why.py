"""Why: for every decision the row that made it, the rows that nearly did, and what would have changed it.

Nothing is stored for this: the log is folded up to the decision, so the facts are those that the table saw, and the
alternatives are found by asking the table again with one fact otherwise.
"""

from collections.abc import Iterable, Mapping, Sequence

from fsm_agent.core.audit import causes, hints
from fsm_agent.core.audit.answers import Explained, Near, Otherwise, Why
from fsm_agent.core.audit.replay import take
from fsm_agent.core.engine.policy import facts_of
from fsm_agent.core.engine.records import RUN, Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import NotFoundError
from fsm_agent.core.events import Event
from fsm_agent.core.rules import diff as rulediff
from fsm_agent.core.rules.rows import Row
from fsm_agent.core.rules.table import Table
from fsm_agent.core.signals import Signal


def explain(run: str, events: Iterable[Event], seq: int, *, table: Table | None = None) -> Explained:
    """Return why the decision at *seq* was made.

    Args:
        run: The run's id.
        events: Its log from the beginning, at least up to *seq*.
        seq: Number of a ``decided`` event.
        table: The run's table with the lines of its rows, where they are known; else rows are named without.

    Raises:
        NotFoundError: No decision has this number.
    """
    state = Run(run)
    for event in events:
        if event.seq == seq and event.type == "decided":
            return explained(state, event, table)
        take(state, event)
    raise NotFoundError(f"event {seq} of run {run}: it is no decision; name the number of a decided event")


def why(run: str, events: Iterable[Event], subject: str | int | None, *, table: Table | None = None) -> Why:
    """Return why a task, the run, or an event is what it is.

    Args:
        run: The run's id.
        events: Its whole log.
        subject: A task's id, an event's number (also as text), or None for the run.
        table: As for :func:`explain`.

    Raises:
        NotFoundError: The run has no such task or event.
    """
    log = list(events)
    if isinstance(subject, str) and subject.isdecimal() and not any(e.task == subject for e in log):
        subject = int(subject)
    if isinstance(subject, int):
        return _of_event(run, log, subject, table)
    about = None if subject in (None, RUN) else subject
    last = _last_decision(log, about)
    decision, state = _folded(run, log, last, table)
    task = _task(state, about) if about is not None else None
    moves = [e for e in log if e.type in ("task_moved", "run_moved") and e.task == about]
    wait = hints.of_task(state, task) if task is not None else hints.of_run(state)
    return Why(
        run=run,
        subject=about or RUN,
        state=task.state.value if task is not None else state.state.value,
        reason=_reason(task) if task is not None else str(moves[-1].data["reason"]) if moves else "",
        waits=wait.words,
        commands=wait.commands if task is not None else hints.next_commands(state),
        decision=decision,
        chain=causes.chain(log, moves[-1]) if moves else (),
        changes=_changes(log, about),
    )


def _task(state: Run, name: str) -> Task:
    task = state.tasks.get(name)
    if task is None:
        known = ", ".join(list(state.tasks)[:8])
        raise NotFoundError(f"task {name}: run {state.id} has no such task; it has {known}")
    return task


def _reason(task: Task) -> str:
    return task.reason


def _last_decision(log: Sequence[Event], task: str | None) -> int:
    return next((e.seq for e in reversed(log) if e.type == "decided" and e.task == task), 0)


def _folded(run: str, log: Sequence[Event], seq: int, table: Table | None) -> tuple[Explained | None, Run]:
    """Return the decision at *seq*, explained, if there is one, and the state after the whole log."""
    state, decision = Run(run), None
    for event in log:
        if event.seq == seq:
            decision = explained(state, event, table)
        take(state, event)
    return decision, state


def _of_event(run: str, log: Sequence[Event], seq: int, table: Table | None) -> Why:
    event = next((e for e in log if e.seq == seq), None)
    if event is None:
        raise NotFoundError(f"event {seq}: the log of run {run} has events 1 to {len(log)}")
    by_seq = {e.seq: e for e in log}
    at: Event | None = event
    while at is not None and at.type != "decided":
        at = by_seq.get(at.cause) if at.cause is not None else None
    decision, _ = _folded(run, log, at.seq if at is not None else 0, table)
    return Why(
        run=run,
        subject=f"event {seq}",
        state=event.type,
        reason=str(event.data.get("reason", "")),
        waits="",
        commands=(),
        decision=decision,
        chain=causes.chain(log, event),
        changes=_changes([event], None),
    )


def _changes(log: Iterable[Event], task: str | None) -> tuple[str, ...]:
    """Return what the plans that took another's place meant: all of them, or those that touched *task*."""
    adopted = [e.data for e in log if e.type == "plan_adopted" and e.data["origin"] != "initial"]
    touched = ("added", "changed", "removed")
    return tuple(
        data["explanation"]
        for data in adopted
        if task is None or any(task in data["diff"][key] for key in touched)
    )


# ── a decision ────────────────────────────────────────────────────────────────────────────────────────────────


def explained(run: Run, event: Event, table: Table | None) -> Explained:
    """Return why a decision was made.

    Args:
        run: The state right before it.
        event: The decision.
        table: As for :func:`explain`.
    """
    data = event.data
    rules = table if table is not None else run.rules
    task = run.tasks[event.task] if event.task is not None else None
    place = ("task" if task is not None else "run", str(data["state"]), str(data["signal"]))
    facts = facts_of(run, task, Signal(data["signal"]))
    row = next((r for r in rules.place(*place) if r.id == data["rule"]), None)
    looked_at = dict.fromkeys(c.fact for r in rules.place(*place) for c in r.when)
    return Explained(
        seq=event.seq,
        at=event.at,
        task=event.task,
        state=place[1],
        signal=place[2],
        decide=str(data["decide"]),
        rule=str(data["rule"]),
        where=row.where if row is not None else f"plan {run.plan_version}",
        why=row.why if row is not None else str(data["reason"]),
        reason=str(data["reason"]),
        facts={name: facts[name] for name in looked_at},
        near=tuple(_near(rules, place, facts, row)),
        otherwise=tuple(
            Otherwise(
                fact=c.fact, was=facts[c.fact], values=c.values, decide=c.row.decide.value, row=c.row.id
            )
            for c in rulediff.changes(rules, *place, facts)
        )
        if row is not None
        else (),
    )


def _near(
    rules: Table, place: tuple[str, str, str], facts: Mapping[str, str | int], row: Row | None
) -> list[Near]:
    """Return the rows that missed by a fact, then those that fit and stand in a lower tier than the one that answered."""
    missed = rules.near(*place, facts)
    found = [Near(row=r.id, where=r.where, decide=r.decide.value, missed=failed) for r, failed in missed]
    known = {r.id for r, _ in missed} | ({row.id} if row is not None else set())
    return found + [
        Near(row=r.id, where=r.where, decide=r.decide.value, missed=())
        for r in rules.place(*place)
        if r.id not in known
    ]
