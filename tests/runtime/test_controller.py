"""A run in one's own process: driven, asked, paused, cancelled, taken over; with tools that behave badly."""

import asyncio
import contextvars
import json
import threading

import pytest

from fsm_agent import CallContext, Plan, Reconciled, RunController, Toolbox, ToolError, audit
from fsm_agent.core.errors import (
    ConflictError,
    NotFoundError,
    OwnedError,
    PlanError,
    RefusedError,
    UsageError,
)
from tests.runtime.runs import check, go, one, plan_of, resumed, running, toolbox


async def reached(run, state):
    """Wait until task ``t`` is in *state*, although the run itself waits for a person by now."""
    await run._driving().wait(lambda: states(run)["t"] == state)


def states(run):
    return {name: task.state for name, task in run.status().tasks.items()}


# ── driving ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_plan_runs_to_its_end_and_reports():
    async def scenario():
        async def add(a, b):
            return a + b

        plan = plan_of(
            {"id": "x", "tool": "do", "args": {"a": 1, "b": 2}},
            {"id": "y", "tool": "do", "args": {"a": "$x", "b": 10}, "depends_on": ["x"]},
        )
        async with running(plan, toolbox(add)) as run:
            report = await run.wait()
            assert report["state"] == "done"
            assert report["done"] == ["x", "y"]
            assert run.status().tasks["y"].result == 13
            assert run.status().to_json()["schema"] == "fsm-agent/status@1"
            assert repr(run.status()).startswith(f"<run {run.id}: done, 2/2 done")
            assert ", attempts=1, result=13, reason='')" in repr(run.status().tasks["y"])
            assert "<table>" in run.status()._repr_html_()

    go(scenario())


@pytest.mark.parametrize("form", ["async", "sync", "reporting"])
def test_what_a_tool_sets_in_its_context_is_not_seen_by_the_next(form):
    variable = contextvars.ContextVar("variable", default="as it was")
    found = []

    def mark():
        found.append(variable.get())
        variable.set("changed")

    async def waiting():
        mark()
        await asyncio.sleep(0)

    async def telling(ctx: CallContext):
        mark()
        ctx.progress(note="half of it")
        await asyncio.sleep(0)

    async def scenario():
        tool = {"async": waiting, "sync": mark, "reporting": telling}[form]
        plan = plan_of({"id": "x", "tool": "do"}, {"id": "y", "tool": "do", "depends_on": ["x"]})
        async with running(plan, toolbox(tool)) as run:
            assert (await run.wait())["state"] == "done"
        assert found == ["as it was", "as it was"]

    go(scenario())


def test_nothing_starts_before_the_run_is_driven():
    async def scenario():
        called = []
        async with running(one("do"), toolbox(lambda: called.append(1))) as run:
            assert not called
            assert run.status().state == "running"
            await run.wait()
            assert called == [1]

    go(scenario())


def test_a_step_lets_only_what_is_ready_now_go():
    async def scenario():
        plan = plan_of(
            {"id": "a", "tool": "do"},
            {"id": "b", "tool": "do"},
            {"id": "c", "tool": "do", "depends_on": ["a", "b"]},
        )
        async with running(plan, toolbox(lambda: 1)) as run:
            await run.step()
            assert states(run) == {"a": "done", "b": "done", "c": "pending"}
            await run.step()
            assert states(run)["c"] == "done"

    go(scenario())


def test_a_slow_step_does_not_hold_up_another_branch():
    async def scenario():
        gate = asyncio.Event()

        async def act(wait):
            if wait:
                await gate.wait()
            return 1

        plan = plan_of(
            {"id": "slow", "tool": "do", "args": {"wait": True}},
            {"id": "a", "tool": "do", "args": {"wait": False}},
            {"id": "b", "tool": "do", "args": {"wait": False}, "depends_on": ["a"]},
        )
        async with running(plan, toolbox(act)) as run:
            await run.wait(until=lambda status: status.tasks["b"].state == "done")
            assert states(run) == {"slow": "running", "a": "done", "b": "done"}
            gate.set()
            assert (await run.wait())["state"] == "done"

    go(scenario())


def test_no_more_calls_are_out_than_there_are_workers():
    async def scenario():
        out, most = 0, 0

        async def act():
            nonlocal out, most
            out += 1
            most = max(most, out)
            await asyncio.sleep(0)
            out -= 1

        plan = plan_of(*({"id": f"s{i}", "tool": "do"} for i in range(20)))
        async with running(plan, toolbox(act), workers=3) as run:
            await run.wait()
        assert most == 3

    go(scenario())


def test_workers_must_be_at_least_one():
    with pytest.raises(UsageError, match="at least 1"):
        go(RunController.start(one("do"), toolbox(lambda: 1), workers=0))


def test_a_document_is_no_plan_and_a_tool_that_is_not_there_is_one_fault():
    with pytest.raises(UsageError, match=r"plan: a dict was given; make a plan of it with Plan\.make"):
        go(RunController.start({"steps": [{"id": "t", "tool": "do"}]}, toolbox(lambda: 1)))
    with pytest.raises(PlanError, match="plan: a fault was found at /steps/0/tool: there is no tool 'gone'"):
        go(RunController.start(one("gone"), toolbox(lambda: 1)))


def test_waiting_can_be_given_up_and_the_run_goes_on():
    async def scenario():
        gate = asyncio.Event()

        async def act():
            await gate.wait()

        async with running(one("do"), toolbox(act)) as run:
            with pytest.raises(TimeoutError):
                await run.wait(timeout_s=0.01)
            assert states(run) == {"t": "running"}
            gate.set()
            assert (await run.wait())["state"] == "done"

    go(scenario())


def test_listeners_hear_of_events_once_they_are_durable(tmp_path):
    async def scenario():
        heard = []
        async with running(
            one("do"), toolbox(lambda: 1), store=tmp_path / "s.db", run_id="r", listeners=[heard.extend]
        ) as run:
            await run.wait()
            assert [e.seq for e in heard] == list(range(1, run.head.seq + 1))

    go(scenario())


def test_events_can_be_followed_to_the_end():
    async def scenario():
        async with running(one("do"), toolbox(lambda: 1)) as run:

            async def follow():
                return [e.type async for e in run.events(follow=True)]

            following = asyncio.create_task(follow())
            await run.wait()
            assert (await following)[-1] == "run_closed"

    go(scenario())


# ── tools that behave badly ───────────────────────────────────────────────────────────────────────────────────

ME = []
ME.append(ME)


def a_generator():
    yield 1


BAD_VALUES = {
    "NaN": lambda: {"x": float("nan")},
    "a generator object": lambda: a_generator(),
    "an open file": lambda: open(__file__, "rb").close() or threading.Lock(),
    "itself": lambda: ME,
    "a set": lambda: {1, 2},
    "bytes": lambda: b"x",
    "a huge integer": lambda: 2**70,
    "a lone surrogate": lambda: "\ud800",
    "NUL": lambda: "a\x00b",
    "an integer as key": lambda: {1: 2},
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_a_value_that_cannot_be_stored_is_never_a_success(name):
    async def scenario():
        async with running(one("do"), toolbox(BAD_VALUES[name])) as run:
            await run.wait()
            task = run.status().tasks["t"]
            assert task.state == "failed"
            assert "cannot be stored exactly" in task.reason
            assert run.questions[0].task == "t"

    go(scenario())


@pytest.mark.parametrize("name", BAD_VALUES)
def test_a_write_that_returns_such_a_value_is_not_repeated(name):
    async def scenario():
        async with running(one("do"), toolbox(BAD_VALUES[name], "write")) as run:
            await run.wait()
            assert states(run) == {"t": "failed"}
            with pytest.raises(RefusedError, match="applied"):
                await run.retry("t", by="ann")
            assert run.status().tasks["t"].attempts == 1

    go(scenario())


@pytest.mark.parametrize(
    "error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit, MemoryError]
)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_tool_cannot_end_the_process_or_pass_for_done(error, kind):
    async def scenario():
        def raises():
            raise error("mine")

        async def araises():
            raise error("mine")

        async with running(one("do"), toolbox(raises if kind == "sync" else araises)) as run:
            report = await run.wait()
            assert states(run) == {"t": "failed"}
            assert report["state"] == "awaiting-confirmation"

    go(scenario())


def test_a_tool_that_hangs_in_a_thread_is_no_longer_waited_for_and_its_reply_settles_the_task():
    async def scenario():
        gate = threading.Event()

        def hang():
            gate.wait(10)
            return {"id": 7}

        tools = Toolbox()
        tools.add(hang, effect="write", name="do", timeout_s=0.05, settle_s=0.05)
        async with running(one("do"), tools) as run:
            await run.wait()
            assert states(run) == {"t": "unknown-result"}
            assert run.status().state == "unknown-result"
            with pytest.raises(RefusedError, match="still running here"):
                await run.reconcile("t", verdict="absent", evidence="I looked", by="ann")
            gate.set()
            await reached(run, "done")
            assert run.status().tasks["t"].result == {"id": 7}
            assert (await run.wait())["state"] == "done"

    go(scenario())


def test_a_probe_that_says_absent_proves_nothing_while_the_call_is_still_running():
    async def scenario():
        gate = threading.Event()
        made = []

        def create():
            gate.wait(10)
            made.append(1)
            return 1

        tools = Toolbox()
        tool = tools.add(create, effect="write", name="do", timeout_s=0.02, settle_s=0.01)

        def probe():
            return Reconciled.applied(1) if made else Reconciled.absent()

        tool.reconcile(probe)
        async with running(one("do"), tools) as run:
            await run.wait()
            assert states(run) == {"t": "unknown-result"}, "asked a person after inconclusive probes"
            gate.set()
            await reached(run, "done")
        assert made == [1]

    go(scenario())


def test_a_tool_that_changes_its_result_later_does_not_change_the_log():
    async def scenario():
        kept = {"list": [1]}
        async with running(one("do"), toolbox(lambda: kept)) as run:
            await run.wait()
            kept["list"].append(2)
            assert run.status().tasks["t"].result == {"list": [1]}

    go(scenario())


@pytest.mark.parametrize("value", [0, False, [], "", None, {}])
def test_empty_results_are_results(value):
    async def scenario():
        got = []
        tools = Toolbox()
        tools.add(lambda: value, effect="read", name="make")
        tools.add(lambda v: got.append(v), effect="read", name="take")
        plan = plan_of(
            {"id": "a", "tool": "make"}, {"id": "b", "tool": "take", "args": {"v": "$a"}, "depends_on": ["a"]}
        )
        async with running(plan, tools) as run:
            await run.wait()
        assert got == [value]
        assert type(got[0]) is type(value)

    go(scenario())


def test_a_type_error_inside_the_tool_is_one_attempt_each():
    async def scenario():
        calls = []

        def act():
            calls.append(1)
            raise TypeError("act() missing 1 required positional argument")

        async with running(one("do"), toolbox(act)) as run:
            await run.wait()
            assert len(calls) == run.status().tasks["t"].attempts

    go(scenario())


# ── people ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_approval_binds_what_was_shown():
    async def scenario():
        seen = []
        tools = toolbox(lambda amount: seen.append(amount), "write", confirm=True)
        async with running(one("do", args={"amount": 80}), tools) as run:
            await run.wait()
            (question,) = run.questions
            assert question.args == {"amount": 80}
            await question.edit(by="ann", amount=70)
            assert not seen
            with pytest.raises(RefusedError, match="digest"):
                await question.approve(by="ann")
            (edited,) = run.questions
            assert edited.args == {"amount": 70}
            await edited.approve(by="ann")
            assert (await run.wait())["state"] == "done"
        assert seen == [70]

    go(scenario())


@pytest.mark.parametrize("digest", [None, "", 0, "yes", {}, [], "0" * 64, "abc"])
def test_what_is_no_digest_approves_nothing(digest):
    async def scenario():
        async with running(one("do"), toolbox(lambda: 1, "write", confirm=True)) as run:
            await run.wait()
            with pytest.raises(RefusedError):
                await run.approve("t", digest=digest, by="ann")
            with pytest.raises(RefusedError):
                await run.approve("nobody", digest="0" * 64, by="ann")
            assert states(run) == {"t": "awaiting-confirmation"}
            events = [e async for e in run.events()]
            assert [e.type for e in events[-2:]] == ["move_refused", "move_refused"]

    go(scenario())


@pytest.mark.parametrize("by", [None, "", "  ", 3])
def test_nobody_approves_nothing(by):
    async def scenario():
        async with running(one("do"), toolbox(lambda: 1, "write", confirm=True)) as run:
            await run.wait()
            with pytest.raises(RefusedError, match="no name"):
                await run.questions[0].approve(by=by)
            assert states(run) == {"t": "awaiting-confirmation"}

    go(scenario())


def test_two_calls_alike_need_two_approvals_and_parallel_holds_are_apart():
    async def scenario():
        done = []
        tools = toolbox(lambda n: done.append(n), "write", confirm=True)
        plan = plan_of(*({"id": i, "tool": "do", "args": {"n": 1}} for i in ("a", "b")))
        async with running(plan, tools) as run:
            await run.wait()
            first, second = run.questions
            assert first.digest != second.digest
            await second.approve(by="ann")
            await run.wait()
            assert states(run) == {"a": "awaiting-confirmation", "b": "done"}
            with pytest.raises(RefusedError):
                await second.approve(by="ann")
        assert done == [1]

    go(scenario())


def test_a_step_without_a_tool_is_answered():
    async def scenario():
        plan = plan_of({"id": "ask", "description": "how many?", "done_when": "n > 0"})
        async with running(plan, Toolbox()) as run:
            await run.wait()
            (question,) = run.questions
            assert question.say == "how many?"
            with pytest.raises(RefusedError, match="fulfil"):
                await question.answer({"n": 0}, by="ann")
            with pytest.raises(RefusedError, match="cannot be stored"):
                await question.answer({"n": float("nan")}, by="ann")
            await question.answer({"n": 3}, by="ann")
            assert (await run.wait())["state"] == "done"

    go(scenario())


def test_a_failed_step_is_a_question_and_may_be_tried_again():
    async def scenario():
        working = []

        def act():
            if not working:
                raise ToolError("auth_denied", "the token has expired", applied="no")
            return 1

        async with running(one("do"), toolbox(act)) as run:
            await run.wait()
            (question,) = run.questions
            assert "retry" in question.answers
            with pytest.raises(RefusedError, match="legal answers"):
                await question.answer({"decide": "skip"}, by="ann")
            working.append(1)
            await question.answer({"decide": "retry"}, by="ann")
            assert (await run.wait())["state"] == "done"

    go(scenario())


def test_a_person_may_say_what_became_of_an_unknown_result_with_evidence():
    async def scenario():
        def act():
            raise ConnectionResetError("reset")

        async with running(one("do"), toolbox(act, "write")) as run:
            await run.wait()
            assert states(run) == {"t": "unknown-result"}
            with pytest.raises(RefusedError, match="reconcile it first"):
                await run.retry("t", by="ann")
            with pytest.raises(RefusedError, match="evidence"):
                await run.reconcile("t", verdict="applied", by="ann")
            await run.reconcile(
                "t", verdict="applied", evidence="ticket 7 is there", result={"id": 7}, by="ann"
            )
            assert (await run.wait())["state"] == "done"
            assert run.status().tasks["t"].result == {"id": 7}

    go(scenario())


def test_pause_holds_everything_until_resume():
    async def scenario():
        gate = asyncio.Event()

        async def act():
            await gate.wait()

        plan = plan_of({"id": "a", "tool": "do"}, {"id": "b", "tool": "do", "depends_on": ["a"]})
        async with running(plan, toolbox(act)) as run:
            await run.wait(until=lambda status: status.tasks["a"].state == "running")
            await run.pause(by="ann")
            gate.set()
            await run.wait()
            assert states(run) == {"a": "done", "b": "pending"}
            assert run.status().state == "awaiting-confirmation"
            assert "paused" in run.status().waiting
            await run.resume(by="ann")
            assert (await run.wait())["state"] == "done"

    go(scenario())


def test_cancel_stops_reads_and_awaits_writes():
    async def scenario():
        gate = asyncio.Event()

        async def act():
            await gate.wait()
            return 1

        tools = Toolbox()
        tools.add(act, effect="read", name="look")
        tools.add(act, effect="write", name="make")
        plan = plan_of(
            {"id": "r", "tool": "look"},
            {"id": "w", "tool": "make"},
            {"id": "x", "tool": "look", "depends_on": ["w"]},
        )
        async with running(plan, tools) as run:
            await run.wait(until=lambda status: status.tasks["w"].state == "running")
            await run.cancel(by="ann")
            assert states(run) == {"r": "cancelled", "w": "running", "x": "cancelled"}
            gate.set()
            report = await run.wait()
            assert report["state"] == "cancelled"
            assert states(run)["w"] == "done"
            with pytest.raises(RefusedError, match="nothing to cancel"):
                await run.cancel(by="ann")

    go(scenario())


def test_an_unknown_write_is_acknowledged_before_the_run_is_cancelled():
    async def scenario():
        def act():
            raise ConnectionResetError("reset")

        async with running(one("do"), toolbox(act, "write")) as run:
            await run.wait()
            await run.cancel(by="ann")
            assert run.status().state == "unknown-result"
            await run.cancel(by="ann", acknowledge=["t"])
            report = await run.wait()
            assert report["state"] == "cancelled"
            assert report["unknown"] == ["t"]
            await run.reconcile("t", verdict="absent", evidence="looked a week later", by="ann")
            assert states(run) == {"t": "failed"}

    go(scenario())


# ── stores, owners, restarts ──────────────────────────────────────────────────────────────────────────────────


def test_a_run_goes_on_in_another_controller_where_it_stopped(tmp_path):
    async def scenario():
        store = tmp_path / "runs.db"
        done = []
        tools = Toolbox()
        tools.add(lambda: done.append("look") or {"x": 1}, effect="read", name="look")
        tools.add(lambda v: done.append(v), effect="write", name="make", confirm=True)
        plan = plan_of(
            {"id": "a", "tool": "look"},
            {"id": "b", "tool": "make", "args": {"v": "$a.x"}, "depends_on": ["a"]},
        )
        async with running(plan, tools, store=store, run_id="r") as run:
            await run.wait()
        async with resumed(store, "r", tools) as run:
            assert [q.task for q in run.questions] == ["b"]
            await run.questions[0].approve(by="ann")
            assert (await run.wait())["state"] == "done"
        assert done == ["look", 1]
        async with resumed(store, "r", tools) as run:
            assert (await run.wait())["state"] == "done"
        assert done == ["look", 1]

    go(scenario())


def test_a_write_that_was_out_when_its_owner_left_is_unknown_and_looked_up(tmp_path):
    async def scenario():
        store = tmp_path / "runs.db"
        made = []
        never = asyncio.Event()

        tools = Toolbox()

        @tools.write(settle_s=0.01, timeout_s=0.05)
        async def make(*, ctx: CallContext):
            made.append(ctx.idempotency_key)
            await never.wait()

        @make.reconcile
        async def find(*, ctx: CallContext) -> Reconciled:
            return (
                Reconciled.applied({"n": len(made)}) if ctx.idempotency_key in made else Reconciled.absent()
            )

        async with running(one("make"), tools, store=store, run_id="r") as run:
            await run.wait(until=lambda status: bool(made))
        async with resumed(store, "r", tools) as run:
            assert states(run) == {"t": "unknown-result"}
            assert (await run.wait())["state"] == "done"
            assert run.status().tasks["t"].result == {"n": 1}
        assert len(made) == 1

    go(scenario())


def test_two_runs_with_one_id_are_one_run(tmp_path):
    async def scenario():
        store = tmp_path / "runs.db"
        async with running(one("do"), toolbox(lambda: 1), store=store, run_id="r"):
            with pytest.raises(ConflictError, match="r"):
                await RunController.start(one("do"), toolbox(lambda: 1), store=store, run_id="r")

    go(scenario())


def test_a_second_owner_is_refused_while_the_first_lives(tmp_path):
    async def scenario():
        store = tmp_path / "runs.db"
        async with running(one("do"), toolbox(lambda: 1), store=store, run_id="r"):
            with pytest.raises(OwnedError):
                await RunController.open(store, "r", toolbox(lambda: 1))

    go(scenario())


def test_an_unknown_run_is_not_found(tmp_path):
    async def scenario():
        with pytest.raises(NotFoundError):
            await RunController.open(tmp_path / "none.db", "r", toolbox(lambda: 1))
        async with running(one("do"), toolbox(lambda: 1), store=tmp_path / "s.db"):
            with pytest.raises(NotFoundError):
                await RunController.open(tmp_path / "s.db", "other", toolbox(lambda: 1))
            with pytest.raises(NotFoundError):
                await RunController.attach(tmp_path / "s.db", "other")

    go(scenario())


def test_words_reach_the_owner_through_the_inbox_and_come_back_answered(tmp_path):
    async def scenario():
        store = tmp_path / "runs.db"
        async with running(
            one("do"), toolbox(lambda: 1, "write", confirm=True), store=store, run_id="r"
        ) as run:
            await run.wait()
            async with await RunController.attach(store, "r") as other:
                assert other.status().state == "awaiting-confirmation"
                digest = other.questions[0].digest
                with pytest.raises(RefusedError, match="digest"):
                    await other.approve("t", digest="00000000", by="ann")
                await other.approve("t", digest=digest, by="ann")
                with pytest.raises(RefusedError):
                    await other.approve("t", digest=digest, by="bea")
                with pytest.raises(RefusedError, match="attached"):
                    await other.wait()
            assert (await run.wait())["state"] == "done"

    go(scenario())


def test_words_to_a_run_that_nobody_drives_are_taken_and_start_nothing(tmp_path):
    async def scenario():
        store = tmp_path / "runs.db"
        calls = []
        tools = toolbox(lambda: calls.append(1), "write", confirm=True)
        async with running(one("do"), tools, store=store, run_id="r") as run:
            await run.wait()
        async with await RunController.attach(store, "r") as other:
            await other.questions[0].approve(by="ann")
            assert other.status().tasks["t"].state == "pending"
        assert not calls
        async with resumed(store, "r", tools) as run:
            assert (await run.wait())["state"] == "done"
        assert calls == [1]

    go(scenario())


def test_a_rejection_of_all_that_is_left_ends_the_run_even_without_a_driver(tmp_path):
    async def scenario():
        store = tmp_path / "runs.db"
        plan = plan_of({"id": "a", "tool": "do"}, {"id": "b", "tool": "do", "depends_on": ["a"]})
        async with running(plan, toolbox(lambda: 1, "write", confirm=True), store=store, run_id="r") as run:
            await run.wait()
        async with await RunController.attach(store, "r") as other:
            await other.questions[0].reject(by="ann", note="not mine")
            status = other.status()
            assert status.state == "cancelled"
            assert status.tasks["b"].state == "cancelled"
            assert "not mine" in status.tasks["a"].reason

    go(scenario())


def test_a_plan_that_its_tools_cannot_run_is_refused_with_every_fault_and_registers_nothing(tmp_path):
    async def scenario():
        plan = plan_of({"id": "a", "tool": "nobody"}, {"id": "b", "tool": "do", "args": {"zzz": 1}})
        with pytest.raises(PlanError) as caught:
            await RunController.start(plan, toolbox(lambda: 1), store=tmp_path / "s.db", run_id="r")
        assert len(caught.value.faults) == 2
        async with running(one("do"), toolbox(lambda: 1), store=tmp_path / "s.db", run_id="r") as run:
            await run.wait()

    go(scenario())


def test_secrets_reach_the_tool_and_nothing_else(tmp_path):
    canary = "CANARY-0f9a8b7c6d"

    async def scenario():
        store, got = tmp_path / "runs.db", []
        tools = Toolbox()

        @tools.read(secret=["token"])
        async def login(token: str):
            got.append(token)
            raise ToolError("auth_denied", f"the token {token} is no good", applied="no")

        plan = one("login", args={"token": "$inputs.token"})
        plan = Plan.make({"inputs": {"token": ""}, "steps": [*plan.doc["steps"]]})
        lines = []
        async with running(
            plan,
            tools,
            store=store,
            run_id="r",
            inputs={"token": canary},
            listeners=[lambda es: lines.extend(map(str, es))],
        ) as run:
            await run.wait()
            told = [json.dumps(run.status().to_json()), repr(run.questions), json.dumps(run.report), *lines]
        assert got == [canary]
        assert canary not in "".join(told)
        for file in tmp_path.iterdir():
            assert canary.encode() not in file.read_bytes(), file

    go(scenario())


def test_a_secret_is_given_again_after_a_restart(tmp_path):
    async def scenario():
        store, got = tmp_path / "runs.db", []
        tools = Toolbox()

        @tools.read(secret=["token"], confirm=True)
        async def login(token: str):
            got.append(token)

        plan = Plan.make(
            {
                "inputs": {"token": ""},
                "steps": [{"id": "t", "tool": "login", "args": {"token": "$inputs.token"}}],
            }
        )
        async with running(plan, tools, store=store, run_id="r", inputs={"token": "hunter2-hunter2"}) as run:
            await run.wait()
        async with resumed(store, "r", tools, inputs={"token": "hunter2-hunter2"}) as run:
            await run.questions[0].approve(by="ann")
            assert (await run.wait())["state"] == "done"
        assert got == ["hunter2-hunter2"]
        with pytest.raises(UsageError, match="not secret"):
            await RunController.open(store, "r", tools, inputs={"week": 3})

    go(scenario())


def test_the_public_audit_reads_a_live_store(tmp_path):
    async def scenario():
        store = tmp_path / "runs.db"
        async with running(
            one("do"), toolbox(lambda: 1, "write", confirm=True), store=store, run_id="r"
        ) as run:
            await run.wait()
            assert audit(store, run="r").verdict == "open"
        check(store, "r", None)

    go(scenario())
