"""A whole session at the prompt over the reimbursement example and its real services, as ``docs/transcript.md`` shows it.

``python tools/transcript.py`` prints the session; ``python tools/transcript.py write`` renews the page. Times, hashes,
line numbers and what other commands count are replaced, so that equal programs give equal pages.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "transcript.md"
SCRIPT = """
validate
graph
run until T5
plan T5
approve T5
approve T5 --digest 74c1e62d
until state=unknown-result
retry T6
why T6
reconcile T6 --as applied --evidence "seen in the portal" --result {"ticket_id": "R-55821"}
graph
audit
what-if --rules conservative
report -o r-7.html
quit
"""
HEAD = """# A session

What `fsm-agent repl examples/reimbursement` looks like: a claim is worked out, a person approves exactly one amount, and
the ticket service answers too late after it has made the ticket. Made by `python tools/transcript.py write` from a real
run; `TIME` and `...` stand for what differs from run to run.

```text
"""
BRIEF = {"audit": 1, "what-if --rules conservative": 1, "report -o r-7.html": 0}
"""Commands of which only so many lines are shown."""
UNTIL = "what led there:"
"""Of an explanation nothing is shown behind this line, but the line itself."""
VARIES = (
    (r"\d\d:\d\d:\d\d\.\d{3}", "TIME"),
    (r"^head \d+ [0-9a-f]{64}", "head ..."),
    (r"\((default|conservative):\d+\)", r"(\1:...)"),
    (r"\(\d+ rows\)", "(... rows)"),
    (r"differ in \d+ regions", "differ in ... regions"),
    (r"(default|conservative) \([0-9a-f]{8}\)", r"\1 (...)"),
)
"""What differs from run to run, or is another page's business, and what stands for it."""
ENV = {
    "TICKETS_LATE_S": "600",
    "TICKETS_SETTLE_S": "600",
    "FSM_AGENT_BY": "ann",
    "NO_COLOR": "1",
    "PYTHONUTF8": "1",
}


def session(folder: Path) -> str:
    """Return what the session shows, carried out in *folder*."""
    shutil.copytree(
        ROOT / "examples" / "reimbursement",
        folder / "reimbursement",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (folder / "script").write_text(SCRIPT, encoding="utf-8")
    words = [
        "repl",
        "reimbursement",
        "--run-id",
        "r-7",
        "--workers",
        "1",
        "--echo",
        "--keep-going",
        "-f",
        "script",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "fsm_agent", *words],
        cwd=folder,
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith("FSM_AGENT_")},
            **ENV,
            "PYTHONPATH": str(ROOT),
            "REIMBURSEMENT_DATA": str(folder / "services"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout


def plain(shown: str) -> str:
    """Return *shown* with what differs from run to run replaced."""
    out: list[str] = []
    left = None
    for line in shown.splitlines():
        prompt = re.match(r"fsm r-7 \[[^\]]*\]> (.*)", line)
        if prompt is not None:
            left = BRIEF.get(prompt[1])
        elif line.strip() == UNTIL:
            left = 0
        elif left is not None:
            if left == 0:
                continue
            left -= 1
        shown_line = line
        for pattern, words in VARIES:
            shown_line = re.sub(pattern, words, shown_line)
        out.append(shown_line)
    return "\n".join(out) + "\n"


def page() -> str:
    """Return the page as it should be today."""
    with tempfile.TemporaryDirectory() as folder:
        return f"{HEAD}{plain(session(Path(folder)))}```\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page())
