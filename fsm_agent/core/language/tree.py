"""The tree of an expression: what can be written at all is a node here; nothing else exists.

Nodes know how they are printed, and printing is canonical: equal trees print equally, and what is printed
reads back as the same tree.
"""

import json
from collections.abc import Iterator
from typing import assert_never

import attrs

from fsm_agent.core.language.refs import Segment, render

MAX_CHARS = 500
MAX_DEPTH = 24
MAX_OPERATORS = 120
MAX_INT = 2**127 - 1
"""Integers beyond this, of either sign, are refused: 128 bits."""

LOOPS = ("all", "any", "none", "count")
FUNCTIONS = ("len", "sum", "min", "max", "abs", "lower", "exists", *LOOPS)


@attrs.frozen
class Literal:
    """``null``, ``true``, ``false``, a number or a text."""

    value: str | int | float | bool | None


@attrs.frozen
class Path:
    """A path from a name of the scope, or from a loop's variable if ``slot`` says which."""

    root: str
    path: tuple[Segment, ...] = ()
    slot: int | None = None

    @property
    def text(self) -> str:
        """The path as it is printed."""
        return render(self.root, self.path)


@attrs.frozen
class Items:
    """A list written out."""

    items: tuple["Node", ...]


@attrs.frozen
class Negative:
    """``-x``."""

    of: "Node"


@attrs.frozen
class Not:
    """``not x``."""

    of: "Node"


@attrs.frozen
class Logic:
    """``a and b and c``, or the same with ``or``."""

    op: str
    parts: tuple["Node", ...]


@attrs.frozen
class Binary:
    """Two sides of ``== != < <= > >= in + - * /``."""

    op: str
    left: "Node"
    right: "Node"


@attrs.frozen
class Matches:
    """``x matches /pattern/``; the pattern as written, without its slashes."""

    left: "Node"
    pattern: str


@attrs.frozen
class Call:
    """One of the functions that take values."""

    name: str
    args: tuple["Node", ...]


@attrs.frozen
class Loop:
    """``all(name in source, test)`` and its kin. The variable lives in slot ``slot``."""

    kind: str
    name: str
    source: "Node"
    test: "Node"
    slot: int


@attrs.frozen
class Short:
    """``all(test)`` before it is known which list it is about."""

    kind: str
    test: "Node"


Node = Literal | Path | Items | Negative | Not | Logic | Binary | Matches | Call | Loop | Short

OR, AND, NOT, COMPARE, ADD, MULTIPLY, SIGN, ATOM = range(1, 9)
BINDING = {
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in", "matches"), COMPARE),
    **dict.fromkeys(("+", "-"), ADD),
    **dict.fromkeys(("*", "/"), MULTIPLY),
    "or": OR,
    "and": AND,
}
"""How tightly an operator binds."""


def show(node: Node) -> str:
    """Print *node* canonically: one space around operators, parentheses only where they change the tree."""
    match node:
        case Literal(value=bool() | None as value):
            return {True: "true", False: "false", None: "null"}[value]
        case Literal(value=str(value)):
            return json.dumps(value, ensure_ascii=False)
        case Literal(value=value):
            return repr(value)
        case Path():
            return node.text
        case Items(items=items):
            return f"[{', '.join(map(show, items))}]"
        case Negative(of=of):
            return f"-{_inside(of, SIGN)}"
        case Not(of=of):
            return f"not {_inside(of, NOT)}"
        case Logic(op=op, parts=parts):
            return f" {op} ".join(_inside(part, BINDING[op] + 1) for part in parts)
        case Binary(op=op, left=left, right=right):
            binds = BINDING[op]
            return f"{_inside(left, binds + (binds == COMPARE))} {op} {_inside(right, binds + 1)}"
        case Matches(left=left, pattern=pattern):
            return f"{_inside(left, ADD)} matches /{pattern}/"
        case Call(name=name, args=args):
            return f"{name}({', '.join(map(show, args))})"
        case Loop(kind=kind, name=name, source=source, test=test):
            return f"{kind}({name} in {show(source)}, {show(test)})"
        case Short(kind=kind, test=test):
            return f"{kind}({show(test)})"
        case _:
            assert_never(node)


def _inside(node: Node, least: int) -> str:
    text = show(node)
    return text if _binds(node) >= least else f"({text})"


def _binds(node: Node) -> int:
    match node:
        case Logic(op=op) | Binary(op=op):
            return BINDING[op]
        case Matches():
            return COMPARE
        case Not():
            return NOT
        case Negative():
            return SIGN
        case _:
            return ATOM


def parts(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly below *node*, in reading order."""
    match node:
        case Literal() | Path():
            return ()
        case Items(items=below) | Logic(parts=below) | Call(args=below):
            return below
        case Negative(of=one) | Not(of=one) | Short(test=one) | Matches(left=one):
            return (one,)
        case Binary(left=left, right=right) | Loop(source=left, test=right):
            return (left, right)
        case _:
            assert_never(node)


def walk(node: Node) -> Iterator[Node]:
    """Yield *node* and everything below it, in reading order."""
    yield node
    for part in parts(node):
        yield from walk(part)


def kind_of(node: Node) -> str | None:
    """Return the kind of value *node* gives when it gives one; None where only the data can tell."""
    match node:
        case Literal(value=None):
            return "null"
        case Literal(value=bool()) | Not() | Logic() | Matches():
            return "boolean"
        case Literal(value=str()) | Call(name="lower"):
            return "text"
        case Literal() | Negative() | Call(name="len" | "sum" | "abs") | Loop(kind="count"):
            return "number"
        case Binary(op=op):
            return "boolean" if BINDING[op] == COMPARE else "number"
        case Items():
            return "list"
        case Loop() | Call(name="exists"):
            return "boolean"
        case _:
            return None
