"""A planner that asks a model, and first plans from one: prompts from :mod:`fsm_agent.core.replanning.prompt`, answers unbelieved.

Nothing that a model writes is acted on here. A proposal goes to the gate as text; a first plan is parsed and checked
against the toolbox, and the model is told what was wrong with it and asked again, a few times.
"""

import os
from collections.abc import Mapping
from typing import Any, Final, Self

import attrs

from fsm_agent.core import canon
from fsm_agent.core.errors import ConfigError, Fault, PlanError, UsageError
from fsm_agent.core.inputs import NO_USAGE, Usage
from fsm_agent.core.plans import text as plantext
from fsm_agent.core.replanning import briefing as briefings
from fsm_agent.core.replanning import prompt
from fsm_agent.runtime.planning import prices
from fsm_agent.runtime.planning.endpoint import Endpoint
from fsm_agent.runtime.planning.planner import PlannerError, Proposal
from fsm_agent.runtime.planning.plans import Plan
from fsm_agent.runtime.tools.toolbox import Toolbox

BASE_URL: Final = "FSM_AGENT_LLM_BASE_URL"
MODEL: Final = "FSM_AGENT_LLM_MODEL"
API_KEY: Final = "FSM_AGENT_LLM_API_KEY"
VARIABLES: Final[Mapping[str, str]] = {
    BASE_URL: "address of an OpenAI-compatible endpoint, such as http://127.0.0.1:8000/v1",
    MODEL: "name of the model there",
    API_KEY: "its key; left out for a server that wants none",
    **prices.VARIABLES,
}
"""Variables of the environment that say which model plans, and what each means."""
TRIES: Final = 3
"""How many answers a first plan may take."""


class ModelPlanner:
    """A planner that asks a model behind an OpenAI-compatible endpoint.

    Attributes:
        endpoint: Whom it asks.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        """Ask *endpoint*."""
        self.endpoint = endpoint

    @classmethod
    def from_env(cls) -> Self:
        """Return the planner that the environment names (see :data:`VARIABLES`).

        Raises:
            ConfigError: A variable is missing or makes no sense, or the extra ``llm`` is not installed.
        """
        for name in (BASE_URL, MODEL):
            if not os.environ.get(name):
                raise ConfigError(f"model planner: ${name} is not set; set it to the {VARIABLES[name]}")
        return cls(
            Endpoint(
                model=os.environ[MODEL],
                base_url=os.environ[BASE_URL],
                api_key=os.environ.get(API_KEY, ""),
                prices=prices.Prices.from_env(),
            )
        )

    async def propose(self, briefing: Mapping[str, Any]) -> Proposal:
        """Return the model's proposal for *briefing*.

        Raises:
            PlannerError: No answer that can be used.
        """
        return await self._ask(prompt.replan(briefing), [tool["name"] for tool in briefing["tools"]])

    async def make(
        self, goal: str, tools: Toolbox, *, inputs: Mapping[str, Any] | None = None, tries: int = TRIES
    ) -> "Made":
        """Return a first plan for *goal*, checked against *tools*. Nothing is run.

        Args:
            goal: In a person's words.
            tools: What the plan may call.
            inputs: Inputs that it may refer to; they become its own.
            tries: How many answers it may take.

        Raises:
            UsageError: The goal is empty.
            ValueRefusedError: The goal or an input cannot be stored exactly.
            PlanError: No answer was a plan that can be used; with the last reasons.
            InfeasibleError: The model says that there is none.
            PlannerError: The model cannot be reached.
        """
        if not goal.strip():
            raise UsageError("plan make: the goal is empty; say in words what is to be reached")
        canon.check({"goal": goal, "inputs": dict(inputs or {})}, "plan make")
        facts = [briefings.tool(spec) for spec in tools.specs]
        refused: list[str] = []
        used = NO_USAGE
        for count in range(1, tries + 1):
            messages = prompt.first(goal, facts, inputs=inputs, refused=refused)
            try:
                answer = await self._ask(messages, [spec.name for spec in tools.specs])
            except PlannerError as error:
                if error.answer is None:
                    raise
                used, text = _sum(used, error.usage), str(error)
            else:
                used = _sum(used, answer.usage)
                try:
                    plan = _checked(answer.text, goal, inputs or {}, tools)
                except InfeasibleError:
                    raise
                except PlanError as error:
                    text = "; ".join(map(str, error.faults[:12])) or str(error)
                else:
                    return Made(
                        plan=plan,
                        model=answer.model,
                        answers=count,
                        usage=used,
                        refused=tuple(refused),
                    )
            refused.append(canon.storable(text))
        raise _no_plan(refused)

    async def _ask(self, messages: prompt.Messages, tools: list[str]) -> Proposal:
        digest = prompt.digest(messages)
        try:
            reply = await self.endpoint.ask(messages, prompt.schema(tools))
        except PlannerError as error:
            error.prompt_digest = digest
            raise
        return Proposal(text=reply.text, model=reply.model, usage=reply.usage, prompt_digest=digest)


@attrs.frozen(kw_only=True)
class Made:
    """A first plan that a model made.

    Attributes:
        plan: Sound, and fit for the toolbox.
        model: Who made it.
        answers: How many answers it took.
        usage: What they used.
        refused: What was wrong with the earlier ones.
    """

    plan: Plan
    model: str
    answers: int
    usage: Usage
    refused: tuple[str, ...]


class InfeasibleError(PlanError):
    """The model says that no plan can reach the goal. A person decides; the goal it proposes is nothing but words."""


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(tokens=one.tokens + other.tokens, cost_micros=one.cost_micros + other.cost_micros)


def _checked(text: str, goal: str, inputs: Mapping[str, Any], tools: Toolbox) -> Plan:
    """Return the plan in *text*. Its steps are the model's, goal and inputs the person's; calls that are no reads ask.

    Raises:
        PlanError: It is none, or does not fit the tools.
        InfeasibleError: It says that there is none.
    """
    found = plantext.read(text)
    if isinstance(found, dict) and found.get("infeasible"):
        why, other = str(found["infeasible"])[:2000], str(found.get("goal") or "")[:2000]
        words = f"plan make: the model says that the goal cannot be reached: {why}"
        raise InfeasibleError(f"{words}; it proposes instead: {other}" if other else words)
    steps = found.get("steps") if isinstance(found, dict) else found
    document = {"goal": goal, **({"inputs": dict(inputs)} if inputs else {}), "steps": steps}
    plan = Plan.make(document, tools=tools)
    harmless = {spec.name for spec in tools.specs if spec.effect == "read"}
    asking = _asking(plan.doc["steps"], harmless, tools.default_tool)
    return Plan.make({**plan.doc, "steps": asking}, tools=tools)


def _asking(steps: list[dict[str, Any]], harmless: set[str], default: str | None) -> list[dict[str, Any]]:
    """Return *steps* so that each which may call more than reads asks a person first."""
    out = []
    for step in steps:
        calls = {step.get("tool", default), *(other["tool"] for other in step.get("alternatives", ()))}
        doc = dict(step)
        if "plan" in doc:
            doc["plan"] = {**doc["plan"], "steps": _asking(doc["plan"]["steps"], harmless, default)}
        elif calls - harmless - {None}:
            doc["requires_confirmation"] = True
        out.append(doc)
    return out


def _no_plan(refused: list[str]) -> PlanError:
    last = refused[-1]
    fault = Fault(
        at="",
        code="no-plan",
        message=f"no answer of the model was a plan: {last}",
        fix="say the goal otherwise",
    )
    return PlanError(f"plan make: {len(refused)} answers, none of them a plan; the last: {last}", [fault])
