"""``export`` in the formats of others: whole files or none, and the log's own format as before."""

import json


def test_a_run_is_handed_on_in_each_format(cli, waiting):
    assert cli("export", "r1", "--format", "ocel", "-o", "run.json").code == 0
    document = json.loads((cli.path / "run.json").read_text())
    assert {kind["name"] for kind in document["objectTypes"]} >= {"run", "task", "tool", "question"}
    shown = cli("export", "r1", "--format", "cloudevents")
    assert shown.code == 0
    assert [json.loads(line)["specversion"] for line in shown.out.splitlines()] == ["1.0"] * len(shown.lines)
    assert f"{len(shown.lines)} events" in shown.err


def test_what_cannot_be_handed_on_is_said_in_a_line(cli, waiting):
    for words, code in (
        (["export", "nope", "--format", "ocel"], 9),
        (["export", "r1", "--format", "ocel", "--json"], 2),
        (["export", "r1", "--format", "ocel", "-o", "nowhere/run.json"], 3),
        (["export", "r1", "--format", "xes"], 2),
    ):
        shown = cli(*words)
        assert shown.code == code, shown
        assert len((shown.err or shown.out).splitlines()) == 1
    assert cli.json("export", "r1", "--format", "ocel", "-o", "run.json")[1]["schema"] == "fsm-agent/export@1"
