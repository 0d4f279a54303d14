"""Checks of forks (F): a run that comes from another one has that one's events, up to the head that it names."""

from typing import Any, Final, NamedTuple

from fsm_agent.core.audit.check import ALL, Check, Said, check
from fsm_agent.core.audit.checker import Checker
from fsm_agent.core.events import Event, chain, genesis
from fsm_agent.core.replay.fork import parents_first


class Parent(NamedTuple):
    """The run that a log comes from, as far as it is followed.

    Attributes:
        source: What the first event says: run, seq, hash, and the same of that run's own parent.
        hash: Of the parent's event that stands where the log stands.
    """

    source: dict[str, Any]
    hash: bytes


def parents_events(log: Checker, event: Event) -> Said:
    """A fork has its parent's events up to the head that it names: their hash under the parent's id is that of the head."""
    if event.seq == 1 and event.type == "run_created" and "forked_from" in event.data:
        source = event.data["forked_from"]
        first = parents_first(log.record.body)
        log.parent = Parent(source, chain(genesis(source["run"]).hash, first))
    elif log.parent is None:
        return None
    elif event.seq <= log.parent.source["seq"]:
        log.parent = log.parent._replace(hash=chain(log.parent.hash, log.record.body))
    if event.seq != log.parent.source["seq"]:
        return ""
    same = log.parent.hash.hex() == log.parent.source["hash"]
    return "" if same else f"up to here the events are not those of {log.parent.source['run']}"


def forked_in_its_place(log: Checker, event: Event) -> Said:
    """Right behind its parent's events, and nowhere else, a fork says that it is one, and by whom."""
    if log.parent is None and event.type != "run_forked":
        return None  # most logs are no forks, and this is looked at for every event
    links: dict[int, tuple[str, dict[str, Any]]] = {}
    name, source = log.run.id, log.parent.source if log.parent is not None else None
    last = source["seq"] + 1 if source is not None else 0
    while source is not None:
        if source["seq"] < last:  # a parent that was cut before it says that it is a fork never says so here
            links[source["seq"] + 1] = (name, {k: source[k] for k in ("run", "seq", "hash")})
        last = min(last, source["seq"])
        name, source = source["run"], source.get("was")
    right = links.get(event.seq)
    if event.type != "run_forked":
        return None if right is None else f"the log of {right[0]} goes on without saying that it is a fork"
    if right != (event.data["run"], event.data["from"]):
        return "it says that it is a fork, and the first event does not say so"
    if event.data["idle_us"] != event.at - log.at:
        return "the time since the cut, in which nobody drove the run, is another one"
    return "" if (event.actor or {}).get("id") == event.data["by"] else "nobody answers for the fork"


FORKS: Final[tuple[Check, ...]] = (
    check("F5", parents_events, *ALL),
    check("F5", forked_in_its_place, *ALL),
)
"""Checks of a log that comes from another one; of others they have nothing to look at."""
