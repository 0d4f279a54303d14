"""Twelve canaries through every door by which a secret can come in, and no trace of them wherever the engine writes.

Looked through: events, large values, write-ahead logs, heads, checkpoints, torn files, exports, and everything that
any command prints, in words, as JSON and as lines of the log.
"""

import base64
import hashlib
import json
from collections import defaultdict
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from fsm_agent.faces.cli import build
from fsm_agent.runtime.proof.signing import make_keys

TOOLS = Path(__file__).with_name("vaulted") / "tools.py"
CANARIES = {
    "input": "c4n-input-8c1f0e7a",
    "literal": "c4n-literal-0b5d2f9e",
    "nested literal": "c4n-nested-77aa01bc",
    "list item": "c4n-item-5e6f7a8b",
    "number": "90412873655",
    "quoted": 'c4n-"quoted"/\\é-3d2c1b0a',
    "result": "c4n-result-1a2b3c4d",
    "nested result": "c4n-deep-9f8e7d6c",
    "large": "c4n-large-6b5a4938",
    "second input": "c4n-second-aa55bb66",
    "alternative": "c4n-alternative-12ab34cd",
    "write": "c4n-write-0f1e2d3c",
}
INPUTS = {"key": "input", "odd": "quoted", "other": "second input", "pay": "write"}


def plan():
    c = CANARIES
    steps = [
        {"id": "in", "tool": "login", "args": {"token": "$inputs.key", "user": "ann"}},
        {"id": "odd", "tool": "login", "args": {"token": "$inputs.odd", "user": "ann"}},
        {
            "id": "open",
            "tool": "unlock",
            "args": {
                "pin": int(c["number"]),
                "config": {"a": {"b": c["nested literal"]}},
                "keys": ["x", c["list item"]],
            },
            "depends_on": ["in"],
        },
        {
            "id": "try",
            "tool": "flaky",
            "args": {"token": "$inputs.other"},
            "optional": True,
            "alternatives": [{"tool": "flaky", "args": {"token": c["alternative"]}}],
            "on_failure": {"*": "skip"},
        },
        {"id": "plan", "tool": "missing", "args": {"token": "$inputs.other"}, "optional": True},
        {
            "id": "say",
            "tool": "login",
            "args": {"token": c["literal"], "user": "bob"},
            "depends_on": ["in"],
        },
        {
            "id": "pay",
            "tool": "transfer",
            "args": {"token": "$inputs.pay", "amount": 5},
            "depends_on": ["open"],
            "requires_confirmation": True,
        },
    ]
    return {"goal": "handle secrets", "inputs": dict.fromkeys(INPUTS, ""), "steps": steps}


def forms(text):
    """How a secret may look when somebody has written it down in another way."""
    raw = text.encode()
    plain = {
        raw,
        json.dumps(text).encode()[1:-1],
        json.dumps(text, ensure_ascii=False).encode()[1:-1],
        quote(text).encode(),
        quote(text, safe="").encode(),
        repr(text).encode()[1:-1],
        base64.b64encode(raw),
        raw.hex().encode(),
        text.encode("utf-16-le"),
    }
    digests = {
        hashlib.new(name, value).hexdigest().encode()
        for name in ("sha256", "sha1", "md5")
        for value in (raw, json.dumps(text).encode(), json.dumps(text, ensure_ascii=False).encode())
    }
    return plain | digests


def traces(data):
    return {name for name, text in CANARIES.items() if any(form in data for form in forms(text))}


class Desk:
    """The command line, and everything that it ever said. A command that does not exist yet says so, and that is all."""

    def __init__(self):
        self.said = defaultdict(bytes)

    def __call__(self, *words, code=None):
        shown = CliRunner().invoke(build(), words, prog_name="fsm-agent")
        self.said[" ".join(words[:4])] += shown.stdout_bytes + shown.stderr_bytes
        assert "Traceback" not in shown.output
        if code is not None:
            assert shown.exit_code == code, shown.output
        return shown.stdout


@pytest.fixture
def desk(tmp_path, monkeypatch):
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "plan.json").write_text(json.dumps(plan()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CANARIES", json.dumps(CANARIES))
    monkeypatch.setenv("NO_COLOR", "1")
    make_keys(tmp_path / "given" / "sign.key")
    monkeypatch.setenv("FSM_AGENT_SIGNING_KEY", str(tmp_path / "given" / "sign.key"))
    return Desk()


@pytest.mark.parametrize("store", ["runs.db", "runs.jsonl"])
def test_no_canary_is_found_wherever_the_engine_writes(tmp_path, desk, store, monkeypatch):
    monkeypatch.setenv("FSM_AGENT_STORE", str(tmp_path / "kept" / store))
    secret_inputs = [f"--input={name}={json.dumps(CANARIES[c])}" for name, c in INPUTS.items()]
    common = ("--tools", f"{TOOLS}:tools", "--planner", f"{TOOLS}:planner", *secret_inputs)
    monkeypatch.setenv("PROMPTS", str(tmp_path / "kept" / "prompts"))
    (tmp_path / "kept").mkdir()
    desk("run", "given/plan.json", *common, "--run-id", "r1", "-v", code=4)
    status = json.loads(desk("status", "r1", "--json", code=0))
    question = next(q for q in status["questions"] if q["task"] == "pay")
    assert question["args"]["token"]["$secret"]
    desk("note", "r1", "nothing secret here", "--by", "ann", code=0)
    desk("approve", "r1", "pay", "--digest", question["digest"][:8], "--by", "ann", code=0)
    desk("--jsonl", "resume", "r1", *common, code=5)
    assert status["tasks"]["open"]["state"] == "done"
    for words in (
        ("status", "r1", "-v"),
        ("events", "r1"),
        ("events", "r1", "-v", "-v"),
        ("events", "r1", "--jsonl"),
        ("events", "r1", "--json"),
        ("why", "r1", "pay"),
        ("why", "r1", "try", "--json"),
        ("runs", "--json"),
        ("audit", "r1", "--json"),
        ("history", "r1", "--json"),
        ("export", "r1"),
        ("export", "r1", "-o", "kept/export.jsonl"),
        (
            "reconcile",
            "r1",
            "pay",
            "--as",
            "applied",
            "--evidence",
            "seen",
            "--result",
            '{"ok": true}',
            "--by",
            "ann",
        ),
        ("replay", "r1"),
        ("replay", "r1", "--json"),
        ("replay", "r1", "--break", "decision=escalate", "-v"),
        ("what-if", "r1", "--rules", "conservative", "--json"),
        ("export", "r1", "--format", "ocel"),
        ("export", "r1", "--format", "cloudevents"),
        ("export", "r1", "--format", "ocel", "-o", "kept/ocel.json"),
        ("report", "r1", "-o", "kept/report.html"),
        ("repl", "r1", "-c", "status; plan; why pay; events; next; inputs; history"),
        *((name, "r1") for name in sorted(build().commands)),  # those that take a run, also the next ones
        ("edit", "r1", "pay", f"token={CANARIES['input']}", "--by", "ann"),
        ("resume", "r1"),
        ("status", "r1", "--json"),
        ("run", "given/plan.json", "--tools", f"{TOOLS}:tools", "--run-id", "r1"),
    ):
        desk(*words)
    assert len(CANARIES) == 12
    prompts = (tmp_path / "kept" / "prompts").read_text()
    assert "[todo]" in prompts
    assert "no session for" in prompts
    found = {words: hits for words, out in desk.said.items() if (hits := traces(out))}
    assert found == {}
    kept = [p for p in (tmp_path / "kept").rglob("*") if p.is_file()]
    assert {".heads", ".checkpoints"} <= {p.suffix for p in kept}
    assert sum(p.stat().st_size for p in kept) > 20_000
    found = {str(p.relative_to(tmp_path)): hits for p in kept if (hits := traces(p.read_bytes()))}
    assert found == {}


def test_the_test_would_find_a_canary_in_any_form():
    for text in CANARIES.values():
        for form in forms(text):
            assert traces(b"xx" + form + b"yy"), form
