"""``status``, ``events``, ``runs``, ``audit``, ``export``, ``import``: what is seen changes nothing."""

import json
import os
import stat

import pytest

from fsm_agent.core.events import genesis, seal, to_line
from fsm_agent.stores.lines import blob_line
from fsm_agent.stores.transfer import read_log
from tests.audit.corpus import logs


def whole(cli):
    """Bring run r1 to its end."""
    question = cli.json("run", "desk", "--run-id", "r1")[1]["questions"][0]
    cli("approve", "r1", "T3", "--digest", question["digest"])
    assert cli("resume", "r1").code == 0


def test_status_says_how_it_stands_and_what_to_type(cli, waiting):
    shown = cli("status", "r1")
    assert shown.code == 0
    assert "run r1: awaiting-confirmation, done 2 of 3, plan 1" in shown.out
    assert "goal: book a room" in shown.out
    assert 'guest = "Ann"' in shown.out
    assert "fsm-agent approve r1 T3 --digest" in shown.out


def test_looking_changes_neither_store_nor_log(cli, waiting):
    store = cli.path / ".fsm_agent" / "runs.db"
    before = store.read_bytes()
    for words in (["status", "r1"], ["events", "r1"], ["runs"], ["audit", "r1"], ["export", "r1"]):
        assert cli(*words).code == 0
    assert store.read_bytes() == before


def test_a_long_plan_is_cut_unless_v_asks_for_all(cli):
    steps = [{"id": f"S{i}", "description": f"step {i}"} for i in range(70)]
    (cli.path / "plan.json").write_text(json.dumps({"steps": steps}))
    cli("run", "plan.json", "--run-id", "r1")
    assert "... and 20 more (-v shows all)" in cli("status", "r1").out
    assert "S69" in cli("status", "r1", "-v").out.split("used:")[0]


def test_nothing_is_wider_than_80_columns_except_commands_and_heads(cli, waiting):
    whole_text = ""
    for words in (
        ["status", "r1"],
        ["events", "r1"],
        ["runs"],
        ["audit", "r1"],
        ["plan", "show", "desk"],
        ["fsm", "show", "task"],
    ):
        whole_text += cli(*words).out
    for words in (
        ["plan", "check", "desk"],
        ["rules", "show", "default"],
        ["rules", "check", "default"],
        ["plan", "graph", "desk"],
    ):
        whole_text += cli(*words).out
    wide = [line for line in whole_text.splitlines() if len(line) > 80]
    assert [line for line in wide if not line.startswith(("  fsm-agent ", "head ", "table "))] == []


def test_output_is_ascii_where_the_terminal_takes_no_more(cli, waiting):
    env = cli.env(PYTHONIOENCODING="ascii")
    for words in (["status", "r1"], ["events", "r1"], ["plan", "graph", "desk"], ["runs"]):
        shown = cli.process(*words, env=env)
        assert shown.code == 0, shown.err
        assert shown.out.isascii()
        assert "\\u" not in shown.out


def test_json_is_valid_where_the_terminal_takes_ascii_only(cli):
    shown = cli.process(
        "run", "desk", "--json", "--input", "guest=Zoë 周", env=cli.env(PYTHONIOENCODING="ascii")
    )
    assert json.loads(shown.out)["questions"][0]["args"]["guest"] == "Zoë 周"
    assert shown.out.isascii()


def test_text_from_outside_cannot_drive_the_terminal(cli):
    evil = "\x1b]0;owned\x07\x1b[2J\u202e"
    cli("run", "desk", "--run-id", "r1", "--input", f"guest={evil}")
    for words in (["status", "r1"], ["events", "r1", "-v"]):
        out = cli(*words).out
        assert "\x1b" not in out
        assert "\x07" not in out
        assert "\u202e" not in out


def test_the_id_of_a_foreign_run_cannot_drive_the_terminal(cli, tmp_path):
    evil = "r\x1b[2J\x9b2J\r"
    log = next(log for log in logs() if log.events[-1].type == "run_closed")
    first, *others = log.events
    records, values = seal(genesis(evil), [first._replace(data={**first.data, "run": evil}), *others])
    path = tmp_path / "log.jsonl"
    lines = [blob_line(name, value) for name, value in values.items()] + [
        to_line(record) for record in records
    ]
    path.write_bytes(b"\n".join(lines) + b"\n")
    for words in (["replay", str(path)], ["why", str(path)]):
        shown = cli(*words)
        assert shown.code != 7, words
        assert not set("\x1b\x9b\r") & set(shown.out + shown.err), words


def test_what_no_eye_sees_is_spelled_out_before_a_person_approves_it(cli):
    unseen = "\u200b\u200e\u200f\u061c\u00ad\u2060\ufeff\u3164\u180e\U000e0041\U000e0101"
    whole = "👩\u200d👧 ❤\ufe0f"  # one emoji each
    guest = f"ann{unseen}{whole}"
    cli("run", "desk", "--run-id", "r1", "--input", f"guest={guest}")
    for words in (["status", "r1"], ["inbox"]):
        out = cli(*words).out
        assert not set(unseen) & set(out)
        assert "\\u200b" in out
        assert whole.split()[0] in out


def test_a_json_document_cannot_drive_the_terminal_and_says_the_same(cli):
    evil = "\x1b[2J\x9b2J\x7f\u202e\u2066\u2028\u200b"
    cli("run", "desk", "--run-id", "r1", "--input", f"guest={evil}")
    _, document = cli.json("status", "r1")
    assert document["questions"][0]["args"]["guest"] == evil
    assert not set(evil.replace("[2J", "").replace("2J", "")) & set(cli("status", "r1", "--json").out)


def test_events_are_those_of_the_log_in_its_order(cli, waiting):
    lines = cli("events", "r1", "--jsonl").lines
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert cli("events", "r1", "--since", "5", "--jsonl").lines == lines[5:]
    code, document = cli.json("events", "r1")
    assert code == 0
    assert document == {"schema": "fsm-agent/events@1", "events": lines}
    plain = cli("events", "r1").out.splitlines()
    assert len(plain) == len(lines)
    assert "pending → running (start)" in plain[3]


def test_events_as_lines_are_the_exported_log_byte_for_byte(cli):
    (cli.path / "desk" / "tools.py").write_text(BIG)
    cli("run", "desk", "--run-id", "r1")
    exported = cli("export", "r1")
    assert cli("events", "r1", "--jsonl").out == exported.out
    assert exported.out.count('{"$blob":') == 1
    assert cli("export", "r1", "-o", "r1.jsonl").code == 0
    assert (cli.path / "r1.jsonl").read_text() == exported.out


BIG = """
from fsm_agent import Toolbox
tools = Toolbox()
@tools.read
def look_up(guest: str) -> dict:
    return {"known": True, "letter": "x" * 5000}
@tools.read
def price(nights: int, luck: str) -> dict:
    return {"total": 1}
@tools.write
def book(guest: str, total: float, luck: str) -> dict:
    return {"booking": "B-1"}
"""


def test_events_follow_until_the_run_ends(cli, waiting):
    with cli.start("events", "r1", "-f", "--jsonl") as following:
        assert json.loads(following.stdout.readline())["type"] == "run_created"
        cli("reject", "r1", "T3", "-m", "no")
        assert any('"type":"run_closed"' in line for line in following.stdout)
    assert following.returncode == 0
    assert cli("events", "r1", "-f").code == 0


def test_the_list_of_runs_is_oldest_first_and_says_what_to_do_when_it_is_empty(cli):
    assert "start one with: fsm-agent run PLAN" in cli("runs").out
    assert cli.json("runs") == (0, {"schema": "fsm-agent/runs@1", "store": ".fsm_agent/runs.db", "runs": []})
    cli("run", "desk", "--run-id", "b")
    cli("run", "desk", "--run-id", "a")
    document = cli.json("runs", "list")[1]
    assert [run["run"] for run in document["runs"]] == ["b", "a"]
    assert document["runs"][0].keys() == {"run", "state", "created", "updated", "driven", "head"}
    assert [line.split()[1] for line in cli("runs").out.splitlines()] == ["b", "a"]


def test_a_store_that_was_named_and_is_not_there_is_not_found(cli):
    assert cli("runs", "--store", "nowhere.db").code == 9
    assert cli("status", "r1").code == 9
    assert not (cli.path / ".fsm_agent").exists()


# ── audit ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_audit_has_the_documented_form(cli):
    whole(cli)
    code, document = cli.json("audit", "r1")
    assert code == 0
    assert {k: document[k] for k in ("schema", "verdict", "findings")} == {
        "schema": "fsm-agent/audit@1",
        "verdict": "clean",
        "findings": [],
    }
    assert document["events"] > document["transitions"] > document["decisions"] > 0
    assert "r1: clean" in cli("audit", "r1").out


def test_a_run_that_goes_on_is_open_and_nothing_is_wrong(cli, waiting):
    assert cli.json("audit", "r1")[1]["verdict"] == "open"
    assert cli("audit", "r1").code == 0


def test_an_exported_log_audits_as_the_run_does(cli):
    whole(cli)
    cli("export", "r1", "-o", "r1.jsonl")
    of_file, of_run = cli.json("audit", "r1.jsonl")[1], cli.json("audit", "r1")[1]
    same = of_file.keys() - {
        "kept",
        "checks",
    }  # beside a file no head is kept, and no store says where it ends
    assert {k: of_file[k] for k in same} == {k: of_run[k] for k in same}
    apart = [
        (a["check"], b["passed"]) for a, b in zip(of_file["checks"], of_run["checks"], strict=True) if a != b
    ]
    assert apart == [("stored-head", 1), ("stored-state", 1), ("head", 1)]
    with (cli.path / "r1.jsonl").open() as log:
        shown = cli.process("audit", "-", "--json", stdin=log)
    assert shown.json["verdict"] == "clean"


def test_every_changed_byte_of_a_log_is_a_violation(cli):
    whole(cli)
    cli("export", "r1", "-o", "r1.jsonl")
    data = (cli.path / "r1.jsonl").read_bytes()
    for at in range(5, len(data), 401):
        (cli.path / "changed.jsonl").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        code, document = cli.json("audit", "changed.jsonl")
        assert (code, document["verdict"]) == (7, "violations"), at
        assert document["findings"][0].keys() == {"seq", "check", "rule", "message"}


@pytest.mark.parametrize("content", [b"", b"\n", b"{}", b"{}\n", b"\x00\xff\n", b"no log\n"])
def test_what_is_no_log_is_a_violation_in_one_line(cli, content):
    (cli.path / "x.jsonl").write_bytes(content)
    shown = cli("audit", "x.jsonl")
    assert shown.code == 7
    assert "violations" in shown.out


def test_a_cut_tail_shows_against_the_head_that_was_kept(cli):
    whole(cli)
    cli("export", "r1", "-o", "r1.jsonl")
    lines = (cli.path / "r1.jsonl").read_bytes().splitlines(keepends=True)
    (cli.path / "cut.jsonl").write_bytes(b"".join(lines[:3]))
    assert cli("audit", "cut.jsonl").code == 0
    code, document = cli.json("audit", "cut.jsonl", "--head", ".fsm_agent/runs.db.heads")
    assert code == 7
    assert document["findings"][-1]["check"] == "head"


@pytest.mark.spoils_logs
def test_a_run_of_the_store_is_compared_with_its_head_without_being_told(cli, waiting):
    heads = cli.path / ".fsm_agent" / "runs.db.heads"
    assert cli("audit", "r1").code == 0
    heads.write_text(json.dumps({"run": "r1", "seq": 999, "hash": "0" * 64}) + "\n")
    code, document = cli.json("audit", "r1")
    assert code == 7
    assert "999" in document["findings"][0]["message"]


def test_a_directory_of_logs_is_audited_log_by_log(cli):
    whole(cli)
    (cli.path / "logs").mkdir()
    cli("export", "r1", "-o", "logs/a.jsonl")
    (cli.path / "logs" / "b.jsonl").write_text("no log\n")
    code, document = cli.json("audit", "logs")
    assert (code, document["verdict"]) == (7, "violations")
    assert [log["verdict"] for log in document["logs"]] == ["clean", "violations"]
    assert cli("audit", "desk").code == 9


def test_every_run_of_a_store_file_is_audited(cli, waiting):
    cli("run", "desk", "--run-id", "r2")
    code, document = cli.json("audit", ".fsm_agent/runs.db")
    assert (code, document["verdict"], [log["run"] for log in document["logs"]]) == (0, "open", ["r1", "r2"])
    cli("export", "r1", "-o", "r1.jsonl")
    assert cli("import", "r1.jsonl", "--store", "logs/").code == 0
    assert [log["run"] for log in cli.json("audit", "logs")[1]["logs"]] == ["r1"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["audit", "nowhere.jsonl"], 9),
        (["audit", "r9"], 9),
        (["audit", "r1", "--head", "nowhere"], 9),
        (["audit", "r1", "--head", "empty"], 2),
    ],
)
def test_what_is_not_there_cannot_be_audited(cli, waiting, words, code):
    (cli.path / "empty").touch()
    shown = cli(*words)
    assert shown.code == code
    assert len(shown.err.splitlines()) == 1


# ── export, import ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_log_that_was_exported_and_imported_is_the_same_run(cli, waiting):
    code, exported = cli.json("export", "r1", "-o", "r1.jsonl")
    assert (code, exported["schema"], exported["file"]) == (0, "fsm-agent/export@1", "r1.jsonl")
    code, imported = cli.json("import", "r1.jsonl", "--store", "other.db")
    assert (code, imported["schema"], imported["new"]) == (0, "fsm-agent/import@1", True)
    assert imported["head"] == exported["head"] == cli.json("status", "r1")[1]["head"]
    assert cli.json("import", "r1.jsonl", "--store", "other.db")[1]["new"] is False
    assert cli("resume", "r1", "--store", "other.db").code == 4
    assert len(list(read_log(cli.path / "r1.jsonl"))) == exported["head"]["seq"]


def test_an_export_that_fails_leaves_no_file(cli, waiting):
    assert cli("export", "r9", "-o", "r9.jsonl").code == 9
    assert cli("export", "r1", "-o", "nowhere/r1.jsonl").code == 3
    assert sorted(p.name for p in cli.path.iterdir() if "jsonl" in p.name) == []


def test_the_log_and_a_document_do_not_both_go_to_stdout(cli, waiting):
    shown = cli("export", "r1", "--json")
    assert shown.code == 2
    assert shown.json["schema"] == "fsm-agent/error@1"


def test_importing_what_is_no_log_stores_nothing(cli):
    (cli.path / "x.jsonl").write_text("no log\n")
    assert cli("import", "x.jsonl").code == 7
    assert cli("import", "nowhere.jsonl").code == 9
    assert cli.runs() == []


def test_a_reader_that_goes_away_is_no_error(cli, waiting):
    reading, writing = os.pipe()
    os.close(reading)
    process = cli.start("events", "r1", "--jsonl", stdout=writing)
    os.close(writing)
    _, err = process.communicate(timeout=30)
    assert err == ""
    assert process.returncode == 0


def test_a_read_only_store_can_be_looked_at(cli, waiting):
    store = cli.path / ".fsm_agent" / "runs.db"
    store.chmod(stat.S_IRUSR)
    try:
        assert cli("status", "r1").code == 0
        assert cli("audit", "r1").code == 0
    finally:
        store.chmod(0o600)
