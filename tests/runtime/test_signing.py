"""Signed checkpoints: made where they must be, and whoever lacks the key cannot change what lies before them."""

import io
import itertools
import json
import os
import stat
import sys
from pathlib import Path

import pytest

from fsm_agent import RunController, audit
from fsm_agent.core.errors import ConfigError, UsageError
from fsm_agent.core.events import from_body, genesis, seal, to_line
from fsm_agent.runtime.proof.heads import SIGNING_KEY
from fsm_agent.runtime.proof.signing import (
    KeySigner,
    make_keys,
    place_of,
    read_checkpoints,
    write_checkpoints,
)
from fsm_agent.stores import open_store
from fsm_agent.stores.transfer import export_run, import_run
from tests.runtime.runs import go, one, plan_of, running, toolbox

pytest.importorskip("cryptography", reason="the extra sign is not installed")


@pytest.fixture
def key(tmp_path, monkeypatch):
    make_keys(tmp_path / "sign.key")
    monkeypatch.setenv(SIGNING_KEY, str(tmp_path / "sign.key"))
    return tmp_path / "sign.key.pub"


def finished(place, run_id="r", steps=1):
    async def scenario():
        plan = plan_of(*({"id": f"s{n}", "tool": "do"} for n in range(steps)))
        async with running(plan, toolbox(lambda: 1), store=place, run_id=run_id) as run:
            await run.wait()
            return run.head

    return go(scenario())


def exported(place, file, run_id="r"):
    store = open_store(place, read_only=True)
    lines = [c.line for c in read_checkpoints(place_of(str(place)), run_id)]
    with file.open("wb") as out:
        export_run(store, run_id, out, checkpoints=lines)
    store.close()
    return file


@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl"])
def test_the_end_of_a_run_is_signed_and_the_audit_says_how_far(tmp_path, key, name):
    head = finished(tmp_path / name)
    assert read_checkpoints(place_of(str(tmp_path / name)), "r")[-1].head == head
    found = audit(tmp_path / name, run="r", key=key)
    assert (found.verdict, found.signed) == ("clean", head.seq)
    assert audit(tmp_path / name, run="r").signed is None


def test_approvals_are_signed_and_every_256_events_too(tmp_path, key):
    async def scenario():
        plan = plan_of(
            {"id": "ask", "tool": "do", "requires_confirmation": True},
            *({"id": f"s{n}", "tool": "do", "depends_on": ["ask"]} for n in range(250)),
        )
        async with running(
            plan, toolbox(lambda: 1, effect="write"), store=tmp_path / "runs.db", run_id="r"
        ) as run:
            await run.wait()
            (question,) = run.questions
            await question.approve(by="ann")
            answered = [e.seq async for e in run.events() if e.type == "approval_answered"]
            signed = [c.head.seq for c in read_checkpoints(place_of(str(tmp_path / "runs.db")), "r")]
            assert answered[0] in range(signed[-1] - 20, signed[-1] + 1)
            await run.wait()

    go(scenario())
    signed = [c.head.seq for c in read_checkpoints(place_of(str(tmp_path / "runs.db")), "r")]
    assert signed == sorted(set(signed))
    assert len(signed) >= 4
    assert max(b - a for a, b in itertools.pairwise(signed)) < 300


def test_the_log_is_byte_for_byte_the_one_without_signatures(tmp_path, key):
    finished(tmp_path / "runs.jsonl")
    lines = (tmp_path / "runs.jsonl" / "r.jsonl").read_bytes().splitlines()
    assert not any(b"$checkpoint" in line for line in lines)
    file = exported(tmp_path / "runs.jsonl", tmp_path / "out.jsonl")
    written = file.read_bytes().splitlines()
    assert written[: len(lines)] == lines
    extra = [json.loads(line)["$checkpoint"] for line in written[len(lines) :]]
    assert [sorted(c) for c in extra] == [["hash", "key", "run", "seq", "sig"]] * len(extra)
    assert extra


def test_an_export_carries_its_signatures_and_an_import_reads_past_them(tmp_path, key):
    head = finished(tmp_path / "runs.db")
    file = exported(tmp_path / "runs.db", tmp_path / "out.jsonl")
    assert (audit(file, key=key).verdict, audit(file, key=key).signed) == ("clean", head.seq)
    assert audit(file).verdict == "clean"
    store = open_store(tmp_path / "other.db")
    assert import_run(store, file, owner="ann", now_us=1).head == head
    again = io.BytesIO()
    export_run(store, "r", again)
    assert file.read_bytes().startswith(again.getvalue())
    store.close()


def test_whoever_seals_a_changed_log_anew_without_the_key_is_found(tmp_path, key):
    finished(tmp_path / "runs.db", steps=3)
    file = exported(tmp_path / "runs.db", tmp_path / "out.jsonl")
    lines = file.read_bytes().splitlines()
    events = [
        from_body(json_line[: -len(b',"hash":""}') - 64] + b"}")
        for json_line in lines
        if b'"hash"' in json_line[-80:]
    ]
    forged = [e._replace(data={**e.data, "owner": "mallory"}) if e.seq == 1 else e for e in events]
    records, _ = seal(genesis("r"), forged)
    checkpoints = [line for line in lines if line.startswith(b'{"$checkpoint"')]
    (tmp_path / "forged.jsonl").write_bytes(
        b"".join(to_line(r) + b"\n" for r in records) + b"".join(c + b"\n" for c in checkpoints)
    )
    assert audit(tmp_path / "forged.jsonl").verdict == "clean"  # the chain alone cannot know
    found = audit(tmp_path / "forged.jsonl", key=key)
    assert found.verdict == "violations"
    assert {f.check for f in found.findings} == {"signature"}
    assert found.signed == 0


def test_a_cut_tail_contradicts_the_checkpoints_behind_it(tmp_path, key):
    head = finished(tmp_path / "runs.db", steps=3)
    file = exported(tmp_path / "runs.db", tmp_path / "out.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_bytes(b"".join([*lines[:3], lines[-1]]))
    found = audit(tmp_path / "cut.jsonl", key=key)
    assert [(f.check, f.seq) for f in found.findings] == [("signature", head.seq)]
    assert "no event there" in found.findings[0].message


@pytest.mark.parametrize("forge", ["other key", "other run", "other seq", "no signature", "rubbish", "none"])
def test_what_the_key_did_not_sign_is_no_signature(tmp_path, key, forge, monkeypatch):
    place = tmp_path / "runs.db"
    finished(place)
    name = place_of(str(place))
    last = read_checkpoints(name, "r")[-1]
    os.unlink(name)
    if forge == "other key":
        make_keys(tmp_path / "other.key")
        KeySigner(tmp_path / "other.key", name).sign("r", last.head)
    elif forge == "other run":
        KeySigner(os.environ[SIGNING_KEY], name).sign("q", last.head)
    elif forge == "other seq":
        facts = json.loads(last.line)["$checkpoint"] | {"seq": last.head.seq - 1}
        with open(name, "w") as file:
            file.write(json.dumps({"$checkpoint": facts}, separators=(",", ":")) + "\n")
    elif forge == "no signature":
        with open(name, "wb") as file:
            file.write(last.line.replace(last.signature.hex().encode(), b"00" * 64))
    elif forge == "rubbish":
        with open(name, "wb") as file:
            file.write(b'{"$checkpoint":{}}\n\xff\n{"$checkpoint":7}\nx')
    found = audit(place, run="r", key=key)
    assert found.verdict == "violations"
    assert [f.check for f in found.findings] == ["signature"]


def test_a_checkpoint_that_a_crash_left_half_written_costs_only_itself(tmp_path, key):
    place = tmp_path / "runs.db"
    finished(place)
    name = place_of(str(place))
    whole = read_checkpoints(name, "r")
    with open(name, "ab") as file:
        file.write(whole[-1].line[:50])
    write_checkpoints(name, [whole[-1]])
    assert read_checkpoints(name, "r") == [*whole, whole[-1]]
    assert audit(place, run="r", key=key).verdict == "clean"


def test_checkpoints_that_were_lost_vouch_for_nothing_and_the_audit_says_how_far_the_others_go(tmp_path, key):
    place = tmp_path / "runs.db"

    async def held():
        plan = one("do", requires_confirmation=True)
        async with running(plan, toolbox(lambda: 1), store=place, run_id="r") as run:
            await run.wait()

    async def goes_on():
        async with await RunController.open(place, "r", toolbox(lambda: 1)) as run:
            await run.questions[0].approve(by="ann")
            await run.wait()
            return run.head

    go(held())
    file = Path(place_of(str(place)))
    file.unlink()
    found = audit(place, run="r", key=key)
    assert (found.verdict, [f.check for f in found.findings]) == ("violations", ["signature"])
    head = go(goes_on())
    assert audit(place, run="r", key=key).signed == head.seq, "whoever goes on signs what was there, too"
    lines = file.read_bytes().splitlines(keepends=True)
    assert len(lines) > 1
    for left in range(1, len(lines)):
        file.write_bytes(b"".join(lines[:left]))
        found = audit(place, run="r", key=key)
        assert (found.verdict, found.findings) == ("clean", ())
        assert found.signed == read_checkpoints(str(file), "r")[-1].head.seq <= head.seq


def test_a_private_key_is_its_owners_alone_and_no_file_is_overwritten(tmp_path):
    name = make_keys(tmp_path / "k")
    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600
    assert len(name) == 16
    before = (tmp_path / "k").read_bytes()
    with pytest.raises(UsageError, match="File exists"):
        make_keys(tmp_path / "k")
    assert (tmp_path / "k").read_bytes() == before


def test_a_key_that_is_none_is_refused_before_anything_is_stored(tmp_path, monkeypatch):
    make_keys(tmp_path / "k")
    (tmp_path / "text").write_text("no key")
    for wrong in ("missing", "text", "k.pub"):
        monkeypatch.setenv(SIGNING_KEY, str(tmp_path / wrong))
        with pytest.raises(ConfigError, match="fsm-agent key"):
            finished(tmp_path / "runs.db")
    assert open_store(tmp_path / "runs.db").runs() == []
    monkeypatch.delenv(SIGNING_KEY)
    finished(tmp_path / "runs.db")
    for wrong in ("missing", "text", "k"):
        with pytest.raises(ConfigError, match="fsm-agent key"):
            audit(tmp_path / "runs.db", run="r", key=tmp_path / wrong)


def test_without_the_extra_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(ConfigError, match=r"install fsm-agent\[sign\]"):
        make_keys(tmp_path / "k")


def test_a_store_in_memory_signs_nothing(key):
    async def scenario():
        async with running(one("do"), toolbox(lambda: 1)) as run:
            await run.wait()
            assert run.heads.signer is None

    go(scenario())
