"""One tree of errors: the class says whose fault it is, the attributes carry the facts.

Every message reads ``<what> <where>: <what was found>; <what is allowed or what to do>`` and ``code``
is stable, so that programs branch on it and people search for it.
"""

from collections.abc import Sequence

import attrs


class FsmAgentError(Exception):
    """Root of everything this package raises on purpose.

    Attributes:
        code: Stable identifier such as ``E-PLAN``.
        exit_code: What the command line exits with when this error ends a command.
    """

    code = "E-INTERNAL"
    exit_code = 70


class UsageError(FsmAgentError):
    """A command or call was used wrongly; nothing was changed."""

    code = "E-USAGE"
    exit_code = 2


class NotFoundError(FsmAgentError):
    """The named run, task, file or table does not exist."""

    code = "E-NOT-FOUND"
    exit_code = 9


class ConfigError(FsmAgentError):
    """A configuration file cannot be used."""

    code = "E-CONFIG"
    exit_code = 3


@attrs.frozen(kw_only=True)
class Fault:
    """One fault of a plan.

    Attributes:
        at: JSON pointer into the document, such as ``/steps/2/depends_on/0``.
        code: Stable identifier such as ``unknown-tool``.
        message: What was found.
        fix: What is allowed, or what to do.
        severity: ``error`` refuses the plan, ``warning`` does not.
    """

    at: str
    code: str
    message: str
    fix: str
    severity: str = "error"

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.at or '/'}: {self.message}; {self.fix}"


class PlanError(FsmAgentError):
    """A plan is refused; ``faults`` lists everything wrong with it, not only the first thing."""

    code = "E-PLAN"
    exit_code = 3

    def __init__(self, message: str, faults: Sequence[Fault] = ()) -> None:
        """Carry *faults*; the message names their number and the first of them."""
        super().__init__(message)
        self.faults = tuple(faults)


class RulesError(FsmAgentError):
    """A rule table is refused; ``findings`` says why, each with a witness where one exists."""

    code = "E-RULES"
    exit_code = 3

    def __init__(self, message: str, findings: Sequence[object] = ()) -> None:
        """Carry the analyser's *findings*."""
        super().__init__(message)
        self.findings = tuple(findings)


class ExpressionError(FsmAgentError):
    """A text is no expression of the language.

    Attributes:
        text: The expression.
        at: Offset of the fault, in characters from 0.
    """

    code = "E-EXPRESSION"
    exit_code = 3

    def __init__(self, message: str, *, text: str, at: int) -> None:
        """Say where in *text* the fault is."""
        super().__init__(message)
        self.text = text
        self.at = at


class UnresolvedReferenceError(FsmAgentError):
    """A ``$reference`` has no value. ``path`` is the reference as written, up to the missing part."""

    code = "E-REFERENCE"
    exit_code = 3

    def __init__(self, message: str, *, path: str) -> None:
        """Name the *path* that is missing."""
        super().__init__(message)
        self.path = path


class ValueRefusedError(FsmAgentError):
    """A value cannot be stored exactly. ``path`` is a JSON path such as ``$.rows[3].price``."""

    code = "E-VALUE"
    exit_code = 2

    def __init__(self, message: str, *, path: str) -> None:
        """Name the *path* of the offending part."""
        super().__init__(message)
        self.path = path


class ToolboxError(FsmAgentError):
    """A tool is registered or declared wrongly."""

    code = "E-TOOLS"
    exit_code = 3


class RefusedError(FsmAgentError):
    """An input from outside does not fit the run as it is now; nothing was changed.

    Attributes:
        task: The task concerned, or None for the run.
    """

    code = "E-REFUSED"
    exit_code = 2

    def __init__(self, message: str, *, task: str | None = None, code: str | None = None) -> None:
        """Keep the *task*; *code* narrows ``E-REFUSED``, as ``E-UNKNOWN`` does."""
        super().__init__(message)
        self.task = task
        if code is not None:
            self.code = code


class IllegalTransitionError(RefusedError):
    """The state table has no such edge, or its evidence is missing; nothing was changed.

    Attributes:
        machine: ``task`` or ``run``.
        id: The task's id, or the run's.
        state: The present state.
        trigger: What was tried.
        legal: The triggers that are legal in this state, sorted.
    """

    code = "E-TRANSITION"

    def __init__(
        self,
        *,
        machine: str,
        id: str,  # noqa: A002 - the word of the contract
        state: str,
        trigger: str,
        legal: Sequence[str],
        why: str = "",
    ) -> None:
        """Build the message from the facts."""
        found = why or f"{trigger} is not legal in state {state}"
        allowed = ", ".join(legal) or "nothing"
        super().__init__(
            f"{machine} {id}: {found}; legal here: {allowed}", task=id if machine == "task" else None
        )
        self.machine = machine
        self.id = id
        self.state = state
        self.trigger = trigger
        self.legal = tuple(legal)


class StoreError(FsmAgentError):
    """The store could not do what was asked."""

    code = "E-STORE"
    exit_code = 70


class StoreUnusableError(StoreError):
    """The file is no store of ours, of a newer schema, or may not be written."""

    code = "E-STORE-UNUSABLE"
    exit_code = 3


class StoreDeadError(StoreError):
    """An I/O error happened; this instance refuses everything from now on. Close, reopen, verify."""

    code = "E-STORE-DEAD"


class CorruptError(StoreError):
    """Stored bytes are not what was written. ``seq`` names the first event that does not fit."""

    code = "E-CORRUPT"
    exit_code = 7

    def __init__(self, message: str, *, seq: int | None = None) -> None:
        """Name the *seq* of the first event that does not fit, if known."""
        super().__init__(message)
        self.seq = seq


class ConflictError(StoreError):
    """The log has moved since it was read: another append came first."""

    code = "E-CONFLICT"
    exit_code = 8


class FencedError(StoreError):
    """Another owner took the run over; this one may write nothing any more."""

    code = "E-FENCED"
    exit_code = 8


class OwnedError(StoreError):
    """Another living owner holds the run."""

    code = "E-OWNED"
    exit_code = 8
