"""``kill -9`` at random moments of the reimbursement example, with its real services: one ticket, and the run ends."""

import contextlib
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.examples.test_reimbursement import EXAMPLE, OPERATOR, Reimbursement

CLAIM = ("run", str(EXAMPLE), "--operator", OPERATOR, "--run-id", "r1")
GO_ON = ("resume", "r1", "--operator", OPERATOR)


def killed(desk, rng, words):
    """Start a command and kill it at a random moment: after some of its lines, and a little while."""
    process = desk.start("--jsonl", *words)
    for _ in range(rng.randrange(40)):
        if not process.stdout.readline():
            break
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=rng.random() * 0.3)
    process.kill()
    process.communicate(timeout=30)
    return process.returncode


def one_round(path, seed):
    """Begin a claim, kill it up to three times, let it end; return what happened."""
    path.mkdir()
    rng = random.Random(seed)
    desk = Reimbursement(path)
    desk.env.update(TICKETS_LATE_S=rng.choice(("0", "1.2", "3")), TICKETS_SETTLE_S="0.1")
    try:
        ends = [killed(desk, rng, CLAIM)]
        begun = desk.json("status", "r1")[0] == 0
        for _ in range(rng.randrange(3) if begun else 0):
            ends.append(killed(desk, rng, GO_ON))
        code, status = desk.json(*(GO_ON if begun else CLAIM))
        assert (code, status["state"]) == (0, "done"), f"seed {seed}: {status}"
        verdict = desk.json("audit", "r1")[1]["verdict"]
        return {"seed": seed, "tickets": len(desk.tickets), "verdict": verdict, "kills": ends.count(-9)}
    finally:
        desk.stop_services()


@pytest.mark.parametrize("part", range(3))
def test_a_claim_that_is_killed_again_and_again_files_one_ticket(tmp_path, part, full):
    rounds = 34 if full else 5
    with ThreadPoolExecutor(3) as pool:
        seeds = range(part * rounds, (part + 1) * rounds)
        found = list(pool.map(lambda seed: one_round(tmp_path / str(seed), seed), seeds))
    assert [(one["seed"], one["tickets"], one["verdict"]) for one in found] == [
        (s, 1, "clean") for s in seeds
    ]
    assert sum(one["kills"] for one in found) > 1
