"""Old runs go, and only those that owe nobody anything: each other one stays and says why."""

import asyncio

import pytest

from fsm_agent import Reconciled, RunController, Toolbox, ToolError
from fsm_agent.core.errors import NotFoundError
from fsm_agent.core.inputs import Note, Person
from fsm_agent.runtime.driving.delivery import deliver
from fsm_agent.runtime.driving.letters import to_letter
from fsm_agent.runtime.ports import SystemPorts
from fsm_agent.runtime.proof.heads import Heads
from fsm_agent.runtime.proof.retention import collect
from fsm_agent.stores import open_store
from tests.runtime.runs import go, one, plan_of, resumed, running, toolbox

DAY_US = 86_400_000_000


def now_us(days=0):
    return SystemPorts().now_us() + days * DAY_US


def swept(store, *, days=31, older=30):
    """What becomes of the runs of a store some days from now."""
    found = collect(store, older_than_us=older * DAY_US, now_us=now_us(days), by="ann")
    return {one.run: one.kept for one in found}


@pytest.fixture(params=["runs.db", "runs.jsonl", None])
def store(request, tmp_path):
    store = open_store(None if request.param is None else tmp_path / request.param)
    yield store
    store.close()


async def done(store, run_id="r"):
    async with running(one("do"), toolbox(lambda: 1), store=store, run_id=run_id) as run:
        await run.wait()
        return run.head


@pytest.fixture(autouse=True)
def one_store_for_all(monkeypatch):
    """Runs of these tests live in a store that the test keeps open."""
    monkeypatch.setattr("tests.runtime.runs.open_store", lambda given: _Open(given))


class _Open:
    """A store that is open already, and stays open."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    def close(self):
        self._store.flush()


def test_an_old_finished_run_goes_and_leaves_where_its_log_ended(store):
    head = go(done(store))
    seq, digest = store.head("r")  # its owner gave it up behind that
    assert swept(store) == {"r": ""}
    (tombstone,) = store.tombstones()
    assert tombstone.body["head"] == {"seq": seq, "hash": digest.hex()}
    assert (tombstone.body["state"], tombstone.body["by"]) == ("done", "ann")
    assert seq == head.seq
    with pytest.raises(NotFoundError, match=rf"removed.*{digest.hex()}"):
        store.head("r")
    assert swept(store) == {}


def test_a_young_run_is_not_looked_at(store):
    go(done(store))
    assert swept(store, days=29) == {}
    assert store.info("r").state == "done"


def test_a_run_that_waits_for_a_person_stays(store):
    async def scenario():
        plan = one("do", requires_confirmation=True)
        async with running(plan, toolbox(lambda: 1), store=store, run_id="r") as run:
            await run.wait()

    go(scenario())
    assert "awaiting-confirmation and not closed" in swept(store)["r"]


def test_a_failed_run_keeps_what_a_resume_needs(store):
    async def scenario():
        def act():
            raise ToolError("bad_request", "no", applied="no")

        plan = one("do", on_failure={"*": "abort"})
        async with running(plan, toolbox(act), store=store, run_id="r") as run:
            report = await run.wait()
            assert report["state"] == "failed"

    go(scenario())
    assert "can still be resumed" in swept(store)["r"]

    async def again():
        async with resumed(store, "r", toolbox(lambda: 1)) as run:
            await run.resume()
            await run.wait()
            assert run.status().state == "done"

    go(again())
    assert swept(store) == {"r": ""}


def test_a_cancelled_run_whose_effect_nobody_knows_stays_until_somebody_says_so(store):
    tools = Toolbox()

    @tools.write(settle_s=0)
    def act():
        raise ToolError("unclassified_error", "the line went dead", applied="maybe")

    @act.reconcile
    def look():
        return Reconciled.inconclusive("who knows")

    async def scenario():
        async with running(one("act"), tools, store=store, run_id="r", params={"reconciles": 0}) as run:
            await run.wait()
            await run.cancel(by="ann", acknowledge=["t"])
            await run.wait()
            assert run.status().state == "cancelled"

    go(scenario())
    assert "nobody knows what became of t" in swept(store)["r"]

    async def told():
        async with resumed(store, "r", tools) as run:
            await run.reconcile("t", verdict="absent", evidence="I looked at the books", by="ann")

    go(told())
    assert swept(store) == {"r": ""}


def test_a29_a_run_that_somebody_holds_stays_and_its_late_result_is_recorded(store):
    async def scenario():
        gate = asyncio.Event()
        late = asyncio.Event()

        async def slow():
            await gate.wait()
            late.set()
            return {"late": True}

        plan = plan_of({"id": "t", "tool": "do", "timeout_s": 0.05, "optional": True})
        tools = toolbox(slow, effect="write")
        async with running(plan, tools, store=store, run_id="r") as run:
            await run.wait()
            await run.cancel(by="ann", acknowledge=["t"])
            await run.wait()
            assert run.status().state == "cancelled"
            assert "drives it" in swept(store, days=0, older=0)["r"]
            gate.set()
            await late.wait()
            await run._driving().changed()
            assert [e.type async for e in run.events()].count("late_result") == 1

    go(scenario())


@pytest.mark.spoils_logs
def test_a_log_that_does_not_verify_is_evidence_and_stays(tmp_path):
    store = open_store(tmp_path / "runs.db")
    go(done(store))
    go(done(store, "other"))
    store._link.db.execute("DROP TRIGGER events_no_update")
    store._link.db.execute(
        "UPDATE events SET body = CAST(replace(CAST(body AS TEXT), 'run', 'ran') AS BLOB) WHERE id = (1 << 40) + 1"
    )
    found = swept(store)
    assert found.pop("other") == ""
    assert "somebody should look at first" in found["r"]
    assert [info.run for info in store.runs()] == ["r"]
    store.close()


@pytest.mark.spoils_logs
def test_a_log_that_has_lost_its_end_is_evidence_and_stays(tmp_path):
    place = tmp_path / "runs.jsonl"
    store = open_store(place)
    go(done(store))
    head = Heads.beside(str(place)).read("r")
    store.close()
    log = place / "r.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:3]))
    store = open_store(place)
    assert f"is event {head.seq}" in swept(store)["r"]
    assert store.tombstones() == []
    store.close()


# ── others at the same time ───────────────────────────────────────────────────────────────────────────────────


class Meanwhile:
    """A store in which somebody else does something just before the n-th call of a method."""

    def __init__(self, store, method, act):
        self._store, self._method, self._act = store, method, act

    def __getattr__(self, name):
        if name == self._method and self._act is not None:
            act, self._act = self._act, None
            act()
        return getattr(self._store, name)


def test_two_who_remove_at_the_same_time_remove_each_run_once(store):
    for name in ("a", "b", "c"):
        go(done(store, name))
    found = []
    other = Meanwhile(store, "acquire", lambda: found.append(swept(store)))
    assert swept(other) == {}
    assert found == [{"a": "", "b": "", "c": ""}]
    assert len(store.tombstones()) == 3


def test_a_run_that_is_taken_over_while_it_is_looked_at_stays(store):
    go(done(store))

    def resume():
        store.acquire("r", "heir", now_us=now_us(31), ttl_us=1, force=True)

    (kept,) = swept(Meanwhile(store, "remove", resume)).values()
    assert "heir holds it" in kept
    assert store.info("r").state == "done"
    assert swept(store, days=40) == {"r": ""}


def test_whoever_resumes_a_run_that_is_being_removed_is_told_so(store):
    go(done(store))

    def remove():
        assert swept(store) == {"r": ""}

    late = Meanwhile(store, "acquire", remove)
    with pytest.raises(NotFoundError, match="it was removed"):
        go(RunController.open(late, "r", toolbox(lambda: 1)))


def test_a_run_with_a_letter_that_nobody_has_read_stays_until_it_is_answered(store):
    go(done(store))
    store.post("r", to_letter(Note(text="wait", who=Person(by="ann"))), now_us=1)
    (kept,) = swept(store).values()
    assert "1 letter to it is unread" in kept
    deliver(store, "r")
    assert swept(store, days=99) == {"r": ""}
