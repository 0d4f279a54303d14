"""What a run's state is made of: a task, its troubles, what is asked and approved, replans, the account.

Facts alone; only :mod:`fsm_agent.core.engine.fold` and :mod:`fsm_agent.core.engine.moved` write them.
"""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from fsm_agent.core import canon
from fsm_agent.core.inputs import NO_USAGE, Usage
from fsm_agent.core.machine import TaskState
from fsm_agent.core.plans.plan import Step

RUN: Final = "run"
"""The name under which questions about the run as a whole are asked; no step may have it."""
_PENDING: Final = TaskState.PENDING

OPEN: Final = 0
DONE: Final = 1
GONE: Final = 2
"""How whatever a task waits for stands: it may still come, it is there, it will never be."""

Order = tuple[int, ...]
"""A place in plan order: of the step, of the part of it, and so on."""


@attrs.frozen(kw_only=True)
class Question:
    """Something only a person can answer; one at a time per task.

    Attributes:
        task: The task, or ``run``.
        kind: ``approval`` (may this call be made), ``answer`` (a step's result) or ``decide`` (after an
            escalation).
        digest: What an approval must state; binds run, task, tool, arguments and effect class.
        args: The arguments shown, or None.
        answers: The legal answers.
        say: What is asked, in words.
        signal: What made it necessary, if it was a signal.
        seq: Of the ``approval_requested`` event.
        expires_at: UTC epoch in microseconds, or None.
        approvers: How many different people must approve.
        approved_by: Who did so far.
        base_digest: Digest of the arguments as the plan resolves them, when they were edited.
        base_args: Those arguments, kept to say what changed.
    """

    task: str
    kind: str
    digest: str
    args: Mapping[str, Any] | None = None
    answers: tuple[str, ...] = ()
    say: str = ""
    signal: str = ""
    seq: int
    expires_at: int | None = None
    approvers: int = 1
    approved_by: tuple[str, ...] = ()
    base_digest: str | None = None
    base_args: Mapping[str, Any] | None = None


@attrs.frozen(kw_only=True)
class Armed:
    """A given approval, consumed by the next start.

    Attributes:
        seq: Of the ``approval_answered`` event that completed it.
        digest: What was approved.
        args: The approved arguments.
        base_digest: As in :class:`Question`.
        expires_at: After this it is void.
    """

    seq: int
    digest: str
    args: Mapping[str, Any]
    base_digest: str | None = None
    expires_at: int | None = None


@attrs.frozen(kw_only=True)
class Replanning:
    """A replan that was decided and has not ended.

    Attributes:
        seq: Of the ``replan_requested`` event.
        task: The step that made it necessary; None for a reason of the whole run.
        scope: ``local`` or ``global``.
        signal: What made it necessary.
        why: The same in words.
        not_before: When it may go on, UTC epoch in microseconds.
        refusals: Why proposals were refused so far, oldest first.
    """

    seq: int
    task: str | None
    scope: str
    signal: str
    why: str
    not_before: int
    refusals: tuple[str, ...] = ()


@attrs.define(eq=False)
class Trouble:
    """What a task remembers of its failures; most tasks never get one.

    ``spent`` counts by counter name in the present attempt series or strategy, ``seen`` by signal; ``streak`` is how
    often ``fingerprint`` came in a row, ``stall`` how many reports brought nothing, on the present strategy (tool and
    arguments). ``past`` holds the arguments' digest
    of earlier attempts; ``late`` a value that an earlier attempt with the present arguments returned while a later
    one runs: (seq, value); ``landed`` says that a late reply proved an effect, whatever later attempts say of theirs.
    """

    spent: dict[str, int] = attrs.field(factory=dict)
    seen: dict[str, int] = attrs.field(factory=dict)
    fingerprint: str = ""
    streak: int = 0
    stall: int = 0
    signal: str = ""
    error: Mapping[str, Any] | None = None
    probes: int = 0
    past: dict[int, str] = attrs.field(factory=dict)
    late: tuple[int, Any] | None = None
    landed: bool = False

    def clone(self) -> "Trouble":
        """Return an independent copy."""
        return Trouble(
            dict(self.spent),
            dict(self.seen),
            self.fingerprint,
            self.streak,
            self.stall,
            self.signal,
            self.error,
            self.probes,
            dict(self.past),
            self.late,
            self.landed,
        )


@attrs.define(eq=False)
class Task:
    """One step's execution.

    Attributes:
        id: The step's id.
        order: Its place in plan order, a part's after that of what it is part of; ready tasks start in this order.
        step: The intent.
        open_deps: Dependencies that are neither done nor cancelled.
        done_deps: Dependencies that are done.
        dead_deps: Dependencies that were cancelled and are not optional.
        above: How what it is a part of stands, which is no dependency among others: ``OPEN`` while its parts may not
            begin, ``DONE`` when they may, ``GONE`` when it was cancelled. ``DONE`` for a step of the plan itself.
        state: The machine's state.
        attempt: Number of starts so far.
        tool: The tool of the last start.
        effect: Its effect class.
        args: Arguments of the last start.
        args_digest: Their digest, tool included.
        planned_digest: The digest of what the plan resolved to, where a person made other arguments of it.
        key: Idempotency key of the last start.
        applied: What is proved about the effect under this key: ``no``, ``maybe``, ``yes``.
        deadline_at: Of the running call, or of the last one.
        not_before: Earliest next start (back-off), 0 for at once.
        probe_at: When the next probe is due, 0 for none.
        probing: A probe is out.
        result: Of a done task.
        settled: Whether it has a result.
        reason: Why it was cancelled, failed or refused, in words for people.
        reason_code: Root reason of a cancellation.
        origin: The task whose cancellation took this one along; empty if it was cancelled for itself.
        armed: The approval that the next start consumes.
        trouble: Failures, if there were any.
        reserved: What the running call has reserved.
        used: What the present attempt has reported to have used, before it ends.
        moved: Seq of the last event that moved it.
        started: Seq of its last start.
        asked: Seq of the last question about it.
        questioned: It is done, and a person who was asked whether that may stand has not said that it may.
        shown: Arguments of the last request to approve its call; None if there was none.
        since: Seq of the later plan that brought or changed it; 0 for none; of a record that of its batch.
        parent: The task that it is a part of; empty for a step of the plan itself.
        item: The record, if it is one of a batch.
        opened: Seq of the event that let its parts begin; 0 while it has none, or they may not.
        size: How many records a batch has.
        left: How many of its parts are neither done nor cancelled.
        active: How many records of a batch are at work.
        failed: How many tasks under it have failed and are not tried again yet.
        given_up: How many records a batch has given up; of a record 1 if it is one of them.
        was: Digest of the result that it had before it was invalidated, ``nothing`` if it had none; empty once it has a result.
    """

    id: str
    order: Order
    step: Step
    open_deps: int = 0
    done_deps: int = 0
    dead_deps: int = 0
    above: int = DONE
    state: TaskState = TaskState.PENDING
    attempt: int = 0
    tool: str | None = None
    effect: str = "read"
    args: Mapping[str, Any] | None = None
    args_digest: str = ""
    planned_digest: str = ""
    key: str = ""
    applied: str = "no"
    deadline_at: int = 0
    not_before: int = 0
    probe_at: int = 0
    probing: bool = False
    result: Any = None
    settled: bool = False
    reason: str = ""
    reason_code: str = ""
    origin: str = ""
    armed: Armed | None = None
    trouble: Trouble | None = None
    reserved: Usage | None = None
    used: Usage = NO_USAGE
    moved: int = 0
    started: int = 0
    asked: int = 0
    since: int = 0
    questioned: bool = False
    shown: Mapping[str, Any] | None = None
    was: str = ""
    parent: str = ""
    item: Any = None
    opened: int = 0
    size: int = 0
    left: int = 0
    active: int = 0
    failed: int = 0
    given_up: int = 0

    @property
    def ready(self) -> bool:
        """Whether its dependencies let it start, or let its parts begin."""
        if self.state is not _PENDING or self.opened:
            return False
        return not (self.open_deps or self.dead_deps or self.above != DONE) or self.met

    @property
    def met(self) -> bool:
        """Whether its dependencies are as its step wants them, and it may begin as a part of what it is in."""
        if self.above != DONE:
            return False
        join = self.step.join
        if join == "all":
            return not self.open_deps and not self.dead_deps
        if not self.open_deps:
            return self.done_deps > 0 or not self.dead_deps
        return self.done_deps > 0 and join == "first"

    @property
    def doomed(self) -> bool:
        """Whether a cancelled dependency leaves it nothing to wait for; what a person is asked about it is void then."""
        return self.state in (TaskState.PENDING, TaskState.AWAITING) and self.lost

    @property
    def lost(self) -> bool:
        """Whether what was cancelled leaves its step nothing to wait for, be it pending or not."""
        if self.above == GONE:
            return True
        if not self.dead_deps:
            return False
        return self.step.join == "all" or not (self.open_deps or self.done_deps)

    @property
    def result_digest(self) -> str:
        """Digest of the result's canonical bytes; empty while it has none."""
        return canon.value_digest("result", self.result) if self.settled else ""

    @property
    def bereft(self) -> bool:
        """Whether it is done, and what it depends on was cancelled since; what it is a part of keeps it for later."""
        return self.state is TaskState.DONE and self.above != GONE and self.lost

    @property
    def in_doubt(self) -> bool:
        """Whether its own result may not last: it is in question, or something that it rests on is being done again."""
        if self.questioned or self.above == OPEN:
            return True
        return self.open_deps > 0 and not (self.step.join == "first" and self.done_deps)

    def digest_of(self, attempt: int) -> str | None:
        """Return the digest of the arguments that *attempt* had; None if it is not known."""
        past = self.trouble.past.get(attempt) if self.trouble is not None else None
        return self.args_digest if past is None and attempt == self.attempt else past

    def clone(self) -> "Task":
        """Return an independent copy."""
        copy = Task(self.id, self.order, self.step)
        for name in _TASK_FIELDS:
            setattr(copy, name, getattr(self, name))
        copy.trouble = self.trouble.clone() if self.trouble else None
        return copy


_TASK_FIELDS: Final = tuple(a.name for a in attrs.fields(Task))[3:]


@attrs.frozen
class Share:
    """What a sub-plan with a budget of its own has used and reserved. Money in millionths of the unit."""

    tool_calls: int = 0
    tokens: int = 0
    cost_micros: int = 0
    reserved_tokens: int = 0
    reserved_cost_micros: int = 0


@attrs.define(eq=False)
class Account:
    """What a run has used, and what its running calls have reserved. Money in millionths of the unit.

    ``by_tool`` holds (calls ended, tokens, cost) per tool, for estimates.
    """

    tool_calls: int = 0
    planner_calls: int = 0
    tokens: int = 0
    cost_micros: int = 0
    reserved_tokens: int = 0
    reserved_cost_micros: int = 0
    active_us: int = 0
    band: str = "ok"
    by_tool: dict[str, tuple[int, int, int]] = attrs.field(factory=dict)

    def clone(self) -> "Account":
        """Return an independent copy."""
        copy = attrs.evolve(self)
        copy.by_tool = dict(self.by_tool)
        return copy


def trouble_of(task: Task) -> Trouble:
    """Return the task's record of failures, made when it is first needed."""
    if task.trouble is None:
        task.trouble = Trouble()
    return task.trouble
