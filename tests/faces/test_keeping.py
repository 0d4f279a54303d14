"""Looking after a store from the command line: old runs, keys, and audits that use both."""

import pytest

from fsm_agent.core.errors import UsageError
from fsm_agent.faces.look.keeping import age_us


def test_old_finished_runs_are_removed_and_others_say_why_they_stay(cli):
    assert cli("run", "desk", "--run-id", "waits").code == 4
    assert cli("run", "desk", "--run-id", "over").code == 4
    cli("cancel", "over", "--by", "ann")
    cli("resume", "over")
    code, found = cli.json("runs", "gc", "--older-than", "0s", "--by", "ann")
    assert code == 0
    assert {one["run"]: one["removed"] for one in found["collected"]} == {"waits": False, "over": True}
    assert [one["run"] for one in found["runs"]] == ["waits"]
    shown = cli("runs", "gc", "--older-than", "1s")
    assert "nothing was removed" in shown.out or "kept" in shown.out
    gone = cli("status", "over")
    assert gone.code == 9
    assert "removed" in gone.err
    assert cli("run", "desk", "--run-id", "over").code != 0
    shown = cli("runs", "gc", "--older-than", "0s")
    assert "kept, it is awaiting-confirmation" in " ".join(shown.out.split())


@pytest.mark.parametrize("age", ["", "30", "d", "-1d", "1y", "1 d", None])
def test_an_age_of_another_form_is_wrong_usage(age):
    with pytest.raises(UsageError, match="such as 30d"):
        age_us(age)


def test_ages():
    assert [age_us(a) for a in ("1s", "1.5m", "2h", "1d", "1w")] == [
        s * 1_000_000 for s in (1, 90, 7200, 86_400, 604_800)
    ]


def test_an_age_without_gc_is_wrong_usage(cli):
    assert cli("runs", "--older-than", "1d").code == 2
    assert cli("runs", "gc").code == 2


def test_a_key_is_made_and_a_signed_run_is_audited_with_it(cli, monkeypatch):
    code, made = cli.json("key", "sign.key")
    assert code == 0
    monkeypatch.setenv("FSM_AGENT_SIGNING_KEY", made["private"])
    assert cli("run", "desk", "--run-id", "r1").code == 4
    code, found = cli.json("audit", "r1", "--key", made["public"])
    assert (code, found["verdict"], found["signed"]) == (0, "open", found["events"])
    assert found["kept"] == found["head"]
    shown = cli("audit", "r1", "--key", made["public"])
    assert f"signed up to event {found['events']}" in " ".join(shown.out.split())
    assert cli("export", "r1", "-o", "r1.jsonl").code == 0
    assert cli.json("audit", "r1.jsonl", "--key", made["public"])[0] == 0
    assert cli.json("key", "other.key")[0] == 0
    assert cli.json("audit", "r1.jsonl", "--key", "other.key.pub")[0] == 7
    assert cli("key", "sign.key").code == 2


def test_an_audit_without_a_head_says_what_it_cannot_see(cli):
    cli("run", "desk", "--run-id", "r1")
    cli("export", "r1", "-o", "r1.jsonl")
    shown = " ".join(cli("audit", "r1.jsonl").out.split())
    assert "a cut at the border of a batch would not show" in shown
    shown = " ".join(cli("audit", "r1").out.split())
    assert "against the head kept outside at event" in shown
    found = cli.json("audit", "r1.jsonl", "--head", ".fsm_agent/runs.db.heads")
    assert found[0] == 0
    assert found[1]["kept"]["seq"] == found[1]["events"]


def test_signatures_and_heads_travel_with_an_export_into_another_store(cli, monkeypatch):
    _, made = cli.json("key", "sign.key")
    monkeypatch.setenv("FSM_AGENT_SIGNING_KEY", made["private"])
    cli("run", "desk", "--run-id", "r1")
    cli("export", "r1", "-o", "r1.jsonl")
    assert cli("import", "r1.jsonl", "--store", "other.db").code == 0
    code, found = cli.json("audit", "r1", "--store", "other.db", "--key", made["public"])
    assert (code, found["signed"]) == (0, found["events"])
