"""``RunController``: a run in your process. Start it, drive it, answer its questions, see why.

Three ways in: :meth:`RunController.start` (a new run), :meth:`RunController.open` (take one over and go on) and
:meth:`RunController.attach` (read, follow, send words; owns nothing).
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from fsm_agent.core import canon
from fsm_agent.core.audit import replay
from fsm_agent.core.audit.why import Why
from fsm_agent.core.engine.ending import report as report_of
from fsm_agent.core.engine.records import Question
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import (
    ConflictError,
    NotFoundError,
    OwnedError,
    PlanError,
    RefusedError,
    UsageError,
)
from fsm_agent.core.events import Event, Head
from fsm_agent.core.inputs import (
    Answer,
    Approve,
    Ask,
    Command,
    Create,
    Edit,
    Note,
    Person,
    ReconcileAs,
    Reject,
    Replan,
    Resume,
    RetryTask,
    SetInputs,
)
from fsm_agent.core.plans import planning
from fsm_agent.core.plans.plan import Plan
from fsm_agent.core.rules.table import Table
from fsm_agent.runtime import configs
from fsm_agent.runtime.driving.calls import Calls
from fsm_agent.runtime.driving.delivery import deliver
from fsm_agent.runtime.driving.driver import Driver
from fsm_agent.runtime.driving.engine import LEASE_US, Engine, Listener, Ports
from fsm_agent.runtime.driving.letters import Word, to_letter
from fsm_agent.runtime.driving.owner import is_dead, owner_name
from fsm_agent.runtime.driving.status import Status, status_of
from fsm_agent.runtime.planning.planner import Planner
from fsm_agent.runtime.ports import SystemPorts
from fsm_agent.runtime.proof.heads import Heads
from fsm_agent.runtime.proof.signing import signer_for
from fsm_agent.runtime.secrets.hiding import hidden, refuse_secrets, secrets_of
from fsm_agent.runtime.secrets.vault import Vault, secret_inputs
from fsm_agent.runtime.tools.toolbox import Toolbox
from fsm_agent.stores import MEMORY, open_store
from fsm_agent.stores.base import Store
from fsm_agent.stores.checks import check_run
from fsm_agent.version import VERSION

StoreLocation = Store | str | PathLike[str] | None
LEASE_S: Final = LEASE_US / 1_000_000
"""How long a lease lasts without renewal, in seconds."""


class OpenQuestion:
    """A question of a run, with the verbs that answer it. Carries the digest of exactly what was shown."""

    def __init__(self, controller: "RunController", question: Question) -> None:
        """Bind *question* to the run that asks it."""
        self._controller = controller
        self.question = question

    def __getattr__(self, name: str) -> Any:
        """Read the question's own fields: ``task kind digest args answers say expires_at``."""
        return getattr(self.question, name)

    def __repr__(self) -> str:
        """One line."""
        q = self.question
        return f"<{q.kind} for {q.task}: {q.say!r}, digest {q.digest[:8]}, answers {', '.join(q.answers)}>"

    async def approve(self, *, by: str, note: str = "") -> None:
        """Say yes to exactly this request."""
        await self._controller.approve(self.question.task, digest=self.question.digest, by=by, note=note)

    async def reject(self, *, by: str, note: str = "") -> None:
        """Say no; the note reaches whoever plans next."""
        await self._controller.reject(self.question.task, by=by, note=note)

    async def edit(self, *, by: str, **args: Any) -> None:
        """Change arguments; the changed request is asked again."""
        await self._controller.edit(self.question.task, args, by=by)

    async def answer(self, value: Any, *, by: str, note: str = "") -> None:
        """Answer it."""
        await self._controller.answer(self.question.task, value, by=by, note=note)


class RunController:
    """A run and the verbs on it. Use as an async context manager; leaving it gives the run up, resumable.

    Attributes:
        heads: Where the log's head is kept outside of it; ``heads.fault`` says why it could not be.
    """

    def __init__(self, store: Store, run: str, *, own_store: bool, heads: Heads) -> None:
        """Use :meth:`start`, :meth:`open` or :meth:`attach`."""
        self._store = store
        self._own_store = own_store
        self._id = run
        self.heads = heads
        self._engine: Engine | None = None
        self._driver: Driver | None = None
        self._vault = Vault()
        self._stack = AsyncExitStack()
        self._channel = "api"
        self._closed = False

    # ── ways in ───────────────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    async def start(
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
        listeners: Sequence[Listener] = (),
        ports: Ports | None = None,
        sign_key: str | PathLike[str] | None = None,
        lease_s: float = LEASE_S,
    ) -> Self:
        """Begin a new run; its first tasks start when it is driven (:meth:`wait`, :meth:`step`).

        Args:
            plan: What is intended.
            tools: What it may call.
            store: A store, or where one is; left out, the log is in memory.
            rules: A table, its name, or a ``.toml`` file.
            params: Named thresholds of the table to set.
            inputs: Over the plan's own.
            run_id: Left out, a new one is made.
            workers: Calls at once, at least 1.
            tools_locator: Where ``resume`` finds the tools again, as ``module:attribute``.
            planner: Asked for another plan where the table decides so, such as ``ModelPlanner.from_env()``; None: a
                person is asked.
            planner_locator: Where ``resume`` finds it again: ``model``, or as for *tools_locator*.
            listeners: Told of every batch of events once it is durable.
            ports: Time and chance, for tests.
            sign_key: File of the private key that checkpoints are signed with; left out,
                ``$FSM_AGENT_SIGNING_KEY``.
            lease_s: After so many seconds without a sign of life another process may take the run over.

        Raises:
            PlanError: The plan cannot be run with these tools; all its faults.
            ValueRefusedError: The log could not hold an input exactly.
            ConflictError: *run_id* is taken.
        """
        if workers < 1:
            raise UsageError(f"workers: {workers} was given; at least 1 is needed")
        if run_id is not None:
            check_run(run_id)
        canon.check(dict(inputs or {}), "inputs")
        table = rules if isinstance(rules, Table) else configs.load_rules(rules, params or {})
        faults = [
            f
            for f in planning.check(plan, _specs(tools), default_tool=tools.default_tool)
            if f.severity == "error"
        ]
        if faults:
            raise PlanError(f"plan: {len(faults)} faults against the toolbox; first {faults[0]}", faults)
        vault, classifier, clock = Vault(), configs.load_classifier(), ports or SystemPorts()
        hidden = vault.hide_plan(plan.doc, tools.specs, tools.default_tool)
        secret = secret_inputs(plan.doc, tools.specs, tools.default_tool)
        run = run_id if run_id is not None else f"r-{secrets.token_hex(4)}"
        given = Create(
            run=run,
            plan=plan if hidden == plan.doc else planning.trusted(hidden),
            rules=table,
            tools=tools.specs,
            inputs=vault.hide_inputs({**plan.inputs, **(inputs or {})}, secret),
            owner=owner_name(),
            classify_digest=classifier.digest,
            version=VERSION,
            tools_locator=tools_locator,
            default_tool=tools.default_tool,
            has_planner=planner is not None,
            planner_locator=planner_locator,
        )
        opened, own, heads = _opened(store, sign_key)
        self = cls(opened, run, own_store=own, heads=heads)
        try:
            engine, commands = Engine.create(
                opened,
                given,
                clock,
                slots=0,
                ttl_us=round(lease_s * 1_000_000),
                force=run_id is not None and _holder_is_dead(opened, run_id),
                listeners=listeners,
                heads=heads,
            )
            self._vault = vault
            await self._begin(engine, commands, tools, clock, workers, planner)
        except BaseException:
            await self.close()
            raise
        return self

    @classmethod
    async def open(
        cls,
        store: StoreLocation,
        run_id: str,
        tools: Toolbox,
        *,
        inputs: Mapping[str, Any] | None = None,
        workers: int = 4,
        planner: Planner | None = None,
        listeners: Sequence[Listener] = (),
        ports: Ports | None = None,
        sign_key: str | PathLike[str] | None = None,
        lease_s: float = LEASE_S,
    ) -> Self:
        """Take a run over and go on from where its log ends.

        Args:
            store: A store, or where one is.
            run_id: The run.
            tools: What it may call.
            inputs: Secrets that the log does not hold, given again.
            workers: Calls at once.
            planner: As in :meth:`start`.
            listeners: Told of every batch of events once it is durable.
            ports: Time and chance, for tests.
            sign_key: As for :meth:`start`.
            lease_s: As for :meth:`start`.

        Raises:
            NotFoundError: No such run.
            OwnedError: Another living owner holds it.
            CorruptError: Its log is not what was written, or ends before the head kept outside.
        """
        opened, own, heads = _opened(store, sign_key, create=False)
        self = cls(opened, run_id, own_store=own, heads=heads)
        clock = ports or SystemPorts()
        try:
            engine, commands = Engine.open(
                opened,
                run_id,
                owner_name(),
                clock,
                tools=tools.specs,
                default_tool=tools.default_tool,
                has_planner=planner is not None,
                slots=0,
                ttl_us=round(lease_s * 1_000_000),
                force=_holder_is_dead(opened, run_id),
                listeners=listeners,
                heads=heads,
            )
            self._engine = engine
            self._give_again(inputs or {})
            await self._begin(engine, commands, tools, clock, workers, planner)
        except BaseException:
            await self.close()
            raise
        return self

    @classmethod
    async def attach(cls, store: StoreLocation, run_id: str) -> Self:
        """Read a run, follow it, send words to its owner; owns nothing and starts nothing."""
        opened, own, heads = _opened(store, create=False)
        self = cls(opened, run_id, own_store=own, heads=heads)
        opened.info(run_id)
        return self

    def _give_again(self, inputs: Mapping[str, Any]) -> None:
        """Tell the vault the secrets that the log does not hold."""
        secret = secrets_of(self.run)
        plain = sorted(set(inputs) - secret)
        if plain:
            raise UsageError(
                f"inputs {', '.join(plain)}: they are not secret, and the log has them; `set` changes them"
            )
        for name, value in inputs.items():
            self._vault.give(f"inputs.{name}", value)

    async def _begin(
        self,
        engine: Engine,
        commands: list[Command],
        tools: Toolbox,
        ports: Ports,
        workers: int,
        planner: Planner | None,
    ) -> None:
        self._engine = engine
        self._driver = driver = Driver(engine, ports, workers=workers, planner=planner)
        calls = Calls(
            tools,
            configs.load_classifier(),
            run_id=engine.run.id,
            vault=self._vault,
            report=driver.report,
            clock_us=ports.now_us,
        )
        await self._stack.enter_async_context(calls)
        driver.begin(calls, commands)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give the run up: nothing more starts, what is out may end up an unknown result, the log is flushed."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._driver is not None:
                self._driver.engine.slots = 0
                await self._driver.end()
            await self._stack.aclose()
        finally:
            try:
                if self._engine is not None:
                    self._engine.close()
            finally:
                if self._own_store:
                    self._store.close()

    # ── driving ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def id(self) -> str:
        """The run's id."""
        return self._id

    @property
    def run(self) -> Run:
        """The state. Read it, never change it; an attached controller folds it anew from the log."""
        if self._engine is not None:
            return self._engine.run
        return replay.replay(self._id, self._store.read(self._id), self._store.blob)

    @property
    def vault(self) -> Vault:
        """The secrets that this process holds for the run."""
        return self._vault

    @property
    def head(self) -> Head:
        """Where the log ends."""
        return self._engine.head if self._engine is not None else self._store.head(self._id)

    async def wait(
        self, until: Callable[[Status], bool] | None = None, *, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Drive until the run is final, or nothing can move without a person or evidence, or *until* holds.

        Returns:
            The report: what was done, what was not and why, what remains for a person.

        Raises:
            TimeoutError: *timeout_s* passed; the run goes on.
        """
        driver = self._driving()
        driver.set_slots(driver.workers)
        async with asyncio.timeout(timeout_s):
            await driver.wait(lambda: self._rests() or (until is not None and until(self.status())))
        return self.report

    def _rests(self) -> bool:
        driver = self._driving()
        return driver.resting and not driver.busy

    async def step(self) -> Status:
        """Let what is ready start once, wait until it has ended, and stop there."""
        driver = self._driving()
        driver.set_slots(driver.workers)
        run, before = driver.engine.run, driver.engine.run.seq
        await driver.wait(lambda: run.seq != before or self._rests())
        driver.engine.slots = 0
        await driver.wait(lambda: not run.running and not run.probing)
        return self.status()

    def _driving(self) -> Driver:
        if self._driver is None:
            raise RefusedError(
                f"run {self._id}: this controller is attached and drives nothing; open the run instead"
            )
        return self._driver

    @property
    def report(self) -> dict[str, Any]:
        """What was done, what was not and why, what remains for a person; as of now."""
        return report_of(self.run)

    def status(self) -> Status:
        """Return how the run stands."""
        return status_of(self.run, self.head)

    def why(self, subject: str | int | None = None) -> Why:
        """Return why a task, an event (by its number) or the run is what it is, and what it waits for.

        Raises:
            NotFoundError: No such task or event.
        """
        from fsm_agent.runtime.proof.logs import why_of  # brings the audit along, which a run does not need

        store = self._store
        return why_of(self._id, replay.events(self._id, store.read(self._id), store.blob), subject)

    @property
    def questions(self) -> list[OpenQuestion]:
        """What waits for a person, oldest first."""
        return [OpenQuestion(self, q) for q in self.run.questions.values()]

    async def events(self, since: int = 0, *, follow: bool = False) -> AsyncIterator[Event]:
        """Yield the durable events after seq *since*; with *follow* until the run is closed."""
        seen = since
        while True:
            ended = False
            for record in self._store.read(self._id, since=seen):
                event = replay.one(record, self._store.blob)
                seen = event.seq
                ended = event.type == "run_closed"
                yield event
            if ended or not follow:
                return
            await asyncio.sleep(0.1)

    # ── words of people ───────────────────────────────────────────────────────────────────────────────────────

    def _who(self, by: str, note: str = "") -> Person:
        return Person(by=by, channel=self._channel, note=note)

    async def say(self, word: Word, *, timeout_s: float = 30.0) -> None:
        """Hand a person's word to the run's owner: this controller, or through the inbox another process.

        Raises:
            RefusedError: It does not fit the run as it is now.
            OwnedError: The owner did not answer in time; the word stays in the inbox.
        """
        if self._driver is not None:
            self._driver.say(hidden(word, self.run, self._vault))
            return
        refuse_secrets(word, self.run)
        number = self._store.post(self._id, to_letter(word), now_us=SystemPorts().now_us())
        await self._answered(number, timeout_s)

    async def _answered(self, number: int, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while (answer := self._store.letter(number).answer) is None:
                    if self._nobody_owns():
                        self._deliver()
                    else:
                        await asyncio.sleep(0.05)
        except TimeoutError:
            raise OwnedError(
                f"run {self._id}: its owner did not answer within {timeout_s:g} s; the word stays in its inbox"
            ) from None
        if not answer["ok"]:
            raise RefusedError(answer["message"], code=answer["code"])

    def _nobody_owns(self) -> bool:
        info = self._store.info(self._id)
        return info.owner is None or info.lease_until_us <= SystemPorts().now_us() or is_dead(info.owner)

    def _deliver(self) -> None:
        """Own the run for a moment, start nothing, and take the letters."""
        try:
            dead = _holder_is_dead(self._store, self._id)
            deliver(self._store, self._id, force=dead, heads=self.heads)
        except (OwnedError, ConflictError):
            return  # somebody else was faster; the letter is theirs

    async def approve(self, task: str, *, digest: str, by: str, note: str = "") -> None:
        """Say yes to the request with this digest (at least its first 8 hex digits)."""
        await self.say(Approve(task=task, digest=digest, who=self._who(by, note)))

    async def reject(self, task: str, *, by: str, note: str = "") -> None:
        """Say no: the task is cancelled."""
        await self.say(Reject(task=task, who=self._who(by, note)))

    async def edit(self, task: str, args: Mapping[str, Any], *, by: str, note: str = "") -> None:
        """Change arguments of a waiting call; it is asked again."""
        await self.say(Edit(task=task, args=args, who=self._who(by, note)))

    async def answer(self, task: str, value: Any, *, by: str, note: str = "") -> None:
        """Answer a question."""
        await self.say(Answer(task=task, value=value, who=self._who(by, note)))

    async def set_input(self, *, by: str = "api", **values: Any) -> None:
        """Correct inputs, ``constraints.KEY`` and ``budgets.KEY`` (pass dotted names by ``**{…}``)."""
        await self.say(SetInputs(values=values, who=self._who(by)))

    async def pause(self, *, by: str = "api", note: str = "") -> None:
        """Wish that nothing more starts, until :meth:`resume`."""
        await self.say(Ask(wish="pause", who=self._who(by, note)))

    async def resume(self, *, by: str = "api", note: str = "") -> None:
        """Lift a pause, or go on after an abort."""
        await self.say(Resume(who=self._who(by, note)))

    async def cancel(self, *, by: str = "api", note: str = "", acknowledge: Sequence[str] = ()) -> None:
        """Wish the run cancelled; *acknowledge* names unknown effects that are accepted as unknown."""
        await self.say(Ask(wish="cancel", who=self._who(by, note), acknowledged=tuple(acknowledge)))

    async def retry(self, task: str, *, by: str = "api", note: str = "") -> None:
        """Let a failed task try again."""
        await self.say(RetryTask(task=task, who=self._who(by, note)))

    async def reconcile(
        self,
        task: str,
        *,
        verdict: str | None = None,
        evidence: str = "",
        result: Any = None,
        by: str = "api",
    ) -> None:
        """Say what became of an unknown result (``applied`` or ``absent``, with evidence), or ask for a probe."""
        word = ReconcileAs(task=task, verdict=verdict, evidence=evidence, result=result, who=self._who(by))
        await self.say(word)

    async def replan(self, document: Any, *, by: str = "api", note: str = "") -> None:
        """Give a plan of one's own for what remains; any accepted shape as parsed JSON, or a plan."""
        plan = dict(document.doc) if isinstance(document, Plan) else document
        await self.say(Replan(document=plan, who=self._who(by, note)))

    async def note(self, text: str, *, by: str, task: str | None = None) -> None:
        """Put words into the log."""
        await self.say(Note(text=text, task=task, who=self._who(by)))

    def __repr__(self) -> str:
        return repr(self.status()) if not self._closed else f"<run {self._id}: closed here>"


def _specs(tools: Toolbox) -> dict[str, Any]:
    return {spec.name: spec for spec in tools.specs}


def _opened(
    store: StoreLocation, sign_key: str | PathLike[str] | None = None, *, create: bool = True
) -> tuple[Store, bool, Heads]:
    """Return the store, whether it is to be closed with the controller, and where its heads are kept."""
    if store is None or isinstance(store, str | PathLike):
        place = MEMORY if store is None else fspath(store)
        heads = Heads.beside(place, signer=signer_for(place, sign_key))
        return open_store(place, create=create, anchored=heads.read), True, heads
    return store, False, Heads.beside(store.location, signer=signer_for(store.location, sign_key))


def _holder_is_dead(store: Store, run: str) -> bool:
    """Whether *run* is there and the process that holds it is known to be gone."""
    try:
        owner = store.info(run).owner
    except NotFoundError:
        return False
    return owner is not None and is_dead(owner)
