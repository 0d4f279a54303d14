"""Who plans anew when a source is missing: a model if the environment names one, else the few lines below."""

import json
import os
from collections.abc import Mapping
from typing import Any

from fsm_agent import ModelPlanner, Proposal


class WidenTheSearch:
    """Where an extract found nothing, look in the folders below too, and extract again from what is found there."""

    async def propose(self, briefing: Mapping[str, Any]) -> Proposal:
        """Return the steps to do, with a detour in front of the one that failed."""
        failed = briefing["failure"]["step"]
        todo = [
            {k: v for k, v in step.items() if k != "mark"}
            for step in briefing["plan"]
            if step["mark"] == "todo"
        ]
        step = next((s for s in todo if s["id"] == failed), None)
        if step is None or step.get("tool") != "extract" or "widen_search" in step.get("depends_on", ()):
            return self.answer({"infeasible": f"I know no way around {failed}", "goal": briefing["goal"]})
        widen = {
            "id": "widen_search",
            "description": "Look in the folders below, too",
            "tool": "search",
            "args": {"folder": "$inputs.folder", "deep": True},
            "produces": ["files"],
        }
        again = {
            **step,
            "id": f"{failed}_v2",
            "replaces": failed,
            "depends_on": ["widen_search"],
            "args": {**step["args"], "files": "$widen_search.files"},
        }
        return self.answer({"steps": [widen, again, *(s for s in todo if s["id"] != failed)]})

    def answer(self, document: dict[str, Any]) -> Proposal:
        """Return *document* as a planner gives it: as text."""
        return Proposal(text=json.dumps(document), model="examples/research/planner.py")


planner = ModelPlanner.from_env() if os.environ.get("FSM_AGENT_LLM_MODEL") else WidenTheSearch()
