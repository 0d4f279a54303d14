"""A log being checked: the state before each event, what its batch still owes, and what later events may cite.

Nothing here repairs or forgives, and nothing here judges: the checks do. The state is folded by the same ``apply``
that the live engine uses. What is remembered is bounded by the plan, not by the length of the log.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from heapq import heapify
from typing import Any, Final, NamedTuple, cast

import attrs

from fsm_agent.core import canon
from fsm_agent.core.audit.shapes import Forms
from fsm_agent.core.engine.fold import apply
from fsm_agent.core.engine.records import RUN, Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.events import Event, Record, genesis
from fsm_agent.core.machine import FINAL_RUN_STATES

MAX_FINDINGS: Final = 1000
"""So many findings are kept; further ones are only counted."""
CALLERS_GOAL: Final = "decided step by step"
"""Goal of the plan under which a decision layer logs what it decides for a loop that somebody else keeps."""
_TRIM: Final = 256
_NO_RECORD: Final = Record(0, b"", b"")


@attrs.frozen(kw_only=True)
class Finding:
    """Something that does not fit.

    Attributes:
        seq: Of the event where it shows; 0 for the log as a whole.
        check: Id of the check.
        rule: Its rule, group and number.
        message: What was found and what would be right.
    """

    seq: int
    check: str
    rule: str
    message: str


class Given(NamedTuple):
    """An approval that was given: for which digest, until when, by how many of the people who must."""

    seq: int
    digest: str
    expires_at: int | None
    wanted: int
    people: int


class Evidence(NamedTuple):
    """What an event proves: of which task, what (``applied``, ``absent``, ``done``), with which result."""

    task: str
    says: str
    result: str | None


class _NoTask:
    """Stands for the task of an event that is about none, or about one that the plan has not."""

    def __getattr__(self, name: str) -> Any:
        raise ValueError("the plan has no such task")


NO_TASK: Final = cast("Task", _NoTask())


class Checker:
    """One log, event by event.

    Attributes:
        run: The state after the events so far.
        blob: Returns a large value's canonical bytes.
        findings: What does not fit, oldest first.
        failed: Check → how many events it found fault with.
        skipped: Function of a check → in how many of the events that it looks at it had nothing to look at.
        odd: Kind of event → how many were not ordinary: checks of all events had to look at them.
        busy: Kind of event → how many were ordinary, and not plain.
        forms: Forms of events that were found right.
        seen: Kind of event → how many there were.
        by_caller: Whether the calls are made by a loop that somebody else keeps, who answers for their arguments.
        parent: The run that the log comes from, as its checks follow it; None if it is no fork.
        task: The task that the present event is about; only where the plan has it, so that a check of another event
            stumbles over it.
        record: The present event as stored; ``previous`` the hash before it.
        seq: Of the last event; ``at`` its time.
        tx_end: Seq of the last event of the batch it stands in.
        ended: Whether the run has moved to an end that is not closed yet.
        owed: Signals that the batch has to decide: task → (signal, seq).
        due: What else the batch has to bring: (task or ``run``, what) → seq of the event that makes it due.
        said: Verdicts that people, or the clock, gave in the batch, by task.
        adopted: Whether a plan was adopted in the batch.
        newly: Tasks that were newly done in the batch.
        refused: Whether a planner's proposal was refused in the batch.
        was_final: Whether the run had ended when the batch began.
        tx_first: Seq of the first event of the batch.
        ruling: What the table says of the decision ``ruled_on``, which is a seq.
        edited: The arguments that a person asked for in the batch.
        asked_to_wait: How long the other side asked a task that failed in the batch to wait, in microseconds.
        delays: How long the retry that was decided in the batch waits, by task, in milliseconds.
        decided: Decisions of the batch that ask for another plan: task (or ``run``) → scope.
        approvals: The last approval of each task.
        used: Seqs of the last approval that each task has consumed.
        evidence: What may be cited: seq → what the event proves; per task and kind only the newest is kept.
    """

    def __init__(self, run: str, blob: Callable[[str], bytes]) -> None:
        """Begin with the empty log of *run*."""
        self.run = Run(run)
        self.blob = blob
        self.findings: list[Finding] = []
        self.failed: Counter[str] = Counter()
        self.skipped: dict[Any, int] = defaultdict(int)
        self.forms: Forms = {}
        self.seen: dict[str, int] = defaultdict(int)
        self.odd: dict[str, int] = defaultdict(int)
        self.busy: dict[str, int] = defaultdict(int)
        self.record, self.previous = _NO_RECORD, genesis(run).hash
        self.by_caller = False
        self.parent: Any = None
        self.task: Task = NO_TASK
        self.seq = self.tx_end = self.at = 0
        self.owed: dict[str, tuple[str, int]] = {}
        self.due: dict[tuple[str, str], int] = {}
        self.said: dict[str, str] = {}
        self.decided: dict[str, str] = {}
        self.asked_to_wait: dict[str, int] = {}
        self.delays: dict[str, int] = {}
        self.ruling: Any = None
        self.ruled_on: int | None = None
        self.edited: dict[str, Any] = {}
        self.tx_first = 1
        self.newly: list[str] = []
        self.adopted = self.ended = self.refused = self.was_final = False
        self.approvals: dict[str, Given] = {}
        self.used: dict[str, int] = {}
        self.evidence: dict[int, Evidence] = {}
        self._newest: dict[tuple[str, str], int] = {}
        self._trim_at = _TRIM

    def find(self, check: str, rule: str, message: str, seq: int) -> None:
        """Note a finding about event *seq*."""
        self.failed[check] += 1
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(seq=seq, check=check, rule=rule, message=message))

    def take(self, event: Event) -> None:
        """Fold *event*, after it was checked, and remember what it owes and what it proves."""
        note = _NOTES.get(event.type)
        if note is not None:
            note(self, event)
        if event.type == "approval_answered":
            self._take_answer(event)
        else:
            apply(self.run, event)
        seq, at, tx = event.seq, event.at, event.tx
        self.seq = seq
        if at > self.at:  # noqa: PLR1730 - a call costs more than the rest, here and below
            self.at = at
        last = seq if tx is None else tx[0] + tx[1] - 1
        if last > self.tx_end:  # noqa: PLR1730
            self.tx_end = last

    def end_batch(self) -> None:
        """Forget what only the batch could bring, and what the indexes of the state no longer mean."""
        if self.owed:
            self.owed.clear()
        if self.due:
            self.due.clear()
        if self.said:
            self.said.clear()
        if self.decided:
            self.decided.clear()
        if self.asked_to_wait:
            self.asked_to_wait.clear()
        if self.delays:
            self.delays.clear()
        self.adopted = self.refused = False
        if self.newly:
            self.newly.clear()
        self.was_final = self.run.state in FINAL_RUN_STATES
        self.tx_first = self.seq + 1
        run = self.run
        if len(run.timers) + len(run.ready_heap) + len(run.doomed) > self._trim_at:
            run.timers = [t for t in run.timers if run.meant(t)]
            run.ready_heap = [e for e in run.ready_heap if run.tasks[e[1]].ready]
            run.doomed = [e for e in run.doomed if run.tasks[e[1]].doomed]
            heapify(run.timers)
            heapify(run.ready_heap)
            heapify(run.doomed)
            self._trim_at = 2 * (len(run.timers) + len(run.ready_heap) + len(run.doomed)) + _TRIM

    def proves(self, kind: str, event: Event, says: str, result: str | None) -> None:
        """Remember what *event* proves of its task, in place of the last one of its *kind*."""
        name, seq = event.task or "", event.seq
        before = self._newest.get((name, kind))
        if before is not None:
            trouble = self.run.tasks[name].trouble if name in self.run.tasks else None
            if trouble is None or not trouble.late or trouble.late[0] != before:
                self.evidence.pop(before, None)  # a late reply that is still to be weighed stays
        self._newest[name, kind] = seq
        self.evidence[seq] = Evidence(name, says, result)

    def _take_answer(self, event: Event) -> None:
        """Fold a person's answer, and remember the approval that it completes."""
        run, name = self.run, event.task or RUN
        question = run.questions.get(name)
        before = question.approved_by if question is not None else ()
        apply(run, event)
        task = run.tasks.get(name)
        if event.data["verdict"] == "approved" and task is not None and task.armed is not None:
            armed, people = task.armed, len({name_of(n) for n in (*before, event.data["by"])})
            self.approvals[task.id] = Given(
                event.seq, armed.digest, armed.expires_at, task.step.approvers, people
            )


# ── what each type of event owes and proves ──────────────────────────────────────────────────────────────────


def _task_moved(log: Checker, event: Event) -> None:
    data, name = event.data, event.task or ""
    trigger = data["trigger"]
    if trigger == "start":
        if "approval" in data:
            log.used[name] = data["approval"]
    elif trigger == "hold":
        log.due[name, "a request"] = event.seq
    if log.due:
        log.due.pop((name, trigger), None)
    if trigger in VERDICT:
        log.said.pop(name, None)
    if data["dest"] == "done":
        log.newly.append(name)
        value = data["outcome"].get("value") if trigger == "succeed" else data["result"]
        log.proves("done", event, "done", canon.value_digest("result", value))
    if "outcome" in data and "retry_after_us" in data["outcome"]:
        log.asked_to_wait[name] = data["outcome"]["retry_after_us"]
    signal = "success" if trigger in ("succeed", "answer") else data.get("signal")
    if signal is not None:
        log.owed[name] = (signal, event.seq)


def _run_moved(log: Checker, event: Event) -> None:
    log.ended = event.data["dest"] in ("done", "failed", "cancelled")


def _run_closed(log: Checker, event: Event) -> None:
    del event
    log.ended = False


def _run_asked(log: Checker, event: Event) -> None:
    del event
    log.due.pop((RUN, "abort"), None)


def _input_changed(log: Checker, event: Event) -> None:
    log.due[RUN, INPUT_DECISION] = event.seq


def _run_created(log: Checker, event: Event) -> None:
    if event.data.get("review"):
        log.due[RUN, "a request"] = event.seq


def _plan_adopted(log: Checker, event: Event) -> None:
    log.adopted = True
    if log.run.plan is None:
        log.by_caller = event.data["plan"].get("goal") == CALLERS_GOAL


def _decided(log: Checker, event: Event) -> None:
    data, name = event.data, event.task or RUN
    if event.task is None:
        for owing in data.get("for", ())[:1]:
            log.owed.pop(owing, None)
        if data["signal"] == "input_changed":
            log.due.pop((RUN, INPUT_DECISION), None)
    else:
        log.owed.pop(name, None)
    decide = data["decide"]
    if decide == "accept":
        return
    match decide:
        case "retry":
            log.due[name, "retry"] = event.seq
            log.delays[name] = data["params"]["delay_ms"]
        case "skip":
            log.due[name, "cancel"] = event.seq
        case "escalate":
            log.due[name, "a question"] = event.seq
        case "abort" if log.run.wish in ("none", "pause"):
            log.due[RUN, "abort"] = event.seq
        case "replan-local" | "replan-global":
            about = data.get("about", name)
            log.due[about, "another plan"] = event.seq
            log.decided[about] = decide.removeprefix("replan-")


def _reconciled(log: Checker, event: Event) -> None:
    data = event.data
    if data["verdict"] != "inconclusive":
        log.proves("word", event, data["verdict"], _digest(data.get("result")))
    elif "probe_at" not in data:
        log.owed[event.task or ""] = ("reconcile_inconclusive", event.seq)


def _late_result(log: Checker, event: Event) -> None:
    outcome = event.data["outcome"]
    says = {"no": "absent", "yes": "applied"}.get(outcome.get("applied", "yes"), "")
    log.proves("late", event, says, _digest(outcome.get("value")))


def _approval_requested(log: Checker, event: Event) -> None:
    name = event.task or RUN
    for due in ((name, "a request"), (name, "a question"), (RUN, "a question")):
        log.due.pop(due, None)  # the run may ask about a task


def _approval_answered(log: Checker, event: Event) -> None:
    data, name = event.data, event.task or RUN
    value = data.get("value")
    log.said[name] = data["verdict"]
    if data["verdict"] == "edited":
        log.due[name, "a request"] = event.seq
        log.edited = data["args"]
    elif isinstance(value, dict) and value.get("decide") == "abort":
        log.due[RUN, "abort"] = event.seq
    value = data.get("value")
    if isinstance(value, dict):
        scope = str(value.get("decide", ""))
        if scope.startswith("replan-"):
            log.due[name, "another plan"] = event.seq
            log.decided[name] = scope.removeprefix("replan-")
        says = "applied" if "result" in value else str(value.get("decide", ""))
        log.proves("word", event, says, _digest(value.get("result")))


def _replan_refused(log: Checker, event: Event) -> None:
    del event
    log.refused = True


def _replan_requested(log: Checker, event: Event) -> None:
    name = event.task or RUN
    if log.due.pop((name, "another plan"), None) is None and log.by_caller:
        log.due.pop(
            (RUN, "another plan"), None
        )  # a loop of somebody else's says what a signal of the run is about


INPUT_DECISION: Final = "a decision on changed inputs"
"""What is due after a change of inputs."""
VERDICT: Final = {"approve": "approved", "answer": "answered", "reject": "rejected", "expire": "expired"}
"""Trigger → the verdict of the answer that must stand before it in its batch."""

_NOTES: Final[dict[str, Callable[[Checker, Event], None]]] = {
    "approval_answered": _approval_answered,
    "approval_requested": _approval_requested,
    "decided": _decided,
    "input_changed": _input_changed,
    "late_result": _late_result,
    "plan_adopted": _plan_adopted,
    "reconciled": _reconciled,
    "replan_refused": _replan_refused,
    "replan_requested": _replan_requested,
    "run_asked": _run_asked,
    "run_closed": _run_closed,
    "run_created": _run_created,
    "run_moved": _run_moved,
    "task_moved": _task_moved,
}


def by_person(event: Event) -> bool:
    """Whether a person did this."""
    return event.actor is not None and event.actor.get("kind") == "human"


def name_of(person: Any) -> str:
    """Return a person's name as people compare names, so that one does not count as two."""
    return str(person).strip().casefold()


def _digest(value: Any) -> str:
    return canon.value_digest("result", value)
