"""What the members of events are, as far as whoever tells of them relies on it.

Moves and decisions are proved by other members; of these it is asked that they can be told: text where text belongs. Events
of a type come in few forms, so a form that was found right is not looked at again, but for what stands inside of it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fsm_agent.core.events import Event

_KINDS: Final[Mapping[str, type]] = {
    name: kind
    for kind, names in (
        (
            str,
            (
                "answer_digest about applied args_digest base_digest by channel class code decide dest digest effect "
                "evidence explanation explanation_zh fingerprint gate goal input key kind message note origin owner reason "
                "result_digest rule rules_name scope say signal source state strategy text tool trigger verdict version why "
                "wish words"
            ),
        ),
        (
            int,
            (
                "approvers attempt cost_micros deadline_at delay_ms duration_us epoch expires_at not_before plan_version "
                "probe_at request retry_after_us status tokens"
            ),
        ),
        (dict, "args base_args budgets diff error facts inputs outcome params plan report rules usage was"),
        (list, "acknowledged added answers changed kept removed same_as tools"),
    )
    for name in names.split()
}
"""What a member of that name is, whatever the type of the event."""
_OTHER: Final[Mapping[tuple[str, str], type]] = {
    ("actor", "id"): str,
    ("plan_adopted", "answers"): str,
    ("task_moved", "evidence"): dict,
    ("input_changed", "constraints"): dict,
}
"""Where a member of that name is something else."""
_INNER: Final = ("outcome", "error", "usage", "diff", "evidence")
_SAID: Final = {str: "text", int: "a whole number", dict: "an object", list: "a list", bool: "true or false"}

_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    name: tuple(members.split())
    for name, members in {
        "actor": "kind",
        "approval_answered": "args_digest by kind verdict",
        "approval_requested": "answers args_digest kind say",
        "budget_changed": "budgets by",
        "diff": "added changed kept removed",
        "error": "message",
        "evidence": "words",
        "outcome": "kind",
        "usage": "cost_micros tokens",
        "decided": "decide facts reason rule signal state",
        "input_changed": "by constraints inputs was",
        "late_result": "attempt outcome",
        "move_refused": "code input message",
        "note_added": "text",
        "owner_changed": "epoch owner",
        "plan_adopted": "diff digest explanation origin plan plan_version scope",
        "planner_asked": "request scope",
        "probe_sent": "attempt deadline_at repeat",
        "progressed": "advanced attempt",
        "reconciled": "attempt by evidence verdict",
        "replan_refused": "gate request why",
        "replan_requested": "not_before scope strategy trigger why",
        "run_asked": "reason wish",
        "run_closed": "report",
        "run_created": "budgets goal inputs owner rules run tools version",
        "run_moved": "dest reason source trigger",
        "task_moved": "attempt dest source trigger",
    }.items()
}
_ASKED: Final = ("approval", "answer", "decide")
_ONE_OF: Final = {("approval_answered", "kind"): _ASKED, ("approval_requested", "kind"): _ASKED}
"""Where a text is one of few."""
_TEXTS: Final = frozenset({str})
_COUNTED: Final = "added"
"""A list of which a large first plan says only how long it is."""

Forms = dict[tuple[Any, ...], tuple[str, ...]]
"""Form that is right → its members in which more is to be looked at."""
_MOST: Final = 1000
"""So many forms are kept; a log that has more was not written by us."""


def misshapen(event: Event) -> str:
    """Return the first thing that *event* has not, or has in another form than every event of its type; empty if none."""
    of_actor = next(_wrong("actor", event.actor), "") if event.actor is not None else ""
    return f"its actor: {of_actor}" if of_actor else next(_wrong(event.type, event.data), "")


def well_formed(kind: str, data: dict[str, Any], right: Forms) -> bool:
    """Whether :func:`misshapen` finds nothing in an event, sooner said.

    Args:
        kind: Its type; or ``actor``, or the name of an object in it.
        data: Its members; or those of its actor, or of the object.
        right: Forms that were found right; is added to.
    """
    form = (kind, *data, *map(type, data.values()))
    deeper = right.get(form)
    if deeper is None:
        if next(_wrong(kind, data), ""):
            return False
        if len(right) < _MOST:
            right[form] = tuple(name for name, value in data.items() if _holds_more(kind, name, value))
        return True
    for name in deeper:
        value = data[name]
        if not well_formed(name, value, right) if type(value) is dict else _odd(kind, name, value):
            return False
    return True


def _wrong(kind: str, data: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the members of an event, or of the object *kind* in one."""
    yield from (f"{name} is missing" for name in _NEEDED.get(kind, ()) if name not in data)
    for name, value in data.items():
        wanted = _wanted(kind, name)
        if wanted is not None and type(value) is not wanted and not (name == _COUNTED and type(value) is int):
            yield f"{name} is {_said(value)}, where {_SAID[wanted]} belongs"
        elif not _holds_more(kind, name, value):
            continue
        elif type(value) is dict:
            yield from _wrong(name, value)
        elif words := _odd(kind, name, value):
            yield words


def _wanted(kind: str, name: str) -> type | None:
    return _OTHER.get((kind, name)) or _KINDS.get(name)


def _holds_more(kind: str, name: str, value: Any) -> bool:
    """Whether the form of *value* does not say all about it."""
    if type(value) is list:
        return name != "tools" and _wanted(kind, name) is list
    return (name in _INNER) if type(value) is dict else (kind, name) in _ONE_OF


def _odd(kind: str, name: str, value: Any) -> str:
    """Return what is wrong with what stands in a list, or with one of a few texts."""
    if type(value) is list:
        return "" if _TEXTS.issuperset(map(type, value)) else f"{name} holds something else than texts"
    few = _ONE_OF[kind, name]
    return "" if value in few else f"{name} is none of {', '.join(few)}"


def _said(value: Any) -> str:
    return _SAID.get(type(value), "null" if value is None else "a number")
