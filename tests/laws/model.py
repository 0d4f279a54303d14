"""The two tables with their guards as one transition system, beside a world that counts effects.

Breadth first, over a run and up to four tasks. Tasks of one kind are alike, so states that differ only in their
order are one state. The tables, the guards, the faults of a run and the law of the door are parameters: a check that
holds only because of them must fail without them.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from fsm_agent.core import machine
from fsm_agent.core.machine import RUN_TABLE, TASK_TABLE, WRITES

P, R, A, U, D, F, C = machine.STATES
FINAL = (D, F, C)
WISHES = ("none", "pause", "abort", "cancel")


class T(NamedTuple):
    """A task and what the world knows of it.

    Attributes:
        effect: Its class.
        state: As the table says.
        applied: What the engine has been told about its effect.
        effects: How often it really took effect, at most 2.
        out: A call of it may still take effect.
        armed: It is approved.
        accepted: A person accepted that its result is unknown.
        denied: It was cancelled for a reason that keeps the run from being done.
    """

    effect: str
    state: str = P
    applied: str = "no"
    effects: int = 0
    out: bool = False
    armed: bool = False
    accepted: bool = False
    denied: bool = False


def _plain(t: T) -> T:
    """Forget what no longer makes a difference, so that fewer states are told apart."""
    return t._replace(
        armed=t.armed and t.state == P and t.effect == "irreversible",
        accepted=t.accepted and t.state == U,
        denied=t.denied and t.state == C,
        out=t.out and not (t.state in (D, C) and t.applied != "maybe"),
    )


class World(NamedTuple):
    """A state of the whole."""

    run: str
    wish: str
    tasks: tuple[int, ...]
    """Numbers of tasks, sorted: :meth:`Model.task` gives the task of a number."""


Guards = Mapping[str, Callable[[Mapping[str, Any], str, str], str]]


def door(task: T) -> bool:
    """The law of the door: a write whose effect is or may be there is not sent, and what needs a yes has one."""
    if task.effect in WRITES and task.applied != "no":
        return False
    return task.effect != "irreversible" or task.armed


class Model:
    """The transition system.

    Args:
        guards: Of tasks.
        fault: Of the run.
        law: Of the door.
    """

    def __init__(
        self,
        *,
        guards: Guards = machine.GUARDS,
        fault: Callable[..., str] = machine.run_fault,
        law: Callable[[T], bool] = door,
    ) -> None:
        self._guards = guards
        self._fault = fault
        self._law = law
        self._cache: dict[tuple[str, str, int], tuple[int, ...]] = {}
        self._counts: dict[tuple[int, ...], dict[str, int]] = {}
        self._numbers: dict[T, int] = {}
        self._tasks: list[T] = []

    def number(self, task: T) -> int:
        """Return the number of a task: comparing numbers is what makes the check quick."""
        if task not in self._numbers:
            self._numbers[task] = len(self._tasks)
            self._tasks.append(task)
        return self._numbers[task]

    def task(self, number: int) -> T:
        """Return the task of a number."""
        return self._tasks[number]

    # ── one task ──────────────────────────────────────────────────────────────────────────────────────────────

    def moves(self, run: str, wish: str, number: int) -> tuple[int, ...]:
        """Return what can become of a task while the run is in this state."""
        key = (run, wish, number)
        if key not in self._cache:
            after = (self.number(_plain(t)) for t in self._moves(run, wish, self.task(number)))
            self._cache[key] = tuple(dict.fromkeys(n for n in after if n != number))
        return self._cache[key]

    def _moves(self, run: str, wish: str, t: T) -> Iterator[T]:
        yield from self._world(run, t)
        if t.state == U and not t.accepted:
            yield t._replace(accepted=True)
        for trigger, data, applied, after in self._evidence(run, wish, t):
            dest = TASK_TABLE.get((t.state, trigger))
            if dest is None or self._guards[trigger]({**data, "source": t.state}, t.effect, applied):
                continue
            yield after._replace(state=dest)

    @staticmethod
    def _world(run: str, t: T) -> Iterator[T]:
        """The world acts by itself: a call takes effect, or comes to nothing."""
        if t.out and t.state in (R, U):
            count = min(2, t.effects + (0 if t.effect == "idempotent" and t.effects else 1))
            yield t._replace(effects=count, out=False)
            if t.state == U:
                yield t._replace(out=False)
        if t.out and t.state in (P, A, F) and run not in (D, C):  # lands after all, and its reply with it
            count = 1 if t.effect == "idempotent" else min(2, t.effects + 1)
            yield t._replace(effects=count, out=False, applied="yes")

    def _evidence(self, run: str, wish: str, t: T) -> Iterator[tuple[str, dict[str, Any], str, T]]:
        """Every trigger with evidence that an honest world can give: (trigger, data, applied, the task after)."""
        free = run == R and wish == "none"
        alive = run not in FINAL
        because = {"reason": "r"}
        if free:
            intent = {"tool": "t", "args_digest": "d", "key": "k", "deadline_at": 1, "effect": t.effect}
            if self._law(t):
                sent = t.effect != "read"
                yield (
                    "start",
                    intent,
                    t.applied,
                    t._replace(out=sent, armed=False, applied="maybe" if sent else "no"),
                )
            yield "hold", {}, t.applied, t._replace(armed=False)
            yield "refuse", because, t.applied, t._replace(armed=False)
            yield "cancel", because, t.applied, t._replace(armed=False)
        if alive:
            yield "approve", {}, t.applied, t._replace(armed=True)
            yield "reject", because, t.applied, t._replace(denied=True)
            yield "expire", because, t.applied, t
            yield "retry", {"delay_ms": 1}, t.applied, t
            if not t.denied:
                yield (
                    "invalidate",
                    because,
                    t.applied,
                    t._replace(effects=0 if t.effect == "read" else t.effects),
                )
        if wish == "cancel" or (wish == "abort" and t.state == R):
            yield "cancel", because, t.applied, t._replace(armed=False, denied=True)
        if t.state == R:
            yield from self._ends(t)
        if t.state in (U, F, P, A):
            proof = {"evidence": {"words": "w"}}
            known = t._replace(accepted=False, armed=False)
            if t.effects or t.effect == "read":
                yield "settle", proof, "yes", known._replace(applied="yes" if t.effect != "read" else "no")
            if t.effects:
                yield "clear", proof, "yes", known._replace(applied="yes")
            if not t.effects:
                yield "clear", proof, "no", known._replace(applied="no")
            yield "clear", proof, "maybe", known

    @staticmethod
    def _ends(t: T) -> Iterator[tuple[str, dict[str, Any], str, T]]:
        """A call ends in time, is given up, or is lost with its owner."""
        there = "yes" if t.effects else "no"
        if t.effect == "read":
            yield "succeed", {"outcome": {"kind": "value"}}, "no", t
            yield "fail", {"outcome": {"kind": "lost"}}, "no", t
            yield "lose", {"outcome": {"kind": "lost"}}, "maybe", t
            return
        if t.effects:
            yield "succeed", {"outcome": {"kind": "value"}}, "yes", t._replace(applied="yes", out=False)
        yield "fail", {"outcome": {"kind": "error"}}, there, t._replace(applied=there, out=False)
        for kind in ("error", "timeout", "lost"):
            yield "fail", {"outcome": {"kind": kind}}, "maybe", t._replace(applied="maybe")
            yield "lose", {"outcome": {"kind": kind}}, "maybe", t._replace(applied="maybe")

    # ── the whole ─────────────────────────────────────────────────────────────────────────────────────────────

    def successors(self, w: World) -> Iterator[World]:
        """Return every state that can follow."""
        for index, task in enumerate(w.tasks):
            if index and task == w.tasks[index - 1]:
                continue  # its twin has been moved
            rest = w.tasks[:index] + w.tasks[index + 1 :]
            for after in self.moves(w.run, w.wish, task):
                yield World(w.run, w.wish, tuple(sorted((*rest, after))))
        yield from self._people(w)
        for trigger in ("start", "hold", "lose", "resume", "succeed", "abort", "cancel"):
            dest = RUN_TABLE.get((w.run, trigger))
            if dest is not None and self._wanted(w, trigger) and not self._fault(trigger, **self._tally(w)):
                wish = "none" if trigger == "resume" and w.run == F else w.wish
                yield World(dest, wish, w.tasks)

    @staticmethod
    def _people(w: World) -> Iterator[World]:
        """A person wishes for more, or takes a pause back."""
        rank = WISHES.index(w.wish)
        if w.run not in FINAL:
            for stronger in WISHES[rank + 1 :]:
                yield w._replace(wish=stronger)
            if w.wish == "pause":
                yield w._replace(wish="none")
        elif w.run == F:
            yield w._replace(wish="cancel")

    def _wanted(self, w: World, trigger: str) -> bool:
        states = {self.task(n).state for n in w.tasks}
        over = states <= {D, C}
        match trigger:
            case "hold":
                return w.wish == "pause" or bool(states & {A, F})
            case "lose":
                return U in states
            case "resume":
                return w.run != F or w.wish != "cancel"
            case "succeed":
                return w.wish == "none" and over
            case "abort":
                return w.wish == "abort"
            case "cancel":
                return w.wish == "cancel" or (over and any(self.task(n).denied for n in w.tasks))
        return True

    def _tally(self, w: World) -> dict[str, int]:
        if w.tasks not in self._counts:
            tasks = [self.task(n) for n in w.tasks]
            self._counts[w.tasks] = {
                "running": sum(t.state == R for t in tasks),
                "unacknowledged": sum(t.state == U and not t.accepted for t in tasks),
                "unfinished": sum(t.state not in (D, C) for t in tasks),
                "asked": sum(t.state == A for t in tasks),
                "denied": sum(t.state == C and t.denied for t in tasks),
            }
        return self._counts[w.tasks]

    def explore(self, *effects: str) -> dict[World, list[World]]:
        """Return every state that can be reached, with the states that it can come from."""
        first = World(P, "none", tuple(sorted(self.number(T(e)) for e in effects)))
        before: dict[World, list[World]] = {first: []}
        todo = deque([first])
        while todo:
            here = todo.popleft()
            for there in self.successors(here):
                if there not in before:
                    before[there] = []
                    todo.append(there)
                before[there].append(here)
        return before


def faults(model: Model, *effects: str) -> list[str]:
    """Return which of the promises are broken, each with the first state that breaks it."""
    before = model.explore(*effects)
    found: dict[str, World] = {}
    for w in before:
        for fault in _broken(w, [model.task(n) for n in w.tasks]):
            found.setdefault(fault, w)
    ends = [w for w in before if w.run in FINAL]
    reaching, todo = set(ends), deque(ends)
    while todo:
        for earlier in before[todo.popleft()]:
            if earlier not in reaching:
                reaching.add(earlier)
                todo.append(earlier)
    if stuck := next((w for w in before if w not in reaching), None):
        found["from here no end can be reached"] = stuck
    return [f"{fault}: {w.run} {w.wish} {[model.task(n) for n in w.tasks]}" for fault, w in found.items()]


def _broken(w: World, tasks: list[T]) -> Iterator[str]:
    for t in tasks:
        if t.effects > 1:
            yield "a second effect"
        if t.state == D and t.effect != "read" and not t.effects:
            yield "done without an effect"
        if w.run in FINAL and t.state == R:
            yield "an end with a task running"
        if w.run in FINAL and t.state == U and not t.accepted:
            yield "an end with an unknown write that nobody accepted"
        if w.run in FINAL and t.out and t.applied == "maybe" and t.state != U:
            yield "an end with a call out that nobody knows of"
        if t.state in (F, C, P, A) and t.effect in WRITES and t.applied == "maybe":
            yield "a write that may be there is taken for one that is not"
    if w.run == D and any(t.state not in (D, C) for t in tasks):
        yield "done with work left"
