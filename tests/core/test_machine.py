"""The two tables against the library's own machines, and the guards against every kind of evidence."""

from itertools import product

import pytest
from transitions import Machine, MachineError, State

from fsm_agent.core.errors import IllegalTransitionError
from fsm_agent.core.machine import (
    FINAL_RUN_STATES,
    GUARDS,
    MACHINES_DIGEST,
    MOVES,
    RUN_EDGES,
    RUN_TABLE,
    STATES,
    TABLES,
    TASK_EDGES,
    TASK_MOVES,
    TASK_TABLE,
    RunState,
    TaskState,
    illegal,
    legal,
    read_out,
    run_fault,
    run_machine,
    target,
    task_machine,
)
from fsm_agent.core.signals import HOME, LEGAL_DECISIONS, Decision

EFFECTS = ("read", "idempotent", "write", "irreversible")
APPLIED = ("no", "maybe", "yes")
MACHINES = {"task": (task_machine, TASK_TABLE, TASK_EDGES), "run": (run_machine, RUN_TABLE, RUN_EDGES)}


class Model:
    """Whatever has a state can be moved by the library's machine."""

    def __init__(self, state):
        self.state = state


CELLS = [
    (name, state, edge.trigger)
    for name, (_, _, edges) in MACHINES.items()
    for state in STATES
    for edge in edges
]


@pytest.mark.parametrize(("name", "state", "trigger"), CELLS)
def test_every_state_and_trigger_does_in_the_librarys_machine_what_the_table_says(name, state, trigger):
    build, table, _ = MACHINES[name]
    model = Model(state)
    event = build().events[trigger]
    if (state, trigger) in table:
        assert event.trigger(model) is True
        assert model.state == table[state, trigger] == target(name, "t", state, trigger)
    else:
        with pytest.raises(MachineError):
            event.trigger(model)
        assert model.state == state
        with pytest.raises(IllegalTransitionError) as refused:
            target(name, "t", state, trigger)
        assert refused.value.legal == legal(name, state)
        assert (refused.value.state, refused.value.trigger) == (state, trigger)


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_has_the_declared_triggers_and_no_back_doors(name):
    build, table, edges = MACHINES[name]
    machine = build()
    assert set(machine.events) == {e.trigger for e in edges}
    assert sum(len(e.sources) for e in edges) == len(table)
    assert tuple(machine.states) == STATES
    assert machine.initial == "pending"


def test_both_machines_have_the_seven_states_of_the_contract():
    words = "pending running awaiting-confirmation unknown-result done failed cancelled".split()
    assert [s.value for s in TaskState] == [s.value for s in RunState] == words
    assert set(FINAL_RUN_STATES) == {RunState.DONE, RunState.FAILED, RunState.CANCELLED}


def test_the_digest_of_the_machines_is_pinned_because_every_log_names_it():
    assert MACHINES_DIGEST == "a9c8bf88815e71322393f09a2d371aa233bc6d450804bb8a6d7ebac050146881"


# ── what is true of the graph alone ───────────────────────────────────────────────────────────────────────────


def into(state):
    return {trigger for (_, trigger), dest in TASK_TABLE.items() if dest == state}


def out_of(state):
    return {trigger: dest for (source, trigger), dest in TASK_TABLE.items() if source == state}


def test_only_start_leads_into_running():
    assert into("running") == {"start"}


def test_every_attempt_begins_in_pending_so_it_passes_the_one_door():
    assert {source for source, trigger in TASK_TABLE if trigger == "start"} == {"pending"}


def test_an_unknown_result_is_left_by_evidence_alone():
    assert out_of("unknown-result") == {"settle": "done", "clear": "failed"}


def test_an_unknown_result_is_never_retried_in_one_move():
    assert "pending" not in out_of("unknown-result").values()
    assert "running" not in out_of("unknown-result").values()


def test_an_unknown_result_is_never_cancelled():
    assert "cancelled" not in out_of("unknown-result").values()


def test_a_running_call_that_is_no_read_is_never_cancelled():
    for effect in EFFECTS[1:]:
        with pytest.raises(IllegalTransitionError, match="awaited"):
            guard(
                "t", "running", "cancel", {"source": "running", "reason": "r"}, effect=effect, applied="maybe"
            )
    guard("t", "running", "cancel", {"source": "running", "reason": "r"}, effect="read", applied="no")


def test_no_trigger_moves_a_task_to_where_it_is_and_every_state_has_a_way_out_but_none_is_forced():
    assert all(source != dest for (source, _), dest in TASK_TABLE.items())
    assert all(out_of(state) for state in STATES)


def test_a_person_is_asked_only_before_a_call_and_an_answer_never_starts_one():
    assert {source for source, trigger in TASK_TABLE if trigger == "hold"} == {"pending"}
    assert set(out_of("awaiting-confirmation").values()) == {"pending", "done", "cancelled", "failed"}


# ── definitions that the library accepts and we do not ────────────────────────────────────────────────────────


def built(*transitions, **more):
    states = more.pop("states", ["a", "b"])
    return Machine(
        model=None, states=states, initial="a", transitions=list(transitions), auto_transitions=False, **more
    )


GO = {"trigger": "go", "source": "a", "dest": "b"}


def hook(*_):
    """Do nothing: that it could is enough."""


REFUSED = {
    "two edges for one trigger": lambda: built(GO, {"trigger": "go", "source": "a", "dest": "a"}),
    "an internal edge that leads nowhere": lambda: built({"trigger": "go", "source": "a", "dest": None}),
    "a source that does not exist": lambda: built({"trigger": "go", "source": "x", "dest": "b"}),
    "a destination that does not exist": lambda: built({"trigger": "go", "source": "a", "dest": "x"}),
    "a loop": lambda: built({"trigger": "go", "source": "a", "dest": "a"}),
    "a condition": lambda: built(GO | {"conditions": hook}),
    "something before an edge": lambda: built(GO | {"before": hook}),
    "something after an edge": lambda: built(GO | {"after": hook}),
    "something that prepares an edge": lambda: built(GO | {"prepare": hook}),
    "a state that does something when entered": lambda: built(
        GO, states=[State("a"), State("b", on_enter=hook)]
    ),
    "a state that does something when left": lambda: built(GO, states=[State("a", on_exit=hook), State("b")]),
    "a state that forgives": lambda: built(GO, states=[State("a", ignore_invalid_triggers=True), State("b")]),
    "a machine that forgives": lambda: built(GO, ignore_invalid_triggers=True),
    "a machine that does something before": lambda: built(GO, before_state_change=hook),
    "a machine that does something at the end": lambda: built(GO, finalize_event=hook),
    "a machine that swallows exceptions": lambda: built(GO, on_exception=hook),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_definition_that_hides_something_is_refused(what):
    with pytest.raises(ValueError, match="machine"):
        read_out(REFUSED[what]())


def test_a_plain_definition_is_read_out_as_it_is_and_cannot_be_changed():
    table = read_out(built(GO))
    assert dict(table) == {("a", "go"): "b"}
    with pytest.raises(TypeError):
        table["b", "go"] = "a"


# ── guards ────────────────────────────────────────────────────────────────────────────────────────────────────

INTENT = {"tool": "t", "args_digest": "d", "key": "k", "deadline_at": 1}


def guard(task, state, trigger, data, *, effect, applied):
    """Refuse the move as a turn does."""
    source, dest, fault_of = TASK_MOVES[state, trigger]
    assert (source, dest) == (state, TASK_TABLE[state, trigger])
    fault = fault_of(data, effect, applied)
    if fault:
        raise illegal("task", task, state, trigger, fault)


def outcome(kind):
    return {"outcome": {"kind": kind}}


def writes(effect):
    return effect in ("write", "irreversible")


ALWAYS, NEVER = (lambda e, a: True), (lambda e, a: False)
EVIDENCE = [
    ("hold", {}, ALWAYS),
    ("approve", {}, ALWAYS),
    ("answer", {}, ALWAYS),
    ("reject", {}, NEVER),
    ("reject", {"reason": "no"}, ALWAYS),
    ("expire", {}, NEVER),
    ("expire", {"reason": "silence"}, ALWAYS),
    ("refuse", {"reason": ""}, NEVER),
    ("refuse", {"reason": "no such tool"}, ALWAYS),
    ("start", INTENT, NEVER),
    *(("start", INTENT | {"effect": said}, lambda e, a, s=said: e == s) for said in EFFECTS),
    *(
        ("start", {k: v for k, v in (INTENT | {"effect": "read"}).items() if k != gone}, NEVER)
        for gone in INTENT
    ),
    ("succeed", {}, NEVER),
    ("succeed", {"outcome": "fine"}, NEVER),
    ("succeed", outcome("value"), ALWAYS),
    *(("succeed", outcome(kind), NEVER) for kind in ("error", "timeout", "lost")),
    ("fail", {}, NEVER),
    ("fail", outcome("weather"), NEVER),
    *(
        ("fail", outcome(kind), lambda e, a: e == "read" or a != "maybe")
        for kind in ("value", "error", "timeout", "lost")
    ),
    ("lose", {}, NEVER),
    ("lose", outcome("value"), NEVER),
    *(
        ("lose", outcome(kind), lambda e, a: e != "read" and a == "maybe")
        for kind in ("error", "timeout", "lost")
    ),
    ("settle", {}, NEVER),
    ("settle", {"evidence": {"words": "seen"}}, ALWAYS),
    ("clear", {}, NEVER),
    ("clear", {"evidence": {"words": "seen"}}, lambda e, a: a != "maybe"),
    ("retry", {}, NEVER),
    ("retry", {"delay_ms": 0}, NEVER),
    ("retry", {"delay_ms": "1"}, NEVER),
    ("retry", {"delay_ms": 1}, lambda e, a: not writes(e) or a == "no"),
    ("invalidate", {}, NEVER),
    ("invalidate", {"source": "done", "reason": "another date"}, lambda e, a: not writes(e) or a == "no"),
    ("invalidate", {"source": "awaiting-confirmation", "reason": "another date"}, ALWAYS),
    ("cancel", {"source": "pending"}, NEVER),
    ("cancel", {"source": "pending", "reason": "not needed"}, ALWAYS),
    ("cancel", {"source": "running", "reason": "not needed"}, lambda e, a: e == "read"),
]


@pytest.mark.parametrize(("trigger", "data", "allowed"), EVIDENCE)
def test_a_guard_lets_through_what_the_evidence_proves_and_nothing_else(trigger, data, allowed):
    state = next(source for source, found in TASK_TABLE if found == trigger)
    for effect, applied in product(EFFECTS, APPLIED):
        if allowed(effect, applied):
            guard("t", state, trigger, data, effect=effect, applied=applied)
            continue
        with pytest.raises(IllegalTransitionError) as refused:
            guard("t", state, trigger, data, effect=effect, applied=applied)
        assert str(refused.value).startswith("task t: ")
        assert refused.value.task == "t"
        assert refused.value.legal == legal("task", state)


def test_every_trigger_of_a_task_has_a_guard_and_is_tested_here():
    triggers = {e.trigger for e in TASK_EDGES}
    assert set(GUARDS) == triggers == {t for t, _, _ in EVIDENCE}


RUN_TRIGGERS = [e.trigger for e in RUN_EDGES]


@pytest.mark.parametrize("trigger", RUN_TRIGGERS)
def test_a_run_moves_only_when_its_tasks_allow_it(trigger):
    none = dict.fromkeys(("running", "unacknowledged", "unfinished", "asked", "denied"), 0)
    assert run_fault(trigger, **none) == ""
    forbidden = {what for what in none if run_fault(trigger, **{**none, what: 1})}
    assert (
        forbidden
        == {
            "start": set(),
            "resume": set(),
            "hold": {"running"},
            "lose": {"running"},
            "abort": {"running", "unacknowledged"},
            "cancel": {"running", "unacknowledged"},
            "succeed": set(none),
        }[trigger]
    )


# ── decisions ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_decision_sets_off_is_an_edge_of_a_table():
    for (machine, state, decision), move in MOVES.items():
        if move is None or decision is Decision.ABORT:
            continue
        moved, trigger = move
        assert moved == machine
        assert (state, trigger) in TABLES[machine]
    assert all(MOVES[k] == ("run", "abort") for k in MOVES if k[2] is Decision.ABORT)
    assert ("running", "abort") in RUN_TABLE


def test_every_legal_decision_has_an_entry_and_no_entry_is_illegal():
    named = {(machine, state, d) for (machine, state), some in LEGAL_DECISIONS.items() for d in some}
    assert set(MOVES) == named
    assert set(LEGAL_DECISIONS) == set(HOME)
