"""What expressions do to values: equality, arithmetic, the functions, and what each of them costs.

Values are JSON values; nothing is converted, and a kind that does not fit is a fault in words. Work that grows
with the data is paid in fuel, one unit for about a tenth of a microsecond.
"""

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from fsm_agent.core import canon
from fsm_agent.core.language.refs import kind
from fsm_agent.core.language.tree import MAX_INT

FUEL = 100_000
"""Units per evaluation: tens of milliseconds at most."""
REGEX_MEMORY = 1 << 20
"""Bytes a compiled regex may take; bounds compiling to about 5 ms."""


@attrs.frozen
class Unknown:
    """No value.

    Attributes:
        why: The missing path, or the fault.
        slot: The loop variable that the missing path begins with; None for any other path, and for faults.
        missing: True for a missing path, False for a fault.
    """

    why: str
    slot: int | None = None
    missing: bool = False


class OutOfFuelError(Exception):
    """Internal: unwinds an evaluation; never leaves :func:`run`."""


class Env:
    """What one evaluation works on."""

    __slots__ = ("fuel", "scope", "slots")

    def __init__(self, scope: Mapping[str, Any], slots: int) -> None:
        self.scope = scope
        self.fuel = FUEL
        self.slots: list[Any] = [None] * slots

    def burn(self, units: int) -> None:
        """Pay for work; raise when nothing is left."""
        self.fuel -= units
        if self.fuel < 0:
            raise OutOfFuelError


NUMBERS: Final = frozenset({int, float})


def same(env: Env, a: Any, b: Any, depth: int) -> bool | str:
    """Return whether two values are equal, or the fault. Null equals null only, and is never a fault."""
    if a is None or b is None:
        return a is b
    if type(a) is type(b) and (type(a) is int or (type(a) is str and len(a) < 256)):
        return bool(a == b)  # what most comparisons are
    env.burn(5)
    kinds = kind(a), kind(b)
    if kinds[0] != kinds[1]:
        return unlike(*kinds)
    match kinds[0]:
        case "boolean" | "number":
            return bool(a == b)
        case "text":
            env.burn(len(a) >> 8)
            return bool(a == b)
        case "list":
            if len(a) != len(b):
                return False
            env.burn(len(a))
            pairs = zip(a, b, strict=True)
        case "object":
            env.burn(len(a))
            if a.keys() != b.keys():
                return False
            pairs = zip(a.values(), [b[key] for key in a], strict=True)
        case strange:
            return f"a {strange} value is no JSON; it compares with nothing"
    if depth >= canon.MAX_DEPTH:
        return f"values nested deeper than {canon.MAX_DEPTH}; compare parts of them"
    return _all_same(env, pairs, depth + 1)


def _all_same(env: Env, pairs: Iterable[tuple[Any, Any]], depth: int) -> bool | str:
    fault = ""
    for a, b in pairs:
        equal = same(env, a, b, depth)
        if equal is False:
            return False
        if type(equal) is str:
            fault = fault or equal
    return fault or True


def unlike(a: str, b: str) -> str:
    """Return the fault of comparing two kinds."""
    return f"cannot compare {a} with {b}; both sides must be of one type"


def regex(pattern: str) -> tuple[Callable[[bytes], object], int]:
    """Return the search function of *pattern*, and the size of its program, which bounds its work per byte.

    Raises:
        ValueError: RE2 refuses it; the message is RE2's.
    """
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = REGEX_MEMORY
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(error.args[0].decode(errors="replace")) from None
    return compiled.search, compiled.programsize


def fits(value: Any) -> bool:
    """Tell whether *value* is a number to calculate with: an integer of 128 bits, or finite."""
    if type(value) is int:
        return -MAX_INT <= value <= MAX_INT
    return type(value) is float and math.isfinite(value)


def _divide(a: float, b: float) -> float:
    return a // b if type(a) is int and type(b) is int and a % b == 0 else a / b


OPERATIONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
}


def _len(_env: Env, values: list[Any]) -> Any:
    if type(values[0]) in (list, str, dict):
        return len(values[0])
    return Unknown(f"found {kind(values[0])}; a list, text or object has a length")


def _abs(_env: Env, values: list[Any]) -> Any:
    return (
        abs(values[0])
        if fits(values[0])
        else Unknown(f"found {kind(values[0])}; it takes a number of 128 bits")
    )


def _lower(env: Env, values: list[Any]) -> Any:
    if type(values[0]) is not str:
        return Unknown(f"found {kind(values[0])}; it takes text")
    env.burn(len(values[0]) >> 5)
    return values[0].lower()


def _odd(values: Sequence[Any]) -> str:
    for place, value in enumerate(values):
        if not fits(value):
            return f"item {place} is {kind(value)}; all must be numbers of at most 128 bits"
    return ""


def _sum(env: Env, values: list[Any]) -> Any:
    if type(values[0]) is not list:
        return Unknown(f"found {kind(values[0])}; it takes a list of numbers")
    env.burn(2 * len(values[0]))
    if odd := _odd(values[0]):
        return Unknown(odd)
    # Exact for integers, correctly rounded otherwise: the same in every version and order.
    total: float = sum(value for value in values[0] if type(value) is int)
    floats = [value for value in values[0] if type(value) is float]
    try:
        total = math.fsum([*floats, total]) if floats else total
    except OverflowError:
        total = math.inf
    return total if fits(total) else Unknown("the result is too large; 128 bits or 1.7e308 are the most")


def _extreme(env: Env, values: list[Any], pick: Callable[[Any], Any]) -> Any:
    if len(values) == 1:
        if type(values[0]) is not list:
            return Unknown(f"found {kind(values[0])}; it takes a list, or two or more values")
        values = values[0]
    if not values:
        return Unknown("the list is empty; test len(…) > 0 first")
    env.burn(2 * len(values))
    if all(type(value) is str for value in values):
        env.burn(sum(map(len, values)) >> 8)
    elif odd := _odd(values):
        return Unknown(odd if kind(values[0]) == "number" else f"{odd}, or all text")
    return pick(values)


FUNCTIONS: Final[Mapping[str, Callable[[Env, list[Any]], Any]]] = {
    "len": _len,
    "abs": _abs,
    "lower": _lower,
    "sum": _sum,
    "min": lambda env, values: _extreme(env, values, min),
    "max": lambda env, values: _extreme(env, values, max),
}
