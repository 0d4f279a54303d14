"""What starting costs: CPU of our imports and of our help against that of the libraries they stand on.

``python benchmarks/startup.py [--rounds N] [--json]`` starts every program N times (9 at least), one after the other in
turn, and prints the median CPU milliseconds (user and system, by the kernel's account) and two ratios with what they
may be. The exit code is 1 when a ratio is above that.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEAST = 9
PROGRAMS = {
    "nothing": ["-c", "pass"],
    "libraries": ["-c", "import attrs, transitions, asyncio, structlog"],
    "controller": ["-c", "from fsm_agent import RunController"],
    "click": ["-c", "import click"],
    "help": ["-m", "fsm_agent", "--help"],
}
"""Name → arguments of the interpreter."""
BUDGETS = (("controller", "libraries", 1.5), ("help", "click", 2.0))
"""What, against what, and how many times its CPU it may take."""


def cpu_ms(arguments: list[str], cache: str) -> float:
    """Return the CPU milliseconds of one start, which must succeed; byte code is kept in *cache*."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = cache
    process = subprocess.Popen([sys.executable, *arguments], cwd=ROOT, env=env, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(
            f"{' '.join(arguments)}: exit code {process.returncode}; install the package with its extras"
        )
    return (used.ru_utime + used.ru_stime) * 1000


def medians(rounds: int) -> dict[str, float]:
    """Return the median of every program over so many rounds, after one that warms the caches."""
    found: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    with tempfile.TemporaryDirectory() as cache:
        for turn in range(rounds + 1):
            for name, arguments in PROGRAMS.items():
                used = cpu_ms(arguments, cache)
                if turn:
                    found[name].append(used)
    return {name: statistics.median(times) for name, times in found.items()}


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    times = medians(max(LEAST, given.rounds))
    ratios = [(what, against, times[what] / times[against], most) for what, against, most in BUDGETS]
    if given.json:
        ours = [dict(zip(("what", "against", "ratio", "most"), row, strict=True)) for row in ratios]
        print(json.dumps({"cpu_ms": times, "ratios": ours}))
    else:
        for name, median in times.items():
            print(f"{name:<12}{median:8.1f} ms   python {' '.join(PROGRAMS[name])}")
        for what, against, ratio, most in ratios:
            print(f"{what} / {against}: {ratio:.2f} (at most {most})")
    return int(any(ratio > most for _, _, ratio, most in ratios))


if __name__ == "__main__":
    sys.exit(main())
