"""``fork``: a new run that has what was done, does not do it again, and asks anew."""

import pytest


@pytest.fixture
def booked(cli, waiting):
    """A run that is done, with one booking in the ledger."""
    assert cli("approve", "r1", "T3", "--digest", waiting["digest"][:8]).code == 0
    assert cli("resume", "r1").code == 0
    assert len(cli.ledger) == 1
    return cli.json("events", "r1")[1]["events"]


def end_of(events, task, trigger):
    move = next(e for e in events if e.get("task") == task and e["data"].get("trigger") == trigger)
    first, count = move.get("tx", [move["seq"], 1])
    return first + count - 1


def test_a_fork_has_the_booking_and_makes_none(cli, booked):
    seq = end_of(booked, "T1", "succeed")
    code, made = cli.json("fork", "r1", "--at", str(seq), "-m", "once more")
    assert (code, made["schema"], made["run"], made["parent"]) == (0, "fsm-agent/fork@1", "r1.f1", "r1")
    assert [e["task"] for e in made["effects"]] == ["T3"]
    assert made["next"] == ["fsm-agent resume r1.f1"]
    assert cli("resume", "r1.f1").code == 0
    assert len(cli.ledger) == 1
    assert cli("audit", "r1.f1").code == 0
    assert cli("report", "r1.f1", "-o", "f.html").code == 0


def test_for_people_it_says_what_is_done_what_is_not_done_again_and_what_is_asked(cli, waiting):
    events = cli.json("events", "r1")[1]["events"]
    assert cli("cancel", "r1").code == 0
    shown = cli("fork", "r1", "--at", str(events[-1]["seq"]), "--run-id", "again")
    assert "run again forked from r1" in shown.out
    assert "done already: T1, T2" in shown.out
    assert "asked anew: T3" in shown.out
    assert cli("resume", "again").code == 4
    digest = cli.json("status", "again")[1]["questions"][0]["digest"]
    assert digest != waiting["digest"]


def test_not_done_again_is_listed(cli, booked):
    shown = cli("fork", "r1", "--at", str(end_of(booked, "T1", "succeed")))
    assert "not done again: T3 (book), made by r1 at event" in shown.out


def test_what_cannot_be_forked_is_said_in_a_line_and_leaves_nothing(cli, waiting):
    for words, code in (
        (["fork", "r1", "--at", "4"], 2),
        (["fork", "nope", "--at", "4"], 9),
    ):
        shown = cli(*words)
        assert (shown.code, len(shown.err.splitlines())) == (code, 1), shown
    assert "end it first: fsm-agent cancel r1" in cli("fork", "r1", "--at", "4").err
    assert cli.runs() == ["r1"]
