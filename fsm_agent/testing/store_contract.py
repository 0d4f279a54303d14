"""The contract of a store as a test suite that every store runs, ours and yours.

Subclass it in a test module, say how to open the store, and let pytest collect it::

    class TestMyStore(StoreContract):
        def open(self, place: Path) -> Store:
            return MyStore(place / "store")

Nothing here imports pytest; ``tmp_path`` is pytest's fixture of that name.
"""

import hashlib
from pathlib import Path

from fsm_agent.core.errors import ConflictError, FencedError, NotFoundError, OwnedError, UsageError
from fsm_agent.core.events import Head, Record, genesis
from fsm_agent.stores.base import Lease
from fsm_agent.testing.store_contract_handles import HandlesContract
from fsm_agent.testing.store_contract_removal import RemovalContract
from fsm_agent.testing.store_kit import TTL_US, batch, head_of, put, refuses

__all__ = ["TTL_US", "StoreContract", "batch", "head_of", "put", "refuses"]


class StoreContract(HandlesContract, RemovalContract):
    """What every store does. See the module for how to use it."""

    # Runs and their owners

    def test_a_new_run_is_empty_pending_and_owned(self, tmp_path: Path) -> None:
        """The first lease has epoch 1; the head of an empty log is the genesis of the run's id."""
        store = self.open(tmp_path)
        lease = store.create("r", "ann", now_us=5, ttl_us=TTL_US)
        assert lease == Lease(run="r", epoch=1, owner="ann")
        assert store.head("r") == genesis("r")
        assert list(store.read("r")) == []
        info = store.info("r")
        assert (info.run, info.head, info.state, info.owner) == ("r", genesis("r"), "pending", "ann")
        assert (info.created_us, info.updated_us, info.lease_until_us) == (5, 5, 5 + TTL_US)
        store.close()

    def test_an_id_is_given_once(self, tmp_path: Path) -> None:
        """Also after the run was released."""
        store = self.open(tmp_path)
        store.release(store.create("r", "ann", now_us=1, ttl_us=TTL_US))
        with refuses(ConflictError, "taken"):
            store.create("r", "bob", now_us=10 * TTL_US, ttl_us=TTL_US)
        store.close()

    def test_every_text_of_up_to_10000_characters_names_its_own_run(self, tmp_path: Path) -> None:
        """Ids that a file system would confuse stay apart; empty and longer ones are refused."""
        store = self.open(tmp_path)
        names = [
            "a",
            "A",
            "a/../b",
            "b",
            "..",
            "a b",
            "caf\u00e9",
            "cafe\u0301",
            "报销",
            "x" * 10_000,
            "a\x00b",
            "%41",
            "~",
        ]
        for number, name in enumerate(names):
            put(store, store.create(name, "ann", now_us=number, ttl_us=TTL_US), note=f"of {number}")
        assert [info.run for info in store.runs()] == names
        for number, name in enumerate(names):
            assert f"of {number}".encode() in next(store.read(name)).body
        for name in ("", "x" * 10_001, "\ud800"):
            with refuses(UsageError, "run id"):
                store.create(name, "ann", now_us=1, ttl_us=TTL_US)
        store.close()

    def test_an_unknown_run_is_not_found(self, tmp_path: Path) -> None:
        """By every method that takes one."""
        store = self.open(tmp_path)
        lease = Lease(run="nobody's", epoch=1, owner="ann")
        records = batch(genesis(lease.run))
        calls = (
            lambda: store.acquire(lease.run, "ann", now_us=1, ttl_us=TTL_US),
            lambda: store.renew(lease, now_us=1, ttl_us=TTL_US),
            lambda: store.release(lease),
            lambda: store.append(
                lease, genesis(lease.run), records, blobs={}, barrier=True, state="running", now_us=1
            ),
            lambda: store.head(lease.run),
            lambda: list(store.read(lease.run)),
            lambda: store.info(lease.run),
            lambda: store.post(lease.run, {}, now_us=1),
            lambda: store.letters(lease.run),
            lambda: store.answer(lease, 1, {}),
        )
        for call in calls:
            with refuses(NotFoundError, "nobody's"):
                call()
        store.close()

    def test_a_living_lease_keeps_others_out_until_it_expires(self, tmp_path: Path) -> None:
        """The refusal names the holder; at the very end of the lease the run is free."""
        store = self.open(tmp_path)
        store.create("r", "ann", now_us=0, ttl_us=100)
        with refuses(OwnedError, "ann", "100"):
            store.acquire("r", "bob", now_us=99, ttl_us=100)
        assert store.acquire("r", "bob", now_us=100, ttl_us=100) == Lease(run="r", epoch=2, owner="bob")
        store.close()

    def test_the_same_owner_asking_twice_is_two_owners(self, tmp_path: Path) -> None:
        """A name proves nothing: two processes may use it."""
        store = self.open(tmp_path)
        store.create("r", "ann", now_us=0, ttl_us=100)
        with refuses(OwnedError, "ann"):
            store.acquire("r", "ann", now_us=50, ttl_us=100)
        store.close()

    def test_a_renewed_lease_lives_longer(self, tmp_path: Path) -> None:
        """Until the new end."""
        store = self.open(tmp_path)
        lease = store.create("r", "ann", now_us=0, ttl_us=100)
        store.renew(lease, now_us=90, ttl_us=100)
        assert store.info("r").lease_until_us == 190
        with refuses(OwnedError, "190"):
            store.acquire("r", "bob", now_us=189, ttl_us=100)
        store.close()

    def test_an_expired_lease_that_nobody_took_over_is_still_the_current_one(self, tmp_path: Path) -> None:
        """Only a new owner fences; time alone does not."""
        store = self.open(tmp_path)
        lease = store.create("r", "ann", now_us=0, ttl_us=1)
        store.renew(lease, now_us=1_000, ttl_us=100)
        put(store, lease, barrier=True)
        store.close()

    def test_a_released_run_is_free_and_its_lease_is_worth_nothing(self, tmp_path: Path) -> None:
        """The epoch stays, so the next owner has a higher one."""
        store = self.open(tmp_path)
        lease = store.create("r", "ann", now_us=0, ttl_us=TTL_US)
        store.release(lease)
        assert (store.info("r").owner, store.info("r").lease_until_us) == (None, 0)
        for call in (
            lambda: store.renew(lease, now_us=1, ttl_us=1),
            lambda: put(store, lease, barrier=True),
            lambda: store.answer(lease, store.post("r", {}, now_us=1), {}),
        ):
            with refuses(FencedError, "nobody holds it"):
                call()
        store.release(lease)
        assert store.acquire("r", "bob", now_us=1, ttl_us=TTL_US).epoch == 2
        store.close()

    def test_a_forced_take_over_fences_the_zombie(self, tmp_path: Path) -> None:
        """It can neither write, renew, answer nor release what is no longer its own, and its log is untouched."""
        store = self.open(tmp_path)
        zombie = store.create("r", "ann", now_us=0, ttl_us=TTL_US)
        put(store, zombie, 2)
        heir = store.acquire("r", "ann", now_us=1, ttl_us=TTL_US, force=True)
        letter = store.post("r", {"say": "hello"}, now_us=2)
        head = store.head("r")
        assert (heir.epoch, head.seq) == (2, 2)
        for call in (
            lambda: store.append(zombie, head, batch(head), blobs={}, barrier=True, state="failed", now_us=3),
            lambda: store.renew(zombie, now_us=3, ttl_us=TTL_US),
            lambda: store.answer(zombie, letter, {}),
        ):
            with refuses(FencedError, "epoch 1", "epoch 2"):
                call()
        store.release(zombie)
        assert (store.head("r"), store.info("r").owner, store.info("r").state) == (head, "ann", "running")
        put(store, heir, barrier=True)
        store.close()

    def test_a_run_is_taken_by_force_from_the_holder_that_was_named_and_from_no_other(
        self, tmp_path: Path
    ) -> None:
        """Whoever found that holder dead may be slower than somebody else who found the same."""
        store = self.open(tmp_path)
        store.create("r", "dead", now_us=0, ttl_us=TTL_US)
        with refuses(OwnedError, "dead"):
            store.acquire("r", "bob", now_us=1, ttl_us=TTL_US, force="somebody")
        assert store.acquire("r", "bob", now_us=1, ttl_us=TTL_US, force="dead").epoch == 2
        with refuses(OwnedError, "bob"):
            store.acquire("r", "cho", now_us=1, ttl_us=TTL_US, force="dead")
        store.close()

    # The log

    def test_what_is_appended_is_read_back_byte_for_byte(self, tmp_path: Path) -> None:
        """With and without a barrier, in order."""
        store = self.open(tmp_path)
        lease = store.create("r", "ann", now_us=0, ttl_us=TTL_US)
        records: list[Record] = []
        for number in range(12):
            head = store.head("r") if number % 5 == 0 else (head_of(records) if records else genesis("r"))
            new = batch(head, number % 3 + 1, note="报销 \U0001f680 " * number)
            store.append(lease, head, new, blobs={}, barrier=number % 4 == 0, state="running", now_us=number)
            records += new
        assert list(store.read("r")) == records
        assert store.head("r") == head_of(records)
        store.close()

    def test_a_part_of_the_log_is_read_by_seq(self, tmp_path: Path) -> None:
        """``since`` is left out, ``until`` is taken in; beyond the end there is nothing."""
        store = self.open(tmp_path)
        lease = store.create("r", "ann", now_us=0, ttl_us=TTL_US)
        records = put(store, lease, 3) + put(store, lease, 2)
        for since in range(7):
            for until in (None, *range(8)):
                found = list(store.read("r", since=since, until=until))
                assert found == records[since : None if until is None else until]
        with refuses(UsageError, "-1"):
            store.read("r", since=-1)
        store.close()

    def test_a_reader_sees_the_log_as_it_was_when_it_asked(self, tmp_path: Path) -> None:
        """One consistent view, although the owner goes on writing."""
        store = self.open(tmp_path)
        lease = store.create("r", "ann", now_us=0, ttl_us=TTL_US)
        records = put(store, lease, 3)
        reader = store.read("r")
        first = next(reader)
        put(store, lease, 2, barrier=True)
        assert [first, *reader] == records
        store.close()

    def test_an_append_to_a_head_that_has_moved_writes_nothing(self, tmp_path: Path) -> None:
        """Neither to an old head nor to one that never was."""
        store = self.open(tmp_path)
        lease = store.create("r", "ann", now_us=0, ttl_us=TTL_US)
        records = put(store, lease, 2)
        for barrier in (False, True):
            for head in (genesis("r"), Head(2, bytes(32)), Head(7, records[-1].hash)):
                with refuses(ConflictError, f"seq {head.seq}"):
                    store.append(
                        lease, head, batch(head), blobs={}, barrier=barrier, state="failed", now_us=9
                    )
        assert list(store.read("r")) == records
        assert store.info("r").state == "running"
        put(store, lease, barrier=True)
        store.close()

    def test_records_that_do_not_follow_the_expected_head_are_refused(self, tmp_path: Path) -> None:
        """A gap, a foreign chain, an edited body, or none at all; the log stays a chain."""
        store = self.open(tmp_path)
        lease = store.create("r", "ann", now_us=0, ttl_us=TTL_US)
        head = head_of(put(store, lease))
        good = batch(head, 2)
        edited = [good[0], good[1]._replace(body=good[1].body.replace(b"note_added", b"note_addee"))]
        for records in ([], good[1:], batch(genesis("r")), batch(Head(1, bytes(32))), edited):
            with refuses(UsageError, "append"):
                store.append(lease, head, records, blobs={}, barrier=True, state="running", now_us=1)
        assert store.head("r") == head
        store.append(lease, head, good, blobs={}, barrier=True, state="running", now_us=1)
        store.close()

    def test_runs_do_not_touch_each_other(self, tmp_path: Path) -> None:
        """Interleaved appends to many runs stay in their logs."""
        store = self.open(tmp_path)
        leases = [store.create(f"r{n}", "ann", now_us=n, ttl_us=TTL_US) for n in range(5)]
        heads = [genesis(lease.run) for lease in leases]
        for step in range(20):
            n = step * 7 % 5
            records = batch(heads[n], 2, note=f"{n}/{step}")
            heads[n] = store.append(
                leases[n], heads[n], records, blobs={}, barrier=step % 6 == 0, state="running", now_us=step
            )
        for n, lease in enumerate(leases):
            found = list(store.read(lease.run))
            assert head_of(found) == heads[n] == store.head(lease.run)
            assert all(f"{n}/".encode() in record.body for record in found)
        store.close()

    def test_the_list_shows_state_and_times_oldest_first(self, tmp_path: Path) -> None:
        """As the last append said."""
        store = self.open(tmp_path)
        late = store.create("late", "ann", now_us=20, ttl_us=TTL_US)
        early = store.create("early", "bob", now_us=10, ttl_us=TTL_US)
        for lease, state in ((late, "done"), (early, "awaiting-confirmation")):
            records = batch(genesis(lease.run))
            store.append(lease, genesis(lease.run), records, blobs={}, barrier=False, state=state, now_us=99)
        found = [(i.run, i.state, i.created_us, i.updated_us, i.owner, i.head.seq) for i in store.runs()]
        assert found == [
            ("early", "awaiting-confirmation", 10, 99, "bob", 1),
            ("late", "done", 20, 99, "ann", 1),
        ]
        assert store.info("late") == store.runs()[1]
        store.close()

    # Large values

    def test_a_large_value_is_found_by_its_digest(self, tmp_path: Path) -> None:
        """At once, whichever batch and run brought it; unknown ones are not found."""
        store = self.open(tmp_path)
        value = b'"' + b"x" * 100_000 + b'"'
        name = hashlib.sha256(value).hexdigest()
        with refuses(NotFoundError, name):
            store.blob(name)
        for run in ("a", "b"):
            lease = store.create(run, "ann", now_us=0, ttl_us=TTL_US)
            head = genesis(run)
            for barrier in (False, True):
                records = batch(head)
                head = store.append(
                    lease, head, records, blobs={name: value}, barrier=barrier, state="running", now_us=1
                )
                assert store.blob(name) == value
        store.close()

    def test_a_value_that_is_not_what_its_digest_says_is_refused(self, tmp_path: Path) -> None:
        """And the records that came with it."""
        store = self.open(tmp_path)
        lease = store.create("r", "ann", now_us=0, ttl_us=TTL_US)
        head = genesis("r")
        for value in (b'"other"', b'"a"\n'):
            name = hashlib.sha256(value if b"\n" in value else b'"a"').hexdigest()
            with refuses(UsageError, name):
                store.append(
                    lease, head, batch(head), blobs={name: value}, barrier=True, state="running", now_us=1
                )
        assert store.head("r") == head
        store.close()
