"""A log being checked: the state before each event, what its batch still owes, and what later events may cite.

Nothing here repairs or forgives: what does not fit becomes a finding. The state is folded by the same ``apply`` that
the live engine uses.
"""

from typing import Any, Final

import attrs

from fsm_agent.core import canon
from fsm_agent.core.engine.records import RUN, Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.events import Event
from fsm_agent.core.machine import FINAL_RUN_STATES


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


CHECKS: Final = {
    "chain": "every event has the hash of its contents after the event before it",
    "body": "the stored bytes are canonical JSON of a known event",
    "order": "seqs have no gaps, times rise, causes lie before, batches are whole",
    "head": "the log ends where the head kept outside says",
    "begin": "the first event creates the run with digests that fit; no other does",
    "legal": "the move is an edge of the table, from the state the task or run is in",
    "evidence": "the event carries what the move needs, and what it cites says so",
    "intent": "a start has the right digest, key and effect class, while the run is running and nothing forbids it",
    "twice": "no write is started while an effect under its key is or may be there",
    "budget": "no call and no probe goes out that the budgets do not allow",
    "probe": "a probe asks about an unknown result, and not before its effect must be visible",
    "approval": "what needs a person's word has one, for exactly these arguments, unexpired, used once",
    "decision": "the decision, its row and its facts are what the table says, and what it decides is done",
    "signal": "every signal is at home in its state and gets exactly one decision",
    "move": "what a decision, a word, a wish or a plan has to bring about was brought about by one",
    "end": "an ended run has nothing running and no unknown effect that nobody acknowledged",
    "after-end": "after the end only late results, evidence, notes and a person's reopening follow",
    "fold": "the event can be applied to the state before it",
    "signature": "checkpoints are signed by the key given, and name events of this log",
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


class Checker:
    """One log, event by event.

    Attributes:
        run: The state after the events so far.
        findings: What does not fit, oldest first.
        seq: Of the last event.
        at: Its time.
        tx_end: Seq of the last event of the batch it stands in.
        transitions: How many events moved a machine.
        decisions: How many were decisions.
        owed: Signals that the batch has to decide: task → (signal, seq).
        due: What else the batch has to bring: (task or ``run``, what) → seq of the event that makes it due.
        said: Verdicts that people, or the clock, gave in the batch, by task.
        people: Who had approved before the answer that is looked at.
        adopted: Whether a plan was adopted in the batch.
        ended: Whether the run has moved to an end that is not closed yet.
        used: Approvals that a start has consumed.
        approved: What each approval is for: seq → (task, digest, expiry, people wanted, people who did).
        evidence: What may be cited: seq → (task, what it says, digest of the result).
    """

    def __init__(self, run: str) -> None:
        """Begin with the empty log of *run*."""
        self.run = Run(run)
        self.findings: list[Finding] = []
        self.seq = 0
        self.tx_end = 0
        self.transitions = self.decisions = 0
        self.at = 0
        self.owed: dict[str, tuple[str, int]] = {}
        self.due: dict[tuple[str, str], int] = {}
        self.said: dict[str, str] = {}
        self.adopted = self.ended = False
        self.people: frozenset[str] = frozenset()
        self.used: set[int] = set()
        self.approved: dict[int, tuple[str, str, int | None, int, int]] = {}
        self.evidence: dict[int, tuple[str, str, str | None]] = {}

    def find(self, check: str, message: str, seq: int | None = None) -> None:
        """Note a finding about the present event, or about *seq*."""
        self.findings.append(Finding(seq=self.seq if seq is None else seq, check=check, message=message))

    def order(self, event: Event) -> None:
        """Check the place of *event* in the log and in its batch."""
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
        if (event.type == "run_created") != (event.seq == 1):
            words = f"a {event.type} at seq {event.seq}; run_created stands at seq 1 and nowhere else"
            self.find("begin", words)
        if self.run.closed and event.type not in _AFTER_END and not _reopens(event):
            self.find("after-end", f"a {event.type} after the run was closed")

    def settle_up(self) -> None:
        """At the end of a batch: every signal was decided, everything that had to follow has followed."""
        for name, (signal, seq) in self.owed.items():
            self.find("signal", f"{signal} of {name} got no decision in its batch", seq)
        for (name, what), seq in self.due.items():
            self.find("move", f"{what} of {name} had to follow in the batch of event {seq}, and did not", seq)
        run = self.run
        if run.state in FINAL_RUN_STATES and not run.closed:
            self.find("end", f"the run is {run.state.value}, and its batch does not close it with a report")
        self.owed.clear()
        self.due.clear()
        self.said.clear()
        self.adopted = False

    def task(self, event: Event) -> Task:
        """Return the task that *event* is about.

        Raises:
            ValueError: The plan has none of that name.
        """
        if event.task is None or event.task not in self.run.tasks:
            raise ValueError(f"the plan has no task {event.task!r}")
        return self.run.tasks[event.task]

    def remember(self, event: Event) -> None:
        """Remember what later events may cite, and what approvals were given."""
        data, name = event.data, event.task or ""
        match event.type:
            case "reconciled" if data["verdict"] != "inconclusive":
                self.evidence[event.seq] = (name, data["verdict"], result_digest(data.get("result")))
            case "late_result":
                says = {"no": "absent", "yes": "applied"}.get(data["outcome"].get("applied", "yes"), "")
                self.evidence[event.seq] = (name, says, result_digest(data["outcome"].get("value")))
            case "approval_answered":
                self._remember_answer(event)
            case "task_moved" if data["dest"] == "done":
                self.evidence[event.seq] = (name, "done", data["result_digest"])

    def _remember_answer(self, event: Event) -> None:
        data, name = event.data, event.task or RUN
        self.said[name] = data["verdict"]
        value = data.get("value")
        if isinstance(value, dict):
            says = "applied" if "result" in value else str(value.get("decide", ""))
            self.evidence[event.seq] = (name, says, result_digest(value.get("result")))
        task = self.run.tasks.get(name)
        if data["verdict"] == "approved" and task is not None and task.armed is not None:
            armed = task.armed
            people = len({*self.people, data["by"]})
            self.approved[event.seq] = (name, armed.digest, armed.expires_at, task.step.approvers, people)


def by_person(event: Event) -> bool:
    """Whether a person did this."""
    return event.actor is not None and event.actor.get("kind") == "human"


def result_digest(value: Any) -> str:
    """Return the digest of a result."""
    return canon.value_digest("result", value)


def _reopens(event: Event) -> bool:
    if event.type == "task_moved":
        return event.data.get("trigger") in ("settle", "clear", "cancel")
    return event.type == "run_moved" and event.data.get("trigger") in ("resume", "cancel")
