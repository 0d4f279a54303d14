"""Settings have an order and say where they come from; shells learn what can stand next; poor screens get ASCII."""

import os
import shutil
import subprocess

import pytest

from fsm_agent.faces.frame.settings import SETTINGS

ENV = [setting.env for setting in SETTINGS]


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    for name in ENV:
        if name != "NO_COLOR":
            monkeypatch.delenv(name, raising=False)
    yield
    assert [name for name in ENV if name in os.environ and name not in (*TOLD, "NO_COLOR")] == []


TOLD = ("FSM_AGENT_STORE", "FSM_AGENT_WORKERS", "FSM_AGENT_ASCII", "FSM_AGENT_LLM_API_KEY")
"""Variables that tests of this module set themselves; nothing else is left behind by a command."""


def shown(cli, *words):
    """Return the settings by name as (value, origin)."""
    code, document = cli.json("config", "show", *words)
    assert code == 0
    return {name: (one["value"], one["origin"]) for name, one in document["settings"].items()}


def test_defaults_are_beaten_by_the_file_that_by_the_environment_and_that_by_an_option(cli, monkeypatch):
    assert shown(cli)["store"] == (".fsm_agent/runs.db", "default")
    (cli.path / "pyproject.toml").write_text('[tool.fsm_agent]\nstore = "p.db"\nworkers = 2\n')
    assert shown(cli)["store"] == ("p.db", "pyproject.toml [tool.fsm_agent]")
    (cli.path / "fsm_agent.toml").write_text('store = "f.db"\n')
    assert shown(cli)["store"] == ("f.db", "fsm_agent.toml")
    assert shown(cli)["workers"] == (4, "default")  # one file counts, not both
    monkeypatch.setenv("FSM_AGENT_STORE", "e.db")
    assert shown(cli)["store"] == ("e.db", "environment $FSM_AGENT_STORE")
    assert shown(cli, "--store", "o.db")["store"] == ("o.db", "option")


def test_a_setting_does_what_its_option_does(cli):
    (cli.path / "fsm_agent.toml").write_text('store = "f.db"\nby = "ann"\nworkers = 1\nascii = true\n')
    assert cli("run", "desk", "--run-id", "r1").code == 4
    assert cli.runs("f.db") == ["r1"]
    assert cli("pause", "r1").out.startswith("ann asked for a pause")
    assert cli("cancel", "r1", "--by", "bob").out.startswith("bob asked to cancel")
    assert cli("status", "r1").out.isascii()
    moves = [e for e in cli("events", "r1", "--jsonl").lines if e.get("type") == "task_moved"]
    assert [e["task"] for e in moves][:4] == ["T1", "T1", "T2", "T2"]  # one worker


def test_the_rule_table_of_the_settings_counts_where_the_plan_brings_none(cli, monkeypatch):
    (cli.path / "fsm_agent.toml").write_text('rules = "conservative"\n')
    cli("run", "desk", "--run-id", "r1")
    (created,) = [e for e in cli("events", "r1", "--jsonl").lines if e.get("type") == "run_created"]
    assert created["data"]["rules_digest"] == cli.json("rules", "show", "conservative")[1]["digest"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("store = 3\n", "store is 3; write a text"),
        ("workers = 0\n", "workers is 0; write an integer from 1"),
        ("workers = true\n", "workers is True; write an integer from 1"),
        ('ascii = "yes"\n', "ascii is 'yes'; write true or false"),
        ('stroe = "x"\n', "there is no setting 'stroe'; did you mean store?"),
        ('zzz = "x"\n', "there is no setting 'zzz'; there are store, rules"),
        ('llm_api_key = "x"\n', "llm_api_key is not read from files; set $FSM_AGENT_LLM_API_KEY instead"),
        ("store = \n", "it is no TOML"),
    ],
)
def test_what_is_no_setting_is_refused_by_name(cli, text, words):
    (cli.path / "fsm_agent.toml").write_text(text)
    found = cli("runs")
    assert found.code == 3
    assert found.err.startswith("E-CONFIG fsm_agent.toml: ")
    assert words in found.err
    assert found.err.count("\n") == 1
    assert cli("runs", "--json").json["code"] == "E-CONFIG"


@pytest.mark.parametrize("text", ["[tool.other]\nx = 1\n", "tool = 3\n", "not toml", "[tool]\n"])
def test_a_project_file_of_others_is_left_alone(cli, text):
    (cli.path / "pyproject.toml").write_text(text)
    assert cli("runs").code == 0


def test_a_project_file_whose_table_is_ours_is_read_as_strictly(cli):
    (cli.path / "pyproject.toml").write_text("[tool]\nfsm_agent = 3\n")
    assert "pyproject.toml [tool.fsm_agent]: it is no table" in cli("runs").err


def test_a_file_that_cannot_be_read_is_told(cli):
    (cli.path / "fsm_agent.toml").write_bytes(b"\xff\xfe")
    assert "it cannot be read" in cli("runs").err
    (cli.path / "fsm_agent.toml").unlink()
    (cli.path / "fsm_agent.toml").mkdir()
    assert "it cannot be read" in cli("runs").err
    (cli.path / "fsm_agent.toml").rmdir()
    (cli.path / "pyproject.toml").mkdir()
    assert cli("runs").code == 0


def test_the_environment_is_read_strictly_too(cli, monkeypatch):
    monkeypatch.setenv("FSM_AGENT_WORKERS", "many")
    assert "$FSM_AGENT_WORKERS: it is 'many'; write an integer from 1" in cli("run", "desk").err
    monkeypatch.setenv("FSM_AGENT_WORKERS", "3")
    monkeypatch.setenv("FSM_AGENT_ASCII", "0")
    found = shown(cli)
    assert found["workers"] == (3, "environment $FSM_AGENT_WORKERS")
    assert found["ascii"] == (False, "environment $FSM_AGENT_ASCII")
    assert found["no_color"] == (True, "environment $NO_COLOR")


def test_a_key_is_never_shown(cli, monkeypatch):
    monkeypatch.setenv("FSM_AGENT_LLM_API_KEY", "sk-12345678")
    assert "sk-1" not in cli("config", "show", "--origin").out
    assert shown(cli)["llm_api_key"][0] == "set"


def test_origins_are_shown_when_asked_for(cli):
    assert "store         = .fsm_agent/runs.db (where runs are kept)" in cli("config", "show").out
    assert "store         = .fsm_agent/runs.db (default)" in cli("config", "show", "--origin").out


# ── poor screens ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "words", [["status", "r1"], ["graph", "r1"], ["inbox"], ["runs"], ["events", "r1"], ["why", "r1", "T3"]]
)
def test_ascii_is_ascii_whatever_is_shown(cli, waiting, words):
    assert cli(*words, "--ascii").out.isascii()
    done = cli.process(
        *words, env=cli.env(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING="ascii")
    )
    assert done.code == 0
    assert done.out.isascii()


@pytest.mark.parametrize(
    "words", [["status", "r1"], ["graph", "r1"], ["inbox"], ["runs"], ["events", "r1"], ["why", "r1", "T3"]]
)
def test_eighty_columns_are_enough(cli, waiting, words):
    lines = cli(*words).out.splitlines()
    assert [
        line for line in lines if len(line) > 80 and "fsm-agent" not in line and not line.startswith("head")
    ] == []


# ── shells ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_one_that_the_shell_reads(cli, shell):
    found = cli("completion", shell)
    assert found.code == 0
    assert "_FSM_AGENT_COMPLETE" in found.out
    assert cli.json("completion", shell)[1]["script"].strip() == found.out.strip()
    if shutil.which(shell):
        flag = "--no-execute" if shell == "fish" else "-n"
        done = subprocess.run([shell, flag], input=found.out, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def completed(cli, line, shell="bash"):
    """Return what the program offers a shell at the end of *line*."""
    words = line.split(" ")
    env = cli.env(_FSM_AGENT_COMPLETE=f"{shell}_complete", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    done = cli.process(env=env)
    assert done.code == 0
    return [found.partition(",")[2] for found in done.out.split("\n") if found]


def test_commands_options_runs_tasks_and_files_are_offered(cli, waiting):
    assert "resume" in completed(cli, "fsm-agent re")
    assert "check" in completed(cli, "fsm-agent plan ")
    assert "--digest" in completed(cli, "fsm-agent approve r1 T3 --d")
    assert completed(cli, "fsm-agent status ") == ["r1"]
    assert completed(cli, "fsm-agent status x") == []
    assert completed(cli, "fsm-agent why r1 T") == ["T1", "T2", "T3"]
    assert completed(cli, "fsm-agent why r9 T") == []
    assert completed(cli, "fsm-agent fsm show ") == ["task", "run"]
    assert completed(cli, "fsm-agent nonsense ") == []
    assert completed(cli, "fsm-agent plan check pl") == ["pl"]  # the shell knows its files


def test_a_real_bash_completes(cli, waiting, tmp_path):
    if shutil.which("bash") is None:
        pytest.skip("there is no bash here")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "fsm-agent"
    program.write_text('#!/bin/sh\nexec "$PYTHON" -m fsm_agent "$@"\n')
    program.chmod(0o755)
    script = """
        eval "$(fsm-agent completion bash)"
        COMP_WORDS=(fsm-agent status "") COMP_CWORD=2
        _fsm_agent_completion fsm-agent
        echo "${COMPREPLY[@]}"
    """
    import sys

    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=cli.path,
        env=cli.env(PATH=path, PYTHON=sys.executable),
        text=True,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.strip() == "r1", done.stderr
