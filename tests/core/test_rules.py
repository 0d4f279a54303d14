"""Tables as data: how rows are written, how they match, and what a wrong document is told."""

import copy
import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.errors import RulesError
from fsm_agent.core.rules import table as rules
from fsm_agent.core.rules.table import Delay, delay_us
from fsm_agent.core.signals import DOMAIN, HOME, Decision
from fsm_agent.runtime import configs

DEFAULT = configs.read_rules("default")
PLACES = [(m, s, signal.value) for (m, s), signals in HOME.items() for signal in signals]


def row(id_="r1", **changed):
    return {"id": id_, "state": "failed", "decide": "escalate", "why": "because"} | changed


def table(*rows, **changed):
    return {"schema": 1, "row": list(rows) or [row()]} | changed


def load(document, **more):
    return rules.load(document, name="t", **more)


def faults(document, **more):
    with pytest.raises(RulesError) as caught:
        load(document, **more)
    assert str(caught.value)
    return [str(f) for f in caught.value.findings]


def facts(**changed):
    return {**DEFAULT.initial, **changed}


@st.composite
def any_facts(draw):
    return {
        name: draw(st.sampled_from(d)) if isinstance(d[0], str) else draw(st.integers(*d))
        for name, d in DOMAIN.items()
    }


# matching


@given(any_facts(), st.sampled_from(PLACES))
def test_the_answer_is_the_one_row_of_the_highest_tier_that_fits(given_facts, place):
    fitting = [r for r in DEFAULT.place(*place) if all(given_facts[c.fact] in c.allowed for c in r.when)]
    best = min(rules.TIERS.index(r.tier) for r in fitting)
    assert [DEFAULT.match(*place, given_facts)] == [r for r in fitting if rules.TIERS.index(r.tier) == best]


@given(any_facts(), st.sampled_from(PLACES))
def test_a_row_that_is_near_missed_exactly_the_conditions_it_is_listed_with(given_facts, place):
    near = DEFAULT.near(*place, given_facts)
    missed = {r.id: sum(given_facts[c.fact] not in c.allowed for c in r.when) for r in DEFAULT.place(*place)}
    assert {r.id: len(words) for r, words in near} == {id_: n for id_, n in missed.items() if n}
    assert [len(words) for _, words in near] == sorted(len(words) for _, words in near)


def test_guard_goes_before_rule_and_rule_before_default():
    t = load(
        table(
            row("low", tier="default"),
            row("mid", when={"effect": "read"}, decide="retry"),
            row("top", tier="guard", when={"effect": "read", "retries_left": "0"}, decide="abort"),
        )
    )
    assert t.match("task", "failed", "not_found", facts(retries_left=0)).id == "top"
    assert t.match("task", "failed", "not_found", facts(retries_left=1)).id == "mid"
    assert t.match("task", "failed", "not_found", facts(effect="write")).id == "low"


def test_a_row_is_the_sole_answer_only_where_no_fact_matters():
    assert DEFAULT.sole("task", "done", "success") is DEFAULT.match("task", "done", "success", {})
    assert DEFAULT.sole("task", "failed", "not_found") is None
    assert DEFAULT.sole("task", "nowhere", "success") is None


def test_two_rows_of_one_tier_that_both_fit_are_refused_not_guessed_between():
    t = load(table(row("a", when={"effect": "read"}), row("b", when={"applied": "no"})))
    with pytest.raises(RulesError, match="rows a and b both fit"):
        t.match("task", "failed", "not_found", facts())


@pytest.mark.parametrize(
    "place", [("task", "done", "success"), ("task", "failed", "success"), ("task", "x", "y")]
)
def test_where_no_row_fits_the_table_says_so(place):
    with pytest.raises(RulesError, match="no row fits"):
        load(table()).match(*place, facts())


def test_a_missing_fact_is_named():
    with pytest.raises(RulesError, match="'effect' is missing"):
        load(table(row(when={"effect": "read"}))).match("task", "failed", "not_found", {})


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("3", {3}), (3, {3}), ("=3", {3}), (">=18", {18, 19, 20}), ("> 18", {19, 20}), ("<=1", {0, 1}), ("<1", {0}),
        ("2..4", {2, 3, 4}), ("$low..3", {2, 3}), (">=$retries", set(range(3, 21))), ("<$low", {0, 1}), ("$low", {2}),
        (">20", set()), ("4..2", set()),
    ],
)  # fmt: skip
def test_integer_conditions_mean_what_they_say(text, fits):
    t = load(table(row(when={"signal_count": text}), params={"low": 2} if "low" in str(text) else {}))
    assert set(t.rows[0].when[0].allowed) == fits


def test_a_condition_reads_as_a_sentence_with_its_numbers():
    t = load(
        table(
            row(
                when={
                    "retries_left": "<=$few",
                    "effect": ["read", "write"],
                    "applied": "no",
                    "stall_steps": "2..3",
                }
            ),
            params={"few": 2},
        )
    )
    assert [t.shown(c) for c in t.rows[0].when] == [
        "applied = no", "effect in read, write", "retries_left <= $few [few = 2]", "stall_steps = 2..3",
    ]  # fmt: skip


def test_a_reason_names_the_signal_its_threshold_the_rows_words_and_the_facts():
    f = facts(repeat_streak=2, has_planner="yes")
    hit = DEFAULT.match("task", "failed", "repeated_error", f)
    reason = DEFAULT.reason(hit, "repeated_error", f)
    assert hit.decide is Decision.REPLAN_LOCAL
    assert reason.startswith("repeated_error (repeat_threshold 2): the same again would fail again")
    assert "local_replans_left 2" in reason
    assert (
        DEFAULT.reason(DEFAULT.match("task", "done", "success", f), "success", f)
        == "success: the step is done, on evidence"
    )


def test_row_state_and_signal_left_out_mean_all_of_them():
    t = load(
        table(
            {"id": "r", "decide": "escalate", "why": "w"},
            {"id": "m", "machine": "run", "decide": "abort", "why": "w"},
        )
    )
    for machine, state, signal in PLACES:
        assert t.match(machine, state, signal, facts()).id == ("r" if machine == "task" else "m")


# the document


def test_params_counters_and_facts_have_usual_values_and_the_caller_goes_first():
    t = load(table(params={"retries": 7}), params={"reconciles": 1})
    assert t.params["retries"] == 7
    assert t.initial["retries_left"] == 7
    assert t.counters["reconciles_left"].initial == 1
    assert t.scope_of("local_replans_left") == "run"
    assert t.scope_of("retries_left") == "series"
    assert set(t.initial) == set(DOMAIN)
    assert t.initial["effect"] == "read"
    assert t.initial["wish"] == "none"


def test_a_counter_that_begins_beyond_its_range_widens_it():
    assert load(table(params={"retries": 50})).inputs["retries_left"] == (0, 50)
    with_inputs = table(
        inputs={"retries_left": [0, 5]}, counters={"retries_left": {"initial": 9, "scope": "strategy"}}
    )
    t = load(with_inputs)
    assert t.inputs == {"retries_left": (0, 9)}
    assert t.scope_of("retries_left") == "strategy"


def test_extending_replaces_rows_of_the_same_id_drops_rows_and_overrides_params():
    base = table(row("a"), row("b", decide="abort"), row("c"), params={"retries": 9})
    t = load(
        {
            "schema": 1,
            "extends": "base",
            "drop": ["c"],
            "params": {"reconciles": 2},
            "row": [row("b", decide="skip"), row("d")],
        },
        base={"base": base}.__getitem__,
        lines={"base:a": 4, "t:b": 7},
    )
    assert [(r.id, r.decide.value, r.where) for r in t.rows] == [
        ("a", "escalate", "base:4"), ("b", "skip", "t:7"), ("d", "escalate", "t"),
    ]  # fmt: skip
    assert (t.params["retries"], t.params["reconciles"]) == (9, 2)


def test_a_chain_of_extensions_ends():
    document = {"schema": 1, "extends": "t"}
    assert "cannot be followed" in faults(document)[0]
    endless = (f"b{n}" for n in itertools.count())
    assert "cannot be followed" in " ".join(
        faults({"schema": 1, "extends": "x"}, base=lambda _: {"schema": 1, "extends": next(endless)})
    )


@pytest.mark.parametrize("name", configs.rule_names())
def test_a_table_can_be_rebuilt_from_the_log(name):
    t = configs.read_rules(name, {"retries": 4})
    again = rules.from_canonical(t.canonical)
    assert again == t
    assert hash(again) == hash(t)
    assert again.canonical == t.canonical
    assert again.rows == t.rows
    assert (again.params, again.inputs, again.counters, again.delays, again.decisions, again.initial) == (
        t.params, t.inputs, t.counters, t.delays, t.decisions, t.initial,
    )  # fmt: skip


def test_the_digest_changes_with_anything_that_matters_and_with_nothing_else():
    t = load(table(row(), params={"retries": 2}))
    same = rules.load(
        table(row(tier="rule", machine="task", state=["failed"]), params={"retries": 2}),
        name="t",
        lines={"t:r1": 9},
    )
    assert t == same
    assert t != load(table(row(), params={"retries": 3}))
    assert t != load(table(row(decide="abort"), params={"retries": 2}))
    assert t != "t"
    assert "t: 1 rows" in repr(t)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "schema of table t: left out; write schema = 1"),
        (table(schema=True), "schema of table t: True"),
        (table(schema=2), "schema of table t: 2"),
        (table(rows=[]), "unknown key 'rows'; did you mean row?"),
        (table(extends=3), "extends of table t: 3"),
        (table(row=[]), "it has no rows"),
        (table(row={}), "row of table t: a section"),
        (table(row=[row()] * 1001), "row of table t: 1001 rows; write at most 1000"),
        (table(row=["x"]), "row 0 of table t: its id is left out"),
        (table(row(id="")), "its id is ''"),
        (table(row(), row()), "the id is given twice"),
        (table(row(oops=1)), "unknown key 'oops'"),
        (table(row(tier="top")), "unknown tier 'top'; it is one of guard, rule, default"),
        (table(row(machine=["task"])), "unknown machine a list"),
        (table(row(state="fialed")), "unknown state 'fialed'; did you mean failed?"),
        (table(row(state=[])), "leave it out for all"),
        (table(row(state=7)), "state of row r1 (t): 7; give a list of names"),
        (table(row(signal="transient")), "unknown signal 'transient'"),
        (table(row(decide="retri")), "unknown decision 'retri'; did you mean retry?"),
        (table(row(decide=None)), "unknown decision left out"),
        (table(row(delay="later")), "unknown delay 'later'"),
        (table(row(why=" ")), "why is ' '; give the reason in words"),
        (table(row(why="x" * 3000)), "why is 'xxx"),
        (table(row(say=3)), "say is 3"),
        (table(row(when=["x"])), "when is a list"),
        (table(row(when={"efect": "read"})), "unknown fact 'efect'; did you mean effect?"),
        (table(row(when={"effect": "reed"})), "effect is never 'reed'; it is one of read, idempotent"),
        (table(row(when={"effect": []})), "effect is never a list"),
        (table(row(when={"retries_left": "few"})), "write N, >=N, <=N"),
        (table(row(when={"retries_left": ["1"]})), "retries_left is a list"),
        (table(row(when={"retries_left": True})), "retries_left is True"),
        (table(row(when={"retries_left": 10**30})), "a very large number"),
        (table(row(when={"retries_left": ">=$few"})), "there is no param '$few'"),
        (table(row(when={"retries_left": ">=$cooldown_s"}), params={"cooldown_s": 1.5}), "that is no whole number"),
        (table(params=[]), "[params] of table t: a list"),
        (table(params={"Few": 1}), "param 'Few' of table t: no name"),
        (table(params={"retries": "3"}), "param retries of table t: '3'; give a whole number"),
        (table(params={"retries": 1.5}), "give a whole number"),
        (table(params={"retries": True}), "give a whole number"),
        (table(params={"budget_low": 2}), "param budget_low of table t: 2; allowed is 0 to 1"),
        (table(params={"cooldown_s": float("nan")}), "param cooldown_s of table t: nan; give a number"),
        (table(params={"mine": 1}), "param mine of table t: no row, counter"),
        (table(params={"escalate_after": 1}), "param escalate_after of table t: no row, counter"),
        (table(inputs={"efect": ["read"]}), "there is no such fact; did you mean effect?"),
        (table(inputs={"effect": ["read", "reed"]}), "it never is 'reed'"),
        (table(inputs={"effect": "read"}), "give a list of names"),
        (table(inputs={"retries_left": [5, 1]}), "give [lowest, highest]"),
        (table(inputs={"stall_steps": [0, 1001]}), "give [lowest, highest] from 0 to 1000"),
        (table(inputs={"stall_steps": [-1, 5]}), "give [lowest, highest] from 0 to 1000"),
        (table(inputs={"retries_left": 5}), "input 'retries_left' of table t: 5"),
        (table(counters={"retries": {}}), "there is no such counter; did you mean retries_left?"),
        (table(counters={"retries_left": 3}), "write initial and scope"),
        (table(counters={"retries_left": {"initial": -1}}), "initial is -1"),
        (table(counters={"retries_left": {"initial": "$x"}}), "there is no param '$x'"),
        (table(counters={"retries_left": {"scope": "day"}}), "scope is 'day'; it is one of series, strategy, run"),
        (table(counters={"retries_left": {"reset": 1}}), "unknown key 'reset'"),
        (table(decisions={"rety": {}}), "unknown decision 'rety'; did you mean retry?"),
        (table(decisions={"retry": 1}), "write spend and refill"),
        (table(decisions={"retry": {"spend": "retries"}}), "there is no counter 'retries'; did you mean retries_left?"),
        (table(decisions={"retry": {"refill": ["x"]}}), "there is no counter 'x'"),
        (table(decisions={"retry": {"refill": 1}}), "give a list of names"),
        (table(delays={"a": {"kind": "slow"}}), "kind is 'slow'; it is one of exponential, fixed, settle, breaker"),
        (table(delays={"a": 3}), "kind is left out"),
        (table(delays={"a": {"kind": "settle", "s": 1}}), "unknown key 's'"),
        (table(delays={"a": {"kind": "fixed", "s": -1}}), "s is -1"),
        (table(delays={"a": {"kind": "exponential", "jitter": "some"}}), "jitter is 'some'"),
        (table(delays={"a": {"kind": "exponential", "factor": 0.5}}), "factor is 0.5"),
        (table(drop=["x"]), "drop of table t: there is no row 'x'"),
        (table(drop=3), "drop of table t: 3; give a list of names"),
    ],
)  # fmt: skip
def test_a_wrong_document_is_told_what_is_wrong_where_and_what_is_allowed(document, message):
    assert any(message in line for line in faults(document)), faults(document)


def test_all_faults_are_said_at_once_and_no_more_than_a_hundred():
    assert len(faults(table(row(state="x", signal="y", decide="z", why="")))) == 4
    assert len(faults(table(*(row(f"r{n}", decide="x") for n in range(300))))) == 100


def test_params_of_the_caller_are_checked_like_those_of_the_document():
    assert "did you mean retries?" in faults(table(), params={"retrys": 1})[0]
    assert "allowed is 0 to 1000" in faults(table(), params={"retries": -1})[0]
    assert "no row, counter or delay uses it" in faults(table(), params={"escalate_after": 2})[0]


def test_rows_of_several_documents_are_counted_together():
    base = table(*(row(f"b{n}") for n in range(600)))
    document = table(*(row(f"t{n}") for n in range(600)), extends="base")
    assert "1200 rows" in faults(document, base=lambda _: base)[0]


def test_a_section_with_too_many_or_strange_names_is_refused():
    assert "at most 200 names" in faults(table(params={f"p{n}": 1 for n in range(300)}))[0]
    assert "[params]" in faults(table(params={1: 1}))[0]


def test_what_a_log_holds_instead_of_a_table_is_refused():
    with pytest.raises(RulesError):
        rules.from_canonical({"name": 3})


# delays

NOTHING = {"n": 1, "jitter": 0.5, "retry_after_us": None, "settle_us": 0, "breaker_us": 0}


@given(
    st.sampled_from([None, *(Delay(kind=k, s=2) for k in ("exponential", "fixed", "settle", "breaker"))]),
    st.integers(1, 10**6), st.floats(0, 1, exclude_max=True), st.none() | st.integers(0, 10**10),
    st.integers(0, 10**8), st.integers(0, 10**8),
)  # fmt: skip
def test_a_delay_is_at_least_a_millisecond_and_never_undercuts_what_was_asked_for(
    delay, n, jitter, asked, settle, breaker
):
    wait = delay_us(delay, n=n, jitter=jitter, retry_after_us=asked, settle_us=settle, breaker_us=breaker)
    assert wait >= 1000
    assert isinstance(wait, int)
    if delay is not None and delay.kind == "settle":
        assert wait == max(1000, settle)
    else:
        assert wait >= (asked or 0)


@given(st.integers(1, 40), st.floats(0, 1, exclude_max=True))
def test_exponential_delays_double_up_to_the_cap_and_jitter_draws_below_them(n, jitter):
    plain = Delay(kind="exponential", base_s=1, factor=2, max_s=60, jitter="none")
    full = Delay(kind="exponential", base_s=1, factor=2, max_s=60)
    cap = min(60, 2 ** (n - 1)) * 1_000_000
    assert delay_us(plain, **NOTHING | {"n": n}) == cap
    assert delay_us(full, **NOTHING | {"n": n, "jitter": jitter}) == max(1000, round(cap * jitter))


def test_fixed_and_breaker_delays_are_what_they_say():
    assert delay_us(Delay(kind="fixed", s=1.5), **NOTHING) == 1_500_000
    assert delay_us(Delay(kind="breaker"), **NOTHING | {"breaker_us": 7_000}) == 7_000
    assert delay_us(None, **NOTHING) == 1000


def test_delays_are_written_in_seconds_or_params_and_jitter_may_be_a_flag():
    t = load(
        table(
            row(decide="retry", delay="a"),
            params={"pause_s": 1.5},
            delays={
                "a": {"kind": "fixed", "s": "$pause_s"},
                "b": {"kind": "exponential", "base_s": 0.1, "jitter": True},
                "c": {"kind": "exponential", "jitter": False},
            },
        )
    )
    assert t.delays["a"].s == 1.5
    assert (t.delays["b"].jitter, t.delays["c"].jitter) == ("full", "none")
    assert rules.from_canonical(t.canonical) == t


# hostile documents


@pytest.mark.parametrize("seed", range(60))
def test_any_damage_to_a_table_is_a_finding_or_a_table_never_another_error(seed):
    rng = random.Random(seed)
    deep = []
    for _ in range(5000):
        deep = [deep]
    document = copy.deepcopy({k: v for k, v in DEFAULT.canonical.items() if k != "name"})
    for _ in range(4):
        where = document
        while True:
            key = rng.choice(list(where) if isinstance(where, dict) else range(len(where)))
            if isinstance(where[key], dict | list) and where[key] and rng.random() < 0.8:
                where = where[key]
            else:
                break
        where[key] = rng.choice(
            [
                None,
                True,
                -1,
                10**40,
                1.5,
                float("inf"),
                "",
                "x" * 10**6,
                [],
                {},
                deep,
                {"a": deep},
                "$x",
                ["read"],
            ]
        )
    try:
        load(document)
    except RulesError as error:
        refusal = error
        assert refusal.findings
        assert len(str(refusal)) < 10_000
