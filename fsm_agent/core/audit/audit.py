"""Audit: from the log alone, was every event whole, every move legal, every decision what the table says?

Bytes become events here, one at a time; what each is held against is in :mod:`fsm_agent.core.audit.checks`. Whatever
is wrong is a finding. Behind an event that cannot be read or applied the chain is still followed, and nothing else.
"""

from collections.abc import Callable, Iterable
from typing import Final

import attrs

from fsm_agent.core.audit.checker import Checker, Finding
from fsm_agent.core.audit.checks import CHECKS, Tally, hold, kind_of, tally
from fsm_agent.core.audit.integrity import APPLIES, CANONICAL, CHAIN, READABLE, VALUES
from fsm_agent.core.errors import CorruptError, FsmAgentError
from fsm_agent.core.events import Event, Head, Record, chain, from_body, genesis, hydrate, to_body

__all__ = ["CHECKS", "Audit", "Finding", "Tally", "audit", "chain_alone"]

Blobs = Callable[[str], bytes]
_MARKS: Final = (b'"$blob"', b'"value_digest"')


@attrs.frozen(kw_only=True)
class Audit:
    """What an audit found.

    Attributes:
        run: The run's id as the log says.
        verdict: ``clean``, ``open`` (not closed yet, nothing wrong) or ``violations``.
        events: How many events were read.
        unchecked: How many of them stand behind one that cannot be read or applied: their chain was followed, the rules
            were not held against them.
        transitions: How many events move a machine.
        decisions: How many are decisions.
        findings: In order of seq; of very many the first.
        checks: What became of each check.
        head: Where the log ends.
        state: The state of the run at the end; empty if only the chain was followed.
        kept: The head kept outside that it was held against; None: none was, so a cut at the border of a batch
            would not show.
        signed: Seq up to which signed checkpoints vouch for it; None: no key was given.
    """

    run: str
    verdict: str
    events: int
    unchecked: int = 0
    transitions: int
    decisions: int
    findings: tuple[Finding, ...]
    checks: tuple[Tally, ...] = ()
    head: Head
    state: str = ""
    kept: Head | None = None
    signed: int | None = None

    def made(self, check: str, *faults: tuple[int, str]) -> "Audit":
        """Return the audit with a check that was made once, about the log as a whole, and what it found.

        Args:
            check: Its id.
            faults: What it found: (seq, words).
        """
        rule = CHECKS[check].rule
        found = [Finding(seq=seq, check=check, rule=rule, message=words) for seq, words in faults]
        tallies = [
            attrs.evolve(t, passed=0 if found else 1, failed=len(found), not_applicable=0)
            if t.check == check
            else t
            for t in self.checks
        ]
        verdict = "violations" if found else self.verdict
        return attrs.evolve(self, verdict=verdict, findings=(*self.findings, *found), checks=tuple(tallies))


def chain_alone(run: str, end: Head, fault: str, *, kept: Head | None = None) -> Audit:
    """Return the audit of a log of which only the chain was followed.

    Args:
        run: Its id.
        end: Where the chain holds to.
        fault: Why it does not go on; empty if it holds to the end.
        kept: A head kept outside; whether it fits is for the caller to add.
    """
    log = Checker(run, _no_value)
    if fault or not end.seq:
        log.find(CHAIN.id, CHAIN.rule, fault or "the log is empty", end.seq + 1)
    read = end.seq + (1 if fault else 0)
    return Audit(
        run=run,
        verdict="violations" if log.findings else "clean",
        events=end.seq,
        unchecked=end.seq,
        transitions=0,
        decisions=0,
        findings=tuple(log.findings),
        checks=tally(log, read, {CHAIN.id: read}),
        head=end,
        kept=kept,
    )


def _no_value(digest: str) -> bytes:
    raise CorruptError(f"value {digest}: none is looked up")


def audit(run: str, records: Iterable[Record], blob: Blobs, *, head: Head | None = None) -> Audit:
    """Audit a run's log. Memory is bounded by the plan and its results, not by the number of events.

    Args:
        run: Its id.
        records: From seq 1 on, as stored.
        blob: Returns a large value's canonical bytes by digest; may raise for one that is missing.
        head: A head kept outside the log, to notice a cut or forked tail.
    """
    log = Checker(run, blob)
    end, ruled, moves = genesis(run), True, 0
    read = held = 0
    kept = ""
    for record in records:
        read += 1
        event = _event(log, record)
        log.previous = record.hash
        end = Head(record.seq, record.hash)
        if head is not None and head.seq == record.seq and head.hash != record.hash:
            kept = "the log has another event here than the head kept outside says"
        if event is None or not ruled:
            ruled = False
            continue
        held += 1
        kind = kind_of(event)
        moves += kind[:5] == "task:" or kind[:4] == "run:"
        hold(log, event, kind)
        ruled = _applied(log, event)
        if ruled and event.seq == log.tx_end:
            hold(log, event, "batch")
            log.end_batch()
    made = {
        CHAIN.id: read,
        READABLE.id: read,
        CANONICAL.id: log.seen["readable"],
        VALUES.id: log.seen["values"],
        APPLIES.id: held,
    }
    found = Audit(
        run=run,
        verdict="violations" if log.failed else "clean" if log.run.closed else "open",
        events=read,
        unchecked=read - held,
        transitions=moves,
        decisions=log.seen["decided"],
        findings=tuple(log.findings),
        checks=tally(log, held, made),
        head=end,
        state=log.run.state.value,
        kept=head,
    )
    return _whole(log, found, kept)


def _event(log: Checker, record: Record) -> Event | None:
    """Return the event in *record*, large values put back; None if it cannot be read."""
    log.record = record
    body = record.body
    if chain(log.previous, body) != record.hash:
        words = "the event does not have the hash of its contents after the event before it"
        log.find(CHAIN.id, CHAIN.rule, words, record.seq)
    try:
        event = from_body(body)
    except FsmAgentError as error:
        log.find(READABLE.id, READABLE.rule, str(error), record.seq)
        return None
    log.seen["readable"] += 1
    if to_body(event) != body:
        words = "the stored bytes are not the canonical form of this event"
        log.find(CANONICAL.id, CANONICAL.rule, words, record.seq)
    if _MARKS[0] in body or _MARKS[1] in body:
        log.seen["values"] += 1
        try:
            return hydrate(event, log.blob)
        except FsmAgentError as error:
            log.find(VALUES.id, VALUES.rule, str(error), record.seq)
            return None
    return event


def _applied(log: Checker, event: Event) -> bool:
    """Fold *event*; False if it cannot be applied to the state before it."""
    try:
        log.take(event)
    except Exception as error:  # noqa: BLE001 - a forged event may make the fold stumble over anything
        words = f"{event.type} cannot be applied to the state before it ({type(error).__name__}: {error})"
        log.find(APPLIES.id, APPLIES.rule, words, event.seq)
        return False
    return True


def _whole(log: Checker, found: Audit, kept: str) -> Audit:
    """Add what can be said only about the log as a whole."""
    if not found.events:
        found = found.made("last-batch", (0, "the log is empty"))
    elif not found.unchecked and log.tx_end > log.seq:
        found = found.made("last-batch", (log.seq, f"the last batch should end at event {log.tx_end}"))
    else:
        found = found.made("last-batch")
    head, end = found.kept, found.head
    if head is None:
        return found
    if head.seq > end.seq:
        return found.made(
            "head", (0, f"the head kept outside is at event {head.seq}; the log ends at {end.seq}")
        )
    return found.made("head", *([(head.seq, kept)] if kept else []))
