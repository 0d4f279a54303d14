"""What led to an event, as a chain of sentences: its cause, and where it came from outside, what it came as an answer to.

Every event of a batch names its cause. A call's end, an answer, a probe's finding have none in the log's own terms: they
are followed back to the call, the question, the look-up that they belong to.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from fsm_agent.core.audit.answers import Link
from fsm_agent.core.events import Event

MAX_CHAIN: Final = 16
"""Longest chain that is shown, in events."""


def chain(log: Sequence[Event], event: Event) -> tuple[Link, ...]:
    """Return what led to *event*, oldest first, *event* last; of a long chain the end."""
    found: list[Link] = []
    by_seq = {e.seq: e for e in log}
    at: Event | None = event
    while at is not None and len(found) < MAX_CHAIN:
        found.append(Link(seq=at.seq, words=words_of(at)))
        at = _before(log, by_seq, at)
    return tuple(reversed(found))


def _before(log: Sequence[Event], by_seq: Mapping[int, Event], event: Event) -> Event | None:
    """Return what *event* came from: what it consumes, what it answers, or the cause that it names."""
    data = event.data
    if event.type == "task_moved" and data["trigger"] == "start" and "approval" in data:
        return by_seq.get(data["approval"])
    found = _answers(log, event)
    if found is not None:
        return found
    return by_seq.get(event.cause) if event.cause is not None and event.cause < event.seq else None


def _answers(log: Sequence[Event], event: Event) -> Event | None:
    """Return the call, the question or the look-up that an event from outside belongs to."""
    data = event.data
    match event.type:
        case "approval_answered":
            return _last(log, event, lambda e: e.type == "approval_requested")
        case "probe_sent":
            return _last(log, event, lambda e: e.type == "decided" and e.data["decide"] == "reconcile")
        case "reconciled" if data["by"] == "probe":
            return _last(log, event, lambda e: e.type == "probe_sent")
        case "reconciled":
            return _last(log, event, lambda e: e.type == "task_moved")
        case "late_result" | "progressed":
            return _last(log, event, lambda e: _starts(e, data["attempt"]))
        case "task_moved" if "outcome" in data:
            return _last(log, event, lambda e: _starts(e, data["attempt"]))
        case _:
            return None


def _starts(event: Event, attempt: int) -> bool:
    return (
        event.type == "task_moved" and event.data["trigger"] == "start" and event.data["attempt"] == attempt
    )


def _last(log: Sequence[Event], before: Event, fits: Callable[[Event], bool]) -> Event | None:
    """Return the last event about the same task before *before* that fits."""
    return next((e for e in reversed(log) if e.seq < before.seq and e.task == before.task and fits(e)), None)


# ── sentences ─────────────────────────────────────────────────────────────────────────────────────────────────


def words_of(event: Event) -> str:
    """Return what an event says, in a sentence."""
    data = event.data
    who = event.task if event.task is not None else "the run"
    if event.type == "task_moved":
        return _task_moved(who, data, event)
    tells = _TELLS.get(event.type)
    return tells(who, data) if tells is not None else f"{event.type.replace('_', ' ')} of {who}"


def _because(words: Any, lead: str = ": ") -> str:
    return f"{lead}{words}" if words else ""


def _task_moved(who: str, data: Mapping[str, Any], event: Event) -> str:
    reason = data.get("reason")
    person = event.actor if event.actor is not None and event.actor.get("kind") == "human" else {}
    by = f" by {person['id']}" if "id" in person else ""
    match data["trigger"]:
        case "start":
            approved = f", as approved (event {data['approval']})" if "approval" in data else ""
            return f"{who} called {data['tool']}, attempt {data['attempt']}{approved}"
        case "retry":
            return f"{who} is tried again in {_s(data['delay_ms'] / 1000)}{by}"
        case "settle":
            return f"{who} is done, on evidence{_because(data['evidence'].get('words'))}"
        case "fail" | "refuse" | "expire" | "clear":
            return f"{who} failed{_because(reason)}"
        case trigger:
            return f"{who} {_MOVED[trigger]}{by}{_because(reason)}"


_MOVED: Final = {
    "hold": "waits for a person",
    "approve": "may start, it was approved",
    "answer": "is done, with the answer of a person",
    "reject": "was cancelled",
    "succeed": "is done, its call returned",
    "lose": "has an unknown result",
    "invalidate": "is to be done anew",
    "cancel": "was cancelled",
}


def _s(seconds: float) -> str:
    return f"{seconds:.3g} s"


def _run_moved(who: str, data: Mapping[str, Any]) -> str:
    return f"{who} went from {data['source']} to {data['dest']}{_because(data['reason'])}"


def _decided(who: str, data: Mapping[str, Any]) -> str:
    return f"on {data['signal']} of {who} the table decided {data['decide']} (row {data['rule']})"


def _requested(who: str, data: Mapping[str, Any]) -> str:
    return f"{who} asked a person{_because(data.get('say'))}"


def _answered(who: str, data: Mapping[str, Any]) -> str:
    if data["verdict"] == "expired":
        return f"nobody answered {who} in time"
    value = data.get("value")
    decided = f" with {value['decide']}" if isinstance(value, dict) and "decide" in value else ""
    return f"{data['by']} {data['verdict']} {who}{decided}{_because(data.get('note'))}"


def _reconciled(who: str, data: Mapping[str, Any]) -> str:
    source = "a look-up" if data["by"] == "probe" else data["by"]
    return f"{source} says {data['verdict']} of {who}{_because(data['evidence'])}"


def _asked(who: str, data: Mapping[str, Any]) -> str:
    by = data.get("by") or "a decision"
    if data["wish"] == "none":
        return f"{by} lifted the pause of {who}"
    return f"{by} asked {who} to {data['wish']}{_because(data.get('reason'))}"


def _adopted(who: str, data: Mapping[str, Any]) -> str:
    del who
    return f"plan {data['plan_version']} was adopted ({data['origin']}){_because(data.get('why'))}"


def _progressed(who: str, data: Mapping[str, Any]) -> str:
    how = "progress" if data["advanced"] else "no progress"
    return f"{who} reported {how}{_because(data.get('note'))}"


def _changed(who: str, data: Mapping[str, Any]) -> str:
    names: Iterable[str] = (*data.get("inputs", ()), *data.get("constraints", ()), *data.get("budgets", ()))
    return f"{data.get('by') or 'somebody'} set {', '.join(names)} of {who}"


_TELLS: Final[dict[str, Callable[[str, Mapping[str, Any]], str]]] = {
    "approval_answered": _answered,
    "approval_requested": _requested,
    "budget_changed": _changed,
    "decided": _decided,
    "input_changed": _changed,
    "late_result": lambda who, data: f"attempt {data['attempt']} of {who} answered late",
    "move_refused": lambda who, data: f"a word to {who} was refused{_because(data['message'])}",
    "note_added": lambda who, data: f"a note on {who}{_because(data['text'])}",
    "owner_changed": lambda who, data: f"another owner took {who} over ({data['owner']})",
    "plan_adopted": _adopted,
    "planner_asked": lambda who, data: f"the planner was asked about {who} ({data['scope']})",
    "probe_sent": lambda who, _: f"it was looked up what became of {who}",
    "progressed": _progressed,
    "reconciled": _reconciled,
    "replan_refused": lambda who, data: f"no plan for {who} ({data['gate']}){_because(data['why'])}",
    "replan_requested": lambda who, data: (
        f"another plan was wanted for {who} ({data['scope']}){_because(data['why'])}"
    ),
    "run_asked": _asked,
    "run_closed": lambda who, data: f"{who} was closed as {data['report']['state']}",
    "run_created": lambda who, data: f"{who} was created{_because(data['goal'])}",
    "run_forked": lambda who, data: (
        f"{who} was forked from {data['from']['run']} by {data['by']}{_because(data.get('note'))}"
    ),
    "run_moved": _run_moved,
}
