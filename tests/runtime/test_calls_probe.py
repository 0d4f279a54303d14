"""Probes find out whether an effect happened; what proves nothing says so."""

import asyncio
import functools
import threading

import pytest

from fsm_agent.core.inputs import Probed, Usage
from fsm_agent.runtime.tools.context import CallContext, Reconciled, ToolError
from fsm_agent.runtime.tools.toolbox import Toolbox
from tests.runtime.calling import PATIENCE_S, Shell, box, raising


async def coroutine(): ...


def forgot_await():
    return coroutine()


def probed(probe, effect="write", **options):
    async def main():
        tools = box(effect, reconcile=probe, **options)(lambda: None)
        async with Shell(tools) as shell:
            shell.probe("tool")
            given = await shell.next()
            assert shell.calls.open_calls == 0
        assert shell.silent()
        return given

    return asyncio.run(main())


def asynchronous(fn):
    @functools.wraps(fn)
    async def wrapper(**args):
        return fn(**args)

    return wrapper


@pytest.mark.parametrize("shape", [lambda fn: fn, asynchronous], ids=["thread", "loop"])
@pytest.mark.parametrize(
    ("finding", "expected"),
    [
        (Reconciled.applied({"id": 1}), ("applied", {"id": 1}, "the probe of tool says applied")),
        (Reconciled.applied(why="in the ledger"), ("applied", None, "in the ledger")),
        (Reconciled.absent(), ("absent", None, "the probe of tool says absent")),
        (Reconciled.inconclusive("replica lags"), ("inconclusive", None, "replica lags")),
    ],
)
def test_a_probe_answers_with_its_finding(shape, finding, expected):
    given = probed(shape(lambda: finding))
    assert isinstance(given, Probed)
    assert (given.task, given.attempt) == ("t", 1)
    assert (given.verdict, given.result, given.evidence) == expected


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        (
            lambda: {"id": 1},
            "the probe of tool: a value of type dict was returned; return Reconciled.applied",
        ),
        (lambda: None, "a value of type NoneType was returned"),
        (forgot_await, "a value of type coroutine was returned"),
        (lambda: Reconciled.applied({"n": float("nan")}), "the probe of tool: value at $.n: the number nan"),
        (raising(ToolError("auth_denied", "no")), "the probe of tool failed: auth_denied: no"),
        (raising(SystemExit(2)), "the probe of tool failed: SystemExit: "),
    ],
)
def test_a_probe_that_does_not_answer_says_why_and_proves_nothing(probe, words):
    given = probed(probe)
    assert (given.verdict, given.result) == ("inconclusive", None)
    assert words in given.evidence


def test_a_finding_is_one_of_three_words():
    with pytest.raises(ValueError, match="verdict"):
        Reconciled(verdict="perhaps")


def test_a_probe_gets_the_arguments_and_the_key_of_the_call_and_what_it_spends_is_counted():
    seen = []
    tools = Toolbox()

    @tools.write
    def create(a: int, b: int = 2): ...

    @create.reconcile
    def find(a: int, b: int = 2, *, ctx: CallContext):
        seen.append((a, b, ctx.idempotency_key, ctx.attempt))
        ctx.progress(note="nobody hears this")
        ctx.spend(tokens=3)
        return Reconciled.absent()

    async def main():
        async with Shell(tools) as shell:
            shell.probe("create", attempt=4, a=1)
            given = await shell.next()
            assert given.usage == Usage(tokens=3)
            assert given.attempt == 4
            assert not shell.calls.running("t", 4)

    asyncio.run(main())
    assert seen == [(1, 2, "k", 4)]


def test_a_tool_without_a_probe_gives_an_inconclusive_answer():
    async def main():
        async with Shell(box("write")(lambda: None)) as shell:
            shell.probe("tool")
            given = await shell.next()
            assert (given.verdict, given.evidence) == (
                "inconclusive",
                "no probe was made: tool 'tool' has no probe",
            )

    asyncio.run(main())


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
def test_a_probe_that_misses_its_deadline_is_inconclusive_once_and_cut_off(is_async):
    go = threading.Event()
    ended = []

    def slow(*, ctx: CallContext):
        assert go.wait(PATIENCE_S)
        ended.append(ctx.cancelled)
        return Reconciled.applied(1)

    async def waiting(*, ctx: CallContext):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(ctx.cancelled)

    async def main():
        async with Shell(box("write", reconcile=waiting if is_async else slow)(lambda: None)) as shell:
            shell.probe("tool", deadline_at=0)
            given = await shell.next()
            assert given.verdict == "inconclusive"
            assert given.evidence == "probe timed out: the probe of tool did not answer by its deadline"
            assert not shell.calls.running("t", 1), "a probe has no effect that could still come"
            assert shell.calls.abandoned_threads == (0 if is_async else 1)
            go.set()
            await shell.until(lambda: ended)
            await shell.until(lambda: shell.calls.abandoned_threads == 0)
            assert ended == [True]
            assert shell.silent()

    asyncio.run(main())


def repeated(fn):
    async def main():
        async with Shell(box("idempotent")(fn)) as shell:
            shell.probe("tool", repeat=True)
            return await shell.next()

    return asyncio.run(main())


def test_repeating_an_idempotent_call_brings_its_value():
    given = repeated(lambda: {"id": 5})
    assert (given.verdict, given.result) == ("applied", {"id": 5})
    assert "repeated with its key" in given.evidence


@pytest.mark.parametrize(
    ("fn", "verdict", "words"),
    [
        (
            raising(ToolError("bad_request", "no such field", applied="no")),
            "absent",
            "bad_request: no such field",
        ),
        (raising(ToolError("bad_request", "perhaps", applied="maybe")), "inconclusive", "bad_request"),
        (raising(ConnectionRefusedError("down")), "inconclusive", "down"),
        (raising(ToolError("not_found", "gone", applied="no")), "inconclusive", "gone"),
        (raising(ToolError("rate_limited", "slow", applied="no")), "inconclusive", "slow"),
        (raising(TimeoutError("late")), "inconclusive", "late"),
        (lambda: {"ok": False, "error": "internal"}, "inconclusive", "internal"),
        (lambda: float("nan"), "inconclusive", "value at $"),
    ],
)
def test_an_error_of_the_repetition_says_nothing_about_the_first_call_unless_it_would_have_met_that_too(
    fn, verdict, words
):
    given = repeated(fn)
    assert (given.verdict, given.result) == (verdict, None)
    assert words in given.evidence


def test_a_repetition_that_answers_after_its_deadline_goes_on_and_is_the_calls_late_reply():
    async def main():
        go = asyncio.Event()

        async def tool():
            await go.wait()
            return {"id": 5}

        async with Shell(box("idempotent")(tool)) as shell:
            shell.probe("tool", repeat=True, deadline_at=0)
            given = await shell.next()
            assert given.verdict == "inconclusive"
            assert shell.calls.running("t", 1), "its effect may still come"
            go.set()
            late = await shell.next()
            assert (late.task, late.attempt, late.outcome.value) == ("t", 1, {"id": 5})

    asyncio.run(main())


@pytest.mark.parametrize("fn", [raising(ToolError("bad_request", "x", applied="no")), lambda: {"ok": False}])
def test_a_repetition_that_fails_after_its_deadline_proves_nothing_and_says_nothing(fn):
    async def main():
        go = asyncio.Event()

        async def tool():
            await go.wait()
            return fn()

        async with Shell(box("idempotent")(tool)) as shell:
            shell.probe("tool", repeat=True, deadline_at=0)
            assert (await shell.next()).verdict == "inconclusive"
            go.set()
            await shell.until(lambda: not shell.calls.running("t", 1))
            assert shell.silent()

    asyncio.run(main())
