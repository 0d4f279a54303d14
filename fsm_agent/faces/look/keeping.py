"""The commands that look after a store: ``runs`` with ``gc``, and ``key``."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import attrs

from fsm_agent.core.errors import NotFoundError, UsageError
from fsm_agent.faces.frame import places
from fsm_agent.faces.frame.screen import Screen
from fsm_agent.faces.frame.spec import Outcome
from fsm_agent.faces.look.results import Runs
from fsm_agent.runtime.driving.owner import is_dead
from fsm_agent.runtime.ports import SystemPorts
from fsm_agent.runtime.proof.heads import SIGNING_KEY
from fsm_agent.runtime.proof.retention import collect
from fsm_agent.runtime.proof.signing import make_keys

_AGE: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(s|m|h|d|w)")
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@attrs.frozen(kw_only=True)
class KeyPair:
    """A key pair that was made: *file* is the private key, ``<file>.pub`` the public one, *name* its name."""

    file: str
    name: str


def runs(screen: Screen, *, what: str, older_than: str | None, by: str | None) -> Outcome:
    """Return the runs of the store, or remove old ones."""
    if what == "gc":
        return _gc(screen, older_than, by)
    if older_than is not None:
        raise UsageError("runs: --older-than was given without gc; write runs gc --older-than AGE")
    now = SystemPorts().now_us()
    try:
        with places.reading(screen) as store:
            infos = tuple(store.runs())
            places.tell_of_ends(screen, store, infos)
    except NotFoundError:
        if screen.named:
            raise
        infos = ()
    driven = [i.run for i in infos if i.owner is not None and i.lease_until_us > now and not is_dead(i.owner)]
    return Outcome(Runs(store=screen.store, infos=infos, driven=frozenset(driven), now_us=now))


def _gc(screen: Screen, older_than: str | None, by: str | None) -> Outcome:
    age = age_us(older_than)
    now = SystemPorts().now_us()
    with places.writing(screen) as store:
        found = collect(store, older_than_us=age, now_us=now, by=places.person(by).by)
        infos = tuple(store.runs())
    return Outcome(
        Runs(store=screen.store, infos=infos, driven=frozenset(), now_us=now, collected=tuple(found))
    )


def age_us(text: str | None) -> int:
    """Return an age such as ``30d`` in microseconds.

    Raises:
        UsageError: There is none, or it is of another form.
    """
    found = _AGE.fullmatch(text or "")
    if found is None:
        given = "nothing was given" if text is None else f"{text[:40]!r} was given"
        raise UsageError(f"runs gc: --older-than: {given}; write a number and s, m, h, d or w, such as 30d")
    return round(float(found[1]) * _UNIT_S[found[2]] * 1_000_000)


def key(screen: Screen, *, file: str) -> Outcome:
    """Make a key pair."""
    name = make_keys(file)
    screen.hint(f"sign with {SIGNING_KEY}={Path(file).absolute()}; audit with --key {file}.pub")
    return Outcome(KeyPair(file=file, name=name))


def plain_key(value: KeyPair, screen: Screen) -> Iterator[str]:
    """The key pair that was made."""
    del screen
    yield f"key {value.name}: private in {value.file}, public in {value.file}.pub"


def data_key(value: KeyPair, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/key@1``."""
    del screen
    return {
        "schema": "fsm-agent/key@1",
        "key": value.name,
        "private": value.file,
        "public": f"{value.file}.pub",
    }
