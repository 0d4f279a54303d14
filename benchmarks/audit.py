"""How many events a second an audit takes, with all rules and with the chain alone, and what memory it needs.

``python benchmarks/audit.py [--json] [--jobs N] [--logs N] [--steps N]`` writes logs of two shapes (layers of 50 no-op
reads through the real controller, 3 events a step; a simulated run in which every second read fails once and is tried
again, 5 events a step), audits them in N processes at a time, and prints events per second of wall time over all
processes (their start not counted: they are warm), and per CPU second of one. Memory is that of one process over a log of
10,000 and of 100,000 events of one step. On a machine that does other things as well only the CPU figures mean anything.
"""

import argparse
import asyncio
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from fsm_agent import CallContext, Plan, RunController, Toolbox, audit
from fsm_agent.runtime.proof.auditing import audit_hashes
from fsm_agent.stores import open_store
from fsm_agent.stores.memory import MemoryStore
from fsm_agent.stores.transfer import export_run
from fsm_agent.testing.scenario import load
from fsm_agent.testing.simulate import RUN_ID, simulate

TARGETS = {"rules": 60_000, "hashes": 500_000}
"""Events a second on two cores that are promised."""


def layers(steps: int) -> dict[str, Any]:
    """Return a plan of *steps* reads in layers of 50, each with two references."""
    width = 50
    return {
        "steps": [
            {
                "id": f"s{i}",
                "tool": "step",
                "args": {"parents": [f"$s{d}.d" for d in deps]},
                "depends_on": [f"s{d}" for d in deps],
            }
            for i in range(steps)
            for deps in [
                sorted({i - width, i // width * width - width + (i + 1) % width}) if i >= width else []
            ]
        ]
    }


async def write(document: dict[str, Any], file: Path, reports: int = 0) -> None:
    """Run *document* and export its log; a step reports its progress *reports* times."""
    tools = Toolbox()

    @tools.read(timeout_s=3600)
    async def step(parents: list[int], *, ctx: CallContext) -> dict[str, Any]:
        for n in range(reports):
            ctx.progress(advanced=True, note=f"{n} " + "x" * 40)
            if n % 100 == 0:
                await asyncio.sleep(0)
        return {"d": 1 + max(parents, default=0), "pad": "x" * 44}

    place = file.with_suffix(".db")
    async with await RunController.start(
        Plan.make(document), tools, store=place, run_id="r", workers=64
    ) as run:
        report = await run.wait()
    if report["state"] != "done":
        raise SystemExit(f"the run ended {report['state']}")
    store = open_store(place, read_only=True)
    with file.open("wb") as out:
        export_run(store, "r", out)
    store.close()


def simulated(steps: int, file: Path) -> None:
    """Export the log of a simulated run whose every second read fails once."""
    plan = layers(steps)
    again = [{"match": {"n": n}, "raise": {"status": 503, "message": "busy"}} for n in range(0, steps, 2)]
    for n, step in enumerate(plan["steps"]):
        step["args"]["n"] = n
    tool = {"effect": "read", "calls": [*again, {"return": {"d": 1, "pad": "x" * 44}}]}
    found = file.with_suffix(".json")
    found.write_text(
        json.dumps({"name": "tried again", "plan": plan, "tools": {"step": tool}, "workers": 64})
    )
    store = MemoryStore()
    result = simulate(load(found), store=store)
    if result.run != "done":
        raise SystemExit(f"the run ended {result.run}: {result.failures[:3]}")
    with file.open("wb") as out:
        export_run(store, RUN_ID, out)


def lean() -> None:
    """Do as the command line does."""
    gc.set_threshold(200_000, 20, 100)


def with_rules(file: str) -> tuple[int, float]:
    """Audit a log; return its events and the CPU seconds."""
    begun = time.process_time()
    found = audit(file)
    if found.verdict != "clean":
        raise SystemExit(f"{file}: {found.findings[:3]}")
    return found.events, time.process_time() - begun


def hashes(file: str) -> tuple[int, float]:
    """Follow the chain of a log; return its events and the CPU seconds."""
    begun = time.process_time()
    found = audit_hashes(file)
    if found.verdict != "clean":
        raise SystemExit(f"{file}: {found.findings[:3]}")
    return found.events, time.process_time() - begun


def measure(files: list[str], jobs: int, repeats: int) -> dict[str, dict[str, float]]:
    """Return the best figures of some repeats over *files*."""
    out: dict[str, dict[str, float]] = {}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=lean) as pool:
        for name, one in (("rules", with_rules), ("hashes", hashes)):
            list(pool.map(one, files))  # warm
            best = cpu = 0.0
            for _ in range(repeats):
                begun = time.perf_counter()
                done = list(pool.map(one, files))
                events, took = sum(n for n, _ in done), time.perf_counter() - begun
                best = max(best, events / took)
                cpu = max(cpu, events / sum(s for _, s in done))
            out[name] = {"events_per_s": round(best), "per_cpu_second": round(cpu), "promised": TARGETS[name]}
    return out


def memory(file: str) -> float:
    """Return the peak memory of a process that audits *file*, in MB."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from benchmarks.audit import peak; peak({file!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def peak(file: str) -> None:
    """Audit *file* and print what memory that took at most, in MB."""
    with_rules(file)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--logs", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        plain, again = place / "plain.jsonl", place / "again.jsonl"
        asyncio.run(write(layers(options.steps), plain))
        simulated(options.steps // 2, again)
        figures: dict[str, Any] = {
            shape.stem: {
                jobs: measure([str(shape)] * options.logs, jobs, options.repeats)
                for jobs in sorted({1, options.jobs})
            }
            for shape in (plain, again)
        }
        for name, reports in (("mb_at_10_000_events", 10_000), ("mb_at_100_000_events", 100_000)):
            file = place / f"{name}.jsonl"
            asyncio.run(write(layers(1), file, reports))
            figures[name] = round(memory(str(file)), 1)
    if options.json:
        print(json.dumps(figures, indent=1))
        return
    for shape in ("plain", "again"):
        for jobs, found in figures[shape].items():
            processes = "1 process" if jobs == 1 else f"{jobs} processes"
            for name, promised in TARGETS.items():
                said = f", promised {promised:,}" if jobs == 2 else ""
                print(
                    f"{shape} {name:7} {found[name]['events_per_s']:>9,} events/s in {processes}{said} "
                    f"({found[name]['per_cpu_second']:,} per CPU second)"
                )
    print(
        f"memory  {figures['mb_at_10_000_events']} MB at 10,000 events, {figures['mb_at_100_000_events']} MB at 100,000"
    )


if __name__ == "__main__":
    main()
