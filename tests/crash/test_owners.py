"""Who owns a run: stopped and woken owners, rivals at the same moment, two answers at once, threads that never end."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fsm_agent import RunController, audit
from fsm_agent.core.errors import FencedError, OwnedError, RefusedError
from fsm_agent.runtime.driving import owner
from fsm_agent.runtime.driving.owner import is_dead, other_process, owner_name
from fsm_agent.runtime.ports import SystemPorts
from fsm_agent.stores import open_store
from tests.crash.owner import toolbox as owner_toolbox
from tests.runtime.runs import go, one, plan_of, running, toolbox

ROOT = Path(__file__).parents[2]


def process(place, how, run_id="r"):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash.owner", str(place), run_id, how],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def payments(place):
    return [line.split() for line in (place / "ledger").read_text().splitlines()]


async def lease_over(store, run_id="r"):
    while store.info(run_id).lease_until_us > SystemPorts().now_us():  # noqa: ASYNC110 - time tells nobody when it has passed
        await asyncio.sleep(0.02)


def test_an_owner_that_was_stopped_and_wakes_up_after_the_take_over_changes_nothing(tmp_path):
    child = process(tmp_path, "start")
    assert child.stdout.readline() == "begun\n"
    os.kill(child.pid, signal.SIGSTOP)

    async def heir():
        store = open_store(tmp_path / "runs.db")
        with pytest.raises(OwnedError, match=rf":{child.pid}:.* holds it until \d{{4}}-\d\d-\d\dT\d\d:"):
            await RunController.open(store, "r", owner_toolbox(tmp_path, slow=False))
        await lease_over(store)  # a stopped process is not dead, so only time ends its lease
        async with await RunController.open(store, "r", owner_toolbox(tmp_path, slow=False)) as run:
            report = await run.wait()
            assert report["state"] == "done"
            head = run.head
        store.close()
        return head

    head = go(heir())
    (tmp_path / "go").touch()
    os.kill(child.pid, signal.SIGCONT)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 3, (out, err)
    assert "FencedError" in out
    found = audit(tmp_path / "runs.db", run="r", head=head)
    assert (found.verdict, found.head) == ("clean", head)
    assert [n for _, n, _ in payments(tmp_path)] == ["1", "2"]
    assert {pid for _, n, pid in payments(tmp_path) if n == "2"} == {str(os.getpid())}


def test_absent_is_not_believed_while_the_process_that_made_the_call_is_still_there(tmp_path):
    child = process(tmp_path, "late")
    assert child.stdout.readline() == "begun\n"  # in the middle of its payment, and nothing is paid yet
    os.kill(child.pid, signal.SIGSTOP)

    async def heir():
        store = open_store(tmp_path / "runs.db")
        await lease_over(store)
        async with await RunController.open(store, "r", owner_toolbox(tmp_path, slow=False)) as run:
            async for event in run.events(follow=True):
                if event.type == "reconciled":
                    break
            assert event.data["verdict"] == "inconclusive"
            assert f"process {child.pid}, which made the call, is still there" in event.data["evidence"]
            assert not (tmp_path / "ledger").exists()
            child.kill()
            child.communicate()
            report = await run.wait()
        store.close()
        return report["state"]

    assert go(heir()) == "done"
    assert [(n, pid) for _, n, pid in payments(tmp_path)] == [(n, str(os.getpid())) for n in "12"]
    assert audit(tmp_path / "runs.db", run="r").verdict == "clean"


def test_a32_of_two_processes_that_take_one_run_over_one_is_refused_before_any_call(tmp_path):
    child = process(tmp_path, "start")
    assert child.stdout.readline() == "begun\n"
    child.kill()
    child.communicate()
    (tmp_path / "go").touch()
    rivals = [process(tmp_path, "open") for _ in range(3)]
    said = [rival.communicate(timeout=30)[0] for rival in rivals]
    assert sorted(rival.returncode for rival in rivals) in ([0, 3, 3], [0, 0, 3], [0, 0, 0]), said
    for rival, words in zip(rivals, said, strict=True):
        assert words.split()[0] == ("done" if rival.returncode == 0 else "OwnedError"), words
    assert [n for _, n, _ in payments(tmp_path)] == ["1", "2"]


def gone():
    """The name of an owner whose process was of this host and is gone."""
    with subprocess.Popen([sys.executable, "-c", "pass"]) as child:
        child.wait()
    host, _, started, chance = owner_name().rsplit(":", 3)
    return f"{host}:{child.pid}:{started}:{chance}"


@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl"])
def test_a_dead_owners_run_that_somebody_else_has_taken_meanwhile_is_theirs(tmp_path, name):
    """Whoever found the owner dead takes the run from that owner, and from nobody else."""

    async def scenario():
        place = tmp_path / name
        plan = one("do", requires_confirmation=True)
        async with await RunController.start(plan, toolbox(lambda: 1), store=place, run_id="r") as run:
            await run.wait()
        store = open_store(place)
        now = SystemPorts().now_us()
        assert is_dead(gone())
        dead = store.acquire("r", gone(), now_us=now, ttl_us=60_000_000)
        heirs = []

        class Slow:
            """Between the look at the owner and the taking of the run another process is faster."""

            def __getattr__(self, name):
                if name == "acquire" and not heirs:
                    heirs.append(store.acquire("r", "heir", now_us=now, ttl_us=60_000_000, force=dead.owner))
                return getattr(store, name)

        with pytest.raises(OwnedError, match="heir"):
            await RunController.open(Slow(), "r", toolbox(lambda: 1))
        store.renew(heirs[0], now_us=now, ttl_us=1)
        store.close()

    go(scenario())


def test_a_process_of_another_container_is_not_taken_for_dead():
    """Hosts that share a name and a disk may have process tables of their own, in which nobody sees the other's."""
    dead = gone()
    host = dead.split(":")[0]
    assert is_dead(dead)
    assert not is_dead(dead.replace(host, f"{host}/4026532001", 1))
    assert not is_dead(dead.replace(host, "elsewhere", 1))
    assert not is_dead("ann")
    assert not is_dead(owner_name())


def test_another_process_is_there_while_it_runs_or_stands_still_and_only_on_this_host():
    mine = owner_name()
    code = "from fsm_agent.runtime.driving.owner import owner_name; print(owner_name(), flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    name = child.stdout.readline().strip()
    host, pid, started, chance = name.rsplit(":", 3)
    assert other_process(name) == child.pid
    os.kill(child.pid, signal.SIGSTOP)
    assert other_process(name) == child.pid
    for elsewhere in (
        f"other:{pid}:{started}:{chance}",
        f"{host}:{pid}:{int(started) + 1}:{chance}",
        "ann",
        "",
        mine,
    ):
        assert other_process(elsewhere) is None
    child.kill()
    child.communicate()
    assert other_process(name) is None


@pytest.mark.parametrize("number", ["²", "-1", "", "9" * 30])
def test_an_owner_with_a_number_that_no_process_has_is_not_stumbled_over(number):
    host, _, started, chance = owner_name().rsplit(":", 3)
    assert not is_dead(f"{host}:{number}:{started}:{chance}")


def test_a_process_that_cannot_be_looked_at_now_is_not_taken_for_dead():
    """A process that has used its file descriptors up still sees that others are there, but not since when."""
    code = """
import os, resource, sys
from fsm_agent.runtime.driving.owner import is_dead, other_process, owner_name
mine = owner_name()
host, pid, started, chance = sys.argv[1].rsplit(":", 3)
assert not is_dead(sys.argv[1])
assert is_dead(f"{host}:{pid}:{int(started) - 1}:{chance}"), "the pid is used again"
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
try:
    open("/dev/null")
except OSError:
    pass
else:
    sys.exit(2)
assert not is_dead(sys.argv[1])
assert not is_dead(f"{host}:{pid}:{int(started) - 1}:{chance}"), "nobody can say now"
assert not is_dead(mine)
nameless = owner_name()
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
assert not is_dead(nameless)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, owner_name()],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_name_of_an_owner_in_a_container_names_its_process_table(monkeypatch):
    plain = owner_name().split(":")[0]
    monkeypatch.setattr(owner, "_OWN_TABLE", 1)
    inside = owner_name().split(":")[0]
    assert inside.startswith(f"{plain.split('/')[0]}/")
    assert not is_dead(owner_name())


def test_a_run_that_was_just_started_here_is_not_taken_for_one_to_recover(tmp_path):
    async def scenario():
        store = open_store(tmp_path / "runs.db")
        async with await RunController.start(one("do"), toolbox(lambda: 1), store=store, run_id="r") as run:
            with pytest.raises(OwnedError, match="holds it"):
                await RunController.open(store, "r", toolbox(lambda: 1))
            assert (await run.wait())["state"] == "done"
        store.close()

    go(scenario())


def test_a_living_owner_renews_its_lease_for_as_long_as_it_works(tmp_path):
    async def scenario():
        store = open_store(tmp_path / "runs.db")
        gate = asyncio.Event()

        async def act():
            await gate.wait()

        run = await RunController.start(one("do"), toolbox(act), store=store, run_id="r", lease_s=0.15)
        async with run:
            waiting = asyncio.create_task(run.wait())
            first = store.info("r").lease_until_us
            while store.info("r").lease_until_us < first + 300_000:
                await asyncio.sleep(0.02)
                with pytest.raises(OwnedError):
                    store.acquire("r", "thief", now_us=SystemPorts().now_us(), ttl_us=1)
            gate.set()
            await waiting
        store.close()

    go(scenario())


def test_an_owner_that_was_taken_over_starts_nothing_more(tmp_path):
    async def scenario():
        store = open_store(tmp_path / "runs.db")
        gate, paid = asyncio.Event(), []

        async def look():
            await gate.wait()

        tools = toolbox(look)
        tools.add(lambda: paid.append(1), effect="write", name="pay")
        plan = plan_of({"id": "t", "tool": "do"}, {"id": "u", "tool": "pay", "depends_on": ["t"]})
        run = await RunController.start(plan, tools, store=store, run_id="r")
        waiting = asyncio.create_task(run.wait())
        await run._driving().wait(lambda: bool(run.run.running))
        store.acquire("r", "thief", now_us=2**60, ttl_us=1)
        gate.set()
        with pytest.raises(FencedError, match="thief"):
            await waiting
        assert paid == []
        with pytest.raises(FencedError):
            await run.wait()
        await run.close()
        store.close()

    go(scenario())


@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl"])
def test_of_two_answers_at_once_one_wins_and_the_other_is_told_by_whom(tmp_path, name):
    async def scenario():
        place = tmp_path / name
        plan = one("do", requires_confirmation=True)
        async with running(plan, toolbox(lambda: 1), store=place, run_id="r") as run:
            await run.wait()
            (question,) = run.questions
            digest = question.digest
            ready = threading.Barrier(2)

            def say(who, word):
                async def words():
                    async with await RunController.attach(place, "r") as other:
                        ready.wait()
                        await word(other, who)

                try:
                    asyncio.run(words())
                except RefusedError as error:
                    return str(error)
                return who

            said = await asyncio.gather(
                asyncio.to_thread(say, "ann", lambda o, who: o.approve("t", digest=digest, by=who)),
                asyncio.to_thread(say, "bob", lambda o, who: o.reject("t", by=who)),
            )
            winner = next(who for who in ("ann", "bob") if who in said)
            (loser,) = (words for words in said if words != winner)
            assert f"by {winner}" in loser, loser
            await run.wait()
            answers = [e.data["by"] async for e in run.events() if e.type == "approval_answered"]
            assert answers == [winner]

    go(scenario())


def test_words_from_another_process_reach_the_owner_while_it_works(tmp_path):
    async def scenario():
        place = tmp_path / "runs.db"
        gate = asyncio.Event()

        async def act(week):
            await gate.wait()
            return week

        plan = plan_of(
            {"id": "t", "tool": "do", "args": {"week": "$inputs.week"}},
            {"id": "u", "tool": "do", "args": {"week": "$inputs.week"}, "depends_on": ["t"]},
            inputs={"week": 1},
        )
        async with running(plan, toolbox(act), store=place, run_id="r") as run:
            waiting = asyncio.create_task(run.wait())
            async with await RunController.attach(place, "r") as other:
                await other.set_input(week=2, by="ann")
                await other.pause(by="ann")
            gate.set()
            await waiting
            assert run.run.inputs["week"] == 2
            assert run.status().state == "awaiting-confirmation"
            async with await RunController.attach(place, "r") as other:
                await other.resume(by="ann")
            await run.wait()
            assert {n: t.result for n, t in run.status().tasks.items()} == {"t": 2, "u": 2}

    go(scenario())


def test_a56_fifty_threads_that_outlive_their_deadline_do_not_use_the_workers_up(tmp_path):
    async def scenario():
        gate = threading.Event()
        landed = []

        def slow(n):
            if n < 50:
                assert gate.wait(20)
            landed.append(n)
            return n

        tools = toolbox(slow, effect="write")
        steps = [
            {"id": f"s{n}", "tool": "do", "args": {"n": n}, "timeout_s": 0.2, "optional": True}
            for n in range(50)
        ]
        plan = plan_of(*steps, {"id": "last", "tool": "do", "args": {"n": 99}, "timeout_s": 10})
        patient = {"breaker_failures": 1000}
        async with running(plan, tools, store=tmp_path / "runs.db", params=patient, workers=4) as run:
            await run.wait(until=lambda status: status.tasks["last"].state == "done")
            assert landed == [99]
            slow_ones = [t for n, t in run.run.tasks.items() if n != "last"]
            await run._driving().wait(lambda: all(t.state == "unknown-result" for t in slow_ones))
            gate.set()
            await run._driving().wait(lambda: all(t.state == "done" for t in run.run.tasks.values()))
            assert sorted(landed) == [*range(50), 99]
            late = [e.type async for e in run.events()].count("late_result")
            assert late == 50

    go(scenario())
