"""This engine beside others, on the same graph, in the same minutes: each round one process of each, in turns.

Every contestant has a virtual environment with fixed versions, made at the first time under the cache directory; one that
cannot be installed is named and left out. What is compared is the time of the steps, once the graph is built and the file
is there; beginning the run, driving and closing it are a part of it. With all that comes before it stands beside that.
"""

import contextlib
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import ours
from benchmarks.goals import GOALS, Row
from benchmarks.peers import PEERS, Peer
from benchmarks.settings import Settings

HERE = Path(__file__).resolve().parent
PATIENCE_S = 180
_QUIET = {"DO_NOT_TRACK": "1", "HAMILTON_TELEMETRY_ENABLED": "false", "LANGSMITH_TRACING": "false"}
FLOOR, OURS = (peer.name for peer in PEERS[:2])


class LeftOutError(Exception):
    """A contestant cannot take part; says why."""


def cache() -> Path:
    """Return where environments are kept unless a place is given: below the user's cache directory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fsm_agent" / "benchmarks"


def interpreter(peer: Peer, place: Path) -> str:
    """Return the interpreter of *peer*'s environment below *place*, which is made if it is not there.

    Raises:
        LeftOutError: It cannot be made.
    """
    if peer.pins is None:
        return sys.executable
    pins = HERE / "peers" / peer.pins
    digest = hashlib.sha256(pins.read_bytes() + sys.version.encode()).hexdigest()[:12]
    home = place / f"{pins.stem}-{digest}"
    python = home / "bin" / "python"
    if (home / "complete").exists():
        return str(python)
    print(f"{peer.name}: an environment is made in {home}", file=sys.stderr)
    shutil.rmtree(home, ignore_errors=True)
    for command in (
        [sys.executable, "-m", "venv", str(home)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(pins)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or ["no word about it"]
            raise LeftOutError(f"its environment cannot be made ({last[0]}); see {pins.relative_to(HERE)}")
    (home / "complete").touch()
    return str(python)


def once(python: str, peer: Peer, n: int, folder: Path | None) -> dict[str, Any]:
    """Let *peer* carry out layers of *n* steps, durable if there is a folder; return what its process printed.

    Raises:
        LeftOutError: It failed, took too long, or its results went astray.
    """
    command = [python, "-m", "benchmarks.peers.worker", peer.module, "layers", str(n)]
    command += [] if folder is None else [str(folder)]
    env = os.environ | _QUIET | {"PYTHONPATH": str(HERE.parent)}
    try:
        done = subprocess.run(
            command, cwd=HERE.parent, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
    except subprocess.TimeoutExpired:
        raise LeftOutError(f"it took longer than {PATIENCE_S} s") from None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        last = done.stderr.strip().splitlines()[-1:] or ["no word about it"]
        raise LeftOutError(f"it ended with {done.returncode} ({last[0]})")
    found: dict[str, Any] = json.loads(lines[-1])
    if not found["right"] or found["calls"] != found["steps"]:
        raise LeftOutError(
            f"it made {found['calls']} calls for {found['steps']} steps, or their results went astray"
        )
    return found


def measured(settings: Settings, place: Path, n: int, *, durable: bool) -> dict[str, list[dict[str, Any]]]:
    """Return what every contestant that can take part printed, round by round."""
    found: dict[str, list[dict[str, Any]]] = {}
    interpreters: dict[str, str] = {}
    for peer in PEERS:
        if peer.durable or not durable:
            try:
                interpreters[peer.name] = interpreter(peer, place)
                found[peer.name] = []
            except LeftOutError as why:
                print(f"{peer.name} is left out: {why}", file=sys.stderr)
    for _ in range(1 if settings.quick else settings.rounds):
        for peer in PEERS:
            if peer.name in found:
                try:
                    with ours.Place(settings.folder) if durable else contextlib.nullcontext() as folder:
                        found[peer.name].append(once(interpreters[peer.name], peer, n, folder))
                except LeftOutError as why:
                    print(f"{peer.name} is left out: {why}", file=sys.stderr)
                    del found[peer.name]
    return found


def rows(settings: Settings, place: Path) -> Iterator[Row]:
    """Yield how many times our time per step everybody takes, memory first, then durable."""
    n = 1000
    for durable in (False, True):
        found = measured(settings, place, n, durable=durable)

        def middle(
            name: str, key: str, *, whole: bool = True, found: dict[str, list[dict[str, Any]]] = found
        ) -> float:
            values = (line[key] - (0 if whole else line["setup_s"]) for line in found[name])
            return float(statistics.median(values)) / n

        mine, whole, floor = (
            middle(OURS, "wall_s", whole=False),
            middle(OURS, "wall_s"),
            middle(FLOOR, "wall_s"),
        )
        for peer in PEERS:
            if peer.name not in found:
                continue
            steps = middle(peer.name, "wall_s", whole=False)
            more = {
                "µs per step": steps * 1e6,
                "with set-up": middle(peer.name, "wall_s") * 1e6,
                "CPU µs with set-up": middle(peer.name, "cpu_s") * 1e6,
                "× ours with set-up": middle(peer.name, "wall_s") / whole,
                "× ours with set-up, by CPU": middle(peer.name, "cpu_s") / middle(OURS, "cpu_s"),
                "× floor": steps / floor,
                **({"log B per step": middle(peer.name, "bytes")} if durable else {}),
            }
            goal = GOALS[peer.goal] if peer.goal and durable else None
            what = f"{peer.name}, {'durable' if durable else 'memory'}"
            yield Row("peers", what, f"layers {n:,}", steps / mine, "× our time", goal, more)
