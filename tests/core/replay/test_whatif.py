"""What if: the log's own table changes nothing; another one is asked in the state as it was, and no further."""

import json

import pytest

from fsm_agent.core.errors import CorruptError
from fsm_agent.core.replay.costs import NOTHING, Cost, costs, of_event
from fsm_agent.core.replay.whatif import Answer, Trajectory, static, to_json, what_if
from fsm_agent.core.rules import table as tables
from fsm_agent.runtime.configs import load_rules
from tests.core.kit import lab
from tests.core.replay.logs import GROWING, SEEDS, log_of, scenario

DEFAULT = load_rules("default")


def table_of(log):
    return tables.from_canonical(log[0].data["rules"])


RAN = [path for path in (*SEEDS, *GROWING) if not scenario(path).expect.refused]


@pytest.mark.parametrize("path", RAN, ids=lambda path: path.stem[4:40])
def test_a_log_under_its_own_table_is_decided_as_it_was_to_the_last_row_and_signal(path):
    log = log_of(path)
    found = what_if([("simulation", log)], table_of(log))
    assert [one for one in found.decisions if one.differs] == []
    assert all(one.old == one.new for one in found.decisions)
    assert [one.seq for one in found.decisions] == [e.seq for e in log if e.type == "decided"]
    assert all(way.until is None and way.same == way.decisions for way in found.trajectories)
    assert found.static[0].same
    assert found.logs[0].until is None
    assert all(cell.old == cell.new for cell in found.matrix)


@pytest.mark.parametrize("path", RAN, ids=lambda path: path.stem[4:40])
@pytest.mark.parametrize("name", ["conservative", "exploratory"])
def test_where_a_decision_differs_the_tables_do(path, name):
    """Whatever is found on the events was foretold by the tables alone: a region, or a threshold."""
    log, other = log_of(path), load_rules(name)
    found = what_if([("simulation", log)], other)
    regions, params = found.static[0].regions, found.static[0].params
    for one in found.differing:
        places = {(r.state, s) for r in regions for s in r.signals}
        state = "running" if one.task == "run" else one.state
        assert (state, one.new.signal) in places or (state, one.old.signal) in places or params


def retried():
    """A read that fails once and is tried again, under the default table."""
    with lab([{"id": "a", "tool": "look"}, {"id": "b", "tool": "look", "depends_on": ["a"]}]) as it:
        it.fails("a")
        it.until_due()
        it.fails("a")
        it.until_due()
        it.returns("a")
        it.fails("b", "not_found")
    return it.events()


LOG = retried()


def test_what_is_left_is_what_the_other_table_allows_less_what_the_log_says_was_spent():
    found = what_if([("r", LOG)], load_rules("default", {"retries": 1}))
    first, second, *rest = [one for one in found.decisions if one.task == "a"]
    assert (first.old.decide, first.new.decide, first.differs) == ("retry", "retry", "")
    assert (second.old.decide, second.new.decide, second.differs) == ("retry", "escalate", "decision")
    assert [one.differs for one in rest] == [""]
    assert [one.conditional for one in (first, second, *rest)] == [False, False, True]
    assert found.differing == (second,)
    ways = {way.task: way for way in found.trajectories}
    assert ways["a"] == Trajectory(run="r", task="a", decisions=3, same=1, until=second.seq)
    assert ways["b"].until is None
    assert found.logs[0].until == second.seq
    assert found.logs[0].differ == 1


def test_a_signal_that_a_threshold_makes_is_made_by_the_other_tables_threshold():
    with lab([{"id": "a", "tool": "look"}]) as it:
        it.fails("a", "not_found")
        it.retry("a")
        it.until_due()
        it.fails("a", "not_found")
    own = what_if([("r", it.events())], load_rules("default", {"repeat_threshold": 1})).decisions[0]
    assert (own.old.signal, own.new.signal) == ("not_found", "repeated_error")


def test_the_tables_are_compared_first_with_the_thresholds_that_show_elsewhere_marked():
    other = load_rules("default", {"retries": 1, "budget_low": 0.5})
    found = static(DEFAULT, other)
    assert [(p.name, p.old, p.new, p.seen) for p in found.params] == [
        ("retries", 3, 1, True),
        ("budget_low", 0.2, 0.5, False),
    ]
    assert not found.same
    assert static(DEFAULT, DEFAULT).same


def test_another_wait_is_a_difference_and_another_row_for_the_same_decision_is_none():
    document = json.loads(json.dumps(DEFAULT.canonical))
    for row in document["row"]:
        if row["id"] == "retry-read":
            row["id"] = "again"
    renamed = tables.from_canonical(document)
    found = what_if([("r", LOG)], renamed)
    assert {one.differs for one in found.decisions if one.task == "a"} == {"row", ""}
    assert found.differing == ()
    for name, delay in document["delays"].items():
        if delay["kind"] == "exponential":
            document["delays"][name] = {"kind": "fixed", "s": 7}
    slow = what_if([("r", LOG)], tables.from_canonical(document))
    waits = [one for one in slow.decisions if one.differs == "delay"]
    assert [one.new.delay for one in waits] == ["7 s", "7 s"]
    assert waits[0].old.delay.startswith("1 s, times 2, at most")
    document["delays"][name] = {
        "kind": "exponential",
        "jitter": "none",
        "base_s": 1,
        "factor": 2,
        "max_s": 60,
    }


def test_a_delay_without_jitter_says_so_and_others_go_by_their_kind():
    document = json.loads(json.dumps(DEFAULT.canonical))
    for row in document["row"]:
        if row["id"] == "retry-read":
            row["delay"] = "odd"
    document["delays"]["odd"] = {
        "kind": "exponential",
        "jitter": "none",
        "base_s": 2,
        "factor": 3,
        "max_s": 9,
    }
    found = what_if([("r", LOG)], tables.from_canonical(document))
    assert found.differing[0].new.delay == "2 s, times 3, at most 9 s, no jitter"
    document["delays"]["odd"] = {"kind": "breaker"}
    assert what_if([("r", LOG)], tables.from_canonical(document)).differing[0].new.delay == "breaker"


def test_the_matrix_counts_over_all_logs_and_sums_what_followed():
    other = load_rules("default", {"retries": 1})
    found = what_if([("r", LOG), ("s", LOG)], other)
    assert [s.runs for s in found.static] == [("r", "s")]
    cells = {(c.old, c.new): c for c in found.matrix}
    assert cells["retry", "escalate"].times == 2
    assert cells["retry", "escalate"].cost.tool_calls == 2
    assert found.matrix[0] == cells["retry", "escalate"]
    assert found.totals["retry"] == (4, 2)
    assert sum(c.times for c in found.matrix) == len(found.decisions)


def test_logs_of_several_tables_are_compared_with_each():
    with lab([{"id": "a", "tool": "look"}], rules="conservative") as it:
        it.returns("a")
    found = what_if([("r", LOG), ("r2", it.events())], DEFAULT)
    assert [(s.old, s.same) for s in found.static] == [("default", True), ("conservative", False)]


def test_a_row_of_the_plan_answers_in_front_of_either_table():
    step = {"id": "a", "tool": "look", "on_failure": {"*": "abort"}}
    with lab([step]) as it:
        it.fails("a", "not_found")
    found = what_if([("r", it.events())], load_rules("exploratory"))
    (one,) = [one for one in found.decisions if one.task == "a"]
    assert one.old == one.new == Answer(signal="not_found", decide="abort", rule="plan:a.on_failure.*")


def test_an_inconclusive_probe_and_a_decision_of_the_run_are_asked_again_too():
    plan = [{"id": "w", "tool": "pay"}]
    with lab(plan, constraints=[{"key": "k", "value": 1, "check": "n <= value"}]) as it:
        it.times_out("w")
        it.until_due()
        it.finds("w", "inconclusive")
        it.until_due()
        it.finds("w", "applied", {"n": 2})
    found = what_if([("r", it.events())], load_rules("default", {"reconciles": 1}))
    by = {(one.task, one.old.signal): one for one in found.decisions}
    assert by["w", "reconcile_inconclusive"].new.decide == "escalate"
    assert by["run", "constraint_violated"].differs == ""


def test_what_is_no_log_is_refused():
    for log in ((), LOG[1:]):
        with pytest.raises(CorruptError, match="does not begin with run_created"):
            what_if([("r", log)], DEFAULT)


def test_the_json_names_its_schema_and_lists_what_differs():
    found = to_json(what_if([("r", LOG)], load_rules("default", {"retries": 1})))
    assert found["schema"] == "fsm-agent/what-if@1"
    assert [d["new"]["decide"] for d in found["decisions"]] == ["escalate"]
    assert found["totals"]["escalate"] == {"old": 1, "new": 2}
    assert found["static"][0]["params"] == [{"name": "retries", "old": 3, "new": 1, "seen": True}]
    json.dumps(found)


def test_it_is_one_line_for_whoever_looks_at_it():
    found = what_if([("r", LOG)], load_rules("default", {"retries": 1}))
    assert (
        repr(found) == f"<what if default had decided 1 logs: 1 of {len(found.decisions)} decisions differ>"
    )
    assert repr(what_if([], DEFAULT)) == "<what if no table had decided 0 logs: 0 of 0 decisions differ>"


# ── what followed ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", RAN, ids=lambda path: path.stem[4:40])
def test_nothing_is_counted_twice_and_nothing_behind_a_decision_is_forgotten(path):
    log = log_of(path)
    found = costs(log)
    first = {}
    for event in log:
        if event.type == "decided":
            first.setdefault(event.task, event.seq)
    counted = sum((c for c in found.values()), NOTHING)
    behind = sum((of_event(e) for e in log if e.seq > first.get(e.task, len(log))), NOTHING)
    for name in ("tool_calls", "planner_calls", "questions", "tokens", "cost_micros"):
        assert getattr(counted, name) == getattr(behind, name)
    assert all(c.lasted_us >= 0 for c in found.values())


def test_costs_add_up():
    one = Cost(tool_calls=1, tokens=2, lasted_us=3)
    assert one + one == Cost(tool_calls=2, tokens=4, lasted_us=6)
    assert one + NOTHING == one
