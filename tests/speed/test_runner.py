"""What measures can be trusted: the graphs are what they are called, a wrong result never counts, a table says what was found."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import beside, floors, ours, parts, run, table, timing
from benchmarks.goals import GOALS, Goal, Row
from benchmarks.peers import PEERS, Peer
from benchmarks.peers import worker as peer_worker
from benchmarks.settings import Settings
from benchmarks.shapes import REAL, Step, Work, checksum, children, ends, levels, shape
from benchmarks.slot import RUN
from benchmarks.timing import Took, in_turns
from fsm_agent import audit
from tests.test_readme import ROOT

FORMS = [
    *((name, n) for name in ("chain", "fan", "layers", "records") for n in (3, 60, 117)),
    ("straggler", 0),
]
FORMS += [(name, n) for name in REAL for n in (100, 1000, 5000)]


@pytest.mark.parametrize(("name", "n"), FORMS)
def test_a_graph_is_in_topological_order_and_as_large_as_it_says(name, n):
    graph = shape(name, n)
    assert [step.id for step in graph] == list(range(len(graph)))
    assert all(0 <= dep < step.id for step in graph for dep in step.deps)
    assert all(len(set(step.deps)) == len(step.deps) for step in graph)
    assert 0.94 * n <= len(graph) <= max(n, 12)
    assert graph == shape(name, n)
    assert sum(map(len, children(graph))) == sum(len(step.deps) for step in graph)
    assert sorted(step.id for level in levels(graph) for step in level) == list(range(len(graph)))
    for at, level in enumerate(levels(graph)):
        before = {step.id for earlier in levels(graph)[:at] for step in earlier}
        assert all(set(step.deps) <= before for step in level)


@pytest.mark.parametrize("name", REAL)
def test_a_real_graph_says_how_many_steps_and_edges_it_has(name):
    for n in (100, 1000, 5000):
        graph = shape(name, n)
        said = (ROOT / "benchmarks" / "dags" / f"{name}-{n}.txt").read_text().splitlines()[0]
        assert f"{len(graph)} steps, {sum(len(step.deps) for step in graph)} edges" in said
        assert "wfcommons 1.6" in said
        assert "seed 20261130" in said


def test_a_graph_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(
        ValueError, match="shape 'moon': there is none; one of chain, fan, layers, records, straggler"
    ):
        shape("moon", 3)


def test_the_checksum_is_the_depth_of_what_nothing_needs():
    graph = [Step(0, ()), Step(1, (0,)), Step(2, (0, 1)), Step(3, (0,))]
    assert ends(graph) == [2, 3]
    assert checksum(graph) == 3 + 2


@pytest.mark.parametrize("form", ["chain", "fan", "layers", "records", "montage"])
@pytest.mark.parametrize("effect", ["read", "write"])
def test_everybody_carries_out_the_same_graph(form, effect, tmp_path):
    graph = shape(form, 100)
    work = Work()
    assert asyncio.run(floors.memory(graph, work)) == checksum(graph)
    rows = tmp_path / "rows.sqlite"
    assert asyncio.run(floors.durable(graph, work, rows, intents=effect == "write")) == checksum(graph)
    assert asyncio.run(floors.durable(graph, work, rows)) == checksum(graph)  # nothing is left to be done
    assert work.calls == 2 * len(graph)
    assert ours.go(graph, work, tmp_path / "runs.db", effect=effect).wall_s > 0
    assert ours.reopened(graph, work, tmp_path / "runs.db").wall_s > 0
    assert work.calls == 3 * len(graph)


def test_what_comes_out_wrong_never_counts():
    with pytest.raises(SystemExit, match="the checksum is 7, not 3; results went astray"):
        ours.judged(shape("chain", 3), lambda: 7)


@pytest.mark.parametrize("who", ["ours", "floor"])
def test_what_was_killed_half_way_is_finished(who, tmp_path):
    n = 100
    assert ours.crashed(who, "layers", n, tmp_path / "left") == n // 2
    took = ours.finished(who, shape("layers", n), tmp_path / "left", tmp_path)
    assert n // 2 <= took.more["calls"] <= n
    assert not (tmp_path / "place").exists()
    if who == "ours":
        assert audit(tmp_path / "left" / "runs.db", run=RUN).findings == ()


def test_contestants_take_turns_and_the_first_round_does_not_count():
    order: list[str] = []

    def one(name: str, wall_s: float) -> Took:
        order.append(name)
        took = Took()
        took.wall_s, took.more["n"] = (99.0 if len(order) <= 2 else wall_s), len(order)
        return took

    found = in_turns({"a": lambda: one("a", 1.0), "b": lambda: one("b", 2.0)}, 3)
    assert order == ["a", "b"] * 4
    assert (found["a"].wall_s, found["b"].wall_s) == (1.0, 2.0)
    assert found["a"].more("n") == 5
    assert found["b"].cpu_s == 0.0


def test_time_is_added_up_whatever_the_body_does():
    took = Took()
    with pytest.raises(ZeroDivisionError), timing.timed(took):
        raise ZeroDivisionError
    first = took.wall_s
    with timing.timed(took) as same:
        sum(range(1000))
    assert same is took
    assert took.wall_s > first > 0


@pytest.mark.parametrize(
    ("goal", "value", "met"),
    [
        (Goal(8, 4), 4, "aim"),
        (Goal(8, 4), 8, "must"),
        (Goal(8, 4), 8.1, "missed"),
        (Goal(10, 20, more=True), 20, "aim"),
        (Goal(10, 20, more=True), 10, "must"),
        (Goal(10, 20, more=True), 9.9, "missed"),
    ],
)
def test_a_figure_meets_what_it_meets(goal, value, met):
    assert goal.meets(value) == met
    assert Row("g", "w", "c", value, "u", goal).as_json()["met"] == met


def test_a_row_that_was_kept_comes_back():
    for row in ROWS:
        back = Row.from_json(json.loads(json.dumps(row.as_json())))
        assert (back.group, back.what, back.case, back.unit, back.goal) == (
            row.group,
            row.what,
            row.case,
            row.unit,
            row.goal,
        )
        assert back.met == row.met
        assert back.value == pytest.approx(row.value, rel=1e-3)


def test_figures_of_another_day_are_not_mixed_in(tmp_path):
    file = tmp_path / "kept.json"
    file.write_text(json.dumps({"facts": KNOWN, "rows": [row.as_json() for row in ROWS]}))
    assert [row.group for row in run.kept_rows(file, KNOWN, {"reads"})] == ["log"]
    with pytest.raises(SystemExit, match=r"they are of .*2026-01-01.*; measure them again"):
        run.kept_rows(file, KNOWN | {"date": "2026-01-02"}, set())


def test_no_aim_is_easier_than_what_must_be():
    assert [name for name, goal in GOALS.items() if goal.meets(goal.aim) != "aim"] == []
    assert [name for name, goal in GOALS.items() if goal.more != (goal.aim > goal.must)] == []
    assert {peer.goal for peer in PEERS} - {""} <= set(GOALS)


# ── the tables ────────────────────────────────────────────────────────────────────────────────────────────────

KNOWN = {
    "fsm_agent": "1.0",
    "date": "2026-01-01",
    "system": "Linux",
    "cpus": 2,
    "python": "3.11",
    "sqlite_of_ours": "3.5",
    "sqlite_of_the_floor": "3.4",
}
ROWS = [
    Row("reads", "durable", "layers 1,000", 2.345, "× floor", Goal(6, 3), {"ours µs": 1234.5}),
    Row("reads", "durable", "layers 100", 0.0123, "× floor"),
    Row("log", "log", "layers 1,000", 850, "B", Goal(1200, 850)),
]


def test_a_page_gets_all_figures_or_those_it_names():
    page = "a\n<!-- figures -->\nold\n<!-- end of figures -->\nb\n<!-- figures: log -->\n<!-- end of figures -->\nc\n"
    found = table.filled(page, ROWS, KNOWN)
    whole, short = found.split("\nb\n")
    assert (
        "| durable | layers 1,000 | 2.35 × floor | ≤ 6 | ≤ 3 | aim | ours µs 1,234 |" in whole
        or "| durable | layers 1,000 | 2.35 × floor | ≤ 6 | ≤ 3 | aim | ours µs 1,235 |" in whole
    )
    assert "| durable | layers 100 | 0.012 × floor |  |  |  |  |" in whole
    assert "2026-01-01; Linux, 2 processors; Python 3.11; SQLite 3.5" in whole
    assert "old" not in whole
    assert "| log | layers 1,000 | 850 B |\n" in short
    assert "durable" not in short
    assert found.startswith("a\n")
    assert found.endswith("\nc\n")
    assert table.filled(found, ROWS, KNOWN) == found


def test_a_page_without_a_place_and_a_figure_that_was_not_measured_are_refused():
    with pytest.raises(SystemExit, match="it has no <!-- figures -->"):
        table.filled("nothing", ROWS, KNOWN)
    with pytest.raises(
        SystemExit, match="figures of peers: they were not measured; measure them in the same"
    ):
        table.filled("<!-- figures: log peers -->\n<!-- end of figures -->", ROWS, KNOWN)


def test_the_facts_of_a_machine_do_not_name_it():
    known = table.facts()
    assert set(known) == set(KNOWN)
    assert not any("/" in str(value) for value in known.values())


def rows_of(text):
    """The rows of all tables between marks, first three columns."""
    return {
        tuple(cell.strip() for cell in line.split("|")[1:4])
        for block in table._BLOCK.finditer(text)
        for line in block[0].splitlines()
        if line.startswith("| ") and not line.startswith("| ---")
    }


def test_the_readme_quotes_only_figures_of_the_page():
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    for name in ("README.md", "README.zh-CN.md"):
        assert rows_of((ROOT / name).read_text(encoding="utf-8")) <= rows_of(page), name


def test_every_group_that_a_page_names_is_measured():
    named = [
        name
        for page in (ROOT / "README.md", ROOT / "docs" / "performance.md")
        for block in table._BLOCK.finditer(page.read_text(encoding="utf-8"))
        for name in (block["names"] or "").split()
    ]
    assert set(named) <= {*run.GROUPS, "peers"}


# ── the others ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("peer", PEERS, ids=[peer.module for peer in PEERS])
def test_every_contestant_has_an_adapter_and_fixed_versions(peer):
    home = Path(peer_worker.__file__).parent
    assert (home / f"{peer.module}.py").exists()
    if peer.pins is not None:
        lines = (home / peer.pins).read_text().splitlines()
        assert lines
        assert all("==" in line for line in lines)


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("peer", PEERS[:2], ids=[peer.module for peer in PEERS[:2]])
def test_a_contestant_runs_in_a_process_of_its_own(peer, durable, tmp_path):
    folder = tmp_path / "there"
    folder.mkdir()
    found = beside.once(sys.executable, peer, 60, folder if durable else None)
    assert (found["right"], found["calls"], found["steps"]) == (True, 60, 60)
    assert 0 <= found["setup_s"] <= found["wall_s"]
    assert (found["bytes"] > 60) == durable


def test_a_contestant_that_fails_or_has_no_environment_is_left_out(tmp_path):
    with pytest.raises(beside.LeftOutError, match=r"it ended with 1 .*No module named"):
        beside.once(sys.executable, Peer("nobody", "nobody", None), 10, None)
    (tmp_path / "file").touch()
    with pytest.raises(beside.LeftOutError, match=r"its environment cannot be made .*; see peers/dbos\.txt"):
        beside.interpreter(Peer("nobody", "nobody", "dbos.txt"), tmp_path / "file")


def test_an_environment_is_made_once(tmp_path, monkeypatch):
    (tmp_path / "peers").mkdir()
    (tmp_path / "peers" / "none.txt").touch()
    monkeypatch.setattr(beside, "HERE", tmp_path)
    peer = Peer("nobody", "nobody", "none.txt")
    python = beside.interpreter(peer, tmp_path / "cache")
    made = Path(python).parent.parent / "complete"
    before = made.stat().st_mtime_ns
    assert beside.interpreter(peer, tmp_path / "cache") == python
    assert made.stat().st_mtime_ns == before


@pytest.mark.parametrize("group", [parts.replan, parts.decide, parts.fold, parts.audit])
def test_what_others_measure_is_among_the_figures(group, tmp_path):
    rows = list(group(Settings(folder=tmp_path, quick=True, rounds=1)))
    assert rows
    assert all(row.value > 0 for row in rows)


# ── the command ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_runner_prints_keeps_and_fills_what_it_has_measured(tmp_path):
    page, kept = tmp_path / "page.md", tmp_path / "figures.json"
    page.write_text("<!-- figures -->\n<!-- end of figures -->\n")
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), "--quick", "--only", "log", "--folder"]
    command += [str(tmp_path), "--json", str(kept), "--write", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert len(done.stdout.splitlines()) == 2
    found = json.loads(kept.read_text())
    assert [row["group"] for row in found["rows"]] == ["log", "log"]
    assert found["facts"]["python"]
    assert page.read_text().count("| log, results of") == 2


def test_the_runner_refuses_what_it_cannot_measure():
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), "--only", "moon"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "invalid choice: 'moon'" in done.stderr
