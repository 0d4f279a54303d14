"""What the commands of the prompt show: for each result one function for people and one for programs."""

from collections.abc import Iterator
from typing import Any, Final

from fsm_agent.core import canon
from fsm_agent.core.engine.state import Run
from fsm_agent.core.events import Event
from fsm_agent.core.machine import TaskState
from fsm_agent.faces.drawing import graph
from fsm_agent.faces.frame.columns import columns, padded
from fsm_agent.faces.frame.screen import GLYPHS, Screen, duration, safe, short, wrapped
from fsm_agent.faces.look import data as look_data
from fsm_agent.faces.look.plain import told
from fsm_agent.faces.repl.completion import arguments
from fsm_agent.faces.repl.results import Breaks, Driven, Help, Left, Planned, Row, Seated, Shown, Spent, Valid
from fsm_agent.faces.rules.plain import table_row
from fsm_agent.faces.table import SECTIONS
from fsm_agent.runtime.driving.status import budgets_of, waiting_for

_MARKED: Final = (TaskState.AWAITING, TaskState.UNKNOWN, TaskState.FAILED)


# ── the prompt itself ─────────────────────────────────────────────────────────────────────────────────────────


def prompt(run: Run | None, screen: Screen) -> str:
    """Return the prompt, such as ``fsm r-7 [4/6 ⏸T5]> ``: what is done, and what wants a person."""
    if run is None:
        return "fsm> "
    done = run.counts[TaskState.DONE]
    signs = [
        f"{_sign(screen, t.state.value)}{short(t.id, 16)}" for t in run.tasks.values() if t.state in _MARKED
    ]
    more = [f"+{len(signs) - 3}"] if len(signs) > 3 else []
    over = [_sign(screen, run.state.value)] if run.state.value in ("done", "cancelled") else []
    marks = " ".join([f"{done}/{len(run.tasks)}", *signs[:3], *more, *over])
    return f"fsm {short(run.id, 24)} [{marks}]> "


def _sign(screen: Screen, state: str) -> str:
    return GLYPHS[state][0 if screen.unicode else 1]


def toolbar(run: Run | None, *, behind: bool, width: int) -> str:
    """Return the line below the prompt: state, what is waited for, budgets."""
    if run is None:
        return short("no run; load PLAN or attach RUN", width)
    parts = [run.state.value + (", driven behind the prompt" if behind else "")]
    waits = waiting_for(run)
    if waits:
        parts.append(f"waits: {waits}")
    budgets = budgets_of(run)
    limits = [f"{name} {a['used']:g} ({a['left']:g} left)" for name, a in budgets.items() if "left" in a]
    parts.append(", ".join(limits) or f"{budgets['tool_calls']['used']:g} calls")
    return short(" | ".join(parts), width)


def event_line(event: Event, run: str, screen: Screen) -> str:
    """Return an event on one line, as it is told above the prompt."""
    return next(iter(told(event, run, screen)))


# ── driving ───────────────────────────────────────────────────────────────────────────────────────────────────


def seated(value: Seated, screen: Screen) -> Iterator[str]:
    """The plan that the prompt has come to, in two or three lines."""
    plan, status = value.plan, value.status
    goal = f"{plan.goal}: " if plan.goal else ""
    parts = [f"{len(plan.steps)} steps", f"{value.ready} ready"]
    if value.asks:
        parts.append(f"{', '.join(value.asks)} asks a person first")
    yield from wrapped(
        f"plan {status.plan_version}, digest {plan.digest[:8]}: ", goal + ", ".join(parts), screen.width
    )
    for step, tool, probe in value.writes:
        how = "can be looked up" if probe else "cannot be looked up, so a person is asked when it is lost"
        yield from wrapped("  ", f"{step} {tool} changes the world; {how}", screen.width)
    yield from wrapped(
        f"run {safe(status.run)}: ",
        f"{status.state}, rules {value.rules.name} ({len(value.rules.rows)} rows), store {screen.store}",
        screen.width,
    )
    if value.driven == "elsewhere":
        yield "  driven by another process; its events are shown, and your words go to its inbox"


def seated_data(value: Seated, screen: Screen) -> dict[str, Any]:
    """The run's status, and who drives it."""
    return {**look_data.status(value.status, screen), "driven": value.driven}


def driven(value: Driven, screen: Screen) -> Iterator[str]:
    """Where the run stands, what stopped it, and what to type next."""
    status = value.status
    if value.background:
        yield f"run {safe(status.run)} goes on behind the prompt; its events are shown as they come"
        return
    words = f"{status.state}, {status.done} of {len(status.tasks)} done"
    if value.hit:
        words += f"; stopped at {value.hit}"
    head = f"{screen.glyph(status.state)} run {safe(status.run)}: "
    yield head + screen.paint(words, status.state)
    if status.waiting:
        yield from wrapped("  waiting for: ", status.waiting, screen.width)
    for question in status.questions:
        yield from wrapped(f"  {safe(question.task)}: ", question.say, screen.width)
        if question.kind == "decide":
            yield from wrapped("    answers: ", ", ".join(question.answers), screen.width)
    if status.next and status.state != "running":
        yield from wrapped("  next: ", " | ".join(screen.command(line) for line in status.next), screen.width)


def driven_data(value: Driven, screen: Screen) -> dict[str, Any]:
    """The run's status, and the condition it came to."""
    return {**look_data.status(value.status, screen), "hit": value.hit}


def breaks(value: Breaks, screen: Screen) -> Iterator[str]:
    """The break points by number."""
    if not value.texts:
        yield "no break points; set one with break CONDITION"
    for index, text in enumerate(value.texts, 1):
        yield f"{index:>3}  {short(text, screen.width - 5)}"


def breaks_data(value: Breaks, screen: Screen) -> dict[str, Any]:
    """The break points."""
    del screen
    return {"breaks": list(value.texts)}


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────


def planned(value: Planned, screen: Screen) -> Iterator[str]:
    """A table of the steps, or one step."""
    if value.one is not None:
        yield from _one(value, screen)
        return
    yield from wrapped(f"plan {value.version}: ", value.plan.goal or "without a goal", screen.width)
    for step in value.plan.steps:
        tool, effect = value.tools[step.id]
        what = f"{tool} ({effect})" if tool else graph.label(step)
        after = ", ".join(d.id for d in step.depends_on)
        marks = graph.marks(step)
        state = value.states.get(step.id, "pending")
        tail = "; ".join(filter(None, (what, f"after {after}" if after else "", marks)))
        head = f"  ? {padded(short(step.id, 24), 6)}  {state:<21}  "
        yield (head + short(tail, screen.width - columns(head))).replace("?", screen.glyph(state), 1)


def _one(value: Planned, screen: Screen) -> Iterator[str]:
    step = value.one
    assert step is not None, "asked for by the caller"
    state = value.states.get(step.id, "pending")
    tool, effect = value.tools[step.id]
    yield f"{screen.glyph(state)} {safe(step.id)}: {screen.paint(state, state)}"
    if step.description:
        yield from wrapped("  ", step.description, screen.width)
    yield from wrapped(
        "  runs: ", f"{tool}, effect {effect}" if tool else "nothing; a person answers", screen.width
    )
    for name, known, origin in value.args:
        shown = canon.encode(known).decode() if known is not None else "not known yet"
        yield from wrapped(f"  {safe(name)} = ", f"{shown}  <- {origin}", screen.width)
    document = next(doc for doc in value.plan.doc["steps"] if doc["id"] == step.id)
    for key, found in document.items():
        if key not in ("id", "tool", "args", "description") and found not in (None, "", [], {}, False):
            text = found if isinstance(found, str) else canon.encode(found).decode()
            yield from wrapped(f"  {key}: ", text, screen.width)


def planned_data(value: Planned, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/plan@1`` with the state of each step; of one step its arguments and where they come from."""
    del screen
    found: dict[str, Any] = {
        "schema": "fsm-agent/plan@1",
        "plan_version": value.version,
        "digest": value.plan.digest,
        "plan": dict(value.plan.doc),
        "states": dict(value.states),
    }
    if value.one is not None:
        found["step"] = value.one.id
        found["args"] = {name: {"value": known, "from": origin} for name, known, origin in value.args}
    return found


def valid(value: Valid, screen: Screen) -> Iterator[str]:
    """A plan that can be run, and what deserves a look."""
    steps = f"{len(value.plan.steps)} steps, fits {value.tools} tools, digest {value.plan.digest[:16]}"
    yield f"{screen.glyph('done')} {steps}"
    for number, words in enumerate(value.warnings, 1):
        yield from wrapped(f"  {number}. ", words, screen.width)


def valid_data(value: Valid, screen: Screen) -> dict[str, Any]:
    """The same."""
    del screen
    return {"ok": True, "steps": len(value.plan.steps), "warnings": list(value.warnings)}


def shown(value: Shown, screen: Screen) -> Iterator[str]:
    """An event, one member to a line."""
    event = value.event
    yield event_line(event, value.run, screen)
    for name, found in event.data.items():
        text = found if isinstance(found, str) else canon.encode(found).decode()
        yield from wrapped(f"    {safe(name)}: ", text, screen.width)
    if event.cause is not None:
        yield f"    caused by event {event.cause}"
    if event.actor is not None:
        yield from wrapped("    by: ", f"{event.actor['kind']} {event.actor.get('id', '')}", screen.width)


def shown_data(value: Shown, screen: Screen) -> dict[str, Any]:
    """The event."""
    del screen
    event = value.event
    found = {"seq": event.seq, "at": event.at, "type": event.type, "data": dict(event.data)}
    return found | ({"task": event.task} if event.task is not None else {})


def spent(value: Spent, screen: Screen) -> Iterator[str]:
    """Used and left, and who was called how often."""
    for name, amounts in value.budgets.items():
        left = amounts.get("left")
        used = duration(amounts["used"]) if name == "active_s" else f"{amounts['used']:g}"
        yield f"  {name:<14} {used:>10} used" + (f", {left:g} left" if left is not None else "")
    for name, count in value.counters.items():
        yield f"  {name:<14} {count:>10} used"
    calls = ", ".join(f"{safe(task)} {count}" for task, count in value.calls.items())
    yield from wrapped("  attempts: ", calls or "none yet", screen.width)


def spent_data(value: Spent, screen: Screen) -> dict[str, Any]:
    """The same."""
    del screen
    return {"budgets": dict(value.budgets), "attempts": dict(value.calls), "counters": dict(value.counters)}


def row(value: Row, screen: Screen) -> Iterator[str]:
    """A row, and where it decided."""
    yield from table_row(value.table, value.row, screen)
    hits = ", ".join(map(str, value.hits[:20])) + (" ..." if len(value.hits) > 20 else "")
    words = f"{len(value.hits)} times, at events {hits}" if value.hits else "never in this run"
    yield from wrapped("    decided: ", words, screen.width)


def row_data(value: Row, screen: Screen) -> dict[str, Any]:
    """The same."""
    del screen
    found = {"row": value.row.id, "source": value.row.source, "line": value.row.line}
    return {**found, "decide": value.row.decide.value, "why": value.row.why, "events": list(value.hits)}


def help(value: Help, screen: Screen) -> Iterator[str]:  # noqa: A001 - named as its result
    """What can be typed now, by section; or one command."""
    if value.one is not None:
        own = arguments(value.one)
        yield f"usage: {value.one._replace(params=own).usage}"
        yield from wrapped("", value.one.help, screen.width)
        if value.one.about:
            yield from wrapped("", value.one.about, screen.width)
        for param in own:
            yield from wrapped(f"  {param.shown:<22} ", param.help, screen.width)
        yield from (f"  e.g. {example}" for example in value.one.examples)
        return
    for section in SECTIONS:
        yield f"{section}:"
        rows = [(row, now) for row, now in value.rows if row.section == section]
        for command, now in sorted(rows, key=lambda pair: not pair[1]):
            mark = " " if now else "-"
            yield f" {mark} {command.name:<14} {short(command.help, screen.width - 18)}"
    yield "- has nothing to do now. RUN is left out here; help COMMAND says more."


def help_data(value: Help, screen: Screen) -> dict[str, Any]:
    """The commands, with whether they make sense now."""
    del screen
    if value.one is not None:
        usage = value.one._replace(params=arguments(value.one)).usage
        return {"command": value.one.name, "usage": usage, "help": value.one.help}
    return {"commands": [{"name": row.name, "help": row.help, "now": now} for row, now in value.rows]}


def left(value: Left, screen: Screen) -> Iterator[str]:
    """How to go on."""
    if value.run is not None and value.open:
        yield f"go on with: fsm-agent repl {safe(value.run)}{screen.typed}"


def left_data(value: Left, screen: Screen) -> dict[str, Any]:
    """The same."""
    del screen
    return {"run": value.run, "open": value.open}
