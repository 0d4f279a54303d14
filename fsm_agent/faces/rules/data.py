"""What commands about rule tables print with ``--json``: ``(value, screen) → JSON value``."""

from typing import Any

from fsm_agent.core.rules.rows import Row
from fsm_agent.core.rules.table import Table
from fsm_agent.faces.frame.screen import Screen
from fsm_agent.faces.rules.files import Checks, Compared, Trial


def checks(value: Checks, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/rules-check@1``; of several tables all findings, and each by itself under ``tables``."""
    del screen
    own = [{"table": name, **report.as_json()} for name, report in value.reports]
    if len(own) == 1:
        return value.reports[0][1].as_json()
    return {
        "schema": "fsm-agent/rules-check@1",
        "sound": value.sound,
        "findings": [{"table": one["table"], **finding} for one in own for finding in one["findings"]],
        "proof": None,
        "bound": None,
        "tables": [{key: part for key, part in one.items() if key != "schema"} for one in own],
    }


def table(value: Table, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/rules@1``: the table with everything that it extends and all params in place."""
    del screen
    return {"schema": "fsm-agent/rules@1", "digest": value.digest, "table": dict(value.canonical)}


def compared(value: Compared, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/rules-diff@1``."""
    del screen
    return {
        "schema": "fsm-agent/rules-diff@1",
        "a": {"table": value.a.name, "digest": value.a.digest},
        "b": {"table": value.b.name, "digest": value.b.digest},
        "params": {name: list(values) for name, values in value.params.items()},
        "regions": [region.as_json() for region in value.regions],
    }


def trial(value: Trial, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/rules-test@1``; ``changes`` is null where the table has no answer to some facts."""
    del screen
    return {
        "schema": "fsm-agent/rules-test@1",
        "table": value.table.name,
        "digest": value.table.digest,
        "machine": value.machine,
        "state": value.state,
        "signal": value.signal,
        "facts": dict(value.facts),
        **_row(value.row),
        "tier": value.row.tier,
        "delay": value.row.delay,
        "reason": value.table.reason(value.row, value.signal, value.facts),
        "near": [{**_row(row), "missed": list(failed)} for row, failed in value.near],
        "changes": None
        if value.changes is None
        else [{"fact": c.fact, "values": c.values, **_row(c.row)} for c in value.changes],
    }


def _row(row: Row) -> dict[str, Any]:
    return {"row": row.id, "source": row.source, "line": row.line, "decide": row.decide.value}
