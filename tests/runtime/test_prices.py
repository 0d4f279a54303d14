"""What a model's answers cost is counted in the run's budget, and never less than was used."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent import Plan, Toolbox, ToolError
from fsm_agent.core.errors import ConfigError
from fsm_agent.runtime.planning.llm import ModelPlanner
from fsm_agent.runtime.planning.prices import FREE, INPUT_PRICE, MOST_MICROS, OUTPUT_PRICE, Prices
from tests.runtime.model_server import ModelServer, said
from tests.runtime.runs import running

COUNTS = st.integers(0, 10**12)
PRICES = st.builds(Prices, input_micros=st.integers(0, 10**9), output_micros=st.integers(0, 10**9))


@given(PRICES, COUNTS, COUNTS, COUNTS)
def test_an_answer_costs_its_tokens_times_their_prices_rounded_up(prices, read, written, more):
    cost = prices.of(read, written, read + written + more)
    dearest = max(prices.input_micros, prices.output_micros)
    exact = (
        read * prices.input_micros + (written + more) * prices.output_micros
        if read or written
        else more * dearest
    )
    assert cost == min(MOST_MICROS, -(-exact // 1_000_000))
    assert 0 <= cost < 2**63
    assert FREE.of(read, written, more) == 0


@pytest.fixture
def model(monkeypatch):
    """Return a function that makes the planner of an environment."""

    def planner(server, **prices):
        monkeypatch.setenv("FSM_AGENT_LLM_BASE_URL", server.url)
        monkeypatch.setenv("FSM_AGENT_LLM_MODEL", "m")
        for name, price in prices.items():
            monkeypatch.setenv(f"FSM_AGENT_LLM_PRICE_{name.upper()}", price)
        return ModelPlanner.from_env()

    return planner


@pytest.mark.parametrize("name", [INPUT_PRICE, OUTPUT_PRICE])
@pytest.mark.parametrize("value", ["dear", "-1", "1e9", "nan", "0.1234567", "1" * 50])
def test_a_price_that_is_none_is_said_in_one_line(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as caught:
        Prices.from_env()
    assert str(caught.value).startswith(f"model planner: ${name} is '{value[:40]}")
    assert "such as 0." in str(caught.value)


def test_prices_are_left_out_or_written_with_decimals(monkeypatch):
    monkeypatch.setenv(INPUT_PRICE, "0.15")
    monkeypatch.setenv(OUTPUT_PRICE, " ")
    assert Prices.from_env() == Prices(input_micros=150_000)


def toolbox():
    tools = Toolbox()

    @tools.read
    async def look(n: int) -> dict:
        if n < 3:
            raise ToolError("E-GONE", "no such thing", applied="no")
        return {"n": n}

    return tools


STEPS = [{"id": "a", "tool": "look", "args": {"n": 1}}]


async def played(planner, budgets):
    plan = Plan.make({"steps": STEPS, "budgets": budgets})
    async with running(plan, toolbox(), planner=planner, params={"cooldown_s": 0}) as run:
        await run.wait()
        return run.status(), [e async for e in run.events()]


def test_the_cost_of_an_answer_is_in_the_log_and_in_the_account(model):
    with ModelServer([{"id": "b", "tool": "look", "args": {"n": 3}, "replaces": "a"}]) as server:
        status, events = asyncio.run(played(model(server, input="10", output="1000"), {"cost": "5.00"}))
    adopted = [e.data for e in events if e.type == "plan_adopted"][1]
    assert adopted["usage"] == {"tokens": 100, "cost_micros": 90 * 10 + 10 * 1000}
    assert status.state == "done"
    assert status.budgets["cost_micros"] == {"used": 10_900, "left": 5_000_000 - 10_900}


def test_answers_that_have_used_up_the_money_are_the_last_ones(model):
    with ModelServer("no plan", "no plan either", said("nor this")) as server:
        status, events = asyncio.run(played(model(server, output="1000"), {"cost": "0.015"}))
    assert status.state == "awaiting-confirmation"
    assert status.budgets["planner_calls"]["used"] == 2
    assert len(server.requests) == 2
    assert status.budgets["cost_micros"]["used"] == 20_000
    last = [e.data for e in events if e.type == "replan_refused"][-1]
    assert last["gate"] == "budget"
    assert last["why"].startswith("the planner is not asked, 20000 millionths of money")
