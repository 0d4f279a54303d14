"""Checks of integrity (A) and of order (B, F): bytes, hashes, batches, times, causes, the first event and the last."""

import re
from collections.abc import Callable
from typing import Any, Final

from fsm_agent.core.audit.check import ALL, BATCH, Check, Said, check, made_by_reader
from fsm_agent.core.audit.checker import Checker, by_person
from fsm_agent.core.audit.shapes import misshapen, well_formed
from fsm_agent.core.events import TYPES, Event, Head, Record, chain, from_body, hydrate, is_canonical
from fsm_agent.core.machine import FINAL_RUN_STATES

_AFTER_END: Final = frozenset(
    {
        "late_result",
        "note_added",
        "move_refused",
        "reconciled",
        "owner_changed",
        "run_closed",
        "budget_changed",
        "run_asked",
    }
)
_WORDS_OF_PEOPLE: Final = ("approval_answered", "budget_changed", "input_changed", "note_added", "run_asked")
_CREDENTIAL: Final = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[opsu]_[0-9A-Za-z]{36}|\bgithub_pat_[0-9A-Za-z_]{60}"
    rb"|\bxox[abpr]-[0-9A-Za-z-]{20}|\bsk-(?:ant-|proj-)?[0-9A-Za-z_-]{32}"
)
_BEHIND_SK: Final = re.compile(rb"sk-(?:ant-|proj-)?[0-9A-Za-z_-]{32}")
_OF_GITHUB: Final = re.compile(rb"gh[opsu]_[0-9A-Za-z]{36}")


# ── A: bytes ──────────────────────────────────────────────────────────────────────────────────────────────────


def hash_chain(previous: bytes, record: Record) -> str:
    """Every event has the hash of its stored bytes after the hash of the event before it; the first follows the run's id."""
    if chain(previous, record.body) == record.hash:
        return ""
    return "the event does not have the hash of its contents after the event before it"


def readable(record: Record) -> Event:
    """The stored bytes are one event of version 1, each member of its envelope of its type.

    Raises:
        CorruptError: They are not.
    """
    return from_body(record.body)


def canonical_bytes(event: Event, record: Record) -> str:
    """The stored bytes are the canonical form of the event: sorted keys, no spaces, no key twice."""
    return (
        ""
        if is_canonical(event, record.body)
        else "the stored bytes are not the canonical form of this event"
    )


def large_values(event: Event, blob: Callable[[str], bytes]) -> Event:
    """A large value that an event names is there, and is what its digest says.

    Raises:
        FsmAgentError: It is not.
    """
    return hydrate(event, blob)


def applies(log: Checker, event: Event) -> str:
    """Every event can be applied to the state before it."""
    try:
        log.take(event)
    except Exception as error:  # noqa: BLE001 - a forged event may make the fold stumble over anything
        return f"{event.type} cannot be applied to the state before it ({type(error).__name__}: {error})"
    return ""


def last_batch(log: Checker, events: int, *, ruled: bool) -> str:
    """The log ends with a whole batch, and is not empty."""
    if not events:
        return "the log is empty"
    return f"the last batch should end at event {log.tx_end}" if ruled and log.tx_end > log.seq else ""


def kept_head(kept: Head, end: Head, there: bytes) -> str:
    """The log contains the head that was kept outside of it."""
    if kept.seq > end.seq:
        return f"the head kept outside is at event {kept.seq}; the log ends at {end.seq}"
    return "" if there == kept.hash else "the log has another event here than the head kept outside says"


def stored_head(listed: Head, end: Head) -> str:
    """The log ends where its store says that it ends."""
    if listed == end:
        return ""
    return f"the store says that the log ends at event {listed.seq}; it ends at event {end.seq}"


def stored_state(listed: str, led: str) -> str:
    """The state that its store lists is the state that the log leads to."""
    return "" if listed == led else f"the store lists the run as {listed}; its log leads to {led}"


def signature(seq: int, signed: bytes, there: bytes | None, key: str, *, holds: bool) -> str:
    """Checkpoints are signed by the key given, and name events of this log."""
    if not holds:
        return f"{key} did not sign this checkpoint"
    if signed == there:
        return ""
    found = "no event" if there is None else "another event"
    return f"a checkpoint signed by {key} names event {seq} ({signed.hex()[:12]}); the log has {found} there"


def known_type(log: Checker, event: Event) -> Said:
    """Every event is of one of the types that this version knows."""
    del log
    return (
        "" if event.type in TYPES else f"the type {event.type!r} is none of the {len(TYPES)} that there are"
    )


def form_of_its_type(log: Checker, event: Event) -> Said:
    """Every event has the members that every event of its type has, each of its kind: text, a number, a list of texts."""
    right, actor = log.forms, event.actor
    if well_formed(event.type, event.data, right) and (actor is None or well_formed("actor", actor, right)):
        return ""
    return f"{misshapen(event)}; it is no {event.type} that this program writes"


def stored_number(log: Checker, event: Event) -> Said:
    """An event is stored under the number that it has."""
    same = event.seq == log.record.seq
    return "" if same else f"event {event.seq} is stored as number {log.record.seq}"


def numbered(log: Checker, event: Event) -> Said:
    """Events are numbered from 1 without gaps."""
    return "" if event.seq == log.seq + 1 else f"event {event.seq} follows event {log.seq}"


def whole_batches(log: Checker, event: Event) -> Said:
    """Events of one batch stand together, and every batch is there as a whole."""
    first, count = event.tx if event.tx is not None else (event.seq, 1)
    if log.tx_end >= event.seq:
        same = first + count - 1 == log.tx_end
        return "" if same else f"its batch [{first}, {count}] is not the one it stands in"
    return "" if first == event.seq and count >= 1 else f"its batch [{first}, {count}] does not begin here"


# ── B: nothing is missing at either end ───────────────────────────────────────────────────────────────────────


def created_first(log: Checker, event: Event) -> Said:
    """The first event creates the run, and no other does."""
    del log
    if (event.type == "run_created") == (event.seq == 1):
        return ""
    return f"a {event.type} at seq {event.seq}; run_created stands at seq 1 and nowhere else"


def after_the_end(log: Checker, event: Event) -> Said:
    """After the end only late results, evidence, notes and a person's reopening follow."""
    if not log.run.closed:
        return None
    return "" if event.type in _AFTER_END or _reopens(event) else f"a {event.type} after the run was closed"


def _reopens(event: Event) -> bool:
    if event.type == "task_moved":
        return event.data.get("trigger") in ("settle", "clear", "cancel")
    return event.type == "run_moved" and event.data.get("trigger") in ("resume", "cancel")


def closed_with_its_end(log: Checker, event: Event) -> Said:
    """A run that has moved to its end is closed with a report in the same batch."""
    del event
    run = log.run
    if run.state not in FINAL_RUN_STATES:
        return None
    return (
        "" if run.closed else f"the run is {run.state.value}, and its batch does not close it with a report"
    )


def closed_once(log: Checker, event: Event) -> Said:
    """A log is closed after its run has moved to an end, and once for each time that it has."""
    del event
    if not log.ended:
        return "the log is closed, and the run has not moved to an end since it was closed before"
    state = log.run.state
    return "" if state in FINAL_RUN_STATES else f"the log is closed while the run is {state.value}"


def owners_in_turn(log: Checker, event: Event) -> Said:
    """The number of the owner (epoch) rises with every new owner."""
    epoch = event.data["epoch"]
    return "" if epoch > log.run.epoch else f"epoch {epoch} follows epoch {log.run.epoch}"


# ── F: when, why, by whom ─────────────────────────────────────────────────────────────────────────────────────


def times_rise(log: Checker, event: Event) -> Said:
    """Every event is later than the one before it."""
    return "" if event.at > log.at else f"its time {event.at} is not after {log.at}"


def causes_before(log: Checker, event: Event) -> Said:
    """The cause of an event, if it has one in the log, is an earlier event."""
    del log
    if event.cause is None:
        return ""
    return "" if 0 < event.cause < event.seq else f"its cause {event.cause} does not lie before it"


def people_named(log: Checker, event: Event) -> Said:
    """What a person said names the person, and nobody else as its author."""
    del log
    by: Any = event.data.get("by")
    if not by_person(event):
        if event.type in ("input_changed", "budget_changed") or by:
            return "it is a person's word, and no person is its author"
        return None
    actor = event.actor or {}
    return (
        "" if by and actor.get("id") == by else f"it is said by {by!r}, and {actor.get('id')!r} is its author"
    )


def no_credentials(log: Checker, event: Event) -> Said:
    """No event contains what looks like a private key or an access token of a known kind."""
    del event
    body = log.record.body
    hyphened = b"-" in body and (
        _BEHIND_SK.search(body) is not None or body.rfind(b"xox") >= 0 or body.rfind(b"KEY-") >= 0
    )
    named = body.rfind(b"AKIA") >= 0 or body.rfind(b"github_pat_") >= 0
    if not hyphened and not named and _OF_GITHUB.search(body) is None:
        return ""  # as in most events; each search is the fastest there is for what it looks for
    found = _CREDENTIAL.search(body)
    return (
        ""
        if found is None
        else f"what looks like a credential stands at byte {found.start()}; secrets are declared"
    )


INTEGRITY: Final[tuple[Check, ...]] = (
    check("A2", known_type, *ALL),
    check("A2", form_of_its_type, *ALL),
    check("A3", numbered, *ALL),
    check("A4", whole_batches, *ALL),
    check("A6", stored_number, *ALL),
    check("B1", created_first, *ALL),
    check("B2", after_the_end, *ALL),
    check("B2", closed_once, "run_closed"),
    check("B2", closed_with_its_end, *BATCH),
    check("B7", owners_in_turn, "owner_changed"),
    check("F2", times_rise, *ALL),
    check("F2", causes_before, *ALL),
    check("F3", people_named, *_WORDS_OF_PEOPLE),
    check("F4", no_credentials, *ALL),
)
"""Checks of every event, whatever it says."""

CHAIN: Final = made_by_reader("A1", hash_chain, *ALL)
READABLE: Final = made_by_reader("A2", readable, *ALL)
CANONICAL: Final = made_by_reader("A5", canonical_bytes, *ALL)
VALUES: Final = made_by_reader("A7", large_values, *ALL)
APPLIES: Final = made_by_reader("C9", applies, *ALL)
READER: Final[tuple[Check, ...]] = (
    CHAIN,
    READABLE,
    CANONICAL,
    VALUES,
    APPLIES,
    made_by_reader("A4", last_batch),
    made_by_reader("A8", stored_head),
    made_by_reader("A8", stored_state),
    made_by_reader("A9", signature),
    made_by_reader("A10", kept_head, name="head"),
)
"""Checks that whoever reads the log makes: of every event in a fixed order, or once, with what is kept outside."""
