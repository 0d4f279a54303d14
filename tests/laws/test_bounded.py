"""All that can happen to two tasks, in every order, through the real core: a search over states, not over luck.

Times, seqs and digests are forgotten when states are compared; a task is started three times at most. The world is
honest, as in the chaos.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import attrs
import pytest

from fsm_agent.core.engine.decide import advance, commands
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import RefusedError
from fsm_agent.core.inputs import (
    Answer,
    Approve,
    Ask,
    Call,
    Env,
    Input,
    Outcome,
    Probe,
    Probed,
    ReconcileAs,
    Reject,
    Resume,
    RetryTask,
    Returned,
    TakeOver,
    Tick,
)
from fsm_agent.core.machine import FINAL_RUN_STATES, WRITES, TaskState
from fsm_agent.core.signals import Applied, Signal
from tests.core.kit import ANN, TOOLS, Lab, assert_indexed, assert_never_stuck

STARTS = 3
LOST = {"message": "lost", "fingerprint": "f"}


class Sent(NamedTuple):
    """A call in the world: of which attempt, whether it took effect, whether it still may, whether it has replied."""

    task: str
    attempt: int
    key: str
    effect: str
    landed: bool = False
    open: bool = True
    replied: bool = False


@attrs.define(eq=False)
class Node:
    """A run and its world at a time."""

    run: Run
    now: int
    sent: tuple[Sent, ...] = ()
    probes: tuple[str, ...] = ()


def clone(run: Run) -> Run:
    """Return an independent copy; plans, tables and questions are values and shared."""
    new = Run(run.id)
    for field in attrs.fields(Run):
        value = getattr(run, field.name)
        setattr(new, field.name, value.copy() if isinstance(value, dict | list) else value)
    new.tasks = {name: task.clone() for name, task in run.tasks.items()}
    new.account = run.account.clone()
    return new


def essence(node: Node) -> tuple[Any, ...]:
    """Return what tells this state from others."""
    run = node.run
    tasks = []
    for t in run.tasks.values():
        trouble = t.trouble
        spent = tuple(sorted(trouble.spent.items())) if trouble is not None else ()
        tasks.append(
            (
                *(t.state, t.attempt, t.applied, t.probing, bool(t.probe_at), t.armed is not None, spent),
                *(t.not_before > node.now, t.reason_code),
            )
        )
    questions = tuple(sorted((name, q.kind, q.answers) for name, q in run.questions.items()))
    sent = tuple(sorted(s._replace(key="") for s in node.sent))
    return (run.state, run.wish, run.paused, run.acknowledged, tuple(tasks), questions, sent, node.probes)


def inputs(node: Node) -> Iterator[tuple[Input, Node]]:
    """Return everything that can happen next, with the world after it."""
    run = node.run
    for index, s in enumerate(node.sent):
        rest = node.sent[:index] + node.sent[index + 1 :]
        if s.replied:
            continue
        done = s._replace(replied=True, open=False)
        if s.effect == "read" or s.landed or s.open:
            landed = s.effect != "read"
            yield (
                reply(s, Outcome(kind="value", value=1)),
                with_sent(node, rest, done._replace(landed=landed)),
            )
        if not s.landed:
            yield reply(s, failed(Applied.NO)), with_sent(node, rest, done)
        if s.effect != "read":
            yield reply(s, failed(Applied.MAYBE)), with_sent(node, rest, done)
            if s.open and not s.landed:
                yield reply(s, failed(Applied.MAYBE)), with_sent(node, rest, done._replace(landed=True))
    if (due := run.next_due()) is not None:
        yield Tick(), attrs.evolve(node, now=max(node.now, due))
    for index, name in enumerate(node.probes):
        task = run.tasks[name]
        rest_probes = node.probes[:index] + node.probes[index + 1 :]
        sent = tuple(
            s._replace(open=False) for s in node.sent
        )  # by now everything has happened or never will
        landed = any(s.landed for s in sent if s.key == task.key)
        after = attrs.evolve(node, sent=sent, probes=rest_probes)
        truth = "applied" if landed else "absent"
        for verdict in (truth, "inconclusive"):
            yield Probed(task=name, attempt=task.attempt, verdict=verdict, result=1), after
    yield TakeOver(epoch=run.epoch + 1, owner="x", tools=TOOLS), attrs.evolve(node, probes=())
    for word in words(run, node):
        yield word, node


def words(run: Run, node: Node) -> Iterator[Input]:
    """Return what a person may say, truly."""
    for name, question in run.questions.items():
        if question.kind == "approval":
            yield Approve(task=name, digest=question.digest, who=ANN)
            yield Reject(task=name, who=ANN)
        else:
            for decision in question.answers:
                if decision not in ("applied", "absent", "result", "replan"):
                    yield Answer(task=name, value={"decide": decision, "note": "so"}, who=ANN)
    unknown = tuple(t.id for t in run.tasks.values() if t.state is TaskState.UNKNOWN)
    for name in unknown:
        mine = [s for s in node.sent if s.task == name]
        if not any(s.open and not s.landed for s in mine):
            verdict = "applied" if any(s.landed for s in mine if s.key == run.tasks[name].key) else "absent"
            yield ReconcileAs(task=name, verdict=verdict, who=ANN, result=1, evidence="I looked")
    for wish in ("cancel", "abort", "pause"):
        yield Ask(wish=wish, who=ANN)
    if unknown:
        yield Ask(wish="abort", who=ANN, acknowledged=unknown)
    yield Resume(who=ANN)
    for task in run.tasks.values():
        if task.state is TaskState.FAILED:
            yield RetryTask(task=task.id, who=ANN)


def reply(s: Sent, outcome: Outcome) -> Returned:
    return Returned(task=s.task, attempt=s.attempt, outcome=outcome)


def failed(applied: Applied) -> Outcome:
    return Outcome(kind="error", signal=Signal.CONFLICT, applied=applied, error=LOST)


def with_sent(node: Node, rest: tuple[Sent, ...], one: Sent) -> Node:
    return attrs.evolve(node, sent=(*rest, one))


def after(node: Node, given: Input) -> Node | None:
    """Return the node after an input; None if it is refused."""
    run = clone(node.run)
    try:
        events = advance(run, given, Env(now_us=node.now, jitter=0.5, slots=2))
    except RefusedError:
        return None
    sent, probes = list(node.sent), list(node.probes)
    for command in commands(run, events):
        if isinstance(command, Call):
            effect = run.tools[command.tool].effect.value
            sent.append(Sent(command.task, command.attempt, command.key, effect))
        elif isinstance(command, Probe):
            probes.append(command.task)
    probes = [p for p in probes if run.tasks[p].probing]
    return Node(run, max(node.now, run.at), tuple(sent), tuple(probes))


def check(node: Node) -> None:
    """Check what is true in every state."""
    run = node.run
    assert_indexed(run)
    assert_never_stuck(run)
    for task in run.tasks.values():
        landed = [s for s in node.sent if s.task == task.id and s.landed]
        if task.effect in WRITES:
            assert len(landed) <= 1, f"a second effect of {task.id}"
        if task.state is TaskState.DONE and task.effect != "read":
            assert landed, f"{task.id} is done without an effect"


PLANS = [
    [{"id": "a", "tool": "pay"}, {"id": "b", "tool": "look", "depends_on": ["a"]}],
    [{"id": "a", "tool": "mail"}, {"id": "b", "tool": "put", "optional": True}],
    [{"id": "a", "tool": "burn"}, {"id": "b", "tool": "look", "on_failure": {"*": "abort"}}],
]
MOST = 4000


@pytest.mark.parametrize("steps", PLANS, ids=lambda steps: "+".join(s["tool"] for s in steps))
def test_every_order_of_everything_keeps_the_promises_and_leaves_a_way_to_an_end(steps):
    made = Lab(steps, params={"retries": 1, "reconciles": 1}, slots=2)
    sent = tuple(Sent(c.task, c.attempt, c.key, made.run.tools[c.tool].effect.value) for c in made.calls())
    first = Node(clone(made.run), made.run.at, sent)
    known = {essence(first): first}
    before: dict[Any, list[Any]] = {essence(first): []}
    todo, open_ends, ends = deque([essence(first)]), set(), set()
    while todo:
        here = todo.popleft()
        node = known[here]
        check(node)
        if node.run.state in FINAL_RUN_STATES:
            ends.add(here)
        if len(known) > MOST or any(t.attempt >= STARTS for t in node.run.tasks.values()):
            open_ends.add(here)
            continue
        for given, world in inputs(node):
            there = after(world, given)
            if there is None:
                continue
            name = essence(there)
            if name not in known:
                known[name] = there
                before[name] = []
                todo.append(name)
            before[name].append(here)
    reaching, todo = ends | open_ends, deque(ends | open_ends)
    while todo:
        for earlier in before[todo.popleft()]:
            if earlier not in reaching:
                reaching.add(earlier)
                todo.append(earlier)
    assert set(known) == reaching
    assert ends
