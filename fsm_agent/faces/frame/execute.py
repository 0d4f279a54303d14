"""One way to carry out a row of the table: read its values, call its handler, render what comes back."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from shlex import quote
from typing import Any

from fsm_agent.core import canon
from fsm_agent.core.errors import FsmAgentError, UsageError
from fsm_agent.faces.frame.columns import laid_out
from fsm_agent.faces.frame.failure import dumps, fail
from fsm_agent.faces.frame.screen import Screen, hush
from fsm_agent.faces.frame.spec import Command, Outcome, Param, load


def execute(row: Command, screen: Screen, given: Mapping[str, Any]) -> int:
    """Carry *row* out and return the exit code; nothing but an interruption of the program gets past here.

    Args:
        row: The command.
        screen: Where it writes.
        given: What was typed, by the names of the row's parameters; texts are read here.
    """
    with laid_out(unicode=screen.unicode):
        return _execute(row, screen, given)


def _execute(row: Command, screen: Screen, given: Mapping[str, Any]) -> int:
    outcome = None
    try:
        values = {param.name: chosen(param, given[param.name], screen) for param in row.params}
        with held_against_the_log(row, screen, values):
            outcome = asyncio.run(carry_out(row, screen, values))
            if not row.line:
                show(row, screen, outcome.value)
    except KeyboardInterrupt:
        hint = (
            f"; go on with: {screen.command(f'fsm-agent resume {quote(screen.run)}')}" if screen.run else ""
        )
        screen.complain(f"interrupted{hint}")
        return 130
    except BrokenPipeError:
        hush()
        return outcome.exit_code if outcome is not None else 0
    except Exception as error:  # noqa: BLE001 - the boundary of the program: one line, one exit code
        try:
            return fail(screen, error)
        except BrokenPipeError:
            hush()
            return getattr(error, "exit_code", 70)
    return outcome.exit_code


@contextmanager
def held_against_the_log(row: Command, screen: Screen, values: Mapping[str, Any]) -> Iterator[None]:
    """Let an unexpected error of the body be corruption where a log that *row* reads fails its audit.

    Raises:
        CorruptError: It does.
    """
    try:
        yield
    except (FsmAgentError, OSError):
        raise
    except Exception as error:
        corrupt = load("fsm_agent.faces.look.blaming:corrupt")(screen, row.name, values)
        if corrupt is None:
            raise
        raise corrupt from error


async def carry_out(row: Command, screen: Screen, values: Mapping[str, Any]) -> Outcome:
    """Call the handler of *row*; what it streams is written as it comes, what it returns is not shown yet."""
    handler = load(row.handler)
    answer = handler(screen, **values)
    if row.line:
        return await _stream(row, screen, answer)
    outcome = await answer if inspect.isawaitable(answer) else answer
    assert isinstance(outcome, Outcome), f"{row.handler} returns an Outcome"
    return outcome


async def _stream(row: Command, screen: Screen, items: AsyncIterator[Any]) -> Outcome:
    """Write items as they come; one JSON document can only be written at the end."""
    if screen.form == "json":
        everything = [item async for item in items]
        screen.write([dumps(load(row.data)(everything, screen), screen)])
    else:
        render = load(row.line) if screen.form == "jsonl" else None
        plain = load(row.plain)
        async for item in items:
            if render is not None:
                screen.write_bytes(render(item))
            else:
                screen.write(plain(item, screen))
    return Outcome(None)


def show(row: Command, screen: Screen, value: Any) -> None:
    """Write what a handler returned, in the form of *screen*."""
    if screen.form == "plain":
        screen.write(load(row.plain)(value, screen))
    else:
        data = load(row.data)(value, screen)
        if data is not None:
            screen.write([dumps(data, screen)])


def chosen(param: Param, given: Any, screen: Screen) -> Any:
    """Return what was typed for *param*, else what its setting says, as its handler takes it."""
    if given is None and param.setting:
        return screen.settings.find(param.setting).value
    return read(param, given)


def read(param: Param, given: Any) -> Any:
    """Return what was typed for *param* as its handler takes it.

    Raises:
        UsageError: It is not of the parameter's kind.
        ValueRefusedError: A log could not hold it exactly.
    """
    match param.kind:
        case "pairs":
            value: Any = dict(pair(param.shown, text) for text in given)
        case "numbers":
            pairs = (pair(param.shown, text) for text in given)
            value = {name: _number(param, name, number) for name, number in pairs}
        case "json" if given is not None:
            value = json_value(f"{param.shown}", given)
        case _:
            value = given
    if param.kind in ("text", "task", "pairs", "json") and not isinstance(value, tuple):
        canon.check(value, param.metavar or param.name)  # whatever reaches a log is exact, or refused here
    return value


def pair(what: str, text: str) -> tuple[str, Any]:
    """Read ``NAME=VALUE``; the value is JSON if it parses, else text.

    Raises:
        UsageError: There is no name or no equals sign; *what* names the place.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"{what}: {text[:80]!r} was given; write NAME=VALUE")
    try:
        return name, canon.loads(value)
    except ValueError:
        return name, value


def _number(param: Param, name: str, value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{param.shown}: {name}={value!r} was given; a threshold is a number")
    return value


def json_value(what: str, text: str) -> Any:
    """Parse JSON that a person typed.

    Raises:
        UsageError: It is none.
    """
    try:
        return canon.loads(text)
    except ValueError as error:
        raise UsageError(
            f"{what}: {text[:60]!r} is no JSON ({error}); text is written with quotes: '\"text\"'"
        ) from None
