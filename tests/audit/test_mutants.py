"""A small fault in the engine does not stay hidden: its own golden logs show it, in the audit or when made again."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_golden_logs_show_small_faults_of_the_engine(full):
    count, share = (100, 0.95) if full else (30, 0.9)
    done = subprocess.run(
        [sys.executable, "-m", "tests.audit.mutants", "--count", str(count)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=3000,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["mutants"] == count
    assert found["found wrong by the audit"] >= 0.4 * count
    assert len(found["survived"]) <= (1 - share) * count + 1e-9, found["survived"]
