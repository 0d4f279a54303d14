"""Families about the log: changed anywhere, values in it, how it grows, and what a step costs."""

import copy
import datetime as dt
import functools
import json
import math
import random
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import pytest

from fsm_agent.core import canon
from fsm_agent.core.audit.audit import audit
from fsm_agent.core.errors import FsmAgentError
from fsm_agent.core.events import Record
from fsm_agent.runtime.tools.endings import Unstorable, read_value
from fsm_agent.testing.scenario import parse
from fsm_agent.testing.simulate import RUN_ID, simulate
from fsm_agent.testing.volatile import VolatileStore
from tests.torture import effects
from tests.torture.rig import Doc, Rng, place, play


@functools.cache
def _log(number: int) -> tuple[VolatileStore, tuple[Record, ...]]:
    """Return the store and the log of some run with effects, questions and a crash in it."""
    rng = random.Random(number)
    steps, tools = effects._work(rng, 2 + number % 3)
    where = place(rng)
    names = [where.name(s["id"]) for s in steps]
    store = VolatileStore()
    document = {
        "plan": {"inputs": where.inputs, "steps": where.put(steps)},
        "tools": tools,
        "operator": [*effects._yes(names), {"at_seq": 7, "do": "crash"}],
        "expect": {},
    }
    result = simulate(parse(document, "a log"), store=store)
    assert result.ok
    return store, tuple(store.read(RUN_ID))


def log(rng: Rng) -> None:
    """A log that somebody changed, a byte, a field, an order or an end of it, is found out, at that event or before the next."""
    store, records = _log(rng.randrange(12))
    changed = list(records)
    at = rng.randrange(len(changed))
    record = changed[at]
    match rng.randrange(6):
        case 0 | 1:
            place_, bit = rng.randrange(len(record.body)), 1 << rng.randrange(8)
            body = bytearray(record.body)
            body[place_] ^= bit
            changed[at] = record._replace(body=bytes(body))
        case 2:
            del changed[at]
        case 3:
            changed.insert(at, record)
        case 4:
            other = (at + 1) % len(changed)
            changed[at], changed[other] = changed[other], changed[at]
        case _:
            hashed = bytearray(record.hash)
            hashed[rng.randrange(32)] ^= 1
            changed[at] = record._replace(hash=bytes(hashed))
    found = audit(RUN_ID, changed, store.blob, head=store.head(RUN_ID))
    assert found.verdict == "violations", f"a change of event {record.seq} was not found"
    assert min(f.seq or 0 for f in found.findings) <= record.seq + 1


_KEPT: tuple[Callable[[Rng], Any], ...] = (
    lambda r: None,
    lambda r: bool(r.randrange(2)),
    lambda r: r.randrange(-(2**63), 2**63),
    lambda r: r.choice((0, -1, 2**63 - 1, -(2**63))),
    lambda r: r.choice((0.0, -0.0, 0.1, 5e-324, 1.7e308, 1e16, r.random())),
    lambda r: "".join(
        chr(r.choice((65, 233, 0x2028, 0x1D11E, 10, 34, 92, 0x7F))) for _ in range(r.randrange(6))
    ),
    lambda r: "",
    lambda r: [],
    lambda r: {},
)
_REFUSED: tuple[Callable[[Rng], Any], ...] = (
    lambda r: 2 ** r.randrange(64, 90),
    lambda r: -(2 ** r.randrange(64, 90)),
    lambda r: Decimal(r.randrange(9)),
    lambda r: dt.datetime(2026, 1, 1 + r.randrange(9)),
    lambda r: r.choice((math.nan, math.inf, -math.inf)),
    lambda r: bytes([r.randrange(256)]),
    lambda r: "a" + chr(r.randrange(0xD800, 0xE000)),
    lambda r: "a\0b",
    lambda r: (1, r.randrange(3)),
    lambda r: {r.randrange(3)},
    lambda r: {r.randrange(3): "a"},
    lambda r: PurePosixPath("/tmp"),
)


def _nest(rng: Rng, value: Any) -> tuple[Any, str]:
    """Return *value* somewhere inside lists and objects, and the path to it."""
    path = ""
    for _ in range(rng.randrange(4)):
        if rng.randrange(2):
            before = [rng.choice(_KEPT)(rng) for _ in range(rng.randrange(2))]
            value, path = [*before, value], f"[{len(before)}]{path}"
        else:
            value, path = {"z": 1, "k": value}, f".k{path}"
    return value, f"${path}"


def serialization(rng: Rng) -> None:
    """Any value that a tool may return comes back exactly, type and sign and all, or is refused by its path."""
    if rng.randrange(2):
        value, path = _nest(rng, rng.choice(_REFUSED)(rng))
        found = read_value(value)
        assert isinstance(found, Unstorable), f"{value!r} was taken"
        with pytest.raises((ValueError, FsmAgentError), match=re.escape(path)):
            canon.check(value)
        return
    value, _ = _nest(rng, rng.choice(_KEPT)(rng))
    mine = copy.deepcopy(value)
    kept, data = canon.snapshot(value)
    for back in (kept, canon.decode(data), canon.loads(data.decode())):
        assert repr(back) == repr(mine) or json.dumps(back, sort_keys=True) == json.dumps(
            mine, sort_keys=True
        )
    if rng.randrange(20) == 0:
        where = place(rng)
        steps: list[Doc] = [
            {"id": "a", "tool": "give"},
            {"id": "b", "tool": "take", "args": {"v": "$a"}, "depends_on": ["a"]},
        ]
        result = play(
            {
                "plan": {"inputs": where.inputs, "steps": where.put(steps)},
                "tools": {
                    "give": {"effect": "read", "calls": [{"return": {"v": value}}]},
                    "take": {"effect": "write", "calls": [{"match": {"v": {"v": value}}, "return": 1}]},
                },
            },
            rng,
        )
        assert result.tasks[where.name("b")] == "done"
        assert json.dumps(result.results[where.name("a")], sort_keys=True) == json.dumps(
            {"v": mine}, sort_keys=True
        )


def _bytes(steps: int, size: int, users: int, rng: Rng) -> int:
    """Return how large the log of a run is whose steps return *size* letters, the first of which *users* steps use."""
    plan = [{"id": f"s{n}", "tool": "give", "args": {"n": n}} for n in range(steps)]
    plan += [
        {"id": f"u{n}", "tool": "take", "args": {"v": "$s0", "n": n}, "depends_on": ["s0"]}
        for n in range(users)
    ]
    store = VolatileStore()
    document: Doc = {
        "plan": {"steps": plan},
        "tools": {
            "give": {
                "effect": "read",
                "calls": [{"match": {"n": n}, "return": f"{n:05}" * (size // 5)} for n in range(steps)],
            },
            "take": {"effect": "read", "calls": [{"return": 1}]},
        },
        "workers": 1 + rng.randrange(8),
        "expect": {},
    }
    result = simulate(parse(document, "a size"), store=store)
    assert result.ok
    assert result.run == "done"
    blobs = {digest for e in store.read(RUN_ID) for digest in _named(e.body)}
    return sum(len(r.body) for r in store.read(RUN_ID)) + sum(len(store.blob(d)) for d in blobs)


def _named(body: bytes) -> list[str]:
    parts = body.decode().split('"$blob":"')
    return [part[:64] for part in parts[1:]]


def size(rng: Rng) -> None:
    """A log grows with what happens: twice the steps twice the log, and a value that many use stands once."""
    steps, length, users = 3 + rng.randrange(6), rng.choice((100, 6_000, 20_000)), rng.randrange(6)
    one, two = _bytes(steps, length, users, rng), _bytes(2 * steps, length, 2 * users, rng)
    assert two <= 2.1 * one, f"{steps} steps take {one} bytes, {2 * steps} take {two}"
    if length > 4_096:
        assert one <= 1.3 * steps * length + 4_000 * (steps + users)


def speed(rng: Rng) -> None:
    """Twice the steps of any shape cost twice: lines of code are counted, and no clock is read."""
    from tests.torture.test_speed import per_step

    name, n = rng.choice(("chain", "fan", "layers")), 100 + rng.randrange(60)
    assert per_step(name, 2 * n) <= 1.25 * per_step(name, n), f"{name} of {n}"
