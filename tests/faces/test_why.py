"""``why``: the row and its line, the rows that missed, what would change it, what a task waits for, what to type."""

import shlex

import pytest


@pytest.fixture
def stuck(cli):
    """A run whose second step was denied access; a third waits for it."""
    (cli.path / "tools.py").write_text(
        "from fsm_agent import ToolError, Toolbox\n"
        "tools = Toolbox()\n"
        "@tools.read\n"
        "def fetch(n: int) -> int:\n"
        "    if n == 2:\n"
        "        raise ToolError('auth_denied', 'no access to \\x1b[31mroom 2')\n"
        "    return n\n"
    )
    (cli.path / "plan.json").write_text(
        '{"steps": [{"id": "a", "tool": "fetch", "args": {"n": 1}}, {"id": "b", "tool": "fetch", "args": {"n": 2}},'
        ' {"id": "c", "tool": "fetch", "args": {"n": 3}, "depends_on": ["a", "b"]}]}'
    )
    assert cli("run", "plan.json", "--tools", "tools.py:tools", "--run-id", "r1").code == 4
    return "r1"


def test_why_names_the_row_its_line_and_what_would_have_changed_it(cli, stuck):
    shown = cli("why", "r1", "b")
    assert shown.code == 0
    assert "b of run r1: failed" in shown.out
    assert "auth_denied -> escalate" in shown.out
    assert "by row ask-for-access (default:" in shown.out
    assert "not budget-gone (default:" in shown.out
    assert "if budget_band were exhausted (it was ok): abort" in shown.out
    assert 'next:\n  fsm-agent answer r1 b \'{"decide": "retry"}\' --digest ' in shown.out
    assert "\x1b" not in shown.out


def test_why_follows_what_a_task_waits_for_to_the_end_and_says_what_to_type(cli, stuck):
    shown = cli("why", "r1", "c")
    assert "waiting for: b, which is failed and waits for a person's word" in " ".join(shown.out.split())
    assert "fsm-agent answer r1 b" in shown.out


def test_an_answer_that_was_proposed_is_refused_once_another_request_is_open(cli, stuck):
    """It says which request it means: what is typed from an old screen does not answer what was never read."""

    def proposed():
        (command,) = (c for c in cli.json("status", "r1")[1]["next"] if " answer " in c)
        return shlex.split(command)[1:]

    old = proposed()
    assert cli(*old).code == 0
    assert cli("resume", "r1").code == 4
    shown = cli(*old)
    assert shown.code == 2
    assert f"the answer states digest '{old[-1]}'" in shown.err
    new = proposed()
    assert new[:-1] == old[:-1]
    assert cli(*new).code == 0


def test_why_of_the_run_and_of_an_event(cli, stuck):
    assert "run r1: awaiting-confirmation" in cli("why", "r1").out
    code, found = cli.json("why", "r1", "b")
    assert (code, found["schema"], found["decision"]["rule"]) == (0, "fsm-agent/why@1", "ask-for-access")
    seq = found["decision"]["seq"]
    assert cli.json("why", "r1", str(seq))[1]["decision"]["seq"] == seq
    assert cli("why", "r1", "1").out.count("decided") == 0


def test_lines_keep_to_the_width(cli, stuck):
    for words in (["why", "r1"], ["why", "r1", "b"], ["why", "r1", "c"]):
        body = cli(*words).out.split("next:")[0]
        assert max(map(len, body.splitlines())) <= 80


def test_unknown_runs_tasks_and_events_are_not_found(cli, stuck):
    for words in (["why", "nope"], ["why", "r1", "nope"], ["why", "r1", "9999"]):
        shown = cli(*words)
        assert shown.code == 9
        assert shown.err


@pytest.mark.parametrize("command", ["export", "report"])
def test_why_of_a_log_file_and_of_a_report_is_why_of_the_run(cli, stuck, command):
    file = {"export": "log.jsonl", "report": "page.html"}[command]
    assert cli(command, "r1", "-o", file).code == 0
    assert cli("why", file, "b").out == cli("why", "r1", "b").out
