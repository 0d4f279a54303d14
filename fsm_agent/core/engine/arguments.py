"""What a call would be sent with: arguments resolved, a person's changes to exactly these, and the digests that bind.

Whoever looks at a call before it is made, or after, asks here, so that the door, the gate and the audit agree.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fsm_agent.core import canon
from fsm_agent.core.engine.records import Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import UnresolvedReferenceError
from fsm_agent.core.language.refs import Ref
from fsm_agent.core.machine import WRITES, TaskState
from fsm_agent.core.plans import members
from fsm_agent.core.tools import ToolSpec

_DONE: Final = TaskState.DONE


def scope_of(
    run: Run, roots: Iterable[str], taken: Mapping[str, Task] | None = None, *, at: str = ""
) -> dict[str, Any]:
    """Return values for *roots* (``$s1``, ``$inputs``, ``$item``); a root without a value is left out.

    Args:
        run: The state.
        roots: Of references.
        taken: Done tasks by the ids of steps that are to take over their results.
        at: Id of the task that reads: names are those of its own nested plan, then of what that stands in.
    """
    scope: dict[str, Any] = {}
    for root in roots:
        if root == "$inputs":
            scope[root] = run.inputs
        elif root in members.ITEM:
            record = run.tasks.get(members.record_of(at))
            if record is not None:
                scope[root] = record.item if root == "$item" else members.index_of(record.id)
        elif root[0] == "$":
            task = _named(run, root[1:], at, taken or {})
            if task is not None and task.state is _DONE:
                scope[root] = task.result
    return scope


def _named(run: Run, name: str, at: str, taken: Mapping[str, Task]) -> Task | None:
    """Return the task that *name* means to the task *at*."""
    aliases = run.plan.aliases if run.plan is not None else {}
    for prefix in members.prefixes(at):
        full = aliases.get(prefix + name, prefix + name)
        found = taken.get(full) or run.tasks.get(full)
        if found is not None:
            return found
    return None


def _results(run: Run, refs: Iterable[Ref], at: str) -> dict[str, Any] | None:
    """Return what :func:`scope_of` does where all *refs* read results that are there, as nearly always; else None."""
    if "/" in at or run.plan is None or run.plan.aliases:
        return None
    scope, tasks = {}, run.tasks
    for ref in refs:
        root = ref.root
        named = tasks.get(root[1:])
        if named is None or named.state is not _DONE:
            return None
        scope[root] = named.result
    return scope


def resolve(
    run: Run, task: Task, tool: str | None, *, taken: Mapping[str, Task] | None = None
) -> dict[str, Any]:
    """Return the task's arguments with every reference resolved.

    Args:
        run: The state.
        task: The task.
        tool: What runs it.
        taken: As for :func:`scope_of`.

    Raises:
        UnresolvedReferenceError: A reference has no value.
    """
    step = task.step
    template = step.args
    scope = None if taken else _results(run, template.refs, task.id)
    if scope is None:
        scope = scope_of(run, [r.root for r in template.refs], taken, at=task.id)
    args: dict[str, Any] = template.resolve(scope)
    if step.tool is None and tool is not None:
        return _default_arguments(run, task, run.tools.get(tool), args, taken or {})
    return args


def edited(run: Run, task: Task, spec: ToolSpec, planned: dict[str, Any]) -> dict[str, Any]:
    """Return what a person made of exactly these arguments, or *planned* itself if nobody changed them."""
    by = task.armed or run.questions.get(task.id)
    if by is None:  # a call that was made with them is tried again with them, under the same key
        same = task.planned_digest and task.planned_digest == args_digest(spec, planned)
        return dict(task.args) if same and task.args is not None else planned
    if by.base_digest != approval_digest(run, task, spec, planned):  # None where nobody changed them
        return planned
    return dict(by.args or {})


def present_digest(run: Run, task: Task) -> str:
    """Return the digest of the present arguments of *task*; empty if they have no value now.

    Of a call that is out, unknown or over they are the call's own; else those that the next start would have.
    """
    if task.state not in (TaskState.PENDING, TaskState.AWAITING, TaskState.FAILED):
        return task.args_digest
    name = run.tool_of(task.step)
    spec = run.tools.get(name) if name is not None else None
    try:
        planned = resolve(run, task, name)
    except UnresolvedReferenceError:
        return ""
    return args_digest(spec, edited(run, task, spec, planned)) if spec is not None else ""


def args_digest(spec: ToolSpec, args: Mapping[str, Any]) -> str:
    """Return the digest of a call's tool and arguments: its strategy, and what its key is made of."""
    return canon.value_digest("args", [spec.name, args])


def _default_arguments(
    run: Run, task: Task, spec: ToolSpec | None, args: dict[str, Any], taken: Mapping[str, Task]
) -> dict[str, Any]:
    """Add what the default tool asks for by name: the step's id, description and its dependencies' results."""
    tasks = {d.id: taken.get(d.id) or run.tasks.get(d.id) for d in task.step.depends_on}
    offered = {
        "id": task.id,
        "description": task.step.description,
        "results": {
            name: found.result
            for name, found in tasks.items()
            if found is not None and found.state is TaskState.DONE
        },
    }
    if spec is None:
        return args
    wanted = {p.name for p in spec.parameters}
    return {k: v for k, v in offered.items() if k in wanted or spec.extra_arguments} | args


def approval_digest(run: Run, task: Task, spec: ToolSpec, args: Mapping[str, Any]) -> str:
    """Return what an approval binds: run, task, tool, arguments, effect class."""
    return canon.value_digest(
        "approval", [run.signed_as or run.id, task.id, spec.name, args, spec.effect.value]
    )


def needs_approval(run: Run, task: Task, spec: ToolSpec, digest: str) -> bool:
    """Whether a call of *task* needs a person's yes to its arguments; *digest* is that of tool and arguments."""
    own = task.step.requires_confirmation or spec.confirm or spec.effect == "irreversible"
    return own or _repeats(run, task, spec, digest)


def _repeats(run: Run, task: Task, spec: ToolSpec, digest: str) -> bool:
    """Whether a step that came with a later plan would make a call whose effect was there, or may have been, before."""
    if not (task.since and spec.effect in WRITES):
        return False
    found = (t for t in run.tasks.values() if t.args_digest == digest and t.applied != "no" and t is not task)
    return any(t.started < task.since for t in found)


def effect_before(run: Run, task: Task, spec: ToolSpec, key: str) -> str:
    """Return why a write may not be sent because its effect was or may have been there, or an empty string."""
    if spec.effect not in WRITES:
        return ""
    if run.keys.get(key, "no") != "no":
        return "an effect under this key was or may have been applied already"
    if task.applied != "no":
        return "an earlier call of this step, with other arguments, took effect"
    return ""
