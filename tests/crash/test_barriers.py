"""What durability costs: how often the disk is waited for. One wait per write step, none per read step."""

import pytest

from fsm_agent import RunController, Toolbox
from fsm_agent.runtime.driving import driver
from fsm_agent.stores.sqlite import SqliteStore
from tests.contract.disk import Disk
from tests.runtime.runs import check, go, plan_of


@pytest.fixture(autouse=True)
def no_timed_flush(monkeypatch):
    """Only what must wait for the disk does; the time that a run takes here changes no count."""
    monkeypatch.setattr(driver, "FLUSH_S", 600)


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
    disk = Disk(name)
    store = SqliteStore(tmp_path / f"{name}.db", vfs=name)
    disk.operations.clear()

    async def scenario():
        async with await RunController.start(plan_of(*steps), tools, store=store, run_id="r") as run:
            await run.wait()
            while run.questions:
                for question in run.questions:
                    await question.approve(by="ann")
                await run.wait()
            assert run.status().state == "done"
        check(store, "r", run.head)

    go(scenario())
    count = sum(kind == "sync" and path.endswith("-wal") for kind, path, *_ in disk.operations)
    store.close()
    return count


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
