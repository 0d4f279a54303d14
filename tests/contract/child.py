"""Processes that the tests kill or set against each other; run as `python -m tests.contract.child JOB LOCATION …`."""

import os
import sys
from pathlib import Path

import apsw

from fsm_agent.core.events import genesis
from fsm_agent.stores import files, open_store
from fsm_agent.stores.sqlite import SqliteStore
from fsm_agent.testing.store_contract import batch, put


def say(*words):
    print(*words, flush=True)


def append_for_ever(location):
    """Append batches, say what is acknowledged, never end."""
    store = open_store(location)
    lease = store.create("r", "child", now_us=0, ttl_us=1)
    size, head = 0, genesis("r")
    while True:
        size = size % 4 + 1
        records = batch(head, size, note="n" * 200)
        head = store.append(lease, head, records, blobs={}, barrier=size == 3, state="running", now_us=1)
        if size == 3:
            say("ack", head.seq)


def die_inside_writes(location):
    """Append once per child, each killed in the middle of its write, and check what the next one finds."""
    store = open_store(location)
    store.release(store.create("r", "child", now_us=0, ttl_us=1))
    store.close()
    length = 0
    for cut in range(0, 1500, 97):
        pid = os.fork()
        if pid == 0:
            store = open_store(location)
            lease = store.acquire("r", "victim", now_us=0, ttl_us=1, force=True)
            real = os.write

            def torn(descriptor, data):
                if cut >= len(data):
                    real(descriptor, data)
                    os._exit(9)
                real(descriptor, data[:cut])
                os._exit(8)

            files.os.write = torn
            put(store, lease, 3, barrier=True, note="n" * 300)
            os._exit(1)
        _, status = os.waitpid(pid, 0)
        store = open_store(location)
        lease = store.acquire("r", "heir", now_us=0, ttl_us=1, force=True)
        found = len(list(store.read("r")))
        code = os.waitstatus_to_exitcode(status)
        assert code in (8, 9), code
        assert found == length + (3 if code == 9 else 0), (cut, found, length)
        assert len(store.repairs) == (1 if code == 8 and cut > 0 else 0)
        store.release(lease)
        store.close()
        length = found
    say("ok", length)


def die_at_every_operation(location):
    """Run the same work in a child per write operation of SQLite, ended there; check what the next process finds."""

    class Deadly(apsw.VFS):
        left = 10**9

        def __init__(self):
            super().__init__("deadly", "")

        def xOpen(self, name, flags):
            return File("", name, flags)

    class File(apsw.VFSFile):
        def count(self):
            disk.left -= 1
            if disk.left == 0:
                os._exit(8)

        def xWrite(self, data, offset):
            self.count()
            return super().xWrite(data, offset)

        def xSync(self, flags):
            self.count()
            return super().xSync(flags)

        def xTruncate(self, size):
            self.count()
            return super().xTruncate(size)

    disk = Deadly()
    done = False
    points = 0
    while not done:
        points += 1
        path = Path(location) / f"{points}.db"
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            disk.left = points
            store = SqliteStore(path, vfs="deadly")
            lease = store.create("r", "victim", now_us=0, ttl_us=1)
            head = genesis("r")
            for step in range(6):
                head = store.append(
                    lease, head, batch(head, 2), blobs={}, barrier=step % 2 == 1, state="running", now_us=1
                )
                if step % 2:
                    os.write(writer, bytes([head.seq]))
            store.close()
            os._exit(0)
        os.close(writer)
        _, status = os.waitpid(pid, 0)
        acknowledged = os.read(reader, 100)
        os.close(reader)
        done = os.waitstatus_to_exitcode(status) == 0
        store = SqliteStore(path)
        if acknowledged:
            found = len(list(store.read("r")))
            assert found >= acknowledged[-1], (points, found)
            assert found % 4 == 0, (points, found)
            store.acquire("r", "heir", now_us=10, ttl_us=1)
        store.close()
    say("ok", points)


def work_on_many_runs(location, name, runs, steps):
    """Append to several runs of one's own in a file that others use too; post letters to everybody."""
    store = open_store(location)
    leases = [store.create(f"{name}-{n}", name, now_us=0, ttl_us=1) for n in range(int(runs))]
    for step in range(int(steps)):
        for lease in leases:
            put(store, lease, step % 3 + 1, barrier=step % 4 == 0)
        if step % 10 == 0:
            letter = store.post(leases[0].run, {"step": step}, now_us=step)
            store.answer(leases[0], letter, {"seen": step})
            store.renew(leases[-1], now_us=step, ttl_us=5)
    store.close()
    say("ok")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
