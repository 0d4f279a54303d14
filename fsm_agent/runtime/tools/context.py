"""What a tool is handed, and what it and its probe hand back besides values.

A tool asks for a :class:`CallContext` by annotating a parameter with it. Everything on it may be used from any
thread; nothing on it can move the run.
"""

import threading
from collections.abc import Callable
from decimal import ROUND_CEILING, Decimal
from typing import Any

import attrs

from fsm_agent.core.canon import MAX_INT
from fsm_agent.core.errors import FsmAgentError, UsageError
from fsm_agent.core.inputs import NO_USAGE, Usage
from fsm_agent.core.signals import Applied

Report = Callable[[bool, str], None]
"""Takes ``advanced`` and ``note``; called in the tool's own thread."""


class CallContext:
    """The engine's side of one call, as its tool sees it.

    Attributes:
        idempotency_key: The same for every try of this effect, over retries, crashes and replans. Hand it to the
            other side, so that it can tell a repetition from a second order.
        task: The task.
        attempt: From 1, over the task's whole life.
        run: The run's id.
        deadline_at: When the engine stops waiting, UTC epoch in microseconds.
        lifespan: What the toolbox's lifespan yielded; None without one.
    """

    def __init__(
        self,
        *,
        idempotency_key: str,
        task: str = "",
        attempt: int = 1,
        run: str = "",
        deadline_at: int = MAX_INT,
        lifespan: Any = None,
        on_progress: Report | None = None,
    ) -> None:
        self.idempotency_key = idempotency_key
        self.task = task
        self.attempt = attempt
        self.run = run
        self.deadline_at = deadline_at
        self.lifespan = lifespan
        self._on_progress = on_progress
        self._cancelled = False
        self._lock = threading.Lock()
        self._unreported = NO_USAGE

    @property
    def cancelled(self) -> bool:
        """Whether the engine has cut this call off: a tool in a thread should look now and then, and end."""
        return self._cancelled

    def cancel(self) -> None:
        """Make :attr:`cancelled` true. The engine does this; a test of a tool may too."""
        self._cancelled = True

    def progress(self, *, advanced: bool = True, note: str = "") -> None:
        """Report where the call stands; what was spent since the last report goes with it.

        Args:
            advanced: False when nothing has moved since the last report; several in a row are a stall.
            note: Words for people.
        """
        if self._on_progress is not None:
            self._on_progress(bool(advanced), str(note))

    def spend(self, *, tokens: int = 0, cost: Decimal | str | int = 0) -> None:
        """Count what this call used up, in addition to what was counted before.

        Args:
            tokens: At least 0.
            cost: Money in the unit of the budget, as ``Decimal``, text such as ``"0.01"`` or int; a part below a
                millionth is rounded up.

        Raises:
            UsageError: A negative amount, a float (it holds no exact money), or no number at all.
        """
        if type(tokens) is not int or not 0 <= tokens <= MAX_INT:
            raise UsageError(f"ctx.spend tokens: {tokens!r} was given; give an integer of at least 0")
        micros = _micros(cost)
        with self._lock:
            self._unreported = Usage(
                tokens=min(self._unreported.tokens + tokens, MAX_INT),
                cost_micros=min(self._unreported.cost_micros + micros, MAX_INT),
            )

    def take_usage(self) -> Usage:
        """Return what was spent and not yet reported, and count it as reported."""
        with self._lock:
            usage, self._unreported = self._unreported, NO_USAGE
        return usage


def _micros(cost: Decimal | str | int) -> int:
    if type(cost) not in (Decimal, str, int):
        raise UsageError(
            f'ctx.spend cost: {cost!r} is of type {type(cost).__name__}; give text such as "0.01", a Decimal or an int'
        )
    try:
        scaled = Decimal(cost) * 1_000_000
        micros = int(scaled.to_integral_value(rounding=ROUND_CEILING))
    except (ArithmeticError, ValueError):  # no number, NaN, infinite, or beyond all bounds
        scaled, micros = Decimal(-1), -1
    if scaled < 0 or micros > MAX_INT:
        raise UsageError(
            f'ctx.spend cost: {str(cost)[:40]!r} was given; give an amount of at least 0 such as "0.01"'
        )
    return micros


class ToolError(FsmAgentError):
    """What a tool raises when it knows more than its exception would tell.

    Attributes:
        code: A signal such as ``not_found``, a code of the other side, or a word of the tool's own.
        message: Words for people.
        applied: What is known about the effect: ``no``, ``maybe`` or ``yes``. Only a proved ``no`` lets a write
            be tried again; say ``maybe`` whenever the request may have arrived.
        retry_after_s: How long the other side asked us to wait, in seconds.
    """

    exit_code = 1

    def __init__(
        self, code: str, message: str = "", applied: str = "maybe", retry_after_s: float | None = None
    ) -> None:
        """Keep the facts.

        Raises:
            UsageError: *applied* is none of the three words.
        """
        super().__init__(f"{code}: {message}" if message else code)
        if applied not in list(Applied):
            raise UsageError(
                f"ToolError {code!r} applied: {applied!r} was given; allowed: {', '.join(Applied)}"
            )
        self.code = code
        self.message = message
        self.applied = str(Applied(applied))
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[Any, ...]:
        # tools may work in other processes, and errors come back from there as bytes
        return type(self), (self.code, self.message, self.applied, self.retry_after_s)


@attrs.frozen(kw_only=True)
class Reconciled:
    """A probe's finding. Made by :meth:`applied`, :meth:`absent` or :meth:`inconclusive`.

    Attributes:
        verdict: ``applied``, ``absent`` or ``inconclusive``.
        result: What the call would have returned; of ``applied`` only.
        why: Words for the log.
    """

    verdict: str = attrs.field(validator=attrs.validators.in_(("applied", "absent", "inconclusive")))
    result: Any = None
    why: str = ""

    @classmethod
    def applied(cls, result: Any = None, why: str = "") -> "Reconciled":
        """The effect did happen; *result* is what the call would have returned."""
        return cls(verdict="applied", result=result, why=why)

    @classmethod
    def absent(cls, why: str = "") -> "Reconciled":
        """The effect did not happen, and nothing that is still under way can make it happen."""
        return cls(verdict="absent", why=why)

    @classmethod
    def inconclusive(cls, why: str = "") -> "Reconciled":
        """Nobody can tell yet; *why* says what is missing."""
        return cls(verdict="inconclusive", why=why)
