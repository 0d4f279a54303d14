"""What people say by command: each word is taken once, for exactly what was shown, or refused with what would fit."""

import getpass

import pytest


def last(cli, kind):
    return [event for event in cli("events", "r1", "--jsonl").lines if event["type"] == kind][-1]


def test_an_approval_names_the_call_that_was_shown_and_who_said_so(cli, waiting):
    shown = cli("approve", "r1", "T3", "--digest", waiting["digest"][:8], "--by", "ann", "-m", "go")
    assert shown.code == 0
    assert f"T3: ann approved {waiting['digest'][:8]}; run r1 is running" in shown.out
    assert "nobody drives it now; go on with: fsm-agent resume r1" in shown.out
    answered = last(cli, "approval_answered")["data"]
    assert {k: answered[k] for k in ("verdict", "by", "channel", "note", "args_digest")} == {
        "verdict": "approved",
        "by": "ann",
        "channel": "cli",
        "note": "go",
        "args_digest": waiting["digest"],
    }


def test_who_speaks_is_the_login_name_unless_said_otherwise(cli, waiting):
    cli("reject", "r1", "T3")
    assert last(cli, "approval_answered")["data"]["by"] == getpass.getuser()


@pytest.mark.parametrize("digest", ["00000000", "", "9f"])
def test_an_approval_of_something_else_is_refused(cli, waiting, digest):
    shown = cli("approve", "r1", "T3", "--digest", digest)
    assert shown.code == 2
    assert shown.err.startswith("E-DIGEST ")
    assert waiting["digest"][:8] in shown.err


def test_an_edit_asks_again_and_the_old_digest_approves_nothing(cli, waiting):
    assert cli("edit", "r1", "T3", "total=100", "guest=Bea").code == 0
    (question,) = cli.json("status", "r1")[1]["questions"]
    assert question["args"] == {"guest": "Bea", "total": 100, "luck": "good"}
    assert cli("approve", "r1", "T3", "--digest", waiting["digest"]).code == 2
    assert cli("approve", "r1", "T3", "--digest", question["digest"]).code == 0
    cli("resume", "r1")
    assert [line.split()[1:] for line in cli.ledger] == [["Bea", "100"]]


def test_a_value_is_json_if_it_parses_and_else_text(cli, waiting):
    cli("edit", "r1", "T3", "guest=Bea Ho", "total=1.5")
    args = cli.json("status", "r1")[1]["questions"][0]["args"]
    assert (args["guest"], args["total"]) == ("Bea Ho", 1.5)
    refused = cli("edit", "r1", "T3", "guest=[1]")
    assert (refused.code, refused.err.split()[0]) == (2, "E-ARGUMENTS")


def test_a_rejection_keeps_its_words(cli, waiting):
    assert cli("reject", "r1", "T3", "-m", "too dear", "--by", "ann").code == 0
    assert cli.json("status", "r1")[1]["tasks"]["T3"]["reason"] == "rejected by ann: too dear"


def test_an_answer_after_a_failure_decides(cli):
    cli("run", "desk", "--run-id", "r1", "--input", "luck=wrong")
    wrong = cli("answer", "r1", "T2", '{"decide": "dance"}')
    assert (wrong.code, wrong.err.split()[0]) == (2, "E-ANSWER")
    assert cli("answer", "r1", "T2", '{"result": {"total": 7}, "evidence": "asked by phone"}').code == 0
    assert cli.json("status", "r1")[1]["tasks"]["T2"]["result"] == {"total": 7}


@pytest.mark.parametrize("word", [("reject",), ("edit", "total=1"), ("answer", "3")], ids=lambda w: w[0])
def test_an_empty_digest_is_no_leave_to_answer_whatever_is_asked_by_now(word, waiting, cli):
    verb, *rest = word
    shown = cli(verb, "r1", "T3", *rest, "--digest", "")
    code = "E-OTHER-QUESTION" if verb == "answer" else "E-DIGEST"
    assert (shown.code, shown.err.split()[0]) == (2, code)
    assert cli.json("status", "r1")[1]["questions"] == [waiting]


def test_an_answer_that_is_no_json_is_wrong_usage(cli, waiting):
    shown = cli("answer", "r1", "T3", "yes")
    assert shown.code == 2
    assert shown.err.startswith("E-USAGE JSON: 'yes' is no JSON")


def test_set_changes_inputs_and_budgets_and_refuses_unknown_ones(cli, waiting):
    assert cli("set", "r1", "nights=3", "budgets.tool_calls=50").code == 0
    cli("resume", "r1")
    status = cli.json("status", "r1")[1]
    assert status["budgets"]["tool_calls"]["left"] < 50
    shown = cli("set", "r1", "nigths=3")
    assert shown.code == 2
    assert "unknown" in shown.err


def test_retry_is_for_failed_tasks_only(cli, waiting):
    shown = cli("retry", "r1", "T1")
    assert (shown.code, shown.err.split()[0]) == (2, "E-REFUSED")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--evidence", "seen"), "add --as applied or --as absent"),
        (("--as", "absent", "--evidence", "seen", "--result", "1"), "has no result"),
        (("--as", "gone"), "is not one of"),
        (("--as", "applied", "--result", "{"), "is no JSON"),
    ],
)
def test_reconcile_says_what_is_wrong_with_its_options(cli, waiting, words, hint):
    shown = cli("reconcile", "r1", "T3", *words)
    assert shown.code == 2
    assert hint in shown.err


def test_reconcile_of_what_is_not_unknown_is_refused(cli, waiting):
    assert cli("reconcile", "r1", "T1").code == 2


def test_cancel_takes_a_list_of_tasks_in_both_ways_of_writing_it(cli, waiting):
    for words in (("--acknowledge", "T1", "T2"), ("--acknowledge", "T1", "--acknowledge", "T2")):
        shown = cli("cancel", "r1", *words)
        assert shown.code == 2
        assert "task T1: it is done; only an unknown result can be acknowledged" in shown.err
    assert cli("cancel", "r1", "-m", "enough").code == 0
    assert cli.json("status", "r1")[1]["state"] == "cancelled"


def test_a_pause_is_a_wish_and_a_second_one_adds_nothing(cli, waiting):
    assert cli("pause", "r1").code == 0
    assert cli("pause", "r1").err.startswith("E-WISH ")


def test_a_note_stands_in_the_log(cli, waiting):
    assert cli("note", "r1", "called the desk", "--task", "T3", "--by", "ann").code == 0
    event = last(cli, "note_added")
    assert (event["data"]["text"], event["task"]) == ("called the desk", "T3")


def test_words_in_json_are_answered_with_the_status(cli, waiting):
    code, status = cli.json("note", "r1", "hello")
    assert (code, status["schema"], status["run"]) == (0, "fsm-agent/status@1", "r1")


@pytest.mark.parametrize(
    "command", [["approve", "r9", "T3", "--digest", "12345678"], ["cancel", "r9"], ["note", "r9", "x"]]
)
def test_a_word_to_an_unknown_run_is_not_found(cli, waiting, command):
    shown = cli(*command)
    assert (shown.code, shown.err.split()[0]) == (9, "E-NOT-FOUND")


def test_a_word_to_an_unknown_task_is_not_found(cli, waiting):
    assert cli("approve", "r1", "T9", "--digest", "12345678").code in (2, 9)


def test_a_word_reaches_the_process_that_drives_the_run(cli):
    (cli.path / "desk" / "tools.py").write_text(WAITS_FOR_A_FILE)
    with cli.start("--jsonl", "run", "desk", "--run-id", "r1") as process:
        assert any("running" in line and "T1" in line for line in process.stdout)
        shown = cli("note", "r1", "hello", "--by", "ann")
        assert shown.code == 0, shown.err
        assert "nobody drives it" not in shown.out
        (cli.path / "go").touch()
        process.communicate(timeout=30)
    actor = last(cli, "note_added")["actor"]
    assert (actor["kind"], actor["id"]) == ("human", "ann")
    assert [
        e["data"]["epoch"] for e in cli("events", "r1", "--jsonl").lines if e["type"] == "owner_changed"
    ] == []


WAITS_FOR_A_FILE = """
import asyncio
from pathlib import Path
from fsm_agent import Toolbox
tools = Toolbox()
@tools.read
async def look_up(guest: str) -> dict:
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return {"known": True}
@tools.read
async def price(nights: int, luck: str) -> dict:
    return {"total": 1}
@tools.write
async def book(guest: str, total: float, luck: str) -> dict:
    return {"booking": "B-1"}
"""
