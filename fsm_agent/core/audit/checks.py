"""Every check of the audit, and which of them look at an event.

A check that stumbles over what is not there has found something. What is wrong with one check does not keep the
others from looking.
"""

from collections.abc import Callable
from typing import Final

import attrs

from fsm_agent.core.audit.calls import CALLS
from fsm_agent.core.audit.check import ALL, BATCH, LOG, Check, Said
from fsm_agent.core.audit.checker import NO_TASK, Checker
from fsm_agent.core.audit.forks import FORKS
from fsm_agent.core.audit.integrity import INTEGRITY, READER, no_credentials
from fsm_agent.core.audit.moves import MOVES
from fsm_agent.core.audit.parts import PARTS
from fsm_agent.core.audit.people import PEOPLE
from fsm_agent.core.audit.plans import PLANS
from fsm_agent.core.audit.policy import POLICY
from fsm_agent.core.events import TYPES, Event
from fsm_agent.core.machine import TABLES

_ALL: Final = (*READER, *INTEGRITY, *MOVES, *POLICY, *PLANS, *CALLS, *PARTS, *PEOPLE, *FORKS)
CHECKS: Final[dict[str, Check]] = {
    c.id: c for c in sorted(_ALL, key=lambda c: (c.rule[0], int(c.rule[1:]), c.id))
}
"""Id → check, in the order of their rules."""
RULES: Final = tuple(c for c in CHECKS.values() if c.run is not None)
"""Checks that look at events as they are folded."""
UNKNOWN: Final = "?"
"""Kind of an event whose type nobody knows."""
_TYPE_OF: Final = {"task": "task_moved", "run": "run_moved"}


def _places() -> dict[str, tuple[Check, ...]]:
    """Return the checks of every kind of event."""
    kinds = [*TYPES, *(f"{m}:{t}" for m, table in TABLES.items() for _, t in table), UNKNOWN]
    found: dict[str, tuple[Check, ...]] = {
        kind: tuple(c for c in RULES if {kind, _TYPE_OF.get(kind.partition(":")[0], kind), *ALL} & {*c.on})
        for kind in dict.fromkeys(kinds)
    }
    return {**found, "batch": tuple(c for c in RULES if c.on == BATCH)}


_PLACES: Final = _places()
_INDEX: Final = {c.id: index for index, c in enumerate(RULES)}
_RUNS: Final[dict[str, tuple[tuple[Callable[[Checker, Event], Said], int], ...]]] = {
    kind: tuple((c.run, _INDEX[c.id]) for c in found if c.run is not None) for kind, found in _PLACES.items()
}
"""The same as functions alone, each with its place in :data:`RULES`: what is looked up for every event."""
_OWN: Final = {
    kind: tuple(run for run in runs if RULES[run[1]].on != ALL)
    for kind, runs in _RUNS.items()
    if kind != "batch"
}
"""The same without those of all events."""
_KNOWN: Final = frozenset(TYPES)


_MOVES: Final = {
    "task_moved": {trigger: f"task:{trigger}" for _, trigger in TABLES["task"]},
    "run_moved": {trigger: f"run:{trigger}" for _, trigger in TABLES["run"]},
}


def kind_of(event: Event) -> str:
    """Return the kind of an event: its type; of a move its machine and trigger."""
    type_ = event.type
    moves = _MOVES.get(type_)
    if moves is not None:
        trigger = event.data.get("trigger")
        return moves.get(trigger, type_) if type(trigger) is str else type_
    return type_ if type_ in _PLACES else UNKNOWN


IDLE: Final = frozenset({"after-the-end", "forked-in-its-place", "parents-events"})
"""Checks of all events that have nothing to look at in an ordinary one."""


def ordinary(log: Checker, event: Event) -> bool:
    """Whether *event* is one in which no check of all events finds anything; those in :data:`IDLE` need not look at it.

    This is no check, but a way to know at once what most events pass; the checks say what is wrong with the others.
    """
    seq, cause, type_, tx = event.seq, event.cause, event.type, event.tx
    first, count = tx if tx is not None else (seq, 1)
    last = first + count - 1
    return (
        seq == log.seq + 1 == log.record.seq
        and event.at > log.at
        and (cause is None or 0 < cause < seq)
        and (last == log.tx_end if log.tx_end >= seq else first == seq and count >= 1)
        and type_ in _KNOWN
        and type_ not in ("run_created", "run_forked")
        and seq != 1
        and log.parent is None
        and not log.run.closed
        and not no_credentials(log, event)
    )


def hold(log: Checker, event: Event, kind: str) -> None:
    """Hold *event* against every check that looks at its *kind*, and count."""
    log.seen[kind] += 1
    skipped = log.skipped
    log.task = log.run.tasks.get(event.task, NO_TASK) if event.task is not None else NO_TASK
    runs = _RUNS[kind]
    if kind in _OWN and ordinary(log, event):
        log.ordinary += 1
        runs = _OWN[kind]
    for run, index in runs:
        try:
            said = run(log, event)
        except Exception as error:  # noqa: BLE001 - whatever a forged event makes a check stumble over is a finding
            said = f"{event.type}: the check stumbles over it ({type(error).__name__}: {error})"
        if said is None:
            skipped[index] += 1
        elif said:
            check = RULES[index]
            log.find(check.id, check.rule, said, event.seq)


@attrs.frozen(kw_only=True)
class Tally:
    """What became of one check in one log: of so many events (batches, or the log itself) each is counted once.

    Attributes:
        check: Its id.
        rule: Its rule.
        passed: Where it looked and found nothing wrong.
        failed: Where it found something.
        not_applicable: Where it had nothing to look at.
    """

    check: str
    rule: str
    passed: int
    failed: int
    not_applicable: int


def tally(log: Checker, events: int, made: dict[str, int]) -> tuple[Tally, ...]:
    """Return the tally of every check.

    Args:
        log: After its last event.
        events: How many events were held against the rules.
        made: Of the checks that the reader makes: how often each was made.
    """
    out = []
    batches = log.seen["batch"]
    for c in CHECKS.values():
        looked = made.get(c.id, 0) if c.run is None else _looked(log, c)
        whole = max(1 if c.on == LOG else batches if c.on == BATCH else events, looked)
        failed, idle = log.failed[c.id], log.ordinary if c.id in IDLE else 0
        passed = max(0, looked - failed - idle - (log.skipped[_INDEX[c.id]] if c.id in _INDEX else 0))
        rest = max(0, whole - failed - passed)
        out.append(Tally(check=c.id, rule=c.rule, passed=passed, failed=failed, not_applicable=rest))
    return tuple(out)


def _looked(log: Checker, check: Check) -> int:
    return sum(log.seen[kind] for kind, found in _PLACES.items() if any(c is check for c in found))
