"""The six logs of ``examples/audit`` show what their page says, to the audit and to the verifier that stands alone."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fsm_agent import audit
from fsm_agent.core.audit.checks import CHECKS
from fsm_agent.runtime.proof.auditing import audit_log
from fsm_agent.stores.anchors import read_anchor

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "examples" / "audit"
HEADS = HERE / "heads.jsonl"
SHOWN = {
    "1-edited-bytes": {"hash-chain", "request-shows-the-call", "digest-and-key", "arguments-of-the-plan"},
    "2-another-amount": {"request-shows-the-call", "arguments-of-the-plan"},
    "3-nobody-looked": {"cited-evidence", "true-report"},
    "4-another-decision": {"decision-by-the-table", "carried-out", "says-what-it-waits-for"},
    "5-cut-tail": set(),
}
"""Log → the checks that find it without a head."""


def verified(*names):
    return subprocess.run(
        [sys.executable, "-I", "-S", str(ROOT / "tools" / "verify_log.py"), *names],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_honest_log_is_clean_to_both():
    assert audit(HERE / "honest.jsonl", head=read_anchor(HEADS, "simulation")).verdict == "clean"
    assert verified(str(HERE / "honest.jsonl"), "--head", str(HEADS)).returncode == 0


@pytest.mark.parametrize("name", SHOWN)
def test_each_log_shows_what_was_done_to_it(name):
    file = HERE / f"{name}.jsonl"
    found = audit(file)
    assert {f.check for f in found.findings} >= SHOWN[name]
    assert bool(found.findings) == bool(SHOWN[name])
    kept = audit_log(file, head_of=lambda run: read_anchor(HEADS, run))
    assert kept.verdict == "violations"
    assert ("head" in {f.check for f in kept.findings}) == (name[0] != "1")  # nobody hashed that one anew
    assert verified(str(file), "--head", str(HEADS)).returncode == 1
    alone = verified(str(file))
    assert alone.returncode == (1 if name[0] in "13" else 0), alone.stdout


def test_the_page_names_every_log_and_the_checks_that_show_it():
    page = (HERE / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w-]+)\.jsonl` \|(.*)$", page, re.MULTILINE))
    assert rows.keys() == SHOWN.keys()
    for name, row in rows.items():
        named = {check: rule for rule, check in re.findall(r"`([A-F]\d+) ([\w-]+)`", row)}
        assert named
        assert {CHECKS[check].rule for check in named} == set(named.values())
        assert set(named) <= SHOWN[name] | {"head"}


def test_the_logs_can_be_made_anew(monkeypatch, tmp_path):
    spec = importlib.util.spec_from_file_location("make_audit_examples", HERE / "make.py")
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    (tmp_path / "scenario.json").write_bytes((HERE / "scenario.json").read_bytes())
    monkeypatch.setattr(make, "HERE", tmp_path)
    make.main()
    for name, checks in SHOWN.items():
        assert {f.check for f in audit(tmp_path / f"{name}.jsonl").findings} >= checks
    assert audit(tmp_path / "honest.jsonl").verdict == "clean"
