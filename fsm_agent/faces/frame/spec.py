"""What a command is, as a value: everything its faces need, and nothing that is slow to load.

Handlers and renderers are import paths (``module:name``), looked up when the command runs; so that help and
completion cost the table and no more.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

PROGRAM: Final = "fsm-agent"
COMPLETE: Final = "_FSM_AGENT_COMPLETE"
"""The variable by which a shell asks what can stand next."""

KINDS: Final = (
    "text",
    "run",
    "task",
    "file",
    "json",
    "pairs",
    "numbers",
    "count",
    "integer",
    "seconds",
    "choice",
    "flag",
    "condition",
    "row",
    "command",
)
"""Kinds of a parameter.

``run``, ``task`` and ``file`` are text that can be completed; ``json`` is one JSON value; ``pairs`` are ``K=V`` with
V as JSON if it parses and else text; ``numbers`` are ``K=NUMBER``; ``count`` is an integer from 1, ``integer`` one
from 0, ``seconds`` a number from 0; a ``flag`` takes no value. ``condition``, ``row`` and ``command`` are text as well:
what a break point waits for, a row of the run's table, the name of a command.
"""


AMONG: Final = ("", "approval", "saying", "question", "retry", "reconcile")
"""Which tasks a parameter of kind ``task`` means.

Those whose call waits for a yes (``approval``), that a person can say no to (``saying``), that ask something else than
a yes (``question``), that failed (``retry``), whose result is not known (``reconcile``); empty for all.
"""

WHEN: Final = ("", "run", "open", "stopped")
"""When a command makes sense: at any time, where there is a run, while the run has not ended, or when it is paused or
has failed."""


class Param(NamedTuple):
    """A parameter of a command.

    Attributes:
        name: Keyword of the handler.
        help: One line.
        kind: One of :data:`KINDS`.
        flags: As typed, such as ``--input``; empty for a positional argument.
        metavar: What stands for the value in usage and help.
        required: Whether it must be given.
        many: Whether it takes several values; the handler gets a tuple (or one dict of all pairs).
        choices: Of kind ``choice``.
        default: When it is left out.
        among: Of kind ``task``: one of :data:`AMONG`.
        setting: Name of the setting that stands in when it is left out.
    """

    name: str
    help: str
    kind: str = "text"
    flags: tuple[str, ...] = ()
    metavar: str = ""
    required: bool = False
    many: bool = False
    choices: tuple[str, ...] = ()
    default: Any = None
    among: str = ""
    setting: str = ""

    @property
    def shown(self) -> str:
        """How usage names it, such as ``RUN``, ``[TASK]…`` or ``--input K=V``."""
        name = self.metavar or self.name.upper()
        if self.flags:
            return self.flags[0] if self.kind == "flag" else f"{self.flags[0]} {name}"
        name += "…" if self.many else ""
        return name if self.required else f"[{name}]"


class Command(NamedTuple):
    """A command.

    Attributes:
        name: One word, or two such as ``plan check``.
        section: Heading under which help lists it.
        help: One line.
        params: In the order of usage.
        handler: Takes a :class:`~fsm_agent.faces.frame.screen.Screen` and the parameters by keyword; returns an
            :class:`Outcome` (plain or awaitable), or for a stream an asynchronous iterator of items.
        result: What the outcome's value, or an item, is.
        plain: Renders it for people: ``(value, screen) → lines``.
        data: Renders it as JSON: ``(value) → JSON value``; for a stream ``(items) → JSON value``.
        line: Renders an item of a stream for ``--jsonl``: ``(item) → text``. Empty: no stream.
        about: More for the help page; paragraphs.
        examples: Command lines, without the program's name.
        when: One of :data:`WHEN`; the prompt offers it only then. What needs a run, or a task in a certain state, is
            seen from the parameters.
        changes: Whether it changes something although it stands among those that look.
    """

    name: str
    section: str
    help: str
    params: tuple[Param, ...]
    handler: str
    result: str
    plain: str
    data: str
    line: str = ""
    about: str = ""
    examples: tuple[str, ...] = ()
    when: str = ""
    changes: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The name's words."""
        return tuple(self.name.split())

    @property
    def usage(self) -> str:
        """One line, such as ``approve RUN TASK --digest HEX8``."""
        parts = [p.shown if p.required else f"[{p.shown}]" if p.flags else p.shown for p in self.params]
        return " ".join((self.name, *parts))


class Outcome(NamedTuple):
    """What a handler returns: a value to show, and the exit code."""

    value: Any
    exit_code: int = 0


def arg(name: str, help: str, metavar: str = "", **more: Any) -> Param:  # noqa: A002 - the field's name
    """Return a positional parameter, required unless said otherwise."""
    return Param(name, help, metavar=metavar, **{"required": True, **more})


def opt(flag: str, help: str, metavar: str, *, name: str = "", short: str = "", **more: Any) -> Param:  # noqa: A002
    """Return an option *flag*; its handler's keyword is *name*, or the flag's own words."""
    flags = (flag, short) if short else (flag,)
    return Param(name or flag.strip("-").replace("-", "_"), help, flags=flags, metavar=metavar, **more)


def load(path: str) -> Any:
    """Return what an import path of the form ``module:name`` names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


EXIT_OF_RUN: Final[Mapping[str, int]] = {
    "done": 0,
    "failed": 1,
    "awaiting-confirmation": 4,
    "unknown-result": 5,
    "cancelled": 6,
}
"""State of a run → exit code of the commands that drive it."""

EXIT_CODES: Final[Mapping[int, str]] = {
    0: "done, clean",
    1: "the run failed, or an expectation of simulate is not met",
    2: "wrong usage",
    3: "invalid plan, rules or configuration",
    4: "waiting for a person",
    5: "an unknown result is outstanding",
    6: "cancelled",
    7: "the audit found a violation",
    8: "another owner holds the run",
    9: "not found",
    70: "internal error",
    130: "interrupted; the run can be resumed",
}
"""Exit codes and what they mean; stable."""
