"""Forks from Python: the id of a run that can be opened, in any store, with the large values that it needs."""

import asyncio

import pytest

from fsm_agent import ConflictError, Plan, RefusedError, RunController, Toolbox
from fsm_agent.core.inputs import Person
from fsm_agent.runtime.driving.forking import fork_run
from fsm_agent.runtime.ports import SystemPorts
from fsm_agent.stores import open_store
from fsm_agent.stores.memory import MemoryStore

BIG = "x" * 9000


def toolbox(made):
    tools = Toolbox()

    @tools.read
    def look() -> dict:
        return {"n": 1, "text": BIG}

    @tools.write
    def pay(n: int) -> dict:
        made.append(n)
        return {"id": len(made)}

    return tools


PLAN = Plan.make(
    {
        "steps": [
            {"id": "a", "tool": "look"},
            {"id": "w", "tool": "pay", "args": {"n": "$a.n"}, "depends_on": ["a"]},
        ]
    }
)


async def ends(run):
    """Where batches end."""
    events = [event async for event in run.events()]
    return [e.seq for e in events if e.seq == (e.tx or [e.seq, 1])[0] + (e.tx or [e.seq, 1])[1] - 1]


@pytest.mark.parametrize("place", ["runs.db", ""], ids=["sqlite", "memory"])
def test_a_fork_is_opened_like_any_run_and_does_nothing_twice(tmp_path, place):
    made = []

    async def go():
        tools, store = toolbox(made), tmp_path / place if place else MemoryStore()
        async with await RunController.start(PLAN, tools, store=store, run_id="r") as run:
            await run.wait()
            places = await ends(run)
            with pytest.raises(RefusedError, match="had ended there"):
                await run.fork(places[-1])
            name = await run.fork(places[1], by="ann", note="why not")
        async with await RunController.open(store, name, tools) as fork:
            report = await fork.wait()
        assert (report["state"], fork.run.tasks["a"].result["text"]) == ("done", BIG)
        assert made == [1]

    asyncio.run(go())


def test_a_name_that_is_taken_is_refused_and_the_next_free_one_is_found(tmp_path):
    async def go():
        async with await RunController.start(
            PLAN, toolbox([]), store=tmp_path / "runs.db", run_id="r"
        ) as run:
            await run.wait()
            return (await ends(run))[1]

    at = asyncio.run(go())

    async def another():
        async with await RunController.start(
            PLAN, toolbox([]), store=tmp_path / "runs.db", run_id="other"
        ) as run:
            await run.pause()

    asyncio.run(another())
    store = open_store(tmp_path / "runs.db")
    who, ports = Person(by="ann"), SystemPorts()
    try:
        with pytest.raises(ConflictError):
            fork_run(store, "r", at, who=who, ports=ports, new="r")
        first = fork_run(store, "r", at, who=who, ports=ports)
        assert first.run == "r.f1"
        with pytest.raises(RefusedError, match=r"run r.f1: .*two of one family"):
            fork_run(store, "r", at, who=who, ports=ports)
    finally:
        store.close()


class Meanwhile:
    """A store in which somebody else does something just before the first call of a method."""

    def __init__(self, store, method, act):
        self._store, self._method, self._act = store, method, act

    def __getattr__(self, name):
        if name == self._method and self._act is not None:
            act, self._act = self._act, None
            act()
        return getattr(self._store, name)


@pytest.mark.parametrize("place", ["runs.db", "runs.jsonl"])
@pytest.mark.parametrize("method", ["create", "append"])
def test_of_two_who_fork_one_family_at_once_not_both_have_a_run_that_acts(tmp_path, place, method):
    """Under one family's keys each of them would do what is left to do."""

    async def go():
        async with await RunController.start(PLAN, toolbox([]), store=tmp_path / place, run_id="r") as run:
            await run.wait()
            return (await ends(run))[1]

    at = asyncio.run(go())
    store = open_store(tmp_path / place)
    who, ports = Person(by="ann"), SystemPorts()
    faster = Meanwhile(store, method, lambda: fork_run(store, "r", at, who=who, ports=ports, new="theirs"))
    with pytest.raises(ConflictError, match=r"run theirs was forked .* at the same moment"):
        fork_run(faster, "r", at, who=who, ports=ports, new="mine")
    assert [info.run for info in store.runs()] == ["r", "theirs"]
    assert [left.run for left in store.tombstones()] == ["mine"]
    store.close()
