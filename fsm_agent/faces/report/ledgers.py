"""What a report lists: decisions with their facts, questions with exact arguments, effects with their evidence, rows, events."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from fsm_agent.core.audit.answers import Explained
from fsm_agent.core.audit.causes import words_of
from fsm_agent.core.engine.records import RUN
from fsm_agent.core.events import Event, to_body
from fsm_agent.core.replay.ledger import Effect
from fsm_agent.core.replay.story import Asked, Reply, Story
from fsm_agent.core.rules.rows import Row
from fsm_agent.core.rules.table import Table
from fsm_agent.faces.frame.screen import duration
from fsm_agent.faces.report.markup import Markup, code, fold, join, long_table, shortened, table, tag
from fsm_agent.faces.report.words import arguments, clock, day, event_link, value

NEAR: Final = 4
"""Of the rows that nearly answered the first so many are shown."""
FIRST: Final = 40
"""So many calls stand open; the others behind a fold."""
CHUNK: Final = 250
"""Events per fold."""
WITH_BODIES: Final = 2_000
"""In longer logs an event is a line without its body; the log that the report carries has it."""
BODY: Final = 500


# ── decisions ─────────────────────────────────────────────────────────────────────────────────────────────────


def decisions(told: Story) -> Markup:
    """The decisions that led somewhere, and behind a fold those that accepted a success."""
    led = [d for d in told.decisions if d.decide != "accept"]
    accepted = [d for d in told.decisions if d.decide == "accept"]
    start = told.log.events[0].at
    return join(
        [_decision(told, d, start) for d in led[:WITH_BODIES]],
        tag("p", f"{len(led) - WITH_BODIES} more are not shown here.", cls="note")
        if len(led) > WITH_BODIES
        else None,
        tag("p", "Every decision of this run accepted a success.", cls="note")
        if not led and accepted
        else None,
        fold(
            f"{len(accepted)} successes accepted",
            table(
                ("event", "at", "task", "signal", "row"),
                [
                    (event_link(d.seq), clock(d.at, start), d.task or RUN, d.signal, _rule(told, d.rule))
                    for d in accepted
                ],
                cls="dense",
            ),
        )
        if accepted
        else None,
    )


def _decision(told: Story, found: Explained, start: int) -> Markup:
    return tag(
        "article",
        tag(
            "h3",
            event_link(found.seq),
            " ",
            tag("b", found.task or "run"),
            tag("span", f" {found.state} · {found.signal} → ", cls="soft"),
            tag("span", found.decide, cls=f"chip decide {found.decide}"),
            tag("span", " ", clock(found.at, start), cls="when"),
        ),
        tag("p", shortened(found.reason, 700)),
        tag("p", "row ", _rule(told, found.rule), tag("span", f" {found.where}", cls="soft")),
        _facts(found),
        _alternatives(found),
        cls="decision",
    )


def _rule(told: Story, name: str) -> Markup:
    known = any(row.id == name for row in told.run.rules.rows)
    return tag("a", name, href=f"#rule-{name}", cls="rule") if known else code(name)


def _facts(found: Explained) -> Markup | None:
    if not found.facts:
        return None
    chips = [tag("span", f"{name} ", tag("b", what), cls="chip fact") for name, what in found.facts.items()]
    return tag("p", [join(" " if i else "", chip) for i, chip in enumerate(chips)], cls="factline")


def _alternatives(found: Explained) -> Markup | None:
    """What would have changed it, and which rows nearly answered."""
    if not found.near and not found.otherwise:
        return None
    told = {o.row for o in found.otherwise}
    near = [n for n in found.near if n.row not in told][:NEAR]
    return fold(
        "What would have changed it",
        tag(
            "ul",
            [
                tag(
                    "li",
                    "if ",
                    code(f"{o.fact} {o.values}"),
                    f" (it was {o.was}): ",
                    tag("b", o.decide),
                    f" by {o.row}",
                )
                for o in found.otherwise
            ],
            [
                tag(
                    "li",
                    f"not {n.row}, which decides {n.decide}: ",
                    "; ".join(n.missed) or "it stands in a lower tier",
                )
                for n in near
            ],
        ),
    )


# ── questions ─────────────────────────────────────────────────────────────────────────────────────────────────


def questions(told: Story) -> Markup:
    """Every question to a person, with exactly what was shown and what was said."""
    if not told.questions:
        return tag("p", "Nobody was asked anything.", cls="note")
    start = told.log.events[0].at
    return join(_question(asked, start) for asked in told.questions)


_KIND: Final = {"approval": "may this call be made?", "answer": "a step for a person", "decide": "what now?"}


def _question(asked: Asked, start: int) -> Markup:
    call = [tag("span", asked.tool, cls="chip"), " ", tag("span", asked.effect, cls=f"chip {asked.effect}")]
    return tag(
        "article",
        tag(
            "h3",
            event_link(asked.seq),
            " ",
            tag("b", "run" if asked.task == RUN else asked.task),
            tag("span", f" {_KIND[asked.kind]} ", cls="soft"),
            call if asked.tool else None,
            tag("span", " ", clock(asked.at, start), cls="when"),
        ),
        tag("p", shortened(asked.say, 1_500), cls="said"),
        arguments(dict(asked.args) if asked.args is not None else None),
        tag(
            "p",
            "digest ",
            code(asked.digest[:16]),
            f" · answers: {', '.join(asked.answers)}",
            f" · {asked.approvers} people must approve" if asked.approvers > 1 else None,
            f" · until {day(asked.expires_at)}" if asked.expires_at is not None else None,
            cls="soft",
        ),
        tag("ul", [_reply(reply, start) for reply in asked.replies], cls="replies")
        if asked.replies
        else tag("p", "not answered", cls="soft"),
        tag("p", "consumed by the call at ", event_link(asked.used_by), cls="soft")
        if asked.used_by
        else None,
        cls="question",
    )


def _reply(reply: Reply, start: int) -> Markup:
    channel = f" ({reply.channel})" if reply.channel else ""
    return tag(
        "li",
        event_link(reply.seq),
        " ",
        clock(reply.at, start),
        " ",
        tag("b", reply.verdict, cls=f"verb {reply.verdict}"),
        f" by {reply.by}{channel}",
        f": {shortened(reply.note, 600)}" if reply.note else None,
        join(" ", value(reply.value)) if reply.value is not None else None,
    )


# ── effects ───────────────────────────────────────────────────────────────────────────────────────────────────


def effects(told: Story) -> Markup:
    """Every call that may change the world: who allowed it, what is known of it, and from where."""
    if not told.effects:
        return tag("p", "No call of this run could change anything.", cls="note")
    start = told.log.events[0].at
    return long_table(
        ("intent", "at", "task", "call", "arguments", "approved by", "took effect", "known from"),
        [_effect(told, effect, start) for effect in told.effects],
        "calls",
        first=FIRST,
        cls="ledger",
    )


_APPLIED: Final = {"yes": "✔ yes", "no": "✖ no", "maybe": "? unknown"}


def _effect(told: Story, effect: Effect, start: int) -> Sequence[Markup | str | int]:
    tries = f" (attempt {effect.attempt})" if effect.attempt > 1 else ""
    return (
        event_link(effect.seq),
        clock(effect.at, start),
        f"{effect.task}{tries}",
        join(
            tag("b", effect.tool),
            " ",
            tag("span", effect.effect, cls=f"chip {effect.effect}"),
            tag("div", "key ", code(effect.key[:12]), cls="soft"),
        ),
        value(dict(effect.args)),
        join(_approvers(told, effect))
        if effect.approval is not None
        else tag("span", "not needed", cls="soft"),
        tag("span", _APPLIED[effect.applied], cls=f"pill applied-{effect.applied}"),
        tag("div", [tag("div", event_link(seq), " ", shortened(words, 160)) for seq, words in effect.proof]),
    )


def _approvers(told: Story, effect: Effect) -> Iterator[Markup]:
    for asked in told.questions:
        if asked.used_by == effect.seq:
            for reply in asked.replies:
                yield tag("div", event_link(reply.seq), f" {reply.by}")


# ── the table, the events ─────────────────────────────────────────────────────────────────────────────────────


def rules(told: Story) -> Markup:
    """The rule table that the log brings along; the rows that decided stand open."""
    rows = told.run.rules.rows
    used = [row for row in rows if row.id in told.rows]
    other = [row for row in rows if row.id not in told.rows]
    params = ", ".join(f"{name} {what:g}" for name, what in told.run.rules.params.items())
    return join(
        tag("p", f"{told.run.rules.name}, digest ", code(told.run.rules.digest), cls="soft"),
        tag("p", "thresholds: ", params, cls="soft"),
        _rows(told.run.rules, used, told) if used else None,
        fold(f"{len(other)} rows that did not decide", _rows(told.run.rules, other, told)) if other else None,
    )


def _rows(of: Table, rows: Sequence[Row], told: Story) -> Markup:
    return table(
        ("row", "times", "at", "when", "decides", "why"),
        [
            (
                tag("b", row.id, id=f"rule-{row.id}"),
                told.rows.get(row.id, 0) or "",
                _place(row),
                tag("div", [tag("div", code(of.shown(c))) for c in row.when]),
                tag("span", row.decide.value, cls=f"chip decide {row.decide.value}"),
                row.why,
            )
            for row in rows
        ],
        cls="dense rows",
    )


def _place(row: Row) -> str:
    states = ", ".join(sorted(row.states)) if row.states is not None else "any state"
    signals = ", ".join(sorted(row.signals)) if row.signals is not None else "any signal"
    return f"{row.tier}: {'run' if row.machine == 'run' else states} on {signals}"


def events(told: Story) -> Markup:
    """Every event, in folds; each with its body as it is hashed, unless there are very many."""
    log, start = told.log.events, told.log.events[0].at
    bodies = len(log) <= WITH_BODIES
    note = (
        "Bodies are left out here, for there are many; the log in this file has them."
        if not bodies
        else "Each opens to its body, as it is hashed (large values put back); the hash, which covers the body and the hash "
        "before it, shows when the event is pointed at."
    )
    chunks = [log[at : at + CHUNK] for at in range(0, len(log), CHUNK)]
    return join(
        tag("p", note, cls="note"),
        [
            fold(
                f"Events {chunk[0].seq} to {chunk[-1].seq}",
                tag("div", [_event(told, event, start, bodies) for event in chunk], cls="events"),
            )
            for chunk in chunks
        ],
    )


def _event(told: Story, event: Event, start: int, bodies: bool) -> Markup:
    line: list[Any] = [
        tag("span", f"{event.seq}", cls="n"),
        tag("time", _since(event.at - start)),
        " ",
        shortened(words_of(event), 240),
    ]
    if not bodies:
        return tag("p", line, id=f"e{event.seq}")
    return tag(
        "details",
        tag("summary", line),
        tag("pre", shortened(to_body(event).decode(), BODY)),
        id=f"e{event.seq}",
        title=f"hash {told.log.heads[event.seq].hash.hex()[:16]}",
    )


def _since(us: int) -> str:
    return f"+{duration(us / 1e6)}" if us else "0"
