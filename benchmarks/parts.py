"""The parts by themselves: a decision, a plan, another plan, the reading back of a log, an audit, an installation."""

import asyncio
import json
import statistics
from collections import deque
from collections.abc import Iterator
from functools import partial
from importlib import metadata
from typing import Any

from packaging.requirements import Requirement

from benchmarks import audit as auditing
from benchmarks import ours, replanning, startup
from benchmarks.goals import GOALS, Goal, Row
from benchmarks.settings import Settings
from benchmarks.shapes import Work, shape
from benchmarks.slot import RUN, document, toolbox
from benchmarks.timing import Took, in_turns, timed
from fsm_agent import Plan
from fsm_agent.core.audit import replay
from fsm_agent.core.engine.decide import advance, commands
from fsm_agent.core.engine.state import Run
from fsm_agent.core.events import Head, genesis, seal
from fsm_agent.core.inputs import Call, Create, Env, Outcome, Returned
from fsm_agent.core.machine import RunState
from fsm_agent.core.plans import planning
from fsm_agent.runtime.configs import load_rules
from fsm_agent.stores import open_store
from fsm_agent.testing.clock import EPOCH_US

SLOTS = 64


def begun(n: int) -> tuple[Run, list[Any]]:
    """Return a run of *n* reads in layers in the pure core, no store below it, and its first commands."""
    given = Create(
        run=RUN,
        plan=planning.load(document(shape("layers", n))),
        rules=load_rules("default", {}),
        tools=toolbox(Work(), "").specs,
        inputs={},
        owner="owner",
        classify_digest="0" * 64,
        version="benchmark",
    )
    run = Run(RUN)
    events = advance(run, given, Env(now_us=EPOCH_US, slots=SLOTS))
    return run, commands(run, events)


def drive(run: Run, found: list[Any], *, sealed: bool) -> None:
    """Answer every call of *run* until it is done; *sealed*: its events are made bytes and hashes, too."""
    waiting, at, head = deque(found), EPOCH_US, genesis(RUN)
    result = {"d": 1, "pad": "x" * 44}
    while waiting:
        call = waiting.popleft()
        assert isinstance(call, Call)
        at += 10
        given = Returned(task=call.task, attempt=call.attempt, outcome=Outcome(kind="value", value=result))
        events = advance(run, given, Env(now_us=at, slots=SLOTS))
        if sealed:
            for record in seal(head, events)[0]:
                head = Head(record.seq, record.hash)
        waiting.extend(commands(run, events))
    if run.state is not RunState.DONE:
        raise SystemExit(f"benchmark: the run is {run.state}; what was measured is nothing")


def decided(n: int, *, sealed: bool) -> Took:
    """Return what it takes to decide what follows each of *n* results."""
    run, found = begun(n)
    with timed() as took:
        drive(run, found, sealed=sealed)
    return took


def decide(settings: Settings) -> Iterator[Row]:
    """Yield what deciding costs, without a store, a loop or a tool."""
    for n in [n for n in settings.sizes if n <= 10_000]:
        found = in_turns(
            {sealed: partial(decided, n, sealed=sealed) for sealed in (False, True)}, settings.rounds_of(n)
        )
        more = {"with bytes and hashes µs": found[True].cpu_s / n * 1e6}
        yield Row(
            "decide",
            "decide alone, per step",
            f"layers {n:,}",
            found[False].cpu_s / n * 1e6,
            "µs",
            None,
            more,
        )


def fold(settings: Settings) -> Iterator[Row]:
    """Yield how many events a second of processor time are read from a file, verified and folded."""
    for n in [n for n in settings.sizes if 1000 <= n <= 10_000]:
        graph = shape("layers", n)
        with ours.Place(settings.folder) as place:
            ours.go(graph, Work(), place / "runs.db")
            store = open_store(place / "runs.db", read_only=True)

            def once(store: Any = store) -> Took:
                with timed() as took:
                    took.more["events"] = replay.replay(RUN, store.read(RUN), store.blob).seq
                return took

            found = in_turns({"fold": once}, settings.rounds_of(n))["fold"]
            store.close()
        yield Row(
            "fold",
            "a log read, verified, folded",
            f"layers {n:,}",
            found.more("events") / found.cpu_s,
            "events per CPU s",
        )


def audit(settings: Settings) -> Iterator[Row]:
    """Yield how many events a second an audit takes, in as many processes as are promised for (see ``audit.py``)."""
    steps, logs = (1000, 2) if settings.quick else (4000, 4)
    with ours.Place(settings.folder) as place:
        plain, retried = place / "plain.jsonl", place / "again.jsonl"
        asyncio.run(auditing.write(auditing.layers(steps), plain))
        auditing.simulated(steps // 2, retried)
        for file, words in ((plain, "plain"), (retried, "tried again")):
            found = auditing.measure([str(file)] * logs, 2, 2 if settings.quick else 5)
            for name, goal, what in (
                ("rules", "audit", "audit with all rules, 2 processes"),
                ("hashes", "audit of hashes", "audit of hashes alone, 2 processes"),
            ):
                more = {"per CPU second": found[name]["per_cpu_second"]}
                value = found[name]["events_per_s"]
                yield Row("audit", what, f"{words}, {steps:,} steps", value, "events/s", GOALS[goal], more)


def plan(settings: Settings) -> Iterator[Row]:
    """Yield what a plan's text costs until it has been checked against the tools."""
    for n in (1000, 10_000):
        rounds = 2 if settings.quick else settings.rounds
        text = json.dumps(document(shape("layers", n)))
        tools = toolbox(Work(), "")

        def once(text: str = text, tools: Any = tools) -> Took:
            with timed() as took:
                Plan.parse(text, tools=tools)
            return took

        found = in_turns({"plan": once}, rounds)["plan"]
        goal = GOALS["plan"] if n == 10_000 else None
        more = {"CPU s": found.cpu_s}
        yield Row("plan", "a plan read and checked", f"layers {n:,}", found.wall_s, "s", goal, more)


def replan(settings: Settings) -> Iterator[Row]:
    """Yield what another plan costs: the gate, adopting it, and the whole way of an answer (see ``replanning.py``)."""
    for n in (100,) if settings.quick else (100, 1000):
        half = replanning.half_done(n)
        for changes in (1, n // 2):
            judge = replanning.judging(half, changes)
            judged = [replanning.timed(judge) for _ in range(settings.rounds)]
            adopted = [
                replanning.timed(replanning.adopting(half.again(), judge())) for _ in range(settings.rounds)
            ]
            more = {"gate ms": statistics.median(judged), "adopting ms": statistics.median(adopted)}
            what = f"another plan, {changes:,} of its steps changed"
            yield Row("replan", what, f"chain {n:,}", sum(more.values()), "ms CPU", None, more)
        took = statistics.median(replanning.whole(n) for _ in range(settings.rounds))
        yield Row("replan", "another plan, from text to log", f"chain {n:,}", took, "ms CPU")


def base_distributions() -> set[str]:
    """Return the names of the third-party distributions that a bare installation brings."""
    found: set[str] = set()
    waiting = ["fsm-agent"]
    while waiting:
        for words in metadata.requires(waiting.pop()) or ():
            needs = Requirement(words)
            if needs.name in found or (needs.marker is not None and not needs.marker.evaluate({"extra": ""})):
                continue
            found.add(needs.name)
            waiting.append(needs.name)
    return found


def installation(settings: Settings) -> Iterator[Row]:
    """Yield what an installation brings, and what starting costs (see ``startup.py``)."""
    names = base_distributions()
    yield Row(
        "install",
        "distributions of the base install",
        " ".join(sorted(names)),
        len(names),
        "",
        GOALS["distributions"],
    )
    times = startup.medians(startup.LEAST if settings.quick else 15)
    words = {"controller": "CPU of importing the controller", "help": "CPU of --help"}
    for what, against, most in startup.BUDGETS:
        more = {f"{name} ms": times[name] for name in (what, against)}
        ratio = times[what] / times[against]
        yield Row("install", words[what], f"against importing {against}", ratio, "×", Goal(most, most), more)
