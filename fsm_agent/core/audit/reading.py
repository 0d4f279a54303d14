"""An event read out of its stored bytes, and held against their canonical form in one go.

This is no check, but a way to know at once what most events pass; of all others the checks ``readable`` and
``canonical-bytes`` say what is wrong.
"""

from typing import Final

import orjson

from fsm_agent.core import upcasting
from fsm_agent.core.events import SHAPES, Event

_SORTED: Final = orjson.OPT_SORT_KEYS


_new: Final = tuple.__new__
"""Makes an event of a tuple that has its members in order."""


def plain(body: bytes) -> Event | None:
    """Return the event in *body*; None if it is none, not of this version, or *body* not its canonical form."""
    try:
        raw = orjson.loads(body)
    except ValueError:
        return None
    if type(raw) is not dict or (*raw, *map(type, raw.values())) not in SHAPES:
        return None
    type_, tx = raw["type"], raw.get("tx")
    if tx is not None:
        if len(tx) != 2:
            return None
        first, count = tx
        if type(first) is not int or type(count) is not int or count < 2:
            return None
    if raw["v"] != upcasting.UPCASTERS.version_of(type_) or orjson.dumps(raw, option=_SORTED) != body:
        return None
    return _new(
        Event,
        (raw["seq"], raw["at"], type_, raw["data"], raw.get("task"), raw.get("cause"), tx, raw.get("actor")),
    )
