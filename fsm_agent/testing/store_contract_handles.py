"""The part of the store contract that is about letters, several handles and the end of a store."""

import contextlib
import hashlib
from pathlib import Path

from fsm_agent.core.errors import (
    ConflictError,
    FencedError,
    FsmAgentError,
    NotFoundError,
    OwnedError,
    StoreDeadError,
)
from fsm_agent.core.events import genesis
from fsm_agent.testing.store_kit import TTL_US, StoreSuite, batch, head_of, put, refuses


class HandlesContract(StoreSuite):
    """The inbox, two handles on one store, and closing."""

    # The inbox

    def test_letters_are_kept_in_order_until_they_are_answered(self, tmp_path: Path) -> None:
        """Their ids rise over all runs; an answered letter is still there, with its answer."""
        store = self.open(tmp_path)
        lease = store.create("r", "ann", now_us=0, ttl_us=TTL_US)
        store.create("other", "bob", now_us=0, ttl_us=TTL_US)
        first = store.post("r", {"do": "pause", "报销": [1, 2.5, None]}, now_us=7)
        foreign = store.post("other", {"do": "cancel"}, now_us=8)
        second = store.post("r", {"do": "resume"}, now_us=9)
        assert first < foreign < second
        assert [(x.id, x.run, x.posted_us, x.answer) for x in store.letters("r")] == [
            (first, "r", 7, None),
            (second, "r", 9, None),
        ]
        store.answer(lease, first, {"ok": True})
        assert [x.id for x in store.letters("r")] == [second]
        assert (store.letter(first).answer, store.letter(second).answer) == ({"ok": True}, None)
        assert store.letter(first).body == {"do": "pause", "报销": [1, 2.5, None]}
        with refuses(NotFoundError, str(second + 1)):
            store.letter(second + 1)
        store.close()

    def test_a_letter_has_one_answer(self, tmp_path: Path) -> None:
        """The second is refused; so is an answer to another run's letter, or to none."""
        store = self.open(tmp_path)
        lease = store.create("r", "ann", now_us=0, ttl_us=TTL_US)
        store.create("other", "bob", now_us=0, ttl_us=TTL_US)
        mine, foreign = store.post("r", {}, now_us=1), store.post("other", {}, now_us=1)
        store.answer(lease, mine, {"n": 1})
        with refuses(ConflictError, str(mine), "once"):
            store.answer(lease, mine, {"n": 2})
        for letter in (foreign, 1234):
            with refuses(NotFoundError, str(letter)):
                store.answer(lease, letter, {})
        assert (store.letter(mine).answer, store.letter(foreign).answer) == ({"n": 1}, None)
        store.close()

    def test_a_letter_is_a_private_copy(self, tmp_path: Path) -> None:
        """Whoever changes the body afterwards, or a letter read, changes nothing in the store."""
        store = self.open(tmp_path)
        store.create("r", "ann", now_us=0, ttl_us=TTL_US)
        body = {"list": [1]}
        letter = store.post("r", body, now_us=1)
        body["list"].append(2)
        store.letter(letter).body["list"].append(3)
        assert store.letter(letter).body == {"list": [1]}
        for value in (["no object"], {"nan": float("nan")}):
            with contextlib.suppress(FsmAgentError):
                store.post("r", value, now_us=1)  # type: ignore[arg-type]
                raise AssertionError(f"{value} was taken")
        store.close()

    def test_a_letter_that_is_posted_here_is_a_change_too(self, tmp_path: Path) -> None:
        """The owner of a run and whoever writes to it may share one store."""
        store = self.open(tmp_path)
        store.create("r", "ann", now_us=0, ttl_us=TTL_US)
        seen = [store.changes()]
        for _ in range(3):
            store.post("r", {}, now_us=1)
            seen.append(store.changes())
        assert len(set(seen)) == len(seen)
        store.close()

    # Several handles, and the end

    def test_another_handle_sees_what_was_flushed(self, tmp_path: Path) -> None:
        """Log, values, list, letters; and the two share one truth about who owns the run."""
        if not self.shared:
            return
        one, two = self.open(tmp_path), self.open(tmp_path)
        lease = one.create("r", "ann", now_us=0, ttl_us=TTL_US)
        value = b'"' + b"v" * 5000 + b'"'
        name = hashlib.sha256(value).hexdigest()
        records = batch(genesis("r"), 3)
        one.append(lease, genesis("r"), records, blobs={name: value}, barrier=False, state="done", now_us=5)
        one.flush()
        assert list(two.read("r")) == records
        assert (two.head("r"), two.blob(name), two.info("r")) == (head_of(records), value, one.info("r"))
        letter = two.post("r", {"from": "two"}, now_us=6)
        assert [x.id for x in one.letters("r")] == [letter]
        one.answer(lease, letter, {"from": "one"})
        assert two.letter(letter).answer == {"from": "one"}
        with refuses(OwnedError, "ann"):
            two.acquire("r", "bob", now_us=1, ttl_us=TTL_US)
        one.close()
        two.close()

    def test_what_was_written_is_there_for_others_before_it_is_flushed(self, tmp_path: Path) -> None:
        """So it outlives the process that wrote it; nothing to write is nothing wrong."""
        if not self.shared:
            return
        one, two = self.open(tmp_path), self.open(tmp_path)
        one.write()
        lease = one.create("r", "ann", now_us=0, ttl_us=TTL_US)
        records = batch(genesis("r"), 3)
        one.append(lease, genesis("r"), records, blobs={}, barrier=False, state="running", now_us=5)
        one.write()
        assert list(two.read("r")) == records
        assert two.info("r").state == "running"
        one.close()
        two.close()

    def test_a_zombie_in_another_handle_is_fenced_before_its_next_write_counts(self, tmp_path: Path) -> None:
        """With a barrier at once; without one at the latest when it flushes, and nothing of it is in the log."""
        if not self.shared:
            return
        one, two = self.open(tmp_path), self.open(tmp_path)
        zombie = one.create("r", "ann", now_us=0, ttl_us=1)
        head = head_of(put(one, zombie, barrier=True))
        heir = two.acquire("r", "bob", now_us=1, ttl_us=TTL_US)
        with refuses(FencedError, "bob"):
            one.append(zombie, head, batch(head), blobs={}, barrier=False, state="failed", now_us=2)
            one.flush()
        with refuses(FencedError, "bob"):
            one.append(zombie, head, batch(head), blobs={}, barrier=True, state="failed", now_us=2)
        put(two, heir, 2, barrier=True)
        assert one.head("r").seq == 3
        with refuses(FencedError, "bob"):
            put(one, zombie, barrier=True)
        one.flush()
        assert one.info("r").state == "running"
        one.close()
        two.close()

    def test_two_handles_with_one_lease_cannot_fork_the_log(self, tmp_path: Path) -> None:
        """The slower one is told that the head has moved."""
        if not self.shared:
            return
        one, two = self.open(tmp_path), self.open(tmp_path)
        lease = one.create("r", "ann", now_us=0, ttl_us=TTL_US)
        head = genesis("r")
        first = batch(head, note="first")
        two.append(lease, head, first, blobs={}, barrier=True, state="running", now_us=1)
        with refuses(ConflictError, "seq 1"):
            one.append(
                lease, head, batch(head, note="second"), blobs={}, barrier=True, state="running", now_us=1
            )
        assert list(one.read("r")) == first
        put(one, lease, barrier=True)
        assert two.head("r").seq == 2
        one.close()
        two.close()

    def test_the_number_of_changes_moves_when_another_handle_writes(self, tmp_path: Path) -> None:
        """And stands still while nothing happens."""
        if not self.shared:
            return
        one, two = self.open(tmp_path), self.open(tmp_path)
        lease = one.create("r", "ann", now_us=0, ttl_us=TTL_US)
        seen = [two.changes()]
        assert two.changes() == seen[0]
        for change in (
            lambda: put(one, lease, barrier=True),
            lambda: one.post("r", {}, now_us=1),
            lambda: one.release(lease),
        ):
            change()
            seen.append(two.changes())
        assert len(set(seen)) == len(seen)
        one.close()
        two.close()

    def test_a_closed_store_kept_everything_and_refuses_everything(self, tmp_path: Path) -> None:
        """Closing flushes; closing twice is no fault."""
        store = self.open(tmp_path)
        lease = store.create("r", "ann", now_us=0, ttl_us=TTL_US)
        records = put(store, lease, 3)
        letter = store.post("r", {"n": 1}, now_us=1)
        head = head_of(records)
        store.append(lease, head, batch(head), blobs={}, barrier=False, state="done", now_us=77)
        store.close()
        store.close()
        for call in (
            lambda: store.create("s", "ann", now_us=0, ttl_us=1),
            lambda: store.append(lease, head, batch(head), blobs={}, barrier=False, state="done", now_us=1),
            store.flush,
            store.runs,
            lambda: store.head("r"),
            lambda: store.letter(letter),
            store.changes,
        ):
            with refuses(StoreDeadError, "closed"):
                call()
        if self.shared:
            again = self.open(tmp_path)
            assert [record.seq for record in again.read("r")] == [1, 2, 3, 4]
            assert (again.info("r").state, again.info("r").updated_us) == ("done", 77)
            assert again.letter(letter).body == {"n": 1}
            again.close()
