"""Time on a page: order is kept, proportions are kept, and what would crush the rest is cut out and shown."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.faces.report.markup import escape, fold, join, shortened, table, tag
from fsm_agent.faces.report.scale import GAP, Scale

TIMES = st.lists(st.integers(0, 10**14), min_size=1, max_size=40)


@given(TIMES)
def test_later_never_stands_left_and_everything_lies_within(times):
    scale = Scale(times, 100, 900)
    places = [scale.x(t) for t in sorted(times)]
    assert all(a <= b + 1e-6 for a, b in pairwise(places))
    assert all(100 - 1e-6 <= p <= 1000 + 1e-6 for p in places)
    assert scale.x(-5) == pytest.approx(100)
    assert scale.x(10**16) == pytest.approx(1000)


@given(TIMES)
def test_ticks_rise_keep_their_distance_and_stand_outside_of_what_is_cut_out(times):
    scale = Scale(times, 0, 900)
    ticks = list(scale.ticks())
    assert all(b - a >= 72 for (a, _), (b, _) in pairwise(ticks))
    assert all(b > a for (_, a), (_, b) in pairwise(ticks))
    for place, _ in ticks:
        assert not any(gap.left + 1e-6 < place < gap.right - 1e-6 for gap in scale.gaps)


def test_an_hour_of_waiting_among_seconds_is_cut_out_and_says_how_long_it_is():
    seconds = [0, 1, 2, 3, 3603, 3604, 3605]
    scale = Scale([s * 1_000_000 for s in seconds], 0, 600)
    (gap,) = scale.gaps
    assert gap.lasts_us == 3_600_000_000
    assert gap.right - gap.left == pytest.approx(GAP)
    unit = scale.x(1_000_000) - scale.x(0)
    assert scale.x(3_605_000_000) - scale.x(3_604_000_000) == pytest.approx(unit)


def test_even_steps_and_single_moments_are_not_cut():
    assert Scale([0, 10, 20, 30, 40], 0, 100).gaps == []
    assert Scale([7], 0, 100).x(7) == 0
    assert Scale([0, 1, 5_000], 0, 100).gaps == []


def test_markup_is_markup_and_text_is_text():
    assert tag("p", "a<b", tag("b", "&"), None, 3, cls="x", data_y='"q"') == (
        '<p class="x" data-y="&quot;q&quot;">a&lt;b<b>&amp;</b>3</p>'
    )
    assert tag("rect", x=1.25, y=2.0, z=None) == '<rect x="1.2" y="2"/>'
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert join(["a", ["<", tag("i", "x")]]) == "a&lt;<i>x</i>"
    assert "<td>&lt;</td>" in table(("h",), [("<",)])
    assert fold("s", "x", opened=True).startswith('<details open="">')
    assert escape("\u202e\x00\r\u200b") == "\\u202e\\x00\\r\\u200b"
    assert escape("\u00ad\u3164\U000e0041") == "\\u00ad\\u3164\\U000e0041"
    assert shortened("abcdef", 3) == "abc … (3 more characters)"
