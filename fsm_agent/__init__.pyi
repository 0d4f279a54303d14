from fsm_agent.core.engine.decide import apply, commands, decide
from fsm_agent.core.errors import (
    ConfigError,
    ConflictError,
    CorruptError,
    ExpressionError,
    Fault,
    FencedError,
    FsmAgentError,
    IllegalTransitionError,
    NotFoundError,
    OwnedError,
    PlanError,
    RefusedError,
    RulesError,
    StoreDeadError,
    StoreError,
    StoreUnusableError,
    ToolboxError,
    UnresolvedReferenceError,
    UsageError,
    ValueRefusedError,
)
from fsm_agent.core.inputs import Env
from fsm_agent.core.machine import run_machine, task_machine
from fsm_agent.runtime.controller import RunController
from fsm_agent.runtime.deciding.decider import Decider
from fsm_agent.runtime.deciding.decision import Decision
from fsm_agent.runtime.driving.status import Status
from fsm_agent.runtime.planning.llm import ModelPlanner
from fsm_agent.runtime.planning.planner import Planner, PlannerError, Proposal
from fsm_agent.runtime.planning.plans import Plan
from fsm_agent.runtime.proof.logs import audit, replay, what_if, why
from fsm_agent.runtime.tools.context import CallContext, Reconciled, ToolError
from fsm_agent.runtime.tools.toolbox import Toolbox
from fsm_agent.version import VERSION as __version__  # noqa: N811 - the customary name

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
