"""Why a run under a table ends: a counter that only falls ends whatever spends it.

A decision that the machine acts on by itself spends one of a counter. A counter that is spent and that no
remaining decision fills again can only be spent so often; the decisions that spend it are then settled and put
aside, and the argument goes on with the rest. If everything is settled, there are finitely many decisions between
two inputs of people, and the order in which counters were settled is the proof: a lexicographic ranking. If not,
the decisions that are left fill each other's counters in a circle.

What spends no counter of its own is bounded by the plan: a step is accepted, skipped or gone on from once per
version of the plan, and only a replan makes a new version.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from fsm_agent.core.rules.rows import NEW_SERIES, Counter, Spend
from fsm_agent.core.signals import Decision

STEPS: Final = "steps"
"""Stands for the steps of the present plan that are not done yet."""

WAITING: Final = frozenset({Decision.ESCALATE, Decision.ABORT})
"""Decisions after which the machine decides nothing more by itself."""
DRIVING: Final = frozenset({Decision.RETRY, Decision.RECONCILE, *NEW_SERIES})
"""Decisions that start something again by themselves; each must spend a counter."""


@attrs.frozen(kw_only=True)
class Proof:
    """The ranking, most significant first: groups of counters, each with the decisions that it settles."""

    ranking: tuple[tuple[tuple[str, ...], tuple[Decision, ...]], ...]

    def __str__(self) -> str:
        """The ranking in one line."""
        return " > ".join(", ".join(counters) for counters, _ in self.ranking)


@attrs.frozen(kw_only=True)
class Circle:
    """Decisions of which each spends what the next one fills again, and the last what the first one does.

    A single decision that spends nothing is a circle too.
    """

    steps: tuple[tuple[Decision, str | None], ...]

    def __str__(self) -> str:
        """The circle in one line."""
        if self.steps[0][1] is None:
            return f"{self.steps[0][0]} spends no counter, so nothing ends it"
        following = [*self.steps[1:], self.steps[0]]
        return "; ".join(
            f"{decision} spends {counter}, which {after} fills again"
            for (decision, counter), (after, _) in zip(self.steps, following, strict=True)
        )


@attrs.frozen(kw_only=True)
class Bound:
    """The most that can happen between two inputs of people.

    Attributes:
        planner_calls: Per run.
        tool_calls: Per step of the plan, probes included, over all versions of the plan.
        attempts: Per step and version of the plan: tries.
        probes: Per step and version of the plan: looks at an unknown result.
    """

    planner_calls: int
    tool_calls: int
    attempts: int
    probes: int


def spends(decision: Decision, costs: Mapping[Decision, Spend]) -> str | None:
    """Return what *decision* spends: its counter, ``steps``, or None."""
    counter = costs[decision].spend if decision in costs else None
    return counter if counter is not None or decision in DRIVING else STEPS


def refills(
    decision: Decision, costs: Mapping[Decision, Spend], counters: Mapping[str, Counter]
) -> frozenset[str]:
    """Return what *decision* fills again: what the table says, and after a replan whatever a new step begins with."""
    said = frozenset(costs[decision].refill) if decision in costs else frozenset()
    if decision in NEW_SERIES:
        return said | {STEPS} | {name for name, counter in counters.items() if counter.scope != "run"}
    return said


def prove(
    used: Iterable[Decision], costs: Mapping[Decision, Spend], counters: Mapping[str, Counter]
) -> Proof | Circle:
    """Return the proof that the decisions *used* end, or a circle in which they do not."""
    left = [decision for decision in Decision if decision in set(used) - WAITING]
    ranking = []
    while left:
        filled = frozenset[str]().union(*(refills(d, costs, counters) for d in left))
        settled = {d: c for d in left if (c := spends(d, costs)) is not None and c not in filled}
        if not settled:
            return _circle(left, costs, counters)
        ranking.append((tuple(sorted(set(settled.values()))), tuple(settled)))
        left = [decision for decision in left if decision not in settled]
    return Proof(ranking=tuple(ranking))


def _circle(left: list[Decision], costs: Mapping[Decision, Spend], counters: Mapping[str, Counter]) -> Circle:
    path: list[tuple[Decision, str | None]] = []
    decision = next((d for d in left if spends(d, costs) is None), left[0])
    while decision not in (seen for seen, _ in path):
        counter = spends(decision, costs)
        path.append((decision, counter))
        if counter is None:
            return Circle(steps=(path[-1],))
        decision = next(d for d in left if counter in refills(d, costs, counters))
    start = next(place for place, (seen, _) in enumerate(path) if seen is decision)
    return Circle(steps=tuple(path[start:]))


def bound(proof: Proof, costs: Mapping[Decision, Spend], counters: Mapping[str, Counter]) -> Bound:
    """Return how often things can happen at most, from the counters' initial values and the ranking."""
    times: dict[Decision, int] = {}
    for names, settled in proof.ranking:
        for name in names:
            fills = sum(n for decision, n in times.items() if name in refills(decision, costs, counters))
            supply = (counters[name].initial if name in counters else 1) * (1 + fills)
            times |= {d: supply for d in settled if spends(d, costs) == name}
    planner = _spent(times, costs, NEW_SERIES)
    versions = 1 + planner
    retries = _spent(times, costs, frozenset({Decision.RETRY}))
    probes = _spent(times, costs, frozenset({Decision.RECONCILE}))
    return Bound(
        planner_calls=planner,
        tool_calls=versions + retries + probes,
        attempts=1 + -(-retries // versions),
        probes=-(-probes // versions),
    )


def _spent(times: Mapping[Decision, int], costs: Mapping[Decision, Spend], which: frozenset[Decision]) -> int:
    """Return how often decisions of *which* happen together; those that share a counter share its supply."""
    supply = {spends(decision, costs): n for decision, n in times.items() if decision in which}
    return sum(supply.values())
