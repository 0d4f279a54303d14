"""Every bit of a log flipped, and the log cut at every length: what the verifier finds, and what it cannot.

All bits and all lengths go through the reading half of the verifier (lines and chain; what stands before the damage
is as it was, so each reading begins there). The whole audit judges a part of them here, and all of them with
``--full``.
"""

import io

import pytest

from fsm_agent import audit
from fsm_agent.core.events import Head, chain, from_body, genesis, hydrate
from fsm_agent.runtime.proof.auditing import audit_log
from fsm_agent.stores.lines import parse, scan
from fsm_agent.stores.transfer import export_run
from tests.crash.rig import lives


def a_log():
    """A log of about 20 KB with a crash, a look-up, an approval and an end in it; its head; where its batches end."""
    _, _, store, _ = lives("request lost", [])
    out = io.BytesIO()
    head = export_run(store.survivor(kept=store.soft_changes()), "r", out)
    data = out.getvalue()
    whole = scan(data, genesis("r"))
    assert whole.fault is None
    assert 18_000 < len(data) < 30_000
    borders, at = {0}, 0
    for line, record in zip(data.splitlines(keepends=True), whole.records, strict=True):
        at += len(line)
        first, count = from_body(record.body).tx or [record.seq, 1]
        if first + count - 1 == record.seq:
            borders.add(at)
    return data, head, sorted(borders)


LOG, HEAD, BORDERS = a_log()
STARTS = []
"""Of each line: its offset, and the head before it."""
_at, _head = 0, genesis("r")
for _line in LOG.splitlines(keepends=True):
    STARTS.append((_at, len(_line), _head))
    _record = parse(_line[:-1])
    _at, _head = _at + len(_line), Head(_record.seq, _record.hash)


def flipped(at, bit):
    return LOG[:at] + bytes([LOG[at] ^ 1 << bit]) + LOG[at + 1 :]


def judged(data, head=None):
    """The verdict of the whole audit; that it has one is the half of what is tested."""
    return audit_log(data, head_of=lambda run: head)


@pytest.mark.parametrize("part", range(4))
def test_a84_every_flipped_bit_is_noticed_by_whoever_reads_the_log(part):
    missed = []
    for start, size, head in STARTS:
        line = LOG[start : start + size]
        for at in range(part, size, 4):
            for bit in range(8):
                changed = line[:at] + bytes([line[at] ^ 1 << bit]) + line[at + 1 :]
                found = scan(changed, head)
                if found.fault is None or found.records:
                    missed.append((start + at, bit))
    assert missed == []


@pytest.mark.parametrize("part", range(4))
def test_the_audit_finds_every_flipped_bit_and_never_breaks(part, full):
    missed = []
    step = 1 if full else 97
    for number in range(part * step, len(LOG) * 8, 4 * step):
        at, bit = divmod(number, 8)
        found = judged(flipped(at, bit))
        if found.verdict != "violations":
            missed.append((at, bit))
    assert missed == []


def test_a_flipped_bit_is_found_at_the_event_in_which_it_is():
    for seq, (start, size, _) in enumerate(STARTS, 1):
        for at in (start + 1, start + size // 2, start + size - 10):
            seqs = [finding.seq for finding in judged(flipped(at, 0)).findings]
            assert seq in seqs or (seq == len(STARTS) and seqs), (seq, at, seqs)


def test_the_audit_of_a_file_is_the_audit_of_its_bytes(tmp_path):
    for at in range(0, len(LOG), 997):
        file = tmp_path / "log.jsonl"
        file.write_bytes(flipped(at, 3))
        assert audit(file).findings == judged(flipped(at, 3)).findings
    file.write_bytes(LOG)
    assert audit(file, head=HEAD).verdict == "clean"


def test_every_cut_is_noticed_with_the_head_and_without_it_all_but_those_between_batches(full):
    passed = set()
    for length in range(len(LOG)):
        start = max(at for at, _, _ in STARTS if at <= length)
        head = next(head for at, _, head in STARTS if at == start)
        found = scan(LOG[:length], genesis("r")) if full else scan(LOG[start:length], head)
        assert found.head != HEAD
        if found.fault is None and (full or start == length):
            passed.add(length)
    lines = {start for start, _, _ in STARTS}
    assert passed == (set(BORDERS[:-1]) if full else lines)


def test_the_audit_passes_exactly_the_cuts_between_batches_and_says_what_it_lacks(full):
    near = {start + by for start, size, _ in STARTS for by in (0, 1, size // 2, size - 1)}
    lengths = range(len(LOG)) if full else sorted(near | set(range(0, len(LOG), 61)))
    passed = set()
    for length in lengths:
        found = judged(LOG[:length])
        assert found.kept is None
        if found.verdict != "violations":
            passed.add(length)
            assert found.verdict == "open"
        assert judged(LOG[:length], HEAD).verdict == "violations"
    assert passed == set(BORDERS[1:-1])
    whole = judged(LOG, HEAD)
    assert (whole.verdict, whole.kept) == ("clean", HEAD)


def test_what_follows_the_end_of_a_log_is_noticed():
    for rubbish in (b"\0", b"\n", b"{}\n", LOG[:1], LOG[STARTS[-1][0] :], b"\xff" * 600):
        assert judged(LOG + rubbish).verdict == "violations"


def test_deleting_a_middle_event_and_linking_the_rest_anew_is_found():
    """The chain fits again; what the events say does not."""
    records = [parse(line) for line in LOG.splitlines()]
    for gone in range(1, len(records)):
        previous, lines = genesis("r").hash, []
        for record in (r for n, r in enumerate(records) if n != gone):
            previous = chain(previous, record.body)
            lines.append(record.body[:-1] + b',"hash":"' + previous.hex().encode() + b'"}\n')
        found = judged(b"".join(lines))
        if gone < len(records) - 1:
            assert found.verdict == "violations", gone
        assert judged(b"".join(lines), HEAD).verdict == "violations"


def test_every_event_says_what_it_said_when_it_was_written():
    for line in LOG.splitlines():
        record = parse(line)
        assert hydrate(from_body(record.body), lambda name: b"").seq == record.seq
