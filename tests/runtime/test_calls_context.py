"""What a tool is handed: who it is called for, and how it reports and counts."""

import asyncio
import contextlib
import contextvars
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.errors import UsageError
from fsm_agent.core.inputs import Progressed, Returned, Usage
from fsm_agent.runtime.tools.context import CallContext
from fsm_agent.runtime.tools.toolbox import Toolbox
from tests.runtime.calling import FAR, Shell, box


def test_the_context_names_the_call_and_carries_what_the_lifespan_yielded():
    seen = []
    log = []

    @contextlib.asynccontextmanager
    async def lifespan():
        log.append("in")
        yield {"client": 7}
        log.append("out")

    tools = Toolbox(lifespan=lifespan)

    @tools.write
    def tool(*, ctx: CallContext):
        seen.append(
            (
                ctx.idempotency_key,
                ctx.task,
                ctx.attempt,
                ctx.run,
                ctx.deadline_at,
                ctx.cancelled,
                ctx.lifespan,
            )
        )
        log.append("call")

    async def main():
        async with Shell(tools) as shell:
            shell.start("tool", attempt=3)
            await shell.outcome()

    asyncio.run(main())
    assert seen == [("k", "t", 3, "run-1", FAR, False, {"client": 7})]
    assert log == ["in", "call", "out"]


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
def test_reports_come_before_the_end_and_every_unit_spent_is_counted_once(is_async):
    def tool(*, ctx: CallContext):
        ctx.spend(tokens=10)
        ctx.spend(tokens=5, cost="0.01")
        ctx.progress(note="half")
        ctx.progress(advanced=False)
        ctx.spend(cost=Decimal("0.0000001"))
        ctx.spend(cost=2)
        return "end"

    async def awaited(*, ctx: CallContext):
        return tool(ctx=ctx)

    async def main():
        async with Shell(box()(awaited if is_async else tool)) as shell:
            shell.start("tool")
            first, second, last = [await shell.next() for _ in range(3)]
            # usage is taken when the loop hears the report: a thread may have spent more by then
            total = [first.usage, second.usage, last.outcome.usage]
            assert sum(u.tokens for u in total) == 15
            assert sum(u.cost_micros for u in total) == 2_010_001
            assert first == Progressed(task="t", attempt=1, advanced=True, note="half", usage=first.usage)
            assert second == Progressed(task="t", attempt=1, advanced=False, usage=second.usage)
            assert last.outcome.value == "end"

    asyncio.run(main())


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**9)), max_size=5))
def test_usage_adds_up_exactly(spent):
    ctx = CallContext(idempotency_key="k")
    for tokens, micros in spent:
        ctx.spend(tokens=tokens, cost=Decimal(micros) / 1_000_000)
    assert ctx.take_usage() == Usage(tokens=sum(t for t, _ in spent), cost_micros=sum(m for _, m in spent))
    assert ctx.take_usage() == Usage()


@pytest.mark.parametrize(
    "amount",
    [
        {"cost": 0.01},
        {"cost": "-1"},
        {"cost": "much"},
        {"cost": Decimal("NaN")},
        {"cost": "Infinity"},
        {"cost": True},
        {"cost": "1e30"},
        {"tokens": -1},
        {"tokens": 1.5},
        {"tokens": True},
        {"cost": "1e999999999"},
    ],
)
def test_an_amount_that_is_no_exact_money_or_negative_is_refused(amount):
    ctx = CallContext(idempotency_key="k")
    with pytest.raises(UsageError, match=r"ctx.spend .* was given|is of type"):
        ctx.spend(**amount)
    assert ctx.take_usage() == Usage()


def test_a_context_made_for_a_test_of_a_tool_needs_no_engine():
    ctx = CallContext(idempotency_key="k")
    ctx.progress(note="x")
    assert ctx.cancelled is False
    ctx.cancel()
    assert ctx.cancelled is True


def test_a_thread_sees_the_context_variables_of_whoever_started_it():
    variable = contextvars.ContextVar("variable")

    def tool():
        return variable.get()

    async def main():
        async with Shell(box()(tool)) as shell:
            variable.set("seen")
            shell.start("tool")
            assert (await shell.outcome()).value == "seen"

    asyncio.run(main())


# ── many at once ──────────────────────────────────────────────────────────────────────────────────────────────


def test_many_calls_at_once_end_each_exactly_once():
    tools = Toolbox()

    @tools.read
    def sync(n: int, *, ctx: CallContext):
        ctx.progress(note=str(n))
        return n

    @tools.read
    async def awaited(n: int):
        await asyncio.sleep(0)
        if n % 3 == 0:
            raise ValueError(n)
        return n

    async def main():
        async with Shell(tools) as shell:
            for n in range(60):
                shell.start("sync" if n % 2 else "awaited", attempt=n + 1, n=n)
            heard = [await shell.next() for _ in range(90)]
            assert sorted(g.attempt for g in heard if isinstance(g, Returned)) == list(range(1, 61))
            assert sorted(int(g.note) for g in heard if isinstance(g, Progressed)) == list(range(1, 60, 2))
            assert shell.calls.open_calls == 0
            assert shell.silent()

    asyncio.run(main())
