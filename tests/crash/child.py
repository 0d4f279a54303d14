"""A process that drives the rig's run in a real store, and whose effects outlive it: ``python -m tests.crash.child``.

What it did stands in a mapped file, so that no system call of the ledger is taken for one of the store.
"""

import mmap
import resource
import signal
import sys
from pathlib import Path

from fsm_agent.core.errors import StoreError
from fsm_agent.runtime.proof.heads import Heads, signer_for
from fsm_agent.stores import open_store
from fsm_agent.testing.clock import FakeClock
from tests.crash.rig import Life, World

LEDGER_BYTES = 4096


def open_ledger(path):
    """Return the list of effects that *path* holds, which writes through to it."""
    if not path.exists():
        path.write_bytes(bytes(LEDGER_BYTES))
    with path.open("r+b") as file:
        return Ledger(mmap.mmap(file.fileno(), LEDGER_BYTES))


class Ledger(list):
    """Effects as (tool, key), kept in memory that the system writes even if the process is killed."""

    def __init__(self, memory):
        self._memory = memory
        text = memory[:].rstrip(b"\0").decode()
        super().__init__(tuple(line.split()) for line in text.splitlines())

    def append(self, effect):
        line = " ".join(effect).encode() + b"\n"
        at = len(self._memory[:].rstrip(b"\0"))
        self._memory[at : at + len(line)] = line
        super().append(effect)


def live(location, ledger, *, owner="child", story="reply lost"):
    """Drive the run to its end from wherever it stands; return it, its world, and its head.

    Its heads are kept beside the store, and signed if the environment names a key.
    """
    world = World(story, effects=open_ledger(Path(ledger)))
    world.calls["pay"] = sum(name == "pay" for name, _ in world.effects)
    heads = Heads.beside(str(location), signer=signer_for(str(location)))
    store = open_store(location, anchored=heads.read)
    try:
        run = Life(world, FakeClock(), store, owner=owner, heads=heads).live()
        return run, world, store.head("r")
    finally:
        store.close()


if __name__ == "__main__":
    place, ledger, limit = sys.argv[1:]
    if int(limit):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
    try:
        live(place, ledger)
    except StoreError as error:
        print(type(error).__name__, error)
        sys.exit(3)
