"""Every way a tool can end becomes exactly one outcome."""

import asyncio
import contextlib
import json
import pickle
import sys
import threading
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.errors import UsageError
from fsm_agent.core.signals import Applied, Signal
from fsm_agent.runtime.tools.context import CallContext, ToolError
from tests.runtime.calling import CLASSIFIER, Shell, box, outcome_of, raising

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(JSON)
def test_what_json_can_hold_arrives_exactly(value):
    outcome = outcome_of(box()(lambda: value))
    if CLASSIFIER.envelope(value) is None:
        assert (outcome.kind, outcome.signal) == ("value", None)
    assert json.dumps(outcome.value, sort_keys=True) == json.dumps(value, sort_keys=True)
    assert type(outcome.value) is type(value)


@pytest.mark.parametrize("value", [None, 0, False, [], "", {}])
@pytest.mark.parametrize("effect", ["read", "write"])
def test_an_empty_value_is_a_value_and_the_tool_is_called_once(value, effect):
    calls = []

    def tool():
        calls.append(1)
        return value

    outcome = outcome_of(box(effect)(tool))
    assert (outcome.kind, outcome.value, type(outcome.value)) == ("value", value, type(value))
    assert calls == [1]


def generator():
    yield 1


async def coroutine(): ...


def forgot_await():
    return coroutine()


def forgot_next():
    return generator()


def cyclic():
    value = []
    value.append(value)
    return {"rows": value}


REFUSED = {
    "NaN": (lambda: {"rows": [1, {"price": float("nan")}]}, "$.rows[1].price"),
    "infinity": (lambda: [float("inf")], "$[0]"),
    "integer": (lambda: {"n": 2**70}, "$.n"),
    "decimal": (lambda: {"n": Decimal("1.1")}, "$.n"),
    "bytes": (lambda: b"x", "$"),
    "tuple": (lambda: {"t": (1,)}, "$.t"),
    "set": (lambda: {"t": {1}}, "$.t"),
    "int key": (lambda: {"t": {1: 2}}, "$.t"),
    "NUL": (lambda: "a\x00b", "$"),
    "surrogate": (lambda: {"s": "\ud800"}, "$.s"),
    "generator": (forgot_next, "$"),
    "coroutine": (forgot_await, "$"),
    "open file": (lambda: sys.stdin, "$"),
    "itself": (cyclic, "$.rows[0]"),
    "object": (lambda: {"o": object()}, "$.o"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize(
    ("effect", "applied"), [("read", Applied.MAYBE), ("idempotent", Applied.YES), ("write", Applied.YES)]
)
def test_a_value_that_cannot_be_stored_is_refused_with_its_path_and_a_write_counts_as_applied(
    name, effect, applied
):
    fn, path = REFUSED[name]
    outcome = outcome_of(box(effect)(fn))
    assert (outcome.kind, outcome.signal, outcome.applied) == ("error", Signal.UNVERIFIED, applied)
    assert f"value at {path}" in outcome.error["message"]
    assert outcome.error["code"] == "E-VALUE"
    assert outcome.value is None


@pytest.mark.parametrize("is_async", [False, True])
def test_a_result_that_its_tool_changes_later_stays_what_it_was(is_async):
    shared = {"rows": [1]}

    async def later():
        return shared

    async def main():
        async with Shell(box("write")(later if is_async else lambda: shared)) as shell:
            shell.start("tool")
            outcome = await shell.outcome()
            shared["rows"].append(2)
            assert outcome.value == {"rows": [1]}

    asyncio.run(main())


def test_a_tool_that_changes_its_arguments_changes_only_its_own_copy():
    def tool(rows):
        rows["x"].append(9)
        return rows

    async def main():
        async with Shell(box()(tool)) as shell:
            rows = {"x": [1]}
            shell.start("tool", rows=rows)
            assert (await shell.outcome()).value == {"x": [1, 9]}
            assert rows == {"x": [1]}

    asyncio.run(main())


def test_a_value_that_another_thread_keeps_changing_is_refused_or_whole():
    shared = {str(n): n for n in range(20_000)}
    over = threading.Event()

    def change():
        while not over.is_set():
            shared[str(len(shared))] = 1

    other = threading.Thread(target=change)
    other.start()
    try:
        outcomes = [outcome_of(box("write")(lambda: shared)) for _ in range(5)]
    finally:
        over.set()
        other.join()
    for outcome in outcomes:
        if outcome.kind == "value":
            assert len(outcome.value) >= 20_000
        else:
            assert (outcome.signal, outcome.applied) == (Signal.UNVERIFIED, Applied.YES)
            assert "value at $: it cannot be copied" in outcome.error["message"]


class HostileError(Exception):
    def __str__(self):
        raise SystemExit("even here")

    @property
    def code(self):
        raise KeyboardInterrupt


ERRORS = [
    SystemExit(3),
    KeyboardInterrupt(),
    asyncio.CancelledError("mine"),
    GeneratorExit(),
    StopIteration(1),
    StopAsyncIteration(),
    TypeError("tool() missing 1 required positional argument"),
    ValueError("bad"),
    MemoryError(),
    RecursionError(),
    HostileError(),
    BaseException("base"),
    BaseExceptionGroup("many", [SystemExit(1), ValueError("x")]),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
@pytest.mark.parametrize("effect", ["read", "write"])
def test_whatever_a_tool_raises_is_one_outcome_and_the_loop_lives_on(error, is_async, effect):
    calls = []

    def sync():
        calls.append(1)
        raise error

    async def awaited():
        await asyncio.sleep(0)
        sync()

    async def main():
        async with Shell(box(effect)(awaited if is_async else sync)) as shell:
            for attempt in (1, 2):
                shell.start("tool", attempt=attempt)
                given = await shell.next()
                assert (given.task, given.attempt) == ("t", attempt)
                assert given.outcome.kind == "error"
                assert given.outcome.applied is not Applied.YES
                assert given.outcome.error["message"]
                assert None not in given.outcome.error.values()
                assert given.outcome.error["fingerprint"].startswith("f1:")
            assert shell.silent()
        return given.outcome

    outcome = asyncio.run(main())
    assert len(calls) == 2
    if isinstance(error, SystemExit | KeyboardInterrupt | asyncio.CancelledError):
        assert outcome.applied is Applied.MAYBE, "nothing is proved about the effect"
    error.__traceback__ = None


def at_once(loop, coroutine, **_):
    """Run what is to be a task while it is made, as loops with eager tasks do where nothing has to be waited for."""
    with contextlib.suppress(StopIteration):
        while True:
            coroutine.send(None)
    return asyncio.Task(asyncio.sleep(0), loop=loop)


def told_with(factory, tool):
    """Return the outcome of a write whose task *factory* makes; it is told of once, and nothing is out after it."""

    async def main():
        loop = asyncio.get_running_loop()
        async with Shell(box("write")(tool)) as shell:
            loop.set_task_factory(factory)
            shell.start("tool")
            loop.set_task_factory(None)
            outcome = await shell.outcome()
            assert not shell.calls.open_calls
            assert not shell.calls.running("t", 1)
        assert shell.silent()
        return outcome

    return asyncio.run(main())


EAGER = [at_once, *([asyncio.eager_task_factory] if hasattr(asyncio, "eager_task_factory") else [])]


@pytest.mark.parametrize("factory", EAGER, ids=lambda factory: factory.__name__)
@pytest.mark.parametrize("error", [None, ValueError("no"), GeneratorExit(), SystemExit()], ids=repr)
def test_a_call_that_ends_while_its_task_is_made_is_told_of_and_no_longer_out(factory, error):
    async def tool():
        if error is not None:
            raise error
        return 1

    assert told_with(factory, tool).kind == ("value" if error is None else "error")


def wrapped(loop, coroutine, **options):
    """Put a coroutine around what is to be a task, as tools that trace do."""

    async def around():
        return await coroutine

    return asyncio.Task(around(), loop=loop, **options)


def handed_on(loop, coroutine, **options):
    """Let what is to be a task run in another one."""

    async def around():
        await asyncio.Task(coroutine, loop=loop)

    return asyncio.Task(around(), loop=loop, **options)


def failing(loop, coroutine, **options):
    """Put around what is to be a task what fails before that begins."""

    async def around():
        coroutine.close()
        raise ValueError("no span")

    return asyncio.Task(around(), loop=loop, **options)


@pytest.mark.parametrize("factory", [wrapped, handed_on], ids=lambda factory: factory.__name__)
@pytest.mark.parametrize(
    "error", [None, ValueError("no"), GeneratorExit(), asyncio.CancelledError()], ids=repr
)
def test_a_call_is_told_of_once_when_the_loop_puts_a_coroutine_around_its_task(factory, error):
    async def tool():
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return 1

    assert told_with(factory, tool).kind == ("value" if error is None else "error")


def test_a_call_whose_task_fails_before_the_tool_begins_is_told_of():
    async def tool():
        return 1

    outcome = told_with(failing, tool)
    assert (outcome.kind, outcome.error["message"]) == ("error", "no span")


def test_a_long_message_is_cut_at_two_kilobytes_of_text_that_can_be_stored():
    outcome = outcome_of(box()(raising(ValueError("ä\x00\ud800" * 5_000))))
    message = outcome.error["message"]
    assert len(message.encode()) <= 2048
    assert "\x00" not in message


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("q"), "KeyError: 'q'"),
        (SystemExit(3), "SystemExit: 3"),
        (ValueError("no idea"), "no idea"),
        (ValueError("bad"), "bad"),
        (ToolError("not_found", "gone"), "gone"),
    ],
)
def test_a_bare_value_as_the_message_of_an_exception_is_told_with_its_class(error, words):
    assert outcome_of(box()(raising(error))).error["message"] == words


def test_a_tool_error_says_what_is_proved_and_how_long_to_wait():
    error = ToolError("rate_limited", "slow down", applied="no", retry_after_s=1.5)
    outcome = outcome_of(box("write")(raising(error)))
    assert (outcome.kind, outcome.signal, outcome.applied) == ("error", Signal.RATE_LIMITED, Applied.NO)
    assert outcome.retry_after_us == 1_500_000
    assert outcome.error["code"] == "rate_limited"
    assert outcome.error["message"] == "slow down"


def test_a_tool_error_that_says_nothing_about_the_effect_proves_nothing():
    outcome = outcome_of(box("write")(raising(ToolError("not_found", "no such customer"))))
    assert (outcome.signal, outcome.applied) == (Signal.NOT_FOUND, Applied.MAYBE)


def test_a_tool_error_is_one_of_ours_and_refuses_words_it_does_not_know():
    error = ToolError("E1", "words", "yes", 2)
    assert (error.code, error.message, error.applied, error.retry_after_s) == ("E1", "words", "yes", 2)
    assert str(error) == "E1: words"
    assert str(ToolError("E1")) == "E1"
    with pytest.raises(
        UsageError, match="ToolError 'E1' applied: 'perhaps' was given; allowed: no, maybe, yes"
    ):
        ToolError("E1", applied="perhaps")


def test_a_tool_error_survives_the_way_back_from_another_process():
    error = pickle.loads(pickle.dumps(ToolError("E1", "words", applied="yes", retry_after_s=2)))
    assert (error.code, error.message, error.applied, error.retry_after_s) == ("E1", "words", "yes", 2)


@pytest.mark.parametrize(
    "value",
    [
        {"ok": False, "error": "channel_not_found"},
        {"isError": True, "content": [{"type": "text", "text": "no"}]},
        {"success": False, "message": ""},
        "API request failed: 500",
    ],
)
@pytest.mark.parametrize("effect", ["read", "write"])
def test_a_returned_error_is_an_error_and_its_value_is_kept(value, effect):
    outcome = outcome_of(box(effect)(lambda: value))
    assert outcome.kind == "error"
    assert outcome.value == value
    assert outcome.signal is not None
    assert outcome.error["message"]
    assert "class" not in outcome.error


def test_a_returned_error_without_a_code_proves_nothing_about_a_write():
    outcome = outcome_of(box("write")(lambda: {"success": False, "message": ""}))
    assert (outcome.signal, outcome.applied) == (Signal.UNCLASSIFIED_ERROR, Applied.MAYBE)


def test_equal_failures_have_one_fingerprint_and_other_ones_another():
    marks = [
        outcome_of(box()(raising(ValueError(text)))).error["fingerprint"] for text in ("a x", "a x", "b y")
    ]
    assert marks[0] == marks[1] != marks[2]


def test_the_time_a_call_took_is_measured_by_the_given_clock():
    outcome = outcome_of(box()(lambda: 1))
    assert outcome.duration_us > 0
    assert outcome.duration_us % 1_000 == 0


# ── before the tool is called ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, "needs the argument 'a'"),
        ({"a": 1, "b": 2}, "has no argument 'b'"),
        ({"a": "text"}, "argument 'a' is of type string; allowed: integer"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_the_call(args, words):
    calls = []

    def tool(a: int):
        calls.append(a)

    outcome = outcome_of(box("write")(tool), **args)
    assert (outcome.kind, outcome.signal, outcome.applied) == ("error", Signal.BAD_REQUEST, Applied.NO)
    assert words in outcome.error["message"]
    assert calls == []


def test_an_argument_may_not_take_the_place_of_the_context():
    def tool(ctx: CallContext, **rest): ...

    outcome = outcome_of(box("write")(tool), ctx=1)
    assert (outcome.signal, outcome.applied) == (Signal.BAD_REQUEST, Applied.NO)
    assert "'ctx' is the name of its context" in outcome.error["message"]


def test_a_tool_that_this_process_lacks_is_an_outcome_that_names_those_it_has():
    async def main():
        async with Shell(box()(lambda: 1)) as shell:
            shell.start("other")
            outcome = await shell.outcome()
            assert (outcome.signal, outcome.applied) == (Signal.UNDECLARED_TOOL, Applied.NO)
            assert "'other' is not in the toolbox; there are: tool" in outcome.error["message"]
            shell.probe("other")
            given = await shell.next()
            assert (given.verdict, given.evidence) == (
                "inconclusive",
                "no probe was made: tool 'other' is not in the toolbox",
            )

    asyncio.run(main())


def test_a_system_without_threads_to_give_is_an_outcome_and_the_tool_was_not_called():
    async def main():
        async with Shell(box("write")(lambda: 1)) as shell:
            usual = threading.stack_size(1 << 46)  # more than there is of address space
            try:
                shell.start("tool")
            finally:
                threading.stack_size(usual)
            outcome = await shell.outcome()
            assert (outcome.signal, outcome.applied) == (Signal.TRANSIENT_ERROR, Applied.NO)
            assert "no thread could be started" in outcome.error["message"]
            shell.start("tool", attempt=2)
            assert (await shell.outcome()).value == 1

    asyncio.run(main())
