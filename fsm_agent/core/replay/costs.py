"""What followed a decision in its log, in figures: everything about the same task until the next decision about it."""

from collections.abc import Iterable
from typing import Any

import attrs

from fsm_agent.core.engine.records import RUN
from fsm_agent.core.events import Event


@attrs.frozen(kw_only=True)
class Cost:
    """What was used up.

    Attributes:
        tool_calls: Calls and probes that went out.
        planner_calls: How often a planner was asked.
        questions: How often a person was asked.
        tokens: Tokens.
        cost_micros: Money in millionths of the unit.
        lasted_us: Time from the decision to the last event that counts, in microseconds.
    """

    tool_calls: int = 0
    planner_calls: int = 0
    questions: int = 0
    tokens: int = 0
    cost_micros: int = 0
    lasted_us: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        """Return both together."""
        return Cost(**{name: getattr(self, name) + getattr(other, name) for name in _NAMES})


_NAMES = tuple(field.name for field in attrs.fields(Cost))
NOTHING = Cost()


def costs(events: Iterable[Event]) -> dict[int, Cost]:
    """Return what followed each decision: its seq → the cost."""
    found: dict[int, Cost] = {}
    began: dict[int, int] = {}
    now: dict[str, int] = {}
    for event in events:
        name = event.task or RUN
        if event.type == "decided":
            now[name] = event.seq
            began[event.seq] = event.at
            found[event.seq] = NOTHING
        elif name in now:
            seq = now[name]
            whole = found[seq] + of_event(event)
            found[seq] = attrs.evolve(whole, lasted_us=event.at - began[seq])
    return found


def of_event(event: Event) -> Cost:
    """Return what one event by itself stands for."""
    used = usage_of(event.data)
    started = event.type == "task_moved" and event.data["trigger"] == "start"
    return Cost(
        tool_calls=int(started or event.type == "probe_sent"),
        planner_calls=int(event.type == "planner_asked"),
        questions=int(event.type == "approval_requested"),
        tokens=used.get("tokens", 0),
        cost_micros=used.get("cost_micros", 0),
    )


def usage_of(data: dict[str, Any]) -> dict[str, int]:
    """Return what an event says was used: by itself, or by the outcome that it tells."""
    outcome = data.get("outcome")
    inner = outcome.get("usage") if isinstance(outcome, dict) else None
    return data.get("usage") or inner or {}
