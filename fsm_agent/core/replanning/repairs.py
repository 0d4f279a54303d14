"""Repairs as data: what a plan is mended with where the failure is a known one and nobody has to think about it.

A repair names signals and one of two changes: ``insert`` puts a step before the failed one, ``switch`` makes the failed
step call another tool. It proposes and nothing more: the table decides whether the plan changes at all, and the gate
judges what a repair proposes like every other proposal. Everything wrong with a file is said at once.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from fsm_agent.core.errors import ConfigError
from fsm_agent.core.signals import HOME, Effect

INSERT: Final = "insert"
SWITCH: Final = "switch"
MOST: Final = 100
"""Most repairs of a file."""
MOST_NAMES: Final = 100
"""Most entries of a list, and most arguments."""

_KEYS: Final = ("id", "signal", "do", "tool", "of", "effect", "args", "copy", "why", "why_zh")
_FILE_KEYS: Final = ("schema", "extends", "repair")
_SIGNALS: Final = tuple(signal.value for signal in HOME["task", "failed"])
_EFFECTS: Final = tuple(effect.value for effect in Effect)
_ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")
_NAME: Final = re.compile(r"[^\s{}*]{1,200}")
_LONGEST: Final = 500


@attrs.frozen(kw_only=True)
class Repair:
    """One repair.

    Attributes:
        id: Its name in the log, and the id of a step that it inserts.
        signals: What a step must have failed with.
        do: :data:`INSERT` or :data:`SWITCH`.
        tools: Names of tools, the first that the toolbox has is called; ``{tool}`` in one stands for the failed tool.
        of: Failed tools that it is for; one that ends in ``*`` means every name that begins so. Empty means all.
        effects: Effect classes of the failed call that it is for.
        args: Arguments that it gives, over those it copies.
        copy: Arguments of the failed step that it copies; None for all of them.
        why: In words, for whoever reads why the plan was changed.
        why_zh: The same in Chinese; empty where nobody wrote it.
    """

    id: str
    signals: tuple[str, ...]
    do: str
    tools: tuple[str, ...]
    why: str
    why_zh: str = ""
    of: tuple[str, ...] = ()
    effects: tuple[str, ...] = (Effect.READ.value,)
    args: Mapping[str, Any] = attrs.field(factory=dict)
    copy: tuple[str, ...] | None = None

    def to_data(self) -> dict[str, Any]:
        """Return the JSON form that the log holds; a file may be written so, too."""
        data: dict[str, Any] = {
            "id": self.id,
            "signal": list(self.signals),
            "do": self.do,
            "tool": list(self.tools),
            "effect": list(self.effects),
            "why": self.why,
        }
        if self.why_zh:
            data["why_zh"] = self.why_zh
        if self.of:
            data["of"] = list(self.of)
        if self.args:
            data["args"] = dict(self.args)
        if self.copy is not None:
            data["copy"] = list(self.copy)
        return data

    def names(self, failed: str) -> tuple[str, ...]:
        """Return the tools that it would call where the tool *failed* failed, the preferred one first."""
        return tuple(name.replace("{tool}", failed) for name in self.tools)

    def is_for(self, failed: str) -> bool:
        """Whether it is for the tool *failed*."""
        if not self.of:
            return True
        return any(failed.startswith(n[:-1]) if n.endswith("*") else failed == n for n in self.of)


def from_log(data: Any) -> tuple[Repair, ...]:
    """Return the repairs that an event of a log holds; they were read and checked when they were written."""
    return tuple(_Reader("log", item).repair() for item in data)


def read(document: Mapping[str, Any], *, where: str, base: tuple[Repair, ...] = ()) -> tuple[Repair, ...]:
    """Return the repairs in a parsed TOML *document*, in the order in which they are tried.

    Args:
        document: ``schema = 1``, ``[[repair]]`` tables, and ``extends`` where those of *base* follow the own ones.
        where: What messages call the document.
        base: What ``extends`` brings along; an own repair of the same id takes the place of one of these.

    Raises:
        ConfigError: It holds anything else; one line with everything that is wrong.
    """
    faults = [
        f"{_shown(key)}: unknown; it has {', '.join(_FILE_KEYS)}" for key in document if key not in _FILE_KEYS
    ]
    schema = document.get("schema")
    if type(schema) is not int or schema != 1:
        faults.append(f"schema: {_shown(schema)}; write schema = 1")
    rows = document.get("repair", [])
    if not isinstance(rows, list) or len(rows) > MOST:
        faults.append(f"repair: {_shown(rows)}; write at most {MOST} [[repair]] tables")
        rows = []
    own = []
    for place, row in enumerate(rows, 1):
        reader = _Reader(f"repair {place}", row)
        repair = reader.repair()
        faults += reader.faults
        own.append(repair)
    ids = [repair.id for repair in own]
    faults += [
        f"repair {n}: the id {i} stands twice; give each its own"
        for n, i in enumerate(ids, 1)
        if i in ids[: n - 1]
    ]
    if faults:
        raise ConfigError(f"repairs {where}: {' | '.join(faults)}")
    return (*own, *(repair for repair in base if repair.id not in ids))


class _Reader:
    """Reads one repair, and gathers what is wrong in ``faults``."""

    def __init__(self, where: str, row: Any) -> None:
        self.faults: list[str] = []
        self._where = where
        self._row: Mapping[str, Any] = row if isinstance(row, Mapping) else {}
        if not isinstance(row, Mapping):
            self._fault(f"{_shown(row)}", "write a [[repair]] table")

    def repair(self) -> Repair:
        row = self._row
        for key in row:
            if key not in _KEYS:
                self._fault(f"{_shown(key)} is unknown", f"it has {', '.join(_KEYS)}")
        do = self._choice("do", (INSERT, SWITCH))
        return Repair(
            id=self._id(),
            signals=self._words("signal", _SIGNALS),
            do=do,
            tools=self._tools(),
            of=self._names("of", "the name of a tool, or how names begin with * behind it"),
            effects=self._words("effect", _EFFECTS) if "effect" in row else (Effect.READ.value,),
            args=self._args(),
            copy=self._names("copy", "the name of an argument") if "copy" in row or do == INSERT else None,
            why=self._why("why"),
            why_zh=self._why("why_zh") if "why_zh" in row else "",
        )

    def _fault(self, found: str, allowed: str) -> None:
        self.faults.append(f"{self._where}: {found}; {allowed}")

    def _id(self) -> str:
        found = self._row.get("id")
        if isinstance(found, str) and _ID.fullmatch(found):
            return found
        self._fault(f"id is {_shown(found)}", "a letter, then letters, digits, _ and -, at most 60")
        return ""

    def _choice(self, key: str, allowed: tuple[str, ...]) -> str:
        found = self._row.get(key)
        if isinstance(found, str) and found in allowed:
            return found
        self._fault(f"{key} is {_shown(found)}", f"one of {', '.join(allowed)}")
        return ""

    def _list(self, key: str) -> list[Any]:
        found = self._row.get(key)
        items = found if isinstance(found, list) else [found]
        return items[: MOST_NAMES + 1]

    def _words(self, key: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
        items = self._list(key)
        wrong = [item for item in items if not isinstance(item, str) or item not in allowed]
        if wrong or not items:
            self._fault(f"{key} is {_shown(wrong[0] if wrong else items)}", f"of {', '.join(allowed)}")
            return ()
        return tuple(items)

    def _tools(self) -> tuple[str, ...]:
        items = self._list("tool")
        fits = [i for i in items if isinstance(i, str) and _NAME.fullmatch(i.replace("{tool}", "t", 1))]
        if len(fits) != len(items) or not 0 < len(items) <= MOST_NAMES:
            wrong = next((i for i in items if i not in fits), items)
            self._fault(f"tool is {_shown(wrong)}", "names of tools; {tool} in one stands for the failed one")
            return ()
        return tuple(fits)

    def _names(self, key: str, what: str) -> tuple[str, ...]:
        if key not in self._row:
            return ()
        items = self._list(key)
        fits = [
            i
            for i in items
            if isinstance(i, str) and _NAME.fullmatch(i.removesuffix("*") if key == "of" else i)
        ]
        if len(fits) != len(items) or len(items) > MOST_NAMES:
            wrong = next((i for i in items if i not in fits), items)
            self._fault(f"{key} has {_shown(wrong)}", what)
            return ()
        return tuple(fits)

    def _args(self) -> Mapping[str, Any]:
        found = self._row.get("args", {})
        if isinstance(found, Mapping) and len(found) <= MOST_NAMES and all(map(_is_plain, found.values())):
            return dict(found)
        self._fault(f"args is {_shown(found)}", "texts, whole numbers, true and false by name")
        return {}

    def _why(self, key: str) -> str:
        found = self._row.get(key)
        if isinstance(found, str) and found.strip() and found.isprintable() and len(found) <= _LONGEST:
            return found.strip().rstrip(".。")
        self._fault(
            f"{key} is {_shown(found)}", f"say on one line why it helps, at most {_LONGEST} characters"
        )
        return ""


def _is_plain(value: Any) -> bool:
    """Whether a plan and a log hold *value* exactly: no dates, no fractions, nothing nested."""
    return isinstance(value, bool | str) or (type(value) is int and -(2**63) <= value < 2**63)


def _shown(value: Any) -> str:
    text = "left out" if value is None else ascii(value)
    return text if len(text) <= 80 else text[:77] + "..."
