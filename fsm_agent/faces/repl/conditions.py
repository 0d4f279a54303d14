"""Break points: what a person waits for, in one word, and whether the next events would bring it."""

import re
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from fsm_agent.core.engine import budget
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import UsageError
from fsm_agent.core.events import Event
from fsm_agent.core.machine import STATES
from fsm_agent.core.signals import Signal

MEANINGS: Final = (
    ("T6", "before T6 is started"),
    ("T6:done", "once T6 is in that state"),
    ("state=STATE", "once any task, or the run, is in that state"),
    ("signal=NAME", "once the table was asked about that signal; * and ? match"),
    ("decision=NAME", "once it decided so; * and ? match"),
    ("budget.NAME<N", "once less than N, or than N %, of that budget is left"),
)
"""Every form, and when it comes."""
FORMS: Final = "TASK, TASK:STATE, state=STATE, signal=NAME, decision=NAME, budget.NAME<N or budget.NAME<N%"
BUDGETS: Final = ("tool_calls", "planner_calls", "tokens", "cost_micros", "active_s")
_BUDGET: Final = re.compile(r"budget\.(\w+)<(\d{1,15}(?:\.\d{1,6})?)(%?)")


class Condition(NamedTuple):
    """A condition: its text as typed, what it is about, and the value that is waited for.

    Attributes:
        text: As typed.
        about: ``start``, ``task``, ``state``, ``signal``, ``decision`` or ``budget``.
        name: Of the task or the budget.
        value: State, pattern, or a number.
        share: Whether the number is a percentage.
    """

    text: str
    about: str
    name: str = ""
    value: str = ""
    share: bool = False

    def comes(self, events: Sequence[Event], run: Run, passed: Collection[str] = ()) -> bool:
        """Whether *events*, which would be next in *run*, bring it; starts of *passed* tasks do not count."""
        match self.about:
            case "start":
                return self.name not in passed and any(
                    e.task == self.name and e.type == "task_moved" and e.data["trigger"] == "start"
                    for e in events
                )
            case "task":
                return any(
                    e.task == self.name and e.type == "task_moved" and e.data["dest"] == self.value
                    for e in events
                )
            case "state":
                return any(
                    e.type in ("task_moved", "run_moved") and e.data["dest"] == self.value for e in events
                )
            case "budget":
                return self.short(run)
            case _:
                key = "signal" if self.about == "signal" else "decide"
                return any(e.type == "decided" and fnmatchcase(str(e.data[key]), self.value) for e in events)

    def holds(self, run: Run) -> bool:
        """Whether it has come already: a task is in that state, or the budget is that low."""
        if self.about == "task":
            return run.tasks[self.name].state.value == self.value
        return self.short(run)

    def short(self, run: Run) -> bool:
        """Whether less of the budget is left than the condition allows."""
        limit = budget.limit(run, self.name) if self.about == "budget" and run.plan is not None else None
        if limit is None:
            return False
        account = run.account
        used = account.active_us / 1_000_000 if self.name == "active_s" else getattr(account, self.name)
        left = limit - used
        return left < (limit * float(self.value) / 100 if self.share else float(self.value))


def read(text: str, tasks: Collection[str]) -> Condition:
    """Return the condition that *text* means.

    Args:
        text: As typed.
        tasks: Ids of the plan's steps.

    Raises:
        UsageError: It means none.
    """
    found = _BUDGET.fullmatch(text)
    if found is not None:
        name = "cost_micros" if found[1] == "cost" else found[1]
        if name not in BUDGETS:
            raise _wrong(text, f"there is no budget {found[1][:40]!r}", BUDGETS)
        return Condition(text, "budget", name, found[2], bool(found[3]))
    about, equals, value = text.partition("=")
    if equals and about == "state":
        if value not in STATES:
            raise _wrong(text, f"there is no state {value[:40]!r}", STATES)
        return Condition(text, "state", value=value)
    if equals and about == "signal":
        known = [signal.value for signal in Signal]
        if not any(fnmatchcase(name, value) for name in known):
            raise _wrong(text, f"there is no signal {value[:40]!r}", known)
        return Condition(text, "signal", value=value)
    if equals and about == "decision" and value:
        return Condition(text, "decision", value=value)
    name, colon, state = text.rpartition(":")
    if colon and name in tasks:
        if state not in STATES:
            raise _wrong(text, f"there is no state {state[:40]!r}", STATES)
        return Condition(text, "task", name, state)
    if text in tasks:
        return Condition(text, "start", text)
    raise UsageError(f"condition {text[:60]!r}: it is neither a task nor of a known form; write {FORMS}")


def _wrong(text: str, found: str, known: Sequence[str]) -> UsageError:
    return UsageError(f"condition {text[:60]!r}: {found}; there are {', '.join(known)}")
