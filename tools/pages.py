"""The pages of the documentation as programs: every snippet says what it is, and is carried out by a test.

A comment before a fenced block says what the block is for:

==========================  ===============================================================================
``<!-- file: NAME -->``     it is the file NAME
``<!-- run -->``            it is carried out (bash, or Python); ``<!-- run: 4 -->`` expects that exit code
``<!-- shows -->``          its lines are among what the block before has printed; ``...`` is any text
``<!-- skip: WHY -->``      it is left out, and it is said why
==========================  ===============================================================================

``python tools/pages.py FILE`` carries out one page and prints what it printed.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RUNS = frozenset({"python", "bash", "json", "toml"})
"""Blocks in these languages must say what they are for."""
_BLOCK = re.compile(
    r"(?:<!-- (?P<word>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)


class Block(NamedTuple):
    """A fenced block: where it stands, its language, what it is for, and its text."""

    line: int
    language: str
    word: str
    argument: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        word, _, argument = (found["word"] or "").partition(": ")
        line = text.count("\n", 0, found.start()) + 1
        yield Block(line, found["language"], word, argument, found["text"])


def carry_out(page: Path, folder: Path) -> list[str]:
    """Carry *page* out in *folder*; return what is wrong with it, one line each."""
    wrong: list[str] = []
    shown = ""
    env = _env(folder)
    for block in blocks(page):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        match block.word:
            case "file":
                target = folder / block.argument
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(block.text, encoding="utf-8")
            case "run":
                code, shown = _run(block, folder, env)
                if code != int(block.argument or "0"):
                    wrong.append(f"{where}: it ended with exit code {code}:\n{shown}")
            case "shows":
                wrong += [
                    f"{where}: {line!r} is not among\n{shown}"
                    for line in block.text.splitlines()
                    if line.strip() and not _is_among(line, shown)
                ]
            case "skip" if block.argument:
                pass
            case _:
                if block.language in RUNS:
                    wrong.append(f"{where}: nothing says what this block is for; see tools/pages.py")
    return wrong


def _run(block: Block, folder: Path, env: dict[str, str]) -> tuple[int, str]:
    if block.language == "bash":
        command = ["bash", "-euo", "pipefail", "-c", block.text]
    else:
        (folder / "snippet.py").write_text(block.text, encoding="utf-8")
        command = [sys.executable, "-W", "error", "snippet.py"]
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


def _is_among(line: str, shown: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in " ".join(line.split()).split("..."))
    return any(re.search(pattern, " ".join(one.split())) for one in shown.splitlines())


def _env(folder: Path) -> dict[str, str]:
    """Return an environment in which ``fsm-agent`` is this checkout's, and speaks as ann."""
    programs = folder / ".bin"
    programs.mkdir()
    shim = programs / "fsm-agent"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fsm_agent "$@"\n')
    shim.chmod(0o755)
    (programs / "python").symlink_to(sys.executable)
    own = {k: v for k, v in os.environ.items() if not k.startswith("FSM_AGENT_")}
    return {
        **own,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}",
        "PYTHONUTF8": "1",
        "NO_COLOR": "1",
        "FSM_AGENT_BY": "ann",
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        faults = carry_out(Path(sys.argv[1]).resolve(), Path(place))
    print("\n".join(faults) or "every snippet does what the page says")
    sys.exit(bool(faults))
