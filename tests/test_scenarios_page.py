"""The page of what runs must yield names things that are there, and forgets no scenario of its folder."""

import re
from pathlib import Path

from fsm_agent.testing import expect, operator, scenario

ROOT = Path(__file__).parent.parent
SCENARIOS = ROOT / "tests" / "scenarios"
PAGE = (ROOT / "docs" / "scenarios.md").read_text("utf-8")
SHOWN, _, FORMAT = PAGE.partition("\n## Writing one\n")
NAMED = set(re.findall(r"`([^`]+)`", "\n".join(line for line in SHOWN.splitlines() if line.startswith("|"))))


def file_of(name):
    if name.endswith(".py"):
        return ROOT / name
    return SCENARIOS / f"{name if '/' in name else f'seeds/{name}'}.json"


def test_everything_that_is_named_is_there():
    assert len(NAMED) > 60
    assert sorted(name for name in NAMED if not file_of(name).is_file()) == []


def test_every_scenario_of_the_folder_is_named():
    assert sorted(file.stem for file in (SCENARIOS / "seeds").glob("*.json") if file.stem not in NAMED) == []


def test_every_key_of_a_scenario_is_explained():
    told = set(re.findall(r"`([a-z_]+)`", FORMAT))
    assert {*scenario._KEYS, *expect._KEYS} - told == {"audit"}  # it is always clean
    assert set(operator._VERBS) - told == set()
