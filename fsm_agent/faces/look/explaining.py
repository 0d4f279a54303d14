"""``why``: why a decision was made, what a task waits for, and what would move it."""

from collections.abc import Iterator
from typing import Any

from fsm_agent.core.audit.answers import Explained, Why
from fsm_agent.core.audit.replay import events
from fsm_agent.core.engine.records import RUN
from fsm_agent.faces.frame import places
from fsm_agent.faces.frame.files import is_file
from fsm_agent.faces.frame.screen import Screen, safe, wrapped
from fsm_agent.faces.frame.spec import Outcome
from fsm_agent.runtime.proof.logs import why as why_in
from fsm_agent.runtime.proof.logs import why_of


def why(screen: Screen, *, run: str, subject: str | None) -> Outcome:
    """Return why a task, an event or the run is what it is; *run* may name a log file or a report as well."""
    if run.endswith((".jsonl", ".html")) and is_file(run):
        return Outcome(why_in(run, subject))
    with places.reading(screen, run) as store:
        head = store.head(run)
        log = events(run, store.read(run, until=head.seq), store.blob)
        return Outcome(why_of(run, log, subject))


def plain(value: Why, screen: Screen) -> Iterator[str]:
    """Words first: where it stands and why; then the decision, row by row; then what led there and what to type."""
    what = f"run {value.run}" if value.subject == RUN else f"{value.subject} of run {value.run}"
    yield f"{screen.glyph(value.state)} {safe(what)}: {screen.paint(value.state, value.state)}"
    if value.reason:
        yield from wrapped("  reason: ", value.reason, screen.width)
    if value.waits:
        yield from wrapped("  waiting for: ", value.waits, screen.width)
    if value.decision is not None:
        yield from _decision(value.decision, screen)
    for words in value.changes:
        yield from wrapped("  for the user: ", words, screen.width)
    if value.chain:
        yield "  what led there:"
        for link in value.chain:
            yield from wrapped(f"    {link.seq:>5}  ", link.words, screen.width)
    if value.commands:
        yield "next:"
        yield from (f"  {screen.command(line)}" for line in value.commands)


def _decision(found: Explained, screen: Screen) -> Iterator[str]:
    yield from wrapped(f"  event {found.seq} decided: ", f"{found.signal} -> {found.decide}", screen.width)
    yield from wrapped("    by row ", f"{found.rule} ({found.where})", screen.width)
    yield from wrapped("    because ", found.reason, screen.width)
    if found.facts:
        facts = ", ".join(f"{name} {value}" for name, value in found.facts.items())
        yield from wrapped("    facts: ", facts, screen.width)
    for near in found.near:
        missed = "; ".join(near.missed) or "it fits, and stands in a lower tier"
        words = f"{near.row} ({near.where}), which decides {near.decide}: {missed}"
        yield from wrapped("    not ", words, screen.width)
    for other in found.otherwise:
        words = f"{other.fact} were {other.values} (it was {other.was}): {other.decide} ({other.row})"
        yield from wrapped("    if ", words, screen.width)


def data(value: Why, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/why@1``."""
    del screen
    return value.to_json()
