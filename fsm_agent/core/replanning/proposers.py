"""Who proposes another plan without being asked in words: what the step prepares, then the repairs that fit it.

One protocol: a proposer gives its offers in the order in which they are to be tried, and the gate judges each. None of
them is tried again for the same failure; a planner, and then a person, comes after all of them.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs

from fsm_agent.core.engine.records import Replanning, Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.machine import WRITES
from fsm_agent.core.replanning import repairing, strategy


@attrs.frozen(kw_only=True)
class Offer:
    """A proposal, made from data.

    Attributes:
        origin: ``alternative`` or ``rule``.
        steps: The steps of the whole plan, as it would be.
        scope: ``local`` or ``global``.
        meant: Somebody planned it for just this case: it may repeat a strategy, and asks nobody anew.
        why: Why it helps; added to what made it necessary.
        words: The same for an end user, by language.
        record: What the log holds beside it.
    """

    origin: str
    steps: list[Any]
    scope: str
    meant: bool = False
    why: str = ""
    words: Mapping[str, str] = attrs.field(factory=dict)
    record: Mapping[str, Any] = attrs.field(factory=dict)


Proposer = Callable[[Run, Replanning, Task], Iterator[Offer]]
"""Gives offers for a failed task and the replan that it made necessary, the preferred one first."""


def alternatives(run: Run, request: Replanning, task: Task) -> Iterator[Offer]:
    """Offer the next fall-back that the step has prepared."""
    del request
    assert run.plan is not None, "no plan"
    if task.step.alternatives and (task.effect not in WRITES or task.applied == "no"):
        steps = strategy.switched(run.plan.doc["steps"], task.id)
        yield Offer(origin="alternative", steps=steps, scope="local", meant=True)


def repairs(run: Run, request: Replanning, task: Task) -> Iterator[Offer]:
    """Offer every repair that fits the failure."""
    for repair, steps in repairing.proposals(run, task, request.signal) if run.repairs else ():
        yield Offer(
            origin="rule",
            steps=steps,
            scope=request.scope,
            why=repair.why,
            words={"en": repair.why, "zh": repair.why_zh},
            record={"repair": repair.id},
        )


PROPOSERS: Final[tuple[Proposer, ...]] = (alternatives, repairs)
"""In the order in which they are tried."""


def offers(run: Run, request: Replanning, task: Task) -> Iterator[Offer]:
    """Yield the offers of all of :data:`PROPOSERS`."""
    for proposer in PROPOSERS:
        yield from proposer(run, request, task)
