"""The public names: sorted, typed, each loaded when it is first used."""

import ast
from pathlib import Path

import pytest

import fsm_agent

STUB = ast.parse(Path(fsm_agent.__file__).with_suffix(".pyi").read_text())
NAMES = [
    "CallContext",
    "FsmAgentError",
    "Plan",
    "Reconciled",
    "RunController",
    "ToolError",
    "Toolbox",
    "apply",
    "audit",
    "commands",
    "decide",
    "replay",
    "run_machine",
    "task_machine",
]


def test_the_names_of_the_contract_are_public_and_sorted():
    assert set(NAMES) <= set(fsm_agent.__all__)
    assert fsm_agent.__all__ == sorted(fsm_agent.__all__)
    assert dir(fsm_agent) == fsm_agent.__all__


@pytest.mark.parametrize("name", fsm_agent.__all__)
def test_every_public_name_can_be_had(name):
    assert getattr(fsm_agent, name) is getattr(fsm_agent, name)


def test_the_stub_has_the_same_names_from_the_same_places():
    found = {}
    for node in STUB.body:
        if isinstance(node, ast.ImportFrom):
            found.update({alias.asname or alias.name: node.module for alias in node.names})
    listed = next(ast.literal_eval(node.value) for node in STUB.body if isinstance(node, ast.Assign))
    assert listed == fsm_agent.__all__
    assert found == {
        "__version__": "fsm_agent.version",
        **{name: f"fsm_agent.{home}" for name, home in fsm_agent._HOME.items()},
    }


def test_every_error_of_the_tree_is_public():
    from fsm_agent.core import errors

    tree = {n for n, v in vars(errors).items() if isinstance(v, type) and issubclass(v, errors.FsmAgentError)}
    assert tree <= set(fsm_agent.__all__)


def test_an_unknown_name_is_an_attribute_error_that_lists_the_known_ones():
    with pytest.raises(AttributeError, match=r"has no attribute 'Ran'; it has .*RunController"):
        fsm_agent.Ran
