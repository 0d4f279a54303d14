"""Beyond the first decision that differs: the same plan in a declared world, once under each table. Always hypothetical.

A log does not say what the world would have answered to another decision; a scenario's world does, for itself. It is
believed only as far as it tells the log's own story: run under the log's table it must make the same moves and
decisions, task by task, up to where the other table decides otherwise. What comes then is a story about that world.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from fsm_agent.core import canon
from fsm_agent.core.engine.records import RUN
from fsm_agent.core.errors import CorruptError, UsageError
from fsm_agent.core.events import Event
from fsm_agent.core.replay.whatif import Trajectory, WhatIf
from fsm_agent.core.rules import table as rules
from fsm_agent.core.rules.table import Table
from fsm_agent.testing.scenario import Scenario
from fsm_agent.testing.simulate import Result, simulate


@attrs.frozen(kw_only=True)
class Story:
    """What a world shows under one table.

    Attributes:
        run: Where the run comes to rest.
        tasks: State by task.
        decisions: How many were made.
        effects: Effects by tool, as the world counts them.
        calls: Calls by tool.
        planner_calls: How often the planner was asked.
        questions: How often a person was asked.
        virtual_s: How long it took, in seconds of its clock.
    """

    run: str
    tasks: Mapping[str, str]
    decisions: int
    effects: Mapping[str, int]
    calls: Mapping[str, int]
    planner_calls: int
    questions: int
    virtual_s: float


@attrs.frozen(kw_only=True)
class Hypothetical:
    """A log's plan in a declared world, under both tables. None of it happened.

    Attributes:
        run: The run whose log it is compared with.
        world: Name of the scenario.
        apart: Where the world tells another story than the log before any decision differs, in words; then it says
            nothing about this log, and there are no stories. Empty: it does not.
        old: Under the log's table.
        new: Under the other one.
    """

    run: str
    world: str
    apart: str
    old: Story | None = None
    new: Story | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"hypothetical": True, **attrs.asdict(self)}


def beyond(
    found: WhatIf, run: str, events: Sequence[Event], table: Table, scenario: Scenario, *, seed: int = 0
) -> Hypothetical:
    """Return what *scenario*'s world shows where the log of *run* is silent.

    Args:
        found: What the tables say pointwise.
        run: The run.
        events: Its log.
        table: The other table.
        scenario: The world; its plan must be the log's first one.
        seed: Of the world's chance.

    Raises:
        UsageError: The scenario has another plan.
        CorruptError: The log does not begin like one.
    """
    if len(events) < 2 or events[1].type != "plan_adopted":
        raise CorruptError(f"log of {run}: it has no plan")
    recorded = rules.from_canonical(events[0].data["rules"])
    before = simulate(scenario, seed=seed, rules=recorded)
    plan = next(e.data["digest"] for e in (*before.events, _no_plan(run)) if e.type == "plan_adopted")
    if plan != events[1].data["digest"]:
        raise UsageError(
            f"world {scenario.name}: its plan is not the first plan of run {run}; a world is declared for one plan"
        )
    trajectories = [t for t in found.trajectories if t.run == run]
    apart = _apart(events, before.events, trajectories)
    if apart:
        return Hypothetical(run=run, world=scenario.name, apart=apart)
    after = simulate(scenario, seed=seed, rules=table)
    return Hypothetical(run=run, world=scenario.name, apart="", old=_story(before), new=_story(after))


def _no_plan(run: str) -> Event:
    """Stand for the plan of a simulation that was refused before it began."""
    return Event(1, 1, "plan_adopted", {"digest": f"none of {run}"})


def _story(result: Result) -> Story:
    types = [e.type for e in result.events]
    return Story(
        run=result.run,
        tasks=result.tasks,
        decisions=types.count("decided"),
        effects=result.effects,
        calls=result.calls,
        planner_calls=result.planner_calls,
        questions=types.count("approval_requested"),
        virtual_s=result.virtual_s,
    )


def _apart(log: Sequence[Event], world: Sequence[Event], trajectories: Iterable[Trajectory]) -> str:
    """Return in words where the two first differ about a task, before anything differs by decision; empty for nowhere."""
    until = {t.task: t.until for t in trajectories if t.until is not None}
    first = min(until.values(), default=None)
    ours, theirs = _by_task(log, first), _by_task(world, None)
    for task, own in ours.items():
        other = theirs.get(task, [])
        for place, (seq, said) in enumerate(own):
            if place >= len(other) or other[place][1] != said:
                there = other[place][1] if place < len(other) else "nothing more"
                return f"event {seq} of the log says of {task}: {said}; in this world it is {there}"
    return ""


def _by_task(events: Iterable[Event], before: int | None) -> dict[str, list[tuple[int, str]]]:
    """Return what happened to each task, in words that hold no time, no id of a run, and no chance."""
    out: dict[str, list[tuple[int, str]]] = {}
    for event in events:
        if before is not None and event.seq >= before:
            break
        said = _said(event)
        if said:
            out.setdefault(event.task or RUN, []).append((event.seq, said))
    return out


def _said(event: Event) -> str:
    data = event.data
    if event.type == "decided":
        return f"{data['signal']} → {data['decide']} ({data['rule']})"
    if event.type == "task_moved" and data["trigger"] == "start":
        return f"start {data['tool']} {canon.encode(data['args']).decode()}"
    if event.type == "task_moved":
        return str(data["trigger"])
    return ""
