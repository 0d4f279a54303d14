"""Rows that move in their list keep the call that was made for them, and equal rows are calls of their own."""

from fsm_agent.core.audit.audit import audit
from fsm_agent.core.inputs import Replan
from tests.core.kit import ANN, lab, reseal

PAY = {"id": "b", "tool": "pay", "args": {"w": "$item"}, "for_each": "$inputs.rows"}
LAST = {"id": "last", "description": "well?"}


def test_a_row_that_moved_has_the_result_of_the_call_that_was_made_for_it():
    with lab([PAY, LAST], inputs={"rows": [1]}) as run:
        run.returns("b[0]", {"n": 1})
        run.commands.clear()
        run.set(rows=[0, 1])
        assert run.states["b[1]"] == "done"
        assert run.task("b[1]").key == run.task("b[0]").key
        assert run.question("b[0]").answers == ("keep", "abort")
        assert run.calls() == []


def test_it_keeps_it_wherever_it_moves_next():
    with lab([PAY, LAST], inputs={"rows": [1]}) as run:
        run.returns("b[0]", {"n": 1})
        run.set(rows=[0, 1])
        run.commands.clear()
        run.set(rows=[0, 2, 1])
        assert run.states["b[2]"] == "done"
        assert run.calls() == []


def test_a_row_that_moved_while_its_call_is_out_waits_for_what_becomes_of_it():
    with lab([PAY], inputs={"rows": [1]}) as run:
        run.commands.clear()
        run.set(rows=[0, 1])
        assert run.decisions("b[1]")[-1][0] == "precondition_violated"
        assert run.calls() == []
        run.returns("b[0]", {"n": 1})
        run.retry("b[1]")
        run.until_due()
        assert run.states["b[1]"] == "done"
        assert run.calls() == []


def test_a_second_equal_row_is_a_second_call():
    with lab([PAY, LAST], inputs={"rows": [5]}) as run:
        run.returns("b[0]", {"n": 1})
        run.commands.clear()
        run.set(rows=[5, 5])
        assert [c.task for c in run.calls()] == ["b[1]"]
        run.returns("b[1]", {"n": 2})


def test_a_batch_of_another_plan_takes_over_what_a_dropped_record_did():
    with lab([PAY], inputs={"rows": [1, 2], "others": [2, 1]}) as run:
        run.returns("b[0]", {"n": 1})
        run.fails("b[1]", "conflict")
        run.commands.clear()
        run.feed(Replan(document={"steps": [{**PAY, "id": "c", "for_each": "$inputs.others"}]}, who=ANN))
        assert run.states["c[1]"] == "done"
        assert [c.task for c in run.calls()] == ["c[0]"]
        run.returns("c[0]", {"n": 2})


def test_a_record_beyond_the_list_starts_nothing_more():
    with lab([PAY], inputs={"rows": [1, 2]}) as run:
        run.returns("b[0]", {"n": 1})
        run.times_out("b[1]")
        run.set(rows=[1])
        run.until_due()
        run.commands.clear()
        run.finds("b[1]", "absent")
        while run.run.next_due() is not None:
            run.until_due()
        assert run.states["b[1]"] == "cancelled"
        assert run.run.state == "done"
        assert run.calls() == []


def forged(run, **call):
    """The findings about evidence in the log with another call taken over by its last settled record."""
    events = run.events()
    last = max(
        e.seq
        for e in events
        if e.type == "task_moved" and e.data.get("trigger") == "settle" and "call" in e.data
    )
    data = next(e for e in events if e.seq == last).data
    other = {k: v for k, v in data.items() if k != "call"}
    if call:
        other["call"] = {**data["call"], **call}
    records, head = reseal("r", [e._replace(data=other) if e.seq == last else e for e in events])
    found = audit("r", records, run.store.blob, head=head).findings
    return [f.message for f in found if "is no evidence" in f.message]


def test_an_audit_finds_a_result_that_was_taken_over_from_another_call():
    with lab([PAY, LAST], inputs={"rows": [1]}) as run:
        run.returns("b[0]", {"n": 1})
        run.set(rows=[0, 1])
        assert forged(run, key="0" * 32)
        assert forged(run, args_digest="0" * 64)
        assert forged(run)
