"""The commands of the prompt alone: handlers as everywhere, which find the desk in their screen."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from fsm_agent.core import canon
from fsm_agent.core.audit.replay import events, one
from fsm_agent.core.engine.arguments import resolve
from fsm_agent.core.engine.records import Question
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import (
    FsmAgentError,
    NotFoundError,
    RefusedError,
    UnresolvedReferenceError,
    UsageError,
)
from fsm_agent.core.inputs import Approve
from fsm_agent.core.machine import WRITES, RunState, TaskState
from fsm_agent.core.plans import planning
from fsm_agent.core.plans.known import trusted
from fsm_agent.core.plans.plan import Plan
from fsm_agent.core.replanning import strategy
from fsm_agent.faces.drive import asking
from fsm_agent.faces.drive.jobs import read_job
from fsm_agent.faces.drive.planners import planner_of
from fsm_agent.faces.frame import places
from fsm_agent.faces.frame.screen import Screen, safe
from fsm_agent.faces.frame.spec import Outcome
from fsm_agent.faces.look import reading
from fsm_agent.faces.look.results import Said
from fsm_agent.faces.plans.diff import Compared
from fsm_agent.faces.repl import conditions
from fsm_agent.faces.repl.desk import Desk
from fsm_agent.faces.repl.legal import makes_sense
from fsm_agent.faces.repl.results import Breaks, Driven, Help, Left, Planned, Row, Seated, Shown, Spent, Valid
from fsm_agent.faces.table.prompt import ALIASES, AT_PROMPT
from fsm_agent.runtime.driving.status import status_of


class DigestNeededError(RefusedError):
    """An approval without the digest of what is approved, where nobody can be shown it."""

    code = "E-DIGEST"
    exit_code = 4


def _desk(screen: Screen) -> Desk:
    assert isinstance(screen.desk, Desk), "commands of the prompt run at a desk"
    return screen.desk


def _run(screen: Screen) -> Run:
    desk = _desk(screen)
    desk.needed()
    run = desk.view()
    assert run is not None, "the prompt is at a run"
    return run


def _plan(run: Run) -> Plan:
    if run.plan is None:
        raise RefusedError(f"run {run.id}: it has no plan yet; whoever begins it has not got so far")
    return run.plan


# ── coming and going ──────────────────────────────────────────────────────────────────────────────────────────


async def load(
    screen: Screen,
    *,
    plan: str,
    tools: str | None,
    rules: str | None,
    params: Mapping[str, int | float],
    inputs: Mapping[str, Any],
    run_id: str | None,
    review: bool,
    repairs: str | None,
    planner: str | None,
    workers: int,
) -> Outcome:
    """Begin a run and sit down at it."""
    job = read_job(plan, tools=tools, rules=rules, repairs=repairs, params=params, inputs=inputs)
    desk = _desk(screen)
    await desk.start(job, run_id=run_id, workers=workers, review=review, planner=planner_of(planner, plan))
    return Outcome(seated(screen))


async def attach(screen: Screen, *, name: str, tools: str | None, inputs: Mapping[str, Any]) -> Outcome:
    """Go to another run."""
    await _desk(screen).attach(name, tools=tools, inputs=inputs)
    return Outcome(seated(screen))


def seated(screen: Screen) -> Seated:
    """Return what there is to say of the run that the prompt has come to."""
    desk, run = _desk(screen), _run(screen)
    plan = _plan(run)
    specs = {step.id: run.tools.get(run.tool_of(step) or "") for step in plan.steps}
    writes = tuple(
        (name, spec.name, spec.reconcile)
        for name, spec in specs.items()
        if spec is not None and spec.effect in WRITES
    )
    asks = tuple(
        s.id
        for s in plan.steps
        if s.requires_confirmation or ((spec := specs[s.id]) is not None and spec.confirm)
    )
    here = desk.controller is not None
    elsewhere = not here and places.is_driven(desk.opened(), run.id)
    return Seated(
        status=desk.status(),
        plan=plan,
        rules=run.rules,
        driven="here" if here else "elsewhere" if elsewhere else "nowhere",
        writes=writes,
        asks=asks,
        ready=sum(t.state is TaskState.PENDING and t.ready for t in run.tasks.values()),
    )


def quit(screen: Screen) -> Outcome:  # noqa: A001 - the command's name
    """Leave."""
    desk = _desk(screen)
    desk.over = True
    run = desk.view()
    if run is None:
        return Outcome(Left(run=None, open=False))
    return Outcome(Left(run=run.id, open=run.state not in (RunState.DONE, RunState.CANCELLED)))


# ── driving ───────────────────────────────────────────────────────────────────────────────────────────────────


async def run(screen: Screen, *, how: Sequence[str]) -> Outcome:
    """Drive until the run rests or ends."""
    match list(how):
        case []:
            return await _drive(screen)
        case ["until", text]:
            return await until(screen, condition=text)
        case ["&"]:
            return await _behind(screen)
        case _:
            raise UsageError(
                f"run: {' '.join(how)[:60]!r} was given; write run, run until CONDITION, or run &"
            )


async def step(screen: Screen) -> Outcome:
    """Let what is ready start once."""
    return await _drive(screen, once=True)


async def until(screen: Screen, *, condition: str) -> Outcome:
    """Drive until a condition comes."""
    return await _drive(screen, conditions.read(condition, _run(screen).tasks))


async def _drive(screen: Screen, until: conditions.Condition | None = None, *, once: bool = False) -> Outcome:
    desk = _desk(screen)
    await desk.drive(until, once=once)
    return Outcome(_driven(desk))


def _driven(desk: Desk, *, background: bool = False) -> Driven:
    desk.opened()
    return Driven(
        status=desk.status(), hit=desk.hit.text if desk.hit is not None else "", background=background
    )


async def _behind(screen: Screen) -> Outcome:
    """Drive behind the prompt; at a prompt that is no terminal there is nothing to go on with, so it is refused."""
    desk = _desk(screen)
    if desk.ask is None:
        raise UsageError("run &: nobody sits at a prompt here; write run")
    if desk.background is not None:
        raise RefusedError("prompt: the run is driven behind the prompt already; pause stops it")
    await desk.own()
    desk.background = asyncio.get_running_loop().create_task(_until_it_rests(screen, desk), name="background")
    await asyncio.sleep(0)
    return Outcome(_driven(desk, background=True))


async def _until_it_rests(screen: Screen, desk: Desk) -> None:
    from fsm_agent.faces.frame.failure import failure_of
    from fsm_agent.faces.repl.showing import driven

    try:
        await desk.drive()
        desk.background = None
        desk.settle()
        desk.write(list(driven(_driven(desk), screen)))
    except FsmAgentError as error:
        desk.write(failure_of(error).lines)
    finally:
        desk.background = None


def break_(screen: Screen, *, words: Sequence[str]) -> Outcome:
    """Set, show or remove break points."""
    desk, tasks = _desk(screen), _run(screen).tasks
    match list(words):
        case [] | ["ls"]:
            pass
        case ["rm", which]:
            desk.drop_break(which)
        case ["add", text] | [text]:
            desk.add_break(conditions.read(text, tasks))
        case _:
            raise UsageError(
                f"break: {' '.join(words)[:60]!r} was given; write break CONDITION, or break rm N"
            )
    return Outcome(Breaks(texts=tuple(c.text for c in desk.breaks)))


# ── speaking ──────────────────────────────────────────────────────────────────────────────────────────────────


async def approve(
    screen: Screen, *, run: str, task: str, digest: str | None, note: str, by: str | None
) -> Outcome:
    """Say yes: with the digest, or by typing how the digest of what is shown begins."""
    desk = _desk(screen)
    store = desk.opened()
    state = _run(screen) if run == desk.run_id else places.look(store, run)[0]
    question = state.questions.get(task)
    if digest is None and question is not None and question.kind == "approval":
        digest = await _typed(screen, desk, question, state)
    who = places.speaker(screen, by, note)
    await places.say(screen, store, run, Approve(task=task, digest=digest or "", who=who))
    now, head = places.look(desk.opened(), run)
    words = f"{task}: {who.by} approved {(digest or '')[:8]}"
    return Outcome(Said(words=words, status=status_of(now, head), driven=places.goes_on(screen, store, run)))


async def _typed(screen: Screen, desk: Desk, question: Question, run: Run) -> str:
    """Show the call, and return its digest once somebody has typed how that begins.

    Raises:
        DigestNeededError: Nobody sits there, or something else was typed.
    """
    begins = question.digest[: asking.DIGITS]
    if desk.ask is None:
        raise DigestNeededError(
            f"task {question.task}: an approval says what it approves; add --digest {question.digest[:8]} if that is "
            "what you were shown",
            task=question.task,
        )
    for line in asking.described(question, run, screen):
        screen.complain(line)
    typed = str(await desk.ask(f"type {begins} to approve: ") or "").strip().lower()
    if len(typed) < asking.DIGITS or not question.digest.startswith(typed):
        raise DigestNeededError(
            f"task {question.task}: {typed[:40]!r} is not how the digest begins; nothing was approved",
            task=question.task,
        )
    return question.digest


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────


def plan(screen: Screen, *, task: str | None) -> Outcome:
    """Return the plan in force."""
    run = _run(screen)
    plan = _plan(run)
    step = next((s for s in plan.steps if s.id == task), None)
    if task is not None and step is None:
        raise NotFoundError(
            f"step {task[:60]}: the plan has none; there are {', '.join(s.id for s in plan.steps[:30])}"
        )
    tools = {s.id: (run.tool_of(s) or "", _effect(run, run.tool_of(s))) for s in plan.steps}
    return Outcome(
        Planned(
            version=run.plan_version,
            plan=plan,
            states={name: t.state.value for name, t in run.tasks.items()},
            tools=tools,
            one=step,
            args=_arguments(run, plan, step.id) if step is not None else (),
        )
    )


def _effect(run: Run, tool: str | None) -> str:
    spec = run.tools.get(tool or "")
    return spec.effect.value if spec is not None else ""


def _arguments(run: Run, plan: Plan, name: str) -> tuple[tuple[str, Any, str], ...]:
    """Return each argument of a step with its value, if that is known, and where it comes from."""
    written = next(doc for doc in plan.doc["steps"] if doc["id"] == name).get("args") or {}
    task = run.tasks[name]
    try:
        known: Mapping[str, Any] = resolve(run, task, run.tool_of(task.step))
    except UnresolvedReferenceError:
        known = {}
    question = run.questions.get(name)
    if question is not None and question.args is not None:
        known = question.args
    return tuple(
        (arg, known.get(arg), _origin(written.get(arg))) for arg in dict.fromkeys([*written, *known])
    )


def _origin(written: Any) -> str:
    if isinstance(written, str) and written.startswith("$"):
        return written[1:]
    return (
        "the plan" if written is None or "$" not in canon.encode(written).decode() else "the plan, filled in"
    )


def validate(screen: Screen) -> Outcome:
    """Check the plan in force against the tools of the run."""
    run = _run(screen)
    plan = _plan(run)
    faults = planning.check(plan, run.tools, default_tool=run.default_tool)
    return Outcome(Valid(plan=plan, tools=len(run.tools), warnings=tuple(str(fault) for fault in faults)))


def diff(screen: Screen, *, a: int | None, b: int | None) -> Outcome:
    """Compare two versions of the run's plan."""
    run, desk = _run(screen), _desk(screen)
    new = b if b is not None else run.plan_version
    old = a if a is not None else new - 1
    if old < 1:
        raise NotFoundError(f"run {run.id}: there is only plan 1; another comes with replan, or a planner")
    store = desk.opened()
    found: dict[int, Plan] = {}
    for event in events(run.id, store.read(run.id), store.blob):
        if event.type == "plan_adopted":
            found[event.data["plan_version"]] = trusted(event.data["plan"])
    for version in (old, new):
        if version not in found:
            raise NotFoundError(f"run {run.id}: there is no plan {version}; there are 1 to {max(found)}")
    one_, other = found[old], found[new]
    return Outcome(
        Compared(
            files=(f"plan {old}", f"plan {new}"),
            old=one_,
            new=other,
            diff=strategy.diff(one_, other),
            lang="en",
            format="text",
        )
    )


def show(screen: Screen, *, seq: int) -> Outcome:
    """Return one event."""
    desk, run = _desk(screen), _desk(screen).needed()
    store = desk.opened()
    record = next(iter(store.read(run, since=seq - 1, until=seq)), None)
    if record is None:
        raise NotFoundError(f"event {seq}: the log of {run} ends at {store.head(run).seq}")
    return Outcome(Shown(run=run, event=one(record, store.blob)))


def budget(screen: Screen) -> Outcome:
    """Return what was used."""
    run = _run(screen)
    return Outcome(
        Spent(
            budgets=_desk(screen).status().budgets,
            calls={t.id: t.attempt for t in run.tasks.values() if t.attempt},
            counters=dict(run.spent),
        )
    )


def rules_explain(screen: Screen, *, row: str) -> Outcome:
    """Return a row of the run's table and where it decided."""
    run, desk = _run(screen), _desk(screen)
    found = next((r for r in run.rules.rows if r.id == row), None)
    if found is None:
        import difflib

        close = difflib.get_close_matches(row, [r.id for r in run.rules.rows], 1)
        hint = f"did you mean {close[0]}?" if close else f"rules show {run.rules.name} lists them"
        raise NotFoundError(f"row {row[:60]}: the table {run.rules.name} has none; {hint}")
    store = desk.opened()
    hits = tuple(
        e.seq
        for e in events(run.id, store.read(run.id), store.blob)
        if e.type == "decided" and e.data["rule"] == row
    )
    return Outcome(Row(table=run.rules, row=found, hits=hits))


def save(screen: Screen, *, run: str, output: str) -> Outcome:
    """Write the log to a file."""
    return reading.export(screen, run=run, format="jsonl", output=output)


def help(screen: Screen, *, words: Sequence[str]) -> Outcome:  # noqa: A001 - the command's name
    """Say what can be typed."""
    run = _desk(screen).view()
    rows = tuple((row, makes_sense(row, run)) for row in AT_PROMPT.values())
    if not words:
        return Outcome(Help(rows=rows))
    name = " ".join(words)
    row = AT_PROMPT.get(ALIASES.get(name, name))
    if row is None:
        raise NotFoundError(f"help {safe(name)[:40]}: there is no such command; help lists them")
    return Outcome(Help(rows=rows, one=row))
