"""Every scenario file is a test: simulated in this process, compared with what it expects, and audited."""

from pathlib import Path

import pytest

from fsm_agent.testing.scenario import load
from fsm_agent.testing.simulate import simulate
from tests.audits import clean

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("*.json"))


@pytest.mark.parametrize("file", FILES, ids=[f.relative_to(HERE).with_suffix("").as_posix() for f in FILES])
def test_what_the_scenario_expects_comes_out(file):
    result = clean(simulate(load(file)))
    assert result.ok, "\n".join(result.failures)


def test_every_scenario_of_a_public_bug_says_where_it_comes_from_and_what_goes_wrong_there():
    bugs = [f for f in FILES if f.parent.name not in ("seeds", "tables", "growing", "corners")]
    assert bugs
    for file in bugs:
        scenario = load(file)
        assert scenario.source, file
        assert scenario.what.endswith("."), file


def test_names_of_scenarios_differ():
    names = [load(f).name for f in FILES]
    assert len(set(names)) == len(names)
