"""Checks of moves (C): legal by the tables, from the state that it was in, on evidence, and brought about by what may."""

from typing import Any, Final

from fsm_agent.core import canon
from fsm_agent.core.audit import parts
from fsm_agent.core.audit.check import BATCH, Check, Said, check
from fsm_agent.core.audit.checker import VERDICT, Checker, by_person
from fsm_agent.core.engine import ending, standing
from fsm_agent.core.engine.changes import drifted, stale
from fsm_agent.core.engine.policy import STRENGTH
from fsm_agent.core.engine.records import RUN, Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.events import Event
from fsm_agent.core.machine import GUARDS, MACHINES_DIGEST, TABLES, RunState, TaskState, run_fault

_TASKS: Final = TABLES["task"]
_RUNS: Final = TABLES["run"]


# ── legal ─────────────────────────────────────────────────────────────────────────────────────────────────────


def legal_task_move(log: Checker, event: Event) -> Said:
    """A task moves along an edge of the task table."""
    del log
    data = event.data
    if _TASKS.get((data["source"], data["trigger"])) == data["dest"]:
        return ""
    return f"the task table has no edge {data['source']} × {data['trigger']} → {data['dest']}"


def task_where_it_was(log: Checker, event: Event) -> Said:
    """A task moves from the state that the events before have left it in."""
    task = log.task
    source = event.data["source"]
    return "" if source == task.state else f"{task.id} is {task.state.value}; it moves from {source}"


def legal_run_move(log: Checker, event: Event) -> Said:
    """The run moves along an edge of the run table."""
    data = event.data
    if log.run.plan is None:
        return f"the run moves by {data['trigger']} before it has a plan"
    if _RUNS.get((data["source"], data["trigger"])) == data["dest"]:
        return ""
    return f"the run table has no edge {data['source']} × {data['trigger']} → {data['dest']}"


def run_where_it_was(log: Checker, event: Event) -> Said:
    """The run moves from the state that the events before have left it in."""
    source, state = event.data["source"], log.run.state
    return "" if source == state else f"the run is {state}; it moves from {source}"


def same_machines(log: Checker, event: Event) -> Said:
    """The run was made by the very state tables that it is audited with."""
    del log
    same = event.data["machines_digest"] == MACHINES_DIGEST
    return "" if same else "the run was made by other state tables than these"


# ── evidence ──────────────────────────────────────────────────────────────────────────────────────────────────


def evidence_for_the_move(log: Checker, event: Event) -> Said:
    """A task's move carries what its edge demands: an intent, an outcome, evidence, a reason, a delay."""
    task, data = log.task, event.data
    trigger = data["trigger"]
    effect = _declared(log.run, data) if trigger == "start" else task.effect
    return GUARDS[trigger](data, effect, _stated(data) if trigger in _STATING else task.applied)


_STATING: Final = frozenset({"fail", "lose", "clear"})
"""Triggers of moves that state themselves what became of the effect."""


def _declared(run: Run, data: dict[str, Any]) -> str:
    spec = run.tools.get(data.get("tool", ""))
    return spec.effect if spec is not None else "read"


def _stated(data: dict[str, Any]) -> str:
    return str(data["applied"] if data["trigger"] == "clear" else data["outcome"].get("applied", "maybe"))


def cited_evidence(log: Checker, event: Event) -> Said:
    """A task leaves an unknown result only by an earlier event that says just this of this task, with this result."""
    task, data = log.task, event.data
    if event.data["trigger"] == "settle" and parts.ends_with_its_parts(task, data["evidence"]):
        return None
    seq = data["evidence"].get("seq")
    found = log.evidence.get(seq)
    needed = "absent" if data.get("applied") == "no" else "applied"
    mine = found is not None and (found.task == task.id or (found.says == "done" and _taken_over(log, event)))
    if found is None or not mine or found.says not in (needed, "done"):
        return f"{task.id}: event {seq!r} is no evidence that the effect is {needed}"
    if data["trigger"] == "settle" and found.result != data["result_digest"]:
        return f"{task.id}: event {seq} gives another result"
    return ""


def _taken_over(log: Checker, event: Event) -> bool:
    """Whether a task may be done by the call of another one: a plan says so, or its row was another record's."""
    if log.adopted:
        return True
    call = event.data.get("call")
    if not isinstance(call, dict):
        return False
    source = standing.elsewhere(log.run, log.task, call["args_digest"])
    return source is not None and source.key == call["key"]


def result_digest(log: Checker, event: Event) -> Said:
    """A result is the one that its digest names."""
    del log
    data = event.data
    if "result_digest" not in data:
        return None  # an outcome holds the value itself
    value = data["outcome"].get("value") if data["trigger"] == "succeed" else data["result"]
    same = canon.value_digest("result", value) == data["result_digest"]
    return "" if same else "the result is not the one that its digest names"


def attempt_of_the_call(log: Checker, event: Event) -> Said:
    """An outcome is of the attempt that was started; a start counts one more."""
    task, data = log.task, event.data
    right = task.attempt + 1 if data["trigger"] == "start" else task.attempt
    return (
        ""
        if data["attempt"] == right
        else f"{task.id}: attempt {data['attempt']} is stated; it is attempt {right}"
    )


# ── brought about ─────────────────────────────────────────────────────────────────────────────────────────────


def answered_in_its_batch(log: Checker, event: Event) -> Said:
    """A task moves by approve, answer, reject or expire only after an answer in the same batch that says so."""
    trigger, name = event.data["trigger"], event.task or ""
    if log.said.get(name) != VERDICT[trigger]:
        return f"{name} moves by {trigger}, and no answer says so"
    return ""


def everybody_approved(log: Checker, event: Event) -> Said:
    """A task is approved when everybody who must has said so."""
    del event
    task = log.task
    return "" if task.armed is not None else f"{task.id} is approved, and not everybody who must has said so"


def brought_about(log: Checker, event: Event) -> Said:
    """A retry or a cancellation has a cause: a decision, a person, a wish, a plan, or what it rests on."""
    task, data, trigger = log.task, event.data, event.data["trigger"]
    if trigger == "cancel":
        fine = _may_cancel(log, task, event)
        return "" if fine else f"{task.id} is cancelled as {data['code']}, and nothing made it so"
    if (task.id, trigger) in log.due or log.adopted or by_person(event):
        return ""
    if drifted(log.run, task) or stale(log.run, task):
        return ""
    return f"{task.id} is tried again, and neither a decision nor a person said so"


def _may_cancel(log: Checker, task: Task, event: Event) -> bool:
    code, run = event.data["code"], log.run
    origin = run.tasks.get(event.data.get("origin", ""))
    if code == "superseded" and origin is None:
        return (log.adopted and not run.plans(task)) or parts.surplus(log, task)
    if by_person(event):
        return code == "optional" and log.said.get(task.id) == "answered"
    if origin is not None:
        along = task.doomed or parts.cancelled_along(log, task, origin)
        return origin.state is TaskState.CANCELLED and origin.reason_code == code and along
    if code in ("optional", "collected"):
        right = "optional" if task.step.optional else "collected"
        return code == right and (task.id, "cancel") in log.due
    wish = {"cancelled": "cancel", "aborted": "abort"}.get(code)
    return run.wish == wish if wish is not None else code == "condition" and task.step.when is not None


def carried_out(log: Checker, event: Event) -> Said:
    """What a decision, a word or a request demands (a retry, a question, an abort, another plan) follows in its batch."""
    del event
    if not log.due:
        return ""
    return "; ".join(
        f"{what} of {name} had to follow in the batch of event {seq}, and did not"
        for (name, what), seq in log.due.items()
    )


# ── the run ───────────────────────────────────────────────────────────────────────────────────────────────────


def run_fits_its_tasks(log: Checker, event: Event) -> Said:
    """The run ends only with nothing running, nothing asked, nothing unfinished, and no unknown effect unaccepted."""
    trigger = event.data["trigger"]
    fault = run_fault(trigger, **log.run.tally(trigger))
    return f"the run moves by {trigger}: {fault}" if fault else ""


def run_moved_for_a_reason(log: Checker, event: Event) -> Said:
    """The run waits for something that is there, aborts or cancels on a wish, and is reopened by a person."""
    run, data = log.run, event.data
    trigger = data["trigger"]
    if trigger in ("abort", "cancel") and run.wish != trigger:
        ended = all(t.state in (TaskState.DONE, TaskState.CANCELLED) for t in run.tasks.values())
        if not (trigger == "cancel" and ended):
            return f"the run moves by {trigger}, and nobody wished it (wish {run.wish})"
    if trigger == "resume" and (data["source"] == "failed" or run.paused) and not by_person(event):
        return "an aborted or paused run is resumed, and no person did it"
    if trigger == "hold" and not (run.wish == "pause" if data.get("paused") else run.questions):
        return "the run waits, and neither is anybody asked nor did anybody pause it"
    if trigger == "lose" and not run.counts[TaskState.UNKNOWN]:
        return "the run waits for evidence, and no result is unknown"
    return ""


def says_what_it_waits_for(log: Checker, event: Event) -> Said:
    """A run in which nothing can move says in the same batch what it waits for, or ends."""
    del event
    run = log.run
    if run.state is not RunState.RUNNING or run.running or run.probing or run.wish != "none" or log.by_caller:
        return None
    timed = run.next_due() is not None and run.timers[0][1] in ("backoff", "probe", "cooldown")
    if timed or run.barred or ending.movable(run):
        return ""
    return "nothing can move, and the run neither says what it waits for nor ends"


def true_report(log: Checker, event: Event) -> Said:
    """The closing report says what the events say: what is done, what is not and why, what is unknown, what was used."""
    said, right = event.data["report"], ending.report(log.run)
    wrong = sorted(key for key in {*said, *right} if said.get(key) != right.get(key))
    if not wrong:
        return ""
    key = wrong[0]
    return f"the report says {key} {said.get(key)!r:.120}; by the events it is {right.get(key)!r:.120}"


def wish_in_rank(log: Checker, event: Event) -> Said:
    """A wish replaces only a weaker one; what it accepts is an unknown result."""
    held, wish = log.run.wish, event.data["wish"]
    lifted = wish == "none" and held == "pause"
    if not lifted and not (STRENGTH.index(wish) >= STRENGTH.index(held) and wish != "none"):
        return f"{wish} is wished while {held} is in force"
    for name in event.data.get("acknowledged", ()):
        if log.run.tasks[name].state is not TaskState.UNKNOWN:
            return f"{name} is acknowledged, and its result is not unknown"
    return ""


def wished_by_somebody(log: Checker, event: Event) -> Said:
    """A wish is a person's, or the abort that a decision of the same batch demands."""
    if by_person(event) or (RUN, "abort") in log.due:
        return ""
    return f"{event.data['wish']} is wished, and neither a person nor a decision said so"


MOVES: Final[tuple[Check, ...]] = (
    check("C1", legal_task_move, "task_moved"),
    check("C1", legal_run_move, "run_moved"),
    check("C2", task_where_it_was, "task_moved"),
    check("C2", run_where_it_was, "run_moved"),
    check("C3", true_report, "run_closed"),
    check("C4", evidence_for_the_move, "task_moved"),
    check("C4", cited_evidence, "task:settle", "task:clear"),
    check("C4", result_digest, "task:succeed", "task:answer", "task:settle"),
    check("B5", attempt_of_the_call, "task_moved"),
    check("B6", answered_in_its_batch, *(f"task:{trigger}" for trigger in VERDICT)),
    check("E1", everybody_approved, "task:approve"),
    check("C7", brought_about, "task:retry", "task:cancel"),
    check("B4", carried_out, *BATCH),
    check("C6", run_fits_its_tasks, "run_moved"),
    check("C6", run_moved_for_a_reason, "run_moved"),
    check("C6", says_what_it_waits_for, *BATCH),
    check("E6", wish_in_rank, "run_asked"),
    check("E6", wished_by_somebody, "run_asked"),
    check("C8", same_machines, "run_created"),
)
"""Checks of moves."""
