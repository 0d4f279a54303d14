"""``apply``: the only code that changes a run's state, live and replayed alike.

It trusts its events: whoever makes one has checked it, and whoever audits a log checks it again. One function per
event type; what an event means for the state is written nowhere else.
"""

from collections.abc import Callable
from typing import Any, Final

import attrs

from fsm_agent.core.engine import tally
from fsm_agent.core.engine.state import RUN, Armed, Question, Replanning, Run, Task, Trouble
from fsm_agent.core.events import Event
from fsm_agent.core.inputs import NO_USAGE, Usage
from fsm_agent.core.machine import WRITES, RunState, TaskState
from fsm_agent.core.plans import planning
from fsm_agent.core.plans.plan import Plan
from fsm_agent.core.rules import table as rules
from fsm_agent.core.signals import REPEATABLE
from fsm_agent.core.tools import ToolSpec

_TASK_STATES: Final = {s.value: s for s in TaskState}
_RUN_STATES: Final = {s.value: s for s in RunState}
_OPEN, _DONE, _GONE = 0, 1, 2
_KIND: Final = dict.fromkeys(TaskState, _OPEN) | {TaskState.DONE: _DONE, TaskState.CANCELLED: _GONE}


def apply(run: Run, event: Event) -> None:
    """Change *run* as *event* says.

    Args:
        run: The state before; changed in place.
        event: The next event of the run's log (seq one higher than ``run.seq``), large values put back.
    """
    if run.state is RunState.RUNNING:
        run.account.active_us += event.at - run.at
    run.seq = event.seq
    run.at = event.at
    _FOLDS[event.type](run, event)


def trouble_of(task: Task) -> Trouble:
    """Return the task's record of failures, made when it is first needed."""
    if task.trouble is None:
        task.trouble = Trouble()
    return task.trouble


# ── the run and its plan ──────────────────────────────────────────────────────────────────────────────────────


def _run_created(run: Run, event: Event) -> None:
    data = event.data
    run.table = rules.from_canonical(data["rules"])
    run.inputs = dict(data["inputs"])
    _declare_tools(run, data)
    run.epoch = 1


def _declare_tools(run: Run, data: dict[str, Any]) -> None:
    run.tools = {t["name"]: ToolSpec.from_data(t) for t in data["tools"]}
    run.default_tool = data.get("default_tool")
    run.has_planner = data.get("has_planner", False)


def _owner_changed(run: Run, event: Event) -> None:
    run.epoch = event.data["epoch"]
    run.asked, run.asked_for = 0, ""  # whoever was asked does not know this owner; it asks again
    if "tools" in event.data:
        _declare_tools(run, event.data)


def _plan_adopted(run: Run, event: Event) -> None:
    plan: Plan = planning.trusted(event.data["plan"])
    run.plan = plan
    run.plan_version = event.data["plan_version"]
    if run.plan_version > 1 and "answers" in event.data:  # else it answers no replan
        _end_replans(run, event)
        # what was broken is looked at again: the new plan was to mend it; what is tolerated stays noted
        run.broken -= {c.key for c in plan.constraints if c.severity == "stop"}
    run.metered = plan.budgets.tokens is not None or plan.budgets.cost_micros is not None
    run.constraint_values = {c.key: run.constraint_values.get(c.key, c.value) for c in plan.constraints}
    old = run.tasks
    if run.journal is not None:
        for earlier in old.values():
            run.touch(earlier)
    run.tasks = {}
    for order, step in enumerate(plan.steps):
        task = old.get(step.id)
        if task is None:
            task = Task(step.id, order, step)
        else:
            run.touch(task)
            task.order, task.step = order, step
        run.tasks[step.id] = task
    for task in old.values():
        if task.id not in run.tasks:
            run.touch(task)
            task.order = len(run.tasks)
            run.tasks[task.id] = task
    _recount(run)


def _end_replans(run: Run, event: Event) -> None:
    """A plan is adopted over another: it answers one replan, or all of them."""
    run.replan_scope = "none"
    run.replanned_at = event.at
    run.replans_in_a_row += 1
    answered = event.data.get("answers", RUN)
    for name in [answered] if answered in run.replans and answered != RUN else list(run.replans):
        run.drop(run.replans, name)
        if name == run.asked_for:
            run.asked, run.asked_for = 0, ""
    if "usage" in event.data:
        _spend(run, event.data["usage"])


def _recount(run: Run) -> None:
    """Build the indexes over the tasks anew."""
    run.children = {name: [] for name in run.tasks}
    run.counts = dict.fromkeys(TaskState, 0)
    run.todo_tokens = run.todo_cost_micros = 0
    for task in run.tasks.values():
        run.counts[task.state] += 1
        _estimate(run, task, 1 if _KIND[task.state] == _OPEN else 0)
        task.open_deps = task.done_deps = task.dead_deps = 0
        for dependency in task.step.depends_on:
            run.children[dependency.id].append((task.id, dependency.optional))
            _count(task, _KIND[run.tasks[dependency.id].state], dependency.optional, 1)
    for task in run.tasks.values():
        if task.state is TaskState.PENDING:
            run.index(task)


def _count(task: Task, kind: int, optional: bool, by: int) -> None:
    if kind == _OPEN:
        task.open_deps += by
    elif kind == _DONE:
        task.done_deps += by
    elif not optional:
        task.dead_deps += by


def _estimate(run: Run, task: Task, by: int) -> None:
    estimate = task.step.estimate
    if estimate is not None and by:
        run.todo_tokens += by * estimate.tokens
        run.todo_cost_micros += by * estimate.cost_micros


def _run_moved(run: Run, event: Event) -> None:
    data = event.data
    run.state = _RUN_STATES[data["dest"]]
    trigger = data["trigger"]
    if trigger == "resume":
        run.closed = False
        if data["source"] == "failed":
            run.acknowledged = frozenset()  # what was accepted ended that run; this one has to know
        if not data.get("keep_wish"):
            run.wish, run.paused = "none", False
    elif trigger == "hold" and data.get("paused"):
        run.wish, run.paused = "none", True


def _run_asked(run: Run, event: Event) -> None:
    run.wish = event.data["wish"]
    run.wish_by = event.seq
    run.acknowledged |= frozenset(event.data.get("acknowledged", ()))


def _run_closed(run: Run, event: Event) -> None:
    del event
    run.closed = True
    run.asked, run.asked_for = 0, ""  # an answer comes too late; after a resume it is asked again
    for name in list(run.questions):
        run.drop(run.questions, name)


# ── tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _task_moved(run: Run, event: Event) -> None:
    assert event.task is not None, "task_moved without a task"
    task = run.tasks[event.task]
    run.touch(task)
    old = task.state
    new = task.state = _TASK_STATES[event.data["dest"]]
    task.moved = event.seq
    if task.id in run.questions:
        run.drop(run.questions, task.id)
    run.counts[old] -= 1
    run.counts[new] += 1
    _MOVES[event.data["trigger"]](run, task, event)
    before, after = _KIND[old], _KIND[new]
    if before != after:
        _release(run, task, before, after)
    if new is TaskState.PENDING:
        run.index(task)


def _release(run: Run, task: Task, before: int, after: int) -> None:
    """Tell the dependents that *task* became done, cancelled, or open again."""
    _estimate(
        run, task, -1 if before == _OPEN else 1
    )  # one of the two is open: done and cancelled never meet
    for name, optional in run.children[task.id]:
        child = run.tasks[name]
        run.touch(child)
        _count(child, before, optional, -1)
        _count(child, after, optional, 1)
        run.index_ready(child)


def _hold(run: Run, task: Task, event: Event) -> None:
    del run, event
    task.armed = None


def _nothing(run: Run, task: Task, event: Event) -> None:
    del run, task, event


def _start(run: Run, task: Task, event: Event) -> None:
    data = event.data
    trouble = task.trouble
    if trouble is not None:
        if task.attempt and task.args_digest:
            trouble.past.setdefault(task.attempt, task.args_digest)
        if task.attempt and data["args_digest"] != task.args_digest:
            tally.new_strategy(run, trouble)
        trouble.late = None
    task.attempt, task.started = data["attempt"], event.seq
    task.tool, task.effect = data["tool"], data["effect"]
    task.args, task.args_digest, task.key = data["args"], data["args_digest"], data["key"]
    task.planned_digest = data.get("planned_digest", "")
    task.deadline_at = data["deadline_at"]
    task.armed, task.not_before, task.reason, task.used = None, 0, "", NO_USAGE
    tally.call_started(run, task, data["tool"], event.at)
    if task.effect == "read":
        task.applied = "no"
    else:
        task.applied = "maybe"
        if task.effect in WRITES:
            run.put(run.keys, task.key, "maybe")
    reserve = data.get("reserve")
    if reserve:
        task.reserved = Usage(tokens=reserve["tokens"], cost_micros=reserve["cost_micros"])
        run.account.reserved_tokens += reserve["tokens"]
        run.account.reserved_cost_micros += reserve["cost_micros"]
    run.account.tool_calls += 1
    run.put(run.running, task.id, None)
    run.wake(task.deadline_at, "deadline", task.id, task.attempt)


def _ended(run: Run, task: Task, event: Event) -> None:
    """A running call's outcome is known, or known to be unknown."""
    run.drop(run.running, task.id)
    outcome = event.data["outcome"]
    tally.call_ended(run, task, outcome, event.at)
    if task.reserved is not None:
        run.account.reserved_tokens -= task.reserved.tokens
        run.account.reserved_cost_micros -= task.reserved.cost_micros
        task.reserved = None
    usage = outcome.get("usage")
    if usage is not None:
        _spend(run, usage)
    if (run.metered or run.has_planner) and (usage is not None or task.used is not NO_USAGE):
        _measure(run, task, usage or {})  # a planner is told what calls cost
    if task.effect != "read":
        applied = "yes" if event.data["trigger"] == "succeed" else outcome.get("applied", "maybe")
        _prove(run, task, applied)


def _spend(run: Run, usage: dict[str, Any]) -> None:
    run.account.tokens += usage.get("tokens", 0)
    run.account.cost_micros += usage.get("cost_micros", 0)


def _measure(run: Run, task: Task, usage: dict[str, Any]) -> None:
    """Count what an ended call has used in all: on the way, and at its end."""
    tool = task.tool or ""
    calls, tokens, cost = run.account.by_tool.get(tool, (0, 0, 0))
    run.account.by_tool[tool] = (
        calls + 1,
        tokens + task.used.tokens + usage.get("tokens", 0),
        cost + task.used.cost_micros + usage.get("cost_micros", 0),
    )


def _prove(run: Run, task: Task, applied: str) -> None:
    """What the last attempt says of its effect; one that a late reply proved before stays proved."""
    landed = task.trouble is not None and task.trouble.landed
    task.applied = "yes" if landed and applied == "no" else applied
    if task.effect in WRITES and run.keys[task.key] != "yes":
        run.put(run.keys, task.key, applied)


def _succeed(run: Run, task: Task, event: Event) -> None:
    _ended(run, task, event)
    _keep_result(run, task, event.data["outcome"].get("value"), event.data["result_digest"])


def _keep_result(run: Run, task: Task, value: Any, result_digest: str) -> None:
    task.result, task.result_digest = value, result_digest
    task.was = ""
    task.reason, task.args = "", None  # nothing needs the arguments of a done call; their digest stays
    run.replans_in_a_row = 0


def _fail(run: Run, task: Task, event: Event) -> None:
    _ended(run, task, event)
    _note_failure(task, event.data["outcome"].get("error") or {}, event.data.get("reason", ""))
    if task.effect == "read" and event.data.get("signal") in REPEATABLE:
        tally.follow(run, task, event)


def _note_failure(task: Task, error: dict[str, Any], reason: str) -> None:
    trouble = trouble_of(task)
    mark = error.get("fingerprint", "")
    trouble.streak = trouble.streak + 1 if mark and mark == trouble.fingerprint else 1
    trouble.fingerprint = mark
    trouble.error = error
    task.reason = reason or error.get("message", "")


def _lose(run: Run, task: Task, event: Event) -> None:
    _ended(run, task, event)
    run.acknowledged -= {task.id}  # an earlier unknown result was accepted, not this one
    task.reason = event.data.get("reason", "")
    trouble_of(task).error = event.data["outcome"].get("error")


def _refuse(run: Run, task: Task, event: Event) -> None:
    del run
    if event.data.get("signal") != "blocked_dependency":  # an approval waits for the tool along with the call
        task.armed = None
    _note_failure(task, event.data.get("error") or {}, event.data["reason"])


def _expire(run: Run, task: Task, event: Event) -> None:
    del run
    task.armed = None
    _note_failure(task, {}, event.data["reason"])


def _answer(run: Run, task: Task, event: Event) -> None:
    _keep_result(run, task, event.data["result"], event.data["result_digest"])


def _settle(run: Run, task: Task, event: Event) -> None:
    _unprobe(run, task)
    task.not_before, task.armed = 0, None
    if "call" in event.data:
        _take_over(task, event.data["call"])
    if task.effect != "read":
        _prove(run, task, "yes")
    _keep_result(run, task, event.data["result"], event.data["result_digest"])


def _take_over(task: Task, call: dict[str, Any]) -> None:
    """The task stands for a call that another one made: what that rested on, this rests on."""
    if task.attempt and task.args_digest:
        trouble_of(task).past.setdefault(task.attempt, task.args_digest)
    task.tool, task.effect = call["tool"], call["effect"]
    task.args_digest, task.planned_digest, task.key = call["args_digest"], "", call["key"]


def _clear(run: Run, task: Task, event: Event) -> None:
    _unprobe(run, task)
    _prove(run, task, event.data["applied"])
    _note_failure(task, event.data.get("error") or {}, event.data.get("reason", ""))


def _unprobe(run: Run, task: Task) -> None:
    if task.probing:
        task.probing = False
        run.probing -= 1
    task.probe_at = 0


def _rearm(run: Run, task: Task, at: int) -> None:
    task.probe_at = at
    run.wake(at, "probe", task.id, task.attempt)


def _retry(run: Run, task: Task, event: Event) -> None:
    task.not_before = event.at + event.data["delay_ms"] * 1000
    if event.data.get("series"):
        _new_series(task)
        if event.actor is not None and event.actor["kind"] == "human":
            run.drop(
                run.trails, task.args_digest
            )  # who lets it try again has a reason to expect another answer


def _new_series(task: Task) -> None:
    """A new attempt series: counters start again; which digests earlier attempts had stays known."""
    if task.trouble is not None:
        task.trouble = Trouble(past=task.trouble.past, landed=task.trouble.landed)


def _invalidate(run: Run, task: Task, event: Event) -> None:
    del run, event
    task.was = task.result_digest or "nothing"  # to those that did without, its first result is another one
    task.result, task.result_digest, task.reason, task.reason_code, task.origin = None, "", "", "", ""
    task.not_before, task.armed = 0, None
    _new_series(task)


def _reject(run: Run, task: Task, event: Event) -> None:
    del run
    task.armed = None
    task.reason, task.reason_code = event.data["reason"], "rejected"


def _cancel(run: Run, task: Task, event: Event) -> None:
    if task.id in run.running:
        run.drop(run.running, task.id)
        if task.reserved is not None:
            run.account.reserved_tokens -= task.reserved.tokens
            run.account.reserved_cost_micros -= task.reserved.cost_micros
            task.reserved = None
        tally.call_left(run, task)
    task.armed, task.not_before = None, 0
    task.reason, task.reason_code = event.data["reason"], event.data["code"]
    task.origin = event.data.get("origin", "")


_MOVES: Final[dict[str, Callable[[Run, Task, Event], None]]] = {
    "hold": _hold,
    "approve": _nothing,
    "answer": _answer,
    "reject": _reject,
    "expire": _expire,
    "start": _start,
    "refuse": _refuse,
    "succeed": _succeed,
    "fail": _fail,
    "lose": _lose,
    "settle": _settle,
    "clear": _clear,
    "retry": _retry,
    "invalidate": _invalidate,
    "cancel": _cancel,
}


# ── decisions, questions, evidence ────────────────────────────────────────────────────────────────────────────


def _decided(run: Run, event: Event) -> None:
    data = event.data
    decide = data["decide"]
    if decide == "accept":
        return
    spending = run.rules.decisions.get(decide)
    task = run.tasks[event.task] if event.task is not None else None
    if task is not None:
        run.touch(task)
        trouble = trouble_of(task)
        trouble.seen[data["signal"]] = trouble.seen.get(data["signal"], 0) + 1
        trouble.signal = data["signal"]
    else:
        run.put(run.seen, data["signal"], run.seen.get(data["signal"], 0) + 1)
    if spending is not None:
        if spending.spend is not None:
            _counter(run, task, spending.spend, 1)
        for name in spending.refill:
            _counter(run, task, name, 0)
    if decide == "reconcile" and task is not None:
        _rearm(run, task, data["params"]["probe_at"])
    if "about" in data and not decide.startswith("replan"):
        run.drop(run.replans, data["about"])
    if data["signal"] in ("budget_low", "budget_exhausted"):
        run.account.band = data["signal"].removeprefix("budget_")
    elif data["signal"] == "constraint_violated":
        run.broken |= frozenset(data.get("constraints", ()))
    elif data["signal"] == "inefficient" and "tool" in data:
        run.put(run.inefficient, data["tool"], None)


def _counter(run: Run, task: Task | None, name: str, by: int) -> None:
    """Spend one of a counter, or with ``by=0`` refill it."""
    if task is None or run.rules.scope_of(name) == "run":
        run.put(run.spent, name, run.spent.get(name, 0) + 1 if by else 0)
    else:
        spent = trouble_of(task).spent
        spent[name] = spent.get(name, 0) + 1 if by else 0


def _approval_requested(run: Run, event: Event) -> None:
    data = event.data
    name = event.task or RUN
    run.put(
        run.questions,
        name,
        Question(
            task=name,
            kind=data["kind"],
            digest=data["args_digest"],
            args=data.get("args"),
            answers=tuple(data["answers"]),
            say=data.get("say", ""),
            seq=event.seq,
            expires_at=data.get("expires_at"),
            approvers=data.get("approvers", 1),
            base_digest=data.get("base_digest"),
            base_args=data.get("base_args"),
        ),
    )
    if data.get("expires_at") is not None:
        run.wake(data["expires_at"], "expiry", name, event.seq)


def _approval_answered(run: Run, event: Event) -> None:
    data = event.data
    name = event.task or RUN
    question = run.questions.get(name)
    run.put(run.answered, name, (data["verdict"], data["by"]))
    if data["verdict"] == "approved" and question is not None:
        by = (*question.approved_by, data["by"])
        if len(by) < question.approvers:
            run.put(run.questions, name, attrs.evolve(question, approved_by=by))
            return
        task = run.tasks[name]
        run.touch(task)
        task.armed = Armed(
            seq=event.seq,
            digest=question.digest,
            args=question.args or {},
            base_digest=question.base_digest,
            expires_at=question.expires_at,
        )
    if "probe_at" in data:
        task = run.tasks[name]
        run.touch(task)
        _rearm(run, task, data["probe_at"])
    if data["verdict"] not in ("approved", "edited"):
        run.drop(run.questions, name)


def _probe_sent(run: Run, event: Event) -> None:
    assert event.task is not None, "probe_sent without a task"
    task = run.tasks[event.task]
    run.touch(task)
    trouble_of(task).probes += 1
    if not task.probing:
        task.probing = True
        run.probing += 1
    run.account.tool_calls += 1


def _reconciled(run: Run, event: Event) -> None:
    assert event.task is not None, "reconciled without a task"
    task = run.tasks[event.task]
    run.touch(task)
    _unprobe(run, task)
    if "probe_at" in event.data:
        _rearm(run, task, event.data["probe_at"])
    if "usage" in event.data:
        _spend(run, event.data["usage"])


def _progressed(run: Run, event: Event) -> None:
    assert event.task is not None, "progressed without a task"
    task = run.tasks[event.task]
    run.touch(task)
    trouble = trouble_of(task)
    trouble.stall = 0 if event.data["advanced"] else trouble.stall + 1
    if "usage" in event.data:
        usage = event.data["usage"]
        _spend(run, usage)
        task.used = Usage(
            tokens=task.used.tokens + usage["tokens"],
            cost_micros=task.used.cost_micros + usage["cost_micros"],
        )


def _late_result(run: Run, event: Event) -> None:
    outcome = event.data["outcome"]
    if "usage" in outcome:
        _spend(run, outcome["usage"])
    assert event.task is not None, "late_result without a task"
    task = run.tasks[event.task]
    run.touch(task)
    attempt, value = event.data["attempt"], outcome["kind"] == "value"
    digest = task.digest_of(attempt)
    if task.effect != "read" and (value or outcome.get("applied") == "yes"):
        _land(run, task, digest)
    earlier = attempt != task.attempt
    if task.state is TaskState.RUNNING and value and earlier and digest == task.args_digest:
        trouble_of(task).late = (event.seq, outcome["value"])


def _land(run: Run, task: Task, args_digest: str | None) -> None:
    """A late reply proves an effect: nothing makes it undone, and nothing may repeat it."""
    trouble_of(task).landed = True
    if task.state not in (TaskState.RUNNING, TaskState.UNKNOWN):
        task.applied = "yes"
    if task.effect in WRITES and args_digest is not None:
        run.put(run.keys, run.key_of(task, args_digest), "yes")


def _input_changed(run: Run, event: Event) -> None:
    run.changed_at = event.seq
    run.inputs = {**run.inputs, **event.data.get("inputs", {})}
    run.constraint_values = {**run.constraint_values, **event.data.get("constraints", {})}
    run.broken -= frozenset(event.data.get("constraints", {}))


def _budget_changed(run: Run, event: Event) -> None:
    run.budgets = {**run.budgets, **event.data["budgets"]}
    run.metered = True
    run.account.band = "ok"


def _replan_requested(run: Run, event: Event) -> None:
    data = event.data
    run.replan_scope = data["scope"]
    name = event.task or RUN
    earlier = run.replans.get(name)
    request = Replanning(
        seq=event.seq,
        task=event.task,
        scope=data["scope"],
        signal=earlier.signal if earlier is not None else data["trigger"],
        why=earlier.why if earlier is not None else data["why"],
        not_before=data["not_before"],
        refusals=earlier.refusals if earlier is not None else (),
    )
    run.put(run.replans, name, request)
    run.strategies |= {data["strategy"]}
    run.wake(request.not_before, "cooldown", name, event.seq)


def _planner_asked(run: Run, event: Event) -> None:
    run.account.planner_calls += 1
    run.asked, run.asked_for = event.seq, event.task or RUN


def _replan_refused(run: Run, event: Event) -> None:
    data = event.data
    name = event.task or RUN
    request = run.replans[name]
    if data.get("ended"):
        run.drop(run.replans, name)
    else:
        told = f"{data['gate']}: {data['why']}"
        run.put(run.replans, name, attrs.evolve(request, refusals=(*request.refusals, told)))
    run.asked, run.asked_for = 0, ""
    if "strategy" in data:
        run.strategies |= {data["strategy"]}
    if "usage" in data:
        _spend(run, data["usage"])


def _note_added(run: Run, event: Event) -> None:
    """Words change nothing; a tolerated constraint is not noted twice."""
    run.broken |= frozenset(event.data.get("constraints", ()))


def _note(run: Run, event: Event) -> None:
    """A record that changes nothing."""
    del run, event


_FOLDS: Final[dict[str, Callable[[Run, Event], None]]] = {
    "approval_answered": _approval_answered,
    "approval_requested": _approval_requested,
    "budget_changed": _budget_changed,
    "decided": _decided,
    "input_changed": _input_changed,
    "late_result": _late_result,
    "move_refused": _note,
    "note_added": _note_added,
    "owner_changed": _owner_changed,
    "plan_adopted": _plan_adopted,
    "probe_sent": _probe_sent,
    "progressed": _progressed,
    "reconciled": _reconciled,
    "planner_asked": _planner_asked,
    "replan_refused": _replan_refused,
    "replan_requested": _replan_requested,
    "run_asked": _run_asked,
    "run_closed": _run_closed,
    "run_created": _run_created,
    "run_moved": _run_moved,
    "task_moved": _task_moved,
}
