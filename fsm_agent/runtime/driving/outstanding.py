"""Calls and probes that are out in this process, also those of a controller that was closed, or has lost the run.

A thread cannot be ended, and an async tool may refuse to be. Whoever owns the run in this process after that has to
know of such a call: its effect may still come, so whoever says that there is none is not believed.
"""

import asyncio
import threading
from typing import Final
from weakref import WeakSet

import attrs

from fsm_agent.core.inputs import NO_USAGE, Probe, Usage
from fsm_agent.core.signals import Effect
from fsm_agent.core.tools import ToolSpec
from fsm_agent.runtime.tools.context import CallContext
from fsm_agent.runtime.tools.signature import Callee

_READ: Final = Effect.READ
Attempt = tuple[str, str, int]
"""Run, task, number of the attempt."""


@attrs.define(eq=False)
class OpenCall:
    """A call or probe that runs here.

    Attributes:
        probe: The command it answers if it is a probe; else it is a call.
        lookup: Whether it only looks (a registered probe): it can have no effect.
        deadline_at: Until when somebody waits for it, UTC epoch in microseconds.
        context: What the tool was handed; None if it takes none.
        started_us: When it began, UTC epoch in microseconds; 0 before that.
        given_up: Whether nobody waits for it.
        cut: Whether we cancelled it.
        reported: Whether what was owed to the core has been reported.
        over: Whether the tool has returned; set where it ran, also when nobody is there to be told.
    """

    run: str
    spec: ToolSpec
    callee: Callee
    task: str
    attempt: int
    deadline_at: int
    context: CallContext | None = None
    started_us: int = 0
    probe: Probe | None = None
    lookup: bool = False
    given_up: bool = False
    cut: bool = False
    reported: bool = False
    over: bool = False
    handle: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None

    def may_be(self, attempt: Attempt) -> bool:
        """Whether it may be the call of *attempt*: it does not only look what became of that."""
        return (self.run, self.task, self.attempt) == attempt and not self.lookup

    @property
    def runs_on(self) -> bool:
        """Whether the tool has not returned, and still can: what was to go on in a loop that is closed never will."""
        return not self.over and (self.handle is None or not self.handle.get_loop().is_closed())

    def take_usage(self) -> Usage:
        """Return what was spent and not yet reported."""
        return NO_USAGE if self.context is None else self.context.take_usage()

    @property
    def probe_name(self) -> str:
        """What to call it where it is spoken of."""
        return f"the probe of {self.spec.name}" if self.lookup else f"the repetition of {self.spec.name}"


_out: WeakSet[OpenCall] = WeakSet()
_lock = threading.Lock()


def goes_out(call: OpenCall) -> None:
    """Know of *call* from now on; it is about to be made. What reads, or only looks what became of a call, has no effect."""
    if call.spec.effect is not _READ and not call.lookup:
        with _lock:
            _out.add(call)


def is_back(call: OpenCall) -> None:
    """Forget *call*: it has ended, and its controller knows."""
    if call.spec.effect is not _READ and not call.lookup:
        with _lock:
            _out.discard(call)


def is_out(attempt: Attempt) -> bool:
    """Return whether a call of *attempt* runs in this process, whoever made it, and whoever owns the run by now."""
    with _lock:
        return any(one.runs_on and one.may_be(attempt) for one in _out)
