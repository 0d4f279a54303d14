"""What a planner sees when it is asked for another plan: this, and nothing of the log.

Goal, effective inputs and constraints, the tools, the plan marked done and todo, the products of what is done, the
failure with its error text, what is left of the budgets, what was tried or refused, and what people said. Superseded
inputs are not in it: only what is in force now.
"""

from typing import Any

from fsm_agent.core import budget
from fsm_agent.core.machine import TaskState
from fsm_agent.core.state import Replanning, Run, Task
from fsm_agent.core.tools import ToolSpec


def briefing(run: Run, request: Replanning) -> dict[str, Any]:
    """Return the planner's view of *run* for *request*, as JSON."""
    assert run.plan is not None, "no plan"
    done = {t.id: t.result for t in run.tasks.values() if t.state is TaskState.DONE}
    return {
        "goal": run.plan.goal,
        "inputs": run.inputs,
        "constraints": [
            {"key": c.key, "value": run.constraint_values[c.key], "check": c.check.text}
            for c in run.plan.constraints
        ],
        "tools": [_tool(run, spec) for spec in run.tools.values()],
        "plan": [_step(run, doc) for doc in run.plan.doc["steps"]],
        "results": done,
        "failure": _failure(run, request),
        "scope": request.scope,
        "budgets": _left(run),
        "refused": list(request.refusals),
        "rejected": [f"{t.id}: {t.reason}" for t in run.tasks.values() if t.reason_code == "rejected"],
        "strategies_tried": len(run.strategies),
    }


def _tool(run: Run, spec: ToolSpec) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": spec.name,
        "effect": spec.effect.value,
        "description": spec.description,
        "arguments": {
            p.name: {"types": list(p.types) or ["any"], "required": p.required} for p in spec.parameters
        },
    }
    calls, tokens, cost = run.account.by_tool.get(spec.name, (0, 0, 0))
    if calls:
        data["mean_cost"] = {"tokens": tokens // calls, "cost_micros": cost // calls}
    return data


def _step(run: Run, doc: Any) -> dict[str, Any]:
    mark = "done" if run.tasks[doc["id"]].state is TaskState.DONE else "todo"
    return {"mark": mark, **doc}


def _failure(run: Run, request: Replanning) -> dict[str, Any]:
    task = run.tasks.get(request.task or "")
    found: dict[str, Any] = {"step": request.task, "signal": request.signal, "why": request.why}
    if task is not None and task.trouble is not None:
        found["error"] = dict(task.trouble.error or {})
        found["attempts"] = task.attempt
        found["applied"] = _applied(task)
    return found


def _applied(task: Task) -> str:
    return "no" if task.effect == "read" else task.applied


def _left(run: Run) -> dict[str, Any]:
    out = {}
    used = {
        "tool_calls": run.account.tool_calls,
        "planner_calls": run.account.planner_calls,
        "tokens": run.account.tokens,
        "cost_micros": run.account.cost_micros,
        "active_s": run.account.active_us / 1_000_000,
    }
    for name, amount in used.items():
        allowed = budget.limit(run, name)
        if allowed is not None:
            out[name] = round(allowed - amount, 3)
    return out
