"""``plan make``: a first plan from a model, checked against the tools, written down; never run."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from fsm_agent.core.errors import Fault
from fsm_agent.core.plans import planning
from fsm_agent.faces.frame.failure import IN_JSON
from fsm_agent.faces.frame.files import write_whole
from fsm_agent.faces.frame.screen import Screen, short
from fsm_agent.faces.frame.spec import Outcome
from fsm_agent.runtime.planning.llm import Made, ModelPlanner
from fsm_agent.runtime.tools.loading import load_toolbox

MANY: Final = 400
"""Of words about an answer so many characters are shown."""


@attrs.frozen(kw_only=True)
class Written:
    """A plan that a model made.

    Attributes:
        made: The plan, and what it took.
        warnings: What deserves a look.
        file: Where it was written; None for standard output.
    """

    made: Made
    warnings: tuple[Fault, ...]
    file: str | None


async def plan_make(
    screen: Screen, *, goal: str, tools: str, inputs: Mapping[str, Any], output: str | None
) -> Outcome:
    """Ask the model of the environment for a plan, a few times if need be."""
    box = load_toolbox(tools)
    planner = ModelPlanner.from_env()
    made = await planner.make(goal, box, inputs=inputs)
    for words in made.refused:
        screen.hint(f"an answer was refused: {short(words, MANY)}")
    specs = {spec.name: spec for spec in box.specs}
    warnings = planning.check(made.plan, specs, default_tool=box.default_tool)
    if output is not None:
        write_whole("plan", output, f"{_text(made)}\n".encode())
    return Outcome(Written(made=made, warnings=warnings, file=output))


def _text(made: Made) -> str:
    return json.dumps(made.plan.doc, ensure_ascii=False, indent=1).translate(IN_JSON)


def plain(value: Written, screen: Screen) -> Iterator[str]:
    """The plan itself, or where it was written; warnings go to stderr, so that stdout is a plan."""
    made = value.made
    took = f"{len(made.plan.steps)} steps by {made.model}, {made.answers} answers, {made.usage.tokens} tokens"
    if made.usage.cost_micros:
        took += f", cost {made.usage.cost_micros / 1_000_000:g}"
    for fault in value.warnings:
        screen.hint(f"look: {short(str(fault), MANY)}")
    if value.file is None:
        screen.hint(took)
        yield from _text(made).splitlines()
        return
    yield f"{value.file}: {took}"
    yield f"look at it, then: {screen.command(f'fsm-agent run {value.file} --tools MOD:ATTR')}"


def data(value: Written, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/plan-made@1``."""
    del screen
    made = value.made
    return {
        "schema": "fsm-agent/plan-made@1",
        "file": value.file,
        "digest": made.plan.digest,
        "plan": dict(made.plan.doc),
        "model": made.model,
        "answers": made.answers,
        "tokens": made.usage.tokens,
        "cost_micros": made.usage.cost_micros,
        "refused": list(made.refused),
        "faults": [attrs.asdict(fault) for fault in value.warnings],
    }
