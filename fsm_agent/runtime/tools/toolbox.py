"""The registry of tools. What a tool may do to the world is declared here and nowhere else.

Registration is strict: what could not be called, or would be read in two ways, is refused when the module loads,
never when the plan is half done.
"""

import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, ParamSpec, TypeVar, overload

from fsm_agent.core.errors import ToolboxError
from fsm_agent.core.signals import Effect
from fsm_agent.core.tools import ToolSpec
from fsm_agent.runtime.tools.signature import read_callee
from fsm_agent.runtime.tools.tool import Tool

P = ParamSpec("P")
R = TypeVar("R")
Lifespan = Callable[[], AbstractAsyncContextManager[Any]] | AbstractAsyncContextManager[Any]

_NAME = re.compile(r"\w[\w.:/-]*", re.ASCII)
_OPTIONS = (
    "name",
    "timeout_s",
    "settle_s",
    "requires",
    "confirm",
    "confirm_within_s",
    "secret",
    "description",
)


class Register:
    """A decorator that registers a tool of one effect class: bare, or with options.

    Options, all by keyword:
        name: Default: the function's name.
        timeout_s: How long a call is waited for, in seconds; default 60.
        settle_s: How long after the deadline an effect may still show up, in seconds; default 5.
        requires: Tools that must be done in an ancestor step, whatever the plan says.
        confirm: Whether a person is asked before every call.
        confirm_within_s: How long an approval is waited for, in seconds; default: for ever.
        secret: Arguments and result fields (top level) that never enter the log.
        description: Default: the first paragraph of the docstring.
    """

    def __init__(self, toolbox: "Toolbox", effect: Effect) -> None:
        self._toolbox = toolbox
        self._effect = effect

    @overload
    def __call__(self, fn: Callable[P, R], /) -> Tool[P, R]: ...

    @overload
    def __call__(
        self,
        /,
        *,
        name: str | None = None,
        timeout_s: float = 60,
        settle_s: float = 5,
        requires: Iterable[str] = (),
        confirm: bool = False,
        confirm_within_s: float | None = None,
        secret: Iterable[str] = (),
        description: str | None = None,
    ) -> Callable[[Callable[P, R]], Tool[P, R]]: ...

    def __call__(
        self,
        fn: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        timeout_s: float = 60,
        settle_s: float = 5,
        requires: Iterable[str] = (),
        confirm: bool = False,
        confirm_within_s: float | None = None,
        secret: Iterable[str] = (),
        description: str | None = None,
        **unknown: object,
    ) -> Any:
        """Register *fn*, or return the decorator that will.

        Raises:
            ToolboxError: The tool or an option cannot be used.
        """
        _refuse_unknown(f"tools.{self._effect.value}", unknown, _OPTIONS)

        def register(fn: Callable[..., Any]) -> Tool[..., Any]:
            return self._toolbox.add(
                fn,
                effect=self._effect,
                name=name,
                timeout_s=timeout_s,
                settle_s=settle_s,
                requires=requires,
                confirm=confirm,
                confirm_within_s=confirm_within_s,
                secret=secret,
                description=description,
            )

        return register if fn is None else register(fn)


class DefaultRegister:
    """As :class:`Register`, for the one tool that runs steps which name no tool: a read unless ``effect`` says otherwise."""

    def __init__(self, toolbox: "Toolbox") -> None:
        self._toolbox = toolbox

    @overload
    def __call__(self, fn: Callable[P, R], /) -> Tool[P, R]: ...

    @overload
    def __call__(
        self,
        /,
        *,
        effect: Effect | str = Effect.READ,
        name: str | None = None,
        timeout_s: float = 60,
        settle_s: float = 5,
        requires: Iterable[str] = (),
        confirm: bool = False,
        confirm_within_s: float | None = None,
        secret: Iterable[str] = (),
        description: str | None = None,
    ) -> Callable[[Callable[P, R]], Tool[P, R]]: ...

    def __call__(
        self,
        fn: Callable[..., Any] | None = None,
        /,
        *,
        effect: Effect | str = Effect.READ,
        name: str | None = None,
        timeout_s: float = 60,
        settle_s: float = 5,
        requires: Iterable[str] = (),
        confirm: bool = False,
        confirm_within_s: float | None = None,
        secret: Iterable[str] = (),
        description: str | None = None,
        **unknown: object,
    ) -> Any:
        """Register *fn* as the default, or return the decorator that will.

        Raises:
            ToolboxError: The tool or an option cannot be used, or there is a default already.
        """
        _refuse_unknown("tools.default", unknown, ("effect", *_OPTIONS))
        toolbox = self._toolbox

        def register(fn: Callable[..., Any]) -> Tool[..., Any]:
            if toolbox.default_tool is not None:
                raise ToolboxError(
                    f"tools.default: {toolbox.default_tool!r} is the default already; keep one"
                )
            tool = toolbox.add(
                fn,
                effect=effect,
                name=name,
                timeout_s=timeout_s,
                settle_s=settle_s,
                requires=requires,
                confirm=confirm,
                confirm_within_s=confirm_within_s,
                secret=secret,
                description=description,
            )
            toolbox.default_tool = tool.spec.name
            return tool

        return register if fn is None else register(fn)


class Toolbox:
    """The tools of an agent, in the order of registration.

    Args:
        lifespan: An async context manager, or a callable that makes one, for what the tools need (clients, pools).
            It is entered before the first call and left after the last; what it yields is ``ctx.lifespan``.

    Attributes:
        read: Decorator for tools that change nothing and may be repeated freely.
        idempotent: Decorator for tools whose repetition with the same key is safe.
        write: Decorator for tools that must not be repeated blindly.
        irreversible: Decorator for writes that always need a person's approval.
        default: Decorator for the tool that runs steps which name none.
        default_tool: Its name, or None.
    """

    def __init__(self, *, lifespan: Lifespan | None = None) -> None:
        if lifespan is not None and not callable(lifespan) and not hasattr(lifespan, "__aenter__"):
            found = type(lifespan).__name__
            raise ToolboxError(
                f"Toolbox lifespan: a value of type {found} was given; give an async context manager or a callable that makes one"
            )
        self._lifespan = lifespan
        self._tools: dict[str, Tool[..., Any]] = {}
        self.default_tool: str | None = None
        self.read = Register(self, Effect.READ)
        self.idempotent = Register(self, Effect.IDEMPOTENT)
        self.write = Register(self, Effect.WRITE)
        self.irreversible = Register(self, Effect.IRREVERSIBLE)
        self.default = DefaultRegister(self)

    def add(
        self,
        fn: Callable[P, R],
        *,
        effect: Effect | str,
        name: str | None = None,
        timeout_s: float = 60,
        settle_s: float = 5,
        requires: Iterable[str] = (),
        confirm: bool = False,
        confirm_within_s: float | None = None,
        secret: Iterable[str] = (),
        description: str | None = None,
        reconcile: Callable[..., Any] | None = None,
    ) -> Tool[P, R]:
        """Register an existing callable; options as those of :class:`Register`.

        Args:
            fn: A function, method, ``functools.partial`` (what it binds is no argument any more) or object with
                ``__call__``; async, or sync and then run in a thread.
            effect: ``read``, ``idempotent``, ``write`` or ``irreversible``.
            reconcile: The probe, as :meth:`Tool.reconcile` takes it.

        Raises:
            ToolboxError: The callable or an option cannot be used, or the name is taken.
        """
        if isinstance(fn, Tool):
            fn = fn.fn
        name = _name_of(fn) if name is None else name
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ToolboxError(
                f"tool {name!r}: its name cannot be used; give name= of letters, digits and _ . : / -"
            )
        what = f"tool {name!r}"
        if name in self._tools:
            raise ToolboxError(f"{what}: the name is taken; names are unique in a toolbox")
        callee = read_callee(fn, what)
        spec = ToolSpec(
            name=name,
            effect=_effect(effect, what),
            parameters=callee.parameters,
            extra_arguments=callee.extra_arguments,
            timeout_us=_micros(timeout_s, f"{what}: timeout_s"),
            settle_us=_micros(settle_s, f"{what}: settle_s", zero=True),
            requires=_names(requires, f"{what}: requires", _NAME),
            confirm=_flag(confirm, f"{what}: confirm"),
            confirm_within_us=None
            if confirm_within_s is None
            else _micros(confirm_within_s, f"{what}: confirm_within_s"),
            secret=_names(secret, f"{what}: secret", _IDENTIFIER),
            description=_first_paragraph(fn) if description is None else description,
        )
        if name in spec.requires:
            raise ToolboxError(f"{what}: it requires itself; name other tools")
        tool = Tool(fn, callee, spec)
        if reconcile is not None:
            tool.reconcile(reconcile)
        self._tools[name] = tool
        return tool

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the core knows of the tools, in the order of registration."""
        return tuple(tool.spec for tool in self._tools.values())

    def tool(self, name: str) -> Tool[..., Any]:
        """Return the tool called *name*.

        Raises:
            ToolboxError: There is none.
        """
        try:
            return self._tools[name]
        except KeyError:
            raise ToolboxError(
                f"tool {name!r}: it is not in the toolbox; there are: {', '.join(self._tools) or 'none'}"
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool[..., Any]]:
        return iter(tuple(self._tools.values()))

    def __len__(self) -> int:
        return len(self._tools)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<Toolbox {', '.join(self._tools) or 'empty'}>"

    def open_lifespan(self) -> AbstractAsyncContextManager[Any] | None:
        """Return the lifespan, not entered yet; None without one."""
        if self._lifespan is None or isinstance(self._lifespan, AbstractAsyncContextManager):
            return self._lifespan
        return self._lifespan()


_IDENTIFIER = re.compile(r"[^\W\d]\w*")


def _refuse_unknown(what: str, unknown: dict[str, object], known: Iterable[str]) -> None:
    import difflib  # only a wrong name needs it

    for option in unknown:
        near = difflib.get_close_matches(option, known, n=1)
        advice = f"did you mean {near[0]!r}?" if near else f"options: {', '.join(known)}"
        raise ToolboxError(f"{what}: there is no option {option!r}; {advice}")


def _name_of(fn: Callable[..., Any]) -> Any:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return getattr(fn, "__name__", None)


def _effect(effect: Effect | str, what: str) -> Effect:
    try:
        return Effect(effect)
    except ValueError:
        raise ToolboxError(
            f"{what}: the effect {effect!r} is unknown; allowed: {', '.join(Effect)}"
        ) from None


def _micros(seconds: float, what: str, *, zero: bool = False) -> int:
    if type(seconds) in (int, float) and math.isfinite(seconds):
        micros = round(seconds * 1_000_000)
        if micros > 0 or (zero and micros == 0 and seconds >= 0):
            return micros
    raise ToolboxError(
        f"{what} is {seconds!r}; give a number of seconds {'of at least' if zero else 'above'} 0"
    )


def _flag(value: bool, what: str) -> bool:
    if type(value) is not bool:
        raise ToolboxError(f"{what} is {value!r}; give True or False")
    return value


def _names(names: Iterable[str], what: str, pattern: re.Pattern[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ToolboxError(f"{what} is the text {names!r}; give a list of names")
    out = tuple(names)
    for name in out:
        if not isinstance(name, str) or not pattern.fullmatch(name):
            raise ToolboxError(f"{what} holds {name!r}; give names")
    return tuple(dict.fromkeys(out))


def _first_paragraph(fn: Callable[..., Any]) -> str:
    while isinstance(fn, functools.partial):
        fn = fn.func
    doc = fn.__doc__ if isinstance(fn.__doc__, str) else ""
    return " ".join(doc.strip().partition("\n\n")[0].split())
