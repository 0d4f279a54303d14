"""The engine of real runs, driven by a virtual clock through a simulated world.

One heap of happenings, one clock. At every instant: people first (each before anything new is called), then what
the engine has asked for, then what the world does, then what is due by the engine's own timers. Nothing here knows
a rule of the machines: the simulation feeds inputs and carries out commands, as any other shell does.
"""

from collections import Counter, deque
from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Any, assert_never

import attrs

from fsm_agent.core import planning, plantext, replay
from fsm_agent.core.audit import audit
from fsm_agent.core.errors import FsmAgentError, PlanError
from fsm_agent.core.events import TYPES, Event, from_body
from fsm_agent.core.inputs import (
    Call,
    Command,
    Create,
    Input,
    Probe,
    Progressed,
    Returned,
    StopCall,
    Tick,
)
from fsm_agent.core.machine import RunState, TaskState
from fsm_agent.core.rules import Table
from fsm_agent.core.state import RUN
from fsm_agent.runtime.configs import load_classifier, load_rules
from fsm_agent.runtime.endings import Judge
from fsm_agent.runtime.engine import Engine
from fsm_agent.runtime.vault import Vault
from fsm_agent.stores.base import Store
from fsm_agent.testing import replies
from fsm_agent.testing.clock import FakeClock
from fsm_agent.testing.expect import Observed, failures
from fsm_agent.testing.operator import Action, Approval, Crash, NewPlan, Script, approve
from fsm_agent.testing.scenario import CallScript, Scenario
from fsm_agent.testing.volatile import VolatileStore
from fsm_agent.testing.world import Happening, Kind, World

LONGEST = 100_000
"""Inputs after which a simulation is given up: something asks for more for ever."""
RUN_ID = "simulation"


@attrs.frozen(kw_only=True)
class Result:
    """What a simulation showed.

    Attributes:
        name: The scenario's.
        ok: Whether everything came out as expected and the audit found nothing.
        failures: What did not, one sentence each.
        run: State of the run at the end; ``pending`` when its plan was refused.
        tasks: State by task.
        effects: Effects by tool, as the world counts them.
        calls: Calls by tool.
        planner_calls: How often the planner was asked.
        virtual_s: How long it took by the virtual clock, in seconds, to the millisecond.
        results: Result by task, of those that are done.
        events: The whole log.
        refused: What people said and the engine refused, oldest first.
    """

    name: str
    ok: bool
    failures: tuple[str, ...]
    run: str
    tasks: Mapping[str, str]
    effects: Mapping[str, int]
    calls: Mapping[str, int]
    planner_calls: int
    virtual_s: float
    results: Mapping[str, Any] = attrs.field(factory=dict)
    events: tuple[Event, ...] = ()
    refused: tuple[str, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """Return the JSON form that ``simulate --json`` lists."""
        return {
            "name": self.name,
            "ok": self.ok,
            "failures": list(self.failures),
            "run": self.run,
            "tasks": dict(self.tasks),
            "effects": dict(self.effects),
            "calls": dict(self.calls),
            "planner_calls": self.planner_calls,
            "virtual_s": self.virtual_s,
        }


def simulate(
    scenario: Scenario, *, seed: int = 0, store: Store | None = None, rules: Table | None = None
) -> Result:
    """Run *scenario* and compare what comes out with what it expects.

    Args:
        scenario: The scenario.
        seed: Of the jitter: equal seeds give equal runs.
        store: Where the log goes; left out, a store in memory that forgets at a crash what was not durable.
            Another store keeps at a crash whatever it has.
        rules: The rule table; left out, the scenario's.

    Raises:
        PlanError: The plan is refused, and the scenario does not expect that.
        NotFoundError: There is no rule table of the scenario's name.
        RulesError: The rule table cannot be used.
    """
    table = rules if rules is not None else load_rules(scenario.rules, scenario.params)
    world = World(scenario.tools)
    specs = {name: tool.spec for name, tool in scenario.tools.items()}
    try:
        document = plantext.read(scenario.plan) if isinstance(scenario.plan, str) else scenario.plan
        plan = planning.load(document, tools=specs, default_tool=scenario.default_tool)
    except PlanError as error:
        if not scenario.expect.refused:
            raise
        return _result(scenario, _nothing_ran(world, tuple(fault.code for fault in error.faults)))
    create = Create(
        run=RUN_ID,
        plan=plan,
        rules=table,
        tools=tuple(specs.values()),
        inputs=scenario.inputs,
        owner="simulation-1",
        classify_digest=load_classifier().digest,
        version="simulation",
        default_tool=scenario.default_tool,
        has_planner=scenario.planner is not None,
    )
    simulation = _Simulation(
        scenario, create, world, store if store is not None else VolatileStore(), FakeClock(seed=seed)
    )
    simulation.drive()
    return simulation.result()


class _Simulation:
    """One run from its beginning to where nothing moves any more."""

    def __init__(
        self, scenario: Scenario, create: Create, world: World, store: Store, clock: FakeClock
    ) -> None:
        self._scenario = scenario
        self._create = create
        self._world = world
        self._store = store
        self._clock = clock
        self._judge = Judge(load_classifier(), Vault())
        self._script = Script(scenario.operator)
        self._watched = any(r.at_us is None for r in scenario.operator)
        self._seen = 0
        self._timed = sorted(self._script.timed())
        self._due: list[int] = []
        self._heap: list[tuple[int, int, Happening]] = []
        self._commands: deque[Command] = deque()
        self._owners = 1
        self._inputs = 0
        self._serial = 0
        self._refused: list[str] = []
        self._gaps: list[str] = []
        self._engine, commands = Engine.create(store, create, clock, slots=scenario.workers)
        self._took(commands)

    def drive(self) -> None:
        """Go on until the run is final, or until nothing can move and nobody will say anything more."""
        while self._inputs < LONGEST:
            if self._due:
                for action in self._scenario.operator[heappop(self._due)].actions:
                    self._act(action)
            elif self._commands:
                self._carry_out(self._commands.popleft())
            elif not self._move_on():
                return
        self._gaps.append(f"the run did not come to rest within {LONGEST} inputs; something repeats for ever")

    def result(self) -> Result:
        """Return what came out."""
        self._engine.flush()
        records = list(self._store.read(RUN_ID))
        events = tuple(replay.events(RUN_ID, records, self._store.blob))
        audited = audit(RUN_ID, records, self._store.blob, head=self._engine.head)
        run = self._engine.run
        observed = Observed(
            run=run.state.value,
            tasks={task.id: task.state.value for task in run.tasks.values()},
            results={t.id: t.result for t in run.tasks.values() if t.state is TaskState.DONE},
            effects=self._world.effect_counts(),
            calls=self._world.calls,
            planner_calls=run.account.planner_calls,
            moves=[(e.task or RUN, e.data["dest"]) for e in events if e.type in ("task_moved", "run_moved")],
            decisions=[
                (e.task or RUN, e.data["signal"], e.data["decide"]) for e in events if e.type == "decided"
            ],
            virtual_us=self._clock.elapsed_us,
            violations=[f"event {f.seq}, {f.check}: {f.message}" for f in audited.findings],
            gaps=(*self._gaps, *self._world.gaps),
            events=dict.fromkeys(TYPES, 0) | Counter(e.type for e in events),
        )
        return _result(self._scenario, observed, events, tuple(self._refused))

    # ── inputs ────────────────────────────────────────────────────────────────────────────────────────────────

    def _feed(self, given: Input) -> None:
        self._inputs += 1
        try:
            commands = self._engine.feed(given)
        except FsmAgentError as error:
            self._refused.append(str(error))
            commands = []
        self._took(commands)

    def _took(self, commands: list[Command]) -> None:
        """Keep the commands for later, and see whether somebody has something to say to what has just happened."""
        self._commands.extend(commands)
        if not self._watched:
            return
        fresh = [from_body(record.body) for record in self._store.read(RUN_ID, since=self._seen)]
        self._seen += len(fresh)
        due = self._script.after(fresh)
        if due:
            self._engine.flush()
        for index in due:
            heappush(self._due, index)

    def _act(self, action: Action) -> None:
        match action:
            case Crash():
                self._crash()
            case NewPlan():
                self._refused.append("replan: a new plan was given; a run keeps the plan that it began with")
            case Approval():
                self._feed(approve(action, self._engine.run))
            case _:
                self._feed(action)

    def _crash(self) -> None:
        """Lose what was not durable and every call that is out; another owner takes over at once."""
        self._commands.clear()
        self._heap.clear()
        if isinstance(self._store, VolatileStore):
            self._store.crash()
        self._seen = min(self._seen, self._store.head(RUN_ID).seq)
        self._owners += 1
        self._inputs += 1
        self._engine, commands = Engine.open(
            self._store,
            RUN_ID,
            f"simulation-{self._owners}",
            self._clock,
            tools=self._create.tools,
            default_tool=self._create.default_tool,
            slots=self._scenario.workers,
            force=True,
        )
        self._took(commands)

    # ── commands ──────────────────────────────────────────────────────────────────────────────────────────────

    def _carry_out(self, command: Command) -> None:
        now = self._clock.now_us()
        match command:
            case Call():
                self._plan_ahead(self._world.call(command, now))
            case Probe(repeat=True):
                happenings = self._world.call(command, now)
                if not any(h.kind is Kind.REPLY and h.at_us <= command.deadline_at for h in happenings):
                    happenings.append(_nothing(command, now))
                self._plan_ahead(happenings)
            case Probe():
                still_out = any(
                    h.kind is Kind.REPLY
                    and (h.command.task, h.command.attempt) == (command.task, command.attempt)
                    for _, _, h in self._heap
                )
                found = self._world.probe(command, now)
                spec = self._world.tools[command.tool].spec
                self._feed(replies.finding(self._judge, spec, command, found, still_out=still_out))
            case StopCall():
                pass  # nobody waits any more, but the call goes on: its reply arrives late

    def _plan_ahead(self, happenings: list[Happening]) -> None:
        for happening in happenings:
            self._serial += 1
            heappush(self._heap, (happening.at_us, self._serial, happening))

    # ── time ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _move_on(self) -> bool:
        """Go to the next instant at which something happens; whether there is one."""
        state = self._engine.run.state
        if state in (RunState.DONE, RunState.CANCELLED) or (state is RunState.FAILED and not self._timed):
            return False
        said = self._clock.start_us + self._timed[0][0] if self._timed else None
        happens = self._heap[0][0] if self._heap else None
        ticks = self._engine.next_due()
        moments = [at for at in (said, happens, ticks) if at is not None]
        if not moments:
            return False
        at = min(moments)
        if at > self._clock.now_us():
            self._engine.flush()  # idle
            self._clock.move_to(at)
        if at == said:
            while self._timed and self._clock.start_us + self._timed[0][0] == at:
                heappush(self._due, self._timed.pop(0)[1])
        elif at == happens:
            self._happen(heappop(self._heap)[2])
        else:
            self._feed(Tick())
        return True

    def _happen(self, happening: Happening) -> None:
        command = happening.command
        now = self._clock.now_us()
        match happening.kind:
            case Kind.COMMIT:
                self._world.happened(happening)
            case Kind.CRASH_BEFORE | Kind.CRASH_AFTER:
                self._crash()
            case Kind.REPORT:
                task = self._engine.run.tasks[command.task]
                if task.state is TaskState.RUNNING and task.attempt == command.attempt:
                    self._feed(
                        Progressed(task=command.task, attempt=command.attempt, advanced=happening.advanced)
                    )
            case Kind.REPLY:
                spec = self._world.tools[command.tool].spec
                if isinstance(command, Probe) and now <= command.deadline_at:
                    self._feed(replies.repeated(self._judge, spec, command, happening))
                else:
                    outcome = replies.outcome(self._judge, spec, happening)
                    self._feed(Returned(task=command.task, attempt=command.attempt, outcome=outcome))
            case Kind.LOST:
                assert isinstance(command, Probe), "only a probe is given up"
                self._feed(replies.silence(command))
            case _:
                assert_never(happening.kind)


def _nothing(command: Probe, now_us: int) -> Happening:
    return Happening(
        at_us=command.deadline_at, kind=Kind.LOST, command=command, script=CallScript(), started_us=now_us
    )


def _nothing_ran(world: World, refused: tuple[str, ...]) -> Observed:
    return Observed(
        run=RunState.PENDING.value,
        tasks={},
        results={},
        effects=world.effect_counts(),
        calls=world.calls,
        planner_calls=0,
        moves=(),
        decisions=(),
        virtual_us=0,
        refused=refused,
    )


def _result(
    scenario: Scenario, observed: Observed, events: tuple[Event, ...] = (), refused: tuple[str, ...] = ()
) -> Result:
    found = failures(scenario.expect, observed)
    return Result(
        name=scenario.name,
        ok=not found,
        failures=tuple(found),
        run=observed.run,
        tasks=observed.tasks,
        effects=observed.effects,
        calls=dict(observed.calls),
        planner_calls=observed.planner_calls,
        virtual_s=observed.virtual_us // 1000 / 1000,
        results=observed.results,
        events=events,
        refused=refused,
    )
