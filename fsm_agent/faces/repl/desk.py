"""Where a person sits: a store that stays open, at most one run, and whether it is driven here.

Nothing starts unless somebody lets it: a run is driven while a command drives it, and halted before the next prompt.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from shlex import quote
from typing import Any, Final

from fsm_agent.core.audit.replay import one, replay, take
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import FsmAgentError, NotFoundError, OwnedError, RefusedError, UsageError
from fsm_agent.core.events import Event
from fsm_agent.core.inputs import Resume
from fsm_agent.core.machine import RunState
from fsm_agent.faces.drive.driving import created_by, toolbox_again
from fsm_agent.faces.drive.jobs import Job
from fsm_agent.faces.drive.planners import planner_of
from fsm_agent.faces.frame import places
from fsm_agent.faces.frame.screen import Screen
from fsm_agent.faces.repl.conditions import Condition
from fsm_agent.faces.repl.legal import stopped
from fsm_agent.runtime.controller import RunController
from fsm_agent.runtime.driving.status import Status, status_of
from fsm_agent.runtime.planning.planner import Planner
from fsm_agent.runtime.proof.heads import Heads
from fsm_agent.runtime.secrets.hiding import secrets_of
from fsm_agent.runtime.tools.toolbox import Toolbox
from fsm_agent.stores import open_store
from fsm_agent.stores.base import Store

TAIL_S: Final = 0.1
"""How often a run that another process drives is looked at, in seconds."""
_OVER: Final = (RunState.DONE, RunState.CANCELLED)


class Desk:
    """What the commands of the prompt work on.

    Attributes:
        screen: Where they write.
        run_id: The run that the prompt is at, or None.
        controller: What drives it here, or None: it is only looked at.
        breaks: Break points, oldest first.
        hit: The condition at which the last drive stopped, or None.
        over: Whether the person wants to leave.
        drove: Whether any command drove a run.
        background: A drive that goes on behind the prompt.
        listeners: Told of what happens to the run, once it is durable.
        write: Shows lines, above the prompt if it is there.
        before_showing: Called before a result is shown, so that what led there is told first.
    """

    def __init__(self, screen: Screen, *, ask: Callable[[str], Any] | None = None) -> None:
        """Sit down before *screen*; *ask* reads one more line from the person (a coroutine), None if nobody is there."""
        self.screen = screen
        self.ask = ask
        self.run_id: str | None = None
        self.controller: RunController | None = None
        self.breaks: list[Condition] = []
        self.hit: Condition | None = None
        self.over = False
        self.drove = False
        self.background: asyncio.Task[None] | None = None
        self.listeners: list[Callable[[Sequence[Event]], None]] = []
        self.before_showing: Callable[[], None] = lambda: None
        self.write: Callable[[Sequence[str]], None] = screen.write
        self._store: Store | None = None
        self._seen: Run | None = None
        self._tools: tuple[Toolbox | None, str | None, int] = (None, None, 4)
        self._planner: Planner | None = None
        self._inputs: Mapping[str, Any] = {}
        self._tail: asyncio.Task[None] | None = None
        screen.desk = self

    # ── what commands need to know ────────────────────────────────────────────────────────────────────────────

    def opened(self, *, create: bool = False) -> Store:
        """Return the store; it stays open, and what happened here so far is durable."""
        if self._store is None:
            place = self.screen.store
            self._store = open_store(place, create=create, anchored=Heads.beside(place).read)
        if self.controller is not None:
            self.controller.flush()
        return self._store

    def driving(self, run: str) -> RunController | None:
        """Return what drives *run* here."""
        return self.controller if run == self.run_id else None

    def goes_on(self) -> bool:
        """Whether the run goes on behind the prompt."""
        return self.background is not None

    def command(self, line: str) -> str:
        """Return a command line as the prompt takes it: without the program, without the run that it is at."""
        words = line.removeprefix("fsm-agent ")
        verb, _, rest = words.partition(" ")
        run = quote(self.run_id or "")
        own = rest == run or rest.startswith(run + " ")
        rest = rest[len(run) :].strip() if own else rest
        if verb == "resume" and own:
            verb = "run"
        if verb == "approve" and own and self.ask is not None:
            rest = rest.partition(" ")[0]
        return f"{verb} {rest}".strip()

    def needed(self) -> str:
        """Return the run that the prompt is at.

        Raises:
            RefusedError: It is at none.
        """
        if self.run_id is None:
            raise RefusedError("prompt: it is at no run; type load PLAN, or attach RUN", code="E-NO-RUN")
        return self.run_id

    def view(self) -> Run | None:
        """Return the run as it is now, to be read only."""
        if self.run_id is None:
            return None
        if self.controller is not None:
            return self.controller.run
        store, run = self.opened(), self.run_id
        if self._seen is None:
            self._seen = replay(run, store.read(run), store.blob)
        for record in store.read(run, since=self._seen.seq):
            take(self._seen, one(record, store.blob))
        return self._seen

    def runs(self) -> tuple[str, ...]:
        """Return the ids of the store's runs, the latest first; none if there is no store yet."""
        try:
            return tuple(info.run for info in reversed(list(self.opened().runs())))
        except NotFoundError:
            return ()

    def status(self) -> Status:
        """Return how the run stands."""
        if self.controller is not None:
            return self.controller.status()
        run, seen = self.needed(), self.view()
        assert seen is not None, "the prompt is at a run"
        return status_of(seen, self.opened().head(run))

    # ── taking a seat at a run ────────────────────────────────────────────────────────────────────────────────

    async def start(
        self,
        job: Job,
        *,
        run_id: str | None,
        workers: int,
        review: bool,
        planner: tuple[Planner | None, str | None],
    ) -> None:
        """Begin a run; nothing starts yet."""
        await self.leave()
        controller = await RunController.start(
            job.plan,
            job.tools,
            store=self.opened(create=True),
            rules=job.rules,
            inputs=job.inputs,
            run_id=run_id,
            workers=workers,
            tools_locator=job.locator,
            planner=planner[0],
            planner_locator=planner[1],
            repairs=job.repairs,
            review=review,
            listeners=(self._tell,),
        )
        self._tools, self._planner, self._inputs = (job.tools, job.locator, workers), planner[0], job.inputs
        self._sit(controller.id, controller)
        self.opened()

    async def attach(
        self, run: str, *, tools: str | None = None, inputs: Mapping[str, Any] | None = None
    ) -> None:
        """Look at a run; it is taken over when it is first driven from here.

        Raises:
            NotFoundError: There is no such run.
        """
        self.opened().info(run)
        await self.leave()
        self._tools, self._planner, self._inputs = (None, tools, 4), None, inputs or {}
        self._sit(run, None)
        if self.listeners:
            self._tail = asyncio.get_running_loop().create_task(self._follow(run), name="tail")

    def _sit(self, run: str, controller: RunController | None) -> None:
        self.run_id, self.controller, self._seen = run, controller, None
        self.breaks, self.hit = [], None
        self.screen.run = run

    async def leave(self) -> None:
        """Get up from the run: what is driven here is given up, resumable."""
        for task in (self.background, self._tail):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self.background = self._tail = None
        controller, self.controller = self.controller, None
        if controller is not None:
            await controller.close()
            places.keep_head(self.screen, self.opened(), controller.id)

    async def close(self) -> None:
        """Leave, and close the store."""
        try:
            await self.leave()
        finally:
            store, self._store = self._store, None
            if store is not None:
                store.close()

    def _tell(self, events: Sequence[Event]) -> None:
        """Tell of *events*, but for refusals: whoever is refused here is told so anyway."""
        heard = [event for event in events if event.type != "move_refused"]
        for listener in self.listeners if heard else ():
            listener(heard)

    def settle(self) -> None:
        """Have everything so far told before a result is shown."""
        if self.controller is not None:
            with contextlib.suppress(FsmAgentError):  # what is wrong with the run is met by whoever drives it
                self.controller.flush()
        self.before_showing()

    async def _follow(self, run: str) -> None:
        """Tell of what other processes do to *run*, for as long as it is not driven here."""
        store = self.opened()
        seen = store.head(run).seq
        while True:
            if self.controller is None:
                with contextlib.suppress(
                    FsmAgentError
                ):  # a store that is locked or gone is met by the next command
                    events = [one(record, store.blob) for record in store.read(run, since=seen)]
                    if events:
                        seen = events[-1].seq
                        self._tell(events)
            else:
                seen = self.controller.head.seq
            await asyncio.sleep(TAIL_S)

    # ── driving ───────────────────────────────────────────────────────────────────────────────────────────────

    async def own(self) -> RunController:
        """Return what drives the run here; take the run over if nobody drives it.

        Raises:
            RefusedError: The prompt is at no run.
            OwnedError: Another process drives it.
        """
        if self.controller is not None:
            return self.controller
        run, store = self.needed(), self.opened()
        if places.is_driven(store, run):
            raise OwnedError(
                f"run {run}: {store.info(run).owner} drives it; here you can look, and speak: "
                "its owner hears approve, answer, pause and the like"
            )
        created = created_by(store, run)
        box, locator, workers = self._tools
        tools = box if box is not None else toolbox_again(run, created, locator)
        if self._planner is None:
            self._planner = planner_of(created.get("planner_locator"))[0]
        secret = secrets_of(replay(run, store.read(run), store.blob))
        self.controller = await RunController.open(
            store,
            run,
            tools,
            inputs={name: value for name, value in self._inputs.items() if name in secret},
            workers=workers,
            planner=self._planner,
            listeners=(self._tell,),
        )
        self._tools = (tools, locator, workers)
        return self.controller

    async def drive(self, until: Condition | None = None, *, once: bool = False) -> None:
        """Let the run go on until it rests or ends, or a condition comes.

        Args:
            until: A condition for this drive alone.
            once: Let what is ready start once, and stop there; break points do not count.

        A run that has ended stays as it is.

        Raises:
            RefusedError: The run is driven behind the prompt already.
        """
        if self.background is not None and self.background is not asyncio.current_task():
            raise RefusedError("prompt: the run is driven behind the prompt already; pause stops it")
        self.drove, before = True, self.view()
        if before is not None and before.state in _OVER:
            self.hit = None
            return
        controller = await self.own()
        run = controller.run
        if stopped(run):
            await controller.say(Resume(who=places.speaker(self.screen, None)))
        if once:
            self.hit = None
            await controller.step()
            return
        if until is not None and until.holds(run):
            self.hit = until
            return
        passed = {self.hit.name} if self.hit is not None and self.hit.about == "start" else set()
        wanted = [c for c in (*self.breaks, *([until] if until else ())) if not c.short(run)]
        self.hit = None

        def stop_before(events: Sequence[Event]) -> bool:
            self.hit = self.hit or next((c for c in wanted if c.comes(events, run, passed)), None)
            passed.difference_update(e.task for e in events if _starts(e))
            return self.hit is not None

        try:
            await controller.wait(stop_before=stop_before)
        finally:
            controller.halt()

    async def cut(self) -> None:
        """Stop waiting for what is out: reads are given up, and what became of writes is not known any more.

        The run is given up and taken over again, so that the same rules hold as after a crash.
        """
        controller, self.controller = self.controller, None
        if controller is not None:
            await controller.close()
            await self.own()

    def add_break(self, condition: Condition) -> None:
        """Add a break point.

        Raises:
            UsageError: It is there already.
        """
        if any(one_.text == condition.text for one_ in self.breaks):
            raise UsageError(f"break {condition.text}: it is set already; break shows them all")
        self.breaks.append(condition)

    def drop_break(self, which: str) -> None:
        """Remove a break point by its number, its text, or ``all``.

        Raises:
            NotFoundError: There is none such.
        """
        if which == "all":
            self.breaks.clear()
            return
        for index, condition in enumerate(self.breaks, 1):
            if which in (str(index), condition.text):
                self.breaks.remove(condition)
                return
        known = ", ".join(f"{i} ({c.text})" for i, c in enumerate(self.breaks, 1)) or "none"
        raise NotFoundError(f"break rm {which[:40]}: there is no such break point; there are {known}")


def _starts(event: Event) -> bool:
    return event.type == "task_moved" and event.data["trigger"] == "start"
