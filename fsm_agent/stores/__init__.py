"""Where logs are kept: one port (:mod:`fsm_agent.stores.base`), three stores, one way to open them.

A location says which store it is:

========================================================  ==========================================
``None`` or ``":memory:"``                                 memory; gone when the process ends
a name that ends in ``.jsonl`` or ``/``, or a directory    JSONL; a directory with one file per run
that holds such a store
anything else                                              SQLite; one file for all runs
========================================================  ==========================================
"""

import os
from collections.abc import Callable

from fsm_agent.core.errors import NotFoundError, StoreUnusableError
from fsm_agent.core.events import Head
from fsm_agent.stores.base import Store
from fsm_agent.stores.files import JSONL_MARK

__all__ = ["JSONL_MARK", "MEMORY", "open_store"]

MEMORY = ":memory:"
"""The location of a store in memory."""


def open_store(
    location: str | os.PathLike[str] | None,
    *,
    read_only: bool = False,
    create: bool = True,
    anchored: Callable[[str], Head | None] | None = None,
) -> Store:
    """Open the store at *location*, or make one there.

    Args:
        location: See the module's table.
        read_only: Change nothing; every change is refused.
        create: Make the store, and the directories above it, if it does not exist.
        anchored: Returns the head of a run as it is known outside the store, or None. A store that has to cut a
            torn tail does not cut below it.

    Raises:
        NotFoundError: There is no store and it may not be made.
        StoreUnusableError: What is there is no store of ours, is newer than this program, or cannot be used.
        CorruptError: What is there is a store of ours, and damaged.
    """
    if location is None or os.fspath(location) == MEMORY:
        if read_only:
            raise NotFoundError("store :memory:: nothing is there yet to be read; open it for writing")
        from fsm_agent.stores.memory import MemoryStore

        return MemoryStore()
    text = os.fspath(location)
    if "://" in text:
        raise StoreUnusableError(f"store {text}: it is a URL; give the path of a file, such as runs.db")
    if text.endswith((".jsonl", "/", os.sep)) or os.path.exists(  # noqa: PTH110 - pathlib raises for names that no file can have
        os.path.join(text, JSONL_MARK)  # noqa: PTH118
    ):
        from fsm_agent.stores.jsonl import JsonlStore

        return JsonlStore(text, read_only=read_only, create=create, anchored=anchored)
    from fsm_agent.stores.sqlite import SqliteStore

    return SqliteStore(text, read_only=read_only, create=create)
