"""An audit accounts for every event by every check, says the same everywhere, and needs memory for the plan alone."""

import io
import itertools
import os
import subprocess
import sys
import tracemalloc

import orjson
import pytest

from fsm_agent import audit
from fsm_agent.core.audit.audit import audit as audit_records
from fsm_agent.core.audit.check import ALL, BATCH, GROUPS, LOG
from fsm_agent.core.audit.checker import MAX_FINDINGS, NO_TASK, Checker
from fsm_agent.core.audit.checks import CHECKS, IDLE, PLAIN, is_plain, ordinary, place_of
from fsm_agent.core.errors import UsageError
from fsm_agent.core.events import Event, chain, from_body, genesis, hydrate, seal, to_line
from fsm_agent.faces.frame.screen import Screen
from fsm_agent.faces.look.auditing import audit as audited
from fsm_agent.runtime.proof.auditing import audit_hashes, audit_log, audit_run
from tests.audit.corpus import judged, log_of, logs, sealed
from tests.audit.mutators import ANN, MUTATORS, inserted
from tests.audit.test_mutators import fitting
from tests.core.kit import lab

# ── every check ───────────────────────────────────────────────────────────────────────────────────────────────


def batches(events):
    return sum(e.tx is None or e.seq == sum(e.tx) - 1 for e in events)


@pytest.mark.parametrize("log", logs()[::7], ids=lambda log: log.name)
def test_every_check_accounts_for_every_event(log):
    found = judged(sealed(log.events), log.head)
    assert [t.check for t in found.checks] == list(CHECKS)
    for tally in found.checks:
        on = CHECKS[tally.check].on
        whole = {LOG: 1, BATCH: batches(log.events)}.get(on, len(log.events))
        assert tally.passed + tally.failed + tally.not_applicable == whole, tally
        assert tally.failed == 0
        if on == ALL:
            assert tally.passed + tally.not_applicable == len(log.events)


def test_every_check_is_explained_numbered_and_passes_somewhere():
    passed = {t.check for log in logs() for t in judged(sealed(log.events), log.head).checks if t.passed}
    outside = {"stored-head", "stored-state", "signature"}
    assert set(CHECKS) - passed - outside <= NEVER_PASSED
    for check in CHECKS.values():
        assert check.says.endswith("."), check.id
        assert len(check.says) > 20, check.id
        assert check.rule[0] in GROUPS
        assert check.rule[1:].isdecimal()


OF_ALL = [c for c in CHECKS.values() if c.on == ALL and c.run is not None]


def steps_through(count):
    """Yield (checker, event) of logs that mutators have changed, as far as they can be applied: *count* for each way."""
    for name in MUTATORS:
        for _, events in itertools.islice(fitting(name), count):
            whole = sealed(events)
            checker = Checker(whole.run, whole.blobs.__getitem__)
            for record in whole.records:
                event = hydrate(from_body(record.body), checker.blob)
                checker.record, checker.task = record, checker.run.tasks.get(event.task, NO_TASK)
                yield checker, event
                try:
                    checker.take(event)
                except Exception:
                    break
                if event.seq == checker.tx_end:
                    checker.end_batch()


def test_an_ordinary_event_is_one_that_every_check_of_all_events_passes():
    """Else what most events pass at once would hide what one of these checks finds."""
    seen = {True: 0, False: 0}
    for checker, event in steps_through(2):
        easy = ordinary(checker, event)
        seen[easy] += 1
        for c in OF_ALL if easy else ():
            assert c.run(checker, event) == (None if c.id in IDLE else ""), (c.id, event)
    assert seen[True] > 10 * seen[False] > 0


def test_in_a_plain_event_the_checks_that_are_not_asked_have_nothing_to_look_at():
    seen = {(kind, easy): 0 for kind in PLAIN for easy in (True, False)}
    for checker, event in steps_through(2):
        kind = place_of(event).kind
        if kind in PLAIN:
            easy = is_plain(checker, event, PLAIN[kind].is_so)
            seen[kind, easy] += 1
            for name in PLAIN[kind].idle if easy else ():
                assert CHECKS[name].run(checker, event) is None, (name, event)
    assert min(seen.values()) > 0


def test_an_event_that_its_plainness_stumbles_over_is_not_plain():
    assert not is_plain(Checker("r", bytes), Event(1, 1, "task_moved", {}, "a"), PLAIN["task:start"].is_so)


CREDENTIALS = (
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN EC PRIVATE KEY-----",
    "AKIA" + "A0" * 8,
    "gho_" + "a0" * 18,
    "ghp_" + "a0" * 18,
    "github_pat_" + "a0_" * 20,
    "xoxb-" + "a0-" * 7,
    "sk-" + "a0_-" * 8,
    "sk-ant-" + "a0_-" * 8,
    "sk-proj-" + "a0_-" * 8,
)
"""One of each kind that is known, none of them real."""
NO_CREDENTIALS = ("task-", "gho_", "github_pat_", "AKIA", "xox-y", "KEY-", "ghost", "disk-" + "a0" * 16)


def told(words):
    log = log_of(min(log.file for log in logs()))
    event = Event(10**9, 1, "note_added", {"text": words, "by": "ann"}, None, None, None, ANN)
    found = judged(sealed(inserted(list(log.events), 1, event)))
    return {f.check for f in found.findings}


@pytest.mark.parametrize("credential", CREDENTIALS)
@pytest.mark.parametrize("around", ["{}", "use {} here", "task-1: ({})"])
def test_a_credential_of_every_known_kind_is_found_wherever_it_stands(credential, around):
    assert "no-credentials" in told(around.format(credential))


@pytest.mark.parametrize("words", [*NO_CREDENTIALS, *(f"x{c}" for c in CREDENTIALS[2:])])
def test_what_only_looks_a_little_like_a_credential_is_none(words):
    assert "no-credentials" not in told(words)


NEVER_PASSED = {"approval-in-time", "forked-in-its-place", "parents-events"}
"""Checks of what no scenario does; other tests make such runs."""


def test_a_failure_counts_where_it_is_and_behind_it_only_the_chain_is_followed():
    log = next(log for log in logs() if len(log.events) > 20)
    events = list(log.events)
    events[9] = events[9]._replace(type="run_sang")
    found = judged(sealed(events))
    by = {t.check: t for t in found.checks}
    assert found.unchecked == len(events) - 10
    assert by["hash-chain"].passed == len(events)
    assert (by["known-type"].failed, by["applies"].failed) == (1, 1)
    assert by["numbered"].passed == 10


def test_of_very_many_findings_the_first_are_kept_and_all_are_counted():
    log = max(logs(), key=lambda log: len(log.events))
    events = [e._replace(at=1) for e in log.events]
    many = [*events, *(Event(e.seq + len(events), 1, "note_added", {"text": "x"}) for e in events * 40)]
    found = judged(sealed([e._replace(seq=n, tx=None, cause=None) for n, e in enumerate(many, 1)]))
    assert len(found.findings) == MAX_FINDINGS + 0
    assert next(t.failed for t in found.checks if t.check == "times-rise") == len(many) - 1


# ── everywhere the same ───────────────────────────────────────────────────────────────────────────────────────


def written(folder, count=6):
    for n, log in enumerate(logs()[:: len(logs()) // count][:count]):
        (folder / f"{n}.jsonl").write_bytes(sealed(log.events).lines)
    log, events = next(fitting("an argument is another fitted"))
    (folder / "forged.jsonl").write_bytes(sealed(events).lines)
    return folder


def process(*arguments, **environment):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "FSM_AGENT"))}
    return subprocess.run(
        [sys.executable, "-m", "fsm_agent", "audit", *arguments],
        capture_output=True,
        env={**kept, "PYTHONUTF8": "1", **environment},
        timeout=120,
        check=False,
    )


PLACES = (
    {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"},
    {"PYTHONHASHSEED": "4242", "TZ": "Asia/Kathmandu", "LC_ALL": "tr_TR.UTF-8"},
    {"PYTHONHASHSEED": "random", "TZ": "America/St_Johns", "LANG": "zh_CN.UTF-8"},
)


@pytest.mark.parametrize("form", [("--json",), ("-v",), ("--json", "--jobs", "2"), ("--hash-only",)])
def test_two_auditors_get_the_same_bytes_wherever_they_are(form, tmp_path):
    folder = written(tmp_path)
    shown = [process(str(folder), *form, **place) for place in PLACES]
    assert {one.returncode for one in shown} == {0 if "--hash-only" in form else 7}
    assert len({one.stdout for one in shown}) == 1
    assert shown[0].stdout


def test_several_processes_say_what_one_says(tmp_path):
    folder = written(tmp_path)
    one, two = (process(str(folder), "--json", "--jobs", n) for n in "12")
    assert one.stdout == two.stdout
    found = orjson.loads(one.stdout)
    assert found["verdict"] == "violations"
    assert len(found["logs"]) == 7
    assert found["events"] == sum(log["events"] for log in found["logs"])
    assert {check["check"] for check in found["logs"][0]["checks"]} == set(CHECKS)


# ── many ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("err", "quiet", "drawn"), [(Terminal, False, True), (Terminal, True, False), (io.StringIO, False, False)]
)
def test_progress_is_drawn_where_a_person_looks_on(err, quiet, drawn, tmp_path):
    folder = written(tmp_path)
    screen = Screen(out=io.StringIO(), err=err(), quiet=quiet)
    done = audited(screen, log=str(folder), head=None, key=None, hash_only=False, jobs=1)
    assert done.exit_code == 7
    assert ("7 of 7 logs" in screen.err.getvalue()) == drawn
    assert screen.err.getvalue() == "" or drawn


def test_the_chain_alone_is_followed_in_files(tmp_path):
    screen = Screen(out=io.StringIO(), err=io.StringIO())
    with pytest.raises(UsageError, match="export the run first"):
        audited(screen, log="r-1234", head=None, key=None, hash_only=True, jobs=1)
    file = written(tmp_path, 1) / "0.jsonl"
    done = audited(screen, log=str(file), head=None, key=None, hash_only=True, jobs=1)
    assert (done.exit_code, done.value.verdict) == (0, "clean")
    assert done.value.audits[0][1].unchecked == done.value.audits[0][1].events


# ── alive ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Growing:
    """A store in which its owner goes on the moment somebody has asked where a log ends."""

    def __init__(self, store, goes_on):
        self._store, self._goes_on = store, goes_on

    def info(self, run):
        found = self._store.info(run)
        self._goes_on()
        return found

    def __getattr__(self, name):
        return getattr(self._store, name)


def test_a_run_is_audited_while_it_goes_on():
    with lab([{"id": "a", "tool": "look"}, {"id": "b", "tool": "look", "depends_on": ["a"]}]) as it:
        before = it.run.seq
        found = audit_run(Growing(it.store, lambda: it.returns("a", {"n": 1})), "r")
        assert (found.verdict, found.events) == ("open", before)
        assert it.run.seq > before
        assert {t.check for t in found.checks if t.passed} >= {"stored-head", "stored-state"}
        it.returns("b", 1)
        assert audit(it.store, run="r").verdict == "clean"


# ── memory ────────────────────────────────────────────────────────────────────────────────────────────────────


def long(count, make):
    """Return the start of a log, *count* events of a running step, and its end, as records made one at a time."""
    with lab([{"id": "a", "tool": "look"}]) as it:
        it.returns("a", {"n": 1})
        log = it.events()
    start = next(i for i, e in enumerate(log) if e.type == "task_moved" and e.data["trigger"] == "start") + 1
    at = log[start - 1].at

    def records():
        previous, seq = genesis("r").hash, 0
        for e in stream():
            seq += 1
            by = seq - e.seq
            tx = None if e.tx is None else [e.tx[0] + by, e.tx[1]]
            cause = None if e.cause is None or e.cause > start else e.cause
            (record,), blobs = seal(genesis("r"), [e._replace(seq=seq, tx=tx, cause=cause)])
            previous = chain(previous, record.body)
            yield record._replace(hash=previous), blobs

    def stream():
        yield from (e for e in log[:start])
        yield from (make(n)._replace(at=at + 1 + n) for n in range(count))
        report = {**log[-1].data["report"], "used": {**log[-1].data["report"]["used"]}}
        report["used"]["active_us"] += count + 1
        rest = [*log[start:-1], log[-1]._replace(data={"report": report})]
        yield from (e._replace(at=e.at + count + 1) for e in rest)

    return records()


def peak(judge):
    tracemalloc.start()
    try:
        found = judge()
        return found, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def reports(n):
    return Event(0, 0, "progressed", {"attempt": 1, "advanced": True, "note": f"{n} " + "x" * 40}, "a")


def test_memory_does_not_grow_with_the_number_of_events(full):
    few, many = (2_000, 100_000) if full else (500, 8_000)

    def nothing(digest):
        raise AssertionError(digest)

    sizes = []
    for count in (few, many):
        found, size = peak(
            lambda count=count: audit_records("r", (r for r, _ in long(count, reports)), nothing)
        )
        assert (found.verdict, found.findings) == ("clean", ())
        assert found.events > count
        sizes.append(size)
    assert sizes[1] < sizes[0] + 200_000


def test_memory_does_not_grow_with_what_large_values_hold(tmp_path):
    def late(n):
        return Event(
            0,
            0,
            "late_result",
            {"attempt": 1, "outcome": {"kind": "value", "value": f"{n:02}" * 200_000}},
            "a",
        )

    sizes = []
    for count in (3, 30):
        file = tmp_path / f"{count}.jsonl"
        with lab([{"id": "a", "tool": "look"}]) as it:
            it.returns("a", {"n": 1})
            log = it.events()
        end = log[-1]
        events = [*log, *(late(n)._replace(seq=end.seq + 1 + n, at=end.at + 1 + n) for n in range(count))]
        whole = sealed(events, "r")
        file.write_bytes(whole.lines)
        del whole, events
        found, size = peak(lambda file=file: audit_log(file))
        assert (found.verdict, found.findings) == ("clean", ())
        sizes.append(size)
    assert sizes[1] < sizes[0] + 1_000_000


# ── the chain alone ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_chain_alone_finds_every_change_of_bytes_and_no_change_of_meaning():
    log = max(logs(), key=lambda log: len(log.events))
    data = sealed(log.events).lines
    found = audit_hashes(data, head_of=lambda run: log.head)
    assert (found.verdict, found.findings, found.head) == ("clean", (), log.head)
    assert found.unchecked == found.events == len(log.events)
    assert {t.check for t in found.checks if t.passed} == {"hash-chain", "head"}
    for at in range(0, len(data), 997):
        flipped = data[:at] + bytes([data[at] ^ 2]) + data[at + 1 :]
        assert audit_hashes(flipped).verdict == "violations"
    forged = sealed(MUTATORS["a decision is another"](list(log.events)))
    assert audit_hashes(forged.lines).verdict == "clean"
    assert {f.check for f in audit_hashes(forged.lines, head_of=lambda run: log.head).findings} == {"head"}
    assert audit_hashes(b"").verdict == "violations"
    assert audit_hashes(data[:-3]).verdict == "violations"


def test_a_large_value_that_is_another_is_found_by_the_chain_alone():
    log = next(log for log in logs() if b'{"$blob"' in sealed(log.events).lines)
    data = sealed(log.events).lines
    assert audit_hashes(data).verdict == "clean"
    at = data.index(b'"value":') + 20
    assert audit_hashes(data[:at] + b"~" + data[at + 1 :]).verdict == "violations"
    assert to_line(sealed(log.events).records[0]) + b"\n" in data
    assert log_of(log.file) is log


@pytest.mark.parametrize("origin", ["rule", "alternative"])
def test_nothing_that_is_prepared_is_for_the_run_as_a_whole(origin):
    log = next(log for log in logs() if log.name == "seeds/000-a-dear-step-looks-for-a-cheaper-way-once")
    events = [
        e._replace(data={**e.data, "origin": origin})
        if e.type == "plan_adopted" and e.data["origin"] == "model"
        else e
        for e in log.events
    ]
    found = judged(sealed(events)).findings
    assert [f.message for f in found] == [f"nothing in the log proposes this plan of origin {origin}"]
