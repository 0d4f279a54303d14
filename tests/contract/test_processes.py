"""Real processes: killed at any moment, or many at once in one store."""

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fsm_agent.stores import open_store

ROOT = Path(__file__).parents[2]


def start(job, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.contract.child", job, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out.split()


@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl"])
def test_a_killed_process_loses_nothing_that_was_acknowledged(tmp_path, name):
    rng = random.Random(5)
    for number in range(4):
        location = tmp_path / str(number) / name
        process = start("append_for_ever", location)
        for _ in range(rng.randrange(2, 40)):
            acknowledged = int(process.stdout.readline().split()[1])
        os.kill(process.pid, signal.SIGKILL)
        rest, _ = process.communicate()
        acknowledged = int((rest.split() or [acknowledged])[-1]) if rest.endswith("\n") else acknowledged
        store = open_store(location)
        lease = store.acquire("r", "heir", now_us=10, ttl_us=1)
        seqs = [record.seq for record in store.read("r")]
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(seqs) >= acknowledged
        assert len(seqs) % 10 in (0, 1, 3, 6)
        store.release(lease)
        store.close()


def test_a_process_that_ends_inside_a_write_leaves_a_whole_batch_or_none(tmp_path):
    words = finished(start("die_inside_writes", tmp_path / "runs.jsonl"))
    assert words[0] == "ok"
    assert int(words[1]) > 0


def test_a_process_that_ends_at_any_write_of_sqlite_loses_nothing_that_was_acknowledged(tmp_path):
    words = finished(start("die_at_every_operation", tmp_path))
    assert words[0] == "ok"
    assert int(words[1]) > 30


@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl"])
def test_several_may_make_the_store_at_the_same_moment(tmp_path, name):
    for round_ in range(60):
        place, together, failures = tmp_path / str(round_) / name, threading.Barrier(4), []

        def make(who, place=place, together=together, failures=failures):
            try:
                together.wait()
                store = open_store(place)
                store.create(f"r{who}", "ann", now_us=1, ttl_us=1)
                store.close()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=make, args=(who,)) for who in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        store = open_store(place)
        assert sorted(info.run for info in store.runs()) == ["r0", "r1", "r2", "r3"]
        store.close()


@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl"])
def test_two_processes_work_on_several_runs_in_one_store(tmp_path, name):
    runs, steps = 4, 60 if name == "runs.db" else 20
    processes = [start("work_on_many_runs", tmp_path / name, who, runs, steps) for who in ("ann", "bob")]
    assert [finished(process) for process in processes] == [["ok"], ["ok"]]
    store = open_store(tmp_path / name)
    length = sum(step % 3 + 1 for step in range(steps))
    infos = store.runs()
    assert sorted(info.run for info in infos) == sorted(
        f"{who}-{n}" for who in ("ann", "bob") for n in range(runs)
    )
    for info in infos:
        assert len(list(store.read(info.run))) == info.head.seq == length
        assert store.letters(info.run) == []
    store.close()
