"""The same verbs without ``await``: they do the same, inside a running loop too, and look well in a notebook."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fsm_agent import NotFoundError, OwnedError, Plan, RefusedError, RunController, Toolbox, UsageError
from fsm_agent.runtime import speaking
from fsm_agent.sync import OpenQuestion
from fsm_agent.sync import RunController as Sync

PLAN = {
    "goal": "greet <b>everybody</b>",
    "inputs": {"who": "<Ann>"},
    "steps": [
        {"id": "s1", "tool": "look", "args": {"who": "$inputs.who"}, "done_when": "found == true"},
        {"id": "s2", "tool": "greet", "args": {"who": "$inputs.who"}, "depends_on": ["s1"]},
    ],
}


@pytest.fixture
def tools():
    box = Toolbox()

    @box.read
    def look(who: str) -> dict:
        return {"found": True}

    @box.write(confirm=True)
    def greet(who: str) -> dict:
        return {"greeted": who}

    return box


@pytest.fixture
def run(tools, tmp_path):
    with Sync.start(Plan.make(PLAN), tools, store=tmp_path / "runs.db", run_id="r1") as run:
        yield run


def test_a_run_is_driven_asked_about_and_finished_without_await(run):
    report = run.wait()
    assert report["state"] == "awaiting-confirmation"
    (question,) = run.questions
    assert (question.task, question.kind) == ("s2", "approval")
    question.approve(by="ann")
    assert run.wait()["state"] == "done"
    assert run.status().tasks["s2"].result == {"greeted": "<Ann>"}
    assert [e.seq for e in run.events(since=3)] == list(range(4, run.head.seq + 1))
    assert list(run.events(follow=True))[-1].type == "run_closed"
    assert run.why("s2").state == "done"


def test_it_works_inside_a_running_loop_as_in_a_notebook(tools, tmp_path):
    async def cell():
        with Sync.start(Plan.make(PLAN), tools, store=tmp_path / "runs.db") as run:
            return run.wait()["state"], run.step().state

    assert asyncio.run(cell()) == ("awaiting-confirmation", "awaiting-confirmation")


def test_the_asynchronous_controller_is_awaited_at_the_prompt_of_asyncio(tmp_path):
    """As in IPython: no loop to be started, nothing to be wrapped."""
    lines = """
from fsm_agent import Plan, RunController, Toolbox
tools = Toolbox()
tools.add(lambda a: {"sum": a + 1}, effect="read", name="add")

run = await RunController.start(Plan.make({"steps": [{"id": "s", "tool": "add", "args": {"a": 1}}]}), tools, store="runs.db")
print((await run.wait())["state"], [q for q in run.questions])
run
await run.close()
"""
    done = subprocess.run(
        [sys.executable, "-m", "asyncio"],
        input=lines,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert "done []" in done.stdout, done.stderr
    assert "1/1 done, head" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_step_is_one_step_and_nothing_starts_between(run):
    assert run.step().done == 1
    assert run.run.running == {}
    assert run.step().state == "awaiting-confirmation"


def test_what_is_refused_is_refused_here_as_well(run):
    with pytest.raises(RefusedError):
        run.approve("s2", digest="00000000", by="ann")
    with pytest.raises(NotFoundError):
        run.why("s9")


def test_words_of_every_kind_arrive(run):
    run.wait()
    run.note("hello", by="ann")
    run.edit("s2", {"who": "Bea"}, by="ann")
    run.set_input(who="Cid", by="ann")
    run.pause(by="ann")
    run.resume(by="ann")
    with pytest.raises(RefusedError):
        run.retry("s1", by="ann")
    with pytest.raises(RefusedError):
        run.reconcile("s1", by="ann")
    with pytest.raises(RefusedError):
        run.answer("s1", 1, by="ann")
    run.replan(PLAN, by="ann")
    run.cancel(by="ann")
    assert run.wait()["state"] == "cancelled"


def test_a_question_can_be_rejected_edited_and_answered(tools, tmp_path):
    plan = Plan.make(
        {"steps": [{"id": "a", "description": "which one?"}, *PLAN["steps"]], "inputs": {"who": "x"}}
    )
    with Sync.start(plan, tools, store=tmp_path / "runs.db") as run:
        run.wait()
        asked = {q.task: q for q in run.questions}
        asked["a"].answer({"chosen": 1}, by="ann")
        asked["s2"].edit(by="ann", who="y")
        (again,) = run.questions
        assert again.args["who"] == "y"
        again.reject(by="ann", note="no")
        assert run.wait()["state"] == "cancelled"


def test_break_points_and_halts(run):
    seen = []

    def stop(events):
        seen.extend(e.type for e in events)
        return any(e.task == "s2" for e in events)

    assert run.wait(stop_before=stop)["state"] == "running"
    assert seen
    run.halt()
    run.flush()
    assert run.wait(until=lambda status: bool(status.questions))["state"] == "awaiting-confirmation"


def test_it_can_be_left_and_taken_over_and_looked_at(tools, tmp_path):
    place = tmp_path / "runs.db"
    with Sync.start(Plan.make(PLAN), tools, store=place, run_id="r1") as run:
        run.step()
        with pytest.raises(OwnedError):
            Sync.open(place, "r1", tools)
    assert repr(run) == "<run r1: closed here>"
    with Sync.attach(place, "r1") as looking:
        assert looking.status().done == 1
        looking.note("seen", by="bob")
        with pytest.raises(RefusedError, match="attached and drives nothing"):
            looking.wait()
    with Sync.open(place, "r1", tools) as again:
        assert again.wait()["state"] == "awaiting-confirmation"
    with pytest.raises(NotFoundError):
        Sync.attach(place, "r9")
    assert [t.name for t in threading.enumerate() if t.name == "fsm-agent"] == []


def test_a_listener_that_asks_for_more_is_told_that_it_would_wait_for_itself(tools, tmp_path):
    found = []

    def listen(events):
        try:
            run.status()
        except UsageError as error:
            found.append(str(error))

    with Sync.start(Plan.make(PLAN), tools, store=tmp_path / "runs.db", listeners=[listen]) as run:
        run.wait()
    assert "inside its own loop" in found[-1]


def test_an_interruption_ends_the_wait_and_nothing_more_starts(tmp_path):
    tools, after = Toolbox(), []

    @tools.read
    def interrupt() -> dict:
        os.kill(os.getpid(), signal.SIGINT)
        return {}

    @tools.read
    def follow() -> dict:
        after.append(1)
        return {}

    plan = Plan.make(
        {"steps": [{"id": "a", "tool": "interrupt"}, {"id": "b", "tool": "follow", "depends_on": ["a"]}]}
    )
    with Sync.start(plan, tools, store=tmp_path / "runs.db") as run:
        with pytest.raises(KeyboardInterrupt):
            while True:  # the signal may come a moment after the tool has ended
                run.wait(stop_before=lambda events: any(e.task == "b" for e in events))
        assert after == []
        assert run.wait()["state"] == "done"
        run.close()
        run.close()
        with pytest.raises(RefusedError, match="it was closed here"):
            run.status()


# ── how it looks ──────────────────────────────────────────────────────────────────────────────────────────────


class Printer:
    """What IPython hands to ``_repr_pretty_``."""

    def __init__(self):
        self.shown = ""

    def text(self, text):
        self.shown += text


def test_values_are_shown_on_one_line_and_as_escaped_html(run):
    run.wait()
    assert repr(run) == repr(run.status()) == "<run r1: awaiting-confirmation, 1/2 done, head 9>"
    (question,) = run.questions
    assert repr(question).startswith("<approval for s2: 'may greet be called?', digest ")
    for shown in (run._repr_html_(), run.status()._repr_html_(), question._repr_html_()):
        assert "<table>" in shown
        assert "<Ann>" not in shown
        assert "script" not in shown
    assert "&lt;Ann&gt;" in question._repr_html_()
    for value in (run, run.status()):
        printer = Printer()
        value._repr_pretty_(printer, False)
        assert printer.shown == repr(value)


def test_the_asynchronous_ones_are_shown_alike(tools, tmp_path):
    async def cell():
        async with await RunController.start(Plan.make(PLAN), tools, store=tmp_path / "runs.db") as run:
            await run.wait()
            return run._repr_html_(), run.questions[0]._repr_html_()

    for shown in asyncio.run(cell()):
        assert "<table>" in shown
        assert "<Ann>" not in shown


def public(cls):
    return {name for name in dir(cls) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("sync", "own", "left_out"),
    [(Sync, RunController, {"say", "vault", "heads"}), (OpenQuestion, speaking.OpenQuestion, set())],
)
def test_both_have_the_same_names_with_the_same_arguments(sync, own, left_out):
    assert public(own) - left_out <= public(sync)
    for name in public(own) - left_out:
        a, b = getattr(sync, name), getattr(own, name)
        if callable(a):
            given = {
                p: v.kind for p, v in inspect.signature(b).parameters.items() if p not in ("ports", "lease_s")
            }
            assert {p: v.kind for p, v in inspect.signature(a).parameters.items()} == given, name
