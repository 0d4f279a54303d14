"""``docs/torture.md`` says what comes out of the cases today; any engine can be put in this one's place."""

import importlib.util
import json
import re
from pathlib import Path

import attrs
import pytest

from fsm_agent.testing.scenario import parse
from fsm_agent.testing.torture import CannotExpressError, Own, judge, refused

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def torture():
    spec = importlib.util.spec_from_file_location("tools_torture", ROOT / "tools" / "torture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows(torture):
    return list(torture.rows(Own(), torture.recorded()))


def test_the_page_is_what_the_cases_do_today(torture):
    """Of a test in Python it says what came out when the page was made: this suite runs it anyway."""
    made = torture.page(torture.recorded())
    assert torture.PAGE.read_text(encoding="utf-8") == made, "python tools/torture.py --write"


def test_each_of_the_eighty_one_bugs_is_a_row_that_passes_and_each_kind_is_there(rows):
    assert len({row.id for row in rows if row.id != "new"}) == 81
    assert len({row.kind for row in rows}) == 17
    assert [row.where for row in rows if not row.passed] == []
    assert all(row.what.endswith(".") and row.source for row in rows)


def test_a_case_that_is_a_test_in_python_is_there(rows):
    for row in rows:
        file, _, name = row.where.partition("::")
        if name:
            text = (ROOT / file).read_text(encoding="utf-8")
            assert re.search(rf"^def {name}\(", text, re.MULTILINE), row.where


CASE = {
    "plan": {"steps": [{"id": "a", "tool": "pay"}]},
    "tools": {"pay": {"effect": "write"}},
    "expect": {"run": "done", "effects": {"pay": 1}, "moves": [["a", "done"]], "events": {"run_created": 1}},
}


class Careless:
    """An engine that calls everything twice, knows nothing of this one's words, and has no people."""

    name = "careless"

    def __init__(self, effects=2):
        self.effects = effects

    def run(self, scenario):
        if scenario.operator:
            raise CannotExpressError("it has no people")
        seen = refused(scenario, ())
        return attrs.evolve(seen, run="done", effects={"pay": self.effects})


def test_an_engine_is_judged_by_what_every_engine_has():
    assert judge(Own(), parse(CASE, "x")).passed
    assert judge(Careless(1), parse(CASE, "x")).passed
    twice = judge(Careless(), parse(CASE, "x"))
    assert not twice.passed
    assert twice.passed is not None
    assert "effects of pay" in twice.words


def test_what_an_engine_cannot_express_counts_for_nothing():
    asked = {**CASE, "operator": [{"at_s": 1, "do": "pause"}]}
    found = judge(Careless(), parse(asked, "x"))
    assert found.passed is None
    assert found.words == "it has no people"


def test_a_plan_that_must_be_refused_is_refused_by_whatever_code():
    wrong = {"plan": {"steps": []}, "tools": {}, "expect": {"refused": ["no-steps"]}}
    scenario = parse(wrong, "x")
    assert not judge(Careless(), scenario).passed

    class Strict(Careless):
        def run(self, scenario):
            return refused(scenario, ("whatever",))

    assert judge(Strict(), scenario).passed
    assert judge(Own(), parse({**wrong, "expect": {}}, "x")).words.startswith("refused: ")


TESTS = """
import pytest

@pytest.mark.parametrize("n", [1, 2])
def test_good(n): pass

@pytest.mark.parametrize("n", [1, 2])
def test_bad(n): assert n == 1

def test_left_out(): pytest.skip("no such thing here")
"""


@pytest.fixture
def cases(torture, monkeypatch, tmp_path):
    """Put three tests in Python in the place of the real ones, and one that does not exist."""
    file = tmp_path / "test_some.py"
    file.write_text(TESTS, encoding="utf-8")

    def put(*names):
        row = {"kind": "log", "id": "A86", "source": "somebody", "what": "It goes wrong."}
        listed = tmp_path / "cases.json"
        listed.write_text(json.dumps([{**row, "test": f"{file.name}::{name}"} for name in names]))
        monkeypatch.setattr(torture, "CASES", listed)

    monkeypatch.setattr(torture, "ROOT", tmp_path)
    return put


def test_a_test_in_python_counts_as_what_came_out_of_it(torture, cases):
    cases("test_good", "test_bad", "test_left_out", "test_gone")
    found = {name.partition("::")[2]: outcome for name, outcome in torture.ran().items()}
    assert found == {
        "test_good": (True, "2 passed in Python"),
        "test_bad": (False, "1 of 2 tests failed"),
        "test_left_out": (None, "skipped"),
        "test_gone": (False, "there is no such test"),
    }


def test_a_test_in_python_that_was_not_run_is_no_success(torture, cases):
    cases("test_good")
    (row,) = (row for row in torture.rows(Own(), {}) if "::" in row.where)
    assert (row.passed, row.words) == (False, "it was not run")


def test_the_tool_runs_an_engine_that_is_named_and_says_what_it_cannot_find(
    torture, cases, capsys, monkeypatch
):
    cases("test_good")
    monkeypatch.setattr(torture, "SCENARIOS", ROOT / "tests" / "scenarios" / "timeout")
    monkeypatch.chdir(ROOT)
    assert torture.main([]) == 0
    assert torture.main(["--adapter", "fsm_agent.testing.torture:Own"]) == 0
    assert torture.main(["--adapter", "tests.test_torture_page:Careless"]) == 1
    assert "✖" in capsys.readouterr().out
    cases("test_bad")
    assert torture.main([]) == 1
    with pytest.raises(SystemExit, match="give MODULE:ATTR"):
        torture.main(["--adapter", "nowhere:Engine"])
