"""Audit: from the log alone, was every event whole, every move legal, every decision what the table says?

Bytes become events here, one at a time; what each is held against is in :mod:`fsm_agent.core.audit.checks`. Whatever
is wrong is a finding. Behind an event that cannot be read or applied the chain is still followed, and nothing else.
"""

from collections.abc import Callable, Iterable

import attrs

from fsm_agent.core.audit.checker import Checker, Finding
from fsm_agent.core.audit.checks import CHECKS, MOVING, Tally, hold, hold_batch, tally
from fsm_agent.core.audit.integrity import (
    APPLIES,
    CANONICAL,
    CHAIN,
    READABLE,
    VALUES,
    applies,
    canonical_bytes,
    hash_chain,
    kept_head,
    large_values,
    last_batch,
    readable,
)
from fsm_agent.core.audit.reading import plain
from fsm_agent.core.audit.replay import names_values
from fsm_agent.core.errors import FsmAgentError
from fsm_agent.core.events import Event, Head, Record, genesis

__all__ = ["CHECKS", "Audit", "Finding", "Tally", "audit", "chain_alone"]

Blobs = Callable[[str], bytes]


@attrs.frozen(kw_only=True, repr=False)
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

    def __repr__(self) -> str:
        """One line."""
        return (
            f"<audit of run {self.run}: {self.verdict}, {self.events} events, {len(self.findings)} findings>"
        )

    def _repr_html_(self) -> str:
        from html import escape  # only a notebook needs it

        rows = "".join(
            f"<tr><td>{f.seq}</td><td>{escape(f.check)}</td><td>{escape(f.message)}</td></tr>"
            for f in self.findings
        )
        head = "<tr><th>event</th><th>check</th><th>finding</th></tr>"
        return f"<p>{escape(repr(self))}</p>" + (f"<table>{head}{rows}</table>" if rows else "")

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
    log = Checker(run, dict[str, bytes]().__getitem__)
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


def audit(run: str, records: Iterable[Record], blob: Blobs, *, head: Head | None = None) -> Audit:
    """Audit a run's log. Memory is bounded by the plan and its results, not by the number of events.

    Args:
        run: Its id.
        records: From seq 1 on, as stored.
        blob: Returns a large value's canonical bytes by digest; may raise for one that is missing.
        head: A head kept outside the log, to notice a cut or forked tail.
    """
    log = Checker(run, blob)
    end: Head | Record = genesis(run)
    ruled, there = True, b""
    read = held = 0
    wanted = head.seq if head is not None else 0
    for end in records:
        read += 1
        event = _event(log, end)
        if end.seq == wanted:
            there = end.hash
        if event is None or not ruled:
            ruled = False
            continue
        held += 1
        hold(log, event)
        words = applies(log, event)
        if words:
            log.find(APPLIES.id, APPLIES.rule, words, event.seq)
            ruled = False
        elif event.seq == log.tx_end:
            hold_batch(log, event)
            log.end_batch()
    made = {
        CHAIN.id: read,
        READABLE.id: read,
        CANONICAL.id: read - log.seen["unreadable"],
        VALUES.id: log.seen["values"],
        APPLIES.id: held,
    }
    found = Audit(
        run=run,
        verdict="violations" if log.failed else "clean" if log.run.closed else "open",
        events=read,
        unchecked=read - held,
        transitions=sum(log.seen[kind] for kind in MOVING),
        decisions=log.seen["decided"],
        findings=tuple(log.findings),
        checks=tally(log, held, made),
        head=Head(end.seq, end.hash),
        state=log.run.state.value,
        kept=head,
    )
    words = last_batch(log, read, ruled=ruled)
    found = found.made("last-batch", *([(log.seq, words)] if words else []))
    if head is None:
        return found
    words = kept_head(head, found.head, there)
    return found.made("head", *([(head.seq if there else 0, words)] if words else []))


def _event(log: Checker, record: Record) -> Event | None:
    """Return the event in *record*, large values put back; None if it cannot be read."""
    words = hash_chain(log.previous, record)
    if words:
        log.find(CHAIN.id, CHAIN.rule, words, record.seq)
    log.record, log.previous, body = record, record.hash, record.body
    event = plain(body) or _odd(log, record)
    if event is None or not names_values(body):
        return event
    log.seen["values"] += 1
    try:
        return large_values(event, log.blob)
    except FsmAgentError as error:
        log.find(VALUES.id, VALUES.rule, str(error), record.seq)
        return None


def _odd(log: Checker, record: Record) -> Event | None:
    """Return the event in *record*, which is no event or not in its canonical form; None if it cannot be read."""
    try:
        event = readable(record)
    except FsmAgentError as error:
        log.find(READABLE.id, READABLE.rule, str(error), record.seq)
        log.seen["unreadable"] += 1
        return None
    words = canonical_bytes(event, record)
    if words:
        log.find(CANONICAL.id, CANONICAL.rule, words, record.seq)
    return event
