"""``run --review``: a person approves the plan before anything starts; and ``--repairs``, what mends a plan by rule."""

import json

import pytest

from tests.faces.test_terminal import Person

OTHER = [{"id": "T1", "tool": "look_up", "args": {"guest": "ann"}}]


@pytest.fixture
def reviewed(cli):
    """A run whose plan waits for a person; returns its question."""
    code, status = cli.json("run", "desk", "--run-id", "r1", "--review")
    assert code == 4
    assert {t["state"] for t in status["tasks"].values()} == {"pending"}
    return status["questions"][0]


def write(cli, name, value):
    (cli.path / name).write_text(value if isinstance(value, str) else json.dumps(value))
    return name


def test_nothing_starts_and_the_question_says_what_it_is_about(cli, reviewed):
    assert (reviewed["task"], reviewed["kind"], reviewed["answers"]) == (
        "run",
        "approval",
        ["approve", "reject"],
    )
    _, checked = cli.json("plan", "check", "desk")
    assert reviewed["args"] == {"plan": checked["digest"]}
    assert "T3 may change something" in reviewed["say"]
    shown = cli("status", "r1").out
    assert f"fsm-agent approve r1 run --digest {reviewed['digest'][:8]}" in shown
    assert "fsm-agent replan r1 --plan FILE" in shown
    assert cli.ledger == []


def test_after_the_yes_the_run_goes_on_to_its_next_question(cli, reviewed):
    assert cli("approve", "r1", "run", "--digest", reviewed["digest"][:8], "--by", "ann").code == 0
    code, status = cli.json("resume", "r1")
    assert (code, [q["task"] for q in status["questions"]]) == (4, ["T3"])
    answers = [e for e in cli("events", "r1", "--jsonl").lines if e["type"] == "approval_answered"]
    assert [(e["data"]["by"], e["data"]["args_digest"]) for e in answers] == [("ann", reviewed["digest"])]


def test_a_resume_answers_for_nobody(cli, reviewed):
    code, status = cli.json("resume", "r1")
    assert (code, status["questions"]) == (4, [reviewed])


def test_a_no_ends_it_cleanly(cli, reviewed):
    assert cli("reject", "r1", "run", "-m", "too dear", "--by", "ann").code == 0
    code, status = cli.json("resume", "r1")
    assert (code, status["state"]) == (6, "cancelled")
    assert cli.json("audit", "r1")[1]["verdict"] == "clean"
    assert "too dear" in cli("why", "r1").out + cli("events", "r1").out


def test_another_plan_is_checked_and_asked_about_anew(cli, reviewed):
    bad = cli("replan", "r1", "--plan", write(cli, "bad.json", [{"id": "x", "tool": "fly"}]))
    assert (bad.code, "there is no tool 'fly'" in bad.err) == (2, True)
    assert cli("edit", "r1", "run", "x=1").code == 2
    assert cli("replan", "r1", "--plan", write(cli, "other.json", OTHER), "--by", "ann").code == 0
    (question,) = cli.json("status", "r1")[1]["questions"]
    assert question["digest"] != reviewed["digest"]
    stale = cli("approve", "r1", "run", "--digest", reviewed["digest"])
    assert (stale.code, "the request is" in stale.err) == (2, True)
    assert cli("approve", "r1", "run", "--digest", question["digest"]).code == 0
    code, status = cli.json("resume", "r1")
    assert (code, status["plan_version"], cli.ledger) == (0, 2, [])


def test_a_scripted_person_states_the_plan(cli):
    _, checked = cli.json("plan", "check", "desk")
    yes = {"approve": "run", "by": "ann", "args": {"plan": checked["digest"]}}
    script = write(cli, "operator.json", [{"when": {"run": "awaiting-confirmation"}, "do": yes}])
    code, status = cli.json("run", "desk", "--review", "--operator", script)
    assert (code, [q["task"] for q in status["questions"]]) == (4, ["T3"])
    other = write(
        cli, "other.json", [{"when": {"run": "awaiting-confirmation"}, "do": {**yes, "args": {"plan": "x"}}}]
    )
    code, status = cli.json("run", "desk", "--review", "--operator", other)
    assert (code, [q["task"] for q in status["questions"]]) == (4, ["run"])
    silent = write(cli, "silent.json", [{"when": {"run": "awaiting-confirmation"}, "do": {"approve": "run"}}])
    assert "does not say what it approves" in cli("run", "desk", "--review", "--operator", silent).err


def test_a_script_that_comes_later_hears_of_the_question_that_stands(cli, reviewed):
    yes = {"approve": "run", "by": "ann", "args": reviewed["args"]}
    script = write(
        cli, "operator.json", [{"when": {"run": "awaiting-confirmation"}, "every": True, "do": yes}]
    )
    code, status = cli.json("resume", "r1", "--operator", script)
    assert (code, [q["task"] for q in status["questions"]]) == (4, ["T3"])


def test_a_person_at_a_terminal_reads_the_plan_and_approves_it(cli):
    person = Person(cli, "run", "desk", "--run-id", "r1", "--review")
    shown = person.until("run> ")
    assert "T1: look_up (read)" in shown
    assert "T3: book (write)" in shown
    assert "after T1" in shown
    digest = shown.partition("digest ")[2][:4]
    person.type(digest)
    person.until("T3> ")
    person.type("s")
    assert person.end() == 4


# ── repairs ───────────────────────────────────────────────────────────────────────────────────────────────────

MEND = """
schema = 1
extends = "repairs"
[[repair]]
id = "three-nights"
of = "price"
signal = ["bad_request", "repeated_error"]
do = "switch"
tool = "look_up"
copy = []
args = { guest = "$inputs.guest" }
why = "somebody is asked who knows"
"""


@pytest.mark.parametrize("how", ["named", "in the directory"])
def test_a_project_has_repairs_of_its_own(cli, how):
    name = write(cli, "mend.toml" if how == "named" else "desk/repairs.toml", MEND)
    options = ("--repairs", name) if how == "named" else ()
    cli("run", "desk", "--run-id", "r1", "--input", "luck=wrong", *options)
    events = cli("events", "r1", "--jsonl").lines
    assert [r["id"] for r in events[0]["data"]["repairs"]] == ["three-nights"]
    refused = [e["data"] for e in events if e["type"] == "replan_refused"]
    adopted = [e["data"] for e in events if e["type"] == "plan_adopted"][1:]
    assert {d["repair"] for d in [*refused, *adopted] if "repair" in d} == {"three-nights"}
    assert ("by rule three-nights" in cli("history", "r1").out) == bool(adopted)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (
            None,
            9,
            "repairs 'gone.toml': there is no such file; give a .toml file, repairs (the shipped ones) or none",
        ),
        ("schema = ", 3, "it is no TOML"),
        ("schema = 2", 3, "repairs gone.toml: schema: 2; write schema = 1"),
        (
            'schema = 1\nextends = "other"',
            3,
            "extends is 'other'; write extends = \"repairs\" or leave it out",
        ),
        (
            "schema = 1\n[[repair]]\nid = 3",
            3,
            "repairs gone.toml: repair 1: do is left out; one of insert, switch",
        ),
        ('schema = 1\n[[repair]]\nid = "x"\nshell = "rm -rf /"', 3, "'shell' is unknown"),
    ],
)
def test_a_bad_file_of_repairs_is_one_clear_line_and_no_run(cli, text, code, words):
    if text is not None:
        write(cli, "gone.toml", text)
    shown = cli("run", "desk", "--repairs", "gone.toml")
    assert (shown.code, len(shown.err.splitlines())) == (code, 1)
    assert words in shown.err
    assert cli.runs() == []


def test_none_repairs_nothing(cli):
    write(cli, "desk/repairs.toml", MEND)
    cli("run", "desk", "--run-id", "r1", "--input", "luck=wrong", "--repairs", "none")
    assert "repairs" not in cli("events", "r1", "--jsonl").lines[0]["data"]


def test_a_run_that_was_forked_behind_the_yes_proves_it(cli, reviewed):
    cli("approve", "r1", "run", "--digest", reviewed["digest"], "--by", "ann")
    cli("resume", "r1")
    cut = next(e["seq"] for e in cli("events", "r1", "--jsonl").lines if e["type"] == "task_moved")
    cli("cancel", "r1")
    forked = cli("fork", "r1", "--at", cut - 1, "--run-id", "r2")
    if forked.code == 2:  # it stands inside of a batch: the message names a place
        cut = int(forked.err.rpartition("fork at ")[2].split()[0])
        forked = cli("fork", "r1", "--at", cut, "--run-id", "r2")
    assert forked.code == 0, forked.err
    assert cli.json("audit", "r2")[1]["findings"] == []
