"""Letters that are none, from anybody who can write to the store: each is answered, and none ends the run."""

import asyncio

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fsm_agent import RunController
from fsm_agent.core.errors import RefusedError, StoreError
from fsm_agent.runtime.driving.delivery import deliver
from fsm_agent.runtime.driving.letters import _FIELDS
from fsm_agent.stores import open_store
from tests.runtime.runs import check, go, one, running, toolbox

WHO = {"by": "eve", "channel": "x", "note": ""}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["t", "r", "run", "absent", "cancel", "", "x" * 50]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["decide", "steps", "by", "t"]), inner, max_size=2)
    ),
    max_leaves=5,
)
FIELDS = sorted({name for fields in _FIELDS.values() for name in fields})
LETTERS = st.fixed_dictionaries(
    {"kind": st.sampled_from([kind.__name__ for kind in _FIELDS]), "who": st.just(WHO) | VALUES},
    optional=dict.fromkeys(FIELDS, VALUES),
) | st.dictionaries(st.sampled_from(["kind", "who", "x"]), VALUES, max_size=3)


ABSENT = [  # of tasks that have no name that could be looked up
    {"kind": "ReconcileAs", "task": ["t"], "verdict": "absent", "result": None, "evidence": "x", "who": WHO},
    {"kind": "Answer", "task": {}, "value": {"decide": "absent", "evidence": "x"}, "who": WHO},
]


@settings(max_examples=150, deadline=None)
@given(st.lists(LETTERS, min_size=1, max_size=6))
@example(ABSENT)
def test_any_letter_is_answered_and_the_log_stays_clean(letters):
    async def scenario():
        store = open_store(None)
        plan = one("do", requires_confirmation=True)
        async with await RunController.start(plan, toolbox(lambda: 1), store=store, run_id="r") as run:
            await run.wait()
        numbers = [store.post("r", letter, now_us=1) for letter in letters]
        deliver(store, "r")
        for number in numbers:
            answer = store.letter(number).answer
            assert answer["ok"] or (answer["code"].startswith("E-") and answer["message"])
        check(store, "r", store.head("r"))
        store.close()

    go(scenario())


def test_a_living_owner_answers_rubbish_too_and_goes_on():
    async def scenario():
        store = open_store(None)
        gate = asyncio.Event()
        async with await RunController.start(one("do"), toolbox(gate.wait), store=store, run_id="r") as run:
            waiting = asyncio.create_task(run.wait())
            rubbish = [
                {},
                {"kind": "Replan", "document": {"steps": []}, "who": WHO},
                {"kind": "SetInputs", "values": {"x": 1}, "who": WHO},
                {"kind": "Approve", "task": 7, "digest": None, "who": WHO},
                {"kind": ["Note"], "who": WHO},
                *ABSENT,
            ]
            numbers = [store.post("r", body, now_us=1) for body in rubbish]
            while any(store.letter(number).answer is None for number in numbers):  # noqa: ASYNC110 - as attach does
                await asyncio.sleep(0.01)
            assert all(not store.letter(number).answer["ok"] for number in numbers[:2])
            gate.set()
            assert (await waiting)["state"] == "done"
        store.close()

    go(scenario())


@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl", None])
def test_who_shares_the_store_of_the_owner_is_heard(tmp_path, name):
    async def scenario():
        store = open_store(tmp_path / name if name else None)
        plan = one("do", requires_confirmation=True)
        async with await RunController.start(plan, toolbox(lambda: 1), store=store, run_id="r") as run:
            await run.wait()
            other = await RunController.attach(store, "r")
            await other.approve("t", digest=run.questions[0].digest, by="ann")
            assert (await run.wait())["state"] == "done"
        store.close()

    go(scenario())


def test_a_word_that_no_log_can_hold_is_refused_and_the_run_goes_on():
    async def scenario():
        plan = one("do", requires_confirmation=True)
        async with running(plan, toolbox(lambda: 1)) as run:
            await run.wait()
            for value in (float("nan"), "\ud800", {1: 2}):
                with pytest.raises(Exception, match=r"."):
                    await run.set_input(x=value)
                with pytest.raises(Exception, match=r"."):
                    await run.answer("t", value, by="ann")
            await run.questions[0].approve(by="ann")
            assert (await run.wait())["state"] == "done"

    go(scenario())


def test_a_store_that_dies_under_the_inbox_ends_the_run_here_and_says_so(tmp_path):
    async def scenario():
        store = open_store(tmp_path / "runs.db")
        gate = asyncio.Event()
        run = await RunController.start(one("do"), toolbox(gate.wait), store=store, run_id="r")
        waiting = asyncio.create_task(run.wait())
        await run._driving().wait(lambda: bool(run.run.running))
        store._link.close("the disk is gone")
        with pytest.raises(StoreError, match="the disk is gone"):
            await waiting
        with pytest.raises(StoreError):
            await run.close()

    go(scenario())


def test_a_letter_that_is_refused_is_refused_to_its_writer(tmp_path):
    async def scenario():
        place = tmp_path / "runs.db"
        async with running(one("do"), toolbox(lambda: 1), store=place, run_id="r") as run:
            await run.wait()
        async with await RunController.attach(place, "r") as other:
            with pytest.raises(RefusedError, match="nothing"):
                await other.approve("t", digest="0" * 8, by="ann")

    go(scenario())
