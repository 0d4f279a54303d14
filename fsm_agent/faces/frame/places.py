"""Where runs are kept: opening the store that was named, for as little as is needed."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from shlex import quote
from typing import Protocol, runtime_checkable

from attrs import evolve

from fsm_agent.core.audit.replay import replay
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import CorruptError, NotFoundError, StoreUnusableError
from fsm_agent.core.events import Head
from fsm_agent.core.inputs import Person, Word
from fsm_agent.faces.frame.screen import Desk, Screen, safe
from fsm_agent.runtime.controller import RunController
from fsm_agent.runtime.driving.owner import is_dead
from fsm_agent.runtime.ports import SystemPorts
from fsm_agent.runtime.proof.heads import Heads
from fsm_agent.stores import open_store
from fsm_agent.stores.base import RunInfo, Store


@runtime_checkable
class OpenDesk(Desk, Protocol):
    """The prompt: its store stays open from one command to the next, and it may drive a run itself."""

    def opened(self, *, create: bool = False) -> Store:
        """Return the store, with everything that happened so far durable.

        Raises:
            NotFoundError: There is none, and none is to be made.
        """
        ...

    def driving(self, run: str) -> RunController | None:
        """Return the controller that drives *run* here, if it is driven here."""
        ...

    def goes_on(self) -> bool:
        """Whether what is driven here goes on by itself, behind the prompt."""
        ...


async def say(screen: Screen, store: Store, run: str, word: Word) -> None:
    """Hand a person's word to whoever drives *run*: the prompt itself, another process, or nobody yet.

    Raises:
        RefusedError: It does not fit the run as it is now.
        OwnedError: The owner did not answer in time; the word stays in the inbox.
    """
    here = screen.desk.driving(run) if isinstance(screen.desk, OpenDesk) else None
    if here is not None:
        await here.say(word)
        return
    async with await RunController.attach(store, run) as controller:
        await controller.say(word)


@contextmanager
def writing(screen: Screen, *, create: bool = False) -> Iterator[Store]:
    """Open the store to add to it, and close it at the end.

    Raises:
        NotFoundError: There is none, and none is to be made.
        StoreUnusableError: It is no store of ours, or may not be written.
    """
    if isinstance(screen.desk, OpenDesk):
        yield screen.desk.opened(create=create)
        return
    store = open_store(screen.store, create=create, anchored=Heads.beside(screen.store).read)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def reading(screen: Screen, run: str | None = None) -> Iterator[Store]:
    """Open the store to look at it, and close it at the end.

    If only *run* is looked at, and its log is not the one whose head is kept, that is said on stderr: what is there
    is shown all the same.

    Raises:
        NotFoundError: There is none, or it has no such run.
        StoreUnusableError: It is no store of ours.
    """
    if isinstance(screen.desk, OpenDesk):
        store = screen.desk.opened()
        _tell_of_end(screen, store, run)
        yield store
        return
    store = open_store(screen.store, read_only=True, create=False)
    try:
        _tell_of_end(screen, store, run)
        yield store
    finally:
        store.close()


def _tell_of_end(screen: Screen, store: Store, run: str | None) -> None:
    """Say so if the log of *run* does not lead to its kept head, or nobody can tell."""
    if run is None:
        return
    store.head(run)  # what cannot be read at all ends the command
    try:
        Heads.beside(store.location).check(store, run)
    except (CorruptError, StoreUnusableError) as error:
        audit = screen.command(f"fsm-agent audit {quote(run)}")
        screen.complain(
            f"{error.code} {safe(str(error))}; what is there is shown, and {audit} says what it proves"
        )


def tell_of_ends(screen: Screen, store: Store, infos: Iterable[RunInfo]) -> None:
    """Say which of the listed runs end before their kept heads, one line for each."""
    heads = Heads.beside(store.location)
    try:
        for info, kept in heads.behind(infos):
            screen.complain(
                f"E-CORRUPT log of {safe(info.run)}: it ends at event {info.head.seq}, but the head kept in {heads.place} is "
                f"event {kept}; restore the newer file, or look first: {screen.command(f'fsm-agent audit {quote(info.run)}')}"
            )
    except (CorruptError, StoreUnusableError) as error:
        screen.complain(f"{error.code} {safe(str(error))}")


@contextmanager
def following(screen: Screen, run: str) -> Iterator[Store]:
    """Open the store to look on while others add to *run*, and close it at the end.

    If its log is not the one whose head is kept, that is said as :func:`reading` says it. A SQLite file that nobody has
    open is read as one that stands still, so whoever only reads it would never see what others begin to add; a file that
    may not be written stands still anyway.

    Raises:
        NotFoundError: There is none, or it has no such run.
        StoreUnusableError: It is no store of ours.
    """
    if isinstance(screen.desk, OpenDesk):
        store = screen.desk.opened()
        _tell_of_end(screen, store, run)
        yield store
        return
    try:
        store = open_store(screen.store, create=False, anchored=Heads.beside(screen.store).read)
    except StoreUnusableError:
        store = open_store(screen.store, read_only=True, create=False)
    try:
        _tell_of_end(screen, store, run)
        yield store
    finally:
        store.close()


def keep_head(screen: Screen, store: Store, run: str) -> None:
    """Keep beside the store where the log of *run* ends, so that a cut tail will show.

    Raises:
        CorruptError: The head that was kept stands further on: the log has lost its end.
    """
    heads = Heads.beside(store.location)
    heads.keep(store, run, store.head(run))
    if heads.fault:
        screen.complain(heads.fault)


def look(store: Store, run: str, *, at: int | None = None) -> tuple[Run, Head]:
    """Return a run as its log tells it, and where the log ends.

    Args:
        store: Has the log.
        run: The run.
        at: The last event that is looked at; None for all.

    Raises:
        NotFoundError: No such run, or no such event.
        CorruptError: The log is not what was written.
    """
    head = store.head(run)
    if at is not None:
        record = next(iter(store.read(run, since=at - 1, until=at)), None)
        if record is None:
            raise NotFoundError(f"event {at}: the log of {run} ends at {head.seq}")
        head = Head(record.seq, record.hash)
    return replay(run, store.read(run, until=head.seq), store.blob), head


def is_driven(store: Store, run: str) -> bool:
    """Whether a living owner holds *run*, as far as can be told."""
    info = store.info(run)
    return info.owner is not None and info.lease_until_us > SystemPorts().now_us() and not is_dead(info.owner)


def goes_on(screen: Screen, store: Store, run: str) -> bool:
    """Whether *run* goes on by itself after a word: somebody drives it, and it does not wait at a prompt here."""
    if isinstance(screen.desk, OpenDesk) and screen.desk.driving(run) is not None:
        return screen.desk.goes_on()
    return is_driven(store, run)


def person(by: str | None, note: str = "") -> Person:
    """Return who speaks: *by*, or who is set, or the login name."""
    by = by or os.environ.get("FSM_AGENT_BY")
    if not by:
        import getpass

        try:
            by = getpass.getuser()
        except (OSError, KeyError, ImportError):
            by = "someone without a login name"
    return Person(by=by, channel="cli", note=note)


def speaker(screen: Screen, by: str | None, note: str = "") -> Person:
    """Return who speaks here: as :func:`person`, from the command line or from the prompt."""
    return evolve(person(by, note), channel="repl") if screen.desk is not None else person(by, note)
