"""What can happen to a run from outside: one value per kind, handled one at a time by ``decide``.

And the way back: the commands that a shell derives from the events it has stored. What every step makes anew is a
named tuple, the rest are attrs classes; all are values, and are made by keyword.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs

from fsm_agent.core.plans.plan import Plan
from fsm_agent.core.replanning.repairs import Repair
from fsm_agent.core.rules.table import Table
from fsm_agent.core.signals import Applied, Signal
from fsm_agent.core.tools import ToolSpec


class Env(NamedTuple):
    """What the core may not find out by itself.

    Attributes:
        now_us: UTC epoch in microseconds. Events are stamped later than this only to stay strictly increasing.
        jitter: A number in [0, 1), drawn by the shell, recorded through the delay it leads to.
        slots: How many calls this shell may have out at once; 0 when it only delivers a person's word.
    """

    now_us: int
    jitter: float = 0.0
    slots: int = 4


class Usage(NamedTuple):
    """What a call used up: tokens, and money in millionths of the unit."""

    tokens: int = 0
    cost_micros: int = 0


NO_USAGE = Usage()


class Outcome(NamedTuple):
    """What a tool did, classified at the boundary.

    Attributes:
        kind: ``value``, ``error``, ``timeout`` (we stopped waiting) or ``lost`` (nobody can tell any more).
        value: The returned value, already a private copy; kept also when it is an error envelope.
        signal: The classification; None for a plain value.
        applied: What is proved about the effect. Meaningless for reads.
        error: ``{code, status, class, message, fingerprint}``, absent parts left out; None for a value.
        retry_after_us: How long the other side asked us to wait, in microseconds.
        usage: What the call used.
        duration_us: How long it took.
    """

    kind: str
    value: Any = None
    signal: Signal | None = None
    applied: Applied = Applied.MAYBE
    error: Mapping[str, Any] | None = None
    retry_after_us: int | None = None
    usage: Usage = NO_USAGE
    duration_us: int = 0


@attrs.frozen(kw_only=True)
class Create:
    """A new run. ``tools`` in the order of registration; ``default_tool`` runs steps that name none.

    ``tools_locator`` and ``planner_locator`` say where whoever resumes the run finds both again. ``repairs`` are tried
    before the planner is asked. With ``review`` nothing starts before a person has approved the plan.
    """

    run: str
    plan: Plan
    rules: Table
    tools: tuple[ToolSpec, ...]
    inputs: Mapping[str, Any]
    owner: str
    classify_digest: str
    version: str
    tools_locator: str | None = None
    default_tool: str | None = None
    has_planner: bool = False
    planner_locator: str | None = None
    repairs: tuple[Repair, ...] = ()
    review: bool = False


@attrs.frozen(kw_only=True)
class TakeOver:
    """A new owner continues the run: after a crash, by ``resume``, or to deliver a word.

    Attributes:
        epoch: Of the new lease.
        owner: Who holds it.
        tools: The tools as this owner knows them, or None when it brings none and starts nothing.
        default_tool: As in :class:`Create`.
    """

    epoch: int
    owner: str
    tools: tuple[ToolSpec, ...] | None = None
    default_tool: str | None = None
    has_planner: bool = False


@attrs.frozen(kw_only=True)
class Tick:
    """Time has passed, or a slot is free: do what is due."""


class Returned(NamedTuple):
    """A call ended, or its deadline passed (the core's own clock raises that one)."""

    task: str
    attempt: int
    outcome: Outcome


@attrs.frozen(kw_only=True)
class Progressed:
    """A running call reports."""

    task: str
    attempt: int
    advanced: bool
    note: str = ""
    usage: Usage = NO_USAGE


@attrs.frozen(kw_only=True)
class Probed:
    """A probe answered: ``applied`` (with the result), ``absent``, or ``inconclusive``."""

    task: str
    attempt: int
    verdict: str
    result: Any = None
    evidence: str = ""
    usage: Usage = NO_USAGE


@attrs.frozen(kw_only=True)
class Person:
    """Who speaks, through which channel."""

    by: str
    channel: str = "api"
    note: str = ""


@attrs.frozen(kw_only=True)
class Approve:
    """Yes to exactly the request with this digest (at least its first 8 hex digits)."""

    task: str
    digest: str
    who: Person


@attrs.frozen(kw_only=True)
class Reject:
    """No; the note reaches whoever plans next. ``digest``: that of the request it answers; None for whichever is open."""

    task: str
    who: Person
    digest: str | None = None


@attrs.frozen(kw_only=True)
class Edit:
    """Other arguments for a waiting call: makes a new request, approves nothing. ``digest`` as for :class:`Reject`."""

    task: str
    args: Mapping[str, Any]
    who: Person
    digest: str | None = None


@attrs.frozen(kw_only=True)
class Answer:
    """The answer to a question: a step's result, or a decision after an escalation. ``task`` may be ``run``.

    ``digest`` as for :class:`Reject`: one that comes late cannot answer the question after the one it was meant for.
    """

    task: str
    value: Any
    who: Person
    digest: str | None = None


@attrs.frozen(kw_only=True)
class SetInputs:
    """Corrected inputs, constraint values (``constraints.KEY``) or budgets (``budgets.KEY``)."""

    values: Mapping[str, Any]
    who: Person


@attrs.frozen(kw_only=True)
class Ask:
    """A wish: ``cancel``, ``abort`` or ``pause``. ``acknowledged``: tasks whose unknown effect is accepted."""

    wish: str
    who: Person
    acknowledged: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Resume:
    """Lift a pause, or go on after an abort."""

    who: Person


@attrs.frozen(kw_only=True)
class RetryTask:
    """A person lets a failed task try again: a new, recorded attempt series."""

    task: str
    who: Person


@attrs.frozen(kw_only=True)
class ReconcileAs:
    """A person's verdict on an unknown result; needs words of evidence.

    ``verdict`` None asks for a probe now, instead of giving a verdict.
    """

    task: str
    verdict: str | None
    who: Person
    result: Any = None
    evidence: str = ""


@attrs.frozen(kw_only=True)
class Proposed:
    """The planner answered, or could not.

    Attributes:
        request: Seq of the ``planner_asked`` event that this answers.
        answer: Its text as it came; None when there is none.
        why: What went wrong; empty if nothing did. Then the text, if there is one, is kept and not used.
        model: Who answered.
        usage: What it used.
        prompt_digest: Digest of what it was asked, if it was asked in words.
        retry_after_us: How long it asks to be left alone, in microseconds.
    """

    request: int
    answer: str | None
    why: str = ""
    model: str = ""
    usage: Usage = NO_USAGE
    prompt_digest: str = ""
    retry_after_us: int | None = None


@attrs.frozen(kw_only=True)
class Replan:
    """A person's own plan for what remains; any accepted shape as parsed JSON."""

    document: Any
    who: Person


@attrs.frozen(kw_only=True)
class Note:
    """Words for the log."""

    text: str
    who: Person
    task: str | None = None


Word = Approve | Reject | Edit | Answer | SetInputs | Ask | Resume | RetryTask | ReconcileAs | Replan | Note
"""What a person says."""
Input = Create | TakeOver | Tick | Returned | Progressed | Probed | Proposed | Word


class Call(NamedTuple):
    """Start a tool call now; its intent is stored.

    Attributes:
        task: The task.
        attempt: From 1, over the task's whole life.
        tool: Name in the toolbox.
        args: Resolved arguments (secrets still by reference).
        key: Idempotency key: stable over retries, crashes and replans.
        deadline_at: When the engine stops waiting, UTC epoch in microseconds.
    """

    task: str
    attempt: int
    tool: str
    args: Mapping[str, Any]
    key: str
    deadline_at: int


@attrs.frozen(kw_only=True)
class Probe:
    """Ask whether an effect happened. ``repeat``: the tool is idempotent, so the same call again is the probe."""

    task: str
    attempt: int
    tool: str
    args: Mapping[str, Any]
    key: str
    repeat: bool
    deadline_at: int


@attrs.frozen(kw_only=True)
class StopCall:
    """Nobody waits for this call any more. A read may be cut off; a write goes on and may answer late."""

    task: str
    attempt: int
    cut_off: bool


@attrs.frozen(kw_only=True)
class AskPlanner:
    """Ask the planner; the call is counted already.

    Attributes:
        request: Seq of the ``planner_asked`` event; the answer names it.
        briefing: What the planner may see, as JSON: see :mod:`fsm_agent.core.replanning.briefing`.
    """

    request: int
    briefing: Mapping[str, Any]


Command = Call | Probe | StopCall | AskPlanner
