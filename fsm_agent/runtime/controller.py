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
from fsm_agent.core.audit.answers import Why
from fsm_agent.core.engine.ending import report as report_of
from fsm_agent.core.errors import RefusedError, UsageError
from fsm_agent.core.events import Event, Head
from fsm_agent.core.inputs import Command, Create
from fsm_agent.core.plans import known
from fsm_agent.core.plans.plan import Plan
from fsm_agent.core.replanning.repairs import Repair
from fsm_agent.core.rules.table import Table
from fsm_agent.runtime import configs
from fsm_agent.runtime.driving.driver import CallRunner, Driver
from fsm_agent.runtime.driving.engine import LEASE_US, Engine, Listener
from fsm_agent.runtime.driving.owner import owner_name
from fsm_agent.runtime.driving.status import Status, status_of
from fsm_agent.runtime.planning.planner import Planner, check_planner
from fsm_agent.runtime.ports import Ports, SystemPorts
from fsm_agent.runtime.proof.heads import Heads, signer_for
from fsm_agent.runtime.secrets.hiding import secrets_of
from fsm_agent.runtime.secrets.proposals import discreet
from fsm_agent.runtime.secrets.vault import Vault, secret_inputs
from fsm_agent.runtime.speaking import Speaking, dead_holder
from fsm_agent.runtime.tools.toolbox import Toolbox
from fsm_agent.stores import MEMORY, open_store
from fsm_agent.stores.base import Store
from fsm_agent.stores.checks import check_run
from fsm_agent.version import VERSION

StoreLocation = Store | str | PathLike[str] | None
LEASE_S: Final = LEASE_US / 1_000_000
"""How long a lease lasts without renewal, in seconds."""


class RunController(Speaking):
    """A run and the verbs on it. Use as an async context manager; leaving it gives the run up, resumable.

    Attributes:
        heads: Where the log's head is kept outside of it; ``heads.fault`` says why it could not be.
    """

    def __init__(self, store: Store, run: str, *, own_store: bool, heads: Heads) -> None:
        """Use :meth:`start`, :meth:`open` or :meth:`attach`."""
        super().__init__(store, run, heads=heads)
        self._own_store = own_store
        self._stack = AsyncExitStack()
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
        repairs: Sequence[Repair] | str | Path = configs.REPAIRS,
        review: bool = False,
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
            repairs: Tried before the planner is asked; ``none``, or a ``.toml`` file of one's own.
            review: Start nothing before a person has approved the plan.
            listeners: Told of every batch of events once it is durable.
            ports: Time and chance, for tests.
            sign_key: File of the private key that checkpoints are signed with; left out,
                ``$FSM_AGENT_SIGNING_KEY``.
            lease_s: After so many seconds without a sign of life another process may take the run over.

        Raises:
            PlanError: The plan cannot be run with these tools; all its faults.
            ValueRefusedError: The log could not hold an input exactly.
            ConflictError: *run_id* is taken.
            ToolboxError: The toolbox's lifespan failed; no run was begun.
        """
        from fsm_agent.runtime.classifying import load_classifier  # who only attaches carries no call out

        if workers < 1:
            raise UsageError(f"workers: {workers} was given; at least 1 is needed")
        if run_id is not None:
            check_run(run_id)
        canon.check(dict(inputs or {}), "inputs")
        table = rules if isinstance(rules, Table) else configs.load_rules(rules, params or {})
        _check_calls(plan, tools, planner)
        vault, clock = Vault(), ports or SystemPorts()
        hidden = vault.hide_plan(plan.doc, tools.specs, tools.default_tool)
        secret = secret_inputs(plan.doc, tools.specs, tools.default_tool)
        run = run_id if run_id is not None else f"r-{secrets.token_hex(4)}"
        given = Create(
            run=run,
            plan=plan if hidden == plan.doc else known.trusted(hidden),
            rules=table,
            tools=tools.specs,
            inputs=vault.hide_inputs(canon.snapshot({**plan.inputs, **(inputs or {})})[0], secret),
            owner=owner_name(),
            classify_digest=load_classifier().digest,
            version=VERSION,
            tools_locator=tools_locator,
            default_tool=tools.default_tool,
            has_planner=planner is not None,
            planner_locator=planner_locator,
            repairs=configs.load_repairs(repairs) if isinstance(repairs, str | Path) else tuple(repairs),
            review=review,
        )
        opened, own, heads = _opened(store, sign_key)
        self = cls(opened, run, own_store=own, heads=heads)
        self._vault = vault
        try:
            calls = await self._enter(tools, clock)  # what cannot work at all leaves no run behind
            engine, commands = Engine.create(
                opened,
                given,
                clock,
                slots=0,
                ttl_us=round(lease_s * 1_000_000),
                force=run_id is not None and dead_holder(opened, run_id),
                listeners=listeners,
                heads=heads,
            )
            self._begin(engine, commands, calls, workers, planner)
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
            ToolboxError: The toolbox's lifespan failed; the run is as it was, and nobody holds it.
        """
        check_planner(planner)
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
                force=dead_holder(opened, run_id),
                listeners=listeners,
                heads=heads,
            )
            self._engine = engine
            self._give_again(inputs or {})
            calls = await self._enter(tools, engine.ports)
            self._begin(engine, commands, calls, workers, planner)
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
        if plain := sorted(set(inputs) - secrets_of(self.run)):
            raise UsageError(f"inputs {', '.join(plain)}: they are not secret, the log has them; use `set`")
        for name, value in inputs.items():
            self._vault.give(f"inputs.{name}", value)

    async def _enter(self, tools: Toolbox, ports: Ports) -> CallRunner:
        """Enter the toolbox's lifespan, and return what carries calls out; they report to the driver."""
        from fsm_agent.runtime.classifying import load_classifier  # who only attaches carries no call out
        from fsm_agent.runtime.driving.calls import Calls

        calls = Calls(
            tools,
            load_classifier(),
            run_id=self._id,
            vault=self._vault,
            report=lambda given: (self._driver or self._driving()).report(given),  # noqa: PLW0108 - made later
            clock_us=ports.now_us,
        )
        return await self._stack.enter_async_context(calls)

    def _begin(
        self,
        engine: Engine,
        commands: list[Command],
        calls: CallRunner,
        workers: int,
        planner: Planner | None,
    ) -> None:
        self._engine = engine
        self._driver = Driver(engine, workers=workers, planner=discreet(planner, lambda: engine.run))
        self._driver.begin(calls, commands)

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
            if self._driver is not None:
                self._driver.leave()
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
    def vault(self) -> Vault:
        """The secrets that this process holds for the run."""
        return self._vault

    @property
    def head(self) -> Head:
        """Where the log ends."""
        return self._engine.head if self._engine is not None else self._store.head(self._id)

    async def wait(
        self,
        until: Callable[[Status], bool] | None = None,
        *,
        timeout_s: float | None = None,
        stop_before: Callable[[Sequence[Event]], bool] | None = None,
    ) -> dict[str, Any]:
        """Drive until the run is final, or nothing can move without a person or evidence, or *until* holds.

        Args:
            until: Asked after every change.
            timeout_s: In seconds; None for as long as it takes.
            stop_before: A break point. Told the events that would come next, before they do; once it says True
                nothing more starts, and what is out is waited for.

        Returns:
            The report: what was done, what was not and why, what remains for a person.

        Raises:
            TimeoutError: *timeout_s* passed; the run goes on.
        """
        driver = self._driving()
        driver.engine.stop_before = stop_before
        driver.set_slots(driver.workers)
        try:
            async with asyncio.timeout(timeout_s):
                await driver.wait(
                    lambda: self._rests() or self._stopped() or (until is not None and until(self.status()))
                )
        finally:
            driver.engine.stop_before = None
        return self.report

    def flush(self) -> None:
        """Make everything so far durable, and have it told; where nothing is driven there is nothing to do."""
        if self._engine is not None:
            self._engine.flush()

    def halt(self) -> None:
        """Let nothing more start here until the next :meth:`wait` or :meth:`step`; what is out may end."""
        self._driving().engine.slots = 0

    def _stopped(self) -> bool:
        """Whether nothing more may start, and everything that was out has ended."""
        engine = self._driving().engine
        return engine.slots == 0 and not engine.run.running and not engine.run.probing

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

    async def events(self, since: int = 0, *, follow: bool = False) -> AsyncIterator[Event]:
        """Yield the stored events after seq *since*; with *follow* until the run is closed.

        The last ones may be on their way to the disk; listeners are told only of what is there.
        """
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

    def __repr__(self) -> str:
        return repr(self.status()) if not self._closed else f"<run {self._id}: closed here>"

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()


def _check_calls(plan: Plan, tools: Toolbox, planner: Planner | None) -> None:
    """Refuse a plan that these tools cannot carry out, and what is no planner."""
    from fsm_agent.core.plans import faults, planning  # finds faults, which a run that goes on has none of

    if not isinstance(plan, Plan):
        raise UsageError(f"plan: a {type(plan).__name__} was given; make a plan of it with Plan.make")
    check_planner(planner)
    specs = {spec.name: spec for spec in tools.specs}
    if found := planning.check(plan, specs, default_tool=tools.default_tool, warnings=False):
        raise faults.error(found)


def _opened(
    store: StoreLocation, sign_key: str | PathLike[str] | None = None, *, create: bool = True
) -> tuple[Store, bool, Heads]:
    """Return the store, whether it is to be closed with the controller, and where its heads are kept."""
    if store is None or isinstance(store, str | PathLike):
        place = MEMORY if store is None else fspath(store)
        heads = Heads.beside(place, signer=signer_for(place, sign_key))
        return open_store(place, create=create, anchored=heads.read), True, heads
    return store, False, Heads.beside(store.location, signer=signer_for(store.location, sign_key))
