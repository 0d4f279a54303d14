"""References by example: what is one, what is text, what is refused, and what each failure says."""

import math
import timeit
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.errors import ExpressionError, UnresolvedReferenceError
from fsm_agent.core.language import refs

SCOPE = {
    "$s1": {"v": 7, "a": [{"b": "deep"}], "nothing": None, "date": "2026-11-12", "$s2": "dollar key"},
    "$s10": {"v": "ten"},
    "$s2": {"flights": [], "ok": False, "empty": [], "zero": 0, "text": ""},
    "$1": {"v": 1.5},
    "$s3": [{"v": "first"}, {"v": "second"}],
    "$s4/a": {"x": True},
    "$s3[17]/b": {"x": "nested"},
    "$create-ticket": {"ticket_id": "R-55821", "content-type": "json"},
    "$查询": {"合计": 12},
    "$inputs": MappingProxyType({"week": "2026-W46"}),
    "$item": {"owner": "ann"},
    "$index": 3,
}


def resolve(value: Any) -> Any:
    return refs.parse(value).resolve(SCOPE)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$s1.v", 7),
        ("$s1", SCOPE["$s1"]),
        ("$s1.a[0].b", "deep"),
        ("$s1.a.0.b", "deep"),
        ("$s1.nothing", None),
        ("$s2.ok", False),
        ("$s2.empty", []),
        ("$s2.zero", 0),
        ("$s2.text", ""),
        ("$s10.v", "ten"),
        ("${1.v}", 1.5),
        ("${s4/a.x}", True),
        ("${s3[1].v}", "second"),
        ("${s3[17]/b.x}", "nested"),
        ("$s3[0].v", "first"),
        ("$create-ticket.ticket_id", "R-55821"),
        ("${create-ticket.content-type}", "json"),
        ('$create-ticket["content-type"]', "json"),
        ('$s1["$s2"]', "dollar key"),
        ("${查询.合计}", 12),
        ("$inputs.week", "2026-W46"),
        ("${inputs.week}", "2026-W46"),
        ("$item.owner", "ann"),
        ("$index", 3),
    ],
)
def test_a_whole_reference_keeps_the_type(text: str, value: Any) -> None:
    found = resolve(text)
    assert (type(found), found) == (type(value), value)
    assert refs.parse(text).refs[0].text == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x=$s1.v y=$s10.v", "x=7 y=ten"),
        ("${1.v}+${s1.v}", "1.5+7"),
        ("see $s1.date.", "see 2026-11-12."),
        ("$s1.date, $s1.date; ($s1.v)", "2026-11-12, 2026-11-12; (7)"),
        ("$s1.v-$s10.v", "7-ten"),
        ("共$s1.v元。", "共7元。"),
        ("${s1.v}st", "7st"),
        ("${s1.v}[draft]", "7[draft]"),
        ("$s1.nothing!", "null!"),
        ("$s2.ok/$s4x", None),
        ("rows: $s1.a", 'rows: [{"b":"deep"}]'),
        ("$s1.date..", "2026-11-12.."),
        ("a $s2.text b", "a  b"),
        ("$$5", "$5"),
        ("cost $5", "cost $5"),
        ("$", "$"),
        ("100$", "100$"),
        ("^a$|^b$", "^a$|^b$"),
        ("$.rows[0]", "$.rows[0]"),
        ("$$s1.v", "$s1.v"),
        ("$$$s1.v", "$7"),
        ("$${s1.v}", "${s1.v}"),
        ("$1 and $2", "$1 and $2"),
        ("", ""),
    ],
)
def test_a_reference_inside_text_is_written_out(text: str, value: str | None) -> None:
    if value is None:
        with pytest.raises(UnresolvedReferenceError):
            resolve(text)
    else:
        assert resolve(text) == value


def test_references_are_found_at_any_depth_but_never_in_keys() -> None:
    template = refs.parse({"$s1.v": ["$s1.v", {"k": "at $s10.v"}, 5, "$$"], "fixed": {"a": [1, "$$1"]}})
    assert template.resolve(SCOPE) == {"$s1.v": [7, {"k": "at ten"}, 5, "$"], "fixed": {"a": [1, "$1"]}}
    assert [ref.text for ref in template.refs] == ["$s1.v", "$s10.v"]
    assert [(ref.root, ref.path) for ref in template.refs] == [("$s1", ("v",)), ("$s10", ("v",))]
    assert not template.constant


def test_the_order_of_keys_is_kept() -> None:
    assert list(resolve({"b": "$s1.v", "a": 1, "c": "$s10.v"})) == ["b", "a", "c"]


def test_a_template_without_references_gives_back_its_source() -> None:
    source = {"a": [1, "cost $5", None], "b": {"c": 0.5}}
    template = refs.parse(source)
    assert template.constant
    assert template.resolve({}) is source
    escaped = refs.parse({"a": "$$5"})
    assert escaped.constant
    assert escaped.resolve({}) == {"a": "$5"}
    assert escaped.source == {"a": "$$5"}


def test_results_are_data_and_never_expanded_again() -> None:
    scope = {"$s1": {"v": "$s2.secret"}, "$s2": {"secret": "K"}}
    assert refs.parse("$s1.v / $s2.secret").resolve(scope) == "$s2.secret / K"
    assert refs.parse(["$s1.v"]).resolve(scope) == ["$s2.secret"]


@pytest.mark.parametrize(
    ("text", "path", "found"),
    [
        ("$s2.flights[0].price", "$s2.flights[0]", "$s2.flights is a list of 0"),
        ("$s1.missing", "$s1.missing", '$s1 is an object without the key "missing"'),
        ("$s9.v", "$s9.v", "$s9 has no value here"),
        ("$create.id", "$create.id", "$create has no value here"),
        ("at $s1.nothing.x", "$s1.nothing.x", "$s1.nothing is null, which has no parts"),
        ("$s1.v.x", "$s1.v.x", "$s1.v is number, which has no parts"),
        ("$s1[0]", "$s1[0]", "an object without the key"),
        ("$s3.v", "$s3.v", "$s3 is a list of 2"),
        ("$s3.02.v", "$s3.02.v", "v"),
        ("$s3.1234567890", "$s3.1234567890", "$s3 is a list of 2"),
        ("$s3[2].v", "$s3[2]", "$s3 is a list of 2"),
        ("${s4/a.y.z}", "${s4/a.y}", "${s4/a} is an object"),
        ("$inputs.year", "$inputs.year", "$inputs is an object"),
        ("$s1.a[0].b.c", "$s1.a[0].b.c", "$s1.a[0].b is text"),
    ],
)
def test_a_reference_without_a_value_is_refused_by_name(text: str, path: str, found: str) -> None:
    if text == "$s3.02.v":
        assert resolve(text.replace("02", "1")) == "second"
        return
    for value in (text, [text], f"in {text}"):
        with pytest.raises(UnresolvedReferenceError) as caught:
            resolve(value)
        assert caught.value.path == path
        assert found in str(caught.value)
        assert (f" at {path}" in str(caught.value)) is (path not in text.split(" "))
        assert caught.value.code == "E-REFERENCE"


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("${", 0, "braces"),
        ("a ${}", 2, "braces"),
        ("${s1", 0, "braces"),
        ("${s1..x}", 0, "braces"),
        ("${s1[x]}", 0, "braces"),
        ("${s1/}", 0, "braces"),
        ("${ s1}", 0, "braces"),
        ("$s1[x].price", 0, "whole number"),
        ("$s1.rows[-1]", 0, "whole number"),
        ("$s1.rows[*].x", 0, "whole number"),
        ("$s1[01]", 0, "whole number"),
        ("$s1[1234567890]", 0, "whole number"),
        ("$s1.价格", 0, "ASCII"),
        ("$查询.x", 0, "ASCII"),
        ('$s1["\\x"]', 0, "JSON text"),
        ('$s1["\\ud800"]', 0, "JSON text"),
        ("$s1.v then ${", 11, "braces"),
    ],
)
def test_what_looks_like_a_reference_and_is_none_is_refused(text: str, place: int, hint: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        refs.parse({"a/b": [text]}, "/steps/0/args")
    assert caught.value.at == place
    assert caught.value.text == text
    assert "/steps/0/args/a~1b/0" in str(caught.value)
    assert hint in str(caught.value)
    assert str(caught.value).count("; ") >= 1


def test_a_value_that_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ExpressionError, match="nested deeper than 100"):
        refs.parse(endless)


@pytest.mark.parametrize("value", [math.nan, [2**70], {"a": "\ud800"}, object()])
def test_what_no_text_can_hold_is_refused_inside_text_and_passed_on_whole(value: Any) -> None:
    assert refs.parse("$s1.v").resolve({"$s1": {"v": value}}) is value
    with pytest.raises(UnresolvedReferenceError, match=r"\$s1\.v: its value cannot be written into text"):
        refs.parse("x $s1.v").resolve({"$s1": {"v": value}})


def test_values_that_are_no_json_are_left_as_they_are() -> None:
    source = ("$s1.v",)
    assert refs.parse(source).resolve({}) is source
    assert refs.kind(source) == "Python tuple"


def test_templates_are_equal_if_their_sources_are() -> None:
    assert refs.parse(["$s1"]) == refs.parse(["$s1"])
    assert refs.parse(["$s1"]) != refs.parse(["$s2"])


@pytest.mark.parametrize(
    "text", ["${" + "a/" * 50_000, "${" + "a." * 50_000, "$s1" + "[0" * 50_000, '$s1["' + "\\\\" * 50_000]
)
def test_a_long_broken_reference_is_refused_without_a_long_search(text: str) -> None:
    began = timeit.default_timer()
    with pytest.raises(ExpressionError):
        refs.parse(text)
    assert timeit.default_timer() - began < 0.5


ROOTS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*(-+[A-Za-z0-9_]+)*", fullmatch=True)
TAILS = st.lists(st.sampled_from([".a", ".0", ".s_1", "[0]", '["k"]', "", "-", ".", " x"]), max_size=4)


@given(ROOTS, TAILS.map("".join))
def test_a_reference_that_is_the_whole_text_is_the_one_that_is_read_there(root: str, tail: str) -> None:
    text = f"${root}{tail}"
    try:
        found, end = refs.read(text, 0)
    except ExpressionError:
        with pytest.raises(ExpressionError, match="reference at /0"):
            refs.parse([text])
        return
    template = refs.parse([text])
    assert template.refs[0] == found
    if end == len(text):
        assert template.resolve({found.root: _holding(found.path)}) == ["here"]


def _holding(path: tuple[str | int, ...]) -> Any:
    """Return a value that has ``here`` at *path*."""
    if not path:
        return "here"
    inner = _holding(path[1:])
    return {path[0]: inner} if isinstance(path[0], str) else [inner]


GLANCED = st.text("$.ab1_-é", max_size=6)


@given(GLANCED.map("$".__add__) | GLANCED.filter(lambda text: "$" in text) | st.from_regex(refs._PLAIN))
def test_what_is_read_at_a_glance_is_what_the_grammar_reads(text: str) -> None:
    found = refs._sole(text)
    if found is not None:
        assert refs.read(text, 0) == (found, len(text))
    else:
        assert not refs._PLAIN.fullmatch(text)


@given(st.lists(st.text("a~/0", max_size=3) | st.integers(0, 20)))
def test_a_place_is_written_out_as_a_json_pointer(keys: list[str | int]) -> None:
    place: refs.Place = "/steps"
    for key in keys:
        place = (place, key)
    parts = refs.pointer(place).split("/")[2:]
    assert [part.replace("~1", "/").replace("~0", "~") for part in parts] == [str(key) for key in keys]
