"""A log as OCEL 2.0 (object-centric event log, JSON): for process mining, with every object tied to its events.

Objects are the run, plans by version, tasks, attempts, questions, tools, rows of the table, and persons. An object
without an event would be dropped by readers, so each is named by at least one. Events stand in the order of the log;
their times rise strictly, so no reader can confuse it.
"""

from collections.abc import Iterable
from typing import Any, Final

from fsm_agent.core import canon
from fsm_agent.core.engine.records import RUN
from fsm_agent.core.events import Event
from fsm_agent.core.replay.moments import moment

_OBJECTS: Final = {
    "run": ("goal", "state"),
    "plan": ("origin", "digest"),
    "task": ("tool", "description", "state"),
    "attempt": ("args", "effect", "key", "ended"),
    "question": ("kind", "say", "verdict"),
    "tool": ("effect",),
    "rule": ("decides",),
    "person": (),
}
"""Object type → its attributes, all of them text."""
_SAID: Final = (
    "source",
    "dest",
    "reason",
    "signal",
    "decide",
    "rule",
    "verdict",
    "by",
    "wish",
    "why",
    "scope",
    "gate",
    "text",
    "code",
    "message",
)
"""Members of an event's data that become attributes, where the event has them."""


class _Log:
    """The document in the making."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        self.types: dict[str, dict[str, str]] = {}
        self.at = ""

    def object(self, kind: str, name: str) -> str:
        """Return the id of an object; made when it is first named."""
        made = f"{kind}:{name}"
        self.objects.setdefault(made, {"id": made, "type": kind, "attributes": [], "relationships": []})
        return made

    def set(self, made: str, **values: Any) -> None:
        """Say what an object is from now on."""
        for name, value in values.items():
            text = value if isinstance(value, str) else canon.encode(value).decode()
            self.objects[made]["attributes"].append({"name": name, "time": self.at, "value": text})

    def relate(self, made: str, other: str, qualifier: str) -> None:
        """Tie an object to another one, once."""
        link = {"objectId": other, "qualifier": qualifier}
        if link not in self.objects[made]["relationships"]:
            self.objects[made]["relationships"].append(link)


def ocel(run: str, events: Iterable[Event]) -> dict[str, Any]:
    """Return the log of *run* as an OCEL 2.0 document.

    Args:
        run: The run's id.
        events: From the first on, large values put back.
    """
    log = _Log()
    for event in events:
        log.at = moment(event.at)
        links = {log.object("run", run): "of"}
        if event.task is not None:
            task = log.object("task", event.task)
            log.relate(task, f"run:{run}", "part of")
            links[task] = "about"
        if event.actor is not None and event.actor.get("kind") == "human":
            links[log.object("person", str(event.actor.get("id", "")))] = "by"
        _TELLS.get(event.type, _nothing)(log, run, event, links)
        _add(log, event, links)
    return {
        "objectTypes": [
            {"name": kind, "attributes": [{"name": name, "type": "string"} for name in names]}
            for kind, names in _OBJECTS.items()
            if any(o["type"] == kind for o in log.objects.values())
        ],
        "eventTypes": [
            {"name": name, "attributes": [{"name": a, "type": t} for a, t in attributes.items()]}
            for name, attributes in log.types.items()
        ],
        "objects": list(log.objects.values()),
        "events": log.events,
    }


def activity(event: Event) -> str:
    """Return what a process miner should call *event*: a move by what moved, others by their type."""
    if event.type in ("task_moved", "run_moved"):
        return f"{event.type.removesuffix('_moved')} {event.data['trigger']}"
    return event.type.replace("_", " ")


def _add(log: _Log, event: Event, links: dict[str, str]) -> None:
    said = {name: str(event.data[name]) for name in _SAID if isinstance(event.data.get(name), str)}
    name = activity(event)
    log.types.setdefault(name, {"seq": "integer"}).update(dict.fromkeys(said, "string"))
    log.events.append(
        {
            "id": f"e{event.seq}",
            "type": name,
            "time": log.at,
            "attributes": [
                {"name": "seq", "value": event.seq},
                *({"name": key, "value": value} for key, value in said.items()),
            ],
            "relationships": [{"objectId": made, "qualifier": how} for made, how in links.items()],
        }
    )


def _nothing(log: _Log, run: str, event: Event, links: dict[str, str]) -> None:
    del log, run, event, links


def _created(log: _Log, run: str, event: Event, links: dict[str, str]) -> None:
    del links
    log.set(f"run:{run}", goal=event.data["goal"], state="pending")


def _adopted(log: _Log, run: str, event: Event, links: dict[str, str]) -> None:
    data = event.data
    plan = log.object("plan", str(data["plan_version"]))
    links[plan] = "adopts"
    log.set(plan, origin=data["origin"], digest=data["digest"])
    log.relate(plan, f"run:{run}", "of")
    for step in data["plan"]["steps"]:
        task = log.object("task", step["id"])
        links[task] = "plans"
        log.relate(task, f"run:{run}", "part of")
        log.relate(task, plan, "in")
        log.set(task, tool=step.get("tool") or "", description=step.get("description") or "")
        for needed in step.get("depends_on", ()):
            before = needed["id"] if isinstance(needed, dict) else needed
            log.relate(task, log.object("task", before), "depends on")


def _task_moved(log: _Log, run: str, event: Event, links: dict[str, str]) -> None:
    del run
    data, task = event.data, f"task:{event.task}"
    log.set(task, state=data["dest"])
    attempt = f"{event.task}/{data['attempt']}"
    if data["trigger"] == "start":
        made, tool = log.object("attempt", attempt), log.object("tool", data["tool"])
        links |= {made: "starts", tool: "calls"}
        log.relate(made, task, "attempt of")
        log.relate(made, tool, "calls")
        log.set(made, args=data["args"], effect=data["effect"], key=data["key"])
        log.set(tool, effect=data["effect"])
    elif f"attempt:{attempt}" in log.objects and ("outcome" in data or "evidence" in data):
        made = f"attempt:{attempt}"
        links[made] = "ends" if "outcome" in data else "settles"
        log.set(made, ended=data["trigger"])


def _run_moved(log: _Log, run: str, event: Event, links: dict[str, str]) -> None:
    del links
    log.set(f"run:{run}", state=event.data["dest"])


def _decided(log: _Log, run: str, event: Event, links: dict[str, str]) -> None:
    del run
    rule = log.object("rule", event.data["rule"])
    links[rule] = "by"
    if not log.objects[rule]["attributes"]:
        log.set(rule, decides=event.data["decide"])


def _requested(log: _Log, run: str, event: Event, links: dict[str, str]) -> None:
    question = log.object("question", f"{event.task or RUN}@{event.data['args_digest'][:16]}")
    links[question] = "asks"
    log.set(question, kind=event.data["kind"], say=event.data.get("say", ""))
    log.relate(question, f"task:{event.task}" if event.task is not None else f"run:{run}", "about")


def _answered(log: _Log, run: str, event: Event, links: dict[str, str]) -> None:
    del run
    question = log.object("question", f"{event.task or RUN}@{event.data['args_digest'][:16]}")
    links[question] = "answers"
    log.set(question, verdict=event.data["verdict"])


_TELLS: Final = {
    "run_created": _created,
    "plan_adopted": _adopted,
    "task_moved": _task_moved,
    "run_moved": _run_moved,
    "decided": _decided,
    "approval_requested": _requested,
    "approval_answered": _answered,
}
