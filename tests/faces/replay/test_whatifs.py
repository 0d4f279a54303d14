"""``what-if`` at the command line: tables first, then every decision, and nothing about how it would have ended."""

import json

import pytest


@pytest.fixture
def denied(cli):
    assert cli("run", "desk", "--run-id", "r1", "--input", "luck=wrong").code == 4
    (cli.path / "logs").mkdir()
    assert cli("export", "r1", "-o", "logs/r1.jsonl").code == 0
    return cli.path / "logs" / "r1.jsonl"


def test_under_the_same_table_nothing_can_differ_and_it_says_why(cli, denied):
    shown = cli("what-if", "r1", "--rules", "default")
    assert shown.code == 0
    assert "decide alike everywhere: no log can differ" in " ".join(shown.out.split())
    assert "ways are the same to their end under both tables" in shown.out


def test_under_another_table_it_shows_where_and_how_far(cli, denied):
    shown = cli("what-if", denied, "--rules", "exploratory")
    text = " ".join(shown.out.split())
    assert "differ in" in text
    assert "recorded → other table" in text
    assert max(map(len, shown.out.splitlines())) <= 80


def test_it_never_says_how_a_run_would_have_ended(cli, denied):
    for rules in ("conservative", "exploratory"):
        out = (
            cli("what-if", "r1", "--rules", rules, "-v").out
            + cli("what-if", "r1", "--rules", rules, "--json").out
        )
        assert "would have succeeded" not in out
        assert "would have been" not in out


def test_a_directory_and_several_names_are_several_logs(cli, denied):
    code, found = cli.json("what-if", "logs", "r1", "--rules", "default", "--param", "retries=0")
    assert code == 0
    assert [one["run"] for one in found["logs"]] == ["r1", "r1"]
    assert found["static"][0]["runs"] == ["r1", "r1"]
    assert {"old", "new", "times", "cost"} == set(found["matrix"][0])


def test_a_store_stands_for_all_its_runs(cli, denied):
    assert cli("run", "desk", "--run-id", "r2", "--input", "luck=wrong").code == 4
    _, found = cli.json("what-if", ".fsm_agent/runs.db", "--rules", "conservative")
    assert [one["run"] for one in found["logs"]] == ["r1", "r2"]


def test_a_declared_world_goes_on_and_is_marked_hypothetical(cli):
    scenario = {
        "name": "flaky",
        "plan": {"steps": [{"id": "a", "tool": "look"}]},
        "tools": {"look": {"effect": "read", "calls": [{"return": 1}]}},
    }
    (cli.path / "world.json").write_text(json.dumps(scenario))
    (cli.path / "plan.json").write_text(json.dumps(scenario["plan"]))
    (cli.path / "tools.py").write_text(
        "from fsm_agent import Toolbox\ntools = Toolbox()\n@tools.read\ndef look() -> int:\n    return 1\n"
    )
    assert cli("run", "plan.json", "--tools", "tools.py:tools", "--run-id", "r2").code == 0
    shown = cli("what-if", "r2", "--rules", "conservative", "--world", "world.json")
    assert "hypothetical, in the world of flaky: it tells the log of run r2" in " ".join(shown.out.split())
    _, found = cli.json("what-if", "r2", "--rules", "conservative", "--world", "world.json")
    assert found["worlds"][0]["hypothetical"] is True
    scenario["tools"]["look"]["calls"] = [{"raise": {"class": "ValueError", "message": "no"}}]
    (cli.path / "world.json").write_text(json.dumps(scenario))
    shown = cli("what-if", "r2", "--rules", "conservative", "--world", "world.json")
    assert "it says nothing about run r2" in " ".join(shown.out.split())


def test_what_cannot_be_asked_is_said_in_a_line(cli, denied):
    (cli.path / "empty").mkdir()
    for words, code in (
        (["what-if", "nope.jsonl", "--rules", "default"], 9),
        (["what-if", "r1", "--rules", "nope"], 9),
        (["what-if", "empty", "--rules", "default"], 9),
        (["what-if", "r1"], 2),
    ):
        shown = cli(*words)
        assert (shown.code, len(shown.err.splitlines())) == (code, 1), shown
