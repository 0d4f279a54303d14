"""A whole session over the reimbursement example and its real services: as the page shows it, and at a real terminal."""

import os
import re
import signal
import subprocess

import pytest

from fsm_agent.core.audit.audit import audit
from fsm_agent.stores import open_store
from tests.faces.terminal import Person
from tests.test_readme import ROOT, tool

transcript = tool("transcript")


def stop_services(path):
    """End what a session that failed has left behind."""
    shown = subprocess.run(
        ["ps", "-ww", "-eo", "pid=,args="], capture_output=True, text=True, check=True
    ).stdout
    for line in shown.splitlines():
        pid, _, args = line.strip().partition(" ")
        if str(path / "services") in args:
            os.kill(int(pid), signal.SIGTERM)


@pytest.fixture
def folder(tmp_path):
    yield tmp_path
    stop_services(tmp_path)


def test_the_session_is_as_the_page_shows_it(folder):
    shown = transcript.plain(transcript.session(folder))
    page = (ROOT / "docs" / "transcript.md").read_text(encoding="utf-8")
    assert page == f"{transcript.HEAD}{shown}```\n", "python tools/transcript.py write"
    for words in ("stopped at state=unknown-result", "E-UNKNOWN", "E-DIGEST", "r-7: clean"):
        assert words in shown
    assert max(map(len, shown.splitlines())) <= 110
    html = (folder / "r-7.html").read_text(encoding="utf-8")
    assert "<script" not in html


def test_the_same_session_at_a_real_terminal(folder):
    (folder / "examples").symlink_to(ROOT / "examples")

    class Here:
        path = folder

        @staticmethod
        def env(**more):
            return {**os.environ, **transcript.ENV, "PYTHONPATH": str(ROOT), **more}

    ann = Person(
        Here,
        "repl",
        "examples/reimbursement",
        "--run-id",
        "r-7",
        REIMBURSEMENT_DATA=str(folder / "services"),
        XDG_STATE_HOME=str(folder / "state"),
    )
    try:
        ann.until("T6 create_reimbursement_ticket changes the world; can be looked up")
        ann.until("[0/6]>")
        ann.type("graph")
        ann.until("▶ ○ T6")
        ann.type("run until T5")
        ann.until("next: approve T5 | reject T5")
        ann.type("approve T5")
        shown = ann.until("to approve:")
        assert "amount = 106.5" in shown
        ann.type(re.search(r"digest (\w{4})", shown)[1])
        ann.until("T5: ann approved")
        ann.type("until state=unknown-result")
        ann.until("stopped at state=unknown-result")
        ann.until("[5/6 ?T6]>")
        ann.type("retry T6")
        ann.until(
            "E-UNKNOWN task T6: its result is unknown, and a retry could do it twice; reconcile it first"
        )
        ann.type("why T6")
        ann.until("what may have happened is looked up, never repeated")
        ann.type(
            'reconcile T6 --as applied --evidence "seen in the portal" --result {"ticket_id": "R-55821"}'
        )
        ann.until("T6: ann says applied; run r-7 is done")
        ann.until("[6/6 ✔]>")
        ann.type("quit")
        assert ann.end() == 0
    finally:
        ann.away()
    store = open_store(folder / ".fsm_agent" / "runs.db", read_only=True, create=False)
    found = audit("r-7", store.read("r-7"), store.blob, head=store.head("r-7"))
    store.close()
    assert (found.verdict, found.findings) == ("clean", ())
