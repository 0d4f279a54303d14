"""The analyser on the shipped tables and on their mutants: what is unsound does not load, and is shown where."""

import copy
import re
import sys
import time

import pytest

from fsm_agent.core.errors import RulesError
from fsm_agent.core.rules import table as rules
from fsm_agent.core.rules.analysis import KINDS, check
from fsm_agent.core.rules.boxes import Fuel, Space, TangledError, merge
from fsm_agent.core.rules.diff import changes, diff, to_mermaid
from fsm_agent.core.rules.laws import LAWS, violated
from fsm_agent.core.rules.places import places
from fsm_agent.core.rules.table import Counter, Spend
from fsm_agent.core.rules.termination import Circle, Proof, bound, prove
from fsm_agent.core.signals import DOMAIN, Decision
from fsm_agent.runtime import configs

DEFAULT = configs.read_rules("default")


def document():
    return copy.deepcopy({key: value for key, value in DEFAULT.canonical.items() if key != "name"})


def findings(doc):
    """Everything that is wrong with a document, whether it shows at reading or at checking."""
    try:
        table = rules.load(doc, name="mutant")
    except RulesError as error:
        return None, error.findings
    return table, check(table).findings


# mutants


def row(id_):
    return lambda doc: next(r for r in doc["row"] if r["id"] == id_)


def change(id_, **fields):
    def mutate(doc):
        row(id_)(doc).update(fields)

    return mutate


def when(id_, **conditions):
    def mutate(doc):
        target = row(id_)(doc)
        target["when"] = {k: v for k, v in {**target.get("when", {}), **conditions}.items() if v is not None}

    return mutate


def remove(*ids):
    def mutate(doc):
        doc["row"] = [r for r in doc["row"] if r["id"] not in ids]

    return mutate


def add(**fields):
    def mutate(doc):
        doc["row"].append({"id": "new", "state": "failed", "decide": "escalate", "why": "w"} | fields)

    return mutate


def cost(decision, **fields):
    def mutate(doc):
        doc["decisions"].setdefault(decision, {}).update(fields)

    return mutate


def section(name, **fields):
    def mutate(doc):
        doc[name].update(fields)

    return mutate


def both(*mutations):
    def mutate(doc):
        for mutation in mutations:
            mutation(doc)

    return mutate


MUTANTS = [
    # a place without an answer
    ("gap", remove("unknown-ask")),
    ("gap", remove("failed-read-ask")),
    ("gap", remove("accept")),
    ("gap", remove("run-ask")),
    ("gap", remove("go-on-without-the-rejected")),
    ("gap", when("failed-write-ask", applied=["no", "yes"])),
    ("gap", change("run-ask", signal=["constraint_violated", "deadlock"])),
    ("gap", section("inputs", signal_count=[0, 5])),
    ("gap", section("inputs", breaker=["closed"])),
    # two answers
    ("overlap", change("unknown-ask", tier="rule")),
    ("overlap", when("replan-read-globally", local_replans_left=None)),
    ("overlap", when("replans-do-not-help", consecutive_replans=">=2")),
    ("overlap", when("nobody-plans", budget_band=None)),
    ("overlap", add(signal="auth_denied", decide="abort")),
    ("overlap", when("plan-again-globally", replan_scope=["local", "global"])),
    # rows that never answer
    ("unreachable", change("retry-once", tier="default", decide="escalate", when={"effect": "read", "budget_band": "exhausted"})),
    ("unreachable", add(tier="default", signal="approval_expired")),
    ("unreachable", add(signal="success")),
    ("unreachable", when("retry-once", signal_count=">20")),
    ("unreachable", change("retry-read", signal=["transient_error", "success"])),
    ("unreachable", change("ask-for-access", state=["failed", "cancelled"])),
    ("unreachable", add(tier="default", signal="not_found", when={"budget_band": "exhausted"}, decide="abort")),
    # laws
    ("law", when("retry-write-that-did-not-happen", applied=None)),
    ("law", when("wait-for-breaker-to-write", applied=["no", "maybe"])),
    ("law", change("reconcile", decide="retry", delay="backoff")),
    ("law", change("unknown-ask", decide="abort")),
    ("law", when("replan-write-that-did-not-start", effect=["idempotent", "write", "irreversible"])),
    ("law", when("replan-write-that-did-not-start", applied=None)),
    ("law", when("reconcile", budget_band=None)),
    ("law", remove("budget-gone")),
    ("law", change("budget-exhausted", decide="continue")),
    ("law", change("go-on-without-the-rejected", decide="retry")),
    ("law", change("failed-read-ask", decide="skip")),
    ("law", change("failed-read-ask", decide="retry")),
    ("law", change("accept", decide="retry")),
    ("law", change("ask-for-access", decide="accept")),
    ("law", change("run-ask", decide="continue")),
    ("law", change("reconcile", delay="backoff")),
    ("law", change("reconcile", delay=None)),
    # spending what is not there
    ("overspend", when("retry-read", retries_left=None)),
    ("overspend", when("reconcile", reconciles_left=None)),
    ("overspend", when("replan-read", local_replans_left=None)),
    ("overspend", when("replan-broken-plan", global_replans_left=">=0")),
    ("overspend", cost("retry", spend="reconciles_left")),
    # no end
    ("termination", cost("retry", spend=None)),
    ("termination", cost("retry", refill=["retries_left"])),
    ("termination", both(cost("retry", refill=["reconciles_left"]), cost("reconcile", refill=["retries_left"]))),
    ("termination", cost("replan-local", refill=["global_replans_left", "local_replans_left"])),
    ("termination", both(cost("replan-local", refill=["global_replans_left"]), cost("replan-global", refill=["local_replans_left"]))),
    ("termination", section("counters", local_replans_left={"initial": "$local_replans", "scope": "series"})),
    ("termination", section("counters", global_replans_left={"initial": "$global_replans", "scope": "strategy"})),
    ("termination", cost("accept", refill=["local_replans_left", "global_replans_left"])),
    ("termination", cost("replan-global", spend="retries_left")),
    # thresholds that decide nothing
    ("unused", both(section("params", limit=3), when("retry-once", stall_steps="<=$limit"), add(signal=["unclassified_error", "unverified"], decide="retry", delay="backoff", when={"effect": "read", "signal_count": "<=1", "retries_left": ">=1", "stall_steps": ">$limit"}))),
    ("unused", section("params", patience=3)),
    ("unused", both(section("params", escalate_after=3), lambda doc: doc.update(row=[r for r in doc["row"] if "$escalate_after" not in str(r)]))),
    ("unused", both(section("params", limit=3), when("ask-for-access", stall_steps="<=$limit"), add(signal=["auth_denied", "quota_exhausted"], when={"stall_steps": ">$limit"}))),
    ("unused", both(section("params", retries=3), section("counters", retries_left={"initial": 3, "scope": "series"}))),
    # more budget, worse decision
    ("monotone", both(when("ask-for-access", retries_left="0"), add(signal=["auth_denied", "quota_exhausted"], decide="abort", when={"retries_left": ">=1"}))),
    ("monotone", both(when("replan-read", local_replans_left=">=2"), when("replan-read-globally", local_replans_left="<=1"), when("replans-spent", local_replans_left="<=1"), add(signal="conflict", decide="abort", when={"effect": "read", "local_replans_left": ">=2", "consecutive_replans": "<$escalate_after"}), change("replan-read", signal=["not_found"]))),
    ("monotone", both(when("low-budget-goes-on", global_replans_left="0"), add(machine="run", state="running", signal="budget_low", decide="abort", when={"global_replans_left": ">=1"}))),
    ("monotone", both(when("unknown-ask", reconciles_left=None), change("reconcile", decide="escalate", delay=None), add(id="odd", state="unknown-result", decide="reconcile", delay="settle", when={"has_reconcile": "yes", "reconciles_left": "1..3", "budget_band": ["ok", "low"]}), when("reconcile", reconciles_left=">=4"))),
    ("monotone", both(when("inefficient-goes-on", budget_band=["low", "exhausted"]), add(machine="run", state="running", signal="inefficient", when={"budget_band": "ok"}))),
    # names and forms
    ("name", change("accept", signal=["succes"])),
    ("name", change("accept", state="finished")),
    ("name", change("accept", decide="acept")),
    ("name", when("reconcile", has_probe="yes")),
    ("name", change("retry-read", delay="later")),
    ("name", when("replan-read", consecutive_replans="<$escalate_afer")),
    ("name", change("budget-gone", tier="gaurd")),
    ("format", change("accept", why="")),
    ("format", when("retry-read", retries_left="many")),
    ("format", section("params", retries="three")),
    ("format", lambda doc: doc.update(schema=2)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "mutate"), MUTANTS, ids=[f"{n}-{kind}" for n, (kind, _) in enumerate(MUTANTS)]
)
def test_a_mutant_is_refused_for_its_own_kind_of_fault(kind, mutate):
    doc = document()
    mutate(doc)
    _, found = findings(doc)
    assert kind in {f.kind for f in found}, [str(f) for f in found]
    for finding in found:
        assert finding.message
        assert finding.kind in KINDS


def test_there_are_enough_mutants_of_every_kind():
    kinds = [kind for kind, _ in MUTANTS]
    assert len(kinds) >= 40
    assert all(kinds.count(kind) >= 3 for kind in KINDS)


@pytest.mark.parametrize(
    "mutant",
    [m for m in MUTANTS if m[0] in {"gap", "overlap", "law", "overspend", "monotone"}],
    ids=lambda m: m[0],
)
def test_a_witness_shows_the_fault_when_the_table_is_asked(mutant):
    doc = document()
    mutant[1](doc)
    table, found = findings(doc)
    shown = 0
    two = {f.witness["state"] for f in found if f.kind == "overlap"}
    for finding in found:
        w = dict(finding.witness)
        if "machine" not in w or (finding.kind != "overlap" and w.get("state") in two):
            continue
        place = (w.pop("machine"), w.pop("state"), w.pop("signal"))
        facts = {**table.initial, **w}
        match finding.kind:
            case "gap":
                with pytest.raises(RulesError, match="no row fits"):
                    table.match(*place, facts)
            case "overlap":
                with pytest.raises(RulesError, match="both fit"):
                    table.match(*place, facts)
            case "law":
                hit = table.match(*place, facts)
                assert hit.id == finding.row
                assert (
                    violated(*place, facts, hit.decide) is not None
                    or hit.tier == "default"
                    or hit.decide is Decision.RECONCILE
                )
            case "overspend":
                hit = table.match(*place, facts)
                assert hit.id == finding.row
                assert facts[table.decisions[hit.decide].spend] == 0
            case "monotone":
                assert table.match(*place, facts).id == finding.row
            case _:
                continue
        shown += 1
    assert shown or not any("machine" in f.witness for f in found)


# the shipped tables


@pytest.mark.parametrize("name", configs.rule_names())
def test_every_shipped_table_is_sound_and_ends(name):
    report = check(configs.read_rules(name))
    assert [str(f) for f in report.findings] == []
    assert report.proof is not None
    assert report.bound is not None


@pytest.mark.parametrize("name", configs.rule_names())
@pytest.mark.parametrize(
    "params", [{"retries": 0}, {"reconciles": 0}, {"local_replans": 0, "global_replans": 0}, {"retries": 20}]
)
def test_shipped_tables_stay_sound_under_other_budgets(name, params):
    if name == "conservative":
        params = {k: v for k, v in params.items() if k in {"retries", "reconciles"}}
    assert check(configs.read_rules(name, params)).sound


def test_the_bound_of_the_default_table_is_the_product_of_its_budgets():
    report = check(DEFAULT)
    p = DEFAULT.params
    replans = p["local_replans"] + p["global_replans"]
    assert report.bound.planner_calls == replans
    assert report.bound.tool_calls == (1 + replans) * (1 + p["retries"] + p["reconciles"])
    assert (report.bound.attempts, report.bound.probes) == (1 + p["retries"], p["reconciles"])
    assert str(report.proof).startswith(
        "global_replans_left, local_replans_left > reconciles_left, retries_left"
    )


def test_the_report_as_json_has_the_documented_shape():
    good = check(DEFAULT).as_json()
    assert good["schema"] == "fsm-agent/rules-check@1"
    assert good["sound"] is True
    assert good["findings"] == []
    assert set(good["bound"]) >= {"tool_calls", "planner_calls"}
    doc = document()
    cost("retry", spend=None)(doc)
    bad = check(rules.load(doc, name="x")).as_json()
    assert (bad["sound"], bad["bound"], bad["proof"]) == (False, None, None)
    assert set(bad["findings"][0]) == {"kind", "row", "witness", "message"}
    assert bad["findings"][0]["kind"] == "termination"
    assert str(check(rules.load(doc, name="x")).findings[0]).startswith("termination: rows ")


def test_findings_point_at_the_line_of_the_row(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'schema = 1\nextends = "default"\n\n[[row]]\nid = "accept"\nstate = "done"\ndecide = "retry"\nwhy = "w"\n'
    )
    with pytest.raises(RulesError, match=r"not sound: law: row accept \(mine:4\) at task done success"):
        configs.load_rules(path)


# termination

FULL = {
    name: Counter(initial=3, scope="run")
    for name in ("retries_left", "reconciles_left", "local_replans_left", "global_replans_left")
}


def test_a_circle_is_shown_as_who_fills_what_again():
    costs = {
        Decision.RETRY: Spend(spend="retries_left", refill=("reconciles_left",)),
        Decision.RECONCILE: Spend(spend="reconciles_left", refill=("retries_left",)),
    }
    found = prove([Decision.RETRY, Decision.RECONCILE, Decision.ESCALATE], costs, FULL)
    assert isinstance(found, Circle)
    assert str(found) == (
        "retry spends retries_left, which reconcile fills again; reconcile spends reconciles_left, which retry fills again"
    )


def test_what_spends_nothing_is_a_circle_of_its_own():
    found = prove([Decision.RETRY, Decision.ACCEPT], {}, FULL)
    assert isinstance(found, Circle)
    assert str(found) == "retry spends no counter, so nothing ends it"


def test_a_circle_begins_where_it_closes():
    costs = {
        Decision.RETRY: Spend(spend="retries_left"),
        Decision.RECONCILE: Spend(spend="reconciles_left", refill=("retries_left", "reconciles_left")),
    }
    found = prove([Decision.RETRY, Decision.RECONCILE], costs, FULL)
    assert isinstance(found, Circle)
    assert found.steps == ((Decision.RECONCILE, "reconciles_left"),)


def test_global_replans_may_fill_local_ones_and_the_bound_says_what_that_costs():
    costs = {
        Decision.REPLAN_LOCAL: Spend(spend="local_replans_left"),
        Decision.REPLAN_GLOBAL: Spend(spend="global_replans_left", refill=("local_replans_left",)),
    }
    proof = prove(list(costs), costs, FULL)
    assert isinstance(proof, Proof)
    assert str(proof) == "global_replans_left > local_replans_left"
    assert bound(proof, costs, FULL).planner_calls == 3 + 3 * (1 + 3)


def test_decisions_that_share_a_counter_share_its_bound():
    costs = {d: Spend(spend="global_replans_left") for d in (Decision.REPLAN_LOCAL, Decision.REPLAN_GLOBAL)}
    proof = prove(list(costs), costs, FULL)
    assert isinstance(proof, Proof)
    assert bound(proof, costs, FULL).planner_calls == 3


# comparing


def test_a_table_differs_from_itself_nowhere():
    assert diff(DEFAULT, DEFAULT) == []


def test_a_moved_threshold_differs_exactly_between_its_two_values():
    moved = configs.read_rules("default", {"escalate_after": 4})
    regions = diff(DEFAULT, moved)
    assert regions
    assert {r.where["consecutive_replans"] for r in regions} == {"3"}
    assert all(r.b.decide.value.startswith("replan-") for r in regions)
    assert str(regions[0]).endswith("escalate (replans-do-not-help) → replan-local (replan-read)")
    assert regions[0].as_json()["a"] == {"row": "replans-do-not-help", "decide": "escalate", "delay": None}


def test_a_row_that_only_one_table_has_differs_from_no_row():
    doc = document()
    remove("accept")(doc)
    regions = diff(DEFAULT, rules.load(doc, name="less"))
    assert [(r.machine, r.state, r.signals, dict(r.where)) for r in regions] == [
        ("task", "done", ("success", "reconciled_applied"), {})
    ]
    assert str(regions[0]) == "done on success, reconciled_applied, always: accept (accept) → no row"
    assert regions[0].as_json()["b"] is None
    assert diff(rules.load(doc, name="less"), DEFAULT)[0].as_json()["a"] is None


def test_another_delay_is_a_difference_another_reason_is_none():
    doc = document()
    change("accept", why="other words")(doc)
    assert diff(DEFAULT, rules.load(doc, name="x")) == []
    doc["delays"]["backoff"]["base_s"] = 2
    assert {r.a.id for r in diff(DEFAULT, rules.load(doc, name="x"))} == {
        "retry-read",
        "retry-once",
        "retry-write-that-did-not-happen",
    }


def test_tables_are_compared_over_the_values_that_both_know():
    wide = configs.read_rules("default", {"retries": 50})
    assert diff(DEFAULT, wide) == []
    doc = document()
    section("inputs", wish=["none", "pause"])(doc)
    when("no-repeat-after-a-wish", wish="pause")(doc)
    assert diff(DEFAULT, rules.load(doc, name="x")) == []


def test_what_would_change_the_decision_is_said_fact_by_fact():
    facts = {**DEFAULT.initial, "has_planner": "yes"}
    found = {
        (c.fact, c.values, c.row.decide.value) for c in changes(DEFAULT, "task", "failed", "not_found", facts)
    }
    assert found == {
        ("budget_band", "exhausted", "abort"),
        ("has_planner", "no", "escalate"),
        ("effect", "idempotent, write, irreversible", "escalate"),
        ("local_replans_left", "0", "replan-global"),
        ("consecutive_replans", "3..40", "escalate"),
    }
    for c in changes(DEFAULT, "task", "failed", "not_found", facts):
        first = re.split(r"\.\.|, ", c.values)[0]
        value = first if isinstance(DOMAIN[c.fact][0], str) else int(first)
        assert DEFAULT.match("task", "failed", "not_found", {**facts, c.fact: value}) is c.row
    assert changes(DEFAULT, "task", "done", "success", facts) == []


def test_the_picture_names_every_row_and_every_state():
    picture = to_mermaid(DEFAULT)
    assert picture.startswith("flowchart LR\n")
    assert all(f'"{row.id}: ' in picture for row in DEFAULT.rows)
    assert all(
        f'["{state}"]' in picture for state in ("done", "failed", "unknown-result", "cancelled", "run")
    )
    ends = {line.split()[0].split("([")[0] for line in picture.splitlines() if "([" in line}
    arrows = {line.split("--> ")[1] for line in picture.splitlines() if "-->" in line}
    assert arrows == ends
    assert not any("-" in name for name in ends)


# boxes


def test_regions_are_cut_and_joined_without_loss():
    space = Space({"effect": DOMAIN["effect"], "stall_steps": (0, 9)}, Fuel())
    box = space.box([("effect", frozenset({"read"})), ("stall_steps", range(3, 5))])
    rest = space.subtract([space.full], box)
    assert space.first(rest, box) is None
    assert space.intersect(rest, box) == []
    assert [space.describe(b) for b in merge([*rest, box])] == [{}]
    assert space.describe(rest[-1])["stall_steps"] == "0..2, 5..9"
    assert space.box([("stall_steps", range(20, 30))]) is None
    assert space.box([("wish", frozenset({"abort"}))]) == space.full
    assert space.witness(box, {"effect": "write", "stall_steps": 4}) == {"effect": "read", "stall_steps": 4}


def test_work_is_bounded():
    with pytest.raises(TangledError):
        Space({"effect": DOMAIN["effect"]}, Fuel(left=1)).subtract([(15,), (15,)], (1,))


# size and speed


SLOWER = 1 if sys.gettrace() is None else 20
"""Under coverage everything is slower."""


def best(function, tries=7):
    spent = []
    for _ in range(tries):
        start = time.process_time()
        function()
        spent.append(time.process_time() - start)
    return min(spent)


def test_the_default_table_is_checked_in_ten_milliseconds():
    assert best(lambda: check(DEFAULT)) < 0.010 * SLOWER


def split(doc, wanted):
    """Split rows by further facts until there are *wanted*: the same decisions from many more rows."""
    facts = iter(["has_reconcile", "optional", "breaker", "wish", "stall_steps", "repeat_streak"])
    while len(doc["row"]) < wanted:
        fact = next(facts)
        halves = (
            (["no"], ["yes"])
            if fact in {"has_reconcile", "optional"}
            else (["closed"], ["open", "half-open"])
        )
        if fact == "wish":
            halves = (["none"], ["pause", "abort", "cancel"])
        if isinstance(DOMAIN[fact][0], int):
            halves = ("<=3", ">3")
        rows = []
        for r in doc["row"]:
            if len(doc["row"]) + len(rows) // 2 >= wanted or fact in r.get("when", {}):
                rows.append(r)
            else:
                rows += [
                    {**r, "id": f"{r['id']}.{n}", "when": {**r.get("when", {}), fact: half}}
                    for n, half in enumerate(halves)
                ]
        doc["row"] = rows
    return doc


def test_three_hundred_rows_are_checked_in_a_second():
    table = rules.load(split(document(), 300), name="big")
    assert len(table.rows) >= 300
    assert check(table).sound
    assert diff(DEFAULT, table) == []
    assert best(lambda: check(table), 2) < 1 * SLOWER


def test_a_table_that_is_too_tangled_is_refused_in_bounded_time():
    doc = document()
    for n in range(600):
        when_ = {
            f: f"{(n * k) % 17}..{(n * k) % 17 + 3}"
            for k, f in (
                (3, "retries_left"),
                (5, "signal_count"),
                (7, "global_replans_left"),
                (11, "repeat_streak"),
            )
        }
        doc["row"].append({"id": f"t{n}", "state": "failed", "decide": "escalate", "why": "w", "when": when_})
    table = rules.load(doc, name="tangled")
    start = time.process_time()
    report = check(table)
    assert time.process_time() - start < 4 * SLOWER
    assert {"format", "overlap"} & {f.kind for f in report.findings}
    assert len(report.findings) <= 100
    with pytest.raises(RulesError, match="too intricately to be compared"):
        diff(table, DEFAULT)


@pytest.mark.parametrize("size", [1001, 10_000, 100_000])
def test_ten_thousand_rows_are_refused_at_once(size):
    doc = document()
    doc["row"] = [{"id": f"r{n}"} for n in range(size)]
    start = time.process_time()
    with pytest.raises(RulesError, match="at most 1000"):
        rules.load(doc, name="huge")
    assert time.process_time() - start < 1 * SLOWER


def test_every_law_stands_in_the_way_of_some_table():
    """A law that no table could break would be no law."""
    for law in LAWS:
        place = next(p for p in places() if law.covers(*p))
        for decision in law.forbidden:
            doc = {
                "schema": 1,
                "row": [
                    {
                        "id": "only",
                        "machine": place[0],
                        "state": place[1],
                        "signal": place[2],
                        "decide": decision.value,
                        "why": "w",
                    }
                ],
            }
            found = check(rules.load(doc, name="x")).findings
            assert any(f.kind == "law" for f in found)
