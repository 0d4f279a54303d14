"""Bad input gets one clear line and its exit code: never a traceback, never a run."""

import json
import shlex
import sqlite3
import subprocess
import sys

import pytest

GOOD = '{"steps": [{"id": "T1", "tool": "look_up", "args": {"guest": "Ann"}}]}'
CYCLE = (
    '{"steps": [{"id": "a", "tool": "look_up", "args": {"guest": "x"}, "depends_on": ["b"]},'
    ' {"id": "b", "tool": "look_up", "args": {"guest": "x"}, "depends_on": ["a"]}]}'
)
PLANS = {
    "empty": b"",
    "blank": b" \n\n",
    "binary": bytes(range(256)),
    "cut in half": GOOD[: len(GOOD) // 2].encode(),
    "20 MB": b'{"goal": "' + b"x" * 20_000_000 + b'", "steps": []}',
    "duplicate keys": b'{"steps": [{"id": "T1", "id": "T2", "tool": "look_up"}]}',
    "cyclic": CYCLE.encode(),
    "an unknown tool": GOOD.replace("look_up", "lok_up").encode(),
    "no steps": b'{"steps": []}',
    "a number": b"7",
    "an unknown key": b'{"steps": [{"id": "T1", "tool": "look_up", "args": {"guest": "x"}, "retries": 3}]}',
    "deep": b"[" * 100_000,
}


def refused(cli, shown, code, start, *, lines=1):
    """Assert that a command was refused as it should be."""
    assert shown.code == code, (shown.code, shown.err)
    assert shown.err.startswith(start), shown.err
    assert len(shown.err.splitlines()) == lines, shown.err
    assert shown.out == ""
    assert len(shown.err) < 2000
    assert cli.runs() == []


@pytest.mark.parametrize("kind", PLANS)
def test_a_plan_that_cannot_be_run_is_refused_in_one_line_and_registers_nothing(cli, kind):
    (cli.path / "plan.json").write_bytes(PLANS[kind])
    refused(cli, cli("run", "plan.json", "--tools", "desk/tools.py:tools"), 3, "E-PLAN plan.json: ")
    assert cli("plan", "check", "plan.json", "--tools", "desk/tools.py:tools").code == 3


def test_a_plan_that_is_a_directory_or_not_there(cli):
    (cli.path / "empty").mkdir()
    refused(cli, cli("run", "empty"), 3, "E-PLAN plan empty: it is a directory without plan.json; ")
    (cli.path / "odd" / "plan.json").mkdir(parents=True)
    refused(cli, cli("run", "odd"), 3, "E-PLAN odd/plan.json: ")
    refused(cli, cli("run", "nowhere.json"), 9, "E-NOT-FOUND plan nowhere.json: ")


def test_all_faults_are_listed_one_per_line_those_against_the_tools_too(cli):
    steps = [
        {"id": "a", "tool": "lok_up"},
        {"id": "b", "tool": "price", "args": {"night": 1}, "depends_on": ["c"]},
    ]
    (cli.path / "desk" / "plan.json").write_text(json.dumps({"steps": steps}))
    shown = cli("run", "desk")
    assert shown.code == 3
    lines = shown.err.splitlines()
    assert lines[0].startswith("E-PLAN desk/plan.json: plan: ")
    assert all(line.startswith("E-PLAN /steps/") for line in lines[1:])
    places = " ".join(lines)
    assert "/steps/0/tool" in places
    assert "/steps/1/args" in places
    assert "/steps/1/depends_on/0" in places
    document = cli("run", "desk", "--json").json
    assert document.keys() == {"schema", "code", "message", "faults"}
    assert (document["schema"], document["code"]) == ("fsm-agent/error@1", "E-PLAN")
    assert len(document["faults"]) == len(lines) - 1
    assert document["faults"][0].keys() == {"at", "code", "message", "fix", "severity"}


def test_a_store_that_is_another_programs_database(cli):
    with sqlite3.connect(cli.path / "other.db") as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = (cli.path / "other.db").read_bytes()
    for words in (["run", "desk"], ["runs"], ["status", "r1"]):
        shown = cli(*words, "--store", "other.db")
        assert (shown.code, shown.err.split()[0], len(shown.err.splitlines())) == (3, "E-STORE-UNUSABLE", 1)
    assert (cli.path / "other.db").read_bytes() == before


def test_a_store_that_is_no_database_or_of_a_newer_schema(cli):
    (cli.path / "text.db").write_text("hello " * 100)
    refused(cli, cli("run", "desk", "--store", "text.db"), 3, "E-STORE-UNUSABLE ")
    cli("run", "desk", "--store", "new.db", "-q")
    with sqlite3.connect(cli.path / "new.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    shown = cli("run", "desk", "--store", "new.db")
    assert (shown.code, shown.err.split()[0]) == (3, "E-STORE-UNUSABLE")


@pytest.mark.spoils_logs
@pytest.mark.parametrize("name", ["r1.jsonl", "r1.meta.json"])
@pytest.mark.parametrize(
    "words",
    [
        "status r1",
        "runs",
        "events r1",
        "audit r1",
        "audit store.jsonl",
        "export r1",
        "replay r1",
        "report r1 -o x.html",
        "note r1 x",
        "resume r1",
        "repl -c 'status r1'",
    ],
)
def test_a_file_of_a_store_that_is_a_directory_makes_it_unusable_and_is_named(cli, monkeypatch, name, words):
    monkeypatch.setenv("FSM_AGENT_STORE", "store.jsonl")
    assert cli("run", "desk", "--run-id", "r1").code == 4
    place = cli.path / "store.jsonl" / name
    place.unlink()
    place.mkdir()
    shown = cli(*shlex.split(words))
    refused(cli, shown, 3, f"E-STORE-UNUSABLE store file {place}: it is a directory")


def test_a_store_in_a_place_that_cannot_be_written(cli):
    refused(cli, cli("run", "desk", "--store", "/proc/nowhere/runs.db"), 3, "E-STORE-UNUSABLE ")
    refused(cli, cli("run", "desk", "--store", "desk"), 3, "E-STORE-UNUSABLE ")


@pytest.mark.parametrize(
    ("words", "code", "start"),
    [
        (["run", "desk/plan.json"], 2, "E-USAGE desk/plan.json: its steps name tools"),
        (["run", "desk", "--tools", "nowhere.py:tools"], 3, "E-TOOLS "),
        (["run", "desk", "--tools", "tools"], 3, "E-TOOLS "),
        (["run", "desk", "--tools", "desk/tools.py:box"], 3, "E-TOOLS "),
        (["run", "desk", "--rules", "defalt"], 9, "E-NOT-FOUND "),
        (["run", "desk", "--rules", "nowhere.toml"], 9, "E-NOT-FOUND "),
        (["run", "desk", "--rules", "desk/plan.json"], 9, "E-NOT-FOUND "),
        (["run", "desk", "--param", "retires=3"], 3, "E-RULES "),
        (["run", "desk", "--param", "retries=many"], 2, "E-USAGE --param K=V: "),
        (["run", "desk", "--param", "retries"], 2, "E-USAGE --param K=V: 'retries' was given"),
        (["run", "desk", "--input", "=3"], 2, "E-USAGE --input K=V: '=3' was given"),
        (["run", "desk", "--input", "gest=3"], 2, "E-USAGE input gest: "),
        (["run", "desk", "--input", "guest=NaN NaN", "--run-id", ""], 2, "E-USAGE run id: "),
        (["run", "desk", "--workers", "0"], 2, "E-USAGE fsm-agent run: --workers"),
        (["run", "desk", "--operator", "nowhere.json"], 9, "E-NOT-FOUND "),
        (["run", "desk", "--operator", "desk/tools.py"], 3, "E-SCENARIO "),
        (["run", "desk", "--operator", "desk"], 3, "E-SCENARIO "),
        (["run"], 2, "E-USAGE fsm-agent run: PLAN|DIR is missing; usage: fsm-agent run PLAN|DIR"),
        (["run", "desk", "more"], 2, "E-USAGE fsm-agent run: "),
        (["rum", "desk"], 2, "E-USAGE fsm-agent: there is no command 'rum'; did you mean run?"),
        (["frobnicate"], 2, "E-USAGE fsm-agent: there is no command 'frobnicate'; there are run, "),
        (
            ["run", "desk", "--rnu-id", "x"],
            2,
            "E-USAGE fsm-agent run: there is no option --rnu-id; did you mean --run-id?",
        ),
        (
            ["plan", "chek", "desk"],
            2,
            "E-USAGE fsm-agent plan: there is no command 'chek'; did you mean check?",
        ),
        (["plan", "graph", "desk", "--format", "svg"], 2, "E-USAGE fsm-agent plan graph: --format: "),
        (["fsm", "show", "plan"], 2, "E-USAGE fsm-agent fsm show: "),
        (["events", "r1", "--since", "-3"], 2, "E-USAGE fsm-agent events: --since"),
        (["wait", "r1", "--timeout", "soon"], 2, "E-USAGE fsm-agent wait: --timeout"),
        (["simulate", "nowhere.json"], 9, "E-NOT-FOUND "),
        (["simulate", "desk/plan.json"], 3, "E-SCENARIO "),
        (["rules", "check", "nowhere"], 9, "E-NOT-FOUND "),
        (["resume", "r1"], 9, "E-NOT-FOUND "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_words_get_one_line(cli, words, code, start):
    refused(cli, cli(*words), code, start)


LONG = "x" * 300


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (f"run {LONG}", 3),
        (f"plan show {LONG}", 3),
        (f"simulate {LONG}", 3),
        (f"import {LONG}", 9),
        (f"audit {LONG}", 9),
        (f"replay {LONG}", 9),
        (f"why {LONG}.jsonl", 9),
        (f"what-if {LONG} --rules default", 9),
        (f"report {LONG} -o x.html", 9),
        (f"audit r1 --head {LONG}", 9),
        (f"repl {LONG} -c status", 3),
        (f"run desk --rules {LONG}.toml", 9),
        (f"run desk --repairs {LONG}.toml", 9),
        (f"run desk --tools {LONG}.py:tools", 3),
        (f"rules show {LONG}.toml", 9),
    ],
)
def test_a_name_that_is_too_long_for_a_file_is_one_that_is_not_there(cli, words, code):
    shown = cli(*words.split())
    assert shown.code == code, shown
    assert "E-INTERNAL" not in shown.err


def test_a_run_whose_id_is_too_long_for_a_file_is_found_in_the_store(cli):
    assert cli("run", "desk", "--run-id", LONG).code == 4
    for words in ("audit", "replay", "status"):
        assert cli(words, LONG).code == 0
    assert cli("report", LONG, "-o", "x.html").code == 0
    assert cli("what-if", LONG, "--rules", "conservative").code == 0


def test_a_directory_with_bad_inputs(cli):
    for text in ("[1]", "{", '{"guest": 1, "guest": 2}'):
        (cli.path / "desk" / "inputs.json").write_text(text)
        refused(cli, cli("run", "desk"), 3, "E-CONFIG inputs desk/inputs.json: ")


def test_a_rule_table_that_is_not_sound_runs_nothing(cli):
    (cli.path / "rules.toml").write_text('schema = 1\nextends = "default"\n[[row]]\nid = "x"\n')
    shown = cli("run", "desk", "--rules", "rules.toml")
    assert shown.code == 3
    assert shown.err.startswith("E-RULES ")
    assert cli.runs() == []


def test_wrong_usage_with_json_is_one_document_as_well(cli):
    shown = cli("rum", "--json")
    assert shown.code == 2
    assert shown.json == {
        "schema": "fsm-agent/error@1",
        "code": "E-USAGE",
        "message": "fsm-agent: there is no command 'rum'; did you mean run?",
        "faults": [],
    }
    assert cli("runs", "--", "--json").out == ""


@pytest.mark.parametrize(
    "value", ["1234567890123456789012345", '"\\ud800"', '"a\\u0000b"', "[" * 200 + "]" * 200, "1e999"]
)
def test_a_value_that_a_log_cannot_hold_is_refused_wherever_it_is_typed(cli, value):
    refused(cli, cli("run", "desk", "--input", f"guest={value}"), 2, "E-VALUE ")
    (cli.path / "desk" / "inputs.json").write_text(f'{{"guest": {value}}}')
    refused(cli, cli("run", "desk"), 2, "E-VALUE ")
    (cli.path / "desk" / "inputs.json").unlink()
    assert cli("run", "desk", "--run-id", "r1").code == 4
    for words in (
        ["edit", "r1", "T3", f"guest={value}"],
        ["set", "r1", f"guest={value}"],
        ["answer", "r1", "T3", value],
    ):
        shown = cli(*words)
        assert (shown.code, shown.err.split()[0]) == (2, "E-VALUE")


def test_a_fault_of_the_program_is_one_line_and_a_traceback_only_on_request(cli, monkeypatch):
    from fsm_agent.faces.look import keeping

    def broken(screen, **given):
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(keeping, "runs", broken)
    shown = cli("runs")
    assert shown.code == 70
    assert shown.err.startswith("E-INTERNAL ZeroDivisionError: by zero; ")
    assert len(shown.err.splitlines()) == 1
    code = (
        "import sys\nfrom fsm_agent.faces.look import keeping\nfrom fsm_agent.__main__ import main\n"
        "def broken(screen, **given): raise ZeroDivisionError('by zero')\n"
        "keeping.runs = broken\nsys.exit(main(['runs', '-v', '-v']))"
    )
    loud = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=cli.path, env=cli.env()
    )
    assert loud.returncode == 70
    assert "Traceback" in loud.stderr


TOOLS = {
    "a fault at import": "1 / 0",
    "an exit at import": "import sys; sys.exit(3)",
    "no toolbox": "tools = 3",
    "a lifespan that fails": (
        "from contextlib import asynccontextmanager\nfrom fsm_agent import Toolbox\n"
        "@asynccontextmanager\nasync def life():\n    raise OSError('no service')\n    yield\n"
        "tools = Toolbox(lifespan=life)\n"
        "@tools.read\ndef look_up(guest: str) -> dict: return {}\n"
        "@tools.read\ndef price(nights: int, luck: str) -> dict: return {}\n"
        "@tools.write\ndef book(guest: str, total: float, luck: str) -> dict: return {}\n"
    ),
}


@pytest.mark.parametrize("kind", TOOLS)
def test_tools_that_cannot_be_loaded_are_named_in_one_line(cli, kind):
    (cli.path / "desk" / "tools.py").write_text(TOOLS[kind])
    shown = cli("run", "desk", "-q")
    assert (shown.code, shown.err.split()[0]) == (3, "E-TOOLS")
    assert len(shown.err.splitlines()) == 1


RETURNS = {
    "NaN": "float('nan')",
    "a generator": "(x for x in [1])",
    "an open file": "open(__file__)",
    "a set": "{1, 2}",
}


@pytest.mark.parametrize("kind", RETURNS)
def test_a_tool_that_returns_what_cannot_be_stored_becomes_a_question_and_no_traceback(cli, kind):
    (cli.path / "desk" / "tools.py").write_text(
        "from fsm_agent import Toolbox\ntools = Toolbox()\nkept = []\n"
        f"@tools.read\ndef look_up(guest: str):\n    value = {RETURNS[kind]}\n    kept.append(value)\n    return value\n"
    )
    (cli.path / "desk" / "plan.json").write_text(GOOD)
    code, status = cli.json("run", "desk")
    assert code == 4
    assert "cannot be stored exactly" in status["tasks"]["T1"]["reason"]


def test_a_tool_that_exits_does_not_end_the_program(cli):
    (cli.path / "desk" / "tools.py").write_text(
        "from fsm_agent import Toolbox\ntools = Toolbox()\n@tools.read\ndef look_up(guest: str):\n    raise SystemExit(5)\n"
    )
    (cli.path / "desk" / "plan.json").write_text(GOOD)
    assert cli("run", "desk").code == 4
