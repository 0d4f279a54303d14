"""Plans that change, by the command line: ``--planner``, ``replan``, ``plan diff``, ``plan make``, ``history``."""

import json

import pytest

from tests.runtime.model_server import ModelServer

OLD = [
    {"id": "retrieve", "description": "检索与主题相关的文档", "depends_on": []},
    {"id": "extract_a", "description": "从检索结果抽取方法 A 的要点", "depends_on": ["retrieve"]},
    {"id": "extract_b", "description": "从检索结果抽取方法 B 的要点", "depends_on": ["retrieve"]},
    {
        "id": "synthesize",
        "description": "综合 A、B 要点写成对比结论",
        "depends_on": ["extract_a", "extract_b"],
    },
]
NEW = [
    *OLD[:2],
    {"id": "widen_search", "description": "扩大检索范围，补充方法 B 的资料", "depends_on": []},
    {
        "id": "extract_b_v2",
        "description": "基于补充资料重新抽取方法 B 的要点",
        "depends_on": ["widen_search"],
    },
    {
        "id": "synthesize",
        "description": "综合 A、B 要点写成对比结论",
        "depends_on": ["extract_a", "extract_b_v2"],
    },
]
DETOUR = [
    {
        "id": "T2b",
        "tool": "price",
        "args": {"nights": 3, "luck": "good"},
        "replaces": "T2",
        "done_when": "total > 0",
    },
    {
        "id": "T3",
        "tool": "book",
        "args": {"guest": "$inputs.guest", "total": "$T2b.total", "luck": "good"},
        "depends_on": ["T1", "T2b"],
        "requires_confirmation": True,
        "done_when": "booking != null",
    },
]
PLANNER = f"""
import json
from fsm_agent.runtime.planning.planner import Proposal

class Planner:
    async def propose(self, briefing):
        return Proposal(text=json.dumps({DETOUR!r}), model="by hand")

planner = Planner()
"""


def write(cli, name, value):
    (cli.path / name).write_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return name


def asked(cli, status):
    """Approve what the run waits for and resume it."""
    (question,) = status["questions"]
    assert cli("approve", "r1", question["task"], "--digest", question["digest"], "--by", "ann").code == 0
    return cli.json("resume", "r1")


# ── a planner ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["named", "in the directory"])
def test_a_planner_of_ones_own_mends_the_plan_also_after_a_resume(cli, how):
    if how == "named":
        options = ("--planner", f"{write(cli, 'mine.py', PLANNER)}:planner")
    else:
        options = ()
        write(cli, "desk/planner.py", PLANNER)
    code, status = cli.json("run", "desk", "--run-id", "r1", "--input", "luck=wrong", *options)
    assert (code, status["plan_version"]) == (4, 2)
    assert status["tasks"]["T2"]["state"] == "cancelled"
    code, status = asked(cli, status)
    assert (code, status["tasks"]["T2b"]["result"]) == (0, {"total": 270})
    assert len(cli.ledger) == 1


def test_a_resumed_run_asks_the_planner_it_was_begun_with(cli):
    write(cli, "mine.py", PLANNER)
    cli("run", "desk", "--run-id", "r1", "--input", "luck=wrong", "--planner", "mine.py:planner")
    created = cli("events", "r1", "--jsonl").lines[0]
    assert created["data"]["planner_locator"] == "mine.py:planner"
    (cli.path / "mine.py").unlink()
    refused = cli("resume", "r1")
    assert refused.code == 3
    assert "planner 'mine.py:planner': there is no such file" in refused.err
    assert cli("resume", "r1", "--planner", "none").code == 4


def test_none_asks_nobody_although_the_directory_has_a_planner(cli):
    write(cli, "desk/planner.py", PLANNER)
    code, status = cli.json("run", "desk", "--input", "luck=wrong", "--planner", "none")
    assert (code, status["plan_version"]) == (4, 1)


def test_model_asks_the_model_of_the_environment(cli, monkeypatch):
    with ModelServer(DETOUR) as server:
        monkeypatch.setenv("FSM_AGENT_LLM_BASE_URL", server.url)
        monkeypatch.setenv("FSM_AGENT_LLM_MODEL", "m")
        code, status = cli.json(
            "run", "desk", "--run-id", "r1", "--input", "luck=wrong", "--planner", "model"
        )
        assert (code, status["plan_version"]) == (4, 2)
        assert "[done] T1" in server.prompt()
    created = cli("events", "r1", "--jsonl").lines[0]
    assert created["data"]["planner_locator"] == "model"


def test_a_model_that_the_environment_does_not_name_is_missed_before_anything_starts(cli, monkeypatch):
    monkeypatch.delenv("FSM_AGENT_LLM_MODEL", raising=False)
    monkeypatch.setenv("FSM_AGENT_LLM_BASE_URL", "http://127.0.0.1:1/v1")
    shown = cli("run", "desk", "--planner", "model")
    assert (shown.code, cli.runs()) == (3, [])
    assert "$FSM_AGENT_LLM_MODEL is not set; set it to the name of the model there" in shown.err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "it is no locator"),
        ("gone.py:planner", "there is no such file"),
        ("mine.py:nobody", "nobody is missing; name an object with a method propose"),
        ("mine.py:Planner", "Planner is a value of type type"),
        ("mine.py:json", "json is a value of type module"),
        ("broken.py:planner", "loading it raised ZeroDivisionError"),
    ],
)
def test_a_planner_that_cannot_be_found_is_said_before_anything_starts(cli, name, words):
    write(cli, "mine.py", PLANNER)
    write(cli, "broken.py", "1 / 0")
    shown = cli("run", "desk", "--planner", name)
    assert (shown.code, cli.runs()) == (3, [])
    assert words in shown.err


# ── a person's plan ───────────────────────────────────────────────────────────────────────────────────────────


def failed(cli):
    """A run whose T2 has failed, with nobody to plan."""
    code, _ = cli.json("run", "desk", "--run-id", "r1", "--input", "luck=wrong")
    assert code == 4


def test_a_person_gives_another_plan_and_reads_what_it_means(cli):
    failed(cli)
    shown = cli(
        "replan", "r1", "--plan", write(cli, "other.json", DETOUR), "--by", "ann", "-m", "no such nights"
    )
    assert shown.code == 0, shown.err
    assert "ann gave another plan; plan 2 is in force" in shown.out
    assert "because no such nights. New: T2b; Changed: T3; No longer needed: T2." in " ".join(
        shown.out.split()
    )
    code, status = cli.json("resume", "r1")
    assert code == 4
    assert asked(cli, status)[0] == 0


def test_what_is_done_stays_done_whatever_the_new_plan_says(cli):
    failed(cli)
    steps = [{"id": "look_again", "tool": "look_up", "args": {"guest": "$inputs.guest"}}, *DETOUR]
    code, status = cli.json("replan", "r1", "--plan", write(cli, "other.json", steps), "--by", "ann")
    assert (code, status["plan_version"]) == (0, 2)
    assert status["diff"]["reused"] == {"look_again": "T1"}
    assert status["tasks"]["look_again"] == {"state": "done", "attempts": 0, "result": {"known": True}}


@pytest.mark.parametrize(
    ("plan", "code", "words"),
    [
        ([{"id": "x", "tool": "fly"}], 2, "plan (validate): /steps/0/tool: there is no tool 'fly'"),
        ([], 2, "no steps"),
        ("no plan at all", 3, "other.json: plan text at line 1 column 1: no JSON object or array"),
        ('[{"id": "x"', 3, "has no end"),
    ],
)
def test_a_plan_that_does_not_pass_changes_nothing(cli, plan, code, words):
    failed(cli)
    shown = cli("replan", "r1", "--plan", write(cli, "other.json", plan), "--by", "ann")
    assert shown.code == code
    assert words in shown.err
    assert cli.json("status", "r1")[1]["plan_version"] == 1


def test_a_plan_that_is_not_there_or_a_run_that_is_not_there_is_not_found(cli):
    failed(cli)
    assert cli("replan", "r1", "--plan", "gone.json").code == 9
    assert cli("replan", "r9", "--plan", write(cli, "other.json", DETOUR)).code == 9


# ── what differs ──────────────────────────────────────────────────────────────────────────────────────────────


def compared(cli, old, new, *options):
    return cli("plan", "diff", write(cli, "a.json", old), write(cli, "b.json", new), *options)


def test_a_detour_shows_what_is_taken_over_and_what_is_new(cli):
    lines = compared(cli, OLD, NEW, "--lang", "zh").out.splitlines()
    assert lines == [
        "[复用] retrieve",
        "[复用] extract_a",
        "[新] widen_search <- (无)",
        "[新] extract_b_v2 <- widen_search",
        "[新] synthesize <- extract_a, extract_b_v2",
        "    改动：depends_on",
        "[移除] extract_b",
    ]
    english = compared(cli, OLD, NEW).out.splitlines()
    assert english[:3] == ["[kept] retrieve", "[kept] extract_a", "[new] widen_search <- (none)"]
    assert english[-2:] == ["    changed: depends_on", "[removed] extract_b"]


def test_as_json_every_kind_of_difference_is_listed(cli):
    old = [{"id": "a", "tool": "t"}, {"id": "b", "tool": "u", "args": {"x": "$a"}, "depends_on": ["a"]}]
    new = [
        {"id": "a2", "tool": "t", "description": "the same call"},
        {"id": "b", "tool": "u", "args": {"x": "$a2"}, "depends_on": ["a2"]},
    ]
    shown = compared(cli, old, new, "--json").json
    assert shown["schema"] == "fsm-agent/plan-diff@1"
    assert {k: shown[k] for k in ("kept", "changed", "added", "removed", "reused", "differs")} == {
        "kept": [],
        "changed": ["b"],
        "added": ["a2"],
        "removed": ["a"],
        "reused": {"a2": "a"},
        "differs": {"b": ["args", "depends_on"]},
    }
    assert "[kept] a2: the same call as a" in compared(cli, old, new).out.splitlines()
    assert "[复用] a2: 与 a 是同一次调用" in compared(cli, old, new, "--lang", "zh").out.splitlines()


def test_equal_plans_say_so_and_wording_of_a_call_is_no_difference(cli):
    shown = compared(cli, [{"id": "a", "tool": "t", "description": "one"}], [{"id": "a", "tool": "t"}])
    assert shown.out == "[kept] a\nthe plans do the same\n"
    words = compared(cli, [{"id": "a", "description": "one"}], [{"id": "a", "description": "two"}])
    assert words.out.splitlines()[-1] == "    changed: description"


def test_the_flow_chart_has_one_box_for_each_step_of_both(cli):
    chart = compared(cli, OLD, NEW, "--format", "mermaid").out
    assert chart.startswith("flowchart LR\n")
    assert chart.count("]:::kept") == 2
    assert chart.count("]:::new") == 3
    assert chart.count("]:::removed") == 1
    assert "s1 -.-> s6" in chart
    assert compared(cli, OLD, NEW, "--format", "mermaid", "--json").json["mermaid"] == chart


def test_plans_that_are_none_are_refused_by_name(cli):
    shown = cli("plan", "diff", write(cli, "a.json", OLD), write(cli, "b.json", "[]"))
    assert shown.code == 3
    assert "b.json" in shown.err


# ── a first plan ──────────────────────────────────────────────────────────────────────────────────────────────

FIRST = [
    {
        "id": "ask",
        "tool": "price",
        "args": {"nights": "$inputs.nights", "luck": "good"},
        "done_when": "total > 0",
    },
    {
        "id": "book",
        "tool": "book",
        "args": {"guest": "Ann", "total": "$ask.total", "luck": "good"},
        "depends_on": ["ask"],
    },
]
MAKE = ("plan", "make", "--goal", "book a room", "--tools", "desk/tools.py:tools")


@pytest.fixture
def model(monkeypatch):
    with ModelServer("no plan", FIRST) as server:
        monkeypatch.setenv("FSM_AGENT_LLM_BASE_URL", server.url)
        monkeypatch.setenv("FSM_AGENT_LLM_MODEL", "m")
        yield server


def test_a_model_makes_a_plan_that_can_be_run_as_it_was_written(cli, model):
    shown = cli(*MAKE, "--input", "nights=2", "-o", "made.json")
    assert shown.code == 0, shown.err
    assert "made.json: 2 steps by test-model-1, 2 answers, 200 tokens" in shown.out
    assert "an answer was refused: /: plan text at line 1 column 1: no JSON" in shown.err
    assert "look: /steps/1" in shown.err
    assert cli.runs() == []
    assert cli.ledger == []
    code, status = cli.json("run", "made.json", "--tools", "desk/tools.py:tools", "--run-id", "r1")
    assert (code, status["questions"][0]["task"]) == (4, "book")
    assert asked(cli, status)[0] == 0


def test_without_a_file_stdout_is_the_plan_and_nothing_else(cli, model):
    shown = cli(*MAKE, "--input", "nights=2")
    assert [step["id"] for step in json.loads(shown.out)["steps"]] == ["ask", "book"]
    assert "2 answers" in shown.err


def test_as_json_the_plan_stands_beside_what_it_took(cli, model):
    code, made = cli.json(*MAKE, "--input", "nights=2")
    assert (code, made["schema"], made["answers"], made["tokens"]) == (0, "fsm-agent/plan-made@1", 2, 200)
    assert made["plan"]["steps"][1]["requires_confirmation"] is True
    assert made["plan"]["inputs"] == {"nights": 2}


def test_what_a_first_plan_cost_is_said_where_prices_are_declared(cli, model, monkeypatch):
    monkeypatch.setenv("FSM_AGENT_LLM_PRICE_INPUT", "100")
    monkeypatch.setenv("FSM_AGENT_LLM_PRICE_OUTPUT", "1000")
    _, made = cli.json(*MAKE, "--input", "nights=2")
    assert made["cost_micros"] == 2 * (90 * 100 + 10 * 1000)


def test_a_price_that_is_none_ends_before_anybody_is_asked(cli, model, monkeypatch):
    monkeypatch.setenv("FSM_AGENT_LLM_PRICE_INPUT", "cheap")
    shown = cli(*MAKE, "--input", "nights=2")
    assert (shown.code, shown.err.count("\n")) == (3, 1)
    assert (
        "model planner: $FSM_AGENT_LLM_PRICE_INPUT is 'cheap'; write the price of a million tokens"
        in shown.err
    )


def test_a_plan_that_cannot_be_written_or_made_is_said(cli, model):
    shown = cli(*MAKE, "--input", "nights=2", "-o", "gone/made.json")
    assert (
        "plan to gone/made.json: No such file or directory; choose a place that can be written" in shown.err
    )
    assert cli(*MAKE, "-o", "made.json").code == 3  # the server has no answer left
    assert not (cli.path / "made.json").exists()


# ── what was learnt ───────────────────────────────────────────────────────────────────────────────────────────


def test_history_tells_errors_tools_replans_and_strategies(cli):
    write(cli, "desk/planner.py", PLANNER)
    cli("run", "desk", "--run-id", "r1", "--input", "luck=wrong")
    shown = cli("history", "r1")
    text = " ".join(shown.out.split())
    assert "2 x price: unclassified_error (E-NIGHTS), in T2: there are no such nights" in text
    assert "price: 3 calls, 1 done, 2 failed" in text
    assert "begun, 1 adopted, 1 helped, 1 planner calls" in text
    assert "plan 2 by model, helped, 1 newly done" in text
    assert "plan 1, the first, replaced" in text
    assert "plan 2 by model, in force: T2b (price), T3 (book)" in text


def test_history_of_all_runs_sums_them_up(cli):
    for name in ("r1", "r2"):
        cli("run", "desk", "--run-id", name)
    code, found = cli.json("history")
    assert (code, found["schema"], found["runs"]) == (0, "fsm-agent/history@1", ["r1", "r2"])
    assert {t["tool"]: t["calls"] for t in found["tools"]} == {"look_up": 2, "price": 2}
    assert found["replans"] == []
    text = cli("history").out
    assert text.startswith("2 runs\n")
    assert text.count("  none") == 2
    assert "r2 plan 1, the first, in force" in text


def test_history_of_nothing_is_not_found(cli):
    assert cli("history").code == 9
    cli("run", "desk")
    assert cli("history", "r9").code == 9


def test_a_change_is_explained_to_the_end_user_in_both_languages(cli):
    planner = f"{write(cli, 'mine.py', PLANNER)}:planner"
    cli("run", "desk", "--run-id", "r1", "--input", "luck=wrong", "--planner", planner)
    _, told = cli.json("history", "r1")
    replan = told["replans"][0]
    assert replan["explanation"].startswith("The plan was changed because ")
    assert replan["explanation_zh"].startswith("计划已调整，原因：")
    assert "计划已调整" in cli("history", "r1", "--lang", "zh").out
    assert "The plan was changed because" in cli("history", "r1").out
    assert "for the user: The plan was changed" in cli("why", "r1").out
    assert cli.json("why", "r1", "T2b")[1]["changes"] == [replan["explanation"]]
