"""The loop of a simulation: one heap of happenings, one clock that jumps from one to the next.

At every instant: people first (each before anything new is called), then what the engine has asked for, then what
the world does, then what is due by the engine's own timers. Nothing here knows a rule of the machines: inputs are
fed and commands carried out, as by any other shell.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TypeVar, assert_never

import attrs

from fsm_agent.core import canon
from fsm_agent.core.errors import FsmAgentError, IllegalTransitionError, RefusedError, StoreError
from fsm_agent.core.events import from_body
from fsm_agent.core.inputs import (
    AskPlanner,
    Call,
    Command,
    Create,
    Input,
    Probe,
    Progressed,
    Proposed,
    Replan,
    Returned,
    StopCall,
    Tick,
    Word,
)
from fsm_agent.core.machine import RunState, TaskState
from fsm_agent.core.replanning import prompt
from fsm_agent.core.tools import ToolSpec
from fsm_agent.runtime.driving.engine import Engine
from fsm_agent.runtime.driving.letters import refuse_absent
from fsm_agent.runtime.secrets.hiding import hidden
from fsm_agent.runtime.secrets.proposals import without_literals
from fsm_agent.runtime.tools.endings import Judge
from fsm_agent.stores.base import Store
from fsm_agent.testing import replies
from fsm_agent.testing.clock import FakeClock
from fsm_agent.testing.operator import Action, Approval, Crash, NewPlan, Script, approve
from fsm_agent.testing.scenario import CallScript, Reply, Scenario
from fsm_agent.testing.volatile import VolatileStore
from fsm_agent.testing.world import Happening, Kind, World

LONGEST = 2_000
LONGEST_PER_TASK = 50
"""Inputs after which a simulation is given up: something asks for more for ever."""

_Sent = TypeVar("_Sent", Call, Probe)


class VirtualRun:
    """One run from its beginning to where nothing moves any more.

    Args:
        scenario: Who says what, and how many calls may be out at once.
        create: The run's first input, secrets already hidden.
        world: The tools.
        store: Where the log goes; a :class:`VolatileStore` forgets at a crash what was not durable.
        clock: Time and chance; moved by this object alone.
        judge: Makes outcomes of what tools do; its vault holds the secrets, and outlives every crash, as if
            whoever resumes gave them again.

    Attributes:
        engine: The present owner's engine.
        clock: As given.
        refused: What people said and the engine refused, oldest first.
        gaps: Why the simulation was given up, if it was.
        prompts: What the planner was told, one text for each call, if the scenario looks at them.
    """

    def __init__(
        self, scenario: Scenario, create: Create, world: World, store: Store, clock: FakeClock, judge: Judge
    ) -> None:
        self.refused: list[str] = []
        self.gaps: list[str] = []
        self.prompts: list[str] = []
        self._scenario = scenario
        self._create = create
        self._world = world
        self._store = store
        self.clock = clock
        self._judge = judge
        self._script = Script(scenario.operator)
        self._watched = any(r.at_us is None for r in scenario.operator)
        self._seen = 0
        self._timed = deque(sorted(self._script.timed()))
        self._due: list[int] = []
        self._heap: list[tuple[int, int, Happening]] = []
        self._commands: deque[Command] = deque()
        self._answers = deque(scenario.planner or ())
        self._owners = 1
        self._inputs = 0
        self._serial = 0
        self.engine, commands = Engine.create(store, create, clock, slots=scenario.workers)
        self._took(commands)

    def drive(self) -> None:
        """Go on until the run is final, or until nothing can move and nobody will say anything more."""
        longest = LONGEST + LONGEST_PER_TASK * len(self.engine.run.tasks)
        while self._inputs < longest:
            if self._due:
                for action in self._scenario.operator[heappop(self._due)].actions:
                    self._act(action)
            elif self._commands:
                self._carry_out(self._commands.popleft())
            elif not self._move_on():
                return
        self.gaps.append(f"the run did not come to rest within {longest} inputs; something repeats for ever")

    # ── inputs ────────────────────────────────────────────────────────────────────────────────────────────────

    def _feed(self, given: Input) -> None:
        """Feed what the world or the clock says; a stale word is refused and logged, and changes nothing."""
        self._inputs += 1
        try:
            commands = self.engine.feed(given)
        except IllegalTransitionError:
            raise
        except RefusedError:
            commands = []
        self._took(commands)

    def _say(self, word: Word) -> None:
        """Feed what a person says."""
        self._inputs += 1
        try:
            refuse_absent(self.engine.run, word, self._is_out)
            commands = self.engine.feed(hidden(word, self.engine.run, self._judge.vault))
        except StoreError:
            raise
        except FsmAgentError as error:
            self.refused.append(str(error))
            commands = []
        self._took(commands)

    def _took(self, commands: list[Command]) -> None:
        """Keep the commands for later, and see whether somebody has something to say to what has just happened."""
        self._commands.extend(commands)
        if not self._watched:
            return
        run = self._create.run
        fresh = [from_body(record.body) for record in self._store.read(run, since=self._seen)]
        self._seen += len(fresh)
        due = self._script.after(fresh)
        if due:
            self.engine.flush()
        for index in due:
            heappush(self._due, index)

    def _act(self, action: Action) -> None:
        match action:
            case Crash():
                self._crash()
            case NewPlan():
                self._say(Replan(document=action.document, who=action.who))
            case Approval():
                self._say(approve(action, self.engine.run, self._judge.vault))
            case _:
                self._say(action)

    def _crash(self) -> None:
        """Lose what was not durable and every call that is out; another owner takes over at once."""
        self._commands.clear()
        self._heap.clear()
        if isinstance(self._store, VolatileStore):
            self._store.crash()
        run = self._create.run
        self._seen = min(self._seen, self._store.head(run).seq)
        self._owners += 1
        self._inputs += 1
        self.engine, commands = Engine.open(
            self._store,
            run,
            f"simulation-{self._owners}",
            self.clock,
            tools=self._create.tools,
            default_tool=self._create.default_tool,
            has_planner=self._create.has_planner,
            slots=self._scenario.workers,
            force=True,
        )
        self._took(commands)

    # ── commands ──────────────────────────────────────────────────────────────────────────────────────────────

    def _carry_out(self, command: Command) -> None:
        now = self.clock.now_us()
        match command:
            case Call():
                self._plan_ahead(self._world.call(self._revealed(command), now))
            case Probe(repeat=True):
                happenings = self._world.call(self._revealed(command), now)
                if not any(h.kind is Kind.REPLY and h.at_us <= command.deadline_at for h in happenings):
                    happenings.append(_silence(command, now))
                self._plan_ahead(happenings)
            case Probe():
                found = self._world.probe(self._revealed(command), now)
                out = self._is_out(command.task, command.attempt)
                spec = self._spec(command)
                self._feed(replies.finding(self._judge, spec, command, found, still_out=out))
            case AskPlanner():
                if self._scenario.expect.prompts:
                    asked = prompt.replan(command.briefing)
                    self.prompts.append("\n".join(message["content"] for message in asked))
                self._feed(self._proposal(command.request))
            case StopCall():
                pass  # nobody waits any more, but the call goes on: its reply arrives late

    def _proposal(self, request: int) -> Proposed:
        """Return the planner's next answer; none left means that it cannot be reached."""
        found = self._answers.popleft() if self._answers else None
        reply = found if isinstance(found, Reply) else Reply(answer=found)
        text = reply.answer if isinstance(reply.answer, str | None) else canon.encode(reply.answer).decode()
        why = "the planner is not available"
        if text is not None:
            why, text = without_literals(text, self.engine.run)
        return Proposed(
            request=request,
            answer=text,
            why=why,
            usage=reply.usage,
            retry_after_us=reply.retry_after_us,
        )

    def _spec(self, command: Call | Probe) -> ToolSpec:
        return self._world.tools[command.tool].spec

    def _revealed(self, command: _Sent) -> _Sent:
        """Return *command* with its secrets in place, as a tool gets it."""
        spec = self._spec(command)
        if not spec.secret:
            return command
        args = self._judge.vault.reveal(spec, command.args)
        return command._replace(args=args) if isinstance(command, Call) else attrs.evolve(command, args=args)

    def _is_out(self, task: str, attempt: int) -> bool:
        """Whether a call of this attempt will still answer. One that hangs for ever has lost its connection."""
        return any(
            h.kind is Kind.REPLY and (h.command.task, h.command.attempt) == (task, attempt)
            for _, _, h in self._heap
        )

    def _plan_ahead(self, happenings: list[Happening]) -> None:
        for happening in happenings:
            self._serial += 1
            heappush(self._heap, (happening.at_us, self._serial, happening))

    # ── time ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _move_on(self) -> bool:
        """Go to the next instant at which something happens; whether there is one."""
        state = self.engine.run.state
        if state in (RunState.DONE, RunState.CANCELLED) or (state is RunState.FAILED and not self._timed):
            return False
        said = self.clock.start_us + self._timed[0][0] if self._timed else None
        happens = self._heap[0][0] if self._heap else None
        moments = [at for at in (said, happens, self.engine.next_due()) if at is not None]
        if not moments:
            return False
        at = min(moments)
        if at > self.clock.now_us():
            self.engine.flush()  # idle
            self.clock.move_to(at)
        if at == said:
            for index in self._said_by(at):
                heappush(self._due, index)
        elif at == happens:
            self._happen(heappop(self._heap)[2])
        else:
            self._feed(Tick())
        return True

    def _said_by(self, at: int) -> Iterator[int]:
        while self._timed and self.clock.start_us + self._timed[0][0] <= at:
            yield self._timed.popleft()[1]

    def _happen(self, happening: Happening) -> None:
        command = happening.command
        match happening.kind:
            case Kind.COMMIT:
                self._world.happened(happening)
            case Kind.CRASH_BEFORE | Kind.CRASH_AFTER:
                self._crash()
            case Kind.REPORT:
                task = self.engine.run.tasks[command.task]
                if task.state is TaskState.RUNNING and task.attempt == command.attempt:
                    report = Progressed(
                        task=task.id,
                        attempt=task.attempt,
                        advanced=happening.advanced,
                        usage=happening.script.progress_usage,
                    )
                    self._feed(report)
            case Kind.REPLY:
                self._reply(happening)
            case Kind.SILENCE:
                assert isinstance(command, Probe), "only a probe is given up here"
                self._feed(replies.silence(command))
            case _:
                assert_never(happening.kind)

    def _reply(self, happening: Happening) -> None:
        command = happening.command
        spec = self._spec(command)
        outcome = replies.outcome(self._judge, spec, happening)
        if isinstance(command, Call):
            self._feed(Returned(task=command.task, attempt=command.attempt, outcome=outcome))
        elif happening.at_us <= command.deadline_at:
            self._feed(replies.repeated(self._judge, spec, command, happening))
        elif outcome.kind == "value":  # a repetition that came too late to be a probe is still an answer
            self._feed(Returned(task=command.task, attempt=command.attempt, outcome=outcome))


def _silence(command: Probe, now_us: int) -> Happening:
    return Happening(
        at_us=command.deadline_at, kind=Kind.SILENCE, command=command, script=CallScript(), started_us=now_us
    )
