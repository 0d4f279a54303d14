"""What is loaded, and when: a library costs whoever imports it, help costs whoever only asks."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRINT = "import sys; print(*sorted(sys.modules), sep='\\n')"
HELP = "from fsm_agent.__main__ import main; assert main(['--help']) == 0; print('modules')\n"

CLI = {"click", "rich", "prompt_toolkit"}
MACHINERY = {"asyncio", "apsw", "structlog", "transitions", "orjson", "re2", "attrs", "attr"}


def loaded(code):
    """Return the modules that a fresh interpreter has loaded after *code*."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{PRINT}"],
        env={"PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.rpartition("modules\n")[2].splitlines())


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
    assert {m for m in found if m.startswith(("fsm_agent.faces", "fsm_agent.testing"))} == set()


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
