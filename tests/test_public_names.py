"""What others may rely on: the names of the package, where they live, and that types and run time agree."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import fsm_agent
from fsm_agent.core.errors import FsmAgentError

STUB = Path(fsm_agent.__file__).with_suffix(".pyi")

NAMES = """
    CallContext ConfigError ConflictError CorruptError Decider Decision Env ExpressionError Fault FencedError FsmAgentError
    IllegalTransitionError ModelPlanner NotFoundError OwnedError Plan PlanError Planner PlannerError Proposal
    Reconciled RefusedError RulesError RunController
    Status StoreDeadError StoreError StoreUnusableError ToolError Toolbox ToolboxError UnresolvedReferenceError
    UsageError ValueRefusedError __version__ apply audit commands decide replay run_machine task_machine
    what_if why
""".split()


def test_the_public_names_are_these():
    assert fsm_agent.__all__ == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_can_be_had_and_says_what_it_is(name):
    thing = getattr(fsm_agent, name)
    assert thing is getattr(fsm_agent, name)
    if name != "__version__":
        assert thing.__doc__
        assert thing.__name__ == name


def test_the_names_are_listed_for_whoever_asks():
    assert dir(fsm_agent) == fsm_agent.__all__


def test_a_name_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(AttributeError, match=r"no attribute 'RunControler'; it has CallContext, .*, why"):
        fsm_agent.RunControler


def test_the_types_name_the_same_things_from_the_same_places():
    body = ast.parse(STUB.read_text(encoding="utf-8")).body
    typed = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(typed) == sorted(NAMES)
    for name, (module, own) in typed.items():
        assert getattr(import_module(module), own) is getattr(fsm_agent, name), name
    (listed,) = [n.value for n in body if isinstance(n, ast.Assign) and n.targets[0].id == "__all__"]
    assert ast.literal_eval(listed) == fsm_agent.__all__


def test_every_error_that_is_public_is_of_one_tree_and_has_a_code_of_its_own():
    errors = [getattr(fsm_agent, n) for n in NAMES if n.endswith("Error") and n != "ToolError"]
    assert all(issubclass(error, FsmAgentError) for error in errors)
    codes = [error.code for error in errors]
    assert len(set(codes)) == len(codes)
    assert {error.exit_code for error in errors} <= {2, 3, 7, 8, 9, 70}
