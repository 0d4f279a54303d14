"""Who answers a run's questions while a command drives it: nobody, a script, or the person at the terminal."""

import asyncio
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol

from fsm_agent.core.engine.records import RUN, Question
from fsm_agent.core.errors import FsmAgentError, RefusedError
from fsm_agent.core.events import Event
from fsm_agent.core.inputs import Word
from fsm_agent.faces.drive import asking
from fsm_agent.faces.frame.screen import Screen, safe
from fsm_agent.runtime.controller import RunController
from fsm_agent.runtime.driving.engine import Listener
from fsm_agent.runtime.driving.status import Status
from fsm_agent.testing import operator
from fsm_agent.testing.document import Node, ScenarioError
from fsm_agent.testing.operator import Action, Approval, Crash, NewPlan
from fsm_agent.testing.scenario import read_json


class Progress:
    """Tells of events, except while somebody is being asked; then it tells afterwards."""

    def __init__(self, tell: Listener) -> None:
        """Tell through *tell*."""
        self._tell = tell
        self._waiting: list[Event] | None = None

    def listen(self, events: Sequence[Event]) -> None:
        """Tell of *events*, now or later."""
        if self._waiting is not None:
            self._waiting.extend(events)
        else:
            self._tell(events)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold everything back for as long as the context lasts."""
        self._waiting = []
        try:
            yield
        finally:
            waiting, self._waiting = self._waiting, None
            self._tell(waiting)

    @asynccontextmanager
    async def shown(self, controller: RunController) -> AsyncIterator[None]:
        """Take the run that is told of, for as long as the context lasts; lines need nothing of it."""
        del controller
        yield


class Respondent(Protocol):
    """Whoever answers."""

    def bind(self, controller: RunController) -> None:
        """Take the run whose questions are to be answered; it is driven from now on."""
        ...

    def listen(self, events: Sequence[Event]) -> None:
        """Hear of events that are durable."""
        ...

    @property
    def wanted(self) -> Callable[[Status], bool] | None:
        """What interrupts the driving, because it is time to speak; None for nothing."""
        ...

    async def speak(self) -> bool:
        """Say what there is to say; False if nothing was and nothing will be."""
        ...


class Nobody:
    """Never answers."""

    wanted = None

    def bind(self, controller: RunController) -> None:
        """Take the run."""

    def listen(self, events: Sequence[Event]) -> None:
        """Hear of events."""

    async def speak(self) -> bool:
        """Say nothing."""
        return False


class Scripted:
    """A script of reactions, as scenarios have it; what the run refuses is shown, and the script goes on."""

    wanted = None

    def __init__(self, screen: Screen, file: str) -> None:
        """Read the script.

        Raises:
            NotFoundError: There is no such file.
            ScenarioError: It is no script, or it approves without saying what.
        """
        self._screen = screen
        self._reactions = operator.parse(
            Node(read_json(Path(file), "an operator is a JSON list of reactions"), file), real=True
        )
        for index, reaction in enumerate(self._reactions):
            if any(isinstance(action, NewPlan) for action in reaction.actions):
                raise ScenarioError(
                    f"{file} /{index}/do: a new plan was found; a real run takes none from a script",
                    file=file,
                    pointer=f"/{index}/do",
                )
        self._script = operator.Script(self._reactions)
        self._controller: RunController | None = None
        self._early: list[Event] = []
        self._timers: deque[tuple[float, int]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    def bind(self, controller: RunController) -> None:
        """Take the run; times of the script count from now."""
        self._controller = controller
        begun = asyncio.get_running_loop().time()
        self._timers = deque(
            sorted((begun + at_us / 1_000_000, index) for at_us, index in self._script.timed())
        )
        early, self._early = self._early, []
        heard = {event.task for event in early if event.type in ("task_moved", "run_moved")}
        standing = [e for e in _standing(controller) if e.task not in heard]
        self.listen([*standing, *early])

    def listen(self, events: Sequence[Event]) -> None:
        """Have the reactions that *events* call for handled next, before anything new starts."""
        if self._controller is None:
            self._early.extend(events)
            return
        for index in self._script.after(events):
            task = asyncio.get_running_loop().create_task(self._react(index))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def speak(self) -> bool:
        """Wait for the next reaction that has a time, if there is one."""
        if not self._timers:
            return False
        due, index = self._timers.popleft()
        await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
        await self._react(index)
        return True

    async def _react(self, index: int) -> None:
        assert self._controller is not None, "bound before anything is heard"
        for action in self._reactions[index].actions:
            try:
                await self._controller.say(_word(action, self._controller))
            except FsmAgentError as error:
                self._screen.hint(f"{error.code} script /{index}: {safe(str(error))}")


def _standing(controller: RunController) -> Iterator[Event]:
    """Yield the moves, made before this process came, of the tasks, and of the run, that still ask something."""
    run = controller.run
    if RUN in run.questions:
        yield Event(run.seq, run.at, "run_moved", {"dest": run.state.value})
    for name in run.questions:
        task = run.tasks.get(name)
        if task is not None:
            yield Event(task.moved, run.at, "task_moved", {"dest": task.state.value}, name)


def _word(action: Action, controller: RunController) -> Word:
    match action:
        case Approval():
            return operator.approve(action, controller.run, controller.vault)
        case NewPlan() | Crash():
            raise AssertionError("refused when the script was read")
        case _:
            return action


class Terminal:
    """The person who sits at the terminal. What they put off is not asked again by this command."""

    def __init__(self, screen: Screen, progress: Progress) -> None:
        """Ask on stderr, read stdin; *progress* is held back while a question stands there."""
        self._screen = screen
        self._progress = progress
        self._keyboard = Keyboard(sys.stdin.fileno())
        self._later: set[str] = set()
        self._controller: RunController | None = None

    def bind(self, controller: RunController) -> None:
        """Take the run."""
        self._controller = controller

    def listen(self, events: Sequence[Event]) -> None:
        """Hear of events; questions are looked up in the run."""

    def wanted(self, status: Status) -> bool:
        """Whether somebody must be asked something that was not put off."""
        return any(q.digest not in self._later for q in status.questions)

    async def speak(self) -> bool:
        """Ask the oldest question that was not put off."""
        controller = self._controller
        assert controller is not None, "bound before anything is asked"
        question = next((q for q in controller.run.questions.values() if q.digest not in self._later), None)
        if question is None:
            return False
        with self._progress.held():
            await self._ask(controller, question)
        return True

    async def _ask(self, controller: RunController, question: Question) -> None:
        for line in asking.show(question, controller.run, self._screen):
            self._screen.complain(line)
        while True:
            self._screen.err.write(f"{safe(question.task)}> ")
            self._screen.err.flush()
            typed = await self._keyboard.line()
            said = asking.understand(question, typed) if typed is not None else None
            if said is None:
                self._later.add(question.digest)
                return
            if isinstance(said, str):
                self._screen.complain(safe(said))
                continue
            try:
                await controller.say(said)
            except RefusedError as error:
                self._screen.complain(f"{error.code} {safe(str(error))}")
                now = controller.run.questions.get(question.task)
                if now is not None and now.digest == question.digest:
                    continue
            return


class Keyboard:
    """Reads lines from a terminal without a thread, so that an interruption never waits for the Enter key."""

    def __init__(self, descriptor: int) -> None:
        """Read from *descriptor*."""
        self._descriptor = descriptor
        self._typed = b""

    async def line(self) -> str | None:
        """Return the next line without its end; None once there are no more."""
        loop = asyncio.get_running_loop()
        while b"\n" not in self._typed:
            ready = asyncio.Event()
            loop.add_reader(self._descriptor, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(self._descriptor)
            try:
                more = os.read(self._descriptor, 4096)
            except OSError:  # the terminal is gone
                more = b""
            if not more:
                return None
            self._typed += more
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode("utf-8", "replace").strip()
