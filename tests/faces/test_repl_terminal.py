"""A person at the prompt: completion, hints, approval by typing, interruptions, events above the prompt, resizing."""

import json
import os
import re
import shutil

import pytest

from tests.faces.conftest import HERE
from tests.faces.terminal import Person


@pytest.fixture
def person(cli, tmp_path):
    people = []

    def sit_down(*words, **more):
        more.setdefault("XDG_STATE_HOME", str(tmp_path / "state"))
        people.append(Person(cli, "repl", *words, **more))
        return people[-1]

    yield sit_down
    for one in people:
        one.away()


@pytest.fixture
def slow(cli, tmp_path):
    """A plan whose second step waits until the returned function lets it go on."""
    shutil.copytree(HERE / "slow", tmp_path / "slow", ignore=shutil.ignore_patterns("__pycache__"))
    os.mkfifo(tmp_path / "gate")

    def let_go():
        (tmp_path / "gate").write_text("now")

    return let_go


def types(cli, run="r1"):
    """Return (type, task, trigger or wish) of the run's events."""
    lines = cli("events", run, "--jsonl").lines
    return [(e["type"], e.get("task"), e["data"].get("trigger") or e["data"].get("wish")) for e in lines]


def rung(cli):
    """How often the bell really rang."""
    file = cli.path / "bell.txt"
    return file.read_text().count("ding") if file.exists() else 0


def test_a_run_is_stepped_approved_by_typing_and_finished(cli, person):
    ann = person("desk", "--run-id", "r1")
    ann.until("T3 asks a person first")
    ann.until("fsm r1 [0/3]>")
    ann.type("step")
    ann.until("2 of 3 done")
    ann.until("fsm r1 [2/3]>")
    ann.type("run")
    ann.until("next: approve T3 | reject T3")
    ann.until("T3]>")
    ann.type("approve T3")
    shown = ann.until("to approve:")
    assert "to reject" not in shown  # other words are commands of their own here
    assert "book is write: it changes something" in shown
    assert "total = 180" in shown
    digest = re.search(r"digest (\w{16})", shown)[1]
    assert f"type {digest[:4]} " in shown
    ann.type("nope")
    ann.until("'nope' is not how the digest begins; nothing was approved")
    ann.until("T3]>")
    ann.type("approve T3")
    ann.until("to approve:")
    ann.type(digest[:4])
    ann.until("approved " + digest[:8])
    assert cli.ledger == []  # nothing starts by itself
    ann.until("fsm r1 [2/3]>")
    ann.type("run")
    ann.until("done, 3 of 3 done")
    ann.until("[3/3 ✔]>")
    ann.press("\x04")
    assert ann.end() == 0
    answered = [e for e in cli("events", "r1", "--jsonl").lines if e["type"] == "approval_answered"]
    assert answered[-1]["data"]["channel"] == "repl"
    assert len(cli.ledger) == 1


def test_tab_offers_only_what_makes_sense_now(person):
    ann = person("desk")
    ann.until("[0/3]>")
    ann.press("appr\t\t")
    ann.press("\x03")
    ann.until("[0/3]>")
    assert "approve" not in ann.seen  # nothing asks yet
    ann.type("run")
    ann.until("T3]>")
    ann.press("appr")
    ann.until("appr")  # the prompt has read it: what is pressed now is pressed at the prompt
    ann.press("\t")
    ann.until("ove")
    ann.press(" \t")
    ann.until(re.compile(r"T3(?! \()"))  # in the line, not in what is waited for
    ann.press("\n")
    ann.until("to approve:")
    ann.press("\x03")
    ann.until("nothing was approved")
    ann.until("T3]>")
    ann.type("quit")
    assert ann.end() == 0


def test_what_is_still_to_be_typed_is_hinted(person):
    ann = person("desk")
    ann.until("[0/3]>")
    ann.press("reject ")
    ann.until("TASK")
    ann.press("\x03")
    ann.until("[0/3]>")
    ann.press("show ")
    ann.until("SEQ")
    ann.press("\x03quit\n")
    assert ann.end() == 0


def test_the_line_below_says_state_waits_and_budgets(person):
    ann = person("desk")
    ann.until("running | 0 calls")
    ann.type("run")
    ann.until("awaiting-confirmation | waits: T3 (approval) | 2 calls")
    ann.type("set budgets.tool_calls=9")
    ann.until("tool_calls 2 (7 left)")
    ann.type("quit")
    assert ann.end() == 0


def test_ctrl_c_at_the_prompt_clears_the_line(cli, person):
    ann = person("desk", "--run-id", "r1")
    ann.until("[0/3]>")
    ann.press("cancel")
    ann.until("cancel")
    ann.press("\x03")
    ann.until("[0/3]>")
    ann.type("quit")
    assert ann.end() == 0
    assert ("run_asked", None, "cancel") not in types(cli)


def test_the_first_ctrl_c_pauses_and_what_is_out_may_end(cli, person, slow):
    ann = person("slow", "--run-id", "r1")
    ann.until("[0/3]>")
    ann.type("run")
    ann.until("W1     pending → running")
    ann.press("\x03")
    ann.until("pausing: nothing more starts; waiting for W1 (Ctrl-C again stops waiting)")
    slow()
    ann.until("waiting for: an operator paused it")
    ann.until("[2/3]>")
    assert ("run_asked", None, "pause") in types(cli)
    ann.type("run")
    ann.until("done, 3 of 3 done")
    ann.type("quit")
    assert ann.end() == 0
    assert rung(cli) == 1


def test_the_second_ctrl_c_stops_waiting_and_the_write_is_unknown_never_failed(cli, person, slow):
    ann = person("slow", "--run-id", "r1")
    ann.until("[0/3]>")
    ann.type("run")
    ann.until("W1     pending → running")
    ann.press("\x03")
    ann.until("pausing")
    ann.press("\x03")
    ann.until("not waiting any more for W1; what became of it is not known now")
    ann.until("?W1]>")
    ann.type("retry W1")
    ann.until("E-UNKNOWN")
    ann.until("]>")
    ann.type("reconcile W1 --as applied --evidence 'I heard it' --result {\"rung\": 1}")
    ann.until("says applied")
    ann.until("]>")
    ann.type("run")
    ann.until("done, 3 of 3 done")
    ann.type("quit")
    assert ann.end() == 0
    assert ("task_moved", "W1", "lose") in types(cli)
    assert ("task_moved", "W1", "fail") not in types(cli)
    assert rung(cli) == 1


def test_the_third_ctrl_c_leaves_at_once_and_the_run_can_be_gone_on_with(cli, person, slow):
    ann = person("slow/stubborn.json", "--tools", "slow/tools.py:tools", "--run-id", "r1")
    ann.until("[0/1]>")
    ann.type("run")
    ann.until("S1     pending → running")
    ann.press("\x03")
    ann.until("pausing")
    ann.press("\x03")
    ann.until("not waiting any more for S1")
    ann.press("\x03")
    assert ann.end() == 130
    assert "left at once; go on with: fsm-agent repl r1" in ann.seen
    code, status = cli.json("resume", "r1")
    assert code in (4, 5)
    assert status["tasks"]["S1"]["state"] == "unknown-result"


def test_events_of_a_run_behind_the_prompt_are_shown_above_it(cli, person, slow):
    ann = person("slow", "--run-id", "r1")
    ann.until("[0/3]>")
    ann.type("run &")
    ann.until("goes on behind the prompt")
    ann.until("W1     pending → running")
    ann.press("note half-way")
    ann.until("note half-way")
    slow()
    ann.until("W1     running → done")
    ann.until("note half-way")  # the line that is being typed stands below again
    ann.until("done, 3 of 3 done")
    ann.press("\n")
    ann.until("noted")
    ann.type("quit")
    assert ann.end() == 0
    assert "note_added" in [kind for kind, *_ in types(cli)]


def test_a_flood_of_events_behind_the_prompt_is_folded(cli, person, tmp_path):
    steps = [{"id": f"s{i}", "tool": "look_up", "args": {"guest": "Ann"}} for i in range(200)]
    (tmp_path / "many.json").write_text(json.dumps(steps))
    ann = person("many.json", "--tools", "desk/tools.py:tools", "--run-id", "r1")
    ann.until("[0/200]>")
    ann.type("run &")
    shown = ann.until("done, 200 of 200 done")
    assert re.search(r"\.\.\. and \d+ more events: events --since \d+", shown)
    assert shown.count("→ done") < 200
    ann.type("quit")
    assert ann.end() == 0


def test_ctrl_c_pauses_what_is_driven_behind_the_prompt(cli, person, slow):
    ann = person("slow", "--run-id", "r1")
    ann.until("[0/3]>")
    ann.type("run &")
    ann.until("W1     pending → running")
    ann.press("\x03")
    ann.until("asked for a pause")
    slow()
    ann.until("an operator paused it")
    ann.type("quit")
    assert ann.end() == 0
    assert ("run_asked", None, "pause") in types(cli)


def test_a_run_that_another_process_drives_is_followed(cli, person, slow):
    owner = cli.start("run", "slow", "--run-id", "r1", "--jsonl")
    while '"W1"' not in owner.stdout.readline():
        pass
    ann = person("r1")
    ann.until("driven by another process")
    ann.until("[1/3]>")
    slow()
    ann.until("W1     running → done")
    ann.until("run_closed")
    owner.communicate()
    ann.type("status")
    ann.until("done 3 of 3")
    ann.type("quit")
    assert ann.end() == 0


def test_ctrl_c_ends_what_only_looks(cli, person, slow):
    ann = person("slow", "--run-id", "r1")
    ann.until("[0/3]>")
    ann.type("events -f")
    ann.until("run_created")
    ann.until("pending → running (start)")
    ann.press("\x03")
    ann.until("interrupted")
    ann.until("[0/3]>")
    ann.type("quit")
    assert ann.end() == 0
    assert [kind for kind, *_ in types(cli)] == ["run_created", "plan_adopted", "run_moved"]


def test_enter_repeats_what_only_looks_and_nothing_else(cli, person):
    ann = person("desk", "--run-id", "r1")
    ann.until("[0/3]>")
    ann.type("budget")
    ann.until("attempts: none yet")
    ann.until("[0/3]>")
    ann.type("")
    ann.until("attempts: none yet")
    ann.until("[0/3]>")
    ann.type("note once")
    ann.until("noted")
    ann.until("[0/3]>")
    ann.type("")
    ann.until("[0/3]>")
    ann.type("quit")
    assert ann.end() == 0
    assert [kind for kind, *_ in types(cli)].count("note_added") == 1


def test_a_terminal_that_becomes_narrow_is_no_trouble(person):
    ann = person("desk", columns=120)
    ann.until("[0/3]>")
    ann.resize(40, 10)
    ann.type("plan")
    ann.until("T3")
    ann.type("quit")
    assert ann.end() == 0
    assert "Traceback" not in ann.raw


def test_lines_are_kept_for_the_next_time_but_no_secret(cli, person, tmp_path):
    ann = person("desk", "--run-id", "r1")
    ann.until("[0/3]>")
    for line in ("status", "note token=abc", "set guest=Bea", "note 'my PASSWORD is x'"):
        ann.type(line)
        ann.until("[0/3]>")
    ann.type("quit")
    assert ann.end() == 0
    file = tmp_path / "state" / "fsm-agent" / "history"
    kept = file.read_text()
    assert "status" in kept
    assert "guest=Bea" in kept
    assert "abc" not in kept
    assert "PASSWORD" not in kept
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "env", [{"TERM": "dumb"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
)
def test_poor_terminals_are_served_as_well(person, env):
    ann = person("desk", **env)
    ann.until("[0/3]>")
    ann.type("run")
    ann.until("may book be called?")
    ann.type("quit")
    assert ann.end() == 0
    assert "Traceback" not in ann.raw
    if "LC_ALL" in env:
        assert ann.raw.isascii()


def test_a_plan_that_cannot_be_loaded_ends_the_prompt_with_its_exit_code(person):
    ann = person("nowhere.json")
    assert ann.end() == 9
    assert "E-NOT-FOUND" in ann.seen
