"""A process that is stopped while it holds a lock: nobody waits for it for ever, and nothing is done without the lock."""

import fcntl
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from fsm_agent import RunController
from fsm_agent.core.errors import StoreError
from fsm_agent.core.events import genesis
from fsm_agent.runtime.proof.signing import Checkpoint, write_checkpoints
from fsm_agent.stores import files, open_store, sqlite_file
from fsm_agent.stores.anchors import read_anchor, write_anchor
from tests.runtime.runs import check, go, one, toolbox

HOLDS_A_LOCK = """
import fcntl, os, signal, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""
HOLDS_A_TRANSACTION = """
import apsw, os, signal, sys
db = apsw.Connection(sys.argv[1])
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


@contextmanager
def stopped(program, path):
    """A process that is stopped with a lock on *path*; it goes away in the end."""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout.readline() == "held\n"
            yield child
        finally:
            child.kill()


@pytest.fixture(autouse=True)
def little_patience(monkeypatch):
    monkeypatch.setattr(files, "LOCK_S", 0.2)
    monkeypatch.setattr(sqlite_file, "BUSY_MS", 200)


@pytest.mark.parametrize(
    ("name", "program", "file"),
    [("runs.jsonl", HOLDS_A_LOCK, "runs.jsonl/lock"), ("runs.db", HOLDS_A_TRANSACTION, "runs.db")],
)
def test_a_store_whose_lock_a_stopped_process_holds_says_so_and_goes_on_when_it_is_free(
    tmp_path, name, program, file
):
    async def scenario():
        paid = []
        plan = one("do", requires_confirmation=True)
        tools = toolbox(lambda: paid.append(1), effect="write")
        store = open_store(tmp_path / name)
        async with await RunController.start(plan, tools, store=store, run_id="r") as run:
            await run.wait()
        with stopped(program, tmp_path / file), pytest.raises(StoreError, match="locked for"):
            await RunController.open(store, "r", tools)
        async with await RunController.open(store, "r", tools) as run:
            digest = run.questions[0].digest
            with stopped(program, tmp_path / file), pytest.raises(StoreError, match="locked for"):
                await run.approve("t", digest=digest, by="ann")
            assert paid == []
        store.close()
        store = open_store(tmp_path / name)
        async with await RunController.open(store, "r", tools) as run:
            await run.approve("t", digest=digest, by="ann")
            assert (await run.wait())["state"] == "done"
            assert paid == [1]
        check(store, "r", store.head("r"))
        store.close()

    go(scenario())


def test_heads_and_checkpoints_whose_lock_a_stopped_process_holds_stay_as_they_are(tmp_path):
    head = genesis("r")
    write_anchor(tmp_path / "heads", "r", head)
    later = head._replace(seq=1)
    with stopped(HOLDS_A_LOCK, tmp_path), pytest.raises(StoreError, match="locked for"):
        write_anchor(tmp_path / "heads", "r", later)
    assert read_anchor(tmp_path / "heads", "r") == head
    write_anchor(tmp_path / "heads", "r", later)
    signed = Checkpoint(run="r", head=head, key="k", signature=b"s" * 64)
    write_checkpoints(tmp_path / "signed", [signed])
    before = (tmp_path / "signed").read_bytes()
    with stopped(HOLDS_A_LOCK, tmp_path / "signed"), pytest.raises(StoreError, match="locked for"):
        write_checkpoints(tmp_path / "signed", [signed])
    assert (tmp_path / "signed").read_bytes() == before


def test_whoever_waits_gets_the_lock_as_soon_as_it_is_free(tmp_path, monkeypatch):
    (tmp_path / "lock").touch()
    descriptor = os.open(tmp_path / "lock", os.O_RDONLY)
    with stopped(HOLDS_A_LOCK, tmp_path / "lock") as child:
        with pytest.raises(StoreError):
            files.lock(descriptor, fcntl.LOCK_SH, "here")
        monkeypatch.setattr(files, "LOCK_S", 60)
        os.kill(child.pid, signal.SIGCONT)
        files.lock(descriptor, fcntl.LOCK_SH, "here")
    os.close(descriptor)
