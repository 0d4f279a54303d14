"""A run whose process ended while it was being begun: its id is not lost, and nothing is begun twice."""

import asyncio
import contextlib
import multiprocessing
import os

import pytest

from fsm_agent import RunController, Toolbox
from fsm_agent.core.errors import ConflictError, OwnedError, ToolboxError
from fsm_agent.runtime.driving.owner import owner_name
from fsm_agent.runtime.ports import SystemPorts
from fsm_agent.stores import open_store
from tests.runtime.runs import go, one, running, toolbox


def register_and_die(place):
    store = open_store(place)
    store.create("r", owner_name(), now_us=SystemPorts().now_us(), ttl_us=30_000_000)
    store.flush()
    os._exit(9)


@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl"])
def test_an_id_whose_owner_died_before_the_first_event_can_be_used_at_once(tmp_path, name):
    child = multiprocessing.get_context("spawn").Process(target=register_and_die, args=(tmp_path / name,))
    child.start()
    child.join()
    assert child.exitcode == 9

    async def scenario():
        async with running(one("do"), toolbox(lambda: 1), store=tmp_path / name, run_id="r") as run:
            assert (await run.wait())["state"] == "done"

    go(scenario())


@pytest.mark.spoils_logs
def test_an_id_that_somebody_is_about_to_use_is_theirs(tmp_path):
    store = open_store(tmp_path / "runs.db")
    store.create("r", owner_name(), now_us=SystemPorts().now_us(), ttl_us=30_000_000)
    with pytest.raises(OwnedError, match="holds it"):
        go(RunController.start(one("do"), toolbox(lambda: 1), store=store, run_id="r"))
    store.close()


def test_an_id_with_events_is_taken_for_good(tmp_path):
    async def scenario():
        async with running(one("do"), toolbox(lambda: 1), store=tmp_path / "runs.db", run_id="r") as run:
            await run.wait()
        with pytest.raises(ConflictError, match="taken"):
            await RunController.start(one("do"), toolbox(lambda: 1), store=tmp_path / "runs.db", run_id="r")

    go(scenario())


def test_of_two_that_begin_the_same_id_at_once_one_is_told_that_it_is_taken(tmp_path):
    async def begin():
        try:
            run = await RunController.start(
                one("do"), toolbox(lambda: 1), store=tmp_path / "runs.db", run_id="r"
            )
        except (ConflictError, OwnedError) as error:
            return type(error).__name__
        async with run:
            return (await run.wait())["state"]

    async def scenario():
        return await asyncio.gather(*(asyncio.to_thread(asyncio.run, begin()) for _ in range(4)))

    found = go(scenario())
    assert sorted(found)[-1] == "done"
    assert found.count("done") == 1


# ── what the toolbox needs is not there ───────────────────────────────────────────────────────────────────────


def broken_toolbox(act=lambda: 1, **options):
    """A toolbox whose lifespan fails as long as `broken` holds something."""
    broken, seen = ["the pool is shut"], []

    @contextlib.asynccontextmanager
    async def life():
        seen.append("in")
        if broken:
            raise RuntimeError(broken[0])
        yield
        seen.append("out")

    tools = Toolbox(lifespan=life)
    tools.add(act, name="do", **{"effect": "read", **options})
    return tools, broken, seen


@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl"])
def test_a_toolbox_that_does_not_come_up_leaves_no_run_behind_and_its_id_is_free(tmp_path, name):
    async def scenario():
        tools, broken, seen = broken_toolbox()
        store = open_store(tmp_path / name)
        with pytest.raises(ToolboxError, match="the pool is shut"):
            await RunController.start(one("do"), tools, store=store, run_id="r")
        assert store.runs() == []
        broken.clear()
        async with await RunController.start(one("do"), tools, store=store, run_id="r") as run:
            assert (await run.wait())["state"] == "done"
        assert seen == ["in", "in", "out"]
        store.close()

    go(scenario())


def test_a_run_that_cannot_be_begun_leaves_the_lifespan_again(tmp_path):
    async def scenario():
        tools, broken, seen = broken_toolbox()
        broken.clear()
        async with running(one("do"), tools, store=tmp_path / "runs.db", run_id="r") as run:
            await run.wait()
        with pytest.raises(ConflictError, match="taken"):
            await RunController.start(one("do"), tools, store=tmp_path / "runs.db", run_id="r")
        assert seen == ["in", "out"] * 2

    go(scenario())


def test_a_toolbox_that_does_not_come_up_at_a_resume_leaves_the_run_as_it_was_and_free(tmp_path):
    async def scenario():
        done = []
        tools, broken, _ = broken_toolbox(lambda: done.append(1), effect="write", confirm=True)
        broken.clear()
        async with running(one("do"), tools, store=tmp_path / "runs.db", run_id="r") as run:
            await run.wait()
        broken.append("no more sockets")
        for _ in range(2):
            with pytest.raises(ToolboxError, match="no more sockets"):
                await RunController.open(tmp_path / "runs.db", "r", tools)
        broken.clear()
        async with await RunController.open(tmp_path / "runs.db", "r", tools) as run:
            await run.questions[0].approve(by="ann")
            assert (await run.wait())["state"] == "done"
        assert done == [1]

    go(scenario())
