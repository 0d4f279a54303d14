"""Runs one call or probe at a time as the core commands, and reports how each ended: once, from the loop's thread.

Deadlines belong to the core: it says when nobody waits any more (:class:`StopCall`), and a call may still end after
that. Only a probe's deadline is kept here. What a tool raises never reaches the loop, SystemExit and the like
included; only a cancellation from outside does.
"""

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Any, Self

import attrs

from fsm_agent.core.classification.classify import Classifier, describe
from fsm_agent.core.errors import RefusedError, ToolboxError
from fsm_agent.core.inputs import (
    NO_USAGE,
    Call,
    Input,
    Probe,
    Probed,
    Progressed,
    Returned,
    StopCall,
)
from fsm_agent.core.signals import Effect, Signal
from fsm_agent.core.tools import ToolSpec, argument_faults
from fsm_agent.runtime.driving.outstanding import OpenCall, goes_out, is_back, is_out
from fsm_agent.runtime.secrets.vault import Vault
from fsm_agent.runtime.tools.context import CallContext
from fsm_agent.runtime.tools.endings import (
    Cut,
    Ending,
    Judge,
    NotCalled,
    Value,
    Verdict,
    read_error,
    read_finding,
    read_value,
)
from fsm_agent.runtime.tools.signature import Callee
from fsm_agent.runtime.tools.threads import Threads
from fsm_agent.runtime.tools.toolbox import Toolbox

MAX_ABANDONED = 100
"""How many threads may run on past their deadline before further sync calls are refused."""
GRACE_S = 1.0
"""How long the end of the run waits for cancelled async calls, in seconds."""


class Calls:
    """The calls of one run. An async context manager; entering it enters the toolbox's lifespan.

    Args:
        report: Takes every input; called on the loop, from within :meth:`start` only if tasks begin while they are made.
        clock_us: UTC epoch in microseconds; called from any thread.
        max_abandoned: How many threads may run on past their deadline before sync calls are refused.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        classifier: Classifier,
        *,
        run_id: str,
        vault: Vault,
        report: Callable[[Input], None],
        clock_us: Callable[[], int],
        max_abandoned: int = MAX_ABANDONED,
    ) -> None:
        self._toolbox = toolbox
        self._judge = Judge(classifier, vault)
        self.vault = vault
        self._run_id = run_id
        self._report = report
        self._clock_us = clock_us
        self._max_abandoned = max_abandoned
        self._threads = Threads(f"fsm-agent {run_id}")
        self._open: set[OpenCall] = set()
        self._abandoned = 0
        self._stack = AsyncExitStack()
        self._lifespan: Any = None
        self._closed = True

    async def __aenter__(self) -> Self:
        """Enter the lifespan.

        Raises:
            ToolboxError: It failed.
        """
        self._loop = asyncio.get_running_loop()
        try:
            lifespan = self._toolbox.open_lifespan()
            if lifespan is not None:
                self._lifespan = await self._stack.enter_async_context(lifespan)
        except (Exception, SystemExit) as error:
            raise self._lifespan_error("entering", error) from error
        self._closed = False
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel async calls that still run, abandon threads, leave the lifespan. Nothing is reported after it.

        Raises:
            ToolboxError: Leaving the lifespan failed.
        """
        handles = [one.handle for one in self._open if one.handle is not None]
        for one in tuple(self._open):
            self._give_up(one, cut_off=True)
        try:
            if handles:
                await asyncio.wait(handles, timeout=GRACE_S)
            await asyncio.sleep(0)  # what has just ended is reported in this turn of the loop
        finally:
            self._closed = True
            self._report = _unheard  # so that nothing here holds whoever listened
            self._threads.close()
            for one in self._open:
                if one.timer is not None:
                    one.timer.cancel()
            try:
                await self._stack.__aexit__(kind, error, trace)
            except (Exception, SystemExit) as failed:
                raise self._lifespan_error("leaving", failed) from failed

    def _lifespan_error(self, doing: str, error: BaseException) -> ToolboxError:
        facts = describe(error)
        words = self._judge.words(f"{type(error).__name__}: {facts.message}")
        return ToolboxError(f"toolbox lifespan: {doing} it raised {words}; repair the lifespan")

    @property
    def open_calls(self) -> int:
        """How many calls and probes run here that somebody waits for."""
        return sum(not one.given_up for one in self._open)

    @property
    def abandoned_threads(self) -> int:
        """How many threads run on though nobody waits for them."""
        return self._abandoned

    def running(self, task: str, attempt: int) -> bool:
        """Return whether a call of this attempt still runs in this process, waited for or not: its effect may still come."""
        this = (self._run_id, task, attempt)
        return any(one.may_be(this) for one in self._open) or is_out(this)

    def start(self, call: Call) -> None:
        """Start a tool call. Its end is reported as :class:`Returned`, its reports as :class:`Progressed`."""
        try:
            tool = self._toolbox.tool(call.tool)
        except ToolboxError:
            spec = ToolSpec(name=call.tool, effect=Effect.READ)
            words = f"tool {call.tool!r} is not in the toolbox; there are: {', '.join(s.name for s in self._toolbox.specs) or 'none'}"
            self._refuse(call, spec, Signal.UNDECLARED_TOOL, "E-TOOLS", words)
            return
        one = self._new(tool.spec, tool.callee, call)
        fault = self._launch(one, call.args)
        if fault is not None:
            self._refuse(call, tool.spec, *fault)

    def _refuse(self, call: Call, spec: ToolSpec, signal: Signal, code: str, words: str) -> None:
        outcome = self._judge.error(spec, signal, code, words)
        self._loop.call_soon(self._tell, Returned(task=call.task, attempt=call.attempt, outcome=outcome))

    def probe(self, probe: Probe) -> None:
        """Find out whether an effect happened. The answer is reported as :class:`Probed`, by its deadline.

        With ``repeat`` the call itself is made again. It is not cut off at the deadline, and if it returns a value
        after that, the value is reported as the call's own, as :class:`Returned`.
        """
        fault = f"tool {probe.tool!r} is not in the toolbox"
        if probe.tool in self._toolbox:
            tool = self._toolbox.tool(probe.tool)
            callee = tool.callee if probe.repeat else tool.probe
            fault = f"tool {probe.tool!r} has no probe"
            if callee is not None:
                one = self._new(tool.spec, callee, probe)
                one.probe, one.lookup = probe, not probe.repeat
                refused = self._launch(one, probe.args)
                if refused is None:
                    wait_us = max(0, probe.deadline_at - self._clock_us())
                    one.timer = self._loop.call_later(wait_us / 1_000_000, self._probe_late, one)
                    return
                fault = refused[2]
        verdict = Verdict(verdict="inconclusive", evidence=f"no probe was made: {fault}")
        self._loop.call_soon(self._tell, _probed(probe, verdict))

    def _new(self, spec: ToolSpec, callee: Callee, command: Call | Probe) -> OpenCall:
        one = OpenCall(self._run_id, spec, callee, command.task, command.attempt, command.deadline_at)
        if callee.context is not None:
            one.context = CallContext(
                idempotency_key=command.key,
                task=command.task,
                attempt=command.attempt,
                run=self._run_id,
                deadline_at=command.deadline_at,
                lifespan=self._lifespan,
                on_progress=lambda advanced, note: self._post(self._progressed, one, advanced, note),
            )
        return one

    def _launch(self, one: OpenCall, args: Mapping[str, Any]) -> tuple[Signal, str, str] | None:
        """Start it; or return why it cannot be started: signal, code, words."""
        callee, spec = one.callee, one.spec
        try:
            kwargs = self.vault.reveal(spec, args)
        except RefusedError as refused:
            return Signal.AUTH_DENIED, refused.code, str(refused)
        faults = [] if spec.takes(kwargs) else argument_faults(spec, kwargs)
        if callee.context is not None and callee.context in kwargs:
            faults.append(
                f"{spec.name}: argument {callee.context!r} is the name of its context; use another name"
            )
        if faults:
            return Signal.BAD_REQUEST, "E-ARGUMENTS", "; ".join(faults)
        if callee.context is not None:
            kwargs[callee.context] = one.context
        if callee.is_async:
            goes_out(one)
            self._open.add(one)  # a loop may let tasks begin, and end, while they are made
            name = f"{spec.name} of {one.task}, attempt {one.attempt}"
            untold = partial(self._untold, one)
            one.handle = self._loop.create_task(self._drive(one, kwargs, untold), name=name)
            if not one.over:
                one.handle.add_done_callback(untold)
        elif self._abandoned >= self._max_abandoned:
            words = (
                f"{self._abandoned} threads run on past their deadline, which is the limit; "
                "the tool was not called: give its own calls time-outs, or restart the process"
            )
            return Signal.TRANSIENT_ERROR, "E-THREADS", words
        else:
            context = contextvars.copy_context()
            goes_out(one)
            try:
                self._threads.run(lambda: context.run(self._work, one, kwargs))
            except RuntimeError as error:
                is_back(one)
                return (
                    Signal.TRANSIENT_ERROR,
                    "E-THREADS",
                    f"no thread could be started ({error}); the tool was not called",
                )
            self._open.add(one)
        return None

    def stop(self, stop: StopCall) -> None:
        """Nobody waits for this call any more; if it has ended meanwhile, nothing happens.

        With ``cut_off`` an async call is cancelled, and a thread is told so through its context. Whatever still
        comes is reported as :class:`Returned`; a call that ends by our cancellation says nothing more, unless it
        has spent something.
        """
        for one in tuple(self._open):
            if one.task == stop.task and one.attempt == stop.attempt and one.probe is None:
                self._give_up(one, cut_off=stop.cut_off)

    def _give_up(self, one: OpenCall, *, cut_off: bool) -> None:
        if not one.given_up:
            one.given_up = True
            self._abandoned += not one.callee.is_async
        if cut_off:
            if one.context is not None:
                one.context.cancel()
            if one.handle is not None:
                one.cut = True
                one.handle.cancel()

    # ── where the tool runs ───────────────────────────────────────────────────────────────────────────────────

    def _begin(self, one: OpenCall) -> NotCalled | None:
        """Say so if its time was over before it began: a process that was stopped and wakes up has no effect.

        Others wait for its deadline before they look whether the effect is there.
        """
        one.started_us = self._clock_us()
        if one.probe is not None or one.started_us < one.deadline_at:
            return None
        return NotCalled(
            "its deadline had passed before it began (this process stood still); it was not called"
        )

    async def _drive(
        self, one: OpenCall, kwargs: Mapping[str, Any], untold: Callable[[asyncio.Task[None]], None]
    ) -> None:
        """Await an async tool and tell how it ended; only a cancellation from outside leaves as an exception."""
        ending: Ending | None
        task = asyncio.current_task(self._loop)
        if task is not None and task is one.handle:
            # from here on it tells of its end itself: a callback of its task takes a turn of the loop
            task.remove_done_callback(untold)
        try:
            ending = self._begin(one)
            if ending is None:
                value = await one.callee.fn(**kwargs)
                ending = read_finding(value) if one.lookup else read_value(value)
        except BaseException as error:  # a tool ends neither the loop nor the process
            task = asyncio.current_task(self._loop)
            if one.handle is not None and task is not one.handle:
                raise  # the loop is gone, and this coroutine is only thrown away
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                self._over(one, Cut() if one.cut else read_error(error, self._clock_us))
                raise
            ending = read_error(error, self._clock_us)
        self._over(one, ending)

    def _untold(self, one: OpenCall, task: asyncio.Task[None]) -> None:
        """The task has ended; tell of it if the call did not: cancelled before its first turn, or in another's hands."""
        if not one.over:
            error = None if task.cancelled() else task.exception()
            said = read_error(error or asyncio.CancelledError(), self._clock_us)
            self._over(one, Cut() if one.cut else said)

    def _over(self, one: OpenCall, ending: Ending) -> None:
        """An async tool has ended."""
        one.over = True
        if one.context is None:
            self._ended(one, ending, self._clock_us())
        else:  # behind what it has reported on the way
            self._loop.call_soon(self._ended, one, ending, self._clock_us())

    def _work(self, one: OpenCall, kwargs: Mapping[str, Any]) -> None:
        """Run a sync tool, in a thread."""
        ending: Ending | None = self._begin(one)
        try:
            if ending is None:
                value = one.callee.fn(**kwargs)
                ending = read_finding(value) if one.lookup else read_value(value)
                del value
        except BaseException as error:  # noqa: BLE001  (a tool ends neither the thread nor the process)
            ending = read_error(error, self._clock_us)
        one.over = True
        self._post(self._ended, one, ending, self._clock_us())

    def _post(self, step: Callable[..., None], *args: Any) -> None:
        """Run *step* on the loop, in order, from whatever thread; after the loop's end nobody is there to hear."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(step, *args)

    # ── on the loop ───────────────────────────────────────────────────────────────────────────────────────────

    def _tell(self, given: Input) -> None:
        if not self._closed:
            self._report(given)

    def _progressed(self, one: OpenCall, advanced: bool, note: str) -> None:
        """Pass a report on, with what was spent since the last one. Nobody hears those of a probe."""
        if one.given_up or one.probe is not None or one not in self._open:
            return
        self._tell(
            Progressed(
                task=one.task,
                attempt=one.attempt,
                advanced=advanced,
                note=self._judge.words(note),
                usage=one.take_usage(),
            )
        )

    def _ended(self, one: OpenCall, ending: Ending, at_us: int) -> None:
        self._open.discard(one)
        is_back(one)
        if one.given_up and not one.callee.is_async:
            self._abandoned -= 1
        if one.timer is not None:
            one.timer.cancel()
        usage = one.take_usage()
        duration_us = max(0, at_us - one.started_us) if one.started_us else 0
        if one.probe is None:
            if isinstance(ending, Cut) and usage == NO_USAGE:
                return
            outcome = self._judge.outcome(one.spec, ending, usage, duration_us)
            if not self._closed:
                self._report(Returned(one.task, one.attempt, outcome))
        elif isinstance(ending, Cut):
            return  # it was told of at its deadline; or the run is left, and the next owner asks again
        elif not one.reported:
            one.reported = True
            if one.lookup:
                assert not isinstance(ending, NotCalled), "probes are made at any time"
                verdict = self._judge.finding(one.spec, one.probe_name, ending)
            else:
                verdict = self._judge.repetition(one.spec, ending)
            self._tell(attrs.evolve(_probed(one.probe, verdict), usage=usage))
        elif not one.lookup and isinstance(ending, Value):
            outcome = self._judge.outcome(one.spec, ending, usage, duration_us)
            if outcome.kind == "value":
                self._tell(Returned(task=one.task, attempt=one.attempt, outcome=outcome))

    def _probe_late(self, one: OpenCall) -> None:
        assert one.probe is not None, "only probes have a timer"
        one.reported = True
        self._give_up(one, cut_off=one.lookup)
        words = f"probe timed out: {one.probe_name} did not answer by its deadline"
        verdict = Verdict(verdict="inconclusive", evidence=words)
        self._tell(attrs.evolve(_probed(one.probe, verdict), usage=one.take_usage()))


def _unheard(given: Input) -> None:
    del given


def _probed(probe: Probe, verdict: Verdict) -> Probed:
    return Probed(
        task=probe.task,
        attempt=probe.attempt,
        verdict=verdict.verdict,
        result=verdict.result,
        evidence=verdict.evidence,
    )
