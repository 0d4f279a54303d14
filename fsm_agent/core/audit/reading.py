"""An event read out of its stored bytes, and held against their canonical form in one go.

This is no check, but a way to know at once what most events pass; of all others the checks ``readable`` and
``canonical-bytes`` say what is wrong.
"""

from typing import Final

import orjson

from fsm_agent.core import upcasting
from fsm_agent.core.events import Event

_SORTED: Final = orjson.OPT_SORT_KEYS
_ALWAYS: Final = 5
"""How many members every event has; it may have a task, a cause, a batch and an actor besides, and nothing else."""
_new: Final = tuple.__new__
"""Makes an event of a tuple that has its members in order."""


def plain(body: bytes) -> Event | None:
    """Return the event in *body*; None if it is none, not of this version, or *body* not its canonical form."""
    try:
        raw = orjson.loads(body)
        seq, at, type_, data, version = raw["seq"], raw["at"], raw["type"], raw["data"], raw["v"]
        task, cause, tx, actor = raw.get("task"), raw.get("cause"), raw.get("tx"), raw.get("actor")
    except (ValueError, KeyError, TypeError):
        return None
    members = _ALWAYS
    if task is not None:
        members += type(task) is str
    if cause is not None:
        members += type(cause) is int
    if tx is not None:
        whole = type(tx) is list and len(tx) == 2 and type(tx[0]) is int and type(tx[1]) is int
        members += whole and tx[1] > 1
    if actor is not None:
        members += type(actor) is dict
    if (
        len(raw) != members
        or type(seq) is not int
        or type(at) is not int
        or type(type_) is not str
        or type(data) is not dict
        or type(version) is not int
    ):
        return None
    if version != upcasting.UPCASTERS.version_of(type_) or orjson.dumps(raw, option=_SORTED) != body:
        return None
    return _new(Event, (seq, at, type_, data, task, cause, tx, actor))
