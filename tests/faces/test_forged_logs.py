"""A log that somebody else wrote and hashed anew: whatever reads it says that it is corrupt, and nothing drives a terminal."""

import contextlib
import sqlite3

import orjson
import pytest
from click.testing import CliRunner

from fsm_agent.core import canon
from fsm_agent.core.errors import CorruptError
from fsm_agent.core.events import chain, genesis
from fsm_agent.faces.cli import build
from fsm_agent.faces.frame.screen import Screen
from fsm_agent.faces.look.blaming import corrupt
from fsm_agent.runtime.proof import logs

pytestmark = pytest.mark.spoils_logs

TOOLS = """
from fsm_agent import Toolbox
tools = Toolbox()

@tools.read
def look(n: int) -> dict:
    return {"seen": n}
"""


def said(*words):
    return CliRunner().invoke(build(), words, prog_name="fsm-agent")


@pytest.fixture
def events(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FSM_AGENT_STORE", "first.db")
    (tmp_path / "box.py").write_text(TOOLS)
    (tmp_path / "plan.json").write_text('[{"id": "a", "tool": "look", "args": {"n": 1}}]')
    assert said("run", "plan.json", "--tools", "box.py:tools", "--run-id", "r1").exit_code == 0
    assert said("export", "r1", "-o", "log.jsonl").exit_code == 0
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines()
    monkeypatch.setenv("FSM_AGENT_STORE", "second.db")
    return [orjson.loads(line[: line.rindex(b',"hash":"')] + b"}") for line in lines]


def forged(events, run="r1"):
    """Write the events as a log whose chain holds, and take it in."""
    previous, out = genesis(run).hash, []
    for event in events:
        body = canon.encode(event)
        previous = chain(previous, body)
        out.append(b'%b,"hash":"%b"}\n' % (body[:-1], previous.hex().encode()))
    with open("forged.jsonl", "wb") as file:
        file.write(b"".join(out))
    assert said("import", "forged.jsonl").exit_code == 0


def first(events, kind):
    return next(event for event in events if event["type"] == kind)


FORGERIES = {
    "a state that is none": lambda events: first(events, "run_moved")["data"].update(dest="somewhere"),
    "a state of another type": lambda events: first(events, "run_moved")["data"].update(dest={"a": 1}),
    "an event of no known type": lambda events: events[3].update(type="what"),
    "tools without an effect": lambda events: events[0]["data"].update(tools=[{"name": "look"}]),
    "a table without rows": lambda events: events[0]["data"].update(rules={}),
}


@pytest.mark.parametrize("how", FORGERIES)
def test_an_event_that_cannot_be_applied_is_corruption_and_no_fault_of_the_program(events, how):
    FORGERIES[how](events)
    forged(events)
    for words in (
        ("status", "r1"),
        ("graph", "r1"),
        ("resume", "r1", "--tools", "box.py:tools"),
        ("replay", "r1"),
    ):
        shown = said(*words)
        assert "E-CORRUPT" in shown.output, (words, shown.output)
        assert "fault of the program" not in shown.output
    assert said("audit", "r1").exit_code == 7


def test_one_forged_run_does_not_keep_the_others_from_being_removed(events):
    events[3].update(type="what")
    forged(events)
    assert said("run", "plan.json", "--tools", "box.py:tools", "--run-id", "r2").exit_code == 0
    shown = said("runs", "gc", "--older-than", "0d")
    assert shown.exit_code == 0, shown.output
    assert "does not verify" in shown.output
    assert "r2" not in said("runs").output


@pytest.mark.parametrize("at", [-(10**18), 2**63 - 1])
def test_a_moment_that_no_calendar_has_is_shown_as_its_first_or_last(events, at):
    events[2].update(at=at)
    forged(events)
    for words in (
        ("events", "r1"),
        ("events", "r1", "--json"),
        ("replay", "r1"),
        ("report", "r1", "-o", "r.html"),
    ):
        assert "E-INTERNAL" not in said(*words).output, words


def test_an_id_with_control_characters_does_not_drive_the_terminal(events):
    run = "\x1b[31mX\u202e"
    events[0]["data"]["run"] = run
    forged(events, run)
    for words in (("status", run), ("why", run), ("resume", run, "--tools", "box.py:tools"), ("runs",)):
        shown = said(*words)
        assert "\x1b" not in shown.output, words
        assert "\u202e" not in shown.output, words


def test_a_state_with_control_characters_does_not_drive_the_terminal_of_who_lists_runs(events):
    moved = [event for event in events if event["type"] == "run_moved"]
    moved[-1]["data"]["dest"] = "\x1b[31mdone"
    forged(events)
    assert "\x1b" not in said("runs").output


@pytest.mark.parametrize(
    "field", [{"run": 5}, {"epoch": "1"}, {"owner": []}, {"state": {}}, {"tombstone": "x"}]
)
def test_a_lease_file_with_a_field_of_another_type_is_corruption(events, monkeypatch, field):
    monkeypatch.setenv("FSM_AGENT_STORE", "lines.jsonl")
    forged(events)
    with open("lines.jsonl/r1.meta.json", "r+b") as file:
        changed = {**orjson.loads(file.read()), **field}
        file.seek(0)
        file.truncate()
        file.write(orjson.dumps(changed))
    for words in (("runs",), ("status", "r1"), ("note", "r1", "x", "--by", "ann")):
        assert "E-CORRUPT" in said(*words).output, words


def test_a_tombstone_that_is_no_json_is_corruption(events):
    forged(events)
    with contextlib.closing(sqlite3.connect("second.db")) as db:
        db.execute("UPDATE runs SET tombstone = x'00ff'")
        db.commit()
    for words in (("status", "r1"), ("note", "r1", "x", "--by", "ann")):
        assert "E-CORRUPT" in said(*words).output, words


def test_why_of_a_forged_log_file_is_corruption(events):
    events[3].update(type="what")
    forged(events)
    with pytest.raises(CorruptError, match=r"event 4 \(what\) cannot be applied"):
        logs.why("forged.jsonl")


TELL = (
    ("status", "r1"),
    ("why", "r1"),
    ("why", "r1", "a", "--json"),
    ("events", "r1"),
    ("events", "r1", "--json"),
    ("graph", "r1"),
    ("history", "r1"),
    ("history",),
    ("inbox",),
    ("runs",),
    ("replay", "r1"),
    ("replay", "forged.jsonl", "--json"),
    ("what-if", "forged.jsonl", "--rules", "conservative"),
    ("export", "r1", "--format", "ocel"),
    ("export", "r1", "--format", "cloudevents"),
    ("report", "r1", "-o", "r.html"),
    ("repl", "-c", "history r1"),
)


def empty(events, kind):
    data = first(events, kind)["data"]
    kept = {"run": data["run"]} if kind == "run_created" else {}
    data.clear()
    data.update(kept)


@pytest.mark.parametrize("kind", ["run_created", "plan_adopted", "run_moved", "task_moved", "run_closed"])
def test_a_log_with_an_empty_event_is_told_or_is_corrupt_and_never_a_fault_of_the_program(events, kind):
    empty(events, kind)
    forged(events)
    codes = {words: said(*words).exit_code for words in TELL}
    assert set(codes.values()) <= {0, 7}, codes
    assert 7 in codes.values()


def test_what_cannot_be_read_names_the_first_event_that_the_audit_finds(events):
    empty(events, "plan_adopted")
    forged(events)
    shown = said("history", "r1")
    assert shown.exit_code == 7
    assert "E-CORRUPT log of r1: it cannot be read, for its audit fails at event 2" in shown.output
    assert said("history", "r1", "--json").stdout.startswith(
        '{"schema":"fsm-agent/error@1","code":"E-CORRUPT"'
    )


def test_a_forged_log_on_standard_input_is_corrupt_too(events):
    empty(events, "plan_adopted")
    forged(events)
    with open("forged.jsonl", "rb") as file:
        shown = CliRunner().invoke(build(), ("report", "-", "-o", "r.html"), input=file.read())
    assert shown.exit_code == 7
    assert "E-CORRUPT" in shown.output


def test_an_unexpected_error_over_a_sound_log_stays_a_fault_of_the_program(events):
    forged(events)
    screen = Screen.of(store="second.db")
    assert corrupt(screen, "status", {"run": "r1"}) is None
    assert corrupt(screen, "what-if", {"logs": ("forged.jsonl",)}) is None
    assert corrupt(screen, "runs", {"what": "list"}) is None
    assert corrupt(screen, "status", {"run": "nobody"}) is None
    assert corrupt(screen, "plan check", {"plan": "plan.json"}) is None


def test_an_id_that_no_file_can_have_is_looked_for_in_the_store(events):
    events[0]["data"]["run"] = "\x00"
    forged(events, "\x00")
    assert said("audit", "\x00").exit_code == 7
    assert said("status", "\x00").exit_code == 0


ODD = {
    "a reason that is a number": ("run_moved", {"reason": 7}),
    "a reason that is a list": ("run_moved", {"reason": ["no"]}),
    "an explanation that is a list": ("plan_adopted", {"explanation": []}),
    "a difference that is text": ("plan_adopted", {"diff": "x"}),
    "a goal that is an object": ("run_created", {"goal": {}}),
    "a duration that is text": ("task_moved", {"outcome": {"kind": "result", "duration_us": "x"}}),
    "a report that is a list": ("run_closed", {"report": []}),
}


@pytest.mark.parametrize("how", ODD)
def test_a_list_or_a_number_where_text_belongs_is_told_or_is_corrupt(events, how):
    kind, change = ODD[how]
    first(events, kind)["data"].update(change)
    forged(events)
    codes = {words: said(*words).exit_code for words in TELL}
    assert set(codes.values()) <= {0, 7}, codes


def test_an_event_that_cannot_be_told_is_named_by_the_audit_and_by_whoever_tells_it(events):
    first(events, "plan_adopted")["data"]["diff"] = "x"
    forged(events)
    found = "diff is text, where an object belongs"
    audited = said("audit", "r1")
    assert audited.exit_code == 7
    assert f"event 2, A2 form-of-its-type: {found}" in audited.output
    for words in (("history", "r1"), ("history",), ("history", "r1", "--json")):
        shown = said(*words)
        assert shown.exit_code == 7
        assert (
            f"its audit fails at event 2 ({found}; it is no plan_adopted that this program writes)"
            in shown.output
        )


def test_questions_with_lists_where_text_belongs_are_corrupt_wherever_they_are_shown(events):
    with open("ask.json", "w") as file:
        file.write('[{"id": "a", "description": "which trip?"}]')
    assert said("run", "ask.json", "--run-id", "ask", "--store", "third.db").exit_code == 4
    assert said("export", "ask", "-o", "ask.jsonl", "--store", "third.db").exit_code == 0
    with open("ask.jsonl", "rb") as file:
        asked = [orjson.loads(line[: line.rindex(b',"hash":"')] + b"}") for line in file]
    first(asked, "approval_requested")["data"]["answers"] = [["value"]]
    forged(asked, "ask")
    for words in (
        ("status", "ask"),
        ("replay", "forged.jsonl"),
        ("report", "ask", "-o", "r.html"),
        ("audit", "ask"),
    ):
        shown = said(*words)
        assert shown.exit_code == 7, (words, shown.output)
        assert "answers holds something else than texts" in shown.output
