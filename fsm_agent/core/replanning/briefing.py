"""What a planner sees when it is asked for another plan: this, and nothing of the log.

Goal, effective inputs and constraints, the tools, the plan marked done and todo, the products of what is done, the
failure with its error text, what is left of the budgets, what was tried or refused, and what people said. Superseded
inputs are not in it: only what is in force now.
"""

from typing import Any, Final

from fsm_agent.core.engine import budget
from fsm_agent.core.engine.records import Replanning, Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.machine import TaskState
from fsm_agent.core.tools import Parameter, ToolSpec

MOST_TRIED: Final = 20
"""Of the calls that failed in earlier plans, a planner is shown the latest so many."""


def briefing(run: Run, request: Replanning) -> dict[str, Any]:
    """Return the planner's view of *run* for *request*, as JSON."""
    assert run.plan is not None, "no plan"
    done = {
        t.id: t.result for t in run.tasks.values() if t.state is TaskState.DONE and not _told_above(run, t)
    }
    return {
        "goal": run.plan.goal,
        "inputs": run.inputs,
        "constraints": [
            {"key": c.key, "value": run.constraint_values[c.key], "check": c.check.text}
            for c in run.plan.constraints
        ],
        "tools": [_tool(run, spec) for spec in run.tools.values()],
        "plan": [_step(run, doc, "") for doc in run.plan.doc["steps"]],
        "results": done,
        "failure": _failure(run, request),
        "scope": request.scope,
        "budgets": _left(run),
        "refused": list(request.refusals),
        "rejected": [f"{t.id}: {t.reason}" for t in run.tasks.values() if t.reason_code == "rejected"],
        "tried": _tried(run),
        "strategies_tried": len(run.strategies),
    }


def _tried(run: Run) -> list[dict[str, Any]]:
    """Return the calls that failed in plans before this one, the latest :data:`MOST_TRIED`."""
    assert run.plan is not None, "no plan"
    return [
        {
            "step": t.id,
            "tool": run.tool_of(t.step),
            "arguments": t.step.args.source,
            "error": (t.trouble.error or {}).get("message", t.reason),
        }
        for t in run.tasks.values()
        if not run.plans(t) and t.trouble is not None and t.trouble.error is not None
    ][-MOST_TRIED:]


def _tool(run: Run, spec: ToolSpec) -> dict[str, Any]:
    calls, tokens, cost = run.account.by_tool.get(spec.name, (0, 0, 0))
    mean = {"mean_cost": {"tokens": tokens // calls, "cost_micros": cost // calls}} if calls else {}
    return {**tool(spec), **mean}


def tool(spec: ToolSpec) -> dict[str, Any]:
    """Return what a planner is told of a tool, whatever the run."""
    data: dict[str, Any] = {
        "name": spec.name,
        "effect": spec.effect.value,
        "description": spec.description,
        "arguments": {p.name: _parameter(p) for p in spec.parameters},
    }
    if spec.extra_arguments:
        data["other_arguments"] = True
    if spec.requires:
        data["requires"] = list(spec.requires)
    if spec.confirm or spec.effect == "irreversible":
        data["confirm"] = True
    return data


def _parameter(parameter: Parameter) -> dict[str, Any]:
    data: dict[str, Any] = {"types": list(parameter.types) or ["any"], "required": parameter.required}
    if parameter.choices:
        data["choices"] = list(parameter.choices)
    return data


def _step(run: Run, doc: Any, prefix: str) -> dict[str, Any]:
    name = prefix + doc["id"]
    marked = {"mark": _MARKS.get(run.tasks[name].state, "todo"), **doc}
    if "plan" in doc and "for_each" not in doc:
        marked["plan"] = {"steps": [_step(run, part, f"{name}/") for part in doc["plan"]["steps"]]}
    return marked


def _told_above(run: Run, task: Task) -> bool:
    """Whether the result of *task* stands in that of what it is a part of."""
    above = run.tasks.get(task.parent)
    return above is not None and above.state is TaskState.DONE


_MARKS: Final = {TaskState.DONE: "done", TaskState.CANCELLED: "cancelled"}


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
