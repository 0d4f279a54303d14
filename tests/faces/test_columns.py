"""What is shown fits its columns, whatever the signs: wide ones take two, marks none."""

import json
import textwrap
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.faces.drawing.layers import Node, draw
from fsm_agent.faces.frame.columns import columns, cut, filled, laid_out, padded, signs, spelled
from fsm_agent.faces.frame.screen import short, wrapped

TEXT = st.text(st.sampled_from("ab 字é漢\u0301👍ｗ-,.\u200d한"), max_size=200)


@pytest.mark.parametrize(
    ("text", "takes"),
    [
        ("", 0),
        ("abc", 3),
        ("é", 1),
        ("e\u0301", 1),
        ("報告", 4),
        ("👍", 2),
        ("ｗｉｄｅ", 8),
        ("한글", 4),
        ("✔ ○ ─", 5),
    ],
)
def test_a_text_takes_two_columns_for_a_wide_sign_and_none_for_a_mark(text, takes):
    assert columns(text) == takes


@given(TEXT, st.integers(-3, 60))
def test_what_is_cut_is_the_longest_beginning_that_fits(text, width):
    found = cut(text, width)
    assert text.startswith(found)
    assert columns(found) <= max(0, width)
    if found != text:
        assert columns(text[: len(found) + 1]) > width


@given(TEXT, st.integers(3, 60))
def test_a_shortened_text_fits(text, width):
    assert columns(short(text, width)) <= width


@given(TEXT)
def test_signs_are_the_text_and_each_begins_with_what_takes_a_column(text):
    found = list(signs(text))
    assert "".join(found) == text
    assert all(columns(sign[0]) for sign in found[1:])
    assert all(not columns(sign[1:]) for sign in found[1:])


@given(TEXT, st.integers(10, 60))
def test_lines_hold_all_words_in_order_and_none_is_too_wide(text, width):
    found = list(filled(" ".join(text.split()), width, "  head: ", "    "))
    assert all(columns(line) <= width for line in found)
    assert "".join("".join(found).removeprefix("  head:").split()) == "".join(text.split())


@given(
    st.text(st.sampled_from("abcd -,"), max_size=300), st.integers(12, 60), st.sampled_from(["", "  why: "])
)
def test_a_text_without_wide_signs_is_wrapped_as_the_standard_library_does(text, width, head):
    words = " ".join(text.split())
    usual = textwrap.wrap(
        words, width, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
    )
    assert wrapped(head, text, width) == (usual or [head.rstrip()])


def test_a_head_wider_than_the_line_stands_alone():
    assert wrapped("字" * 30, "words", 40) == ["字" * 30, "        words"]


@given(TEXT, st.integers(12, 60))
def test_for_a_screen_of_ascii_only_a_sign_is_as_wide_as_it_is_spelled(text, width):
    with laid_out(unicode=False):
        assert columns(text) == len(spelled(text))
        assert len(spelled(short(text, width))) <= width
        assert len(spelled(padded(text, width))) >= width
        found = list(filled(" ".join(text.split()), width, "  head: ", "    "))
        assert all(len(spelled(line)) <= max(width, 4 + 10) for line in found)  # one sign is cut nowhere
    assert "".join("".join(found).removeprefix("  head:").split()) == "".join(text.split())
    assert columns("報") == 2


def test_a_drawing_in_ascii_has_its_lines_in_line():
    with laid_out(unicode=False):
        wide = draw([Node("a", "報", ()), Node("b", "bb", ()), Node("c", "c", ("a", "b"))])
    plain = draw([Node("a", "aaaaaa", ()), Node("b", "bb", ()), Node("c", "c", ("a", "b"))])
    assert [line.replace("\\u5831", "aaaaaa") for line in map(spelled, wide)] == [
        spelled(line) for line in plain
    ]


def test_the_signs_that_we_write_ourselves_are_spelled_as_people_write_them():
    assert spelled("3 × a → b, «secret:t» …") == "3 x a -> b, <<secret:t>> ..."
    assert spelled("é 報 👍") == "\\xe9 \\u5831 \\U0001f44d"


def test_padding_counts_columns():
    assert [padded(text, 6) for text in ("ab", "報告", "longer than")] == ["ab    ", "報告  ", "longer than"]


def test_a_drawing_with_wide_names_has_its_lines_in_line():
    plain = draw([Node("a", "aaaa", ()), Node("b", "bb", ()), Node("c", "c", ("a", "b"))])
    wide = draw([Node("a", "報告", ()), Node("b", "e\u0301b", ()), Node("c", "c", ("a", "b"))])
    assert [columns(line) for line in wide] == [columns(line) for line in plain]
    assert draw([Node("a", "報" * 41, ())]) is None


@pytest.mark.parametrize("ascii_only", [False, True])
def test_nothing_that_is_shown_of_a_run_in_chinese_is_wider_than_80_columns(cli, ascii_only):
    words = "把上周的出租车费用报销" * 8
    steps = [
        {"id": f"s{i}", "description": words, "depends_on": [f"s{i - 1}"] if i else []} for i in range(4)
    ]
    (cli.path / "plan.json").write_text(json.dumps({"goal": words, "steps": steps}), encoding="utf-8")
    run = "运行编号" * (
        1 if ascii_only else 2
    )  # spelled out a name takes three times as much, and is never cut
    assert cli("run", "plan.json", "--run-id", run).code == 4
    for said in (
        ("status", run),
        ("events", run),
        ("runs",),
        ("why", run, steps[0]["id"]),
        ("graph", run),
        ("inbox",),
        ("history", run),
        ("plan", "show", "plan.json"),
        ("plan", "graph", "plan.json"),
        ("repl", run, "-c", "plan"),
    ):
        shown = cli(*said, *(["--ascii"] if ascii_only else [])).out
        lines = [line for line in shown.splitlines() if not line.strip().startswith("fsm-agent ")]
        if ascii_only:
            assert shown.isascii(), said
            assert "\\u" in shown, said
        else:
            assert any(unicodedata.east_asian_width(sign) == "W" for sign in shown), said
        assert [line for line in lines if columns(line) > 80] == [], said
