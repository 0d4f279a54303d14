"""Audit: from the log alone, was every event whole, every move legal, every decision what the table says?

The checks are small named functions over one event and the state before it. Nothing here repairs or forgives; what
does not fit becomes a finding with the seq and the check's id. The state is folded by the same ``apply`` that the
live engine uses, the facts of a decision are computed anew, and the rule table is the one in the log.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import attrs

from fsm_agent.core import canon
from fsm_agent.core.derived import failure
from fsm_agent.core.door import approval_digest
from fsm_agent.core.errors import FsmAgentError
from fsm_agent.core.events import TYPES, Event, Head, Record, chain, from_body, genesis, hydrate, to_body
from fsm_agent.core.fold import apply
from fsm_agent.core.machine import (
    FINAL_RUN_STATES,
    GUARDS,
    MACHINES_DIGEST,
    TABLES,
    WRITES,
    RunState,
    run_fault,
)
from fsm_agent.core.policy import rule_on
from fsm_agent.core.signals import HOME, Signal
from fsm_agent.core.state import Run, Task


@attrs.frozen(kw_only=True)
class Finding:
    """Something that does not fit.

    Attributes:
        seq: Of the event where it shows; 0 for the log as a whole.
        check: Id of the check, a key of :data:`CHECKS`.
        message: What was found and what would be right.
    """

    seq: int
    check: str
    message: str


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
    """

    run: str
    verdict: str
    events: int
    transitions: int
    decisions: int
    findings: tuple[Finding, ...]
    head: Head


CHECKS: Final = {
    "chain": "every event has the hash of its contents after the event before it",
    "body": "the stored bytes are canonical JSON of a known event",
    "order": "seqs have no gaps, times rise, causes lie before, batches are whole",
    "head": "the log ends where the head kept outside says",
    "begin": "the first event creates the run; no other does",
    "legal": "the move is an edge of the table, from the state the task or run is in",
    "evidence": "the event carries what the move needs",
    "intent": "a start has the right digest, key and effect class, while the run is running and nothing forbids it",
    "twice": "no write is started while an effect under its key is or may be there",
    "approval": "what needs a person's word has one, for exactly these arguments, unexpired, used once",
    "decision": "the decision, its row and its facts are what the table says",
    "signal": "every signal is at home in its state and gets exactly one decision",
    "end": "an ended run has nothing running and no unknown effect that nobody acknowledged",
    "after-end": "after the end only late results, evidence, notes and a person's reopening follow",
    "fold": "the event can be applied to the state before it",
}
"""Check id → what it demands."""

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


class _Auditor:
    def __init__(self, run: str) -> None:
        self.run = Run(run)
        self.findings: list[Finding] = []
        self.seq = 0
        self.at = 0
        self.transitions = self.decisions = 0
        self.owed: dict[str, tuple[str, int]] = {}
        self.used: set[int] = set()
        self.approved: dict[int, tuple[str, str, int | None, int, frozenset[str]]] = {}
        self.tx_end = 0

    def find(self, check: str, message: str, seq: int | None = None) -> None:
        self.findings.append(Finding(seq=self.seq if seq is None else seq, check=check, message=message))

    def event(self, event: Event) -> bool:
        """Check *event* against the state before it, then apply it; False if it cannot be applied."""
        self._order(event)
        if (event.type == "run_created") != (event.seq == 1):
            self.find(
                "begin", f"a {event.type} at seq {event.seq}; run_created stands at seq 1 and nowhere else"
            )
        try:
            check = _BY_TYPE.get(event.type)
            if check is not None:
                check(self, event)
            apply(self.run, event)
            if event.type == "approval_answered":
                self._remember_approval(event)
        except (FsmAgentError, KeyError, TypeError, ValueError, AttributeError, AssertionError) as error:
            self.find(
                "fold",
                f"{event.type} cannot be applied to the state before it ({type(error).__name__}: {error})",
            )
            return False
        if event.seq == self.tx_end:
            self._debts()
        return True

    def _order(self, event: Event) -> None:
        if event.seq != self.seq + 1:
            self.find("order", f"event {event.seq} follows event {self.seq}", event.seq)
        self.seq = event.seq
        if event.at <= self.at:
            self.find("order", f"its time {event.at} is not after {self.at}")
        self.at = max(self.at, event.at)
        if event.cause is not None and not 0 < event.cause < event.seq:
            self.find("order", f"its cause {event.cause} does not lie before it")
        first, count = event.tx if event.tx is not None else (event.seq, 1)
        if self.tx_end >= event.seq and first + count - 1 != self.tx_end:
            self.find("order", f"its batch [{first}, {count}] is not the one it stands in")
        elif self.tx_end < event.seq and (first != event.seq or count < 1):
            self.find("order", f"its batch [{first}, {count}] does not begin here")
        self.tx_end = max(self.tx_end, first + count - 1)
        if self.run.closed and event.type not in _AFTER_END and not _reopens(event):
            self.find("after-end", f"a {event.type} after the run was closed")

    # ── moves ─────────────────────────────────────────────────────────────────────────────────────────────────

    def task_moved(self, event: Event) -> None:
        """Check a task's move: legal, with evidence, and what each kind of move demands."""
        self.transitions += 1
        task, data = self._task(event), event.data
        trigger, source = data["trigger"], data["source"]
        if source != task.state.value or TABLES["task"].get((source, trigger)) != data["dest"]:
            self.find(
                "legal",
                f"{task.id} is {task.state.value}; the move says {source} × {trigger} → {data['dest']}",
            )
        effect, applied = _effect_of(self.run, task, data), _applied_of(task, data)
        fault = GUARDS[trigger](data, effect, applied)
        if fault:
            self.find("evidence", f"{task.id} {trigger}: {fault}")
        if trigger == "start":
            self._start(task, data, event.at)
        elif trigger in ("settle", "clear"):
            self._cited(data["evidence"])
        if "signal" in data:
            self.owed[task.id] = (data["signal"], event.seq)
        elif trigger in ("succeed", "answer"):
            self.owed[task.id] = ("success", event.seq)

    def _task(self, event: Event) -> Task:
        if event.task is None or event.task not in self.run.tasks:
            raise ValueError(f"the plan has no task {event.task!r}")
        return self.run.tasks[event.task]

    def _start(self, task: Task, data: dict[str, Any], at: int) -> None:
        run = self.run
        spec = run.tools.get(data["tool"])
        if run.state is not RunState.RUNNING or run.wish != "none":
            self.find("intent", f"{task.id} starts while the run is {run.state.value} with wish {run.wish}")
        if not task.ready:
            self.find("intent", f"{task.id} starts although its dependencies do not let it")
        if task.not_before > at:
            self.find(
                "intent", f"{task.id} starts {(task.not_before - at) / 1e6:g} s before its delay is over"
            )
        if spec is None or spec.effect.value != data["effect"]:
            self.find(
                "intent",
                f"{task.id} starts {data['tool']} as {data['effect']}; the registry knows it otherwise",
            )
            return
        digest = canon.value_digest("args", [spec.name, data["args"]])
        if digest != data["args_digest"] or data["attempt"] != task.attempt + 1:
            self.find(
                "intent",
                f"{task.id}: the arguments' digest or the number of the attempt is not what it must be",
            )
        key = canon.value_digest("key", [run.id, task.id, digest])[:32]
        if key != data["key"]:
            self.find(
                "intent", f"{task.id}: the idempotency key is not the digest of run, step and arguments"
            )
        if spec.effect in WRITES and run.keys.get(data["key"], "no") != "no":
            self.find(
                "twice", f"{task.id} starts a {spec.effect.value} whose effect is or may be there already"
            )
        if task.step.requires_confirmation or spec.confirm or spec.effect == "irreversible":
            self._needs_approval(task, data, approval_digest(run, task, spec, data["args"]), at)

    def _needs_approval(self, task: Task, data: dict[str, Any], digest: str, at: int) -> None:
        seq = data.get("approval", 0)
        given = self.approved.get(seq)
        if given is None:
            self.find("approval", f"{task.id} starts without the approval that it needs")
            return
        name, approved, expires_at, wanted, people = given
        if name != task.id or approved != digest:
            self.find("approval", f"{task.id}: approval {seq} was given for something else")
        if expires_at is not None and at > expires_at:
            self.find("approval", f"{task.id}: approval {seq} had expired")
        if len(people) < wanted:
            self.find("approval", f"{task.id}: {wanted} people must approve, {len(people)} did")
        if seq in self.used:
            self.find("approval", f"{task.id}: approval {seq} is used a second time")
        self.used.add(seq)

    def _remember_approval(self, event: Event) -> None:
        task = self.run.tasks.get(event.task or "")
        if event.data["verdict"] == "approved" and task is not None and task.armed is not None:
            armed = task.armed
            self.approved[event.seq] = (task.id, armed.digest, armed.expires_at, *self.approvers(task, event))

    def approvers(self, task: Task, event: Event) -> tuple[int, frozenset[str]]:
        """Return how many people must approve and who did, this event included."""
        return task.step.approvers, self._people | {event.data["by"]}

    _people: frozenset[str] = frozenset()

    def approval_answered(self, event: Event) -> None:
        """Check that an answer answers an open question, by its digest."""
        question = self.run.questions.get(event.task or "run")
        if question is None:
            self.find("approval", f"an answer for {event.task or 'run'}, which asks for nothing")
            return
        self._people = frozenset(question.approved_by)
        if event.data["args_digest"] != question.digest:
            self.find("approval", f"an answer for {event.task or 'run'} to another question")
        if event.data["verdict"] == "approved" and event.data["by"] in question.approved_by:
            self.find("approval", f"{event.data['by']} approves {event.task} twice")

    def _cited(self, evidence: dict[str, Any]) -> None:
        seq = evidence.get("seq")
        if not isinstance(seq, int) or not 0 < seq < self.seq:
            self.find("evidence", f"the evidence names event {seq!r}, which does not lie before it")

    def run_moved(self, event: Event) -> None:
        """Check a run's move."""
        self.transitions += 1
        run, data = self.run, event.data
        if (
            data["source"] != run.state.value
            or TABLES["run"].get((data["source"], data["trigger"])) != data["dest"]
        ):
            self.find(
                "legal",
                f"the run is {run.state.value}; the move says {data['source']} × {data['trigger']} → {data['dest']}",
            )
        fault = run_fault(data["trigger"], **run.tally())
        if fault:
            self.find("end", f"the run moves by {data['trigger']}: {fault}")

    def run_closed(self, event: Event) -> None:
        """Check the end of the log."""
        if self.run.state not in FINAL_RUN_STATES:
            self.find("end", f"the log is closed while the run is {self.run.state.value}")
        if event.data["report"]["state"] != self.run.state.value:
            self.find(
                "end", f"the report says {event.data['report']['state']}, the run is {self.run.state.value}"
            )

    # ── decisions ─────────────────────────────────────────────────────────────────────────────────────────────

    def decided(self, event: Event) -> None:
        """Decide again, from the facts as the log gives them, and compare everything."""
        self.decisions += 1
        run, data = self.run, event.data
        task = self._task(event) if event.task is not None else None
        machine, state = ("task", task.state.value) if task is not None else ("run", "running")
        signal = Signal(data["signal"])
        if data["state"] != state or signal not in HOME[(machine, state)]:
            self.find("signal", f"{signal.value} fires in {machine} {data['state']}; it is not at home there")
            return
        self._pay(event, task)
        ruling = rule_on(run, task, signal)
        said, right = (data["rule"], data["decide"]), (ruling.rule, ruling.decide.value)
        if said != right:
            words = f"the log says {said[1]} by {said[0]}; the table says {right[1]} by {right[0]}"
            self.find("decision", words)
        if ruling.facts != data["facts"]:
            self.find("decision", f"the log saw the facts {data['facts']}; they were {ruling.facts}")

    def _pay(self, event: Event, task: Task | None) -> None:
        """Match a decision with the signal that called for it."""
        if task is None:
            if "for" in event.data:
                self.owed.pop(event.data["for"][0], None)
            return
        owed = self.owed.pop(task.id, None)
        if owed is None:
            return
        signal = event.data["signal"]
        right = failure(self.run, task, Signal(owed[0]))[0].value
        if signal != right:
            words = f"event {owed[1]} signals {owed[0]}, which makes {right} here"
            self.find("signal", f"{words}, but the decision is about {signal}")

    def _debts(self) -> None:
        for name, (signal, seq) in self.owed.items():
            self.find("signal", f"{signal} of {name} got no decision in its batch", seq)
        self.owed.clear()


def _reopens(event: Event) -> bool:
    if event.type == "task_moved":
        return event.data.get("trigger") in ("settle", "clear", "cancel")
    return event.type == "run_moved" and event.data.get("trigger") in ("resume", "cancel")


def _effect_of(run: Run, task: Task, data: dict[str, Any]) -> str:
    if data["trigger"] == "start":
        spec = run.tools.get(data.get("tool", ""))
        return spec.effect.value if spec is not None else "read"
    return task.effect


def _applied_of(task: Task, data: dict[str, Any]) -> str:
    trigger = data["trigger"]
    if trigger in ("fail", "lose"):
        return str(data["outcome"].get("applied", "maybe"))
    if trigger == "clear":
        return str(data["applied"])
    return task.applied


_BY_TYPE: Final[dict[str, Callable[[_Auditor, Event], None]]] = {
    "task_moved": _Auditor.task_moved,
    "run_moved": _Auditor.run_moved,
    "run_closed": _Auditor.run_closed,
    "decided": _Auditor.decided,
    "approval_answered": _Auditor.approval_answered,
}


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
    auditor = _Auditor(run)
    end = genesis(run)
    for record, event in _events(auditor, run, records, blob):
        end = Head(record.seq, record.hash)
        if event is None or not auditor.event(event):
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
    )


def _events(
    auditor: _Auditor, run: str, records: Iterable[Record], blob: Callable[[str], bytes]
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
            if event.type == "run_created" and event.data.get("machines_digest") != MACHINES_DIGEST:
                auditor.find("legal", "the run was made by other state tables than these", record.seq)
            yield record, hydrate(event, blob)
        except FsmAgentError as error:
            auditor.find("body", str(error), record.seq)
            yield record, None
            return
