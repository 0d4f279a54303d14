"""``replay`` at the command line: any moment of a run, from a store or from a file, with nothing called."""

import pytest


@pytest.fixture
def denied(cli):
    """A run that ends with T2 refused by its tool, so that a person is asked."""
    assert cli("run", "desk", "--run-id", "r1", "--input", "luck=wrong").code == 4
    return "r1"


def test_it_shows_how_the_run_stood_at_an_event(cli, waiting):
    shown = cli("replay", "r1", "--until", "4")
    assert shown.code == 0
    assert "at event 4 of" in shown.out
    assert "T3  pending" in shown.out
    assert "fsm-agent approve" not in shown.out
    assert "nothing can be typed" in shown.err


def test_at_the_end_it_shows_what_can_be_typed(cli, waiting):
    shown = cli("replay", "r1")
    assert f"fsm-agent approve r1 T3 --digest {waiting['digest'][:8]}" in shown.out


def test_before_the_first_event_there_is_nothing(cli, waiting):
    assert "before event 1 of" in cli("replay", "r1", "--until", "0").out


def test_it_lists_the_events_that_were_asked_for_and_stands_at_the_first(cli, denied):
    code, found = cli.json("replay", "r1", "--break", "task=T2,decision=escalate", "--break", "task=T1")
    assert code == 0
    assert found["schema"] == "fsm-agent/replay@1"
    assert {s["task"] for s in found["stops"]} == {"T1", "T2"}
    assert found["seq"] == found["last"]
    _, first = cli.json("replay", "r1", "--break", "decision=escalate", "--first")
    assert first["event"]["type"] == "decided"
    assert first["seq"] < first["last"]
    assert first["status"]["tasks"]["T2"]["state"] == "failed"
    assert first["status"]["next"] == []
    assert "of 9 events fit" in cli("replay", "r1", "--until", "9", "--break", "task=T1").out


def test_a_first_that_lies_behind_the_limit_or_is_not_there_is_not_passed(cli, denied):
    _, found = cli.json("replay", "r1", "--until", "5", "--break", "decision=escalate", "--first")
    assert (found["seq"], found["stops"]) == (5, [])
    _, found = cli.json("replay", "r1", "--break", "decision=abort", "--first")
    assert found["seq"] == found["last"]


def test_a_file_is_replayed_like_a_run_of_the_store(cli, denied):
    assert cli("export", "r1", "-o", "r1.jsonl").code == 0
    assert (
        cli("replay", "r1.jsonl", "--until", "7", "--json").out
        == cli("replay", "r1", "--until", "7", "--json").out
    )


def test_what_cannot_be_replayed_is_said_in_a_line(cli, waiting):
    for words, code in (
        (["replay", "nope"], 9),
        (["replay", "nope.jsonl"], 9),
        (["replay", "r1", "--until", "999"], 9),
        (["replay", "r1", "--first"], 2),
        (["replay", "r1", "--break", "oops"], 2),
    ):
        shown = cli(*words)
        assert (shown.code, len(shown.err.splitlines())) == (code, 1), shown


def test_lines_keep_to_the_width(cli, denied):
    body = cli("replay", "r1", "--break", "task=T2").out.split("next:")[0]
    assert max(map(len, body.splitlines())) <= 80
