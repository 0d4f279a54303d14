"""``inbox`` lists everything that waits for a person; ``graph`` draws a run in four ways, whatever is written in it."""

import json
import re
import xml.etree.ElementTree as ET

import pytest

EVIL = '<script>alert("x")</script> & "quotes" `ticks` [brackets] {braces}\\'
PLAN = {
    "goal": "draw me",
    "steps": [
        {"id": "a", "description": EVIL},
        {"id": "b", "description": "second", "depends_on": ["a"], "requires_confirmation": True},
        {"id": "c", "description": "third", "depends_on": [{"id": "a", "optional": True}]},
    ],
}


@pytest.fixture
def drawn(cli):
    (cli.path / "plan.json").write_text(json.dumps(PLAN))
    assert cli("run", "plan.json", "--run-id", "r1").code == 4
    return cli


def test_text_shows_the_layers_with_their_states(cli, waiting):
    shown = cli("graph", "r1").out
    assert "✔ T1 look_up" in shown
    assert "⏸ T3 book" in shown
    assert "▶" in shown
    plain = cli("graph", "r1", "--ascii").out
    assert plain.isascii()
    assert "= T3 book" in plain


def test_mermaid_uses_names_of_its_own_and_escapes_what_people_wrote(drawn):
    shown = drawn("graph", "r1", "--format", "mermaid").out
    assert shown.startswith("flowchart LR\n")
    assert "<script>" not in shown
    assert re.search(r'^    s1\["a .*awaiting-confirmation"\]:::awaiting_confirmation$', shown, re.MULTILINE)
    assert "    s1 --> s2\n" in shown
    assert "    s1 -.-> s3\n" in shown
    assert re.search(r"classDef awaiting_confirmation fill:#\w{6}", shown)


def test_dot_quotes_what_people_wrote(drawn):
    shown = drawn("graph", "r1", "--format", "dot").out
    assert shown.startswith("digraph run {")
    labels = re.findall(r'label="((?:[^"\\]|\\.)*)"', shown)
    assert len(labels) == 3
    assert "s1 -> s3 [style=dashed];" in shown
    assert "peripheries=2" in shown


def test_svg_is_an_image_and_nothing_else(drawn):
    shown = drawn("graph", "r1", "--format", "svg").out
    root = ET.fromstring(shown)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags == {"svg", "title", "text", "path", "rect"}
    assert sum(element.tag.endswith("rect") for element in root.iter()) == 3
    assert not re.search(r"script|href|url\(|@import|on\w+=", re.sub(r"<text.*?</text>", "", shown))
    assert all("http" not in value for e in root.iter() for value in e.attrib.values())


def test_a_drawing_can_go_to_a_file(drawn):
    shown = drawn("graph", "r1", "--format", "svg", "-o", "run.svg")
    assert shown.out == "written to run.svg\n"
    ET.parse(drawn.path / "run.svg")
    assert drawn.json("graph", "r1")[1]["schema"] == "fsm-agent/drawing@1"


def test_a_plan_too_large_to_be_drawn_is_listed_by_layers(cli):
    steps = [
        {"id": f"s{i}", "description": "x", "depends_on": [f"s{i - 1}"] if i % 9 else []}
        for i in range(1, 80)
    ]
    steps = [{**s, "depends_on": [d for d in s["depends_on"] if d != "s0"]} for s in steps]
    (cli.path / "plan.json").write_text(json.dumps(steps))
    cli("run", "plan.json", "--run-id", "r1")
    shown = cli("graph", "r1").out
    assert shown.startswith("layer 1\n")
    assert max(map(len, shown.splitlines())) <= 80


# ── inbox ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_empty_inbox_says_so(cli):
    assert cli("inbox").out == "nothing waits for a person in .fsm_agent/runs.db\n"
    assert cli.json("inbox")[1]["waiting"] == []


def test_everything_that_waits_is_there_the_longest_first_with_its_commands(cli, waiting):
    cli("run", "desk", "--run-id", "r2", "--input", "luck=wrong")
    cli("run", "desk", "--run-id", "r3")
    cli("pause", "r3")
    shown = cli("inbox").out
    assert [line.split(",")[0] for line in shown.splitlines() if not line.startswith(" ")] == [
        "⏸ r1 T3",
        "⏸ r2 T2",
        "⏸ r3 run",
        "⏸ r3 T3",
    ]
    assert 'guest = "Ann"' in shown
    assert f"  fsm-agent approve r1 T3 --digest {waiting['digest'][:8]}\n" in shown
    assert "  fsm-agent resume r3\n" in shown
    document = cli.json("inbox")[1]
    assert document["schema"] == "fsm-agent/inbox@1"
    assert [one["kind"] for one in document["waiting"]] == ["approval", "decide", "paused", "approval"]
    assert document["waiting"][0]["question"]["digest"] == waiting["digest"]
    ages = [one["since_s"] for one in document["waiting"]]
    assert ages == sorted(ages, reverse=True)


def test_what_is_lost_waits_for_evidence_and_what_is_over_does_not(cli, waiting):
    cli("approve", "r1", "T3", "--digest", waiting["digest"])
    assert cli("inbox").out.startswith("nothing waits")
    cli("run", "desk", "--run-id", "r2", "--input", "luck=bad")
    (asked,) = [one for one in cli.json("inbox")[1]["waiting"] if one["run"] == "r2"]
    assert cli("approve", "r2", "T3", "--digest", asked["question"]["digest"]).code == 0
    assert cli("resume", "r2").code == 5
    (lost,) = [one for one in cli.json("inbox")[1]["waiting"] if one["run"] == "r2"]
    assert lost["task"] == "T3"
    assert any("reconcile r2 T3 --as applied" in command for command in lost["commands"])
    cli("cancel", "r2", "--acknowledge", "T3")
    assert [one for one in cli.json("inbox")[1]["waiting"] if one["run"] == "r2"] == []
