"""The asynchronous shell around one engine: calls, timers, the inbox, the lease.

Inputs come one at a time, from calls that end, from timers and from people; each is fed to the engine, and what it
returns is carried out. Everything happens on one event loop; nothing here decides anything.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from typing import Protocol

import attrs

from fsm_agent.core.errors import FsmAgentError, RefusedError, StoreError
from fsm_agent.core.inputs import (
    AskPlanner,
    Call,
    Command,
    Input,
    Probe,
    Probed,
    Returned,
    StopCall,
    Tick,
)
from fsm_agent.core.machine import RunState
from fsm_agent.runtime.driving.engine import Engine
from fsm_agent.runtime.driving.inbox import Inbox
from fsm_agent.runtime.driving.letters import refuse_absent
from fsm_agent.runtime.driving.owner import other_process
from fsm_agent.runtime.planning.planner import Planner, ask
from fsm_agent.runtime.secrets.hiding import hidden_proposal
from fsm_agent.runtime.secrets.vault import Vault

FLUSH_S = 0.2
"""Longest time that an event which needs no barrier stays in memory only, in seconds."""
POLL_S = 0.1
"""How often the inbox is looked at, in seconds."""


class CallRunner(Protocol):
    """Whatever carries out calls; :class:`fsm_agent.runtime.driving.calls.Calls` for real tools.

    Attributes:
        vault: The secrets of the run.
    """

    vault: Vault

    def start(self, call: Call) -> None:
        """Start a call; its outcome is reported once."""
        ...

    def probe(self, probe: Probe) -> None:
        """Send a probe; its answer is reported once."""
        ...

    def stop(self, stop: StopCall) -> None:
        """Nobody waits for this call any more."""
        ...

    def running(self, task: str, attempt: int) -> bool:
        """Whether a call of this attempt is still out here."""
        ...


class Driver:
    """Drives an engine on the running event loop."""

    def __init__(self, engine: Engine, *, workers: int, planner: Planner | None = None) -> None:
        """Hold *engine*; nothing starts before :meth:`run_slots` gives it slots."""
        self.engine = engine
        self.workers = workers
        self.failure: BaseException | None = None
        self._planner = planner
        self._calls: CallRunner | None = None
        self._queue: deque[Input] = deque()
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._pumping = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: int | None = None
        self._flusher: asyncio.TimerHandle | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._background: list[asyncio.Task[None]] = []
        self._inbox = Inbox(engine.store, engine.lease)

    def begin(self, calls: CallRunner, commands: list[Command]) -> None:
        """Start working: carry out the first *commands*, watch the inbox, keep the lease."""
        self._calls = calls
        self._carry_out(commands)
        self._background += [
            self._loop.create_task(self._watch_inbox(), name="inbox"),
            self._loop.create_task(self._keep_lease(), name="lease"),
        ]
        self._after()

    async def end(self) -> None:
        """Stop the background work; the engine is closed by its owner."""
        background = list(self._background)
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        self._background.clear()  # they hold the frames in which they were cancelled, and so this driver
        self._still()

    def _still(self) -> None:
        for handle in (self._timer, self._flusher):
            if handle is not None:
                handle.cancel()
        self._timer = self._flusher = None

    def leave(self) -> None:
        """Tell whoever still waits that nothing is driven here any more."""
        self._still()
        if self.failure is None:
            run = self.engine.run.id
            self._fail(RefusedError(f"run {run}: this controller was closed; open the run again to go on"))

    def set_slots(self, slots: int) -> None:
        """Let so many calls be out at once from now on."""
        if self.engine.slots != slots:
            self.engine.slots = slots
            if slots:
                self.report(Tick())

    def report(self, given: Input) -> None:
        """Take an input from a call or a timer; it is handled soon, on the loop."""
        self._queue.append(given)
        if not self._pumping:
            self._pumping = True
            # it may be a tool that reports: what that has set in its own context is none of the next one's
            self._loop.call_soon(self._pump, context=self._context)

    def say(self, word: Input, letter: str | None = None) -> None:
        """Feed a person's word at once; when this returns it is durable.

        Args:
            word: The word.
            letter: Name of the letter that it came in.

        Raises:
            RefusedError: It does not fit; it is logged, and nothing else changed.
            StoreError: It could not be stored, and the run cannot go on here.
            FsmAgentError: It is no word at all; nothing changed.
        """
        self._check()
        if self._calls is not None:
            refuse_absent(self.engine.run, word, self._calls.running)
        try:
            self._carry_out(self.engine.feed(word, letter=letter))
        except StoreError as error:
            self._fail(error)
            raise
        self._after()

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _pump(self) -> None:
        """Handle all that has come in, and wait for the disk once for all of it."""
        self._pumping = False
        commands: list[Command] = []
        try:
            while self._queue and self.failure is None:
                given = self._queue.popleft()
                try:
                    given = given if type(given) is Returned else self._weighed(given)
                    follows = self.engine.feed(given, held=True)
                except RefusedError:
                    continue  # logged by the engine; a tool's stale word changes nothing
                commands += follows
            self.engine.settle()
            self._carry_out(commands)
        except BaseException as error:  # noqa: BLE001 - whoever waits for the run gets it
            self._fail(error)
            return
        self._after()

    def _weighed(self, given: Input) -> Input:
        """A probe's ``absent`` says nothing while the call itself may still be out: here, or in the process that made it.

        That one may have been stopped in the middle of the call, for longer than anybody waits, and go on with it.
        """
        if not isinstance(given, Probed) or given.verdict != "absent" or self._calls is None:
            return given
        run = self.engine.run
        if self._calls.running(given.task, given.attempt):
            where = "the call is still running here"
        elif given.task in run.tasks and (
            maker := other_process(run.owner_at(run.tasks[given.task].started))
        ):
            where = f"process {maker}, which made the call, is still there"
        else:
            return given
        words = f"the probe says absent, but {where} and may yet take effect"
        return attrs.evolve(given, verdict="inconclusive", evidence=words)

    def _carry_out(self, commands: list[Command]) -> None:
        calls = self._calls
        assert calls is not None or not commands, "begin() comes first"
        for command in commands:
            assert calls is not None, "begin() comes first"
            match command:
                case Call():
                    calls.start(command)
                case Probe():
                    calls.probe(command)
                case StopCall():
                    calls.stop(command)
                case AskPlanner():
                    self._ask_planner(command)

    def _ask_planner(self, command: AskPlanner) -> None:
        assert self._planner is not None, "a run without a planner asks none"
        planner, calls = self._planner, self._calls

        async def answered() -> None:
            given = await ask(planner, command.request, command.briefing)
            self.report(given if calls is None else hidden_proposal(given, calls.vault))

        task = self._loop.create_task(answered(), name=f"planner {command.request}")
        self._background.append(task)
        task.add_done_callback(self._background.remove)

    def _after(self) -> None:
        """Set the next timer, have things flushed soon, and wake whoever waits for a change."""
        due = self.engine.next_due()
        if due != self._timer_at or self._timer is None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._timer_at = due
            if due is not None:
                wait = max(0.0, (due - self.engine.ports.now_us()) / 1_000_000)
                self._timer = self._loop.call_later(wait, self._tick)
        if self.resting:
            self._flush(self.engine.rest)
        elif self._flusher is None:
            self._flusher = self._loop.call_later(FLUSH_S, self._flush)
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _tick(self) -> None:
        self._timer = None
        self._timer_at = None
        self.report(Tick())

    def _flush(self, flush: Callable[[], None] | None = None) -> None:
        if self._flusher is not None:
            self._flusher.cancel()
            self._flusher = None
        try:
            (flush or self.engine.flush)()
        except BaseException as error:  # noqa: BLE001 - whoever waits for the run gets it
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)

    @property
    def resting(self) -> bool:
        """Whether the run is final, or nothing can move without a person or evidence."""
        run = self.engine.run
        return self.engine.final or run.state in (RunState.AWAITING, RunState.UNKNOWN)

    @property
    def busy(self) -> bool:
        """Whether inputs wait to be handled."""
        return bool(self._queue)

    async def changed(self) -> None:
        """Wait until something was handled.

        Raises:
            FsmAgentError: The run cannot go on here: the store failed, or another owner took it over.
        """
        self._check()
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter

    async def wait(self, until: Callable[[], bool]) -> None:
        """Wait until *until* holds."""
        self._check()
        while not until():
            await self.changed()

    async def _watch_inbox(self) -> None:
        """Take letters as they come. Whatever ends this ends the run here, so that nobody waits for ever."""
        store = self.engine.store
        seen: int | None = None
        while self.failure is None:
            try:
                now = store.changes()
                if now != seen:
                    self._inbox.empty(self.say)
                    seen = now
            except Exception as error:  # noqa: BLE001 - whoever waits for the run gets it
                self._unless_busy(error)
            await asyncio.sleep(POLL_S)

    def _unless_busy(self, error: Exception) -> None:
        """Fail, unless another process only kept the store locked for too long: that is tried again."""
        if type(error) is not StoreError:
            self._fail(error)

    async def _keep_lease(self) -> None:
        while self.failure is None:
            await asyncio.sleep(self.engine.ttl_us / 3_000_000)
            try:
                self.engine.renew()
            except FsmAgentError as error:
                self._unless_busy(error)
