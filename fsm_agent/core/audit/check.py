"""What a check is: one function, one sentence, one rule number, and the kinds of events that it looks at.

A check says what is wrong in words, nothing (``""``) if all is well, or None where there is nothing for it to look
at: every event is accounted for by every check, and none is skipped in silence.
"""

from collections.abc import Callable
from inspect import cleandoc
from typing import Any, Final

import attrs

from fsm_agent.core.audit.checker import Checker
from fsm_agent.core.events import Event

GROUPS: Final = {
    "A": "integrity: the bytes are those that were written",
    "B": "completeness: nothing is missing that must be there",
    "C": "legality: every move is one of the tables, on evidence",
    "D": "policy: every decision is what the rule table says of these facts",
    "E": "safety: calls were allowed, approved, and made once",
    "F": "provenance: when, why and by whom",
}
"""Group → what its checks are about."""

ALL: Final = ("*",)
"""Kinds of a check that looks at every event."""
BATCH: Final = ("batch",)
"""Kinds of a check that looks at every batch, at its last event."""
LOG: Final = ("log",)
"""Kinds of a check that is made once, about the log as a whole."""

Said = str | None
"""What a check says: words, ``""`` for nothing wrong, None for nothing to look at."""


@attrs.frozen(kw_only=True)
class Check:
    """A check.

    Attributes:
        id: Its name; what findings carry.
        rule: Group and number, such as ``C1``.
        on: Kinds of events that it looks at: a type, or of moves ``task:TRIGGER`` and ``run:TRIGGER``; or
            :data:`ALL`, :data:`BATCH`, :data:`LOG`.
        run: The function; None if whoever reads the log makes the check.
        says: What it demands, in a sentence.
    """

    id: str
    rule: str
    on: tuple[str, ...]
    run: Callable[[Checker, Event], Said] | None
    says: str


@attrs.frozen(kw_only=True)
class Plain:
    """What most events of a kind are: known at once, so that checks that have nothing to look at need not be asked.

    Attributes:
        is_so: Whether an event is plain; one that it stumbles over is not.
        idle: Ids of checks that have nothing to look at in a plain event.
    """

    is_so: Callable[[Checker, Event], bool]
    idle: frozenset[str]


def check(rule: str, run: Callable[[Checker, Event], Said], *on: str) -> Check:
    """Return the check that *run* makes: named after the function, explained by its docstring."""
    return Check(id=_name(run), rule=rule, on=on, run=run, says=_sentence(run))


def made_by_reader(rule: str, function: Callable[..., Any], *on: str, name: str = "") -> Check:
    """Return a check that whoever reads the log makes, with *function*: of every event, or once about the whole."""
    return Check(id=name or _name(function), rule=rule, on=on or LOG, run=None, says=_sentence(function))


def _name(function: Callable[..., Any]) -> str:
    return function.__name__.replace("_", "-")


def _sentence(function: Callable[..., Any]) -> str:
    return cleandoc(function.__doc__ or "").split("\n\n")[0].replace("\n", " ")
