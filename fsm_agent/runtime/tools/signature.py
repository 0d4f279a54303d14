"""What a callable takes, read from its signature: the argument schema that plans are checked against.

Arguments come by name and as JSON values, so a tool may have neither positional-only parameters nor ``*args``.
An annotation that says nothing about JSON, or that cannot be resolved, takes any value: the schema never
promises more than the signature does.
"""

import collections.abc
import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union

import attrs

from fsm_agent.core.errors import ToolboxError
from fsm_agent.core.tools import Parameter
from fsm_agent.runtime.tools.context import CallContext

_ORDER = ("null", "boolean", "integer", "number", "string", "array", "object")
_SCALARS: dict[Any, str] = {
    type(None): "null",
    None: "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
}
_ARRAYS = (
    list,
    tuple,
    set,
    frozenset,
    collections.abc.Sequence,
    collections.abc.MutableSequence,
    collections.abc.Collection,
    collections.abc.Iterable,
    collections.abc.Set,
)
_OBJECTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


@attrs.frozen(kw_only=True)
class Callee:
    """A callable and how it is called.

    Attributes:
        fn: Called with keyword arguments only.
        is_async: Whether it is awaited on the loop; else it runs in a thread.
        context: Name of the parameter that takes the :class:`CallContext`, or None.
        parameters: The others, in order.
        extra_arguments: Whether it takes arguments beyond them (``**kwargs``).
        defaults: Default values by name.
    """

    fn: Callable[..., Any]
    is_async: bool
    context: str | None
    parameters: tuple[Parameter, ...]
    extra_arguments: bool
    defaults: dict[str, Any] = attrs.field(eq=False)


def read_callee(fn: Callable[..., Any], what: str) -> Callee:
    """Return how *fn* is called.

    Args:
        fn: A function, method, ``functools.partial`` or object with ``__call__``; async or not.
        what: What it is, for messages, such as ``tool 'search'``.

    Raises:
        ToolboxError: It cannot be called with named JSON values.
    """
    if not callable(fn):
        raise ToolboxError(f"{what}: a value of type {type(fn).__name__} was given; give a callable")
    target = _target(fn)
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise ToolboxError(
            f"{what}: it is a generator function; return one value, and report progress through ctx.progress"
        )
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        raise ToolboxError(
            f"{what}: it has no signature that can be read; wrap it in a function that has one"
        ) from None
    bound = fn.keywords if isinstance(fn, functools.partial) else {}
    hints = _hints(target, signature)
    contexts = [name for name in signature.parameters if _is_context(hints[name])]
    if len(contexts) > 1:
        raise ToolboxError(f"{what}: the parameters {', '.join(contexts)} all take the CallContext; keep one")
    context = contexts[0] if contexts else None
    parameters = []
    extra = False
    for parameter in signature.parameters.values():
        _refuse_unnamed(parameter, fn, what)
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = True
        elif parameter.name != context and parameter.name not in bound:
            kinds, choices = json_types(hints[parameter.name])
            required = parameter.default is parameter.empty
            parameters.append(Parameter(name=parameter.name, types=kinds, required=required, choices=choices))
    return Callee(
        fn=fn,
        is_async=inspect.iscoroutinefunction(target),
        context=context,
        parameters=tuple(parameters),
        extra_arguments=extra,
        defaults={p.name: signature.parameters[p.name].default for p in parameters if not p.required},
    )


def _target(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function behind partials and objects with ``__call__``."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if inspect.isroutine(fn) or inspect.isclass(fn):
        return fn
    return typing.cast("Callable[..., Any]", fn.__call__)  # type: ignore[operator]


def _refuse_unnamed(parameter: inspect.Parameter, fn: Callable[..., Any], what: str) -> None:
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise ToolboxError(
            f"{what}: the parameter {parameter.name!r} is positional-only; tools are called by name"
        )
    if parameter.kind is parameter.VAR_POSITIONAL:
        raise ToolboxError(
            f"{what}: it takes *{parameter.name}; tools are called by name, so name its parameters"
        )
    nested = getattr(fn, "__qualname__", "").rpartition(".")[0]
    if parameter.name == "self" and nested and not nested.endswith("<locals>"):
        raise ToolboxError(
            f"{what}: it is a method without its object; register the bound method with tools.add(obj.method, …)"
        )


def _hints(target: Callable[..., Any], signature: inspect.Signature) -> dict[str, Any]:
    """Return name → annotation, resolved as far as possible; text that cannot be resolved stays text."""
    scope = getattr(inspect.unwrap(target), "__globals__", {})
    hints = {}
    for name, parameter in signature.parameters.items():
        hints[name] = _resolve(parameter.annotation, scope)
    return hints


def _resolve(annotation: Any, scope: dict[str, Any]) -> Any:
    if annotation is inspect.Parameter.empty:
        return Any

    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    try:
        return typing.get_type_hints(holder, globalns=scope)["it"]
    except Exception:  # noqa: BLE001  (resolving runs code of the annotation: whatever it raises, it says nothing)
        return annotation


def _is_context(annotation: Any) -> bool:
    if isinstance(annotation, str):
        names = (part.strip().strip("'\"").rpartition(".")[2] for part in annotation.split("|"))
        return CallContext.__name__ in names
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return any(_is_context(part) for part in typing.get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, CallContext)


def json_types(annotation: Any) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return the JSON types and the choices that a resolved *annotation* allows; empty means any."""
    kinds, choices = _read(annotation)
    if kinds is None:
        return (), ()
    return tuple(kind for kind in _ORDER if kind in kinds), tuple(choices or ())


def _read(annotation: Any) -> tuple[set[str] | None, list[Any] | None]:
    """Return kinds (None: any) and choices (None: all)."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _read(typing.get_args(annotation)[0])
    if origin is Literal:
        return _read_literal(typing.get_args(annotation))
    if origin in (Union, types.UnionType):
        return _read_union(typing.get_args(annotation))
    plain = origin or annotation
    try:
        if plain in _SCALARS:
            return {_SCALARS[plain]}, None
    except TypeError:  # an unhashable annotation means nothing to us
        return None, None
    if plain in _ARRAYS:
        return {"array"}, None
    if plain in _OBJECTS or typing.is_typeddict(plain):
        return {"object"}, None
    named = getattr(annotation, "__supertype__", None) or getattr(annotation, "__value__", None)
    return _read(named) if named is not None else (None, None)


def _read_literal(values: tuple[Any, ...]) -> tuple[set[str] | None, list[Any] | None]:
    kinds = set()
    for value in values:
        if type(value) not in _SCALARS:
            return None, None  # bytes and enum members are no JSON values
        kinds.add(_SCALARS[type(value)])
    return kinds, list(values)


def _read_union(parts: tuple[Any, ...]) -> tuple[set[str] | None, list[Any] | None]:
    kinds: set[str] = set()
    choices: list[Any] | None = []
    for part in parts:
        more, allowed = _read(part)
        if more is None:
            return None, None
        kinds |= more
        if allowed is None and more == {"null"}:
            allowed = [None]
        choices = None if choices is None or allowed is None else choices + allowed
    return kinds, choices
