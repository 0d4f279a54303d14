"""What the prompt offers, what a break point means, and how floods of events are folded."""

import pytest

from fsm_agent.core.errors import UsageError
from fsm_agent.core.events import Event
from fsm_agent.faces.repl.completion import Known, complete, ghost
from fsm_agent.faces.repl.conditions import read
from fsm_agent.faces.repl.history import may_keep
from fsm_agent.faces.repl.legal import makes_sense
from fsm_agent.faces.repl.printing import folded
from fsm_agent.faces.table import COMMANDS, SECTIONS
from fsm_agent.faces.table.prompt import ALIASES, AT_PROMPT, ELSEWHERE, PROMPT
from fsm_agent.sync import RunController
from tests.faces.conftest import HERE


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The run of the small desk, waiting for a yes to T3; returns it as Python sees it."""
    monkeypatch.chdir(tmp_path)
    from fsm_agent import Plan
    from fsm_agent.runtime.tools.loading import load_toolbox

    with RunController.start(
        Plan.load(HERE / "desk" / "plan.json"),
        load_toolbox(f"{HERE / 'desk' / 'tools.py'}:tools"),
        run_id="r1",
        store=tmp_path / "runs.db",
    ) as controller:
        controller.wait()
        yield controller


def offered(line, known):
    return [found.text for found in complete(line, known)]


def test_only_commands_that_make_sense_are_offered(run):
    nothing, here = Known(run=None), Known(run=run.run)
    assert {"load", "attach", "help", "quit"} <= set(offered("", nothing))
    assert {"approve", "run", "retry", "status"} & set(offered("", nothing)) == set()
    assert {"approve", "reject", "edit", "status", "why", "pause"} <= set(offered("", here))
    assert {"retry", "reconcile", "answer", "resume"} & set(offered("", here)) == set()
    run.pause()
    assert "resume" in offered("", here)


def test_tasks_are_offered_where_the_machine_lets_them(run):
    here = Known(run=run.run, runs=("r1", "r2"))
    assert offered("approve ", here) == ["T3"]
    assert offered("why ", here) == ["T1", "T2", "T3"]
    assert offered("why T", here) == ["T1", "T2", "T3"]
    assert offered("why T1 ", here) == []
    assert offered("attach ", here) == ["r1", "r2"]
    assert offered("status; approve ", here) == ["T3"]


def test_options_choices_names_and_files_are_offered(run, tmp_path):
    here = Known(run=run.run)
    assert "--digest" in offered("approve T3 --", here)
    assert offered("graph --format ", here) == ["text", "mermaid", "dot", "svg"]
    assert "--format" not in offered("graph --format text --", here)
    assert offered("edit T3 ", here) == ["guest=", "luck=", "total="]
    assert "week=" not in offered("set ", here)
    assert {"guest=", "budgets.tokens="} <= set(offered("set ", here))
    assert "default" in offered("what-if --rules ", here)
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "a.json").write_text("{}")
    assert offered("load pl", here) == ["plans/"]
    assert offered("load plans/", here) == ["plans/a.json"]
    assert offered("load /no/such/", here) == []
    assert "state=unknown-result" in offered("until state=", here)
    assert "accept" in offered("rules explain acc", here)
    assert "approve" in offered("help app", here)
    assert {"check", "show", "explain", "test"} <= set(offered("rules ", here))


def test_the_legal_answers_after_a_failure_are_offered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    from fsm_agent import Plan
    from fsm_agent.runtime.tools.loading import load_toolbox

    plan, tools = Plan.load(HERE / "desk" / "plan.json"), load_toolbox(f"{HERE / 'desk' / 'tools.py'}:tools")
    with RunController.start(plan, tools, inputs={"luck": "wrong"}, store=tmp_path / "runs.db") as controller:
        controller.wait()
        here = Known(run=controller.run)
        assert offered("answer ", here) == ["T2"]
        found = offered("answer T2 ", here)
        assert '{"decide":"retry"}' in found
        assert '{"result":{},"evidence":""}' in found
        assert offered('answer T2 {"decide":"ab', here) == ['{"decide":"abort"}']
        assert offered("answer T1 ", here) == []


def test_the_ghost_says_what_is_still_to_come():
    assert ghost("approve ") == "TASK"
    assert ghost("approve T3 ") == ""
    assert ghost("edit ") == "TASK K=V…"
    assert ghost("st; show ") == "SEQ"
    assert ghost("show") == ""
    assert ghost("nothing ") == ""
    assert ghost("note 'a ") == ""


def test_every_command_stands_once_and_the_prompt_knows_all_that_it_should():
    names = [row.name for row in PROMPT]
    assert len(names) == len(set(names))
    shared = {row.name for row in COMMANDS} - ELSEWHERE
    assert shared <= set(AT_PROMPT)
    assert set(ALIASES.values()) <= set(AT_PROMPT)
    assert set(ALIASES) & set(AT_PROMPT) == set()
    assert {row.section for row in PROMPT} <= set(SECTIONS)
    wanted = """load validate plan step run until break status why approve reject edit answer set pause resume cancel retry
    reconcile replan diff graph events show budget audit what-if save report note help quit""".split()
    assert [name for name in wanted if name not in AT_PROMPT] == []


def test_nothing_is_illegal_only_for_want_of_a_run():
    assert makes_sense(AT_PROMPT["runs"], None)
    assert makes_sense(AT_PROMPT["attach"], None)
    assert not makes_sense(AT_PROMPT["approve"], None)
    assert not makes_sense(AT_PROMPT["budget"], None)


# ── break points ──────────────────────────────────────────────────────────────────────────────────────────────


def moved(task, trigger, dest):
    return Event(1, 1, "task_moved", {"trigger": trigger, "dest": dest}, task)


def decided(signal, decide):
    return Event(1, 1, "decided", {"signal": signal, "decide": decide}, "T1")


@pytest.mark.parametrize(
    ("text", "event", "comes"),
    [
        ("T1", moved("T1", "start", "running"), True),
        ("T1", moved("T2", "start", "running"), False),
        ("T1", moved("T1", "succeed", "done"), False),
        ("T1:done", moved("T1", "succeed", "done"), True),
        ("T1:failed", moved("T1", "succeed", "done"), False),
        ("state=done", moved("T2", "succeed", "done"), True),
        ("state=failed", moved("T2", "succeed", "done"), False),
        ("signal=transient_error", decided("transient_error", "retry"), True),
        ("signal=*_error", decided("transient_error", "retry"), True),
        ("signal=success", decided("transient_error", "retry"), False),
        ("decision=replan*", decided("not_found", "replan-local"), True),
        ("decision=retry", decided("not_found", "replan-local"), False),
        ("budget.tokens<20%", decided("success", "accept"), False),
    ],
)
def test_a_condition_comes_with_the_events_that_bring_it(run, text, event, comes):
    assert read(text, {"T1", "T2"}).comes([event], run.run) is comes


def test_a_condition_on_a_task_or_a_budget_may_hold_already(run):
    assert read("T1:done", {"T1"}).holds(run.run)
    assert not read("T3:done", {"T3"}).holds(run.run)
    assert not read("state=done", ()).holds(run.run)


def test_the_start_of_a_step_that_was_stopped_at_is_passed():
    assert not read("T1", {"T1"}).comes([moved("T1", "start", "running")], None, {"T1"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("T9", "neither a task nor of a known form; write TASK, TASK:STATE"),
        ("T1:over", "there is no state 'over'; there are pending"),
        ("state=over", "there is no state 'over'"),
        ("signal=rain", "there is no signal 'rain'; there are success"),
        ("budget.beer<5", "there is no budget 'beer'; there are tool_calls"),
        ("budget.tokens<many", "neither a task nor of a known form"),
        ("decision=", "neither a task nor of a known form"),
    ],
)
def test_what_is_no_condition_is_told_with_what_is(text, words):
    with pytest.raises(UsageError, match=f"condition '{text}': .*{words}"):
        read(text, {"T1"})


def test_budgets_are_compared_with_what_is_left(run):
    run.set_input(**{"budgets.tool_calls": 4})
    assert read("budget.tool_calls<75%", ()).short(run.run)
    assert not read("budget.tool_calls<50%", ()).short(run.run)
    assert read("budget.tool_calls<3", ()).short(run.run)
    assert not read("budget.tokens<3", ()).short(run.run)


# ── floods and secrets ────────────────────────────────────────────────────────────────────────────────────────


def numbered(count):
    return [Event(i, i, "note_added", {}, None) for i in range(1, count + 1)]


def name(event):
    return f"line {event.seq}"


@pytest.mark.parametrize("count", [0, 1, 20])
def test_a_few_lines_are_shown_as_they_are(count):
    assert folded(numbered(count), name) == [f"line {i}" for i in range(1, count + 1)]


def test_a_flood_is_folded_and_says_how_to_see_the_rest():
    made = []
    shown = folded(numbered(10_056), lambda event: made.append(event) or name(event))
    assert len(shown) == 20
    assert shown[-1] == "  ... and 10037 more events: events --since 19"
    assert len(made) == 19  # nothing is made that is not shown


@pytest.mark.parametrize(
    "line", ["set api_key=1", "note Bearer abc", "load x --input token=1", "edit T1 passwd=x"]
)
def test_lines_that_look_like_secrets_are_not_kept(line):
    assert not may_keep(line, None)


def test_other_lines_are_kept(run):
    assert may_keep("set week=3", None)
    assert may_keep("edit T3 total=3", run.run)
