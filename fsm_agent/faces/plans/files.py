"""The commands about files of plans and scenarios."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from fsm_agent.core.errors import Fault, FsmAgentError, NotFoundError, RulesError
from fsm_agent.core.plans import planning
from fsm_agent.core.rules.table import Table
from fsm_agent.faces.drive.jobs import plan_file, toolbox_of
from fsm_agent.faces.frame.files import is_folder
from fsm_agent.faces.frame.screen import Screen
from fsm_agent.faces.frame.spec import Outcome
from fsm_agent.runtime.configs import load_rules
from fsm_agent.runtime.planning.plans import Plan
from fsm_agent.testing.scenario import Scenario
from fsm_agent.testing.scenario import load as load_scenario
from fsm_agent.testing.simulate import Result, simulate

UNMET: Final = 1
"""Exit code of ``simulate`` when an expectation is not met."""


@attrs.frozen(kw_only=True)
class Checked:
    """A plan that can be run.

    Attributes:
        file: Where it stands.
        plan: The plan.
        tools: How many tools it was checked against; None if none were named.
        warnings: What deserves a look.
    """

    file: str
    plan: Plan
    tools: int | None
    warnings: tuple[Fault, ...]


@attrs.frozen(kw_only=True)
class Simulated:
    """What simulations showed, in the order of the files."""

    results: tuple[Result, ...]


def plan_check(screen: Screen, *, plan: str, tools: str | None) -> Outcome:
    """Check a plan by itself, and against its tools where they are known."""
    del screen
    file = plan_file(plan)
    box, locator = toolbox_of(tools, Path(plan) if is_folder(plan) else None)
    found = Plan.load(file, tools=box if locator is not None else None)
    specs = {spec.name: spec for spec in box.specs}
    warnings = planning.check(found, specs, default_tool=box.default_tool) if locator is not None else ()
    return Outcome(
        Checked(
            file=file, plan=found, tools=len(box.specs) if locator is not None else None, warnings=warnings
        )
    )


def plan_show(screen: Screen, *, plan: str) -> Outcome:
    """Read a plan."""
    del screen
    return Outcome(Plan.load(plan_file(plan)))


def simulations(screen: Screen, *, scenarios: Sequence[str], rules: str | None, seed: int) -> Outcome:
    """Run scenarios; a plan that is refused unexpectedly is an expectation that is not met."""
    del screen
    loaded = [load_scenario(file) for name in scenarios for file in _scenario_files(name)]
    table = load_rules(rules) if rules is not None else None
    results = tuple(_simulated(scenario, table, seed) for scenario in loaded)
    return Outcome(Simulated(results=results), 0 if all(r.ok for r in results) else UNMET)


def _scenario_files(name: str) -> list[Path]:
    path = Path(name)
    if not is_folder(path):
        return [path]
    files = sorted(path.rglob("*.json"))
    if not files:
        raise NotFoundError(
            f"scenarios {name}: the directory holds no *.json; name a scenario or a directory of them"
        )
    return files


def _simulated(scenario: Scenario, table: Table | None, seed: int) -> Result:
    try:
        return simulate(scenario, seed=seed, rules=table)
    except RulesError:
        raise
    except FsmAgentError as error:
        return Result(
            name=scenario.name,
            ok=False,
            failures=(f"{error.code} {error}",),
            run="pending",
            tasks={},
            effects={},
            calls={},
            planner_calls=0,
            virtual_s=0,
        )
