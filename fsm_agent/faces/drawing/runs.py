"""A run's plan as a drawing, each step with its state: layered text, Mermaid, DOT, or SVG without a script in it."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from fsm_agent.core.engine.state import Run
from fsm_agent.core.plans.plan import Plan, Step
from fsm_agent.faces.drawing.graph import label, mermaid_label, unfolded
from fsm_agent.faces.drawing.layers import Node, draw, layered
from fsm_agent.faces.frame.columns import columns
from fsm_agent.faces.frame.screen import GLYPHS, short

FORMATS: Final = ("text", "mermaid", "dot", "svg")
COLOURS: Final[Mapping[str, str]] = {
    "pending": "#ffffff",
    "running": "#cfe8ff",
    "awaiting-confirmation": "#fff0b8",
    "unknown-result": "#f0d6ff",
    "done": "#d8f2da",
    "failed": "#ffd9d6",
    "cancelled": "#e6e6e6",
}
"""State → the colour of its box; the state is always written beside it."""
_WIDE, _HIGH, _APART, _BELOW, _LETTER = 44, 40, 56, 16, 7.2


def run(given: Run, form: str, *, unicode: bool, width: int) -> str:
    """Return the plan in force of *given* with the state of each step, as one of :data:`FORMATS`."""
    assert given.plan is not None, "a run that has begun has a plan"
    plan = unfolded(given.plan)
    states = {step.id: given.tasks[step.id].state.value for step in plan.steps}
    match form:
        case "mermaid":
            return _mermaid(plan, states)
        case "dot":
            return _dot(plan, states)
        case "svg":
            return svg(plan, states, f"run {given.id}: {given.state.value}")
        case _:
            return _text(plan, states, unicode=unicode, width=width)


def _needs(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {step.id: tuple(d.id for d in step.depends_on) for step in plan.steps}


def _text(plan: Plan, states: Mapping[str, str], *, unicode: bool, width: int) -> str:
    needs, sign = _needs(plan), 0 if unicode else 1

    def marked(step: Step, words: str) -> str:
        return f"{GLYPHS[states[step.id]][sign]} {words}"

    for name in (label, lambda step: short(step.id, 40)):
        nodes = [Node(s.id, marked(s, name(s)), needs[s.id]) for s in plan.steps]
        lines = draw(nodes, unicode=unicode, width=width)
        if lines is not None:
            legend = (
                [] if name is label else ["", *(marked(s, short(label(s), width - 2)) for s in plan.steps)]
            )
            return "\n".join([*lines, *legend]) + "\n"
    return "\n".join(_listed(plan, states, layered(needs), sign, width)) + "\n"


def _listed(
    plan: Plan, states: Mapping[str, str], layers: Sequence[Sequence[str]], sign: int, width: int
) -> Iterator[str]:
    steps = {step.id: step for step in plan.steps}
    for number, layer in enumerate(layers, 1):
        yield f"layer {number}"
        for name in layer:
            after = ", ".join(d.id for d in steps[name].depends_on)
            words = label(steps[name]) + (f"  <- {after}" if after else "")
            yield f"  {GLYPHS[states[name]][sign]} {short(words, width - 4)}"


def _mermaid(plan: Plan, states: Mapping[str, str]) -> str:
    names = {step.id: f"s{i}" for i, step in enumerate(plan.steps, 1)}
    lines = ["flowchart LR"]
    for step in plan.steps:
        opens, closes = ("{{", "}}") if step.requires_confirmation else ("[", "]")
        kind = states[step.id].replace("-", "_")
        words = f"{mermaid_label(label(step))}<br/>{states[step.id]}"
        lines.append(f'    {names[step.id]}{opens}"{words}"{closes}:::{kind}')
    for step in plan.steps:
        for dependency in step.depends_on:
            arrow = "-.->" if dependency.optional else "-->"
            lines.append(f"    {names[dependency.id]} {arrow} {names[step.id]}")
    for state in dict.fromkeys(states.values()):
        lines.append(f"    classDef {state.replace('-', '_')} fill:{COLOURS[state]},stroke:#666,color:#222")
    return "\n".join(lines) + "\n"


def _dot(plan: Plan, states: Mapping[str, str]) -> str:
    names = {step.id: f"s{i}" for i, step in enumerate(plan.steps, 1)}
    lines = ["digraph run {", "    rankdir=LR;", '    node [shape=box, style="rounded,filled"];']
    for step in plan.steps:
        words = label(step).replace("\\", "\\\\").replace('"', '\\"')
        more = ", peripheries=2" if step.requires_confirmation else ""
        fill = COLOURS[states[step.id]]
        lines.append(f'    {names[step.id]} [label="{words}\\n{states[step.id]}", fillcolor="{fill}"{more}];')
    for step in plan.steps:
        for dependency in step.depends_on:
            style = " [style=dashed]" if dependency.optional else ""
            lines.append(f"    {names[dependency.id]} -> {names[step.id]}{style};")
    return "\n".join([*lines, "}"]) + "\n"


def svg(plan: Plan, states: Mapping[str, str], title: str) -> str:
    """Return the steps as an SVG image: layers from left to right, no script, nothing from elsewhere.

    Args:
        plan: What is drawn.
        states: State by step.
        title: What the image is called.
    """
    layers = layered(_needs(plan))
    steps = {step.id: step for step in plan.steps}
    places: dict[str, tuple[float, float, float]] = {}
    x = 12.0
    for layer in layers:
        wide = max(_WIDE + _LETTER * max(columns(label(steps[name])), len(states[name])) for name in layer)
        for row, name in enumerate(layer):
            places[name] = (x, 36.0 + row * (_HIGH + _BELOW), wide)
        x += wide + _APART
    height = 36 + max((len(layer) for layer in layers), default=0) * (_HIGH + _BELOW)
    size = f'width="{x - _APART + 12:.0f}" height="{height}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="monospace" font-size="12">',
        f"<title>{_safe(title)}</title>",
        f'<text x="12" y="20" fill="#222">{_safe(title)}</text>',
    ]
    for step in plan.steps:
        for dependency in step.depends_on:
            left, top, wide = places[dependency.id]
            right, end, _ = places[step.id]
            start, middle = left + wide, (left + wide + right) / 2
            a, b = top + _HIGH / 2, end + _HIGH / 2
            dashes = ' stroke-dasharray="5 4"' if dependency.optional else ""
            out.append(
                f'<path d="M{start:.0f} {a:.0f}C{middle:.0f} {a:.0f} {middle:.0f} {b:.0f} {right:.0f} {b:.0f}" '
                f'fill="none" stroke="#888"{dashes}/>'
            )
    for step in plan.steps:
        left, top, wide = places[step.id]
        state = states[step.id]
        fill = f'fill="{COLOURS[state]}" stroke="#666"'
        out += [
            f'<rect x="{left:.0f}" y="{top:.0f}" width="{wide:.0f}" height="{_HIGH}" rx="6" {fill}/>',
            f'<text x="{left + 10:.0f}" y="{top + 16:.0f}" fill="#222">{_safe(label(step))}</text>',
            f'<text x="{left + 10:.0f}" y="{top + 32:.0f}" fill="#555">{_safe(f"{GLYPHS[state][0]} {state}")}</text>',
        ]
    return "\n".join([*out, "</svg>"]) + "\n"


def _safe(text: str) -> str:
    return escape(short(text, 200))
