"""Drawings: the two machines and plans, as Mermaid, DOT or text. Equal input gives equal text.

Mermaid and DOT use names of our own making, so that no id of a user and no hyphen of a state can break them; what
people read stands in labels.
"""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from fsm_agent.core.machine import RUN_EDGES, STATES, TASK_EDGES, Edge
from fsm_agent.core.plans.members import parent_of, walk
from fsm_agent.core.plans.plan import Dependency, Plan, Step
from fsm_agent.faces.drawing.layers import Node, draw, layered
from fsm_agent.faces.frame.screen import safe, short

EDGES: Final = {"task": TASK_EDGES, "run": RUN_EDGES}
FORMATS: Final = ("text", "mermaid", "dot")
WIDTH: Final = 80
_MARKUP: Final = {ord(c): f"#{ord(c)};" for c in '"#;<>&{}[]()|`\\%'}


# ── machines ──────────────────────────────────────────────────────────────────────────────────────────────────


def machine(name: str, form: str) -> str:
    """Return the machine *name* (``task`` or ``run``) as ``text``, ``mermaid`` or ``dot``."""
    edges = EDGES[name]
    match form:
        case "mermaid":
            return _machine_mermaid(edges)
        case "dot":
            return _machine_dot(name, edges)
        case _:
            return _machine_text(name, edges)


def arrows(edges: Sequence[Edge]) -> dict[tuple[str, str], list[str]]:
    """Return (source, dest) → the triggers that lead there, in the order of the states and of the table."""
    found: dict[tuple[str, str], list[str]] = {}
    for source in STATES:
        for edge in edges:
            if source in edge.sources:
                found.setdefault((source, edge.dest), []).append(edge.trigger)
    return found


def _name(state: str) -> str:
    return state.replace("-", "_")


def _machine_mermaid(edges: Sequence[Edge]) -> str:
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{state}" as {_name(state)}' for state in STATES]
    lines.append(f"    [*] --> {_name(STATES[0])}")
    lines += [f"    {_name(a)} --> {_name(b)} : {', '.join(t)}" for (a, b), t in arrows(edges).items()]
    return "\n".join(lines) + "\n"


def _machine_dot(name: str, edges: Sequence[Edge]) -> str:
    lines = [f"digraph {name} {{", "    rankdir=LR;", "    node [shape=box, style=rounded];"]
    lines += [f'    {_name(state)} [label="{state}"];' for state in STATES]
    lines += [
        f'    {_name(a)} -> {_name(b)} [label="{", ".join(t)}"];' for (a, b), t in arrows(edges).items()
    ]
    return "\n".join([*lines, "}"]) + "\n"


def _machine_text(name: str, edges: Sequence[Edge]) -> str:
    count = sum(len(edge.sources) for edge in edges)
    lines = [f"The machine of a {name}: {len(STATES)} states, {len(edges)} triggers, {count} edges.", ""]
    lines.append(f"{'from':<23}{'trigger':<12}to")
    for source in STATES:
        own = [edge for edge in edges if source in edge.sources]
        for index, edge in enumerate(own):
            lines.append(f"{'' if index else source:<23}{edge.trigger:<12}{edge.dest}")
        if not own:
            lines.append(f"{source:<23}-")
    lines += ["", "What each trigger records:"]
    for edge in edges:
        lines += _wrapped(f"  {edge.trigger:<12}", edge.records)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))


# ── plans ─────────────────────────────────────────────────────────────────────────────────────────────────────


def plan(given: Plan, form: str, *, unicode: bool = True, width: int = WIDTH) -> str:
    """Return *given* as ``text`` (from left to right; a list by layers where that is too wide), ``mermaid`` or ``dot``."""
    given = unfolded(given)
    match form:
        case "mermaid":
            return _plan_mermaid(given)
        case "dot":
            return _plan_dot(given)
        case _:
            return _plan_text(given, unicode=unicode, width=width)


def unfolded(given: Plan) -> Plan:
    """Return *given* with the steps of its nested plans beside the others, the first of them after what they are in."""
    steps = tuple(
        step
        if step.depends_on or not parent_of(step.id)
        else attrs.evolve(step, depends_on=(Dependency(id=parent_of(step.id)),))
        for step in walk(given.steps)
    )
    return attrs.evolve(given, steps=steps)


def label(step: Step) -> str:
    """Return what stands in a step's box: its id and what runs it."""
    runs = step.tool or (f"plan of {len(step.plan)}" if step.plan else step.description)
    return short(f"{step.id} {runs}", 40) if runs else safe(step.id)


def marks(step: Step) -> str:
    """Return what is special about a step, in words."""
    found = []
    if step.requires_confirmation:
        found.append("asks a person")
    if step.for_each is not None:
        found.append("for each")
    if step.when is not None:
        found.append("conditional")
    if step.optional:
        found.append("optional")
    return ", ".join(found)


def mermaid_label(text: str) -> str:
    """Return *text* as it may stand between the quotes of a Mermaid label."""
    return safe(text).translate(_MARKUP)


def _plan_mermaid(given: Plan) -> str:
    names = {step.id: f"s{i}" for i, step in enumerate(given.steps, 1)}
    lines = ["flowchart LR"]
    for step in given.steps:
        opens, closes = ("{{", "}}") if step.requires_confirmation else ("[", "]")
        lines.append(f'    {names[step.id]}{opens}"{mermaid_label(label(step))}"{closes}')
    for step in given.steps:
        for dependency in step.depends_on:
            arrow = "-.->" if dependency.optional else "-->"
            lines.append(f"    {names[dependency.id]} {arrow} {names[step.id]}")
    return "\n".join(lines) + "\n"


def _plan_dot(given: Plan) -> str:
    names = {step.id: f"s{i}" for i, step in enumerate(given.steps, 1)}
    lines = ["digraph plan {", "    rankdir=LR;", "    node [shape=box];"]
    for step in given.steps:
        text = label(step).replace("\\", "\\\\").replace('"', '\\"')
        peripheries = ", peripheries=2" if step.requires_confirmation else ""
        lines.append(f'    {names[step.id]} [label="{text}"{peripheries}];')
    for step in given.steps:
        for dependency in step.depends_on:
            style = " [style=dashed]" if dependency.optional else ""
            lines.append(f"    {names[dependency.id]} -> {names[step.id]}{style};")
    return "\n".join([*lines, "}"]) + "\n"


def _plan_text(given: Plan, *, unicode: bool, width: int) -> str:
    needs = {step.id: tuple(d.id for d in step.depends_on) for step in given.steps}
    for name in (label, lambda step: short(step.id, 40)):
        lines = draw([Node(s.id, name(s), needs[s.id]) for s in given.steps], unicode=unicode, width=width)
        if lines is not None:
            legend = [] if name is label else ["", *(short(label(step), width) for step in given.steps)]
            return "\n".join([*lines, *legend]) + "\n"
    return "\n".join(_listed(given, layered(needs), width)) + "\n"


def _listed(given: Plan, layers: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    steps = {step.id: step for step in given.steps}
    for number, layer in enumerate(layers, 1):
        yield f"layer {number}"
        for name in layer:
            step = steps[name]
            after = ", ".join(d.id + (" (optional)" if d.optional else "") for d in step.depends_on)
            yield "  " + short(label(step) + (f"  <- {after}" if after else ""), width - 2)
