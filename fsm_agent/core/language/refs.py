"""References: ``$s2.flights[0].price`` is read once, keeps its type, and is never expanded again.

A reference names a root (``$inputs``, ``$item``, ``$index`` or a step) and a path into its value. Bare, the
root is a plain id and everything is ASCII, so that text may follow without a space; in braces it may be any
step id: ``${1.v}``, ``${s4/a.x}``, ``${s3[17]/b.x}``, ``${查询.合计}``. ``$$`` is a dollar sign; a dollar that
starts no reference stays one. What looks like a reference and is none is refused, never passed on as text;
what has no value is refused by name, never passed on as null.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from fsm_agent.core import canon
from fsm_agent.core.errors import ExpressionError, UnresolvedReferenceError, ValueRefusedError

MISSING: Final[Any] = object()
"""What :func:`descend` returns where a path leads nowhere."""

_KINDS: Final[Mapping[type, str]] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "text",
    list: "list",
    dict: "object",
}

Segment = str | int
Place = str | tuple[Any, Segment]
"""Where a value stands: a JSON pointer, or where that stands which it is a part of, and its key there."""

_INDEX = r"\[(?:0|[1-9][0-9]{0,8})\]"
_QUOTED = r'\["(?:[^"\\\x00-\x1f]|\\.)*"\]'
_BARE_ID = r"[A-Za-z_][A-Za-z0-9_]*(?:-+[A-Za-z0-9_]+)*"
_PIECE = r'[^\s.\[\]{}$/"\x00-\x1f]+'

_BARE = re.compile(rf"\$({_BARE_ID})((?:\.[A-Za-z0-9_]+|{_INDEX}|{_QUOTED})*)")
_BRACED = re.compile(rf"\$\{{((?:{_PIECE}(?:{_INDEX})?/)*{_PIECE})((?:\.{_PIECE}|{_INDEX}|{_QUOTED})*)\}}")
_PLAIN = re.compile(rf"\$({_BARE_ID})((?:\.[A-Za-z0-9_]+)*)")
_SEGMENT = re.compile(rf"\.({_PIECE})|\[([0-9]+)\]|\[(\"(?:[^\"\\]|\\.)*\")\]")
_WORD = re.compile(r"\w+")
_new: Final = tuple.__new__
"""Makes a reference without a call of Python: there is one for nearly every dependency."""


class Ref(NamedTuple):
    """One reference.

    Attributes:
        root: ``$s1``, ``$inputs``, ``$item``, ``$index``; ``$s4/a`` and ``$s3[17]/b`` for nested steps.
        path: Keys (text) and places in lists (from 0); a key of digits is also a place, as in ``rows.0.id``.
        text: As written.
    """

    root: str
    path: tuple[Segment, ...]
    text: str


class _Tree(NamedTuple):
    """An object or list with references in it: what stays, and the places that are filled."""

    base: Any
    moving: tuple[tuple[Any, Any], ...]


class _Words(NamedTuple):
    """Text with references in it."""

    parts: tuple[str | Ref, ...]


class _Fixed(NamedTuple):
    """A value without references, its ``$$`` undone."""

    value: Any


class Template(NamedTuple):
    """A JSON value with references in it, read by :func:`parse`.

    Attributes:
        source: The value as given.
        refs: Its references in reading order, repeated ones too.
        constant: True when there is none; resolving then needs no scope.
        node: What resolves it.
    """

    source: Any
    refs: tuple[Ref, ...]
    constant: bool
    node: Any

    def resolve(self, scope: Mapping[str, Any]) -> Any:
        """Return the value with every reference replaced by what *scope* holds for it.

        A reference that is the whole text keeps its type; inside text, text stays as it is and everything
        else is canonical JSON. The result shares parts with *scope* and with the source: change none of them.

        Args:
            scope: Values by root, ``$`` included.

        Raises:
            UnresolvedReferenceError: A reference has no value, or none that can be written into text.
        """
        return _resolve(self.node, scope)

    def whole(self) -> list[str]:
        """Return of an object the keys of the members that are one whole reference each."""
        return [] if self.constant else [key for key, inner in self.node.moving if type(inner) is Ref]

    def part(self, key: str) -> tuple[bool, Any]:
        """Return of an object whether its member *key* is one whole reference, and if it holds none its value.

        The value is :data:`MISSING` where a reference stands in it.
        """
        node = self.node
        if type(node) is _Fixed:
            return False, node.value[key]
        for name, inner in node.moving:
            if name == key:
                return type(inner) is Ref, MISSING
        return False, node.base[key]


def _resolve(node: Any, scope: Mapping[str, Any]) -> Any:
    # A small interpreter over tuples: as fast as closures here, with a tenth of the objects alive per step.
    kind = type(node)
    if kind is _Tree:
        out = node.base.copy()
        for key, inner in node.moving:
            out[key] = _value_of(inner, scope) if type(inner) is Ref else _resolve(inner, scope)
        return out
    if kind is Ref:
        return _value_of(node, scope)
    if kind is _Words:
        return "".join([part if type(part) is str else _written(part, scope) for part in node.parts])
    return node.value


def parse(value: Any, at: Place = "") -> Template:
    """Read *value*, any JSON value, into a template. Keys of objects are never expanded.

    Args:
        at: Where *value* stands in its document, named in errors.

    Raises:
        ExpressionError: A reference is malformed, or *value* is nested deeper than JSON values may be.
    """
    refs: list[Ref] = []
    node, fixed = _value(value, at, refs, 0)
    if node is None:
        node = _new(_Fixed, (fixed,))
    return _new(Template, (value, tuple(refs), not refs, node))


def _value(value: Any, at: Place, refs: list[Ref], depth: int) -> tuple[Any, Any]:
    """Return what resolves *value*, or None and the value with its ``$$`` undone where it has no reference."""
    kind = type(value)
    if kind is dict:
        pairs = value.items()
    elif kind is list:
        pairs = enumerate(value)
    else:
        return _text(value, at, refs) if kind is str else (None, value)
    if depth >= canon.MAX_DEPTH:
        raise ExpressionError(
            f"value at {pointer(at)[:200] or '/'}: it is nested deeper than {canon.MAX_DEPTH}; flatten it",
            text="",
            at=0,
        )
    moving = []
    base: Any = value  # copied when a part of it reads otherwise; what moves is filled in when it is resolved
    for key, item in pairs:
        kind = type(item)
        if kind is str:
            if "$" not in item:
                continue
            node: Any = _sole(item)
            if node is not None:
                refs.append(node)
                moving.append((key, node))
                continue
        elif kind is not dict and kind is not list:
            continue
        node, fixed = _value(item, (at, key), refs, depth + 1)
        if node is not None:
            moving.append((key, node))
        elif fixed is not item:
            base = value.copy() if base is value else base
            base[key] = fixed
    return (_new(_Tree, (base, tuple(moving))) if moving else None), base


def pointer(at: Place) -> str:
    """Return *at* as a JSON pointer: it is written out where something is wrong, and nowhere else."""
    tail = ""
    while type(at) is tuple:
        at, key = at
        tail = f"/{str(key).replace('~', '~0').replace('/', '~1')}{tail}"
    return f"{at}{tail}"


def _sole(text: str) -> Ref | None:
    """Return the reference that *text* is as a whole, if it is one of plain words, as most are; None: it has to be read.

    There is a dollar in *text*: where nothing else can be one, it is the first character.
    """
    root, _, name = text.partition(".")
    if name.isidentifier() and root[1:].isidentifier() and text.isascii():
        return _new(Ref, (root, (name,), text))  # a field of a result, and so nearly every reference
    match = _PLAIN.fullmatch(text)
    if match is None:
        return None
    return Ref("$" + match[1], tuple(match[2].split(".")[1:]), text)


def _text(text: str, at: Place, refs: list[Ref]) -> tuple[Any, Any]:
    if "$" not in text:
        return None, text
    parts: list[str | Ref] = []
    pos = start = 0
    while (dollar := text.find("$", pos)) >= 0:
        follower = text[dollar + 1 : dollar + 2]
        if follower == "$":
            parts.append(text[start : dollar + 1])
            pos = start = dollar + 2
        elif follower in ("{", "_") or follower.isalpha():
            ref, end = read(text, dollar, at)
            parts += (text[start:dollar], ref)
            pos = start = end
        else:
            pos = dollar + 1
    parts.append(text[start:])
    found = [part for part in parts if type(part) is Ref]
    refs += found
    if not found:
        return None, "".join(part for part in parts if type(part) is str)
    kept = tuple([part for part in parts if part])
    return kept[0] if len(kept) == 1 else _new(_Words, (kept,)), None


def read(text: str, pos: int, at: Place = "") -> tuple[Ref, int]:
    """Read the reference that begins at the dollar at *pos*; return it and where it ends.

    Raises:
        ExpressionError: No well-formed reference is there.
    """
    match = _BRACED.match(text, pos) or _BARE.match(text, pos)
    if match is None:
        hint = "in braces goes a step id and a path"
        if text[pos + 1] != "{":
            hint = "an id or field that is not plain ASCII goes in braces"
        raise _malformed(text, pos, at, hint)
    end = match.end()
    path = segments(match[2])
    if path is None:
        raise _malformed(text, pos, at, "a key in quotes is JSON text")
    if text[pos + 1] != "{":
        if text[end : end + 1] == "[":
            raise _malformed(text, pos, at, "an index is a whole number from 0 such as [0], a key is quoted")
        if text[end : end + 1] == "." and text[end + 1 : end + 2].isalpha():
            raise _malformed(text, pos, at, "an id or field that is not plain ASCII goes in braces")
    return _new(Ref, ("$" + match[1], path, match[0])), end


def _malformed(text: str, pos: int, at: Place, hint: str) -> ExpressionError:
    found = json.dumps(text[pos : pos + 40], ensure_ascii=False)
    where = f" at {pointer(at)}" if at else ""
    return ExpressionError(
        f"reference{where}, character {pos}: found {found}; {hint}: $s1.rows[0].id or ${{1.rows}}; "
        "${s1} ends a reference before text, $$ is a dollar sign",
        text=text,
        at=pos,
    )


def segments(text: str) -> tuple[Segment, ...] | None:
    """Split the part of a reference behind its root; None when a quoted key is no JSON text."""
    out: list[Segment] = []
    for name, index, quoted in _SEGMENT.findall(text):
        if index:
            out.append(int(index))
        elif quoted:
            try:
                key = json.loads(quoted)
                key.encode()
            except ValueError:  # no JSON escape, or half of a surrogate pair
                return None
            out.append(key)
        else:
            out.append(name)
    return tuple(out)


def render(root: str, path: tuple[Segment, ...]) -> str:
    """Write a reference or a plain path so that it is read back the same, in braces only where needed."""
    tail = ""
    for segment in path:
        if type(segment) is int:
            tail += f"[{segment}]"
        elif _WORD.fullmatch(str(segment)):
            tail += f".{segment}"
        else:
            tail += f"[{json.dumps(segment, ensure_ascii=False)}]"
    text = root + tail
    if root[0] != "$" or _BARE.fullmatch(text):
        return text
    return f"${{{text[1:]}}}"


def descend(value: Any, segment: Segment) -> Any:
    """Return the part of *value* that *segment* names, or :data:`MISSING`."""
    if type(segment) is str:
        if isinstance(value, Mapping):
            return value.get(segment, MISSING)
        if not (isinstance(value, list) and segment.isascii() and segment.isdigit() and len(segment) < 10):
            return MISSING
        segment = int(segment)
    if isinstance(value, list) and segment < len(value):  # type: ignore[operator]  # an int by now
        return value[segment]  # type: ignore[index]
    return MISSING


def _value_of(ref: Ref, scope: Mapping[str, Any]) -> Any:
    path = ref.path
    if len(path) == 1:
        try:
            value = scope[ref.root]
            if type(value) is dict:
                return value[path[0]]
        except KeyError:
            pass
    return _walk(ref, scope)


def _walk(ref: Ref, scope: Mapping[str, Any]) -> Any:
    value = scope.get(ref.root, MISSING)
    if value is MISSING:
        raise _unresolved(ref, ref.text, f"{ref.root} has no value here")
    for count, segment in enumerate(ref.path):
        inner = descend(value, segment)
        if inner is MISSING:
            whole = render(ref.root, ref.path[:count])
            raise _unresolved(
                ref, render(ref.root, ref.path[: count + 1]), f"{whole} is {_shape(value, segment)}"
            )
        value = inner
    return value


def kind(value: Any) -> str:
    """Return the JSON kind of *value* in a word; ``Python`` and the name of its type if it has none."""
    return _KINDS.get(type(value)) or f"Python {type(value).__name__}"


def _shape(value: Any, segment: Segment) -> str:
    if isinstance(value, Mapping):
        return f"an object without the key {json.dumps(str(segment), ensure_ascii=False)}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return f"{kind(value)}, which has no parts"


def _unresolved(ref: Ref, path: str, found: str) -> UnresolvedReferenceError:
    where = "" if path == ref.text else f" at {path}"
    return UnresolvedReferenceError(
        f"reference {ref.text}{where}: {found}; it is refused rather than passed on as null", path=path
    )


def _written(ref: Ref, scope: Mapping[str, Any]) -> str:
    value = _value_of(ref, scope)
    if type(value) is str:
        return value
    try:
        canon.check(value)
    except ValueRefusedError as refused:
        raise _unresolved(ref, ref.text, f"its value cannot be written into text ({refused})") from None
    return canon.encode(value).decode()
