"""Every check of the audit, and which of them look at an event.

A check that stumbles over what is not there has found something. What is wrong with one check does not keep the
others from looking.
"""

from collections.abc import Callable
from typing import Final

import attrs

from fsm_agent.core.audit.calls import CALLS, plain_start
from fsm_agent.core.audit.check import ALL, BATCH, LOG, Check, Plain, Said
from fsm_agent.core.audit.checker import NO_TASK, Checker
from fsm_agent.core.audit.forks import FORKS
from fsm_agent.core.audit.integrity import INTEGRITY, READER, no_credentials
from fsm_agent.core.audit.moves import MOVES
from fsm_agent.core.audit.parts import PARTS
from fsm_agent.core.audit.people import PEOPLE
from fsm_agent.core.audit.plans import PLANS
from fsm_agent.core.audit.policy import POLICY, plain_decision
from fsm_agent.core.audit.shapes import well_formed
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
_KNOWN: Final = frozenset(TYPES)


PLAIN: Final = {
    "decided": Plain(
        is_so=plain_decision,
        idle=frozenset({"delay-by-the-policy", "probe-by-the-policy", "run-signal-is-true"}),
    ),
    "task:start": Plain(
        is_so=plain_start,
        idle=frozenset(
            {
                "approval-in-time",
                "approval-used-once",
                "approved-by-enough",
                "batch-admits-it",
                "conditions-hold",
                "within-budget",
            }
        ),
    ),
}
"""Kind of event → which of them are plain."""
Run = Callable[[Checker, Event], Said]
"""The function of a check that looks at events as they are folded."""


@attrs.frozen
class Place:
    """What is held against the events of one kind: looked up once for each of them.

    Attributes:
        kind: The kind.
        runs: The functions of all checks that look at them.
        own: Those of them that do not look at all events.
        plain: Whether an event is plain; None: none of the kind is.
        few: Those of ``own`` that have something to look at in a plain event.
    """

    kind: str
    runs: tuple[Run, ...]
    own: tuple[Run, ...]
    plain: Callable[[Checker, Event], bool] | None
    few: tuple[Run, ...]


def _place(kind: str) -> Place:
    on, plain = {kind, _TYPE_OF.get(kind.partition(":")[0], kind)}, PLAIN.get(kind)
    all_ = [c for c in RULES if c.on == ALL or on & {*c.on}]
    own = [c for c in all_ if c.on != ALL]
    few = [c for c in own if plain is None or c.id not in plain.idle]
    runs = (tuple(c.run for c in found if c.run is not None) for found in (all_, own, few))
    return Place(kind, next(runs), next(runs), plain.is_so if plain is not None else None, next(runs))


_PLACES: Final = {
    kind: _place(kind)
    for kind in (*TYPES, *(f"{m}:{t}" for m, table in TABLES.items() for _, t in table), UNKNOWN)
}
_MOVES: Final = {
    type_: {trigger: _PLACES[f"{machine}:{trigger}"] for _, trigger in TABLES[machine]}
    for machine, type_ in _TYPE_OF.items()
}
MOVING: Final = tuple(place.kind for places in _MOVES.values() for place in places.values())
"""Kinds of events that move a machine by a trigger that it has."""
_NOWHERE: Final = _PLACES[UNKNOWN]
_BY_TYPE: Final[dict[str, Place | dict[str, Place]]] = {
    **{type_: _PLACES[type_] for type_ in TYPES},
    **_MOVES,
}
_OF_BATCHES: Final = tuple(c.run for c in RULES if c.run is not None and c.on == BATCH)
_KINDS: Final = {
    **{c: tuple(kind for kind, place in _PLACES.items() if c.run in place.runs) for c in RULES},
    **{c: ("batch",) for c in RULES if c.on == BATCH},
}
"""Check → the kinds that it looks at."""
_OF: Final = {c.run: c for c in RULES}
"""Function → its check."""


def place_of(event: Event) -> Place:
    """Return the place of an event: by its type; of a move by its machine and trigger."""
    found = _BY_TYPE.get(event.type, _NOWHERE)
    if isinstance(found, Place):
        return found
    trigger = event.data.get("trigger")
    return found.get(trigger if type(trigger) is str else "") or _PLACES[event.type]


IDLE: Final = frozenset({"after-the-end", "forked-in-its-place", "parents-events"})
"""Checks of all events that have nothing to look at in an ordinary one."""
_PLAIN: Final = _KNOWN - {"run_created", "run_forked"}


def ordinary(log: Checker, event: Event) -> bool:
    """Whether *event* is one in which no check of all events finds anything; those in :data:`IDLE` need not look at it.

    This is no check, but a way to know at once what most events pass; the checks say what is wrong with the others.
    """
    seq, at, type_, data, _, cause, tx, actor = event
    if seq != log.seq + 1 or seq != log.record.seq or seq == 1 or at <= log.at:
        return False
    if cause is not None and not 0 < cause < seq:
        return False
    if tx is None:
        if log.tx_end >= seq and log.tx_end != seq:
            return False
    elif log.tx_end >= seq:
        if tx[0] + tx[1] - 1 != log.tx_end:
            return False
    elif tx[0] != seq or tx[1] < 1:
        return False
    if type_ not in _PLAIN or log.parent is not None or log.run.closed:
        return False
    if actor is not None and not well_formed("actor", actor, log.forms):
        return False
    return well_formed(type_, data, log.forms) and not no_credentials(log, event)


def hold(log: Checker, event: Event) -> None:
    """Hold *event* against every check that looks at its kind, and count."""
    place, name = place_of(event), event.task
    log.seen[place.kind] += 1
    log.task = log.run.tasks.get(name, NO_TASK) if name is not None else NO_TASK
    runs = place.few
    if not ordinary(log, event):
        log.odd[place.kind] += 1
        runs = place.runs
    elif place.plain is not None and not is_plain(log, event, place.plain):
        log.busy[place.kind] += 1
        runs = place.own
    _look(log, event, runs)


def is_plain(log: Checker, event: Event, is_so: Callable[[Checker, Event], bool]) -> bool:
    """Whether *event* is plain by *is_so*."""
    try:
        return is_so(log, event)
    except Exception:  # noqa: BLE001 - a forged event; the checks say what is wrong with it
        return False


def hold_batch(log: Checker, last: Event) -> None:
    """Hold a batch, whose *last* event has been taken, against every check that looks at batches, and count."""
    log.seen["batch"] += 1
    _look(log, last, _OF_BATCHES)


def _look(log: Checker, event: Event, runs: tuple[Run, ...]) -> None:
    skipped = log.skipped
    for run in runs:
        try:
            said = run(log, event)
        except Exception as error:  # noqa: BLE001 - whatever a forged event makes a check stumble over is a finding
            said = f"{event.type}: the check stumbles over it ({type(error).__name__}: {error})"
        if said:
            check = _OF[run]
            log.find(check.id, check.rule, said, event.seq)
        elif said is None:
            skipped[run] += 1


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
    ordinary_ = sum(log.seen[kind] - log.odd[kind] for kind in _PLACES)
    plain = {kind: log.seen[kind] - log.odd[kind] - log.busy[kind] for kind in PLAIN}
    for c in CHECKS.values():
        looked = made.get(c.id, 0) if c.run is None else sum(log.seen[kind] for kind in _KINDS[c])
        whole = max(1 if c.on == LOG else batches if c.on == BATCH else events, looked)
        failed, idle = log.failed[c.id], ordinary_ if c.id in IDLE else 0
        idle += sum(plain[kind] for kind in PLAIN if c.id in PLAIN[kind].idle)
        passed = max(0, looked - failed - idle - (log.skipped[c.run] if c.run is not None else 0))
        rest = max(0, whole - failed - passed)
        out.append(Tally(check=c.id, rule=c.rule, passed=passed, failed=failed, not_applicable=rest))
    return tuple(out)
