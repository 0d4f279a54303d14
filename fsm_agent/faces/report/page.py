"""A report is a function of a log: the same log and verdict give the same bytes, and the log stands in the page.

No script, no address outside of the page, nothing loaded: the policy in its head forbids it to whoever opens it, and a
browser holds every byte of style against a digest.
"""

import base64
import hashlib
from typing import Final

from fsm_agent.core.audit.audit import Audit
from fsm_agent.core.replay.story import Story
from fsm_agent.faces.report import gantt, ledgers, meters, network, sections
from fsm_agent.faces.report.markup import Markup, Part, join, tag
from fsm_agent.faces.report.style import SHEET
from fsm_agent.stores.embedded import ID, pack

POLICY: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-{}'"


def page(told: Story, audit: Audit, log: bytes) -> bytes:
    """Return the report as a file.

    Args:
        told: The run.
        audit: What an audit of its log says.
        log: The log as a file, byte for byte; it is carried along.
    """
    parts: list[tuple[str, str, Part]] = [
        ("verdict", "Verdict", sections.verdict(told, audit)),
        ("outcome", "Outcome", sections.closing(told)),
        ("timeline", "Time line", gantt.gantt(told)),
        ("tasks", "Tasks", join(network.network(told.run), sections.tasks(told))),
        ("plans", "Plans", sections.plans(told)),
        ("decisions", "Decisions", ledgers.decisions(told)),
        ("people", "People", ledgers.questions(told)),
        ("effects", "Effects", ledgers.effects(told)),
        ("budgets", "Budgets", meters.meters(told)),
        ("rules", "Rules", ledgers.rules(told)),
        ("events", "Events", ledgers.events(told)),
    ]
    digest = base64.b64encode(hashlib.sha256(SHEET.encode()).digest()).decode()
    title = f"{told.run.id}: {told.run.state.value} – run report"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=Markup(POLICY.format(digest))),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", Markup(SHEET)),
    )
    body = tag(
        "body",
        sections.head(told, audit),
        tag("nav", tag("ul", [tag("li", tag("a", words, href=f"#{name}")) for name, words, _ in parts])),
        tag("main", [tag("section", tag("h2", words), what, id=name) for name, words, what in parts]),
        tag("footer", _evidence(told, log)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n".encode()


def _evidence(told: Story, log: bytes) -> Markup:
    """The log itself, packed, where no browser shows it."""
    words = (
        f"This file carries the log of {told.run.id}: {told.log.last} events, {len(log):,} bytes, "
        f"SHA-256 {hashlib.sha256(log).hexdigest()}."
    )
    packed = tag("template", Markup("\n" + pack(log) + "\n"), id=ID, data_format="jsonl, gzip, base64")
    return join(tag("p", words), packed)
