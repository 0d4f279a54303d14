"""The laws themselves: each forbids what it says, and nothing a sound engine needs."""

import itertools

import pytest

from fsm_agent.core.rules.laws import LAWS, violated
from fsm_agent.core.signals import DOMAIN, HOME, LEGAL_DECISIONS, Decision, Signal

FACTS = {name: values[0] for name, values in DOMAIN.items()}
PLACES = [(m, s, signal.value) for (m, s), signals in HOME.items() for signal in signals]


def with_(**changed):
    return FACTS | changed


@pytest.mark.parametrize(("machine", "state", "signal"), PLACES)
def test_everywhere_and_whatever_the_facts_at_least_one_decision_is_lawful(machine, state, signal):
    for effect, applied, band, optional in itertools.product(
        DOMAIN["effect"], DOMAIN["applied"], DOMAIN["budget_band"], DOMAIN["optional"]
    ):
        facts = with_(effect=effect, applied=applied, budget_band=band, optional=optional)
        lawful = [d for d in Decision if violated(machine, state, signal, facts, d) is None]
        assert lawful
        assert set(lawful) <= LEGAL_DECISIONS[machine, state]


@pytest.mark.parametrize("signal", ["outcome_unknown", "interrupted", "reconcile_inconclusive"])
@pytest.mark.parametrize("decision", sorted(set(Decision) - {Decision.RECONCILE, Decision.ESCALATE}))
def test_an_unknown_result_is_only_looked_up_or_put_to_a_person(signal, decision):
    for effect in DOMAIN["effect"]:
        law = violated("task", "unknown-result", signal, with_(effect=effect), decision)
        assert law is not None
        assert law.id == "unknown-stays-unknown"


@pytest.mark.parametrize("effect", ["write", "irreversible"])
@pytest.mark.parametrize("applied", ["maybe", "yes"])
@pytest.mark.parametrize("decision", ["retry", "replan-local", "replan-global"])
def test_a_write_that_may_have_happened_is_neither_repeated_nor_planned_around(effect, applied, decision):
    for signal in HOME["task", "failed"]:
        law = violated("task", "failed", signal, with_(effect=effect, applied=applied), decision)
        assert law is not None
        assert law.id == "applied-write-is-not-repeated"


@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_reads_and_idempotent_calls_may_be_repeated_whatever_is_proved(effect):
    for applied in DOMAIN["applied"]:
        facts = with_(effect=effect, applied=applied)
        assert violated("task", "failed", "transient_error", facts, Decision.RETRY) is None


def test_a_failed_irreversible_step_is_not_planned_around_even_if_nothing_happened():
    facts = with_(effect="irreversible", applied="no")
    law = violated("task", "failed", "not_found", facts, Decision.REPLAN_GLOBAL)
    assert law is not None
    assert law.id == "irreversible-is-not-replanned"
    assert violated("task", "failed", "transient_error", facts, Decision.RETRY) is None


@pytest.mark.parametrize("decision", ["retry", "reconcile", "replan-local", "replan-global"])
def test_an_exhausted_budget_starts_nothing(decision):
    for machine, state, signal in PLACES:
        assert violated(machine, state, signal, with_(budget_band="exhausted"), decision) is not None


def test_a_step_is_skipped_only_where_the_plan_calls_it_optional():
    assert violated("task", "failed", "not_found", with_(optional="no"), "skip") is not None
    assert violated("task", "failed", "not_found", with_(optional="yes"), "skip") is None


def test_a_rejected_step_never_starts_and_a_done_one_is_only_accepted():
    assert [d for d in Decision if violated("task", "cancelled", "rejected", FACTS, d) is None] == [
        Decision.CONTINUE,
        Decision.ESCALATE,
        Decision.ABORT,
    ]
    assert [d for d in Decision if violated("task", "done", "success", FACTS, d) is None] == [Decision.ACCEPT]


def test_a_run_that_cannot_move_is_never_told_to_go_on():
    assert violated("run", "running", Signal.DEADLOCK, FACTS, "continue") is not None
    assert violated("run", "running", Signal.BUDGET_EXHAUSTED, FACTS, "continue") is not None
    assert violated("run", "running", Signal.BUDGET_EXHAUSTED, FACTS, "replan-global") is not None
    assert violated("run", "running", Signal.BUDGET_LOW, FACTS, "continue") is None


def test_every_law_has_a_name_of_its_own_and_words():
    assert len({law.id for law in LAWS}) == len(LAWS)
    assert all(law.text for law in LAWS)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.id)
def test_every_law_forbids_something_somewhere_that_can_happen(law):
    facts = FACTS | {fact: next(iter(allowed)) for fact, allowed in law.when}
    places = [p for p in PLACES if law.covers(*p)]
    assert places
    assert law.forbidden
    for decision in law.forbidden:
        assert violated(*places[0], facts, decision) is not None
