"""Drawings of graphs: what can be read off the lines is exactly the graph."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent.faces.drawing.layers import Node, draw, layered

UP, DOWN, RIGHT = (0, -1), (0, 1), (1, 0)
LEADS = {
    "─": {RIGHT},
    "│": {UP, DOWN},
    "┐": {DOWN},
    "┘": {UP},
    "┌": {DOWN, RIGHT},
    "└": {UP, RIGHT},
    "┤": {UP, DOWN},
    "├": {UP, DOWN, RIGHT},
    "┬": {DOWN, RIGHT},
    "┴": {UP, RIGHT},
    "┼": {UP, DOWN, RIGHT},
}


def read_off(lines, names):
    """Return (from, to) for every line that a reader can follow: to the right, up and down, straight over a bus."""
    cells = {(x, y): c for y, line in enumerate(lines) for x, c in enumerate(line)}
    places = {name: (line.index(name), y) for name in names for y, line in enumerate(lines) if name in line}
    starts = {place: name for name, place in places.items()}
    found = set()
    for name, (x, y) in places.items():
        open_ends = [((x + len(name) + 1, y), RIGHT)]
        seen = set()
        while open_ends:
            at, heading = open_ends.pop()
            if (at, heading) in seen:
                continue
            seen.add((at, heading))
            character = cells.get(at, " ")
            if character == "▶":
                found.add((name, starts[at[0] + 2, at[1]]))
                continue
            if character == "│" and heading == RIGHT:
                leads = {RIGHT}  # over a bus of others
            else:
                leads = LEADS.get(character, set()) - {(-heading[0], -heading[1])}
            open_ends += [((at[0] + dx, at[1] + dy), (dx, dy)) for dx, dy in leads]
    return found


@st.composite
def graphs(draw_from):
    count = draw_from(st.integers(1, 9))
    names = [f"n{i}" for i in range(count)]
    nodes = []
    for i, name in enumerate(names):
        needs = draw_from(st.lists(st.sampled_from(names[:i]), unique=True, max_size=3)) if i else []
        nodes.append(Node(name, name + "x" * draw_from(st.integers(0, 5)), tuple(needs)))
    return nodes


@given(graphs())
@settings(max_examples=300, deadline=None)
def test_the_lines_say_exactly_what_needs_what(nodes):
    lines = draw(nodes, width=10_000)
    if lines is None:
        return
    labels = {node.id: node.label for node in nodes}
    wanted = {(labels[need], node.label) for node in nodes for need in node.needs}
    assert len(set(labels.values())) == len(nodes)
    assert read_off(lines, list(labels.values())) == wanted, "\n".join(lines)


@given(graphs(), st.integers(1, 60))
@settings(max_examples=100, deadline=None)
def test_no_line_is_wider_than_asked_for(nodes, width):
    lines = draw(nodes, width=width)
    assert lines is None or max(map(len, lines)) <= width


@given(graphs())
@settings(max_examples=50, deadline=None)
def test_the_same_graph_is_drawn_the_same_way_and_in_ascii_too(nodes):
    assert draw(nodes) == draw(nodes)
    plain = draw(nodes, unicode=False)
    assert (plain is None) == (draw(nodes) is None)
    assert plain is None or "\n".join(plain).isascii()


@given(graphs())
@settings(max_examples=50, deadline=None)
def test_every_node_stands_right_of_what_it_needs(nodes):
    layers = layered({node.id: node.needs for node in nodes})
    depth = {name: i for i, layer in enumerate(layers) for name in layer}
    assert sorted(depth) == sorted(node.id for node in nodes)
    assert all(depth[need] < depth[node.id] for node in nodes for need in node.needs)


def test_most_graphs_of_a_usual_size_can_be_drawn():
    reimbursement = [Node(n, n, ()) for n in ("T1", "T2", "T3")]
    reimbursement += [
        Node("T4", "T4", ("T1", "T2", "T3")),
        Node("T5", "T5", ("T4", "T3")),
        Node("T6", "T6", ("T5",)),
    ]
    assert draw(reimbursement) is not None


@pytest.mark.parametrize("nodes", [[], [Node(f"n{i}", f"n{i}", ()) for i in range(61)]])
def test_nothing_and_too_much_are_not_drawn(nodes):
    assert draw(nodes) is None
