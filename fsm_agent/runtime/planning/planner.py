"""The planner port: whoever answers a briefing with a proposal. What it says is text until the gate has read it."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Final, Protocol

import attrs

from fsm_agent.core import canon
from fsm_agent.core.canon import MAX_INT
from fsm_agent.core.errors import FsmAgentError, UsageError
from fsm_agent.core.inputs import NO_USAGE, Proposed, Usage

PLANNER_TIMEOUT_S: Final = 120.0
"""How long a planner is waited for, in seconds."""
MOST_WAIT_S: Final = 600.0
"""How long a planner may ask to be left alone, in seconds; a longer wish is taken as this one."""


@attrs.frozen(kw_only=True)
class Proposal:
    """A planner's answer.

    Attributes:
        text: As it came; the engine parses it tolerantly and keeps it whole in the log.
        model: Who answered.
        usage: What it used.
        prompt_digest: Digest of what it was asked, if it was asked in words.
    """

    text: str
    model: str = ""
    usage: Usage = NO_USAGE
    prompt_digest: str = ""


class PlannerError(FsmAgentError):
    """A planner gave no answer that can be used; what it used up counts all the same.

    Attributes:
        answer: What came, if something did; it is kept and not used.
        model: Who answered.
        usage: What it used.
        prompt_digest: As in :class:`Proposal`.
        retry_after_s: How long it asks to be left alone, in seconds, or None.
    """

    code = "E-PLANNER"
    exit_code = 3

    def __init__(
        self,
        message: str,
        *,
        answer: str | None = None,
        model: str = "",
        usage: Usage = NO_USAGE,
        prompt_digest: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        """Carry what is known of the answer."""
        super().__init__(message)
        self.answer = answer
        self.model = model
        self.usage = usage
        self.prompt_digest = prompt_digest
        self.retry_after_s = retry_after_s


class Planner(Protocol):
    """Proposes plans. One call answers one briefing; the engine counts it before it is made."""

    async def propose(self, briefing: Mapping[str, Any]) -> Proposal:
        """Return a proposal for *briefing* (see :mod:`fsm_agent.core.replanning.briefing`).

        Whatever it raises counts as an answer that never came; a :class:`PlannerError` says more about it.
        """
        ...


def check_planner(planner: object) -> None:
    """Refuse what is no planner before a run counts on it.

    Raises:
        UsageError: It cannot be asked.
    """
    if planner is not None and not callable(getattr(planner, "propose", None)):
        raise UsageError(
            f"planner: a {type(planner).__name__} was given; it needs an async method propose(briefing), "
            "as ModelPlanner has"
        )


async def ask(planner: Planner, request: int, briefing: Mapping[str, Any]) -> Proposed:
    """Return the planner's answer to a request as the engine takes it. Total: nothing but a cancellation from outside
    is raised, or the run would wait for an answer for ever.

    Args:
        planner: Who is asked.
        request: Seq of the ``planner_asked`` event.
        briefing: What it may see.
    """
    try:
        async with asyncio.timeout(PLANNER_TIMEOUT_S):
            found = await planner.propose(canon.snapshot(dict(briefing))[0])  # a copy, which it may change
        return _taken(request, found)
    except TimeoutError:
        why = f"it gave no answer within {PLANNER_TIMEOUT_S:g} s"
    except GeneratorExit:
        raise  # the loop is gone
    except BaseException as error:  # a planner is not trusted, whatever it raises
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        from fsm_agent.core.classification.facts import describe  # a planner that answers needs none

        why = f"{type(error).__name__}: {describe(error).message}"[:500]
        if isinstance(error, PlannerError):
            with contextlib.suppress(Exception):  # what it says of itself may be of any type
                return _without_use(request, error)
    return Proposed(request=request, answer=None, why=f"the planner failed: {why}")


def _taken(request: int, found: Any) -> Proposed:
    """Return a planner's answer, looked at before anybody relies on its types."""
    if not isinstance(found, Proposal) or type(found.text) is not str:
        words = f"it returned a value of type {type(found).__name__}; a Proposal with a text is wanted"
        return Proposed(request=request, answer=None, why=f"the planner failed: {words}")
    return Proposed(
        request=request,
        answer=found.text,
        model=str(found.model),
        usage=_counted(found.usage),
        prompt_digest=str(found.prompt_digest),
    )


def _without_use(request: int, error: PlannerError) -> Proposed:
    wait = error.retry_after_s
    return Proposed(
        request=request,
        answer=error.answer,
        why=f"the planner failed: {error}"[:1000],
        model=error.model,
        usage=_counted(error.usage),
        prompt_digest=error.prompt_digest,
        retry_after_us=None if wait is None else round(min(wait, MOST_WAIT_S) * 1_000_000),
    )


def _counted(usage: Usage) -> Usage:
    """Return *usage* with nothing in it that would give a budget back."""
    tokens, cost = (min(max(0, int(amount)), MAX_INT) for amount in (usage.tokens, usage.cost_micros))
    return Usage(tokens=tokens, cost_micros=cost)
