"""``history``: what one run, or all runs of the store, taught."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs

from fsm_agent.core.audit.historian import history as history_of
from fsm_agent.core.audit.history import History, Replan, Strategy, together
from fsm_agent.core.audit.replay import events
from fsm_agent.faces.frame import places
from fsm_agent.faces.frame.screen import Screen, duration, safe, short, wrapped
from fsm_agent.faces.frame.spec import Outcome
from fsm_agent.stores.base import Store

MANY = 20
"""Of a longer list only the first so many are shown, unless ``-v`` asks for all."""


@attrs.frozen(kw_only=True)
class Told:
    """What runs taught, and in which language (``en`` or ``zh``) changes of plans are explained."""

    history: History
    lang: str


def history(screen: Screen, *, run: str | None, lang: str = "en") -> Outcome:
    """Return what *run*, or every run of the store, taught."""
    with places.reading(screen, run) as store:
        names = [info.run for info in store.runs()] if run is None else [store.info(run).run]
        found = [_of(store, name) for name in names]
    return Outcome(Told(history=found[0] if run is not None else together(found), lang=lang))


def _of(store: Store, run: str) -> History:
    until = store.head(run).seq
    return history_of(run, events(run, store.read(run, until=until), store.blob))


def plain(told: Told, screen: Screen) -> Iterator[str]:
    """What went wrong, what was called, how plans changed, what was tried; an empty part says so."""
    value = told.history
    many = len(value.runs) != 1
    yield f"{len(value.runs)} runs" if many else f"run {safe(value.runs[0])}"
    yield "errors, the most frequent first:"
    yield from _cut(_errors(value, screen), screen)
    yield "tools, the most called first:"
    yield from _cut(_tools(value, screen), screen)
    yield "replans, by what made them necessary:"
    yield from _cut(_triggers(value, screen), screen)
    for replan in _first(value.replans, screen):
        yield from wrapped("    ", _replan(replan, many=many), screen.width)
        words = replan.explanation_zh if told.lang == "zh" else replan.explanation
        if words:
            yield from wrapped("      ", words, screen.width)
    yield "strategies tried:"
    yield from _cut(_strategies(value.strategies, screen, many=many), screen)


def _first(items: Sequence[Any], screen: Screen) -> Sequence[Any]:
    return items if screen.verbose else items[:MANY]


def _cut(lines: Iterable[str], screen: Screen) -> Iterator[str]:
    every = list(lines)
    yield from _first(every, screen) or ["  none"]
    if len(every) > len(_first(every, screen)):
        yield f"  ... and {len(every) - MANY} more (-v shows all)"


def _errors(value: History, screen: Screen) -> Iterator[str]:
    for error in value.errors:
        what = f" ({safe(error.what)})" if error.what and error.what != error.signal else ""
        where = f"{safe(error.tool) or 'a person'}: {error.signal}{what}, in {', '.join(error.tasks)}"
        head = f"  {error.times:>4} x "
        yield head + short(f"{where}: {error.example}" if error.example else where, screen.width - len(head))


def _tools(value: History, screen: Screen) -> Iterator[str]:
    for tool in value.tools:
        if not tool.calls and not tool.probes:
            continue
        parts = [f"{tool.calls} calls", f"{tool.done} done"]
        for name in ("failed", "unknown", "probes"):
            if getattr(tool, name):
                parts.append(f"{getattr(tool, name)} {name}")
        parts += _spent(tool.tokens, tool.cost_micros)
        if tool.duration_us:
            parts.append(duration(tool.duration_us / 1_000_000))
        yield "  " + short(f"{tool.tool}: {', '.join(parts)}", screen.width - 2)


def _spent(tokens: int, cost_micros: int) -> list[str]:
    spent = [f"{tokens} tokens"] if tokens else []
    return spent + ([f"cost {cost_micros / 1_000_000:g}"] if cost_micros else [])


def _triggers(value: History, screen: Screen) -> Iterator[str]:
    for found in value.triggers:
        parts = [f"{found.replans} begun", f"{found.adopted} adopted", f"{found.helped} helped"]
        parts.append(f"{found.planner_calls} planner calls")
        parts += _spent(found.tokens, found.cost_micros)
        yield "  " + short(f"{found.trigger}: {', '.join(parts)}", screen.width - 2)


def _replan(replan: Replan, *, many: bool) -> str:
    where = f"{replan.run} " if many else ""
    parts = [f"{replan.planner_calls} planner calls", *_spent(replan.tokens, replan.cost_micros)]
    if replan.refused:
        parts.append(f"refused by {', '.join(replan.refused)}")
    if replan.wait_us is not None:
        parts.append(duration(replan.wait_us / 1_000_000))
    return f"{where}event {replan.seq} {replan.task or 'run'} ({replan.scope}): {_ended(replan)}; {', '.join(parts)}"


def _ended(replan: Replan) -> str:
    match replan.outcome:
        case "adopted":
            done = f"{replan.newly_done} newly done"
            helped = {True: f"helped, {done}", False: "did not help", None: "still followed"}[replan.helped]
            by = f"{replan.origin} {replan.repair}".rstrip()
            return f"plan {replan.plan_version} by {by}, {helped}"
        case "person":
            return "handed to a person"
        case "moot":
            return "no longer needed"
        case _:
            return "under way"


def _strategies(strategies: Sequence[Strategy], screen: Screen, *, many: bool) -> Iterator[str]:
    for found in strategies:
        where = f"{found.run} " if many else ""
        name = "a proposal" if found.plan_version is None else f"plan {found.plan_version}"
        why = f" ({found.why})" if found.why else ""
        steps = f": {', '.join(found.steps)}" if found.steps else ""
        whose = ", the first" if found.origin == "initial" else f" by {found.origin}"
        words = f"{where}{name}{whose}, {found.outcome}{why}{steps}"
        yield "  " + short(words, screen.width - 2)


def data(told: Told, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/history@1``."""
    del screen
    value = told.history
    return {
        "schema": "fsm-agent/history@1",
        "runs": list(value.runs),
        "errors": [attrs.asdict(error) for error in value.errors],
        "tools": [attrs.asdict(tool) for tool in value.tools],
        "triggers": [attrs.asdict(trigger) for trigger in value.triggers],
        "replans": [attrs.asdict(replan) for replan in value.replans],
        "strategies": [attrs.asdict(strategy) for strategy in value.strategies],
    }
