"""``fork``: a new run from the beginning of another; what was asked there is asked anew, what was done is not done again."""

from collections.abc import Iterator
from shlex import quote
from typing import Any

from fsm_agent.faces.frame import places
from fsm_agent.faces.frame.screen import Screen, safe, wrapped
from fsm_agent.faces.frame.spec import Outcome
from fsm_agent.faces.look.data import head as head_data
from fsm_agent.runtime.driving.forking import Forked, fork_run
from fsm_agent.runtime.ports import SystemPorts
from fsm_agent.runtime.proof.heads import Heads


def fork(screen: Screen, *, run: str, at: int, run_id: str | None, note: str, by: str | None) -> Outcome:
    """Fork a run of the store."""
    with places.writing(screen) as store:
        heads = Heads.beside(store.location)
        who = places.person(by, note)
        made = fork_run(store, run, at, who=who, ports=SystemPorts(), new=run_id, heads=heads)
        if heads.fault:
            screen.complain(heads.fault)
    return Outcome(made)


def plain(value: Forked, screen: Screen) -> Iterator[str]:
    """The new run: what it has, what it will not do again, what it asks anew, how it goes on."""
    yield f"run {safe(value.run)} forked from {safe(value.parent)} at event {value.at}"
    if value.done:
        yield from wrapped("  done already: ", ", ".join(value.done), screen.width)
    for known in value.brought:
        made = known.effect
        words = f"{made.task} ({made.tool}), made by {known.run} at event {made.seq}"
        yield from wrapped("  not done again: ", words, screen.width)
    if value.asked:
        yield from wrapped("  asked anew: ", ", ".join(value.asked), screen.width)
    yield "next:"
    yield f"  {screen.command(f'fsm-agent resume {quote(value.run)}')}"
    yield f"head {value.head.seq} {value.head.hash.hex()}"


def data(value: Forked, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/fork@1``."""
    return {
        "schema": "fsm-agent/fork@1",
        "run": value.run,
        "parent": value.parent,
        "at": value.at,
        "done": list(value.done),
        "effects": [known.to_data() for known in value.brought],
        "asked": list(value.asked),
        "head": head_data(value.head),
        "next": [screen.command(f"fsm-agent resume {quote(value.run)}")],
    }
