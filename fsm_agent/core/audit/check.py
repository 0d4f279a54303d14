"""What a check is: one function, one sentence, one rule number, and the kinds of events that it looks at.

A check says what is wrong in words, nothing (``""``) if all is well, or None where there is nothing for it to look
at: every event is accounted for by every check, and none is skipped in silence.
"""

from collections.abc import Callable
from inspect import cleandoc
from typing import Final

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
        run: The function; of a check on :data:`LOG` None, for whoever has the whole log makes it.
        says: What it demands, in a sentence.
    """

    id: str
    rule: str
    on: tuple[str, ...]
    run: Callable[[Checker, Event], Said] | None
    says: str


def check(rule: str, run: Callable[[Checker, Event], Said], *on: str) -> Check:
    """Return the check that *run* makes: named after the function, explained by its docstring."""
    words = cleandoc(run.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return Check(id=run.__name__.replace("_", "-"), rule=rule, on=on, run=run, says=words)


def once(rule: str, name: str, says: str) -> Check:
    """Return a check that is made once, by whoever has the whole log."""
    return Check(id=name, rule=rule, on=LOG, run=None, says=says)
