"""What is known about a tool: it survives the log, and arguments are held against it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core import canon
from fsm_agent.core.signals import Effect
from fsm_agent.core.tools import Parameter, ToolSpec, argument_faults, is_secret, type_fault

NAMES = st.text("abc", min_size=1, max_size=3)
PARAMETERS = st.builds(
    Parameter,
    name=NAMES,
    types=st.lists(st.sampled_from(["null", "integer", "string"]), max_size=2).map(tuple),
    required=st.booleans(),
    choices=st.lists(st.integers(0, 3), max_size=2).map(tuple),
)
SPECS = st.builds(
    ToolSpec,
    name=NAMES,
    effect=st.sampled_from(Effect),
    parameters=st.lists(PARAMETERS, max_size=3, unique_by=lambda p: p.name).map(tuple),
    extra_arguments=st.booleans(),
    timeout_us=st.integers(1, 10),
    settle_us=st.integers(0, 10),
    reconcile=st.booleans(),
    requires=st.lists(NAMES, max_size=2).map(tuple),
    confirm=st.booleans(),
    confirm_within_us=st.none() | st.integers(1, 10),
    secret=st.lists(NAMES, max_size=2).map(tuple),
)


@given(SPECS)
def test_a_tool_is_read_back_from_the_log_as_it_was(spec):
    data = spec.to_data()
    canon.check(data)
    assert ToolSpec.from_data(canon.decode(canon.encode(data))) == spec


@given(SPECS, SPECS)
def test_the_schema_digest_is_about_what_a_caller_must_know(left, right):
    def known(s):
        return (s.name, s.effect, s.parameters, s.extra_arguments)

    assert (left.schema_digest == right.schema_digest) == (known(left) == known(right))


PAY = ToolSpec(
    name="pay",
    effect=Effect.WRITE,
    parameters=(
        Parameter(name="amount", types=("number",)),
        Parameter(name="note", types=("string", "null"), required=False),
        Parameter(name="kind", choices=("fast", "slow"), required=False),
        Parameter(name="token", types=("string",), required=False),
    ),
    secret=("token",),
)
SECRET = {"$secret": "token", "mac": "00"}


@pytest.mark.parametrize(
    "args",
    [
        {"amount": 1},
        {"amount": 1.5, "note": None},
        {"amount": 0, "note": "x", "kind": "slow"},
        {"amount": 0, "token": SECRET},
    ],
)
def test_arguments_that_fit_have_no_faults(args):
    assert argument_faults(PAY, args) == []


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, "needs the argument 'amount'"),
        ({"amount": "1"}, "of type string; allowed: number"),
        ({"amount": True}, "of type boolean"),
        ({"amount": 1, "note": 5}, "of type integer; allowed: string, null"),
        ({"amount": 1, "kind": "medium"}, "'medium'; allowed: 'fast', 'slow'"),
        ({"amount": 1, "extra": 2}, "no argument 'extra'; its arguments: amount, note, kind, token"),
        ({"amount": SECRET}, "of type object"),
        ({"amount": 1, "token": {"$secret": "token", "mac": 3}}, "of type object"),
    ],
)
def test_each_fault_of_arguments_is_one_sentence_that_says_what_is_allowed(args, words):
    faults = argument_faults(PAY, args)
    assert len(faults) == 1
    assert words in faults[0]


def test_all_faults_are_told_at_once():
    assert len(argument_faults(PAY, {"note": 5, "x": 1})) == 3


def test_a_tool_that_takes_nothing_says_so_and_one_that_takes_more_takes_it():
    bare = ToolSpec(name="bare", effect=Effect.READ)
    assert argument_faults(bare, {"x": 1}) == ["bare has no argument 'x'; its arguments: none"]
    open_ = ToolSpec(name="open", effect=Effect.READ, extra_arguments=True)
    assert argument_faults(open_, {"x": object()}) == []


def test_a_value_of_no_json_type_is_named_by_its_own_type():
    assert type_fault(Parameter(name="x", types=("array",)), (1, 2)) == "is of type tuple; allowed: array"


@pytest.mark.parametrize(
    "value",
    [None, "x", {"$secret": "a"}, {"$secret": 1, "mac": "00"}, {"$secret": "a", "mac": "00", "more": 1}],
)
def test_only_the_exact_form_stands_for_a_secret(value):
    assert not is_secret(value)
    assert is_secret(SECRET)
