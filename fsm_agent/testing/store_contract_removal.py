"""The part of the store contract that is about removing runs."""

import hashlib
from functools import partial
from pathlib import Path

from fsm_agent.core.errors import ConflictError, FencedError, FsmAgentError, NotFoundError, UsageError
from fsm_agent.core.events import genesis
from fsm_agent.stores.base import Lease, Store, Tombstone
from fsm_agent.testing.store_kit import TTL_US, StoreSuite, batch, put, refuses


def _with_value(store: Store, lease: Lease, text: str) -> str:
    """Append an event that comes with a large value, and return the value's digest."""
    value = b'"' + text.encode() * 5000 + b'"'
    name = hashlib.sha256(value).hexdigest()
    head = store.head(lease.run)
    store.append(
        lease, head, batch(head), blobs={name: value}, barrier=True, state="done", now_us=head.seq + 1
    )
    return name


class RemovalContract(StoreSuite):
    """What is left when a run is removed, and what is not."""

    def test_a_removed_run_leaves_its_tombstone_and_nothing_else(self, tmp_path: Path) -> None:
        """Log, letters and values are gone; other runs have what they had, shared values included."""
        store = self.open(tmp_path)
        lease, other = (store.create(run, "ann", now_us=0, ttl_us=TTL_US) for run in ("old", "new"))
        put(store, lease, 3, note="gone")
        kept = put(store, other, 2, note="stays")
        own, shared = _with_value(store, lease, "o"), _with_value(store, lease, "s")
        assert _with_value(store, other, "s") == shared
        letter, foreign = store.post("old", {"n": 1}, now_us=1), store.post("new", {"n": 2}, now_us=2)
        store.answer(lease, letter, {"ok": True})
        body = {"head": {"seq": 5}, "why": "old, 报销"}
        store.remove(lease, body)
        assert store.tombstones() == [Tombstone(run="old", body=body)]
        assert [info.run for info in store.runs()] == ["new"]
        for call in (
            lambda: store.head("old"),
            lambda: list(store.read("old")),
            lambda: store.info("old"),
            lambda: store.letters("old"),
            lambda: store.post("old", {}, now_us=3),
            lambda: store.acquire("old", "bob", now_us=10 * TTL_US, ttl_us=TTL_US),
        ):
            with refuses(NotFoundError, "removed", "old"):
                call()
        for gone in (lambda: store.letter(letter), lambda: store.blob(own)):
            with refuses(NotFoundError):
                gone()
        assert len(store.blob(shared)) == 5002
        assert list(store.read("new"))[:2] == kept
        assert [x.id for x in store.letters("new")] == [foreign]
        assert store.post("new", {}, now_us=4) > foreign
        put(store, other, barrier=True)
        store.close()

    def test_the_id_of_a_removed_run_is_never_given_again(self, tmp_path: Path) -> None:
        """A late word about the old run must not reach a new one."""
        store = self.open(tmp_path)
        lease = store.create("r", "ann", now_us=0, ttl_us=TTL_US)
        put(store, lease)
        store.remove(lease, {"why": "old"})
        with refuses(ConflictError, "taken"):
            store.create("r", "bob", now_us=1, ttl_us=TTL_US)
        store.close()

    def test_whoever_still_holds_a_lease_of_a_removed_run_writes_nothing(self, tmp_path: Path) -> None:
        """Neither its own last lease nor a stale one brings anything back."""
        store = self.open(tmp_path)
        stale = store.create("r", "ann", now_us=0, ttl_us=1)
        head = genesis("r")
        store.append(stale, head, batch(head), blobs={}, barrier=True, state="done", now_us=1)
        lease = store.acquire("r", "bob", now_us=1, ttl_us=TTL_US)
        with refuses(FencedError, "bob"):
            store.remove(stale, {})
        head = store.head("r")
        store.remove(lease, {"why": "old"})
        for held in (stale, lease):
            for call in (
                partial(
                    store.append, held, head, batch(head), blobs={}, barrier=True, state="running", now_us=2
                ),
                partial(store.renew, held, now_us=2, ttl_us=1),
                partial(store.answer, held, 1, {}),
                partial(store.remove, held, {}),
            ):
                try:
                    call()
                except (NotFoundError, FencedError):
                    continue
                raise AssertionError(f"{held} still changes a removed run")
        assert [t.body for t in store.tombstones()] == [{"why": "old"}]
        store.close()

    def test_a_tombstone_is_a_json_object(self, tmp_path: Path) -> None:
        """Else nothing is removed."""
        store = self.open(tmp_path)
        lease = store.create("r", "ann", now_us=0, ttl_us=TTL_US)
        records = put(store, lease, 2)
        with refuses(UsageError, "tombstone"):
            store.remove(lease, ["no object"])  # type: ignore[arg-type]
        with refuses(FsmAgentError):
            store.remove(lease, {"nan": float("nan")})
        assert (list(store.read("r")), store.tombstones()) == (records, [])
        store.close()

    def test_another_handle_sees_the_removal(self, tmp_path: Path) -> None:
        """What it had read before, or not yet written, does not come back through it."""
        if not self.shared:
            return
        one, two = self.open(tmp_path), self.open(tmp_path)
        zombie = one.create("r", "ann", now_us=0, ttl_us=1)
        keeper = one.create("s", "ann", now_us=0, ttl_us=TTL_US)
        put(one, zombie, barrier=True)
        letters = [one.post(run, {"n": n}, now_us=1) for n, run in enumerate(("r", "s", "r", "s"))]
        assert [x.id for x in two.letters("s")] == [letters[1], letters[3]]
        head = one.head("r")
        lease = two.acquire("r", "bob", now_us=1, ttl_us=TTL_US)
        two.remove(lease, {"why": "old"})
        try:
            one.append(zombie, head, batch(head), blobs={}, barrier=False, state="running", now_us=2)
            one.flush()
        except (FencedError, NotFoundError):
            pass
        else:
            raise AssertionError("a zombie wrote to a removed run")
        with refuses(NotFoundError, "removed"):
            one.head("r")
        assert [x.id for x in one.letters("s")] == [letters[1], letters[3]]
        one.answer(keeper, letters[1], {"ok": 1})
        assert [x.id for x in two.letters("s")] == [letters[3]]
        assert one.post("s", {}, now_us=3) == letters[3] + 1 == two.letters("s")[-1].id
        one.close()
        two.close()
        again = self.open(tmp_path)
        assert [t.run for t in again.tombstones()] == ["r"]
        assert again.letter(letters[1]).answer == {"ok": 1}
        assert [info.run for info in again.runs()] == ["s"]
        again.close()
