"""A file that is written is whole or not there: beside first, then in its place."""

import os
from pathlib import Path

from fsm_agent.core.errors import ConfigError


def write_whole(what: str, place: str, data: bytes) -> None:
    """Write *data* to *place*; *what* says in an error what was to be written.

    Raises:
        ConfigError: It cannot be written there; what was there is as before.
    """
    file = Path(place)
    part = file.parent / f".{file.name}.{os.getpid()}.part"
    try:
        with part.open("xb") as out:
            out.write(data)
        part.replace(file)
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{what} to {place}: {found}; choose a place that can be written") from error
    finally:
        part.unlink(missing_ok=True)
