"""Files by the names that people type. One that is written is whole or not there: beside first, then in its place."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fsm_agent.core.errors import ConfigError


def is_there(name: str | Path) -> bool:
    """Whether something is at *name*; at what no file can be called nothing is."""
    return os.path.exists(name)  # noqa: PTH110 - pathlib raises for names that are too long


def is_file(name: str | Path) -> bool:
    """Whether a file is at *name*."""
    return os.path.isfile(name)  # noqa: PTH113 - as above


def is_folder(name: str | Path) -> bool:
    """Whether a directory is at *name*."""
    return os.path.isdir(name)  # noqa: PTH112 - as above


@contextmanager
def whole(what: str, place: str | Path) -> Iterator[BinaryIO]:
    """Give a file to write to; it stands at *place* once all of it is written, and what was there is gone only then.

    Args:
        what: Says in an error what was to be written.
        place: Where.

    Raises:
        ConfigError: It cannot be written there; what was there is as before.
    """
    file = Path(place)
    part = file.parent / f".{file.name}.{os.getpid()}.part"
    try:
        try:
            out = part.open("xb")
        except ValueError as error:  # no path at all, such as one with NUL in it
            raise ConfigError(f"{what} to {place}: {error}; choose a place that can be written") from error
        with out:
            yield out
        part.replace(file)
    except OSError as error:
        found = error.strerror or str(error)
        raise ConfigError(f"{what} to {place}: {found}; choose a place that can be written") from error
    finally:
        with suppress(OSError, ValueError):  # what cannot be written there cannot be taken away either
            part.unlink(missing_ok=True)


def write_whole(what: str, place: str | Path, data: bytes) -> None:
    """Write *data* to *place*, as :func:`whole` does."""
    with whole(what, place) as out:
        out.write(data)
