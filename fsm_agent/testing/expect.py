"""What must come out of a simulation, and how what came out differs from it, in sentences.

Pure values and functions: :func:`failures` compares an :class:`Expect` with an :class:`Observed` and knows
nothing of how the observation was made.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from fsm_agent.core.events import TYPES
from fsm_agent.core.machine import STATES
from fsm_agent.core.signals import Decision, Signal
from fsm_agent.testing.document import Node

ANY = "*"
"""Matches anything in a pattern of ``moves``, ``decisions`` and ``never``."""

Pattern = tuple[str, ...]
"""``(task, state)`` for a move, ``(task, signal, decision)`` for a decision."""

SIGNALS = tuple(Signal)
DECISIONS = tuple(Decision)
_KEYS = (
    "run",
    "tasks",
    "effects",
    "calls",
    "planner_calls",
    "moves",
    "decisions",
    "never",
    "results",
    "within_s",
    "audit",
    "events",
    "says",
    "prompts",
    "refused",
)


@attrs.frozen(kw_only=True)
class Prompt:
    """What a planner must be told in one call, and what it must not be told."""

    holds: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Expect:
    """The expectations of a scenario; what is left out (None, or empty) is not looked at.

    Attributes:
        run: State of the run at the end.
        tasks: State at the end by task.
        effects: How many effects each tool had, as the world counts them.
        calls: How often each tool was called.
        planner_calls: How often the planner was asked.
        moves: Patterns ``(task, state)`` that must occur in this order, with anything between.
        decisions: Patterns ``(task, signal, decision)`` that must occur in this order.
        never: Patterns of either length that must not occur.
        results: The result by task, compared exactly.
        within_us: Longest virtual time, in microseconds.
        events: How many events of a type the log must have.
        says: Texts that must stand, in this order, in what the log says to people: questions, reasons, explanations.
        prompts: What the planner must be told, one for each call from the first on.
        refused: Codes of faults for which the plan must be refused before anything runs.
    """

    run: str | None = None
    tasks: Mapping[str, str] = attrs.field(factory=dict)
    effects: Mapping[str, int] = attrs.field(factory=dict)
    calls: Mapping[str, int] = attrs.field(factory=dict)
    planner_calls: int | None = None
    moves: tuple[Pattern, ...] = ()
    decisions: tuple[Pattern, ...] = ()
    never: tuple[Pattern, ...] = ()
    results: Mapping[str, Any] = attrs.field(factory=dict)
    within_us: int | None = None
    events: Mapping[str, int] = attrs.field(factory=dict)
    says: tuple[str, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    refused: tuple[str, ...] = ()


NOTHING_EXPECTED = Expect()
"""Only that the audit finds nothing."""


@attrs.frozen(kw_only=True)
class Observed:
    """What a simulation showed.

    Attributes:
        run: State of the run at the end.
        tasks: State at the end by task.
        results: Result by task, of those that have one.
        effects: Effects by tool, every tool of the scenario listed.
        calls: Calls by tool, every tool of the scenario listed.
        planner_calls: How often the planner was asked.
        moves: ``(task, state)`` of every move, oldest first; the run's moves under the name ``run``.
        decisions: ``(task, signal, decision)`` of every decision, oldest first.
        virtual_us: Virtual time from start to end, in microseconds.
        violations: What the audit found wrong, one sentence each.
        gaps: What the scenario left open and the simulation needed, one sentence each.
        events: How many events of each type the log has, every type listed.
        words: What the log says to people, oldest first.
        prompts: What the planner was told, one text for each call; only if somebody looks at them.
        refused: Codes of the faults for which the plan was refused; empty when it was accepted.
    """

    run: str
    tasks: Mapping[str, str]
    results: Mapping[str, Any]
    effects: Mapping[str, int]
    calls: Mapping[str, int]
    planner_calls: int
    moves: Sequence[Pattern]
    decisions: Sequence[Pattern]
    virtual_us: int
    violations: Sequence[str] = ()
    gaps: Sequence[str] = ()
    events: Mapping[str, int] = attrs.field(factory=dict)
    words: Sequence[str] = ()
    prompts: Sequence[str] = ()
    refused: Sequence[str] = ()


def parse(node: Node, tools: Iterable[str]) -> Expect:
    """Read the ``expect`` part of a scenario.

    Args:
        node: The part.
        tools: Names of the scenario's tools; counts of anything else are refused as typing errors.

    Raises:
        ScenarioError: An unknown key or a value that does not fit.
    """
    fields = node.fields(*_KEYS)
    if "audit" in fields:
        fields["audit"].choice("clean")
    known = tuple(tools)
    return Expect(
        run=fields["run"].choice(*STATES) if "run" in fields else None,
        tasks={k: n.choice(*STATES) for k, n in _table(fields.get("tasks")).items()},
        effects=_counts(fields.get("effects"), known),
        calls=_counts(fields.get("calls"), known),
        planner_calls=fields["planner_calls"].count() if "planner_calls" in fields else None,
        moves=_patterns(fields.get("moves"), (2,)),
        decisions=_patterns(fields.get("decisions"), (3,)),
        never=_patterns(fields.get("never"), (2, 3)),
        results={k: n.value for k, n in _table(fields.get("results")).items()},
        within_us=fields["within_s"].seconds() if "within_s" in fields else None,
        events=_events(fields.get("events")),
        says=_texts(fields.get("says")),
        prompts=tuple(_prompt(n) for n in fields["prompts"].items("a list of prompts"))
        if "prompts" in fields
        else (),
        refused=tuple(n.text() for n in fields["refused"].items("a list of fault codes"))
        if "refused" in fields
        else (),
    )


def _texts(node: Node | None) -> tuple[str, ...]:
    return () if node is None else tuple(part.text() for part in node.items("a list of texts"))


def _prompt(node: Node) -> Prompt:
    fields = node.fields("holds", "lacks")
    return Prompt(holds=_texts(fields.get("holds")), lacks=_texts(fields.get("lacks")))


def _table(node: Node | None) -> dict[str, Node]:
    return {} if node is None else node.members("an object, one member for each name")


def _counts(node: Node | None, tools: tuple[str, ...]) -> dict[str, int]:
    counts = {}
    for name, part in _table(node).items():
        if name not in tools:
            part.fail(f"the scenario has no tool {name!r}", f"its tools: {', '.join(tools) or 'none'}")
        counts[name] = part.count()
    return counts


def _events(node: Node | None) -> dict[str, int]:
    counts = {}
    for name, part in _table(node).items():
        if name not in TYPES:
            part.fail(f"there is no event type {name!r}", f"allowed: {', '.join(TYPES)}")
        counts[name] = part.count()
    return counts


def _patterns(node: Node | None, lengths: tuple[int, ...]) -> tuple[Pattern, ...]:
    if node is None:
        return ()
    shapes = {2: "[TASK, STATE]", 3: "[TASK, SIGNAL, DECISION]"}
    wanted = " or ".join(shapes[n] for n in lengths)
    found = []
    for item in node.items(f"a list of {wanted}"):
        parts = tuple(item.items(wanted))
        if len(parts) not in lengths:
            item.fail(f"a list of {len(parts)} was found", f"write {wanted}")
        words = ((), STATES) if len(parts) == 2 else ((), SIGNALS, DECISIONS)
        found.append(
            tuple(
                part.choice(*allowed, ANY) if allowed else part.text()
                for part, allowed in zip(parts, words, strict=True)
            )
        )
    return tuple(found)


def failures(expect: Expect, observed: Observed) -> list[str]:
    """Return how *observed* differs from *expect*, one sentence each; empty if nothing differs."""
    found = [f"audit: {violation}" for violation in observed.violations]
    found += [f"scenario: {gap}" for gap in observed.gaps]
    for code in expect.refused:
        if code not in observed.refused:
            shown = ", ".join(observed.refused) or "the plan was accepted"
            found.append(f"refused: the plan was expected to be refused for {code}; found: {shown}")
    if expect.run is not None and expect.run != observed.run:
        found.append(f"run: expected {expect.run}, was {observed.run}")
    found += _compare("task", expect.tasks, observed.tasks, "there is no such task")
    found += _compare("effects of", expect.effects, observed.effects, "there is no such tool")
    found += _compare("calls of", expect.calls, observed.calls, "there is no such tool")
    if expect.planner_calls is not None and expect.planner_calls != observed.planner_calls:
        found.append(f"planner calls: expected {expect.planner_calls}, was {observed.planner_calls}")
    found += _missing("moves", expect.moves, observed.moves)
    found += _missing("decisions", expect.decisions, observed.decisions)
    for pattern in expect.never:
        seen = observed.moves if len(pattern) == 2 else observed.decisions
        hit = next((item for item in seen if matches(pattern, item)), None)
        if hit is not None:
            found.append(f"never: {_show(hit)} happened, and {_show(pattern)} must not")
    found += _compare("events of type", expect.events, observed.events, "there are none")
    found += _unsaid(expect.says, observed.words)
    found += _untold(expect.prompts, observed.prompts)
    found += _compare("result of", expect.results, observed.results, "it has no result")
    # Events of one instant are stamped a microsecond apart, so times are compared to the millisecond.
    if expect.within_us is not None and observed.virtual_us // 1000 > expect.within_us // 1000:
        found.append(
            f"time: expected at most {expect.within_us / 1e6:g} s, took {observed.virtual_us / 1e6:g} s"
        )
    return found


def matches(pattern: Pattern, item: Pattern) -> bool:
    """Return whether *item* fits *pattern*, in which ``*`` stands for anything."""
    return len(pattern) == len(item) and all(p in (ANY, i) for p, i in zip(pattern, item, strict=True))


def same(left: object, right: object) -> bool:
    """Return whether two JSON values are equal; unlike in Python, ``1`` is not ``true``."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def _compare(what: str, expected: Mapping[str, Any], observed: Mapping[str, Any], missing: str) -> list[str]:
    found = []
    for name, value in expected.items():
        if name not in observed:
            found.append(f"{what} {name}: expected {value!r}, but {missing}")
        elif not same(value, observed[name]):
            found.append(f"{what} {name}: expected {value!r}, was {observed[name]!r}")
    return found


def _missing(what: str, patterns: Sequence[Pattern], seen: Sequence[Pattern]) -> list[str]:
    """Match an ordered subsequence; the first pattern without a partner is the failure."""
    place = 0
    for index, pattern in enumerate(patterns):
        partner = next((i for i in range(place, len(seen)) if matches(pattern, seen[i])), None)
        if partner is None:
            after = f" after {_show(patterns[index - 1])}" if index else ""
            shown = ", ".join(_show(item) for item in seen) or "nothing"
            return [f"{what}: {_show(pattern)} was not seen{after}; seen: {shown}"]
        place = partner + 1
    return []


def _unsaid(texts: Sequence[str], words: Sequence[str]) -> list[str]:
    """Find the first of *texts* that is said nowhere after the one before it; one saying may hold several."""
    place = 0
    for text in texts:
        where = next((i for i in range(place, len(words)) if text in words[i]), None)
        if where is None:
            return [
                f"says: {text!r} was not said{' by then' if place else ''}; said: {' | '.join(words) or 'nothing'}"
            ]
        place = where
    return []


def _untold(expected: Sequence[Prompt], told: Sequence[str]) -> list[str]:
    found: list[str] = []
    for number, prompt in enumerate(expected, 1):
        if number > len(told):
            return [*found, f"prompt {number}: the planner was asked {len(told)} times"]
        text = told[number - 1]
        found += [f"prompt {number}: it lacks {words!r}" for words in prompt.holds if words not in text]
        found += [
            f"prompt {number}: it holds {words!r}, and must not" for words in prompt.lacks if words in text
        ]
    return found


def _show(pattern: Pattern) -> str:
    return f"{pattern[0]} → {pattern[1]}" if len(pattern) == 2 else " ".join(pattern)
