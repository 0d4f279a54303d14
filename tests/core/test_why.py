"""Why: every decision names its row, the rows that missed and what would have changed it; every task what it waits for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent.core.audit import hints
from fsm_agent.core.audit.answers import lines_of
from fsm_agent.core.audit.causes import MAX_CHAIN
from fsm_agent.core.audit.why import explain, why
from fsm_agent.core.errors import NotFoundError
from fsm_agent.runtime.configs import read_rules
from tests.core.kit import lab


def last(run, task: str | None = "r"):
    """The last decision, explained from the log."""
    seq = [e.seq for e in run.events("decided") if e.task == task][-1]
    return explain("r", run.events(), seq, table=read_rules("default"))


# ── decisions ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_decision_names_its_row_where_it_stands_and_the_facts_that_rows_there_look_at():
    with lab([{"id": "r", "tool": "look"}]) as run:
        run.fails("r")
        found = last(run)
        assert (found.task, found.state, found.signal, found.decide) == (
            "r",
            "failed",
            "transient_error",
            "retry",
        )
        (row,) = [r for r in read_rules("default").rows if r.id == "retry-read"]
        assert (found.rule, found.where, found.why) == ("retry-read", f"default:{row.line}", row.why)
        assert "it broke" in found.reason
        assert found.facts["retries_left"] == 3
        assert found.facts["effect"] == "read"
        assert set(found.facts) >= {"retries_left", "effect", "budget_band", "has_planner"}


def test_rows_that_nearly_answered_come_nearest_first_with_the_fact_that_they_missed():
    with lab([{"id": "r", "tool": "look"}]) as run:
        run.fails("r")
        near = {n.row: n for n in last(run).near}
        assert near["retry-write-that-did-not-happen"].missed == (
            "effect in idempotent, write, irreversible (was read)",
        )
        assert near["nobody-plans-after-retries"].missed == ("retries_left = 0 (was 3)",)
        assert near["budget-gone"].missed == ("budget_band = exhausted (was ok)",)
        assert near["failed-read-ask"].missed == ()
        missed = [len(n.missed) for n in last(run).near if n.missed]
        assert missed == sorted(missed)


def test_what_would_have_changed_it_is_one_fact_and_what_it_would_have_to_be():
    with lab([{"id": "r", "tool": "look"}]) as run:
        run.fails("r")
        other = {(o.fact, o.decide): o for o in last(run).otherwise}
        assert other["retries_left", "escalate"].values == "0"
        assert other["retries_left", "escalate"].was == 3
        assert other["retries_left", "escalate"].row == "nobody-plans-after-retries"
        assert other["budget_band", "abort"].row == "budget-gone"
        assert ("effect", "retry") not in other


def test_the_facts_are_those_that_the_table_saw_then_and_not_those_of_now():
    with lab([{"id": "r", "tool": "look"}]) as run:
        for _ in range(3):
            run.fails("r")
            run.until_due()
        run.fails("r")
        left = [
            explain("r", run.events(), e.seq).facts["retries_left"]
            for e in run.events("decided")
            if e.task == "r"
        ]
        assert left == [3, 2, 1, 0]


def test_a_row_of_the_plan_is_named_as_such_and_the_rows_of_the_table_behind_it_are_shown():
    step = {"id": "r", "tool": "look", "on_failure": {"*": {"decide": "abort", "say": "no data, no report"}}}
    with lab([step]) as run:
        run.fails("r", "not_found")
        found = last(run)
        assert (found.rule, found.where, found.decide) == ("plan:r.on_failure.*", "plan 1", "abort")
        assert "no data, no report" in found.why
        assert any(n.row == "nobody-plans" and n.missed == () for n in found.near)
        assert found.otherwise == ()


def test_without_the_file_a_row_is_named_by_the_tables_name():
    with lab([{"id": "r", "tool": "look"}]) as run:
        run.fails("r")
        seq = run.events("decided")[-1].seq
        assert explain("r", run.events(), seq).where == "default"


def test_a_decision_of_the_run_is_explained_too():
    plan = [{"id": "r", "tool": "look"}]
    with lab(plan, constraints=[{"key": "k", "value": 1, "check": "n <= value"}]) as run:
        run.returns("r", {"n": 2})
        found = last(run, None)
        assert (found.task, found.state, found.signal, found.decide) == (
            None,
            "running",
            "constraint_violated",
            "escalate",
        )
        assert {o.fact for o in found.otherwise} <= {"has_planner"}


def test_for_people_a_decision_is_one_thing_per_line():
    with lab([{"id": "r", "tool": "look"}]) as run:
        run.fails("r")
        text = str(last(run)).splitlines()
        assert text == lines_of(last(run))
        assert text[0].endswith("r is failed, transient_error → retry")
        assert any(line.startswith("  row retry-read (default:") for line in text)
        assert "  if retries_left were 0 (it was 3): escalate (nobody-plans-after-retries)" in text
        assert any("it fits, and stands in a lower tier" in line for line in text)
        assert last(run).to_json()["rule"] == "retry-read"


def test_where_no_row_looks_at_a_fact_none_is_listed():
    with lab([{"id": "r", "tool": "look"}]) as run:
        run.returns("r")
        assert len(lines_of(last(run))) == 3


def test_what_is_no_decision_cannot_be_explained_as_one():
    with lab([{"id": "r", "tool": "look"}]) as run:
        with pytest.raises(NotFoundError, match="event 1 of run r: it is no decision"):
            explain("r", run.events(), 1)
        with pytest.raises(NotFoundError):
            explain("r", run.events(), 999)


SIGNALS = ["transient_error", "not_found", "unclassified_error", "rate_limited", "auth_denied", "conflict"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(SIGNALS), min_size=1, max_size=6), st.sampled_from(["look", "put", "mail"]))
def test_the_fact_that_is_said_to_change_a_decision_does(signals, name):
    """Ask the table again with that one fact otherwise: another decision, by the row that was named."""
    with lab([{"id": "r", "tool": name}]) as run:
        for signal in signals:
            if run.task("r").state == "pending":
                run.until_due()
            if run.task("r").state == "failed":
                run.retry("r")
                run.until_due()
            run.fails("r", signal)
        for event in run.events("decided"):
            found = explain("r", run.events(), event.seq)
            table, place = run.run.rules, ("task", found.state, found.signal)
            whole = dict(table.initial) | dict(found.facts)
            assert table.match(*place, whole).id == found.rule
            for other in found.otherwise:
                values = [
                    v
                    for v in domain(table, other.fact)
                    if table.match(*place, {**whole, other.fact: v}).id == other.row
                ]
                assert values
                assert found.facts[other.fact] not in values
                assert other.decide != found.decide


def domain(table, fact: str):
    values = table.inputs[fact]
    return values if isinstance(values[0], str) else range(values[0], values[1] + 1)


# ── tasks, the run, events ────────────────────────────────────────────────────────────────────────────────────


def of(run, subject=None):
    return why("r", run.events(), subject)


def test_a_task_that_was_tried_again_says_when_its_next_try_is_due_and_what_led_there():
    with lab([{"id": "r", "tool": "look"}]) as run:
        run.fails("r")
        found = of(run, "r")
        assert (found.subject, found.state) == ("r", "pending")
        assert found.waits.startswith("its next try, in 0.5")
        assert found.commands == ()
        assert found.decision.rule == "retry-read"
        assert [link.words for link in found.chain] == [
            "the run was created: test",
            "plan 1 was adopted (initial)",
            "the run went from pending to running: the plan is adopted",
            "r called look, attempt 1",
            "r failed: it broke",
            "on transient_error of r the table decided retry (row retry-read)",
            "r is tried again in 0.5 s",
        ]
        assert found.to_json()["schema"] == "fsm-agent/why@1"


def test_a_task_behind_others_names_those_at_the_far_end_and_the_command_that_moves_them():
    plan = [
        {"id": "a", "description": "which trip?"},
        {"id": "w", "tool": "mail", "requires_confirmation": True},
        {"id": "b", "tool": "look", "depends_on": ["a"]},
        {"id": "c", "tool": "look", "depends_on": ["b", "w"]},
    ]
    with lab(plan) as run:
        found = of(run, "c")
        assert "a, which is awaiting-confirmation and waits for a person's word: which trip?" in found.waits
        assert "w, which is awaiting-confirmation" in found.waits
        assert "b" not in found.waits.split(",")[0]
        digest = run.question("w").digest[:8]
        assert found.commands == (
            f"fsm-agent approve r w --digest {digest}",
            'fsm-agent reject r w -m "why"',
            f"fsm-agent answer r a JSON --digest {run.question('a').digest[:8]}",
        )
        assert found.decision is None
        assert found.chain == ()


def test_a_dependency_that_several_wait_for_is_named_once_and_one_that_is_done_not_at_all():
    plan = [
        {"id": "z", "tool": "look"},
        {"id": "a", "tool": "look", "args": {"n": 1}},
        {"id": "b", "tool": "look", "depends_on": ["a"]},
        {"id": "c", "tool": "look", "depends_on": ["a", "b", "z"]},
    ]
    with lab(plan) as run:
        run.returns("z")
        found = of(run, "c")
        assert found.waits == "a, which is running and waits for look, called at attempt 1, until in 10 s"


def test_an_escalated_task_says_what_is_asked_and_how_to_answer():
    with lab([{"id": "r", "tool": "look"}]) as run:
        run.fails("r", "auth_denied")
        found = of(run, "r")
        assert found.state == "failed"
        assert found.waits.startswith("a person's word: auth_denied")
        meant = run.question("r").digest[:8]
        assert found.commands == (f'fsm-agent answer r r \'{{"decide": "retry"}}\' --digest {meant}',)


def test_an_unknown_result_waits_for_its_look_up_and_then_for_evidence():
    with lab([{"id": "w", "tool": "pay"}, {"id": "m", "tool": "mail"}]) as run:
        run.tick(11)
        assert of(run, "w").waits.startswith("the look-up what became of pay, in ")
        assert (
            of(run, "m").commands[0] == "fsm-agent reconcile r m --as applied --evidence TEXT --result JSON"
        )
        run.until_due()
        assert of(run, "w").waits == "the answer of the look-up what became of pay"
        run.finds("w", "applied", 1)
        assert of(run, "w").waits == ""
        run.ask("cancel", "m")
        assert "accepted that it is not known" in hints.of_task(run.run, run.task("m")).words


def test_an_unknown_result_that_nobody_asks_about_waits_for_evidence():
    with lab([{"id": "m", "tool": "mail"}, {"id": "r", "tool": "put"}]) as run:
        run.ask("cancel")
        run.tick(11)
        run.run.questions.pop("m", None)
        found = hints.of_task(run.run, run.task("m"))
        assert found.words == "evidence of what became of it"
        run.crash()
        run.checked = False
        run.ask("cancel", "m", "r")


def test_a_paused_run_is_what_its_tasks_wait_for():
    with lab([{"id": "a", "tool": "look"}, {"id": "b", "tool": "look", "args": {"n": 1}}], slots=1) as run:
        run.ask("pause")
        assert of(run, "b").waits == "the whole run: an operator paused it"
        assert of(run, "b").commands == ("fsm-agent resume r",)
        assert of(run).waits == "an operator paused it"
        run.returns("a")
        assert of(run).commands[0] == "fsm-agent resume r"
        run.resume()
        run.returns("b")


def test_a_run_that_is_asked_to_end_says_so():
    with lab([{"id": "a", "tool": "put"}, {"id": "b", "tool": "look"}], slots=1) as run:
        run.ask("abort")
        assert of(run, "b").waits == "the whole run: it is asked to abort, and lets end what is under way"
        run.returns("a")
        assert of(run, "b").waits == "the run to be resumed"
        assert of(run, "b").commands == ("fsm-agent resume r",)
        assert of(run).waits == ""
        assert of(run).commands[0] == "fsm-agent resume r"


def test_a_run_that_cannot_end_before_something_is_known_says_what():
    with lab([{"id": "m", "tool": "mail"}, {"id": "b", "tool": "look", "depends_on": ["m"]}]) as run:
        run.tick(11)
        run.ask("cancel")
        assert of(run).waits == "a person's word about m, of which nobody knows; then it can cancel"
        assert "fsm-agent cancel r --acknowledge m" in of(run).commands
        assert any(c.startswith("fsm-agent reconcile r m --as applied") for c in of(run).commands)
        run.ask("cancel", "m")


def test_a_step_behind_a_broken_constraint_waits_for_another_plan():
    limit = {"key": "most", "value": 10, "check": "cost <= value"}
    plan = [{"id": "a", "tool": "look"}, {"id": "b", "tool": "put", "depends_on": ["a"]}]
    with lab(plan, constraints=[limit], planner=True) as run:
        run.returns("a", {"cost": 20})
        assert of(run, "b").waits == "a new plan: the planner is being asked"


def test_a_failed_task_whose_run_is_asked_to_end_waits_for_the_run():
    step = {"id": "a", "tool": "look", "on_failure": {"*": "abort"}}
    with lab([step, {"id": "b", "tool": "put"}]) as run:
        run.fails("a", "not_found")
        assert of(run, "a").waits.startswith("the whole run: it is asked to abort")
        run.returns("b")
        assert of(run, "a").waits == "the run to be resumed"


def test_a_failed_task_that_is_planned_anew_says_what_its_plan_waits_for():
    plan = [{"id": "r", "tool": "look", "timeout_s": 100}, {"id": "m", "tool": "mail"}]
    with lab(plan, rules="exploratory", planner=True) as run:
        run.fails("r", "bad_request")
        assert of(run, "r").waits == "a new plan, which waits for the calls of m to end"
        run.returns("m")
        assert of(run, "r").waits == "a new plan: the planner is being asked"
    with lab(plan, rules="exploratory", planner=True) as run:
        run.tick(11)
        run.fails("r", "bad_request")
        assert of(run, "r").waits == "a new plan, which waits until it is known what became of m"
        request = run.run.replans["r"]
        run.run.tasks["m"].state, before = "done", run.run.tasks["m"].state
        later = hints.of_task(run.run, run.task("r"))
        run.run.tasks["m"].state = before
        assert (later.words, request.task) == ("a new plan, now", "r")


def test_a_ready_task_waits_for_a_place_or_for_a_budget():
    plan = [{"id": "a", "tool": "look"}, {"id": "b", "tool": "look", "args": {"n": 1}}]
    with lab(plan, slots=1, budgets={"tool_calls": 1}) as run:
        assert of(run, "b").waits == "a budget: 2 tool calls would be used, 1 are allowed"
        assert of(run, "b").commands == ("fsm-agent set r budgets.KEY=V",)
    with lab(plan, slots=1) as run:
        assert of(run, "b").waits.startswith("a free place among the calls")
        run.returns("a")
        run.returns("b")
        assert of(run, "b").waits == ""
        assert of(run, "b").state == "done"


def test_a_cancelled_task_says_why_and_waits_for_nothing():
    plan = [
        {"id": "a", "tool": "look"},
        {"id": "b", "tool": "look", "when": "$a.go == true", "depends_on": ["a"]},
    ]
    with lab(plan) as run:
        run.returns("a", {"go": False})
        found = of(run, "b")
        assert (found.state, found.waits) == ("cancelled", "")
        assert "its condition `$a.go == true` is false" in found.reason


def test_a_run_says_what_it_waits_for():
    with lab([{"id": "a", "tool": "look"}, {"id": "q", "description": "?"}]) as run:
        assert of(run).waits == "a person's word about q"
        run.answer("q", 1)
        assert of(run, "run").waits == "the calls of a"
        assert of(run).commands == ("fsm-agent resume r", "fsm-agent cancel r")
        run.engine.slots = 0
        run.fails("a")
        run.ports.clock.advance(10)
        assert of(run).waits == "whoever drives it"
        run.engine.slots = 4
        run.until_due()
        run.returns("a")
        found = of(run)
        assert (found.state, found.waits) == ("done", "")
        assert found.reason.startswith("everything is done")


def test_an_event_is_explained_by_the_decision_that_it_follows_from():
    with lab([{"id": "r", "tool": "look"}]) as run:
        run.fails("r")
        moved = run.events("task_moved", task="r")[-1]
        found = of(run, moved.seq)
        assert (found.subject, found.state) == (f"event {moved.seq}", "task_moved")
        assert found.decision.rule == "retry-read"
        assert found.chain[-1].seq == moved.seq
        decided = run.events("decided")[-1]
        assert of(run, str(decided.seq)).decision.seq == decided.seq
        first = of(run, 1)
        assert (first.decision, [link.seq for link in first.chain]) == (None, [1])


def test_a_number_is_a_task_where_a_task_has_that_name():
    with lab([{"id": "7", "tool": "look"}]) as run:
        run.returns("7")
        assert of(run, "7").state == "done"
        assert of(run, 7).subject == "event 7"


def test_unknown_tasks_and_events_are_named():
    with lab([{"id": "r", "tool": "look"}]) as run:
        with pytest.raises(NotFoundError, match="task x: run r has no such task; it has r"):
            of(run, "x")
        with pytest.raises(NotFoundError, match="event 99: the log of run r has events 1 to"):
            of(run, 99)


def test_of_a_long_chain_the_end_is_shown():
    plan = [
        {"id": f"s{n}", "tool": "look", "args": {"n": n}, **({"depends_on": [f"s{n - 1}"]} if n else {})}
        for n in range(9)
    ]
    with lab([*plan, {"id": "q", "tool": "look", "when": "$s8.n == 0", "depends_on": ["s8"]}]) as run:
        for n in range(9):
            run.returns(f"s{n}", {"n": n})
        chain = of(run, "q").chain
        assert len(chain) == MAX_CHAIN
        assert chain[-1].words.startswith("q was cancelled: its condition")
        assert chain[0].words.startswith("s")
