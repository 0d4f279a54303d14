"""The command line, built from the table with click: one command at a time, the one that was asked for.

Help of the whole comes from the table alone, so it costs nothing but click. What a command does, and how it is
shown, is looked up when it runs. stdout is for data, stderr for progress, logs and errors.
"""

import difflib
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from fsm_agent.faces.frame.spec import COMPLETE, EXIT_CODES, PROGRAM, Command, Param
from fsm_agent.faces.table import COMMANDS, GROUP_SECTIONS, GROUPS, SECTIONS

GLOBALS: Final = (
    ("store", "--store", "FILE", "where runs are kept; else $FSM_AGENT_STORE, else .fsm_agent/runs.db"),
    ("json", "--json", None, "print exactly one JSON document"),
    ("jsonl", "--jsonl", None, "print one JSON object per line, as it comes"),
    ("quiet", "-q", None, "no progress, no hints"),
    ("verbose", "-v", None, "more; twice: a traceback for unexpected errors"),
    ("no_color", "--no-color", None, "no colours; so does $NO_COLOR"),
    ("ascii", "--ascii", None, "show ASCII only"),
)
"""Options that every command takes: name, flag, metavar, help."""


def _globals() -> list[click.Parameter]:
    long = {"quiet": ("--quiet",), "verbose": ("--verbose",)}
    return [
        click.Option(
            [flag, *long.get(name, ()), name],
            metavar=metavar,
            help=help_,
            is_flag=_flag(metavar is None and name != "verbose"),
            count=name == "verbose",
        )
        for name, flag, metavar, help_ in GLOBALS
    ]


def _flag(whether: bool) -> bool | None:
    """Return what makes click ask for the value of an option that is no flag; told False, it lets the value be left out."""
    return True if whether else None


def _kind(param: Param) -> click.ParamType[Any] | None:
    match param.kind:
        case "count":
            return click.IntRange(min=1)
        case "integer":
            return click.IntRange(min=0)
        case "seconds":
            return click.FloatRange(min=0)
        case "choice":
            return click.Choice(param.choices)
        case _:
            return None if param.kind == "flag" else click.STRING


def _parameter(param: Param) -> click.Parameter:
    more: dict[str, Any] = {} if param.default is None else {"default": param.default}
    if param.flags:
        return click.Option(
            [*param.flags, param.name],
            help=param.help,
            metavar=param.metavar or None,
            type=_kind(param),
            required=param.required,
            multiple=param.many,
            is_flag=_flag(param.kind == "flag"),
            shell_complete=_offers(param),
            **more,
        )
    return click.Argument(
        [param.name],
        metavar=param.shown,
        type=_kind(param),
        required=param.required,
        nargs=-1 if param.many else 1,
        shell_complete=_offers(param),
        **more,
    )


def _offers(param: Param) -> Any:
    """Return what tells a shell the values that *param* may have; None where click knows itself."""
    if param.kind not in ("file", "run", "task"):
        return None

    def offers(ctx: click.Context, own: click.Parameter, incomplete: str) -> list[Any]:
        from fsm_agent.faces.shells import offered

        del own
        return offered(param, ctx.params, incomplete)

    return offers


class Leaf(click.Command):
    """One command of the table."""

    def __init__(self, row: Command) -> None:
        self.row = row
        self._lists = {
            flag for p in row.params if p.many and p.flags and p.kind == "task" for flag in p.flags
        }
        examples = "\b\nExamples:\n" + "\n".join(f"  {PROGRAM} {e}" for e in row.examples)
        super().__init__(
            row.words[-1],
            params=[*map(_parameter, row.params), *_globals()],
            help="\n\n".join(filter(None, (row.help, row.about))),
            epilog=examples if row.examples else None,
            callback=self._run,
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; an option that takes a list takes every word up to the next option."""
        spread: list[str] = []
        taking = ""
        for word in args:
            if taking and not word.startswith("-") and spread[-1] != taking:
                spread.append(taking)
            elif word.startswith("-"):
                taking = word if word in self._lists else ""
            spread.append(word)
        try:
            return super().parse_args(ctx, spread)
        except click.BadOptionUsage as error:
            error.ctx = ctx  # click does not say whose option it is
            raise

    def _run(self, **given: Any) -> int:
        from fsm_agent.core.errors import ConfigError
        from fsm_agent.faces.frame.execute import execute
        from fsm_agent.faces.frame.failure import fail
        from fsm_agent.faces.frame.screen import Screen
        from fsm_agent.faces.frame.settings import Settings

        chosen = {name: given.pop(name) for name, *_ in GLOBALS}
        above = click.get_current_context().parent
        while above is not None:  # they may stand before the command as well
            chosen = {name: chosen[name] or above.params.get(name) for name in chosen}
            above = above.parent
        try:
            settings = Settings.here()
            screen = Screen.of(**chosen, settings=settings)
        except ConfigError as error:
            return fail(Screen.of(json=chosen["json"], jsonl=chosen["jsonl"]), error)
        with settings.passed_on():
            return execute(self.row, screen, given)


class Branch(click.Group):
    """Commands that share a first word; the empty word is the program itself."""

    def __init__(self, word: str) -> None:
        self.word = word
        own = [c for c in COMMANDS if (c.words[0] == word) == bool(word)]
        self.rows = {(c.words[1] if word else c.words[0]): c for c in own if word or c.words[0] not in GROUPS}
        super().__init__(
            word or PROGRAM,
            params=_globals(),
            help=GROUPS[word] if word else "Run plans of AI agents as explicit finite state machines.",
            epilog=None if word else _ending(),
            no_args_is_help=True,
            subcommand_metavar="COMMAND …",
        )

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the words that may follow, in the order of the table."""
        del ctx
        return [*self.rows, *(() if self.word else GROUPS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Build the command *cmd_name*, and no other."""
        del ctx
        if cmd_name in self.rows:
            return Leaf(self.rows[cmd_name])
        return Branch(cmd_name) if not self.word and cmd_name in GROUPS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that *args* begin with, or say which one is alike."""
        command = self.get_command(ctx, args[0])
        if command is None:
            known = self.list_commands(ctx)
            close = difflib.get_close_matches(args[0], known, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
            raise click.UsageError(f"there is no command {args[0][:40]!r}; {hint}", ctx)
        return args[0], command, args[1:]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, straight from the table."""
        del ctx
        for section in SECTIONS:
            rows = [
                (word, row.help) for word, row in self.rows.items() if self.word or row.section == section
            ]
            if not self.word:
                rows += [(f"{g} …", text) for g, text in GROUPS.items() if GROUP_SECTIONS[g] == section]
            if rows:
                with formatter.section("Commands" if self.word else section):
                    formatter.write_dl(rows)
            if self.word:
                return

    def main(  # type: ignore[override]  # click declares overloads for NoReturn
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        *,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> int:
        """Run the command line and return the exit code, or leave with it in *standalone_mode*."""
        asked = os.environ.get(COMPLETE, "")
        if asked.endswith("_complete") and args is None:
            code = _completed(self, asked)
        else:
            code = _guarded(self, list(sys.argv[1:] if args is None else args), prog_name or PROGRAM, extra)
        if standalone_mode:
            sys.exit(code)
        return code


def _completed(group: click.Group, asked: str) -> int:
    """Answer a shell that asks what can stand next; where a line makes no sense, nothing can."""
    from click.shell_completion import shell_complete

    try:
        return shell_complete(group, {}, PROGRAM, COMPLETE, asked)
    except Exception:  # noqa: BLE001 - a shell that asks is never told an error
        return 0


def _ending() -> str:
    codes = "\n".join(f"  {code:>3}  {words}" for code, words in EXIT_CODES.items())
    return f"\b\nExit codes:\n{codes}"


def _guarded(group: click.Group, args: list[str], program: str, extra: dict[str, Any]) -> int:
    """Run *args* and turn whatever goes wrong into one line and an exit code."""
    try:
        with group.make_context(program, list(args), **extra) as ctx:
            return int(group.invoke(ctx) or 0)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        return _wrong_usage(error, args)
    except click.ClickException as error:
        return _wrong_usage(click.UsageError(error.format_message()), args)
    except BrokenPipeError:
        from fsm_agent.faces.frame.screen import hush

        hush()
        return 0
    except KeyboardInterrupt:
        return 130


def _wrong_usage(error: click.UsageError, args: list[str]) -> int:
    from fsm_agent.core.errors import UsageError
    from fsm_agent.faces.frame.failure import fail
    from fsm_agent.faces.frame.screen import Screen

    own = args[: args.index("--")] if "--" in args else args
    screen = Screen.of(json="--json" in own, jsonl="--jsonl" in own)
    return fail(screen, UsageError(usage_words(error)))


def usage_words(error: click.UsageError, program: str = f"{PROGRAM} ") -> str:
    """Return a usage error as ``<what>: <what was found>; <what to do>``; *program* stands before a command."""
    path = error.ctx.command_path if error.ctx is not None else PROGRAM
    row = error.ctx.command.row if error.ctx is not None and isinstance(error.ctx.command, Leaf) else None
    usage = f"{program}{row.usage}" if row is not None else f"{path} COMMAND …"
    match error:
        case click.NoSuchOption():
            close = difflib.get_close_matches(error.option_name, error.possibilities or (), 1)
            hint = f"did you mean {close[0]}?" if close else f"usage: {usage}"
            return f"{path}: there is no option {error.option_name}; {hint}"
        case click.MissingParameter():
            name = (
                error.param.make_metavar(error.ctx)
                if error.param is not None and error.ctx is not None
                else "an argument"
            )
            if isinstance(error.param, click.Option):
                name = f"{error.param.opts[0]} {name}"
            return f"{path}: {name} is missing; usage: {usage}"
        case click.BadParameter():
            see = f"{path} --help" if program else f"help {path}"
            return f"{path}: {_named(error)}: {error.message.rstrip('.').replace('integer range', 'integer')}; see {see}"
        case _:
            message = error.format_message().rstrip(".")
            if "extra argument" in message and row is not None and any(p.name == "text" for p in row.params):
                message += ", for words with spaces stand in quotes"
            return f"{path}: {message}" if "; " in message else f"{path}: {message}; usage: {usage}"


def _named(error: click.BadParameter) -> str:
    """Return how usage names the parameter that an error is about."""
    match error.param:
        case None:
            return "a value"
        case click.Argument() if error.ctx is not None:
            return error.param.make_metavar(error.ctx)
        case _:
            return error.param.opts[0]


def build() -> Branch:
    """Return the command line."""
    root = Branch("")
    root.params.append(
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
            help="show the version",
        )
    )
    return root


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    if value:
        from fsm_agent.version import VERSION

        click.echo(f"{PROGRAM} {VERSION}")
        ctx.exit()


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return build().main(args, standalone_mode=False)
