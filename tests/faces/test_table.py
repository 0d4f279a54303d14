"""The table of commands is whole: what a row names exists, takes what the row says, and shows in help."""

import inspect
import subprocess
import sys

import click
import pytest

from fsm_agent.faces import table
from fsm_agent.faces.cli import GLOBALS, Branch, Leaf, build
from fsm_agent.faces.frame.settings import BY_NAME as SETTINGS
from fsm_agent.faces.frame.spec import AMONG, EXIT_CODES, EXIT_OF_RUN, KINDS, WHEN, load
from fsm_agent.faces.repl.completion import arguments
from fsm_agent.faces.table.prompt import PROMPT

EVERY = [*table.COMMANDS, *PROMPT]
ROWS = pytest.mark.parametrize(
    "row", EVERY, ids=[f"{'prompt: ' if row in PROMPT else ''}{row.name}" for row in EVERY]
)
VALUED = [
    (row.words, flag) for row in table.COMMANDS for p in row.params if p.kind != "flag" for flag in p.flags
]
NAMES = (
    """
run, resume, wait, approve, reject, edit, answer, reconcile, retry, set, pause, cancel, note, status, events, runs,
audit, export, import, fsm show, plan check, plan show, plan graph, rules check, rules show, simulate
""".replace("\n", " ")
    .strip()
    .split(", ")
)
LIGHT = {
    "fsm_agent",
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
HEAVY = {
    "attrs",
    "asyncio",
    "structlog",
    "transitions",
    "apsw",
    "orjson",
    "re2",
    "rich",
    "prompt_toolkit",
    "openai",
    "sqlite3",
}


def test_every_command_of_the_contract_is_there_once():
    names = [row.name for row in table.COMMANDS]
    assert set(NAMES) <= set(names)
    assert len(names) == len(set(names))


@ROWS
def test_the_handler_takes_exactly_what_the_row_says(row):
    parameters = list(inspect.signature(load(row.handler)).parameters.values())
    assert parameters[0].name == "screen"
    assert [p.name for p in parameters[1:]] == [p.name for p in row.params] or {
        p.name for p in parameters[1:]
    } == {p.name for p in row.params}
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters[1:])


@ROWS
def test_what_a_row_names_can_be_loaded(row):
    assert inspect.isclass(load(row.result))
    for path, count in ((row.plain, 2), (row.data, 2), (row.line, 1)):
        assert not path or len(inspect.signature(load(path)).parameters) == count
    assert row.section in table.SECTIONS


@ROWS
def test_a_row_says_in_known_words_when_it_makes_sense_and_what_it_takes(row):
    assert row.when in WHEN
    for param in row.params:
        assert param.among in AMONG
        assert param.kind == "task" or not param.among
        assert not param.setting or param.setting in SETTINGS
        assert not param.setting or param.default is None  # else the default would hide the setting


@ROWS
def test_help_of_a_command_names_every_parameter_and_is_not_wide(row):
    command, ctx = Leaf(row), click.Context(Leaf(row), info_name=row.name, max_content_width=80)
    text = command.get_help(ctx)
    for param in row.params:
        assert param.kind in KINDS
        assert all(flag in text for flag in param.flags)
        assert param.flags or (param.metavar or param.name.upper()) in text
    assert all(flag in text for _, flag, _, _ in GLOBALS)
    assert max(map(len, text.splitlines())) <= 120
    assert row.help.endswith(".")


@ROWS
def test_the_examples_are_command_lines_that_parse(row):
    import shlex

    for example in row.examples:
        words = shlex.split(example)
        assert words[: len(row.words)] == list(row.words)
        typed = row._replace(params=arguments(row)) if row in PROMPT else row  # the run is left out there
        Leaf(typed).make_context(row.name, words[len(row.words) :])


@ROWS
def test_a_positional_parameter_comes_before_the_options_in_usage(row):
    kinds = [bool(p.flags) for p in row.params]
    assert kinds == sorted(kinds)
    required = [p.required for p in row.params if not p.flags]
    assert required == sorted(required, reverse=True)


def test_help_of_the_whole_lists_every_command_and_every_exit_code():
    root = build()
    text = root.get_help(click.Context(root, info_name="fsm-agent"))
    for row in table.COMMANDS:
        assert f"\n  {row.words[0]} " in text
    for code in EXIT_CODES:
        assert f"{code}  " in text
    assert set(EXIT_OF_RUN.values()) < EXIT_CODES.keys()


@pytest.mark.parametrize("word", list(table.GROUPS))
def test_help_of_a_group_lists_its_commands(word):
    group = Branch(word)
    text = group.get_help(click.Context(group, info_name=word))
    for row in table.COMMANDS:
        assert (row.words[0] == word and f"\n  {row.words[-1]} " in text) == (row.words[0] == word)


def loaded(code):
    """Return the modules that a fresh interpreter has after *code*."""
    tail = "\nimport sys; print(' '.join(sys.modules), file=sys.stderr)"
    shown = subprocess.run([sys.executable, "-c", code + tail], capture_output=True, text=True, check=True)
    return set(shown.stderr.split())


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["plan", "--help"], ["--version"]])
def test_help_loads_the_table_and_click_and_nothing_that_is_slow(words):
    modules = loaded(f"from fsm_agent.__main__ import main\nmain({words!r})")
    ours = {name for name in modules if name.startswith("fsm_agent")} - {"fsm_agent.version"}
    assert ours == LIGHT
    assert not modules & HEAVY


def test_the_library_loads_without_the_faces_and_what_they_need():
    modules = loaded("from fsm_agent import RunController")
    assert not modules & {"click", "rich", "prompt_toolkit", "openai", "cryptography", "structlog", "sqlite3"}
    assert not any(name.startswith(("fsm_agent.faces", "fsm_agent.testing")) for name in modules)


def test_importing_the_package_loads_nothing_of_it():
    assert {name for name in loaded("import fsm_agent") if name.startswith("fsm_agent")} == {"fsm_agent"}


def test_without_click_there_is_one_line_that_says_what_to_install(tmp_path):
    (tmp_path / "click.py").write_text("raise ModuleNotFoundError(\"No module named 'click'\", name='click')")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from fsm_agent.__main__ import main; sys.exit(main(['runs']))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert shown.returncode == 2
    assert (
        shown.stderr
        == 'E-EXTRA fsm-agent: the command line needs more packages; pip install "fsm-agent[cli]"\n'
    )


@pytest.mark.parametrize(
    ("words", "flag"), VALUED, ids=[f"{' '.join(words)} {flag}" for words, flag in VALUED]
)
def test_an_option_whose_value_was_forgotten_is_refused_and_nothing_is_done(cli, words, flag):
    """Taken as if it had not been given, ``--rules`` would run under another table than the one that was meant."""
    shown = cli(*words, "desk", flag)
    assert shown.code == 2
    assert shown.err.startswith(
        f"E-USAGE fsm-agent {' '.join(words)}: Option '{flag}' requires an argument; usage: "
    )
    assert cli.runs() == []


def test_a_store_that_was_forgotten_is_refused(cli):
    assert cli("runs", "--store").err.startswith(
        "E-USAGE fsm-agent runs: Option '--store' requires an argument"
    )
    assert cli("--store").code == 2
