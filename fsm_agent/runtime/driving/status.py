"""What a run looks like from outside: values made from the state, and the command that moves it on."""

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from fsm_agent.core import canon
from fsm_agent.core.engine import budget
from fsm_agent.core.engine.records import Question, Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.events import Head
from fsm_agent.core.machine import FINAL_RUN_STATES, TaskState

SCHEMA = "fsm-agent/status@1"


@attrs.frozen(kw_only=True, repr=False)
class TaskStatus:
    """One task: its state, how often it was started, its result or the reason it has none.

    A result is copied when it is read: whoever changes it changes nothing of the run.
    """

    id: str
    state: str
    attempts: int
    _result: Any = None
    reason: str = ""

    @property
    def result(self) -> Any:
        """What it returned, or None."""
        return canon.decode(canon.encode(self._result))

    def __repr__(self) -> str:
        """As it is made: by the names that are read."""
        names = ("id", "state", "attempts", "result", "reason")
        return f"TaskStatus({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; a result only for a done task."""
        data: dict[str, Any] = {"state": self.state, "attempts": self.attempts}
        if self.state == TaskState.DONE:
            data["result"] = self.result
        if self.reason:
            data["reason"] = self.reason
        return data


@attrs.frozen(kw_only=True, repr=False)
class Status:
    """A run at one moment.

    Attributes:
        run: Its id.
        state: Its state's value.
        plan_version: From 1.
        goal: The plan's.
        tasks: By id, in plan order.
        budgets: Used and left, by name.
        questions: What waits for a person.
        head: Where the log ends.
        next: Commands that can be typed now.
        waiting: In words, what the run waits for; empty when it waits for nothing.
    """

    run: str
    state: str
    plan_version: int
    goal: str
    tasks: Mapping[str, TaskStatus]
    budgets: Mapping[str, Any]
    questions: tuple[Question, ...]
    head: Head
    next: tuple[str, ...]
    waiting: str

    @property
    def done(self) -> int:
        """How many tasks are done."""
        return sum(t.state == TaskState.DONE for t in self.tasks.values())

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form, schema ``fsm-agent/status@1``."""
        return {
            "schema": SCHEMA,
            "run": self.run,
            "state": self.state,
            "goal": self.goal,
            "plan_version": self.plan_version,
            "tasks": {name: task.to_json() for name, task in self.tasks.items()},
            "budgets": dict(self.budgets),
            "questions": [question_json(q) for q in self.questions],
            "waiting": self.waiting,
            "head": {"seq": self.head.seq, "hash": self.head.hash.hex()},
            "next": list(self.next),
        }

    def __repr__(self) -> str:
        """One line."""
        return f"<run {self.run}: {self.state}, {self.done}/{len(self.tasks)} done, head {self.head.seq}>"

    def _repr_html_(self) -> str:
        from html import escape  # only a notebook needs it

        rows = "".join(
            f"<tr><td>{escape(t.id)}</td><td>{escape(t.state)}</td><td>{t.attempts}</td><td>{escape(t.reason)}</td></tr>"
            for t in self.tasks.values()
        )
        head = "<tr><th>task</th><th>state</th><th>attempts</th><th>reason</th></tr>"
        waits = f"<p>waiting for: {escape(self.waiting)}</p>" if self.waiting else ""
        return f"<p>{escape(repr(self))}</p><table>{head}{rows}</table>{waits}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        del cycle
        printer.text(repr(self))


def shown(question: Question) -> Question:
    """Return *question* with arguments of its own: whoever changes them changes nothing of the run."""
    if question.args is None:
        return question
    return attrs.evolve(question, args=canon.snapshot(dict(question.args))[0])


def question_json(question: Question) -> dict[str, Any]:
    """Return a question's JSON form."""
    data: dict[str, Any] = {
        "task": question.task,
        "kind": question.kind,
        "digest": question.digest,
        "args": dict(question.args) if question.args is not None else None,
        "answers": list(question.answers),
        "say": question.say,
    }
    if question.expires_at is not None:
        data["expires_at"] = question.expires_at
    if question.approvers > 1:
        data["approvers"] = question.approvers
        data["approved_by"] = list(question.approved_by)
    return data


def status_of(run: Run, head: Head) -> Status:
    """Return the status of *run*, whose log ends at *head*."""
    from fsm_agent.core.audit.hints import next_commands  # a run that nobody looks at needs none

    return Status(
        run=run.id,
        state=run.state.value,
        plan_version=run.plan_version,
        goal=run.plan.goal if run.plan is not None else "",
        tasks={t.id: _task(run, t) for t in _in_order(run)},
        budgets=budgets_of(run),
        questions=tuple(map(shown, run.questions.values())),
        head=head,
        next=next_commands(run),
        waiting=waiting_for(run),
    )


def _in_order(run: Run) -> Iterable[Task]:
    """Return the tasks in plan order, parts after what they are parts of."""
    tasks = run.tasks.values()
    return sorted(tasks, key=lambda task: task.order) if run.members else tasks


def _task(run: Run, task: Task) -> TaskStatus:
    return TaskStatus(
        id=task.id,
        state=task.state.value,
        attempts=task.attempt,
        result=task.result,
        reason=task.reason or _waits(run, task),
    )


def _waits(run: Run, task: Task) -> str:
    """Say what a pending task waits for."""
    if task.state is not TaskState.PENDING:
        return ""
    if task.opened:
        parts = run.members[task.id]
        over = sum(run.tasks[name].state in (TaskState.DONE, TaskState.CANCELLED) for name in parts)
        return f"{over} of its {len(parts)} parts have ended"
    above = [task.parent] if task.parent and not run.tasks[task.parent].opened else []
    names = (*(d.id for d in task.step.depends_on), *above)
    found = (run.tasks[name] for name in names)
    open_ones = [t.id for t in found if t.state is not TaskState.DONE or t.in_doubt]
    if open_ones and not task.ready:
        return f"waiting for {', '.join(open_ones)}"
    if task.armed is not None:
        return "approved, waiting for its start"
    return ""


def budgets_of(run: Run) -> dict[str, Any]:
    """Return what was used, and what is left of each limit."""
    used = run.account
    amounts = {
        "tool_calls": used.tool_calls,
        "planner_calls": used.planner_calls,
        "tokens": used.tokens,
        "cost_micros": used.cost_micros,
        "active_s": round(used.active_us / 1_000_000, 3),
    }
    out: dict[str, Any] = {}
    for name, amount in amounts.items():
        allowed = budget.limit(run, name) if run.plan is not None else None
        out[name] = (
            {"used": amount} if allowed is None else {"used": amount, "left": round(allowed - amount, 3)}
        )
    return out


def waiting_for(run: Run) -> str:
    """Say in words what the run waits for."""
    if run.paused or run.wish == "pause":
        return "an operator paused it"
    if run.state in FINAL_RUN_STATES or not (run.questions or run.counts[TaskState.UNKNOWN]):
        return ""
    parts = [f"{q.task} ({q.kind})" for q in run.questions.values()]
    lost = [t.id for t in run.tasks.values() if t.state is TaskState.UNKNOWN and t.id not in run.questions]
    return ", ".join(parts + [f"{name} (unknown result)" for name in lost])
