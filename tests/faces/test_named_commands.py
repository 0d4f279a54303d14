"""Whatever a run waits for, the commands that are named can be typed as they stand, and none of them is refused."""

import json
import shlex

import pytest

TOOLS = """
from fsm_agent import Toolbox, ToolError
tools = Toolbox()

@tools.read
def look(n: int = 1) -> dict:
    return {"n": n}

@tools.read
def denied() -> dict:
    raise ToolError("auth_denied", "no entry")

@tools.write
def pay(n: int = 1) -> dict:
    return {"paid": n}

@tools.write(timeout_s=1, settle_s=0)
def lost() -> dict:
    raise ToolError("gone", "the line went dead", applied="maybe")
"""
PAID = {"id": "p", "tool": "pay", "args": {"n": "$inputs.a"}}
ASKED = {"id": "q", "description": "how many?"}
LOST = {"steps": [{"id": "p", "tool": "lost"}]}
PARTS = [
    {"id": "p", "tool": "pay"},
    {**ASKED, "depends_on": ["p"]},
    {"id": "r", "tool": "look", "depends_on": ["q"]},
]
STATES = {
    "a done write in question": ({"inputs": {"a": 1}, "steps": [PAID, ASKED]}, ["set", "r1", "a=2"]),
    "a nested plan in question": (
        {
            "inputs": {"a": 1},
            "steps": [{"id": "n", "when": "$inputs.a == 1", "plan": {"steps": PARTS}}],
        },
        ["set", "r1", "a=2"],
    ),
    "an unknown result": (LOST, None),
    "an unknown result, cancelled": (LOST, ["cancel", "r1"]),
    "an unknown result, aborted": (LOST, ["answer", "r1", "p", '{"decide": "abort"}']),
    "a spent budget": (
        {
            "budgets": {"tool_calls": 1},
            "steps": [{"id": "a", "tool": "look"}, {"id": "b", "tool": "look", "args": {"n": 2}}],
        },
        None,
    ),
    "a failed read": ({"steps": [{"id": "a", "tool": "denied"}]}, None),
    "a broken constraint": (
        {
            "constraints": [{"key": "k", "value": 0, "check": "n <= value"}],
            "steps": [{"id": "a", "tool": "look"}],
        },
        None,
    ),
    "an approval": ({"steps": [{"id": "a", "tool": "pay", "requires_confirmation": True}]}, None),
    "a pause": ({"steps": [ASKED]}, ["pause", "r1"]),
}
FILLED = {"JSON": "1", "TEXT": "I looked", "budgets.KEY=V": "budgets.tool_calls=9", "why": "it may"}


def named(shown):
    """Return the commands that stand below ``next:``."""
    lines = shown.out.partition("next:\n")[2].splitlines()
    words = [shlex.split(line) for line in lines if line.startswith("  fsm-agent ")]
    return [[FILLED.get(word, word) for word in line[1:]] for line in words if "FILE" not in line]


def begin(cli, state, run):
    plan, word = STATES[state]
    (cli.path / "tools.py").write_text(TOOLS)
    (cli.path / "plan.json").write_text(json.dumps(plan))
    cli("run", "plan.json", "--tools", "tools.py:tools", "--run-id", run, "--repairs", "none")
    if word is not None:
        assert cli(*[run if part == "r1" else part for part in word]).code == 0


@pytest.mark.parametrize("state", STATES)
def test_each_command_that_a_state_names_is_heard(cli, state):
    begin(cli, state, "r1")
    commands = named(cli("status", "r1"))
    assert commands
    for number, command in enumerate(commands):
        run = f"r{number + 2}"
        begin(cli, state, run)
        fresh = named(cli("status", run))[number]
        assert fresh[0] == command[0]
        shown = cli(*fresh)
        assert "E-" not in shown.err.partition(":")[0], f"{fresh}: {shown.err}"


def test_a_run_that_is_cancelled_over_an_unknown_result_says_whose_word_it_waits_for(cli):
    begin(cli, "an unknown result, cancelled", "r1")
    shown = cli("why", "r1")
    assert "fsm-agent cancel r1 --acknowledge p" in shown.out
    assert cli("cancel", "r1", "--acknowledge", "p").code == 0
    cli("resume", "r1")
    assert cli.json("status", "r1")[1]["state"] == "cancelled"


def test_a_run_whose_budget_is_spent_goes_on_by_the_commands_that_it_names(cli):
    begin(cli, "a spent budget", "r1")
    raise_it, go_on, *_ = named(cli("status", "r1"))
    assert cli(*raise_it).code == 0
    assert cli(*go_on).code == 0
    assert cli.json("status", "r1")[1]["state"] == "done"


def test_a_part_that_waits_for_a_word_about_its_plan_says_so(cli):
    begin(cli, "a nested plan in question", "r1")
    assert cli("answer", "r1", "n/q", "3").code == 0
    shown = cli("why", "r1", "n/r")
    assert "n has begun, and an input that it rests on changed" in " ".join(shown.out.split())
    assert named(shown)[0][:3] == ["answer", "r1", "n"]
