"""Who plans anew when a plan fails: a model, a planner of one's own, or nobody."""

from pathlib import Path
from typing import Final

from fsm_agent.faces.drive.jobs import kept_locator
from fsm_agent.faces.frame.files import is_file
from fsm_agent.runtime.planning.planner import Planner
from fsm_agent.runtime.tools.loading import load_planner

MODEL: Final = "model"
FILE: Final = "planner.py"
"""In a directory that is run, the file whose attribute ``planner`` plans when nothing else is said."""


def planner_of(named: str | None, where: str | None = None) -> tuple[Planner | None, str | None]:
    """Return the planner that *named* means, and where it is found again.

    Args:
        named: ``model`` (the one of the environment), ``none``, or a locator; None for what *where* has.
        where: What is run; a directory may have a planner of its own.

    Raises:
        ConfigError: The environment names no model, or the extra ``llm`` is missing.
        ToolboxError: The planner cannot be loaded.
    """
    if named is None and where is not None and is_file(Path(where) / FILE):
        named = f"{Path(where) / FILE}:planner"
    match named:
        case None | "none":
            return None, None
        case "model":
            from fsm_agent.runtime.planning.llm import ModelPlanner

            return ModelPlanner.from_env(), MODEL
        case _:
            return load_planner(named), kept_locator(named)
