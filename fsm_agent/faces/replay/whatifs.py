"""``what-if``: the tables compared, every recorded decision asked again, and how far each task goes the same way."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from fsm_agent.core.replay.costs import Cost
from fsm_agent.core.replay.whatif import Cell, Redecided, Static, WhatIf, to_json, what_if
from fsm_agent.core.rules.rows import Row
from fsm_agent.faces.frame.screen import Screen, duration, safe, wrapped
from fsm_agent.faces.frame.spec import Outcome
from fsm_agent.faces.replay.sources import logs_of
from fsm_agent.runtime.configs import load_rules
from fsm_agent.testing.hypothetical import Hypothetical, Story, beyond
from fsm_agent.testing.scenario import load

MANY: Final = 20
"""Of more regions, decisions or ways only the first so many are shown, unless ``-v`` asks for all."""


@attrs.frozen(kw_only=True)
class Asked:
    """What another table would have decided, and what a declared world shows beyond; None where none was declared."""

    found: WhatIf
    worlds: tuple[Hypothetical, ...] | None


def what_ifs(
    screen: Screen,
    *,
    logs: Sequence[str],
    rules: str,
    params: Mapping[str, int | float],
    world: str | None,
    seed: int,
) -> Outcome:
    """Ask another table about every decision of some logs."""
    table = load_rules(rules, params)
    read = (
        log for source in logs for log in logs_of(screen, source)
    )  # one at a time, however many there are
    if world is None:
        return Outcome(Asked(found=what_if(read, table), worlds=None))
    kept = list(read)
    found, scenario = what_if(kept, table), load(world)
    worlds = tuple(beyond(found, run, log, table, scenario, seed=seed) for run, log in kept)
    return Outcome(Asked(found=found, worlds=worlds))


# ── for people ────────────────────────────────────────────────────────────────────────────────────────────────


def plain(value: Asked, screen: Screen) -> Iterator[str]:
    """The tables first, then the matrix, then the decisions that differ, then how far the ways are the same."""
    found = value.found
    for one in found.static:
        yield from _static(one, screen)
    yield ""
    count = len(found.decisions)
    differ = len(found.differing)
    yield from wrapped(
        "",
        f"{count} decision{'' if count == 1 else 's'} of {len(found.logs)} log{'' if len(found.logs) == 1 else 's'} "
        f"asked again: {differ} differ",
        screen.width,
    )
    if count:
        yield from _matrix(found, screen)
    if differ:
        yield ""
        yield "where they differ:"
        yield from _cut([line for one in found.differing for line in _decision(one, screen)], screen)
    yield ""
    yield from _ways(found, screen)
    for world in value.worlds or ():
        yield ""
        yield from _world(world, screen)


def _static(one: Static, screen: Screen) -> Iterator[str]:
    tables = f"{safe(one.old)} ({one.old_digest[:8]}) and {safe(one.new)} ({one.new_digest[:8]})"
    if one.same:
        yield from wrapped("tables: ", f"{tables} decide alike everywhere: no log can differ", screen.width)
        return
    words = f"{tables} differ in {len(one.regions)} region{'' if len(one.regions) == 1 else 's'}"
    yield from wrapped("tables: ", words, screen.width)
    for param in one.params:
        unseen = (
            "" if param.seen else ": it would raise signals where the log has none, which is not shown here"
        )
        yield from wrapped("    ", f"{param.name} {param.old:g} → {param.new:g}{unseen}", screen.width)
    if screen.verbose:
        for region in one.regions:
            yield from wrapped("    ", str(region), screen.width)
        return
    kinds = Counter((_does(region.a), _does(region.b)) for region in one.regions)
    for (old, new), times in kinds.most_common():
        words = f"{old} → {new}" if old != new else f"{old}, after another wait"
        yield from wrapped("    ", f"{words}: {times} region{'' if times == 1 else 's'} ", screen.width)
    yield "    (-v shows each, and so does rules diff)"


def _does(row: Row | None) -> str:
    return "no answer" if row is None else row.decide.value


def _matrix(found: WhatIf, screen: Screen) -> Iterator[str]:
    yield "recorded → other table, and what followed in the log until the next decision:"
    for cell in found.matrix:
        yield from wrapped("    ", f"{cell.times} × {_pair(cell)}: {cost(cell.cost)}", screen.width)
    changed = {name: pair for name, pair in found.totals.items() if pair[0] != pair[1]}
    if changed:
        words = ", ".join(f"{name} {old} → {new}" for name, (old, new) in changed.items())
        yield from wrapped("in all, at these places: ", words, screen.width)


def _pair(cell: Cell) -> str:
    return f"{cell.old} (the same)" if cell.old == cell.new else f"{cell.old} → {cell.new}"


def cost(value: Cost) -> str:
    """Return a cost for people, the parts that are zero left out."""
    counts = (
        (value.tool_calls, "calls"),
        (value.planner_calls, "planner calls"),
        (value.questions, "questions"),
        (value.tokens, "tokens"),
    )
    parts = [f"{count} {words}" for count, words in counts if count]
    if value.cost_micros:
        parts.append(f"{value.cost_micros / 1_000_000:g} of money")
    if value.lasted_us:
        parts.append(duration(value.lasted_us / 1_000_000))
    return ", ".join(parts) or "nothing"


def _decision(one: Redecided, screen: Screen) -> Iterator[str]:
    old, new = one.old, one.new
    signal = old.signal if old.signal == new.signal else f"{old.signal} (there {new.signal})"
    then = f"{old.decide} ({old.rule}) → {new.decide} ({new.rule})"
    waits = f", wait {old.delay or 'none'} → {new.delay or 'none'}" if one.differs == "delay" else ""
    doubt = (
        "; an earlier decision about it differs, so it might not have come to this" if one.conditional else ""
    )
    head = f"    {safe(one.run)} {one.seq:>4}  "
    yield from wrapped(head, f"{one.task} on {signal}: {then}{waits}{doubt}", screen.width)


def _ways(found: WhatIf, screen: Screen) -> Iterator[str]:
    same = sum(way.until is None for way in found.trajectories)
    yield f"{same} of {len(found.trajectories)} ways are the same to their end under both tables"
    lines = []
    for way in found.trajectories:
        if way.until is not None:
            words = (
                f"the same for {way.same} of {way.decisions} decisions, to event {way.until}; "
                "what the world would have answered beyond it is not known"
            )
            lines += wrapped(f"    {safe(way.run)} {safe(way.task)}: ", words, screen.width)
    yield from _cut(lines, screen)


def _world(world: Hypothetical, screen: Screen) -> Iterator[str]:
    head = f"hypothetical, in the world of {safe(world.world)}: "
    if world.old is None or world.new is None:
        yield from wrapped(head, f"it says nothing about run {world.run}, for {world.apart}", screen.width)
        return
    yield from wrapped(
        head, f"it tells the log of run {world.run} up to where decisions differ", screen.width
    )
    yield from wrapped("    under the log's table: ", _story(world.old), screen.width)
    yield from wrapped("    under the other table: ", _story(world.new), screen.width)


def _story(story: Story) -> str:
    tasks = ", ".join(f"{name} {state}" for name, state in list(story.tasks.items())[:MANY])
    effects = sum(story.effects.values())
    return (
        f"the run comes to rest {story.run} ({tasks}); {sum(story.calls.values())} calls, {effects} effects, "
        f"{story.planner_calls} planner calls, {story.questions} questions, {duration(story.virtual_s)}"
    )


def _cut(lines: list[str], screen: Screen) -> Iterator[str]:
    shown = lines if screen.verbose else lines[:MANY]
    yield from shown
    if len(shown) < len(lines):
        yield f"    ... and {len(lines) - len(shown)} more lines (-v shows all)"


def data(value: Asked, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/what-if@1``; under ``worlds`` what a declared world shows, marked hypothetical."""
    del screen
    out = to_json(value.found)
    return out if value.worlds is None else {**out, "worlds": [world.to_json() for world in value.worlds]}
