"""One run under test: a plan, tools, an engine over a store in memory, and a clock that the test moves.

Whatever a test feeds is first decided tentatively, and must leave the run as it was. When the test is over the log
of every run is audited, folded anew and compared with the live state, and nothing may wait without a timer.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pytest

from fsm_agent.core.audit import replay
from fsm_agent.core.audit.audit import Audit, audit
from fsm_agent.core.engine.decide import decide, state_digest
from fsm_agent.core.engine.records import DONE, GONE, OPEN, Question, Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import FsmAgentError, RefusedError
from fsm_agent.core.events import Event, Head, Record, genesis, seal
from fsm_agent.core.inputs import (
    NO_USAGE,
    Answer,
    Approve,
    Ask,
    Call,
    Command,
    Create,
    Edit,
    Env,
    Input,
    Outcome,
    Person,
    Probe,
    Probed,
    ReconcileAs,
    Reject,
    Resume,
    RetryTask,
    Returned,
    SetInputs,
    Tick,
    Usage,
)
from fsm_agent.core.machine import RunState, TaskState
from fsm_agent.core.plans import planning
from fsm_agent.core.signals import Applied, Effect, Signal
from fsm_agent.core.tools import Parameter, ToolSpec
from fsm_agent.runtime.configs import load_rules
from fsm_agent.runtime.driving.engine import Engine
from fsm_agent.stores.memory import MemoryStore
from fsm_agent.testing.clock import FakeClock

ANN, BOB = Person(by="ann"), Person(by="bob")
SECOND = 1_000_000


def tool(name: str, effect: str = "read", **more: Any) -> ToolSpec:
    """Return a tool that takes any arguments; 10 s to answer, 2 s to settle."""
    fields: dict[str, Any] = {"timeout_us": 10 * SECOND, "settle_us": 2 * SECOND, "extra_arguments": True}
    names = more.pop("parameters", None)
    if names is not None:
        fields["extra_arguments"] = False
        fields["parameters"] = tuple(Parameter(name=n, types=t) for n, t in names.items())
    return ToolSpec(name=name, effect=Effect(effect), **(fields | more))


READ = tool("look")
WRITE = tool("pay", "write", reconcile=True)
BLIND = tool("mail", "write")
SAME = tool("put", "idempotent")
FINAL = tool("burn", "irreversible", reconcile=True)
TOOLS = (READ, WRITE, BLIND, SAME, FINAL)


class Ports:
    """A clock moved by hand, and a chance that is always the same number."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.chance = 0.5

    def now_us(self) -> int:
        """Return the clock's time."""
        return self.clock.now_us()

    def jitter(self) -> float:
        """Return the number that was set."""
        return self.chance


def value(result: Any = None, **more: Any) -> Outcome:
    """Return the outcome of a call that returned *result*."""
    return Outcome(kind="value", value=result, **more)


def error(
    signal: str = "transient_error", applied: str = "no", message: str = "it broke", **more: Any
) -> Outcome:
    """Return the outcome of a call that failed."""
    mark = {"message": message, "fingerprint": f"{signal}:{message}"}
    return Outcome(kind="error", signal=Signal(signal), applied=Applied(applied), error=mark, **more)


class Lab:
    """A run under test.

    Attributes:
        commands: What the engine asked for and the test has not answered, oldest first.
    """

    def __init__(
        self,
        steps: list[dict[str, Any]],
        *,
        tools: Iterable[ToolSpec] = TOOLS,
        rules: str = "default",
        params: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        slots: int = 4,
        default_tool: str | None = None,
        store: MemoryStore | None = None,
        checked: bool = True,
        run: str = "r",
        planner: bool = False,
        **plan: Any,
    ) -> None:
        self.ports = Ports()
        self.store = MemoryStore() if store is None else store
        self.tools = tuple(tools)
        self.default_tool = default_tool
        self.checked = checked
        self.commands: list[Command] = []
        self.owners = 1
        document = {"goal": "test", "inputs": dict(inputs or {}), "steps": steps, **plan}
        self.create = Create(
            run=run,
            plan=planning.load(document),
            rules=load_rules(rules, params or {}),
            tools=self.tools,
            inputs={},
            owner="owner-1",
            classify_digest="0" * 64,
            version="test",
            default_tool=default_tool,
            has_planner=planner,
        )
        self.engine, commands = Engine.create(self.store, self.create, self.ports, slots=slots)
        self.commands.extend(commands)

    # ── looking ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def run(self) -> Run:
        """The live state."""
        return self.engine.run

    def task(self, name: str) -> Task:
        """Return a task."""
        return self.run.tasks[name]

    @property
    def states(self) -> dict[str, str]:
        """The state of every task."""
        return {t.id: t.state.value for t in self.run.tasks.values()}

    @property
    def records(self) -> list[Record]:
        """The log as stored."""
        return list(self.store.read(self.run.id))

    def events(self, *types: str, task: str | None = None) -> list[Event]:
        """Return the log's events, of these types and of this task if given."""
        found = replay.events(self.run.id, self.records, self.store.blob)
        return [e for e in found if (not types or e.type in types) and (task is None or e.task == task)]

    def moves(self, task: str) -> list[str]:
        """Return the triggers that moved a task (or ``run``), oldest first."""
        if task == "run":
            return [e.data["trigger"] for e in self.events("run_moved")]
        return [e.data["trigger"] for e in self.events("task_moved", task=task)]

    def decisions(self, task: str | None = None) -> list[tuple[str, str]]:
        """Return (signal, decision) of a task, or of the run."""
        return [(e.data["signal"], e.data["decide"]) for e in self.events("decided") if e.task == task]

    def question(self, name: str) -> Question:
        """Return the open question of a task (or ``run``)."""
        return self.run.questions[name]

    def starts(self, task: str) -> list[Event]:
        """Return the starts of a task."""
        return [e for e in self.events("task_moved", task=task) if e.data["trigger"] == "start"]

    # ── feeding ───────────────────────────────────────────────────────────────────────────────────────────────

    def feed(self, given: Input) -> list[Command]:
        """Feed an input to the engine, after having decided it twice without consequences."""
        expected = self._tentative(given) if self.checked else None
        before = self.run.seq
        try:
            commands = self.engine.feed(given)
        finally:
            if expected is not None:
                made = [e._replace(tx=None) for e in self.events()[before:]]
                if isinstance(expected, list):
                    assert made == expected, "what was decided tentatively is not what was stored"
                else:
                    assert [e.type for e in made] in ([], ["move_refused"]), (
                        "a refused input left more behind"
                    )
                assert_indexed(self.run)
        self.commands.extend(commands)
        return commands

    def _tentative(self, given: Input) -> list[Event] | type[Exception]:
        run = self.run
        env = Env(now_us=self.engine.ports.now_us(), jitter=self.ports.chance, slots=self.engine.slots)
        before = picture(run)
        outcomes: list[Any] = []
        for _ in range(2):
            try:
                outcomes.append([e._replace(tx=None) for e in decide(run, given, env)])
            except FsmAgentError as refused:
                outcomes.append(type(refused))
            changed = difference(before, picture(run))
            assert not changed, f"deciding {given} changed the run: {changed}"
            assert_indexed(run)
        assert outcomes[0] == outcomes[1], f"deciding {given} twice gave two answers"
        return outcomes[0]  # type: ignore[no-any-return]

    def tick(self, seconds: float = 0.0) -> list[Command]:
        """Move the clock and let the engine do what is due."""
        self.ports.clock.advance(seconds)
        return self.feed(Tick())

    def until_due(self) -> list[Command]:
        """Move the clock to the next timer and let it go off."""
        due = self.run.next_due()
        assert due is not None, "nothing is due"
        self.ports.clock.move_to(due)
        return self.feed(Tick())

    def times_out(self, task: str) -> list[Command]:
        """Let a running call pass its deadline."""
        self.ports.clock.move_to(self.task(task).deadline_at)
        return self.feed(Tick())

    def returns(
        self, task: str, result: Any = None, attempt: int | None = None, **more: Any
    ) -> list[Command]:
        """Let a call return."""
        return self.ends(task, value(result, **more), attempt)

    def fails(
        self, task: str, signal: str = "transient_error", applied: str = "no", **more: Any
    ) -> list[Command]:
        """Let a call fail."""
        return self.ends(task, error(signal, applied, **more))

    def ends(self, task: str, outcome: Outcome, attempt: int | None = None) -> list[Command]:
        """Let a call end."""
        number = self.task(task).attempt if attempt is None else attempt
        return self.feed(Returned(task=task, attempt=number, outcome=outcome))

    def finds(self, task: str, verdict: str, result: Any = None, usage: Usage = NO_USAGE) -> list[Command]:
        """Let a probe answer."""
        attempt = self.task(task).attempt
        return self.feed(Probed(task=task, attempt=attempt, verdict=verdict, result=result, usage=usage))

    def approve(self, task: str, who: Person = ANN, digest: str | None = None) -> list[Command]:
        """Approve what is asked."""
        stated = self.question(task).digest if digest is None else digest
        return self.feed(Approve(task=task, digest=stated, who=who))

    def reject(self, task: str, who: Person = ANN) -> list[Command]:
        """Say no."""
        return self.feed(Reject(task=task, who=who))

    def edit(self, task: str, who: Person = ANN, **args: Any) -> list[Command]:
        """Ask for other arguments."""
        return self.feed(Edit(task=task, args=args, who=who))

    def answer(self, task: str, value: Any, who: Person = ANN) -> list[Command]:
        """Answer a question."""
        return self.feed(Answer(task=task, value=value, who=who))

    def decide(self, task: str, decision: str, who: Person = ANN, **more: Any) -> list[Command]:
        """Answer an escalation."""
        return self.answer(task, {"decide": decision, **more}, who)

    def set(self, **values: Any) -> list[Command]:
        """Correct inputs."""
        return self.feed(SetInputs(values=values, who=ANN))

    def ask(self, wish: str, *acknowledged: str) -> list[Command]:
        """Wish for cancel, abort or pause."""
        return self.feed(Ask(wish=wish, who=ANN, acknowledged=acknowledged))

    def resume(self) -> list[Command]:
        """Lift a pause, or go on after an abort."""
        return self.feed(Resume(who=ANN))

    def retry(self, task: str) -> list[Command]:
        """Let a failed task try again."""
        return self.feed(RetryTask(task=task, who=ANN))

    def reconcile(
        self, task: str, verdict: str | None, result: Any = None, evidence: str = "I looked"
    ) -> list[Command]:
        """Give a person's verdict."""
        return self.feed(ReconcileAs(task=task, verdict=verdict, who=ANN, result=result, evidence=evidence))

    def crash(self, **more: Any) -> list[Command]:
        """Lose the owner and every call; another one takes over."""
        self.commands.clear()
        self.owners += 1
        more.setdefault("tools", self.tools)
        more.setdefault("default_tool", self.default_tool)
        more.setdefault("slots", self.engine.slots)
        self.engine, commands = Engine.open(
            self.store, self.run.id, f"owner-{self.owners}", self.ports, force=True, **more
        )
        self.commands.extend(commands)
        return commands

    def calls(self) -> list[Call]:
        """Return the calls that the engine asked for so far."""
        return [c for c in self.commands if isinstance(c, Call)]

    def probes(self) -> list[Probe]:
        """Return the probes that the engine asked for so far."""
        return [c for c in self.commands if isinstance(c, Probe)]

    # ── judging ───────────────────────────────────────────────────────────────────────────────────────────────

    def audit(self) -> Audit:
        """Audit the log against its head."""
        return audit(self.run.id, self.records, self.store.blob, head=self.engine.head)

    def check(self) -> None:
        """Audit the log, fold it, and compare with the live state."""
        found = self.audit()
        assert found.findings == (), "\n".join(
            f"event {f.seq}, {f.check}: {f.message}" for f in found.findings
        )
        folded = replay.replay(self.run.id, self.records, self.store.blob)
        now = max(
            self.run.at, self.engine.ports.now_us()
        )  # what was due by now may have gone off without leaving an event
        apart = difference(picture(folded, now), picture(self.run, now))
        assert not apart, f"the fold differs from the live state: {apart}"
        assert state_digest(folded) == state_digest(self.run)
        assert_indexed(folded)
        assert_indexed(self.run)
        assert_never_stuck(self.run)


@contextmanager
def refused(code: str | None = None) -> Iterator[None]:
    """Expect that what is said here is refused, with this code if one is given."""
    with pytest.raises(RefusedError) as caught:
        yield
    assert code in (None, caught.value.code), f"{caught.value.code}: {caught.value}"


@contextmanager
def lab(*args: Any, **more: Any) -> Iterator[Lab]:
    """Give a run under test, and check it when the test is over."""
    made = Lab(*args, **more)
    yield made
    made.check()


_INDEXES = (
    "tasks",
    "children",
    "ready_heap",
    "doomed",
    "parked",
    "unsettled",
    "timers",
    "journal",
    "account",
    "plan",
    "table",
)


def picture(run: Run, since: int = 0) -> dict[str, Any]:
    """Return everything that a run says, as plain values; of the timers those that are meant and due after *since*."""
    out = {a.name: _plain(getattr(run, a.name)) for a in attrs.fields(Run) if a.name not in _INDEXES}
    out["running"], out["questions order"] = list(run.running), list(run.questions)
    out["account"] = attrs.asdict(run.account)
    out["plan"] = run.plan.digest if run.plan is not None else None
    out["table"] = run.table.digest if run.table is not None else None
    out["children"] = {name: sorted(found) for name, found in run.children.items()}
    out["tasks"] = [_plain(task) for task in run.tasks.values()]
    out["timers"] = sorted({t for t in run.timers if run.meant(t) and t[0] > since})
    return out


def difference(left: dict[str, Any], right: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return what differs between two pictures, tasks by their fields."""
    apart = {k: (left[k], right[k]) for k in left if k != "tasks" and left[k] != right[k]}
    for a, b in zip(left["tasks"], right["tasks"], strict=True):
        apart |= {f"{a['id']}.{k}": (a[k], b[k]) for k in a if a[k] != b[k]}
    return apart


def _plain(thing: Any) -> Any:
    match thing:
        case Task():
            return {a.name: _plain(getattr(thing, a.name)) for a in attrs.fields(Task) if a.name != "step"}
        case dict():
            return {k: _plain(v) for k, v in thing.items()}
        case ToolSpec():
            return thing
        case _ if attrs.has(type(thing)):
            return attrs.asdict(thing)
        case _:
            return thing


def assert_indexed(run: Run) -> None:
    """Whoever can move by itself is in the index that will find it: no wake-up is lost."""
    ready = {name for order, name in run.ready_heap if name in run.tasks and run.tasks[name].order == order}
    ready |= {name for waiting in run.parked.values() for _, name in waiting}
    for name, parts in run.members.items():
        assert_counted(run, run.tasks[name], [run.tasks[part] for part in parts])
    timers = {(kind, name) for t in run.timers if run.meant(t) for _, kind, name, _ in (t,)}
    for task in run.tasks.values():
        if task.ready:
            assert task.id in ready or ("backoff", task.id) in timers, f"{task.id} is ready, and nobody knows"
        if task.doomed:
            assert (task.order, task.id) in run.doomed, f"{task.id} has lost its dependency, and nobody knows"
        if task.state is TaskState.RUNNING:
            assert ("deadline", task.id) in timers, f"{task.id} is running without a deadline"
        if task.state is TaskState.UNKNOWN and task.probe_at and not task.probing:
            assert ("probe", task.id) in timers, f"{task.id} waits for a probe that nobody sends"
    for name, question in run.questions.items():
        if question.expires_at is not None:
            assert ("expiry", name) in timers, f"the question of {name} never expires"
    assert_waiting(run)
    assert set(run.running) == {t.id for t in run.tasks.values() if t.state is TaskState.RUNNING}
    assert run.probing == sum(t.probing for t in run.tasks.values())
    for state in TaskState:
        assert run.counts[state] == sum(t.state is state for t in run.tasks.values())


def assert_waiting(run: Run) -> None:
    """What a task knows of those that it waits for, and who is told when one of them moves, is what the plan says."""
    children: dict[str, list[tuple[str, bool]]] = {name: [] for name in run.tasks}
    members: dict[str, list[str]] = {n: [] for n, t in run.tasks.items() if t.step.group and run.plans(t)}
    tokens = 0
    for task in sorted(run.tasks.values(), key=lambda task: task.order):
        stands = []
        for dependency in task.step.depends_on:
            children[dependency.id].append((task.id, dependency.optional))
            giver = run.tasks[dependency.id]
            again = giver.state is TaskState.DONE and giver.in_doubt
            gone = giver.state is TaskState.CANCELLED
            kind = OPEN if again else DONE if giver.state is TaskState.DONE else GONE if gone else OPEN
            stands.append(kind if kind != GONE or not dependency.optional else None)
        counted = (task.open_deps, task.done_deps, task.dead_deps)
        assert counted == tuple(stands.count(kind) for kind in (OPEN, DONE, GONE)), f"{task.id} waits wrongly"
        if task.parent:
            members[task.parent].append(task.id)
            above = run.tasks[task.parent]
            gone = above.state is TaskState.CANCELLED
            assert task.above == (GONE if gone else DONE if above.opened and above.met else OPEN), task.id
        else:
            assert task.above == DONE, task.id
        if task.step.estimate is not None and not task.step.group:
            ended = task.state in (TaskState.DONE, TaskState.CANCELLED)
            tokens += 0 if ended else task.step.estimate.tokens
    assert {name: set(found) for name, found in run.children.items()} == {
        name: set(found) for name, found in children.items()
    }
    assert {name: set(found) for name, found in run.members.items()} == {
        name: set(found) for name, found in members.items()
    }
    for name, found in run.children.items():
        assert len(found) == len(children[name]), f"who depends on {name} is told twice"
    assert run.todo_tokens == tokens


def assert_counted(run: Run, task: Task, parts: list[Task]) -> None:
    """What a task with parts knows of them is true, and it comes to its end when they have."""
    left = [t for t in parts if t.state not in (TaskState.DONE, TaskState.CANCELLED)]
    under = [
        t for t in run.tasks.values() if run.plans(t) and t.id.startswith((f"{task.id}/", f"{task.id}["))
    ]
    assert task.left == len(left)
    assert task.failed == sum(t.state is TaskState.FAILED for t in under)
    works = (t for t in parts if t.state is TaskState.RUNNING or (t.opened and t.state is TaskState.PENDING))
    assert task.active == len(list(works))
    if task.step.for_each is not None:
        assert task.given_up == sum(t.given_up for t in parts)
        assert (
            task.step.max_parallel is None
            or task.active <= task.step.max_parallel
            or task.state == "cancelled"
        )
    asked = task.id in run.questions
    ended = task.state is TaskState.PENDING and task.opened and not left and task.met and not asked
    if run.state is RunState.RUNNING and run.wish == "none" and not run.barred:
        assert not ended, f"all parts of {task.id} have ended, and nobody knows"
        assert task.state is not TaskState.DONE or not left, f"{task.id} is done, and its parts are not"


def assert_never_stuck(run: Run) -> None:
    """A run that has not ended moves by itself or asks somebody something, and says so truly."""
    unknown = [t for t in run.tasks.values() if t.state is TaskState.UNKNOWN]
    if run.state in (RunState.DONE, RunState.CANCELLED, RunState.FAILED):
        assert not run.running
        assert not run.probing
        assert all(t.id in run.acknowledged for t in unknown)
        return
    for task in unknown:
        asked = task.id in run.questions or task.id in run.acknowledged
        assert task.probing or task.probe_at or asked, f"{task.id} is unknown, and nobody asks about it"
    for task in run.tasks.values():
        if task.state is TaskState.AWAITING:
            assert task.id in run.questions, f"{task.id} waits for a person, and nobody is asked"
    moves = run.running or run.probing or run.next_due() is not None
    if run.state is RunState.AWAITING:
        assert run.questions or run.paused, "the run waits for a person, and asks nothing"
    elif run.state is RunState.UNKNOWN:
        assert unknown, "the run is unknown-result, and nothing is unknown"
    else:
        assert moves, f"the run is {run.state.value}, and nothing moves"


def records_of(run: str, events: Iterable[Event]) -> list[Record]:
    """Return *events* sealed anew, as a forger who knows the hash function would."""
    return list(seal(genesis(run), list(events))[0])


def reseal(run: str, events: Iterable[Event]) -> tuple[list[Record], Head]:
    """Return *events* sealed anew with the head that results."""
    records = records_of(run, events)
    last = records[-1]
    return records, Head(last.seq, last.hash)
