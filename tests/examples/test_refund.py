"""The refund example, as a person runs it: a conversation that changes course twice, and each change explained."""

import json

import pytest

from tests.examples.desk import EXAMPLES, Desk
from tests.runtime.model_server import ModelServer

EXAMPLE = EXAMPLES / "refund"
OPERATOR = EXAMPLE / "operator.json"


class Refund(Desk):
    def __init__(self, path):
        super().__init__(path, REFUND_DATA=str(path / "refund"))

    def run(self, *more, operator=OPERATOR):
        options = ("--run-id", "r1", "--param", "cooldown_s=0", "--operator", operator)
        return self.json("run", EXAMPLE, *options, *more)

    @property
    def replies(self):
        file = self.path / "refund" / "conversation.md"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


@pytest.fixture
def desk(tmp_path):
    desk = Refund(tmp_path)
    yield desk
    desk.audited("r1")


def test_the_course_changes_twice_and_each_change_is_explained_in_both_languages(desk):
    code, status = desk.run()
    assert (code, status["state"], status["plan_version"]) == (0, "done", 3)
    (reply,) = desk.replies
    assert reply.startswith("Li Wei: Your parcel SF-3381 is at the depot in Suzhou")
    _, told = desk.json("history", "r1")
    first, second = told["replans"]
    assert "2026-77 is no order number, such as A-1021" in first["explanation"]
    assert "New: ask for the phone number that the order was made with" in first["explanation"]
    assert "没有找到所需内容" in second["explanation_zh"]
    assert "已完成并保留" in second["explanation_zh"]
    assert "Somebody is asked before: answer the customer." in second["explanation"]
    assert (first["helped"], second["helped"]) == (True, True)


def test_nothing_changes_where_the_refund_was_paid(desk):
    code, status = desk.run("--input", "order=A-1021")
    assert (code, status["plan_version"]) == (0, 1)
    assert desk.replies[0].startswith("Ann: Your refund of 59 was paid on 2026-11-02.")


def test_a_customer_whom_nobody_knows_is_handed_over_and_nothing_is_written(desk, tmp_path):
    other = json.loads(OPERATOR.read_text())
    other[0]["do"]["value"] = "000"
    script = tmp_path / "other.json"
    script.write_text(json.dumps(other))
    code, status = desk.run(operator=script)
    assert code == 4
    (question,) = status["questions"]
    assert "hand the customer over to a colleague" in question["say"]
    assert desk.replies == []


def test_without_a_colleague_s_yes_nothing_is_written(desk, tmp_path):
    script = tmp_path / "customer.json"
    script.write_text(json.dumps(json.loads(OPERATOR.read_text())[:1]))
    code, status = desk.run(operator=script)
    assert (code, [q["task"] for q in status["questions"]]) == (4, ["reply"])
    assert desk.replies == []


def test_with_a_model_in_the_environment_it_plans_instead(desk):
    steps = json.loads((EXAMPLE / "plan.json").read_text())["steps"]
    find = {**steps[0], "id": "found", "replaces": "order", "args": {"number": "A-1021"}}
    with ModelServer({"steps": [find, *steps[1:]]}) as server:
        desk.env |= {"FSM_AGENT_LLM_BASE_URL": server.url, "FSM_AGENT_LLM_MODEL": "m"}
        code, status = desk.run()
        assert "such as A-1021" in server.prompt()
    assert (code, status["tasks"]["found"]["state"], status["plan_version"]) == (0, "done", 2)
    assert desk.replies[0].startswith("Ann: ")
