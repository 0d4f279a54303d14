"""Every check of the audit, and which of them look at an event.

A check that stumbles over what is not there has found something. What is wrong with one check does not keep the
others from looking.
"""

from typing import Final

import attrs

from fsm_agent.core.audit.calls import CALLS
from fsm_agent.core.audit.check import ALL, BATCH, LOG, Check, Said
from fsm_agent.core.audit.checker import Checker
from fsm_agent.core.audit.integrity import APPLIES, CANONICAL, CHAIN, INTEGRITY, READABLE, VALUES, WHOLE_LOG
from fsm_agent.core.audit.moves import MOVES
from fsm_agent.core.audit.people import PEOPLE
from fsm_agent.core.audit.plans import PLANS
from fsm_agent.core.audit.policy import POLICY
from fsm_agent.core.events import TYPES, Event
from fsm_agent.core.machine import TABLES

CHECKS: Final[dict[str, Check]] = {
    c.id: c
    for c in sorted(
        (
            CHAIN,
            READABLE,
            CANONICAL,
            VALUES,
            APPLIES,
            *INTEGRITY,
            *MOVES,
            *POLICY,
            *PLANS,
            *CALLS,
            *PEOPLE,
            *WHOLE_LOG,
        ),
        key=lambda c: (c.rule[0], int(c.rule[1:]), c.id),
    )
}
"""Id → check, in the order of their rules."""
STREAM: Final = frozenset({CHAIN.id, READABLE.id, CANONICAL.id, VALUES.id, APPLIES.id})
"""Checks that whoever reads the log makes of every event, in a fixed order."""


RULES: Final = tuple(c for c in CHECKS.values() if c.run is not None and c.id not in STREAM)
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


def kind_of(event: Event) -> str:
    """Return the kind of an event: its type; of a move its machine and trigger."""
    if event.type in ("task_moved", "run_moved"):
        kind = f"{event.type[:-6]}:{event.data.get('trigger')}"
        return kind if kind in _PLACES else event.type
    return event.type if event.type in _PLACES else UNKNOWN


def hold(log: Checker, event: Event, kind: str) -> None:
    """Hold *event* against every check that looks at its *kind*, and count."""
    log.seen[kind] += 1
    for check in _PLACES[kind]:
        try:
            said: Said = check.run(log, event)  # type: ignore[misc]
        except Exception as error:  # noqa: BLE001 - whatever a forged event makes a check stumble over is a finding
            said = f"{event.type}: the check stumbles over it ({type(error).__name__}: {error})"
        if said:
            log.find(check.id, check.rule, said, event.seq)
        elif said is None:
            log.skipped[check.id] += 1


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
        looked = made.get(c.id, 0) if c.id in STREAM or c.run is None else _looked(log, c)
        whole = max(1 if c.on == LOG else batches if c.on == BATCH else events, looked)
        failed = log.failed[c.id]
        passed = max(0, looked - failed - log.skipped[c.id])
        rest = max(0, whole - failed - passed)
        out.append(Tally(check=c.id, rule=c.rule, passed=passed, failed=failed, not_applicable=rest))
    return tuple(out)


def _looked(log: Checker, check: Check) -> int:
    return sum(log.seen[kind] for kind, found in _PLACES.items() if any(c is check for c in found))
