"""Which repairs fit a failed step, and the plan that each proposes.

A step is inserted once in a run: where its tool stands in any plan of the run already, it has been tried. A switched
step keeps its id, its conditions and its place, and calls a tool of the same effect class. A repair whose tool the
toolbox lacks, or which would leave out an argument that the tool needs, does not fit and is never proposed.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from fsm_agent.core.engine.records import Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.machine import WRITES
from fsm_agent.core.replanning import strategy
from fsm_agent.core.replanning.repairs import INSERT, Repair
from fsm_agent.core.tools import ToolSpec


def usable(repairs: tuple[Repair, ...], tools: tuple[ToolSpec, ...]) -> tuple[Repair, ...]:
    """Return the *repairs* that could ever fit with *tools*; a run has no use for the others."""
    known = [spec.name for spec in tools]
    return tuple(
        r for r in repairs if any(r.is_for(name) and set(r.names(name)) & set(known) for name in known)
    )


def fits(run: Run, task: Task, signal: str) -> bool:
    """Whether there is a repair for *task*, which failed with *signal*."""
    return bool(run.repairs) and next(_fitting(run, task, signal), None) is not None


def proposals(run: Run, task: Task, signal: str) -> Iterator[tuple[Repair, list[Any]]]:
    """Yield every repair that fits *task*, and the steps of the whole plan that it proposes, the preferred one first.

    Args:
        run: The state.
        task: A failed task.
        signal: What it failed with.
    """
    assert run.plan is not None, "no plan"
    for repair, spec in list(_fitting(run, task, signal)):
        yield repair, strategy.replaced(run.plan.doc["steps"], task.id, partial(_changed, run, repair, spec))


def _fitting(run: Run, task: Task, signal: str) -> Iterator[tuple[Repair, ToolSpec]]:
    failed = run.tool_of(task.step)
    if failed is None or not _stands_in(run, task) or (task.effect in WRITES and task.applied != "no"):
        return
    declared = run.tools.get(failed)
    effect = declared.effect.value if declared is not None else task.effect
    for repair in run.repairs:
        if signal in repair.signals and effect in repair.effects and repair.is_for(failed):
            spec = next((run.tools[name] for name in repair.names(failed) if name in run.tools), None)
            if spec is not None and _is_new(run, task, repair, spec) and _has_arguments(task, repair, spec):
                yield repair, spec


def _stands_in(run: Run, task: Task) -> bool:
    """Whether the plan in force states what *task* does."""
    assert run.plan is not None, "no plan"
    return run.plans(task) and strategy.stated(run.plan.doc["steps"], task.id) is not None


def _is_new(run: Run, task: Task, repair: Repair, spec: ToolSpec) -> bool:
    if repair.do == INSERT:
        tried = any(run.tool_of(other.step) == spec.name for other in run.tasks.values())
        return not tried and task.step.join == "all"
    declared = run.tools.get(run.tool_of(task.step) or "")
    return spec is not declared and (declared is None or spec.effect == declared.effect)


def _has_arguments(task: Task, repair: Repair, spec: ToolSpec) -> bool:
    """Whether the names of the arguments are those that the tool takes; their values are the gate's business."""
    given = _arguments(repair, task.step.args.source)
    known = {p.name for p in spec.parameters}
    needed = {p.name for p in spec.parameters if p.required}
    return needed <= given.keys() and (spec.extra_arguments or given.keys() <= known)


def _arguments(repair: Repair, source: Any) -> dict[str, Any]:
    """Return the arguments of the call that *repair* makes, as they stand in a plan."""
    own = source if isinstance(source, dict) else {}
    copied = {name: value for name, value in own.items() if repair.copy is None or name in repair.copy}
    return {**copied, **repair.args}


def _changed(
    run: Run, repair: Repair, spec: ToolSpec, doc: Mapping[str, Any], ids: frozenset[str]
) -> tuple[dict[str, Any], ...]:
    """Return what stands in the place of the failed step's document; *ids* are those of its level."""
    args = _arguments(repair, doc.get("args", {}))
    if repair.do != INSERT:
        return ({**doc, "tool": spec.name, "args": args},)
    name, count = repair.id, 2
    while name in ids or name in run.tasks:
        name, count = f"{repair.id}-{count}", count + 1
    needs = doc.get("depends_on", [])
    first = {"id": name, "tool": spec.name, "args": args, "depends_on": needs}
    return (first, {**doc, "depends_on": [*needs, name]})
