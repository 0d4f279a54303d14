"""Every check of the audit, and which of them look at an event.

A check that stumbles over what is not there has found something. What is wrong with one check does not keep the
others from looking.
"""

from collections.abc import Callable
from typing import Final

import attrs

from fsm_agent.core.audit.calls import CALLS
from fsm_agent.core.audit.check import ALL, BATCH, LOG, Check, Said
from fsm_agent.core.audit.checker import Checker
from fsm_agent.core.audit.forks import FORKS
from fsm_agent.core.audit.integrity import INTEGRITY, READER
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


def hold(log: Checker, event: Event, kind: str) -> None:
    """Hold *event* against every check that looks at its *kind*, and count."""
    log.seen[kind] += 1
    skipped = log.skipped
    log.about = log.run.tasks.get(event.task) if event.task is not None else None
    for run, index in _RUNS[kind]:
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
        failed = log.failed[c.id]
        passed = max(0, looked - failed - (log.skipped[_INDEX[c.id]] if c.id in _INDEX else 0))
        rest = max(0, whole - failed - passed)
        out.append(Tally(check=c.id, rule=c.rule, passed=passed, failed=failed, not_applicable=rest))
    return tuple(out)


def _looked(log: Checker, check: Check) -> int:
    return sum(log.seen[kind] for kind, found in _PLACES.items() if any(c is check for c in found))
