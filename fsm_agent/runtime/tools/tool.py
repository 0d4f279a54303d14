"""One registered tool: the original callable, what the log knows of it, and its probe."""

import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

import attrs

from fsm_agent.core.errors import ToolboxError
from fsm_agent.core.tools import ToolSpec
from fsm_agent.runtime.tools.signature import Callee, read_callee

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

_NONE = object()


class Tool(Generic[P, R]):
    """A registered tool. Calling it calls the original, without the engine.

    Attributes:
        spec: What the log and the rules know of it.
        callee: How the engine calls it.
        probe: How the engine asks whether an effect happened; None without one.
    """

    def __init__(self, fn: Callable[P, R], callee: Callee, spec: ToolSpec) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.fn = fn
        self.callee = callee
        self.spec = spec
        self.probe: Callee | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the original."""
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.spec.name} ({self.spec.effect.value})>"

    def reconcile(self, probe: F) -> F:
        """Register *probe*, which finds out whether a call of this tool took effect; usable as a decorator.

        Args:
            probe: Takes the same parameters as the tool (or ``**kwargs``), returns a
                :class:`~fsm_agent.runtime.tools.context.Reconciled`, and changes nothing.

        Raises:
            ToolboxError: Its parameters differ, or there is a probe already.
        """
        what = f"probe of tool {self.spec.name!r}"
        if self.probe is not None:
            raise ToolboxError(f"{what}: there is one already; keep one")
        callee = read_callee(probe.fn if isinstance(probe, Tool) else probe, what)
        _compare(self.callee, callee, what)
        self.probe = callee
        self.spec = attrs.evolve(self.spec, reconcile=True)
        return probe


def _compare(tool: Callee, probe: Callee, what: str) -> None:
    """Refuse a probe that could look for something else than what the call did."""
    ours = {p.name: p for p in tool.parameters}
    theirs = {p.name: p for p in probe.parameters}
    missing = [name for name in ours if name not in theirs]
    if missing and not probe.extra_arguments:
        raise ToolboxError(f"{what}: it does not take {', '.join(missing)}; give it the tool's parameters")
    extra = [name for name, p in theirs.items() if name not in ours and p.required]
    if extra:
        raise ToolboxError(
            f"{what}: it needs {', '.join(extra)}, which the tool does not take; give it the tool's parameters"
        )
    if tool.extra_arguments and not probe.extra_arguments:
        raise ToolboxError(f"{what}: the tool takes **kwargs and it does not; give it the tool's parameters")
    for name in ours:
        if name in theirs and tool.defaults.get(name, _NONE) != probe.defaults.get(name, _NONE):
            raise ToolboxError(f"{what}: the default of {name!r} differs from the tool's; make them equal")
