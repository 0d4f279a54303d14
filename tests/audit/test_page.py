"""``docs/audit.md`` lists the checks that there are, and what the rules alone cannot see."""

import importlib.util
from pathlib import Path

from fsm_agent.core.audit.checks import CHECKS
from tests.audit.mutators import HEAD_ONLY, MUTATORS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")


def test_the_list_of_checks_is_the_one_that_the_checks_make():
    spec = importlib.util.spec_from_file_location("tools_checks", ROOT / "tools" / "checks.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.current(PAGE) == PAGE, "python tools/checks.py"
    assert all(f"`{name}`" in PAGE for name in CHECKS)


def test_the_page_says_how_many_ways_are_tried_and_what_only_a_head_shows():
    assert len(MUTATORS) > 100
    told = PAGE.split("**What the rules alone cannot always see**")[1].split("## The checks")[0]
    words = {
        "a note is put in": "a note",
        "a refused word is left out": "a word that was refused",
        "a batch is left out": "a batch that holds nothing else",
        "a larger budget is put in": "a larger budget",
        "the table is another fitted": "a threshold of the table",
        "a new owner is left out": "a new owner",
        "the goal is another fitted": "the goal of a plan",
        "an approver is another everywhere": "an approver",
        "an approval is not needed any more fitted": "the demand for an approval",
        "a result is another": "a result is another one",
        "results of two tasks change places": "change places",
        "a tail is cut off": "the tail is cut off",
    }
    assert words.keys() == HEAD_ONLY.keys()
    assert [w for w in words.values() if w not in told] == []
