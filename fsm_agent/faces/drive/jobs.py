"""What ``run`` is asked to run: the plan, its tools, its table and its inputs, read and checked before anything is stored."""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from fsm_agent.core import canon
from fsm_agent.core.errors import ConfigError, Fault, NotFoundError, PlanError, UsageError
from fsm_agent.core.plans.members import every
from fsm_agent.core.replanning.repairs import Repair
from fsm_agent.core.rules.table import Table
from fsm_agent.faces.frame.files import is_file, is_folder
from fsm_agent.runtime.configs import REPAIRS, load_repairs, load_rules
from fsm_agent.runtime.planning.plans import Plan
from fsm_agent.runtime.tools.loading import load_toolbox
from fsm_agent.runtime.tools.toolbox import Toolbox

ATTRIBUTE: Final = "tools"
"""Name of the toolbox in the ``tools.py`` of a directory."""


@attrs.frozen(kw_only=True)
class Job:
    """A plan that can be run.

    Attributes:
        plan: Checked against the tools.
        tools: The toolbox; an empty one if the plan needs none.
        locator: Where ``resume`` finds the toolbox again, or None.
        rules: The table.
        repairs: What is tried before anybody plans anew.
        inputs: Over the plan's own.
    """

    plan: Plan
    tools: Toolbox
    locator: str | None
    rules: Table
    repairs: tuple[Repair, ...]
    inputs: Mapping[str, Any]


def read_job(
    where: str,
    *,
    tools: str | None,
    rules: str | None,
    params: Mapping[str, int | float],
    inputs: Mapping[str, Any],
    repairs: str | None = None,
) -> Job:
    """Read everything that a run needs.

    Args:
        where: A plan file, or a directory that holds ``plan.json``.
        tools: A locator, over the directory's ``tools.py``.
        rules: Name or file of a table, over the directory's ``rules.toml``; without either ``$FSM_AGENT_RULES`` counts.
        params: Thresholds of the table.
        inputs: Over the directory's ``inputs.json``.
        repairs: Name or file of the repairs, over the directory's ``repairs.toml``.

    Raises:
        FsmAgentError: Something is missing or wrong; nothing has been stored.
    """
    folder = Path(where) if is_folder(where) else None
    file = plan_file(where)
    box, locator = toolbox_of(tools, folder)
    plan = Plan.load(file, tools=box if locator is not None else None)
    given = {**_inputs(folder), **inputs}
    canon.check({"inputs": given, "tools": locator})
    _know_inputs(plan, given)
    if locator is None and any(step.tool for step in every(plan.steps)):
        raise UsageError(
            f"{where}: its steps name tools, and no toolbox was given; add --tools FILE.py:ATTRIBUTE"
        )
    table = rules
    if table is None and folder is not None and (folder / "rules.toml").exists():
        table = str(folder / "rules.toml")
    return Job(
        plan=plan,
        tools=box,
        locator=locator,
        rules=load_rules(
            table if table is not None else os.environ.get("FSM_AGENT_RULES") or "default", params
        ),
        repairs=load_repairs(repairs if repairs is not None else _repairs(folder)),
        inputs=given,
    )


def _repairs(folder: Path | None) -> str:
    own = folder / "repairs.toml" if folder is not None else None
    return str(own) if own is not None and own.exists() else REPAIRS


def plan_file(where: str) -> str:
    """Return the plan file that *where* means.

    Raises:
        PlanError: It is a directory without ``plan.json``.
    """
    if not is_folder(where):
        return where
    file = Path(where) / "plan.json"
    if not file.exists():
        fault = Fault(
            at="",
            code="not-a-file",
            message="it is a directory without plan.json",
            fix="name a plan file, or a directory that holds plan.json",
        )
        raise PlanError(f"plan {where}: {fault.message}; {fault.fix}", [fault])
    return str(file)


def toolbox_of(tools: str | None, folder: Path | None) -> tuple[Toolbox, str | None]:
    """Return the toolbox that *tools* names, else that of *folder*, else an empty one; and its locator.

    Raises:
        ToolboxError: It cannot be loaded.
    """
    if tools is None and folder is not None and (folder / "tools.py").exists():
        tools = f"{folder / 'tools.py'}:{ATTRIBUTE}"
    if tools is None:
        return Toolbox(), None
    return load_toolbox(tools), kept_locator(tools)


def kept_locator(locator: str) -> str:
    """Return *locator* as the log keeps it: files relative to the working directory where they lie below it."""
    where, _, attribute = locator.rpartition(":")
    if not is_file(where):
        return locator
    path = Path(where).resolve()
    here = Path.cwd().resolve()
    return f"{path.relative_to(here) if path.is_relative_to(here) else path}:{attribute}"


def _inputs(folder: Path | None) -> Mapping[str, Any]:
    if folder is None or not (folder / "inputs.json").exists():
        return {}
    found = read_json(folder / "inputs.json", "inputs")
    if not isinstance(found, dict):
        raise ConfigError(f'inputs {folder / "inputs.json"}: it is no object; write {{"NAME": VALUE}}')
    return found


def read_json(path: Path, what: str) -> Any:
    """Return the JSON value in a file.

    Raises:
        NotFoundError: There is none.
        ConfigError: It cannot be read, or is no JSON.
    """
    try:
        return canon.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        raise NotFoundError(f"{what} {path}: there is no such file; check the path") from None
    except OSError as error:
        raise ConfigError(
            f"{what} {path}: {os.strerror(error.errno or 0)}; give a file that can be read"
        ) from None
    except ValueError as error:
        raise ConfigError(f"{what} {path}: it is no JSON ({error}); write one JSON value in UTF-8") from None


def _know_inputs(plan: Plan, given: Mapping[str, Any]) -> None:
    """Refuse an input that nothing in the plan can read; it would be a slip of the pen."""
    text = canon.encode(plan.doc).decode()
    for name in given:
        if name not in plan.inputs and f"inputs.{name}" not in text:
            known = list(plan.inputs)
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"the plan has {', '.join(known) or 'none'}"
            raise UsageError(f"input {name[:80]}: the plan reads no such input; {hint}")
