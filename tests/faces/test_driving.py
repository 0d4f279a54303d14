"""``run``, ``resume``, ``wait``: what they drive, what they say, and their exit codes."""

import json
import shlex
import signal

import pytest


def script(cli, *reactions):
    (cli.path / "operator.json").write_text(json.dumps(list(reactions)))
    return "operator.json"


WHEN_ASKED = {"task": "T3", "state": "awaiting-confirmation"}
CALL = {"guest": "Ann", "total": 180, "luck": "good"}


def test_a_run_waits_for_a_person_and_says_what_to_type_next(cli):
    shown = cli("run", "desk", "--run-id", "r1")
    assert shown.code == 4
    assert "done 2 of 3" in shown.out
    assert "waiting for: T3 (approval)" in shown.out
    digest = cli.json("status", "r1")[1]["questions"][0]["digest"][:8]
    assert f"\n  fsm-agent approve r1 T3 --digest {digest}\n" in shown.out
    assert shown.out.splitlines()[-1].startswith("head 12 ")
    assert cli.ledger == []


def test_progress_goes_to_stderr_and_q_silences_it(cli):
    loud, quiet = cli("run", "desk"), cli("run", "desk", "-q")
    assert "dest=awaiting-confirmation" in loud.err
    assert quiet.err == ""
    assert quiet.code == loud.code == 4


def test_with_json_stdout_is_one_document_of_the_documented_schema(cli):
    code, status = cli.json("run", "desk", "--run-id", "r1")
    assert code == 4
    assert status["schema"] == "fsm-agent/status@1"
    assert {"run", "state", "plan_version", "tasks", "budgets", "questions", "head", "next"} <= status.keys()
    assert status["tasks"]["T1"] == {"state": "done", "attempts": 1, "result": {"known": True}}
    (question,) = status["questions"]
    assert {"task", "kind", "digest", "args", "answers"} <= question.keys()
    assert question["args"] == {"guest": "Ann", "total": 180, "luck": "good"}
    assert status["head"].keys() == {"seq", "hash"}


def test_with_jsonl_stdout_is_the_log_as_it_is_told_and_then_the_status(cli):
    shown = cli("--jsonl", "run", "desk")
    assert shown.lines[0]["event"] == "run_created"
    assert shown.lines[-1]["schema"] == "fsm-agent/status@1"
    assert "task_moved" not in shown.err


def test_a_script_that_states_the_arguments_brings_the_run_to_its_end(cli):
    operator = script(cli, {"when": WHEN_ASKED, "do": {"approve": "T3", "by": "ann", "args": CALL}})
    code, status = cli.json("run", "desk", "--operator", operator)
    assert (code, status["state"]) == (0, "done")
    assert len(cli.ledger) == 1


def test_a_script_that_states_other_arguments_approves_nothing(cli):
    operator = script(cli, {"when": WHEN_ASKED, "do": {"approve": "T3", "args": {**CALL, "total": 1}}})
    shown = cli("run", "desk", "--operator", operator)
    assert shown.code == 4
    assert "E-DIGEST" in shown.err
    assert cli.ledger == []


def test_a_script_that_does_not_say_what_it_approves_is_refused_before_anything_starts(cli):
    operator = script(cli, {"when": WHEN_ASKED, "do": {"approve": "T3"}})
    shown = cli("run", "desk", "--operator", operator)
    assert shown.code == 3
    assert shown.err.startswith("E-SCENARIO operator.json /0/do")
    assert cli.runs() == []


@pytest.mark.parametrize(
    ("do", "code", "state"),
    [
        ({"reject": "T3", "note": "too dear"}, 6, "cancelled"),
        ("cancel", 6, "cancelled"),
        ("pause", 4, "awaiting-confirmation"),
    ],
)
def test_the_exit_code_is_the_state_of_the_run(cli, do, code, state):
    operator = script(cli, {"when": WHEN_ASKED, "do": do})
    assert cli.json("run", "desk", "--operator", operator)[0] == code
    assert cli.json("runs")[1]["runs"][0]["state"] == state


def test_a_reaction_with_a_time_is_waited_for(cli):
    operator = script(cli, {"at_s": 0.05, "do": {"reject": "T3"}})
    assert cli.json("run", "desk", "--operator", operator)[0] == 6


def test_a_run_that_a_person_aborts_exits_with_1_and_resume_goes_on(cli):
    code, status = cli.json("run", "desk", "--run-id", "r1", "--input", "luck=wrong")
    assert code == 4
    assert status["questions"][0]["kind"] == "decide"
    before = status["tasks"]["T2"]["attempts"]
    cli("answer", "r1", "T2", '{"decide": "abort"}')
    code, status = cli.json("status", "r1")
    assert (code, status["state"]) == (0, "failed")
    assert cli.json("wait", "r1")[0] == 1
    code, status = cli.json("resume", "r1", "--by", "ann")
    assert code == 4  # the same mistake again
    assert status["tasks"]["T2"]["attempts"] > before


def test_an_unknown_result_exits_with_5_or_asks_and_is_never_repeated(cli):
    operator = script(cli, {"when": WHEN_ASKED, "do": {"approve": "T3", "args": {**CALL, "luck": "bad"}}})
    code, status = cli.json("run", "desk", "--run-id", "r1", "--input", "luck=bad", "--operator", operator)
    assert code in (4, 5)
    assert status["tasks"]["T3"]["state"] == "unknown-result"
    assert len(cli.ledger) == 1
    refused = cli("retry", "r1", "T3")
    assert refused.code == 2
    assert refused.err.startswith("E-UNKNOWN ")
    done = cli(
        "reconcile",
        "r1",
        "T3",
        "--as",
        "applied",
        "--evidence",
        "seen at the desk",
        "--result",
        '{"booking": "B-1"}',
    )
    assert done.code == 0, done.err
    assert cli.json("resume", "r1")[0] == 0
    assert len(cli.ledger) == 1


def test_inputs_of_the_directory_come_before_the_plans_and_those_typed_before_both(cli):
    (cli.path / "desk" / "inputs.json").write_text('{"nights": 3, "guest": "Bob"}')
    args = cli.json("run", "desk", "--input", "guest=Cy")[1]["questions"][0]["args"]
    assert args == {"guest": "Cy", "total": 270, "luck": "good"}


def test_rules_of_the_directory_are_used_and_those_named_go_before(cli):
    (cli.path / "desk" / "rules.toml").write_text('schema = 1\nextends = "default"\n[params]\nretries = 1\n')
    assert cli("run", "desk", "--run-id", "own").code == 4
    assert cli("run", "desk", "--run-id", "named", "--rules", "default", "--param", "retries=2").code == 4
    created = {run: cli("events", run, "--jsonl").lines[0]["data"]["rules"] for run in ("own", "named")}
    assert {run: rules["params"]["retries"] for run, rules in created.items()} == {"own": 1, "named": 2}


def test_a_plan_file_runs_with_the_tools_that_are_named(cli):
    code, _ = cli.json("run", "desk/plan.json", "--tools", "desk/tools.py:tools", "--run-id", "r1")
    assert code == 4
    locator = cli("events", "r1", "--jsonl").lines[0]["data"]["tools_locator"]
    assert locator == "desk/tools.py:tools"


def test_resume_finds_the_tools_where_run_found_them(cli, waiting):
    assert cli("approve", "r1", "T3", "--digest", waiting["digest"][:8], "--by", "ann").code == 0
    assert cli.ledger == []  # whoever only hands a word over starts nothing
    code, status = cli.json("resume", "r1")
    assert (code, status["state"]) == (0, "done")
    assert len(cli.ledger) == 1


def test_resume_elsewhere_says_where_the_log_looked_for_the_tools_and_tools_overrides(
    cli, waiting, monkeypatch
):
    (cli.path / "elsewhere").mkdir()
    monkeypatch.chdir(cli.path / "elsewhere")
    shown = cli("resume", "r1", "--store", "../.fsm_agent/runs.db")
    assert shown.code == 3
    assert "--tools" in shown.err
    assert (
        cli("resume", "r1", "--store", "../.fsm_agent/runs.db", "--tools", "../desk/tools.py:tools").code == 4
    )


def test_resume_lifts_a_pause(cli, waiting):
    assert cli("pause", "r1", "--by", "ann").code == 0
    assert cli.json("status", "r1")[1]["waiting"] == "an operator paused it"
    assert cli("resume", "r1").code == 4
    assert cli.json("status", "r1")[1]["waiting"] == "T3 (approval)"


def test_resume_of_an_ended_run_changes_nothing(cli, waiting):
    cli("reject", "r1", "T3", "-m", "no")
    head = cli.json("status", "r1")[1]["head"]
    shown = cli("resume", "r1")
    assert shown.code == 6
    assert "nothing is left to resume" in shown.err
    assert cli.json("status", "r1")[1]["head"] == head


def test_a_run_that_another_process_drives_is_left_alone(cli):
    (cli.path / "desk" / "tools.py").write_text(SLOW)
    process = cli.start("--jsonl", "run", "desk", "--run-id", "r1")
    try:
        assert any("running" in line and "T1" in line for line in process.stdout)
        shown = cli("resume", "r1")
        assert shown.code == 8
        assert shown.err.startswith("E-OWNED ")
        waited = cli("wait", "r1", "--timeout", "0.3")
        assert waited.code == 8
        assert "it goes on" in waited.err
    finally:
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert "fsm-agent resume r1" in err
    assert "Traceback" not in err


SLOW = """
import asyncio
from fsm_agent import Toolbox
tools = Toolbox()
@tools.read
async def look_up(guest: str) -> dict:
    await asyncio.Event().wait()
@tools.read
async def price(nights: int, luck: str) -> dict:
    return {"total": 1}
@tools.write
async def book(guest: str, total: float, luck: str) -> dict:
    return {"booking": "B-1"}
"""


def test_wait_follows_another_process_to_the_state_asked_for(cli):
    operator = script(cli, {"at_s": 0.3, "do": {"reject": "T3", "note": "no"}})
    with cli.start("--jsonl", "run", "desk", "--run-id", "r1", "--operator", operator) as process:
        assert json.loads(process.stdout.readline())["event"] == "run_created"
        code, status = cli.json("wait", "r1", "--for", "state=cancelled", "--timeout", "30")
        process.communicate(timeout=30)
    assert (code, status["state"]) == (6, "cancelled")
    assert process.returncode == 6


def test_wait_of_a_run_that_rests_returns_at_once_with_its_state(cli, waiting):
    assert cli("wait", "r1").code == 4
    assert cli("wait", "r1", "--for", "state=awaiting-confirmation").code == 4


def test_wait_says_when_nobody_drives_the_run(cli, waiting):
    cli("approve", "r1", "T3", "--digest", waiting["digest"])
    shown = cli("wait", "r1", "--timeout", "0.2")
    assert shown.code == 8
    assert "nobody drives run r1 now; go on with: fsm-agent resume r1" in shown.err


@pytest.mark.parametrize("until", ["done", "state=gone", "task=done"])
def test_wait_for_what_is_no_state_is_wrong_usage(cli, waiting, until):
    shown = cli("wait", "r1", "--for", until)
    assert shown.code == 2
    assert "one of pending, running" in shown.err


def test_two_runs_of_one_id_are_one_run_and_an_error(cli, waiting):
    head = cli.json("status", "r1")[1]["head"]
    shown = cli("run", "desk", "--run-id", "r1")
    assert shown.code == 8
    assert shown.err.startswith("E-CONFLICT ")
    assert len(shown.err.splitlines()) == 1
    assert cli.json("status", "r1")[1]["head"] == head


def test_commands_to_type_next_name_the_store_that_was_named(cli):
    shown = cli("run", "desk", "--store", "my runs.db", "--run-id", "r1")
    line = next(line for line in shown.out.splitlines() if "fsm-agent cancel" in line)
    assert line.strip() == "fsm-agent cancel r1 --store 'my runs.db'"


def test_commands_to_type_next_can_be_typed_whatever_the_ids_are(cli):
    (cli.path / "plan.json").write_text('{"steps": [{"id": "T1", "description": "what is the price?"}]}')
    next_ones = cli.json("run", "plan.json", "--run-id", "Ann's run; ls")[1]["next"]
    assert shlex.split(next_ones[0])[:-1] == [
        "fsm-agent",
        "answer",
        "Ann's run; ls",
        "T1",
        "JSON",
        "--digest",
    ]
    assert cli(*shlex.split(next_ones[-1])[1:]).code == 0


def test_the_head_is_kept_beside_the_store(cli, waiting):
    kept = json.loads((cli.path / ".fsm_agent" / "runs.db.heads").read_text())
    assert kept["run"] == "r1"
    assert {"seq": kept["seq"], "hash": kept["hash"]} == cli.json("status", "r1")[1]["head"]


def test_a_jsonl_store_works_as_well(cli):
    assert cli("run", "desk", "--store", "logs/", "--run-id", "r1").code == 4
    assert cli("resume", "r1", "--store", "logs/").code == 4
    assert cli("audit", "logs", "--json").json["verdict"] == "open"


def test_a_script_answers_a_question_that_stood_before_it_came(cli, waiting, tmp_path):
    script = tmp_path / "person.json"
    do = {"approve": "T3", "by": "ann", "args": waiting["args"]}
    script.write_text(json.dumps([{"when": {"task": "T3", "state": "awaiting-confirmation"}, "do": do}]))
    code, status = cli.json("resume", "r1", "--operator", script)
    assert (code, status["state"]) == (0, "done")
    assert len(cli.ledger) == 1
