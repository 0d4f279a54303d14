"""One line of the prompt: found in the table, read, carried out, shown; whatever goes wrong is one line and a code.

The run that the prompt is at is left out of every command, and put in here.
"""

import difflib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import click

from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import UsageError
from fsm_agent.faces.cli import Leaf, usage_words
from fsm_agent.faces.frame.execute import chosen, held_against_the_log, show
from fsm_agent.faces.frame.failure import Failure, failure_of
from fsm_agent.faces.frame.screen import safe
from fsm_agent.faces.frame.spec import Command, Outcome, Param, load
from fsm_agent.faces.repl.completion import named
from fsm_agent.faces.repl.desk import Desk
from fsm_agent.faces.repl.words import split
from fsm_agent.faces.table.prompt import AT_PROMPT
from fsm_agent.faces.table.shared import DRIVE, LOOK

_TAKEN: Final = ("quiet", "verbose", "json", "jsonl", "no_color", "ascii", "store")


@attrs.frozen(kw_only=True)
class Done:
    """What became of a line.

    Attributes:
        line: As typed.
        row: The command, or None: there was none.
        exit_code: What the command line would have exited with.
        failure: What went wrong, or None.
        data: The result as JSON, if that was asked for.
    """

    line: str
    row: Command | None
    exit_code: int
    failure: Failure | None = None
    data: Any = None

    @property
    def stops(self) -> bool:
        """Whether a script ends here: at an error, and where something was checked and found wrong."""
        return self.failure is not None or (
            self.exit_code != 0 and self.row is not None and not drives(self.row)
        )

    def to_json(self) -> dict[str, Any]:
        """Return one object: ``cmd``, ``ok``, and ``result`` or ``error``."""
        if self.failure is not None:
            return {"cmd": self.line, "ok": False, "error": self.failure.to_json()}
        return {"cmd": self.line, "ok": True, "result": self.data}


def drives(row: Command) -> bool:
    """Whether the exit code of *row* is the state of a run."""
    return row.section == DRIVE


def repeats(row: Command) -> bool:
    """Whether an empty line may do *row* once more: it only looks."""
    return row.section == LOOK and not row.changes


class Interpreter:
    """Carries out lines at a desk."""

    def __init__(self, desk: Desk) -> None:
        """Work at *desk*."""
        self._desk = desk
        self._screen = desk.screen

    async def perform(self, line: str) -> Done:
        """Carry out one command; only an interruption gets past here."""
        row: Command | None = None
        try:
            row, words = self.find(line)
            given = self._parse(row, words)
            values = {param.name: chosen(param, given[param.name], self._screen) for param in row.params}
            with held_against_the_log(row, self._screen, values):
                return await self._carry_out(line, row, values)
        except click.exceptions.Exit as end:  # --help has been shown
            return Done(line=line, row=row, exit_code=end.exit_code)
        except Exception as error:  # noqa: BLE001 - the boundary of the prompt: one line, one code
            return self._failed(line, row, error)

    async def begin(self, name: str, values: Mapping[str, Any]) -> Done:
        """Carry out the command that the prompt begins with; its values have been read already."""
        row = AT_PROMPT[name]
        line = f"{name} {values.get('plan') or values.get('name')}"
        try:
            return await self._carry_out(line, row, values)
        except Exception as error:  # noqa: BLE001 - as for every line
            return self._failed(line, row, error)

    def _failed(self, line: str, row: Command | None, error: Exception) -> Done:
        found = failure_of(error)
        self._desk.settle()
        if self._screen.form == "plain":
            for words in found.lines:
                self._screen.complain(words)
        return Done(line=line, row=row, exit_code=found.exit_code, failure=found)

    def find(self, line: str) -> tuple[Command, list[str]]:
        """Return the row that *line* begins with, and the words after it.

        Raises:
            UsageError: There is no such command.
        """
        words = split(line)
        name, rest = named(words)
        if name is not None:
            return AT_PROMPT[name], list(rest)
        group = [other for other in AT_PROMPT if other.split()[0] == words[0]]
        if group:
            raise UsageError(f"{safe(words[0])[:40]}: there are {', '.join(group)}")
        close = difflib.get_close_matches(words[0], AT_PROMPT, 1)
        hint = (
            f"did you mean {close[0]}: {AT_PROMPT[close[0]].help}"
            if close
            else "help lists what can be typed"
        )
        raise UsageError(f"there is no command {safe(words[0])[:40]!r}; {hint.rstrip('.')}")

    def _parse(self, row: Command, words: Sequence[str]) -> Mapping[str, Any]:
        """Read *words* by the parameters of *row*, and put the run in.

        Raises:
            UsageError: They do not fit.
        """
        words = list(words)
        run, about = self._named_run(row, words), _about_run(row)
        params = tuple(_loose(p) if p is about else p for p in row.params if not _is_run(p))
        leaf = Leaf(row._replace(params=params))
        try:
            with leaf.make_context(row.name, words) as ctx:
                given = dict(ctx.params)
        except click.UsageError as error:
            raise UsageError(usage_words(error, "")) from None
        for name in _TAKEN:
            given.pop(name, None)
        for param in row.params:
            if _is_run(param):
                given[param.name] = run or (self._desk.needed() if param.required else self._desk.run_id)
        if about is not None and not given[about.name]:
            here = self._desk.needed()
            given[about.name] = (here,) if about.many else here
        return given

    def _named_run(self, row: Command, words: list[str]) -> str | None:
        """Take a run's id from the front of *words*, if somebody wrote it as on the command line."""
        if not words or not any(_is_run(p) for p in row.params):
            return None
        here: Run | None = self._desk.view()
        if words[0] == self._desk.run_id or (
            (here is None or words[0] not in here.tasks) and words[0] in self._desk.runs()
        ):
            return words.pop(0)
        return None

    async def _carry_out(self, line: str, row: Command, values: Mapping[str, Any]) -> Done:
        screen, plain = self._screen, self._screen.form == "plain"
        answer = load(row.handler)(screen, **values)
        if row.line:
            items = []
            render = load(row.plain)
            async for item in answer:
                if plain:
                    screen.write(render(item, screen))
                else:
                    items.append(item)
            data = None if plain else load(row.data)(items, screen)
            return Done(line=line, row=row, exit_code=0, data=data)
        outcome = await answer if inspect.isawaitable(answer) else answer
        assert isinstance(outcome, Outcome), f"{row.handler} returns an Outcome"
        self._desk.settle()
        if plain:
            show(row, screen, outcome.value)
            return Done(line=line, row=row, exit_code=outcome.exit_code)
        return Done(
            line=line, row=row, exit_code=outcome.exit_code, data=load(row.data)(outcome.value, screen)
        )


def _is_run(param: Param) -> bool:
    return param.kind == "run" and param.name == "run"


def _about_run(row: Command) -> Param | None:
    """Return the parameter that may name a run among other things; left out at the prompt, it is the run there."""
    found = next((p for p in row.params if not p.flags), None)
    return found if found is not None and {"RUN", "LOG", "LOG…"} & set(found.metavar.split("|")) else None


def _loose(param: Param) -> Param:
    return param._replace(required=False)
