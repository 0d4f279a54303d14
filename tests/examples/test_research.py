"""The research example, as a person runs it: a missing source becomes a detour, and the report is written once."""

import json

import pytest

from tests.examples.desk import EXAMPLES, Desk
from tests.runtime.model_server import ModelServer

EXAMPLE = EXAMPLES / "research"


class Research(Desk):
    def __init__(self, path):
        super().__init__(path)
        self.report = path / "report.md"

    def run(self, *more, folder=EXAMPLE / "notes"):
        inputs = ("--input", f"folder={folder}", "--input", f"report={self.report}")
        return self.json("run", EXAMPLE, "--run-id", "r1", *inputs, *more)


@pytest.fixture
def desk(tmp_path):
    desk = Research(tmp_path)
    yield desk
    desk.audited("r1")


def test_a_missing_source_becomes_a_detour_and_the_report_names_every_source(desk):
    code, status = desk.run()
    assert (code, status["state"], status["plan_version"]) == (0, "done", 2)
    assert status["tasks"]["extract_b"]["state"] == "cancelled"
    assert status["tasks"]["retrieve"]["attempts"] == 1
    report = desk.report.read_text()
    assert report.startswith("# Queue and polling\n")
    assert "late by half the interval. (" in report
    assert "archive/old-polling.md:3)" in report
    _, history = desk.json("history", "r1")
    (replan,) = history["replans"]
    assert (replan["trigger"], replan["planner_calls"], replan["helped"]) == ("not_found", 1, True)


def test_any_folder_can_be_compared(desk):
    folder = desk.path / "mine"
    folder.mkdir()
    (folder / "a.md").write_text("Tea is warm.\nCoffee is warm, too.\n")
    code, status = desk.run("--input", "first=tea", "--input", "second=coffee", folder=folder)
    assert (code, status["plan_version"]) == (0, 1)
    assert "- Coffee is warm, too. (" in desk.report.read_text()


def test_where_nothing_is_to_be_found_a_person_is_asked_and_nothing_is_written(desk):
    code, status = desk.run("--input", "second=pigeons")
    assert code == 4
    (question,) = status["questions"]
    assert "I know no way around extract_b_v2" in question["say"]
    assert not desk.report.exists()


def test_a_folder_that_is_not_there_is_a_question(desk):
    code, status = desk.run(folder=desk.path / "gone")
    assert code == 4
    assert "I know no way around retrieve" in status["questions"][0]["say"]


def test_a_report_that_was_written_before_the_crash_is_found_and_not_written_again(desk):
    killer = desk.path / "killer.py"
    source = (EXAMPLE / "tools.py").read_text()
    killed = source.replace(
        "    part.replace(file)\n", "    part.replace(file)\n    __import__('os')._exit(9)\n"
    )
    assert killed != source
    killer.write_text(killed)
    inputs = ("--input", f"folder={EXAMPLE / 'notes'}", "--input", f"report={desk.report}")
    done = desk("run", EXAMPLE, "--run-id", "r1", "--tools", f"{killer}:tools", *inputs)
    assert done.returncode == 9
    written = desk.report.stat().st_mtime_ns
    code, status = desk.json("resume", "r1", "--tools", f"{EXAMPLE / 'tools.py'}:tools")
    assert (code, status["state"]) == (0, "done")
    assert desk.report.stat().st_mtime_ns == written
    assert status["tasks"]["report"]["attempts"] == 1


def test_with_a_model_in_the_environment_it_plans_instead(desk):
    plan = json.loads((EXAMPLE / "plan.json").read_text())["steps"]
    widen = {"id": "wide", "tool": "search", "args": {"folder": "$inputs.folder", "deep": True}}
    again = {**plan[2], "id": "again", "replaces": "extract_b", "depends_on": ["wide"]}
    again["args"] = {**again["args"], "files": "$wide.files"}
    with ModelServer({"steps": [widen, again, *plan[3:]]}) as server:
        desk.env |= {"FSM_AGENT_LLM_BASE_URL": server.url, "FSM_AGENT_LLM_MODEL": "m"}
        code, status = desk.run()
        assert "[done] retrieve" in server.prompt()
        assert "nothing about polling in 2 files" in server.prompt()
    assert (code, status["tasks"]["again"]["state"]) == (0, "done")
