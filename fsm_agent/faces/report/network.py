"""The graph of tasks, from left to right: each right of everything that it needs, coloured by where it ended.

A line that passes a layer gets a place of its own there, so it never runs behind a box.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from fsm_agent.core.engine.records import Task
from fsm_agent.core.engine.state import Run
from fsm_agent.faces.drawing.layers import layered
from fsm_agent.faces.report.markup import Markup, join, tag
from fsm_agent.faces.report.words import SIGNS, does, in_order

MOST: Final = 150
"""More tasks than this are not drawn."""
WIDE: Final = 158.0
HIGH: Final = 44.0
GUTTER: Final = 62.0
SPACE: Final = 14.0
PASS: Final = 8.0
"""Height of the place through which a line passes a layer."""
_ROUNDS: Final = 6
_LETTERS: Final = 21


class _Pass(NamedTuple):
    """The place of a line from *source* in a layer that it passes."""

    source: str
    layer: int


_Place = str | _Pass


def network(run: Run) -> Markup:
    """Return the picture, or a line that says why there is none."""
    tasks = [task for task in in_order(run) if run.plans(task) and not _is_record(run, task)]
    if len(tasks) > MOST:
        return tag("p", f"{len(tasks)} tasks are too many for one picture; the table lists them.", cls="note")
    known = {task.id for task in tasks}
    needs = {task.id: [name for name in _needs(run, task) if name in known] for task in tasks}
    layers, ways = _with_passes(layered(needs), needs)
    place, height = _placed(_sorted(layers, ways))
    width = max(320.0, len(layers) * (WIDE + GUTTER) - GUTTER + 4)
    optional = {(t.id, d.id) for t in tasks for d in t.step.depends_on if d.optional}
    return tag(
        "div",
        tag(
            "svg",
            tag("title", "Tasks from left to right, each behind what it depends on"),
            [_line([place[p] for p in way], dashed=(way[-1], way[0]) in optional) for way in ways],
            [_box(run, run.tasks[name], *place[name]) for name in needs],
            viewBox=f"0 0 {width:.0f} {height:.0f}",
            width=f"{width:.0f}",
            role="img",
            cls="network",
        ),
        cls="scroll chart",
    )


def _is_record(run: Run, task: Task) -> bool:
    """Whether a task is a record of a batch, or a part of one: the batch stands for all of them."""
    while task.parent and task.parent in run.tasks:
        task = run.tasks[task.parent]
        if task.step.for_each is not None:
            return True
    return False


def _needs(run: Run, task: Task) -> list[str]:
    """Return what a task stands right of: its last parts if it has any, else what it, or the whole, depends on."""
    parts = [run.tasks[name] for name in run.members.get(task.id, ())] if task.step.for_each is None else []
    if parts:
        inner = {d.id for part in parts for d in part.step.depends_on}
        return [part.id for part in parts if part.id not in inner]
    return _needs_of_whole(run, task)


def _needs_of_whole(run: Run, task: Task) -> list[str]:
    """Return what a task depends on; a part that depends on no other one, what the whole does."""
    parent = run.tasks.get(task.parent)
    own = [d.id for d in task.step.depends_on]
    return own if own or parent is None else _needs_of_whole(run, parent)


def _with_passes(
    layers: Sequence[Sequence[str]], needs: Mapping[str, Sequence[str]]
) -> tuple[list[list[_Place]], list[list[_Place]]]:
    """Return the layers with the places where lines pass, and every line as the places it touches."""
    depth = {name: i for i, layer in enumerate(layers) for name in layer}
    out: list[list[_Place]] = [list(layer) for layer in layers]
    ways: list[list[_Place]] = []
    for name, own in needs.items():
        for before in own:
            passes: list[_Place] = [_Pass(before, at) for at in range(depth[before] + 1, depth[name])]
            for passing, at in zip(passes, range(depth[before] + 1, depth[name]), strict=True):
                if passing not in out[at]:
                    out[at].append(passing)
            ways.append([before, *passes, name])
    return out, ways


def _sorted(layers: list[list[_Place]], ways: Sequence[Sequence[_Place]]) -> list[list[_Place]]:
    """Order every layer by where its neighbours stand, to and fro, so that few lines cross."""
    left: dict[_Place, set[_Place]] = {}
    right: dict[_Place, set[_Place]] = {}
    for way in ways:
        for a, b in pairwise(way):
            left.setdefault(b, set()).add(a)
            right.setdefault(a, set()).add(b)
    where = {p: i - len(layer) / 2 for layer in layers for i, p in enumerate(layer)}
    for turn in range(_ROUNDS):
        near = left if turn % 2 == 0 else right
        for layer in layers if turn % 2 == 0 else reversed(layers):
            middle = {
                p: sum(sorted(where[n] for n in near[p])) / len(near[p]) if p in near else where[p]
                for p in layer
            }
            layer.sort(key=lambda p: middle[p])
            where.update((p, i - len(layer) / 2) for i, p in enumerate(layer))
    return layers


def _placed(layers: Sequence[Sequence[_Place]]) -> tuple[dict[_Place, tuple[float, float]], float]:
    """Return where every place stands, layers in the middle, and how high the picture is."""

    def high(layer: Sequence[_Place]) -> float:
        return sum(PASS if isinstance(p, _Pass) else HIGH for p in layer) + SPACE * (len(layer) - 1)

    tallest = max(map(high, layers), default=40.0)
    place: dict[_Place, tuple[float, float]] = {}
    for index, layer in enumerate(layers):
        y = (tallest - high(layer)) / 2 + 2
        for p in layer:
            place[p] = (index * (WIDE + GUTTER) + 2, y)
            y += (PASS if isinstance(p, _Pass) else HIGH) + SPACE
    return place, tallest + 4


def _line(points: Sequence[tuple[float, float]], *, dashed: bool) -> Markup:
    """Return a line from the first box over the places that it passes to the last box."""
    x, y = points[0][0] + WIDE, points[0][1] + HIGH / 2
    path = f"M{x:.1f},{y:.1f}"
    for i, (left, top) in enumerate(points[1:], 1):
        last = i == len(points) - 1
        to_x, to_y = (left - 7, top + HIGH / 2) if last else (left, top + PASS / 2)
        half = (to_x - x) / 2
        path += f" C{x + half:.1f},{y:.1f} {to_x - half:.1f},{to_y:.1f} {to_x:.1f},{to_y:.1f}"
        x, y = to_x, to_y
        if not last:
            x = left + WIDE
            path += f" H{x:.1f}"
    return join(
        tag("path", d=path, cls="edge optional" if dashed else "edge"),
        tag("path", d=f"M{x - 1:.1f},{y - 4:.1f} l7,4 l-7,4 z", cls="arrow"),
    )


def _box(run: Run, task: Task, x: float, y: float) -> Markup:
    state = task.state.value
    runs = does(run, task)
    tries = f" · {task.attempt} tries" if task.attempt > 1 else ""
    marks = " · asks" if task.step.requires_confirmation else ""
    return tag(
        "g",
        tag("title", f"{task.id} ({runs}): {state}{tries}"),
        tag("rect", x=x, y=y, width=WIDE, height=HIGH, rx=6, cls=f"box {state}"),
        tag("rect", x=x, y=y, width=5, height=HIGH, rx=2, cls=f"side {state}"),
        tag("text", f"{SIGNS[state]} {_cut(task.id, _LETTERS - 2)}", x=x + 14, y=y + 19, cls="name"),
        tag("text", _cut(f"{runs}{tries}{marks}", _LETTERS + 3), x=x + 14, y=y + 35, cls="tool"),
    )


def _cut(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
