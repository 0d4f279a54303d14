"""Where runs are kept, and the heads beside them: opening the store that was named, for as little as is needed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fsm_agent.core.errors import StoreError
from fsm_agent.core.events import Head
from fsm_agent.core.inputs import Person
from fsm_agent.core.replay import replay
from fsm_agent.core.state import Run
from fsm_agent.faces.screen import Screen
from fsm_agent.runtime.owner import is_dead
from fsm_agent.runtime.ports import SystemPorts
from fsm_agent.stores import MEMORY, open_store
from fsm_agent.stores.anchors import read_anchor, write_anchor
from fsm_agent.stores.base import Store

HEADS: Final = ".heads"
"""What follows the store's name in the name of the file that keeps the heads of its runs."""


def heads_file(store: str) -> str | None:
    """Return the file that keeps where the logs of *store* end; None for a store in memory."""
    return None if store == MEMORY else store.rstrip("/") + HEADS


@contextmanager
def writing(screen: Screen, *, create: bool = False) -> Iterator[Store]:
    """Open the store to add to it, and close it at the end.

    Raises:
        NotFoundError: There is none, and none is to be made.
        StoreUnusableError: It is no store of ours, or may not be written.
    """
    place = heads_file(screen.store)
    store = open_store(
        screen.store,
        create=create,
        anchored=None if place is None else lambda run: read_anchor(place, run),
    )
    try:
        yield store
    finally:
        store.close()


@contextmanager
def reading(screen: Screen) -> Iterator[Store]:
    """Open the store to look at it, and close it at the end.

    Raises:
        NotFoundError: There is none.
        StoreUnusableError: It is no store of ours.
    """
    store = open_store(screen.store, read_only=True, create=False)
    try:
        yield store
    finally:
        store.close()


def keep_head(screen: Screen, store: Store, run: str) -> None:
    """Keep beside the store where the log of *run* ends, so that a cut tail will show.

    Raises:
        CorruptError: The head that was kept stands further on: the log has lost its end.
    """
    place = heads_file(screen.store)
    if place is None:
        return
    try:
        write_anchor(place, run, store.head(run))
    except StoreError as error:
        if error.exit_code == 7:
            raise
        screen.complain(f"{error.code} {error}")


def kept_head(screen: Screen, run: str) -> Head | None:
    """Return the head of *run* that is kept beside the store, if there is one."""
    place = heads_file(screen.store)
    return None if place is None else read_anchor(place, run)


def look(store: Store, run: str) -> tuple[Run, Head]:
    """Return a run as its log tells it, and where the log ends.

    Raises:
        NotFoundError: No such run.
        CorruptError: The log is not what was written.
    """
    head = store.head(run)
    return replay(run, store.read(run, until=head.seq), store.blob), head


def is_driven(store: Store, run: str) -> bool:
    """Whether a living owner holds *run*, as far as can be told."""
    info = store.info(run)
    return info.owner is not None and info.lease_until_us > SystemPorts().now_us() and not is_dead(info.owner)


def person(by: str | None, note: str = "") -> Person:
    """Return who speaks: *by*, or the login name."""
    if by is None:
        import getpass

        try:
            by = getpass.getuser()
        except (OSError, KeyError, ImportError):
            by = "someone without a login name"
    return Person(by=by, channel="cli", note=note)
