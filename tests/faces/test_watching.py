"""``run --watch`` shows every task with a bar per attempt, many tasks by what matters, and how it ended."""

import os
import re
import shutil

import pytest

from fsm_agent import Plan, Toolbox
from fsm_agent.core.events import Event
from fsm_agent.faces.drive.watching import MOST, Timeline, footer, rows, table
from fsm_agent.faces.frame.columns import columns, laid_out
from fsm_agent.sync import RunController
from tests.faces.conftest import HERE
from tests.faces.terminal import Person


def moved(at, task, trigger, dest):
    return Event(1, at, "task_moved", {"trigger": trigger, "dest": dest}, task)


def test_a_bar_shows_every_attempt_where_it_was():
    line = Timeline()
    line.listen(
        [
            moved(0 + 1, "a", "start", "running"),
            moved(25, "a", "fail", "failed"),
            moved(50, "a", "start", "running"),
            moved(75, "a", "succeed", "done"),
            moved(75, "b", "start", "running"),
            moved(80, "c", "hold", "awaiting-confirmation"),
            Event(1, 1, "run_moved", {"dest": "done"}, None),
        ]
    )
    assert line.bar("a", 101, 20, unicode=False) == "xxxx     =====      "
    assert line.bar("b", 101, 20, unicode=False) == " " * 14 + "------"
    assert line.bar("c", 101, 20, unicode=False) == " " * 20
    assert line.bar("a", 101, 20, unicode=True).isascii() is False


def test_a_bar_is_never_empty_nor_too_long():
    line = Timeline()
    line.listen([moved(1, "a", "start", "running"), moved(1, "a", "succeed", "done")])
    assert line.bar("a", 1_000_001, 10, unicode=False) == "=" + " " * 9
    assert line.bar("a", 1, 10, unicode=False) == "=" + " " * 9
    line.listen([moved(1_000_001, "b", "start", "running")])
    assert line.bar("b", 1_000_001, 10, unicode=False) == " " * 9 + "-"


@pytest.fixture
def many(tmp_path):
    tools = Toolbox()

    @tools.read
    def look() -> dict:
        return {}

    steps = [{"id": f"s{i}", "tool": "look"} for i in range(MOST + 5)]
    plan = Plan.make({"steps": [*steps, {"id": "q", "description": "who?"}], "budgets": {"tool_calls": 99}})
    with RunController.start(plan, tools, store=tmp_path / "runs.db") as run:
        run.wait()
        yield run.run


def test_of_many_tasks_those_that_matter_are_shown_and_the_rest_is_counted(many):
    found = rows(many)
    assert [row.task for row in found] == ["q", "..."]
    assert found[-1].words == f"{MOST + 5} more: {MOST + 5} done, 0 pending"


def test_the_footer_says_time_budgets_and_waits(many):
    line = Timeline()
    assert footer(many, line, 5).startswith("not begun | tool_calls 25 (74 left)")
    line.listen([moved(1_000_000, "s1", "start", "running")])
    assert footer(many, line, 3_500_000).startswith("2.5 s | ")
    assert footer(many, line, 3_500_000).endswith("| waits: q (answer)")


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("unicode", [True, False])
def test_the_table_fits_the_terminal_and_cuts_no_state_and_nothing_that_is_waited_for(many, width, unicode):
    line = Timeline()
    line.listen([moved(1, "q", "start", "running"), moved(2_000_001, "q", "lose", "unknown-result")])
    with laid_out(unicode=unicode):
        title, head, asked, rest, *below = table(many, line, 4_000_001, width=width, unicode=unicode)
    assert all(columns(one) <= width for one in (title, head, asked, rest, *below))
    assert title.endswith(": awaiting-confirmation")
    assert "task  state                  tries  time".startswith(head.strip())
    sign, task, state, *_ = asked.split()
    assert (sign, task, state) == ("⏸" if unicode else "=", "q", "awaiting-confirmation")
    assert head.index("state") == asked.index("awaiting-confirmation")
    assert ("?" if unicode else "~") in asked or width == 40  # the attempt whose result is unknown
    assert f"{MOST + 5} more" in rest or width == 40
    assert " ".join(below).split() == footer(many, line, 4_000_001).split()


@pytest.fixture
def person(cli):
    people = []

    def sit_down(*words, **more):
        people.append(Person(cli, *words, **more))
        return people[-1]

    yield sit_down
    for one in people:
        one.away()


@pytest.mark.parametrize("more", [[], ["--ascii"]])
def test_a_run_is_watched_asked_about_and_watched_on(cli, person, more):
    ann = person("run", "desk", "--run-id", "r1", "--watch", *more)
    ann.until("run r1: ")
    shown = ann.until("T3> ")
    digest = re.search(r"digest (\w{4})", shown)[1]
    ann.type(digest)
    assert ann.end() == 0
    assert "run r1: done" in ann.seen
    assert re.search(r"T3 +done +1", ann.seen)
    assert "task_moved" not in ann.raw  # no lines beside the table
    if more:
        assert ann.raw.isascii()


def test_a_run_that_is_gone_on_with_can_be_watched(cli, waiting, person):
    ann = person("resume", "r1", "--watch")
    digest = re.search(r"digest (\w{4})", ann.until("T3> "))[1]
    ann.type(digest)
    assert ann.end() == 0
    assert re.search(r"T3 +done +1", ann.seen)


def test_bars_grow_while_a_call_is_out(cli, person, tmp_path):
    shutil.copytree(HERE / "slow", tmp_path / "slow", ignore=shutil.ignore_patterns("__pycache__"))
    os.mkfifo(tmp_path / "gate")
    ann = person("run", "slow", "--run-id", "r1", "--watch")
    ann.until(re.compile(r"W1 +running +1"))
    ann.until(re.compile(r"W1 +running +1"))  # shown once more, though nothing happened
    (tmp_path / "gate").write_text("now")
    assert ann.end() == 0
    assert re.search(r"W1 +done +1 +", ann.seen)


@pytest.mark.parametrize("words", [[], ["--json"], ["-q"]])
def test_the_table_needs_a_terminal(cli, words):
    shown = cli("run", "desk", "--watch", *words)
    assert shown.code == 2
    assert "--watch: the table needs a terminal" in shown.err
    assert cli.runs() == []
