"""``plan``, ``fsm``, ``simulate``: what is shown of files, and the drawings."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.machine import RUN_TABLE, STATES, TASK_TABLE
from fsm_agent.core.plans import planning
from fsm_agent.faces.drawing import graph

TABLES = {"task": TASK_TABLE, "run": RUN_TABLE}
MACHINES = pytest.mark.parametrize("name", list(TABLES))


def plan_of(*steps):
    return planning.load({"steps": list(steps)})


# ── the machines ──────────────────────────────────────────────────────────────────────────────────────────────


@MACHINES
def test_mermaid_has_every_edge_of_the_table_and_no_other(name):
    text = graph.machine(name, "mermaid")
    states = dict((b, a) for a, b in re.findall(r'state "(\S+)" as (\w+)', text))
    assert sorted(states.values()) == sorted(STATES)
    drawn = {
        (states[a], trigger): states[b]
        for a, b, triggers in re.findall(r"^    (\w+) --> (\w+) : (.+)$", text, re.MULTILINE)
        for trigger in triggers.split(", ")
    }
    assert drawn == dict(TABLES[name])
    assert text.startswith("stateDiagram-v2\n")
    assert "[*] --> pending" in text


@MACHINES
def test_dot_has_every_edge_of_the_table_and_no_other(name):
    text = graph.machine(name, "dot")
    states = dict(re.findall(r'^    (\w+) \[label="(\S+)"\];$', text, re.MULTILINE))
    drawn = {
        (states[a], trigger): states[b]
        for a, b, triggers in re.findall(r'(\w+) -> (\w+) \[label="(.+)"\]', text)
        for trigger in triggers.split(", ")
    }
    assert drawn == dict(TABLES[name])


@MACHINES
def test_the_page_of_a_machine_has_every_edge_and_what_each_trigger_records(name):
    text = graph.machine(name, "text")
    drawn, source = {}, ""
    for line in text.split("What each trigger records:")[0].splitlines()[3:]:
        words = line.split()
        if len(words) == 3:
            source = words[0]
        if len(words) >= 2 and words[-1] != "-":
            drawn[source, words[-2]] = words[-1]
    assert drawn == dict(TABLES[name])
    flat = " ".join(text.split())
    assert all(edge.records in flat for edge in graph.EDGES[name])
    assert max(map(len, text.splitlines())) <= 80


@MACHINES
@pytest.mark.parametrize("form", graph.FORMATS)
def test_fsm_show_prints_the_drawing(cli, name, form):
    shown = cli("fsm", "show", name, "--format", form)
    assert (shown.code, shown.out) == (0, graph.machine(name, form))
    assert cli("fsm", "show", name, "--format", form, "--json").json == {
        "schema": "fsm-agent/drawing@1",
        "shows": f"machine {name}",
        "format": form,
        "text": shown.out,
    }


# ── plans ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_plan_is_drawn_from_left_to_right(cli):
    assert cli("plan", "graph", "desk").out == (
        "T1 look_up ─┬─▶ T3 book\n"
        "T2 price ───┘\n"
    )  # fmt: skip


def test_a_plan_that_is_too_wide_is_drawn_with_ids_and_a_legend_and_else_listed_by_layers(cli):
    def chain(count, name):
        return {"steps": [
            {"id": f"S{i}", "tool": name, "depends_on": [f"S{i - 1}"] if i else []} for i in range(count)
        ]}  # fmt: skip

    (cli.path / "p.json").write_text(json.dumps(chain(6, "a_tool_with_a_long_name")))
    ids = cli("plan", "graph", "p.json").out
    assert ids.startswith("S0 ───▶ S1 ───▶ S2")
    assert "\nS5 a_tool_with_a_long_name\n" in ids
    (cli.path / "p.json").write_text(json.dumps(chain(20, "tool")))
    listed = cli("plan", "graph", "p.json").out.splitlines()
    assert listed[:4] == ["layer 1", "  S0 tool", "layer 2", "  S1 tool <- S0"]


@given(st.text(min_size=1, max_size=30))
def test_no_description_breaks_mermaid_or_dot(text):
    try:
        found = plan_of(
            {"id": "a", "description": text}, {"id": "b", "description": text, "depends_on": ["a"]}
        )
    except planning.planfaults.PlanError:
        return
    mermaid = graph.plan(found, "mermaid").splitlines()
    assert len(mermaid) == 4
    for line in mermaid[1:3]:
        label = re.fullmatch(r'    s\d\["(.*)"\]', line)
        assert label is not None, line
        assert not set(label[1]) & set('"<>[]{}`')
    dot = graph.plan(found, "dot").splitlines()
    assert len(dot) == 7
    assert all(re.fullmatch(r'    s\d \[label="(?:[^"\\]|\\.)*"\];', line) for line in dot[3:5])


def test_optional_dependencies_and_questions_to_people_can_be_told_apart():
    found = plan_of(
        {"id": "a", "tool": "x"},
        {
            "id": "b",
            "tool": "x",
            "depends_on": [{"id": "a", "optional": True}],
            "requires_confirmation": True,
        },
    )
    assert "s1 -.-> s2" in graph.plan(found, "mermaid")
    assert 's2{{"b x"}}' in graph.plan(found, "mermaid")
    assert "s1 -> s2 [style=dashed];" in graph.plan(found, "dot")
    assert "peripheries=2" in graph.plan(found, "dot")


def test_plan_show_has_every_step_and_what_is_special_about_it(cli):
    out = cli("plan", "show", "desk").out
    assert "goal: book a room" in out
    assert "T3 book after T1, T2" in out
    assert "requires_confirmation: true" in out
    document = cli("plan", "show", "desk", "--json").json
    assert document["schema"] == "fsm-agent/plan@1"
    assert [step["id"] for step in document["plan"]["steps"]] == ["T1", "T2", "T3"]


def test_plan_check_says_what_fits_and_what_deserves_a_look(cli):
    shown = cli("plan", "check", "desk")
    assert shown.code == 0
    assert "desk/plan.json: 3 steps, fits 3 tools" in shown.out
    assert "look: /steps/2/tool" in shown.out
    document = cli("plan", "check", "desk/plan.json", "--json").json
    assert document["tools"] is None
    assert document["ok"] is True
    assert cli("plan", "check", "desk", "--json").json["faults"][0].keys() == {
        "at",
        "code",
        "message",
        "fix",
        "severity",
    }


# ── simulate ──────────────────────────────────────────────────────────────────────────────────────────────────

SCENARIO = {
    "name": "a look",
    "plan": {"steps": [{"id": "T1", "tool": "look"}]},
    "tools": {"look": {"effect": "read", "calls": [{"return": {"x": 1}}]}},
    "expect": {"run": "done"},
}


def test_simulate_says_what_came_out(cli):
    (cli.path / "good.json").write_text(json.dumps(SCENARIO))
    code, results = cli.json("simulate", "good.json", "--seed", "3")
    assert code == 0
    assert results == [
        {
            "name": "a look",
            "ok": True,
            "failures": [],
            "run": "done",
            "tasks": {"T1": "done"},
            "effects": {"look": 0},
            "calls": {"look": 1},
            "planner_calls": 0,
            "virtual_s": results[0]["virtual_s"],
        }
    ]
    assert "1 of 1 scenarios came out as expected" in cli("simulate", "good.json").out


def test_simulate_exits_with_1_when_an_expectation_is_not_met(cli):
    (cli.path / "all").mkdir()
    (cli.path / "all" / "a.json").write_text(json.dumps(SCENARIO))
    (cli.path / "all" / "b.json").write_text(json.dumps({**SCENARIO, "expect": {"run": "failed"}}))
    (cli.path / "all" / "c.json").write_text(json.dumps({**SCENARIO, "plan": {"steps": []}}))
    code, results = cli.json("simulate", "all")
    assert code == 1
    assert [result["ok"] for result in results] == [True, False, False]
    assert "E-PLAN" in results[2]["failures"][0]
    (cli.path / "none").mkdir()
    assert cli("simulate", "none").code == 9
