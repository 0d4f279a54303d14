"""The words of the decision layer, and where each is at home.

A signal is our classification of what happened; it fires the rule table in exactly one kind of state
(``HOME``). A decision is what a row of the table answers. Policy is data; this module only fixes the
vocabulary that data may use.
"""

from enum import StrEnum
from typing import Final


class Effect(StrEnum):
    """What repeating a tool call may do; declared by the tool registry, never by a plan."""

    READ = "read"
    IDEMPOTENT = "idempotent"
    WRITE = "write"
    IRREVERSIBLE = "irreversible"


class Applied(StrEnum):
    """What is proved about a call's effect. ``maybe`` is the answer whenever nothing is proved."""

    NO = "no"
    MAYBE = "maybe"
    YES = "yes"


class Decision(StrEnum):
    """What a row of the table may answer."""

    ACCEPT = "accept"
    CONTINUE = "continue"
    RETRY = "retry"
    RECONCILE = "reconcile"
    REPLAN_LOCAL = "replan-local"
    REPLAN_GLOBAL = "replan-global"
    ESCALATE = "escalate"
    SKIP = "skip"
    ABORT = "abort"


class Signal(StrEnum):
    """Every signal the engine can raise."""

    SUCCESS = "success"
    UNVERIFIED = "unverified"
    VALIDATION_FAILED = "validation_failed"
    TRANSIENT_ERROR = "transient_error"
    RATE_LIMITED = "rate_limited"
    BAD_REQUEST = "bad_request"
    AUTH_DENIED = "auth_denied"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    QUOTA_EXHAUSTED = "quota_exhausted"
    UNCLASSIFIED_ERROR = "unclassified_error"
    OUTCOME_UNKNOWN = "outcome_unknown"
    INTERRUPTED = "interrupted"
    REPEATED_ERROR = "repeated_error"
    PROGRESS_STALL = "progress_stall"
    INEFFICIENT = "inefficient"
    BLOCKED_DEPENDENCY = "blocked_dependency"
    PRECONDITION_VIOLATED = "precondition_violated"
    UNRESOLVED_REFERENCE = "unresolved_reference"
    UNDECLARED_TOOL = "undeclared_tool"
    CONSTRAINT_VIOLATED = "constraint_violated"
    BUDGET_LOW = "budget_low"
    BUDGET_EXHAUSTED = "budget_exhausted"
    INPUT_CHANGED = "input_changed"
    REJECTED = "rejected"
    APPROVAL_EXPIRED = "approval_expired"
    RECONCILED_APPLIED = "reconciled_applied"
    RECONCILED_ABSENT = "reconciled_absent"
    RECONCILE_INCONCLUSIVE = "reconcile_inconclusive"
    PLAN_REJECTED = "plan_rejected"
    DEADLOCK = "deadlock"


OUTCOME_SIGNALS: Final = (
    Signal.UNVERIFIED,
    Signal.VALIDATION_FAILED,
    Signal.TRANSIENT_ERROR,
    Signal.RATE_LIMITED,
    Signal.BAD_REQUEST,
    Signal.AUTH_DENIED,
    Signal.NOT_FOUND,
    Signal.CONFLICT,
    Signal.QUOTA_EXHAUSTED,
    Signal.UNCLASSIFIED_ERROR,
    Signal.REPEATED_ERROR,
    Signal.PRECONDITION_VIOLATED,
)
"""Signals that the outcome of a call can have when it is known and not success."""

REPEATABLE: Final = frozenset(
    {
        Signal.BAD_REQUEST,
        Signal.AUTH_DENIED,
        Signal.NOT_FOUND,
        Signal.CONFLICT,
        Signal.VALIDATION_FAILED,
        Signal.UNVERIFIED,
        Signal.PRECONDITION_VIOLATED,
        Signal.UNCLASSIFIED_ERROR,
    }
)
"""Signals that become ``repeated_error`` when their fingerprint repeats; what is worth retrying keeps its name."""

HOME: Final[dict[tuple[str, str], tuple[Signal, ...]]] = {
    ("task", "done"): (Signal.SUCCESS, Signal.RECONCILED_APPLIED),
    ("task", "failed"): (
        *OUTCOME_SIGNALS,
        Signal.INTERRUPTED,
        Signal.RECONCILED_ABSENT,
        Signal.PROGRESS_STALL,
        Signal.APPROVAL_EXPIRED,
        Signal.UNRESOLVED_REFERENCE,
        Signal.UNDECLARED_TOOL,
        Signal.BLOCKED_DEPENDENCY,
    ),
    ("task", "unknown-result"): (Signal.OUTCOME_UNKNOWN, Signal.INTERRUPTED, Signal.RECONCILE_INCONCLUSIVE),
    ("task", "cancelled"): (Signal.REJECTED,),
    ("run", "running"): (
        Signal.BUDGET_LOW,
        Signal.BUDGET_EXHAUSTED,
        Signal.CONSTRAINT_VIOLATED,
        Signal.INPUT_CHANGED,
        Signal.INEFFICIENT,
        Signal.PLAN_REJECTED,
        Signal.DEADLOCK,
    ),
}
"""(machine, state) → the signals that fire the table there. Run-level signals fire while the run is not final."""

LEGAL_DECISIONS: Final[dict[tuple[str, str], frozenset[Decision]]] = {
    ("task", "done"): frozenset({Decision.ACCEPT}),
    ("task", "failed"): frozenset(
        {
            Decision.RETRY,
            Decision.REPLAN_LOCAL,
            Decision.REPLAN_GLOBAL,
            Decision.ESCALATE,
            Decision.SKIP,
            Decision.ABORT,
        }
    ),
    ("task", "unknown-result"): frozenset({Decision.RECONCILE, Decision.ESCALATE}),
    ("task", "cancelled"): frozenset({Decision.CONTINUE, Decision.ESCALATE, Decision.ABORT}),
    ("run", "running"): frozenset(
        {
            Decision.CONTINUE,
            Decision.REPLAN_LOCAL,
            Decision.REPLAN_GLOBAL,
            Decision.ESCALATE,
            Decision.ABORT,
        }
    ),
}
"""(machine, state) → the decisions a row may take there."""

YES_NO: Final = ("no", "yes")

DOMAIN: Final[dict[str, tuple[str, ...] | tuple[int, int]]] = {
    "effect": tuple(e.value for e in Effect),
    "applied": tuple(a.value for a in Applied),
    "retries_left": (0, 20),
    "reconciles_left": (0, 20),
    "local_replans_left": (0, 20),
    "global_replans_left": (0, 20),
    "signal_count": (0, 20),
    "repeat_streak": (0, 20),
    "stall_steps": (0, 1000),
    "consecutive_replans": (0, 40),
    "budget_band": ("ok", "low", "exhausted"),
    "breaker": ("closed", "open", "half-open"),
    "replan_scope": ("none", "local", "global"),
    "has_alternative": YES_NO,
    "has_planner": YES_NO,
    "has_reconcile": YES_NO,
    "optional": YES_NO,
    "wish": ("none", "pause", "abort", "cancel"),
}
"""Every fact the engine offers to a table: an enumeration, or an inclusive range of integers.

``signal_count`` counts how often this signal fired on this step in the present attempt series, or about the run, this
time included; ``stall_steps`` how often nothing new came in a row: reports of a call, or the same answers;
``repeat_streak`` how often its fingerprint came in a row; ``consecutive_replans`` the replans since a step was last
newly done; ``replan_scope`` is the scope of the replan that was asked for last, for the signal ``plan_rejected``. A
step without a tool has effect ``read``. Counts saturate at their upper end.
"""
