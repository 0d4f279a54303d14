"""Reads out of a run's log what it teaches: a fold of its own over events, which decides nothing.

A replan begins when it is requested (or when a person gives a plan that nobody asked for) and ends when a plan is
adopted, or when it is given up; what it was asked and refused on the way is its cost. It helped if a step was newly
done after it and before the next one began.
"""

from collections.abc import Iterable
from typing import Any, Final

import attrs

from fsm_agent.core.audit.history import (
    ErrorCount,
    History,
    Replan,
    Strategy,
    ToolCount,
    ranked_errors,
    ranked_tools,
    sum_errors,
    sum_tools,
)
from fsm_agent.core.engine.records import RUN
from fsm_agent.core.events import Event

_FAILURES: Final = ("fail", "lose", "refuse", "clear", "expire")
_FINDS: Final = ("succeed", "answer", "settle")
_MOOT: Final = "moot"
_OF_STRATEGIES: Final = ("validate", "scope", "reuse", "laws", "strategy")
"""Gates that refuse a plan; the others refuse an answer that is none."""
_ENDS: Final = {
    "done": "reached the goal",
    "failed": "did not reach the goal",
    "cancelled": "did not reach the goal",
}


def history(run: str, events: Iterable[Event]) -> History:
    """Return what the log of *run* tells.

    Args:
        run: Its id.
        events: From the first on, in order.
    """
    teller = _Teller(run)
    for event in events:
        teller.tell(event)
    return teller.told()


class _Teller:
    """The history of one run in the making."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.errors: dict[tuple[str, str, str], ErrorCount] = {}
        self.tools: dict[str, ToolCount] = {}
        self.replans: list[Replan] = []
        self.strategies: list[Strategy] = []
        self._in_force = 0  # place of the strategy that is followed
        self._open: dict[str, int] = {}  # whose replan → its place in replans
        self._began: dict[int, int] = {}  # place → when it was requested
        self._last: int | None = None  # place of the replan that was adopted last
        self._adopted_until = 0  # last seq of the batch that adopted it
        self._step_tool: dict[str, str] = {}
        self._default_tool = ""
        self._state = ""

    def tell(self, event: Event) -> None:
        match event.type:
            case "run_created":
                self._default_tool = event.data.get("default_tool") or ""
            case "task_moved":
                self._moved(event)
            case "probe_sent":
                self._add(self._tool_of(event), probes=1)
            case "reconciled" | "progressed":
                self._used(event, event.data)
            case "late_result":
                self._used(event, event.data["outcome"])
            case "run_moved":
                self._state = event.data["dest"]
            case "replan_requested":
                self._requested(event)
            case "planner_asked":
                self._asked(event)
            case "replan_refused":
                self._refused(event)
            case "decided":
                self._decided(event)
            case "plan_adopted":
                self._adopted(event)

    def told(self) -> History:
        if self._state in _ENDS:
            self._close_last()
            self._outcome(_ENDS[self._state])
        return History(
            runs=(self.run,),
            errors=ranked_errors(self.errors.values()),
            tools=ranked_tools(self.tools.values()),
            replans=tuple(self.replans),
            strategies=tuple(self.strategies),
        )

    def _outcome(self, outcome: str, why: str = "") -> None:
        now = self.strategies[self._in_force]
        self.strategies[self._in_force] = attrs.evolve(now, outcome=outcome, why=why)

    # ── tools and errors ──────────────────────────────────────────────────────────────────────────────────────

    def _moved(self, event: Event) -> None:
        data, trigger = event.data, event.data["trigger"]
        task = event.task or ""
        if trigger == "start":
            self._step_tool[task] = data["tool"]
            self._add(data["tool"], calls=1)
            return
        tool = self._tool_of(event)
        outcome = data.get("outcome", {})
        ended = {"succeed": "done", "fail": "failed", "lose": "unknown"}.get(trigger)
        if ended is not None:
            self._add(tool, **{ended: 1}, duration_us=outcome.get("duration_us", 0))
            self._used(event, outcome)
        if trigger in _FAILURES:
            self._failed(tool, task, data)
        elif trigger in _FINDS and self._last is not None and event.seq > self._adopted_until:
            last = self.replans[self._last]
            self.replans[self._last] = attrs.evolve(last, newly_done=last.newly_done + 1, helped=True)

    def _add(self, tool: str, **more: int) -> None:
        before = self.tools.get(tool, ToolCount(tool=tool))
        self.tools[tool] = sum_tools(before, ToolCount(tool=tool, **more))

    def _used(self, event: Event, data: dict[str, Any]) -> None:
        if "usage" in data:
            self._add(self._tool_of(event), **data["usage"])

    def _tool_of(self, event: Event) -> str:
        return self._step_tool.get(event.task or "", self._default_tool)

    def _failed(self, tool: str, task: str, data: dict[str, Any]) -> None:
        outcome = data.get("outcome", {})
        error = outcome.get("error") or data.get("error") or {}
        signal = data.get("signal") or outcome.get("signal") or data["trigger"]
        status = f"status {error['status']}" if "status" in error else ""
        what = str(error.get("code") or status or error.get("class") or "")
        message = str(error.get("message") or data.get("reason") or "")
        found = ErrorCount(tool=tool, signal=signal, what=what, times=1, example=message, tasks=(task,))
        key = (tool, signal, what)
        self.errors[key] = sum_errors(self.errors[key], found) if key in self.errors else found

    # ── replans ───────────────────────────────────────────────────────────────────────────────────────────────

    def _requested(self, event: Event) -> None:
        data = event.data
        place = self._open.get(event.task or RUN)
        if place is None:
            self._begin(event, trigger=data["trigger"], scope=data["scope"])
        else:
            self.replans[place] = attrs.evolve(self.replans[place], scope=data["scope"])

    def _begin(self, event: Event, *, trigger: str, scope: str) -> int:
        self._close_last()
        place = len(self.replans)
        self.replans.append(
            Replan(run=self.run, seq=event.seq, task=event.task, trigger=trigger, scope=scope)
        )
        self._open[event.task or RUN] = place
        self._began[place] = event.at
        return place

    def _close_last(self) -> None:
        """The time in which the last adopted plan could have helped is over."""
        if self._last is not None:
            last = self.replans[self._last]
            self.replans[self._last] = attrs.evolve(last, helped=last.newly_done > 0)
            self._last = None

    def _asked(self, event: Event) -> None:
        place = self._open[event.task or RUN]
        before = self.replans[place]
        self.replans[place] = attrs.evolve(before, planner_calls=before.planner_calls + 1)

    def _cost(self, place: int, data: dict[str, Any]) -> None:
        usage, before = data.get("usage", {}), self.replans[place]
        self.replans[place] = attrs.evolve(
            before,
            tokens=before.tokens + usage.get("tokens", 0),
            cost_micros=before.cost_micros + usage.get("cost_micros", 0),
        )

    def _refused(self, event: Event) -> None:
        data, name = event.data, event.task or RUN
        if data["gate"] in _OF_STRATEGIES:
            refused = Strategy(
                run=self.run,
                plan_version=None,
                origin=data.get("origin", "model"),
                outcome="refused",
                why=f"{data['gate']}: {data['why']}",
            )
            self.strategies.append(refused)
        place = self._open[name]
        self._cost(place, data)
        before = self.replans[place]
        self.replans[place] = attrs.evolve(before, refused=(*before.refused, data["gate"]))
        if data.get("ended"):
            self._end(name, event.at, outcome="moot" if data["gate"] == _MOOT else "person")

    def _decided(self, event: Event) -> None:
        about = event.data.get("about")
        if about in self._open and not event.data["decide"].startswith("replan"):
            self._end(about, event.at, outcome="person")

    def _end(self, name: str, at: int, **how: Any) -> int:
        place = self._open.pop(name)
        self.replans[place] = attrs.evolve(self.replans[place], wait_us=at - self._began[place], **how)
        return place

    def _adopted(self, event: Event) -> None:
        data = event.data
        if data["origin"] != "initial" and "answers" in data:
            self._ended(event, data)
        self._follow(data)

    def _ended(self, event: Event, data: dict[str, Any]) -> None:
        """An adopted plan ends the replan that it answers, or all of them."""
        answered = data["answers"]
        names = [answered] if answered in self._open and answered != RUN else list(self._open)
        if not names:
            self._begin(event, trigger="person", scope=data["scope"])
            names = [RUN]
        first = self._open[names[0]]
        self._cost(first, data)
        self._close_last()
        how = {"outcome": "adopted", "origin": data["origin"], "plan_version": data["plan_version"]}
        how |= {key: data.get(key, "") for key in ("repair", "explanation", "explanation_zh")}
        for name in names:
            self._end(name, event.at, **how)
        self._last = first
        begin, count = event.tx if event.tx is not None else (event.seq, 1)
        self._adopted_until = begin + count - 1
        self._outcome("replaced", self.replans[first].trigger)

    def _follow(self, data: dict[str, Any]) -> None:
        tools = {step["id"]: step.get("tool", "") for step in data["plan"]["steps"]}
        self._step_tool.update({name: tool for name, tool in tools.items() if tool})
        new = data["diff"]["added"]
        fresh = [*new, *data["diff"]["changed"]] if isinstance(new, list) else list(tools)
        self._in_force = len(self.strategies)
        self.strategies.append(
            Strategy(
                run=self.run,
                plan_version=data["plan_version"],
                origin=data["origin"],
                steps=tuple(f"{name} ({tools[name] or 'a person'})" for name in fresh if name in tools),
            )
        )
