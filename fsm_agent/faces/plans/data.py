"""What commands about plans and scenarios print with ``--json``: ``(value, screen) → JSON value``."""

from typing import Any

import attrs

from fsm_agent.faces.frame.screen import Screen
from fsm_agent.faces.plans.files import Checked, Simulated
from fsm_agent.runtime.planning.plans import Plan


def checked(value: Checked, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/plan-check@1``; a plan with errors ends in an error instead."""
    del screen
    return {
        "schema": "fsm-agent/plan-check@1",
        "ok": True,
        "file": value.file,
        "digest": value.plan.digest,
        "steps": len(value.plan.steps),
        "tools": value.tools,
        "faults": [attrs.asdict(fault) for fault in value.warnings],
    }


def plan(value: Plan, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/plan@1``: the plan in its normal form."""
    del screen
    return {"schema": "fsm-agent/plan@1", "digest": value.digest, "plan": dict(value.doc)}


def simulated(value: Simulated, screen: Screen) -> list[dict[str, Any]]:
    """A list with one object per scenario."""
    del screen
    return [result.to_data() for result in value.results]
