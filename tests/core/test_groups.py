"""Tasks with parts when what they rest on changes: they come to the door again, and nothing that had an effect is undone."""

import pytest

from fsm_agent.core.audit.audit import audit
from fsm_agent.core.engine import groups
from tests.core.kit import lab, reseal


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
