"""What a rule table may name, and how a wrong name is answered.

Limits stand here too: a document may hold anything, but nothing of it is worked on without bound.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from fsm_agent.core.rules.rows import Finding

MAX_ROWS: Final = 1000
MAX_NAMES: Final = 200
MAX_TEXT: Final = 2000
MAX_NUMBER: Final = 1_000_000
MAX_COUNT: Final = 1000
"""Highest value of any count that the engine hands to a table."""
MAX_DEPTH: Final = 8
MAX_FINDINGS: Final = 100


@attrs.frozen(kw_only=True)
class Param:
    """A param that the package knows: its kind and range, its value where a table leaves it out.

    ``engine``: read by the engine itself; the others matter only where a row or counter names them.
    ``added``: after the first release; a table in a log of that time does without it.
    """

    integer: bool
    low: float
    high: float
    default: int | float
    engine: bool
    added: bool = False


PARAMS: Final = {
    "retries": Param(integer=True, low=0, high=1000, default=3, engine=False),
    "reconciles": Param(integer=True, low=0, high=1000, default=5, engine=False),
    "local_replans": Param(integer=True, low=0, high=1000, default=2, engine=False),
    "global_replans": Param(integer=True, low=0, high=1000, default=2, engine=False),
    "escalate_after": Param(integer=True, low=1, high=40, default=3, engine=False),
    "repeat_threshold": Param(integer=True, low=1, high=20, default=2, engine=True),
    "stall_threshold": Param(integer=True, low=1, high=1000, default=5, engine=True),
    "cooldown_s": Param(integer=False, low=0, high=MAX_NUMBER, default=5, engine=True),
    "inefficiency_factor": Param(integer=False, low=1, high=MAX_NUMBER, default=10, engine=True),
    "breaker_failures": Param(integer=True, low=1, high=1000, default=5, engine=True),
    "breaker_open_s": Param(integer=False, low=0, high=MAX_NUMBER, default=30, engine=True),
    "longest_wait_s": Param(integer=False, low=0, high=MAX_NUMBER, default=3600, engine=True, added=True),
    "budget_low": Param(integer=False, low=0, high=1, default=0.2, engine=True),
}
"""Thresholds with a meaning of their own; a table may name more. ``_s`` is seconds, ``budget_low`` a share."""

COUNTERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "retries_left": {"initial": "$retries", "scope": "series"},
    "reconciles_left": {"initial": "$reconciles", "scope": "series"},
    "local_replans_left": {"initial": "$local_replans", "scope": "run"},
    "global_replans_left": {"initial": "$global_replans", "scope": "run"},
}
"""The counters, where a table says nothing else about them."""


@attrs.define(kw_only=True, eq=False)
class Notes:
    """Gathers what is wrong with a document; beyond the first hundred findings nothing is kept."""

    findings: list[Finding] = attrs.field(factory=list)

    def fault(self, message: str, *, kind: str = "format", row: str | None = None) -> None:
        """Note one finding."""
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(kind=kind, row=row, message=message))

    def known(
        self, where: str, given: Mapping[str, Any], allowed: Iterable[str], row: str | None = None
    ) -> None:
        """Note the keys of *given* that are not *allowed*."""
        for key in [k for k in given if k not in allowed][:5]:
            self.fault(f"{where}: unknown key {shown(key)}{near(key, allowed)}", kind="name", row=row)

    def texts(self, where: str, given: Any) -> tuple[str, ...]:
        """Return *given* if it is a list of texts; else note it and return nothing."""
        if (
            isinstance(given, list | tuple)
            and len(given) <= MAX_NAMES
            and all(isinstance(g, str) for g in given)
        ):
            return tuple(given)
        self.fault(f"{where}: {shown(given)}; give a list of names")
        return ()

    def value(self, params: Mapping[str, int | float], where: str, given: Any) -> Any:
        """Return *given*, or the value of the param it names; a param that is not there is noted and gives None."""
        if not isinstance(given, str) or not given.startswith("$"):
            return given
        if given[1:] not in params:
            self.fault(f"{where}: there is no param {shown(given)}{near(given[1:], params)}", kind="name")
        return params.get(given[1:])


def number(value: Any) -> bool:
    """Whether *value* is a finite number of reasonable size, and no boolean."""
    return type(value) in (int, float) and math.isfinite(value) and abs(value) <= MAX_NUMBER


def shown(value: Any) -> str:
    """Return *value* for a message: short, whatever it is."""
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:57] + "…")
    if value is None:
        return "left out"
    if isinstance(value, bool | int | float):
        return str(value) if not isinstance(value, int) or abs(value) <= 10**18 else "a very large number"
    return "a section" if isinstance(value, Mapping) else f"a {type(value).__name__}"


def listed(values: Iterable[object]) -> str:
    """Return *values* with commas."""
    return ", ".join(str(v) for v in values)


def near(name: object, known: Iterable[str]) -> str:
    """Return advice for a wrong name, to end a message: the nearest one, or all."""
    import difflib  # only a wrong name needs it

    known = sorted(known)
    close = difflib.get_close_matches(name, known, 1) if isinstance(name, str) and len(name) <= 80 else []
    if close:
        return f"; did you mean {close[0]}?"
    return f"; there are {listed(known)}" if 0 < len(known) <= 40 else "; name one that the table has"
