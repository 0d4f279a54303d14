"""Power cuts under the real controller: sectors dropped, torn and reordered after the last sync, at any operation.

What somebody was told of is there, every effect has a durable intent, and no batch is there in part.
"""

import asyncio
import os
import random
import shutil
from collections import Counter

from fsm_agent.core.audit.audit import audit
from fsm_agent.core.errors import CorruptError
from fsm_agent.core.events import from_body, genesis
from fsm_agent.stores import files, sqlite_link
from fsm_agent.stores.jsonl import JsonlStore
from fsm_agent.stores.lines import scan
from fsm_agent.stores.sqlite import SqliteStore
from tests.audits import clean_log
from tests.contract.disk import Disk, lay_out
from tests.crash.power import due, go_on, work

NAMES = ["r0", "r1", "r2"]
KEEP = (0.0, 0.5, 0.9, 1.0)


def intents(records):
    """The keys of all starts in a log."""
    events = (from_body(record.body) for record in records)
    return {e.data.get("key") for e in events if e.type == "task_moved" and e.data["trigger"] == "start"}


def judge(run, records, blob, told, keys, found):
    """Count what is wrong with what is left of a run."""
    last = records[-1].seq if records else 0
    found["acknowledged events lost"] += max(0, told.get(run, 0) - last)
    found["effects without an intent"] += len(keys.get(run, set()) - intents(records))
    if records:
        wrong = audit(run, records, blob).findings
        found["partial batches"] += sum("batch" in f.message for f in wrong)
        found["other findings"] += sum("batch" not in f.message for f in wrong)


def recorded(tmp_path, name):
    """Runs in an SQLite store on a recorded disk whose write-ahead log is moved into the file often."""
    disk = Disk(name)
    store = SqliteStore(tmp_path / "runs.db", vfs=name)
    store._link.db.wal_autocheckpoint(12)
    first = len(disk.operations)
    ledger = work(store, lambda: len(disk.operations), NAMES)
    store.close()
    assert len(ledger.effects) == 4 * len(NAMES)
    return disk, ledger, first


def images(tmp_path, disk, ledger, first, count):
    """What *count* power cuts leave, added up; the seed is the number."""
    found = Counter()
    for number in range(count):
        rng = random.Random(number)
        upto = rng.randrange(first, len(disk.operations) + 1)
        place = tmp_path / "image"
        place.mkdir()
        lay_out(disk.image(upto, rng, keep=KEEP[number % 4]), place)
        told, keys = due(ledger, upto)
        store = SqliteStore(place / "runs.db", create=False)
        known = {info.run for info in store.runs()}
        for run in NAMES:
            judge(run, list(store.read(run)) if run in known else [], store.blob, told, keys, found)
        found["images"] += 1
        store.close()
        shutil.rmtree(place)
    return found


def test_what_a_power_cut_leaves_goes_on_and_does_nothing_twice(tmp_path, full):
    """The next owner finds out what happened, and ends with every effect done once, also those nobody knew of."""
    disk, ledger, first = recorded(tmp_path, "power-goes-on")
    gone_on, settled = 0, 0
    for number in range(400 if full else 24):
        rng = random.Random(number)
        upto = rng.randrange(first, len(disk.operations) + 1)
        place = tmp_path / f"image{number}"
        place.mkdir()
        lay_out(disk.image(upto, rng, keep=KEEP[number % 4]), place)
        _, keys = due(ledger, upto)
        store = SqliteStore(place / "runs.db", create=False)
        begun = [info.run for info in store.runs() if info.head.seq]

        async def together(store=store, begun=begun, keys=keys):
            return await asyncio.gather(*(go_on(store, run, keys.get(run, set())) for run in begun))

        for run, done in zip(begun, asyncio.run(together()), strict=True):
            before = keys.get(run, set())
            after = {key for _, _, key in done.effects}
            assert len(before | after) == 4, number
            repeated = before & after
            assert len(repeated) <= 1, number  # the idempotent one, whose repetition is its probe
            settled += bool(before) and len(before) < 4
            gone_on += 1
            clean_log(store, run)
        store.close()
        shutil.rmtree(place)
    assert gone_on > 20
    assert settled > 5


def clean(count):
    return Counter({"images": count})


def test_a_power_cut_loses_nothing_that_anybody_knows_of(tmp_path, full):
    disk, ledger, first = recorded(tmp_path, "power-crash")
    assert any(kind == "truncate" or path.endswith("runs.db") for kind, path, *_ in disk.operations[first:])
    count = 5000 if full else 1000
    found = images(tmp_path, disk, ledger, first, count)
    assert +found == clean(count)


def test_the_test_would_see_a_store_that_never_waits_for_the_disk(tmp_path, monkeypatch):
    """``synchronous=NORMAL`` everywhere: every image is still a valid file, and it has forgotten what it promised."""
    monkeypatch.setattr(sqlite_link, "_FULL", 1)
    disk, ledger, first = recorded(tmp_path, "power-normal")
    found = images(tmp_path, disk, ledger, first, 120)
    assert found["acknowledged events lost"] > 100
    assert found["effects without an intent"] > 10


# ── the same for files of lines ───────────────────────────────────────────────────────────────────────────────


class Files:
    """Records what the JSONL store asks of the system: appends, syncs, replaced files, synced directories."""

    def __init__(self, monkeypatch):
        self.operations = []
        for name in ("write_all", "sync_data", "sync_directory", "replace"):
            monkeypatch.setattr(files, name, self._recording(name, getattr(files, name)))

    def _recording(self, name, real):
        def call(target, *more, **options):
            path = os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else str(target)
            if name == "replace":
                self.operations.append((name, path, bytes(more[0]), options.get("entry", True)))
            elif name == "write_all":
                self.operations.append((name, path, bytes(more[0]), True))
            else:
                self.operations.append((name, path, b"", True))
            return real(target, *more, **options)

        return call

    def image(self, upto, rng, keep):
        """The files after a power cut: what was appended and not synced may be there by sectors, or as zeros."""
        content, safe = {}, {}
        for name, path, data, entry in self.operations[:upto]:
            if name == "write_all":
                content[path] = content.get(path, b"") + data
            elif name == "sync_data":
                safe[path] = len(content[path])
            elif name == "replace" and (entry or rng.random() < keep):
                content[path], safe[path] = data, len(data)
        for path, data in content.items():
            start = safe.get(path, 0)
            tail = bytearray(data[start:])
            for at in range(0, len(tail), 512):
                if rng.random() >= keep:
                    tail[at : at + 512] = bytes(len(tail[at : at + 512]))
            size = len(tail) if rng.random() < 0.5 else rng.randrange(len(tail) + 1)
            content[path] = data[:start] + bytes(tail[:size])
        return content


def test_a_power_cut_loses_nothing_from_files_of_lines_either(tmp_path, monkeypatch, full):
    system = Files(monkeypatch)
    store = JsonlStore(tmp_path / "runs.jsonl")
    first = len(system.operations)
    ledger = work(store, lambda: len(system.operations), NAMES)
    store.close()
    monkeypatch.undo()
    found, refused = Counter(), 0
    count = 3000 if full else 400
    for number in range(count):
        rng = random.Random(number)
        upto = rng.randrange(first, len(system.operations) + 1)
        place = tmp_path / "image.jsonl"
        place.mkdir()
        for path, data in system.image(upto, rng, KEEP[number % 4]).items():
            (place / os.path.basename(path)).write_bytes(data)
        (place / "lock").touch()
        for meta in place.glob("*.meta.json"):  # the empty log was there first, and the directory was synced
            meta.with_name(meta.name.replace(".meta.json", ".jsonl")).touch()
        told, keys = due(ledger, upto)
        again = JsonlStore(place)
        for run in NAMES:
            log = place / f"{run}.jsonl"
            whole = scan(log.read_bytes() if log.exists() else b"", genesis(run))
            judge(run, whole.records, whole.blobs.__getitem__, told, keys, found)
            if (place / f"{run}.meta.json").exists():
                try:
                    lease = again.acquire(run, "heir", now_us=2**60, ttl_us=1)
                    assert list(again.read(run)) == whole.records
                    again.release(lease)
                except (
                    CorruptError
                ):  # later sectors of what was never acknowledged survived, earlier ones did not
                    refused += 1
                    assert whole.fault is not None
        again.close()
        shutil.rmtree(place)
    assert +found == Counter()
    assert refused < count


def test_the_test_would_see_lines_that_were_never_synced(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "sync_data", lambda descriptor: None)
    system = Files(monkeypatch)
    store = JsonlStore(tmp_path / "runs.jsonl")
    ledger = work(store, lambda: len(system.operations), NAMES[:2])
    store.close()
    system.operations = [op for op in system.operations if op[0] != "sync_data"]
    found = Counter()
    total = max(at for at, *_ in ledger.effects)
    for number in range(40):
        content = system.image(len(system.operations), random.Random(number), keep=0.0)
        told, keys = due(ledger, total)
        for run in NAMES[:2]:
            data = content.get(str(tmp_path / "runs.jsonl" / f"{run}.jsonl"), b"")
            whole = scan(data, genesis(run))
            judge(run, whole.records, whole.blobs.__getitem__, told, keys, found)
    assert found["effects without an intent"] > 10
