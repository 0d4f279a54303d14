"""Runs a scenario with the engine of real runs, and says how what came out differs from what was expected.

The loop is :mod:`fsm_agent.testing.virtual`; this is what stands before it (plan, table, secrets) and after it (the
log, the audit, the comparison).
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import attrs

from fsm_agent.core.audit import replay
from fsm_agent.core.audit.audit import audit
from fsm_agent.core.engine.records import RUN
from fsm_agent.core.errors import PlanError
from fsm_agent.core.events import TYPES, Event
from fsm_agent.core.inputs import Create
from fsm_agent.core.machine import RunState, TaskState
from fsm_agent.core.plans import known, planning
from fsm_agent.core.plans import text as plantext
from fsm_agent.core.plans.plan import Plan
from fsm_agent.core.replanning import repairs
from fsm_agent.core.replanning.repairs import Repair
from fsm_agent.core.rules.table import Table
from fsm_agent.core.tools import ToolSpec
from fsm_agent.runtime.classifying import load_classifier
from fsm_agent.runtime.configs import load_repairs, load_rules
from fsm_agent.runtime.secrets.vault import Vault, secret_inputs
from fsm_agent.runtime.tools.endings import Judge
from fsm_agent.stores.base import Store
from fsm_agent.testing.clock import FakeClock
from fsm_agent.testing.expect import Observed, failures
from fsm_agent.testing.scenario import Scenario
from fsm_agent.testing.virtual import VirtualRun
from fsm_agent.testing.volatile import VolatileStore
from fsm_agent.testing.world import Done, World

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
        ledger: Every effect as the world has it, oldest first.
        observed: All that expectations are compared with; None in a result that no simulation made.
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
    ledger: tuple[Done, ...] = ()
    observed: Observed | None = None

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
    table = rules if rules is not None else load_rules(scenario.rules, scenario.params, scenario.rows)
    world = World(scenario.tools)
    specs = {name: tool.spec for name, tool in scenario.tools.items()}
    try:
        document = plantext.read(scenario.plan) if isinstance(scenario.plan, str) else scenario.plan
        plan: Plan = planning.load(document, tools=specs, default_tool=scenario.default_tool)
    except PlanError as error:
        if not scenario.expect.refused:
            raise
        return _result(scenario, _nothing_ran(world, tuple(fault.code for fault in error.faults)))
    judge = Judge(load_classifier(), Vault())
    log = store if store is not None else VolatileStore()
    create = _create(scenario, plan, table, specs, judge)
    run = VirtualRun(scenario, create, world, log, FakeClock(seed=seed), judge)
    run.drive()
    return _observe(scenario, run, world, log)


def _create(
    scenario: Scenario, plan: Plan, table: Table, specs: Mapping[str, ToolSpec], judge: Judge
) -> Create:
    """Return the run's first input, with every secret hidden."""
    tools, default_tool = tuple(specs.values()), scenario.default_tool
    inputs = {**plan.inputs, **scenario.inputs}
    if any(tool.secret for tool in tools):
        inputs = judge.vault.hide_inputs(inputs, secret_inputs(plan.doc, tools, default_tool))
        plan = known.trusted(judge.vault.hide_plan(plan.doc, tools, default_tool))
    return Create(
        run=RUN_ID,
        plan=plan,
        rules=table,
        tools=tools,
        inputs=inputs,
        owner="simulation-1",
        classify_digest=judge.classifier.digest,
        version="simulation",
        default_tool=default_tool,
        has_planner=scenario.planner is not None,
        repairs=_repairs(scenario),
        review=scenario.review,
    )


_WORDS: Final = ("say", "reason", "why", "note", "text", "explanation", "explanation_zh")
"""Members of events in which they speak to people."""


def _repairs(scenario: Scenario) -> tuple[Repair, ...]:
    found = scenario.repairs
    return load_repairs(found) if isinstance(found, str) else repairs.read(found, where=scenario.name)


def _observe(scenario: Scenario, done: VirtualRun, world: World, store: Store) -> Result:
    done.engine.flush()
    run = done.engine.run
    records = list(store.read(run.id))
    events = tuple(replay.events(run.id, records, store.blob))
    audited = audit(run.id, records, store.blob, head=done.engine.head)
    tasks = run.tasks.values()
    observed = Observed(
        run=run.state.value,
        tasks={task.id: task.state.value for task in tasks},
        results={task.id: task.result for task in tasks if task.state is TaskState.DONE},
        effects=world.effect_counts(),
        calls=world.calls,
        planner_calls=run.account.planner_calls,
        moves=[(e.task or RUN, e.data["dest"]) for e in events if e.type in ("task_moved", "run_moved")],
        decisions=[
            (e.task or RUN, e.data["signal"], e.data["decide"]) for e in events if e.type == "decided"
        ],
        virtual_us=done.clock.elapsed_us,
        violations=[f"event {f.seq}, {f.check}: {f.message}" for f in audited.findings],
        gaps=(*done.gaps, *world.gaps),
        events=dict.fromkeys(TYPES, 0) | Counter(e.type for e in events),
        words=[event.data[key] for event in events for key in _WORDS if isinstance(event.data.get(key), str)],
        prompts=done.prompts,
    )
    return attrs.evolve(_result(scenario, observed, events, tuple(done.refused)), ledger=tuple(world.effects))


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
        observed=observed,
        results=observed.results,
        events=events,
        refused=refused,
    )
