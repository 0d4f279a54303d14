"""A process that fights others for the same runs: ``python -m tests.crash.fighter LOCATION LEDGER NAME TAKEOVERS``.

Its leases are shorter than its pauses, and it pauses at the worst moments: between an intent and its effect, and
between an effect and its result. Whatever it does after a pause it does as a zombie would.
"""

import fcntl
import json
import random
import sys
import threading
from collections import deque
from pathlib import Path

from fsm_agent.core.errors import ConflictError, FencedError, OwnedError
from fsm_agent.core.inputs import Call, Create, Outcome, Probe, Probed, Returned, Tick
from fsm_agent.core.plans import planning
from fsm_agent.core.signals import Applied, Effect, Signal
from fsm_agent.core.tools import ToolSpec
from fsm_agent.runtime.configs import load_rules
from fsm_agent.runtime.driving.engine import Engine
from fsm_agent.runtime.ports import SystemPorts
from fsm_agent.stores import open_store

TTL_US = 20_000
PAUSE_S = 0.03
RUNS = ("x", "y", "z")
TOOLS = (
    ToolSpec(
        name="pay", effect=Effect.WRITE, reconcile=True, timeout_us=15_000, settle_us=0, extra_arguments=True
    ),
    ToolSpec(name="look", effect=Effect.READ, timeout_us=15_000, settle_us=0, extra_arguments=True),
)
RULES = Path(__file__).with_name("quick.toml")


def pause(seconds):
    """Stand still, as a stopped process does."""
    threading.Event().wait(seconds)


def plan(steps):
    """A chain of payments with a look in between."""
    return planning.load(
        {
            "steps": [
                {
                    "id": f"s{n}",
                    "tool": "look" if n % 4 == 3 else "pay",
                    "args": {"n": n},
                    "depends_on": [f"s{n - 1}"] if n else [],
                }
                for n in range(steps)
            ]
        }
    )


def begin(store, run, steps):
    """Begin a run and give it up at once."""
    rules = load_rules(RULES, {})
    given = Create(
        run=run,
        plan=plan(steps),
        rules=rules,
        tools=TOOLS,
        inputs={},
        owner="founder",
        classify_digest="0" * 64,
        version="test",
    )
    engine, _ = Engine.create(store, given, SystemPorts(), slots=0)
    engine.close()


class Ledger:
    """Effects of all processes in one file, a line each; taken in turns."""

    def __init__(self, path):
        self._path = Path(path)
        self._path.touch()

    def pay(self, run, key, owner):
        with self._path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps([run, key, owner]) + "\n")

    def has(self, run, key):
        with self._path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            return any(json.loads(line)[:2] == [run, key] for line in file)


class Fighter:
    def __init__(self, location, ledger, name):
        self.store = open_store(location)
        self.ledger = Ledger(ledger)
        self.name = name
        self.rng = random.Random(name)
        self.ports = SystemPorts()
        self.taken = self.fenced = self.too_late = 0

    def fight(self, takeovers):
        """Take runs over until it was done so often, or all have ended."""
        open_runs = list(RUNS)
        while open_runs and self.taken < takeovers:
            run = self.rng.choice(open_runs)
            try:
                engine, commands = self.take(run)
            except OwnedError:
                pause(0.002)
                continue
            except (FencedError, ConflictError):
                self.fenced += 1
                continue
            self.taken += 1
            try:
                self.drive(engine, deque(commands), patience=self.rng.randrange(1, 12))
                if engine.final:
                    open_runs.remove(run)
                if self.rng.random() < 0.3:
                    engine.close()  # else it is left, and its lease runs out
            except (FencedError, ConflictError):
                self.fenced += 1

    def take(self, run):
        return Engine.open(
            self.store,
            run,
            f"{self.name}-{self.taken}-{self.fenced}",
            self.ports,
            tools=TOOLS,
            slots=1,
            ttl_us=TTL_US,
        )

    def maybe_pause(self):
        if self.rng.random() < 0.25:
            pause(PAUSE_S * self.rng.random() * 2)

    def drive(self, engine, queue, *, patience):
        while patience and not engine.final:
            patience -= 1
            if queue:
                command = queue.popleft()
                self.maybe_pause()
                given = self.answer(engine, command)
                self.maybe_pause()
                queue.extend(engine.feed(given))
                continue
            due = engine.next_due()
            if due is None:
                return
            pause(max(0, due - self.ports.now_us()) / 1_000_000)
            queue.extend(engine.feed(Tick()))

    def answer(self, engine, command):
        run = engine.run.id
        match command:
            case Call() if self.ports.now_us() >= command.deadline_at:  # as the calls of a real run do
                self.too_late += 1
                outcome = Outcome(kind="error", signal=Signal.TRANSIENT_ERROR, applied=Applied.NO)
                return Returned(task=command.task, attempt=command.attempt, outcome=outcome)
            case Call():
                if command.tool == "pay":
                    self.ledger.pay(run, command.key, engine.lease.owner)
                outcome = Outcome(kind="value", value={"n": 1})
                return Returned(task=command.task, attempt=command.attempt, outcome=outcome)
            case Probe():
                found = self.ledger.has(run, command.key)
                return Probed(
                    task=command.task,
                    attempt=command.attempt,
                    verdict="applied" if found else "absent",
                    result={"n": 1} if found else None,
                )
        return Tick()


if __name__ == "__main__":
    location, ledger, name, takeovers = sys.argv[1:]
    fighter = Fighter(location, ledger, name)
    fighter.fight(int(takeovers))
    print(json.dumps({"taken": fighter.taken, "fenced": fighter.fenced, "too_late": fighter.too_late}))
