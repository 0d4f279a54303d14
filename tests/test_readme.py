"""What the README shows is so: its drawings are current, its commands exist, its program runs."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fsm_agent import audit
from fsm_agent.faces.table import BY_NAME, GROUPS
from fsm_agent.stores import open_store

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def tool(name):
    """Return the module ``tools/NAME.py``."""
    spec = importlib.util.spec_from_file_location(f"tools_{name}", ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


readme = tool("readme")


def test_the_drawings_are_what_the_program_draws_today():
    assert readme.current(TEXT) == TEXT, "python tools/readme.py write"
    drawn = re.findall(r"<!-- generated: (.*?) -->\n```mermaid\nstateDiagram-v2\n", TEXT)
    assert drawn == ["fsm show task --format mermaid", "fsm show run --format mermaid"]


def test_a_drawing_that_is_out_of_date_is_made_anew_and_nothing_else_is_touched():
    stale = TEXT.replace("    pending --> running : start\n", "")
    assert stale.count("\n") == TEXT.count("\n") - 2
    assert readme.current(stale) == TEXT
    assert readme.current("no block\n<!-- end -->\n") == "no block\n<!-- end -->\n"


def test_a_generated_block_of_a_command_that_fails_is_no_block():
    with pytest.raises(SystemExit, match="exit code 2; mend its comment"):
        readme.current("<!-- generated: fsm show moon -->\n<!-- end -->\n")


def test_two_commands_do_all_the_set_up():
    assert (
        "fsm-agent run examples/reimbursement --operator examples/reimbursement/operator.json"
        in readme.command("run")
    )
    assert "pytest" in readme.command("test")
    for name in ("run", "test"):
        assert readme.command(name).startswith(
            "python3 -m venv .venv && . .venv/bin/activate\npip install -e "
        )
        assert f"tools/readme.py {name}" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    with pytest.raises(SystemExit, match="no command called 'fly'"):
        readme.command("fly")
    with pytest.raises(SystemExit, match="no Python block after 'Fly'"):
        readme.snippet("Fly")


def test_a_command_is_printed_without_anything_installed():
    bare = [sys.executable, "-I", "-S", str(ROOT / "tools" / "readme.py")]
    done = subprocess.run([*bare, "run"], capture_output=True, text=True, check=True)
    assert done.stdout == readme.command("run") + "\n"
    assert subprocess.run(bare, capture_output=True, text=True, check=False).returncode == 1


def test_every_command_that_is_named_exists():
    named = re.findall(
        r"fsm-agent ([a-z][a-z-]*(?: [a-z-]+)?)", TEXT.replace("fsm-agent run examples", "fsm-agent run")
    )
    assert len(named) >= 5
    for words in (name.split() for name in named):
        assert words[0] in BY_NAME or (words[0] in GROUPS and " ".join(words[:2]) in BY_NAME), words
    listed = re.search(r"\*\*Drive\*\* it from the command line: (.*?);", TEXT, re.DOTALL)[1]
    assert set(re.findall(r"`([a-z]+)`", listed)) <= set(BY_NAME)


def test_every_place_that_is_named_exists():
    places = re.findall(r"^\| `([a-z_/]+)` \|", TEXT, re.MULTILINE)
    assert len(places) >= 5
    assert [place for place in places if not (ROOT / place).is_dir()] == []
    files = re.findall(r"(?:examples|tests|docs)/[\w./-]+\w", TEXT)
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_the_program_runs_as_it_stands_there(tmp_path):
    (tmp_path / "embed.py").write_text(readme.snippet("Embed"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "embed.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    asked, ended = done.stdout.splitlines()
    assert "s2" in asked
    assert ended.startswith("done ")
    store = open_store(tmp_path / "runs.db", read_only=True, create=False)
    try:
        (run,) = [info.run for info in store.runs()]
        found = audit(store, run=run)
    finally:
        store.close()
    assert (found.verdict, found.findings) == ("clean", ())
