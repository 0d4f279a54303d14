"""People's words as JSON: how one travels through the inbox, is read back, and is refused before the engine hears it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import RefusedError
from fsm_agent.core.inputs import (
    Answer,
    Approve,
    Ask,
    Edit,
    Input,
    Note,
    Person,
    ReconcileAs,
    Reject,
    Replan,
    Resume,
    RetryTask,
    SetInputs,
    Word,
)

_FIELDS: Final[dict[type, tuple[str, ...]]] = {
    Answer: ("task", "value", "digest"),
    Approve: ("task", "digest"),
    Ask: ("wish", "acknowledged"),
    Edit: ("task", "args", "digest"),
    Note: ("text", "task"),
    ReconcileAs: ("task", "verdict", "result", "evidence"),
    Reject: ("task", "digest"),
    Replan: ("document",),
    Resume: (),
    RetryTask: ("task",),
    SetInputs: ("values",),
}
_NAMES: Final = {kind.__name__: kind for kind in _FIELDS}


def refuse_absent(run: Run, word: Input, out: Callable[[str, int], bool]) -> None:
    """A person's ``absent`` never counts while the call in question is still out here.

    Args:
        run: The state.
        word: What a person says.
        out: Whether a call of this task and attempt is out.

    Raises:
        RefusedError: *word* says it of such a call; nothing was changed.
    """
    if isinstance(word, Answer):
        said = word.value.get("decide") if isinstance(word.value, dict) else None
    elif isinstance(word, ReconcileAs):
        said = word.verdict
    else:
        return
    if said != "absent" or not isinstance(word.task, str):
        return  # what names its task by no text is refused by the engine
    task = run.tasks.get(word.task)
    if task is not None and out(task.id, task.attempt):
        raise RefusedError(
            f"task {task.id}: its call is still running here, so absent proves nothing yet; wait for it",
            task=task.id,
            code="E-STILL-RUNNING",
        )


def to_letter(word: Word) -> dict[str, Any]:
    """Return *word* as a JSON object."""
    body: dict[str, Any] = {"kind": type(word).__name__}
    for name in _FIELDS[type(word)]:
        value = getattr(word, name)
        body[name] = (
            list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value
        )
    body["who"] = {"by": word.who.by, "channel": word.who.channel, "note": word.who.note}
    return body


def from_letter(body: Mapping[str, Any]) -> Input:
    """Read a letter back.

    Raises:
        RefusedError: It is no word that the engine knows.
    """
    kind = _NAMES.get(str(body.get("kind")))
    who = body.get("who")
    if kind is None or not isinstance(who, Mapping):
        raise RefusedError(
            f"letter: its kind is {body.get('kind')!r}; known: {', '.join(_NAMES)}", code="E-LETTER"
        )
    try:
        fields = {name: body[name] for name in _FIELDS[kind] if name in body}
        if "acknowledged" in fields:
            fields["acknowledged"] = tuple(fields["acknowledged"])
        build: Callable[..., Input] = kind
        return build(**fields, who=Person(by=who["by"], channel=who["channel"], note=who["note"]))
    except (KeyError, TypeError):
        raise RefusedError(
            f"letter of kind {body['kind']}: it has {', '.join(map(str, body))}; it needs "
            f"{', '.join((*_FIELDS[kind], 'who'))}, and who has by, channel, note",
            code="E-LETTER",
        ) from None
