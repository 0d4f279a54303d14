"""The parts of a rule table as values: a row is a conjunction of sets and ranges, nothing else.

That restriction is the point: what can be written here can be checked exactly (:mod:`fsm_agent.core.rules.analysis`).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from fsm_agent.core.signals import Decision

Allowed = frozenset[str] | range
"""What a condition allows of a fact: a set of an enumeration's values, or a range of integers."""

TIERS: Final = ("guard", "rule", "default")
"""Highest first. A tier is asked only where no row of a higher one fits."""

SCOPES: Final = ("series", "strategy", "run")
"""How long a counter lives: an attempt series of a step, a strategy of a step (tool and arguments), the run.

A series is all tries of a step since it was planned, changed or retried by a person. A crash ends none of them.
"""

NEW_SERIES: Final = frozenset({Decision.REPLAN_LOCAL, Decision.REPLAN_GLOBAL})
"""Decisions after which steps are planned anew, so that every counter not of scope ``run`` is full again."""

MIN_DELAY_US: Final = 1000
"""Shortest delay of any repeat, in microseconds."""

_US: Final = 1_000_000


_OPERAND: Final = r"(\$[a-z][a-z0-9_]{0,79}|-?[0-9]{1,7})"
_COMPARISON: Final = re.compile(rf"(>=|<=|>|<|=|) *{_OPERAND}")
_INTERVAL: Final = re.compile(rf"{_OPERAND} *\.\. *{_OPERAND}")


@attrs.frozen(kw_only=True)
class Finding:
    """One thing wrong with a table.

    Attributes:
        kind: ``gap overlap unreachable law overspend termination unused monotone name``, or ``format`` for a
            document that has not the shape of a table.
        row: The id of the row concerned, or None.
        witness: Facts, machine, state and signal at which it shows; empty where none is needed.
        message: What was found, and what is allowed or what to do.
    """

    kind: str
    row: str | None = None
    witness: Mapping[str, Any] = attrs.field(factory=dict)
    message: str

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.kind}: {self.message}"


def parse_range(text: str) -> tuple[str, tuple[str, ...]] | None:
    """Return operator and operands of a condition on an integer, or None if *text* is none.

    Operators are ``>= <= > < ..`` and nothing, which is equality; operands are integers or ``$param``.
    """
    if found := _INTERVAL.fullmatch(text):
        return "..", (found[1], found[2])
    if found := _COMPARISON.fullmatch(text):
        return found[1].removeprefix("="), (found[2],)
    return None


def interval(operator: str, values: Sequence[int], domain: tuple[int, int]) -> range:
    """Return the integers of *domain* that fit; empty if none does."""
    low, high = domain
    a, b = values[0], values[-1]
    ends = {">=": (a, high), "<=": (low, a), ">": (a + 1, high), "<": (low, a - 1)}
    least, most = ends.get(operator, (a, b))
    return range(max(low, least), min(high, most) + 1)


@attrs.frozen(kw_only=True)
class Condition:
    """One conjunct of a row.

    Attributes:
        fact: Name of the fact.
        text: As written, in normal form: a list of values, or text such as ``>=1``, ``2..5``, ``<$escalate_after``.
        allowed: What that means under the table's params.
        params: Names of the params it mentions.
    """

    fact: str
    text: str | tuple[str, ...]
    allowed: Allowed
    params: tuple[str, ...] = ()

    def under(self, params: Mapping[str, int | float], domain: tuple[int, int]) -> "Condition":
        """Return the condition on an integer as it is under other *params*."""
        parsed = parse_range(self.text) if isinstance(self.text, str) else None
        assert parsed is not None, "only conditions on integers mention params"
        values = [int(params[o[1:]] if o[0] == "$" else o) for o in parsed[1]]
        return attrs.evolve(self, allowed=interval(parsed[0], values, domain))

    def __str__(self) -> str:
        """The condition as a sentence, such as ``retries_left >= 1``."""
        if isinstance(self.text, tuple):
            return (
                f"{self.fact} in {', '.join(self.text)}"
                if len(self.text) > 1
                else f"{self.fact} = {self.text[0]}"
            )
        bare = re.match(r"[<>]=?", self.text)
        if bare is None:
            return f"{self.fact} = {self.text}"
        return f"{self.fact} {bare[0]} {self.text[bare.end() :]}"


@attrs.frozen(kw_only=True)
class Row:
    """One row of a table: where it fires, on which facts, and what it decides.

    Attributes:
        id: Unique in the table.
        tier: ``guard``, ``rule`` or ``default``.
        machine: ``task`` or ``run``.
        states: States in which it fires; None is every state that fires a signal.
        signals: Signals on which it fires; None is every signal of those states.
        when: The conditions; all must hold.
        decide: The decision.
        delay: Name of a delay policy, or None.
        why: The reason, for people.
        say: Words for the person who is asked, or None.
        source: Name of the table whose document holds the row; no part of its meaning.
        line: Its line there, from 1; None if unknown; no part of its meaning.
        tests: ``when`` as (fact, what is allowed), for matching.
    """

    id: str
    tier: str
    machine: str
    states: frozenset[str] | None
    signals: frozenset[str] | None
    when: tuple[Condition, ...]
    decide: Decision
    delay: str | None = None
    why: str
    say: str | None = None
    source: str = attrs.field(default="", eq=False)
    line: int | None = attrs.field(default=None, eq=False)
    tests: tuple[tuple[str, Allowed], ...] = attrs.field(init=False, eq=False, repr=False)

    @tests.default
    def _tests(self) -> tuple[tuple[str, Allowed], ...]:
        return tuple((c.fact, c.allowed) for c in self.when)

    @property
    def where(self) -> str:
        """Source and line for people, such as ``default:41``."""
        return self.source if self.line is None else f"{self.source}:{self.line}"


@attrs.frozen(kw_only=True)
class Counter:
    """A budget of decisions that counts down. ``scope`` is one of :data:`SCOPES`."""

    initial: int
    scope: str


@attrs.frozen(kw_only=True)
class Spend:
    """What a decision costs: one of the counter ``spend``; it fills the counters ``refill`` again."""

    spend: str | None = None
    refill: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Delay:
    """How long to wait before a repeat.

    Attributes:
        kind: ``exponential`` (``base_s`` times ``factor`` per repeat, at most ``max_s``), ``fixed`` (``s``),
            ``settle`` (what the tool needs until a probe is proof) or ``breaker`` (until the breaker lets a call by).
        base_s: Seconds before the first repeat.
        factor: Growth per repeat, at least 1.
        max_s: Cap in seconds.
        jitter: ``full`` draws from 0 to the computed delay, ``none`` takes it as it is. Exponential delays only.
        s: Seconds of a fixed delay.
    """

    kind: str
    base_s: float = 1.0
    factor: float = 2.0
    max_s: float = 60.0
    jitter: str = "full"
    s: float = 0.0


def delay_us(
    delay: Delay | None,
    *,
    n: int,
    jitter: float,
    retry_after_us: int | None,
    settle_us: int,
    breaker_us: int,
) -> int:
    """Return how long to wait, in microseconds, at least 1000.

    What the other side asked for (``retry_after_us``) is never undercut, except by a probe (kind ``settle``).

    Args:
        delay: The policy, or None for no more than the least.
        n: 1 for the first repeat.
        jitter: A number in [0, 1).
        retry_after_us: How long the other side asked us to wait, or None.
        settle_us: Time until a probe of this call is proof.
        breaker_us: Time until the breaker lets a call by.
    """
    if delay is None:
        wait = 0
    elif delay.kind == "settle":
        return max(MIN_DELAY_US, settle_us)
    elif delay.kind == "breaker":
        wait = breaker_us
    elif delay.kind == "fixed":
        wait = round(delay.s * _US)
    else:
        wait = round(_exponential_s(delay, n) * _US * (jitter if delay.jitter == "full" else 1.0))
    return max(MIN_DELAY_US, wait, retry_after_us or 0)


def _exponential_s(delay: Delay, n: int) -> float:
    try:
        return min(delay.max_s, delay.base_s * float(delay.factor) ** (n - 1))
    except OverflowError:
        return delay.max_s
