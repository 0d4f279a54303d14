"""A store whose older copy was put back: what only reads goes on showing what is there, and says what is missing."""

import shutil
import signal

import pytest

pytestmark = pytest.mark.spoils_logs

STORES = (".fsm_agent/runs.db", "runs.jsonl")


@pytest.fixture(params=STORES)
def old(cli, request, monkeypatch):
    """An older copy of the store in its place, and one run that is as it was; returns where r1 ends, and where it ended."""
    monkeypatch.setenv("FSM_AGENT_STORE", request.param)
    store = cli.path / request.param
    copy = shutil.copytree if request.param.endswith(".jsonl") else shutil.copy
    assert cli("run", "desk", "--run-id", "other").code == 4
    question = cli.json("run", "desk", "--run-id", "r1")[1]["questions"][0]
    before = cli.json("status", "r1")[1]["head"]["seq"]
    copy(store, cli.path / "older")
    assert cli("approve", "r1", "T3", "--digest", question["digest"]).code == 0
    assert cli("resume", "r1").code == 0
    after = cli.json("status", "r1")[1]["head"]["seq"]
    shutil.rmtree(store, ignore_errors=True)
    copy(cli.path / "older", store)
    return before, after


@pytest.mark.parametrize(
    "words",
    [
        ("status", "r1"),
        ("status", "r1", "--json"),
        ("status", "r1", "-q"),
        ("why", "r1", "T3"),
        ("events", "r1", "--jsonl"),
        ("graph", "r1"),
        ("replay", "r1"),
        ("history", "r1"),
        ("runs",),
        ("runs", "--json"),
        ("inbox",),
        ("report", "r1", "-o", "r1.html"),
        ("export", "r1", "-q"),
        ("export", "r1", "-o", "r1.jsonl"),
        ("export", "r1", "--format", "ocel"),
        ("what-if", "r1", "--rules", "conservative"),
    ],
)
def test_a_rolled_back_run_is_shown_and_one_line_on_stderr_says_both_ends_and_what_to_do(cli, old, words):
    before, after = old
    shown = cli(*words)
    assert shown.code == 0
    said = [line for line in shown.err.splitlines() if "E-CORRUPT" in line]
    assert len(said) == 1, shown
    assert f"log of r1: it ends at event {before}, but the head kept in" in said[0]
    assert f"is event {after};" in said[0]
    assert "restore the newer" in said[0]
    assert "fsm-agent audit r1" in said[0]
    assert "E-CORRUPT" not in shown.out


@pytest.mark.parametrize(
    "words", [("wait", "r1"), ("wait", "r1", "--json"), ("wait", "r1", "--timeout", "0")]
)
def test_who_waits_for_a_rolled_back_run_is_told_so_once(cli, old, words):
    before, after = old
    shown = cli(*words)
    assert shown.code == 4  # it waits for a person again
    said = [line for line in shown.err.splitlines() if "E-CORRUPT" in line]
    assert len(said) == 1, shown
    assert f"it ends at event {before}, but the head kept in" in said[0]
    assert f"is event {after};" in said[0]
    assert "E-CORRUPT" not in cli("wait", "other").err


def test_who_follows_the_events_of_a_rolled_back_run_is_told_so_once(cli, old):
    before, after = old
    with cli.start("events", "r1", "-f", "--jsonl") as following:
        assert '"run_created"' in following.stdout.readline()
        following.send_signal(signal.SIGINT)  # an open run is followed for ever
        _, err = following.communicate(timeout=60)
    said = [line for line in err.splitlines() if "E-CORRUPT" in line]
    assert len(said) == 1, err
    assert f"it ends at event {before}, but the head kept in" in said[0]
    assert f"is event {after};" in said[0]


def test_the_run_that_lost_nothing_is_shown_without_a_word(cli, old):
    for words in (("status", "other"), ("export", "other", "-q"), ("report", "other", "-o", "other.html")):
        assert "E-CORRUPT" not in cli(*words).err, words


def test_the_report_says_on_its_page_that_the_log_ends_before_its_head(cli, old):
    before, after = old
    assert cli("report", "r1", "-o", "r1.html").code == 0
    words = f"This log ends at event {before}, but the head kept outside of it is event {after}"
    assert words in (cli.path / "r1.html").read_text()
    assert cli("report", "other", "-o", "other.html").code == 0
    assert "This log ends at event" not in (cli.path / "other.html").read_text()


@pytest.mark.parametrize("words", [("status", "r1"), ("runs",), ("export", "r1", "-q")])
def test_kept_heads_that_are_none_stop_nobody_from_looking_and_are_told(cli, waiting, words):
    (cli.path / ".fsm_agent" / "runs.db.heads").write_text('{"run": "r1"}\n')
    shown = cli(*words)
    assert shown.code == 0
    assert "runs.db.heads line 1: no anchor" in shown.err


def test_heads_in_a_directory_of_ones_own_are_looked_at_as_well(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("FSM_AGENT_ANCHORS", str(tmp_path / "heads"))
    question = cli.json("run", "desk", "--run-id", "r1")[1]["questions"][0]
    store = cli.path / ".fsm_agent" / "runs.db"
    shutil.copy(store, cli.path / "older")
    assert cli("approve", "r1", "T3", "--digest", question["digest"]).code == 0
    assert "E-CORRUPT" not in cli("runs").err
    shutil.copy(cli.path / "older", store)
    assert "E-CORRUPT log of r1" in cli("runs").err


def test_at_the_prompt_a_rolled_back_run_is_told_of_too(cli, old):
    shown = cli("repl", "-c", "status r1")
    assert "restore the newer" in shown.err
