"""A script at the prompt: it stops at the first error with its exit code, asks nothing, and approves only by digest."""

import json
import os
import shutil
import signal
import subprocess

import pytest

from fsm_agent.stores import open_store
from tests.faces.conftest import HERE


def typed(cli, *words, **more):
    """Return what ``repl`` showed for the commands in *words*."""
    return cli("repl", *words, **more)


def test_steps_stop_and_a_run_goes_on_until_a_person_is_needed(cli):
    shown = typed(cli, "desk", "--run-id", "r1", "-c", "step; status; run")
    assert shown.code == 4
    assert "run r1: running, 2 of 3 done" in shown.out
    assert "T3: may book be called?" in shown.out
    assert "next: approve T3 --digest " in shown.out
    assert "T1     pending" in shown.err  # progress is no data
    assert cli.ledger == []


def test_a_script_ends_the_run_that_it_approves_by_digest(cli):
    code, status = cli.json("run", "desk", "--run-id", "r1")
    assert code == 4
    digest = status["questions"][0]["digest"][:8]
    shown = typed(cli, "r1", "-q", "-c", f"approve T3 --digest {digest}; run; audit")
    assert (shown.code, shown.err) == (0, "")
    assert "run r1: done, 3 of 3 done" in shown.out
    assert "r1: clean" in shown.out
    assert len(cli.ledger) == 1


def test_an_approval_without_the_digest_is_refused_so_that_an_old_script_approves_nothing_else(cli):
    shown = typed(cli, "desk", "-q", "-c", "run; approve T3; run")
    assert shown.code == 4
    assert "E-DIGEST task T3: an approval says what it approves; add --digest " in shown.err
    assert cli.ledger == []


def test_an_approval_of_changed_arguments_is_refused(cli):
    _, status = cli.json("run", "desk", "--run-id", "r1")
    digest = status["questions"][0]["digest"][:8]
    shown = typed(cli, "r1", "-q", "-c", f"edit T3 total=1; approve T3 --digest {digest}")
    assert shown.code == 2
    assert "E-DIGEST" in shown.err
    assert cli.ledger == []


def test_a_script_stops_at_the_first_error_with_its_exit_code(cli):
    shown = typed(cli, "desk", "-q", "-c", "plan T9; run")
    assert shown.code == 9
    assert shown.err.count("\n") == 1
    assert "step T9: the plan has none; there are T1, T2, T3" in shown.err
    assert "done" not in shown.out.partition("run ")[2].partition("\n")[2]


def test_a_check_that_finds_something_stops_a_script_as_well(cli):
    (cli.path / "bad.toml").write_text(
        'schema = 1\nextends = "default"\n[[row]]\nid = "x"\nstate = "nowhere"\n'
    )
    shown = typed(cli, "-q", "-c", "rules check bad.toml; rules show default")
    assert shown.code == 3
    assert "table default" not in shown.out


def test_lines_come_from_a_file_or_a_pipe(cli):
    (cli.path / "script").write_text("# two commands\nstep\nstatus\n")
    for words, stdin in ((["-f", "script"], None), (["-f", "-"], "step\nstatus\n"), ([], "step\nstatus\n")):
        shown = typed(cli, "desk", "-q", *words, stdin=stdin)
        assert shown.code == 0
        assert "done 2 of 3, plan 1" in shown.out


def test_jsonl_is_one_object_per_command(cli):
    shown = typed(cli, "desk", "--run-id", "r1", "--jsonl", "-c", "step; events --since 8; plan T9; status")
    assert shown.code == 9
    load, step, events, plan = shown.lines
    assert [load["ok"], step["ok"], events["ok"], plan["ok"]] == [True, True, True, False]
    assert [load["cmd"], step["cmd"]] == ["load desk", "step"]
    assert step["result"]["tasks"]["T1"]["state"] == "done"
    assert events["result"]["events"][0]["seq"] == 9
    assert plan["error"]["code"] == "E-NOT-FOUND"
    assert shown.err == ""


def test_json_is_one_document(cli):
    code, document = cli.json("repl", "desk", "-c", "step; budget")
    assert code == 0
    assert document["schema"] == "fsm-agent/repl@1"
    assert [one["cmd"] for one in document["commands"]] == ["load desk", "step", "budget"]
    assert document["commands"][2]["result"]["budgets"]["tool_calls"]["used"] == 2


def test_nothing_is_coloured_and_nothing_prompts_in_a_pipe(cli, monkeypatch):
    monkeypatch.delenv("NO_COLOR")
    env = {k: v for k, v in cli.env().items() if k != "NO_COLOR"}
    done = cli.process("repl", "desk", "-c", "run; status", env=env)
    assert done.code == 4
    assert "\x1b" not in done.out + done.err
    assert "fsm " not in done.out


# ── break points ──────────────────────────────────────────────────────────────────────────────────────────────


def started(cli, run="r1"):
    """Return the tasks that were started, in order."""
    lines = cli("events", run, "--jsonl").lines
    return [e["task"] for e in lines if e["type"] == "task_moved" and e["data"]["trigger"] == "start"]


def test_a_break_point_stops_before_the_step_starts_and_is_passed_by_the_next_run(cli):
    shown = typed(cli, "desk", "--run-id", "r1", "-q", "-c", "break T2; run; status")
    assert "stopped at T2" in shown.out
    assert "T2" not in started(cli)
    shown = typed(cli, "r1", "-q", "-c", "break T2; run; run; run")
    assert "stopped at T2" in shown.out
    assert shown.out.count("stopped at T2") == 1
    assert sorted(started(cli)) == ["T1", "T2"]


@pytest.mark.parametrize(
    ("condition", "done"),
    [
        ("T1:done", {"T1", "T2"}),
        ("state=done", {"T1", "T2"}),
        ("signal=succ*", {"T1", "T2"}),
        ("decision=accept", {"T1", "T2"}),
    ],
)
def test_until_stops_once_it_has_come_and_nothing_more_starts(cli, condition, done):
    shown = typed(cli, "desk", "--run-id", "r1", "-q", "-c", f"until {condition}")
    assert f"stopped at {condition}" in shown.out
    assert set(started(cli)) <= done
    assert not any(e["type"] == "approval_requested" for e in cli("events", "r1", "--jsonl").lines)


def test_what_has_come_already_is_not_waited_for(cli):
    shown = typed(cli, "desk", "--run-id", "r1", "-q", "-c", "step; until T1:done")
    assert "stopped at T1:done" in shown.out
    assert started(cli) == ["T1", "T2"]


def test_a_budget_can_be_a_break_point(cli):
    shown = typed(
        cli,
        "desk",
        "--run-id",
        "r1",
        "-q",
        "-c",
        "set budgets.tool_calls=4; until budget.tool_calls<75%; budget",
    )
    assert "stopped at budget.tool_calls<75%" in shown.out
    assert shown.code == 0


def test_break_points_are_shown_and_removed(cli):
    shown = typed(cli, "desk", "-q", "-c", "break T2; break add T3; break ls; break rm 1; break rm T3; break")
    assert "  1  T2\n  2  T3\n" in shown.out
    assert "no break points" in shown.out


# ── whose run it is ───────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_typed_here_is_said_by_the_person_here(cli):
    typed(cli, "desk", "--run-id", "r1", "-q", "-c", "run; note 'all well' --by ann; pause; resume")
    events = cli("events", "r1", "--jsonl").lines
    (noted,) = [e for e in events if e["type"] == "note_added"]
    assert noted["actor"]["id"] == "ann"
    assert [e["data"]["wish"] for e in events if e["type"] == "run_asked"] == ["pause", "none"]


def test_a_run_is_only_looked_at_until_it_is_driven(cli, waiting):
    before = cli.json("status", "r1")[1]["head"]
    shown = typed(cli, "r1", "-q", "-c", "status; why T3; plan; budget; graph; help")
    assert shown.code == 0, shown.err
    assert cli.json("status", "r1")[1]["head"] == before


def test_a_run_that_another_process_drives_is_spoken_to_through_its_inbox(cli, tmp_path):
    shutil.copytree(HERE / "slow", tmp_path / "slow", ignore=shutil.ignore_patterns("__pycache__"))
    os.mkfifo(tmp_path / "gate")
    owner = cli.start("run", "slow", "--run-id", "r1", "--jsonl")
    seen = ""
    while '"W1"' not in seen:
        seen = owner.stdout.readline()
    shown = typed(cli, "r1", "-c", "note hello; pause; status; step")
    assert shown.code == 8
    assert "driven by another process" in shown.out
    assert "drives it; here you can look, and speak" in shown.err
    (tmp_path / "gate").write_text("now")
    assert owner.wait(timeout=60) == 4  # paused by us
    owner.communicate()
    kinds = [e["type"] for e in cli("events", "r1", "--jsonl").lines]
    assert "note_added" in kinds
    assert "run_asked" in kinds


def test_an_interrupted_script_ends_with_130_and_the_command_that_goes_on(cli, tmp_path):
    shutil.copytree(HERE / "slow", tmp_path / "slow", ignore=shutil.ignore_patterns("__pycache__"))
    os.mkfifo(tmp_path / "gate")
    process = cli.start("repl", "slow", "--run-id", "r1", "-c", "run; status", stderr=subprocess.STDOUT)
    while "W1     pending → running" not in (line := process.stdout.readline()):
        assert line
    process.send_signal(signal.SIGINT)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; go on with: fsm-agent resume r1" in shown
    assert "Traceback" not in shown
    assert cli.json("status", "r1")[1]["state"] == "running"


def test_commands_know_their_run_and_another_can_be_named(cli, waiting):
    cli("run", "desk", "--run-id", "r2")
    shown = typed(
        cli, "r1", "-q", "--json", "-c", "status; status r2; attach r2; status; export r1 -o log.jsonl"
    )
    assert shown.code == 0, shown.err
    results = [one["result"] for one in shown.json["commands"]]
    assert [r["run"] for r in results] == ["r1", "r1", "r2", "r2", "r2", "r1"]
    assert (cli.path / "log.jsonl").exists()


def test_a_question_of_another_run_can_be_answered_from_here(cli, waiting):
    _, other = cli.json("run", "desk", "--run-id", "r2")
    digest = other["questions"][0]["digest"][:8]
    shown = typed(cli, "r1", "-q", "-c", f"inbox; approve r2 T3 --digest {digest}; status r2")
    assert shown.code == 0, shown.err
    assert f"approve r2 T3 --digest {digest}" in shown.out  # as it can be typed here
    assert f"approve T3 --digest {waiting['digest'][:8]}" in shown.out
    assert "T3: ann approved" in shown.out or f"approved {digest}" in shown.out
    assert cli.json("status", "r2")[1]["questions"] == []
    assert len(cli.json("status", "r1")[1]["questions"]) == 1


def test_an_unfinished_run_says_how_it_is_gone_on_with(cli):
    shown = typed(cli, "desk", "--run-id", "r1", "-q", "-c", "step; quit; run")
    assert "go on with: fsm-agent repl r1" in shown.out
    assert "T3" not in shown.out.partition("go on")[2]
    assert shown.code == 0


def test_the_prompt_works_without_a_run(cli):
    shown = typed(cli, "-q", "-c", "help; runs; fsm show task; status")
    assert shown.code == 2
    assert "E-NO-RUN prompt: it is at no run; type load PLAN, or attach RUN" in shown.err
    assert "no runs in" in shown.out


def test_a_memory_store_lasts_as_long_as_the_prompt(cli):
    shown = typed(
        cli, "desk", "--store", ":memory:", "-q", "--run-id", "r1", "-c", "run; status; audit; events; runs"
    )
    assert shown.code == 4, shown.err
    assert "T3 (approval)" in shown.out
    assert not (cli.path / ".fsm_agent" / "runs.db").exists()


def test_a_jsonl_store_works_as_well(cli):
    shown = typed(cli, "desk", "--store", "logs/", "-q", "--run-id", "r1", "-c", "run; status; audit; pause")
    assert shown.code == 4, shown.err
    store = open_store(cli.path / "logs", read_only=True, create=False)
    assert [info.run for info in store.runs()] == ["r1"]
    store.close()


def test_a_secret_is_taken_by_who_drives_and_refused_in_a_letter(cli):
    (cli.path / "tools.py").write_text(
        "from fsm_agent import Toolbox\ntools = Toolbox()\n"
        "@tools.read(secret=['token'])\ndef look(token: str) -> dict:\n    return {'long': len(token)}\n"
    )
    steps = [{"id": "t", "tool": "look", "args": {"token": "$inputs.token"}, "requires_confirmation": True}]
    (cli.path / "plan.json").write_text(json.dumps({"inputs": {"token": ""}, "steps": steps}))
    words = ("plan.json", "--tools", "tools.py:tools", "--run-id", "r1", "--input", "token=canary-1", "-q")
    shown = typed(cli, *words, "-c", "run; set token=canary-2; run; plan t; note canary-2")
    assert shown.code == 4, shown.err
    refused = typed(cli, "r1", "-q", "-c", "set token=canary-3")
    assert "E-SECRET" in refused.err
    stored = b"".join(file.read_bytes() for file in (cli.path / ".fsm_agent").rglob("*") if file.is_file())
    assert b"canary" not in stored


def test_without_prompt_toolkit_it_is_said_what_to_install(cli, monkeypatch):
    import asyncio
    import sys

    from fsm_agent import ConfigError
    from fsm_agent.faces.frame.screen import Screen
    from fsm_agent.faces.repl import session
    from fsm_agent.faces.repl.desk import Desk

    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    monkeypatch.delitem(sys.modules, "fsm_agent.faces.repl.terminal", raising=False)
    with pytest.raises(ConfigError, match=r'pip install "fsm-agent\[cli\]", or give commands with -c'):
        asyncio.run(session._sit(Desk(Screen.of()), None))


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_step_shows_its_arguments_and_where_they_come_from(cli):
    shown = typed(cli, "desk", "-q", "-c", "plan T3; run; plan T3")
    before, after = shown.out.split("runs: book, effect write")[1:]
    assert "total = not known yet <- T2.total" in before
    assert "total = 180 <- T2.total" in after
    assert 'guest = "Ann" <- inputs.guest' in after


def test_events_rows_and_versions_can_be_looked_at(cli):
    other = json.loads((cli.path / "desk" / "plan.json").read_text())
    other["steps"][0]["args"] = {"guest": "Bea"}
    (cli.path / "other.json").write_text(json.dumps(other))
    shown = typed(
        cli,
        "desk",
        "--run-id",
        "r1",
        "-q",
        "-c",
        "run; show 7; rules explain accept; validate; replan --plan other.json; diff; diff 1 2; save out.jsonl; diff 1 7",
    )
    assert shown.code == 9
    assert "decided: 2 times, at events" in shown.out
    assert "fits 3 tools" in shown.out
    assert shown.out.count("[new] T1") == 2
    assert "there is no plan 7; there are 1 to 2" in shown.err
    assert cli("audit", "out.jsonl").code == 0


def test_help_says_what_makes_sense_now(cli):
    shown = typed(cli, "desk", "-q", "-c", "help; run; help; help approve")
    first, second = shown.out.split("Drive a run:")[1:]
    assert " - approve" in first
    assert "   approve" in second
    assert "usage: approve TASK" in second
    assert max(map(len, shown.out.splitlines())) <= 80


def test_status_of_the_past_can_be_looked_at(cli):
    shown = typed(cli, "desk", "--run-id", "r1", "-q", "--json", "-c", "run; status --at 5; status")
    past, now = (one["result"] for one in shown.json["commands"][2:])
    assert past["tasks"]["T1"]["state"] == "running"
    assert past["head"]["seq"] == 5
    assert now["tasks"]["T1"]["state"] == "done"
