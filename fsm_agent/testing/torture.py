"""The slot through which any engine can be run on the cases that other engines failed.

A case is a scenario: a plan, tools that play a world, people, and what must come out. An adapter runs it and says what
it has seen. What is compared is what every engine has: how the run and its steps ended, how often the tools were called
and what took effect; this package's own words (moves, decisions, events, prompts) are compared for this engine alone.

    class Mine:
        name = "mine"

        def run(self, scenario: Scenario) -> Observed:
            if scenario.planner is not None:
                raise CannotExpressError("it has no planner")
            ...

``python tools/torture.py --adapter my_module:Mine`` prints the table.
"""

from typing import Final, Protocol

import attrs

from fsm_agent.core.errors import PlanError
from fsm_agent.core.machine import RunState
from fsm_agent.testing.expect import NOTHING_EXPECTED, Expect, Observed, failures
from fsm_agent.testing.scenario import Scenario
from fsm_agent.testing.simulate import simulate

OWN: Final = (
    "moves",
    "decisions",
    "never",
    "events",
    "says",
    "prompts",
    "planner_calls",
    "within_us",
    "refused",
)
"""Expectations in this engine's own words; that a plan is refused counts for every engine, by whatever code."""


class CannotExpressError(Exception):
    """The engine has nothing that corresponds to something in the case; the message says what."""


class Adapter(Protocol):
    """An engine under test.

    Attributes:
        name: What the table calls it.
    """

    name: str

    def run(self, scenario: Scenario) -> Observed:
        """Carry *scenario* out, with its tools as a world, and say what was seen.

        Tools play ``scenario.tools`` (:mod:`fsm_agent.testing.world` does that for anybody), people say what
        ``scenario.operator`` says, and a ``crash`` is a new process. States go by the names of this package:
        ``done``, ``failed``, ``cancelled``, ``awaiting-confirmation``, ``unknown-result``.

        Raises:
            CannotExpressError: The engine has nothing that corresponds to something in the case.
        """
        ...


@attrs.frozen(kw_only=True)
class Verdict:
    """What became of a case.

    Attributes:
        passed: Whether what came out is right; None where the engine cannot express the case.
        words: What came out, or what is wrong, or what is missing.
    """

    passed: bool | None
    words: str


class Own:
    """This engine, in its own simulation."""

    name = "fsm_agent"

    def run(self, scenario: Scenario) -> Observed:
        """Carry *scenario* out; a plan that is refused is an observation like any other."""
        try:
            observed = simulate(scenario).observed
        except PlanError as error:
            return refused(scenario, tuple(fault.code for fault in error.faults))
        assert observed is not None, "a simulation observes"
        return observed


def refused(scenario: Scenario, codes: tuple[str, ...]) -> Observed:
    """Return what is seen of a case whose plan was refused: nothing ran."""
    nothing = dict.fromkeys(scenario.tools, 0)
    return Observed(
        run=RunState.PENDING.value,
        tasks={},
        results={},
        effects=nothing,
        calls=nothing,
        planner_calls=0,
        moves=(),
        decisions=(),
        virtual_us=0,
        refused=codes,
    )


def judge(adapter: Adapter, scenario: Scenario) -> Verdict:
    """Run *scenario* by *adapter* and return what became of it.

    Another engine than this one is judged by what every engine has.
    """
    own = isinstance(adapter, Own)
    try:
        observed = adapter.run(scenario)
    except CannotExpressError as error:
        return Verdict(passed=None, words=str(error))
    wrong = failures(scenario.expect if own else common(scenario.expect), observed)
    if not own and scenario.expect.refused and not observed.refused:
        wrong.append("refused: the plan was expected to be refused, and was accepted")
    return Verdict(passed=not wrong, words="; ".join(wrong) if wrong else shown(observed))


def common(expect: Expect) -> Expect:
    """Return of *expect* what every engine can meet."""
    return attrs.evolve(expect, **{name: getattr(NOTHING_EXPECTED, name) for name in OWN})


def shown(observed: Observed) -> str:
    """Return in a few words how a case ended."""
    if observed.refused:
        return f"refused: {', '.join(dict.fromkeys(observed.refused))}"
    effects = [f"{name} {count}" for name, count in observed.effects.items() if count]
    return f"{observed.run}; effects: {', '.join(effects)}" if effects else observed.run
