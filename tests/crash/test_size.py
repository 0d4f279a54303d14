"""Logs grow with what happens and not faster: large values stand once, and nothing piles up in memory."""

import asyncio
import gc
import resource

import pytest

from fsm_agent import RunController
from fsm_agent.stores import open_store
from tests.runtime.runs import check, go, plan_of, running, toolbox


def size_of(place):
    return sum(p.stat().st_size for p in ([place] if place.is_file() else place.rglob("*")) if p.is_file())


@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl"])
def test_a89_a_thousand_large_results_take_hardly_more_than_themselves(tmp_path, name, full):
    steps = 1000 if full else 250

    async def scenario():
        plan = plan_of(*({"id": f"s{n}", "tool": "do", "args": {"n": n}} for n in range(steps)))
        async with running(
            plan, toolbox(lambda n: f"{n:05}" * 4000), store=tmp_path / name, workers=8
        ) as run:
            await run.wait()
            assert run.status().state == "done"

    go(scenario())
    assert size_of(tmp_path / name) <= 1.3 * steps * 20_000


@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl"])
def test_a_large_result_that_many_steps_use_stands_once(tmp_path, name):
    async def scenario():
        plan = plan_of(
            {"id": "a", "tool": "do"},
            *(
                {"id": f"s{n}", "tool": "use", "args": {"v": "$a", "n": n}, "depends_on": ["a"]}
                for n in range(60)
            ),
        )
        tools = toolbox(lambda: "x" * 200_000)
        tools.add(lambda v, n: len(v) + n, effect="read", name="use")
        async with running(plan, tools, store=tmp_path / name) as run:
            await run.wait()
            assert run.status().state == "done"

    go(scenario())
    assert size_of(tmp_path / name) < 200_000 + 61 * 4_000


def test_a88_plan_after_plan_the_log_grows_in_a_straight_line(tmp_path, full):
    rounds = 50 if full else 20

    async def scenario():
        store = open_store(tmp_path / "runs.db")
        tools = toolbox(lambda n: f"{n:03}" * 70_000)
        ask = {"id": "ask", "description": "go on?"}
        sizes = []
        async with await RunController.start(plan_of(ask), tools, store=store, run_id="r") as run:
            await run.wait()
            for number in range(rounds):
                done = [{"id": f"s{n}", "tool": "do", "args": {"n": n}} for n in range(number + 1)]
                await run.replan({"steps": [*done, ask]}, by="ann")
                await run.wait(until=lambda status, n=number: status.tasks[f"s{n}"].state == "done")
                await asyncio.sleep(0)
                sizes.append(sum(len(record.body) for record in store.read("r")))
            assert run.run.plan_version == rounds + 1
        check(store, "r", store.head("r"))
        store.close()
        assert size_of(tmp_path / "runs.db") < 1.3 * rounds * 210_000
        early, late = sizes[rounds // 2] - sizes[0], sizes[-1] - sizes[rounds // 2 - 1]
        assert late < 3 * early, "each plan is written down, and nothing else again"

    go(scenario())


def test_a90_memory_is_flat_while_many_steps_run(tmp_path, full):
    """What grows is what is known of each step; measured from the moment when a quarter of them is done."""
    steps = 20_000 if full else 2_000

    async def scenario():
        plan = plan_of(
            *(
                {"id": f"s{n}", "tool": "do", "depends_on": [f"s{n - 1}"] if n % 10 else []}
                for n in range(steps)
            )
        )
        async with running(plan, toolbox(lambda: 1), store=tmp_path / "runs.db", workers=4) as run:
            marks = []
            for part in (1, 2, 3, 4):
                await run.wait(until=lambda s, part=part: s.done >= steps * part // 4)
                gc.collect()
                marks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
            assert run.status().state == "done"
            return marks

    marks = asyncio.run(asyncio.wait_for(scenario(), 200))
    grown = (marks[-1] - marks[0]) * 1024
    assert grown < 2_500 * steps, f"{grown / steps:.0f} bytes per step"
