"""``replan``: a person gives a run another plan for what remains; it passes the gate like any other."""

from collections.abc import Iterator
from typing import Any

import attrs

from fsm_agent.core.audit.replay import one
from fsm_agent.core.inputs import Replan
from fsm_agent.faces.drive.jobs import plan_file
from fsm_agent.faces.frame import places
from fsm_agent.faces.frame.screen import Screen, wrapped
from fsm_agent.faces.frame.spec import Outcome
from fsm_agent.faces.look import data as said_data
from fsm_agent.faces.look import plain as said_plain
from fsm_agent.faces.look.results import Said
from fsm_agent.runtime.driving.status import status_of
from fsm_agent.runtime.planning.plans import document
from fsm_agent.stores.base import Store


@attrs.frozen(kw_only=True)
class Replanned:
    """A plan that was taken.

    Attributes:
        said: The word, and the run as it is now.
        version: Of the plan in force.
        diff: What differs from the plan before, as the log has it.
        explanation: The same for an end user.
    """

    said: Said
    version: int
    diff: dict[str, Any]
    explanation: str


async def replan(screen: Screen, *, run: str, plan: str, note: str, by: str | None) -> Outcome:
    """Hand a plan to the run's owner, or take it here if nobody owns it."""
    who = places.speaker(screen, by, note)
    given = document(plan_file(plan))
    with places.writing(screen) as store:
        before = store.head(run).seq
        await places.say(screen, store, run, Replan(document=given, who=who))
        adopted = _adopted(store, run, before)
        state, head = places.look(store, run)
        said = Said(
            words=f"{who.by} gave another plan; plan {adopted['plan_version']} is in force",
            status=status_of(state, head),
            driven=places.goes_on(screen, store, run),
        )
    return Outcome(
        Replanned(
            said=said,
            version=adopted["plan_version"],
            diff=adopted["diff"],
            explanation=adopted["explanation"],
        )
    )


def _adopted(store: Store, run: str, since: int) -> dict[str, Any]:
    """Return what the log says of the first plan of a person after event *since*: the one that was just taken."""
    events = (one(record, store.blob) for record in store.read(run, since=since))
    return next(e.data for e in events if e.type == "plan_adopted" and e.data["origin"] == "human")


def plain(value: Replanned, screen: Screen) -> Iterator[str]:
    """What was done, and what it means for an end user."""
    yield from said_plain.said(value.said, screen)
    yield from wrapped("  ", value.explanation, screen.width)


def data(value: Replanned, screen: Screen) -> dict[str, Any]:
    """As for every word, with ``plan_version``, ``diff`` and ``explanation``."""
    found = {"plan_version": value.version, "diff": value.diff, "explanation": value.explanation}
    return {**said_data.said(value.said, screen), **found}
