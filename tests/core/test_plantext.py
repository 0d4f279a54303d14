"""Text becomes JSON without a guess: what leaves no doubt is tolerated, everything else is refused by line."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent.core.errors import Fault, PlanError
from fsm_agent.core.plans import text as plantext

PLAN = {
    "goal": "报销 [上周] // 打车 # 1",
    "steps": [
        {"id": "a", "tool": "query", "args": {"q": 'a "quoted" } text', "n": [1, 2.5, True, None]}},
        {"id": "b", "tool": "notify", "depends_on": ["a"], "args": {}},
    ],
}
TEXT = json.dumps(PLAN, ensure_ascii=False, indent=1)
COMMENTED = """
{ // the plan
  "goal": "g", # of mine
  /* two
     lines { [ " */
  "steps": [
    {"id": "a", "tool": "t", "args": {"url": "http://x/#y",}, /* last */ }, // } ]
  ],
}
"""

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12
)
objects = st.dictionaries(st.text(), values, min_size=1)
prose = st.text(alphabet=st.characters(codec="utf-8", exclude_characters='[]{}",:'), max_size=40)


def fault(text: str | bytes) -> Fault:
    with pytest.raises(PlanError) as caught:
        plantext.read(text)
    (only,) = caught.value.faults
    assert only.message in str(caught.value)
    return only


@given(value=objects, before=prose, behind=prose, indent=st.sampled_from([None, 0, 2]))
def test_prose_around_json_changes_nothing(value, before, behind, indent):
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    assert plantext.read(f"{before} {text} {behind}") == value
    assert plantext.read(f"\ufeff{before}\n```json\n{text}\n```\n{behind}".encode()) == value


@given(st.text() | st.binary() | st.text(alphabet='[]{}",:/*#\\ \n1ta`x'))
@settings(max_examples=400)
def test_arbitrary_input_is_read_or_refused_with_one_fault(text):
    try:
        value = plantext.read(text)
    except PlanError as refused:
        value = refused.faults
    assert isinstance(value, dict | list) or len(value) == 1


@pytest.mark.parametrize(
    "text", [TEXT, json.dumps(PLAN), json.dumps(PLAN["steps"]), json.dumps(PLAN["steps"][:1]), COMMENTED]
)
@pytest.mark.parametrize("frame", ["{}", "Sure:\n```json\n{}", "1. [x] {{plan}}\n{}"])
def test_no_beginning_of_a_text_yields_a_plan(text, frame):
    before = frame.removesuffix("{}").replace("{{", "{").replace("}}", "}")
    whole = before + text.strip()
    assert plantext.read(whole)
    for end in range(len(whole)):
        with pytest.raises(PlanError):
            plantext.read(whole[:end])


@pytest.mark.parametrize("text", [TEXT, json.dumps(PLAN), json.dumps(PLAN["steps"])])
def test_no_end_of_a_text_yields_a_plan(text):
    for start in range(1, len(text)):
        try:
            value = plantext.read(text[start:])
        except PlanError:
            continue
        plan_like = "steps" in value or (isinstance(value, list) and isinstance(value[0], dict))
        assert not plan_like, text[start:]


def test_comments_and_trailing_commas_are_left_out():
    steps = [{"id": "a", "tool": "t", "args": {"url": "http://x/#y"}}]
    assert plantext.read(COMMENTED) == {"goal": "g", "steps": steps}


def test_two_equal_blocks_are_one():
    assert plantext.read(f"First:\n{TEXT}\nAgain:\n```\n{json.dumps(PLAN)}\n```") == PLAN


@pytest.mark.parametrize("other", ['{"steps": []}', '{"a": 1.0}', '{"a": true}'])
def test_two_blocks_that_differ_are_refused(other):
    found = fault(f'{{"a": 1}}\nor\n  {other}')
    assert found.code == "ambiguous"
    assert "line 3 column 3" in found.message
    assert "line 1 column 1" in found.message


@pytest.mark.parametrize(
    "around",
    [
        "see [1] and [2, 3] and [ ] and {}",
        "[x] done, {name}, [a](b), [[wiki]], [#12](u), {a: str}",
        "[01] [1, p. 5]",
    ],
)
def test_brackets_of_the_prose_do_not_count(around):
    assert plantext.read(f"{around}\n{TEXT}\n{around}") == PLAN


def test_a_single_empty_list_is_read_so_that_it_can_be_called_empty():
    assert plantext.read("```json\n[]\n```") == []


@pytest.mark.parametrize("text", ["", "   \n", "no plan today", "42", '"text"', b"", "see [1] and [2]"])
def test_text_without_json_is_refused(text):
    assert fault(text).code == "no-json"


@pytest.mark.parametrize(
    ("text", "code", "place", "words"),
    [
        ('{"a": 1, "b": {"a": 1}, "a": 2}', "duplicate-key", "line 1 column 25", "'a'"),
        ('{"a": {"b": 1, // x\n "b": 2,}}', "duplicate-key", "line 2 column 2", "'b'"),
        ('{"a": NaN}', "bad-json", "line 1 column 7", "'NaN'"),
        ('{"a": -Infinity}', "bad-json", "line 1 column 7", "Infinity"),
        ('{"a": 1e999}', "bad-json", "line 1 column 7", "too large"),
        ('{"a": ' + "9" * 5000 + "}", "bad-json", "line 1 column 7", "no JSON"),
        ('{"a": None}', "bad-json", "line 1 column 7", "'None'"),
        ("{'a': [1]}", "bad-json", "line 1 column 2", "no JSON"),
        ('{a: [{"id": "x"}]}', "bad-json", "line 1 column 2", "'a'"),
        ('{"a": 1 "b": 2}', "bad-json", "line 1 column 9", "delimiter"),
        ('{"a": "x\ny"}', "bad-json", "line 1 column 9", "control character"),
        ('{"a": [1,,]}', "bad-json", "line 1 column 10", "value"),
        ('{"a": [,]}', "bad-json", "line 1 column 8", "value"),
        ('{"a":,}', "bad-json", "line 1 column 6", "value"),
        ('{"a": [1}', "bad-json", "line 1 column 9", "closes"),
        ('{"a": 1/2}', "bad-json", "line 1 column 8", "'/'"),
        ('x\n{"a": [1, ', "cut-off", "line 2 column 1", "no end"),
        ('{"a": "b', "cut-off", "line 1 column 1", "no end"),
        ('{"a": 1 /* b', "cut-off", "line 1 column 1", "no end"),
        ("{/* b", "cut-off", "line 1 column 1", "no end"),
        ("[/* b", "cut-off", "line 1 column 1", "no end"),
        ('```\n{"a": [\n```\nsorry', "cut-off", "line 3 column 1", "line 2 column 1"),
        ('[{"a": 1}], "b": 2}', "cut-off", "line 1 column 1", "beginning"),
        ('{"a": 1}]', "cut-off", "line 1 column 1", "beginning"),
        ('"steps": [{"a": 1}]', "cut-off", "line 1 column 10", "beginning"),
        ('{"a": ' * 200, "too-deep", "line 1 column 601", "100"),
        ("{x}" * 1001, "no-json", "column", "1000 brackets"),
        (b'{"a": "\xff"}', "not-text", "line 1 column 8", "0xff"),
        (b"\xff\xfe{\x00", "not-text", "line 1 column 1", "0xff"),
        (" " * (plantext.MAX_BYTES + 1), "too-large", "line 1", "16,777,217 characters"),
        (b" " * (plantext.MAX_BYTES + 1), "too-large", "line 1", "16,777,217 bytes"),
    ],
)
def test_a_refusal_names_place_and_cause(text, code, place, words):
    found = fault(text)
    assert (found.code, found.severity) == (code, "error")
    assert place in found.message, found.message
    assert words in found.message, found.message


@pytest.mark.parametrize(
    "text",
    [
        "{/*" * 300_000,
        "{/*" * 300_000 + "*/",
        "{//\n" * 300_000,
        "[#" * 300_000,
        "[" * 300_000,
        "[1" * 300_000,
        "{a " * 300_000,
        '["' * 300_000,
        '{"a":1,' * 300_000,
        "[1]" * 300_000,
        '{"a' + "\\" * 900_000,
        "{" + " " * 900_000 + "x",
    ],
)
def test_hostile_text_costs_no_more_than_its_length(text):
    assert len(str(fault(text))) < 500
