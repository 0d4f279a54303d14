"""Whoever hashes a changed history anew is found by what it says; where that cannot be, by a head or a signature.

Each mutator is tried on twenty logs of scenarios that have something for it to change. What only a head shows
stands in a list, with the reason.
"""

import itertools

import pytest

from fsm_agent.runtime.proof.auditing import audit_log
from fsm_agent.runtime.proof.signing import KeySigner, Verifier, make_keys
from tests.audit.corpus import RUN_ID, judged, log_of, logs, sealed
from tests.audit.mutators import HEAD_ONLY, MUTATORS

LOGS = 20


def fitting(name):
    """Yield the first logs that the mutator fits with what it makes of them; where few do, under further seeds too."""
    mutate, count, files = MUTATORS[name], 0, []
    first = ((log, True) for log in logs())
    again = ((log_of(file, seed), False) for seed in itertools.count(1) for file in files)
    for log, fresh in itertools.chain(first, again):
        events = mutate(list(log.events))
        if events is None or list(events) == list(log.events):
            continue
        if fresh:
            files.append(log.file)
        yield log, events
        count += 1
        if count == LOGS:
            return


def tried(name):
    """Yield (log, audit without a head, audit with the head)."""
    for log, events in fitting(name):
        forged = sealed(events)
        yield log, judged(forged), judged(forged, log.head)


def test_there_are_enough_ways_and_logs():
    assert len(MUTATORS) >= 80
    assert len(logs()) >= 100
    assert set(HEAD_ONLY) <= set(MUTATORS)


@pytest.mark.parametrize("name", MUTATORS)
def test_a_history_that_was_changed_and_hashed_anew_is_found(name):
    missed = []
    count = 0
    for log, bare, kept in tried(name):
        count += 1
        assert kept.verdict == "violations", f"{log.name}: not even with the head"
        assert "head" in {f.check for f in kept.findings}
        if not bare.findings:
            missed.append(log.name)
    assert count == LOGS
    assert not missed or name in HEAD_ONLY, f"missed in {missed}"


@pytest.mark.parametrize("name", HEAD_ONLY)
def test_what_only_a_head_shows_is_really_not_shown_by_the_rules_somewhere(name):
    assert any(not bare.findings for _, bare, _ in tried(name)), "it may be struck from the list"


@pytest.mark.parametrize("log", logs(), ids=lambda log: log.name)
def test_an_honest_log_is_found_clean_and_hashing_it_anew_changes_nothing(log):
    found = judged(sealed(log.events), log.head)
    assert found.findings == ()
    assert found.head == log.head


@pytest.mark.parametrize("name", HEAD_ONLY)
def test_what_only_a_head_shows_a_signature_shows_too(name, tmp_path):
    key = str(tmp_path / "sign.key")
    make_keys(key)
    log, events = next(fitting(name))
    signer = KeySigner(key, str(tmp_path / "checkpoints"))
    signer.sign(RUN_ID, log.head)
    checkpoints = (tmp_path / "checkpoints").read_bytes()
    verifier = Verifier(key + ".pub")
    assert audit_log(sealed(log.events).lines + checkpoints, key=verifier).verdict != "violations"
    found = audit_log(sealed(events).lines + checkpoints, key=verifier)
    assert "signature" in {f.check for f in found.findings}
