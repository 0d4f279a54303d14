"""What every event of a log is held against: the state before it, the tables, and what else its batch must hold.

Each check is a small method named after the event it reads, or after what it demands. Nothing here repairs or
forgives: what does not fit becomes a finding. The state is folded by the same ``apply`` that the live engine uses,
the facts of a decision are computed anew, and the rule table is the one in the log.
"""

from collections.abc import Callable
from typing import Any, Final

import attrs

from fsm_agent.core import canon
from fsm_agent.core.engine import budget
from fsm_agent.core.engine.changes import drifted
from fsm_agent.core.engine.derived import failure
from fsm_agent.core.engine.door import approval_digest, args_digest, effect_before, needs_approval
from fsm_agent.core.engine.fold import apply
from fsm_agent.core.engine.policy import STRENGTH, rule_on, settle_us
from fsm_agent.core.engine.state import RUN, Run, Task
from fsm_agent.core.events import Event
from fsm_agent.core.inputs import Usage
from fsm_agent.core.machine import (
    FINAL_RUN_STATES,
    GUARDS,
    MACHINES_DIGEST,
    TABLES,
    RunState,
    TaskState,
    run_fault,
)
from fsm_agent.core.signals import HOME, Signal


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
_SAID: Final = {"approve": "approved", "answer": "answered", "reject": "rejected", "expire": "expired"}
"""Trigger → the verdict of the answer that must stand before it in its batch."""


class Checker:
    """Checks one log, event by event.

    Attributes:
        run: The state after the events so far.
        findings: What does not fit, oldest first.
        seq: Of the last event.
        tx_end: Seq of the last event of the batch it stands in.
        transitions: How many events moved a machine.
        decisions: How many were decisions.
    """

    def __init__(self, run: str) -> None:
        """Begin with the empty log of *run*."""
        self.run = Run(run)
        self.findings: list[Finding] = []
        self.seq = 0
        self.tx_end = 0
        self.transitions = self.decisions = 0
        self._at = 0
        self._owed: dict[str, tuple[str, int]] = {}
        self._due: dict[tuple[str, str], int] = {}
        self._said: dict[str, str] = {}
        self._adopted = self._ended = False
        self._used: set[int] = set()
        self._approved: dict[int, tuple[str, str, int | None, int, int]] = {}
        self._evidence: dict[int, tuple[str, str, str | None]] = {}

    def find(self, check: str, message: str, seq: int | None = None) -> None:
        """Note a finding about the present event, or about *seq*."""
        self.findings.append(Finding(seq=self.seq if seq is None else seq, check=check, message=message))

    def event(self, event: Event) -> bool:
        """Check *event* against the state before it, then apply it; False if it cannot be applied."""
        try:
            self._order(event)
            check = _BY_TYPE.get(event.type)
            if check is not None:
                check(self, event)
            apply(self.run, event)
            self._remember(event)
        except Exception as error:  # noqa: BLE001 - whatever a forged event makes a check stumble over is a finding
            words = f"{event.type} cannot be applied to the state before it ({type(error).__name__}: {error})"
            self.find("fold", words)
            return False
        if event.seq == self.tx_end:
            self._settle_up()
        return True

    def _order(self, event: Event) -> None:
        if event.seq != self.seq + 1:
            self.find("order", f"event {event.seq} follows event {self.seq}", event.seq)
        self.seq = event.seq
        if event.at <= self._at:
            self.find("order", f"its time {event.at} is not after {self._at}")
        self._at = max(self._at, event.at)
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

    def _settle_up(self) -> None:
        """At the end of a batch: every signal was decided, everything that had to follow has followed."""
        for name, (signal, seq) in self._owed.items():
            self.find("signal", f"{signal} of {name} got no decision in its batch", seq)
        for (name, what), seq in self._due.items():
            self.find("move", f"{what} of {name} had to follow in the batch of event {seq}, and did not", seq)
        run = self.run
        if run.state in FINAL_RUN_STATES and not run.closed:
            self.find("end", f"the run is {run.state.value}, and its batch does not close it with a report")
        self._owed.clear()
        self._due.clear()
        self._said.clear()
        self._adopted = False

    # ── the run ───────────────────────────────────────────────────────────────────────────────────────────────

    def run_created(self, event: Event) -> None:
        """Check the beginning: this run, these machines, the table whose digest it names."""
        data = event.data
        if data["run"] != self.run.id:
            self.find("begin", f"the log is of run {data['run']}, not of {self.run.id}")
        if data["machines_digest"] != MACHINES_DIGEST:
            self.find("legal", "the run was made by other state tables than these")
        if canon.value_digest("rules", data["rules"]) != data["rules_digest"]:
            self.find("begin", "the rule table is not the one that its digest names")

    def plan_adopted(self, event: Event) -> None:
        """Check that a plan is what its digest names, and the next version."""
        data = event.data
        if canon.value_digest("plan", data["plan"]) != data["digest"]:
            self.find("begin", "the plan is not the one that its digest names")
        if data["plan_version"] != self.run.plan_version + 1:
            self.find("order", f"plan version {data['plan_version']} follows version {self.run.plan_version}")
        self._adopted = True

    def owner_changed(self, event: Event) -> None:
        """Check that epochs rise."""
        if event.data["epoch"] <= self.run.epoch:
            self.find("order", f"epoch {event.data['epoch']} follows epoch {self.run.epoch}")

    def run_asked(self, event: Event) -> None:
        """Check the rank of a wish and what it acknowledges, and note that a decided abort was wished for."""
        self._due.pop((RUN, "abort"), None)
        held, wish = self.run.wish, event.data["wish"]
        lifted = wish == "none" and held == "pause"
        if not lifted and not (STRENGTH.index(wish) >= STRENGTH.index(held) and wish != "none"):
            self.find("move", f"{wish} is wished while {held} is in force")
        for name in event.data.get("acknowledged", ()):
            if self.run.tasks[name].state is not TaskState.UNKNOWN:
                self.find("end", f"{name} is acknowledged, and its result is not unknown")

    def run_moved(self, event: Event) -> None:
        """Check a run's move: legal, allowed by its tasks, and wished for where it needs a wish."""
        self.transitions += 1
        run, data = self.run, event.data
        trigger, source = data["trigger"], data["source"]
        if run.plan is None:
            self.find("begin", f"the run moves by {trigger} before it has a plan")
        if source != run.state.value or TABLES["run"].get((source, trigger)) != data["dest"]:
            words = f"the run is {run.state.value}; the move says {source} × {trigger} → {data['dest']}"
            self.find("legal", words)
        self._ended = data["dest"] in ("done", "failed", "cancelled")
        fault = run_fault(trigger, **run.tally(trigger))
        if fault:
            self.find("end", f"the run moves by {trigger}: {fault}")
        idle = not any(
            t.state is not TaskState.DONE and t.state is not TaskState.CANCELLED for t in run.tasks.values()
        )
        if trigger in ("abort", "cancel") and run.wish != trigger and not (trigger == "cancel" and idle):
            self.find("move", f"the run moves by {trigger}, and nobody wished it (wish {run.wish})")
        if trigger == "resume" and (source == "failed" or run.paused) and not _by_person(event):
            self.find("move", "an aborted or paused run is resumed, and no person did it")
        if trigger == "hold" and not (run.wish == "pause" if data.get("paused") else run.questions):
            self.find("move", "the run waits, and neither is anybody asked nor did anybody pause it")
        if trigger == "lose" and not run.counts[TaskState.UNKNOWN]:
            self.find("move", "the run waits for evidence, and no result is unknown")

    def run_closed(self, event: Event) -> None:
        """Check the end of the log."""
        state = self.run.state
        if not self._ended:
            self.find(
                "end", "the log is closed, and the run has not moved to an end since it was closed before"
            )
        self._ended = False
        if state not in FINAL_RUN_STATES:
            self.find("end", f"the log is closed while the run is {state.value}")
        if event.data["report"]["state"] != state.value:
            self.find("end", f"the report says {event.data['report']['state']}, the run is {state.value}")

    # ── moves of tasks ────────────────────────────────────────────────────────────────────────────────────────

    def task_moved(self, event: Event) -> None:
        """Check a task's move: legal, with evidence, brought about by what may bring it about."""
        self.transitions += 1
        task, data = self._task(event), event.data
        trigger, source = data["trigger"], data["source"]
        if source != task.state.value or TABLES["task"].get((source, trigger)) != data["dest"]:
            words = f"{task.id} is {task.state.value}; the move says {source} × {trigger} → {data['dest']}"
            self.find("legal", words)
        fault = GUARDS[trigger](data, _effect_of(self.run, task, data), _applied_of(task, data))
        if fault:
            self.find("evidence", f"{task.id} {trigger}: {fault}")
        if trigger == "start":
            self._start(task, data, event.at)
        elif trigger in ("settle", "clear"):
            self._cited(task, data)
        elif trigger == "hold":
            self._due[task.id, "a request"] = event.seq
        if "result_digest" in data:
            value = data["outcome"].get("value") if trigger == "succeed" else data["result"]
            if canon.value_digest("result", value) != data["result_digest"]:
                self.find("evidence", f"{task.id}: the result is not the one that its digest names")
        self._brought_about(task, event)
        signal = "success" if trigger in ("succeed", "answer") else data.get("signal")
        if signal is not None:
            self._owed[task.id] = (signal, event.seq)

    def _task(self, event: Event) -> Task:
        if event.task is None or event.task not in self.run.tasks:
            raise ValueError(f"the plan has no task {event.task!r}")
        return self.run.tasks[event.task]

    def _brought_about(self, task: Task, event: Event) -> None:
        """A move that somebody must have caused: by a word, by a decision, by a wish or by a plan."""
        data, trigger = event.data, event.data["trigger"]
        decided = self._due.pop((task.id, trigger), None) is not None
        said = _SAID.get(trigger)
        if said is not None and self._said.pop(task.id, None) != said:
            self.find("move", f"{task.id} moves by {trigger}, and no answer says so")
        if trigger == "approve" and task.armed is None:
            self.find("approval", f"{task.id} is approved, and not everybody who must has said so")
        if decided or self._adopted:
            return
        if _by_person(event):
            if trigger == "cancel" and self._said.get(task.id) != "answered":
                self.find("move", f"{task.id} is cancelled by a person, and no answer says so")
            return
        if trigger == "retry" and not drifted(self.run, task):
            self.find("move", f"{task.id} is tried again, and neither a decision nor a person said so")
        elif trigger == "cancel" and not self._may_cancel(task, data):
            self.find("move", f"{task.id} is cancelled as {data['code']}, and nothing made it so")

    def _may_cancel(self, task: Task, data: dict[str, Any]) -> bool:
        origin = self.run.tasks.get(data.get("origin", ""))
        if origin is not None:
            return origin.state is TaskState.CANCELLED and origin.reason_code == data["code"] and task.doomed
        wish = {"cancelled": "cancel", "aborted": "abort"}.get(data["code"])
        return (
            self.run.wish == wish
            if wish is not None
            else (data["code"] == "condition" and task.step.when is not None)
        )

    def _cited(self, task: Task, data: dict[str, Any]) -> None:
        """Check that the evidence is an earlier event that says just this of this task."""
        seq = data["evidence"].get("seq")
        about, says, digest = self._evidence.get(seq, ("", "", None))
        needed = "absent" if data.get("applied") == "no" else "applied"
        mine = about == task.id or (says == "done" and self._adopted)
        if not mine or says not in (needed, "done"):
            self.find("evidence", f"{task.id}: event {seq!r} is no evidence that the effect is {needed}")
        elif data["trigger"] == "settle" and digest != data["result_digest"]:
            self.find("evidence", f"{task.id}: event {seq} gives another result")

    def _start(self, task: Task, data: dict[str, Any], at: int) -> None:
        run = self.run
        if run.state is not RunState.RUNNING or run.wish != "none":
            self.find("intent", f"{task.id} starts while the run is {run.state.value} with wish {run.wish}")
        if run.barred:
            words = "a question about the whole run is open, or a broken constraint awaits another plan"
            self.find("intent", f"{task.id} starts while {words}")
        if not task.ready:
            self.find("intent", f"{task.id} starts although its dependencies do not let it")
        if task.not_before > at:
            early = (task.not_before - at) / 1e6
            self.find("intent", f"{task.id} starts {early:g} s before its delay is over")
        spec = run.tools.get(data["tool"])
        if spec is None or spec.effect.value != data["effect"]:
            words = f"{task.id} starts {data['tool']} as {data['effect']}; the registry knows it otherwise"
            self.find("intent", words)
            return
        if not run.plans(task):
            self.find("intent", f"{task.id} starts, and the plan in force does without it")
        if data["tool"] != run.tool_of(task.step):
            self.find("intent", f"{task.id} starts {data['tool']}; the plan says {run.tool_of(task.step)}")
        digest = args_digest(spec, data["args"])
        if digest != data["args_digest"] or data["attempt"] != task.attempt + 1:
            words = "the arguments' digest or the number of the attempt is not what it must be"
            self.find("intent", f"{task.id}: {words}")
        if run.key_of(task, digest) != data["key"]:
            self.find("intent", f"{task.id}: the key is not the digest of run, step and arguments")
        why = effect_before(run, task, spec, data["key"])
        if why:
            self.find("twice", f"{task.id} starts a {spec.effect.value}: {why}")
        self._affordable(f"{task.id} starts", Usage(**data.get("reserve", {})))
        if needs_approval(task, spec):
            self._needs_approval(task, data, approval_digest(run, task, spec, data["args"]), at)

    def _affordable(self, what: str, wanted: Usage) -> None:
        why = budget.missing(self.run, wanted) if budget.limited(self.run) else ""
        if why:
            self.find("budget", f"{what}: {why}")

    # ── evidence ──────────────────────────────────────────────────────────────────────────────────────────────

    def probe_sent(self, event: Event) -> None:
        """Check that a probe asks about an unknown result, late enough, and is paid for."""
        task = self._task(event)
        if task.state is not TaskState.UNKNOWN or task.probing:
            self.find("probe", f"{task.id} is {task.state.value}; there is nothing to ask, or a probe is out")
        early = task.deadline_at + settle_us(self.run, task) - event.at
        if early > 0:
            self.find(
                "probe", f"{task.id} is asked about {early / 1e6:g} s before its effect must be visible"
            )
        if event.data["repeat"] and self.run.wish != "none":
            self.find("probe", f"{task.id} is sent again although the run is asked to {self.run.wish}")
        self._affordable(f"a probe of {task.id}", Usage())

    def reconciled(self, event: Event) -> None:
        """Check where a verdict comes from; one that says nothing must be decided on, unless it asks for a probe."""
        task, data = self._task(event), event.data
        if data["by"] == "probe" and not task.probing:
            self.find("probe", f"a probe of {task.id} answers, and none is out")
        if not data["evidence"]:
            self.find("evidence", f"a verdict on {task.id} without words")
        if data["verdict"] == "inconclusive" and "probe_at" not in data:
            self._owed[task.id] = ("reconcile_inconclusive", event.seq)

    def late_result(self, event: Event) -> None:
        """Check that a late reply is of an attempt that was made and is not running."""
        task, attempt = self._task(event), event.data["attempt"]
        running = task.state is TaskState.RUNNING and attempt == task.attempt
        if running or not 1 <= attempt <= task.attempt:
            self.find("evidence", f"a late result of attempt {attempt} of {task.id}, which is none")

    def _remember(self, event: Event) -> None:
        """Remember what later events may cite, and what approvals were given."""
        data, name = event.data, event.task or ""
        match event.type:
            case "reconciled" if data["verdict"] != "inconclusive":
                self._evidence[event.seq] = (name, data["verdict"], _digest(data.get("result")))
            case "late_result":
                says = {"no": "absent", "yes": "applied"}.get(data["outcome"].get("applied", "yes"), "")
                self._evidence[event.seq] = (name, says, _digest(data["outcome"].get("value")))
            case "approval_answered":
                self._remember_answer(event)
            case "task_moved" if data["dest"] == "done":
                self._evidence[event.seq] = (name, "done", data["result_digest"])

    def _remember_answer(self, event: Event) -> None:
        data, name = event.data, event.task or RUN
        self._said[name] = data["verdict"]
        value = data.get("value")
        if isinstance(value, dict):
            says = "applied" if "result" in value else str(value.get("decide", ""))
            self._evidence[event.seq] = (name, says, _digest(value.get("result")))
        task = self.run.tasks.get(name)
        if data["verdict"] == "approved" and task is not None and task.armed is not None:
            armed = task.armed
            people = len({*self._people, data["by"]})
            self._approved[event.seq] = (name, armed.digest, armed.expires_at, task.step.approvers, people)

    # ── approvals ─────────────────────────────────────────────────────────────────────────────────────────────

    _people: frozenset[str] = frozenset()

    def approval_requested(self, event: Event) -> None:
        """Check that a request is for the call it shows."""
        data, name = event.data, event.task or RUN
        if data["kind"] != "decide" and (name, "a request") not in self._due:
            self.find("approval", f"{name} asks for a word of kind {data['kind']}, and nothing made it ask")
        for due in (
            (name, "a request"),
            (name, "a question"),
            (RUN, "a question"),
        ):  # the run may ask about a task
            self._due.pop(due, None)
        if data["kind"] != "approval":
            return
        task = self._task(event)
        spec = self.run.tools.get(data["tool"])
        if spec is None or approval_digest(self.run, task, spec, data["args"]) != data["args_digest"]:
            self.find("approval", f"the request of {task.id} does not have the digest of what it shows")

    def approval_answered(self, event: Event) -> None:
        """Check that an answer answers an open question, by its digest, in time."""
        data, name = event.data, event.task or RUN
        question = self.run.questions.get(name)
        if question is None:
            self.find("approval", f"an answer for {name}, which asks for nothing")
            return
        self._people = frozenset(question.approved_by)
        if data["args_digest"] != question.digest or data["kind"] != question.kind:
            self.find("approval", f"an answer for {name} to another question")
        if data["verdict"] == "approved" and data["by"] in question.approved_by:
            self.find("approval", f"{data['by']} approves {name} twice")
        if data["verdict"] == "edited":
            self._due[name, "a request"] = event.seq
        over = question.expires_at is not None and event.at >= question.expires_at
        if over != (data["verdict"] == "expired"):
            self.find(
                "approval", f"{name} is {data['verdict']}, and its time was {'over' if over else 'not over'}"
            )

    def _needs_approval(self, task: Task, data: dict[str, Any], digest: str, at: int) -> None:
        seq = data.get("approval", 0)
        given = self._approved.get(seq)
        if given is None:
            self.find("approval", f"{task.id} starts without the approval that it needs")
            return
        name, approved, expires_at, wanted, people = given
        if name != task.id or approved != digest:
            self.find("approval", f"{task.id}: approval {seq} was given for something else")
        if expires_at is not None and at > expires_at:
            self.find("approval", f"{task.id}: approval {seq} had expired")
        if people < wanted:
            self.find("approval", f"{task.id}: {wanted} people must approve, {people} did")
        if seq in self._used:
            self.find("approval", f"{task.id}: approval {seq} is used a second time")
        self._used.add(seq)

    # ── decisions ─────────────────────────────────────────────────────────────────────────────────────────────

    def decided(self, event: Event) -> None:
        """Decide again, from the facts as the log gives them, and compare everything."""
        self.decisions += 1
        run, data = self.run, event.data
        task = self._task(event) if event.task is not None else None
        machine, state = ("task", task.state.value) if task is not None else ("run", "running")
        signal = Signal(data["signal"])
        if data["state"] != state or signal not in HOME.get((machine, state), ()):
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
        self._follow_up(event, task)

    def _follow_up(self, event: Event, task: Task | None) -> None:
        """Note what must follow in the batch."""
        data, name = event.data, event.task or RUN
        match data["decide"]:
            case "retry":
                self._due[name, "retry"] = event.seq
            case "skip":
                self._due[name, "cancel"] = event.seq
            case "escalate":
                self._due[name, "a question"] = event.seq
            case "abort" if self.run.wish in ("none", "pause"):
                self._due[RUN, "abort"] = event.seq
            case "reconcile" if task is not None:
                early = task.deadline_at + settle_us(self.run, task) - data["params"]["probe_at"]
                if early > 0:
                    self.find("probe", f"{task.id} is to be asked about {early / 1e6:g} s too early")

    def _pay(self, event: Event, task: Task | None) -> None:
        """Match a decision with the signal that called for it."""
        if task is None:
            for name in event.data.get("for", ())[:1]:
                self._owed.pop(name, None)
            return
        owed = self._owed.pop(task.id, None)
        signal = event.data["signal"]
        if owed is None:
            self.find("signal", f"a decision about {signal} of {task.id}, which signals nothing")
            return
        right = failure(self.run, task, Signal(owed[0]))[0].value
        if signal != right:
            words = f"event {owed[1]} signals {owed[0]}, which makes {right} here"
            self.find("signal", f"{words}, but the decision is about {signal}")


def _by_person(event: Event) -> bool:
    return event.actor is not None and event.actor.get("kind") == "human"


def _digest(value: Any) -> str:
    return canon.value_digest("result", value)


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


_BY_TYPE: Final[dict[str, Callable[[Checker, Event], None]]] = {
    "approval_answered": Checker.approval_answered,
    "approval_requested": Checker.approval_requested,
    "decided": Checker.decided,
    "late_result": Checker.late_result,
    "owner_changed": Checker.owner_changed,
    "plan_adopted": Checker.plan_adopted,
    "probe_sent": Checker.probe_sent,
    "reconciled": Checker.reconciled,
    "run_asked": Checker.run_asked,
    "run_closed": Checker.run_closed,
    "run_created": Checker.run_created,
    "run_moved": Checker.run_moved,
    "task_moved": Checker.task_moved,
}
