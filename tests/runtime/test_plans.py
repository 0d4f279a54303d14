"""Plans from files: read whole, or refused by the name of the file."""

import json

import pytest

from fsm_agent.core.errors import NotFoundError, PlanError
from fsm_agent.core.plans import text as plantext
from fsm_agent.core.plans.plan import Plan as CorePlan
from fsm_agent.runtime.planning.plans import Plan

DOCUMENT = {
    "goal": "look",
    "steps": [{"id": "a", "tool": "t"}, {"id": "b", "tool": "t", "depends_on": ["a"]}],
}


def test_a_file_text_and_document_give_one_plan(tmp_path):
    file = tmp_path / "plan.json"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(DOCUMENT).encode())
    loaded = Plan.load(file)
    assert type(loaded) is Plan
    assert isinstance(loaded, CorePlan)
    assert loaded.digest == Plan.load(str(file)).digest == Plan.make(DOCUMENT).digest
    assert loaded.digest == Plan.parse("So:\n" + json.dumps(DOCUMENT, indent=2)).digest


def test_a_plan_shows_itself_in_one_line():
    plan = Plan.make(DOCUMENT)
    assert repr(plan) == f"<Plan 'look' 2 steps {plan.digest[:8]}>"
    single = Plan.make([{"id": "a", "tool": "t"}])
    assert repr(single) == f"<Plan 1 step {single.digest[:8]}>"


def test_a_file_that_is_not_there_is_not_found(tmp_path):
    with pytest.raises(NotFoundError, match=r"nowhere\.json"):
        Plan.load(tmp_path / "nowhere.json")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "empty-file"),
        (b" \n\t", "empty-file"),
        (b"\x89PNG\r\n\x1a\n\x00", "not-text"),
        (json.dumps(DOCUMENT).encode()[:-3], "cut-off"),
        (json.dumps(DOCUMENT).encode("utf-16"), "not-text"),
        (b"x" * (plantext.MAX_BYTES + 1), "too-large"),
        (b'{"steps": []}', "no-steps"),
        (b"the plan is to wait", "no-json"),
    ],
)
def test_a_file_that_holds_no_plan_is_refused_with_its_name(tmp_path, content, code):
    file = tmp_path / "plan.json"
    file.write_bytes(content)
    with pytest.raises(PlanError, match=r"plan\.json: ") as caught:
        Plan.load(file)
    assert [fault.code for fault in caught.value.faults] == [code]


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(PlanError, match="it is a directory"):
        Plan.load(tmp_path)


@pytest.mark.parametrize("name", ["a\x00b", "x" * 5000])
def test_a_path_that_no_file_can_have_is_refused(tmp_path, name):
    with pytest.raises(PlanError, match="cannot be read"):
        Plan.load(tmp_path / name)


def test_a_file_below_a_file_cannot_be_read(tmp_path):
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(PlanError, match="cannot be read"):
        Plan.load(tmp_path / "plan.json" / "plan.json")
