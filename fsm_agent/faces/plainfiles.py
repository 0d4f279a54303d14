"""What commands about plans, rule tables and scenarios print for people: ``(value, screen) → lines``."""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from fsm_agent.core import canon
from fsm_agent.core.analysis import Report
from fsm_agent.core.plan import Step
from fsm_agent.core.rules import Table
from fsm_agent.faces import graph
from fsm_agent.faces.files import Checked, Simulated
from fsm_agent.faces.screen import Screen, duration, safe, short, wrapped
from fsm_agent.runtime.plans import Plan


def checked(value: Checked, screen: Screen) -> Iterator[str]:
    """A plan that can be run, and what deserves a look."""
    steps = f"{len(value.plan.steps)} steps"
    tools = "not checked against tools" if value.tools is None else f"fits {value.tools} tools"
    yield f"{screen.glyph('done')} {value.file}: {steps}, {tools}, digest {value.plan.digest[:16]}"
    for fault in value.warnings:
        yield from wrapped("  look: ", str(fault), screen.width)


def plan(value: Plan, screen: Screen) -> Iterator[str]:
    """A plan, step by step."""
    if value.goal:
        yield from wrapped("goal: ", value.goal, screen.width)
    yield f"digest {value.digest}"
    for name, given in value.inputs.items():
        yield from wrapped(f"input {safe(name)} = ", canon.encode(given).decode(), screen.width)
    for constraint in value.constraints:
        words = f"{constraint.check.text}, value {canon.encode(constraint.value).decode()} ({constraint.severity})"
        yield from wrapped(f"constraint {safe(constraint.key)}: ", words, screen.width)
    documents = {doc["id"]: doc for doc in value.doc["steps"]}
    for step in value.steps:
        yield from _step(step, documents[step.id], screen)


def _step(step: Step, document: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    yield ""
    after = ", ".join(d.id + (" (optional)" if d.optional else "") for d in step.depends_on)
    yield short(graph.label(step) + (f"  after {after}" if after else ""), screen.width)
    for key, value in document.items():
        if key not in ("id", "tool", "depends_on") and value not in (None, "", [], {}, False):
            text = value if isinstance(value, str) else canon.encode(value).decode()
            yield from wrapped(f"    {key}: ", text, screen.width)


def rules_check(value: Report, screen: Screen) -> Iterator[str]:
    """Whether a table is sound, and why it ends."""
    if value.sound:
        yield f"{screen.glyph('done')} sound"
    else:
        yield f"{screen.glyph('failed')} not sound: {len(value.findings)} findings"
    for finding in value.findings:
        yield from wrapped("  ", str(finding), screen.width)
    if value.proof is not None:
        yield from wrapped("  it ends: ", str(value.proof), screen.width)
    if value.bound is not None:
        most = ", ".join(f"{number} {name}" for name, number in attrs.asdict(value.bound).items())
        yield from wrapped("  at most, between two words of people: ", most, screen.width)


def rules(value: Table, screen: Screen) -> Iterator[str]:
    """A table, row by row."""
    yield f"table {value.name}: {len(value.rows)} rows, digest {value.digest}"
    yield from wrapped("params: ", ", ".join(f"{k} = {v:g}" for k, v in value.params.items()), screen.width)
    for row in value.rows:
        yield ""
        yield short(f"{row.id}  ({row.tier}, {row.where})", screen.width)
        states = ", ".join(sorted(row.states)) if row.states is not None else "any state"
        signals = ", ".join(sorted(row.signals)) if row.signals is not None else "any signal"
        yield from wrapped("    at: ", f"{row.machine} in {states}, on {signals}", screen.width)
        if row.when:
            yield from wrapped("    when: ", "; ".join(value.shown(c) for c in row.when), screen.width)
        yield f"    decide: {row.decide.value}" + (f" after {row.delay}" if row.delay else "")
        yield from wrapped("    why: ", row.why, screen.width)


def simulated(value: Simulated, screen: Screen) -> Iterator[str]:
    """What simulations showed."""
    for result in value.results:
        sign = screen.glyph("done" if result.ok else "failed")
        facts = f"  {result.run}, {duration(result.virtual_s)}"
        yield f"{sign} {short(result.name, screen.width - 2 - len(facts))}{facts}"
        for failure in result.failures:
            yield from wrapped("    ", failure, screen.width)
    met = sum(result.ok for result in value.results)
    yield f"{met} of {len(value.results)} scenarios came out as expected"
