"""Faults of a plan are collected, never thrown one by one: whoever corrects a plan sees all of them at once."""

import itertools
from collections.abc import Collection, Sequence
from typing import Any, Final

from fsm_agent.core.errors import Fault, PlanError
from fsm_agent.core.language import refs
from fsm_agent.core.language.refs import Place

_FUEL: Final = 20_000
"""Names compared for all "did you mean" of one plan together; a plan full of typos must not cost minutes."""
_LONGEST: Final = 64

_KINDS: Final = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "text",
    list: "an array",
    dict: "an object",
}


class Faults:
    """The faults found so far, in the order of finding."""

    def __init__(self, *, warnings: bool = True) -> None:
        """Begin with none; without *warnings* only what refuses the plan is noted."""
        self.found: list[Fault] = []
        self.warnings = warnings
        self._fuel = _FUEL

    def add(self, at: Place, code: str, message: str, fix: str) -> None:
        """Note that the plan is refused for what stands at *at*."""
        self.found.append(Fault(at=refs.pointer(at), code=code, message=message, fix=fix))

    def warn(self, at: Place, code: str, message: str, fix: str) -> None:
        """Note what deserves a look but refuses nothing."""
        if self.warnings:
            here = refs.pointer(at)
            self.found.append(Fault(at=here, code=code, message=message, fix=fix, severity="warning"))

    def bad_type(self, at: Place, value: Any, wanted: str) -> None:
        """Note that *value* is of the wrong type; *wanted* says in words what is allowed."""
        self.add(at, "bad-type", f"{shown(value)} was found", f"give {wanted}")

    def near(self, word: str, known: Collection[str]) -> str:
        """Return ``did you mean …? `` if one of *known* is close to *word*, else an empty text."""
        self._fuel -= len(known)
        if self._fuel < 0 or len(word) > _LONGEST:
            return ""
        import difflib  # only a wrong name needs it

        alike = [name for name in known if abs(len(name) - len(word)) <= 3]
        close = difflib.get_close_matches(word, alike, n=1)
        return f"did you mean {close[0]!r}? " if close else ""


def pointer(at: str, key: str) -> str:
    """Return the JSON pointer of member *key* of what stands at *at*."""
    return refs.pointer((at, key))


def shown(value: Any) -> str:
    """Return *value* in a few words for a message."""
    if type(value) is str:
        return f"the text {quoted(value)}"
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) in (int, float):
        return f"the number {value!r}"
    return _KINDS.get(type(value), type(value).__name__)


def cut(text: str, most: int = 60) -> str:
    """Return *text*, cut where it is longer than *most* characters."""
    return text if len(text) <= most else f"{text[:most]}…"


def quoted(text: str) -> str:
    """Return *text* in quotes, cut where it is long."""
    return repr(cut(text))


def several(names: Collection[str], most: int = 12) -> str:
    """Return *names* as a list in words: at most *most* of them, ``none`` if there are none."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(cut(name) for name in itertools.islice(names, most)) + more or "none"


def error(faults: Sequence[Fault]) -> PlanError:
    """Return the error that carries *faults*, of which there is at least one."""
    count = f"{len(faults)} faults were found, the first at" if len(faults) > 1 else "a fault was found at"
    return PlanError(f"plan: {count} {faults[0]}", faults)
