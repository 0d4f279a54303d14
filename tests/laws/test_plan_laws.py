"""Laws of plans: whatever is adopted reads back as itself, and whatever is wrong is found where it is."""

import graphlib
import json

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent.core.errors import PlanError
from fsm_agent.core.plans import known, planning
from fsm_agent.core.plans import shape as planshape
from fsm_agent.core.plans import text as plantext
from fsm_agent.core.plans.faults import Faults
from fsm_agent.core.plans.plan import Plan, Step
from fsm_agent.core.signals import Effect
from fsm_agent.core.tools import Parameter, ToolSpec
from fsm_agent.runtime.planning.plans import Plan as PublicPlan

few = settings(max_examples=50)
names = st.text("abcdefg_", min_size=1, max_size=4)
words = st.text(max_size=12).filter(lambda text: "\x00" not in text)
plain = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words.map(lambda text: text.replace("$", "$$"))
)
data = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=6
)
amounts = st.integers(0, 10**6).map(str) | st.decimals(0, 999, places=4).map(str) | st.integers(0, 99)
seconds = st.integers(1, 10**6) | st.floats(0.001, 1e6)
expressions = st.sampled_from(
    [
        "x > 0",
        "len(xs)>0 and y!=null",
        "all(x in xs,x.ok==true)",
        "id matches /^R-\\d+$/",
        "total <= $inputs.most",
    ]
)
decisions = st.sampled_from(["escalate", "abort", {"decide": "escalate", "say": "look"}, {"decide": "abort"}])

budgets = st.fixed_dictionaries(
    {},
    optional={
        "tool_calls": st.integers(0, 99),
        "tokens": st.integers(1000, 9999),
        "cost": amounts,
        "active_s": seconds,
        "local_replans": st.integers(0, 5),
        "reserve": st.fixed_dictionaries({}, optional={"tokens": st.integers(0, 1000)}),
    },
)
shares = st.fixed_dictionaries(
    {}, optional={"tool_calls": st.integers(0, 99), "tokens": st.integers(0, 9999), "cost": amounts}
)
estimates = st.fixed_dictionaries(
    {}, optional={"tokens": st.integers(0, 9), "seconds": seconds, "cost": amounts}
)


@st.composite
def steps(draw, prefix="s", *, nest=True, reads=True):
    """Steps of a plan without faults: each depends on, and reads, only steps before it."""
    out = []
    for number in range(draw(st.integers(1, 5))):
        id_ = f"{prefix}{number}"
        before = [step["id"] for step in out]
        deps = draw(st.lists(st.sampled_from(before), unique=True)) if before else []
        step = {
            "id": id_,
            "depends_on": [draw(st.sampled_from([dep, {"id": dep, "optional": True}, {"id": dep}])) for dep in deps],
            **draw(
                st.fixed_dictionaries(
                    {},
                    optional={
                        "description": words,
                        "join": st.sampled_from(["all", "any", "first"]),
                        "done_when": expressions,
                        "preconditions": st.lists(st.just("args.x>0") | st.just({"check": "args.x > 0", "severity": "warn", "say": "hm"}), max_size=2),
                        "requires_confirmation": st.booleans(),
                        "confirm_within_s": seconds | st.none(),
                        "optional": st.booleans(),
                        "approvers": st.integers(1, 3),
                        "estimate": estimates,
                        "on_failure": st.dictionaries(st.sampled_from(["*", "not_found", "outcome_unknown"]), st.just("escalate") | st.just({"decide": "escalate", "say": "look"}), max_size=2),
                    },
                )
            ),
        }  # fmt: skip
        if nest and draw(st.integers(0, 4)) == 0:
            step["plan"] = {"steps": draw(steps(f"{id_}n", nest=False))}
            step["budgets"] = draw(shares)
            for key in ("estimate", "requires_confirmation", "confirm_within_s", "approvers"):
                step.pop(key, None)
        else:
            args = draw(st.dictionaries(names, data, max_size=2))
            if deps and reads:
                args["from"] = draw(
                    st.sampled_from([f"${deps[0]}.x", f"at ${{{deps[0]}}}", [f"${deps[0]}.rows[0].y"]])
                )
            step |= {"tool": draw(names), "args": args}
            step |= draw(
                st.fixed_dictionaries(
                    {}, optional={"timeout_s": seconds, "alternatives": st.just([{"tool": "other"}])}
                )
            )
        out.append(step)
    return out


plans = st.fixed_dictionaries(
    {"steps": steps()},
    optional={
        "goal": words,
        "inputs": st.dictionaries(names, data, max_size=2),
        "budgets": budgets,
        "constraints": st.just([{"key": "k", "value": 5, "check": "sum(xs)<=value"}]),
        "plan_version": st.integers(0, 9),
    },
)


def facts(value):
    """Return *value* as plain data, steps and all, so that two plans can be compared."""
    if isinstance(value, Plan | Step):
        return {field.name: facts(getattr(value, field.name)) for field in attrs.fields(type(value))}
    if isinstance(value, tuple | list):
        return [facts(item) for item in value]
    return value


@few
@given(plans)
def test_what_is_adopted_reads_back_as_itself(document):
    plan = planning.load(document)
    again, logged = planning.load(plan.doc), known.trusted(json.loads(json.dumps(plan.doc)))
    assert facts(again) == facts(plan) == facts(logged)
    assert again.digest == plan.digest == logged.digest


@st.composite
def successors(draw):
    """Return a plan and what takes its place: some of its steps as they stand, some changed, some gone, some new."""
    first, other = draw(plans), draw(plans)
    stands = {doc["id"]: doc for doc in planning.load(first).doc["steps"]}
    kinds = st.sampled_from(["stands", "same words", "worded anew", "new"])
    found = []
    for doc in other["steps"]:
        known, kind = stands.get(doc["id"]), draw(kinds)
        if known is None or kind == "new":
            found.append(doc)
        elif kind == "worded anew":
            found.append({**known, "description": draw(words)})
        else:
            found.append(known if kind == "stands" else json.loads(json.dumps(known)))
    if found and draw(st.booleans()):
        found[0] = {**found[0], "replaces": draw(st.sampled_from([*stands]))}
    return first, {**other, "steps": found}


@few
@given(successors())
def test_a_plan_that_takes_the_place_of_another_is_the_one_that_stands_in_its_document(pair):
    base = planning.load(pair[0])
    kept, steps = json.dumps(base.doc), base.steps
    full, _ = planshape.full(pair[1], Faults())

    def outcome(made):
        try:
            plan = made()
        except PlanError as error:
            return [str(fault) for fault in error.faults]
        return facts(plan), plan.digest, json.loads(json.dumps(plan.doc))

    assert outcome(lambda: planning.changed(full, base)) == outcome(lambda: planning.load(pair[1]))
    assert json.dumps(base.doc) == kept  # what is taken over is not changed in its place
    assert base.steps is steps


@few
@given(plans, plans)
def test_a_plan_from_the_log_is_the_same_whatever_stood_before_it(first, second):
    base, plan = planning.load(first), planning.load(second)
    text = json.dumps(plan.doc)
    digest, expected = plan.digest, facts(plan)
    known._KNOWN.clear()  # else it is not read again
    again = known.trusted(json.loads(text), base)
    assert (facts(again), again.digest) == (expected, digest)


def test_what_says_the_same_is_the_very_step_and_what_differs_by_a_type_is_not():
    base = planning.load(
        {"steps": [{"id": n, "tool": "t", "args": {"n": 1}} for n in "abc"] + [{"id": "d", "plan": {"steps": [{"id": "x", "tool": "t"}]}}]}
    )  # fmt: skip
    docs = json.loads(json.dumps(base.doc))["steps"]
    docs[1]["args"]["n"] = True
    docs[2]["args"]["n"] = 1.0
    new = planning.changed({"steps": docs}, base)
    assert [a is b for a, b in zip(new.steps, base.steps, strict=True)] == [True, False, False, True]
    assert [step.args.source["n"] for step in new.steps[:3]] == [1, True, 1.0]
    assert [type(doc["args"]["n"]) for doc in new.doc["steps"][:3]] == [int, bool, float]


def test_a_plan_that_keeps_too_much_of_another_is_too_long_as_well():
    base = planning.load({"steps": [{"id": "a", "tool": "t"}]})
    steps = [*base.doc["steps"], *({"id": f"s{n}", "tool": "t"} for n in range(planshape.MAX_STEPS))]
    with pytest.raises(PlanError, match=f"at most {planshape.MAX_STEPS}"):
        planning.changed({"steps": steps}, base)


@few
@given(plans, st.randoms(use_true_random=False), st.sampled_from([None, 0, 2]))
def test_order_of_keys_spacing_and_dress_do_not_matter(document, random, indent):
    def shuffled(value):
        if isinstance(value, dict):
            items = list(value.items())
            random.shuffle(items)
            return {key: shuffled(item) for key, item in items}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    text = json.dumps(shuffled(document), indent=indent, ensure_ascii=random.random() < 0.5)
    assert PublicPlan.parse(f"Here:\n```json\n{text}\n```\nDone.").digest == planning.load(document).digest


@few
@given(plans, st.data())
def test_no_part_of_a_plan_is_a_plan(document, data):
    text = json.dumps(document)
    cut = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(PlanError):
        plantext.read(text[:cut])
    with pytest.raises(PlanError):
        PublicPlan.parse(text[len(text) - cut :])


def keys_of(document, at=""):
    """Yield (object, key, pointer) for every key of the plan format in *document*, steps of nested plans included."""
    for key, value in document.items():
        yield document, key, f"{at}/{key}"
        if key == "steps":
            for place, step in enumerate(value):
                yield from keys_of(step, f"{at}/steps/{place}")
        elif key == "plan":
            yield from keys_of(value, f"{at}/plan")
        elif key in ("budgets", "reserve", "estimate"):
            yield from keys_of(value, f"{at}/{key}")


@few
@given(plans, st.data())
def test_a_wrong_value_is_found_at_its_key(document, data):
    places = [each for each in keys_of(document) if each[1] not in ("args", "inputs")]
    owner, key, pointer = data.draw(st.sampled_from(places))
    wrong = [True, {"?": 1}] if key not in ("requires_confirmation", "optional") else [1, "true"]
    owner[key] = data.draw(st.sampled_from(wrong))
    with pytest.raises(PlanError) as caught:
        planning.load(document)
    assert any(fault.at.startswith(pointer) for fault in caught.value.faults), caught.value.faults


@few
@given(plans, st.data())
def test_a_misspelt_key_is_found_and_never_ignored(document, data):
    owner, key, pointer = data.draw(st.sampled_from(list(keys_of(document))))
    owner[key + "x"] = owner.pop(key)
    with pytest.raises(PlanError) as caught:
        planning.load(document)
    assert (pointer + "x", "unknown-key") in {(fault.at, fault.code) for fault in caught.value.faults}


KEYS = (
    "id tool args steps plan depends_on action params for_each on_failure constraints check key budgets replaces "
    "alternatives done_when"
).split()
json_like = st.recursive(
    plain | st.sampled_from(["$s1.x", "${", "run", "all", "x > 0", "a"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | names, inner, max_size=6)
    ),
    max_leaves=20,
)


@few
@given(json_like | st.lists(json_like) | st.fixed_dictionaries({"steps": st.lists(json_like)}))
def test_any_json_is_a_plan_or_a_list_of_faults(document):
    before = json.dumps(document)
    try:
        planning.load(document, tools={})
    except PlanError as refused:
        found = [(f.at, f.code, f.message) for f in refused.faults]
    else:
        found = ["none"]
    assert 0 < len(set(found)) == len(found), "each fault once"
    assert json.dumps(document) == before


graphs = st.integers(1, 8).flatmap(
    lambda size: st.tuples(
        st.lists(st.sets(st.integers(0, size - 1), max_size=3), min_size=size, max_size=size),
        st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=6),
    )
)


@given(graphs)
def test_cycles_and_unreachable_results_are_found_exactly(graph):
    edges, uses = graph
    document = [
        {
            "id": f"s{place}",
            "tool": "t",
            "depends_on": [f"s{target}" for target in sorted(targets)],
            "args": {f"u{n}": f"$s{read}.x" for n, (reader, read) in enumerate(uses) if reader == place},
        }
        for place, targets in enumerate(edges)
    ]
    own = {(f"/{place}", "self-dependency") for place, targets in enumerate(edges) if place in targets}
    proper = {place: targets - {place} for place, targets in enumerate(edges)}
    try:
        order = list(graphlib.TopologicalSorter(proper).static_order())
    except graphlib.CycleError:
        with pytest.raises(PlanError) as caught:
            planning.load(document)
        assert "cycle" in {fault.code for fault in caught.value.faults}
        return
    above: dict[int, set[int]] = {}
    for place in order:
        above[place] = set().union(*(above[target] | {target} for target in proper[place]))
    blind = {
        (f"/{reader}/args/u{n}", "not-an-ancestor")
        for n, (reader, read) in enumerate(uses)
        if read not in above[reader]
    }
    found = set()
    try:
        planning.load(document)
    except PlanError as refused:
        found = {
            (f.at[: f.at.index("/", 1)] if f.code == "self-dependency" else f.at, f.code)
            for f in refused.faults
        }
    assert found == own | blind


reading = st.sampled_from(
    ["$a", "$b.x", "$c.y", "$d.rows[0].x", "${b[1].x}", "${c/d.x}", "$item", "$inputs.x", "$$a", "at $b.x", 1]
)
"""What an argument may be: what a step returns, or a part of what is in it, or nothing of the kind."""
rare = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["a", "c", "c/d", "b[1]"]),
        "tool": st.just(None),
        "produces": st.lists(st.sampled_from("xy"), unique=True),
        "for_each": st.sampled_from(["$a.x", "$b", "$inputs.x"]),
        "done_when": st.sampled_from(["x > 0", "$b.x > 0"]),
        "when": st.just("$a.x > 0"),
        "preconditions": st.just(["$c.x > 0"]),
        "alternatives": st.just([{"tool": "t", "args": {"x": "$b.x"}}]),
        "max_parallel": st.just(2),
        "replaces": st.sampled_from("abz"),
        "plan": st.just({"steps": [{"id": "d", "tool": "t", "args": {"x": ["$b.x", "$d.x"]}}]}),
    },
)
"""What few steps say."""


@st.composite
def reading_steps(draw):
    """Steps that read each other, most of them soundly."""
    out = []
    ids = list("abcd")[: draw(st.integers(2, 4))]
    for place, id_ in enumerate(ids):
        deps = draw(st.lists(st.sampled_from(ids[:place]), min_size=1, unique=True)) if place else []
        near = st.sampled_from([f"${dep}{tail}" for dep in deps for tail in (".x", "", ".y", ".x.z")] or [1])
        value = st.one_of(near, near, near, reading)
        odd = st.lists(st.sampled_from("abcdz") | st.just({"id": "a", "optional": True}), max_size=2)
        args = st.dictionaries(st.sampled_from("xyz"), value | st.lists(value, max_size=3), max_size=2)
        keys = {"depends_on": draw(st.one_of(*[st.just(deps)] * 7, odd)), "args": draw(args)}
        out.append({"id": id_, "tool": "t", **keys, **draw(st.one_of(*[st.just({})] * 3, rare))})
    return out


def found_in(document, **how):
    """Return the plan's digest, or its faults."""
    try:
        return planning.load(document, **how).digest
    except PlanError as error:
        return list(error.faults)


@given(reading_steps())
def test_what_is_wrong_with_a_step_does_not_depend_on_what_else_is_wrong(steps):
    alone = found_in({"steps": steps})
    first, *others = found_in({"no-such-key": 1, "steps": steps})
    assert first.at == "/no-such-key"
    assert others == (alone if isinstance(alone, list) else [])


@given(reading_steps())
def test_a_key_that_says_nothing_changes_nothing(steps):
    spoken = [{"budgets": None, "on_failure": None, **step} for step in steps]
    assert found_in({"steps": spoken}) == found_in({"steps": steps})


@given(reading_steps(), st.lists(st.sampled_from(["string", "integer", "array"]), unique=True), st.booleans())
def test_that_a_tool_has_a_secret_says_nothing_of_its_other_arguments(steps, types, required):
    taken = tuple(Parameter(name=name, types=tuple(types), required=required) for name in "xy")
    open_, secretive = (
        ToolSpec(name="t", effect=Effect.READ, parameters=taken, secret=secret) for secret in ((), ("other",))
    )
    assert found_in({"steps": steps}, tools={"t": open_}) == found_in(
        {"steps": steps}, tools={"t": secretive}
    )
