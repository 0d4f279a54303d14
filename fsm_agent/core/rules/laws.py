"""Laws stand above every table: a region of facts and the decisions that are forbidden there.

No table can switch one off. A table that breaks a law does not load; a decision that breaks one, whoever makes
it, is refused. What a table cannot see is kept at the engine's own door: no replan while a result is unknown,
no start without budget, a changed input under a done write is a question.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from fsm_agent.core.rules.rows import Allowed
from fsm_agent.core.signals import HOME, LEGAL_DECISIONS, Applied, Decision, Effect, Signal

_EVERY: Final = frozenset(Decision)
_REPLANS: Final = frozenset({Decision.REPLAN_LOCAL, Decision.REPLAN_GLOBAL})
_AGAIN: Final = _REPLANS | {Decision.RETRY}


@attrs.frozen(kw_only=True)
class Law:
    """A region and what is forbidden in it.

    Attributes:
        id: Stable name.
        text: The law in words.
        machine: ``task`` or ``run``.
        states: The states it speaks of.
        signals: The signals it speaks of; None is all.
        when: What it requires of facts; all must hold.
        forbidden: The decisions nobody may make there.
    """

    id: str
    text: str
    machine: str
    states: frozenset[str]
    signals: frozenset[str] | None = None
    when: tuple[tuple[str, Allowed], ...] = ()
    forbidden: frozenset[Decision]

    def covers(self, machine: str, state: str, signal: str) -> bool:
        """Whether the law speaks of this place."""
        return (
            self.machine == machine
            and state in self.states
            and (self.signals is None or signal in self.signals)
        )


_ALL_TASK: Final = frozenset(state for machine, state in HOME if machine == "task")


def _only(*legal: Decision) -> frozenset[Decision]:
    return _EVERY - set(legal)


LAWS: Final[tuple[Law, ...]] = (
    Law(
        id="unknown-stays-unknown",
        text="what may have happened is never retried, accepted, planned around, skipped or aborted over: it is "
        "looked up or put to a person",
        machine="task",
        states=frozenset({"unknown-result"}),
        forbidden=_only(Decision.RECONCILE, Decision.ESCALATE),
    ),
    Law(
        id="done-is-done",
        text="what is done is accepted, never run again",
        machine="task",
        states=frozenset({"done"}),
        forbidden=_only(Decision.ACCEPT),
    ),
    Law(
        id="a-no-is-a-no",
        text="what a person rejected never starts",
        machine="task",
        states=frozenset({"cancelled"}),
        forbidden=_only(Decision.CONTINUE, Decision.ESCALATE, Decision.ABORT),
    ),
    Law(
        id="applied-write-is-not-repeated",
        text="a write whose effect was or may have been applied is never retried or planned around",
        machine="task",
        states=frozenset({"failed"}),
        when=(
            ("effect", frozenset({Effect.WRITE.value, Effect.IRREVERSIBLE.value})),
            ("applied", frozenset({Applied.MAYBE.value, Applied.YES.value})),
        ),
        forbidden=_AGAIN,
    ),
    Law(
        id="irreversible-is-not-replanned",
        text="a failed irreversible step is never planned around automatically",
        machine="task",
        states=frozenset({"failed"}),
        when=(("effect", frozenset({Effect.IRREVERSIBLE.value})),),
        forbidden=_REPLANS,
    ),
    Law(
        id="only-optional-steps-are-skipped",
        text="a step that the plan needs is never skipped",
        machine="task",
        states=frozenset({"failed"}),
        when=(("optional", frozenset({"no"})),),
        forbidden=frozenset({Decision.SKIP}),
    ),
    Law(
        id="exhausted-task-starts-nothing",
        text="an exhausted budget starts no call, no probe and no planner",
        machine="task",
        states=_ALL_TASK,
        when=(("budget_band", frozenset({"exhausted"})),),
        forbidden=_AGAIN | {Decision.RECONCILE},
    ),
    Law(
        id="exhausted-run-starts-nothing",
        text="an exhausted budget starts no planner",
        machine="run",
        states=frozenset({"running"}),
        when=(("budget_band", frozenset({"exhausted"})),),
        forbidden=_REPLANS,
    ),
    Law(
        id="a-stuck-run-is-not-told-to-go-on",
        text="a run in which nothing can move is changed, put to a person or ended, never told to go on",
        machine="run",
        states=frozenset({"running"}),
        signals=frozenset({Signal.DEADLOCK.value}),
        forbidden=frozenset({Decision.CONTINUE}),
    ),
    Law(
        id="a-spent-budget-ends-or-asks",
        text="when nothing fits the budget any more the run ends or asks",
        machine="run",
        states=frozenset({"running"}),
        signals=frozenset({Signal.BUDGET_EXHAUSTED.value}),
        forbidden=_only(Decision.ESCALATE, Decision.ABORT),
    ),
    *(
        Law(
            id=f"legal-in-{machine}-{state}",
            text=f"in state {state} a {machine} can only be told: {', '.join(sorted(legal))}",
            machine=machine,
            states=frozenset({state}),
            forbidden=_EVERY - legal,
        )
        for (machine, state), legal in LEGAL_DECISIONS.items()
    ),
)


def violated(
    machine: str, state: str, signal: str, facts: Mapping[str, str | int], decision: Decision | str
) -> Law | None:
    """Return the first law that *decision* would break there, or None.

    Args:
        machine: ``task`` or ``run``.
        state: The state that fires.
        signal: What happened.
        facts: Every fact of the declared domain.
        decision: What somebody wants to decide.
    """
    for law in LAWS:
        if (
            decision in law.forbidden
            and law.covers(machine, state, signal)
            and all(facts[fact] in allowed for fact, allowed in law.when)
        ):
            return law
    return None
