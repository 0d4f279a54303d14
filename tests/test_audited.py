"""No test makes a run that nobody audits: what makes runs in memory is called where the audit follows."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
MAKERS = {"RunController.start", "Engine.create", "Engine.open", "Lab", "VirtualRun"}
"""Calls that make a run in memory, or go on with one; a controller that is given a store leaves its run there."""
AUDITED = {
    "audit/corpus.py": {"simulate"},  # each log is held to be clean before anybody tampers with it
    "audit/mutants.py": {"simulate"},  # of golden logs, which are audited; of mutants on purpose
    "core/kit.py": {"Engine.create", "Engine.open", "Lab"},
    "crash/rig.py": {"Engine.create", "Engine.open"},
    "core/replay/test_fork.py": {
        "Engine.open",
        "Lab",
    },  # a lab for runs that were forked, each checked at its end
    "core/test_audit.py": {"Lab"},  # tampers with the logs and audits them
    "core/test_decide.py": {"Lab"},  # a run's first events only, for a loop of one's own
    "core/test_gate.py": {"Lab", "simulate"},  # no failures: the audit is one of them; each lab is checked
    "core/test_replay.py": {"Lab"},  # checks the run, then takes its log apart
    "crash/test_clocks.py": {
        "Engine.create",
        "Engine.open",
    },  # crashed engines; each log is audited at its end
    "crash/fighter.py": {"Engine.create", "Engine.open"},  # whoever watches the rivals audits their logs
    "laws/chaos.py": {"Lab"},
    "laws/replans.py": {"simulate"},  # each result is checked, its audit too
    "runtime/test_engine.py": {"Engine.create", "Engine.open", "Lab"},  # engines that are dead half-way
    "laws/test_bounded.py": {"Lab"},  # thousands of branches of one run, each held to the same promises
    "laws/test_decider_laws.py": {"Lab"},
    "torture/test_speed.py": {"Engine.create"},  # counted first, and audited when it has come to its end
}
"""Where they may be called: these audit at the end; everybody else uses them."""


def name_of(call):
    match call.func:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=owner), attr=attribute):
            return f"{owner}.{attribute}"
        case _:
            return ""


def unaudited(text, place=""):
    """Yield the calls in *text* that make a run, and stand neither where it is refused nor where it is audited."""
    allowed = AUDITED.get(place, set())

    def walk(node, safe, judged=False):
        if isinstance(node, ast.FunctionDef):  # of a result that is ok the audit is clean
            judged = any(
                isinstance(n, ast.Assert) and ast.unparse(n.test).endswith(".ok") for n in ast.walk(node)
            )
        if isinstance(node, ast.With | ast.AsyncWith):
            safe = safe or any("raises" in ast.unparse(item.context_expr) for item in node.items)
        if isinstance(node, ast.Call):
            name = name_of(node)
            stored = name == "RunController.start" and any(k.arg == "store" for k in node.keywords)
            if name in MAKERS - allowed and not safe and not stored:
                yield f"{place}:{node.lineno}: {name}"
            if name == "simulate" and name not in allowed and not safe and not judged:
                yield f"{place}:{node.lineno}: simulate without clean"
            safe = safe or name == "clean"
        for child in ast.iter_child_nodes(node):
            yield from walk(child, safe, judged)

    yield from walk(ast.parse(text), safe=False)


FILES = sorted(path for path in TESTS.rglob("*.py") if path != Path(__file__))


@pytest.mark.parametrize("path", FILES, ids=[path.relative_to(TESTS).as_posix() for path in FILES])
def test_every_run_in_memory_is_made_where_it_is_audited(path):
    found = unaudited(path.read_text(encoding="utf-8"), path.relative_to(TESTS).as_posix())
    assert list(found) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("run = Lab([])", [":1: Lab"]),
        (
            "async def f():\n    async with await RunController.start(p, t) as run: ...",
            [":2: RunController.start"],
        ),
        ("async def f():\n    async with await RunController.start(p, t, store=s) as run: ...", []),
        ("with pytest.raises(E):\n    RunController.start(p, t)", []),
        ("x = simulate(load(f))", [":1: simulate without clean"]),
        ("x = clean(simulate(load(f))).events", []),
        ("def f():\n    r = simulate(x)\n    assert r.ok", []),
        ("with pytest.raises(E):\n    simulate(x)", []),
        ("with lab([]) as run: ...", []),
    ],
)
def test_a_run_that_nobody_audits_is_found(text, found):
    assert list(unaudited(text)) == found
