"""What is promised, and how one figure stands to it.

``must`` is what has to hold, ``aim`` what we want. Most figures are ratios to the floor, measured in turns with it in one
process: they say the same on every machine.
"""

from typing import Any, NamedTuple


class Goal(NamedTuple):
    """What a figure has to be; *more* says that larger is better."""

    must: float
    aim: float
    more: bool = False

    def meets(self, value: float) -> str:
        """Return ``aim``, ``must`` or ``missed``."""
        for name, limit in (("aim", self.aim), ("must", self.must)):
            if value >= limit if self.more else value <= limit:
                return name
        return "missed"


GOALS = {
    "memory": Goal(8, 4),
    "reads": Goal(6, 3),
    "writes": Goal(6, 3),
    "chain of writes": Goal(3, 1.5),
    "growth of time": Goal(1.2, 1.1),
    "growth of log": Goal(1.2, 1.1),
    "growth of memory": Goal(1.2, 1.1),
    "alive": Goal(2048, 600),
    "log at 64 B": Goal(1200, 850),
    "log at 2 KB": Goal(1.8, 1.4),
    "audit": Goal(60_000, 120_000, more=True),
    "audit of hashes": Goal(500_000, 900_000, more=True),
    "reopen": Goal(0.2, 0.05),
    "finish": Goal(8, 3),
    "straggler": Goal(1.2, 1.1),
    "plan": Goal(1, 0.3),
    "distributions": Goal(8, 7),
    "against langgraph": Goal(10, 20, more=True),
    "against dbos": Goal(25, 60, more=True),
}
"""By the name of what is measured."""


class Row(NamedTuple):
    """One figure.

    Attributes:
        group: Which measurement it comes from; what ``--only`` takes.
        what: In words.
        case: Of which graph, how many steps.
        value: The figure.
        unit: Of what it is.
        goal: What it has to be; None: it is there to be seen.
        more: What it was made of, by name, unit in the name.
    """

    group: str
    what: str
    case: str
    value: float
    unit: str
    goal: Goal | None = None
    more: dict[str, float] = {}  # noqa: RUF012 - never changed

    def as_json(self) -> dict[str, Any]:
        """Return the row with what was met."""
        more = {name: _short(value) for name, value in self.more.items()}
        goal = {} if self.goal is None else {"must": self.goal.must, "aim": self.goal.aim, "met": self.met}
        return {
            "group": self.group,
            "what": self.what,
            "case": self.case,
            "value": _short(self.value),
            "unit": self.unit,
            **goal,
            "more": more,
        }

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> "Row":
        """Return the row that :meth:`as_json` kept, held against what is promised by the figure's own limits."""
        goal = None
        if "must" in kept:
            goal = Goal(kept["must"], kept["aim"], more=kept["aim"] > kept["must"])
        plain = {name: kept[name] for name in ("group", "what", "case", "value", "unit", "more")}
        return cls(**plain, goal=goal)

    @property
    def met(self) -> str:
        """Return ``aim``, ``must`` or ``missed``; nothing where nothing is promised."""
        return "" if self.goal is None else self.goal.meets(self.value)


def _short(value: float) -> float:
    return float(f"{value:.4g}")
