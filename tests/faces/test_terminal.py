"""A person at a terminal is shown exactly what will be called, and says yes by the digest of it."""

import json
import os
import signal

import pytest

from fsm_agent.core.engine.records import Question
from fsm_agent.core.inputs import Answer, Approve, Edit, Reject
from fsm_agent.faces.drive.asking import understand
from tests.faces.terminal import Person


@pytest.fixture
def person(cli):
    people = []

    def sit_down(*words):
        people.append(Person(cli, *words))
        return people[-1]

    yield sit_down
    for one in people:
        one.away()


def test_an_approval_shows_the_exact_call_and_takes_its_digest(cli, person):
    ann = person("run", "desk", "--run-id", "r1")
    shown = ann.until("T3> ")
    assert "book is write: it changes something" in shown
    assert 'guest = "Ann"' in shown
    assert "total = 180" in shown
    digest = shown.split("digest ")[1][:16]
    assert f"\n  type {digest[:4]} to approve" in shown
    assert "s to skip for now" in " ".join(shown.split())  # all of it, however narrow the terminal
    ann.type("y")
    assert "'y' is not how the digest begins" in ann.until("T3> ")
    ann.type(digest[:3])
    ann.until("T3> ")
    assert cli.ledger == []
    ann.type(digest[:4])
    assert ann.end() == 0
    assert "done 3 of 3" in ann.seen
    answered = [e for e in cli("events", "r1", "--jsonl").lines if e["type"] == "approval_answered"]
    assert answered[0]["data"]["channel"] == "terminal"
    assert len(cli.ledger) == 1


def test_whoever_is_set_speaks_at_the_terminal_too(cli, person):
    (cli.path / "fsm_agent.toml").write_text('by = "ann"\n')
    ann = person("run", "desk", "--run-id", "r1")
    digest = ann.until("T3> ").split("digest ")[1][:4]
    ann.type(digest)
    assert ann.end() == 0
    answered = [e for e in cli("events", "r1", "--jsonl").lines if e["type"] == "approval_answered"]
    assert answered[0]["data"]["by"] == "ann"


def test_an_edit_is_asked_again_and_says_what_the_plan_said(cli, person):
    ann = person("run", "desk", "--run-id", "r1")
    ann.until("T3> ")
    ann.type("e total=100 'guest=Bea Ho'")
    shown = ann.until("T3> ")
    assert "total = 100" in shown
    assert 'edited; the plan says {"guest":"Ann"' in shown
    ann.type("e total=abc")
    assert "E-ARGUMENTS" in ann.until("T3> ")
    ann.type("r too dear")
    assert ann.end() == 6
    assert cli.json("status", "r1")[1]["tasks"]["T3"]["reason"].endswith(": too dear")


def test_what_is_put_off_leaves_the_run_waiting_with_the_next_command(cli, person):
    ann = person("run", "desk", "--run-id", "r1")
    ann.until("T3> ")
    ann.type("s")
    assert ann.end() == 4
    assert "fsm-agent approve r1 T3 --digest" in ann.seen


def test_the_end_of_the_input_puts_off(cli, person):
    ann = person("run", "desk", "--run-id", "r1")
    ann.until("T3> ")
    os.write(ann.master, b"\x04")
    assert ann.end() == 4


def test_an_interruption_exits_with_130_and_the_command_that_goes_on(cli, person):
    ann = person("run", "desk", "--run-id", "r1")
    ann.until("T3> ")
    os.killpg(ann.process.pid, signal.SIGINT)
    assert ann.end() == 130
    assert "interrupted; go on with: fsm-agent resume r1" in ann.seen
    assert "Traceback" not in ann.seen
    assert cli("resume", "r1").code == 4


@pytest.mark.parametrize("words", [["-q"], ["--json"], ["--jsonl"]])
def test_nothing_is_asked_when_the_output_is_for_programs_or_quiet(cli, person, words):
    ann = person("run", "desk", *words)
    assert ann.end() == 4
    assert "T3> " not in ann.seen


def test_resume_asks_as_well(cli, waiting, person):
    ann = person("resume", "r1")
    ann.until("T3> ")
    ann.type(waiting["digest"][:8])
    assert ann.end() == 0


def test_a_failure_is_asked_about_with_its_legal_answers(cli, person):
    ann = person("run", "desk", "--run-id", "r1", "--input", "luck=wrong")
    shown = ann.until("T2> ")
    assert "type one of: retry | result JSON because WORDS | abort" in shown
    ann.type('result {"total": 7} because asked by phone')
    ann.until("T3> ")
    ann.type("s")
    assert ann.end() == 4
    assert cli.json("status", "r1")[1]["tasks"]["T2"]["result"] == {"total": 7}


def test_a_question_in_many_words_stands_on_lines_that_fit(cli, person):
    words = "which of the two offers is it to be, " * 6 + "or none?"
    (cli.path / "ask.json").write_text(json.dumps([{"id": "q", "description": words}]))
    ann = person("run", "ask.json", "--run-id", "r1")
    shown = ann.until("q> ")
    asked = shown[shown.rindex("q: which") :]
    assert all(len(line) <= 80 for line in asked.splitlines())
    assert " ".join(words.split()) in " ".join(asked.split())
    ann.type("a none")
    assert ann.end() == 0


# ── what a line means ─────────────────────────────────────────────────────────────────────────────────────────

DIGEST = "e1ab" + "0" * 60
APPROVAL = Question(task="T", kind="approval", digest=DIGEST, args={"a": 1}, answers=("approve",), seq=1)
ANSWER = Question(task="T", kind="answer", digest=DIGEST, answers=("result",), seq=1)
DECIDE = Question(
    task="T", kind="decide", digest=DIGEST, answers=("probe", "retry", "applied", "absent", "abort"), seq=1
)


def said(question, line):
    word = understand(question, line)
    match word:
        case Approve():
            return "approve", word.digest
        case Reject():
            return "reject", word.who.note
        case Edit():
            return "edit", word.args
        case Answer():
            return "answer", word.value
        case None:
            return "later"
        case str():
            return "wrong"


@pytest.mark.parametrize(
    ("question", "line", "meaning"),
    [
        (APPROVAL, "e1ab", ("approve", DIGEST)),
        (APPROVAL, "E1AB00", ("approve", DIGEST)),
        (APPROVAL, DIGEST, ("approve", DIGEST)),
        (APPROVAL, DIGEST + "0", "wrong"),
        (APPROVAL, "e1a", "wrong"),
        (APPROVAL, "e", "wrong"),
        (APPROVAL, "", "wrong"),
        (APPROVAL, "yes", "wrong"),
        (APPROVAL, "s", "later"),
        (APPROVAL, "r", "wrong"),
        (APPROVAL, "r no thanks", ("reject", "no thanks")),
        (APPROVAL, "e a=2 b='x y'", ("edit", {"a": 2, "b": "x y"})),
        (APPROVAL, "e a", "wrong"),
        (APPROVAL, "e 'a=2", "wrong"),
        (ANSWER, 'a {"x": 1}', ("answer", {"x": 1})),
        (ANSWER, "a some words", ("answer", "some words")),
        (ANSWER, "a", "wrong"),
        (ANSWER, "some words", "wrong"),
        (ANSWER, "r no", ("reject", "no")),
        (ANSWER, "s", "later"),
        (DECIDE, "retry", ("answer", {"decide": "retry"})),
        (DECIDE, "abort too dear", ("answer", {"decide": "abort", "note": "too dear"})),
        (DECIDE, "skip", "wrong"),
        (DECIDE, "s", "later"),
        (DECIDE, "applied 3", "wrong"),
        (DECIDE, "applied 3 because I saw it", ("answer", {"result": 3, "evidence": "I saw it"})),
        (DECIDE, "absent I looked", ("answer", {"decide": "absent", "evidence": "I looked"})),
    ],
)
def test_a_typed_line_means_one_thing_or_is_asked_again(question, line, meaning):
    assert said(question, line) == meaning


@pytest.mark.parametrize(
    ("question", "line", "words"),
    [
        (ANSWER, "Oslo", "'Oslo' is no answer; type a Oslo to answer, r WORDS to reject, or s"),
        (ANSWER, "a", "'a' is no answer; type a VALUE to answer, r WORDS to reject, or s"),
        (ANSWER, "", "nothing was typed; type a and a VALUE to answer (JSON, or text)"),
        (
            APPROVAL,
            "help",
            "'help' is not how the digest begins; type e1ab to approve, r WORDS to reject, e NAME=VALUE",
        ),
        (DECIDE, "", "nothing was typed; type one of: probe | retry | applied JSON because WORDS"),
    ],
)
def test_who_types_something_else_is_told_what_can_be_typed(question, line, words):
    assert understand(question, line).startswith(words)
