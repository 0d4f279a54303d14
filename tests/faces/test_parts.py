"""Drawings of plans whose steps have parts."""

from fsm_agent.faces.drawing import graph
from fsm_agent.runtime.planning.plans import Plan

PLAN = Plan.make(
    {
        "steps": [
            {"id": "s1", "tool": "look"},
            {
                "id": "s4",
                "depends_on": ["s1"],
                "plan": {
                    "steps": [
                        {"id": "a", "tool": "look"},
                        {"id": "b", "tool": "look", "depends_on": ["a"]},
                    ]
                },
            },
            {"id": "s5", "tool": "look", "depends_on": ["s4"]},
            {
                "id": "s6",
                "for_each": "$s5",
                "depends_on": ["s5"],
                "plan": {"steps": [{"id": "c", "tool": "x"}]},
            },
        ]
    }
)


def test_the_steps_of_a_nested_plan_are_drawn_after_the_step_that_they_are_in():
    text = graph.plan(PLAN, "text")
    assert "s4 plan of 2 ─┬─▶ s4/a look ─────▶ s4/b look" in text
    assert "└─▶ s5 look" in text


def test_what_a_record_will_do_is_not_drawn_before_there_are_records():
    text = graph.plan(PLAN, "text", width=200)
    assert "s6 plan of 1" in text
    assert "s6/c" not in text


def test_every_form_draws_the_same_edges():
    mermaid, dot = graph.plan(PLAN, "mermaid"), graph.plan(PLAN, "dot")
    assert mermaid.count("-->") == dot.count("->") == 5
