"""What the members of events are, as far as whoever tells of them relies on it.

An audit proves moves and decisions, and passes over members that prove nothing: their words may be anything. This table is
asked when a log that passes cannot be told all the same, so that the event is named that somebody else must have written.
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
        (list, "acknowledged answers changed kept removed same_as tools"),
    )
    for name in names.split()
}
"""What a member of that name is, whatever the type of the event."""
_OTHER: Final[Mapping[tuple[str, str], type]] = {
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
        "run_created": "budgets goal inputs rules run tools version",
        "run_moved": "dest reason source trigger",
        "task_moved": "attempt dest source trigger",
    }.items()
}
_ASKED: Final = ("approval", "answer", "decide")


def misshapen(event: Event) -> str:
    """Return the first thing that *event* has not, or has in another form than every event of its type; empty if none."""
    if event.actor is not None and type(event.actor.get("kind")) is not str:
        return "its actor is of no kind"
    found = next(_wrong(event.type, event.data), "")
    if not found and event.type.startswith("approval_") and event.data["kind"] not in _ASKED:
        return f"kind is none of {', '.join(_ASKED)}"
    return found


def _wrong(kind: str, data: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the members of an event, or of the object *kind* in one."""
    yield from (f"{name} is missing" for name in _NEEDED.get(kind, ()) if name not in data)
    for name, value in data.items():
        wanted = _OTHER.get((kind, name)) or _KINDS.get(name)
        if wanted is not None and type(value) is not wanted:
            yield f"{name} is {_said(value)}, where {_SAID[wanted]} belongs"
        elif wanted is list and name != "tools" and any(type(one) is not str for one in value):
            yield f"{name} holds something else than texts"
        elif name in _INNER and type(value) is dict:
            yield from _wrong(name, value)


def _said(value: Any) -> str:
    return _SAID.get(type(value), "null" if value is None else "a number")
