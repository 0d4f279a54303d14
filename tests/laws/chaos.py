"""A run at the mercy of chance: whatever can happen to it happens in any order, in a world that keeps its own books.

Who chooses is a parameter: seeds for many quick runs, Hypothesis where a failure should shrink. The world is honest:
an effect happens before its call's deadline plus the time to settle or never, a probe tells what has happened, an
error that says "no" is one. Everything else is allowed to go wrong.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs

from fsm_agent.core.errors import RefusedError
from fsm_agent.core.inputs import Call, Input, Outcome, Person, Probe, Probed, Progressed, Returned, Usage
from fsm_agent.core.machine import FINAL_RUN_STATES, WRITES, RunState, TaskState
from fsm_agent.core.signals import Applied, Signal
from tests.core.kit import ANN, BOB, SECOND, TOOLS, Lab, assert_indexed, assert_never_stuck, tool

T = TypeVar("T")
Choose = Callable[[int], int]
"""Returns a number from 0 up to, not including, its argument."""

TRICKY = (*TOOLS, tool("sign", "write", confirm=True, confirm_within_us=30 * SECOND))
PLANS: tuple[tuple[list[dict[str, Any]], dict[str, Any]], ...] = (
    ([{"id": "a", "tool": "pay"}], {}),
    ([{"id": "a", "tool": "mail"}, {"id": "b", "tool": "look", "depends_on": ["a"]}], {}),
    ([{"id": "a", "tool": "put"}, {"id": "b", "tool": "burn"}], {}),
    (
        [
            {"id": "a", "tool": "look", "args": {"w": "$inputs.w"}},
            {"id": "b", "tool": "pay", "args": {"w": "$a.n"}, "depends_on": ["a"]},
            {"id": "c", "tool": "pay", "args": {"x": 1}, "optional": True},
            {"id": "d", "tool": "look", "depends_on": ["b", {"id": "c", "optional": True}], "args": {"d": 1}},
        ],
        {"inputs": {"w": 1}},
    ),
    (
        [
            {"id": "a", "tool": "sign", "args": {"w": "$inputs.w"}},
            {"id": "b", "tool": "burn", "approvers": 2, "args": {"b": 1}},
            {"id": "c", "tool": "look", "depends_on": ["a", "b"], "join": "any"},
        ],
        {"inputs": {"w": 1}, "budgets": {"tool_calls": 12}},
    ),
    (
        [
            {"id": "a", "tool": "pay", "done_when": "n != 3"},
            {"id": "b", "tool": "mail", "args": {"x": 2}},
            {"id": "c", "description": "how many?", "confirm_within_s": 60},
            {"id": "d", "tool": "put", "depends_on": ["a", "b", "c"], "join": "first"},
        ],
        {"budgets": {"active_s": 400}},
    ),
    (
        [
            {"id": n, "tool": t, "args": {"n": n}, "estimate": {"tokens": 10}}
            for n, t in zip("abcd", ("look", "put", "look", "pay"), strict=True)
        ],
        {"budgets": {"tokens": 45}},
    ),
    (
        [
            {"id": "a", "tool": "look", "when": "$inputs.w == 1"},
            {
                "id": "b",
                "tool": "pay",
                "depends_on": [{"id": "a", "optional": True}],
                "on_failure": {"*": "abort"},
            },
        ],
        {"inputs": {"w": 1}, "constraints": [{"key": "k", "value": 3, "check": "$inputs.w < value"}]},
    ),
    (
        [
            {
                "id": "a",
                "tool": "pay",
                "args": {"x": "$item", "w": "$inputs.w"},
                "for_each": "$inputs.rows",
                "max_parallel": 2,
                "on_item_failure": "collect",
            },
            {"id": "b", "tool": "look", "args": {"all": "$a"}, "depends_on": ["a"]},
        ],
        {"inputs": {"w": 1, "rows": [1, 2, 3]}},
    ),
    (
        [
            {"id": "a", "tool": "look", "args": {"w": "$inputs.w"}},
            {
                "id": "b",
                "depends_on": ["a"],
                "when": "$inputs.w < 3",
                "budgets": {"tool_calls": 8},
                "plan": {
                    "steps": [
                        {"id": "p", "tool": "put", "args": {"w": "$a.n"}},
                        {"id": "q", "tool": "sign", "args": {"w": "$p.n"}, "depends_on": ["p"]},
                        {"id": "r", "tool": "look", "depends_on": ["q"], "optional": True},
                    ]
                },
            },
            {"id": "c", "tool": "look", "args": {"x": "${b/p.n}"}, "depends_on": ["b"]},
        ],
        {"inputs": {"w": 1}},
    ),
    (
        [
            {
                "id": "a",
                "for_each": "$inputs.rows",
                "max_parallel": 2,
                "on_item_failure": 0.5,
                "plan": {
                    "steps": [
                        {"id": "p", "tool": "look", "args": {"w": "$item"}, "done_when": "n != 3"},
                        {"id": "q", "tool": "pay", "args": {"w": "$p.n", "i": "$index"}, "depends_on": ["p"]},
                    ]
                },
            },
            {
                "id": "b",
                "tool": "mail",
                "for_each": "$a",
                "when": "$item != null",
                "args": {"x": "$index"},
                "depends_on": ["a"],
            },
        ],
        {"inputs": {"w": 1, "rows": [1, 2, 3]}, "budgets": {"tool_calls": 30}},
    ),
)


@attrs.define(eq=False)
class Out:
    """A call out in the world."""

    call: Call
    effect: str
    value: Any
    commits: bool
    commit_by: int
    committed: bool = False
    replied: bool = False


class Chaos:
    """One run and its world.

    Attributes:
        effects: How often each (tool, key) took effect.
    """

    def __init__(self, choose: Choose, *, checked: bool = False) -> None:
        self.choose = choose
        steps, more = self.pick(PLANS)
        params = {"retries": choose(3), "reconciles": choose(3), "breaker_failures": 3 + choose(3)}
        self.lab = Lab(steps, tools=TRICKY, params=params, slots=1 + choose(3), checked=checked, **more)
        self.out: list[Out] = []
        self.probes: list[Probe] = []
        self.effects: dict[tuple[str, str], int] = {}
        self.started: dict[str, int] = {}
        self.rejected: dict[str, int] = {}
        self._calm = False

    def pick(self, options: Sequence[T]) -> T:
        """Return one of *options*."""
        return options[self.choose(len(options))]

    # ── the world ─────────────────────────────────────────────────────────────────────────────────────────────

    def take(self) -> None:
        """Let the world take up what the engine has asked for."""
        lab = self.lab
        for command in lab.commands:
            if isinstance(command, Call):
                spec = next(t for t in TRICKY if t.name == command.tool)
                fails = not self._calm and self.choose(3) == 0
                out = Out(
                    call=command,
                    effect=spec.effect.value,
                    value={"n": self.choose(4)},
                    commits=spec.effect != "read" and not fails,
                    commit_by=command.deadline_at + spec.settle_us,
                )
                self.out.append(out)
                self.started[command.task] = self.started.get(command.task, 0) + 1
                if self.choose(2):
                    self.commit(out)
            elif isinstance(command, Probe):
                for out in self.out:  # the log's time may be microseconds ahead of the clock
                    if out.commit_by <= lab.run.at:
                        self.commit(out)
                self.probes.append(command)
        lab.commands.clear()

    def commit(self, out: Out) -> None:
        """Let an effect happen, if the call has one and it has not happened."""
        if out.commits and not out.committed:
            out.committed = True
            key = (out.call.tool, out.call.key)
            if out.effect != "idempotent" or key not in self.effects:
                self.effects[key] = self.effects.get(key, 0) + 1

    def move_clock(self, to: int) -> None:
        """Move the clock; effects that are due by then happen before."""
        for out in self.out:
            if out.commit_by <= to:
                self.commit(out)
        self.lab.ports.clock.move_to(to)

    def happened(self, tool_name: str, key: str) -> Out | None:
        """Return the call that took effect under *key*."""
        return next(
            (o for o in self.out if o.committed and (o.call.tool, o.call.key) == (tool_name, key)), None
        )

    # ── inputs ────────────────────────────────────────────────────────────────────────────────────────────────

    def feed(self, given: Input) -> None:
        """Feed an input; a refused one has changed nothing but the log."""
        before = self.lab.run.seq
        try:
            self.lab.feed(given)
        except RefusedError:
            types = [e.type for e in self.lab.events()[before:]] if self.lab.checked else ["move_refused"]
            assert types == ["move_refused"]
        self.take()

    def reply(self) -> None:
        """Let a call answer: in time, late, or twice."""
        waiting = [o for o in self.out if not o.replied] or self.out
        if not waiting:
            return
        out = self.pick(waiting)
        late = self.lab.ports.now_us() >= out.commit_by
        if out.commits and (out.committed or not late):
            self.commit(out)
            kind = self.choose(8) if not self._calm else 1
            outcome = self.lost(kind) if kind == 0 else Outcome(kind="value", value=out.value)
        elif out.effect == "read" and (self._calm or self.choose(2)):
            outcome = Outcome(kind="value", value=out.value)
        else:
            outcome = self.lost(self.choose(3))
        task = self.lab.task(out.call.task)
        if not out.replied and task.state is TaskState.RUNNING and task.attempt == out.call.attempt:
            outcome = outcome._replace(usage=Usage(tokens=self.choose(11)))  # never more than was estimated
        out.replied = True
        self.feed(Returned(task=out.call.task, attempt=out.call.attempt, outcome=outcome))

    def lost(self, kind: int) -> Outcome:
        """Return an error that knows nothing (0) or that knows that nothing happened."""
        signal = self.pick((Signal.TRANSIENT_ERROR, Signal.CONFLICT, Signal.UNCLASSIFIED_ERROR))
        applied = Applied.MAYBE if kind == 0 else Applied.NO
        return Outcome(
            kind="error", signal=signal, applied=applied, error={"message": "broken", "fingerprint": "f"}
        )

    def answer_probe(self) -> None:
        """Let a probe tell the truth, or say that it does not know."""
        if not self.probes:
            return
        probe = self.probes.pop(self.choose(len(self.probes)))
        found = self.happened(probe.tool, probe.key)
        if not self._calm and self.choose(4) == 0:
            verdict, value = "inconclusive", None
        elif found is not None:
            verdict, value = "applied", found.value
        elif probe.repeat:  # the repetition is itself the call
            self.effects[probe.tool, probe.key] = 1
            verdict, value = "applied", {"n": 9}
        else:
            verdict, value = "absent", None
        self.feed(Probed(task=probe.task, attempt=probe.attempt, verdict=verdict, result=value))

    def report(self) -> None:
        """Let a running call report."""
        running = list(self.lab.run.running)
        if running:
            task = self.lab.task(self.pick(running))
            self.feed(Progressed(task=task.id, attempt=task.attempt, advanced=bool(self.choose(2))))

    def wait(self) -> None:
        """Let time pass: to the next timer, a little, or a lot."""
        due = self.lab.run.next_due()
        now = self.lab.ports.now_us()
        how = self.choose(3)
        self.move_clock(due if due is not None and how else now + (how * 7 + 1) * SECOND)
        self.lab.tick()
        self.take()

    def crash(self) -> None:
        """Lose the owner. Calls that are out go on in the world; some of their answers are lost."""
        for out in self.out:
            out.replied = out.replied or bool(self.choose(2))
        self.probes.clear()
        self.lab.crash()
        self.take()

    # ── people ────────────────────────────────────────────────────────────────────────────────────────────────

    def who(self) -> Person:
        """Return somebody."""
        return self.pick((ANN, BOB))

    def say(self) -> None:
        """Let a person answer an open question, truly."""
        questions = list(self.lab.run.questions)
        if questions:
            self.answer(self.pick(questions))

    def answer(self, name: str) -> None:
        """Answer the question of *name*."""
        lab, run = self.lab, self.lab.run
        question = run.questions[name]
        if question.kind == "approval":
            self.approve_or_not(name)
        elif question.kind == "answer":
            self.heard(lambda: lab.answer(name, 5))
        elif name != "run" and run.tasks[name].state is TaskState.UNKNOWN:
            self.judge(name)
        else:
            choices = (
                [a for a in question.answers if a not in ("abort", "replan", "result")] if self._calm else []
            )
            decision = self.pick(choices or question.answers)
            if decision == "result":
                value = {"result": {"n": 7}, "evidence": "I saw it"}
                self.heard(lambda: lab.answer(name, value))
            else:
                self.heard(lambda: lab.decide(name, decision, note="so be it"))

    def approve_or_not(self, name: str) -> None:
        """Say yes mostly, else change the arguments or say no."""
        how = 5 if self._calm else self.choose(6)
        if how == 0:
            self.rejected[name] = self.started.get(name, 0)
            self.heard(lambda: self.lab.reject(name, self.who()))
        elif how == 1:
            extra = self.choose(3)
            self.heard(lambda: self.lab.edit(name, self.who(), extra=extra))
        elif how == 2:
            self.heard(lambda: self.lab.approve(name, self.who(), "0" * 64))
        else:
            who = BOB if "ann" in self.lab.question(name).approved_by else ANN
            self.heard(lambda: self.lab.approve(name, who))

    def judge(self, name: str) -> None:
        """Say what became of an unknown result, once it can no longer change."""
        task = self.lab.task(name)
        outs = [o for o in self.out if o.call.task == name]
        if any(o.commit_by > self.lab.ports.now_us() for o in outs):
            self.move_clock(max(o.commit_by for o in outs))
        found = self.happened(task.tool or "", task.key)
        if found is not None:
            self.heard(lambda: self.lab.reconcile(name, "applied", found.value))
        else:
            self.heard(lambda: self.lab.reconcile(name, "absent"))

    def heard(self, word: Callable[[], Any]) -> None:
        """Say something that may be refused."""
        try:
            word()
        except RefusedError:
            pass
        self.take()

    def wish(self) -> None:
        """Let somebody wish for something, or take it back."""
        lab = self.lab
        unknown = [t.id for t in lab.run.tasks.values() if t.state is TaskState.UNKNOWN]
        accepted = [n for n in unknown if self.choose(2)]
        match self.choose(6):
            case 0:
                self.heard(lambda: lab.ask("cancel", *accepted))
            case 1:
                self.heard(lambda: lab.ask("abort", *accepted))
            case 2:
                self.heard(lambda: lab.ask("pause"))
            case _:
                self.heard(lab.resume)

    def correct(self) -> None:
        """Let somebody correct an input, raise a budget, or retry something."""
        lab = self.lab
        match self.choose(3):
            case 0:
                value = self.choose(4)
                rows = [self.choose(3) for _ in range(self.choose(5))]
                batch = "rows" in lab.run.inputs and self.choose(2)
                self.heard(lambda: lab.set(rows=rows) if batch else lab.set(w=value))
            case 1:
                self.heard(lambda: lab.set(**{"budgets.tool_calls": 20 + self.choose(20)}))
            case _:
                name = self.pick(list(lab.run.tasks))
                self.heard(lambda: lab.retry(name))

    # ── the whole ─────────────────────────────────────────────────────────────────────────────────────────────

    def step(self) -> None:
        """Let one thing happen."""
        actions = (
            self.reply, self.reply, self.reply, self.wait, self.wait, self.answer_probe, self.answer_probe,
            self.say, self.say, self.say, self.report, self.crash, self.wish, self.correct,
        )  # fmt: skip
        self.pick(actions)()
        self.laws()

    def live(self, steps: int) -> None:
        """Live through *steps* happenings, then come to an end."""
        self.take()
        for _ in range(steps):
            self.step()
        self.end()

    def end(self) -> None:
        """From now on everybody is sensible: the run must come to an end."""
        self._calm = True
        for _ in range(400):
            run = self.lab.run
            if run.state in FINAL_RUN_STATES:
                break
            if run.paused or run.wish == "pause":
                self.heard(self.lab.resume)
            elif self.probes:
                self.answer_probe()
            elif any(not o.replied and o.call.task in run.running for o in self.out):
                self.reply()
            elif run.questions:
                self.move_clock(self.lab.ports.now_us() + 5 * SECOND)  # people take their time
                self.answer(next(iter(run.questions)))
            elif run.next_due() is not None:
                self.move_clock(run.next_due() or 0)
                self.lab.tick()
                self.take()
            else:
                self.unstick()
            self.laws()
        assert self.lab.run.state in FINAL_RUN_STATES, f"no end: {self.lab.run.state} {self.lab.states}"
        self.settle_the_books()

    def unstick(self) -> None:
        """Nothing moves and nobody is asked: only an accepted unknown result that holds a wish up may do that."""
        run = self.lab.run
        unknown = [t.id for t in run.tasks.values() if t.state is TaskState.UNKNOWN]
        assert unknown, f"the run is stuck: {run.state} {self.lab.states} wish {run.wish}"
        self.judge(unknown[0])

    def laws(self) -> None:
        """Check what is true at any moment."""
        run = self.lab.run
        for (name, key), times in self.effects.items():
            assert times == 1, f"{name} took effect {times} times under {key}"
        for name, starts in self.rejected.items():
            if run.tasks[name].reason_code == "rejected":
                assert self.started.get(name, 0) == starts, f"{name} was rejected, and started"
        used = run.account
        for amount in (used.reserved_tokens, used.reserved_cost_micros, used.active_us):
            assert amount >= 0
        limit = run.budgets.get("tool_calls") or run.plan.budgets.tool_calls
        assert limit is None or used.tool_calls <= limit
        limit = run.plan.budgets.tokens
        assert limit is None or used.tokens + used.reserved_tokens <= limit
        for task in run.tasks.values():
            kinds = {o.call.key for o in self.out if o.call.task == task.id and o.committed}
            if task.effect in WRITES:
                assert len(kinds) <= 1, f"{task.id} took effect under {len(kinds)} keys"
        assert_indexed(run)
        assert_never_stuck(run)

    def settle_the_books(self) -> None:
        """After the end: audit and fold, and nothing is done that the world does not know."""
        self.lab.check()
        run = self.lab.run
        assert run.state is not RunState.RUNNING
        for task in run.tasks.values():
            if task.state is TaskState.DONE and task.effect in WRITES and task.result != {"n": 7}:
                assert self.happened(task.tool or "", task.key), (
                    f"{task.id} is done, and the world does not know"
                )
