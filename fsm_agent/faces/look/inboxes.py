"""``inbox``: everything that waits for a person, over all runs of a store, with the commands that answer it."""

from collections.abc import Iterator
from typing import Any

import attrs

from fsm_agent.core.audit.hints import next_commands, of_run, of_task
from fsm_agent.core.canon import encode
from fsm_agent.core.engine.records import RUN
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import NotFoundError
from fsm_agent.core.machine import FINAL_RUN_STATES, TaskState
from fsm_agent.faces.frame import places
from fsm_agent.faces.frame.screen import Screen, duration, safe, wrapped
from fsm_agent.faces.frame.spec import Outcome
from fsm_agent.runtime.driving.status import question_json
from fsm_agent.runtime.ports import SystemPorts


@attrs.frozen(kw_only=True)
class Waiting:
    """Something that waits for a person.

    Attributes:
        run: Whose it is.
        task: The task, or ``run``.
        kind: ``approval``, ``answer``, ``decide``, ``unknown`` or ``paused``.
        say: In words.
        since_us: For how long it has waited, in microseconds.
        question: The question as JSON, or None.
        commands: What can be typed about it.
    """

    run: str
    task: str
    kind: str
    say: str
    since_us: int
    question: dict[str, Any] | None
    commands: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Inbox:
    """What waits in the runs of a store, the longest first."""

    store: str
    waiting: tuple[Waiting, ...]


def inbox(screen: Screen) -> Outcome:
    """Return what waits for a person."""
    now = SystemPorts().now_us()
    found: list[Waiting] = []
    try:
        with places.reading(screen) as store:
            infos = tuple(store.runs())
            places.tell_of_ends(screen, store, infos)
            for info in infos:
                if info.state not in FINAL_RUN_STATES and info.head.seq:
                    found += _of(places.look(store, info.run)[0], now)
    except NotFoundError:
        if screen.named:
            raise
    found.sort(key=lambda one: -one.since_us)
    return Outcome(Inbox(store=screen.store, waiting=tuple(found)))


def _of(run: Run, now: int) -> Iterator[Waiting]:
    since = now - run.at
    if run.paused or run.wish == "pause":
        wait = of_run(run)
        yield _waiting(run, RUN, "paused", wait.words, since, None, wait.commands)
    for name, question in run.questions.items():
        task = run.tasks.get(name)
        commands = of_task(run, task).commands if task is not None else next_commands(run)
        yield _waiting(run, name, question.kind, question.say, since, question_json(question), commands)
    for task in run.tasks.values():
        unknown = task.state is TaskState.UNKNOWN and task.id not in run.questions
        if unknown and not task.probing and not task.probe_at and task.id not in run.acknowledged:
            wait = of_task(run, task)
            yield _waiting(run, task.id, "unknown", wait.words, since, None, wait.commands)


def _waiting(
    run: Run,
    task: str,
    kind: str,
    say: str,
    since: int,
    question: dict[str, Any] | None,
    commands: tuple[str, ...],
) -> Waiting:
    return Waiting(
        run=run.id,
        task=task,
        kind=kind,
        say=say,
        since_us=max(0, since),
        question=question,
        commands=commands,
    )


def plain(value: Inbox, screen: Screen) -> Iterator[str]:
    """Each with its arguments and the commands that answer it."""
    if not value.waiting:
        yield f"nothing waits for a person in {value.store}"
    for one in value.waiting:
        state = "unknown-result" if one.kind == "unknown" else "awaiting-confirmation"
        head = f"{screen.glyph(state)} {safe(one.run)} {safe(one.task)}"
        yield f"{head}, {one.kind}, since {duration(one.since_us / 1_000_000)}"
        yield from wrapped("  ", one.say, screen.width)
        for name, found in ((one.question or {}).get("args") or {}).items():
            yield from wrapped(f"    {safe(name)} = ", encode(found).decode(), screen.width)
        yield from (f"  {screen.command(line)}" for line in one.commands)


def data(value: Inbox, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/inbox@1``."""
    rows = [
        {
            "run": one.run,
            "task": one.task,
            "kind": one.kind,
            "say": one.say,
            "since_s": round(one.since_us / 1_000_000, 3),
            "question": one.question,
            "commands": [screen.command(line) for line in one.commands],
        }
        for one in value.waiting
    ]
    return {"schema": "fsm-agent/inbox@1", "store": value.store, "waiting": rows}
