"""Every legal move of a task and of a run is a row here, once.

The two tables are declared with the ``transitions`` library, which draws them, validates them and is the oracle
of the tests. The engine walks the table read out of the library's own ``Machine``: a look-up costs a fraction of
a trigger fired through it, and nothing (callbacks, conditions, queues) can stand between the two.

Guards are evidence that the event carries (``GUARDS``), checked when the move is made and again by every audit.
True of the graph alone: only ``start`` leads into running; unknown-result leaves only by ``settle`` and ``clear``.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from transitions import Machine, State

from fsm_agent.core import canon
from fsm_agent.core.errors import IllegalTransitionError
from fsm_agent.core.signals import Decision


class TaskState(StrEnum):
    """The seven states of a task.

    To look a member up in its class takes Python 3.11 ten times as long as a name of the module: what runs at every step
    has names of its own for those that it needs.
    """

    PENDING = "pending"
    RUNNING = "running"
    AWAITING = "awaiting-confirmation"
    UNKNOWN = "unknown-result"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class RunState(StrEnum):
    """The same seven states, of a whole run."""

    PENDING = "pending"
    RUNNING = "running"
    AWAITING = "awaiting-confirmation"
    UNKNOWN = "unknown-result"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


STATES: Final = tuple(s.value for s in TaskState)
P, R, A, U, D, F, C = STATES

FINAL_RUN_STATES: Final = frozenset({RunState.DONE, RunState.FAILED, RunState.CANCELLED})


class Edge(NamedTuple):
    """One trigger and where it leads from and to."""

    trigger: str
    sources: tuple[str, ...]
    dest: str
    records: str


TASK_EDGES: Final = (
    Edge("hold", (P,), A, "a person must approve exactly these arguments, or answer a question"),
    Edge("approve", (A,), P, "approved; the approval is armed and consumed by the next start"),
    Edge("answer", (A,), D, "a step without a tool: the person's answer is its result"),
    Edge("reject", (A,), C, "a person said no"),
    Edge("expire", (A,), F, "nobody answered in time"),
    Edge("start", (P,), R, "the intent (tool, resolved arguments, key, deadline) is durable"),
    Edge("refuse", (P,), F, "it cannot start: reference, precondition, unknown tool, open circuit breaker"),
    Edge("succeed", (R,), D, "the tool returned and done_when is true"),
    Edge("fail", (R,), F, "the outcome is known and it is not success, or a read's outcome is lost"),
    Edge("lose", (R,), U, "the effect may or may not have happened"),
    Edge("settle", (U, F, P, A), D, "evidence says that it did happen"),
    Edge("clear", (U,), F, "evidence says that it did not happen, or that it did and done_when is not true"),
    Edge("retry", (F,), P, "decided by rule, a person, a resume, an adopted plan or a changed input"),
    Edge("invalidate", (D, A, C), P, "what it rested on changed"),
    Edge("cancel", (P, A, F, R), C, "condition false, dependency gone, superseded, optional, run cancelled"),
)

RUN_EDGES: Final = (
    Edge("start", (P,), R, "the first task may move"),
    Edge("hold", (R,), A, "nothing can move until a person acts"),
    Edge("lose", (R,), U, "nothing can move and a result is unknown"),
    Edge("resume", (A, U, F), R, "something can move again"),
    Edge("succeed", (R,), D, "everything is done or cancelled for a good reason"),
    Edge("abort", (R, A, U), F, "decided by a rule or a person"),
    Edge("cancel", (P, R, A, U, F), C, "a person's wish, or a rejection that leaves nothing to do"),
)


def _build(name: str, edges: tuple[Edge, ...]) -> Machine:
    return Machine(
        model=None,
        name=name,
        states=[State(s) for s in STATES],
        initial=P,
        transitions=[
            {"trigger": e.trigger, "source": source, "dest": e.dest} for e in edges for source in e.sources
        ],
        auto_transitions=False,
    )


def task_machine() -> Machine:
    """Return a fresh ``transitions.Machine`` of the task table, for drawing and for tests."""
    return _build("task", TASK_EDGES)


def run_machine() -> Machine:
    """Return a fresh ``transitions.Machine`` of the run table, for drawing and for tests."""
    return _build("run", RUN_EDGES)


_MACHINE_HOOKS: Final = (
    "prepare_event",
    "before_state_change",
    "after_state_change",
    "finalize_event",
    "on_exception",
    "on_final",
)


def read_out(machine: Machine) -> Mapping[tuple[str, str], str]:
    """Return ``(state, trigger) → dest`` as *machine* has it.

    Raises:
        ValueError: Two edges share a source and a trigger, an edge leads to no state or to its own source, or
            an edge, a state or the machine carries a callback; the library accepts all of these in silence.
    """
    if any(getattr(machine, hook) for hook in _MACHINE_HOOKS) or machine.ignore_invalid_triggers:
        raise ValueError(f"machine {machine.name}: it carries callbacks or forgives illegal triggers")
    for state in machine.states.values():
        if state.on_enter or state.on_exit or state.ignore_invalid_triggers:
            raise ValueError(f"machine {machine.name}: the state {state.name} carries callbacks")
    table: dict[tuple[str, str], str] = {}
    for trigger, event in machine.events.items():
        for source, found in event.transitions.items():
            edge, dest = found[0], str(found[0].dest)
            hooks = (*edge.conditions, *edge.prepare, *edge.before, *edge.after)
            if len(found) != 1 or dest not in machine.states or source not in machine.states:
                raise ValueError(
                    f"machine {machine.name}: {source} × {trigger} is ambiguous or leads nowhere"
                )
            if dest == source or hooks:
                raise ValueError(
                    f"machine {machine.name}: {source} × {trigger} is a loop or carries callbacks"
                )
            table[(source, trigger)] = dest
    return MappingProxyType(table)


TASK_TABLE: Final = read_out(task_machine())
RUN_TABLE: Final = read_out(run_machine())
TABLES: Final = {"task": TASK_TABLE, "run": RUN_TABLE}
MACHINES_DIGEST: Final = canon.value_digest(
    "machines", {name: sorted([*key, dest] for key, dest in table.items()) for name, table in TABLES.items()}
)


def legal(machine: str, state: str) -> tuple[str, ...]:
    """Return the triggers that *machine* (``task`` or ``run``) has in *state*, sorted."""
    return tuple(sorted(trigger for source, trigger in TABLES[machine] if source == state))


def target(machine: str, id: str, state: str, trigger: str) -> str:  # noqa: A002
    """Return where *trigger* leads.

    Raises:
        IllegalTransitionError: The table has no such edge.
    """
    dest = TABLES[machine].get((state, trigger))
    if dest is None:
        raise illegal(machine, id, state, trigger)
    return dest


def illegal(machine: str, id: str, state: str, trigger: str, why: str = "") -> IllegalTransitionError:  # noqa: A002
    """Return the refusal of a move: the table has no such edge, or *why* the evidence forbids it."""
    return IllegalTransitionError(
        machine=machine, id=id, state=state, trigger=trigger, legal=legal(machine, state), why=why
    )


WRITES: Final = frozenset({"write", "irreversible"})
_INTENT: Final = frozenset({"tool", "args_digest", "effect", "key", "deadline_at"})


def _start(data: Mapping[str, Any], effect: str, _: str) -> str:
    if not _INTENT.issubset(data):
        return f"the intent lacks {', '.join(sorted(_INTENT - data.keys()))}"
    return "" if data["effect"] == effect else f"the intent says {data['effect']}, the tool is {effect}"


def _outcome(data: Mapping[str, Any], *kinds: str) -> str:
    outcome = data.get("outcome")
    if type(outcome) is not dict:
        return "the event carries no outcome"
    return (
        ""
        if outcome.get("kind") in kinds
        else f"an outcome of kind {outcome.get('kind')!r} does not allow it"
    )


def _succeed(data: Mapping[str, Any], effect: str, applied: str) -> str:
    del effect, applied
    return _outcome(data, "value")


def _fail(data: Mapping[str, Any], effect: str, applied: str) -> str:
    fault = _outcome(data, "value", "error", "timeout", "lost")
    if not fault and effect != "read" and applied == "maybe":
        fault = f"the effect of a {effect} call may have been applied; only lose is left"
    return fault


def _lose(data: Mapping[str, Any], effect: str, applied: str) -> str:
    fault = _outcome(data, "error", "timeout", "lost")
    if not fault and (effect == "read" or applied != "maybe"):
        fault = "nothing is unknown about it"
    return fault


def _evidence(data: Mapping[str, Any], effect: str, applied: str) -> str:
    del effect, applied
    return "" if data.get("evidence") else "the event carries no evidence (a probe, a late result, or words)"


def _clear(data: Mapping[str, Any], effect: str, applied: str) -> str:
    fault = _evidence(data, effect, applied)
    return fault or ("" if applied in ("no", "yes") else "the evidence does not say whether it was applied")


def _retry(data: Mapping[str, Any], effect: str, applied: str) -> str:
    if effect in WRITES and applied != "no":
        return f"the effect of this {effect} call was or may have been applied; it is never repeated"
    delay = data.get("delay_ms")
    return "" if isinstance(delay, int) and delay >= 1 else "the event carries no delay of at least 1 ms"


def _invalidate(data: Mapping[str, Any], effect: str, applied: str) -> str:
    # a request that is taken back repeats nothing: the door has the last word on what it was for
    if effect in WRITES and applied != "no" and data.get("source") != A:
        return f"the effect of this {effect} call was or may have been applied; it is never repeated"
    return _reason(data, effect, applied)


def _reason(data: Mapping[str, Any], effect: str, applied: str) -> str:
    del effect, applied
    return "" if data.get("reason") else "the event carries no reason"


def _cancel(data: Mapping[str, Any], effect: str, applied: str) -> str:
    if data.get("source") == R and effect != "read":
        return f"a running {effect} call is awaited, never cancelled"
    return _reason(data, effect, applied)


def _free(data: Mapping[str, Any], effect: str, applied: str) -> str:
    del data, effect, applied
    return ""


GUARDS: Final[Mapping[str, Callable[[Mapping[str, Any], str, str], str]]] = MappingProxyType(
    {
        "hold": _free,
        "approve": _free,
        "answer": _free,
        "reject": _reason,
        "expire": _reason,
        "start": _start,
        "refuse": _reason,
        "succeed": _succeed,
        "fail": _fail,
        "lose": _lose,
        "settle": _evidence,
        "clear": _clear,
        "retry": _retry,
        "invalidate": _invalidate,
        "cancel": _cancel,
    }
)
"""Trigger → what is missing for it, in words, given the event's data, the tool's effect class and ``applied``.

``hold``, ``approve`` and ``answer`` are guarded by the approval events beside them; the engine and the audit
pair those.
"""


TASK_MOVES: Final[Mapping[tuple[str, str], tuple[str, str, Callable[[Mapping[str, Any], str, str], str]]]] = (
    MappingProxyType({(s, t): (s, dest, GUARDS[t]) for (s, t), dest in TASK_TABLE.items()})
)
"""(state, trigger) → the state as text, where it leads, and the guard: the table, compiled for the hot path."""


def run_fault(
    trigger: str, *, running: int, unacknowledged: int, unfinished: int, asked: int, denied: int
) -> str:
    """Return why a run may not make this move with its tasks as they are, or an empty string.

    Args:
        trigger: A trigger of the run machine.
        running: How many tasks are running.
        unacknowledged: How many tasks have an unknown result that no person has acknowledged.
        unfinished: How many tasks are neither done nor cancelled.
        asked: How many questions are open.
        denied: How many tasks were cancelled for a reason that the plan does not allow for.
    """
    if trigger in ("start", "resume"):
        return ""
    if running:
        return f"{running} tasks are running"
    if trigger in ("succeed", "abort", "cancel") and unacknowledged:
        return f"{unacknowledged} effects are unknown, and nobody has acknowledged them"
    if trigger == "succeed" and unfinished:
        return f"{unfinished} tasks are neither done nor cancelled"
    if trigger == "succeed" and asked:
        return f"{asked} questions are open"
    if trigger == "succeed" and denied:
        return f"{denied} tasks were cancelled for a reason that the plan does not allow for"
    return ""


MOVES: Final[Mapping[tuple[str, str, Decision], tuple[str, str] | None]] = MappingProxyType(
    {
        ("task", D, Decision.ACCEPT): None,
        ("task", F, Decision.RETRY): ("task", "retry"),
        ("task", F, Decision.SKIP): ("task", "cancel"),
        ("task", F, Decision.ESCALATE): None,
        ("task", F, Decision.REPLAN_LOCAL): None,
        ("task", F, Decision.REPLAN_GLOBAL): None,
        ("task", F, Decision.ABORT): ("run", "abort"),
        ("task", U, Decision.RECONCILE): None,
        ("task", U, Decision.ESCALATE): None,
        ("task", C, Decision.CONTINUE): None,
        ("task", C, Decision.ESCALATE): None,
        ("task", C, Decision.ABORT): ("run", "abort"),
        ("run", R, Decision.CONTINUE): None,
        ("run", R, Decision.REPLAN_LOCAL): None,
        ("run", R, Decision.REPLAN_GLOBAL): None,
        ("run", R, Decision.ESCALATE): None,
        ("run", R, Decision.ABORT): ("run", "abort"),
    }
)
"""(machine, state, decision) → (machine, trigger), or None where the decision moves nothing by itself.

A rule table is checked against this at load, so no rule file can name an illegal move. ``abort`` is a wish: the
run's trigger fires once nothing is running.
"""
