"""Reviewing a plan: nothing starts before a person has approved exactly this plan, with these inputs and limits.

The question is one about the whole run, and bars the door. Whatever changes the plan or what it is given (another plan,
a corrected input) asks anew, with another digest: editing approves nothing. A no ends the run.
"""

from typing import Any

from fsm_agent.core import canon
from fsm_agent.core.engine.records import RUN
from fsm_agent.core.engine.state import Run
from fsm_agent.core.engine.turn import Turn
from fsm_agent.core.machine import FINAL_RUN_STATES
from fsm_agent.core.plans.plan import Step

_MOST = 8
"""Of the steps that change something a person is told so many by name."""


def digest(run: Run) -> str:
    """Return the digest that an approval of the plan in force must state."""
    assert run.plan is not None, "no plan"
    return canon.value_digest(
        "review", [run.signed_as or run.id, run.plan.digest, run.inputs, run.constraint_values, run.budgets]
    )


def look_again(turn: Turn) -> None:
    """Ask about the plan as it is now, if it has to be asked about and is not; while it is being changed, wait."""
    run = turn.run
    if run.state in FINAL_RUN_STATES or run.wish in ("cancel", "abort") or run.replans:
        return
    question = run.questions.get(RUN)
    if question is None:
        _ask(turn)
    elif question.kind == "approval" and question.digest != digest(run):
        _ask(turn, changed=True)


def _ask(turn: Turn, *, changed: bool = False) -> None:
    run = turn.run
    assert run.plan is not None, "no plan"
    data: dict[str, Any] = {
        "kind": "approval",
        "args_digest": digest(run),
        "args": {"plan": run.plan.digest},
        "answers": ["approve", "reject"],
        "say": _words(run),
    }
    if changed:
        data["changed"] = ["the plan, or what it is given, has changed"]
    turn.emit("approval_requested", data)


def _words(run: Run) -> str:
    assert run.plan is not None, "no plan"
    steps = run.plan.steps
    changing = [step.id for step in steps if _changes(run, step)]
    shown = ", ".join(changing[:_MOST]) + (
        f" and {len(changing) - _MOST} more" if len(changing) > _MOST else ""
    )
    told = f"{shown} may change something" if changing else "none of them changes anything"
    count = f"{len(steps)} steps" if len(steps) > 1 else "one step"
    return f"may plan {run.plan_version} be carried out? It has {count}; {told}"


def _changes(run: Run, step: Step) -> bool:
    """Whether *step*, a step of its own plan or one of its fall-backs, calls what is no read."""
    own = step.tool if step.tool is not None or step.plan else run.default_tool
    names = (own, *(a.tool for a in step.alternatives))
    specs = (run.tools.get(name or "") for name in names)
    return any(spec is not None and spec.effect != "read" for spec in specs) or any(
        _changes(run, s) for s in step.plan
    )
