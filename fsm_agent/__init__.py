"""Runs an AI agent's plan as explicit finite state machines.

No effect twice, none forgotten; every decision explains itself. The names below are the public ones; each is loaded
when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fsm_agent.core.decide import apply, commands, decide
    from fsm_agent.core.errors import FsmAgentError, IllegalTransitionError, PlanError, RefusedError
    from fsm_agent.core.machine import run_machine, task_machine
    from fsm_agent.runtime.context import CallContext, Reconciled, ToolError
    from fsm_agent.runtime.controller import RunController
    from fsm_agent.runtime.logs import audit, replay
    from fsm_agent.runtime.plans import Plan
    from fsm_agent.runtime.toolbox import Toolbox
    from fsm_agent.version import VERSION as __version__  # noqa: N811 - the customary name

_HOME = {
    "CallContext": "runtime.context",
    "FsmAgentError": "core.errors",
    "IllegalTransitionError": "core.errors",
    "Plan": "runtime.plans",
    "PlanError": "core.errors",
    "Reconciled": "runtime.context",
    "RefusedError": "core.errors",
    "RunController": "runtime.controller",
    "ToolError": "runtime.context",
    "Toolbox": "runtime.toolbox",
    "apply": "core.decide",
    "audit": "runtime.logs",
    "commands": "core.decide",
    "decide": "core.decide",
    "replay": "runtime.logs",
    "run_machine": "core.machine",
    "task_machine": "core.machine",
}

__all__ = [
    "CallContext",
    "FsmAgentError",
    "IllegalTransitionError",
    "Plan",
    "PlanError",
    "Reconciled",
    "RefusedError",
    "RunController",
    "ToolError",
    "Toolbox",
    "__version__",
    "apply",
    "audit",
    "commands",
    "decide",
    "replay",
    "run_machine",
    "task_machine",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("fsm_agent.version").VERSION
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'fsm_agent' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(f"fsm_agent.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
