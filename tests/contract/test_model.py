"""Every store against a plain dict that does the same, through any sequence of calls, reopenings and zombies."""

import shutil
import tempfile
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fsm_agent.core.canon import blob_digest
from fsm_agent.core.errors import ConflictError, FencedError, NotFoundError, OwnedError
from fsm_agent.core.events import genesis
from fsm_agent.stores import open_store
from fsm_agent.testing.faulty_store import FaultyStore
from fsm_agent.testing.store_contract import batch, head_of

RUNS = st.sampled_from(["a", "A", "a/../b", "报销"])
OWNERS = st.sampled_from(["ann", "bob"])


@attrs.define
class Model:
    """What the contract says of one run."""

    records: list = attrs.Factory(list)
    epoch: int = 1
    owner: str | None = None
    until: int = 0
    state: str = "pending"
    created: int = 0
    updated: int = 0
    letters: dict = attrs.Factory(dict)
    blobs: set = attrs.Factory(set)

    def current(self, lease):
        return (self.epoch, self.owner) == (lease.epoch, lease.owner)

    def head(self, run):
        return head_of(self.records) if self.records else genesis(run)


class StoreMachine(RuleBasedStateMachine):
    """One store; a second handle of the same place looks on and takes over."""

    name = ":memory:"
    leases = Bundle("leases")

    @initialize()
    def begin(self):
        self.place = Path(tempfile.mkdtemp())
        self.now = 0
        self.model: dict[str, Model] = {}
        self.gone: dict[str, Model] = {}
        self.blobs: dict[str, bytes] = {}
        self.store = self.opened()

    def opened(self):
        if self.name == ":faulty:":
            return FaultyStore()
        return open_store(self.name if self.name == ":memory:" else self.place / self.name)

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.place)

    def tick(self):
        self.now += 1
        return self.now

    @rule(target=leases, run=RUNS, owner=OWNERS, ttl=st.integers(1, 20))
    def create(self, run, owner, ttl):
        now = self.tick()
        if run in self.model or run in self.gone:
            with pytest.raises(ConflictError):
                self.store.create(run, owner, now_us=now, ttl_us=ttl)
            return multiple()
        lease = self.store.create(run, owner, now_us=now, ttl_us=ttl)
        self.model[run] = Model(owner=owner, until=now + ttl, created=now, updated=now)
        return lease

    @rule(
        target=leases,
        run=RUNS,
        owner=OWNERS,
        ttl=st.integers(1, 20),
        force=st.booleans(),
        wait=st.integers(0, 9),
    )
    def acquire(self, run, owner, ttl, force, wait):
        self.now += wait
        now = self.tick()
        known = self.model.get(run)

        def call():
            return self.store.acquire(run, owner, now_us=now, ttl_us=ttl, force=force)

        if known is None:
            with pytest.raises(NotFoundError):
                call()
            return multiple()
        if known.owner is not None and known.until > now and not force:
            with pytest.raises(OwnedError, match=known.owner):
                call()
            return multiple()
        lease = call()
        known.epoch += 1
        known.owner, known.until = owner, now + ttl
        assert (lease.run, lease.epoch, lease.owner) == (run, known.epoch, owner)
        return lease

    @rule(lease=leases, ttl=st.integers(1, 20))
    def renew(self, lease, ttl):
        now = self.tick()
        if self.is_gone(lease, lambda: self.store.renew(lease, now_us=now, ttl_us=ttl)):
            return
        known = self.model[lease.run]
        if not known.current(lease):
            with pytest.raises(FencedError):
                self.store.renew(lease, now_us=now, ttl_us=ttl)
            return
        self.store.renew(lease, now_us=now, ttl_us=ttl)
        known.until = now + ttl

    @rule(lease=consumes(leases))
    def release(self, lease):
        if self.is_gone(lease, lambda: self.store.release(lease)):
            return
        self.store.release(lease)
        known = self.model[lease.run]
        if known.current(lease):
            known.owner, known.until = None, 0

    @rule(
        lease=leases,
        count=st.integers(1, 4),
        barrier=st.booleans(),
        state=st.sampled_from(["running", "done"]),
        blob=st.none() | st.integers(0, 3),
        behind=st.sampled_from([0, 0, 0, 1, 2]),
    )
    def append(self, lease, count, barrier, state, blob, behind):
        now, known = self.tick(), self.model.get(lease.run) or self.gone[lease.run]
        records = known.records[: len(known.records) - behind]
        head = head_of(records) if records else genesis(lease.run)
        new = batch(head, count, note=f"{lease.epoch}/{now}")
        value = b'"' + b"v" * (5000 + (blob or 0)) + b'"'
        blobs = {} if blob is None else {blob_digest(value): value}

        def call():
            return self.store.append(lease, head, new, blobs=blobs, barrier=barrier, state=state, now_us=now)

        if lease.run in self.gone or not known.current(lease):
            with pytest.raises((FencedError, NotFoundError) if lease.run in self.gone else FencedError):
                call()
                assert not barrier
                self.store.flush()  # without a barrier a zombie may learn only here
        elif head != known.head(lease.run):
            with pytest.raises(ConflictError):
                call()
        else:
            assert call() == head_of(new)
            known.records += new
            known.state, known.updated = state, now
            self.blobs.update(blobs)
            known.blobs.update(blobs)

    def is_gone(self, lease, call):
        """Whether the run of *lease* was removed; then *call* changes nothing."""
        if lease.run in self.gone:
            with pytest.raises((NotFoundError, FencedError)):
                call()
        return lease.run in self.gone

    @rule(lease=leases)
    def remove(self, lease):
        if self.is_gone(lease, lambda: self.store.remove(lease, {})):
            return
        known = self.model[lease.run]
        if not known.current(lease):
            with pytest.raises(FencedError):
                self.store.remove(lease, {})
            return
        self.store.remove(lease, {"n": self.now})
        self.gone[lease.run] = self.model.pop(lease.run)
        for name in known.blobs.difference(*(other.blobs for other in self.model.values())):
            del self.blobs[name]
            with pytest.raises(NotFoundError):
                self.store.blob(name)

    @rule()
    def flush(self):
        self.store.flush()

    @rule(run=RUNS, since=st.integers(0, 12), until=st.none() | st.integers(0, 12))
    def read(self, run, since, until):
        if run not in self.model:
            with pytest.raises(NotFoundError):
                self.store.read(run)
            return
        expected = self.model[run].records[since : None if until is None else max(until, since)]
        assert list(self.store.read(run, since=since, until=until)) == expected

    @rule(run=RUNS, number=st.integers())
    def post(self, run, number):
        now = self.tick()
        if run not in self.model:
            with pytest.raises(NotFoundError):
                self.store.post(run, {}, now_us=now)
            return
        everybody = (*self.model.values(), *self.gone.values())
        taken = [letter for known in everybody for letter in known.letters]
        body = {"n": number % 2**63}
        letter = self.store.post(run, body, now_us=now)
        assert letter > max(taken, default=0)
        self.model[run].letters[letter] = (body, None)

    @rule(lease=leases, letter=st.integers(1, 8))
    def answer(self, lease, letter):
        if self.is_gone(lease, lambda: self.store.answer(lease, letter, {})):
            return
        known = self.model[lease.run]

        def call():
            self.store.answer(lease, letter, {"to": letter})

        if not known.current(lease):
            with pytest.raises(FencedError):
                call()
        elif letter not in known.letters:
            with pytest.raises(NotFoundError):
                call()
        elif known.letters[letter][1] is not None:
            with pytest.raises(ConflictError):
                call()
        else:
            call()
            known.letters[letter] = (known.letters[letter][0], {"to": letter})

    @precondition(lambda self: not self.name.startswith(":"))
    @rule()
    def reopen(self):
        self.store.close()
        self.store = self.opened()

    @precondition(lambda self: not self.name.startswith(":"))
    @rule(target=leases, run=RUNS)
    def another_process_takes_over(self, run):
        if run not in self.model:
            return multiple()
        self.store.flush()
        other = self.opened()
        now, known = self.tick(), self.model[run]
        lease = other.acquire(run, "eve", now_us=now, ttl_us=5, force=True)
        known.epoch, known.owner, known.until = lease.epoch, "eve", now + 5
        new = batch(other.head(run), 2, note="eve")
        other.append(lease, other.head(run), new, blobs={}, barrier=False, state="failed", now_us=now)
        known.records += new
        known.state, known.updated = "failed", now
        other.close()
        return lease

    @precondition(lambda self: not self.name.startswith(":"))
    @rule(lease=leases, barrier=st.booleans())
    def a_zombie_goes_on_where_it_was(self, lease, barrier):
        if lease.run in self.gone:
            return
        known = self.model[lease.run]
        if known.current(lease) and known.owner is not None:
            head = known.head(lease.run)
            self.another_process_takes_over(lease.run)
            with pytest.raises(FencedError, match="eve"):
                self.store.append(
                    lease,
                    head,
                    batch(head, 2, note="zombie"),
                    blobs={},
                    barrier=barrier,
                    state="done",
                    now_us=1,
                )
                assert not barrier
                self.store.flush()

    @rule()
    def compare_everything(self):
        infos = self.store.runs()
        assert [info.run for info in infos] == list(self.model)
        for info in infos:
            known = self.model[info.run]
            found = (info.head, info.state, info.created_us, info.updated_us, info.owner, info.lease_until_us)
            assert found == (
                known.head(info.run), known.state, known.created, known.updated, known.owner, known.until,
            )  # fmt: skip
            assert info == self.store.info(info.run)
            letters = [(letter.id, letter.body, letter.answer) for letter in self.store.letters(info.run)]
            assert letters == [
                (n, body, None) for n, (body, answer) in known.letters.items() if answer is None
            ]
            for letter, (body, answer) in known.letters.items():
                assert (self.store.letter(letter).body, self.store.letter(letter).answer) == (body, answer)
        for name, value in self.blobs.items():
            assert self.store.blob(name) == value
        assert [tombstone.run for tombstone in self.store.tombstones()] == sorted(self.gone)

    @invariant()
    def heads_agree(self):
        if (
            self.name != "runs.db" or self.now % 3 == 0
        ):  # a read writes the buffer: leave it be most of the time
            for run, known in self.model.items():
                assert self.store.head(run) == known.head(run)


@pytest.mark.parametrize("name", [":memory:", ":faulty:", "runs.db", "runs.jsonl"])
def test_a_store_does_what_a_dict_would_do(name):
    machine = type("Machine", (StoreMachine,), {"name": name})
    few = settings(
        max_examples=20 if name.startswith("runs") else 60,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=few)
