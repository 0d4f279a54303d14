"""What calls have shown, kept beside the tasks: circuit breakers by tool, answers by call, counters by strategy.

The part of the fold that outlives a task's own moves; only the reducer calls it.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from fsm_agent.core import canon
from fsm_agent.core.engine import breaker, stall
from fsm_agent.core.engine.records import Share, Task, Trouble
from fsm_agent.core.engine.state import Run
from fsm_agent.core.events import Event
from fsm_agent.core.inputs import Usage


def new_strategy(run: Run, trouble: Trouble) -> None:
    """Another tool, or other arguments: the failures of the ones before are not theirs."""
    trouble.streak, trouble.fingerprint, trouble.stall = 0, "", 0
    for name, counter in run.rules.counters.items():
        if counter.scope == "strategy":
            trouble.spent.pop(name, None)


def call_started(run: Run, task: Task, tool: str, at: int) -> None:
    """A call of *tool* went out."""
    if tool in run.breakers:
        _set(run, tool, breaker.started(run.breakers[tool], task.id, at))


def call_ended(run: Run, task: Task, outcome: dict[str, Any], at: int) -> None:
    """A call of the task's tool ended with *outcome*, as the event has it."""
    signal, tool = outcome.get("signal"), task.tool or ""
    if signal not in breaker.FAILURES and tool not in run.breakers:
        return
    params = run.rules.params
    after = breaker.ended(
        run.breaker_of(tool),
        task.id,
        signal,
        at,
        limit=int(params["breaker_failures"]),
        open_us=round(params["breaker_open_s"] * 1_000_000),
    )
    _set(run, tool, after)


def call_left(run: Run, task: Task) -> None:
    """Nobody waits for the task's call any more."""
    tool = task.tool or ""
    if tool in run.breakers:
        _set(run, tool, breaker.left(run.breakers[tool], task.id))


def _set(run: Run, tool: str, value: breaker.Breaker) -> None:
    if value is breaker.CLOSED:
        run.drop(run.breakers, tool)
    else:
        run.put(run.breakers, tool, value)


def follow(run: Run, task: Task, event: Event) -> None:
    """Remember what a read that failed has answered, so that the same again is recognised in any step."""
    outcome = event.data["outcome"]
    if outcome["kind"] == "value":
        mark = canon.value_digest("result", outcome.get("value"))
    else:
        mark = (outcome.get("error") or {}).get("fingerprint", "")
    if not mark:
        return
    trails, call = run.trails, task.args_digest
    if call not in trails and len(trails) >= stall.MAX_TRAILS:
        run.drop(trails, stall.oldest(trails))
    marks = trails[call].marks if call in trails else ()
    threshold = int(run.rules.params["stall_threshold"])
    run.put(trails, call, stall.Trail(event.seq, stall.followed(marks, mark, threshold)))


def spend(run: Run, usage: Mapping[str, Any], task: Task | None = None) -> None:
    """Count tokens and money that were used, for *task* if it was for one."""
    tokens, cost = usage.get("tokens", 0), usage.get("cost_micros", 0)
    run.account.tokens = min(run.account.tokens + tokens, canon.MAX_INT)  # the log can hold no more
    run.account.cost_micros = min(run.account.cost_micros + cost, canon.MAX_INT)
    if task is not None and task.parent:
        _share(run, task, tokens=tokens, cost_micros=cost)


def count_call(run: Run, task: Task) -> None:
    """Count a call, or a probe, of *task*."""
    run.account.tool_calls += 1
    if task.parent:
        _share(run, task, tool_calls=1)


def reserve(run: Run, task: Task, wanted: Usage) -> None:
    """Keep *wanted* for the call of *task* that goes out."""
    task.reserved = wanted
    _reserve(run, task, wanted, 1)


def give_back(run: Run, task: Task) -> None:
    """Give back what was reserved for the call of *task*."""
    if task.reserved is not None:
        _reserve(run, task, task.reserved, -1)
        task.reserved = None


def _reserve(run: Run, task: Task, wanted: Usage, by: int) -> None:
    run.account.reserved_tokens += by * wanted.tokens
    run.account.reserved_cost_micros += by * wanted.cost_micros
    if task.parent:
        _share(run, task, reserved_tokens=by * wanted.tokens, reserved_cost_micros=by * wanted.cost_micros)


def _share(run: Run, task: Task, **more: int) -> None:
    """Count for every sub-plan with a budget of its own that *task* stands in."""
    name = task.parent
    while name:
        above = run.tasks[name]
        if above.step.budgets is not None:
            used = run.shares.get(name, Share())
            now = attrs.evolve(used, **{key: getattr(used, key) + by for key, by in more.items()})
            run.put(run.shares, name, now)
        name = above.parent
