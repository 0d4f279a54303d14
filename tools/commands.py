"""The reference of all commands, made from the table of commands: ``docs/commands.md``.

``python tools/commands.py`` writes the page; a test checks that it is current.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from fsm_agent.faces.cli import GLOBALS, PROGRAM
from fsm_agent.faces.frame.settings import FILE, PROJECT, SETTINGS
from fsm_agent.faces.frame.spec import EXIT_CODES, Command, Param
from fsm_agent.faces.repl import conditions
from fsm_agent.faces.repl.completion import arguments
from fsm_agent.faces.table import COMMANDS, SECTIONS
from fsm_agent.faces.table.prompt import ALIASES, ELSEWHERE, PROMPT

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "commands.md"
HEAD = f"""\
# Commands

*Made by `python tools/commands.py` from the table of commands; a test checks that it is current. Do not edit.*

`{PROGRAM} COMMAND …`, also `python -m fsm_agent COMMAND …`. stdout is for data, stderr for progress, logs and errors. An
error is one line, its code in front: `E-CODE what where: what was found; what to do`.

## Everywhere

"""
AT_THE_PROMPT = f"""\
## At the prompt

`{PROGRAM} repl PLAN|DIR|RUN` takes the commands above as well, except {{elsewhere}}. The run is left out: it is the one that
the prompt is at. Several commands on a line are separated by `;`. JSON needs no quotes. Nothing starts unless a command
drives the run. An empty line repeats a command that only looks. Tab offers what makes sense now.

**Ctrl-C** at the prompt clears the line. While a run is driven the first one pauses it, the second one stops waiting for
what is out (reads are given up, writes become unknown results, never failures), the third one leaves at once, as a crash
would; the run can be gone on with.

**A script** (`-c`, `-f`, a pipe) stops at the first error with its exit code, asks nothing, and approves only with
`--digest`, so that it cannot approve arguments that have changed. Without an error the exit code is the run's state, if a
command drove it.

"""


def page() -> str:
    """Return the page as it should be today."""
    lines: list[str] = [HEAD.rstrip(), ""]
    lines += _table(
        ("option", "meaning"),
        [(f"`{flag}{f' {meta}' if meta else ''}`", help_) for _, flag, meta, help_ in GLOBALS],
    )
    for section in SECTIONS:
        lines += ["", f"## {section}"]
        for row in COMMANDS:
            if row.section == section:
                lines += ["", *_command(row, PROGRAM)]
    elsewhere = ", ".join(f"`{row.name}`" for row in COMMANDS if row.name in ELSEWHERE)
    lines += ["", AT_THE_PROMPT.replace("{elsewhere}", elsewhere).rstrip(), ""]
    lines += _table(("short", "for"), [(f"`{short}`", f"`{name}`") for short, name in ALIASES.items()])
    lines += ["", "### Break points", ""]
    lines += _table(
        ("`until`, `break`", "stops"), [(f"`{form}`", when) for form, when in conditions.MEANINGS]
    )
    for row in PROMPT:
        lines += ["", *_command(row._replace(params=arguments(row)), "")]
    lines += ["", "## Settings", "", _settings_words(), ""]
    lines += _table(
        ("setting", "environment", "default", "meaning"),
        [
            (
                f"`{s.name}`",
                f"`${s.env}`",
                f"`{s.default}`" if s.default not in (None, False) else "",
                s.help + ("" if s.file else " (environment only)"),
            )
            for s in SETTINGS
        ],
    )
    lines += ["", "## Exit codes", ""]
    lines += _table(("code", "meaning"), [(str(code), words) for code, words in EXIT_CODES.items()])
    return "\n".join(lines) + "\n"


def _settings_words() -> str:
    return (
        f"An option beats the environment, the environment beats `{FILE}` of the working directory (or else the table "
        f"`[tool.fsm_agent]` of its `{PROJECT}`), and that beats the default. `{PROGRAM} config show --origin` says where "
        "each value comes from."
    )


def _command(row: Command, program: str) -> Iterator[str]:
    yield f"### `{row.name}`"
    yield ""
    yield row.help
    if row.about:
        yield ""
        yield row.about
    yield ""
    yield "```text"
    yield f"{program} {row.usage}".strip()
    yield "```"
    if row.params:
        yield ""
        yield from _table(("", "meaning"), [(f"`{_shown(p)}`", p.help) for p in row.params])
    if row.examples:
        yield ""
        yield "```text"
        yield from (f"{program} {example}".strip() for example in row.examples)
        yield "```"


def _shown(param: Param) -> str:
    """Return a parameter with all that may be typed for it."""
    if not param.flags:
        return param.shown
    flags = ", ".join(param.flags)
    return flags if param.kind == "flag" else f"{flags} {param.metavar or param.name.upper()}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for cells in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
