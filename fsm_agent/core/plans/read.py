"""Readers: each takes one value of a plan and gives its normal form, or notes what is wrong with it.

A reader gives None where the key is to be left out: because the value is the default, or because it is faulty.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from fsm_agent.core.errors import ExpressionError
from fsm_agent.core.language import expr
from fsm_agent.core.language.refs import Place
from fsm_agent.core.plans import numbers as plannumbers
from fsm_agent.core.plans.build import Parsed
from fsm_agent.core.plans.faults import Faults, cut, quoted

_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
MAX_ID: Final = 200
RESERVED: Final = frozenset({"run", "inputs", "item", "index"})
"""``run`` names the run in questions and answers; the others are roots of references."""
_LIST: Final = "one whole reference to a list, such as $T2.invoices"


@attrs.frozen
class Form:
    """What the readers share: where faults go, and what is parsed already."""

    faults: Faults
    parsed: Parsed


Reader = Callable[[Form, Any, Place], Any]
"""Takes a value that is not null and its place; gives the normal value, or None to leave the key out."""


def members(form: Form, value: Any, at: Place, table: Mapping[str, Reader]) -> dict[str, Any]:
    """Read an object whose keys are those of *table*."""
    out: dict[str, Any] = {}
    if type(value) is not dict:
        form.faults.bad_type(at, value, f"an object with the keys {', '.join(table)}")
        return out
    for key, item in value.items():
        reader = table.get(key)
        if reader is None:
            near = form.faults.near(key, table)
            fix = f"{near}Keys here: {', '.join(table)}"
            form.faults.add((at, key), "unknown-key", f"the key {quoted(key)} is not known here", fix)
        elif item is not None:
            normal_value = reader(form, item, (at, key))
            if normal_value is not None:
                out[key] = normal_value
    return out


def each(form: Form, value: Any, at: Place, reader: Reader) -> list[Any] | None:
    """Read an array; what *reader* gives None for is left out."""
    if type(value) is not list:
        form.faults.bad_type(at, value, "an array")
        return None
    return [
        normal_value
        for place, item in enumerate(value)
        if (normal_value := reader(form, item, (at, place))) is not None
    ] or None


# ── plain values ──────────────────────────────────────────────────────────────────────────────────────────────


def text(form: Form, value: Any, at: Place) -> str | None:
    """Read text; empty text is none."""
    if type(value) is str:
        return value or None
    form.faults.bad_type(at, value, "text")
    return None


def expression(form: Form, value: Any, at: Place) -> str | None:
    """Read the text of an expression, which :func:`condition` looks at later."""
    if type(value) is str:
        return value
    form.faults.bad_type(at, value, "an expression, as text")
    return None


def flag(form: Form, value: Any, at: Place) -> bool | None:
    """Read true or false; false is the default."""
    if type(value) is bool:
        return value or None
    form.faults.bad_type(at, value, "true or false")
    return None


def name(form: Form, value: Any, at: Place) -> str | None:
    """Read the name of a tool or a field."""
    if type(value) is not str:
        form.faults.bad_type(at, value, "a name")
    elif not 0 < len(value) <= MAX_ID or not value.isprintable():
        form.faults.add(
            at, "bad-name", f"{quoted(value)} is no name", f"1 to {MAX_ID} printable characters are allowed"
        )
    else:
        return value
    return None


def identifier(form: Form, value: Any, at: Place) -> str | None:
    """Read an id."""
    if type(value) is not str:
        form.faults.bad_type(at, value, "an id, as text")
    elif len(value) > MAX_ID or not ((value.isascii() and value.isidentifier()) or _ID.fullmatch(value)):
        fix = f"letters, digits and _ are allowed, then also . and -, at most {MAX_ID} characters"
        form.faults.add(at, "bad-id", f"{quoted(value)} is no id", fix)
    elif value in RESERVED:
        form.faults.add(at, "reserved-id", f"the id {value!r} has a meaning of its own", "choose another id")
    else:
        return value
    return None


def one_of(*allowed: str) -> Reader:
    """Return a reader of one of *allowed*, the first of which is the default."""

    def one(form: Form, value: Any, at: Place) -> str | None:
        if value not in allowed:
            form.faults.bad_type(at, value, f"one of {', '.join(allowed)}")
            return None
        return None if value == allowed[0] else str(value)

    return one


def json_object(form: Form, value: Any, at: Place) -> dict[str, Any] | None:
    """Read an object with any content."""
    if type(value) is dict:
        return value
    form.faults.bad_type(at, value, "an object")
    return None


def anything(form: Form, value: Any, at: Place) -> Any:
    """Take any value as it is."""
    del form, at
    return value


def names(form: Form, value: Any, at: Place) -> list[str]:
    """Read an array of names, each once; an empty one is kept: it declares that there are none."""
    out = each(form, value, at, name) or []
    if len(set(out)) == len(out):
        return out
    seen: set[str] = set()
    for place, item in enumerate(out):
        if item in seen:
            form.faults.add((at, place), "duplicate-name", f"{quoted(item)} is named twice", "name it once")
        seen.add(item)
    return out


def ignored(reader: Reader) -> Reader:
    """Return a reader that looks at the type and keeps nothing."""

    def look(form: Form, value: Any, at: Place) -> None:
        reader(form, value, at)

    return look


# ── what is parsed ────────────────────────────────────────────────────────────────────────────────────────────


def arguments(form: Form, value: Any, at: Place) -> dict[str, Any] | None:
    """Read arguments by name, with references in them."""
    if type(value) is not dict:
        form.faults.bad_type(at, value, "an object of arguments by name")
        return None
    return value if references(form, value, at) else None


def references(form: Form, value: Any, at: Place) -> bool:
    """Whether every reference in *value* is well-formed; note each that is not."""
    try:
        form.parsed.template(value, at)
    except ExpressionError as error:
        if type(value) not in (dict, list):
            form.faults.add(at, "bad-reference", *_words(error))
            return False
        pairs = value.items() if type(value) is dict else enumerate(value)
        for key, item in pairs:
            references(form, item, (at, key))
        return False
    return True


def whole_reference(form: Form, value: Any, at: Place) -> str | None:
    """Read text that is exactly one reference."""
    if type(value) is not str:
        form.faults.bad_type(at, value, _LIST)
    elif references(form, value, at):
        refs = form.parsed.template(value, at).refs
        if len(refs) == 1 and refs[0].text == value:
            return value
        form.faults.add(at, "not-a-reference", f"{quoted(value)} is no whole reference", f"give {_LIST}")
    return None


def condition(
    form: Form,
    value: Any,
    at: Place,
    names: Mapping[str, bool] | None = None,
    bind: Mapping[str, str] | None = None,
) -> str | None:
    """Read an expression that is true or false; with *names*, its short form is lowered."""
    if expression(form, value, at) is None:
        return None
    try:
        try:
            compiled = form.parsed.expr(value)
        except ExpressionError:
            if names is None:
                raise
            compiled = form.parsed.expr(expr.lower(value, names, bind))
    except ExpressionError as error:
        form.faults.add(at, "bad-expression", *_words(error))
        return None
    if compiled.kind not in (None, "boolean"):
        found = f"{compiled.text!r} is {compiled.kind}, never true or false"
        form.faults.add(at, "bad-expression", found, "write a comparison such as x > 0 or x != null")
        return None
    return compiled.text


def _words(error: ExpressionError) -> tuple[str, str]:
    """Return what was found and what to do, each of a length that can be read."""
    found, _, fix = str(error).rpartition("; ")
    return cut(found, 400), cut(fix, 400)


def missing(form: Form, value: Any, at: Place, *keys: str) -> None:
    """Note each of *keys* that the object *value* lacks."""
    for key in keys:
        if type(value) is dict and value.get(key) is None:
            form.faults.add(at, "missing-key", f"the key {key!r} is missing", "give it")


# ── numbers ───────────────────────────────────────────────────────────────────────────────────────────────────


def whole_number(least: int, default: int | None = None) -> Reader:
    """Return a reader of whole numbers from *least*."""
    return lambda form, value, at: plannumbers.count(form.faults, value, at, least, default)


def seconds(least: float, default: float | None = None) -> Reader:
    """Return a reader of seconds from *least*."""
    return lambda form, value, at: plannumbers.duration(form.faults, value, at, least, default)


def amount(default: str | None = None) -> Reader:
    """Return a reader of amounts of money."""
    return lambda form, value, at: plannumbers.money(form.faults, value, at, default)
