"""Tasks with parts when what they rest on changes: they come to the door again, and nothing that had an effect is undone."""

import pytest

from fsm_agent.core.audit.audit import audit
from fsm_agent.core.audit.checker import Checker
from fsm_agent.core.audit.hints import of_task
from fsm_agent.core.audit.integrity import stored_head
from fsm_agent.core.audit.plans import plan_asked_for
from fsm_agent.core.canon import value_digest
from fsm_agent.core.engine import groups
from fsm_agent.core.engine.arguments import scope_of
from fsm_agent.core.events import Event, Head
from fsm_agent.core.inputs import Outcome, Replan, Usage
from fsm_agent.core.plans import planning
from fsm_agent.core.plans.members import every, walk
from fsm_agent.core.signals import Applied, Signal
from tests.core.kit import ANN, lab, reseal


def part(*steps, **more):
    return {"id": "s", "plan": {"steps": list(steps)}, **more}


LOOK = {"id": "a", "tool": "look", "args": {"x": 1}}
PAY = {"id": "b", "tool": "pay", "args": {"x": 2}}
END = {"id": "z", "description": "well?", "depends_on": [{"id": "s", "optional": True}]}
BATCH = {"id": "s", "tool": "look", "args": {"x": "$item"}, "for_each": "$inputs.rows"}


def test_a_condition_that_no_longer_holds_asks_about_a_nested_plan_that_had_an_effect():
    with lab([part(PAY, when="$inputs.w == 1"), END], inputs={"w": 1}) as it:
        it.returns("s/b", {"n": 1})
        it.set(w=2)
        question = it.question("s")
        assert "s/b (pay) had an effect and stays as it is" in question.say
        it.set(w=3)
        assert it.question("s") == question  # asked once
        it.decide("s", "keep", note="it may stay")
        it.answer("z", 1)
        assert (it.run.state, it.task("s").state) == ("done", "done")


def test_a_condition_that_no_longer_holds_takes_back_a_nested_plan_that_only_read():
    with lab([part(LOOK, when="$inputs.w == 1"), END], inputs={"w": 1}) as it:
        it.returns("s/a", {"n": 1})
        it.set(w=2)
        assert (it.task("s").state, it.task("s").reason_code) == ("cancelled", "condition")
        it.set(w=1)
        assert it.task("s").state == "done"
        assert len(it.starts("s/a")) == 1  # its result was still right
        it.answer("z", 1)


def test_a_nested_plan_that_is_at_work_comes_to_the_door_again():
    late = {"id": "c", "tool": "look", "args": {"x": 3}, "depends_on": ["a"]}
    with lab([part(LOOK, late, when="$inputs.w == 1"), END], inputs={"w": 1}) as it:
        it.set(w=2)
        assert it.task("s").reason_code == "condition"
        assert it.task("s/c").state == "cancelled"
        it.returns("s/a", {"n": 1})
        it.answer("z", 1)


def test_what_waits_for_another_list_waits_for_what_makes_it():
    listed = {"id": "l", "tool": "look", "args": {"w": "$inputs.w"}}
    batch = {**BATCH, "for_each": "$l.rows", "depends_on": ["l"]}
    with lab([listed, batch, END], inputs={"w": 1}, slots=4) as it:
        it.returns("l", {"rows": [1, 2]})
        it.returns("s[0]", 1)
        it.set(w=2)
        assert (it.task("l").state, it.task("s").state) == ("running", "pending")
        it.returns("s[1]", 1)
        assert it.task("s").state == "pending"  # its list is still to come
        it.returns("l", {"rows": [1, 3]})
        assert (it.task("s[0]").state, it.task("s[1]").state) == ("done", "running")
        it.returns("s[1]", 2)
        assert it.task("s").result == [1, 2]
        it.answer("z", 1)


def test_a_list_that_is_gone_is_a_failure_and_its_return_mends_it():
    with lab([BATCH, END], inputs={"rows": [1]}) as it:
        it.returns("s[0]", 1)
        it.set(rows=7)
        assert it.task("s").state == "failed"
        it.set(rows=[1])
        it.decide("s", "retry")
        it.until_due()
        assert (it.task("s").state, it.task("s").result) == ("done", [1])
        it.answer("z", 1)


def test_records_that_left_a_list_come_back_with_it():
    with lab([BATCH, END], inputs={"rows": [1, 2, 3]}, slots=4) as it:
        it.returns("s[0]", 1)
        it.set(rows=[1])
        assert it.task("s[2]").reason_code == "superseded"
        it.set(rows=[1, 2, 3])
        for index in (1, 2):
            if it.task(f"s[{index}]").state == "running":
                it.returns(f"s[{index}]", index)
        while it.run.running:
            it.returns(next(iter(it.run.running)), 5)
        assert it.task("s").state == "done"
        it.answer("z", 1)


def test_a_nested_plan_whose_result_does_not_do_has_failed():
    with lab([part(LOOK, done_when="a.n > 3")]) as it:
        it.returns("s/a", {"n": 1})
        assert it.decisions("s")[0] == ("validation_failed", "escalate")
        it.decide("s", "abort")


def test_a_rejected_part_takes_its_plan_along():
    with lab([part({**PAY, "requires_confirmation": True}), END]) as it:
        it.reject("s/b")
        assert (it.task("s").state, it.task("s").reason_code) == ("cancelled", "rejected")
        assert "s/b, a part of it" in it.task("s").reason


def test_more_records_than_are_allowed_are_refused():
    with lab([BATCH], inputs={"rows": [0] * 100_001}) as it:
        assert "at most 100000 are allowed" in it.task("s").reason
        it.decide("s", "abort")


# ── what the audit says of forged parts ───────────────────────────────────────────────────────────────────────


def forged(it, wanted, change):
    """The messages about a log in which one event was changed and hashed anew."""
    events = it.events()
    at = next(i for i, e in enumerate(events) if wanted(e))
    events[at] = change(events[at])
    records, head = reseal(it.run.id, events)
    return " | ".join(f.message for f in audit(it.run.id, records, it.store.blob, head=head).findings)


def expansion(event):
    return event.type == "expanded"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda e: e._replace(data={**e.data, "records": 3}), "which are not those of its list"),
        (lambda e: e._replace(data={**e.data, "digest": "0" * 64}), "which are not those of its list"),
        (lambda e: e._replace(task="z"), "z has no parts, and they begin"),
        (lambda e: e._replace(data={"again": "why not"}), "are to wait, and they have not begun"),
    ],
)
def test_an_audit_finds_parts_that_begin_otherwise_than_the_plan_says(change, said):
    with lab([BATCH, END], inputs={"rows": [1, 2]}, slots=2) as it:
        it.returns("s[0]", 1)
        it.returns("s[1]", 1)
        it.answer("z", 1)
        assert said in forged(it, expansion, change)


def test_an_audit_finds_a_nested_plan_of_another_size_and_a_result_that_is_not_that_of_the_parts():
    with lab([part(LOOK)]) as it:
        it.returns("s/a", {"n": 1})
        said = forged(it, expansion, lambda e: e._replace(data={"steps": 2}))
        assert "s has 1 steps, and 2 begin" in said

        def settled(event):
            return event.type == "task_moved" and event.task == "s"

        said = forged(it, settled, lambda e: e._replace(data={**e.data, "result": {"a": 2}}))
        assert "the result is not" in said


def test_an_audit_finds_a_task_that_is_done_before_its_parts_are():
    with lab([part(LOOK, PAY)], slots=2) as it:
        it.returns("s/a", {"n": 1})
        it.returns("s/b", {"n": 1})
        events = it.events()
        end = next(i for i, e in enumerate(events) if e.task == "s" and e.type == "task_moved")
        early = next(
            i for i, e in enumerate(events) if e.task == "s/b" and e.data.get("trigger") == "succeed"
        )
        moved = [*events[:early], events[end], *events[early:end], *events[end + 1 :]]
        anew = [
            e._replace(seq=i, at=moved[0].at + i, cause=None, tx=None) for i, e in enumerate(moved, start=1)
        ]
        records, head = reseal(it.run.id, anew)
        found = audit(it.run.id, records, it.store.blob, head=head).findings
        assert any("of its parts have not ended" in f.message for f in found)


def test_batches_in_batches_that_would_make_more_tasks_than_a_run_can_hold_are_refused(monkeypatch):
    monkeypatch.setattr(groups, "MAX_TASKS", 8)
    inner = {"id": "in", "tool": "look", "args": {"x": "$item"}, "for_each": "$inputs.rows"}
    step = {"id": "s", "for_each": "$inputs.rows", "plan": {"steps": [inner]}}
    with lab([step], inputs={"rows": [1, 2]}) as it:
        assert it.decisions() == []
        assert [it.states[f"s[0]/in[{n}]"] for n in (0, 1)] == ["running", "running"]
        assert it.decisions("s[1]/in")[-1][0] == "bad_request"
        assert "would make 2 more tasks; at most 8 are allowed in a run" in it.question("s[1]/in").say
        it.returns("s[0]/in[0]", 1)
        it.returns("s[0]/in[1]", 1)
    with lab([step], inputs={"rows": [1, 2, 3, 4]}) as it:
        assert "would make 8 more tasks" in it.question("s").say


def test_a_record_that_waits_for_its_batch_alone_wakes_the_run_whatever_else_is_asked():
    with lab(
        [{**BATCH, "max_parallel": 1}, END, {"id": "q", "description": "?"}], inputs={"rows": [1, 2]}
    ) as it:
        it.fails("s[0]", "not_found")
        assert it.run.state == "awaiting-confirmation"
        it.answer("s[0]", {"result": 1, "evidence": "I looked"})
        assert it.states["s[1]"] == "running"
        it.returns("s[1]", 1)


# ── what is waited for, and what is read where ────────────────────────────────────────────────────────────────


def test_a_record_that_its_batch_does_not_admit_says_so():
    with lab([{**BATCH, "max_parallel": 1}], inputs={"rows": [1, 2, 3]}) as it:
        assert "a place among the 1 records that s works on at once" in of_task(it.run, it.task("s[1]")).words
        it.fails("s[0]", "auth_denied")
        waits = of_task(it.run, it.task("s[1]"))
        assert "s, which begins no further record: s[0] has failed and waits for" in waits.words
        assert waits.commands
        assert "s[0]" in of_task(it.run, it.task("s")).words
        it.decide("s[0]", "abort")


def test_what_waits_for_a_task_with_parts_waits_for_its_parts():
    with lab([part(LOOK), {"id": "y", "tool": "look", "args": {"y": 1}, "depends_on": ["s"]}]) as it:
        assert "s/a, which is running" in of_task(it.run, it.task("y")).words
        it.returns("s/a", 1)
        it.returns("y", 1)


def test_a_list_that_is_not_in_a_result_is_an_unresolved_reference():
    batch = {**BATCH, "for_each": "$l.rows", "depends_on": ["l"]}
    with lab([{"id": "l", "tool": "look"}, batch]) as it:
        it.returns("l", {"other": 1})
        assert it.decisions("s")[0][0] == "unresolved_reference"
        assert "l.rows" in it.task("s").reason
        it.decide("s", "abort")


def test_a_share_that_is_used_to_the_last_token_lets_nothing_start():
    late = {"id": "c", "tool": "look", "args": {"x": 3}, "depends_on": ["a"]}
    with lab([part(LOOK, late, budgets={"tokens": 10})]) as it:
        it.ends("s/a", Outcome(kind="value", value=1, usage=Usage(tokens=10)))
        assert it.decisions() == [("budget_exhausted", "abort")]
        assert "no tokens are left of the share of s" in it.events("decided")[-1].data["reason"]


def test_an_item_has_a_value_in_a_record_only():
    with lab([BATCH], inputs={"rows": [7]}) as it:
        assert scope_of(it.run, ["$item", "$index"], at="s[0]") == {"$item": 7, "$index": 0}
        assert scope_of(it.run, ["$item", "$index"], at="s") == {}
        it.returns("s[0]", 1)


def test_a_batch_inside_a_record_s_plan_has_records_of_its_own():
    inner = {"id": "p", "tool": "look", "args": {"x": "$item"}, "for_each": "$inputs.more"}
    outer = {"id": "s", "for_each": "$inputs.rows", "plan": {"steps": [inner]}}
    with lab([outer], inputs={"rows": [1, 2], "more": [3, 4]}, slots=9) as it:
        for name in ("s[0]/p[0]", "s[0]/p[1]", "s[1]/p[0]", "s[1]/p[1]"):
            it.returns(name, name)
        assert it.task("s").result == [
            {"p": ["s[0]/p[0]", "s[0]/p[1]"]},
            {"p": ["s[1]/p[0]", "s[1]/p[1]"]},
        ]


def test_two_equal_rows_are_two_calls_also_when_one_has_moved():
    pay = {"id": "s", "tool": "pay", "args": {"x": "$item"}, "for_each": "$inputs.rows"}
    with lab([pay, END], inputs={"rows": [1]}, slots=9) as it:
        it.returns("s[0]", {"n": 1})
        it.set(rows=[2, 1])
        assert (it.task("s[1]").state, len(it.starts("s[1]"))) == ("done", 0)
        it.decide("s[0]", "keep", note="it is right")
        it.set(rows=[2, 1, 1])
        assert len(it.starts("s[2]")) == 1
        it.returns("s[2]", {"n": 1})
        it.answer("z", 1)


def test_every_step_that_a_plan_states_is_named_the_templates_of_batches_too():
    batch = {"id": "t", "for_each": "$inputs.rows", "plan": {"steps": [PAY]}}
    plan = planning.load({"inputs": {"rows": []}, "steps": [part(LOOK), batch]})
    assert [step.id for step in every(plan.steps)] == ["s", "s/a", "t", "t/b"]
    assert [step.id for step in walk(plan.steps)] == ["s", "s/a", "t"]


def test_a_store_that_lists_another_head_is_found_out():
    assert stored_head(Head(3, b"x"), Head(3, b"x")) == ""
    assert "the store says that the log ends at event 4" in stored_head(Head(4, b"y"), Head(3, b"x"))


def test_the_success_of_another_task_is_no_evidence():
    other = {"id": "o", "tool": "pay", "args": {"x": 9}}
    with lab([other, PAY]) as it:
        it.returns("o", {"n": 1})
        it.ends("b", Outcome(kind="error", signal=Signal.TRANSIENT_ERROR, applied=Applied.MAYBE, error={}))
        it.reconcile("b", "applied", {"n": 1})
        proof = next(e.seq for e in it.events() if e.task == "o" and e.data.get("trigger") == "succeed")

        def settled(event):
            return event.task == "b" and event.data.get("trigger") == "settle"

        def cite(event):
            return event._replace(data={**event.data, "evidence": {**event.data["evidence"], "seq": proof}})

        assert f"event {proof} is no evidence" in forged(it, settled, cite)


def test_parts_wait_while_a_person_is_asked_whether_what_their_task_did_may_stand():
    after = {"id": "a", "tool": "look", "args": {"x": 1}, "depends_on": ["b"]}
    last = {"id": "c", "tool": "mail", "depends_on": ["a"]}
    with lab([part(PAY, after, last, when="$inputs.w == 1")], inputs={"w": 1}) as it:
        it.returns("s/b", {"n": 1})
        it.set(w=2)
        it.returns("s/a", 1)
        assert it.states["s/c"] == "pending"
        assert it.run.state == "awaiting-confirmation"
        it.decide("s", "keep", note="it goes on")
        assert it.states["s/c"] == "running"
        it.returns("s/c", 1)
        assert it.run.state == "done"


# ── what was dropped, failed or asked for meanwhile ───────────────────────────────────────────────────────────


def test_an_effect_of_a_batch_that_left_the_plan_is_asked_about_when_its_input_changes():
    pay = {"id": "s", "tool": "pay", "args": {"x": "$item", "w": "$inputs.w"}, "for_each": "$inputs.rows"}
    with lab([pay, END], inputs={"rows": [1, 2], "w": 1}, slots=1) as it:
        it.returns("s[0]", {"n": 1})
        it.fails("s[1]", "bad_request")
        it.feed(Replan(document=[{"id": "z", "description": "well?"}], who=ANN))
        assert not it.run.plans(it.task("s[0]"))
        it.set(w=2)
        assert "s[0] (pay) is done" in it.question("s[0]").say
        it.decide("s[0]", "keep", note="it stays")
        it.answer("z", 1)


def test_a_nested_plan_that_has_failed_looks_again_at_its_condition():
    with lab([part(LOOK, when="$inputs.w == 1", done_when="a.n > 3"), END], inputs={"w": 1}) as it:
        it.returns("s/a", {"n": 1})
        assert it.task("s").state == "failed"
        it.set(w=2)
        it.until_due()
        assert (it.task("s").state, it.task("s").reason_code) == ("cancelled", "condition")
        it.answer("z", 1)


def test_a_list_that_is_missing_when_its_source_has_run_again_is_an_unresolved_reference():
    listed = {"id": "l", "tool": "look", "args": {"w": "$inputs.w"}}
    batch = {**BATCH, "for_each": "$l.rows", "depends_on": ["l"]}
    with lab([listed, batch, END], inputs={"w": 1}, slots=4) as it:
        it.returns("l", {"rows": [1]})
        it.returns("s[0]", 1)
        it.set(w=2)
        it.returns("l", {"other": 1})
        assert it.decisions("s")[-1][0] == "unresolved_reference"
        it.decide("s", "abort")


def test_an_audit_finds_a_nested_plan_that_is_done_although_a_part_was_rejected():
    with lab([part({**PAY, "requires_confirmation": True}), END]) as it:
        it.reject("s/b")

        def given_up(event):
            return event.task == "s" and event.data.get("trigger") == "cancel"

        def done(event):
            data = {
                "trigger": "settle",
                "source": "pending",
                "dest": "done",
                "attempt": 0,
                "evidence": {"words": "so it is"},
                "result": {},
                "result_digest": value_digest("result", {}),
                "signal": "success",
            }
            return event._replace(data=data)

        assert "s/b, a part of it, was cancelled" in forged(it, given_up, done)


def test_an_audit_finds_a_plan_that_was_changed_while_a_result_was_unknown():
    with lab([PAY]) as it:
        it.ends("b", Outcome(kind="error", signal=Signal.TRANSIENT_ERROR, applied=Applied.MAYBE, error={}))
        log = Checker(it.run.id, it.store.blob)
        log.run = it.run
        event = Event(99, 1, "plan_adopted", {"origin": "human", "answers": "run"})
        assert plan_asked_for(log, event) == "the plan is changed while a result is unknown"
        it.reconcile("b", "applied", {"n": 1})


def test_an_audit_finds_a_call_whose_precondition_did_not_hold():
    guarded = {**LOOK, "preconditions": ["$inputs.w == 1"]}
    with lab([guarded], inputs={"w": 1}) as it:
        it.returns("a", 1)

        def begun(event):
            return event.type == "run_created"

        def otherwise(event):
            return event._replace(data={**event.data, "inputs": {"w": 2}})

        assert "its precondition `$inputs.w == 1` is not true" in forged(it, begun, otherwise)


def test_an_approval_that_no_longer_fits_is_asked_for_again_whatever_the_preconditions():
    asked = {
        **PAY,
        "args": {"x": "$inputs.w"},
        "requires_confirmation": True,
        "preconditions": ["args.x > 0"],
    }
    with lab([asked, LOOK], inputs={"w": 1}, slots=1) as it:
        it.approve("b")
        assert it.task("b").state == "pending"  # the one place is taken: it waits with its approval
        it.set(w=2)
        it.returns("a", 1)
        assert it.question("b").args == {"x": 2}
        it.approve("b")
        it.returns("b", {"n": 1})
