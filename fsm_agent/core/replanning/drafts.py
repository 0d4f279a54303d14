"""A proposed plan beside the plan in force: what stands in both is found once, and everybody who judges looks there."""

from collections.abc import Mapping
from typing import Any

import attrs

from fsm_agent.core.plans.members import walk
from fsm_agent.core.plans.plan import Plan, Step
from fsm_agent.core.replanning import strategy


@attrs.frozen(kw_only=True)
class Draft:
    """A proposed plan. Steps are those that are tasks from the beginning, by id, in plan order.

    Attributes:
        plan: The whole new plan.
        steps: Its steps.
        before: What the plan in force says of its own steps.
        after: What the new plan says of its steps.
        unchanged: Steps of which both say the same, words aside.
    """

    plan: Plan
    steps: Mapping[str, Step]
    before: Mapping[str, Mapping[str, Any]]
    after: Mapping[str, Mapping[str, Any]]
    unchanged: frozenset[str]


def beside(old: Plan, new: Plan) -> Draft:
    """Return *new* beside *old*."""
    before, after = strategy.stated_steps(old), strategy.stated_steps(new)
    return Draft(
        plan=new,
        steps={step.id: step for step in walk(new.steps)},
        before=before,
        after=after,
        unchanged=strategy.unchanged(before, after),
    )
