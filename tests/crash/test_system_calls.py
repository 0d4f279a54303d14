"""Every write-type system call of both stores may be the last one, or fail, or write only a part of its bytes.

So may those that keep the head of the log beside the store, and those that sign it.

``strace`` kills the process or returns the error; a limit on the size of files makes writes end early. The next
process always finds a state that it can go on from, and each effect has happened once when it is done.
"""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from fsm_agent import audit
from fsm_agent.runtime.proof.heads import Heads
from fsm_agent.runtime.proof.signing import make_keys
from tests.crash.child import live, open_ledger
from tests.crash.rig import lives, picture

ROOT = Path(__file__).parents[2]
CALLS = "write,pwrite64,writev,fsync,fdatasync,rename,ftruncate,unlink"
STORES = ("runs.db", "runs.jsonl")
FAULTS = {"killed": "signal=KILL", "EIO": "error=EIO", "ENOSPC": "error=ENOSPC"}

traced = pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace is not installed (Debian: apt-get install strace)"
)


def run_child(place, name, *, strace=(), limit=0):
    """Let the child drive the run in a store at *place*; return its exit code and what it said."""
    place.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    open_ledger(place / "ledger")
    child = [sys.executable, "-m", "tests.crash.child", str(place / name), str(place / "ledger"), str(limit)]
    done = subprocess.run(
        [*strace, *child], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def calls_of(tmp_path, name):
    """How often the undisturbed child makes each call, after it has told Python to begin."""
    log = tmp_path / "calls"
    code, said = run_child(
        tmp_path / "calm", name, strace=("strace", "-f", "-o", str(log), "-e", f"trace={CALLS}")
    )
    assert code == 0, said
    return Counter(re.findall(r"^\d+ +(\w+)\(", log.read_text(), re.MULTILINE))


def assert_goes_on(place, name, calm):
    """Whatever the child left, the next process brings the run to the end that it would have had."""
    run, world, head = live(place / name, place / "ledger", owner="heir")
    assert picture(run, world) == calm
    found = audit(place / name, run="r", head=head)
    assert found.verdict == "clean", found.findings
    assert Heads.beside(str(place / name)).read("r") == head
    key = os.environ.get("FSM_AGENT_SIGNING_KEY")
    if key is not None:
        found = audit(place / name, run="r", key=f"{key}.pub")
        assert (found.verdict, found.signed) == ("clean", head.seq)


@traced
@pytest.mark.parametrize(
    ("name", "fault", "signed"),
    [(name, fault, False) for name in STORES for fault in FAULTS] + [("runs.jsonl", "ENOSPC", True)],
)
def test_any_write_type_call_may_fail_or_be_the_last(tmp_path, monkeypatch, name, fault, signed, full):
    if signed:
        make_keys(tmp_path / "sign.key")
        monkeypatch.setenv("FSM_AGENT_SIGNING_KEY", str(tmp_path / "sign.key"))
    run, world, *_ = lives("reply lost", [])
    calm = picture(run, world)
    points = [(call, at) for call, count in calls_of(tmp_path, name).items() for at in range(1, count + 1)]
    assert len(points) > 20
    ends = Counter()
    first = [(call, 1) for call in {call: None for call, _ in points}]
    for call, at in points if full else dict.fromkeys([*first, *points[1::5]]):
        place = tmp_path / f"{call}{at}"
        inject = f"inject={call}:{FAULTS[fault]}:when={at}"
        code, said = run_child(
            place, name, strace=("strace", "-f", "-o", "/dev/null", "-e", f"trace={CALLS}", "-e", inject)
        )
        assert "Traceback" not in said, (call, at, said)
        assert code in ((-9, 137) if fault == "killed" else (0, 3)), (call, at, code, said)
        ends[code] += 1
        assert_goes_on(place, name, calm)
        shutil.rmtree(place)
    assert ends.total() - ends[0] > 0, ends


@pytest.mark.parametrize("name", STORES)
def test_a_write_that_ends_early_is_an_error_and_no_half_a_batch(tmp_path, name, full):
    run, world, *_ = lives("reply lost", [])
    calm = picture(run, world)
    code, said = run_child(tmp_path / "calm", name)
    assert code == 0, said
    assert_goes_on(tmp_path / "calm", name, calm)
    largest = 120_000 if name == "runs.db" else 24_000
    surfaced = 0
    for limit in range(700, largest, largest // (150 if full else 12)):
        place = tmp_path / str(limit)
        code, said = run_child(place, name, limit=limit)
        assert "Traceback" not in said, (limit, said)
        assert code in (0, 3), (limit, code, said)
        surfaced += code == 3
        assert_goes_on(place, name, calm)
        shutil.rmtree(place)
    assert surfaced > 3
