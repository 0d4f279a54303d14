"""The families by kind, and how many cases of each make a round.

Sizes follow from what a case costs and what it can find; a round has more than 10,000 cases and takes about a minute of
one core. ``FSM_AGENT_TORTURE=3`` makes three rounds of it, ``FSM_AGENT_TORTURE=0.02`` a taste; ``--full`` is ten rounds.
"""

import os
import random
from typing import Final

from tests.torture import effects, logs, people, plans
from tests.torture.rig import Family


def double_effect(rng: random.Random) -> None:
    """Calls of every kind, and rows that move while they are made."""
    (people.moving_rows if rng.randrange(3) == 0 else effects.double_effect)(rng)


FAMILIES: Final[dict[str, tuple[Family, int]]] = {
    "approval": (people.approval, 900),
    "budget": (people.budget, 600),
    "cancel": (effects.cancel, 700),
    "double-effect": (double_effect, 1000),
    "false-done": (effects.false_done, 500),
    "log": (logs.log, 800),
    "persistence": (effects.persistence, 250),
    "plan-json": (plans.plan_json, 1200),
    "reference": (plans.reference, 1500),
    "replan": (plans.replan, 300),
    "retry": (people.retry, 500),
    "scheduling": (plans.scheduling, 700),
    "serialization": (logs.serialization, 1200),
    "size": (logs.size, 40),
    "speed": (logs.speed, 10),
    "stale-plan": (people.stale_plan, 900),
    "timeout": (effects.timeout, 700),
}
CHUNK: Final = 150


def rounds() -> float:
    """Return how many rounds are asked for."""
    return float(os.environ.get("FSM_AGENT_TORTURE", "1"))


def chunks(share: float) -> list[tuple[str, range]]:
    """Return the cases of *share* rounds by kind, in parts that a worker can take."""
    found = []
    for kind, (_, size) in FAMILIES.items():
        count = max(1, round(size * share))
        found += [(kind, range(first, min(first + CHUNK, count))) for first in range(0, count, CHUNK)]
    return found


def case(kind: str, number: int) -> None:
    """Make and judge one case.

    Raises:
        AssertionError: It names the kind and the number, which are all that it takes to make it again.
    """
    try:
        FAMILIES[kind][0](random.Random(f"{kind} {number}"))
    except Exception as error:
        raise AssertionError(f"{kind}, case {number}: {error}") from error
