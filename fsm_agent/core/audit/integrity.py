"""Checks of integrity (A) and of order (B, F): bytes, hashes, batches, times, causes, the first event and the last."""

import re
from typing import Any, Final

from fsm_agent.core.audit.check import ALL, BATCH, Check, Said, check, once
from fsm_agent.core.audit.checker import Checker, by_person
from fsm_agent.core.events import TYPES, Event, chain
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
_HINTS: Final = (b"PRIVATE KEY", b"AKIA", b"gh", b"xox", b"sk-")


# ── A: bytes ──────────────────────────────────────────────────────────────────────────────────────────────────


def hash_chain(log: Checker, event: Event) -> Said:
    """Every event has the hash of its stored bytes after the hash of the event before it; the first follows the run's id."""
    del event
    if chain(log.previous, log.record.body) == log.record.hash:
        return ""
    return "the event does not have the hash of its contents after the event before it"


def known_type(log: Checker, event: Event) -> Said:
    """Every event is of one of the types that this version knows."""
    del log
    return (
        "" if event.type in TYPES else f"the type {event.type!r} is none of the {len(TYPES)} that there are"
    )


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
    """The cause of an event is an earlier event."""
    del log
    if event.cause is None:
        return None
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
    if not any(hint in body for hint in _HINTS):
        return ""
    found = _CREDENTIAL.search(body)
    return (
        ""
        if found is None
        else f"what looks like a credential stands at byte {found.start()}; secrets are declared"
    )


INTEGRITY: Final[tuple[Check, ...]] = (
    check("A2", known_type, *ALL),
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

CHAIN: Final = check("A1", hash_chain, *ALL)
READABLE: Final = once(
    "A2", "readable", "the stored bytes are one event of version 1, each member of its envelope of its type"
)
CANONICAL: Final = once(
    "A5",
    "canonical-bytes",
    "the stored bytes are the canonical form of the event: sorted keys, no spaces, no key twice",
)
VALUES: Final = once("A7", "large-values", "a large value is there, and is what its digest says")
APPLIES: Final = once("C9", "applies", "every event can be applied to the state before it")
WHOLE_LOG: Final = (
    once("A4", "last-batch", "the log ends with a whole batch, and is not empty"),
    once("A8", "stored-head", "the log ends where its store says that it ends"),
    once("A8", "stored-state", "the state that its store lists is the state that the log leads to"),
    once("A9", "signature", "checkpoints are signed by the key given, and name events of this log"),
    once("A10", "head", "the log contains the head that was kept outside of it"),
)
"""Checks that are made once: by whoever has the whole log, its store, and what is kept outside."""
