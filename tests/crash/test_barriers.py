"""What durability costs: how often the disk is waited for. One wait per write step, none per read step."""

import contextlib

import pytest

from fsm_agent import CallContext, RunController, Toolbox
from fsm_agent.core.errors import FsmAgentError
from fsm_agent.core.events import from_body
from fsm_agent.runtime.driving import driver
from fsm_agent.stores.sqlite import SqliteStore
from fsm_agent.testing.faulty_store import Breakage, Crash, FaultyStore
from tests.contract.disk import Disk
from tests.runtime.runs import check, go, plan_of


@pytest.fixture(autouse=True)
def no_timed_flush(monkeypatch):
    """Only what must wait for the disk does; the time that a run takes here changes no count."""
    monkeypatch.setattr(driver, "FLUSH_S", 600)


def waited(tmp_path, name, plan, tools, **options):
    """How often the disk was waited for while *plan* ran to its end; every question is approved."""
    disk = Disk(name)
    store = SqliteStore(tmp_path / f"{name}.db", vfs=name)
    disk.operations.clear()

    async def scenario():
        async with await RunController.start(plan, tools, store=store, run_id="r", **options) as run:
            await run.wait()
            while run.questions:
                for question in run.questions:
                    await question.approve(by="ann")
                await run.wait()
            assert run.status().state == "done"
        check(store, "r", run.head)

    go(scenario())
    store.close()
    return sum(kind == "sync" and path.endswith("-wal") for kind, path, *_ in disk.operations)


def waits(tmp_path, *, reads=0, writes=0, approvals=0, effect="write"):
    """How often the disk was waited for while a chain of such steps ran."""
    tools = Toolbox()
    tools.add(lambda: 1, effect="read", name="look")
    tools.add(lambda: 1, effect=effect, name="pay")
    kinds = ["look"] * reads + ["pay"] * writes + ["ask"] * approvals
    steps = [
        {
            "id": f"s{n}",
            "tool": "pay" if kind == "ask" else kind,
            "depends_on": [f"s{n - 1}"] if n else [],
            "requires_confirmation": kind == "ask",
        }
        for n, kind in enumerate(kinds)
    ]
    name = f"count-{reads}-{writes}-{approvals}-{effect}-{tmp_path.name}"
    return waited(tmp_path, name, plan_of(*steps), tools)


def test_a_read_step_never_waits_for_the_disk(tmp_path):
    assert waits(tmp_path, reads=1) == waits(tmp_path, reads=12) == waits(tmp_path, reads=60) <= 4


@pytest.mark.parametrize("effect", ["write", "idempotent"])
def test_a_write_step_waits_once(tmp_path, effect):
    base = waits(tmp_path, reads=1)
    for writes in (1, 2, 7, 30):
        assert waits(tmp_path, reads=1, writes=writes, effect=effect) == base + writes


def test_an_approval_adds_a_constant(tmp_path):
    base = waits(tmp_path, writes=1)
    once = waits(tmp_path, writes=1, approvals=1) - base
    assert 1 < once <= 4
    for approvals in (2, 5):
        assert waits(tmp_path, writes=1, approvals=approvals) == base + once * approvals


def test_many_reads_between_two_writes_cost_nothing(tmp_path):
    assert waits(tmp_path, reads=40, writes=2) == waits(tmp_path, reads=1, writes=2)


def layers(count, width):
    """Return *count* layers of *width* writes, each of which depends on one of the layer before."""
    return plan_of(
        *(
            {"id": f"s{n}_{k}", "tool": "pay", "args": {"n": n}, "depends_on": [f"s{n - 1}_{k}"] if n else []}
            for n in range(count)
            for k in range(width)
        )
    )


def waits_of_layers(tmp_path, count, width):
    """How often the disk was waited for while layers of writes ran that are ready, and end, at the same moment."""
    tools = Toolbox()

    async def pay(n: int) -> int:
        return n

    tools.add(pay, effect="write")
    return waited(
        tmp_path, f"layers-{count}-{width}-{tmp_path.name}", layers(count, width), tools, workers=width
    )


def test_writes_that_are_ready_together_wait_once_for_all_of_them(tmp_path):
    base = waits_of_layers(tmp_path, 1, 1)
    for count in (2, 5):
        assert {waits_of_layers(tmp_path, count, width) for width in (1, 2, 9, 30)} == {base + count - 1}


@pytest.mark.parametrize("effect", ["write", "idempotent", "irreversible"])
@pytest.mark.parametrize("width", [1, 2, 9])
def test_no_call_is_made_whose_intent_a_crash_at_that_moment_would_lose(width, effect):
    store, made = FaultyStore(), []
    tools = Toolbox()

    async def pay(n: int, ctx: CallContext) -> int:
        found = [from_body(record.body) for record in store.survivor().read("r")]
        starts = [e for e in found if e.type == "task_moved" and e.data["trigger"] == "start"]
        made.append(any(e.task == ctx.task and e.data["attempt"] == ctx.attempt for e in starts))
        return n

    tools.add(pay, effect=effect)

    async def scenario():
        plan = layers(4, width)
        async with await RunController.start(plan, tools, store=store, run_id="r", workers=width) as run:
            await run.wait()
            while run.questions:
                for question in run.questions:
                    await question.approve(by="ann")
                await run.wait()
            assert run.status().state == "done"

    go(scenario())
    assert made == [True] * (4 * width)


@pytest.mark.parametrize("width", [1, 3])
def test_where_the_disk_fails_under_writes_that_are_ready_together_none_of_them_is_made_without_its_intent(
    width,
):
    def broken_at(call):
        store, made = FaultyStore(break_at=call, breakage=Breakage.CRASH_BEFORE), []
        tools = Toolbox()

        async def pay(n: int, ctx: CallContext) -> int:
            made.append((ctx.task, ctx.attempt))
            return n

        tools.add(pay, effect="write")

        async def scenario():
            plan = layers(3, width)
            async with await RunController.start(plan, tools, store=store, run_id="r", workers=width) as run:
                await run.wait()

        with contextlib.suppress(Crash, FsmAgentError):
            go(scenario())
        return store, made

    whole, _ = broken_at(None)
    for call in range(1, whole.calls + 1):
        store, made = broken_at(call)
        disk = store.survivor()
        found = [from_body(r.body) for r in disk.read("r")] if any(i.run == "r" for i in disk.runs()) else []
        starts = {
            (e.task, e.data["attempt"])
            for e in found
            if e.type == "task_moved" and e.data["trigger"] == "start"
        }
        assert set(made) <= starts
