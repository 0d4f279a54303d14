"""What runs taught, counted from their logs: errors, tools, replans by trigger with their cost and help, strategies.

Values, and how those of several runs are added up; :mod:`fsm_agent.core.audit.historian` reads them out of a log.
"""

from collections.abc import Iterable, Sequence

import attrs


@attrs.frozen(kw_only=True)
class ErrorCount:
    """How often a tool failed in one way.

    Attributes:
        tool: Its name; empty for a step that a person answers.
        signal: What it was taken for.
        what: Code, status or class of the error; empty if it had none.
        times: How often.
        example: The latest message.
        tasks: Where, in order of first appearance.
    """

    tool: str
    signal: str
    what: str
    times: int
    example: str
    tasks: tuple[str, ...]


@attrs.frozen(kw_only=True)
class ToolCount:
    """How a tool was used: calls, how they ended, and what they used up (money in millionths of the unit).

    ``probes`` counts how often the effect of a call was looked up.
    """

    tool: str
    calls: int = 0
    probes: int = 0
    done: int = 0
    failed: int = 0
    unknown: int = 0
    tokens: int = 0
    cost_micros: int = 0
    duration_us: int = 0


@attrs.frozen(kw_only=True)
class Replan:
    """One change of a plan, or the attempt at one.

    Attributes:
        run: The run.
        seq: Of the event that began it.
        task: The step that made it necessary; None for the whole run.
        trigger: The signal that did, or ``person``.
        scope: ``local`` or ``global``, the last that was asked for.
        planner_calls: How often a planner was asked.
        tokens: What that used up.
        cost_micros: The same in money.
        wait_us: From the request to the end, in microseconds; None while it is open.
        refused: Gates that refused a proposal, oldest first.
        outcome: ``adopted``, ``person`` (handed to one), ``moot`` (no longer needed) or ``open``.
        origin: Who proposed the plan that was adopted, or empty.
        plan_version: Of that plan, or None.
        newly_done: Steps newly done after it and before the next replan.
        helped: Whether there were any; None while that is open, and where no plan was adopted.
        repair: Id of the repair that proposed it, if one did.
        explanation: What the change meant, for an end user; empty where no plan was adopted.
        explanation_zh: The same in Chinese.
    """

    run: str
    seq: int
    task: str | None
    trigger: str
    scope: str
    planner_calls: int = 0
    tokens: int = 0
    cost_micros: int = 0
    wait_us: int | None = None
    refused: tuple[str, ...] = ()
    outcome: str = "open"
    origin: str = ""
    plan_version: int | None = None
    newly_done: int = 0
    helped: bool | None = None
    repair: str = ""
    explanation: str = ""
    explanation_zh: str = ""


@attrs.frozen(kw_only=True)
class TriggerCount:
    """Replans that one signal made necessary, summed."""

    trigger: str
    replans: int
    adopted: int
    helped: int
    planner_calls: int
    tokens: int
    cost_micros: int


@attrs.frozen(kw_only=True)
class Strategy:
    """A way to the goal that was tried, or proposed and refused.

    Attributes:
        run: The run.
        plan_version: Of the plan that followed it; None for a proposal that was refused.
        origin: Who proposed it.
        steps: What it adds or changes, as ``id (tool)``; for the first plan all of it.
        outcome: ``in force``, ``replaced``, ``reached the goal``, ``did not reach the goal`` or ``refused``.
        why: What made another one necessary, or why it was refused.
    """

    run: str
    plan_version: int | None
    origin: str
    steps: tuple[str, ...] = ()
    outcome: str = "in force"
    why: str = ""


@attrs.frozen(kw_only=True)
class History:
    """What the logs of some runs tell.

    Attributes:
        runs: Their ids.
        errors: The most frequent first.
        tools: The most called first.
        replans: Oldest first, run by run.
        strategies: In the order in which they came up, run by run.
    """

    runs: tuple[str, ...]
    errors: tuple[ErrorCount, ...]
    tools: tuple[ToolCount, ...]
    replans: tuple[Replan, ...]
    strategies: tuple[Strategy, ...]

    @property
    def triggers(self) -> tuple[TriggerCount, ...]:
        """The replans by what made them necessary, the most frequent first."""
        groups: dict[str, list[Replan]] = {}
        for replan in self.replans:
            groups.setdefault(replan.trigger, []).append(replan)
        found = [
            TriggerCount(
                trigger=trigger,
                replans=len(group),
                adopted=sum(r.outcome == "adopted" for r in group),
                helped=sum(r.helped is True for r in group),
                planner_calls=sum(r.planner_calls for r in group),
                tokens=sum(r.tokens for r in group),
                cost_micros=sum(r.cost_micros for r in group),
            )
            for trigger, group in groups.items()
        ]
        return tuple(sorted(found, key=lambda t: (-t.replans, t.trigger)))


def together(histories: Sequence[History]) -> History:
    """Return the histories of several runs as one: counts are summed, the rest follows run by run."""
    errors: dict[tuple[str, str, str], ErrorCount] = {}
    tools: dict[str, ToolCount] = {}
    for one in histories:
        for error in one.errors:
            key = (error.tool, error.signal, error.what)
            errors[key] = sum_errors(errors[key], error) if key in errors else error
        for tool in one.tools:
            tools[tool.tool] = sum_tools(tools[tool.tool], tool) if tool.tool in tools else tool
    return History(
        runs=tuple(name for one in histories for name in one.runs),
        errors=ranked_errors(errors.values()),
        tools=ranked_tools(tools.values()),
        replans=tuple(replan for one in histories for replan in one.replans),
        strategies=tuple(strategy for one in histories for strategy in one.strategies),
    )


def sum_errors(a: ErrorCount, b: ErrorCount) -> ErrorCount:
    """Return what two counts of the same error are together; *b* is the later one."""
    tasks = tuple(dict.fromkeys((*a.tasks, *b.tasks)))
    return attrs.evolve(a, times=a.times + b.times, example=b.example, tasks=tasks)


def sum_tools(a: ToolCount, b: ToolCount) -> ToolCount:
    """Return what two counts of the same tool are together."""
    names = [field.name for field in attrs.fields(ToolCount) if field.name != "tool"]
    return ToolCount(tool=a.tool, **{name: getattr(a, name) + getattr(b, name) for name in names})


def ranked_errors(errors: Iterable[ErrorCount]) -> tuple[ErrorCount, ...]:
    """Return *errors*, the most frequent first."""
    return tuple(sorted(errors, key=lambda e: (-e.times, e.tool, e.signal, e.what)))


def ranked_tools(tools: Iterable[ToolCount]) -> tuple[ToolCount, ...]:
    """Return *tools*, the most called first."""
    return tuple(sorted(tools, key=lambda t: (-t.calls, t.tool)))
