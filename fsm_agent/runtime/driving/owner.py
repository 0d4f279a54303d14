"""Who owns a run: a name that tells whether its process is still alive.

``host:pid:start:random``; *start* is the process's start time, so that a reused pid is not taken for the owner. In a
container *host* names its table of processes too: another one on the same host, with the same name, sees none of them.
"""

import os
import secrets
import socket
from pathlib import Path
from typing import Final

_OWN_TABLE: Final = 0xEFFFFFFC
"""How Linux numbers the process table of the host itself."""
_UNKNOWN: Final = "?"


def owner_name() -> str:
    """Return a name for this process's hold on a run, new each time."""
    pid = os.getpid()
    return f"{_host()}:{pid}:{_started(pid)}:{secrets.token_hex(4)}"


def is_dead(owner: str) -> bool:
    """Whether *owner* is known to be dead: a process of this host that is gone. Unknown owners count as alive."""
    parts = owner.rsplit(":", 3)
    if len(parts) != 4 or parts[0] != _host() or not parts[1].isdigit():
        return False
    pid = int(parts[1])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    started = _started(pid)
    return started != parts[2] and _UNKNOWN not in (started, parts[2])


def _host() -> str:
    """Return the host's name, and which table of processes this one is in unless it is the host's own."""
    try:
        table = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        table = _OWN_TABLE
    name = socket.gethostname()
    return name if table == _OWN_TABLE else f"{name}/{table}"


def _started(pid: int) -> str:
    """Return the start time of a process in clock ticks since boot; ``0`` if it is gone, or where no system says it.

    What cannot be found out now, for want of file descriptors say, is not known: nobody is taken for dead by that.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "0"
    except OSError:
        return _UNKNOWN
    fields = stat.rpartition(")")[2].split()
    return "0" if fields[0] == "Z" else fields[19]
