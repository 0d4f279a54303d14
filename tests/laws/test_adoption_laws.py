"""Laws of adopting: whatever one plan makes of another, who waits for whom is as if it had always stood so.

And what adopting costs: calls of functions, counted, grow with what changes and not with the plan.
"""

import random

import pytest

from benchmarks.replanning import adopting, calls_of, half_done, proposal
from fsm_agent.core.audit import replay
from fsm_agent.core.engine import dependents
from fsm_agent.core.errors import RefusedError
from fsm_agent.core.inputs import Replan
from fsm_agent.core.replanning import gate
from tests.core.kit import ANN, lab, tool

LOOK, SEND = tool("look", extra_arguments=True), tool("send", "write", extra_arguments=True)
INPUTS = {"a": 1, "rows": [1, 2]}


class Plans:
    """Draws plans over one shelf of ids, so that the next one has much of the last one."""

    def __init__(self, choose):
        self.choose = choose
        self.steps = {}

    def step(self, number):
        """Return a step that depends on some before it."""
        choose = self.choose
        before = [f"s{n}" for n in range(number) if f"s{n}" in self.steps and not choose(3)]
        step = {"id": f"s{number}"}
        if before:
            step["depends_on"] = [{"id": n, "optional": True} if not choose(4) else n for n in before]
            step["join"] = ("all", "any", "first")[choose(3)]
        kind = choose(6)
        if kind == 0:
            parts = [{"id": "x", "tool": "look", "args": {"n": "$inputs.a"}}]
            parts.append({"id": "y", "tool": "look", "args": {"n": number}, "depends_on": ["x"]})
            return {**step, "plan": {"steps": parts[:: 1 if choose(2) else -1]}}
        if kind == 1:
            call = {"tool": "look", "args": {"i": "$item", "n": number}}
            return {**step, "for_each": "$inputs.rows", "on_item_failure": "collect", **call}
        if kind == 2:
            step["when"] = "$inputs.a < 3"
        args = {"n": "$inputs.a"} if choose(2) else {"n": number, "v": choose(3)}
        return {
            **step,
            "tool": "look" if choose(5) else "send",
            "args": args,
            "estimate": {"tokens": 1 + number},
        }

    def next(self):
        """Return another plan: of what there is some steps are changed, dropped, brought in or stand elsewhere."""
        choose = self.choose
        for number in range(7):
            name, what = f"s{number}", choose(8)
            if what == 0:
                self.steps.pop(name, None)
            elif (name not in self.steps and what < 6) or what == 1:
                self.steps[name] = self.step(number)
        if not self.steps:
            self.steps["s0"] = self.step(0)
        for step in self.steps.values():  # what is gone is nobody's dependency
            there = [
                d for d in step.get("depends_on", ()) if (d if isinstance(d, str) else d["id"]) in self.steps
            ]
            if there != step.get("depends_on", []):
                step |= {"depends_on": there}
                if not there:
                    del step["depends_on"]
                    step.pop("join", None)
        found = [dict(step) for step in self.steps.values()]
        if not choose(3):
            found.insert(choose(len(found)), found.pop(choose(len(found))))
        return found


def play(choose, look=lambda run: None):
    """Let a run have one plan after another while its calls end; every turn of it is looked at by the lab, and *look*."""
    plans = Plans(choose)
    adopted = 0
    with lab(plans.next(), tools=(LOOK, SEND), inputs=INPUTS, slots=1 + choose(4)) as it:
        for _ in range(14):
            before = it.run.plan_version
            try:
                happen(it, choose, plans)
            except RefusedError:
                continue  # a plan that the gate does not let in, or a word to a run that has ended
            adopted += it.run.plan_version > before
            look(it.run)
    return adopted


def happen(it, choose, plans):
    """Let a call end, a person correct an input or give another plan, or time pass."""
    running = list(it.run.running)
    match choose(7):
        case 0 | 1 | 2 if running:
            it.returns(running[choose(len(running))], {"n": choose(2)})
        case 3 if running:
            it.fails(running[choose(len(running))], ("transient_error", "not_found")[choose(2)])
        case 4:
            it.set(**({"a": 1 + choose(4)} if choose(2) else {"rows": [0, 1, 2][: choose(4)]}))
        case 5:
            it.tick(choose(90))
        case _:
            it.feed(Replan(document=plans.next(), who=ANN))


def counted(run):
    """Return what is counted and listed of every task of *run*."""
    tasks = {
        t.id: (
            t.order,
            t.open_deps,
            t.done_deps,
            t.dead_deps,
            t.above,
            t.left,
            t.active,
            t.failed,
            t.given_up,
        )
        for t in run.tasks.values()
    }
    lists = [{name: list(found) for name, found in kept.items()} for kept in (run.children, run.members)]
    return tasks, lists, run.todo_tokens, sorted(set(run.ready_heap))


def test_what_is_new_is_counted_as_if_it_had_been_there(monkeypatch):
    """New tasks are entered without a look at how they stand: the same comes of looking at each."""
    bring_in = dependents.bring_in
    for seed in range(150):
        at_once, one_by_one = [], []
        play(random.Random(seed).randrange, lambda run: at_once.append(counted(run)))
        with monkeypatch.context() as patched:
            patched.setattr(dependents, "bring_in", lambda run, tasks: bring_in(run, tasks) and {})
            play(random.Random(seed).randrange, lambda run: one_by_one.append(counted(run)))
        assert at_once == one_by_one, f"seed {seed}"


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_after_any_plan_everybody_waits_for_those_that_it_names(first):
    adopted = 0
    for seed in range(first, first + 100):
        try:
            adopted += play(random.Random(seed).randrange)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
    assert adopted > 100  # so the law is one of plans that were adopted


# ── what it costs ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def calls():
    """Return how many calls adopting makes, by size of the plan and steps changed in it."""

    def counted(half, changes):
        count = len(half.engine.run.tasks)
        passed = gate.judge(half.engine.run, proposal(count, changes), scope="local", failed=f"s{count // 2}")
        assert len(passed.diff.changed) == changes
        run = half.again()
        found = calls_of(adopting(run, passed))
        assert run.plan_version == 2
        return found

    halves = {count: half_done(count) for count in (500, 2000)}
    return {
        (count, changes): counted(half, changes) for count, half in halves.items() for changes in (1, 10, 100)
    }


@pytest.mark.parametrize("changes", [1, 10, 100])
def test_adopting_costs_no_more_in_a_plan_four_times_as_long(calls, changes):
    assert calls[2000, changes] <= calls[500, changes] * 1.02


def test_adopting_costs_what_changes_step_by_step(calls):
    few = (calls[2000, 10] - calls[2000, 1]) / 9
    many = (calls[2000, 100] - calls[2000, 10]) / 90
    assert many <= 50
    assert few <= 80  # each of the first eight is also named to the end user
    assert calls[2000, 1] <= 600


def test_a_batch_that_stays_costs_no_more_the_more_records_it_has():
    def counted(rows):
        steps = [
            {"id": "all", "tool": "look", "for_each": "$inputs.rows", "args": {"n": "$item"}},
            {"id": "after", "tool": "look", "depends_on": ["all"]},
        ]
        with lab(steps, tools=(LOOK,), inputs={"rows": list(range(rows))}, checked=False) as it:
            assert len(it.run.tasks) == rows + 2
            other = [steps[0], {**steps[1], "args": {"m": 1}}]
            passed = gate.judge(it.run, other, scope="global", by_person=True)
            run = replay.replay("r", it.records, it.store.blob)
            found = calls_of(adopting(run, passed))
            assert list(run.tasks) == ["all", *(f"all[{n}]" for n in range(rows)), "after"]
            return found

    assert counted(400) <= counted(100) * 1.02
