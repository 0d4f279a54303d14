"""What is loaded, and when: a library costs whoever imports it, help costs whoever only asks."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRINT = "import sys; print(*sorted(sys.modules), sep='\\n')"
HELP = "from fsm_agent.__main__ import main; assert main(['--help']) == 0; print('modules')\n"

CLI = {"click", "rich", "prompt_toolkit"}
LATER = {
    "fsm_agent.core.audit.causes",
    "fsm_agent.core.audit.hints",
    "fsm_agent.core.audit.why",
    "fsm_agent.core.classification.classify",
    "fsm_agent.core.plans.check",
    "fsm_agent.core.plans.form",
    "fsm_agent.core.plans.planning",
    "fsm_agent.core.plans.text",
    "fsm_agent.core.plans.uses",
    "fsm_agent.core.rules.analysis",
    "fsm_agent.core.rules.diff",
    "fsm_agent.core.rules.termination",
    "fsm_agent.runtime.driving.calls",
    "fsm_agent.runtime.driving.forking",
    "fsm_agent.runtime.proof.logs",
    "fsm_agent.runtime.proof.signing",
    "fsm_agent.runtime.tools.endings",
}
"""What a run needs when it begins, or only when somebody asks, and no one for having the class."""
MOST_MODULES = 108
"""Of ours behind the controller, the packages' own included: each is a file to find and to read."""
MOST_VALUES = 95
"""Classes of ``attrs`` among them: each compiles its methods at every start, which is the dearest of what we do there."""
COUNT = """
import sys, attrs
from fsm_agent import RunController
ours = [m for m in sys.modules.values() if m.__name__.startswith("fsm_agent")]
print(len(ours), sum(attrs.has(c) and c.__module__ == m.__name__ for m in ours for c in vars(m).values() if type(c) is type))
"""
MACHINERY = {"asyncio", "apsw", "structlog", "transitions", "orjson", "re2", "attrs", "attr"}


def run(code):
    """Return what a fresh interpreter prints for *code*."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def loaded(code):
    """Return the modules that a fresh interpreter has loaded after *code*."""
    return set(run(f"{code}\n{PRINT}").rpartition("modules\n")[2].splitlines())


@pytest.fixture(scope="module")
def bare():
    """What an interpreter loads by itself, or for what the installation adds to it."""
    return loaded("pass")


def test_the_package_alone_loads_nothing(bare):
    assert {m for m in loaded("import fsm_agent") - bare if m.startswith("fsm_agent")} == {"fsm_agent"}


def test_the_names_of_the_package_are_known_without_loading_them(bare):
    assert {
        m for m in loaded("import fsm_agent; dir(fsm_agent)") - bare if m.startswith("fsm_agent.")
    } == set()


def test_the_controller_loads_neither_the_command_line_nor_a_store_nor_the_log(bare):
    found = loaded("from fsm_agent import RunController") - bare
    assert "transitions" in found  # so the list is one of modules
    assert found & CLI == set()
    assert found & {"apsw", "structlog", "sqlite3", "re2", "tomllib", "difflib", "html", "http"} == set()
    assert found & {"gzip", "shlex"} == set()
    assert {m for m in found if m.startswith(("fsm_agent.faces", "fsm_agent.testing"))} == set()
    assert {
        m for m in found if m.startswith(("fsm_agent.core.replay.", "fsm_agent.runtime.deciding"))
    } == set()
    assert found & LATER == set()


def test_what_the_controller_leaves_for_later_is_there_when_it_is_wanted():
    names = "; ".join(f"import {name}" for name in sorted(LATER))
    assert loaded(names) >= LATER


def test_the_controller_grows_neither_by_modules_nor_by_classes_unnoticed():
    modules, values = run(COUNT).split()
    assert int(modules) <= MOST_MODULES
    assert int(values) <= MOST_VALUES


def test_help_loads_click_and_the_table_of_commands(bare):
    found = loaded(HELP) - bare
    assert "click" in found
    assert found & MACHINERY == set()
    assert found & (CLI - {"click"}) == set()
    assert {m for m in found if m.startswith("fsm_agent.")} == {
        "fsm_agent.__main__",
        "fsm_agent.faces",
        "fsm_agent.faces.cli",
        "fsm_agent.faces.frame",
        "fsm_agent.faces.frame.spec",
        "fsm_agent.faces.table",
        "fsm_agent.faces.table.drive",
        "fsm_agent.faces.table.files",
        "fsm_agent.faces.table.look",
        "fsm_agent.faces.table.replay",
        "fsm_agent.faces.table.shared",
        "fsm_agent.faces.table.speak",
    }


@pytest.mark.parametrize(
    "words", [["rules", "--help"], ["run", "--help"], ["rules", "test", "--help"]], ids=" ".join
)
def test_help_of_a_command_loads_no_more(bare, words):
    assert (loaded(HELP.replace("['--help']", repr(words))) - bare) & (
        MACHINERY | {"rich", "prompt_toolkit"}
    ) == set()


def test_the_version_costs_no_more_than_help(bare):
    assert (loaded(HELP.replace("--help", "--version")) - bare) & MACHINERY == set()


@pytest.mark.parametrize(
    "words",
    [
        ["rules", "check", "default"],
        ["rules", "test", "default", "failed", "not_found"],
        ["fsm", "show", "task"],
    ],
    ids=" ".join,
)
def test_what_needs_no_store_loads_none(bare, words):
    assert (loaded(HELP.replace("['--help']", repr(words))) - bare) & {
        "apsw",
        "structlog",
        "prompt_toolkit",
    } == set()
