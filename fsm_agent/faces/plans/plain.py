"""What commands about plans and scenarios print for people: ``(value, screen) → lines``."""

from collections.abc import Iterator, Mapping
from typing import Any

from fsm_agent.core import canon
from fsm_agent.core.plans.plan import Step
from fsm_agent.faces.drawing import graph
from fsm_agent.faces.frame.columns import columns
from fsm_agent.faces.frame.screen import Screen, duration, safe, short, wrapped
from fsm_agent.faces.plans.files import Checked, Simulated
from fsm_agent.runtime.planning.plans import Plan


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


def simulated(value: Simulated, screen: Screen) -> Iterator[str]:
    """What simulations showed."""
    for result in value.results:
        sign = screen.glyph("done" if result.ok else "failed")
        facts = f"  {result.run}, {duration(result.virtual_s)}"
        yield f"{sign} {short(result.name, screen.width - 2 - columns(facts))}{facts}"
        for failure in result.failures:
            yield from wrapped("    ", failure, screen.width)
    met = sum(result.ok for result in value.results)
    yield f"{met} of {len(value.results)} scenarios came out as expected"
