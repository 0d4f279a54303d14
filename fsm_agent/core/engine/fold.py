"""``apply``: the only code that changes a run's state, live and replayed alike.

It trusts its events: whoever makes one has checked it, and whoever audits a log checks it again. One function per
event type; what an event means for the state is written nowhere else.
"""

from collections.abc import Callable
from typing import Any, Final

import attrs

from fsm_agent.core.engine import expansion, moved, tally
from fsm_agent.core.engine.records import RUN, Armed, Question, Replanning, Task, trouble_of
from fsm_agent.core.engine.state import Run
from fsm_agent.core.events import Event
from fsm_agent.core.inputs import Usage
from fsm_agent.core.machine import WRITES, RunState, TaskState
from fsm_agent.core.plans import known
from fsm_agent.core.plans.plan import Plan
from fsm_agent.core.replanning import repairs
from fsm_agent.core.rules import table as rules
from fsm_agent.core.tools import ToolSpec

_RUN_STATES: Final = {s.value: s for s in RunState}
_RUNNING: Final = RunState.RUNNING


def apply(run: Run, event: Event) -> None:
    """Change *run* as *event* says.

    Args:
        run: The state before; changed in place.
        event: The next event of the run's log (seq one higher than ``run.seq``), large values put back.
    """
    at = event.at
    if run.state is _RUNNING:
        run.account.active_us += at - run.at
    run.seq = event.seq
    run.at = at
    _FOLDS[event.type](run, event)


# ── the run and its plan ──────────────────────────────────────────────────────────────────────────────────────


def _run_created(run: Run, event: Event) -> None:
    data = event.data
    run.table = rules.from_canonical(data["rules"])
    run.root = run.signed_as = data.get("root", "")
    run.inputs = dict(data["inputs"])
    _declare_tools(run, data)
    run.repairs = repairs.from_log(data.get("repairs", ()))
    run.unreviewed = data.get("review", False)
    run.epoch, run.owners = 1, ((event.seq, str(data["owner"])),)


def _declare_tools(run: Run, data: dict[str, Any]) -> None:
    run.tools = {t["name"]: ToolSpec.from_data(t) for t in data["tools"]}
    run.default_tool = data.get("default_tool")
    run.has_planner = data.get("has_planner", False)


def _owner_changed(run: Run, event: Event) -> None:
    run.epoch, run.owners = event.data["epoch"], (*run.owners, (event.seq, str(event.data["owner"])))
    run.asked, run.asked_for = 0, ""  # whoever was asked does not know this owner; it asks again
    if "tools" in event.data:
        before = run.tools
        _declare_tools(run, event.data)
        for name, spec in run.tools.items():
            if name in before and before[name].schema_digest != spec.schema_digest:
                run.put(run.retooled, name, event.seq)


def _run_forked(run: Run, event: Event) -> None:
    """From here on it is a run of its own: what people approved is asked anew, what the family did is never done again."""
    data = event.data
    run.signed_as, run.epoch = data["run"], data["epoch"]
    run.asked, run.asked_for = 0, ""  # whoever was asked answers another run
    if run.state is RunState.RUNNING:
        run.account.active_us -= data["idle_us"]  # between the cut and the fork nobody drove it
    for task in run.tasks.values():
        if task.armed is not None:
            run.touch(task)
            task.armed = None
    for effect in data["effects"]:
        if effect["effect"] in WRITES and run.keys.get(effect["key"]) != "yes":
            run.put(run.keys, effect["key"], "yes")


def _plan_adopted(run: Run, event: Event) -> None:
    plan: Plan = known.trusted(event.data["plan"], run.plan, said=event.data["digest"])
    run.plan = plan
    run.plan_version = event.data["plan_version"]
    if "answers" in event.data:  # the first plan answers no replan
        _end_replans(run, event)
        # what was broken is looked at again: the new plan was to mend it; what is tolerated stays noted
        run.broken -= {c.key for c in plan.constraints if c.severity == "stop"}
    own = plan.budgets
    run.metered = own.tokens is not None or own.cost_micros is not None
    run.limited = run.metered or bool(run.budgets) or own.tool_calls is not None or own.active_s is not None
    run.constraint_values = {c.key: run.constraint_values.get(c.key, c.value) for c in plan.constraints}
    with known.collecting_later():
        expansion.adopt(run, plan.steps)
    if run.plan_version > 1 and event.data["origin"] != "caller":
        expansion.brought(run, (*event.data["diff"]["added"], *event.data["diff"]["changed"]))


def _end_replans(run: Run, event: Event) -> None:
    """A plan is adopted over another: it answers one replan, or all of them."""
    run.replan_scope = "none"
    run.replanned_at = event.at
    run.replans_in_a_row += 1
    answered = event.data["answers"]
    for name in [answered] if answered != RUN else list(run.replans):
        run.drop(run.replans, name)
        if name == run.asked_for:
            run.asked, run.asked_for = 0, ""
    if "usage" in event.data:
        tally.spend(run, event.data["usage"])


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
        moved.rearm(run, task, data["params"]["probe_at"])
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
    if event.task is not None:
        moved.asked(run, event)
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
            signal=data.get("signal", ""),
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
    if data["verdict"] == "approved" and name == RUN:
        run.unreviewed = False
        run.drop(run.questions, RUN)
    elif data["verdict"] == "approved" and question is not None:
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
        moved.rearm(run, task, data["probe_at"])
    if data["verdict"] not in ("approved", "edited"):
        run.drop(run.questions, name)
        moved.stands(run, event)


def _probe_sent(run: Run, event: Event) -> None:
    assert event.task is not None, "probe_sent without a task"
    task = run.tasks[event.task]
    run.touch(task)
    trouble_of(task).probes += 1
    if not task.probing:
        task.probing = True
        run.probing += 1
    tally.count_call(run, task)


def _reconciled(run: Run, event: Event) -> None:
    assert event.task is not None, "reconciled without a task"
    task = run.tasks[event.task]
    run.touch(task)
    moved.unprobe(run, task)
    if "probe_at" in event.data:
        moved.rearm(run, task, event.data["probe_at"])
    if "usage" in event.data:
        tally.spend(run, event.data["usage"], task)


def _progressed(run: Run, event: Event) -> None:
    assert event.task is not None, "progressed without a task"
    task = run.tasks[event.task]
    run.touch(task)
    trouble = trouble_of(task)
    trouble.stall = 0 if event.data["advanced"] else trouble.stall + 1
    if "usage" in event.data:
        usage = event.data["usage"]
        tally.spend(run, usage, task)
        task.used = Usage(
            tokens=task.used.tokens + usage["tokens"],
            cost_micros=task.used.cost_micros + usage["cost_micros"],
        )


def _late_result(run: Run, event: Event) -> None:
    outcome = event.data["outcome"]
    assert event.task is not None, "late_result without a task"
    task = run.tasks[event.task]
    run.touch(task)
    if "usage" in outcome:
        tally.spend(run, outcome["usage"], task)
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
    run.metered = run.limited = True
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
        tally.spend(run, data["usage"])


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
    "expanded": expansion.expanded,
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
    "run_forked": _run_forked,
    "run_moved": _run_moved,
    "task_moved": moved.task_moved,
}
