"""What is known about a rule table in ``configs/`` or a file, sound or not; loading one to use it refuses the unsound."""

from collections.abc import Mapping
from pathlib import Path

from fsm_agent.core.errors import RulesError
from fsm_agent.core.rules.analysis import Report, check
from fsm_agent.core.rules.table import Finding, Table
from fsm_agent.runtime import configs


def check_rules(
    name: str | Path, params: Mapping[str, int | float] | None = None
) -> tuple[Table | None, Report]:
    """Return a rule table and what is known about it; no table if the document is none.

    Raises:
        NotFoundError: No such table or file.
        ConfigError: The file cannot be read, or is no TOML.
    """
    try:
        table = configs.read_rules(name, params)
    except RulesError as error:
        return None, Report(findings=tuple(f for f in error.findings if isinstance(f, Finding)))
    return table, check(table)
