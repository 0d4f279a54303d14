"""Every state that a run and its tasks can reach by tables and guards keeps the promises; without them it does not."""

import pytest

from fsm_agent.core import machine
from tests.laws.model import Model, T, door, faults

KINDS = ("read", "idempotent", "write", "irreversible")
MIXES = [
    *[(kind,) for kind in KINDS],
    *[(a, b) for i, a in enumerate(KINDS) for b in KINDS[i:]],
    ("read", "write", "irreversible"),
    ("idempotent", "write", "write"),
    ("write", "write", "write", "write"),
]


@pytest.mark.parametrize("mix", MIXES, ids="+".join)
def test_no_second_effect_no_blind_end_no_dead_end(mix):
    assert faults(Model(), *mix) == []


def allow(*_args, **_more):
    return ""


def without(trigger):
    return Model(guards={**machine.GUARDS, trigger: allow})


def deaf(argument):
    """The faults of a run, but for one of them."""
    return Model(fault=lambda trigger, **counts: machine.run_fault(trigger, **{**counts, argument: 0}))


def only_approved(task: T) -> bool:
    return task.effect != "irreversible" or task.armed


MUTANTS = {
    "the law of the door": (Model(law=only_approved), "a second effect"),
    "the guard of fail": (without("fail"), "a write that may be there is taken for one that is not"),
    "the guard of cancel": (without("cancel"), "an end with a call out that nobody knows of"),
    "the guard of clear": (without("clear"), "a write that may be there is taken for one that is not"),
    "the fault of running tasks": (deaf("running"), "an end with a task running"),
    "the fault of unknown results": (
        deaf("unacknowledged"),
        "an end with an unknown write that nobody accepted",
    ),
    "the fault of unfinished tasks": (deaf("unfinished"), None),
    "the guard of retry and the law of the door": (
        Model(guards={**machine.GUARDS, "retry": allow}, law=lambda t: True),
        "a second effect",
    ),
    "the guard of invalidate and the law of the door": (
        Model(guards={**machine.GUARDS, "invalidate": allow}, law=lambda t: True),
        "a second effect",
    ),
}


@pytest.mark.parametrize("dropped", MUTANTS)
def test_the_check_notices_when_a_guard_or_a_law_is_dropped(dropped):
    model, expected = MUTANTS[dropped]
    found = faults(model, "write")
    if expected is None:  # the model asks for nothing left to do before it lets a run succeed
        assert found == []
    else:
        assert any(f.startswith(expected) for f in found), found


def test_the_model_lets_everything_happen_that_the_tables_have():
    model = Model()
    reached = model.explore("write")
    assert {model.task(n).state for w in reached for n in w.tasks} == set(machine.STATES)
    assert {w.run for w in reached} == set(machine.STATES)
    assert door(T("irreversible")) is False
    assert door(T("irreversible", armed=True)) is True
