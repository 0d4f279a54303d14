"""No test makes a run that nobody audits: what makes runs in memory is called where the audit follows."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
MAKERS = {"RunController.start", "RunController.open", "Engine.create", "Engine.open", "Lab", "VirtualRun"}
"""Calls that make a run, or go on with one."""
AUDITED = {
    "runtime/runs.py": {"RunController.start", "RunController.open"},
    "core/kit.py": {"Engine.create", "Engine.open", "Lab"},
    "laws/test_decider_laws.py": {"Lab"},
    "testing/test_tools.py": {"RunController.start"},
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

    def walk(node, safe):
        if isinstance(node, ast.With | ast.AsyncWith):
            safe = safe or any("raises" in ast.unparse(item.context_expr) for item in node.items)
        if isinstance(node, ast.Call):
            name = name_of(node)
            if name in MAKERS - allowed and not safe:
                yield f"{place}:{node.lineno}: {name}"
            if name == "simulate" and not safe:
                yield f"{place}:{node.lineno}: simulate without clean"
            safe = safe or name == "clean"
        for child in ast.iter_child_nodes(node):
            yield from walk(child, safe)

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
        ("with pytest.raises(E):\n    RunController.open(s, 'r', t)", []),
        ("x = simulate(load(f))", [":1: simulate without clean"]),
        ("x = clean(simulate(load(f))).events", []),
        ("with pytest.raises(E):\n    simulate(x)", []),
        ("with lab([]) as run: ...", []),
    ],
)
def test_a_run_that_nobody_audits_is_found(text, found):
    assert list(unaudited(text)) == found
