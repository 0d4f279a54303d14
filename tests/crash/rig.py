"""A run whose process may end at any operation of its store and at any edge of an effect, then go on, then end again.

The world keeps its own ledger of effects, which no crash touches. Time is virtual. What happens at one instant is
the same each time, so the n-th operation is the same operation in every repetition.
"""

from collections import Counter, deque
from dataclasses import dataclass, field

from fsm_agent.core.audit.audit import audit
from fsm_agent.core.errors import StoreError
from fsm_agent.core.inputs import (
    Approve,
    Call,
    Create,
    Outcome,
    Person,
    Probe,
    Probed,
    Returned,
    StopCall,
    Tick,
)
from fsm_agent.core.plans import planning
from fsm_agent.core.signals import Applied, Effect, Signal
from fsm_agent.core.tools import ToolSpec
from fsm_agent.runtime.configs import load_rules
from fsm_agent.runtime.driving.engine import Engine
from fsm_agent.runtime.proof.heads import NOWHERE
from fsm_agent.testing.clock import FakeClock
from fsm_agent.testing.faulty_store import Breakage, Crash, FaultyStore

SECOND = 1_000_000
ANN = Person(by="ann")
RULES = load_rules("default", {"reconciles": 20, "retries": 20})


def tool(name, effect, *, reconcile=False):
    return ToolSpec(
        name=name,
        effect=Effect(effect),
        reconcile=reconcile,
        timeout_us=10 * SECOND,
        settle_us=2 * SECOND,
        extra_arguments=True,
    )


TOOLS = (
    tool("look", "read"),
    tool("put", "idempotent"),
    tool("pay", "write", reconcile=True),
    tool("send", "write", reconcile=True),
)
STEPS = [
    {"id": "a", "tool": "look", "done_when": "price == 5"},
    {"id": "b", "tool": "put", "args": {"price": "$a.price"}, "depends_on": ["a"]},
    {"id": "c", "tool": "pay", "args": {"price": "$a.price"}, "depends_on": ["b"], "done_when": "n == 1"},
    {"id": "d", "tool": "send", "args": {"to": "$c.n"}, "depends_on": ["c"], "requires_confirmation": True},
]
PLAN = planning.load({"steps": STEPS})
GROWN = planning.load(
    {
        "inputs": {"list": [{"n": 1}, {"n": 2}, {"n": 3}]},
        "steps": [
            {"id": "a", "tool": "look", "done_when": "price == 5"},
            {
                "id": "b",
                "tool": "put",
                "args": {"price": "$item.n"},
                "for_each": "$inputs.list",
                "max_parallel": 2,
                "depends_on": ["a"],
            },
            {
                "id": "c",
                "plan": {
                    "steps": [
                        {"id": "x", "tool": "pay", "args": {"price": 7}, "done_when": "n == 1"},
                        {"id": "y", "tool": "look", "depends_on": ["x"]},
                    ]
                },
                "depends_on": ["b"],
            },
            {
                "id": "d",
                "tool": "send",
                "args": {"to": "$a.price"},
                "depends_on": ["c"],
                "requires_confirmation": True,
            },
        ],
    }
)
"""A batch and a nested plan, whose records and steps are tasks of their own."""


@dataclass
class World:
    """Three tools that do things, one that looks; `story` says what becomes of the first call of `pay`.

    fine: it answers · reply lost: it pays, and its answer is lost · request lost: it pays nothing, and nobody can
    know that.
    """

    story: str = "fine"
    effects: list = field(default_factory=list)
    calls: Counter = field(default_factory=Counter)
    edges: int = 0
    end_at: int | None = None

    def edge(self):
        """Something that only the outside world sees has just not happened yet, or has happened."""
        self.edges += 1
        if self.edges == self.end_at:
            raise Crash(f"the process ended at edge {self.edges} of an effect")

    def call(self, command):
        """Carry out a call; what it returns is a value, or None where nothing came back."""
        name, key = command.tool, command.key
        self.calls[name] += 1
        first = self.calls[name] == 1
        if name == "look":
            return {"price": 5}
        self.edge()
        if name == "pay" and first and self.story == "request lost":
            return None
        if not (name == "put" and (name, key) in self.effects):  # the same key is the same effect
            self.effects.append((name, key))
        self.edge()
        if name == "pay" and first and self.story == "reply lost":
            return None
        return {"n": 1}

    def probe(self, command):
        found = (command.tool, command.key) in self.effects
        return ("applied", {"n": 1}) if found else ("absent", None)


class Life:
    """One process in the life of a run: it creates the run or takes it over, and drives it to its end."""

    def __init__(self, world, clock, store, *, owner, listeners=(), heads=NOWHERE, plan=PLAN):
        self.plan = plan
        self.world, self.clock, self.store, self.owner = world, clock, store, owner
        self.listeners, self.heads = listeners, heads

    def live(self):
        """Drive the run to its end; raises what ends the process."""
        if any(info.run == "r" and info.head.seq for info in self.store.runs()):
            engine, commands = Engine.open(
                self.store, "r", self.owner, self.clock, tools=TOOLS, slots=2, force=True, heads=self.heads
            )
        else:
            engine, commands = Engine.create(
                self.store,
                create(self.owner, self.plan),
                self.clock,
                slots=2,
                force=True,
                listeners=self.listeners,
                heads=self.heads,
            )
        queue = deque(commands)
        for _ in range(400):
            if queue:
                queue.extend(engine.feed(self.answer(queue.popleft())))
            elif "d" in engine.run.questions and engine.run.questions["d"].kind == "approval":
                question = engine.run.questions["d"]
                queue.extend(engine.feed(Approve(task="d", digest=question.digest, who=ANN)))
            elif engine.final:
                engine.close()
                return engine.run
            else:
                engine.flush()
                due = engine.next_due()
                assert due is not None, f"nothing moves any more: {engine.run.state}"
                self.clock.move_to(due)
                queue.extend(engine.feed(Tick()))
        raise AssertionError("it goes on for ever")

    def answer(self, command):
        match command:
            case Call():
                return returned(command, self.world.call(command))
            case Probe(repeat=True):
                value = self.world.call(command)
                verdict = "applied" if value is not None else "inconclusive"
                return Probed(task=command.task, attempt=command.attempt, verdict=verdict, result=value)
            case Probe():
                verdict, value = self.world.probe(command)
                return Probed(task=command.task, attempt=command.attempt, verdict=verdict, result=value)
            case StopCall():
                return Tick()


def returned(command, value):
    if value is not None:
        outcome = Outcome(kind="value", value=value)
    else:
        outcome = Outcome(
            kind="error",
            signal=Signal.TRANSIENT_ERROR,
            applied=Applied.MAYBE,
            error={"message": "the line went dead", "fingerprint": "dead"},
        )
    return Returned(task=command.task, attempt=command.attempt, outcome=outcome)


def create(owner, plan=PLAN):
    return Create(
        run="r",
        plan=plan,
        rules=RULES,
        tools=TOOLS,
        inputs=plan.inputs,
        owner=owner,
        classify_digest="0" * 64,
        version="test",
    )


@dataclass(frozen=True)
class Cut:
    """Where a process ends: at the n-th call of its store, or at the n-th edge of an effect.

    With `kept` a killed process whose unsynced changes the system still wrote; without, a power cut.
    """

    kind: str
    at: int
    kept: bool


def lives(story, cuts, store_class=FaultyStore, *, plan=PLAN):
    """Let a run live through processes that end where *cuts* say, and one more that does not.

    Returns:
        The run at its end, the world, the store, and the operations (store calls, edges) of the last process.
    """
    world, clock, disk = World(story), FakeClock(), None
    for number, cut in enumerate([*cuts, None]):
        before = world.edges
        store = store_class(disk)
        world.end_at = None
        if cut is not None and cut.kind == "edge":
            world.end_at = before + cut.at
        elif cut is not None:
            store = store_class(disk, break_at=cut.at, breakage=Breakage(cut.kind))
        try:
            run = Life(world, clock, store, owner=f"owner-{number}", plan=plan).live()
        except (Crash, StoreError):
            if cut is None:
                raise
            disk = store.survivor(kept=store.soft_changes() if cut.kept else 0)
            continue
        if cut is None:
            return run, world, store, (store.calls, world.edges - before)
        disk = store.survivor(kept=store.soft_changes())  # it came to its end before the cut
    raise AssertionError("the last life has no cut")


def picture(run, world):
    """Everything that must be as if nothing had ever ended."""
    return {
        "run": run.state.value,
        "tasks": {t.id: (t.state.value, t.result, t.args_digest, t.applied) for t in run.tasks.values()},
        "effects": sorted(world.effects),
        "questions": dict(run.questions),
    }


def check(run, store):
    """The log of a run proves itself clean."""
    disk = store.survivor(kept=store.soft_changes())
    found = audit("r", disk.read("r"), disk.blob, head=disk.head("r"))
    assert found.verdict == "clean", found.findings
    assert found.head.seq == run.seq
