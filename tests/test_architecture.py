"""The shape of the package: small rooms, short functions, arrows one way, nothing left undone."""

import ast
import functools
import graphlib
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "fsm_agent"
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
SOURCES = [*MODULES.values(), *sorted((ROOT / "tests").rglob("*.py"))]
LINES = 450
FUNCTION_LINES = 70


@functools.cache
def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(name, path):
    """Yield the modules of the package that *name* imports at its top, wherever in it they stand."""
    for node in ast.walk(tree(path)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name in MODULES)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                for alias in names:
                    whole = f"{module}.{alias.name}"
                    found = whole if whole in MODULES else module
                    if found in MODULES:
                        yield found
            case ast.ImportFrom(level=level) if level:
                raise AssertionError(f"{name}:{node.lineno} imports relatively")


def test_the_package_is_found():
    assert {
        "fsm_agent",
        "fsm_agent.core.machine",
        "fsm_agent.faces.cli",
        "fsm_agent.runtime.controller",
    } <= set(MODULES)


def test_no_module_is_long():
    counts = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in MODULES.items()}
    assert {name: count for name, count in counts.items() if count > LINES} == {}


def lines_of(function):
    """Return how many lines of code a function has, without its docstring."""
    count = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        count -= function.body[0].end_lineno - function.body[0].lineno + 1
    return count


def test_no_function_is_long():
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    long = [
        f"{name}.{node.name}: {lines_of(node)} lines"
        for name, path in MODULES.items()
        for node in ast.walk(tree(path))
        if isinstance(node, functions) and lines_of(node) > FUNCTION_LINES
    ]
    assert long == []


def test_no_imports_go_round_in_a_circle():
    graph = {
        name: {found for found in imports(name, path) if found != name} for name, path in MODULES.items()
    }
    assert sum(map(len, graph.values())) > len(graph)  # so there is something that could
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" → ".join(reversed(error.args[1])))


def test_nobody_imports_the_package_itself_from_inside():
    """Public names are for others: inside, every module says where a thing comes from."""
    inside = [
        name for name, path in MODULES.items() if name != "fsm_agent" and "fsm_agent" in imports(name, path)
    ]
    assert inside == []


def test_every_module_opens_with_its_rule():
    silent = [
        name for name, path in MODULES.items() if path.stat().st_size and not ast.get_docstring(tree(path))
    ]
    assert silent == []


UNDONE = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")))


def test_nothing_is_left_for_later():
    """Words for it do not stand in a comment; in a text they may, as in an error that quotes a user."""
    left = []
    for path in SOURCES:
        with tokenize.open(path) as file:
            comments = [t for t in tokenize.generate_tokens(file.readline) if t.type == tokenize.COMMENT]
        left += [f"{path.name}:{t.start[0]}: {t.string}" for t in comments if UNDONE.search(t.string)]
        docs = [
            ast.get_docstring(n)
            for n in ast.walk(tree(path))
            if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)
        ]
        left += [f"{path.name}: {text}" for text in docs if text and UNDONE.search(text)]
    assert left == []


def test_nobody_sleeps():
    """Whoever waits waits for something; neither the package nor its tests stop the clock's hands by hand."""
    sleepers = []
    for path in SOURCES:
        for node in ast.walk(tree(path)):
            match node:
                case ast.Attribute(value=ast.Name(id="time"), attr="sleep"):
                    sleepers.append(f"{path.relative_to(ROOT)}:{node.lineno}")
                case ast.ImportFrom(module="time", names=names) if any(
                    alias.name == "sleep" for alias in names
                ):
                    sleepers.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert sleepers == []


def test_what_is_left_out_of_the_types_says_why():
    """An ignored check names its rule, so that it ends with its cause."""
    bare = re.compile(r"#\s*type:\s*ignore(?!\[)|#\s*noqa(?!: [A-Z]+[0-9]+)")
    found = [
        f"{path.name}:{number}"
        for path in MODULES.values()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if bare.search(line)
    ]
    assert found == []
