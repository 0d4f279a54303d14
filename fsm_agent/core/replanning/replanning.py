"""Changing the plan: asked for by the table alone, proposed by data, a planner or a person, adopted by the gate.

A replan that was decided waits for its cool-down, and for every effect that is under way or unknown; it is not lost. Every planner call is
counted before it is made. A refused proposal is told why, and the table says whether to ask again.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from fsm_agent.core import canon
from fsm_agent.core.engine import budget, changes, standing, wishes
from fsm_agent.core.engine.outcomes import usage_data
from fsm_agent.core.engine.policy import escalate, fire
from fsm_agent.core.engine.records import RUN, Replanning, Task
from fsm_agent.core.engine.state import ASIDE, Run
from fsm_agent.core.engine.turn import Turn, actor_of
from fsm_agent.core.errors import PlanError, RefusedError
from fsm_agent.core.inputs import NO_USAGE, Proposed, Replan
from fsm_agent.core.machine import WRITES, RunState, TaskState
from fsm_agent.core.plans.members import planned_as
from fsm_agent.core.replanning import explaining, gate
from fsm_agent.core.replanning.gate import Passed, RefusedProposalError
from fsm_agent.core.signals import Signal

MODEL = {"kind": "model"}
_NO_WORDS: Final[Mapping[str, str]] = {}
_LONGEST_WORDS = 2000
"""Of a planner's reason a person is shown so many characters; the log has its whole answer."""


def due(run: Run, now: int, *, woken: bool = False) -> Replanning | None:
    """Return the replan that can go on now, or None.

    Args:
        run: The state.
        now: UTC epoch in microseconds.
        woken: As if the run were running: whether it has a reason to be.
    """
    if run.asked or run.wish != "none" or not run.replans or not (woken or run.state is RunState.RUNNING):
        return None
    asked = run.questions.get(RUN)
    if run.counts[TaskState.UNKNOWN] or (asked is not None and asked.kind != "approval"):
        return None  # a plan under review may be changed: it is asked about as it is then
    if any(run.tasks[name].effect != "read" for name in run.running):
        return None  # its effect may become unknown, or be what the new plan asks for
    return next((r for r in run.replans.values() if r.not_before <= now and not _at_work(run, r)), None)


def _at_work(run: Run, request: Replanning) -> bool:
    """Whether other records of the batch that the replan is about are still at work."""
    name = request.task or ""
    batch = f"{planned_as(name)}["
    return name.startswith(batch) and any(other.startswith(batch) for other in run.running)


def go_on(turn: Turn) -> None:
    """Take every replan that is due a step further: to what is prepared, the planner, or a person."""
    run = turn.run
    while (request := due(run, turn.now)) is not None:
        task = run.tasks.get(request.task or "")
        turn.cause = request.seq
        if task is not None and task.state is not TaskState.FAILED:
            _drop(turn, request, "moot", f"{task.id} is {task.state.value} by now")
        elif task is not None and not request.refusals and _prepared(turn, request, task):
            continue
        elif run.has_planner and (spent := _spent_up(run)):
            _drop(turn, request, "budget", spent)
            escalate(turn, task, Signal(request.signal), f"{spent}: {request.why}")
        elif run.has_planner:
            data = {"request": request.seq, "scope": request.scope}
            turn.emit("planner_asked", data, request.task)
        else:
            told = run.replans[request.task or RUN].refusals
            _drop(turn, request, "nobody", "there is no planner and no prepared alternative")
            escalate(turn, task, Signal(request.signal), "; ".join((request.why, *told)))


def _spent_up(run: Run) -> str:
    """Return why the planner cannot be asked any more, in words, or an empty string: its answers cost, too."""
    allowed = budget.limit(run, "planner_calls")
    if allowed is not None and run.account.planner_calls >= allowed:
        return "no planner call is left"
    lacking = budget.missing(run, NO_USAGE, calls=0) if run.limited else ""
    return f"the planner is not asked, {lacking}" if lacking else ""


def _may_retry(task: Task) -> bool:
    return task.effect not in WRITES or task.applied == "no"


def _drop(turn: Turn, request: Replanning, gate_name: str, why: str) -> None:
    turn.emit(
        "replan_refused", {"gate": gate_name, "why": why, "request": request.seq, "ended": True}, request.task
    )


def _prepared(turn: Turn, request: Replanning, task: Task) -> bool:
    """Adopt the first offer for a failed step that passes the gate; False if there is none.

    Those that the gate refuses are not tried again for this failure; whoever plans next is told.
    """
    from fsm_agent.core.replanning import proposers  # a run in which nothing fails needs none

    run = turn.run
    for offer in proposers.offers(run, request, task):
        try:
            passed = gate.judge(run, offer.steps, scope=offer.scope, failed=task.id, by_person=offer.meant)
        except RefusedProposalError as error:
            why = f"the prepared alternative cannot be used: {error.why}" if offer.meant else error.why
            data = {"gate": error.gate, "why": why, "request": request.seq, "origin": offer.origin}
            turn.emit("replan_refused", {**data, **offer.record}, request.task)
            continue
        adopt(
            turn,
            passed,
            origin=offer.origin,
            scope=offer.scope,
            why=f"{request.why}; {offer.why}" if offer.why else request.why,
            name=request.task,
            signal=request.signal,
            words=offer.words,
            record=dict(offer.record),
        )
        return True
    return False


def proposed(turn: Turn, given: Proposed) -> None:
    """Let a planner's answer through the gate, or refuse it and let the table say what then.

    Raises:
        RefusedError: Nobody asked for it, or the question is no longer open.
    """
    run = turn.run
    if not run.asked or run.asked != given.request:
        raise RefusedError(
            f"run {run.id}: a proposal answers request {given.request}, which is not open; it was not used"
        )
    request = run.replans[run.asked_for]
    record: dict[str, Any] = {"request": request.seq}
    if given.answer is not None:
        raw = given.answer.encode("utf-8", "replace")
        record["answer_digest"] = canon.blob_digest(raw)
        record["answer"] = canon.storable(given.answer)
    if given.model:
        record["model"] = canon.storable(given.model)
    if given.prompt_digest:
        record["prompt_digest"] = canon.storable(given.prompt_digest)
    record["usage"] = usage_data(given.usage)
    overtaken = _overtaken(run, request)
    if overtaken:
        turn.emit("replan_refused", {**overtaken, **record}, request.task, MODEL)
        return
    try:
        document = _read(given)
        if isinstance(document, dict) and "infeasible" in document:
            _infeasible(turn, request, document, record)
            return
        passed = gate.judge(run, document, scope=request.scope, failed=request.task)
    except RefusedProposalError as error:
        refuse(turn, request, error, record, retry_after_us=given.retry_after_us)
        return
    adopt(
        turn,
        passed,
        origin="model",
        scope=request.scope,
        why=request.why,
        name=request.task,
        signal=request.signal,
        record=record,
    )


def _overtaken(run: Run, request: Replanning) -> dict[str, Any]:
    """Return why an answer is of no use any more, whatever it is; nothing if it is. It is asked for again if need be."""
    task = run.tasks.get(request.task or "")
    if task is not None and task.state is not TaskState.FAILED:
        return {"gate": "moot", "why": f"{task.id} is {task.state.value} by now", "ended": True}
    if run.changed_at > run.asked:
        return {
            "gate": "stale",
            "why": "an input or a limit was corrected since; the plan is for what holds now",
        }
    unknown = [t.id for t in run.tasks.values() if t.state is TaskState.UNKNOWN]
    why = f"the result of {', '.join(unknown)} is unknown by now; the plan changes when it is known"
    return {"gate": "unknown", "why": why} if unknown else {}


def _read(given: Proposed) -> Any:
    if given.answer is None or given.why:
        raise RefusedProposalError("planner", given.why or "the planner gave no answer")
    from fsm_agent.core.plans import text  # only what a model says is read so

    try:
        document = text.read(given.answer)
    except PlanError as error:
        raise RefusedProposalError("parse", "; ".join(map(str, error.faults)) or str(error)) from None
    if isinstance(document, dict) and document.get("infeasible") in (None, "", False):
        document.pop("infeasible", None)  # whoever answers to a schema says so by leaving it empty
    return document


def refuse(
    turn: Turn,
    request: Replanning,
    error: RefusedProposalError,
    record: dict[str, Any],
    *,
    retry_after_us: int | None = None,
) -> None:
    """Record a refused proposal and fire ``plan_rejected``; who goes round in a circle is not asked again."""
    why = canon.storable(error.why)
    data = {"gate": error.gate, "why": why, **record}
    if error.signature:
        data["strategy"] = error.signature
    about = turn.run.tasks.get(request.task or "")
    if error.gate != "planner" and f"{error.gate}: {why}" in request.refusals:
        turn.emit("replan_refused", {**data, "ended": True}, request.task, MODEL)
        words = f"the planner was told why, and proposes what is refused for the same reason again: {why}"
        escalate(turn, about, Signal.PLAN_REJECTED, words)
        return
    turn.emit("replan_refused", data, request.task, MODEL)
    fire(
        turn,
        None,
        Signal.PLAN_REJECTED,
        because=f"{error.gate}: {why}",
        retry_after_us=retry_after_us,
        about=about,
        extra={"about": request.task or RUN},
    )


def _infeasible(turn: Turn, request: Replanning, document: dict[str, Any], record: dict[str, Any]) -> None:
    """The planner says that the goal cannot be reached: a person reads why, and nothing runs on it."""
    why = canon.storable(str(document["infeasible"]))[:_LONGEST_WORDS]
    goal = canon.storable(str(document.get("goal") or ""))[:_LONGEST_WORDS]
    data = {"gate": "infeasible", "why": why, "goal": goal, "ended": True, **record}
    turn.emit("replan_refused", data, request.task, MODEL)
    words = f"the planner says that the goal cannot be reached: {why}"
    task = turn.run.tasks.get(request.task or "")
    escalate(turn, task, Signal.PLAN_REJECTED, f"{words}; it proposes instead: {goal}" if goal else words)


def by_person(turn: Turn, given: Replan) -> None:
    """Adopt a person's own plan for what remains.

    Raises:
        RefusedError: It does not pass, or a result is unknown.
    """
    run = turn.run
    wishes.open_run(run, "another plan")
    unknown = [t.id for t in run.tasks.values() if t.state is TaskState.UNKNOWN]
    if unknown:
        raise RefusedError(
            f"run {run.id}: the result of {', '.join(unknown)} is unknown; the plan changes when it is known",
            code="E-UNKNOWN",
        )
    try:
        passed = gate.judge(run, given.document, scope="global", by_person=True)
    except RefusedProposalError as error:
        raise RefusedError(
            f"plan ({error.gate}): {error.why}; nothing was changed", code="E-PROPOSAL"
        ) from None
    why = given.who.note or f"{given.who.by} gave another plan"
    words = dict.fromkeys(explaining.LANGUAGES, given.who.note)
    actor = actor_of(given.who)
    adopt(turn, passed, origin="human", scope="global", why=why, name=None, words=words, actor=actor)


def adopt(
    turn: Turn,
    passed: Passed,
    *,
    origin: str,
    scope: str,
    why: str,
    name: str | None,
    signal: str = "",
    words: Mapping[str, str] = _NO_WORDS,
    record: dict[str, Any] | None = None,
    actor: dict[str, Any] | None = None,
) -> None:
    """Put a plan that passed the gate in force, and move the tasks that it changes.

    Args:
        turn: The turn.
        passed: What the gate let through.
        origin: ``alternative``, ``rule``, ``model`` or ``human``.
        scope: ``local`` or ``global``.
        why: What made it necessary, in words.
        name: The step whose replan this answers; None for the whole run.
        signal: What made it necessary; empty if a person wished it.
        words: What the person said, or why a repair helps, by language, for an end user.
        record: Of the planner's answer.
        actor: Who proposed it, if not the controller.
    """
    run = turn.run
    told = explaining.explanations(
        run, passed.steps, passed.diff, signal=signal, about=run.tasks.get(name or ""), words=words
    )
    data = {
        "plan_version": run.plan_version + 1,
        "plan": dict(passed.plan.doc),
        "digest": passed.plan.digest,
        "origin": origin,
        "scope": scope,
        "why": why,
        "answers": name if name is not None else RUN,
        "strategy": passed.signature,
        "diff": passed.diff.to_data(),
        "explanation": told["en"],
        "explanation_zh": told["zh"],
        **(record or {}),
    }
    event = turn.emit("plan_adopted", data, None, MODEL if origin == "model" else actor)
    for taker, giver in passed.reuse.items():  # before anything that gives its result away is called again
        turn.cause = event.seq
        standing.take_over(turn, run.tasks[taker], run.tasks[giver])
    back = _back(run, passed)
    for task in _concerned(run, passed, back):
        turn.cause = event.seq
        if not run.plans(task):
            if task.state not in (TaskState.DONE, TaskState.CANCELLED, TaskState.UNKNOWN):
                turn.move(
                    task,
                    "cancel",
                    {"reason": f"plan {run.plan_version} does without it", "code": "superseded"},
                )
        else:
            _move(turn, task, passed)
    turn.cause = event.seq
    batches = (run.tasks[name] for name in passed.diff.changed)
    changes.look_again(turn, [t for t in batches if t.step.group], f"plan {run.plan_version} says otherwise")


def _concerned(run: Run, passed: Passed, back: Collection[str]) -> list[Task]:
    """Return the tasks that the new plan, which is in force now, may move, in plan order; one look at each decides it."""
    open_ones = (TaskState.FAILED, TaskState.AWAITING)
    other = {*back, *passed.invalidated}
    return [t for t in run.tasks.values() if t.state in open_ones or t.order[0] >= ASIDE or t.id in other]


def _back(run: Run, passed: Passed) -> set[str]:
    """Return the cancelled tasks that the new plan brings back: what it changes, and what was lost along with that.

    A step that was given up, and stands in the new plan as it stood in the old one, stays given up.
    """
    cancelled = {n: t for n, t in run.tasks.items() if t.state is TaskState.CANCELLED and n in passed.steps}
    if not cancelled:
        return set()
    kept = frozenset(passed.diff.kept)
    back = {name for name in cancelled if name not in kept}
    ways = [*back, *passed.reuse]
    while ways:
        for name, _ in run.children[ways.pop()]:
            if name in cancelled and name not in back and cancelled[name].origin:
                back.add(name)
                ways.append(name)
    return back


def _move(turn: Turn, task: Task, passed: Passed) -> None:
    """Move a task that is in the old plan and in the new one."""
    version = turn.run.plan_version
    changed = planned_as(task.id) in passed.diff.changed
    if task.id in passed.invalidated or (changed and task.state is TaskState.AWAITING):
        turn.move(task, "invalidate", {"reason": f"plan {version} calls it with other arguments"})
    elif task.state is TaskState.CANCELLED:
        turn.move(task, "invalidate", {"reason": f"plan {version} has it again"}, applied="no")
    elif task.state is TaskState.FAILED and _may_retry(task) and (changed or task.effect not in WRITES):
        turn.move(task, "retry", {"delay_ms": 1, "series": True, "reason": f"plan {version}"})
