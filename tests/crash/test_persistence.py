"""What must hold when values, ids, files, tables and plans change under a run."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fsm_agent import RunController, Toolbox, audit, what_if
from fsm_agent.core.errors import ConflictError, CorruptError, FsmAgentError, UsageError
from fsm_agent.runtime.configs import load_rules
from fsm_agent.stores import open_store
from tests.runtime.runs import go, one, plan_of, resumed, running, toolbox

ROOT = Path(__file__).parents[2]
STORES = ("runs.db", "runs.jsonl")


def test_a27_a_result_is_a_copy_that_nobody_can_change_afterwards(tmp_path):
    async def scenario():
        shared = {"list": [1], "text": "a"}
        gate = asyncio.Event()

        async def give():
            return shared

        async def read(v):
            await gate.wait()
            return v

        tools = toolbox(give)
        tools.add(read, effect="read", name="read")
        plan = plan_of(
            {"id": "t", "tool": "do"},
            {"id": "u", "tool": "read", "args": {"v": "$t"}, "depends_on": ["t"]},
            {"id": "w", "tool": "read", "args": {"v": "$t"}, "depends_on": ["u"]},
        )
        async with running(plan, tools, store=tmp_path / "runs.db", run_id="r") as run:
            await run.wait(until=lambda status: status.tasks["u"].state == "running")
            shared["list"].append(2)
            shared["text"] = "b"
            gate.set()
            await run.wait()
            results = {name: task.result for name, task in run.status().tasks.items()}
            assert results == {name: {"list": [1], "text": "a"} for name in "tuw"}

    go(scenario())


def test_a28_two_processes_write_eight_runs_into_one_file(tmp_path):
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.contract.child",
                "work_on_many_runs",
                str(tmp_path / "runs.db"),
                who,
                "4",
                "200",
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for who in ("ann", "bob")
    ]
    for process in processes:
        out, err = process.communicate(timeout=250)
        assert (process.returncode, out) == (0, "ok\n"), err
    store = open_store(tmp_path / "runs.db")
    lengths = {info.run: len(list(store.read(info.run))) for info in store.runs()}
    assert len(lengths) == 8
    assert set(lengths.values()) == {sum(step % 3 + 1 for step in range(200))}
    for run in lengths:  # these events were made up, and mean nothing to an audit
        store.remove(store.acquire(run, "test", now_us=2**60, ttl_us=1), {})
    store.close()


@pytest.mark.parametrize("name", STORES)
def test_a30_ids_that_look_alike_are_runs_of_their_own_and_others_are_refused(tmp_path, name):
    async def scenario():
        ids = ["1", "a/../b", "b", "café", "cafe\u0301", "x" * 10_000]
        for number, run_id in enumerate(ids):
            plan = one("do", args={"n": number})
            async with running(plan, toolbox(lambda n: n), store=tmp_path / name, run_id=run_id) as run:
                await run.wait()
                assert run.status().tasks["t"].result == number
        store = open_store(tmp_path / name)
        assert [info.run for info in store.runs()] == ids
        store.close()
        for wrong in (1, 1.0, b"1", ["1"], "", "x" * 10_001, "\ud800"):
            with pytest.raises((UsageError, FsmAgentError), match="run id"):
                await RunController.start(one("do"), toolbox(lambda: 1), store=tmp_path / name, run_id=wrong)
        assert sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith(name)) == []

    go(scenario())


@pytest.mark.spoils_logs
@pytest.mark.parametrize("name", STORES)
def test_a31_a_log_that_is_gone_is_never_begun_afresh_under_its_id(tmp_path, name):
    place = tmp_path / name

    async def scenario():
        async with running(one("do"), toolbox(lambda: 1), store=place, run_id="r") as run:
            await run.wait()
        if name == "runs.db":
            for file in tmp_path.glob("runs.db*"):
                if not file.name.endswith(".heads"):
                    file.unlink()
        else:
            (place / "r.jsonl").unlink()
        with pytest.raises((CorruptError, ConflictError), match=r"lost|gone|taken"):
            await RunController.start(one("do"), toolbox(lambda: 1), store=place, run_id="r")
        if name == "runs.jsonl":
            with pytest.raises(CorruptError, match="gone"):
                await RunController.open(place, "r", toolbox(lambda: 1))

    go(scenario())


def test_a33_a_parked_run_goes_on_under_the_table_it_began_with(tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text('schema = 1\nextends = "default"\n[params]\nretries = 7\n')
    first = load_rules(rules, {})

    async def scenario():
        plan = one("do", requires_confirmation=True)
        async with running(
            plan, toolbox(lambda: 1), store=tmp_path / "runs.db", run_id="r", rules=rules
        ) as run:
            await run.wait()
        rules.write_text('schema = 1\nextends = "conservative"\n')
        assert load_rules(rules, {}).digest != first.digest
        async with resumed(tmp_path / "runs.db", "r", toolbox(lambda: 1)) as run:
            assert run.run.rules.digest == first.digest
            assert run.status().state == "awaiting-confirmation"
            (question,) = run.questions
            await question.approve(by="ann")
            await run.wait()
            assert run.status().state == "done"

    go(scenario())


def test_a34_another_plan_under_the_id_of_a_run_is_refused_and_a_resume_keeps_the_old_one(tmp_path):
    async def scenario():
        plan = one("do", args={"n": 1}, requires_confirmation=True)
        async with running(plan, toolbox(lambda n: n), store=tmp_path / "runs.db", run_id="r") as run:
            await run.wait()
        with pytest.raises(ConflictError, match="taken"):
            await RunController.start(
                one("do", args={"n": 2}), toolbox(lambda n: n), store=tmp_path / "runs.db", run_id="r"
            )
        async with resumed(tmp_path / "runs.db", "r", toolbox(lambda n: n)) as run:
            (question,) = run.questions
            await question.approve(by="ann")
            await run.wait()
            assert run.status().tasks["t"].result == 1

    go(scenario())


# ── the same everywhere ───────────────────────────────────────────────────────────────────────────────────────


def test_a87_an_audit_is_the_same_in_every_process_whatever_its_hash_seed_zone_and_language(tmp_path):
    async def scenario():
        plan = plan_of(
            {"id": "a", "tool": "do"},
            {
                "id": "b",
                "tool": "do",
                "args": {"v": "$a"},
                "depends_on": ["a"],
                "requires_confirmation": True,
            },
        )
        async with running(
            plan, toolbox(lambda v=0: {"z": 1, "ä": [v]}), store=tmp_path / "runs.db", run_id="r"
        ) as run:
            await run.wait()
            (question,) = run.questions
            await question.approve(by="ann")
            await run.wait()

    go(scenario())
    code = (
        "import json, sys; from fsm_agent import audit, replay; a = audit(sys.argv[1], run='r'); "
        "from fsm_agent.core.engine.decide import state_digest; "
        "print(a, state_digest(replay(sys.argv[1], run='r').end()))"
    )
    said = set()
    for seed, zone, language in (
        (0, "UTC", "C"),
        (1, "Asia/Shanghai", "C.UTF-8"),
        (2, "America/Caracas", "POSIX"),
        (3, "Pacific/Chatham", "C"),
        (4, "UTC", "C"),
    ):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "TZ": zone, "LC_ALL": language}
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "runs.db")],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            encoding="utf-8",
        )
        said.add(done.stdout)
    assert len(said) == 1
    assert "clean" in said.pop()


def test_a87_tools_registered_in_another_order_change_no_decision(tmp_path):
    async def scenario():
        digests = []
        for number, names in enumerate((("do", "other"), ("other", "do"))):
            tools = toolbox(lambda: 1)
            if names[0] == "other":
                tools = type(tools)()
            for name in names:
                if name not in tools:
                    tools.add(lambda: 1, effect="read", name=name)
            plan = plan_of({"id": "a", "tool": "other"}, {"id": "b", "tool": "do", "depends_on": ["a"]})
            async with running(plan, tools, store=tmp_path / f"{number}.db", run_id="r") as run:
                await run.wait()
                digests.append(
                    [
                        (e.type, e.task, e.data.get("rule"), e.data.get("key"), e.data.get("args_digest"))
                        async for e in run.events()
                    ]
                )
        assert digests[0] == digests[1]
        assert json.dumps(digests[0])

    go(scenario())
    assert audit(tmp_path / "0.db", run="r").decisions == audit(tmp_path / "1.db", run="r").decisions


# ── the past, gone into anew ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", STORES)
def test_a86_a_fork_carries_no_later_approval_and_repeats_no_write_and_a_what_if_calls_nothing(
    tmp_path, name
):
    async def scenario():
        place, called = tmp_path / name, []
        tools = Toolbox()
        for tool in ("pay", "send"):
            tools.add(lambda tool=tool: called.append(tool), effect="write", name=tool, settle_s=0)
        tools.add(lambda: called.append("look"), effect="read", name="look")
        plan = plan_of(
            {"id": "a", "tool": "pay"},
            {"id": "b", "tool": "look", "depends_on": ["a"], "requires_confirmation": True},
            {"id": "c", "tool": "send", "depends_on": ["b"], "requires_confirmation": True},
        )
        async with await RunController.start(plan, tools, store=place, run_id="r") as run:
            for _ in range(2):
                await run.wait()
                (question,) = run.questions
                await question.approve(by="ann")
            assert (await run.wait())["state"] == "done"
            answered = [e.seq async for e in run.events() if e.type == "approval_answered"]
        assert called == ["pay", "look", "send"]
        async with await RunController.attach(place, "r") as past:
            fork = await past.fork(answered[0] - 1, by="bob")
        assert fork != "r"
        async with await RunController.open(place, fork, tools) as run:
            await run.wait()
            assert [q.task for q in run.questions] == ["b"], "what was approved later is asked anew"
            await run.questions[0].approve(by="bob")
            await run.wait()
            for question in run.questions:
                await question.approve(by="bob")
            assert (await run.wait())["state"] == "done"
        assert called == ["pay", "look", "send", "look"], (
            "what was done is not done again, also behind the cut"
        )
        before = list(called)
        found = what_if(place, rules="conservative", run="r")
        assert called == before
        assert found is not None

    go(scenario())
