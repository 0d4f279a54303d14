"""Names that the caller of a decider uses, checked: a mistyped one is an error, never a second set of counters."""

import difflib
from collections.abc import Iterable, Mapping, Sequence

from fsm_agent.core.engine.records import RUN
from fsm_agent.core.errors import UsageError
from fsm_agent.core.signals import Applied, Effect, Signal
from fsm_agent.core.tools import ToolSpec


def specs_of(tools: Mapping[str, str] | Sequence[ToolSpec], probes: bool) -> dict[str, ToolSpec]:
    """Return the declared tools by name, and one for the unnamed calls of each effect class."""
    specs = {e.value: _spec_of(e.value, e, probes) for e in Effect}
    if isinstance(tools, Mapping):
        declared = [_spec_of(name, _effect(name, effect), probes) for name, effect in tools.items()]
    else:
        declared = list(tools)
    for spec in declared:
        if spec.name in specs:
            raise UsageError(f"tool {spec.name}: the name is taken; effect classes stand for unnamed tools")
        specs[spec.name] = spec
    return specs


def _spec_of(name: str, effect: Effect, probes: bool) -> ToolSpec:
    return ToolSpec(
        name=name, effect=effect, extra_arguments=True, reconcile=probes and effect is not Effect.READ
    )


def _effect(name: str, effect: str) -> Effect:
    try:
        return Effect(effect)
    except ValueError:
        raise UsageError(
            f"tool {name}: {effect!r} is no effect class; it is one of {', '.join(Effect)}"
        ) from None


def tasks_of(tasks: Iterable[str] | Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the declared tasks, each with its tool or effect class; the raised error names what is wrong."""
    if isinstance(tasks, str):
        raise UsageError(f"tasks: {tasks!r} is one name; give a list of names")
    found = (
        list(tasks.items()) if isinstance(tasks, Mapping) else [(name, Effect.READ.value) for name in tasks]
    )
    if not found or any(name == RUN for name, _ in found):
        raise UsageError(
            f"tasks: {[name for name, _ in found]}; give at least one name, and none of them {RUN!r}"
        )
    return found


def tool_named(tools: Mapping[str, object], task: str, what: str) -> str:
    """Return *what*, the tool or effect class of *task*, if there is such a tool."""
    if what not in tools:
        raise UsageError(f"task {task}: {what!r} is no declared tool and no effect class{near(what, tools)}")
    return what


def signal_named(name: str) -> Signal:
    """Return the signal called *name*."""
    try:
        return Signal(name)
    except ValueError:
        raise UsageError(f"signal {name!r}: there is no such signal{near(name, list(Signal))}") from None


def applied_named(word: str | None) -> Applied | None:
    """Return what *word* says is proved about an effect; None for nothing said."""
    if word is not None and word not in list(Applied):
        raise UsageError(f"applied: {word!r} was given; it is one of {', '.join(Applied)}")
    return None if word is None else Applied(word)


def near(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the one that was meant, or what there is."""
    names = list(known)
    close = difflib.get_close_matches(name, names, 1) if len(name) <= 80 else []
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(names[:40])}"
