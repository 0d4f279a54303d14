"""The planner port: whoever answers a briefing with a proposal. What it says is text until the gate has read it."""

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

import attrs

from fsm_agent.core.inputs import NO_USAGE, Proposed, Usage

PLANNER_TIMEOUT_S = 120.0
"""How long a planner is waited for, in seconds."""


@attrs.frozen(kw_only=True)
class Proposal:
    """A planner's answer.

    Attributes:
        text: As it came; the engine parses it tolerantly and keeps it whole in the log.
        model: Who answered.
        usage: What it used.
    """

    text: str
    model: str = ""
    usage: Usage = NO_USAGE


class Planner(Protocol):
    """Proposes plans. One call answers one briefing; the engine counts it before it is made."""

    async def propose(self, briefing: Mapping[str, Any]) -> Proposal:
        """Return a proposal for *briefing* (see :mod:`fsm_agent.core.briefing`).

        Whatever it raises counts as an answer that never came.
        """
        ...


async def ask(planner: Planner, request: int, briefing: Mapping[str, Any]) -> Proposed:
    """Return the planner's answer to a request as the engine takes it. Total: nothing but a cancellation is raised.

    Args:
        planner: Who is asked.
        request: Seq of the ``planner_asked`` event.
        briefing: What it may see.
    """
    try:
        async with asyncio.timeout(PLANNER_TIMEOUT_S):
            found = await planner.propose(briefing)
        return Proposed(request=request, answer=found.text, model=found.model, usage=found.usage)
    except TimeoutError:
        why = f"it gave no answer within {PLANNER_TIMEOUT_S:g} s"
    except Exception as error:  # noqa: BLE001 - a planner is not trusted, whatever it raises
        why = f"{type(error).__name__}: {error}"[:500]
    return Proposed(request=request, answer=None, why=f"the planner failed: {why}")
