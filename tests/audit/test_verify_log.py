"""The verifier that shares no code with the package agrees with it: on honest logs, and on those it can judge."""

import ast
import hashlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from fsm_agent.core.events import Record, chain, genesis, to_body, to_line
from fsm_agent.core.machine import TABLES
from fsm_agent.runtime.proof.auditing import audit_hashes, audit_log
from tests.audit.corpus import judged, logs, sealed
from tests.audit.mutators import HEAD_ONLY, MUTATORS
from tests.audit.test_mutators import fitting

TOOL = Path(__file__).parents[2] / "tools" / "verify_log.py"


def loaded():
    spec = importlib.util.spec_from_file_location("verify_log", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


verifier = loaded()

RULES_ONLY = {
    "a condition of the plan is another fitted",
    "a first plan comes from elsewhere",
    "a models plan passes as a persons",
    "a models plan passes as a repair",
    "a models plan passes as the callers",
    "a planner is asked about something else",
    "a planner is asked twice",
    "a precondition of the plan is another fitted",
    "a reservation is another",
    "the cool down is longer",
    "a changed input is put in",
    "a deadline is extended",
    "a deadline is shortened",
    "a decision is another",
    "a decision is left out",
    "a decision precedes its signal",
    "a decision stands twice",
    "a fact is another",
    "an expiry is extended",
    "a late result is left out",
    "a models answer is another",
    "a models plan is another fitted",
    "a note is left out",
    "a pause for a person is left out",
    "a plan is left out",
    "a plan is put in",
    "a planners call is left out",
    "a probe is due at once",
    "a probes word passes as a persons",
    "a reason is another",
    "a replan is left out",
    "a request is left out",
    "a row is another",
    "a row of the table decides otherwise fitted",
    "a secret stands in the log",
    "a signal is another",
    "a strategy is another",
    "a task is given up for no reason",
    "a wait is extended in both places",
    "a wait is shortened",
    "a wish is left out",
    "a wish is put in",
    "an abort is undone by nobody",
    "an approval stands twice",
    "an argument is added fitted",
    "an argument is another fitted",
    "an effect is accepted that is known",
    "an event is of no known kind",
    "an outcome is left out",
    "an owner is older",
    "arguments in the plan are others fitted",
    "fewer people are asked",
    "the cool down is skipped",
    "the report hides what is unknown",
    "the report is another",
    "what is used is less",
}
"""Ways of changing a log that need the rule table, the plan or the fold to be seen: the package's own audit finds them."""


def verdict_of(path, data, kept=None):
    path.write_bytes(data)
    return verifier.verify(str(path), kept or {})


def test_it_is_one_page_of_the_standard_library():
    text = TOOL.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    modules = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([a.name for a in node.names] if isinstance(node, ast.Import) else [node.module])
    }
    assert modules <= set(sys.stdlib_module_names)


def test_its_state_tables_are_those_of_the_engine():
    assert verifier.MOVES == TABLES


@pytest.mark.parametrize("log", logs(), ids=lambda log: log.name)
def test_it_finds_an_honest_log_as_clean_as_the_audit_does(log, tmp_path):
    forged = sealed(log.events)
    found = verdict_of(
        tmp_path / "log.jsonl", forged.lines, {forged.run: {log.head.seq: log.head.hash.hex()}}
    )
    assert found.findings == []
    assert found.closed == (judged(forged).verdict == "clean")
    assert (found.seq, found.hash) == log.head


@pytest.mark.parametrize("name", MUTATORS)
def test_what_it_finds_the_audit_finds_and_what_it_leaves_to_the_audit_stands_in_a_list(name, tmp_path):
    missed = []
    for log, events in fitting(name):
        forged = sealed(events)
        whole = verdict_of(
            tmp_path / "log.jsonl", forged.lines, {forged.run: {log.head.seq: log.head.hash.hex()}}
        )
        assert whole.findings, f"{log.name}: not even with the head"
        alone, audited = verdict_of(tmp_path / "log.jsonl", forged.lines), judged(forged)
        assert not alone.findings or audited.findings, f"{log.name}: {alone.findings}"
        if audited.findings and not alone.findings:
            missed.append(log.name)
    assert not missed or name in RULES_ONLY | set(HEAD_ONLY), missed


@pytest.mark.parametrize("at", range(0, 20_000, 1117))
def test_a_flipped_bit_is_found_by_both(at, tmp_path):
    data = sealed(max(logs(), key=lambda log: len(log.events)).events).lines
    at %= len(data)
    flipped = data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]
    assert verdict_of(tmp_path / "log.jsonl", flipped).findings


def test_every_byte_around_a_body_and_a_value_counts(tmp_path):
    log = min(
        (log for log in logs() if b'{"$blob":"' in sealed(log.events).lines), key=lambda log: len(log.events)
    )
    lines = sealed(log.events).lines.splitlines(keepends=True)
    value = next(n for n, line in enumerate(lines) if line.startswith(b'{"$blob":"'))
    around = [(n, at) for n in (value - 1, value + 1, len(lines) - 1) for at in range(-76, 0)]
    for number, at in [*around, *((value, at) for at in (*range(84), -2, -1))]:
        line = bytearray(lines[number])
        line[at] ^= 4
        changed = b"".join([*lines[:number], line, *lines[number + 1 :]])
        assert verdict_of(tmp_path / "log.jsonl", changed).findings, (number, at)


def with_line(line):
    """Return the lines of an honest log with another one put in behind its third event."""
    lines = sealed(min(logs(), key=lambda log: len(log.events)).events).lines.splitlines(keepends=True)
    at = next(n for n, found in enumerate(lines) if b'"seq":3,' in found) + 1
    return b"".join([*lines[:at], line, *lines[at:]])


def value_line(value):
    return b'{"$blob":"%b","value":%b}\n' % (hashlib.sha256(value).hexdigest().encode(), value)


@pytest.mark.parametrize("value", [b"no JSON", b"[" * 100_000 + b"]" * 100_000], ids=["text", "deep"])
def test_a_large_value_that_no_event_names_is_held_against_its_digest_and_no_more_by_both(value, tmp_path):
    data = with_line(value_line(value))
    assert verdict_of(tmp_path / "log.jsonl", data).findings == []
    assert not audit_log(data).findings


@pytest.mark.parametrize(
    "line",
    [
        b'{"$x":1,"seq":4,"hash":"%b"}\n' % (b"0" * 64),
        b'{"$\xff' + b"\xc3\xa9" * 40 + b'":1,"seq":4,"hash":"%b"}\n' % (b"0" * 64),
        b'{"at":1,"data":%b,"seq":4,"type":"x","v":1,"hash":"%b"}\n'
        % (b"[" * 100_000 + b"]" * 100_000, b"0" * 64),
    ],
    ids=["a name with a dollar", "another, in bytes", "deep"],
)
def test_a_line_that_was_put_in_is_found_by_both_and_by_the_chain_alone(line, tmp_path):
    data = with_line(line)
    assert verdict_of(tmp_path / "log.jsonl", data).findings
    assert audit_log(data).findings
    assert audit_hashes(data).findings


def test_a_cut_in_a_checkpoint_is_found_by_the_chain_alone(tmp_path):
    data = sealed(logs()[0].events).lines + b'{"$checkpoint":'
    assert verdict_of(tmp_path / "log.jsonl", data).findings
    assert audit_hashes(data).findings


@pytest.mark.parametrize(
    "change",
    [{"more": 1}, {"tx": [1, 1]}, {"task": None}, {"v": True}, {"seq": True}, {"actor": None}],
    ids=str,
)
def test_what_stands_around_an_event_is_judged_alike_by_both(change, tmp_path):
    first, *others = min(logs(), key=lambda log: len(log.events)).events
    head = genesis(first.data["run"]).hash
    lines = []
    for number, event in enumerate([first, *others]):
        raw = orjson.loads(to_body(event._replace(tx=None, seq=number + 1)))
        body = orjson.dumps(raw | (change if not number else {}), option=orjson.OPT_SORT_KEYS)
        head = chain(head, body)
        lines.append(to_line(Record(number + 1, body, head)) + b"\n")
    only = lines[0]
    assert any(rule == "line" or rule == "order" for _, rule, _ in verdict_of(tmp_path / "l", only).findings)
    assert {finding.rule for finding in audit_log(only).findings} & {"A2", "A4", "A5"}


def test_what_a_log_says_cannot_drive_the_terminal_that_shows_a_finding(tmp_path):
    log = min((log for log in logs() if any(e.task for e in log.events)), key=lambda log: len(log.events))
    evil = "\x1b]0;owned\x07\x9b2J\u202e"
    events = [e._replace(task=evil) if e.task else e for e in log.events]
    path = tmp_path / "log.jsonl"
    path.write_bytes(sealed(events).lines)
    found = process(str(path))
    assert found.returncode == 1
    assert "owned" in found.stdout
    assert found.stdout.replace("\n", "").isprintable()
    assert found.stdout.isascii()


def process(*arguments):
    return subprocess.run(
        [sys.executable, "-I", "-S", str(TOOL), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_it_runs_where_no_package_is_and_its_exit_code_says_what_it_found(tmp_path):
    log = next(log for log in logs() if log.events[-1].type == "run_closed")
    forged, heads = sealed(log.events), tmp_path / "heads"
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_bytes(forged.lines)
    bad.write_bytes(forged.lines.replace(b'"attempt":1', b'"attempt":2', 1))
    heads.write_text(f'{{"hash":"{log.head.hash.hex()}","run":"{forged.run}","seq":{log.head.seq}}}\n')
    done = process(str(good), "--head", str(heads))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"clean, {log.head.seq} events, head {log.head.hash.hex()}" in done.stdout
    found = process(str(good), str(bad))
    assert found.returncode == 1
    assert all(line.startswith(f"{bad}: event ") for line in found.stdout.splitlines()[1:-1])
    lost = process(str(tmp_path / "none.jsonl"))
    assert (lost.returncode, "none.jsonl" in lost.stderr) == (2, True)
    assert "Traceback" not in lost.stderr
