"""Canonical JSON: exact or refused, and the refusal says where."""

import collections
import datetime as dt
import enum
import hashlib
import json
import uuid
from decimal import Decimal

import attrs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core import canon
from fsm_agent.core.errors import ValueRefusedError

TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=20)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(canon.MIN_INT, canon.MAX_INT)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def same(left, right):
    """Equal in value and in type, zero's sign included."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return repr(left) == repr(right)


@given(JSON)
def test_whatever_is_accepted_is_read_back_as_it_was(value):
    canon.check(value)
    data = canon.encode(value)
    assert same(canon.decode(data), value)
    assert same(canon.loads(data), value)


@given(st.dictionaries(TEXT, JSON, max_size=6), st.randoms())
def test_the_bytes_do_not_depend_on_the_order_of_keys(value, chance):
    items = list(value.items())
    chance.shuffle(items)
    assert canon.encode(dict(items)) == canon.encode(value)


@given(JSON)
def test_a_snapshot_is_a_private_copy(value):
    holder = {"kept": [value]}
    copy, data = canon.snapshot(holder)
    assert same(copy, holder)
    assert data == canon.encode(holder)
    holder["kept"].append("changed later")
    assert same(copy, {"kept": [value]})


class Word(str):
    """Text that is more than text."""

    __slots__ = ()


class Colour(enum.IntEnum):
    """A number that is more than a number."""

    RED = 1


REFUSED = [
    (float("nan"), "$", "nan", "null"),
    ({"a": [1, float("inf")]}, "$.a[1]", "inf", "null"),
    ([float("-inf")], "$[0]", "-inf", "null"),
    (canon.MAX_INT + 1, "$", "64 bits", "string"),
    (canon.MIN_INT - 1, "$", "64 bits", "string"),
    ("a\x00b", "$", "NUL", "remove"),
    ("a\udc80", "$", "surrogate", "decode"),
    ({"\ud800": 1}, "$ (key)", "surrogate", "decode"),
    ({1: "x"}, "$", "key of type int", "strings"),
    ((1, 2), "$", "tuple", "list"),
    ({"s": {1}}, "$.s", "set", "list"),
    (collections.OrderedDict(a=1), "$", "OrderedDict", "plain dict"),
    (Word("x"), "$", "Word", "plain str"),
    (Colour.RED, "$", "Colour", "plain int"),
    (Decimal("1.5"), "$", "Decimal", "only"),
    (b"x", "$", "bytes", "only"),
    ([object()], "$[0]", "object", "only"),
]


@pytest.mark.parametrize(("value", "path", "found", "advice"), REFUSED)
def test_what_json_cannot_hold_is_refused_with_its_path_and_what_to_do(value, path, found, advice):
    with pytest.raises(ValueRefusedError) as refused:
        canon.check(value)
    assert refused.value.path == path
    assert found in str(refused.value)
    assert advice in str(refused.value)
    with pytest.raises(ValueRefusedError):
        canon.snapshot(value)


ODD = st.sampled_from(
    [odd for odd, *_ in REFUSED] + [(), {"a": (1,)}, [[], {"b": {1}}], {"k\x00": 1}, {Word("k"): 1}]
)


@given(
    st.recursive(
        JSON | ODD | st.text(st.characters(codec=None), max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | TEXT, inner, max_size=3)
        ),
        max_leaves=8,
    ),
    st.integers(0, canon.MAX_DEPTH),
)
def test_whether_a_value_is_exact_and_where_it_is_not_never_differ(value, depth):
    try:
        canon._check(value, "$", depth)
    except ValueRefusedError:
        assert not canon.exact(value, depth)
        assert canon.written(value, depth) is None
    else:
        assert canon.exact(value, depth)
        assert canon.written(value, depth) == canon.encode(value)


class Grade(enum.StrEnum):
    """Text that is more than text, and is written like text."""

    A = "a"


@attrs.define
class Shop:
    """What is written like an object."""

    open: bool = True


@pytest.mark.parametrize(
    "odd",
    [
        (),
        Word("x"),
        Grade.A,
        Colour.RED,
        uuid.UUID(int=1),
        dt.date(2024, 1, 1),
        Shop(),
        float("nan"),
        2**63,
        -(2**64),
        orjson.Fragment(b"1"),
        "\\\x00",
        {"k": {"\\\x00": 1}},
        {"n": 1, "k": ["\\", "\x00"]},
    ],
    ids=lambda odd: type(odd).__name__,
)
@pytest.mark.parametrize(
    "wrap", [lambda v: v, lambda v: [1, "x", v], lambda v: {"a": [], "k": {"deep": [v]}}]
)
def test_what_is_written_like_something_else_is_not_held(odd, wrap):
    assert canon.written(wrap(odd)) is None
    with pytest.raises(ValueRefusedError):
        canon.snapshot(wrap(odd))


class Lying(enum.Enum):
    """What has no value when it is asked."""

    A = 1

    @property
    def value(self):
        """Fail: nobody is to ask."""
        raise AssertionError("asked for its value")


class Nowhere(dt.tzinfo):
    """A zone that nobody is to ask, either."""

    def utcoffset(self, when):
        """Fail."""
        raise AssertionError("asked for its offset")


@pytest.mark.parametrize(
    "odd",
    [Lying.A, dt.datetime(2024, 1, 1, tzinfo=Nowhere()), object.__new__(uuid.UUID), object.__new__(Shop)],
    ids=lambda odd: type(odd).__name__,
)
def test_of_what_is_not_held_no_code_is_run(odd):
    assert canon.written({"a": [1, odd]}) is None


@pytest.mark.parametrize("fine", ["\\u0000", "\\\\u0000", {"\\u0000": ["\n", 1, None]}, '"', "\x01"])
def test_text_that_only_looks_like_a_nul_where_it_is_written_is_held(fine):
    assert canon.snapshot(fine) == (fine, canon.encode(fine))
    assert canon.written(fine) == canon.encode(fine)


@pytest.mark.parametrize("fine", [1.5, 1, "x", "ä", None, True, [1], {"a": [None]}, [], {}])
def test_of_many_parts_the_one_is_named_that_cannot_be_held(fine):
    for value, path in (([fine, {1}], "$[1]"), ({"a": fine, "b": [fine, b""]}, "$.b[1]")):
        with pytest.raises(ValueRefusedError) as refused:
            canon.check(value)
        assert refused.value.path == path


@pytest.mark.parametrize(
    "value", [canon.MAX_INT, canon.MIN_INT, -0.0, 1e308, "", [], {}, None, True, "\ufffe", "😀"]
)
def test_values_at_the_edge_are_accepted(value):
    canon.check(value)
    assert same(canon.decode(canon.encode(value)), value)


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: {"k": v}])
def test_nesting_ends_at_the_limit(wrap):
    value = None
    for _ in range(canon.MAX_DEPTH):
        value = wrap(value)
    canon.check(value)
    with pytest.raises(ValueRefusedError, match="nested deeper"):
        canon.check(wrap(value))


def test_a_value_that_contains_itself_is_refused_with_a_short_path():
    loop = {}
    loop["again"] = [loop, loop, {"and": loop}]
    with pytest.raises(ValueRefusedError) as refused:
        canon.check(loop)
    assert canon.written(loop) is None
    assert len(refused.value.path) < 200
    assert "…" in refused.value.path


def test_digests_of_one_value_differ_by_domain_and_a_blob_is_named_by_plain_sha256():
    data = canon.encode({"a": 1})
    assert canon.digest("args", data) == canon.value_digest("args", {"a": 1})
    assert canon.digest("args", data) != canon.digest("result", data)
    assert canon.digest("args", data) == hashlib.sha256(b"fsm_agent/args/v1\x00" + data).hexdigest()
    assert canon.blob_digest(data) == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (1e16, b"1e+16"),
        (-5.5e22, b"-5.5e+22"),
        (1e15, b"1000000000000000.0"),
        (1e-5, b"0.00001"),
        (1e-7, b"1e-7"),
        (-0.0, b"-0.0"),
        (5e-324, b"5e-324"),
        ("\x7f\x1f\u2028é", b'"\x7f\\u001f\xe2\x80\xa8\xc3\xa9"'),
    ],
    ids=str,
)
def test_the_bytes_that_every_digest_and_key_rests_on_are_these_in_every_version(value, written):
    assert canon.encode(value) == written


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "a": 2}', "duplicate key 'a'"),
        ('{"b": {"a": 1, "a": 1}}', "duplicate key 'a'"),
        ("NaN", "NaN is no JSON number"),
        ("[-Infinity]", "-Infinity"),
        ("{", "Expecting"),
        ("[" * 200_000, "nested too deeply"),
        (b"\xff", "utf-8"),
    ],
)
def test_text_from_outside_is_parsed_strictly(text, words):
    with pytest.raises(ValueError, match=words):
        canon.loads(text)


@given(JSON)
def test_strict_parsing_agrees_with_the_standard_parser_on_plain_text(value):
    text = json.dumps(value)
    assert same(canon.loads(text), json.loads(text))
