"""A run told from its log, for whoever was not there: plans, bars, decisions, questions, effects, budgets.

One fold, nothing computed twice, nothing from outside the log; the same log gives the same story in any process.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from fsm_agent.core.audit.answers import Explained
from fsm_agent.core.audit.replay import take
from fsm_agent.core.audit.why import explained
from fsm_agent.core.engine import budget
from fsm_agent.core.engine.records import RUN
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import CorruptError
from fsm_agent.core.events import Event
from fsm_agent.core.replay.bars import Bar, Bars, Mark
from fsm_agent.core.replay.ledger import Effect, Ledger
from fsm_agent.core.replay.player import Replay
from fsm_agent.core.rules.table import Table

METERS: Final = ("tool_calls", "planner_calls", "tokens", "cost_micros", "active_us")
"""What is metered, in the order shown. Money in millionths of the unit, active time in microseconds."""


@attrs.frozen(kw_only=True)
class PlanVersion:
    """A plan that was in force.

    Attributes:
        version: From 1.
        seq: Of its adoption.
        at: When.
        origin: Who proposed it.
        scope: ``local`` or ``global``.
        why: What made it necessary; empty for the first.
        explanation: As end users were told.
        diff: Step ids: kept, changed, added, removed; reused: new id → old id.
        steps: Its steps as written.
    """

    version: int
    seq: int
    at: int
    origin: str
    scope: str
    why: str
    explanation: str
    diff: Mapping[str, Any]
    steps: tuple[Mapping[str, Any], ...]


@attrs.frozen(kw_only=True)
class Reply:
    """A person's word, or the clock's (verdict ``expired``), to a question."""

    seq: int
    at: int
    verdict: str
    by: str
    channel: str
    note: str
    value: Any


@attrs.frozen(kw_only=True)
class Asked:
    """A question to a person, with exactly what was shown, and what came of it.

    Attributes:
        task: The task, or ``run``.
        seq: Of the request.
        at: When.
        kind: ``approval``, ``answer`` or ``decide``.
        say: What was asked.
        tool: Of an approval: what is to be called.
        effect: Its effect class.
        args: Exactly the arguments that were shown, or None.
        digest: What an answer had to state.
        answers: The legal answers.
        expires_at: UTC epoch in microseconds, or None.
        approvers: How many different people had to approve.
        replies: Oldest first.
        used_by: Seq of the start that consumed the approval; None if none did.
    """

    task: str
    seq: int
    at: int
    kind: str
    say: str
    tool: str
    effect: str
    args: Mapping[str, Any] | None
    digest: str
    answers: tuple[str, ...]
    expires_at: int | None
    approvers: int
    replies: tuple[Reply, ...] = ()
    used_by: int | None = None


@attrs.frozen(kw_only=True)
class Used:
    """The meters right after an event, by :data:`METERS`."""

    at: int
    seq: int
    amounts: tuple[int, ...]


@attrs.frozen(kw_only=True)
class Story:
    """A run, told.

    Attributes:
        run: The state at the end.
        log: The log, at its end.
        plans: By version.
        bars: What lasted how long.
        marks: What happened to the run at one moment.
        decisions: Every decision, explained.
        questions: Every question to a person.
        effects: Every call that may change the world.
        used: The meters whenever one moved.
        limits: Limits at the end, by meter; None for no limit.
        rows: How often each row of the table, or of a plan, decided.
    """

    run: Run
    log: Replay
    plans: tuple[PlanVersion, ...]
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    decisions: tuple[Explained, ...]
    questions: tuple[Asked, ...]
    effects: tuple[Effect, ...]
    used: tuple[Used, ...]
    limits: Mapping[str, int | float | None]
    rows: Mapping[str, int]

    @property
    def created(self) -> Mapping[str, Any]:
        """What the first event says."""
        return self.log.events[0].data


def story(log: Replay, *, table: Table | None = None) -> Story:
    """Return what *log* tells.

    Args:
        log: Anywhere; it stands at its end afterwards.
        table: The run's table with the lines of its rows, where they are known.

    Raises:
        CorruptError: The log has no events.
    """
    if not log.last:
        raise CorruptError(f"log of {log.id}: it is empty; there is nothing to tell", seq=1)
    teller = _Teller(log.id, table)
    for event in log.events:
        teller.tell(event)
    log.end()
    return teller.told(log)


class _Teller:
    """The story in the making; everything is kept by the seq of the event that began it."""

    def __init__(self, run: str, table: Table | None) -> None:
        self.run = Run(run)
        self.table = table
        self.bars = Bars()
        self.plans: list[PlanVersion] = []
        self.decisions: list[Explained] = []
        self.questions: dict[int, Asked] = {}
        self.ledger = Ledger()
        self.used: list[Used] = []
        self.rows: dict[str, int] = {}
        self._asking: dict[str, int] = {}
        self._approvals: dict[int, int] = {}

    def tell(self, event: Event) -> None:
        if event.type == "decided":
            self.decisions.append(explained(self.run, event, self.table))
            self.rows[event.data["rule"]] = self.rows.get(event.data["rule"], 0) + 1
        take(self.run, event)
        self.bars.add(event)
        self.ledger.add(event)
        tells = _TELLS.get(event.type)
        if tells is not None:
            tells(self, event)
        account = self.run.account
        amounts = tuple(int(getattr(account, name)) for name in METERS)
        if not self.used or self.used[-1].amounts[:-1] != amounts[:-1]:
            self.used.append(Used(at=event.at, seq=event.seq, amounts=amounts))

    def told(self, log: Replay) -> Story:
        last, account = log.events[-1], self.run.account
        end = Used(at=last.at, seq=last.seq, amounts=tuple(int(getattr(account, m)) for m in METERS))
        return Story(
            run=self.run,
            log=log,
            plans=tuple(self.plans),
            bars=self.bars.told(),
            marks=tuple(self.bars.marks),
            decisions=tuple(self.decisions),
            questions=tuple(self.questions.values()),
            effects=tuple(self.ledger.effects.values()),
            used=(*self.used, end),
            limits=_limits(self.run),
            rows=self.rows,
        )

    def adopted(self, event: Event) -> None:
        data = event.data
        self.plans.append(
            PlanVersion(
                version=data["plan_version"],
                seq=event.seq,
                at=event.at,
                origin=data["origin"],
                scope=data["scope"],
                why=str(data.get("why", "")),
                explanation=str(data.get("explanation", "")),
                diff=data["diff"],
                steps=tuple(data["plan"]["steps"]),
            )
        )

    def asked(self, event: Event) -> None:
        data, name = event.data, event.task or RUN
        self._asking[name] = event.seq
        self.questions[event.seq] = Asked(
            task=name,
            seq=event.seq,
            at=event.at,
            kind=data["kind"],
            say=data.get("say", ""),
            tool=data.get("tool", ""),
            effect=data.get("effect", ""),
            args=data.get("args"),
            digest=data["args_digest"],
            answers=tuple(data["answers"]),
            expires_at=data.get("expires_at"),
            approvers=data.get("approvers", 1),
        )

    def answered(self, event: Event) -> None:
        data = event.data
        seq = self._asking[event.task or RUN]
        reply = Reply(
            seq=event.seq,
            at=event.at,
            verdict=data["verdict"],
            by=data["by"],
            channel=str(data.get("channel", "")),
            note=str(data.get("note", "")),
            value=data.get("value", data.get("args")),
        )
        question = self.questions[seq]
        self.questions[seq] = attrs.evolve(question, replies=(*question.replies, reply))
        self._approvals[event.seq] = seq

    def moved(self, event: Event) -> None:
        data = event.data
        if data["trigger"] == "start":
            approval = data.get("approval")
            if approval in self._approvals:
                asked = self._approvals[approval]
                self.questions[asked] = attrs.evolve(self.questions[asked], used_by=event.seq)


_TELLS: Final[dict[str, Callable[[_Teller, Event], None]]] = {
    "plan_adopted": _Teller.adopted,
    "approval_requested": _Teller.asked,
    "approval_answered": _Teller.answered,
    "task_moved": _Teller.moved,
}


def _limits(run: Run) -> dict[str, int | float | None]:
    if run.plan is None:
        return dict.fromkeys(METERS)
    limits = {name: budget.limit(run, name) for name in METERS[:-1]}
    active = budget.limit(run, "active_s")
    return {**limits, "active_us": None if active is None else active * 1_000_000}
