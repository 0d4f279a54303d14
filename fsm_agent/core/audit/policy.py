"""Checks of policy (D): every decision is made again, from facts computed anew and the table in the log."""

from typing import Final

from fsm_agent.core import canon
from fsm_agent.core.audit.check import BATCH, Check, Said, check
from fsm_agent.core.audit.checker import INPUT_DECISION, Checker
from fsm_agent.core.engine import breaker, budget, ending
from fsm_agent.core.engine.derived import failure
from fsm_agent.core.engine.policy import rule_on, settle_us
from fsm_agent.core.engine.records import RUN, Task
from fsm_agent.core.events import Event
from fsm_agent.core.machine import RunState, TaskState
from fsm_agent.core.plans.plan import Constraint
from fsm_agent.core.rules import table as rules
from fsm_agent.core.rules.table import Ruling
from fsm_agent.core.signals import HOME, Signal

_SIGNALS: Final = {s.value: s for s in Signal}


def _who(log: Checker, event: Event) -> tuple[Task | None, str, str]:
    """Return whose state fires: the task (None for the run), the machine and the state."""
    if event.task is None:
        return None, "run", "running"
    task = log.task
    return task, "task", task.state


def _ruling(log: Checker, event: Event) -> Ruling:
    """Return what the table says here; asked once per decision, however many checks look at it."""
    if log.ruled_on != event.seq:
        log.ruling = rule_on(log.run, _who(log, event)[0], _SIGNALS[event.data["signal"]])
        log.ruled_on = event.seq
    ruling: Ruling = log.ruling
    return ruling


def plain_decision(log: Checker, event: Event) -> bool:
    """Whether a decision is one about a task after which nothing is waited for."""
    del log
    return event.task is not None and event.data["decide"] not in ("retry", "reconcile")


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────────────


def rules_digest(log: Checker, event: Event) -> Said:
    """The rule table in the log is the one that its digest names."""
    data = event.data
    if data["run"] != log.run.id:
        return f"the log is of run {data['run']}, not of {log.run.id}"
    same = canon.value_digest("rules", data["rules"]) == data["rules_digest"]
    return "" if same else "the rule table is not the one that its digest names"


# ── signals ───────────────────────────────────────────────────────────────────────────────────────────────────


def signal_at_home(log: Checker, event: Event) -> Said:
    """A signal fires the table in the kind of state where it is at home, and its task is in that state."""
    _, machine, state = _who(log, event)
    said = event.data["state"]
    if said == state and _SIGNALS[event.data["signal"]] in HOME.get((machine, state), ()):
        return ""
    return (
        f"{event.data['signal']} fires in {machine} {said} ({state} by the events); it is not at home there"
    )


def decision_for_a_signal(log: Checker, event: Event) -> Said:
    """A task's decision answers the signal that an event of its batch has raised, or what follows from it."""
    if event.task is None:
        return None
    owed, signal = log.owed.get(event.task), event.data["signal"]
    if owed is None:
        return f"a decision about {signal} of {event.task}, which signals nothing"
    right = failure(log.run, log.task, _SIGNALS[owed[0]], log.asked_to_wait.get(event.task))[0]
    if signal == right:
        return ""
    return f"event {owed[1]} signals {owed[0]}, which makes {right} here, but the decision is about {signal}"


def every_signal_decided(log: Checker, event: Event) -> Said:
    """Every signal gets its decision in the batch that raises it."""
    del event
    if not log.owed:
        return ""
    return "; ".join(
        f"{signal} of {name} (event {seq}) got no decision in its batch"
        for name, (signal, seq) in log.owed.items()
    )


def run_signal_is_true(log: Checker, event: Event) -> Said:
    """A signal of the run as a whole is so: a budget is low, a constraint broken, an input changed, a plan refused."""
    if event.task is not None or log.by_caller:
        return None
    run, data = log.run, event.data
    match data["signal"]:
        case "budget_low":
            return "" if budget.low(run) else "budget_low is signalled, and no budget is low"
        case "constraint_violated":
            plan = run.plan
            named = [
                c for c in (plan.constraints if plan is not None else ()) if c.key in data["constraints"]
            ]
            true = [c.key for c in named if _verdict(log, c) is True]
            return f"{', '.join(true)} is said to be broken, and is true" if true or not named else ""
        case "input_changed":
            due = (RUN, INPUT_DECISION) in log.due
            return "" if due else "input_changed is signalled, and no input was changed in its batch"
        case "plan_rejected":
            return (
                "" if log.refused else "plan_rejected is signalled, and no proposal was refused in its batch"
            )
        case _:
            return None


def low_budget_signalled(log: Checker, event: Event) -> Said:
    """A budget that has become low while the run is running is signalled in the batch that makes it low."""
    if event.type == "move_refused":
        return None  # noted by itself at any moment, and active time runs on; nothing is decided with it
    run = log.run
    if log.by_caller or run.state is not RunState.RUNNING or run.account.band != "ok" or not run.limited:
        return None
    counts = run.counts
    if counts[TaskState.DONE] + counts[TaskState.CANCELLED] == len(run.tasks):
        return None
    words = budget.low(run)
    return f"a budget is low, and nothing says so: {words}" if words else ""


def constraints_looked_at(log: Checker, event: Event) -> Said:
    """After a task is newly done every constraint that reads it is looked at; one that is false is noted or decided on."""
    del event
    run = log.run
    plan = run.plan
    if not log.newly or plan is None or not plan.constraints or log.adopted or log.was_final:
        return None
    looked_at = ending.concerned(run, log.newly)
    missed = [c.key for c in looked_at if c.key not in run.broken and _verdict(log, c) is False]
    return f"{', '.join(missed)} is false by now, and nothing says so" if missed else ""


def _verdict(log: Checker, constraint: Constraint) -> bool | None:
    value = ending.verdict_on(log.run, constraint, ending.products(log.run)).value
    return value if isinstance(value, bool) else None


# ── decisions ─────────────────────────────────────────────────────────────────────────────────────────────────


def facts_recomputed(log: Checker, event: Event) -> Said:
    """The facts that a decision saw are those that the events before it make."""
    facts, said = _ruling(log, event).facts, event.data["facts"]
    return "" if said == facts else f"the log saw the facts {said}; they were {facts}"


def decision_by_the_table(log: Checker, event: Event) -> Said:
    """The row and the decision are what the table in the log, or the step's own row, says of these facts."""
    ruling, data = _ruling(log, event), event.data
    if data["rule"] == ruling.rule and data["decide"] == ruling.decide:
        return ""
    return f"the log says {data['decide']} by {data['rule']}; the table says {ruling.decide} by {ruling.rule}"


def reason_of_the_row(log: Checker, event: Event) -> Said:
    """The reason begins with the words of the row."""
    why, said = _ruling(log, event).why, event.data["reason"]
    fits = said == why or said.startswith(f"{why}: ")
    return "" if fits else f"the reason is {said!r:.120}; the row says {why!r:.120}"


def delay_by_the_policy(log: Checker, event: Event) -> Said:
    """A retry waits as long as the row's delay allows, and what the other side asked for; chance moves it in between."""
    if event.data["decide"] != "retry":
        return None
    low, high = _delays_ms(log, event)
    said = event.data["params"]["delay_ms"]
    return "" if low <= said <= high else f"the retry waits {said} ms; its row allows {low} to {high} ms"


def _delays_ms(log: Checker, event: Event) -> list[int]:
    """Return the shortest and the longest delay that the row allows, in milliseconds."""
    run, task, row = log.run, log.task, _ruling(log, event).row
    spent = task.trouble.spent.get("retries_left", 0) if task.trouble is not None else 0
    delay = run.rules.delays.get(row.delay) if row is not None and row.delay is not None else None
    open_us = round(run.rules.params["breaker_open_s"] * 1_000_000)
    breaker_us = breaker.wait_us(run.breaker_of(run.tool_of(task.step)), event.at, open_us)
    asked, settle = log.asked_to_wait.get(task.id), settle_us(run, task)
    both = (
        rules.delay_us(
            delay,
            n=spent + 1,
            jitter=jitter,
            retry_after_us=asked,
            settle_us=settle,
            breaker_us=breaker_us,
        )
        for jitter in (0.0, 1.0)
    )
    return [max(1, -(-waits // 1000)) for waits in both]


def retry_as_decided(log: Checker, event: Event) -> Said:
    """A retry that a decision demands waits as long as the decision says."""
    due = log.due.get((event.task or "", "retry"))
    if due is None:
        return None
    said, decided = event.data["delay_ms"], log.delays.get(event.task or "")
    return "" if said == decided else f"the retry waits {said} ms; the decision says {decided} ms"


def probe_by_the_policy(log: Checker, event: Event) -> Said:
    """The first probe is due when the effect must be visible; a later one as its row's delay allows."""
    if event.data["decide"] != "reconcile":
        return None
    run, task, row = log.run, log.task, _ruling(log, event).row
    earliest, said = task.deadline_at + settle_us(run, task), event.data["params"]["probe_at"]
    probes = task.trouble.probes if task.trouble is not None else 0
    waits = [1, 1]
    if probes:
        delay = run.rules.delays.get(row.delay) if row is not None and row.delay is not None else None
        settle = settle_us(run, task)
        waits = [
            rules.delay_us(delay, n=probes, jitter=j, retry_after_us=None, settle_us=settle, breaker_us=0)
            for j in (0.0, 1.0)
        ]
    low, high = (max(earliest, event.at + wait) for wait in waits)
    if low <= said <= high:
        return ""
    return (
        f"{task.id} is to be asked about at {said}; by its deadline and the row's delay it is {low} to {high}"
    )


POLICY: Final[tuple[Check, ...]] = (
    check("D1", rules_digest, "run_created"),
    check("D2", signal_at_home, "decided"),
    check("B4", decision_for_a_signal, "decided"),
    check("B4", every_signal_decided, *BATCH),
    check("D2", run_signal_is_true, "decided"),
    check("D2", facts_recomputed, "decided"),
    check("D3", decision_by_the_table, "decided"),
    check("D3", reason_of_the_row, "decided"),
    check("D4", constraints_looked_at, *BATCH),
    check("D4", low_budget_signalled, *BATCH),
    check("D5", delay_by_the_policy, "decided"),
    check("D5", retry_as_decided, "task:retry"),
    check("D5", probe_by_the_policy, "decided"),
)
"""Checks of signals and decisions."""
