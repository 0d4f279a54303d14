"""The same verbs without ``await``: for notebooks, scripts and prompts, inside a running event loop too.

A run is driven on an event loop in a thread of its own, so it does not matter whether the caller has one. Interrupt a
:meth:`RunController.wait` and nothing more starts; what is out may end, and the run is where you left it.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from fsm_agent.core.audit.answers import Why
from fsm_agent.core.engine.records import Question
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import FsmAgentError, RefusedError, UsageError
from fsm_agent.core.events import Event, Head
from fsm_agent.core.plans.plan import Plan
from fsm_agent.core.replanning.repairs import Repair
from fsm_agent.core.rules.table import Table
from fsm_agent.runtime import controller as asynchronous
from fsm_agent.runtime.configs import REPAIRS
from fsm_agent.runtime.controller import StoreLocation
from fsm_agent.runtime.driving.engine import Listener
from fsm_agent.runtime.driving.status import Status
from fsm_agent.runtime.planning.planner import Planner
from fsm_agent.runtime.speaking import question_html
from fsm_agent.runtime.tools.toolbox import Toolbox

__all__ = ["OpenQuestion", "RunController"]

T = TypeVar("T")


class _Thread:
    """An event loop in a thread of its own, which ends with the process at the latest."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fsm-agent", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what *work* returns; an interruption of the caller cancels it."""
        if threading.current_thread() is self._thread:
            work.close()
            raise UsageError(
                "run: it was asked to wait from inside its own loop, as a listener or a tool; use the asynchronous controller"
            )
        if self._loop.is_closed():
            work.close()
            raise RefusedError("run: it was closed here; open or attach it again")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def do(self, function: Callable[[], T]) -> T:
        """Return what *function* returns, called where the run is driven."""

        async def done() -> T:
            return function()

        return self.wait(done())

    @property
    def ended(self) -> bool:
        """Whether the loop has been stopped."""
        return self._loop.is_closed()

    def end(self) -> None:
        """Stop the loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class OpenQuestion:
    """A question of a run, with the verbs that answer it. Carries the digest of exactly what was shown.

    Attributes:
        question: What is asked: ``task kind digest args answers say expires_at``.
    """

    def __init__(self, controller: "RunController", question: Question) -> None:
        """Bind *question* to the run that asks it."""
        self._controller = controller
        self.question = question

    def __getattr__(self, name: str) -> Any:
        """Read the question's own fields."""
        return getattr(self.question, name)

    def __repr__(self) -> str:
        """One line."""
        q = self.question
        return f"<{q.kind} for {q.task}: {q.say!r}, digest {q.digest[:8]}, answers {', '.join(q.answers)}>"

    def _repr_html_(self) -> str:
        return question_html(self.question)

    def approve(self, *, by: str, note: str = "") -> None:
        """Say yes to exactly this request."""
        self._controller.approve(self.question.task, digest=self.question.digest, by=by, note=note)

    def reject(self, *, by: str, note: str = "") -> None:
        """Say no; the note reaches whoever plans next."""
        self._controller.reject(self.question.task, digest=self.question.digest, by=by, note=note)

    def edit(self, *, by: str, **args: Any) -> None:
        """Change arguments; the changed request is asked again."""
        self._controller.edit(self.question.task, args, digest=self.question.digest, by=by)

    def answer(self, value: Any, *, by: str, note: str = "") -> None:
        """Answer it."""
        self._controller.answer(self.question.task, value, digest=self.question.digest, by=by, note=note)


class RunController:
    """A run and the verbs on it; a context manager, which gives the run up when it is left, resumable."""

    def __init__(self, thread: _Thread, controller: asynchronous.RunController) -> None:
        """Use :meth:`start`, :meth:`open` or :meth:`attach`."""
        self._thread = thread
        self._controller = controller

    # ── ways in ───────────────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def _begun(cls, work: Callable[[], Coroutine[Any, Any, asynchronous.RunController]]) -> Self:
        thread = _Thread()
        try:
            return cls(thread, thread.wait(work()))
        except BaseException:
            thread.end()
            raise

    @classmethod
    def start(
        cls,
        plan: Plan,
        tools: Toolbox,
        *,
        store: StoreLocation = None,
        rules: Table | str | Path = "default",
        params: Mapping[str, int | float] | None = None,
        inputs: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        workers: int = 4,
        tools_locator: str | None = None,
        planner: Planner | None = None,
        planner_locator: str | None = None,
        repairs: Sequence[Repair] | str | Path = REPAIRS,
        review: bool = False,
        listeners: Sequence[Listener] = (),
        sign_key: str | PathLike[str] | None = None,
    ) -> Self:
        """Begin a new run: see :meth:`fsm_agent.RunController.start`, whose arguments and errors these are."""
        return cls._begun(
            lambda: asynchronous.RunController.start(
                plan,
                tools,
                store=store,
                rules=rules,
                params=params,
                inputs=inputs,
                run_id=run_id,
                workers=workers,
                tools_locator=tools_locator,
                planner=planner,
                planner_locator=planner_locator,
                repairs=repairs,
                review=review,
                listeners=listeners,
                sign_key=sign_key,
            )
        )

    @classmethod
    def open(
        cls,
        store: StoreLocation,
        run_id: str,
        tools: Toolbox,
        *,
        inputs: Mapping[str, Any] | None = None,
        workers: int = 4,
        planner: Planner | None = None,
        listeners: Sequence[Listener] = (),
        sign_key: str | PathLike[str] | None = None,
    ) -> Self:
        """Take a run over and go on: see :meth:`fsm_agent.RunController.open`."""
        return cls._begun(
            lambda: asynchronous.RunController.open(
                store,
                run_id,
                tools,
                inputs=inputs,
                workers=workers,
                planner=planner,
                listeners=listeners,
                sign_key=sign_key,
            )
        )

    @classmethod
    def attach(cls, store: StoreLocation, run_id: str) -> Self:
        """Read a run, follow it, send words to its owner; owns nothing and starts nothing."""
        return cls._begun(lambda: asynchronous.RunController.attach(store, run_id))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the run up; what is out may end up an unknown result, and the log is flushed."""
        if self._thread.ended:
            return
        try:
            self._thread.wait(self._controller.close())
        finally:
            self._thread.end()

    # ── driving ───────────────────────────────────────────────────────────────────────────────────────────────

    def wait(
        self,
        until: Callable[[Status], bool] | None = None,
        *,
        timeout_s: float | None = None,
        stop_before: Callable[[Sequence[Event]], bool] | None = None,
    ) -> dict[str, Any]:
        """Drive until the run is final, or nothing can move without a person or evidence, or *until* holds.

        Args:
            until: Asked after every change, where the run is driven.
            timeout_s: In seconds; None for as long as it takes.
            stop_before: A break point: told the events that would come next; once it says True nothing more starts.

        Returns:
            The report: what was done, what was not and why, what remains for a person.

        Raises:
            TimeoutError: *timeout_s* passed; the run goes on.
        """
        try:
            return self._thread.wait(
                self._controller.wait(until, timeout_s=timeout_s, stop_before=stop_before)
            )
        except KeyboardInterrupt:
            self.halt()
            raise

    def step(self) -> Status:
        """Let what is ready start once, wait until it has ended, and stop there."""
        return self._thread.wait(self._controller.step())

    def halt(self) -> None:
        """Let nothing more start here until the next :meth:`wait` or :meth:`step`; what is out may end."""
        self._thread.do(self._controller.halt)

    # ── looking ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def id(self) -> str:
        """The run's id."""
        return self._controller.id

    @property
    def run(self) -> Run:
        """The state. Read it, never change it."""
        return self._thread.do(lambda: self._controller.run)

    @property
    def head(self) -> Head:
        """Where the log ends."""
        return self._thread.do(lambda: self._controller.head)

    @property
    def report(self) -> dict[str, Any]:
        """What was done, what was not and why, what remains for a person; as of now."""
        return self._thread.do(lambda: self._controller.report)

    def status(self) -> Status:
        """Return how the run stands."""
        return self._thread.do(self._controller.status)

    def why(self, subject: str | int | None = None) -> Why:
        """Return why a task, an event (by its number) or the run is what it is, and what it waits for.

        Raises:
            NotFoundError: No such task or event.
        """
        return self._thread.do(lambda: self._controller.why(subject))

    @property
    def questions(self) -> list[OpenQuestion]:
        """What waits for a person, oldest first."""
        return [OpenQuestion(self, q.question) for q in self._thread.do(lambda: self._controller.questions)]

    def events(self, since: int = 0, *, follow: bool = False) -> Iterator[Event]:
        """Yield the durable events after seq *since*; with *follow* until the run is closed."""
        items = self._controller.events(since, follow=follow)

        async def following() -> Event | None:
            return await anext(items, None)

        while (event := self._thread.wait(following())) is not None:
            yield event

    def flush(self) -> None:
        """Make everything so far durable, and have it told."""
        self._thread.do(self._controller.flush)

    # ── words of people ───────────────────────────────────────────────────────────────────────────────────────

    def approve(self, task: str, *, digest: str, by: str, note: str = "") -> None:
        """Say yes to the request with this digest (at least its first 8 hex digits)."""
        self._thread.wait(self._controller.approve(task, digest=digest, by=by, note=note))

    def reject(self, task: str, *, by: str, note: str = "", digest: str | None = None) -> None:
        """Say no: the task is cancelled. With *digest* only to that request, and not to one that came after it."""
        self._thread.wait(self._controller.reject(task, by=by, note=note, digest=digest))

    def edit(
        self, task: str, args: Mapping[str, Any], *, by: str, note: str = "", digest: str | None = None
    ) -> None:
        """Change arguments of a waiting call; it is asked again. *digest* as for :meth:`reject`."""
        self._thread.wait(self._controller.edit(task, args, by=by, note=note, digest=digest))

    def answer(self, task: str, value: Any, *, by: str, note: str = "", digest: str | None = None) -> None:
        """Answer a question. *digest* as for :meth:`reject`."""
        self._thread.wait(self._controller.answer(task, value, by=by, note=note, digest=digest))

    def set_input(self, *, by: str = "api", **values: Any) -> None:
        """Correct inputs, ``constraints.KEY`` and ``budgets.KEY`` (pass dotted names by ``**{…}``)."""
        self._thread.wait(self._controller.set_input(by=by, **values))

    def pause(self, *, by: str = "api", note: str = "") -> None:
        """Wish that nothing more starts, until :meth:`resume`."""
        self._thread.wait(self._controller.pause(by=by, note=note))

    def resume(self, *, by: str = "api", note: str = "") -> None:
        """Lift a pause, or go on after an abort."""
        self._thread.wait(self._controller.resume(by=by, note=note))

    def cancel(self, *, by: str = "api", note: str = "", acknowledge: Sequence[str] = ()) -> None:
        """Wish the run cancelled; *acknowledge* names unknown effects that are accepted as unknown."""
        self._thread.wait(self._controller.cancel(by=by, note=note, acknowledge=acknowledge))

    def retry(self, task: str, *, by: str = "api", note: str = "") -> None:
        """Let a failed task try again."""
        self._thread.wait(self._controller.retry(task, by=by, note=note))

    def reconcile(
        self,
        task: str,
        *,
        verdict: str | None = None,
        evidence: str = "",
        result: Any = None,
        by: str = "api",
    ) -> None:
        """Say what became of an unknown result (``applied`` or ``absent``, with evidence), or ask for a probe."""
        self._thread.wait(
            self._controller.reconcile(task, verdict=verdict, evidence=evidence, result=result, by=by)
        )

    def replan(self, document: Any, *, by: str = "api", note: str = "") -> None:
        """Give a plan of one's own for what remains; any accepted shape as parsed JSON, or a plan."""
        self._thread.wait(self._controller.replan(document, by=by, note=note))

    def note(self, text: str, *, by: str, task: str | None = None) -> None:
        """Put words into the log."""
        self._thread.wait(self._controller.note(text, by=by, task=task))

    def fork(self, at: int, *, by: str = "api", note: str = "", run_id: str | None = None) -> str:
        """Begin a new run with the events of this one up to *at*, and return its id; open that to go on."""
        return self._thread.wait(self._controller.fork(at, by=by, note=note, run_id=run_id))

    # ── how it looks ──────────────────────────────────────────────────────────────────────────────────────────

    def __repr__(self) -> str:
        try:
            return self._thread.do(lambda: repr(self._controller))
        except FsmAgentError:
            return f"<run {self.id}: closed here>"

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        del cycle
        printer.text(repr(self))
