"""Append, then act, then tell: one run, one owner, one input at a time.

The engine joins the pure core to a store. It reads no clock and starts no call: time and chance are ports, and
the commands it returns are somebody else's to carry out. The asynchronous controller and the simulation drive
this same class.
"""

import contextlib
from collections.abc import Callable, Sequence

from fsm_agent.core.audit import replay
from fsm_agent.core.classification.gently import clean
from fsm_agent.core.engine.decide import advance, apply, commands, decide
from fsm_agent.core.engine.state import Run
from fsm_agent.core.engine.turn import Turn
from fsm_agent.core.errors import (
    ConflictError,
    CorruptError,
    FsmAgentError,
    NotFoundError,
    RefusedError,
    StoreDeadError,
)
from fsm_agent.core.events import Event, Head, from_body, genesis, seal, to_body
from fsm_agent.core.inputs import (
    Command,
    Create,
    Env,
    Input,
    Probed,
    Progressed,
    Proposed,
    Returned,
    TakeOver,
    Tick,
)
from fsm_agent.core.machine import FINAL_RUN_STATES
from fsm_agent.core.tools import ToolSpec
from fsm_agent.runtime.driving import barriers
from fsm_agent.runtime.ports import Ahead, Ports
from fsm_agent.runtime.proof.heads import NOWHERE, Heads
from fsm_agent.stores.base import Lease, Store
from fsm_agent.stores.checks import check_run

LEASE_US = 30_000_000
"""How long a lease lasts without renewal, in microseconds."""
KEEP_EVENTS = 256
"""At the latest after so many events the head is kept outside the log again."""


Listener = Callable[[Sequence[Event]], None]
"""Told of every batch of events once it is durable."""


_IN_PLACE = frozenset({Returned, Tick, Progressed, Probed, Proposed, TakeOver, Create})
"""What no person says moves the state at once; a person's word does once the log has it."""


def _of_letter(event: Event, letter: str) -> Event:
    """Return *event*, the first that a person's word caused, with the letter that the word came in."""
    return event._replace(actor={**(event.actor or {"kind": "human"}), "letter": letter})


def _events(store: Store, run: str) -> int | None:
    """How many events *store* has of *run*; None if it has no such run."""
    try:
        return store.head(run).seq
    except NotFoundError:
        return None


class Engine:
    """A run in the hands of its owner.

    Attributes:
        run: The state; read it, never change it.
        store: Where its log is.
        lease: The right to append.
        head: Where the log ends.
        slots: How many calls may be out at once; 0 to deliver words only.
        stop_before: Told what an input would cause; where it says so, nothing more is started, from that very input
            on, and ``slots`` is 0.
        ttl_us: How long the lease lasts without renewal, in microseconds.
        ports: Time and chance as this run counts them: never before its last event.
    """

    def __init__(
        self,
        run: Run,
        store: Store,
        lease: Lease,
        head: Head,
        ports: Ports,
        *,
        slots: int,
        ttl_us: int = LEASE_US,
        listeners: Sequence[Listener] = (),
        heads: Heads = NOWHERE,
    ) -> None:
        """Take what :meth:`create` or :meth:`open` prepared."""
        self.run = run
        self.store = store
        self.lease = lease
        self.head = head
        self.slots = slots
        self.stop_before: Callable[[Sequence[Event]], bool] | None = None
        self.ttl_us = ttl_us
        self._clock = ports  # leases are compared with the clocks of others
        self._behind_us = max(0, run.at - ports.now_us())
        self.ports = Ahead(ports, self._behind_us) if self._behind_us else ports
        self._untold: list[Event] = []
        self._listeners = tuple(listeners)
        self._heads = heads
        self._kept = head
        self._repairs = len(store.repairs)
        self._held: list[Event] = []
        self._dead: str = ""

    @classmethod
    def create(
        cls,
        store: Store,
        given: Create,
        ports: Ports,
        *,
        slots: int = 4,
        ttl_us: int = LEASE_US,
        force: bool | str = False,
        listeners: Sequence[Listener] = (),
        heads: Heads = NOWHERE,
    ) -> tuple["Engine", list[Command]]:
        """Begin a new run and return its engine with the first commands.

        A run that was registered and whose owner died before its first event is begun by whoever asks next.

        Raises:
            UsageError: The run id cannot name a run.
            ConflictError: The run id is taken.
            OwnedError: Somebody is about to begin it; with *force* that owner is known to be dead.
        """
        check_run(given.run)
        now = ports.now_us()
        if not _events(store, given.run) and all(left.run != given.run for left in store.tombstones()):
            heads.check_absent(given.run)
        try:
            lease = store.create(given.run, given.owner, now_us=now, ttl_us=ttl_us)
        except ConflictError:
            if _events(store, given.run) != 0:
                raise
            lease = store.acquire(given.run, given.owner, now_us=now, ttl_us=ttl_us, force=force)
        engine = cls(
            Run(given.run),
            store,
            lease,
            genesis(given.run),
            ports,
            slots=slots,
            ttl_us=ttl_us,
            listeners=listeners,
            heads=heads,
        )
        return engine, engine.feed(given)

    @classmethod
    def open(
        cls,
        store: Store,
        run: str,
        owner: str,
        ports: Ports,
        *,
        tools: tuple[ToolSpec, ...] | None = None,
        default_tool: str | None = None,
        has_planner: bool = False,
        slots: int = 4,
        ttl_us: int = LEASE_US,
        force: bool | str = False,
        listeners: Sequence[Listener] = (),
        heads: Heads = NOWHERE,
    ) -> tuple["Engine", list[Command]]:
        """Take a run over: verify its log, fold it, and go on from there.

        Args:
            store: Holds the run.
            run: Its id.
            owner: Who takes it.
            ports: Time and chance.
            tools: The tools as this owner knows them; None to bring none.
            default_tool: Runs steps that name no tool.
            has_planner: Whether this owner can ask a planner.
            slots: Calls at once; 0 starts nothing.
            ttl_us: Life of the lease.
            force: Name of the holder of the lease, if it is known to be dead; True for whoever holds it.
            listeners: Told of every batch once it is durable.
            heads: Where the log's head is kept outside of it.

        Raises:
            NotFoundError: No such run.
            OwnedError: Another living owner holds it.
            CorruptError: Its log is not what was written, or ends before the head that is kept.
        """
        repairs = len(store.repairs)
        lease = store.acquire(run, owner, now_us=ports.now_us(), ttl_us=ttl_us, force=force)
        try:
            head = store.head(run)
            heads.check(store, run)
            state = replay.replay(run, store.read(run), store.blob)
            if state.seq != head.seq:
                raise CorruptError(
                    f"log of {run}: its head is event {head.seq}, its last event is {state.seq}"
                )
            engine = cls(
                state,
                store,
                lease,
                head,
                ports,
                slots=slots,
                ttl_us=ttl_us,
                listeners=listeners,
                heads=heads,
            )
            engine._repairs = repairs
            if state.seq == 0:
                raise CorruptError(
                    f"log of {run}: it is empty; its owner died before the first event. Start a new run"
                )
            given = TakeOver(
                epoch=lease.epoch,
                owner=owner,
                tools=tools,
                default_tool=default_tool,
                has_planner=has_planner,
            )
            return engine, engine.feed(given)
        except BaseException:
            store.release(lease)
            raise

    @property
    def final(self) -> bool:
        """Whether the run has ended."""
        return self.run.state in FINAL_RUN_STATES

    def next_due(self) -> int | None:
        """Return when the next :class:`Tick` is due, UTC epoch in microseconds; None for never."""
        return self.run.next_due()

    def feed(self, given: Input, *, letter: str | None = None, held: bool = False) -> list[Command]:
        """Handle one input: decide, append, and return what must be done now.

        Args:
            given: The input.
            letter: Name of the letter that a person's word came in; the log names it, so it is taken once.
            held: More inputs follow at once. They are appended together, by :meth:`settle`, and what is returned must
                not be done before that.

        Raises:
            RefusedError: It does not fit; logged as ``move_refused``, nothing else changed.
            FencedError: Another owner took the run over. This engine writes nothing any more.
            StoreError: The append failed. The engine is dead: open the run again.
        """
        if self._dead:
            raise StoreDeadError(f"run {self.run.id}: {self._dead}; open the run again")
        run = self.run
        env = Env(self.ports.now_us(), self.ports.jitter(), self.slots)
        in_place = type(given) in _IN_PLACE
        before = run.seq
        try:
            if self.stop_before is not None and self.slots and self.stop_before(decide(run, given, env)):
                self.slots = 0
                env = Env(now_us=env.now_us, jitter=env.jitter, slots=0)
            events = advance(run, given, env) if in_place else decide(run, given, env)
        except RefusedError as error:
            self._check_clean(before)
            self._refused(given, error, env, letter)
            raise
        except Exception:
            self._check_clean(before)
            raise
        if not events:
            return []
        if letter is not None:
            events = (_of_letter(events[0], letter), *events[1:])
        if held and in_place:
            self._held += events
            return commands(run, events)
        owed = self._append(events)
        if not in_place:
            for event in events:
                apply(run, event)
        self._stored(owed)
        return commands(run, events)

    def _check_clean(self, before: int) -> None:
        if self.run.seq != before:
            self._dead = "an input failed half-way, so the state in memory is not what the log says"

    def _refused(self, given: Input, error: RefusedError, env: Env, letter: str | None) -> None:
        """Log that an input was refused."""
        if self._dead:
            return
        turn = Turn(self.run, env)
        data = {"input": type(given).__name__, "code": error.code, "message": clean(str(error))}
        who = getattr(given, "who", None)
        actor = {"kind": "human", "id": clean(str(who.by))} if who is not None else None
        task = error.task if error.task in self.run.tasks else None
        event = turn.emit("move_refused", data, task, actor)
        self._stored(self._append((event if letter is None else _of_letter(event, letter),)))

    def _stored(self, owed: int) -> None:
        """Tell of what is durable by now, and log what the store has cut off."""
        if owed >= barriers.DURABLE:
            self._durable(keep=owed == barriers.KEPT)
        if len(self.store.repairs) > self._repairs:
            self._note_repairs()

    def _note_repairs(self) -> None:
        repairs, self._repairs = self.store.repairs[self._repairs :], len(self.store.repairs)
        turn = Turn(self.run, Env(now_us=self.ports.now_us()))
        for repair in repairs:
            if repair.run == self.run.id:
                words = (
                    f"a torn tail of {repair.bytes_cut} bytes behind event {repair.head.seq} was cut off; "
                    "nobody had been told of it"
                )
                facts = {"bytes_cut": repair.bytes_cut, "digest": repair.digest, "kept": repair.kept}
                actor = {"kind": "recovery", "id": self.lease.owner}
                turn.emit("note_added", {"text": words, "repair": facts}, None, actor)
        if turn.events:
            self._append(tuple(turn.events))

    def settle(self) -> None:
        """Append what *held* inputs have caused; then their commands may be carried out.

        Raises:
            FencedError: Another owner took the run over.
            StoreError: It could not be stored. The engine is dead: open the run again.
        """
        if self._held:
            self._stored(self._append(()))

    def _append(self, events: tuple[Event, ...]) -> int:
        """Append *events*, behind those that were held, and return what was owed to them and has been done.

        Those of a person's word are applied to the state only afterwards. Whatever goes wrong here, the state in
        memory may be ahead of the log or behind it: nothing more is done with it. See :mod:`.barriers`.
        """
        if self._held:
            events, self._held = (*self._held, *events), []
        owed = barriers.owed(events, heir=self.lease.epoch > 1)
        try:
            records, blobs = seal(self.head, events)
            self.head = self.store.append(
                self.lease,
                self.head,
                records,
                blobs=blobs,
                barrier=owed >= barriers.DURABLE,
                state=self._state_after(events),
                now_us=events[-1].at - self._behind_us,
            )
            if owed == barriers.WRITTEN:
                self.store.write()
        except BaseException as error:
            self._dead = str(error) or repr(error)
            raise
        if self._listeners:
            self._untold.extend(events)
        return owed

    def _state_after(self, events: tuple[Event, ...]) -> str:
        run = self.run
        if run.seq != events[-1].seq:  # they are not applied yet
            for event in reversed(events):
                if event.type == "run_moved":
                    return str(event.data["dest"])
        return run.state.value

    def flush(self) -> None:
        """Make everything durable and tell of it."""
        self.settle()
        self.store.flush()
        self._durable(keep=False)

    def rest(self) -> None:
        """Make everything durable, tell of it, and keep the head outside: nothing will move for a while."""
        self.settle()
        self.store.flush()
        self._durable(keep=True)

    def _durable(self, *, keep: bool) -> None:
        self._tell()
        if self.head != self._kept and (keep or self.head.seq >= self._kept.seq + KEEP_EVENTS):
            try:
                self._heads.keep(self.store, self.run.id, self.head)
            except FsmAgentError as error:
                self._dead = str(error)
                raise
            if not self._heads.fault:  # else it is tried again the next time, at the latest at the end
                self._kept = self.head

    def _tell(self) -> None:
        told, self._untold = [from_body(to_body(event)) for event in self._untold], []
        if told:  # copies: whoever is told may change them, and the state is made of the very values
            for listener in self._listeners:
                with contextlib.suppress(Exception):  # the log has it; telling never fails a run
                    listener(told)

    def renew(self) -> None:
        """Extend the lease."""
        self.store.renew(self.lease, now_us=self._clock.now_us(), ttl_us=self.ttl_us)

    def close(self) -> None:
        """Flush, tell, keep the head outside, and give the run up."""
        try:
            if not self._dead:
                self.rest()
        finally:
            self.store.release(self.lease)
