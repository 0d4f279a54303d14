"""The commands that drive a run: ``run``, ``resume``, ``wait``. Their exit code is the run's state."""

import asyncio
import secrets
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any, Final

from fsm_agent.core.audit.replay import one
from fsm_agent.core.engine.ending import report as report_of
from fsm_agent.core.errors import OwnedError, ToolboxError, UsageError
from fsm_agent.core.inputs import Resume
from fsm_agent.core.machine import STATES, RunState
from fsm_agent.faces.drive.jobs import read_job
from fsm_agent.faces.drive.persons import Nobody, Progress, Respondent, Scripted, Terminal
from fsm_agent.faces.drive.planners import planner_of
from fsm_agent.faces.frame import places
from fsm_agent.faces.frame.screen import Screen, safe
from fsm_agent.faces.frame.spec import EXIT_OF_RUN, Outcome
from fsm_agent.faces.look.results import Finished
from fsm_agent.runtime.controller import RunController
from fsm_agent.runtime.driving.status import status_of
from fsm_agent.runtime.driving.telemetry import teller
from fsm_agent.runtime.tools.loading import load_toolbox
from fsm_agent.runtime.tools.toolbox import Toolbox
from fsm_agent.stores.base import Store

POLL_S: Final = 0.1
"""How often ``wait`` looks for news, in seconds."""
STILL_GOING: Final = 8
"""Exit code of ``wait`` when its time is over and the run still goes on."""
_ENDED: Final = (RunState.DONE, RunState.CANCELLED)


async def run(
    screen: Screen,
    *,
    plan: str,
    tools: str | None,
    rules: str | None,
    params: Mapping[str, int | float],
    inputs: Mapping[str, Any],
    run_id: str | None,
    operator: str | None,
    review: bool,
    repairs: str | None,
    planner: str | None,
    workers: int,
    watch: bool,
) -> Outcome:
    """Run a plan until it rests or ends. Everything is read and checked before the store is touched."""
    job = read_job(plan, tools=tools, rules=rules, repairs=repairs, params=params, inputs=inputs)
    plans, found_at = planner_of(planner, plan)
    name = run_id if run_id is not None else f"r-{secrets.token_hex(4)}"
    progress = _watch(screen) if watch else _progress(screen, name)
    who = _respondent(screen, operator, progress)
    with places.writing(screen, create=True) as store:
        with progress.held():  # nothing is told before the run's name
            controller = await RunController.start(
                job.plan,
                job.tools,
                store=store,
                rules=job.rules,
                inputs=job.inputs,
                run_id=name,
                workers=workers,
                tools_locator=job.locator,
                planner=plans,
                planner_locator=found_at,
                repairs=job.repairs,
                review=review,
                listeners=(progress.listen, who.listen),
            )
            screen.hint(f"run {safe(name)}: {len(job.plan.steps)} steps, store {screen.store}")
        async with progress.shown(controller):
            return await _drive(screen, store, controller, who)


async def resume(
    screen: Screen,
    *,
    run: str,
    tools: str | None,
    inputs: Mapping[str, Any],
    operator: str | None,
    planner: str | None,
    workers: int,
    by: str | None,
    watch: bool,
) -> Outcome:
    """Take a run over, lift what holds it, and drive on."""
    progress = _watch(screen) if watch else _progress(screen, run)
    who = _respondent(screen, operator, progress)
    with places.writing(screen) as store:
        state = store.info(run).state
        if state in _ENDED:
            screen.hint(f"run {safe(run)}: it is {state} already; nothing is left to resume")
            return _as_it_is(store, run)
        if places.is_driven(store, run):
            owner = store.info(run).owner
            raise OwnedError(f"run {run}: {owner} drives it; wait for it with `fsm-agent wait {quote(run)}`")
        created = created_by(store, run)
        named = planner if planner is not None else created.get("planner_locator")
        controller = await RunController.open(
            store,
            run,
            toolbox_again(run, created, tools),
            inputs=inputs,
            workers=workers,
            planner=planner_of(named)[0],
            listeners=(progress.listen, who.listen),
        )
        async with progress.shown(controller):
            return await _drive(screen, store, controller, who, lifted_by=by)


async def _drive(
    screen: Screen, store: Store, controller: RunController, who: Respondent, *, lifted_by: str | None = None
) -> Outcome:
    screen.run = controller.id
    try:
        async with controller:
            who.bind(controller)
            now = controller.run
            if now.paused or now.wish == "pause" or now.state is RunState.FAILED:
                await controller.say(Resume(who=places.person(lifted_by)))
            while True:
                await controller.wait(who.wanted)
                if controller.run.state in _ENDED or not await who.speak():
                    break
    finally:
        places.keep_head(screen, store, controller.id)
    finished = Finished(status=controller.status(), report=controller.report)
    return Outcome(finished, EXIT_OF_RUN[finished.status.state])


async def wait(screen: Screen, *, run: str, until: str | None, timeout: float | None) -> Outcome:  # noqa: ASYNC109
    """Follow a run until it rests, ends, or reaches a state."""
    wanted = _wanted(until)
    tell = _progress(screen, run).listen
    with places.following(screen, run) as store:
        store.info(run)
        if not places.is_driven(store, run) and store.info(run).state not in EXIT_OF_RUN:
            screen.hint(
                f"nobody drives run {run} now; go on with: {screen.command(f'fsm-agent resume {quote(run)}')}"
            )
        seen = store.head(run).seq
        try:
            async with asyncio.timeout(timeout):
                while not _reached(store.info(run).state, wanted):
                    for record in store.read(run, since=seen):
                        tell([one(record, store.blob)])
                        seen = record.seq
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            screen.hint(f"run {safe(run)}: it is {store.info(run).state} after {timeout:g} s; it goes on")
            return _as_it_is(store, run, STILL_GOING)
        return _as_it_is(store, run)


def _wanted(until: str | None) -> str | None:
    if until is None:
        return None
    name, _, state = until.partition("=")
    if name != "state" or state not in STATES:
        raise UsageError(
            f"wait: --for {until[:40]!r} was given; write state=S, with S one of {', '.join(STATES)}"
        )
    return state


def _reached(state: str, wanted: str | None) -> bool:
    if wanted is None:
        return state in EXIT_OF_RUN
    return state == wanted or state in _ENDED


def _as_it_is(store: Store, run: str, exit_code: int | None = None) -> Outcome:
    state, head = places.look(store, run)
    finished = Finished(status=status_of(state, head), report=report_of(state))
    code = EXIT_OF_RUN.get(state.state.value, STILL_GOING) if exit_code is None else exit_code
    return Outcome(finished, code)


def created_by(store: Store, run: str) -> Mapping[str, Any]:
    """Return what the first event of a log says: where the tools and the planner were found, among others."""
    first = next(iter(store.read(run, until=1)), None)
    return one(first, store.blob).data if first is not None else {}


def toolbox_again(run: str, created: Mapping[str, Any], tools: str | None) -> Toolbox:
    """Return the toolbox named, else the one that the run was begun with."""
    if tools is not None:
        return load_toolbox(tools)
    locator = created.get("tools_locator")
    if locator is None:
        if created.get("tools"):
            raise UsageError(f"run {run}: the log does not say where its tools are; name them with --tools")
        return Toolbox()
    try:
        return load_toolbox(locator)
    except ToolboxError as error:
        where = (
            "the log says so, seen from where the run was begun"
            if not Path(locator).is_absolute()
            else "the log says so"
        )
        raise ToolboxError(f"{error} ({where}; --tools names another place)") from None


def _watch(screen: Screen) -> Progress:
    """Return a table that keeps itself up to date; it needs a terminal.

    Raises:
        UsageError: stderr is none, or shows something else.
    """
    if screen.form != "plain" or screen.quiet or not screen.err.isatty():
        raise UsageError("--watch: the table needs a terminal; leave it out, or follow with `events RUN -f`")
    from fsm_agent.faces.drive.watching import Watch

    return Watch(screen)


def _progress(screen: Screen, run: str) -> Progress:
    """Return what tells of a run: lines on stderr, or with ``--jsonl`` the data itself."""
    if screen.form == "jsonl":
        return Progress(teller(screen.out, run, json=True))
    if screen.quiet:
        return Progress(lambda _: None)
    return Progress(teller(screen.err, run, colors=screen.progress_colours))


def _respondent(screen: Screen, operator: str | None, progress: Progress) -> Respondent:
    if operator is not None:
        return Scripted(screen, operator)
    return Terminal(screen, progress) if screen.asks else Nobody()
