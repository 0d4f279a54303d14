"""A graph without cycles as text: layers from left to right, one row per node, lines between them.

Between two layers every line runs along a row, changes rows on a vertical bus, and runs on. Nodes of the right
layer that need exactly the same nodes share a bus. Where a line crosses a bus that is not its own, the bus is drawn
through. What cannot be drawn without ambiguity, or is too wide, is not drawn at all.
"""

from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Final, NamedTuple

from fsm_agent.faces.frame.columns import columns, signs

MOST: Final = 60
"""More nodes than this are not drawn."""
_ROUNDS: Final = 4
_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_LINES: Final = {
    _LEFT | _RIGHT: "─-",
    _UP | _DOWN: "│|",
    _DOWN | _LEFT: "┐+",
    _UP | _LEFT: "┘+",
    _DOWN | _RIGHT: "┌+",
    _UP | _RIGHT: "└+",
    _UP | _DOWN | _LEFT: "┤+",
    _UP | _DOWN | _RIGHT: "├+",
    _DOWN | _LEFT | _RIGHT: "┬+",
    _UP | _LEFT | _RIGHT: "┴+",
    _UP | _DOWN | _LEFT | _RIGHT: "┼+",
}


class Node(NamedTuple):
    """A node: its id, what is written there, and the ids that it needs."""

    id: str
    label: str
    needs: tuple[str, ...]


def layered(needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the ids by layer: each right of everything that it needs, in the order given."""
    depth: dict[str, int] = {}
    for name in TopologicalSorter(needs).static_order():
        depth[name] = 1 + max((depth[n] for n in needs[name]), default=-1)
    layers: list[list[str]] = [[] for _ in range(1 + max(depth.values(), default=-1))]
    for name in needs:
        layers[depth[name]].append(name)
    return layers


class _Place(NamedTuple):
    """A node, or the passage of a long line through a layer (its label is None)."""

    key: str
    label: str | None


class _Bus(NamedTuple):
    """A vertical line between two layers: what enters it from the left, and what leaves it to the right."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]


_Gutter = Sequence[_Bus]
_Port = tuple[str, int]
"""A source, and the place of the bus in its gutter; a source has one row for every bus that it feeds."""


def draw(nodes: Sequence[Node], *, unicode: bool = True, width: int = 80) -> list[str] | None:
    """Return *nodes* as lines of at most *width* columns, or None if that cannot be done."""
    if not nodes or len(nodes) > MOST:
        return None
    layers, edges = _with_passages(nodes)
    _sort(layers, edges)
    gutters = [_buses(layers[i + 1], pairs) for i, pairs in enumerate(edges)]
    rows, ports = _rows(layers, gutters)
    canvas = _Canvas(unicode=unicode)
    left = 0
    for index, layer in enumerate(layers):
        size = max(columns(p.label or "") for p in layer) + 1
        for place in layer:
            if place.label is not None:
                canvas.text(left, rows[place.key], place.label)
            if index < len(gutters) and any(place.key in bus.sources for bus in gutters[index]):
                start = left + (columns(place.label) + 1 if place.label is not None else 0)
                canvas.run(start, left + size, rows[place.key])
        left += size
        if index < len(gutters):
            nodes_ahead = {p.key for p in layers[index + 1] if p.label is not None}
            ahead = canvas.gutter(left, gutters[index], ports[index], rows, nodes_ahead)
            if ahead is None:
                return None
            left = ahead
        if left > width + 1:
            return None
    return canvas.lines()


def _with_passages(nodes: Sequence[Node]) -> tuple[list[list[_Place]], list[list[tuple[str, str]]]]:
    """Return the layers and the edges between neighbours; long edges pass through every layer between."""
    needs = {node.id: node.needs for node in nodes}
    labels = {node.id: node.label for node in nodes}
    by_layer = layered(needs)
    depth = {name: i for i, layer in enumerate(by_layer) for name in layer}
    layers = [[_Place(name, labels[name]) for name in layer] for layer in by_layer]
    edges: list[list[tuple[str, str]]] = [[] for _ in by_layer[1:]]
    passing: set[str] = set()
    for node in nodes:
        for source in dict.fromkeys(node.needs):
            before = source
            for at in range(depth[source] + 1, depth[node.id]):
                key = f"\0{source}\0{at}"  # one line from a node serves all that need it further on
                if key not in passing:
                    passing.add(key)
                    layers[at].append(_Place(key, None))
                    edges[at - 1].append((before, key))
                before = key
            edges[depth[node.id] - 1].append((before, node.id))
    return layers, edges


def _sort(layers: list[list[_Place]], edges: Sequence[Sequence[tuple[str, str]]]) -> None:
    """Order every layer by where its neighbours stand, to and fro, so that few lines cross."""
    order = {place.key: float(i) for layer in layers for i, place in enumerate(layer)}
    for turn in range(_ROUNDS):
        forth = turn % 2 == 0
        for index in range(1, len(layers)) if forth else range(len(layers) - 2, -1, -1):
            near: dict[str, list[float]] = {}
            for a, b in edges[index - 1 if forth else index]:
                here, there = (b, a) if forth else (a, b)
                near.setdefault(here, []).append(order[there])
            middle = {p.key: _mean(near.get(p.key, ()), order[p.key]) for p in layers[index]}
            layers[index].sort(key=lambda place: middle[place.key])
            order.update((place.key, float(i)) for i, place in enumerate(layers[index]))


def _buses(layer: Sequence[_Place], edges: Sequence[tuple[str, str]]) -> list[_Bus]:
    """Return the buses of a gutter: one for all places that need exactly the same ones, from top to bottom."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for place in layer:
        sources = tuple(a for a, b in edges if b == place.key)
        if sources:
            groups.setdefault(sources, []).append(place.key)
    return [_Bus(sources, tuple(targets)) for sources, targets in groups.items()]


def _rows(
    layers: Sequence[Sequence[_Place]], gutters: Sequence[_Gutter]
) -> tuple[dict[str, int], list[dict[_Port, int]]]:
    """Give each place its rows, close to what it needs, one for every bus that it feeds."""
    rows: dict[str, int] = {}
    ports: list[dict[_Port, int]] = []
    for index, layer in enumerate(layers):
        before = -1
        own: dict[_Port, int] = {}
        for place in layer:
            arriving = [
                float(ports[index - 1][source, i])
                for i, bus in enumerate(gutters[index - 1] if index else ())
                if place.key in bus.targets
                for source in bus.sources
            ]
            rows[place.key] = top = max(before + 1, int(_mean(arriving, 0.0)))
            fed = [
                i
                for i, bus in enumerate(gutters[index] if index < len(gutters) else ())
                if place.key in bus.sources
            ]
            own.update(((place.key, i), top + n) for n, i in enumerate(fed))
            before = top + max(0, len(fed) - 1)
        ports.append(own)
    return rows, ports


def _mean(numbers: Sequence[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise


def _order(gutter: _Gutter, ports: Mapping[_Port, int], rows: Mapping[str, int]) -> list[int] | None:
    """Return the buses from left to right so that no two lines share a stretch of a row; None if that cannot be."""
    before: dict[int, set[int]] = {i: set() for i in range(len(gutter))}
    for i, arriving in enumerate(gutter):
        taken = {rows[target] for target in arriving.targets}
        for j, leaving in enumerate(gutter):
            if i != j and any(ports[source, j] in taken for source in leaving.sources):
                before[i].add(j)
    try:
        return list(TopologicalSorter(before).static_order())
    except CycleError:
        return None


class _Canvas:
    """Text and lines on a grid."""

    def __init__(self, *, unicode: bool) -> None:
        self._cells: dict[tuple[int, int], str] = {}
        self._bits: dict[tuple[int, int], int] = {}
        self._pick = 0 if unicode else 1

    def text(self, x: int, y: int, text: str) -> None:
        """Write *text* from column *x* on; the second cell of a wide sign stays empty."""
        for sign in signs(text):
            self._cells[x, y] = sign
            for _ in range(columns(sign) - 1):
                x += 1
                self._cells[x, y] = ""
            x += 1

    def run(self, start: int, stop: int, y: int) -> None:
        """Draw a line along row *y* from column *start* up to *stop*; where a bus stands, the bus is drawn through."""
        for x in range(start, stop):
            if not self._bits.get((x, y), 0) & (_UP | _DOWN):
                self._bits[x, y] = self._bits.get((x, y), 0) | _LEFT | _RIGHT

    def gutter(
        self,
        left: int,
        gutter: _Gutter,
        ports: Mapping[_Port, int],
        rows: Mapping[str, int],
        arrows: Collection[str],
    ) -> int | None:
        """Draw what lies between two layers, from column *left* on.

        Args:
            left: The first column.
            gutter: The buses.
            ports: Where their sources leave the layer on the left.
            rows: Where their targets stand.
            arrows: Targets at which a line ends, with an arrow; at others it passes on.

        Returns:
            The column of the next layer; None if the lines cannot be told apart.
        """
        order = _order(gutter, ports, rows)
        if order is None:
            return None
        first = left + self._forks(left, ports)
        columns = {i: first + 2 * n for n, i in enumerate(order)}
        right = first + 2 * len(gutter)
        for i, bus in enumerate(gutter):
            self._bus(columns[i], [*(ports[s, i] for s in bus.sources), *(rows[t] for t in bus.targets)])
        for i, bus in enumerate(gutter):
            x = columns[i]
            for source in bus.sources:
                self._bits[x, ports[source, i]] |= _LEFT
                self.run(first - 1, x, ports[source, i])
            for target in bus.targets:
                self._bits[x, rows[target]] |= _RIGHT
                self.run(x + 1, right + 2, rows[target])
                if target in arrows:
                    del self._bits[right + 1, rows[target]]
                    self._cells[right, rows[target]] = "▶>"[self._pick]
        return right + 2

    def _forks(self, x: int, ports: Mapping[_Port, int]) -> int:
        """Begin every line at column *x*, split those of sources that feed several buses; return the columns it took."""
        legs: dict[str, list[int]] = {}
        for (source, _), row in ports.items():
            legs.setdefault(source, []).append(row)
        forked = any(len(own) > 1 for own in legs.values())
        for own in legs.values():
            self.run(x, x + 1, own[0])
            if len(own) > 1:
                self._bus(x + 1, own)
                self._bits[x + 1, own[0]] |= _LEFT
                for row in own:
                    self._bits[x + 1, row] |= _RIGHT
            elif forked:
                self.run(x + 1, x + 2, own[0])
        for row in ports.values() if forked else ():
            self.run(x + 2, x + 3, row)
        return 3 if forked else 1

    def _bus(self, x: int, ends: Sequence[int]) -> None:
        top, bottom = min(ends), max(ends)
        for y in range(top, bottom + 1):
            self._bits[x, y] = (_UP if y > top else 0) | (_DOWN if y < bottom else 0)

    def lines(self) -> list[str]:
        """Return what was drawn."""
        cells = {at: _LINES[bits][self._pick] for at, bits in self._bits.items()} | self._cells
        height = 1 + max(y for _, y in cells)
        width = 1 + max(x for x, _ in cells)
        return ["".join(cells.get((x, y), " ") for x in range(width)).rstrip() for y in range(height)]
