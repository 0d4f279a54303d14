"""Budgets: reserved before a call, settled after it, never overshot.

Limits come from the plan, a person's change, and the table's params for replans: the smaller wins. A part may be
kept back (``reserve``). Money is counted in millionths of the unit, time in microseconds of active time: time in
which the run is running, not in which it waits for people.
"""

from typing import Final

from fsm_agent.core.engine.records import Share, Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.inputs import NO_USAGE, Usage
from fsm_agent.core.plans.plan import Step


def limit(run: Run, name: str) -> int | float | None:
    """Return the limit called *name* (a field of ``Budgets``) with the reserve taken off; None for no limit."""
    value = run.budgets.get(name)
    assert run.plan is not None, "no plan"
    if value is None:
        value = getattr(run.plan.budgets, name)
    if value is None:
        return None
    kept: int | float = getattr(run.plan.budgets, f"reserve_{name}", 0)
    return value - kept  # type: ignore[no-any-return]


def replan_limit(run: Run, counter: str) -> int | None:
    """Return the plan's own limit for a replan counter of the table, or None."""
    if run.plan is None or counter not in ("local_replans_left", "global_replans_left"):
        return None
    name = counter.removesuffix("_left")
    value: int | None = run.budgets.get(name)
    own: int | None = getattr(run.plan.budgets, name)
    return own if value is None else value


def estimate(run: Run, step: Step, tool: str) -> Usage:
    """Return what a call of *tool* for *step* is expected to use: declared, else the tool's mean so far in this run."""
    if step.estimate is not None:
        return Usage(tokens=step.estimate.tokens, cost_micros=step.estimate.cost_micros)
    if tool not in run.account.by_tool:
        return NO_USAGE
    calls, tokens, cost = run.account.by_tool[tool]
    return Usage(tokens=tokens // calls, cost_micros=cost // calls)


def missing(run: Run, wanted: Usage, *, calls: int = 1) -> str:
    """Return why a call that uses *wanted* does not fit now, in words, or an empty string.

    Args:
        run: The state.
        wanted: Tokens and money the call is expected to use.
        calls: How many tool calls it counts as.
    """
    used = run.account
    checks = (
        ("tool_calls", used.tool_calls + calls, "tool calls"),
        ("tokens", used.tokens + used.reserved_tokens + wanted.tokens, "tokens"),
        (
            "cost_micros",
            used.cost_micros + used.reserved_cost_micros + wanted.cost_micros,
            "millionths of money",
        ),
    )
    for name, would_be, words in checks:
        allowed = limit(run, name)
        if allowed is not None and would_be > allowed:
            return f"{would_be} {words} would be used, {max(0, int(allowed))} are allowed"
    seconds = limit(run, "active_s")
    if seconds is not None and used.active_us >= seconds * 1_000_000:
        return f"{used.active_us / 1e6:g} s of active time are used, {seconds:g} s are allowed"
    spent_up = next((n for n in ("tokens", "cost_micros") if _gone(run, n)), None)
    return f"no {spent_up} are left" if spent_up else ""


def lacking(run: Run, task: Task, wanted: Usage) -> str:
    """Return why a call of *task* that uses *wanted* fits neither the run's budgets nor those of the sub-plans it
    stands in, in words, or an empty string.
    """
    why = missing(run, wanted) if run.limited else ""
    name = task.parent
    while name and not why:
        above = run.tasks[name]
        if above.step.budgets is not None:
            why = _beyond(run.shares.get(name, _NOTHING), above, wanted)
        name = above.parent
    return why


_NOTHING: Final = Share()


def _beyond(used: Share, plan: Task, wanted: Usage) -> str:
    own = plan.step.budgets
    assert own is not None, "no share"
    checks = (
        (own.tool_calls, used.tool_calls + 1, "tool calls"),
        (own.tokens, used.tokens + used.reserved_tokens + wanted.tokens, "tokens"),
        (
            own.cost_micros,
            used.cost_micros + used.reserved_cost_micros + wanted.cost_micros,
            "millionths of money",
        ),
    )
    for allowed, would_be, words in checks:
        if allowed is not None and would_be > allowed:
            return f"{would_be} {words} would be used in {plan.id}, {allowed} are its share"
    for allowed, amount, words in (
        (own.tokens, used.tokens, "tokens"),
        (own.cost_micros, used.cost_micros, "money"),
    ):
        if allowed is not None and amount >= allowed:
            return f"no {words} are left of the share of {plan.id}"
    return ""


def _gone(run: Run, name: str) -> bool:
    allowed = limit(run, name)
    return allowed is not None and getattr(run.account, name) >= allowed


def time_allows(run: Run, delay_us: int) -> bool:
    """Whether waiting *delay_us* before a call leaves active time for the call."""
    seconds = limit(run, "active_s")
    return seconds is None or run.account.active_us + delay_us < seconds * 1_000_000


def low(run: Run) -> str:
    """Return which budget is low, in words, or an empty string.

    Low is less than the share ``budget_low`` of the rule table's params, or less than the remaining steps are
    declared to need.
    """
    share = float(run.rules.params.get("budget_low", 0.2))
    used = run.account
    needs = {"tokens": run.todo_tokens, "cost_micros": run.todo_cost_micros}
    spent = {
        "tool_calls": used.tool_calls,
        "tokens": used.tokens,
        "cost_micros": used.cost_micros,
        "active_s": used.active_us / 1_000_000,
    }
    for name, amount in spent.items():
        allowed = limit(run, name)
        if allowed is None:
            continue
        left, needed = max(0, allowed - amount), needs.get(name, 0)
        if left < needed:
            return f"{name}: {left:g} left, the remaining steps are estimated at {needed:g}"
        if left < share * allowed:
            return f"{name}: {left:g} of {allowed:g} left, less than the share {share:g}"
    return ""
