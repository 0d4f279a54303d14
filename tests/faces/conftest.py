"""A desk with a store of its own, and the command line at it; every run that it made is audited at the end."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from fsm_agent.core.audit.audit import audit
from fsm_agent.faces.cli import build
from fsm_agent.stores import open_store

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@attrs.frozen
class Shown:
    """What a command showed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        """The one document on stdout."""
        return json.loads(self.out)

    @property
    def lines(self):
        """The JSON lines on stdout."""
        return [json.loads(line) for line in self.out.splitlines()]


class Cli:
    """The command line, in this process or in one of its own, in the directory *path*."""

    def __init__(self, path):
        self.path = path

    def __call__(self, *words, stdin=None):
        result = CliRunner().invoke(build(), [str(w) for w in words], input=stdin, prog_name="fsm-agent")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        shown = Shown(result.exit_code, result.stdout, result.stderr)
        assert "Traceback" not in shown.out + shown.err
        return shown

    def json(self, *words):
        """Return the exit code and the document of a command with ``--json``."""
        shown = self(*words, "--json")
        return shown.code, shown.json

    def env(self, **more):
        """Return the environment for a process of its own."""
        return {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", **more}

    def start(self, *words, **more):
        """Start the command line as a process."""
        return subprocess.Popen(
            [sys.executable, "-m", "fsm_agent", *map(str, words)],
            cwd=self.path,
            **{
                "env": self.env(),
                "stdin": subprocess.DEVNULL,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                "text": True,
                **more,
            },
        )

    def process(self, *words, **more):
        """Run the command line as a process."""
        process = self.start(*words, **more)
        out, err = process.communicate(timeout=60)
        assert "Traceback" not in err, err
        return Shown(process.returncode, out, err)

    @property
    def ledger(self):
        """What was really booked."""
        file = self.path / "ledger.txt"
        return file.read_text().splitlines() if file.exists() else []

    def runs(self, store=".fsm_agent/runs.db"):
        """Return the ids of the runs in a store; none if there is none."""
        if not (self.path / store).exists():
            return []
        opened = open_store(self.path / store, read_only=True, create=False)
        try:
            return [info.run for info in opened.runs()]
        finally:
            opened.close()


@pytest.fixture
def cli(tmp_path, monkeypatch):
    shutil.copytree(HERE / "desk", tmp_path / "desk", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FSM_AGENT_STORE", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    cli = Cli(tmp_path)
    yield cli
    for run in cli.runs():
        store = open_store(tmp_path / ".fsm_agent" / "runs.db", read_only=True, create=False)
        found = audit(run, store.read(run), store.blob, head=store.head(run))
        store.close()
        assert found.verdict != "violations", found.findings


@pytest.fixture
def waiting(cli):
    """A run that waits for a person's yes to T3; returns its question."""
    code, status = cli.json("run", "desk", "--run-id", "r1")
    assert code == 4
    return status["questions"][0]
