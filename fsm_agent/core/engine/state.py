"""The state of a run is the fold of its events, and this is its shape.

Only :mod:`fsm_agent.core.engine.fold` and what it calls write these objects. What stands here besides facts are indexes
over them (who is ready, which timer is next), kept so that the cost of an event does not grow with the number of
tasks. Heaps hold stale entries, which are recognised when they are taken out.
"""

from heapq import heapify, heappop, heappush
from typing import Any, Final

import attrs

from fsm_agent.core import canon
from fsm_agent.core.engine.breaker import CLOSED, Breaker
from fsm_agent.core.engine.records import DONE, GONE, RUN, Account, Order, Question, Replanning, Share, Task
from fsm_agent.core.engine.stall import Trail
from fsm_agent.core.machine import RunState, TaskState
from fsm_agent.core.plans.members import parent_of, record_of
from fsm_agent.core.plans.plan import Plan, Step
from fsm_agent.core.replanning.repairs import Repair
from fsm_agent.core.rules.table import Table
from fsm_agent.core.tools import ToolSpec

ASIDE: Final = 1 << 62
"""Where the places begin of the tasks that a plan does without: after all that any plan has; the last dropped come first."""
SPARED: Final = frozenset({"condition", "optional", "superseded"})
"""Reasons to cancel a task after which what it is a part of may still be done."""
BENIGN: Final = SPARED | {"collected"}
"""Reasons to cancel a task after which the run may still be done; a batch has given up ``collected`` records."""


_RUNNING: Final = TaskState.RUNNING
_CANCELLED: Final = TaskState.CANCELLED


class Journal:
    """What a tentative turn has touched, so that it can be undone: see :meth:`Run.rollback`."""

    def __init__(self, run: "Run") -> None:
        """Remember the scalars of *run*."""
        self.tasks: dict[str, Task] = {}
        self.puts: list[tuple[dict[Any, Any], Any, Any]] = []
        self.orders: dict[int, tuple[dict[Any, Any], tuple[Any, ...]]] = {}
        self.taken: list[tuple[list[Any], Any]] = []
        self.back: dict[tuple[int, Any], int] = {}
        self.grew = False
        self.scalars = {name: getattr(run, name) for name in _SCALARS}
        self.account = run.account.clone()
        self.counts = dict(run.counts)


_ABSENT: Final = object()


@attrs.define(eq=False)
class Run:
    """A whole run.

    Attributes:
        id: The run's id.
        root: Of a run that was forked from another: the id under which keys are made, that of the first of the family.
        signed_as: The same for what people approve: of events before the fork the parent's id, then its own.
        state: The machine's state.
        seq: Of the last event.
        at: Its time.
        plan: The plan in force; None before ``plan_adopted``.
        plan_version: From 1.
        table: The rule table.
        tools: What the toolbox declared, by name.
        default_tool: Runs steps that name no tool; None: a person answers them.
        repairs: Tried, in this order, where a plan is to be changed and no alternative is prepared.
        unreviewed: A person has to approve the plan before anything starts, and has not.
        inputs: The effective inputs.
        changed_at: Seq of the last change of an input.
        tasks: By id, in plan order.
        children: Task id → ids of the tasks that depend on it, with whether they do so optionally.
        members: Id of a task with parts → ids of its direct parts that the plan in force has.
        shares: What sub-plans with a budget of their own have used, by task id.
        counts: How many tasks are in each state.
        questions: Open questions by task id (or ``run``).
        answered: How the last question of a task (or ``run``) was answered, and by whom.
        wish: ``none``, ``pause``, ``abort`` or ``cancel``.
        wish_by: Seq of the ``run_asked`` event in force.
        acknowledged: Tasks whose unknown effect a person accepted.
        paused: A pause has fired and waits for an explicit resume.
        keys: Idempotency key → what is proved about the effect, for writes.
        spent: Run-scope counters by name.
        seen: How often each signal of the run as a whole fired.
        breakers: Circuit breakers by tool, of those that are not closed without a failure.
        retooled: Tools whose signature or effect class is another one than before, and the seq since which it is.
        trails: What reads that failed answered, by the digest of tool and arguments.
        inefficient: Tools that were found to cost far more than estimated.
        replan_scope: Scope of the replan that was asked for and not answered with a plan: ``local``, ``global``, ``none``.
        replans_in_a_row: Adopted plans since a step was last newly done.
        replans: Replans that were decided and have not ended, by task id (or ``run``).
        replanned_at: When a plan was last adopted over another, 0 for never.
        strategies: Signatures of the strategies that failed or were refused.
        asked: Seq of the ``planner_asked`` event that waits for its answer, 0 for none.
        asked_for: Whose replan that is about: a key of ``replans``.
        constraint_values: Effective ``value`` of each constraint.
        broken: Keys of the constraints found broken and not yet answered.
        budgets: Limits set by a person, over the plan's.
        account: What was used.
        epoch: Of the present owner.
        owners: Everyone who has owned it, each with the seq since which.
        closed: ``run_closed`` has been written and the run was not reopened.
        metered: Tokens or money are limited, so that calls are measured.
        limited: There is a budget of any kind that can run low.
        running: Ids of the tasks whose call is out, oldest first.
        probing: How many probes are out.
        todo_tokens: Declared estimates of the tasks that are neither done nor cancelled, summed.
        todo_cost_micros: The same in money.
        ready_heap: (order, id) of tasks that may be ready.
        doomed: (order, id) of tasks that may have lost a dependency for good.
        parked: (task, begun before) → (order, id) of its parts that are ready and wait to be admitted.
        unsettled: (order, id) of tasks with parts that may have come to their end, or have been given more to do.
        timers: (due, kind, task, token) of timers that may still be meant.
    """

    id: str
    root: str = ""
    signed_as: str = ""
    state: RunState = RunState.PENDING
    seq: int = 0
    at: int = 0
    plan: Plan | None = None
    plan_version: int = 0
    table: Table | None = None
    tools: dict[str, ToolSpec] = attrs.field(factory=dict)
    default_tool: str | None = None
    has_planner: bool = False
    repairs: tuple[Repair, ...] = ()
    unreviewed: bool = False
    inputs: dict[str, Any] = attrs.field(factory=dict)
    changed_at: int = 0
    tasks: dict[str, Task] = attrs.field(factory=dict)
    children: dict[str, list[tuple[str, bool]]] = attrs.field(factory=dict)
    members: dict[str, list[str]] = attrs.field(factory=dict)
    shares: dict[str, Share] = attrs.field(factory=dict)
    counts: dict[str, int] = attrs.field(factory=lambda: dict.fromkeys(TaskState, 0))
    questions: dict[str, Question] = attrs.field(factory=dict)
    answered: dict[str, tuple[str, str]] = attrs.field(factory=dict)
    wish: str = "none"
    wish_by: int = 0
    acknowledged: frozenset[str] = frozenset()
    paused: bool = False
    keys: dict[str, str] = attrs.field(factory=dict)
    spent: dict[str, int] = attrs.field(factory=dict)
    seen: dict[str, int] = attrs.field(factory=dict)
    breakers: dict[str, Breaker] = attrs.field(factory=dict)
    retooled: dict[str, int] = attrs.field(factory=dict)
    trails: dict[str, Trail] = attrs.field(factory=dict)
    inefficient: dict[str, None] = attrs.field(factory=dict)
    replans_in_a_row: int = 0
    replans: dict[str, Replanning] = attrs.field(factory=dict)
    replan_scope: str = "none"
    replanned_at: int = 0
    strategies: frozenset[str] = frozenset()
    asked: int = 0
    asked_for: str = ""
    constraint_values: dict[str, Any] = attrs.field(factory=dict)
    broken: frozenset[str] = frozenset()
    budgets: dict[str, Any] = attrs.field(factory=dict)
    account: Account = attrs.field(factory=Account)
    epoch: int = 0
    owners: tuple[tuple[int, str], ...] = ()
    closed: bool = False
    metered: bool = False
    limited: bool = False
    running: dict[str, None] = attrs.field(factory=dict)
    probing: int = 0
    todo_tokens: int = 0
    todo_cost_micros: int = 0
    ready_heap: list[tuple[Order, str]] = attrs.field(factory=list)
    doomed: list[tuple[Order, str]] = attrs.field(factory=list)
    parked: dict[tuple[str, bool], list[tuple[Order, str]]] = attrs.field(factory=dict)
    unsettled: list[tuple[Order, str]] = attrs.field(factory=list)
    timers: list[tuple[int, str, str, int]] = attrs.field(factory=list)
    journal: Journal | None = None

    @property
    def rules(self) -> Table:
        """The table; every run that has begun has one."""
        assert self.table is not None, "the run has not begun"
        return self.table

    def breaker_of(self, tool: str | None) -> Breaker:
        """Return the circuit breaker of a tool; one of a tool that nobody called, or of a person, is closed."""
        return self.breakers.get(tool, CLOSED) if tool is not None else CLOSED

    @property
    def in_breach(self) -> bool:
        """Whether a constraint that stops the run was found broken, and no plan has been adopted since."""
        stops = self.plan.constraints if self.broken and self.plan is not None else ()
        return any(c.key in self.broken and c.severity == "stop" for c in stops)

    def plans(self, task: Task) -> bool:
        """Whether the plan in force has *task*; one that a new plan dropped comes after all that it has."""
        return self.plan is not None and task.order[0] < ASIDE

    @property
    def barred(self) -> bool:
        """Whether nothing starts: a person is asked about the run or its plan, or a broken constraint awaits another plan."""
        if not (self.questions or self.replans or self.unreviewed):
            return False  # as nearly always
        return self.unreviewed or RUN in self.questions or (RUN in self.replans and self.in_breach)

    def owner_at(self, seq: int) -> str:
        """Return who owned the run when the event *seq* was written; empty if the log does not say."""
        return next((name for since, name in reversed(self.owners) if since <= seq), "")

    def put(self, mapping: dict[Any, Any], key: Any, value: Any) -> None:
        """Set a key of one of this run's dicts, so that a tentative turn can be undone."""
        if self.journal is not None:
            self.journal.puts.append((mapping, key, mapping.get(key, _ABSENT)))
        mapping[key] = value

    def drop(self, mapping: dict[Any, Any], key: Any) -> None:
        """Remove a key of one of this run's dicts, if it is there."""
        if key in mapping:
            if self.journal is not None:
                self.journal.orders.setdefault(id(mapping), (mapping, tuple(mapping)))
                self.journal.puts.append((mapping, key, mapping[key]))
            del mapping[key]

    def touch(self, task: Task) -> None:
        """Say that *task* is about to be changed."""
        if self.journal is not None and task.id not in self.journal.tasks:
            self.journal.tasks[task.id] = task.clone()

    def begin(self) -> None:
        """Start a tentative turn; :meth:`rollback` ends it."""
        self.journal = Journal(self)

    def rollback(self) -> None:
        """Undo everything since :meth:`begin`. Costs what the turn touched, not the size of the run."""
        journal, self.journal = self.journal, None
        assert journal is not None, "no tentative turn"
        replanned = self.tasks is not journal.scalars["tasks"]
        for name, value in journal.scalars.items():
            setattr(self, name, value)
        self.account, self.counts = journal.account, journal.counts
        for mapping, key, old in reversed(journal.puts):
            if old is _ABSENT:
                mapping.pop(key, None)
            else:
                mapping[key] = old
        for (
            mapping,
            order,
        ) in journal.orders.values():  # what was dropped came back at the end; order is a fact
            items = [(key, mapping[key]) for key in order if key in mapping]
            mapping.clear()
            mapping.update(items)
        for name, task in journal.tasks.items():
            if name in self.tasks:
                self.tasks[name] = task
        for heap, entry in journal.taken:
            times = journal.back.get((id(heap), entry), 0)
            if times:
                journal.back[id(heap), entry] = times - 1  # the turn itself has put it back
            else:
                heappush(heap, entry)
        if journal.grew or replanned:
            self._forget()

    def _forget(self) -> None:
        """Drop what the heaps say of tasks that a tentative turn had made."""
        for heap in (self.ready_heap, self.doomed, self.unsettled, *self.parked.values()):
            heap[:] = [entry for entry in heap if entry[1] in self.tasks]
            heapify(heap)
        self.parked = {key: waiting for key, waiting in self.parked.items() if key[0] in self.tasks}

    def take(self, heap: list[Any]) -> Any:
        """Take the first entry out of one of this run's heaps, so that a tentative turn can be undone."""
        entry = heappop(heap)
        if self.journal is not None:
            self.journal.taken.append((heap, entry))
        return entry

    def give_back(self, heap: list[Any], entry: Any) -> None:
        """Put back what :meth:`take` took out in this turn."""
        heappush(heap, entry)
        if self.journal is not None:
            self.journal.back[id(heap), entry] = self.journal.back.get((id(heap), entry), 0) + 1

    def index(self, task: Task) -> None:
        """Enter a pending *task* into the heaps that will find it."""
        self.index_ready(task)
        if task.not_before:
            self.wake(task.not_before, "backoff", task.id, task.attempt)

    def index_ready(self, task: Task) -> None:
        """Let *task* come to the door if its dependencies allow it, or be cancelled if they are gone."""
        if (
            task.open_deps
            and not (task.dead_deps or task.opened)
            and task.above == DONE
            and task.step.join != "first"
        ):
            return  # it has to wait, and nothing else is true of it
        if task.opened and not task.left:
            heappush(self.unsettled, (task.order, task.id))
        if task.ready:
            heappush(self.ready_heap, (task.order, task.id))
        elif (task.dead_deps or task.above == GONE) and task.doomed:
            heappush(self.doomed, (task.order, task.id))

    def wake(self, at: int, kind: str, task: str, token: int) -> None:
        """Set a timer. ``token`` tells later whether it is still meant."""
        heappush(self.timers, (at, kind, task, token))

    def meant(self, timer: tuple[int, str, str, int]) -> bool:
        """Whether *timer* still stands for something."""
        at, kind, name, token = timer
        task = self.tasks.get(name)
        if kind == "expiry":
            question = self.questions.get(name)
            return question is not None and question.seq == token and question.expires_at == at
        if kind == "cooldown":
            request = self.replans.get(name)
            return request is not None and request.seq == token and request.not_before == at
        if task is None or task.attempt != token:
            return False
        if kind == "deadline":
            return task.state is _RUNNING and task.deadline_at == at
        if kind == "backoff":
            return task.state is TaskState.PENDING and task.not_before == at
        return task.state is TaskState.UNKNOWN and task.probe_at == at and not task.probing

    def next_due(self) -> int | None:
        """Return when the next timer is due (UTC epoch in microseconds), or None if there is none."""
        timers = self.timers
        while timers and not self.meant(timers[0]):
            self.take(timers)
        return timers[0][0] if timers else None

    def asking(self) -> str:
        """Return in words who has an open question, the first eight by name."""
        names = list(self.questions)[:8]
        more = len(self.questions) - len(names)
        return ", ".join(names) + (f" and {more} more" if more else "") or "nothing"

    def tally(self, trigger: str) -> dict[str, int]:
        """Return the counts that decide whether the run may move by *trigger*: see :func:`run_fault`."""
        counts = self.counts
        return {
            "running": counts[TaskState.RUNNING],
            "unacknowledged": self.unacknowledged(),
            "unfinished": len(self.tasks) - counts[TaskState.DONE] - counts[TaskState.CANCELLED],
            "asked": len(self.questions),
            "denied": sum(map(self.denied, self.tasks.values())) if trigger == "succeed" else 0,
        }

    def denied(self, task: Task) -> bool:
        """Whether *task* was cancelled for a reason that the plan does not allow for; a batch may allow for more."""
        if task.state is not _CANCELLED or task.reason_code in BENIGN:
            return False
        batch = self.tasks.get(parent_of(record_of(task.id)))
        return batch is None or batch.step.on_item_failure == "stop"

    def unacknowledged(self) -> int:
        """Return how many results are unknown without anybody having accepted that."""
        unknown = self.counts[TaskState.UNKNOWN]
        if unknown and self.acknowledged:
            accepted = (self.tasks[n] for n in self.acknowledged)
            unknown -= sum(t.state is TaskState.UNKNOWN for t in accepted)
        return unknown

    def key_of(self, task: Task, args_digest: str) -> str:
        """Return the idempotency key of a call of *task*: stable over retries, crashes, replans and forks."""
        return canon.value_digest("key", [self.root or self.id, task.id, args_digest])[:32]

    def spec_of(self, task: Task) -> ToolSpec | None:
        """Return the tool that *task* would call, if it has yet to come to that, else the one that it called last; None if
        a person or an unknown tool does it.
        """
        to_come = task.tool is None or task.state in (TaskState.PENDING, TaskState.AWAITING)
        name = self.tool_of(task.step) if to_come else task.tool
        return self.tools.get(name) if name is not None else None

    def tool_of(self, step: Step) -> str | None:
        """Return the name of the tool that runs *step*; None if a person does, or other tasks do."""
        if step.for_each is not None or step.plan:
            return None
        return step.tool if step.tool is not None else self.default_tool


_SCALARS: Final = (
    "root",
    "signed_as",
    "state",
    "seq",
    "at",
    "plan",
    "plan_version",
    "table",
    "tools",
    "default_tool",
    "has_planner",
    "repairs",
    "unreviewed",
    "inputs",
    "changed_at",
    "tasks",
    "children",
    "members",
    "wish",
    "wish_by",
    "acknowledged",
    "paused",
    "replans_in_a_row",
    "replan_scope",
    "replanned_at",
    "strategies",
    "asked",
    "asked_for",
    "constraint_values",
    "broken",
    "budgets",
    "epoch",
    "owners",
    "closed",
    "metered",
    "limited",
    "probing",
    "todo_tokens",
    "todo_cost_micros",
)
