"""The head outside the file: when it is kept, who looks at it, and what is refused because of it."""

import json
from io import BytesIO

import pytest

from fsm_agent import RunController, audit
from fsm_agent.core.errors import CorruptError, StoreError
from fsm_agent.core.events import Head
from fsm_agent.runtime.proof.auditing import audit_log
from fsm_agent.runtime.proof.heads import ENV, Heads, place_of
from fsm_agent.stores import open_store
from fsm_agent.stores.anchors import read_anchor
from fsm_agent.stores.sqlite import SqliteStore
from fsm_agent.stores.transfer import export_run
from tests.runtime.runs import go, one, plan_of, resumed, running, toolbox

STORES = ["runs.db", "runs.jsonl"]


def kept(place, run="r"):
    return read_anchor(f"{place}.heads", run)


def cut(place, to, run="r"):
    """Take the last events of a run away, with everything that says that they were there."""
    if str(place).endswith(".jsonl"):
        log = place / f"{run}.jsonl"
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:to]))
        return
    store = SqliteStore(place)
    db = store._link.db
    db.execute("DROP TRIGGER events_no_delete")
    db.execute(f"DELETE FROM events WHERE id & ((1 << 40) - 1) > {to}")
    db.execute(
        "UPDATE runs SET (head_seq, head_hash) = (SELECT id & ((1 << 40) - 1), hash FROM events ORDER BY id DESC LIMIT 1)"
    )
    store.close()


async def finished(place):
    async with running(one("do"), toolbox(lambda: 1), store=place, run_id="r") as run:
        await run.wait()
        return run.head


@pytest.mark.parametrize("name", STORES)
def test_the_head_of_a_finished_run_is_kept_beside_the_store(tmp_path, name):
    head = go(finished(tmp_path / name))
    assert kept(tmp_path / name) == head
    found = audit(tmp_path / name, run="r")
    assert (found.verdict, found.kept) == ("clean", head)


@pytest.mark.spoils_logs
@pytest.mark.parametrize("name", STORES)
def test_a_run_whose_end_was_cut_off_is_found_by_the_audit_and_refused(tmp_path, name):
    place = tmp_path / name
    head = go(finished(place))
    cut(place, 3)  # the first batch
    left = audit(place, run="r").head.seq
    assert left < head.seq
    found = audit(place, run="r")
    assert found.verdict == "violations"
    assert any(f.check == "head" for f in found.findings)
    with pytest.raises(
        CorruptError, match=f"ends at event {left}, but the head kept in .* is event {head.seq}"
    ):
        go(RunController.open(place, "r", toolbox(lambda: 1)))
    store = open_store(place)
    assert store.head("r").seq == left  # nothing was added
    assert store.info("r").owner is None  # and nobody holds it
    store.close()


@pytest.mark.spoils_logs
def test_the_same_log_passes_without_the_head_and_the_audit_says_so(tmp_path):
    head = go(finished(tmp_path / "runs.jsonl"))
    cut(tmp_path / "runs.jsonl", 3)  # the first batch
    (tmp_path / "runs.jsonl.heads").unlink()
    store = open_store(tmp_path / "runs.jsonl", read_only=True)
    out = BytesIO()
    export_run(store, "r", out)
    store.close()
    found = audit_log(out.getvalue())
    assert (found.findings, found.verdict, found.kept) == ((), "open", None)
    listed = audit(tmp_path / "runs.jsonl", run="r")
    assert {f.check for f in listed.findings} == {"stored-state"}, "the store still lists the run as done"
    assert audit(tmp_path / "runs.jsonl", run="r", head=head).verdict == "violations"


@pytest.mark.spoils_logs
def test_a_log_that_was_rewritten_behind_its_head_is_refused_and_the_seq_is_named(tmp_path):
    place = tmp_path / "runs.db"
    head = go(finished(place))
    (tmp_path / "runs.db.heads").write_text(json.dumps({"run": "r", "seq": 3, "hash": "00" * 32}) + "\n")
    with pytest.raises(CorruptError, match="another event 3 was there") as refusal:
        go(RunController.open(place, "r", toolbox(lambda: 1)))
    assert refusal.value.seq == 3
    store = open_store(place)
    for late in (Head(2, bytes(32)), Head(3, b"x" * 32)):
        with pytest.raises(CorruptError, match="stands at seq 3"):
            Heads.beside(str(place)).keep(store, "r", late)
    store.close()
    assert kept(place).seq == 3 < head.seq


def test_a_head_that_another_owner_has_moved_on_is_no_fault_of_the_log(tmp_path):
    place = tmp_path / "runs.db"
    head = go(finished(place))
    store = open_store(place)
    early = next(iter(store.read("r", since=2, until=3)))
    Heads.beside(str(place)).keep(store, "r", Head(early.seq, early.hash))
    assert kept(place) == head
    store.close()


def test_the_head_is_kept_at_every_approval_and_at_rest(tmp_path):
    async def scenario():
        place = tmp_path / "runs.db"
        plan = plan_of({"id": "t", "tool": "do", "requires_confirmation": True}, {"id": "u", "tool": "do"})
        async with running(plan, toolbox(lambda: 1), store=place, run_id="r") as run:
            await run.wait()
            at_rest = kept(place)
            assert at_rest == run.head
            (question,) = run.questions
            await question.approve(by="ann")
            answered = [e.seq async for e in run.events() if e.type == "approval_answered"]
            assert kept(place).seq >= answered[0]
            await run.wait()
        assert kept(place) == run.head

    go(scenario())


def test_a_directory_of_ones_own_takes_the_heads_instead(tmp_path, monkeypatch):
    monkeypatch.setenv(ENV, str(tmp_path / "elsewhere"))
    head = go(finished(tmp_path / "runs.db"))
    assert not (tmp_path / "runs.db.heads").exists()
    assert read_anchor(tmp_path / "elsewhere", "r") == head
    assert [p.name for p in (tmp_path / "elsewhere").iterdir()] == ["r.anchor.json"]


def test_a_place_that_cannot_be_written_stops_nobody_and_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv(ENV, "/proc/none")

    async def scenario():
        async with running(one("do"), toolbox(lambda: 1), store=tmp_path / "runs.db", run_id="r") as run:
            assert (await run.wait())["state"] == "done"
            assert "anchor /proc/none" in run.heads.fault

    go(scenario())


def test_a_store_that_no_file_holds_keeps_no_heads():
    assert place_of(":memory:") is None
    assert Heads.beside(":memory:").read("r") is None
    go(finished(None))


def test_a_torn_tail_that_was_cut_is_noted_in_the_log(tmp_path):
    async def scenario():
        place = tmp_path / "runs.jsonl"

        def act():
            return 1

        plan = plan_of({"id": "t", "tool": "do", "requires_confirmation": True})
        async with running(plan, toolbox(act), store=place, run_id="r") as run:
            await run.wait()
        with (place / "r.jsonl").open("ab") as file:
            file.write(b'{"at":17,"da')
        async with resumed(place, "r", toolbox(act)) as run:
            notes = [e async for e in run.events() if e.type == "note_added"]
            assert [n.data["repair"]["bytes_cut"] for n in notes] == [12]
            assert notes[0].actor["kind"] == "recovery"
            assert (place / "r.jsonl.torn-1").read_bytes() == b'{"at":17,"da'
            with (place / "r.jsonl").open("ab") as file:
                file.write(b"\0" * 40)  # somebody else's rubbish, under a living owner
            (question,) = run.questions
            await question.approve(by="ann")
            notes = [e async for e in run.events() if e.type == "note_added"]
            assert [n.data["repair"]["bytes_cut"] for n in notes] == [12, 40]
            await run.wait()
            assert run.status().state == "done"

    go(scenario())


@pytest.mark.spoils_logs
def test_a_torn_tail_that_holds_the_kept_head_is_corruption_and_stays(tmp_path):
    place = tmp_path / "runs.jsonl"
    go(finished(place))
    log = place / "r.jsonl"
    log.write_bytes(log.read_bytes()[:-5])
    before = log.read_bytes()
    with pytest.raises(CorruptError, match="anchored head"):
        go(RunController.open(place, "r", toolbox(lambda: 1)))
    assert log.read_bytes() == before


def test_a_head_that_could_not_be_kept_is_kept_the_next_time_at_the_latest_at_the_end(tmp_path):
    class Disk:
        """No space is left when the run ends, and a moment later there is."""

        full, kept = True, ()

        def sign(self, run, head):
            if self.full:
                raise StoreError("no space left")
            self.kept = (*self.kept, head)

    async def scenario():
        disk = Disk()
        async with running(one("do"), toolbox(lambda: 1), store=tmp_path / "runs.db", run_id="r") as run:
            run.heads.signer = disk
            await run.wait()
            assert run.heads.fault == "no space left"
            disk.full = False
        assert disk.kept == (run.head,)
        assert run.heads.fault == ""

    go(scenario())


@pytest.mark.spoils_logs
@pytest.mark.parametrize("name", STORES)
def test_a_word_that_is_refused_for_a_cut_log_does_not_lie_in_the_inbox(tmp_path, name):
    """It would count later, when somebody has taken the head away to go on without it."""
    place = tmp_path / name
    go(finished(place))
    cut(place, 3)

    async def speak():
        away = await RunController.attach(place, "r")
        try:
            with pytest.raises(CorruptError, match="its end was cut off"):
                await away.note("I was told no", by="ann")
        finally:
            await away.close()

    go(speak())
    store = open_store(place, read_only=True)
    assert store.letters("r") == []
    store.close()
