"""What the shipped tables decide: the promises of the documentation, and the article's decider to the letter."""

import pytest

from fsm_agent.core.rules.diff import diff
from fsm_agent.core.signals import HOME, Decision
from fsm_agent.runtime import configs

TABLES = {name: configs.load_rules(name) for name in configs.rule_names()}
DEFAULT = TABLES["default"]
WRITES = ("idempotent", "write", "irreversible")


def decide(signal, *, table=DEFAULT, state="failed", **facts):
    machine = "run" if state == "running" else "task"
    return table.match(
        machine, state, signal, {**table.initial, "has_planner": "yes", "signal_count": 1, **facts}
    ).decide


@pytest.mark.parametrize("signal", ["transient_error", "rate_limited", "interrupted"])
def test_a_read_that_fails_in_passing_is_repeated_while_repeats_are_left(signal):
    assert decide(signal) == "retry"
    assert decide(signal, retries_left=1) == "retry"
    assert decide(signal, retries_left=0, has_planner="no") == "escalate"


def test_when_repeats_of_a_transient_error_are_used_up_another_way_is_looked_for():
    assert decide("transient_error", retries_left=0) == "replan-local"
    assert decide("transient_error", retries_left=0, local_replans_left=0) == "replan-global"
    assert (
        decide("transient_error", retries_left=0, has_planner="no", has_alternative="yes") == "replan-local"
    )
    assert decide("rate_limited", retries_left=0) == "escalate"


@pytest.mark.parametrize("signal", ["unclassified_error", "unverified"])
def test_what_nobody_knows_is_read_once_more_then_put_to_a_person(signal):
    assert decide(signal) == "retry"
    assert decide(signal, signal_count=2) == "escalate"
    for effect in WRITES:
        assert decide(signal, effect=effect, applied="yes") == "escalate"


REPLANNED = [
    "not_found", "bad_request", "validation_failed", "precondition_violated", "repeated_error", "progress_stall",
    "undeclared_tool", "unresolved_reference", "conflict",
]  # fmt: skip


@pytest.mark.parametrize("signal", REPLANNED)
def test_what_would_fail_again_is_planned_anew_locally_then_globally_then_put_to_a_person(signal):
    left = {"local_replans_left": 2, "global_replans_left": 2}
    seen = []
    for in_a_row in range(4):
        seen.append(decide(signal, consecutive_replans=in_a_row, **left))
        if seen[-1] == "escalate":
            break
        left[{"replan-local": "local_replans_left", "replan-global": "global_replans_left"}[seen[-1]]] -= 1
    assert seen == ["replan-local", "replan-local", "replan-global", "escalate"]
    assert decide(signal, local_replans_left=0, global_replans_left=0) == "escalate"
    assert decide(signal, has_planner="no") == "escalate"
    assert decide(signal, has_planner="no", has_alternative="yes") == "replan-local"


@pytest.mark.parametrize("signal", ["auth_denied", "quota_exhausted", "approval_expired"])
def test_what_only_people_can_grant_is_put_to_them(signal):
    for effect in ("read", *WRITES):
        assert decide(signal, effect=effect) == "escalate"


@pytest.mark.parametrize("effect", WRITES)
@pytest.mark.parametrize("signal", [s.value for s in HOME["task", "failed"]])
def test_a_failed_write_is_repeated_only_if_it_provably_did_not_happen_else_reported(signal, effect):
    repeated = {"transient_error", "rate_limited", "reconciled_absent", "blocked_dependency"}
    not_started = {"precondition_violated", "undeclared_tool", "unresolved_reference"}
    found = decide(signal, effect=effect, applied="no")
    if signal in repeated:
        assert found == "retry"
    elif signal in not_started and effect != "irreversible":
        assert found == "replan-local"
    else:
        assert found == "escalate"
    for applied in ("maybe", "yes"):
        found = decide(signal, effect=effect, applied=applied)
        assert found == ("retry" if (effect, signal) == ("idempotent", "blocked_dependency") else "escalate")


@pytest.mark.parametrize("signal", ["outcome_unknown", "interrupted", "reconcile_inconclusive"])
def test_an_unknown_result_is_looked_up_while_probes_are_left_then_put_to_a_person(signal):
    facts = {"state": "unknown-result", "effect": "write", "applied": "maybe"}
    assert decide(signal, has_reconcile="yes", **facts) == "reconcile"
    assert decide(signal, has_reconcile="yes", reconciles_left=0, **facts) == "escalate"
    assert decide(signal, has_reconcile="no", **facts) == "escalate"
    assert decide(signal, has_reconcile="yes", budget_band="exhausted", **facts) == "escalate"


@pytest.mark.parametrize("wish", ["pause", "abort", "cancel"])
def test_after_a_wish_no_idempotent_call_is_repeated_but_a_write_is_still_looked_up(wish):
    facts = {"state": "unknown-result", "has_reconcile": "yes", "wish": wish}
    assert decide("outcome_unknown", effect="idempotent", **facts) == "escalate"
    assert decide("outcome_unknown", effect="write", **facts) == "reconcile"


def test_an_open_breaker_is_waited_for_then_put_to_a_person():
    row = DEFAULT.match("task", "failed", "blocked_dependency", DEFAULT.initial)
    assert (row.decide, DEFAULT.delays[row.delay].kind) == (Decision.RETRY, "breaker")
    assert decide("blocked_dependency", retries_left=0) == "escalate"


def test_the_run_as_a_whole():
    run = {"state": "running"}
    assert decide("input_changed", **run) == "continue"
    assert decide("rejected", state="cancelled") == "continue"
    assert decide("budget_exhausted", **run) == "abort"
    for signal in ("constraint_violated", "deadlock"):
        assert decide(signal, **run) == "replan-global"
        assert decide(signal, global_replans_left=0, **run) == "escalate"
        assert decide(signal, has_planner="no", **run) == "escalate"


def test_a_refused_proposal_is_asked_for_again_in_its_own_scope_while_a_replan_is_left():
    run = {"state": "running"}
    for scope in ("none", "local"):
        assert decide("plan_rejected", replan_scope=scope, **run) == "replan-local"
        assert decide("plan_rejected", replan_scope=scope, local_replans_left=0, **run) == "replan-global"
    assert decide("plan_rejected", replan_scope="global", **run) == "replan-global"
    assert decide("plan_rejected", replan_scope="global", global_replans_left=0, **run) == "escalate"
    assert decide("plan_rejected", has_planner="no", **run) == "escalate"


@pytest.mark.parametrize(
    ("signal", "replan"), [("inefficient", "replan-local"), ("budget_low", "replan-global")]
)
def test_an_improvement_is_tried_once_and_never_stops_the_run(signal, replan):
    run = {"state": "running"}
    assert decide(signal, **run) == replan
    for facts in (
        {"signal_count": 2},
        {"has_planner": "no"},
        {"consecutive_replans": 3},
        {"local_replans_left": 0, "global_replans_left": 0},
    ):
        assert decide(signal, **run, **facts) == "continue"


def test_without_planner_and_alternative_nothing_is_ever_planned_anew():
    for name, table in TABLES.items():
        if name == "seed_replan_decider":
            continue  # its user plans
        for (machine, state), signals in HOME.items():
            for signal in signals:
                for retries in (0, 1):
                    facts = {
                        **table.initial,
                        "has_planner": "no",
                        "has_alternative": "no",
                        "retries_left": retries,
                    }
                    assert not table.match(machine, state, signal, facts).decide.startswith("replan")


def test_every_row_says_why_in_words_a_person_understands():
    for table in TABLES.values():
        for row in table.rows:
            assert len(row.why.split()) >= 5, row.id
            assert "_left" not in row.why


# how the tables differ


def test_the_conservative_table_never_changes_a_plan():
    assert not any(row.decide.startswith("replan") for row in TABLES["conservative"].rows)
    for region in diff(DEFAULT, TABLES["conservative"]):
        assert region.b.decide in {"escalate", "continue", "retry"}


def test_the_exploratory_table_tries_other_routes_where_the_default_one_asks():
    table = TABLES["exploratory"]
    assert decide("auth_denied", table=table) == "replan-local"
    assert decide("quota_exhausted", table=table) == "replan-local"
    assert decide("auth_denied", table=table, effect="write", applied="no") == "replan-local"
    assert decide("auth_denied", table=table, effect="write", applied="maybe") == "escalate"
    assert decide("auth_denied", table=table, effect="irreversible") == "escalate"
    assert decide("unclassified_error", table=table, signal_count=2) == "replan-local"
    for region in diff(DEFAULT, table):
        assert region.b.decide.startswith("replan")


# the article's decider


class Flat:
    """The article's flat world on a table: one step, one strategy at a time, counters as the table says."""

    def __init__(self, table):
        self.table = table
        self.facts = {**table.initial}
        self.seen = {}
        self.plan = 0

    def observe(self, signal):
        self.seen[signal] = self.seen.get(signal, 0) + 1
        facts = self.facts | {
            "signal_count": self.seen[signal],
            "stall_steps": self.seen.get("progress_stall", 0),
        }
        decision = self.table.match("task", "done" if signal == "success" else "failed", signal, facts).decide
        cost = self.table.decisions.get(decision)
        if cost is not None:
            self.facts[cost.spend] -= 1
        if decision.startswith("replan"):
            self.plan += 1
            self.seen = {}
            for name, counter in self.table.counters.items():
                if counter.scope != "run":
                    self.facts[name] = counter.initial
        return decision.value, self.plan


@pytest.mark.parametrize(
    ("signals", "expected"),
    [
        (["repeated_error"] * 3, [("replan-global", 1), ("replan-global", 2), ("abort", 2)]),
        (
            ["progress_stall"] * 15,
            [*[("retry", 0)] * 4, ("replan-global", 1), *[("retry", 1)] * 4, ("replan-global", 2), *[("retry", 2)] * 4, ("abort", 2)],
        ),
        (["transient_error"] * 2 + ["success"], [("retry", 0), ("retry", 0), ("accept", 0)]),
        (["transient_error"] * 4, [("retry", 0)] * 3 + [("abort", 0)]),
        (["validation_failed"] * 3, [("replan-global", 1), ("replan-global", 2), ("abort", 2)]),
        (["blocked_dependency"], [("abort", 0)]),
    ],
    ids=["A", "B", "C", "transient-4", "validation", "blocked"],
)  # fmt: skip
def test_the_articles_scenarios_come_out_to_the_letter(signals, expected):
    world = Flat(TABLES["seed_replan_decider"])
    assert [world.observe(signal) for signal in signals] == expected
