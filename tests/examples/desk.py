"""A working directory with a store, the command line in it, and the services that a killed run leaves behind."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
_OTHERS = ("FSM_AGENT_LLM_BASE_URL", "FSM_AGENT_LLM_MODEL", "FSM_AGENT_LLM_API_KEY")
"""Of whoever runs the tests: no model but the test's own is asked."""


class Desk:
    """The command line in *path*; *settings* are variables of the environment over our own."""

    def __init__(self, path, **settings):
        self.path = path
        self.env = {key: value for key, value in os.environ.items() if key not in _OTHERS}
        self.env |= {
            "FSM_AGENT_STORE": str(path / "runs.db"),
            "NO_COLOR": "1",
            "PYTHONPATH": str(ROOT),
            **settings,
        }

    def start(self, *words):
        return subprocess.Popen(
            [sys.executable, "-m", "fsm_agent", *map(str, words)],
            cwd=self.path,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *words):
        process = self.start(*words)
        out, err = process.communicate(timeout=60)
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def json(self, *words):
        done = self("--json", *words)
        return done.returncode, json.loads(done.stdout)

    def audited(self, run):
        """Audit *run*, which must be without a finding."""
        code, found = self.json("audit", run)
        assert (code, found["findings"]) == (0, [])

    def stop_services(self):
        """End what a killed run has left behind."""
        listed = subprocess.run(
            ["ps", "-ww", "-eo", "pid=,args="], capture_output=True, text=True, check=True
        )
        for line in listed.stdout.splitlines():
            pid, _, args = line.strip().partition(" ")
            if str(self.path) in args and "/services/" in args:
                os.kill(int(pid), signal.SIGTERM)
