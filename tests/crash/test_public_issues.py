"""Faults that other projects had, one row each: what went wrong there, and the test that shows it does not here.

A row names the tests that cover it, here or elsewhere as ``file::name``; that they exist is a test, too. What no
other test covers is tested below.
"""

import asyncio
import contextlib
import re
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from fsm_agent import RunController, audit
from fsm_agent.core.audit import replay
from fsm_agent.core.audit.audit import audit as audit_records
from fsm_agent.core.errors import CorruptError, StoreDeadError
from fsm_agent.core.events import Head, from_body, genesis, seal
from fsm_agent.core.inputs import Approve, Returned
from fsm_agent.runtime.proof.heads import Heads
from fsm_agent.stores import open_store
from fsm_agent.testing.clock import FakeClock
from fsm_agent.testing.faulty_store import Breakage, FaultyStore
from tests.core.kit import ANN, lab, value
from tests.crash.rig import Life, World, lives
from tests.runtime.runs import check, go, one, plan_of, running, toolbox

HERE = Path(__file__).parents[1]

ISSUES = {
    "langchain-ai/langgraph#8039 #8234: an exit between a result and what follows from it": [
        "crash/test_every_crash.py::test_two_crashes_anywhere_change_nothing",
    ],
    "langchain-ai/langgraph#6491: a state was saved that can never be loaded": [
        "crash/test_public_issues.py::test_what_cannot_be_stored_never_reaches_the_log",
        "crash/test_values.py::test_a64_every_odd_value_comes_back_exactly_or_is_refused_by_its_path",
    ],
    "langchain-ai/langgraph#6533: of two open approvals the answer goes to the wrong one": [
        "scenarios/approval/A11-parallel-holds-a-answered-first.json",
        "scenarios/approval/A11-parallel-holds-c-answered-first.json",
    ],
    "PrefectHQ/prefect#22654: an event is seen before its state is stored": [
        "crash/test_public_issues.py::test_nobody_is_told_of_what_is_not_stored",
    ],
    "temporalio/temporal#1267: a very large argument breaks the history and blocks others": [
        "crash/test_public_issues.py::test_ten_megabytes_harm_neither_the_log_nor_other_runs",
    ],
    "temporalio/sdk-rust#443: another tool of the same shape passes the replay": [
        "crash/test_public_issues.py::test_another_tool_of_the_same_shape_does_not_pass_the_audit",
    ],
    "temporalio/sdk-python#1109: one more random number shifts all later ids": [
        "crash/test_public_issues.py::test_chance_is_in_no_id_and_in_no_key",
    ],
    "temporalio/sdk-python#673: an approval and a result change places on replay": [
        "crash/test_public_issues.py::test_an_approval_and_a_result_of_one_moment_keep_their_order",
    ],
    "dbos-inc/dbos-transact-java#491: recovery adopts a run that was just started": [
        "crash/test_owners.py::test_a_run_that_was_just_started_here_is_not_taken_for_one_to_recover",
        "crash/test_beginnings.py::test_of_two_that_begin_the_same_id_at_once_one_is_told_that_it_is_taken",
    ],
    "dbos-inc/dbos-transact-ts#1205 #1206: two who recover one run see different things": [
        "crash/test_owners.py::test_a32_of_two_processes_that_take_one_run_over_one_is_refused_before_any_call",
        "crash/test_rivals.py::test_rivals_never_fork_a_run_or_repeat_an_effect",
    ],
    "github/copilot-cli#4098, Tracer-Cloud/opensre#5750 #6356: an append behind a torn line fuses two records": [
        "contract/test_jsonl.py::test_a_file_cut_anywhere_is_repaired_and_goes_on",
        "runtime/test_heads.py::test_a_torn_tail_that_was_cut_is_noted_in_the_log",
    ],
    "anthropics/claude-code#49876: a block of zeros in the middle ends the reading in silence": [
        "contract/test_jsonl.py::test_damage_before_a_later_batch_is_corruption_and_nothing_is_touched",
    ],
    "msaad00/agent-bom#3697, agentrust-io/cmcp#427, RightNow-AI/openfang#1287: a cut tail verifies, and seqs start again": [
        "crash/test_public_issues.py::test_a_cut_log_that_was_gone_on_with_contradicts_its_head",
        "crash/test_tampering.py::test_the_audit_passes_exactly_the_cuts_between_batches_and_says_what_it_lacks",
        "runtime/test_heads.py::test_a_run_whose_end_was_cut_off_is_found_by_the_audit_and_refused",
    ],
    "LegionIO/LegionIO#149: a deletion that is linked anew passes": [
        "crash/test_tampering.py::test_deleting_a_middle_event_and_linking_the_rest_anew_is_found",
    ],
    "ruvnet/ruflo#2736, NousResearch/hermes-agent#69784: a reset write-ahead log loses what was acknowledged": [
        "crash/test_public_issues.py::test_the_sqlite_in_use_is_one_whose_log_can_be_reset_safely",
        "crash/test_persistence.py::test_a28_two_processes_write_eight_runs_into_one_file",
    ],
    "etcd-io/etcd#14370 #13766: an acknowledged write is lost in a crash": [
        "crash/test_power.py::test_a_power_cut_loses_nothing_that_anybody_knows_of",
        "contract/test_processes.py::test_a_killed_process_loses_nothing_that_was_acknowledged",
    ],
    "lvlup-sw/exarchos#1556: an upcaster was written and never called": [
        "crash/test_public_issues.py::test_an_event_of_another_version_is_refused_by_name_and_never_guessed",
    ],
    "proteanhq/protean#1362, hnaderi/edomata#389: a stale snapshot hides what came after it": [
        "crash/test_public_issues.py::test_the_state_is_folded_from_the_log_alone",
    ],
    "open-multi-agent/open-multi-agent#339, n8n-io/n8n#34740: a secret is scrubbed here and raw there": [
        "crash/test_secrets.py::test_no_canary_is_found_wherever_the_engine_writes",
    ],
    "martymcenroe/AssemblyZero#2731: what was recorded had been changed before": [
        "crash/test_public_issues.py::test_what_a_tool_returned_is_recorded_as_it_came",
    ],
    "can1357/oh-my-pi#10124: a gate stands open where nobody can be asked": [
        "examples/test_reimbursement.py::test_without_a_person_it_waits_and_the_next_command_moves_it_on",
        "scenarios/approval/A13-no-answer-is-not-a-yes.json",
    ],
    "matrixorigin/Astra#460: events are streamed before they are kept": [
        "crash/test_public_issues.py::test_nobody_is_told_of_what_is_not_stored",
        "crash/test_power.py::test_a_power_cut_loses_nothing_that_anybody_knows_of",
    ],
    "Altinn/altinn-studio#20005: old runs are removed along with what a resume needs": [
        "runtime/test_retention.py::test_a_failed_run_keeps_what_a_resume_needs",
        "runtime/test_retention.py::test_a_cancelled_run_whose_effect_nobody_knows_stays_until_somebody_says_so",
    ],
}


KINDS = {
    "double-effect": [f"A0{n}" for n in range(1, 10)],
    "persistence": {
        "A27": "crash/test_persistence.py::test_a27_a_result_is_a_copy_that_nobody_can_change_afterwards",
        "A28": "crash/test_persistence.py::test_a28_two_processes_write_eight_runs_into_one_file",
        "A29": "runtime/test_retention.py::test_a29_a_run_that_somebody_holds_stays_and_its_late_result_is_recorded",
        "A30": "crash/test_persistence.py::test_a30_ids_that_look_alike_are_runs_of_their_own_and_others_are_refused",
        "A31": "crash/test_persistence.py::test_a31_a_log_that_is_gone_is_never_begun_afresh_under_its_id",
        "A32": "crash/test_owners.py::test_a32_of_two_processes_that_take_one_run_over_one_is_refused_before_any_call",
        "A33": "crash/test_persistence.py::test_a33_a_parked_run_goes_on_under_the_table_it_began_with",
        "A34": "crash/test_persistence.py::test_a34_another_plan_under_the_id_of_a_run_is_refused_and_a_resume_keeps_the_old_one",
    },
    "timeout": ["A56", "A57", "A58"],
    "cancel": ["A59", "A60", "A61", "A62"],
    "serialization": {
        "A64": "crash/test_values.py::test_a64_every_odd_value_comes_back_exactly_or_is_refused_by_its_path",
        "A65": "crash/test_values.py::test_a65_a_value_that_no_log_can_hold_is_refused_by_its_path",
        "A66": "scenarios/serialization/A66-zero-is-a-result.json",
    },
    "size": {
        "A88": "crash/test_size.py::test_a88_plan_after_plan_the_log_grows_in_a_straight_line",
        "A89": "crash/test_size.py::test_a89_a_thousand_large_results_take_hardly_more_than_themselves",
        "A90": "crash/test_size.py::test_a90_memory_is_flat_while_many_steps_run",
    },
    "log": {
        "A84": "crash/test_tampering.py::test_a84_every_flipped_bit_is_noticed_by_whoever_reads_the_log",
        "A86": "crash/test_persistence.py::test_a86_a_fork_carries_no_later_approval_and_repeats_no_write_and_a_what_if_calls_nothing",
        "A87": "crash/test_persistence.py::test_a87_an_audit_is_the_same_in_every_process_whatever_its_hash_seed_zone_and_language",
    },
    "speed": {"A91": "torture/test_speed.py::test_a91_what_a_step_costs_does_not_grow_with_the_plan"},
}
"""Scenarios of public bugs by kind: those with a file of their own, and those that need a test in Python."""


def test_every_issue_is_a_row():
    assert len(ISSUES) == 23


def assert_there(name):
    file, _, function = name.partition("::")
    text = (HERE / file).read_text()
    assert not function or re.search(rf"^def {function}\(", text, re.MULTILINE), name


@pytest.mark.parametrize("kind", KINDS)
def test_every_scenario_of_a_kind_is_there(kind):
    for name in KINDS[kind]:
        if isinstance(KINDS[kind], dict):
            assert_there(KINDS[kind][name])
            assert f"/{name}-" in KINDS[kind][name] or f"::test_{name.lower()}_" in KINDS[kind][name]
        else:
            assert list((HERE / "scenarios" / kind).glob(f"{name}-*.json")), name


@pytest.mark.parametrize("issue", ISSUES)
def test_the_tests_of_an_issue_are_there(issue):
    assert ISSUES[issue]
    for name in ISSUES[issue]:
        assert_there(name)


# ── what no other test covers ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("odd", [float("nan"), {1: 2}, "\ud800", {"a": object()}, [b"x"], "a\0b"])
def test_what_cannot_be_stored_never_reaches_the_log(tmp_path, odd):
    async def scenario():
        plan = plan_of(
            {"id": "t", "tool": "do", "optional": True, "on_failure": {"*": "skip"}},
            {"id": "u", "tool": "ok"},
        )
        tools = toolbox(lambda: odd)
        tools.add(lambda: 1, effect="read", name="ok")
        async with running(plan, tools, store=tmp_path / "runs.db", run_id="r") as run:
            await run.wait()
            moved = [
                e.data["outcome"]["error"]["message"]
                async for e in run.events()
                if e.data.get("outcome", {}).get("error")
            ]
            assert any("$" in words for words in moved), moved
            assert run.status().tasks["t"].state in ("cancelled", "failed")
        store = open_store(tmp_path / "runs.db")
        assert replay.replay("r", store.read("r"), store.blob).seq == store.head("r").seq
        store.close()

    go(scenario())


@pytest.mark.parametrize("breakage", [Breakage.ERROR_BEFORE, Breakage.ERROR_AFTER])
def test_nobody_is_told_of_what_is_not_stored(breakage):
    total = lives("fine", [])[3][0]
    told_something = 0
    for at in range(1, total + 1):
        store = FaultyStore(break_at=at, breakage=breakage)
        told, too_early = [], []

        def listen(events, store=store, told=told, too_early=too_early):  # what it raised, nobody would hear
            there = {record.seq for record in store.survivor().read("r")}
            too_early.extend(event.seq for event in events if event.seq not in there)
            told.extend(event.seq for event in events)

        with contextlib.suppress(StoreDeadError):
            Life(World(), FakeClock(), store, owner="ann", listeners=[listen]).live()
        assert too_early == []
        assert told == list(range(1, len(told) + 1))
        told_something += bool(told)
    assert told_something > 3


def test_ten_megabytes_harm_neither_the_log_nor_other_runs(tmp_path):
    async def scenario():
        store = open_store(tmp_path / "runs.db")
        large = "x" * 10_000_000
        tools = toolbox(lambda text: len(text))
        plan = plan_of({"id": "t", "tool": "do", "args": {"text": "$inputs.text"}}, inputs={"text": ""})
        async with await RunController.start(
            plan, tools, store=store, run_id="big", inputs={"text": large}
        ) as run:
            small = await RunController.start(
                one("do", args={"text": "y"}), tools, store=store, run_id="small"
            )
            async with small:
                await asyncio.gather(run.wait(), small.wait())
            assert run.status().tasks["t"].result == 10_000_000
        for name in ("big", "small"):
            check(store, name, store.head(name))
        store.close()
        assert (tmp_path / "runs.db").stat().st_size < 2.5 * len(large)

    go(scenario())


def test_another_tool_of_the_same_shape_does_not_pass_the_audit():
    _, _, store, _ = lives("fine", [])
    disk = store.survivor(kept=store.soft_changes())
    events = [from_body(record.body) for record in disk.read("r")]
    swapped = [
        e._replace(data={**e.data, "tool": "send"})
        if e.type == "task_moved" and e.data.get("tool") == "pay"
        else e
        for e in events
    ]
    assert swapped != events
    found = audit_records("r", seal(genesis("r"), swapped)[0], disk.blob)
    assert found.verdict == "violations"
    assert {"call-of-the-plan", "digest-and-key"} <= {finding.check for finding in found.findings}


def test_chance_is_in_no_id_and_in_no_key():
    keys = []
    for seed, draws in ((0, 0), (1, 0), (0, 3)):
        clock = FakeClock(seed=seed)
        for _ in range(draws):
            clock.jitter()
        world = World("request lost")
        run = Life(world, clock, FaultyStore(), owner="ann").live()
        keys.append((world.effects, [(t.key, t.args_digest, t.result_digest) for t in run.tasks.values()]))
    assert keys[0] == keys[1] == keys[2]


@pytest.mark.parametrize("approval_first", [True, False])
def test_an_approval_and_a_result_of_one_moment_keep_their_order(approval_first):
    """The kit folds the log anew when the test is over, and compares it with what was live."""
    steps = [{"id": "a", "tool": "pay", "requires_confirmation": True}, {"id": "b", "tool": "look"}]
    with lab(steps) as given:
        yes = Approve(task="a", digest=given.question("a").digest, who=ANN)
        back = Returned(task="b", attempt=1, outcome=value({"n": 1}))
        for word in (yes, back) if approval_first else (back, yes):
            given.feed(word)
        order = [e.type for e in given.events("approval_answered", "task_moved") if e.task in ("a", "b")]
        answered = order.index("approval_answered")
        done = next(
            n
            for n, e in enumerate(given.events("approval_answered", "task_moved"))
            if e.data.get("trigger") == "succeed"
        )
        assert (answered < done) == approval_first
        given.returns("a", {"n": 2})


@pytest.mark.spoils_logs
def test_a_cut_log_that_was_gone_on_with_contradicts_its_head(tmp_path):
    place = tmp_path / "runs.jsonl"

    async def scenario():
        plan = one("do", requires_confirmation=True)
        async with running(plan, toolbox(lambda: 1), store=place, run_id="r") as run:
            await run.wait()
            (question,) = run.questions
            await question.approve(by="ann")
            await run.wait()
        return Heads.beside(str(place)).read("r")

    head = go(scenario())
    (tmp_path / "runs.jsonl.heads").unlink()  # it was kept elsewhere, and whoever goes on does not know of it
    log = place / "r.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:3]))

    async def goes_on():
        async with await RunController.open(place, "r", toolbox(lambda: 2)) as run:
            await run.wait()
            for question in run.questions:
                await question.approve(by="bob")
            await run.wait()

    go(goes_on())
    assert audit(place, run="r").verdict == "clean"
    found = audit(place, run="r", head=head)
    assert found.verdict == "violations"
    assert {f.check for f in found.findings} == {"head"}


def test_the_sqlite_in_use_is_one_whose_log_can_be_reset_safely():
    version = tuple(map(int, apsw.sqlite_lib_version().split(".")))
    assert version >= (3, 51, 3)
    needed = re.search(r'"apsw>=([\d.]+)"', (HERE.parent / "pyproject.toml").read_text())[1]
    assert tuple(map(int, needed.split("."))) >= (3, 51, 3)
    code = "import sys, fsm_agent.runtime.controller, fsm_agent.stores.sqlite; sys.exit('sqlite3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_event_of_another_version_is_refused_by_name_and_never_guessed(tmp_path):
    _, _, store, _ = lives("fine", [])
    first = next(store.survivor(kept=store.soft_changes()).read("r"))
    for version in (0, 2, 99, "1", None, True):
        body = first.body.replace(
            b'"v":1', b'"v":' + str(version).replace("None", "null").replace("True", "true").encode()
        )
        if version == "1":
            body = first.body.replace(b'"v":1', b'"v":"1"')
        with pytest.raises(CorruptError, match="version"):
            from_body(body)
        found = audit_records("r", [first._replace(body=body)], lambda name: b"")
        assert found.verdict == "violations"


def test_the_state_is_folded_from_the_log_alone(tmp_path):
    """There are no snapshots; what the list of runs says beside the log counts for nothing."""

    async def scenario():
        store = open_store(tmp_path / "runs.db")
        plan = one("do", requires_confirmation=True)
        async with await RunController.start(plan, toolbox(lambda: 1), store=store, run_id="r") as run:
            await run.wait()
        store._link.db.execute("UPDATE runs SET state = 'done'")
        async with await RunController.open(store, "r", toolbox(lambda: 1)) as run:
            assert run.status().state == "awaiting-confirmation"
        head = store.head("r")
        store._link.db.execute("UPDATE runs SET head_seq = head_seq + 5")
        with pytest.raises(CorruptError):
            await RunController.open(store, "r", toolbox(lambda: 1))
        store._link.db.execute("UPDATE runs SET head_seq = ?", (head.seq,))
        assert store.head("r") == Head(*head)
        store.close()

    go(scenario())


def test_what_a_tool_returned_is_recorded_as_it_came(tmp_path):
    returned = {"text": " spaces \n", "n": 1.0, "z": [None, True, 0, -0.0, ""], "é": "é", "big": 2**53}

    async def scenario():
        plan = one("do", done_when="n == 1")
        async with running(plan, toolbox(lambda: returned), store=tmp_path / "runs.db", run_id="r") as run:
            await run.wait()
            (found,) = [e.data["outcome"]["value"] async for e in run.events() if "outcome" in e.data]
            assert found == returned
            assert str(found["z"]) == str(returned["z"])

    go(scenario())
