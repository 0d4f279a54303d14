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
    known = _of_this_host(owner)
    return known is not None and not _is_there(*known)


def other_process(owner: str) -> int | None:
    """Return the pid of *owner* if it is another process of this host that is there, running or stopped; else None."""
    known = _of_this_host(owner)
    return known[0] if known is not None and known[0] != os.getpid() and _is_there(*known) else None


def _of_this_host(owner: str) -> tuple[int, str] | None:
    """Return pid and start time of *owner* if it is, or was, a process of this host."""
    parts = owner.rsplit(":", 3)
    if len(parts) != 4 or parts[0] != _host() or not parts[1].isdecimal():
        return None
    return int(parts[1]), parts[2]


def _is_there(pid: int, since: str) -> bool:
    """Whether there is the process that has started then; what cannot be found out counts as being there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    started = _started(pid)
    return started == since or _UNKNOWN in (started, since)


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
