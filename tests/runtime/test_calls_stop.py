"""When nobody waits any more: threads are abandoned, coroutines cancelled, late replies heard."""

import asyncio
import contextlib
import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

from fsm_agent.core.errors import ToolboxError
from fsm_agent.core.inputs import Call
from fsm_agent.core.signals import Applied, Signal
from fsm_agent.runtime.tools.context import CallContext, Reconciled
from fsm_agent.runtime.tools.toolbox import Toolbox
from tests.runtime.calling import PATIENCE_S, Shell, box, outcome_of


def test_a_thread_that_outlives_its_deadline_is_abandoned_and_its_late_reply_still_reported():
    begun, go = threading.Event(), threading.Event()

    def tool(*, ctx: CallContext):
        begun.set()
        assert go.wait(PATIENCE_S)
        ctx.progress(note="too late")
        return {"id": 1}

    async def main():
        async with Shell(box("write")(tool)) as shell:
            shell.start("tool")
            await asyncio.to_thread(begun.wait, PATIENCE_S)
            assert (shell.calls.open_calls, shell.calls.running("t", 1)) == (1, True)
            shell.stop(cut_off=False)
            shell.stop(cut_off=False)
            assert (shell.calls.open_calls, shell.calls.abandoned_threads) == (0, 1)
            assert shell.calls.running("t", 1), "its effect may still come"
            assert not shell.calls.running("t", 2)
            assert shell.silent()
            go.set()
            outcome = await shell.outcome()
            assert outcome.value == {"id": 1}
            assert (shell.calls.abandoned_threads, shell.calls.running("t", 1)) == (0, False)
            assert shell.silent(), "reports of an abandoned call are not heard"

    asyncio.run(main())


def test_a_write_that_is_no_longer_waited_for_is_not_told_to_stop_but_a_read_is():
    begun, go = threading.Event(), threading.Event()

    def tool(*, ctx: CallContext):
        begun.set()
        assert go.wait(PATIENCE_S)
        return ctx.cancelled

    async def main(cut_off):
        begun.clear()
        go.clear()
        async with Shell(box()(tool)) as shell:
            shell.start("tool")
            await asyncio.to_thread(begun.wait, PATIENCE_S)
            shell.stop(cut_off=cut_off)
            go.set()
            return (await shell.outcome()).value

    assert asyncio.run(main(cut_off=False)) is False
    assert asyncio.run(main(cut_off=True)) is True


def test_fifty_hung_threads_do_not_keep_the_next_call_from_running():
    go = threading.Event()

    def tool(hang: bool):
        if hang:
            assert go.wait(PATIENCE_S)
        return hang

    async def main():
        async with Shell(box("write")(tool)) as shell:
            for attempt in range(1, 51):
                shell.start("tool", attempt=attempt, hang=True)
                shell.stop(cut_off=False, attempt=attempt)
            assert shell.calls.abandoned_threads == 50
            shell.start("tool", attempt=51, hang=False)
            given = await shell.next()
            assert (given.attempt, given.outcome.value) == (51, False)
            go.set()
            late = {(await shell.next()).attempt for _ in range(50)}
            assert late == set(range(1, 51))
            assert shell.calls.abandoned_threads == 0

    asyncio.run(main())


def test_at_the_cap_of_abandoned_threads_new_sync_calls_are_refused_and_async_ones_are_not():
    go = threading.Event()
    tools = Toolbox()

    @tools.write
    def hung():
        assert go.wait(PATIENCE_S)

    @tools.write
    async def light():
        return 1

    hung.reconcile(Reconciled.absent)

    async def main():
        async with Shell(tools, max_abandoned=2) as shell:
            for attempt in (1, 2):
                shell.start("hung", attempt=attempt)
                shell.stop(cut_off=False, attempt=attempt)
            shell.start("hung", attempt=3)
            outcome = await shell.outcome()
            assert (outcome.signal, outcome.applied) == (Signal.TRANSIENT_ERROR, Applied.NO)
            assert "2 threads run on past their deadline" in outcome.error["message"]
            assert not shell.calls.running("t", 3)
            shell.start("light", attempt=4)
            assert (await shell.outcome()).value == 1
            shell.probe("hung")
            given = await shell.next()
            assert given.verdict == "inconclusive"
            assert "2 threads run on" in given.evidence
            go.set()
            await shell.next()
            await shell.next()
            shell.start("hung", attempt=5)
            assert (await shell.outcome()).kind == "value", "a thread that came back makes room"

    asyncio.run(main())


def test_an_async_call_that_is_cut_off_ends_and_says_nothing_more():
    log = []

    async def tool():
        log.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            log.append("ended")

    async def main():
        async with Shell(box()(tool)) as shell:
            shell.start("tool")
            await shell.until(lambda: log)
            shell.stop(cut_off=True)
            await shell.until(lambda: not shell.calls.running("t", 1))
            assert log == ["begun", "ended"]
            assert shell.calls.abandoned_threads == 0
            assert shell.silent()

    asyncio.run(main())


def test_a_call_that_is_cut_off_before_it_began_leaves_nothing_behind():
    async def tool(): ...

    async def main():
        async with Shell(box()(tool)) as shell:
            shell.start("tool")
            shell.stop(cut_off=True)
            await shell.until(lambda: not shell.calls.running("t", 1))
            assert shell.silent()

    asyncio.run(main())


def test_what_a_cut_off_call_has_spent_is_not_forgotten():
    async def tool(*, ctx: CallContext):
        ctx.spend(tokens=7)
        await asyncio.Event().wait()

    async def main():
        async with Shell(box()(tool)) as shell:
            shell.start("tool")
            await asyncio.sleep(0)
            shell.stop(cut_off=True)
            outcome = await shell.outcome()
            assert (outcome.kind, outcome.usage.tokens, outcome.applied) == ("lost", 7, Applied.MAYBE)

    asyncio.run(main())


def test_an_async_write_goes_on_when_nobody_waits_and_its_late_reply_is_reported():
    async def main():
        go = asyncio.Event()

        async def tool():
            await go.wait()
            return "late"

        async with Shell(box("write")(tool)) as shell:
            shell.start("tool")
            await asyncio.sleep(0)
            shell.stop(cut_off=False)
            assert shell.calls.running("t", 1)
            assert shell.silent()
            go.set()
            assert (await shell.outcome()).value == "late"

    asyncio.run(main())


def test_a_tool_that_answers_its_cancellation_with_a_value_is_heard():
    async def tool():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "saved"

    async def main():
        async with Shell(box()(tool)) as shell:
            shell.start("tool")
            await asyncio.sleep(0)
            shell.stop(cut_off=True)
            assert (await shell.outcome()).value == "saved"

    asyncio.run(main())


def test_a_tool_that_cancels_itself_is_an_outcome():
    async def tool():
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    outcome = outcome_of(box("write")(tool))
    assert (outcome.kind, outcome.applied, outcome.error["class"]) == (
        "error",
        Applied.MAYBE,
        "asyncio.exceptions.CancelledError",
    )


@pytest.mark.parametrize("begun", [True, False], ids=["waiting", "before its first turn"])
def test_a_cancellation_from_outside_still_cancels_and_is_reported(begun):
    async def tool():
        await asyncio.Event().wait()

    async def main():
        async with Shell(box("write")(tool)) as shell:
            shell.start("tool")
            if begun:
                await asyncio.sleep(0)
            (task,) = asyncio.all_tasks() - {asyncio.current_task()}
            task.cancel()
            outcome = await shell.outcome()
            assert task.cancelled()
            assert (outcome.kind, outcome.applied) == ("error", Applied.MAYBE)

    asyncio.run(main())


def test_stopping_a_call_that_has_ended_or_never_was_changes_nothing():
    async def main():
        async with Shell(box()(lambda: 1)) as shell:
            shell.stop(cut_off=True)
            shell.start("tool")
            assert (await shell.outcome()).value == 1
            shell.stop(cut_off=True)
            assert (shell.calls.open_calls, shell.calls.abandoned_threads) == (0, 0)

    asyncio.run(main())


# ── the end of the run ────────────────────────────────────────────────────────────────────────────────────────


def test_leaving_cancels_async_calls_abandons_threads_and_reports_nothing_afterwards():
    go, done = threading.Event(), threading.Event()
    log = []
    tools = Toolbox()

    @tools.write
    def hung():
        assert go.wait(PATIENCE_S)
        done.set()

    @tools.write
    async def waiting():
        try:
            await asyncio.Event().wait()
        finally:
            log.append("cancelled")

    async def main():
        async with Shell(tools) as shell:
            shell.start("hung", attempt=1)
            shell.start("waiting", attempt=2)
            await asyncio.sleep(0)
        assert log == ["cancelled"]
        go.set()
        assert await asyncio.to_thread(done.wait, PATIENCE_S)
        await asyncio.sleep(0)
        assert shell.silent()

    asyncio.run(main())


def test_a_tool_that_will_not_be_cancelled_does_not_hold_up_the_end(monkeypatch):
    monkeypatch.setattr("fsm_agent.runtime.driving.calls.GRACE_S", 0.01)

    async def main():
        go = asyncio.Event()

        async def stubborn():
            while not go.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await go.wait()

        async with Shell(box()(stubborn)) as shell:
            shell.start("tool")
            await asyncio.sleep(0)
        assert shell.calls.running("t", 1)
        go.set()
        await shell.until(lambda: not shell.calls.running("t", 1))
        assert shell.silent()

    asyncio.run(main())


def test_a_hung_tool_does_not_keep_the_process_alive():
    code = """
import asyncio, threading
from fsm_agent.core.inputs import Call
from fsm_agent.runtime.driving.calls import Calls
from fsm_agent.runtime.classifying import load_classifier
from fsm_agent.runtime.tools.toolbox import Toolbox
from fsm_agent.runtime.secrets.vault import Vault
tools = Toolbox()
begun = threading.Event()
@tools.read
def hung():
    begun.set()
    threading.Event().wait()
async def main():
    async with Calls(tools, load_classifier(), run_id="r", vault=Vault(), report=print, clock_us=lambda: 1) as calls:
        calls.start(Call(task="t", attempt=1, tool="hung", args={}, key="k", deadline_at=2))
        await asyncio.to_thread(begun.wait)
asyncio.run(main())
print("left")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "left", "")


def test_an_ended_call_keeps_nothing_of_its_tool_alive():
    class Big:
        pass

    refs = []

    def tool():
        big = Big()
        refs.append(weakref.ref(big))
        raise ValueError("with a traceback that holds it")

    async def main():
        async with Shell(box()(tool)) as shell:
            shell.start("tool")
            await shell.outcome()
            await shell.until(lambda: (gc.collect(), refs[0]() is None)[1])

    asyncio.run(main())


@pytest.mark.parametrize("error", [ValueError("no database"), SystemExit(4)], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("when", ["entering", "leaving"])
def test_a_lifespan_that_fails_is_one_clear_error(error, when):
    @contextlib.asynccontextmanager
    async def lifespan():
        if when == "entering":
            raise error
        yield 1
        raise error

    async def main():
        async with Shell(Toolbox(lifespan=lifespan)):
            pass

    with pytest.raises(ToolboxError, match=f"toolbox lifespan: {when} it raised {type(error).__name__}: "):
        asyncio.run(main())


def test_a_lifespan_may_be_a_context_manager_itself_and_never_swallows_an_error():
    class Pool:
        async def __aenter__(self):
            return self

        async def __aexit__(self, *error):
            return True

    pool = Pool()
    seen = []

    def tool(ctx: CallContext):
        seen.append(ctx.lifespan)

    tools = Toolbox(lifespan=pool)
    tools.add(tool, effect="read")

    async def main():
        async with Shell(tools) as shell:
            shell.start("tool")
            await shell.outcome()
            raise LookupError("of the driver")

    with pytest.raises(LookupError):
        asyncio.run(main())
    assert seen == [pool]


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
def test_leaving_while_a_probe_is_out_says_nothing_about_it(is_async):
    go = threading.Event()

    def slow():
        assert go.wait(PATIENCE_S)
        return Reconciled.absent()

    async def waiting():
        await asyncio.Event().wait()

    async def main():
        async with Shell(box("write", reconcile=waiting if is_async else slow)(lambda: None)) as shell:
            shell.probe("tool")
            assert shell.calls.open_calls == 1
            await asyncio.sleep(0)
        go.set()
        await shell.until(lambda: shell.calls.abandoned_threads == 0)
        assert shell.silent()

    asyncio.run(main())


def test_threads_are_reused_and_end_with_the_run():
    seen = set()

    def tool():
        seen.add(threading.current_thread())

    async def main():
        async with Shell(box()(tool)) as shell:
            for attempt in range(1, 30):
                shell.start("tool", attempt=attempt)
                await shell.outcome()

    asyncio.run(main())
    assert len(seen) < 10
    for thread in seen:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        assert thread.daemon


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("effect", ["read", "idempotent", "write", "irreversible"])
def test_a_call_whose_time_was_over_before_it_began_is_not_made(effect, is_async):
    made = []

    async def waits():
        made.append(1)

    def works():
        made.append(1)

    async def main():
        async with Shell(box(effect)(waits if is_async else works)) as shell:
            call = Call(task="t", attempt=1, tool="tool", args={}, key="k", deadline_at=next(shell.clock) + 1)
            shell.calls.start(call)
            outcome = await shell.outcome()
            assert (outcome.applied, outcome.error["code"]) == (Applied.NO, "E-TOO-LATE")
            assert not shell.calls.running("t", 1)
        assert made == []

    asyncio.run(main())
