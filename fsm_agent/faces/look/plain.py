"""What commands about runs and logs print for people: one function per kind of result, ``(value, screen) → lines`` of at most 80 columns.

Words first, numbers behind them; oldest first; an empty list says why, and what to do. Commands to type next stand
on lines of their own and are never cut.
"""

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Any, Final

from fsm_agent.core import canon
from fsm_agent.core.audit.audit import Audit
from fsm_agent.core.engine.records import Question
from fsm_agent.core.events import Event, Head
from fsm_agent.core.replay.moments import moment
from fsm_agent.faces.frame.columns import columns, padded
from fsm_agent.faces.frame.screen import Screen, duration, safe, short, wrapped
from fsm_agent.faces.look.results import Audits, Exported, Finished, Line, Runs, Said
from fsm_agent.runtime.driving.status import Status, TaskStatus
from fsm_agent.runtime.driving.telemetry import line_of
from fsm_agent.runtime.ports import SystemPorts
from fsm_agent.runtime.proof.retention import Collected
from fsm_agent.stores.transfer import Imported

MANY: Final = 50
"""Of a longer list of tasks only the first so many are shown, unless ``-v`` asks for all."""


# ── runs ──────────────────────────────────────────────────────────────────────────────────────────────────────


def finished(value: Finished, screen: Screen) -> Iterator[str]:
    """How a run ended or where it rests: what is done, what is not and why, what remains, what to type next."""
    status = value.status
    yield f"{screen.glyph(status.state)} run {safe(status.run)}: {screen.paint(status.state, status.state)}"
    yield f"  done {status.done} of {len(status.tasks)}"
    missing = [task for task in status.tasks.values() if task.state != "done"]
    if missing:
        yield "  not done:"
        yield from _cut(list(_tasks(missing, screen)), screen)
    if status.waiting:
        yield from wrapped("  waiting for: ", status.waiting, screen.width)
    if value.report["remains"]:
        yield "  remains for a person:"
        for words in value.report["remains"]:
            yield from wrapped("    ", words, screen.width)
    for question in status.questions:
        yield from _question(question, screen)
    yield from _next(status, screen)
    yield _head(status.head)


def status(value: Status, screen: Screen) -> Iterator[str]:
    """How a run stands."""
    yield (
        f"{screen.glyph(value.state)} run {safe(value.run)}: {screen.paint(value.state, value.state)}, "
        f"done {value.done} of {len(value.tasks)}, plan {value.plan_version}"
    )
    if value.goal:
        yield from wrapped("  goal: ", value.goal, screen.width)
    if value.waiting:
        yield from wrapped("  waiting for: ", value.waiting, screen.width)
    yield from _cut(list(_tasks(list(value.tasks.values()), screen)), screen)
    yield from wrapped("  used: ", _budgets(value.budgets), screen.width)
    for question in value.questions:
        yield from _question(question, screen)
    yield from _next(value, screen)
    yield _head(value.head)


def _tasks(tasks: Sequence[TaskStatus], screen: Screen) -> Iterator[str]:
    wide = min(24, max((columns(safe(task.id)) for task in tasks), default=0))
    for task in tasks:
        tries = f" ({task.attempts} tries)" if task.attempts > 1 else ""
        words = task.reason if task.state != "done" else canon.encode(task.result).decode()
        head = f"    {'?'} {padded(short(task.id, wide), wide)}  {task.state}{tries}"
        tail = short(words, screen.width - columns(head) - 2) if words else ""
        yield head.replace("?", screen.glyph(task.state), 1) + (f"  {tail}" if tail else "")


def _cut(lines: Sequence[str], screen: Screen) -> Iterator[str]:
    shown = lines if screen.verbose or len(lines) <= MANY else lines[:MANY]
    yield from shown
    if len(shown) < len(lines):
        yield f"    ... and {len(lines) - len(shown)} more (-v shows all)"


def _budgets(budgets: Mapping[str, Any]) -> str:
    parts = []
    for name, amounts in budgets.items():
        used, left = amounts["used"], amounts.get("left")
        if used or left is not None:
            parts.append(f"{name} {used:g}" + (f" ({left:g} left)" if left is not None else ""))
    return ", ".join(parts) or "nothing yet"


def _question(question: Question, screen: Screen) -> Iterator[str]:
    yield from wrapped(f"  {safe(question.task)} asks: ", question.say, screen.width)
    for name, value in (question.args or {}).items():
        yield from wrapped(f"    {safe(name)} = ", canon.encode(value).decode(), screen.width)
    facts = [f"answers: {', '.join(question.answers)}", f"digest {question.digest[:8]}"]
    if question.approvers > 1:
        facts.append(f"approved by {len(question.approved_by)} of {question.approvers}")
    if question.expires_at is not None:
        left = (question.expires_at - SystemPorts().now_us()) / 1_000_000
        facts.append(f"expires in {duration(left)}" if left > 0 else "expired")
    yield from wrapped("    ", "; ".join(facts), screen.width)


def _next(status: Status, screen: Screen) -> Iterator[str]:
    if status.next:
        yield "next:"
        yield from (f"  {screen.command(line)}" for line in status.next)


def _head(head: Head) -> str:
    return f"head {head.seq} {head.hash.hex()}"


def said(value: Said, screen: Screen) -> Iterator[str]:
    """What a person's word did."""
    yield f"{safe(value.words)}; run {safe(value.status.run)} is {value.status.state}"
    if not value.driven and value.status.state not in ("done", "cancelled", "failed"):
        yield f"nobody drives it now; go on with: {screen.command(f'fsm-agent resume {quote(value.status.run)}')}"


def runs(value: Runs, screen: Screen) -> Iterator[str]:
    """The list of runs, or what became of the old ones."""
    if value.collected is not None:
        yield from _collected(value.collected, screen)
        return
    if not value.infos:
        yield f"no runs in {value.store}; start one with: {screen.command('fsm-agent run PLAN')}"
        return
    wide = min(30, max(columns(safe(info.run)) for info in value.infos))
    for info in value.infos:
        ago = duration(max(0, value.now_us - info.updated_us) / 1_000_000)
        driven = ", driven" if info.run in value.driven else ""
        yield (
            f"{screen.glyph(info.state)} {padded(short(info.run, wide), wide)}  {safe(info.state):<21}  "
            f"{info.head.seq:>6} events  {ago} ago{driven}"
        )


def _collected(found: Sequence[Collected], screen: Screen) -> Iterator[str]:
    if not found:
        yield "no run is old enough; nothing was removed"
    for one in found:
        words = f"kept, {one.kept}" if one.kept else f"removed, its log ended at {_head(one.head)}"
        yield from wrapped(f"{safe(one.run)}: ", words, screen.width)


# ── logs ──────────────────────────────────────────────────────────────────────────────────────────────────────


def event(value: Line, screen: Screen) -> Iterator[str]:
    """One event on one line."""
    yield from told(value.event, value.run, screen)


def told(found: Event, run: str, screen: Screen) -> Iterator[str]:
    """An event on one line."""
    clock = moment(found.at)[11:23]
    task = short(found.task, 16) if found.task is not None else "-"
    head = f"{found.seq:>5} {clock}  {padded(task, 6)} "
    text = safe(_words(found, run, "→" if screen.unicode else "->"))
    yield head + (text if screen.verbose else short(text, screen.width - columns(head)))


def _words(event: Event, run: str, arrow: str) -> str:
    line = line_of(event, run)
    match event.type:
        case "task_moved" | "run_moved":
            words = f"{line['source']} {arrow} {line['dest']} ({line['trigger']})"
            return f"{words}: {line['reason']}" if "reason" in line else words
        case "decided":
            return f"{line['signal']} {arrow} {line['decide']} [{line['rule']}] {line['reason']}"
        case _:
            facts = {k: v for k, v in line.items() if k not in ("run", "seq", "at", "task")}
            return " ".join([event.type, *(f"{name}={value}" for name, value in facts.items())])


def audits(value: Audits, screen: Screen) -> Iterator[str]:
    """What audits found."""
    if not value.audits:
        yield "no runs there; nothing to audit"
    for name, audit in value.audits:
        state = {"clean": "done", "open": "running", "violations": "failed"}[audit.verdict]
        yield (
            f"{screen.glyph(state)} {safe(name)}: {screen.paint(audit.verdict, state)}, {audit.events} events, "
            f"{audit.transitions} transitions, {audit.decisions} decisions"
        )
        for finding in audit.findings:
            head = f"  event {finding.seq}, {finding.rule} {finding.check}: "
            yield from wrapped(head, finding.message, screen.width)
        yield from _checks(audit, screen)
        yield from wrapped("  proved: ", _proved(audit), screen.width)
        yield _head(audit.head)


def _checks(audit: Audit, screen: Screen) -> Iterator[str]:
    """How often checks passed, failed and did not apply: together, with ``-v`` each."""
    failed = [c for c in audit.checks if c.failed]
    passed = [c for c in audit.checks if c.passed and not c.failed]
    idle = len(audit.checks) - len(failed) - len(passed)
    made = sum(c.passed + c.failed for c in audit.checks)
    yield (
        f"  checks: {len(passed)} passed, {len(failed)} failed, {idle} not applicable; made {made} times"
        + (f"; {audit.unchecked} events were held against none but the chain" if audit.unchecked else "")
    )
    if screen.verbose:
        for c in audit.checks:
            yield f"    {c.rule:<4}{c.check:<28}{c.passed:>9} passed {c.failed:>5} failed {c.not_applicable:>9} not applicable"


def _proved(audit: Audit) -> str:
    """What an audit can see, and what it cannot."""
    if audit.kept is None:
        words = "by the chain alone, no head was kept outside: a cut at the border of a batch would not show"
    else:
        words = f"against the head kept outside at event {audit.kept.seq}"
    if audit.signed is None:
        return words
    return f"{words}; signed up to event {audit.signed}"


def exported(value: Exported, screen: Screen) -> Iterator[str]:
    """Where a log was written to."""
    words = f"run {safe(value.run)}: {value.head.seq} events"
    if value.file is None:
        screen.hint(f"{words}, {_head(value.head)}")
        return
    yield f"{words} written to {value.file}"
    yield _head(value.head)


def imported(value: Imported, screen: Screen) -> Iterator[str]:
    """What an import did."""
    del screen
    yield safe(value.message)
