"""``repl``: a person at a terminal, or lines of a script; both end where the run can be gone on with.

A script stops at the first error with its exit code. Nothing is ever asked in one.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from fsm_agent.core.errors import ConfigError, NotFoundError, UsageError
from fsm_agent.faces.frame import places
from fsm_agent.faces.frame.failure import dumps
from fsm_agent.faces.frame.files import is_there
from fsm_agent.faces.frame.screen import Screen
from fsm_agent.faces.frame.spec import EXIT_OF_RUN, Outcome
from fsm_agent.faces.repl.desk import Desk
from fsm_agent.faces.repl.interpreter import Done, Interpreter
from fsm_agent.faces.repl.printing import Printer
from fsm_agent.faces.repl.showing import event_line, prompt
from fsm_agent.faces.repl.words import commands

SCHEMA: Final = "fsm-agent/repl@1"
_ALL: Final = 1_000_000_000


@attrs.frozen(kw_only=True)
class Session:
    """What was typed and what became of it; kept where one document is to be printed at the end."""

    done: tuple[Done, ...]


async def repl(
    screen: Screen,
    *,
    where: str | None,
    commands: str | None,
    file: str | None,
    echo: bool,
    keep_going: bool,
    tools: str | None,
    rules: str | None,
    params: Mapping[str, int | float],
    inputs: Mapping[str, Any],
    run_id: str | None,
    review: bool,
    repairs: str | None,
    planner: str | None,
    workers: int,
) -> Outcome:
    """Sit down at a plan or a run, and carry out what is typed."""
    if commands is not None and file is not None:
        raise UsageError("repl: -c and -f were both given; one script is enough")
    job = {
        "tools": tools,
        "rules": rules,
        "params": params,
        "inputs": inputs,
        "run_id": run_id,
        "review": review,
        "repairs": repairs,
        "planner": planner,
        "workers": workers,
    }
    script = _script(commands, file)
    desk = Desk(screen)
    first = _first(screen, where, job)
    try:
        if script is None and screen.asks and screen.out.isatty():
            return Outcome(Session(done=()), await _sit(desk, first))
        lines = script if script is not None else _typed(sys.stdin)
        return await _script_mode(desk, first, lines, echo=echo, keep_going=keep_going)
    finally:
        await desk.close()
        screen.desk = None  # what is said from here on is read at the command line


async def _sit(desk: Desk, first: tuple[str, dict[str, Any]] | None) -> int:
    try:
        from fsm_agent.faces.repl.terminal import sit
    except ModuleNotFoundError as error:
        raise ConfigError(
            f'repl: {error.name} is not installed; pip install "fsm-agent[cli]", or give commands with -c, -f or a pipe'
        ) from None
    return await sit(desk, first)


def _script(text: str | None, file: str | None) -> list[str] | None:
    if text is not None:
        return commands(text)
    if file is None:
        return None
    if file == "-":
        return commands(sys.stdin.read())
    try:
        return commands(Path(file).read_text("utf-8-sig"))
    except OSError as error:
        raise NotFoundError(f"script {file}: {error.strerror}; name a file of commands") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"script {file}: it is no UTF-8 text ({error.reason}); write it as such") from None


def _typed(stream: Iterable[str]) -> Iterator[str]:
    """Yield the commands of a pipe as they come."""
    for line in stream:
        yield from commands(line)


def _first(screen: Screen, where: str | None, job: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return the command that *where* stands for: ``load`` of a plan, or ``attach`` to a run; None for neither."""
    if where is None:
        return None
    if not is_there(where) and _is_run(screen, where):
        return "attach", {"name": where, "tools": job["tools"], "inputs": job["inputs"]}
    return "load", {"plan": where, **job}


def _is_run(screen: Screen, name: str) -> bool:
    try:
        with places.reading(screen) as store:
            store.info(name)
    except NotFoundError:
        return False
    return True


async def _script_mode(
    desk: Desk,
    first: tuple[str, dict[str, Any]] | None,
    lines: Iterable[str],
    *,
    echo: bool,
    keep_going: bool,
) -> Outcome:
    screen, interpreter, kept = desk.screen, Interpreter(desk), []
    if screen.form == "plain" and not screen.quiet:

        def complain(texts: Iterable[str]) -> None:
            for text in texts:
                screen.complain(text)

        printer = Printer(
            complain,
            lambda event: event_line(event, desk.run_id or "", screen),
            most=_ALL,
        )
        desk.listeners.append(printer.listen)
        desk.before_showing = printer.flush
    code = 0
    if first is not None:
        kept.append(_told(screen, await interpreter.begin(*first)))
        code = kept[-1].exit_code if kept[-1].stops else 0
    if not code:
        for line in lines:
            if echo:
                screen.write([prompt(desk.view(), screen) + line])
            done = _told(screen, await interpreter.perform(line))
            kept.append(done)
            code = code or (done.exit_code if done.stops else 0)
            if desk.over or (code and not keep_going):
                break
    if not code and desk.drove:
        run = desk.view()
        code = EXIT_OF_RUN.get(run.state.value, 0) if run is not None else 0
    return Outcome(Session(done=tuple(kept)), code)


def _told(screen: Screen, done: Done) -> Done:
    if screen.form == "jsonl":
        screen.write([dumps(done.to_json(), screen)])
    return done


def plain(value: Session, screen: Screen) -> Iterator[str]:
    """Nothing: everything has been shown."""
    del value, screen
    return iter(())


def data(value: Session, screen: Screen) -> dict[str, Any] | None:
    """``fsm-agent/repl@1``; with ``--jsonl`` everything has been shown."""
    if screen.form == "jsonl":
        return None
    return {"schema": SCHEMA, "commands": [done.to_json() for done in value.done]}
