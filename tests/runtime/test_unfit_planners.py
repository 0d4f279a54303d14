"""A planner may do what it likes: raise, cancel itself, say nonsense about itself. The run has an answer, and goes on."""

import asyncio

import pytest

from fsm_agent import CallContext, RunController, Toolbox
from fsm_agent.core.canon import MAX_INT
from fsm_agent.core.errors import UsageError
from fsm_agent.core.inputs import Usage
from fsm_agent.runtime.planning.planner import PlannerError, Proposal, ask
from fsm_agent.stores import open_store
from tests.runtime.runs import go, one, plan_of, running, toolbox


class UnspeakableError(Exception):
    def __str__(self):
        raise ValueError("no words")


class Planner:
    def __init__(self, error):
        self.error = error

    async def propose(self, briefing):
        raise self.error


UNFIT = {
    "it cancels itself": asyncio.CancelledError(),
    "a group of cancellations": BaseExceptionGroup("all", [asyncio.CancelledError()]),
    "it would end the process": SystemExit(3),
    "an error without words": UnspeakableError(),
    "a wait that is no number": PlannerError("no", retry_after_s=float("nan")),
    "no usage at all": PlannerError("no", usage=None),
}


@pytest.mark.parametrize("error", UNFIT.values(), ids=UNFIT)
def test_whatever_a_planner_raises_is_an_answer_that_never_came(error):
    found = go(ask(Planner(error), 7, {}))
    assert (found.request, found.answer) == (7, None)
    assert found.why.startswith("the planner failed: ")


NO_PLANNERS = {
    "a function": lambda briefing: briefing,
    "a class's name": "Planner",
    "its answer": Proposal(text="{}"),
}


@pytest.mark.parametrize("planner", NO_PLANNERS.values(), ids=NO_PLANNERS)
def test_what_cannot_be_asked_is_refused_before_a_run_counts_on_it(tmp_path, planner):
    async def play():
        store = open_store(tmp_path / "s.db")
        with pytest.raises(UsageError, match=r"planner: .* was given; it needs an async method propose"):
            await RunController.start(one("do"), toolbox(lambda: 1), store=store, planner=planner)
        assert store.runs() == []
        async with await RunController.start(one("do"), toolbox(lambda: 1), store=store, run_id="r") as run:
            await run.wait()
        head = store.head("r")
        with pytest.raises(UsageError, match="propose"):
            await RunController.open(store, "r", toolbox(lambda: 1), planner=planner)
        assert store.head("r") == head
        store.close()

    go(play())


def test_a_planner_that_cancels_itself_leaves_nobody_waiting():
    tools = Toolbox()

    @tools.read
    async def look() -> dict:
        return {"v": 0}

    async def play():
        params = {"cooldown_s": 0, "local_replans": 1, "global_replans": 0}
        plan = plan_of({"id": "a", "tool": "look", "done_when": "v == 1"})
        async with running(plan, tools, planner=Planner(asyncio.CancelledError()), params=params) as run:
            return await run.wait()

    report = go(play())
    assert report["state"] == "awaiting-confirmation"
    assert report["used"]["planner_calls"] == 1


def test_who_really_cancels_a_planner_is_not_answered():
    class Slow:
        async def propose(self, briefing):
            await asyncio.Event().wait()

    async def play():
        task = asyncio.ensure_future(ask(Slow(), 7, {}))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        go(play())


def test_what_a_planner_says_it_used_is_never_more_than_the_log_can_hold():
    class Boastful:
        async def propose(self, briefing):
            return Proposal(text="[]", usage=Usage(tokens=10**30, cost_micros=-1))

    found = go(ask(Boastful(), 7, {}))
    assert found.usage == Usage(tokens=MAX_INT, cost_micros=0)


def test_calls_that_use_more_than_can_be_counted_end_the_run_like_any_other():
    tools = Toolbox()

    @tools.read
    async def look(n: int, *, ctx: CallContext) -> dict:
        for _ in range(3):
            ctx.spend(tokens=MAX_INT, cost="9000000000000")
            ctx.progress()
        return {"n": n}

    async def play():
        steps = [{"id": f"s{n}", "tool": "look", "args": {"n": n}} for n in range(3)]
        async with running(plan_of(*steps), tools) as run:
            return await run.wait()

    report = go(play())
    assert report["state"] == "done"
    assert report["used"]["tokens"] == MAX_INT
