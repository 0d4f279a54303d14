"""What a planner proposes may refer to a secret and say none: a literal in a secret place is refused before it is logged.

A person who gives a plan may mean the literal, and it is hidden. A planner has seen no secret, so what it puts there is made
up, or came out of its prompt: nothing may be called with it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from fsm_agent.core import canon
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import PlanError
from fsm_agent.runtime.planning.planner import Planner, PlannerError, Proposal
from fsm_agent.runtime.secrets.hiding import hide_places
from fsm_agent.runtime.secrets.vault import Vault

_MOST: Final = 3
"""So many places are named."""


@attrs.frozen
class Discreet:
    """A planner whose answers say no secret.

    Attributes:
        planner: Who is asked.
        run: Returns the run, whose tools declare what is secret.
    """

    planner: Planner
    run: Callable[[], Run]

    async def propose(self, briefing: Mapping[str, Any]) -> Proposal:
        """Return the planner's proposal.

        Raises:
            PlannerError: A literal stands in it where a tool declares a secret; the places are named, and the answer that is
                kept has none.
        """
        found = await self.planner.propose(briefing)
        if not isinstance(found, Proposal) or type(found.text) is not str:
            return found  # whoever asked says what is wrong with it
        why, kept = without_literals(found.text, self.run())
        if not why:
            return found
        raise PlannerError(
            why,
            answer=kept,
            model=found.model,
            usage=found.usage,
            prompt_digest=found.prompt_digest,
        )


def discreet(planner: Planner | None, run: Callable[[], Run]) -> Planner | None:
    """Return *planner* as one whose answers say no secret; None if there is none."""
    return Discreet(planner, run) if planner is not None else None


def without_literals(answer: str, run: Run) -> tuple[str, str]:
    """Return what is wrong with a plan that has literals in secret places, and the plan with them replaced.

    Of another one nothing is wrong, and it is returned as it came.

    Args:
        answer: A planner's text; what is no plan has no such places.
        run: Its tools declare what is secret.
    """
    if not any(spec.secret for spec in run.tools.values()):
        return "", answer
    from fsm_agent.core.plans import text  # only what a model says is read so

    try:
        document = text.read(answer)
    except PlanError:
        return "", answer
    vault = Vault()  # of its own: what a planner made up is no secret of the run
    hidden, places = hide_places(document, run, vault)
    if not places:
        return "", answer
    more = f" and {len(places) - _MOST} more" if len(places) > _MOST else ""
    why = (
        f"{', '.join(places[:_MOST])}{more}: a literal stands where a tool declares a secret; "
        'refer to what holds it, such as "$inputs.token"'
    )
    return why, vault.scrub(canon.encode(hidden).decode())
