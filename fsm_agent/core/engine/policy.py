"""From a signal to a decision to what it sets in motion.

The facts have moved already; the new state and the signal fire the table; exactly one row answers. The decision
is an event with the row, the facts it saw and a reason, whatever it leads to.
"""

from collections.abc import Mapping
from typing import Any, Final, assert_never

from fsm_agent.core import canon
from fsm_agent.core.engine import batches, breaker, budget, derived
from fsm_agent.core.engine.records import RUN, Task, Trouble
from fsm_agent.core.engine.state import Run
from fsm_agent.core.engine.turn import Turn
from fsm_agent.core.inputs import NO_USAGE
from fsm_agent.core.machine import WRITES, TaskState
from fsm_agent.core.plans.plan import SIGNAL_ANY, OnFailure
from fsm_agent.core.replanning import repairing, strategy
from fsm_agent.core.rules import laws
from fsm_agent.core.rules import table as rules
from fsm_agent.core.rules.table import Delay, Row, Ruling
from fsm_agent.core.signals import DOMAIN, LEGAL_DECISIONS, Decision, Signal

STRENGTH: Final = ("none", "pause", "abort", "cancel")
"""Wishes, the weaker first; a stronger one replaces a weaker one."""

Facts = dict[str, str | int]

_ACCEPT: Final = Decision.ACCEPT
_CAPS: Final = {name: bounds[1] for name, bounds in DOMAIN.items() if isinstance(bounds[1], int)}


def facts_of(run: Run, task: Task | None, signal: str) -> Facts:
    """Return every fact of the declared domain, as the table sees it when *signal* fires now.

    Args:
        run: The state, facts already moved.
        task: The task whose state fires; None for the run.
        signal: The signal; counted as having fired once more.
    """
    table = run.rules
    facts: Facts = dict(table.initial)
    for name in table.counters:
        facts[name] = _left(run, task, name)
    facts["budget_band"] = run.account.band
    facts["has_planner"] = "yes" if run.has_planner else "no"
    facts["consecutive_replans"] = _capped("consecutive_replans", run.replans_in_a_row)
    facts["wish"] = run.wish
    if task is None:
        facts["signal_count"] = _capped("signal_count", 1 + run.seen.get(signal, 0))
        facts["replan_scope"] = run.replan_scope
        return facts
    facts["breaker"] = breaker.state(run.breaker_of(run.tool_of(task.step)), run.at)
    spec = run.spec_of(task)
    facts["effect"] = spec.effect.value if spec is not None else task.effect
    facts["applied"] = task.applied if task.effect != "read" else "no"
    prepared = task.step.alternatives or repairing.fits(run, task, signal)
    facts["has_alternative"] = "yes" if prepared else "no"
    spare = task.step.optional or (task.state is TaskState.FAILED and batches.tolerates(run, task))
    facts["optional"] = "yes" if spare else "no"
    repeats = task.effect == "idempotent" and run.wish == "none"
    can_ask = repeats or (spec is not None and spec.reconcile)
    if signal == Signal.RECONCILE_INCONCLUSIVE.value and run.rules.newer:
        can_ask = not no_probe(run, task)  # else it would be decided on, to no end, until no look-up is left
    facts["has_reconcile"] = "yes" if can_ask and not _beyond_budget(run, task) else "no"
    trouble = task.trouble
    facts["signal_count"] = _capped("signal_count", 1 + (trouble.seen.get(signal, 0) if trouble else 0))
    if trouble is not None:
        facts["repeat_streak"] = _capped("repeat_streak", trouble.streak)
        facts["stall_steps"] = _capped("stall_steps", _stall(run, task, trouble, signal))
    return facts


def _beyond_budget(run: Run, task: Task) -> str:
    """Return why no budget is left to ask what became of a call, in words; empty if there is, or nobody has to ask.

    A run of a time when that was no reason not to ask goes on, and is audited, as it began.
    """
    if task.state is not TaskState.UNKNOWN or not run.rules.newer:
        return ""
    return budget.lacking(run, task, NO_USAGE)


def _stall(run: Run, task: Task, trouble: Trouble, signal: str) -> int:
    same = derived.same_answers(run, task) if signal == Signal.PROGRESS_STALL.value else 0
    return max(trouble.stall, same)


def _capped(name: str, value: int) -> int:
    return min(value, _CAPS[name])


def _left(run: Run, task: Task | None, name: str) -> int:
    """How much of a counter is left: the table's or the plan's limit, whichever is smaller, less what was spent."""
    limit = int(run.rules.initial[name])
    own = budget.replan_limit(run, name)
    if own is not None:
        limit = min(limit, own)
    if run.rules.scope_of(name) == "run":
        spent = run.spent.get(name, 0)
    else:
        spent = task.trouble.spent.get(name, 0) if task is not None and task.trouble is not None else 0
    return max(0, limit - spent)


def shown(facts: Mapping[str, str | int], initial: Mapping[str, str | int]) -> Facts:
    """Return the facts that are not at their initial value: what an event records."""
    return {name: value for name, value in facts.items() if initial[name] != value}


def rule_on(run: Run, task: Task | None, signal: Signal) -> Ruling:
    """Return what follows when *signal* fires now. Decides nothing and changes nothing.

    Args:
        run: The state, facts already moved.
        task: Whose state fires; None for the run.
        signal: What happened.
    """
    table = run.rules
    machine, state = ("run", "running") if task is None else ("task", task.state._value_)
    outright = table.outright(machine, state, signal)
    if outright is not None and (task is None or not (task.step.on_failure or task.parent)):
        return outright
    facts = facts_of(run, task, signal)
    seen = shown(facts, table.initial)
    own = own_row(task, state, signal, facts)
    if own is not None:
        return Ruling(seen, own[0], own[1].decide, own[1].say or "the plan says so", None)
    row = table.match(machine, state, signal, facts)
    if state == TaskState.FAILED.value and row.decide not in (Decision.RETRY, Decision.SKIP):
        batch = batches.tolerates(run, task) if task is not None else None
        if batch is not None:
            words = f"{batch.id} goes on without a record that fails (on_item_failure)"
            return Ruling(seen, f"plan:{batch.id}.on_item_failure", Decision.SKIP, words, None)
    return Ruling(seen, row.id, row.decide, table.reason(row, signal, facts), row)


def fire(
    turn: Turn,
    task: Task | None,
    signal: Signal,
    *,
    because: str = "",
    retry_after_us: int | None = None,
    extra: Mapping[str, Any] | None = None,
    about: Task | None = None,
) -> Decision:
    """Fire the table for *signal* and set in motion what it decides.

    Args:
        turn: The turn; facts have moved.
        task: Whose state fires; None for the run.
        signal: What happened.
        because: Words of the case, added to the row's own.
        retry_after_us: How long the other side asked us to wait.
        extra: Further data for the event.
        about: The task that a question or a replan of the run is really about.

    Returns:
        The decision.
    """
    run = turn.run
    facts, rule, decide, why, row = rule_on(run, task, signal)
    params: dict[str, Any] = {}
    if decide is _ACCEPT:
        pass  # as nearly always
    elif decide is Decision.ESCALATE and task is not None:
        why_not = _beyond_budget(run, task) if has_probe(run, task) else ""
        because = f"{because}; it cannot be looked up: {why_not}" if why_not else because
    elif decide is Decision.RETRY and task is not None:
        delay = _retry_delay(turn, task, row, retry_after_us)
        if not budget.time_allows(run, delay):
            words = f"{task.id} would wait {delay / 1e6:g} s before its next try, more than the active time that is left"
            return fire(
                turn, None, Signal.BUDGET_EXHAUSTED, because=words, extra={"for": [task.id, signal.value]}
            )
        params["delay_ms"] = max(1, -(-delay // 1000))
    elif decide is Decision.RECONCILE and task is not None:
        params["probe_at"] = probe_time(turn, task, row)
    reason = f"{why}: {because}" if because else why
    data: dict[str, Any] = {
        "state": "running" if task is None else task.state._value_,
        "signal": signal._value_,
        "facts": dict(facts),  # the ruling is the table's, which other runs read, too
        "rule": rule,
        "decide": decide._value_,
        "reason": reason,
    }
    if params:
        data["params"] = params
    if extra:
        data.update(extra)
    turn.emit("decided", data, task.id if task is not None else None)
    if task is None and retry_after_us:
        # the planner itself asks to be left alone; a detour around a tool need not wait
        params["wait_us"] = retry_after_us
    if decide is not _ACCEPT:
        _act(turn, task or about, signal, decide, reason, params)
    return decide


def own_row(task: Task | None, state: str, signal: Signal, facts: Facts) -> tuple[str, OnFailure] | None:
    """Return the step's own row for *signal* with its id, if it has one that is legal here."""
    if task is None or not task.step.on_failure or state == "done":
        return None
    name = signal.value
    own = task.step.on_failure.get(name)
    if own is None and state == "failed":
        name, own = SIGNAL_ANY, task.step.on_failure.get(SIGNAL_ANY)
    if own is None or own.decide not in LEGAL_DECISIONS[("task", state)]:
        return None
    if laws.violated("task", state, signal.value, facts, own.decide):
        return None
    return f"plan:{task.id}.on_failure.{name}", own


def _delay(run: Run, row: Row | None) -> Delay | None:
    """Return the delay policy of *row*, which tries or looks up again; a step's own row never does."""
    assert row is not None, "a plan decides nothing that starts a call"
    return run.rules.delays.get(row.delay or "")


def _retry_delay(turn: Turn, task: Task, row: Row | None, retry_after_us: int | None) -> int:
    run = turn.run
    spent = task.trouble.spent.get("retries_left", 0) if task.trouble is not None else 0
    open_us = round(run.rules.params["breaker_open_s"] * 1_000_000)
    return rules.delay_us(
        _delay(run, row),
        n=spent + 1,
        jitter=turn.env.jitter,
        retry_after_us=retry_after_us,
        settle_us=settle_us(run, task),
        breaker_us=breaker.wait_us(run.breaker_of(run.tool_of(task.step)), turn.now, open_us),
    )


def settle_us(run: Run, task: Task) -> int:
    """Return how long after a call's deadline its effect may become visible, in microseconds."""
    spec = run.spec_of(task)
    return spec.settle_us if spec is not None else 0


def probe_time(turn: Turn, task: Task, row: Row | None) -> int:
    """Return when the next probe of *task* may go out.

    Never before the attempt's deadline plus the time its effect may take to show, whatever made the result
    unknown; later probes wait longer.
    """
    run = turn.run
    earliest = task.deadline_at + settle_us(run, task)
    probes = task.trouble.probes if task.trouble is not None else 0
    if probes == 0:
        return max(earliest, turn.now + 1)
    wait = rules.delay_us(
        _delay(run, row),
        n=probes,
        jitter=turn.env.jitter,
        retry_after_us=None,
        settle_us=settle_us(run, task),
        breaker_us=0,
    )
    return max(earliest, turn.now + wait)


def _act(
    turn: Turn, task: Task | None, signal: Signal, decide: Decision, reason: str, params: Mapping[str, Any]
) -> None:
    match decide:
        case Decision.ACCEPT | Decision.CONTINUE | Decision.RECONCILE:
            pass  # what follows is somebody else's to do, or nothing
        case Decision.RETRY:
            assert task is not None, "retry is a decision about a task"
            turn.move(task, "retry", {"delay_ms": params["delay_ms"]})
        case Decision.SKIP:
            assert task is not None, "skip is a decision about a task"
            code = "optional" if task.step.optional else "collected"
            words = "it is optional" if task.step.optional else "its batch goes on without it"
            turn.move(task, "cancel", {"reason": f"skipped, {words} ({reason})", "code": code})
        case Decision.ESCALATE:
            escalate(turn, task, signal, reason)
        case Decision.ABORT:
            wish(turn, "abort", reason)
        case Decision.REPLAN_LOCAL | Decision.REPLAN_GLOBAL:
            scope = decide.removeprefix("replan-")
            ask_replan(turn, task, signal, scope, reason, wait_us=params.get("wait_us", 0))
        case _:
            assert_never(decide)


def ask_replan(
    turn: Turn, task: Task | None, signal: Signal, scope: str, reason: str, *, wait_us: int = 0
) -> None:
    """Record that the plan is to be changed, because the table says so or a person does.

    A cool-down, or a planner's own wish to wait, delays it only.
    """
    run = turn.run
    assert run.plan is not None, "no plan"
    prepared = task is not None and bool(task.step.alternatives)
    pause = 0 if prepared or not run.replanned_at else round(run.rules.params["cooldown_s"] * 1_000_000)
    data = {
        "scope": scope,
        "trigger": signal.value,
        "why": reason,
        "strategy": strategy.signature(run.plan, strategy.done_calls(run)),
        "not_before": max(turn.now + wait_us, run.replanned_at + pause),
    }
    turn.emit("replan_requested", data, task.id if task is not None else None)


def wish(turn: Turn, wanted: str, reason: str, **more: Any) -> None:
    """Record a wish that the rules decided; a stronger or equal one that is in force stays."""
    if STRENGTH.index(wanted) > STRENGTH.index(turn.run.wish):
        turn.emit("run_asked", {"wish": wanted, "reason": reason, **more})


def escalate(turn: Turn, task: Task | None, signal: Signal, reason: str) -> None:
    """Open a question to a person; other branches go on."""
    ask(turn, task, legal_answers(turn.run, task), reason, signal=signal.value)


def ask(turn: Turn, task: Task | None, answers: tuple[str, ...], say: str, *, signal: str = "") -> None:
    """Ask a person to decide about a task, or about the run.

    Args:
        turn: The turn.
        task: The task; None for the run.
        answers: What may be answered, in the order shown.
        say: What is asked, in words.
        signal: What made it necessary, if it was a signal.
    """
    run = turn.run
    name = task.id if task is not None else RUN
    open_one = run.questions.get(name)
    if open_one is not None and open_one.answers == answers and open_one.say not in say:
        say = f"{open_one.say}; {say}"  # one answer is for both, so whoever gives it reads both
    data: dict[str, Any] = {
        "kind": "decide",
        "args_digest": canon.value_digest("question", [run.id, name, run.seq]),
        "answers": list(answers),
        "say": say,
    }
    if signal:
        data["signal"] = signal
    turn.emit("approval_requested", data, task.id if task is not None else None)


def legal_answers(run: Run, task: Task | None) -> tuple[str, ...]:
    """Return what a person may answer to an escalation, in the order shown."""
    if task is None:
        return ("continue", *(("replan-global",) if run.has_planner else ()), "abort")
    if task.state is TaskState.UNKNOWN:
        probe = ("probe",) if has_probe(run, task) else ()
        return (*probe, "applied", "absent", "abort")
    if task.state is not TaskState.FAILED:
        return ("continue", "abort")
    answers = []
    if may_retry(task):
        answers.append("retry")
        if _somebody_proposes(run, task):
            answers += ["replan-local", "replan-global"]
    if task.step.optional:
        answers.append("skip")
    # of a task whose parts have not ended nobody can say what it makes in all: they would go on, or wait for ever
    return (*answers, *(() if task.left else ("result",)), "abort")


def _somebody_proposes(run: Run, task: Task) -> bool:
    """Whether another plan around a failed task could come from anybody but the person who is asked."""
    if run.has_planner or task.step.alternatives:
        return True
    return task.trouble is not None and repairing.fits(run, task, last_signal(task))


def may_retry(task: Task) -> bool:
    """Whether a failed task may be tried again at all: never a write whose effect is or may be there."""
    return task.effect not in WRITES or task.applied == "no"


def last_signal(task: Task) -> Signal:
    """Return the signal that *task* fired last; it has failed or is unknown."""
    assert task.trouble is not None, "it never failed"
    return Signal(task.trouble.signal or Signal.UNVERIFIED)


def has_probe(run: Run, task: Task) -> bool:
    """Whether there is a way to ask what became of the task's effect."""
    spec = run.spec_of(task)
    return spec is not None and (spec.reconcile or spec.effect == "idempotent")


def no_probe(run: Run, task: Task) -> str:
    """Return why there is nothing to ask *task* by now, in words; empty if there is."""
    spec = run.spec_of(task)
    if not has_probe(run, task):
        return f"{task.tool} has no probe"
    assert spec is not None, "it has a probe"
    if not spec.reconcile and run.wish != "none":
        return f"the run is asked to {run.wish}, so the call is not repeated"
    return ""
