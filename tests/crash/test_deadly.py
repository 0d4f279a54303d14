"""Tools, probes and planners that end the process: each time counts, so no run ends one process after the other for ever.

Each dies within milliseconds of its start, long before anything that needs no barrier is flushed.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fsm_agent import audit
from fsm_agent.core.audit import replay
from fsm_agent.stores import open_store

ROOT = Path(__file__).parents[2]


def lives(place, who, most):
    """Let one process after the other go on with the run; return how many died before one did not."""
    for number in range(most):
        done = subprocess.run(
            [sys.executable, "-m", "tests.crash.deadly", str(place), who],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if done.returncode == 0:
            assert len((place / "deaths").read_text().splitlines()) == number
            return number
        assert done.returncode == -9, done.stderr
    raise AssertionError(f"{who} has ended {most} processes, and goes on doing so")


@pytest.mark.parametrize(
    ("who", "most"),
    [
        (
            "read",
            5,
        ),  # the first owner's try may be lost with it; each later one is one of the four that it has
        ("probe", 6),
        ("planner", 3),
    ],
)
def test_what_ends_its_process_every_time_is_given_up(tmp_path, who, most):
    assert 2 <= lives(tmp_path, who, most + 1) <= most
    store = open_store(tmp_path / "runs.db")
    run = replay.replay("r", store.read("r"), store.blob)
    assert run.state in ("awaiting-confirmation", "unknown-result", "failed")
    if who == "planner":
        assert run.account.planner_calls == most
    store.close()
    assert audit(tmp_path / "runs.db", run="r").findings == ()
