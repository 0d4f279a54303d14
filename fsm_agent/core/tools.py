"""What the engine knows about a tool: its effect class, its signature, its promises. Values only.

The registry that holds the callables lives in the runtime; this is the part that is written into the log.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import attrs

from fsm_agent.core import canon
from fsm_agent.core.signals import Effect


@attrs.frozen(kw_only=True)
class Parameter:
    """One parameter of a tool.

    Attributes:
        name: As in the signature.
        types: JSON types it takes, of ``null boolean integer number string array object``; empty takes any.
        required: Whether a call without it is refused.
        choices: Allowed values where the annotation is a ``Literal``; empty means all.
    """

    name: str
    types: tuple[str, ...] = ()
    required: bool = True
    choices: tuple[Any, ...] = ()


@attrs.frozen(kw_only=True)
class ToolSpec:
    """A tool as the log and the rules see it.

    Attributes:
        name: Unique in its toolbox, such as ``calendar.search``.
        effect: What repeating a call may do.
        parameters: In the order of the signature; the context parameter is not among them.
        extra_arguments: Whether arguments beyond the parameters are taken (``**kwargs``).
        timeout_us: How long a call is waited for, in microseconds.
        settle_us: How long after the deadline an effect may still become visible to a probe, in microseconds.
        reconcile: Whether a probe exists. For an idempotent tool the repetition itself is the probe.
        requires: Tools that must be done in an ancestor step, whatever the plan says.
        confirm: Whether a person is asked before every call, whatever the plan says.
        confirm_within_us: How long an approval is waited for; None for ever.
        secret: Argument and result fields that never enter the log.
        description: For planners and people.
    """

    name: str
    effect: Effect
    parameters: tuple[Parameter, ...] = ()
    extra_arguments: bool = False
    timeout_us: int = 60_000_000
    settle_us: int = 5_000_000
    reconcile: bool = False
    requires: tuple[str, ...] = ()
    confirm: bool = False
    confirm_within_us: int | None = None
    secret: tuple[str, ...] = ()
    description: str = ""
    _types: Mapping[str, frozenset[type]] = attrs.field(init=False, eq=False, repr=False)
    _required: frozenset[str] = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        plain = not self.secret and not any(p.choices for p in self.parameters)
        types = {p.name: _python_types(p) for p in self.parameters} if plain else {}
        object.__setattr__(self, "_types", types)
        object.__setattr__(self, "_required", frozenset(p.name for p in self.parameters if p.required))

    def takes(self, args: Mapping[str, Any], open_: Collection[str] = ()) -> bool:
        """Whether *args* fit for sure: what nearly every call asks first; else :func:`argument_faults` says more.

        Of the arguments *open_* the value is not known yet: they fit if there are such parameters.
        """
        types = self._types
        for name, value in args.items():
            if name not in types or (type(value) not in types[name] and name not in open_):
                return False
        return self._required.issubset(args)

    @property
    def schema_digest(self) -> str:
        """Digest of what a caller must know: name, effect class and parameters."""
        return canon.value_digest(
            "tool", [self.name, self.effect.value, _parameters(self), self.extra_arguments]
        )

    def to_data(self) -> dict[str, Any]:
        """Return the JSON form that ``run_created`` holds."""
        return {
            "name": self.name,
            "effect": self.effect.value,
            "schema_digest": self.schema_digest,
            "parameters": _parameters(self),
            "extra_arguments": self.extra_arguments,
            "timeout_us": self.timeout_us,
            "settle_us": self.settle_us,
            "reconcile": self.reconcile,
            "requires": list(self.requires),
            "confirm": self.confirm,
            "confirm_within_us": self.confirm_within_us,
            "secret": list(self.secret),
            "description": self.description,
        }

    @staticmethod
    def from_data(data: dict[str, Any]) -> "ToolSpec":
        """Read the JSON form back."""
        return ToolSpec(
            name=data["name"],
            effect=Effect(data["effect"]),
            parameters=tuple(
                Parameter(
                    name=p["name"],
                    types=tuple(p["types"]),
                    required=p["required"],
                    choices=tuple(p["choices"]),
                )
                for p in data["parameters"]
            ),
            extra_arguments=data["extra_arguments"],
            timeout_us=data["timeout_us"],
            settle_us=data["settle_us"],
            reconcile=data["reconcile"],
            requires=tuple(data["requires"]),
            confirm=data["confirm"],
            confirm_within_us=data["confirm_within_us"],
            secret=tuple(data["secret"]),
            description=data.get("description", ""),
        )


def _parameters(tool: ToolSpec) -> list[dict[str, Any]]:
    return [
        {"name": p.name, "types": list(p.types), "required": p.required, "choices": list(p.choices)}
        for p in tool.parameters
    ]


_JSON_TYPE = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


_PYTHON_TYPES: Final = {
    word: frozenset(kind for kind, said in _JSON_TYPE.items() if said == word) for word in _JSON_TYPE.values()
} | {"number": frozenset({int, float})}


def _python_types(parameter: Parameter) -> frozenset[type]:
    """Return the types of which *parameter* takes every value."""
    return frozenset().union(*(_PYTHON_TYPES.get(word, ()) for word in parameter.types or _PYTHON_TYPES))


def argument_faults(tool: ToolSpec, args: dict[str, Any]) -> list[str]:
    """Return what is wrong with *args* as arguments of *tool*, one sentence each; empty if nothing is.

    Args:
        tool: The tool to be called.
        args: Arguments as JSON values, references already resolved.
    """
    if tool.takes(args):
        return []
    faults = []
    known = {p.name: p for p in tool.parameters}
    for name in args:
        if name not in known and not tool.extra_arguments:
            allowed = ", ".join(known) or "none"
            faults.append(f"{tool.name} has no argument {name!r}; its arguments: {allowed}")
    for parameter in tool.parameters:
        if parameter.name not in args:
            if parameter.required:
                faults.append(f"{tool.name} needs the argument {parameter.name!r}; give it")
            continue
        if parameter.name in tool.secret and is_secret(args[parameter.name]):
            continue  # the value is checked where it is known
        fault = type_fault(parameter, args[parameter.name])
        if fault:
            faults.append(f"{tool.name}: argument {parameter.name!r} {fault}")
    return faults


def is_secret(value: Any) -> bool:
    """Return whether *value* stands for a secret, ``{"$secret": name, "mac": hex}``; the value is in no log."""
    if type(value) is not dict or len(value) != 2:
        return False
    return type(value.get("$secret")) is str and type(value.get("mac")) is str


def type_fault(parameter: Parameter, value: Any) -> str:
    """Return why *value* does not fit *parameter*, or an empty string."""
    if parameter.choices and value not in parameter.choices:
        return f"is {value!r}; allowed: {', '.join(repr(c) for c in parameter.choices)}"
    return kind_fault(parameter, value)


def kind_fault(parameter: Parameter, value: Any) -> str:
    """Return why the type of *value* does not fit *parameter*, whatever its choices are, or an empty string."""
    if not parameter.types:
        return ""
    found = _JSON_TYPE.get(type(value), type(value).__name__)
    if found in parameter.types or (found == "integer" and "number" in parameter.types):
        return ""
    return f"is of type {found}; allowed: {', '.join(parameter.types)}"
