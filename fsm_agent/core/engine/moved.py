"""What a move does to a task: one function per trigger. Part of the one reducer, see :mod:`fsm_agent.core.engine.fold`."""

from collections.abc import Callable
from typing import Any, Final

from fsm_agent.core.engine import dependents, tally
from fsm_agent.core.engine.records import Task, Trouble, trouble_of
from fsm_agent.core.engine.state import Run
from fsm_agent.core.events import Event
from fsm_agent.core.inputs import NO_USAGE, Usage
from fsm_agent.core.machine import WRITES, TaskState
from fsm_agent.core.plans import members
from fsm_agent.core.signals import REPEATABLE

_TASK_STATES: Final = {s.value: s for s in TaskState}
_PENDING: Final = TaskState.PENDING


def task_moved(run: Run, event: Event) -> None:
    """Fold a ``task_moved`` event."""
    name, data, counts = event.task, event.data, run.counts
    assert name is not None, "task_moved without a task"
    task = run.tasks[name]
    if run.journal is not None:
        run.touch(task)
    if task.questioned:
        dependents.question(run, task, is_open=False)
    old = task.state
    stood = dependents.gate(task) if name in run.members else -1
    new = task.state = _TASK_STATES[data["dest"]]
    task.moved = event.seq
    if name in run.questions:
        run.drop(run.questions, name)
    counts[old] -= 1
    counts[new] += 1
    _MOVES[data["trigger"]](run, task, event)
    if task.parent or dependents.KIND[old] != dependents.KIND[new]:
        dependents.release(run, task, old)
    if stood >= 0:
        dependents.regate(run, task, stood)
    if new is _PENDING:
        run.index(task)


def _hold(run: Run, task: Task, event: Event) -> None:
    del run, event
    task.armed = None


def _nothing(run: Run, task: Task, event: Event) -> None:
    del run, task, event


def _start(run: Run, task: Task, event: Event) -> None:
    data = event.data
    trouble = task.trouble
    if trouble is not None:
        if task.attempt:
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
    if run.breakers:
        tally.call_started(run, task, data["tool"], event.at)
    if task.effect == "read":
        task.applied = "no"
    else:
        task.applied = "maybe"
        if task.effect in WRITES:
            run.put(run.keys, task.key, "maybe")
    reserve = data.get("reserve")
    if reserve:
        wanted = Usage(tokens=reserve["tokens"], cost_micros=reserve["cost_micros"])
        tally.reserve(run, task, wanted)
    tally.count_call(run, task)
    run.put(run.running, task.id, None)
    run.wake(task.deadline_at, "deadline", task.id, task.attempt)


def _ended(run: Run, task: Task, event: Event) -> None:
    """A running call's outcome is known, or known to be unknown."""
    run.drop(run.running, task.id)
    outcome = event.data["outcome"]
    if run.breakers or "signal" in outcome:
        tally.call_ended(run, task, outcome, event.at)
    if task.reserved is not None:
        tally.give_back(run, task)
    usage = outcome.get("usage")
    if usage is not None:
        tally.spend(run, usage, task)
    if (run.metered or run.has_planner) and (usage is not None or task.used is not NO_USAGE):
        _measure(run, task, usage or {})  # a planner is told what calls cost
    if task.effect != "read":
        applied = "yes" if event.data["trigger"] == "succeed" else outcome.get("applied", "maybe")
        _prove(run, task, applied)


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
    _keep_result(run, task, event.data["outcome"].get("value"))


def _keep_result(run: Run, task: Task, value: Any) -> None:
    task.result, task.settled = value, True
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
    _keep_result(run, task, event.data["result"])


def _settle(run: Run, task: Task, event: Event) -> None:
    unprobe(run, task)
    task.not_before, task.armed = 0, None
    if "call" in event.data:
        _take_over(task, event.data["call"])
    if task.effect != "read":
        _prove(run, task, "yes")
    _keep_result(run, task, event.data["result"])


def _take_over(task: Task, call: dict[str, Any]) -> None:
    """The task stands for a call that another one made: what that rested on, this rests on."""
    if task.attempt:
        trouble_of(task).past.setdefault(task.attempt, task.args_digest)
    task.tool, task.effect = call["tool"], call["effect"]
    task.args_digest, task.planned_digest, task.key = call["args_digest"], "", call["key"]


def _clear(run: Run, task: Task, event: Event) -> None:
    unprobe(run, task)
    _prove(run, task, event.data["applied"])
    _note_failure(task, event.data.get("error") or {}, event.data.get("reason", ""))


def unprobe(run: Run, task: Task) -> None:
    """No probe of *task* is out or due any more."""
    if task.probing:
        task.probing = False
        run.probing -= 1
    task.probe_at = 0


def rearm(run: Run, task: Task, at: int) -> None:
    """The next probe of *task* is due then."""
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
    del event
    _give_up(run, task, 0)
    task.opened = 0
    task.was = task.result_digest or "nothing"  # to those that did without, its first result is another one
    task.result, task.settled, task.reason, task.reason_code, task.origin = None, False, "", "", ""
    task.not_before, task.armed = 0, None
    _new_series(task)


def _reject(run: Run, task: Task, event: Event) -> None:
    task.armed = None
    task.reason, task.reason_code = event.data["reason"], "rejected"
    _give_up(run, task, 1)


def _give_up(run: Run, task: Task, lost: int) -> None:
    """Count the record of *task* among those that its batch has given up, or no longer."""
    record = run.tasks.get(members.record_of(task.id)) if task.parent else None
    if record is None or record.given_up == lost or not record.parent:
        return
    batch = run.tasks[record.parent]
    run.touch(record)
    run.touch(batch)
    record.given_up = lost
    batch.given_up += 1 if lost else -1


def _cancel(run: Run, task: Task, event: Event) -> None:
    if task.id in run.running:
        run.drop(run.running, task.id)
        tally.give_back(run, task)
        tally.call_left(run, task)
    task.armed, task.not_before = None, 0
    task.reason, task.reason_code = event.data["reason"], event.data["code"]
    task.origin = event.data.get("origin", "")
    if task.reason_code == "collected":
        _give_up(run, task, 1)


def asked(run: Run, event: Event) -> None:
    """A person is asked about a task; what rests on one that is done waits for the answer."""
    task, data = run.tasks[event.task or ""], event.data
    run.touch(task)
    task.asked = event.seq
    if data["kind"] == "approval":
        task.shown = data["args"]
    elif task.state is TaskState.DONE:
        dependents.question(run, task, is_open=True)


def stands(run: Run, event: Event) -> None:
    """A person has answered; if what is done may stand, what rests on it goes on."""
    task = run.tasks.get(event.task or "")
    if task is None:
        return
    if task.questioned and event.data["value"].get("decide") == "keep":
        run.touch(task)
        dependents.question(run, task, is_open=False)
    if task.id in run.members:
        dependents.unsettle(run, task)


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
