"""A line at the prompt means what it looks like: words, quotes, JSON as it stands, several commands."""

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.errors import UsageError
from fsm_agent.faces.repl.words import commands, split

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("  step ", ["step"]),
        ("reject T5 -m 'too dear'", ["reject", "T5", "-m", "too dear"]),
        ('note "see \\"this\\""', ["note", 'see "this"']),
        ("note it\\'s", ["note", "it's"]),
        ('answer T4 {"a": [1, "x y"]}', ["answer", "T4", '{"a": [1, "x y"]}']),
        ('edit T4 who={"name": "A B"} n=[1, 2]', ["edit", "T4", 'who={"name": "A B"}', "n=[1, 2]"]),
        ("edit T4 'who=A B'", ["edit", "T4", "who=A B"]),
        ("a '' b", ["a", "", "b"]),
        ("x{1", ["x{1"]),
        ("{not json", ["{not", "json"]),
        ('"a\\nb"', ["a\\nb"]),
        ("end\\", ["end\\"]),
    ],
)
def test_words_are_cut_as_a_person_means_them(line, words):
    assert split(line) == words


@given(st.lists(st.text(st.characters(blacklist_characters="\n\r", blacklist_categories=["Cs"])), max_size=5))
def test_what_a_shell_would_quote_is_read_back(words):
    assert split(" ".join(shlex.quote(word) for word in words)) == words


@given(st.dictionaries(st.text(), JSON, max_size=3))
def test_json_needs_no_quotes(value):
    text = json.dumps(value)
    assert split(f"answer T1 {text} -m x") == ["answer", "T1", text, "-m", "x"]
    assert commands(f"answer T1 {text}; status") == [f"answer T1 {text}", "status"]


@pytest.mark.parametrize("line", ["note 'open", 'note "open', 'note "open\\"', "a b 'c"])
def test_an_open_quote_is_told_with_its_place(line):
    with pytest.raises(
        UsageError, match=r"the quote at character \d+ is not closed; close it, or write \\['\"]"
    ):
        split(line)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("step; status", ["step", "status"]),
        ("step\n\n# a word\n  # another\nstatus;", ["step", "status"]),
        ("note 'a; b'; step", ["note 'a; b'", "step"]),
        ('note "a; b";step', ['note "a; b"', "step"]),
        ('answer T {"a": "x;y"};step', ['answer T {"a": "x;y"}', "step"]),
        (";;", []),
        ("note see #5", ["note see #5"]),
    ],
)
def test_commands_end_at_semicolons_and_lines(text, found):
    assert commands(text) == found
