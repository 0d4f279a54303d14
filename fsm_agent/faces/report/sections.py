"""What a report says about the run as a whole: the verdict, what was done and not, tasks, plans, budgets' table."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fsm_agent.core import canon
from fsm_agent.core.audit.audit import CHECKS, Audit
from fsm_agent.core.engine.ending import report as report_of
from fsm_agent.core.engine.records import Task
from fsm_agent.core.machine import TaskState
from fsm_agent.core.replay.story import PlanVersion, Story
from fsm_agent.faces.frame.screen import duration
from fsm_agent.faces.report.markup import Markup, Part, code, fold, join, long_table, shortened, table, tag
from fsm_agent.faces.report.words import (
    arguments,
    clock,
    day,
    does,
    event_link,
    in_order,
    money,
    pill,
    value,
)

MOST_TASKS: Final = 1_000
"""Of more tasks, or of more of anything else that is listed here, only the first so many are."""
FIRST_TASKS: Final = 40
"""So many tasks stand open; the others behind a fold."""
_VERDICTS: Final = {
    "clean": "Nothing is wrong with this log.",
    "open": "Nothing is wrong with this log, and the run has not ended.",
    "violations": "Something is wrong with this log.",
}


def head(told: Story, audit: Audit) -> Markup:
    """The run in one look."""
    run, events = told.run, told.log.events
    lasted = duration((events[-1].at - events[0].at) / 1e6)
    done = run.counts[TaskState.DONE]
    asked = sum(any(r.verdict != "expired" for r in q.replies) for q in told.questions)
    facts: list[tuple[str, Part]] = [
        ("tasks done", f"{done} of {len(run.tasks)}"),
        ("took", lasted),
        ("calls and probes", run.account.tool_calls),
        ("decisions", len(told.decisions)),
        ("questions answered", f"{asked} of {len(told.questions)}"),
        ("effects", effects_in_short(told)),
        ("plans", len(told.plans)),
        ("events", len(events)),
    ]
    if run.account.tokens or run.account.cost_micros:
        facts.append(("tokens", f"{run.account.tokens:,}"))
        facts.append(("money", money(run.account.cost_micros)))
    goal = str(told.created.get("goal", "")) or "a run without a stated goal"
    return tag(
        "header",
        tag("p", "run report", cls="over"),
        tag("h1", goal),
        tag("p", pill(run.state.value), " ", verdict_pill(audit), " ", code(run.id), cls="pills"),
        tag("p", f"{day(events[0].at)} to {day(events[-1].at)}", cls="soft"),
        tag("ul", [tag("li", tag("b", what), tag("span", name)) for name, what in facts], cls="facts"),
    )


def effects_in_short(told: Story) -> str:
    """Return how many effects there are, and how many are not known."""
    there = sum(e.applied == "yes" for e in told.effects)
    maybe = sum(e.applied == "maybe" for e in told.effects)
    return f"{there}" + (f", {maybe} unknown" if maybe else "")


def verdict_pill(audit: Audit) -> Markup:
    """Return the verdict as a coloured word."""
    sign = {"clean": "✔", "open": "○", "violations": "✖"}[audit.verdict]
    return tag("span", f"{sign} audit: {audit.verdict}", cls=f"pill {audit.verdict}")


def verdict(told: Story, audit: Audit) -> Markup:
    """What the audit says, what it rests on, and how to repeat it."""
    words = (
        f"{_VERDICTS[audit.verdict]} {audit.events} events were read: each has the hash of its contents behind the one "
        f"before it. {audit.transitions} moves were held against the state tables, and {audit.decisions} decisions "
        "were made again from the facts in the log by the rule table in the log."
    )
    return join(
        tag("p", words, cls=f"verdict {audit.verdict}"),
        _lost_end(audit),
        _findings(audit),
        _checks(audit),
        tag(
            "dl",
            _pair("proved", _proved(audit)),
            _pair("log ends at", join(f"event {audit.head.seq}, ", code(audit.head.hash.hex()))),
            _pair(
                "rule table",
                join(str(told.created.get("rules_name", "")), " ", code(_short(told, "rules_digest"))),
            ),
            _pair("classification", code(_short(told, "classify_digest"))),
            _pair("state tables", code(_short(told, "machines_digest"))),
            _pair("made by", f"fsm-agent {told.created.get('version', '')}"),
            _pair("tools", _tools(told)),
            cls="identity",
        ),
        tag(
            "p",
            "Do not take this page's word for it: the log is in this file. ",
            code("fsm-agent audit THIS-FILE.html"),
            " audits it, ",
            code("fsm-agent report THIS-FILE.html -o again.html"),
            " writes this page again from it (but for a head that was kept outside), and ",
            code("fsm-agent import THIS-FILE.html"),
            " takes it into a store.",
            cls="note",
        ),
    )


def _lost_end(audit: Audit) -> Markup | None:
    """Say so if the log ends before the head that is kept: what happened behind its end is not on this page."""
    if audit.kept is None or audit.kept.seq <= audit.head.seq:
        return None
    words = (
        f"This log ends at event {audit.head.seq}, but the head kept outside of it is event {audit.kept.seq}: its end was "
        "cut off, or an older file was put back. What happened after its end is not on this page. Restore the newer "
        "file and write the report again."
    )
    return tag("p", words, cls=f"verdict {audit.verdict}")


def _pair(name: str, what: Part) -> Markup:
    return join(tag("dt", name), tag("dd", what))


def _short(told: Story, name: str) -> str:
    return str(told.created.get(name, ""))[:16]


def _tools(told: Story) -> Markup:
    return join(
        join(" " if i else "", tag("span", f"{name} · {spec.effect.value}", cls=f"chip {spec.effect.value}"))
        for i, (name, spec) in enumerate(told.run.tools.items())
    )


def _findings(audit: Audit) -> Markup | None:
    if not audit.findings:
        return None
    rows = [
        (event_link(f.seq) if f.seq else "", f"{f.rule} {f.check}", f.message) for f in audit.findings[:200]
    ]
    left = len(audit.findings) - len(rows)
    more = tag("p", f"{left} more findings are not shown here.", cls="note") if left else None
    return join(table(("event", "check", "what was found"), rows, cls="bad"), more)


def _checks(audit: Audit) -> Markup | None:
    """What became of every check: none is skipped in silence."""
    if not audit.checks:
        return None
    failed = sum(t.failed > 0 for t in audit.checks)
    looked = sum(t.passed + t.failed > 0 for t in audit.checks)
    words = f"{len(audit.checks)} checks, {looked} of them had something to look at, {failed} of them failed"
    rows = [
        (t.rule, tag("b", t.check), CHECKS[t.check].says, t.passed, t.failed or "", t.not_applicable)
        for t in audit.checks
        if t.passed or t.failed
    ]
    idle = ", ".join(f"{t.rule} {t.check}" for t in audit.checks if not t.passed and not t.failed)
    head = ("rule", "check", "what it demands", "passed", "failed", "not applicable")
    return fold(
        words,
        table(head, rows, cls="dense"),
        tag("p", "nothing to look at: ", idle, cls="soft") if idle else None,
    )


def _proved(audit: Audit) -> str:
    if audit.kept is None:
        words = "by the chain alone, no head was kept outside: a cut at the border of a batch would not show"
    else:
        words = f"against the head kept outside at event {audit.kept.seq}"
    return words if audit.signed is None else f"{words}; signed up to event {audit.signed}"


# ── what happened ─────────────────────────────────────────────────────────────────────────────────────────────


def closing(told: Story) -> Markup:
    """What was done, what was not and why, what remains for a person."""
    found = report_of(told.run)
    not_done = found["not_done"]
    return join(
        tag("p", _sentence(told, found)),
        table(
            ("not done", "state", "why"),
            [(row["task"], pill(row["state"]), row["reason"]) for row in not_done[:MOST_TASKS]],
        )
        if not_done
        else None,
        tag("h3", "Remains for a person") if found["remains"] else None,
        tag("ul", [tag("li", words) for words in found["remains"][:MOST_TASKS]])
        if found["remains"]
        else None,
        _wishes(told),
    )


def _sentence(told: Story, found: Mapping[str, Any]) -> str:
    done = len(found["done"]) if isinstance(found["done"], list) else found["done"]
    total = len(told.run.tasks)
    ended = "ended" if told.run.closed else "stands"
    unknown = f" {len(found['unknown'])} results are unknown." if found["unknown"] else ""
    return f"The run {ended} {told.run.state.value}: {done} of {total} tasks are done.{unknown}"


def _wishes(told: Story) -> Markup | None:
    start = told.log.events[0].at
    rows = [(clock(mark.at, start), event_link(mark.seq), mark.words) for mark in told.marks]
    if not rows:
        return None
    return fold(
        f"The run as a whole, moment by moment ({len(rows)})",
        table(("at", "event", "what"), rows, cls="dense"),
    )


def tasks(told: Story) -> Markup:
    """Every task with where it ended: those that are not done first where there are many."""
    run = told.run
    everything = in_order(run)
    if len(everything) > FIRST_TASKS:
        everything.sort(key=lambda t: t.state is TaskState.DONE)
    rows = [
        (
            tag("b", task.id),
            does(run, task),
            pill(task.state.value),
            task.attempt,
            _outcome(task),
        )
        for task in everything[:MOST_TASKS]
    ]
    left = len(everything) - len(rows)
    return join(
        long_table(
            ("task", "does", "state", "tries", "result, or why not"), rows, "tasks", first=FIRST_TASKS
        ),
        tag("p", f"{left} more tasks are done; the log has them.", cls="note") if left else None,
    )


def _outcome(task: Task) -> Markup:
    if task.state is TaskState.DONE:
        return value(task.result, most=1_500)
    return join(shortened(task.reason, 600))


# ── plans ─────────────────────────────────────────────────────────────────────────────────────────────────────


def plans(told: Story) -> Markup:
    """Every plan that was in force, with what it has of the one before."""
    return join(_plan(told, plan, i == len(told.plans) - 1) for i, plan in enumerate(told.plans))


def _plan(told: Story, plan: PlanVersion, present: bool) -> Markup:
    start = told.log.events[0].at
    first = plan.version == 1
    words = "the first plan" if first else f"by {plan.origin}, {plan.scope}"
    return tag(
        "article",
        tag(
            "h3",
            f"Plan {plan.version}",
            tag("span", f" {words} ", cls="soft"),
            event_link(plan.seq),
            " ",
            clock(plan.at, start),
            tag("span", " in force", cls="chip done") if present and not first else None,
        ),
        tag("p", plan.explanation) if plan.explanation and not first else None,
        tag("p", "because ", plan.why, cls="soft") if plan.why and plan.why not in plan.explanation else None,
        None if first else _diff(plan.diff),
        fold(f"Its {len(plan.steps)} steps", _steps(plan.steps[:MOST_TASKS])),
        cls="plan",
    )


def _diff(diff: Mapping[str, Any]) -> Markup:
    """Return what is kept, changed, new and gone; of many the number alone."""
    signs = {"kept": "=", "changed": "≠", "added": "+", "removed": "−"}
    chips: list[Markup] = []
    for name, sign in signs.items():
        found = diff.get(name, [])
        if isinstance(found, int):
            chips.append(tag("span", f"{sign} {found} {name}", cls=f"chip {name}"))
        else:
            chips += [tag("span", f"{sign} {step}", title=name, cls=f"chip {name}") for step in found]
    reused = diff.get("reused", {})
    if isinstance(reused, dict):
        chips += [
            tag("span", f"{new} = {old}", title="the same call", cls="chip kept")
            for new, old in reused.items()
        ]
    return tag("p", [join(chip, " ") for chip in chips]) if chips else join()


def _steps(steps: Iterable[Mapping[str, Any]]) -> Markup:
    return table(
        ("step", "tool", "arguments", "behind", "conditions"),
        [
            (
                tag("b", str(step.get("id", ""))),
                str(step.get("tool") or ""),
                arguments(step["args"]) if isinstance(step.get("args"), dict) and step["args"] else "",
                ", ".join(d["id"] if isinstance(d, dict) else str(d) for d in step.get("depends_on", ())),
                _conditions(step),
            )
            for step in steps
        ],
        cls="dense",
    )


def _conditions(step: Mapping[str, Any]) -> Markup:
    said = []
    for name in ("when", "done_when", "join", "on_item_failure"):
        if step.get(name) not in (None, "", "all"):
            said.append(join(tag("span", f"{name} ", cls="soft"), code(str(step[name]))))
    for name in ("requires_confirmation", "optional"):
        if step.get(name):
            said.append(tag("span", name.replace("_", " "), cls="chip"))
    said += [
        join(tag("span", "needs ", cls="soft"), code(str(c.get("check") if isinstance(c, dict) else c)))
        for c in step.get("preconditions", ())
    ]
    if step.get("on_failure"):
        said.append(
            join(tag("span", "on failure ", cls="soft"), code(canon.encode(step["on_failure"]).decode()))
        )
    return tag("div", [tag("div", one) for one in said]) if said else join()
