"""A person's word is read whole before anything is done about it.

Words come through many channels and may hold anything JSON can. What cannot be stored, has no speaker or is of
another type than it should be is refused here, once, for every kind of word.
"""

from collections.abc import Mapping
from typing import Any, Final

from fsm_agent.core import canon
from fsm_agent.core.errors import RefusedError, ValueRefusedError
from fsm_agent.core.inputs import (
    Word,
)

_TEXTS: Final = ("task", "text", "evidence")
_TABLES: Final = ("args", "values")
_VALUES: Final = ("value", "result", "document")


def check(word: Word) -> None:
    """Refuse *word* unless everything in it can be stored and is of the right kind.

    Raises:
        RefusedError: Nobody speaks (``E-NO-NAME``), or a part is of the wrong type or cannot be stored exactly
            (``E-VALUE``).
    """
    who = word.who
    if not isinstance(who.by, str) or not who.by.strip():
        raise RefusedError(f"person: {who.by!r} is no name; say who speaks (by=…)", code="E-NO-NAME")
    texts = {"by": who.by, "channel": who.channel, "note": who.note, **_parts(word, _TEXTS)}
    for name, text in texts.items():
        if not isinstance(text, str) and not (name == "task" and text is None):
            raise _refused(word, f"its {name} is {text!r}; it must be text")
    tables = _parts(word, _TABLES)
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            raise _refused(word, f"its {name} are {table!r}; they must be a table of names and values")
    parts = {**texts, **{name: dict(table) for name, table in tables.items()}, **_parts(word, _VALUES)}
    for name, part in parts.items():
        try:
            canon.check(part, name)
        except ValueRefusedError as error:
            raise _refused(word, str(error)) from None


def _parts(word: Word, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(word, name) for name in names if hasattr(word, name)}


def _refused(word: Word, found: str) -> RefusedError:
    task = getattr(word, "task", None)
    return RefusedError(
        f"{type(word).__name__}: {found}", task=task if isinstance(task, str) else None, code="E-VALUE"
    )
