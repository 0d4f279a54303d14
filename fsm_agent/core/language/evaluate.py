"""Tree to closures: evaluation is total, three-valued, and ends.

A value is a JSON value or :class:`Unknown`, which says why: the path that is missing, or the fault. Unknown
passes through everything but ``and``, ``or`` and the loops, which follow Kleene: they are known where the
unknown part could not change them. Nothing is converted: no truthiness, no comparison across types. When the
fuel is spent, the result is unknown.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, assert_never

from fsm_agent.core.language.refs import MISSING, descend, kind, render
from fsm_agent.core.language.tree import (
    Binary,
    Call,
    Items,
    Literal,
    Logic,
    Loop,
    Matches,
    Negative,
    Node,
    Not,
    Path,
    Short,
    parts,
    show,
    walk,
)
from fsm_agent.core.language.values import (
    FUEL,
    FUNCTIONS,
    NUMBERS,
    OPERATIONS,
    Env,
    OutOfFuelError,
    Unknown,
    fits,
    regex,
    same,
    unlike,
)

MAX_SUBJECT = 65_536
"""Bytes of the longest text that a regex is tried on."""


Code = Callable[[Env], Any]

_SPENT: Final = Unknown(f"more than {FUEL} steps of work; test fewer records or nest fewer loops")


def build(node: Node) -> Callable[[Mapping[str, Any]], Any]:
    """Return the function from a scope to the value of *node* or :class:`Unknown`; it never raises."""
    code = _code(node)
    slots = max((each.slot + 1 for each in walk(node) if isinstance(each, Loop)), default=0)

    def run(scope: Mapping[str, Any]) -> Any:
        try:
            return code(Env(scope, slots))
        except OutOfFuelError:
            return _SPENT

    return run


class _Fault:
    """The faults of one node; its text is printed when first needed."""

    __slots__ = ("node", "text")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.text = ""

    def __call__(self, found: str) -> Unknown:
        self.text = self.text or show(self.node)
        return Unknown(f"{self.text}: {found}")


def _code(node: Node) -> Code:
    match node:
        case Literal(value=value):
            return lambda _env: value
        case Path():
            return _path(node)
        case Items(items=items):
            return _items(items)
        case Negative(of=of):
            return _arithmetic(_Fault(node), "-", lambda _env: 0, _code(of))
        case Not(of=of):
            return _not(_Fault(node), _code(of))
        case Logic(op=op, parts=below):
            return _logic(_Fault(node), op, tuple(map(_code, below)))
        case Binary(op="==" | "!="):
            return _equality(node)
        case Binary(op="in"):
            return _member(_Fault(node), _code(node.left), _code(node.right))
        case Binary(op="<" | "<=" | ">" | ">="):
            return _order(_Fault(node), node.op, _code(node.left), _code(node.right))
        case Binary():
            return _arithmetic(_Fault(node), node.op, _code(node.left), _code(node.right))
        case Matches(left=left, pattern=pattern):
            return _matches(_Fault(node), _code(left), pattern)
        case Call():
            return _call(node)
        case Loop():
            return _loop(node)
        case Short(kind=name):
            raise ValueError(f"{name} without a list: lower it first")
        case _:
            assert_never(node)


# Paths and lists


def _path(node: Path) -> Code:
    """Compile a path; where it breaks off decides which part of it is called missing."""
    root, path, slot = node.root, node.path, node.slot
    broken = tuple(
        Unknown(render(root, path[: count + 1]), slot, missing=True) for count in range(max(len(path), 1))
    )
    absent = Unknown(node.text, slot, missing=True)

    def rest(value: Any) -> Any:
        for count, segment in enumerate(path):
            value = descend(value, segment)
            if value is MISSING:
                return broken[count]
        return value

    if slot is not None:
        if not path:
            return lambda env: env.slots[slot]
        return lambda env: rest(env.slots[slot])

    if not path:
        return lambda env: absent if (value := env.scope.get(root, MISSING)) is MISSING else value

    def whole(env: Env) -> Any:
        value = env.scope.get(root, MISSING)
        return absent if value is MISSING else rest(value)

    return whole


def _items(items: tuple[Node, ...]) -> Code:
    codes = tuple(map(_code, items))

    def run(env: Env) -> Any:
        out = [code(env) for code in codes]
        for item in out:
            if type(item) is Unknown:
                return item
        return out

    return run


# Truth


def _not(fault: _Fault, code: Code) -> Code:
    def run(env: Env) -> Any:
        value = code(env)
        if value is True:
            return False
        if value is False:
            return True
        return value if type(value) is Unknown else fault(_untrue(value))

    return run


def _untrue(value: Any) -> str:
    return f"found {kind(value)} where true or false belongs; write a comparison such as x > 0 or x != null"


def _logic(fault: _Fault, op: str, codes: tuple[Code, ...]) -> Code:
    decisive = op == "or"  # `or` is decided by a true part, `and` by a false one

    def run(env: Env) -> Any:
        unknown = None
        for code in codes:
            value = code(env)
            if value is decisive:
                return decisive
            if unknown is None and type(value) is not bool:
                unknown = value if type(value) is Unknown else fault(_untrue(value))
        return not decisive if unknown is None else unknown

    return run


# Comparison


def _equality(node: Binary) -> Code:
    fault, negative = _Fault(node), node.op == "!="
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if other == Literal(None) and isinstance(one, Path):
            return _presence(_path(one), wanted=negative)
    left, right = _code(node.left), _code(node.right)

    def run(env: Env) -> Any:
        a, b = left(env), right(env)
        if type(a) is Unknown:
            return a
        if type(b) is Unknown:
            return b
        equal = same(env, a, b, 0)
        return fault(equal) if type(equal) is str else equal is not negative

    return run


def _presence(path: Code, *, wanted: bool) -> Code:
    """Compile a test for null, where missing counts as null."""

    def run(env: Env) -> bool:
        value = path(env)
        return (value is not None and type(value) is not Unknown) is wanted

    return run


def _order(fault: _Fault, op: str, left: Code, right: Code) -> Code:
    compare = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[op]

    def run(env: Env) -> Any:
        a, b = left(env), right(env)
        kinds = type(a), type(b)
        if kinds[0] in NUMBERS and kinds[1] in NUMBERS:
            return compare(a, b)
        if kinds == (str, str):
            env.burn(min(len(a), len(b)) >> 8)
            return compare(a, b)
        if Unknown in kinds:
            return a if kinds[0] is Unknown else b
        if (one := kind(a)) != (other := kind(b)):
            return fault(unlike(one, other))
        return fault(f"{one} and {other} have no order; numbers and text do")

    return run


def _member(fault: _Fault, left: Code, right: Code) -> Code:
    def run(env: Env) -> Any:
        a, b = left(env), right(env)
        if type(a) is Unknown:
            return a
        if type(b) is Unknown:
            return b
        if type(b) is str and type(a) is str:
            env.burn((len(a) + len(b)) >> 6)
            return a in b
        if type(b) is not list:
            return fault(f"cannot look for {kind(a)} in {kind(b)}; it takes a list, or text in text")
        first = ""
        for item in b:
            env.burn(1)
            equal = same(env, a, item, 0)
            if equal is True:
                return True
            if type(equal) is str:
                first = first or equal
        return fault(first) if first else False

    return run


def _matches(fault: _Fault, code: Code, pattern: str) -> Code:
    search, size = regex(pattern)

    def run(env: Env) -> Any:
        value = code(env)
        if type(value) is not str:
            return (
                value if type(value) is Unknown else fault(f"found {kind(value)}; only text matches a regex")
            )
        if len(value) > MAX_SUBJECT:
            return fault(f"found a text of {len(value)} characters; at most {MAX_SUBJECT} bytes are matched")
        try:
            subject = value.encode()
        except UnicodeEncodeError:
            return fault("found text with a lone surrogate; only proper text matches a regex")
        if len(subject) > MAX_SUBJECT:
            return fault(f"found a text of {len(subject)} bytes; at most {MAX_SUBJECT} are matched")
        env.burn(1 + (len(subject) * size >> 8))
        return search(subject) is not None

    return run


# Numbers and functions


def _arithmetic(fault: _Fault, op: str, left: Code, right: Code) -> Code:
    calculate = OPERATIONS[op]

    def run(env: Env) -> Any:
        a, b = left(env), right(env)
        if not (fits(a) and fits(b)):
            for value in (a, b):
                if type(value) is Unknown:
                    return value
            if type(a) in NUMBERS and type(b) in NUMBERS:
                return fault("found a number beyond 128 bits or not finite; it is not calculated with")
            return fault(f"cannot calculate {kind(a)} {op} {kind(b)}; both sides must be numbers")
        if op == "/" and b == 0:
            return fault("division by zero; test the divisor first, as in n != 0 and …")
        result = calculate(a, b)
        return result if fits(result) else fault("the result is too large; 128 bits or 1.7e308 are the most")

    return run


def _call(node: Call) -> Code:
    fault = _Fault(node)
    if node.name == "exists" and isinstance(node.args[0], Path):
        return _presence(_path(node.args[0]), wanted=True)
    codes = tuple(map(_code, node.args))
    function = FUNCTIONS[node.name]

    def run(env: Env) -> Any:
        values = []
        for code in codes:
            value = code(env)
            if type(value) is Unknown:
                return value
            values.append(value)
        result = function(env, values)
        return result if type(result) is not Unknown else fault(result.why)

    return run


# Loops


def _cost(node: Node) -> int:
    own = 1 + len(node.path) if isinstance(node, Path) else 2
    return own + sum(map(_cost, parts(node)))


def _loop(node: Loop) -> Code:
    fault = _Fault(node)
    source, test, slot, cost = _code(node.source), _code(node.test), node.slot, _cost(node.test)
    counting, listed = node.kind == "count", show(node.source)
    # The truth of one test that decides the whole, and what is then decided; nothing decides a count early.
    decisive = {"all": False, "any": True, "none": True}.get(node.kind, MISSING)
    decided = node.kind == "any"

    def run(env: Env) -> Any:
        items = source(env)
        if type(items) is not list:
            return items if type(items) is Unknown else fault(f"found {kind(items)}; it goes through a list")
        slots, unknown, count = env.slots, None, 0
        for place, item in enumerate(items):
            env.fuel -= cost
            if env.fuel < 0:
                raise OutOfFuelError
            slots[slot] = item
            value = test(env)
            if value is True:
                count += 1
            if value is decisive:
                return decided
            if unknown is None and type(value) is not bool:
                value = value if type(value) is Unknown else fault(_untrue(value))
                unknown = _located(node, f"{listed}[{place}]", value)
        if unknown is not None:
            return unknown
        return count if counting else not decided

    return run


def _located(node: Loop, where: str, unknown: Unknown) -> Unknown:
    """Say of which item the *unknown* is, in terms of the list: ``f.price`` is ``flights[2].price``."""
    if not unknown.missing:
        return Unknown(f"{unknown.why} ({node.name} is {where})")
    if unknown.slot != node.slot:
        return unknown
    slot = node.source.slot if isinstance(node.source, Path) else None
    return Unknown(where + unknown.why[len(node.name) :], slot, missing=True)
