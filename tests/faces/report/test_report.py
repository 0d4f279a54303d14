"""A report: one file, nothing that runs, nothing from elsewhere, everything from outside as text, and the log in it."""

import base64
import hashlib
import io
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent.core.events import chain, genesis, to_line
from fsm_agent.core.inputs import Note
from fsm_agent.core.replay.player import Replay
from fsm_agent.core.replay.story import story
from fsm_agent.faces.report.network import network
from fsm_agent.faces.report.page import page
from fsm_agent.faces.report.words import in_order
from fsm_agent.runtime.proof.auditing import audit_log
from fsm_agent.runtime.proof.logs import in_bytes
from fsm_agent.stores.embedded import unpack
from fsm_agent.stores.memory import MemoryStore
from fsm_agent.stores.transfer import export_run
from fsm_agent.testing.scenario import parse
from fsm_agent.testing.simulate import simulate
from tests.audits import clean
from tests.core.kit import ANN, lab
from tests.core.replay.logs import SEEDS, scenario, simulated

ROOT = Path(__file__).parents[3]
TAGS = set(
    "html head meta title style body header nav main section footer article h1 h2 h3 p a b ul li dl dt dd div span code"
    " pre time table thead tbody tr th td details summary figure figcaption template svg g defs pattern rect line path"
    " text".split()
)
ATTRIBUTES = set(
    "charset http-equiv content name lang id class title href scope open role data-format viewbox width height x y x1 y1"
    " x2 y2 rx d patternunits".split()
)
VOID = {"meta"}


class Page(HTMLParser):
    """What stands in a page: its tags, attributes and text; unbalanced tags are refused."""

    def __init__(self, data):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.text, self.stack = [], [], [], []
        self.feed(data.decode())
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in {"rect", "line", "path"}
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if not {"style", "template"} & set(self.stack):
            self.text.append(data)

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    def values(self, attribute):
        return [value for _, name, value in self.attributes if name == attribute]


def exported(store, run):
    out = io.BytesIO()
    export_run(store, run, out)
    return out.getvalue()


def made(raw):
    log = in_bytes(raw)
    return page(story(Replay(log.run, log.records, log.blob)), audit_log(raw), raw)


def of(it):
    return made(exported(it.store, it.run.id))


def harmless(data):
    """Return the page, which must hold nothing that runs, loads, or leaves it."""
    found = Page(data)
    assert set(found.tags) <= TAGS
    assert {name for _, name, _ in found.attributes} <= ATTRIBUTES
    assert all(re.match(r"#", href) for href in found.values("href"))
    assert found.tags.count("style") == found.tags.count("template") == found.tags.count("body") == 1
    return found


RAN = [path for path in SEEDS if not scenario(path).expect.refused][::3]


@pytest.mark.parametrize("path", RAN, ids=lambda path: path.stem[4:40])
def test_every_log_becomes_one_page_that_does_nothing_and_proves_itself(path):
    _, store = simulated(path)
    raw = exported(store, "simulation")
    data = made(raw)
    found = harmless(data)
    assert unpack(data) == raw
    assert audit_log(data) == audit_log(raw)
    assert made(unpack(data)) == data
    log = in_bytes(raw)
    events = list(log.records)
    ids = found.values("id")
    assert len(ids) == len(set(ids))
    assert [i for i in ids if re.fullmatch(r"e\d+", i)] == [f"e{r.seq}" for r in events]
    assert {href[1:] for href in found.values("href")} <= set(ids)


def test_the_policy_forbids_everything_but_the_one_sheet_of_styles():
    with lab([{"id": "a", "tool": "look"}]) as it:
        it.returns("a")
    data = of(it)
    sheet = re.search(rb"<style>(.*?)</style>", data, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(sheet).digest()).decode()
    policy = next(v for v in Page(data).values("content") if "default-src" in v)
    assert policy == f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-{digest}'"
    assert re.findall(rb"url\(([^)]*)\)", sheet) == [b"#hatch-unknown", b"#hatch-cooldown"]
    assert b"@import" not in sheet
    assert b"http" not in re.sub(rb"http-equiv", b"", data.partition(b"<template")[0])


NASTY = st.lists(
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            "</pre></td></table></template></body>",
            '"><img src=x onerror=alert(1)>',
            "' onmouseover='alert(1)",
            "javascript:alert(1)",
            "&lt;b&gt;&amp;#60;",
            "]]><!-- -->",
            '<template id="fsm-agent-log">AAAA</template>',
            "<!doctype html>",
            "\u202e\u2066txt.exe",
            "\x1b[31m\r\n\t\x07",
            "{{7*7}}",
            "中文 é",
            "a" * 300,
            " ",
        ]
    ),
    min_size=1,
    max_size=4,
).map("".join)


@settings(max_examples=25, deadline=None)
@given(NASTY, NASTY, NASTY)
def test_whatever_tools_models_and_people_say_is_text(first, second, third):
    steps = [
        {"id": "a", "tool": "look", "description": first, "args": {"q": second}},
        {
            "id": "b",
            "tool": "mail",
            "description": second,
            "args": {"q": third},
            "requires_confirmation": True,
        },
        {"id": "c", "description": third},
        {"id": "d", "tool": "look", "args": {"q": first}},
    ]
    who = attrs.evolve(ANN, by=first.strip() or "x", note=second)
    with lab(steps, checked=False) as it:
        it.returns("a", {"said": first, second: [third]})
        it.approve("b", who)
        it.fails("b", "bad_request", message=third)
        it.answer("c", second, who)
        it.fails("d", "not_found", message=first)
        it.feed(Note(text=f"note {third}", who=who))
    data = of(it)
    found = harmless(data)
    assert unpack(data) == exported(it.store, "r")
    text = "".join(found.text)
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    for part in ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'):
        if part in first:
            assert part in text


def test_what_stands_in_a_report_names_the_run_its_people_and_its_effects():
    with lab(
        [{"id": "w", "tool": "burn", "args": {"n": 1}, "description": "burn it?"}], goal="one goal"
    ) as it:
        it.approve("w")
        it.times_out("w")
        it.until_due()
        it.finds("w", "applied", {"id": 7})
    text = "".join(Page(of(it)).text)
    for words in (
        "one goal",
        "burn it?",
        "approved by ann",
        "irreversible",
        "the probe of burn says applied",
        "✔ yes",
    ):
        assert words in text


def test_a_batch_stands_as_one_box_and_a_nested_plan_before_what_it_makes_up():
    world = parse(
        {
            "plan": {
                "steps": [
                    {"id": "f", "tool": "find"},
                    {
                        "id": "b",
                        "tool": "look",
                        "args": {"to": "$item"},
                        "for_each": "$f.names",
                        "depends_on": ["f"],
                    },
                    {
                        "id": "n",
                        "plan": {
                            "steps": [
                                {"id": "x", "tool": "look"},
                                {"id": "y", "tool": "look", "depends_on": ["x"]},
                            ]
                        },
                        "depends_on": ["b"],
                    },
                    {"id": "e", "tool": "look", "depends_on": ["n"]},
                ]
            },
            "tools": {
                "find": {"effect": "read", "calls": [{"return": {"names": ["p", "q", "r"]}}]},
                "look": {"effect": "read", "calls": [{"return": 1}]},
            },
        },
        "batch",
    )
    store = MemoryStore()
    assert clean(simulate(world, store=store)).run == "done"
    raw = exported(store, "simulation")
    log = in_bytes(raw)
    run = Replay(log.run, log.records, log.blob).end()
    assert [t.id for t in in_order(run)] == ["f", "b", "b[0]", "b[1]", "b[2]", "n", "n/x", "n/y", "e"]
    places = dict(re.findall(r"<title>(\S+) \([^<]*</title><rect x=\"([\d.]+)\"", network(run)))
    assert list(sorted(places, key=lambda name: float(places[name]))) == ["f", "b", "n/x", "n/y", "n", "e"]
    text = "".join(harmless(made(raw)).text)
    assert "3 of 3 records" in text
    assert "2 of 2 steps" in text


def test_a_run_that_changes_nothing_and_asks_nobody_says_so():
    with lab([{"id": "a", "tool": "look"}]) as it:
        it.returns("a")
    text = "".join(Page(of(it)).text)
    assert "No call of this run could change anything." in text
    assert "Nobody was asked anything." in text
    assert "Every decision of this run accepted a success." in text


def test_a_run_that_has_not_moved_is_told_too():
    with lab([{"id": "a", "tool": "look"}]) as it:
        raw = b"".join(to_line(record) + b"\n" for record in it.records[:2])
        it.returns("a")
    text = "".join(Page(made(raw)).text)
    assert "Nothing was used, and nothing is limited." in text
    assert "The run stands pending: 0 of 1 tasks are done." in text


def test_eighty_events_are_less_than_150_kb():
    steps = [
        {"id": f"s{i}", "tool": "look" if i % 3 else "pay", "args": {"n": i}, "done_when": "ok == true"}
        for i in range(20)
    ]
    with lab(steps, checked=False) as it:
        for i in range(20):
            if i % 5 == 4:
                it.fails(f"s{i}")
                it.until_due()
            it.returns(f"s{i}", {"ok": True, "text": "some result"})
    assert 75 <= it.run.seq <= 95
    assert len(of(it)) < 150_000


def test_very_many_events_are_folded_and_their_bodies_left_to_the_log():
    steps = [{"id": f"s{i:03}", "tool": "look", "args": {"n": i}} for i in range(700)]
    world = parse(
        {
            "plan": {"steps": steps},
            "tools": {"look": {"effect": "read", "calls": [{"return": {"ok": True}}]}},
        },
        "many",
    )
    store = MemoryStore()
    result = clean(simulate(world, store=store))
    assert len(result.events) > 2_000
    data = made(exported(store, "simulation"))
    found = harmless(data)
    assert len(data) < 500 * len(result.events)
    text = "".join(found.text)
    assert "700 tasks are too many for one picture" in text
    assert "Events 1 to 250" in text
    assert "more rows are in the table below" in text
    assert "660 more tasks" in text
    assert '"schema_digest"' not in text


def test_a_log_that_was_tampered_with_is_reported_with_what_the_audit_found():
    with lab([{"id": "w", "tool": "pay"}]) as it:
        it.returns("w", {"id": 1})

    previous, lines = genesis("r").hash, []
    for record in it.records:
        body = record.body.replace(b'"rule":"accept"', b'"rule":"other!"')
        previous = chain(previous, body)
        lines.append(body[:-1] + b',"hash":"' + previous.hex().encode() + b'"}\n')
    data = made(b"".join(lines))
    text = "".join(harmless(data).text)
    assert "Something is wrong with this log." in text
    assert "the table says accept by accept" in text
    assert "1 of them failed" in text
    assert audit_log(data).verdict == "violations"


def test_processes_with_other_seeds_zones_and_languages_write_the_same_bytes(tmp_path):
    _, store = simulated(RAN[0])
    (tmp_path / "log.jsonl").write_bytes(exported(store, "simulation"))
    written = []
    for seed, zone, language in (("0", "UTC", "C"), ("7", "Asia/Tokyo", "zh_CN.UTF-8")):
        env = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": language, "PYTHONPATH": str(ROOT)}
        words = [sys.executable, "-m", "fsm_agent", "report", "log.jsonl", "-o", f"{seed}.html"]
        subprocess.run(words, cwd=tmp_path, env=env, check=True, capture_output=True)
        written.append((tmp_path / f"{seed}.html").read_bytes())
    assert written[0] == written[1]
