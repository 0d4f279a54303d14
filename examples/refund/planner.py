"""Who changes the course of the conversation: a model if the environment names one, else the few lines below."""

import json
import os
from collections.abc import Mapping
from typing import Any

from fsm_agent import ModelPlanner, Proposal


class CustomerService:
    """Without an order number the customer is asked for a phone number; without a refund the parcel is looked for."""

    async def propose(self, briefing: Mapping[str, Any]) -> Proposal:
        """Return the steps that remain, with another way around the one that failed."""
        failed = briefing["failure"]["step"]
        todo = [
            {key: value for key, value in step.items() if key != "mark"}
            for step in briefing["plan"]
            if step["mark"] == "todo"
        ]
        step = next((s for s in todo if s["id"] == failed), {})
        rest = [s for s in todo if s["id"] != failed]
        match step.get("tool"):
            case "find_order":
                return self.answer({"steps": [*self.by_phone(failed), *rest]})
            case "find_refund":
                return self.answer({"steps": [self.by_parcel(step), *self.told_by(rest, failed, "parcel")]})
        why = f"there is no other way to {step.get('description', failed)}"
        return self.answer({"infeasible": why, "goal": "hand the customer over to a colleague"})

    def by_phone(self, failed: str) -> list[dict[str, Any]]:
        """Return the way by the customer's phone number."""
        ask = {"id": "phone", "description": "ask for the phone number that the order was made with"}
        find = {
            "id": f"{failed}_by_phone",
            "description": "look up the order by phone number",
            "tool": "find_orders_by_phone",
            "args": {"phone": "$phone"},
            "depends_on": ["phone"],
            "replaces": failed,
            "done_when": "order != null",
        }
        return [ask, find]

    def by_parcel(self, step: dict[str, Any]) -> dict[str, Any]:
        """Return the way by the parcel that was sent back."""
        return {
            "id": "parcel",
            "description": "look for the parcel that was sent back",
            "tool": "track_return",
            "args": step["args"],
            "depends_on": step["depends_on"],
            "replaces": step["id"],
            "done_when": "text != null",
        }

    def told_by(self, steps: list[dict[str, Any]], old: str, new: str) -> list[dict[str, Any]]:
        """Return *steps* so that what one step told them, another one tells."""
        text = json.dumps(steps).replace(f"${old}.", f"${new}.").replace(f'"{old}"', f'"{new}"')
        found: list[dict[str, Any]] = json.loads(text)
        return found

    def answer(self, document: dict[str, Any]) -> Proposal:
        """Return *document* as a planner gives it: as text."""
        return Proposal(text=json.dumps(document), model="examples/refund/planner.py")


planner = ModelPlanner.from_env() if os.environ.get("FSM_AGENT_LLM_MODEL") else CustomerService()
