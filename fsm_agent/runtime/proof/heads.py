"""Heads outside the file: where each log ends is kept beside the store, because a cut tail does not show in a chain.

One home for everybody who opens a run. A head is kept only after everything up to it is durable, so a kept head
that the log does not reach means that the log has lost its end; what holds such a log refuses to go on.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

import attrs
import orjson

from fsm_agent.core.errors import CorruptError, StoreError
from fsm_agent.core.events import Head
from fsm_agent.stores.anchors import read_anchor, write_anchor
from fsm_agent.stores.base import RunInfo, Store

ENV: Final = "FSM_AGENT_ANCHORS"
"""Names a directory of one's own for heads (another disk, another owner), one per store."""
SUFFIX: Final = ".heads"
"""What follows the store's name in the name of the file that keeps the heads of its runs."""
SIGNING_KEY: Final = "FSM_AGENT_SIGNING_KEY"
"""Names the file of the private key that heads are signed with."""


def place_of(location: str) -> str | None:
    """Return where the heads of the store at *location* are kept; None for a store that no file holds."""
    if location.startswith(":"):
        return None
    own = os.environ.get(ENV)
    return f"{os.path.realpath(own)}/" if own else os.path.realpath(location) + SUFFIX


class Signer(Protocol):
    """Puts its name to heads."""

    def sign(self, run: str, head: Head) -> None:
        """Keep a signature of *head*, durably."""
        ...


def signer_for(location: str, key: str | os.PathLike[str] | None = None) -> Signer | None:
    """Return who signs the heads of the store at *location*: *key*, else the environment's; None for nobody.

    Raises:
        ConfigError: There is no such key, or the extra ``sign`` is not installed.
    """
    file = key if key is not None else os.environ.get(SIGNING_KEY)
    if not file:
        return None
    from fsm_agent.runtime.proof import signing  # only who signs needs it

    place = signing.place_of(location)
    return signing.KeySigner(file, place) if place is not None else None


@attrs.define(eq=False)
class Heads:
    """The heads of one store.

    Attributes:
        place: A file, or a directory (ends in ``/``); None keeps nothing.
        signer: Signs every head that is kept; None: nobody does.
        fault: Why the last head could not be kept; empty if it was.
    """

    place: str | None
    signer: Signer | None = None
    fault: str = ""

    @classmethod
    def beside(cls, location: str, *, signer: Signer | None = None) -> "Heads":
        """Return the heads that belong to the store at *location*."""
        return cls(place_of(location), signer)

    def read(self, run: str) -> Head | None:
        """Return the kept head of *run*, if there is one.

        Raises:
            CorruptError: What is kept there are no heads.
        """
        return None if self.place is None else read_anchor(self.place, run)

    def keep(self, store: Store, run: str, head: Head) -> None:
        """Keep *head*, up to which the log of *run* is durable. A head that stands further on in the log stays.

        A place that cannot be written stops nobody's work: :attr:`fault` says so.

        Raises:
            CorruptError: The kept head stands where the log does not lead.
        """
        try:
            if self.place is not None:
                write_anchor(self.place, run, head)
            if self.signer is not None:
                self.signer.sign(run, head)
            self.fault = ""
        except CorruptError:
            kept = self.read(run)
            if kept is None or not _leads_to(store, run, kept):
                raise
        except StoreError as error:
            self.fault = str(error)

    def check_absent(self, run: str) -> None:
        """Refuse to begin *run* anew where its head says that it was begun, although the store has no event of it.

        Raises:
            CorruptError: A head is kept; names its seq.
        """
        kept = self.read(run)
        if kept is not None:
            raise CorruptError(
                f"run {run}: the store has no event of it, but the head kept in {self.place} is event {kept.seq}; "
                "its log was lost: restore a backup, choose another id, or take that head away if it may be forgotten",
                seq=1,
            )

    def check(self, store: Store, run: str) -> None:
        """Refuse the log of *run* if the kept head is not where it leads to.

        Raises:
            CorruptError: It ends before that head, or another event stands in its place; names both seqs.
        """
        kept = self.read(run)
        if kept is None or _leads_to(store, run, kept):
            return
        seq = store.head(run).seq
        if seq >= kept.seq:
            raise CorruptError(
                f"log of {run}: another event {kept.seq} was there when its head was kept in {self.place}; "
                "the log was rewritten: restore a backup",
                seq=kept.seq,
            )
        raise CorruptError(
            f"log of {run}: it ends at event {seq}, but the head kept in {self.place} is event {kept.seq}; "
            "its end was cut off, or an older file was put back: restore the newer one, or take that head away if you "
            "mean to go on without it",
            seq=seq + 1,
        )

    def behind(self, infos: Iterable[RunInfo]) -> Iterator[tuple[RunInfo, int]]:
        """Yield the listed runs that end before their kept head, each with the seq of that head.

        The file is read once, however many runs there are; what stands in the middle of a log is not looked at.

        Raises:
            CorruptError: What is kept there are no heads.
            StoreUnusableError: They cannot be read.
        """
        if self.place is None:
            return
        listed = list(infos)
        try:
            lines = map(orjson.loads, Path(self.place).read_bytes().splitlines())
            kept = {line["run"]: int(line["seq"]) for line in lines}
        except (OSError, ValueError, KeyError, TypeError):  # a directory of heads, or what reading one says
            heads = ((info.run, self.read(info.run)) for info in listed)
            kept = {run: head.seq for run, head in heads if head is not None}
        for info in listed:
            if kept.get(info.run, 0) > info.head.seq:
                yield info, kept[info.run]


def _leads_to(store: Store, run: str, kept: Head) -> bool:
    """Whether the log has the event of *kept* in its place."""
    found = next(iter(store.read(run, since=kept.seq - 1, until=kept.seq)), None)
    return found is not None and found.hash == kept.hash


NOWHERE: Final = Heads(None)
"""Keeps nothing."""
