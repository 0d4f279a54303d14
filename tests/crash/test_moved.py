"""A store whose files are deleted, moved or replaced under its owner: nothing is done that no log would tell of."""

import asyncio
import contextlib
import os
import shutil

import pytest

from fsm_agent import RunController, audit
from fsm_agent.core.errors import CorruptError, NotFoundError, StoreDeadError
from fsm_agent.runtime.proof.heads import Heads
from fsm_agent.runtime.proof.logs import is_store
from fsm_agent.stores import open_store
from tests.runtime.runs import go, one, plan_of, toolbox

STORES = ("runs.db", "runs.jsonl")


def forget(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def deleted(place):
    for path in place.parent.glob(f"{place.name}*"):
        forget(path)


def only_the_store_deleted(place):
    forget(place)


def moved_away(place):
    place.rename(place.with_name("elsewhere"))


def replaced_by_a_copy(place):
    copy = place.with_name("copy")
    shutil.copytree(place, copy) if place.is_dir() else shutil.copy(place, copy)
    moved_away(place)
    copy.rename(place)


def replaced_by_a_new_store(place):
    deleted(place)
    store = open_store(place)
    store.release(store.create("other", "bob", now_us=1, ttl_us=1))
    store.close()


def what_is_written_first_deleted(place):
    (place / "r.jsonl" if place.is_dir() else place.with_name(f"{place.name}-wal")).unlink()


def log_replaced_by_a_copy(place):
    log = place / "r.jsonl" if place.is_dir() else place.with_name(f"{place.name}-wal")
    shutil.copy(log, place.with_name("copy"))
    place.with_name("copy").rename(log)


def lock_replaced(place):
    if not place.is_dir():
        pytest.skip("SQLite's locks lie in the file itself")
    (place / "lock").unlink()
    (place / "lock").touch()


HARMS = (
    deleted,
    only_the_store_deleted,
    moved_away,
    replaced_by_a_copy,
    replaced_by_a_new_store,
    what_is_written_first_deleted,
    log_replaced_by_a_copy,
    lock_replaced,
)


def everything(place):
    """What lies at the path of a store, byte by byte."""
    files = sorted(place.rglob("*")) if place.is_dir() else sorted(place.parent.glob(f"{place.name}*"))
    return {str(path): path.read_bytes() for path in files if path.is_file() and path.suffix != ".heads"}


@pytest.mark.spoils_logs
@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", STORES)
def test_a_store_that_was_taken_away_under_its_owner_ends_the_run_here_before_the_next_effect(
    tmp_path, name, harm
):
    place = tmp_path / name

    async def scenario():
        gate, paid = asyncio.Event(), []
        tools = toolbox(gate.wait)
        tools.add(lambda: paid.append(1), effect="write", name="pay")
        plan = plan_of({"id": "t", "tool": "do"}, {"id": "u", "tool": "pay", "depends_on": ["t"]})
        run = await RunController.start(plan, tools, store=place, run_id="r")
        waiting = asyncio.create_task(run.wait())
        await run._driving().wait(lambda: bool(run.run.running))
        run._engine.flush()
        harm(place)
        before = everything(place)
        gate.set()
        with pytest.raises((StoreDeadError, CorruptError, NotFoundError)) as found:
            await waiting
        with pytest.raises((StoreDeadError, CorruptError, NotFoundError)):
            await run.wait()
        with contextlib.suppress(StoreDeadError, CorruptError, NotFoundError):
            await run.close()
        assert paid == []
        if harm not in (
            what_is_written_first_deleted,
            log_replaced_by_a_copy,
        ):  # there the store itself is ours
            assert everything(place) == before, "what lies there now is somebody else's"
        return str(found.value)

    words = go(scenario())
    assert any(word in words for word in ("deleted", "gone", "place", "no such run")), words


@pytest.mark.parametrize("name", STORES)
def test_a_store_that_was_only_copied_or_linked_is_still_the_same(tmp_path, name):
    place, link = tmp_path / name, tmp_path / f"link-{name}"
    open_store(place).close()
    link.symlink_to(place)

    async def scenario():
        async with await RunController.start(
            one("do", requires_confirmation=True), toolbox(lambda: 1), store=link, run_id="r"
        ) as run:
            await run.wait()
            shutil.copytree(place, tmp_path / "copy") if place.is_dir() else shutil.copy(
                place, tmp_path / "copy"
            )
            os.utime(place)
            await run.questions[0].approve(by="ann")
            assert (await run.wait())["state"] == "done"
            reader = open_store(link, read_only=True)
            assert reader.head("r") == run.head, "what the owner wrote and has not moved into the file yet"
            reader.close()

    go(scenario())
    assert is_store(place)
    assert Heads.beside(str(place)).read("r") == Heads.beside(str(link)).read("r") is not None
    assert audit(place, run="r").verdict == "clean"


@pytest.mark.parametrize("anchors", [None, "anchors"])
@pytest.mark.parametrize("name", STORES)
def test_a_tool_that_changes_the_directory_takes_neither_the_store_nor_its_heads_away(
    tmp_path, monkeypatch, name, anchors
):
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(here)
    if anchors:
        monkeypatch.setenv("FSM_AGENT_ANCHORS", anchors)

    async def scenario():
        paid = []
        tools = toolbox(lambda: os.chdir(elsewhere))
        tools.add(lambda: paid.append(1), effect="write", name="pay")
        plan = plan_of({"id": "t", "tool": "do"}, {"id": "u", "tool": "pay", "depends_on": ["t"]})
        async with await RunController.start(plan, tools, store=name, run_id="r") as run:
            assert (await run.wait())["state"] == "done"
        assert paid == [1]
        return run.head

    head = go(scenario())
    assert list(elsewhere.iterdir()) == []
    monkeypatch.chdir(here)
    assert Heads.beside(name).read("r") == head
    assert audit(name, run="r").verdict == "clean"


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("create", [True, False])
def test_a_store_in_a_directory_that_is_gone_is_not_found_by_a_path_that_begins_there(
    tmp_path, monkeypatch, name, create
):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(NotFoundError, match="give the whole path"):
        open_store(name, create=create)
    open_store(tmp_path / name).close()


@pytest.mark.spoils_logs
def test_events_in_a_write_ahead_log_that_was_deleted_are_saved_when_the_store_is_closed(tmp_path):
    """SQLite still has the file open; as long as nobody else came, closing moves it into the store."""
    place = tmp_path / "runs.db"

    async def scenario():
        run = await RunController.start(
            one("do", requires_confirmation=True), toolbox(lambda: 1), store=place, run_id="r"
        )
        await run.wait()
        head = run.head
        place.with_name("runs.db-wal").unlink()
        with pytest.raises(StoreDeadError, match="write-ahead log, was deleted"):
            await run.questions[0].approve(by="ann")
        with pytest.raises(StoreDeadError):
            await run.close()
        return head

    head = go(scenario())
    store = open_store(place)
    assert store.head("r") == head
    store.close()
