"""The commands that hand a person's word to a run: its owner takes it, or nobody owns it and it is taken here."""

from collections.abc import Mapping, Sequence
from typing import Any

from fsm_agent.core.errors import UsageError
from fsm_agent.core.inputs import (
    Answer,
    Approve,
    Ask,
    Edit,
    Note,
    ReconcileAs,
    Reject,
    Resume,
    RetryTask,
    SetInputs,
    Word,
)
from fsm_agent.faces.frame import places
from fsm_agent.faces.frame.screen import Screen
from fsm_agent.faces.frame.spec import Outcome
from fsm_agent.faces.look.results import Said
from fsm_agent.runtime.driving.status import status_of


async def _say(screen: Screen, run: str, word: Word, words: str) -> Outcome:
    with places.writing(screen) as store:
        await places.say(screen, store, run, word)
        state, head = places.look(store, run)
        return Outcome(
            Said(words=words, status=status_of(state, head), driven=places.goes_on(screen, store, run))
        )


async def approve(screen: Screen, *, run: str, task: str, digest: str, note: str, by: str | None) -> Outcome:
    """Say yes to the request with this digest."""
    who = places.speaker(screen, by, note)
    return await _say(
        screen, run, Approve(task=task, digest=digest, who=who), f"{task}: {who.by} approved {digest[:8]}"
    )


async def reject(
    screen: Screen, *, run: str, task: str, digest: str | None, note: str, by: str | None
) -> Outcome:
    """Say no."""
    who = places.speaker(screen, by, note)
    word = Reject(task=task, digest=digest, who=who)
    return await _say(screen, run, word, f"{task}: {who.by} rejected it")


async def edit(
    screen: Screen,
    *,
    run: str,
    task: str,
    args: Mapping[str, Any],
    digest: str | None,
    note: str,
    by: str | None,
) -> Outcome:
    """Change arguments of a call that waits."""
    who = places.speaker(screen, by, note)
    return await _say(
        screen,
        run,
        Edit(task=task, args=args, digest=digest, who=who),
        f"{task}: {who.by} changed {', '.join(args)}; it is asked again",
    )


async def answer(
    screen: Screen, *, run: str, task: str, value: Any, digest: str | None, note: str, by: str | None
) -> Outcome:
    """Answer a question."""
    who = places.speaker(screen, by, note)
    word = Answer(task=task, value=value, digest=digest, who=who)
    return await _say(screen, run, word, f"{task}: {who.by} answered")


async def reconcile(
    screen: Screen, *, run: str, task: str, verdict: str | None, evidence: str, result: Any, by: str | None
) -> Outcome:
    """Say what became of an unknown result, or ask for a probe."""
    if verdict is None and (evidence or result is not None):
        raise UsageError(
            "reconcile: --evidence or --result was given without --as; add --as applied or --as absent"
        )
    if verdict == "absent" and result is not None:
        raise UsageError("reconcile: --result was given with --as absent; what did not happen has no result")
    who = places.speaker(screen, by)
    word = ReconcileAs(task=task, verdict=verdict, evidence=evidence, result=result, who=who)
    words = f"{task}: {who.by} says {verdict}" if verdict else f"{task}: it will be looked up"
    return await _say(screen, run, word, words)


async def retry(screen: Screen, *, run: str, task: str, note: str, by: str | None) -> Outcome:
    """Let a failed task try again."""
    who = places.speaker(screen, by, note)
    return await _say(screen, run, RetryTask(task=task, who=who), f"{task}: {who.by} lets it try again")


async def set_values(screen: Screen, *, run: str, values: Mapping[str, Any], by: str | None) -> Outcome:
    """Change inputs, constraint values or budgets."""
    who = places.speaker(screen, by)
    return await _say(screen, run, SetInputs(values=values, who=who), f"{who.by} set {', '.join(values)}")


async def pause(screen: Screen, *, run: str, note: str, by: str | None) -> Outcome:
    """Wish that nothing more starts."""
    who = places.speaker(screen, by, note)
    return await _say(screen, run, Ask(wish="pause", who=who), f"{who.by} asked for a pause")


async def cancel(
    screen: Screen, *, run: str, acknowledge: Sequence[str], note: str, by: str | None
) -> Outcome:
    """Wish the run cancelled."""
    who = places.speaker(screen, by, note)
    word = Ask(wish="cancel", who=who, acknowledged=tuple(acknowledge))
    return await _say(screen, run, word, f"{who.by} asked to cancel the run")


async def note(screen: Screen, *, run: str, text: str, task: str | None, by: str | None) -> Outcome:
    """Put words into the log."""
    return await _say(screen, run, Note(text=text, task=task, who=places.speaker(screen, by)), "noted")


async def resume(screen: Screen, *, run: str, note: str, by: str | None) -> Outcome:
    """Lift a pause, or an abort."""
    who = places.speaker(screen, by, note)
    return await _say(screen, run, Resume(who=who), f"{who.by} lets it go on")
