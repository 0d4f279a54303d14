"""The gate that every proposed plan passes, in this order: validate, scope, reuse, laws, strategy, adopt.

A model's proposal is intent and nothing else. What is done is kept by the program, not by the planner's good will;
what is done under a new name is recognised; a write that was or may have been applied is never planned away; and a
strategy that failed is refused before it runs.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from fsm_agent.core import canon
from fsm_agent.core.engine import arguments
from fsm_agent.core.engine.batches import with_parts
from fsm_agent.core.engine.records import Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import Fault, PlanError, UnresolvedReferenceError
from fsm_agent.core.machine import WRITES, TaskState
from fsm_agent.core.plans import known
from fsm_agent.core.plans.members import planned_as, walk
from fsm_agent.core.plans.plan import Plan, Step
from fsm_agent.core.replanning import drafts, strategy
from fsm_agent.core.replanning.drafts import Draft
from fsm_agent.core.replanning.strategy import Diff

_STEP: Final = re.compile(r"/steps/(\d+)")
_CALL: Final = re.compile(r"/steps/(\d+)/(?:tool|args)\b")
_BATCH: Final = ("for_each", "tool", "args", "plan")
_HELD: Final = (TaskState.RUNNING, TaskState.UNKNOWN)


class RefusedProposalError(Exception):
    """A proposal does not pass; ``why`` is what the planner is told."""

    def __init__(self, gate: str, why: str, signature: str = "") -> None:
        """Name the *gate* that refused it and, if it came so far, the strategy's *signature*."""
        super().__init__(why)
        self.gate = gate
        self.why = why
        self.signature = signature


@attrs.frozen(kw_only=True)
class Passed:
    """A proposal that may be adopted.

    Attributes:
        plan: The whole new plan: what is done, and what the proposal wants.
        steps: Its steps that are tasks from the beginning, by id.
        diff: Against the plan in force.
        reuse: New id → done task whose result it takes over.
        invalidated: Done reads that the proposal wants with other arguments.
        signature: Of the strategy.
    """

    plan: Plan
    steps: Mapping[str, Step]
    diff: Diff
    reuse: Mapping[str, str]
    invalidated: tuple[str, ...]
    signature: str


@known.collecting_later()
def judge(
    run: Run, document: Any, *, scope: str, failed: str | None = None, by_person: bool = False
) -> Passed:
    """Let a proposal through the gate.

    Args:
        run: The state.
        document: Parsed JSON of any accepted shape.
        scope: ``local`` (only *failed* and what depends on it may change) or ``global``.
        failed: The step that made the replan necessary; None for a reason of the whole run.
        by_person: A person's plan may repeat a strategy and add writes without being asked again.

    Raises:
        RefusedProposalError: With the gate's name and what to tell the planner.
    """
    assert run.plan is not None, "no plan in force"
    plan, kept = _validated(run, document, ask_writes=not by_person)
    draft = drafts.beside(run.plan, plan)
    _in_scope(run, draft, scope, failed)
    reuse, invalidated = _reused(run, draft, scope, kept)
    _lawful(run, draft, reuse)
    calls = strategy.done_calls(run)
    done = {name: call for name, call in calls.items() if name not in invalidated}
    signature = strategy.signature(plan, {**done, **{new: calls[old] for new, old in reuse.items()}})
    if signature in run.strategies and not by_person:
        raise RefusedProposalError(
            "strategy", "this strategy was tried before and failed; propose another one", signature
        )
    found = _difference(run, draft, reuse, invalidated)
    if not found.added and not found.changed and not found.removed and not by_person:
        raise RefusedProposalError("strategy", "nothing in it differs from the plan in force", signature)
    if not by_person and all(name in done for name in draft.steps):
        raise RefusedProposalError(
            "strategy",
            "it leaves nothing to do; plan what is still needed for the goal, or say why it is infeasible",
            signature,
        )
    return Passed(
        plan=plan,
        steps=draft.steps,
        diff=found,
        reuse=reuse,
        invalidated=invalidated,
        signature=signature,
    )


def _difference(run: Run, draft: Draft, reuse: Mapping[str, str], invalidated: tuple[str, ...]) -> Diff:
    """Return what differs; a done step whose call is the same is kept, however the proposal words the rest of it."""
    done = {n for n in draft.before if run.tasks[n].state is TaskState.DONE}
    kept = (draft.unchanged | (done & draft.steps.keys())).difference(invalidated)
    return attrs.evolve(strategy.difference(draft.before, draft.after, kept), reused=reuse)


def _validated(run: Run, document: Any, *, ask_writes: bool) -> tuple[Plan, frozenset[str]]:
    """Return the whole new plan with the done steps that it keeps unasked, or refuse with every fault of it."""
    assert run.plan is not None, "no plan in force"
    from fsm_agent.core.plans import shape  # as below
    from fsm_agent.core.plans.faults import Faults

    faults = Faults()
    kept: list[Any] = []
    try:
        full, _ = shape.full(document, faults, tuple(run.tasks))
        steps = full.get("steps") if full is not None else None
        if ask_writes and isinstance(steps, list):
            shape.bearable(steps, faults, shape.MOST_PROPOSED)
        if faults.found or not isinstance(steps, list) or not steps:
            raise PlanError("plan: it proposes no steps", faults.found)
        kept = _kept(run, run.plan.doc["steps"], steps, "")
        whole = [*kept, *_completed(run, run.plan.doc["steps"], steps, "")]
        plan = _loaded(run, run.plan, {**run.plan.doc, "steps": whole}, len(kept))
        if ask_writes:
            plan = _asking(run, plan)
    except PlanError as error:
        told = "; ".join(_told(fault, kept) for fault in error.faults[:12]) or str(error)
        raise RefusedProposalError("validate", told) from None
    return plan, frozenset(doc["id"] for doc in kept)


def _kept(run: Run, old: list[Any], new: list[Any], prefix: str) -> list[Any]:
    """Return the documents of the done steps that a proposal leaves out: what is done stays in the plan."""
    proposed = {s["id"] for s in new if isinstance(s, dict) and isinstance(s.get("id"), str)}
    gone = {s["replaces"] for s in new if isinstance(s, dict) and isinstance(s.get("replaces"), str)}
    named = proposed | gone
    return [
        doc for doc in old if doc["id"] not in named and run.tasks[prefix + doc["id"]].state is TaskState.DONE
    ]


def _completed(run: Run, old: list[Any], new: list[Any], prefix: str) -> list[Any]:
    """Return *new* with what is done in the nested plans that both have."""
    nested = {doc["id"]: doc["plan"]["steps"] for doc in old if "plan" in doc and "for_each" not in doc}
    return [_filled(run, nested, doc, prefix) for doc in new]


def _filled(run: Run, nested: Mapping[str, list[Any]], doc: Any, prefix: str) -> Any:
    name = doc.get("id") if isinstance(doc, dict) else None
    plan = doc.get("plan") if isinstance(doc, dict) and "for_each" not in doc else None
    steps = plan.get("steps") if isinstance(plan, dict) else None
    if not isinstance(name, str) or name not in nested or not isinstance(steps, list):
        return doc
    here = f"{prefix}{name}/"
    whole = [*_kept(run, nested[name], steps, here), *_completed(run, nested[name], steps, here)]
    return {**doc, "plan": {**plan, "steps": whole}}  # type: ignore[dict-item]  # it is a dict: it has steps


def _told(fault: Fault, kept: list[Any]) -> str:
    """Return a fault of the whole plan as one of the proposal, which lacks the steps that are *kept* before it."""
    found = _STEP.match(fault.at)
    if found is None:
        return str(fault)
    place = int(found[1])
    step = (
        f"/steps/{place - len(kept)}"
        if place >= len(kept)
        else f"/steps of the plan in force/{kept[place]['id']}"
    )
    return str(attrs.evolve(fault, at=step + fault.at[found.end() :]))


def _loaded(run: Run, base: Plan, document: dict[str, Any], kept: int) -> Plan:
    """Return the plan; what its first *kept* steps called is over, whether or not their tools would take it now."""
    from fsm_agent.core.plans import planning  # a run whose plan never changes reads no other one

    ids = tuple(run.tasks)
    try:
        return planning.changed(document, base, tools=run.tools, default_tool=run.default_tool, earlier=ids)
    except PlanError as error:
        bad = [fault for fault in error.faults if not _is_over(fault, kept)]
        if bad:
            raise PlanError(str(error), bad) from None
    return planning.changed(document, base, earlier=ids)


def _is_over(fault: Fault, kept: int) -> bool:
    found = _CALL.match(fault.at)
    return found is not None and int(found[1]) < kept


def _asking(run: Run, plan: Plan) -> Plan:
    """Let every step that is no read, and new or changed, ask a person before it runs; after a breach every one."""
    assert run.plan is not None, "no plan in force"
    before = dict(strategy.documents(run.plan.doc["steps"]))
    exposed = _unguarded(run, plan, before)

    def asking(step: Step, doc: Any, *, new: bool) -> Any:
        new = new or step.id in exposed or not strategy.same(before.get(step.id), doc)
        if step.plan:
            inner = zip(step.plan, doc["plan"]["steps"], strict=True)
            return {**doc, "plan": {"steps": [asking(s, d, new=new) for s, d in inner]}}  # its gate is theirs
        settled = step.id in run.tasks and run.tasks[step.id].state is TaskState.DONE
        asks = _writes(run, step) and (new or (run.in_breach and not settled))
        return {**doc, "requires_confirmation": True} if asks else doc

    docs = [asking(step, doc, new=False) for step, doc in zip(plan.steps, plan.doc["steps"], strict=True)]
    changed = docs != plan.doc["steps"]
    return known.trusted({**plan.doc, "steps": docs}, plan) if changed else plan  # all else is proved already


def _unguarded(run: Run, plan: Plan, before: Mapping[str, Any]) -> frozenset[str]:
    """Return the steps that waited for a question to a person which *plan* does not ask any more."""
    assert run.plan is not None, "no plan in force"
    after = dict(strategy.documents(plan.doc["steps"]))
    asked = (step for step in walk(run.plan.steps) if not step.group and run.tool_of(step) is None)
    lost = [step.id for step in asked if before[step.id] != after.get(step.id)]
    return strategy.descendants(run.plan, lost) if lost else frozenset()


def _writes(run: Run, step: Step) -> bool:
    """Whether *step*, or a fall-back that it prepares, calls what is no read; of its parts only a batch's count."""
    if step.plan:
        return step.for_each is not None and any(_writes(run, part) for part in step.plan)
    own = step.tool if step.tool is not None else run.default_tool
    specs = (run.tools.get(name or "") for name in (own, *(a.tool for a in step.alternatives)))
    return any(spec is not None and spec.effect != "read" for spec in specs)


def _in_scope(run: Run, draft: Draft, scope: str, failed: str | None) -> None:
    """Refuse a change outside the scope, and any change of a call that is out or unknown."""
    assert run.plan is not None, "no plan in force"
    new = draft.steps
    root = planned_as(failed) if failed is not None else None
    free = strategy.descendants(run.plan, [root]) if scope == "local" and root is not None else None
    for name in draft.before:
        task = run.tasks[name]
        if task.state is TaskState.DONE or name in draft.unchanged:
            continue
        busy = _busy(run, task)
        if busy is not None:
            raise RefusedProposalError(
                "scope", f"{busy.id} is {busy.state.value}; leave {task.id} exactly as it is"
            )
        if task.state is TaskState.CANCELLED and task.id not in new:
            continue
        dropped_read = task.state is TaskState.RUNNING and task.effect == "read" and task.id not in new
        if task.state in _HELD and not dropped_read:
            raise RefusedProposalError("scope", f"{task.id} is {task.state.value}; leave it exactly as it is")
        if free is not None and task.id not in free:
            raise RefusedProposalError(
                "scope",
                f"only {root} and what depends on it may change; {task.id} must stay exactly as it is",
            )


def _busy(run: Run, task: Task) -> Task | None:
    """Return a record of the batch *task*, or what works for one, whose call is out or unknown."""
    if task.step.for_each is None:
        return None
    held = (*run.running, *(t.id for t in run.tasks.values() if t.state is TaskState.UNKNOWN))
    return next((run.tasks[name] for name in held if name.startswith(f"{task.id}[")), None)


def _reused(
    run: Run, draft: Draft, scope: str, kept: frozenset[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return what the proposal takes over from finished work, and which done reads it wants anew."""
    usable = (t for t in run.tasks.values() if t.state is TaskState.DONE and not outdated(run, t))
    by_call = {t.args_digest: t.id for t in usable if t.args_digest}
    reuse: dict[str, str] = {}
    invalidated = []
    fresh: set[str] | None = None
    for step in strategy.ordered(draft.plan.steps):
        if step.group:
            continue  # what its parts did is theirs
        task = run.tasks.get(step.id)
        if task is not None and task.state is TaskState.DONE:
            anew = scope == "global" and step.id not in kept and outdated(run, task)
            if _same_call(run, task, step, reuse) and not (anew and task.effect == "read"):
                continue
            if task.effect != "read":
                raise RefusedProposalError(
                    "reuse",
                    f"{step.id} is done, a {task.effect} call is never made again; use another id for another call",
                )
            if scope == "local":
                raise RefusedProposalError(
                    "scope", f"{step.id} is done, leave it as it is; use another id for another call"
                )
            invalidated.append(step.id)
        elif step.id not in draft.unchanged and (task is None or task.state is not TaskState.RUNNING):
            source = by_call.get(
                call_digest(run, step, reuse) or ""
            )  # nobody can tell yet, or nobody made it
            if source is None:
                continue
            fresh = _after_writes(run, draft.plan) if fresh is None else fresh
            if step.id not in fresh:  # else it is a look at what has changed since
                reuse[step.id] = source
    return reuse, tuple(invalidated)


def outdated(run: Run, task: Task) -> bool:
    """Whether the tool of *task* has another signature by now, so that nobody knows whether its result still fits."""
    return task.moved < run.retooled.get(task.tool or "", 0)


def _after_writes(run: Run, plan: Plan) -> set[str]:
    """Return the reads that come after a call which is no read and not done: they are to see what it did."""
    behind: set[str] = set()
    found = set()
    earlier = strategy.before(plan.steps)
    for step in strategy.ordered(plan.steps):
        later = not behind.isdisjoint(earlier[step.id])
        task = run.tasks.get(step.id)
        writes = _writes(run, step)
        if later or (writes and (task is None or task.state is not TaskState.DONE)):
            behind.add(step.id)
        if later and not writes:
            found.add(step.id)
    return found


def _same_call(run: Run, task: Task, step: Step, reuse: Mapping[str, str]) -> bool:
    """Whether *step* asks for the call that made *task* done, as it was made or as it was planned before an edit."""
    if step is task.step and step.tool is not None and not reuse:
        return True  # whatever it resolves to now, the proposal says nothing else of it
    digest = call_digest(run, step, reuse)
    if digest is None:
        return not task.args_digest and run.tool_of(step) is None
    return digest in (task.args_digest, call_digest(run, task.step))


def call_digest(run: Run, step: Step, reuse: Mapping[str, str] | None = None) -> str | None:
    """Return the digest of the call that *step* would make now, or None while an argument is still open.

    Args:
        run: The state.
        step: Of the plan in force, or of a proposal.
        reuse: Steps of the proposal that take over the result of a done task, and that task's id.
    """
    name = run.tool_of(step)
    if name is None:
        return None
    taken = {new: run.tasks[old] for new, old in (reuse or {}).items()}
    if step.tool is None and any(_is_open(taken.get(d.id) or run.tasks.get(d.id)) for d in step.depends_on):
        return None  # the default tool is given their results
    try:
        args = arguments.resolve(run, Task(step.id, (0,), step), name, taken=taken)
    except UnresolvedReferenceError:
        return None
    return canon.value_digest("args", [name, args])


def _is_open(task: Task | None) -> bool:
    return task is None or task.state not in (TaskState.DONE, TaskState.CANCELLED)


def _lawful(run: Run, draft: Draft, reuse: Mapping[str, str]) -> None:
    """Refuse a plan that would lose sight of an effect, make it twice, or bring back what a person rejected."""
    ids = _present(run, draft)
    unchanged = draft.unchanged
    _once(run, draft, reuse)
    _batches_once(run, draft)
    for task in run.tasks.values():
        lost = task.effect in WRITES and task.applied != "no" and task.state is TaskState.FAILED
        if lost and task.id not in ids:
            raise RefusedProposalError(
                "laws",
                f"{task.id} had an effect that is not settled; a person decides about it, keep it in the plan",
            )
        if task.id not in ids or task.state is not TaskState.CANCELLED or planned_as(task.id) in unchanged:
            continue  # what was given up and is not touched stays given up
        if planned_as(task.id) != task.id:
            continue  # so does what was given up of a batch
        if task.effect in WRITES and task.applied != "no":
            raise RefusedProposalError(
                "laws",
                f"{task.id} was given up, and its effect is or may be there; use another id for another call",
            )
        if task.reason_code == "rejected":
            raise RefusedProposalError(
                "laws",
                f"a person rejected {task.id}; leave it out, or ask for something else under another id",
            )


def _batches_once(run: Run, draft: Draft) -> None:
    """Refuse a new batch that makes the calls of another one with the same list, where those had effects."""
    acted = {
        canon.value_digest("batch", [doc.get(key) for key in _BATCH]): name
        for name, doc in draft.before.items()
        if "for_each" in doc and any(_has_acted(t) for t in with_parts(run, run.members[name]))
    }
    for name, doc in draft.after.items() if acted else ():
        twin = acted.get(canon.value_digest("batch", [doc.get(key) for key in _BATCH]))
        if name not in draft.before and twin is not None:
            raise RefusedProposalError(
                "laws", f"{name} makes the calls of {twin} again, record by record; keep the id {twin} for it"
            )


def _has_acted(task: Task) -> bool:
    return task.effect != "read" and task.applied != "no"


def _present(run: Run, draft: Draft) -> set[str]:
    """Return the tasks that the plan has: its steps, and what there is already of the records of its batches."""
    steps = draft.steps
    own = (t.id for t in run.tasks.values() if planned_as(t.id) != t.id)
    kept = (i for i in own if planned_as(i) in steps and steps[planned_as(i)].for_each is not None)
    return {*steps, *kept}


def _once(run: Run, draft: Draft, reuse: Mapping[str, str]) -> None:
    """Refuse a new step that makes a call again whose effect is there or may be there, or puts a done one aside."""
    unsettled = {
        t.args_digest: t
        for t in run.tasks.values()
        if t.effect in WRITES and t.applied != "no" and t.state is not TaskState.DONE
    }
    for step in draft.steps.values():
        if unsettled and step.id not in draft.unchanged:
            task = unsettled.get(call_digest(run, step, reuse) or "")
            if task is not None and task.id != step.id:
                raise RefusedProposalError(
                    "laws",
                    f"{step.id} makes the call of {task.id} again, whose effect is or may be there; leave it out",
                )
        old = run.tasks.get(step.replaces or "")
        if old is not None and old.state is TaskState.DONE and old.effect != "read":
            raise RefusedProposalError(
                "laws", f"{old.id} is done and had an effect; {step.id} cannot take its place"
            )
