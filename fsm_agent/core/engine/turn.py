"""A turn: everything that one input causes, gathered as one atomic batch.

Every event is applied as soon as it is made, so whatever is decided next sees the state that this event left.
Nothing else in the core makes events.
"""

from typing import Any, Final

from fsm_agent.core.engine.fold import apply
from fsm_agent.core.engine.records import Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.events import Event
from fsm_agent.core.inputs import Env, Person
from fsm_agent.core.machine import TASK_MOVES, TaskState, illegal, run_fault, target

_DONE: Final = TaskState.DONE.value


class Turn:
    """The batch in the making.

    Attributes:
        run: The state, changed as the turn goes on.
        env: Time, chance and free slots.
        events: What happened so far, oldest first.
        cause: Seq that the next event names as its cause; None for the input's own first event.
        newly: Tasks that have come to be done, and were not held against the plan's constraints yet.
    """

    __slots__ = ("_tx", "cause", "env", "events", "newly", "run")

    def __init__(self, run: Run, env: Env) -> None:
        """Begin a turn of *run*."""
        self.run = run
        self.env = env
        self.events: list[Event] = []
        self.cause: int | None = None
        self.newly: list[str] = []
        self._tx = [run.seq + 1, 0]

    @property
    def now(self) -> int:
        """The time that the next event will have: the clock's, but later than the last event's."""
        return max(self.env.now_us, self.run.at + 1)

    def emit(
        self, type_: str, data: dict[str, Any], task: str | None = None, actor: dict[str, Any] | None = None
    ) -> Event:
        """Make an event, apply it, and return it. Later events of the turn name it as their cause."""
        run, tx = self.run, self._tx
        seq, at, now = run.seq + 1, run.at + 1, self.env.now_us
        at = at if at > now else now  # noqa: FURB136 - this and the line below: a call takes several times as long
        event = tuple.__new__(Event, (seq, at, type_, data, task, self.cause, tx, actor))
        tx[1] += 1
        apply(run, event)
        self.events.append(event)
        self.cause = seq
        return event

    def move(
        self,
        task: Task,
        trigger: str,
        data: dict[str, Any],
        *,
        applied: str | None = None,
        effect: str | None = None,
        actor: dict[str, Any] | None = None,
    ) -> Event:
        """Move *task* by *trigger*, with its evidence.

        Args:
            task: The task.
            trigger: A trigger of the task machine.
            data: The evidence and whatever else the event records; it is the event's from now on.
            applied: What is proved about the effect by now; the task's own record if left out.
            effect: Effect class of the tool, where the task does not know it yet.
            actor: Who did it, if not the controller.

        Raises:
            IllegalTransitionError: No such edge, or the evidence forbids it; nothing is changed.
        """
        move = TASK_MOVES.get((task.state, trigger))
        if move is None:
            raise illegal("task", task.id, task.state, trigger)
        source, dest, fault_of = move
        data["trigger"], data["source"], data["dest"] = trigger, source, dest
        if "attempt" not in data:
            data["attempt"] = task.attempt
        fault = fault_of(
            data, task.effect if effect is None else effect, task.applied if applied is None else applied
        )
        if fault:
            raise illegal("task", task.id, task.state, trigger, fault)
        if dest == _DONE:
            self.newly.append(task.id)
        return self.emit("task_moved", data, task.id, actor)

    def move_run(
        self, trigger: str, reason: str, *, actor: dict[str, Any] | None = None, **more: Any
    ) -> Event:
        """Move the run by *trigger*.

        Raises:
            IllegalTransitionError: No such edge, or the tasks as they are forbid it.
        """
        run, source = self.run, self.run.state
        dest = target("run", run.id, source, trigger)
        fault = run_fault(trigger, **run.tally(trigger))
        if fault:
            raise illegal("run", run.id, source, trigger, fault)
        data = {"trigger": trigger, "source": source.value, "dest": dest, "reason": reason, **more}
        return self.emit("run_moved", data, None, actor)


def actor_of(who: Person) -> dict[str, Any]:
    """Return the envelope's actor for a person."""
    return {"kind": "human", "id": who.by}
