"""Audit: from the log alone, was every event whole, every move legal, every decision what the table says?

Bytes become events here; what each event is held against is in :mod:`fsm_agent.core.audit.checks`.
"""

from collections.abc import Callable, Iterable, Iterator

import attrs

from fsm_agent.core.audit.checks import CHECKS, Checker, Finding, check
from fsm_agent.core.errors import FsmAgentError
from fsm_agent.core.events import TYPES, Event, Head, Record, chain, from_body, genesis, hydrate, to_body

__all__ = ["CHECKS", "Audit", "Finding", "audit"]


@attrs.frozen(kw_only=True)
class Audit:
    """What an audit found.

    Attributes:
        run: The run's id as the log says.
        verdict: ``clean``, ``open`` (not closed yet, nothing wrong) or ``violations``.
        events: How many events were read.
        transitions: How many of them move a machine.
        decisions: How many of them are decisions.
        findings: In order of seq.
        head: Where the log ends.
        kept: The head kept outside that it was held against; None: none was, so a cut at the border of a batch
            would not show.
        signed: Seq up to which signed checkpoints vouch for it; None: no key was given.
    """

    run: str
    verdict: str
    events: int
    transitions: int
    decisions: int
    findings: tuple[Finding, ...]
    head: Head
    kept: Head | None = None
    signed: int | None = None


def audit(
    run: str, records: Iterable[Record], blob: Callable[[str], bytes], *, head: Head | None = None
) -> Audit:
    """Audit a run's log.

    Args:
        run: Its id.
        records: From seq 1 on, as stored.
        blob: Returns a large value's canonical bytes by digest; may raise for one that is missing.
        head: A head kept outside the log, to notice a cut or forked tail.
    """
    auditor = Checker(run)
    end = genesis(run)
    for record, event in _events(auditor, run, records, blob):
        end = Head(record.seq, record.hash)
        if event is None or not check(auditor, event):
            break
        if head is not None and head.seq == record.seq and head.hash != record.hash:
            auditor.find("head", "the log has another event here than the head kept outside says")
    if head is not None and head.seq > end.seq:
        auditor.find("head", f"the head kept outside is at event {head.seq}; the log ends at {end.seq}", 0)
    if auditor.tx_end > auditor.seq:
        auditor.find("order", f"the last batch should end at event {auditor.tx_end}")
    if not end.seq:
        auditor.find("begin", "the log is empty", 0)
    verdict = "violations" if auditor.findings else "clean" if auditor.run.closed else "open"
    return Audit(
        run=run,
        verdict=verdict,
        events=end.seq,
        transitions=auditor.transitions,
        decisions=auditor.decisions,
        findings=tuple(auditor.findings),
        head=end,
        kept=head,
    )


def _events(
    auditor: Checker, run: str, records: Iterable[Record], blob: Callable[[str], bytes]
) -> Iterator[tuple[Record, Event | None]]:
    previous = genesis(run).hash
    for record in records:
        if chain(previous, record.body) != record.hash:
            auditor.find(
                "chain",
                "the event does not have the hash of its contents after the event before it",
                record.seq,
            )
        previous = record.hash
        try:
            event = from_body(record.body)
            if event.seq != record.seq or event.type not in TYPES or to_body(event) != record.body:
                auditor.find("body", "the stored bytes are not the canonical form of this event", record.seq)
            yield record, hydrate(event, blob)
        except FsmAgentError as error:
            auditor.find("body", str(error), record.seq)
            yield record, None
