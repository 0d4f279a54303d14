"""Append, then act, then tell: what an engine does when its store, its owner or its listeners fail it."""

import pytest

from fsm_agent.core.audit import replay
from fsm_agent.core.audit.audit import audit
from fsm_agent.core.errors import (
    ConflictError,
    CorruptError,
    FencedError,
    NotFoundError,
    OwnedError,
    RefusedError,
    StoreDeadError,
)
from fsm_agent.core.events import Event
from fsm_agent.core.inputs import Ask, Note, Outcome, Progressed, Returned, Tick
from fsm_agent.core.machine import RunState
from fsm_agent.core.signals import Applied, Signal
from fsm_agent.runtime.driving.barriers import needs_barrier
from fsm_agent.runtime.driving.engine import Engine
from fsm_agent.stores.memory import MemoryStore
from fsm_agent.testing.faulty_store import Breakage, FaultyStore
from fsm_agent.testing.volatile import VolatileStore
from tests.core.kit import ANN, Lab, Ports, refused

LOOK = [{"id": "a", "tool": "look"}]
CREATE = Lab(LOOK, checked=False).create


def made(store, **more):
    return Engine.create(store, CREATE, Ports(), **more)[0]


def returned(value=1):
    return Returned(task="a", attempt=1, outcome=Outcome(kind="value", value=value))


def assert_clean(engine):
    found = audit(engine.run.id, engine.store.read(engine.run.id), engine.store.blob, head=engine.head)
    assert found.findings == ()


# ── beginning ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_id_is_used_once():
    store = MemoryStore()
    made(store)
    with pytest.raises(ConflictError):
        made(store)


def test_a_run_whose_owner_died_before_its_first_event_is_begun_by_the_next_one():
    store = MemoryStore()
    store.create("r", "dead", now_us=0, ttl_us=10**18)
    with pytest.raises(OwnedError):
        made(store)
    engine = made(store, force=True)
    assert engine.run.state is RunState.RUNNING
    assert_clean(engine)


def test_an_id_that_is_taken_in_a_store_that_forgets_it_at_once_is_still_taken():
    class Forgetful(MemoryStore):
        def create(self, run, owner, *, now_us, ttl_us):
            raise ConflictError("taken")

    with pytest.raises(ConflictError, match="taken"):
        made(Forgetful())


# ── taking over ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_is_taken_over_by_one_owner_and_the_one_before_writes_nothing_more():
    store = MemoryStore()
    first = made(store)
    with pytest.raises(OwnedError):
        Engine.open(store, "r", "two", first.ports)
    second, _ = Engine.open(store, "r", "two", first.ports, tools=CREATE.tools, force=True)
    with pytest.raises(FencedError):
        first.feed(returned())
    with pytest.raises(StoreDeadError, match="open the run again"):
        first.feed(Tick())
    assert second.run.epoch == 2
    assert_clean(second)


def test_a_run_that_nobody_began_or_that_is_not_there_cannot_be_taken_over():
    store = MemoryStore()
    with pytest.raises(NotFoundError):
        Engine.open(store, "r", "x", Ports())
    store.create("r", "dead", now_us=0, ttl_us=1)
    with pytest.raises(CorruptError, match="it is empty"):
        Engine.open(store, "r", "x", Ports(), force=True)
    assert store.info("r").owner is None


def test_a_log_that_ends_before_its_head_is_refused_and_the_lease_given_back():
    store = MemoryStore()
    made(store).close()

    class Short(MemoryStore):
        def read(self, run, *, since=0, until=None):
            return iter(list(super().read(run, since=since, until=until))[:-1])

    short = Short()
    short._runs = store._runs
    with pytest.raises(CorruptError, match="its last event is"):
        Engine.open(short, "r", "x", Ports())
    assert short.info("r").owner is None


# ── feeding ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_engine_knows_when_it_is_wanted_next_and_when_it_is_over():
    engine = made(MemoryStore())
    assert engine.next_due() == engine.run.tasks["a"].deadline_at
    assert not engine.final
    engine.feed(returned())
    assert engine.final
    assert engine.next_due() is None
    assert_clean(engine)


def test_a_refused_input_is_logged_with_its_speaker_and_changes_nothing_else():
    engine = made(MemoryStore())
    with refused():
        engine.feed(Note(text="", who=ANN))
    with refused():
        engine.feed(Progressed(task="a", attempt=9, advanced=True))
    words, report = [e for e in replay.events("r", engine.store.read("r"), engine.store.blob)][-2:]
    assert (words.type, words.actor) == ("move_refused", {"kind": "human", "id": "ann"})
    assert (report.data["input"], report.task, report.actor) == ("Progressed", "a", None)
    engine.feed(returned())
    assert engine.final


@pytest.mark.parametrize("breakage", [Breakage.ERROR_BEFORE, Breakage.ERROR_AFTER])
def test_after_an_error_of_the_store_the_engine_is_dead_and_the_run_goes_on_elsewhere(breakage):
    calls = FaultyStore()
    made(calls)
    store = FaultyStore(break_at=calls.calls + 1, breakage=breakage)
    engine = made(store)
    with pytest.raises(StoreDeadError):
        engine.feed(returned())
    with pytest.raises(StoreDeadError):
        engine.feed(Tick())
    survivor = store.survivor(kept=store.soft_changes())
    ports = Ports()
    second, _ = Engine.open(survivor, "r", "two", ports, tools=CREATE.tools, force=True)
    if not second.final:
        while second.run.tasks["a"].state != "running":
            ports.clock.move_to(second.next_due())
            second.feed(Tick())
        second.feed(Returned(task="a", attempt=2, outcome=Outcome(kind="value", value=1)))
    assert second.final
    assert_clean(second)


def test_a_value_that_cannot_be_stored_kills_the_engine_instead_of_leaving_it_ahead_of_its_log():
    engine = made(MemoryStore())
    odd = Outcome(kind="error", signal=Signal.CONFLICT, applied=Applied.NO, error={"message": "\ud800"})
    with pytest.raises(TypeError):
        engine.feed(Returned(task="a", attempt=1, outcome=odd))
    with pytest.raises(StoreDeadError):
        engine.feed(returned())
    second, _ = Engine.open(engine.store, "r", "two", engine.ports, tools=CREATE.tools, force=True)
    assert second.run.tasks["a"].state == "pending"


@pytest.mark.parametrize("error", [ZeroDivisionError, RefusedError])
def test_an_input_that_fails_half_way_kills_the_engine_and_logs_nothing(error):
    engine = made(MemoryStore())

    class Broken:
        on_failure = None
        done_when = None

        @property
        def estimate(self):
            raise error("half-way")

    engine.run.tasks["a"].step = Broken()
    with pytest.raises(error):
        engine.feed(returned())
    assert engine.store.head("r") == engine.head
    with pytest.raises(StoreDeadError, match="failed half-way"):
        engine.feed(Tick())
    engine.close()


def test_an_input_that_fails_before_anything_has_happened_leaves_the_engine_alive():
    engine = made(MemoryStore())
    with pytest.raises(AttributeError):
        engine.feed(Returned(task="a", attempt=1, outcome=None))
    engine.feed(returned())
    assert engine.final


# ── telling ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_whoever_listens_is_told_of_what_is_durable_and_sees_the_state_after_it():
    told = []
    engine = None

    def listen(events):
        state = engine.run.state.value if engine is not None else None
        told.append(([e.type for e in events], state))

    engine = made(VolatileStore(), listeners=[listen])
    assert told[0][0][0] == "run_created"
    count = len(told)
    engine.feed(Progressed(task="a", attempt=1, advanced=True))
    assert len(told) == count
    engine.flush()
    assert told[-1][0] == ["progressed"]
    engine.flush()
    assert len(told) == count + 1
    engine.feed(returned())
    assert told[-1][1] == "done"


def test_a_persons_word_is_in_the_state_before_anybody_is_told():
    told, box = [], []
    engine = made(MemoryStore(), listeners=[lambda events: told.append(box and box[0].run.state.value)])
    box.append(engine)
    told.clear()
    assert engine.feed(Tick()) == []
    (stop,) = engine.feed(Ask(wish="cancel", who=ANN))
    assert stop.cut_off
    assert told == ["cancelled"]
    assert_clean(engine)


def test_a_listener_that_fails_does_not_fail_the_run_nor_the_next_listener():
    told = []

    def fail(events):
        raise RuntimeError("no terminal")

    engine = made(MemoryStore(), listeners=[fail, told.append])
    engine.feed(returned())
    assert engine.final
    assert told
    assert_clean(engine)


def event(type_, *, actor=None, **data):
    return Event(1, 1, type_, data, actor=actor)


@pytest.mark.parametrize(
    ("happened", "barrier"),
    [
        (event("run_created"), True),
        (event("run_closed"), True),
        (event("run_asked"), True),
        (event("approval_answered"), True),
        (event("owner_changed"), True),
        (event("probe_sent", repeat=True), True),
        (event("probe_sent", repeat=False), False),
        (event("task_moved", trigger="start", effect="read"), False),
        (event("task_moved", trigger="start", effect="write"), True),
        (event("task_moved", trigger="start", effect="idempotent"), True),
        (event("task_moved", trigger="succeed"), False),
        (event("decided"), False),
        (event("note_added"), False),
        (event("planner_asked"), True),
        *(
            (event(name, actor={"kind": "human", "id": "ann"}), True)
            for name in ("note_added", "input_changed")
        ),
        (event("reconciled", actor={"kind": "human", "id": "ann"}), True),
        (event("reconciled", actor={"kind": "tool", "id": "pay"}), False),
        (event("move_refused", actor={"kind": "human", "id": "ann"}), False),
    ],
)
def test_what_must_be_durable_before_anything_is_done_about_it(happened, barrier):
    assert needs_barrier(happened) is barrier


# ── the end of an owner ───────────────────────────────────────────────────────────────────────────────────────


def test_a_lease_is_renewed_while_it_is_held_and_given_up_at_the_end():
    store = MemoryStore()
    engine = made(store, ttl_us=1000)
    engine.ports.clock.advance(0.0005)
    engine.renew()
    assert store.info("r").lease_until_us == engine.ports.now_us() + 1000
    engine.close()
    assert store.info("r").owner is None


def test_heads_that_cannot_be_kept_are_an_error_after_which_nothing_more_is_written():
    class Nowhere:
        def keep(self, store, run, head):
            raise StoreDeadError("the other disk is gone")

        def check(self, run, records):
            return records

        def check_absent(self, run):
            pass

    with pytest.raises(StoreDeadError, match="other disk"):
        engine = made(MemoryStore(), heads=Nowhere())
        engine.feed(returned())
    with pytest.raises(StoreDeadError):
        engine.feed(Tick())
    engine.close()
