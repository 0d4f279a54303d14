"""Logs for others: what the two formats demand of a document holds for every log, and nothing is lost on the way."""

import os
import re
import subprocess
from datetime import datetime

import orjson
import pytest

from fsm_agent.core.events import chain, genesis, to_body
from fsm_agent.core.replay.cloudevents import cloud_events
from fsm_agent.core.replay.moments import moment
from fsm_agent.core.replay.ocel import activity, ocel
from fsm_agent.core.replay.player import Replay
from tests.core.kit import lab
from tests.core.replay.logs import SEEDS, log_of, scenario, simulated

RAN = [path for path in SEEDS if not scenario(path).expect.refused]
NAMES = [path.stem[4:40] for path in RAN]
PM4PY = os.environ.get("FSM_AGENT_PM4PY", "")
"""A Python that has pm4py (AGPL, so it is never imported here), to read what was written in a process of its own."""


def talked():
    """A run with people in it: an approval that is edited, an answer without a tool, a decision of the run."""
    plan = [
        {"id": "q", "description": "which trip?"},
        {
            "id": "w",
            "tool": "mail",
            "requires_confirmation": True,
            "depends_on": [{"id": "q", "optional": True}],
        },
    ]
    with lab(plan) as it:
        it.answer("q", "the second")
        it.edit("w", n=2)
        it.approve("w")
        it.returns("w", {"id": 1})
    return it.events()


# ── OCEL ──────────────────────────────────────────────────────────────────────────────────────────────────────


def held(document):
    """Hold a document against the rules of OCEL 2.0 (JSON)."""
    assert set(document) == {"objectTypes", "eventTypes", "objects", "events"}
    declared = {}
    for kinds in ("objectTypes", "eventTypes"):
        names = [kind["name"] for kind in document[kinds]]
        assert len(names) == len(set(names))
        for kind in document[kinds]:
            assert all(
                a["type"] in ("string", "time", "integer", "float", "boolean") for a in kind["attributes"]
            )
        declared[kinds] = {
            k["name"]: {a["name"]: a["type"] for a in k["attributes"]} for k in document[kinds]
        }
    ids = [thing["id"] for thing in (*document["objects"], *document["events"])]
    assert len(ids) == len(set(ids))
    objects = {thing["id"] for thing in document["objects"]}
    for thing in document["objects"]:
        attributes = declared["objectTypes"][thing["type"]]
        assert {a["name"] for a in thing["attributes"]} <= set(attributes)
        assert all(
            isinstance(a["value"], str) and datetime.fromisoformat(a["time"]) for a in thing["attributes"]
        )
        assert {r["objectId"] for r in thing["relationships"]} <= objects
    for thing in document["events"]:
        attributes = declared["eventTypes"][thing["type"]]
        for attribute in thing["attributes"]:
            kind = attributes[attribute["name"]]
            assert isinstance(attribute["value"], int if kind == "integer" else str)
        assert {r["objectId"] for r in thing["relationships"]} <= objects
        assert thing["relationships"]
    named = {r["objectId"] for e in document["events"] for r in e["relationships"]}
    assert objects == named, "readers drop an object without an event"
    times = [datetime.fromisoformat(e["time"]) for e in document["events"]]
    assert times == sorted(set(times))


@pytest.mark.parametrize("path", RAN, ids=NAMES)
def test_every_log_is_a_document_of_ocel_with_every_event_and_every_task(path):
    log = log_of(path)
    document = ocel("simulation", log)
    held(document)
    assert [e["id"] for e in document["events"]] == [f"e{e.seq}" for e in log]
    tasks = {o["id"] for o in document["objects"] if o["type"] == "task"}
    assert {f"task:{e.task}" for e in log if e.task is not None} <= tasks


def test_people_questions_rows_and_attempts_are_objects_with_their_ties():
    log = talked()
    document = ocel("r", log)
    held(document)
    objects = {o["id"]: o for o in document["objects"]}
    assert objects["person:ann"]["type"] == "person"
    assert {"objectId": "task:w", "qualifier": "attempt of"} in objects["attempt:w/1"]["relationships"]
    assert {"objectId": "task:q", "qualifier": "depends on"} in objects["task:w"]["relationships"]
    questions = [o for o in objects.values() if o["type"] == "question"]
    said = [[a["value"] for a in q["attributes"] if a["name"] == "verdict"] for q in questions]
    assert said == [["answered"], ["edited"], ["approved"]]
    states = [a["value"] for a in objects["task:w"]["attributes"] if a["name"] == "state"]
    assert states == ["awaiting-confirmation", "pending", "running", "done"]
    assert "rule:accept" in objects


def test_a_question_of_the_run_is_about_the_run():
    plan = [{"id": "a", "tool": "look"}]
    with lab(plan, constraints=[{"key": "k", "value": 1, "check": "n <= value"}]) as it:
        it.returns("a", {"n": 2})
    document = ocel("r", it.events())
    held(document)
    (question,) = [o for o in document["objects"] if o["type"] == "question"]
    assert question["relationships"] == [{"objectId": "run:r", "qualifier": "about"}]


def test_activities_are_named_as_people_would():
    names = [activity(e) for e in talked()]
    assert names[:3] == ["run created", "plan adopted", "run start"]
    assert "task hold" in names


@pytest.mark.skipif(not PM4PY, reason="set FSM_AGENT_PM4PY to a Python that has pm4py")
def test_pm4py_reads_what_was_written(tmp_path):
    log = talked()
    document = ocel("r", log)
    (tmp_path / "log.json").write_bytes(orjson.dumps(document))
    code = (
        "import sys, warnings; warnings.simplefilter('ignore'); import pm4py\n"
        "log = pm4py.read_ocel2_json(sys.argv[1])\n"
        "print(len(log.events), len(log.objects), len(log.relations))\n"
        "flat = pm4py.ocel_flattening(log, 'task')\n"
        "print(len(pm4py.discover_dfg(flat)[0]) > 0)\n"
    )
    done = subprocess.run(
        [PM4PY, "-c", code, str(tmp_path / "log.json")],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    ties = sum(len(e["relationships"]) for e in document["events"])
    assert done.stdout.split() == [str(len(log)), str(len(document["objects"])), str(ties), "True"]


# ── CloudEvents ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", RAN, ids=NAMES)
def test_every_event_is_a_cloud_event(path):
    _, store = simulated(path)
    log = Replay("simulation", store.read("simulation"), store.blob)
    found = list(cloud_events("simulation", log.events, log.heads[1:]))
    assert len(found) == log.last
    for event, out in zip(log.events, found, strict=True):
        assert out["specversion"] == "1.0"
        assert out["id"] == f"simulation/{event.seq}"
        assert re.fullmatch(r"dev\.fsm-agent\.[a-z_]+\.v1", out["type"])
        assert all(re.fullmatch(r"[a-z0-9]{1,20}", name) for name in out), "names of attributes"
        assert all(isinstance(value, str) and value for name, value in out.items() if name != "data")
        assert datetime.fromisoformat(out["time"]).tzinfo is not None
        assert out["data"] == event.data
        assert out.get("subject") == event.task
    assert [out["sequence"] for out in found] == sorted(out["sequence"] for out in found)


def test_the_chain_goes_along():
    with lab([{"id": "a", "tool": "look"}]) as it:
        it.returns("a")
    log = Replay("r", it.records, it.store.blob)
    found = list(cloud_events("r", log.events, log.heads[1:]))
    previous = genesis("r").hash
    for event, out in zip(log.events, found, strict=True):
        assert out["prevhash"] == previous.hex()
        previous = chain(previous, to_body(event))
        assert out["hash"] == previous.hex()
    assert found[-1]["hash"] == it.engine.head.hash.hex()


def test_who_did_it_and_what_caused_it_stand_in_attributes_of_their_own():
    log = talked()
    heads = [genesis("r")] * len(log)
    found = list(cloud_events("r", log, heads))
    (answered,) = [out for out in found if out["data"].get("verdict") == "answered"]
    assert (answered["actorkind"], answered["actorid"]) == ("human", "ann")
    assert found[1]["causationid"] == "r/1"
    assert "causationid" not in found[0]


def test_a_run_id_of_any_kind_makes_a_source_that_is_a_uri_reference():
    (out,) = cloud_events("a b/c", log_of(RAN[0])[:1], [genesis("x")])
    assert out["source"] == "/fsm-agent/runs/a%20b%2Fc"


def test_a_time_is_exact_to_the_microsecond():
    assert moment(0) == "1970-01-01T00:00:00.000000Z"
    assert moment(1_800_000_000_000_001) == "2027-01-15T08:00:00.000001Z"
