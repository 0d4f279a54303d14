"""Every accepted shape of a plan is brought to one: the full document, with ``steps``.

Accepted: the full document; a bare array of steps; and the replanner's ordered list, whose steps say ``action``
and ``params`` for ``tool`` and ``args``. An ordered list was written to be run in order: unless one of its steps
states ``depends_on``, each step depends on the one before. Steps of such a list that have no id get ``step1``,
``step2`` …, the first numbers that neither this plan nor the earlier one uses.

``args`` may be given as the text of a JSON object: a strict schema of what a model may answer can say no more of
arguments that differ from tool to tool.
"""

import itertools
from collections.abc import Collection
from typing import Any, Final

import attrs

from fsm_agent.core import canon
from fsm_agent.core.errors import ValueRefusedError
from fsm_agent.core.plans.faults import Faults, error, pointer, shown

_BELOW: Final = 10
"""So many levels may be added by the events that hold a plan."""
MAX_DEPTH: Final = canon.MAX_DEPTH - _BELOW
"""Deepest nesting of a plan."""
MAX_STEPS: Final = 100_000
"""Most steps of a plan, those of nested plans included."""
MOST_PROPOSED: Final = 20_000
"""The same of what a planner proposes: nobody has counted what a model writes."""
_OTHER_NAMES: Final = {"tool": "action", "args": "params"}
_OTHERS: Final = frozenset(_OTHER_NAMES.values())
_ARGS_DEPTH: Final = 3
"""How deep arguments lie in a document: plan, steps, step."""


@attrs.frozen(kw_only=True)
class Origin:
    """How the document was written, so that faults point into the document as it was.

    Attributes:
        bare: Whether it is a bare array.
        renamed: By place of a step, the keys it wrote by another name.
    """

    bare: bool = False
    renamed: dict[int, dict[str, str]] = attrs.field(factory=dict)

    def pointer(self, at: str) -> str:
        """Return where *at*, a pointer into the full document, stands in the document as written."""
        if not at.startswith("/steps"):
            return at
        parts = at.split("/")[1:]
        if len(parts) > 2 and parts[1].isdigit():
            parts[2] = self.renamed.get(int(parts[1]), {}).get(parts[2], parts[2])
        return "".join(f"/{part}" for part in (parts[1:] if self.bare else parts))


def full(document: Any, faults: Faults, taken: Collection[str] = ()) -> tuple[dict[str, Any] | None, Origin]:
    """Return *document* as the full document, a private copy, and how it was written.

    Args:
        document: Parsed JSON of any accepted shape.
        faults: Receives what is wrong with values and shape.
        taken: Ids that are not given to steps without one.

    Returns:
        None instead of the document when it is no plan at all.

    Raises:
        PlanError: The document is nested too deeply to be looked at.
    """
    data = canon.written(document, _BELOW)
    document = _cleaned(document, "", 0, faults) if data is None else canon.decode(data)
    origin = Origin(bare=isinstance(document, list))
    if isinstance(document, list):
        document = {"steps": document}
    if not isinstance(document, dict):
        faults.add(
            "",
            "bad-shape",
            f"{shown(document)} was found",
            'a plan is an object with "steps", or an array of steps',
        )
        return None, origin
    steps = document.get("steps")
    if isinstance(steps, list):
        if not bearable(steps, faults):
            return None, origin
        _rename(steps, origin, faults)
        _unpack(steps)
        if origin.renamed:
            _name(steps, taken)
            _chain(steps)
    return document, origin


def bearable(steps: list[Any], faults: Faults, most: int = MAX_STEPS) -> bool:
    """Whether there are not too many *steps*, nested ones included; notes it if there are."""
    count = _count(steps)
    if count > most:
        fix = f"at most {most} are allowed; split the plan"
        faults.add("/steps", "too-many-steps", f"{count} steps were found", fix)
    return count <= most


def _cleaned(value: Any, at: str, depth: int, faults: Faults) -> Any:
    """Return a copy of *value* with null for each part that JSON does not hold; note each."""
    if type(value) in (dict, list) and depth >= MAX_DEPTH:
        faults.add(
            "", "bad-value", f"the plan is nested deeper than {MAX_DEPTH} (or contains itself)", "flatten it"
        )
        raise error(faults.found)
    if type(value) is list:
        return [_cleaned(item, f"{at}/{place}", depth + 1, faults) for place, item in enumerate(value)]
    if type(value) is not dict:
        return value if _held(value, at, faults) else None
    out = {}
    for key, item in value.items():
        if type(key) is not str:
            faults.add(at, "bad-value", f"a key of type {type(key).__name__} was found", "use text as keys")
        elif _held(key, at, faults):
            out[key] = _cleaned(item, pointer(at, key), depth + 1, faults)
    return out


def _held(value: Any, at: str, faults: Faults) -> bool:
    try:
        canon.check(value)
    except ValueRefusedError as refused:
        found, _, fix = str(refused).removeprefix("value at $: ").rpartition("; ")
        faults.add(at, "bad-value", found, fix)
        return False
    return True


def _count(steps: list[Any]) -> int:
    """Return the number of steps, nested ones included."""
    count = len(steps)
    for step in steps:
        if isinstance(step, dict) and "plan" in step:
            inner = step["plan"]
            if isinstance(inner, dict) and isinstance(inner.get("steps"), list):
                count += _count(inner["steps"])
    return count


def _rename(steps: list[Any], origin: Origin, faults: Faults) -> None:
    for place, step in enumerate(steps):
        if not isinstance(step, dict) or _OTHERS.isdisjoint(step):
            continue
        for name, other in _OTHER_NAMES.items():
            if other not in step:
                continue
            value = step.pop(other)
            renamed = origin.renamed.setdefault(place, {})
            if name in step:
                at = f"/steps/{place}/{other}"
                faults.add(at, "two-names", f"the step says both {name!r} and {other!r}", "give one of them")
                continue
            step[name] = value
            renamed[name] = other


def _unpack(steps: list[Any]) -> None:
    """Read arguments that are given as the text of a JSON object; other text stays, and is a fault later on."""
    for step in steps:
        text = step.get("args") if isinstance(step, dict) else None
        if not isinstance(text, str):
            continue
        try:
            args = canon.loads(text or "{}")
        except ValueError:
            continue
        if type(args) is dict and canon.exact(args, _BELOW + _ARGS_DEPTH):
            step["args"] = args


def _name(steps: list[Any], taken: Collection[str]) -> None:
    used = {*taken, *(step["id"] for step in steps if isinstance(step, dict) and type(step.get("id")) is str)}
    number = 0
    for step in steps:
        if isinstance(step, dict) and step.get("id") is None:
            number += 1
            while f"step{number}" in used:
                number += 1
            step["id"] = f"step{number}"


def _chain(steps: list[Any]) -> None:
    named = [step for step in steps if isinstance(step, dict)]
    if any(step.get("depends_on") is not None for step in named):
        return
    for before, step in itertools.pairwise(named):
        if type(before["id"]) is str:
            step["depends_on"] = [before["id"]]
