"""Clocks that are set back or forward under a run, or between two of its owners: what is due comes due all the same."""

import asyncio
import time

import pytest

from fsm_agent import RunController, audit
from fsm_agent.core.errors import OwnedError
from fsm_agent.core.events import from_body
from fsm_agent.core.inputs import Outcome, Returned, Tick
from fsm_agent.runtime import ports
from fsm_agent.runtime.driving.engine import Engine
from fsm_agent.stores import open_store
from fsm_agent.testing.clock import FakeClock
from fsm_agent.testing.faulty_store import FaultyStore
from tests.audits import clean_log
from tests.crash.rig import TOOLS, World, create, returned
from tests.runtime.runs import go, one, toolbox

SECOND = 1_000_000
HOUR = 3600 * SECOND


class Machine:
    """The two clocks of a machine, in place of the module ``time``: one that people set, one that only goes on."""

    def __init__(self):
        self.wall = self.steady = 0

    def time_ns(self):
        return self.wall

    def monotonic_ns(self):
        return self.steady

    def pass_by(self, seconds):
        self.wall += int(seconds * 1e9)
        self.steady += int(seconds * 1e9)


def test_time_goes_on_when_the_clock_is_set_back_and_follows_when_it_is_set_forward(monkeypatch):
    machine = Machine()
    monkeypatch.setattr(ports, "time", machine)
    machine.wall = 1_000_000_000_000_000_000
    clock = ports.SystemPorts()
    start = clock.now_us()
    assert start == 10**15
    machine.pass_by(5)
    machine.wall -= 3600 * 10**9
    assert clock.now_us() == start + 5 * SECOND
    machine.pass_by(7)
    assert clock.now_us() == start + 12 * SECOND
    machine.wall += 3600 * 10**9 + 30 * 10**9
    assert clock.now_us() == start + 42 * SECOND
    assert ports.SystemPorts().now_us() == clock.now_us()


@pytest.mark.parametrize("by_s", [-3600, 3600])
def test_a_call_is_given_up_in_time_whatever_the_clock_is_set_to(tmp_path, monkeypatch, by_s):
    class Set:
        by_ns = 0

        def time_ns(self):
            return time.time_ns() + self.by_ns

        def monotonic_ns(self):
            return time.monotonic_ns()

    machine = Set()
    monkeypatch.setattr(ports, "time", machine)

    async def scenario():
        gate = asyncio.Event()
        tools = toolbox(gate.wait, timeout_s=0.3)
        plan = one("do", on_failure={"*": "abort"})
        async with await RunController.start(plan, tools, store=tmp_path / "runs.db", run_id="r") as run:
            waiting = asyncio.create_task(run.wait(timeout_s=15))
            await run._driving().wait(lambda: bool(run.run.running))
            machine.by_ns = by_s * 10**9
            assert (await waiting)["state"] == "failed"
            times = [event.at async for event in run.events()]
            assert times == sorted(set(times))
        assert audit(tmp_path / "runs.db", run="r").findings == ()

    go(scenario())


def crashed_in_the_future():
    """A run whose log was written by a clock that went an hour ahead, and ended in the middle of a call."""
    clock, store = FakeClock(), FaultyStore()
    clock.advance(3600)
    engine, (call,) = Engine.create(store, create("first"), clock, slots=1)
    engine.feed(returned(call, World().call(call)))
    return store.survivor(kept=store.soft_changes())


def test_an_owner_whose_clock_is_behind_the_log_waits_no_longer_than_one_whose_clock_is_right():
    """The log counts on from its last event; deadlines, delays and questions are as long as ever."""
    waits = []
    for ahead_s in (3600, 0):
        clock = FakeClock()
        clock.advance(ahead_s)
        disk = crashed_in_the_future()
        engine, commands = Engine.open(disk, "r", "second", clock, tools=TOOLS, slots=1, force=True)
        start, waited = clock.now_us(), []
        for _ in range(40):
            while commands:
                command = commands.pop(0)
                if command.deadline_at:
                    waited.append(command.deadline_at - engine.ports.now_us())
                outcome = Outcome(kind="value", value={"n": 1, "price": 5})
                commands += engine.feed(
                    Returned(task=command.task, attempt=command.attempt, outcome=outcome)
                    if type(command).__name__ == "Call"
                    else Tick()
                )
            due = engine.next_due()
            if due is None or engine.final:
                break
            assert due - engine.ports.now_us() <= 15 * SECOND
            clock.advance(max(0, due - engine.ports.now_us()) / SECOND)
            commands += engine.feed(Tick())
        assert [from_body(r.body).at for r in disk.read("r")] == sorted(
            {from_body(r.body).at for r in disk.read("r")}
        )
        clean_log(disk, "r")
        waits.append((waited, clock.now_us() - start))
    assert waits[0][0] == pytest.approx(waits[1][0], abs=SECOND)
    assert waits[0][1] == pytest.approx(waits[1][1], abs=SECOND)


def test_a_lease_is_counted_by_the_clock_that_others_have_too():
    """Also if the log is ahead of it: or a dead owner's run would be nobody's for an hour."""
    clock, disk = FakeClock(), crashed_in_the_future()
    engine, _ = Engine.open(disk, "r", "second", clock, tools=TOOLS, slots=1, force=True, ttl_us=SECOND)
    assert disk.info("r").lease_until_us == clock.now_us() + SECOND
    engine.renew()
    assert disk.info("r").lease_until_us == clock.now_us() + SECOND
    with pytest.raises(OwnedError):
        disk.acquire("r", "third", now_us=clock.now_us(), ttl_us=SECOND)
    clock.advance(1.1)
    disk.acquire("r", "third", now_us=clock.now_us(), ttl_us=SECOND)
    clean_log(disk, "r")


def test_a_run_goes_on_in_a_process_whose_clock_is_an_hour_behind(tmp_path):
    class Behind(ports.SystemPorts):
        def now_us(self):
            return super().now_us() - HOUR

    async def scenario():
        plan = one("do", requires_confirmation=True)
        tools = toolbox(lambda: 1, effect="write")
        async with await RunController.start(plan, tools, store=tmp_path / "runs.db", run_id="r") as run:
            await run.wait()
        async with await RunController.open(tmp_path / "runs.db", "r", tools, ports=Behind()) as run:
            await run.questions[0].approve(by="ann")
            assert (await run.wait())["state"] == "done"
        store = open_store(tmp_path / "runs.db")
        assert store.info("r").owner is None
        store.close()
        assert audit(tmp_path / "runs.db", run="r").verdict == "clean"

    go(scenario())
