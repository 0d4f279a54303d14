"""Runs an AI agent's plan as explicit finite state machines.

No effect twice, none forgotten; every decision explains itself. The names below are the public ones; each is loaded
when it is first used. Their types stand in ``__init__.pyi``, which has the same names.
"""

from importlib import import_module
from typing import Any, Final

_HOME: Final = {
    "CallContext": "runtime.tools.context",
    "ConfigError": "core.errors",
    "ConflictError": "core.errors",
    "CorruptError": "core.errors",
    "Decider": "runtime.deciding.decider",
    "Decision": "runtime.deciding.decision",
    "Env": "core.inputs",
    "ExpressionError": "core.errors",
    "Fault": "core.errors",
    "FencedError": "core.errors",
    "FsmAgentError": "core.errors",
    "IllegalTransitionError": "core.errors",
    "ModelPlanner": "runtime.planning.llm",
    "NotFoundError": "core.errors",
    "OwnedError": "core.errors",
    "Plan": "runtime.planning.plans",
    "PlanError": "core.errors",
    "Planner": "runtime.planning.planner",
    "PlannerError": "runtime.planning.planner",
    "Proposal": "runtime.planning.planner",
    "Reconciled": "runtime.tools.context",
    "RefusedError": "core.errors",
    "RulesError": "core.errors",
    "RunController": "runtime.controller",
    "Status": "runtime.driving.status",
    "StoreDeadError": "core.errors",
    "StoreError": "core.errors",
    "StoreUnusableError": "core.errors",
    "ToolError": "runtime.tools.context",
    "Toolbox": "runtime.tools.toolbox",
    "ToolboxError": "core.errors",
    "UnresolvedReferenceError": "core.errors",
    "UsageError": "core.errors",
    "ValueRefusedError": "core.errors",
    "apply": "core.engine.decide",
    "audit": "runtime.proof.logs",
    "commands": "core.engine.decide",
    "decide": "core.engine.decide",
    "replay": "runtime.proof.logs",
    "run_machine": "core.machine",
    "task_machine": "core.machine",
    "what_if": "runtime.proof.logs",
    "why": "runtime.proof.logs",
}
"""Public name → the module that has it."""

__all__ = [
    "CallContext",
    "ConfigError",
    "ConflictError",
    "CorruptError",
    "Decider",
    "Decision",
    "Env",
    "ExpressionError",
    "Fault",
    "FencedError",
    "FsmAgentError",
    "IllegalTransitionError",
    "ModelPlanner",
    "NotFoundError",
    "OwnedError",
    "Plan",
    "PlanError",
    "Planner",
    "PlannerError",
    "Proposal",
    "Reconciled",
    "RefusedError",
    "RulesError",
    "RunController",
    "Status",
    "StoreDeadError",
    "StoreError",
    "StoreUnusableError",
    "ToolError",
    "Toolbox",
    "ToolboxError",
    "UnresolvedReferenceError",
    "UsageError",
    "ValueRefusedError",
    "__version__",
    "apply",
    "audit",
    "commands",
    "decide",
    "replay",
    "run_machine",
    "task_machine",
    "what_if",
    "why",
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
