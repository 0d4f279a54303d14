"""One loader of ``configs/``: in a checkout, an editable install and a wheel the same names find the same data.

A table that is not sound does not leave this module.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from fsm_agent.core.errors import ConfigError, NotFoundError, RulesError
from fsm_agent.core.replanning import repairs
from fsm_agent.core.replanning.repairs import Repair
from fsm_agent.core.rules import table as rules
from fsm_agent.core.rules.table import Table

MAX_BYTES: Final = 1 << 19
"""Longest configuration file that is read, in bytes."""
MAX_DOTS: Final = 20
"""Most dots of a line outside texts and comments: the parser's work grows with the square of a dotted key."""

OWN_ROWS: Final = "own"
"""Name of a table that somebody made of another one by rows of his own."""
REPAIRS: Final = "repairs"
"""Name of the shipped repairs."""

_ROW: Final = re.compile(r"^\s*\[\[\s*row\s*\]\]")
_TEXT: Final = re.compile(r""""[^"\n]*"|'[^'\n]*'""")
_ID: Final = re.compile(r"""^\s*id\s*=\s*["']([^"']*)["']""")


def config_dir() -> Path:
    """Return the folder of the shipped configuration.

    Raises:
        ConfigError: The installation lacks it.
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_configs", package.parent / "configs"):
        if (folder / "rules" / "default.toml").is_file():
            return folder
    raise ConfigError(f"configuration beside {package}: none was found; install the package again")


def read_toml(name: str) -> Mapping[str, Any]:
    """Return the shipped document *name*, such as ``classify`` or ``rules/default``.

    Raises:
        NotFoundError: There is none of this name.
        ConfigError: It cannot be read.
    """
    return _parse(_shipped(name))[0]


def rule_names() -> tuple[str, ...]:
    """Return the names of the shipped tables, sorted."""
    return tuple(sorted(path.stem for path in (config_dir() / "rules").glob("*.toml")))


def load_rules(
    name: str | Path = "default",
    params: Mapping[str, int | float] | None = None,
    rows: Sequence[Mapping[str, Any]] = (),
) -> Table:
    """Return a rule table, read and checked.

    Args:
        name: Name of a shipped table, or a ``.toml`` file.
        params: Thresholds that go before the table's own.
        rows: Rows of one's own, as a table has them; one with the id of a row of the table takes its place.

    Raises:
        NotFoundError: No such table or file.
        ConfigError: The file cannot be read, or is no TOML.
        RulesError: It is no table, or not a sound one; ``findings`` says why.
    """
    if rows:
        return _sound(_with_rows(name, params or {}, rows))
    if isinstance(name, str) and not name.endswith(".toml"):
        return _shipped_rules(name, tuple(sorted((params or {}).items())))
    return _sound(read_rules(name, params))


@lru_cache(maxsize=64)
def _shipped_rules(name: str, params: tuple[tuple[str, int | float], ...]) -> Table:
    """Read and prove a shipped table once; tables are values."""
    return _sound(read_rules(name, dict(params)))


def _sound(table: Table) -> Table:
    from fsm_agent.core.rules.analysis import check  # the table of a log was proved before it began

    report = check(table)
    if not report.sound:
        more = f" (and {len(report.findings) - 1} more)" if len(report.findings) > 1 else ""
        raise RulesError(f"table {table.name} is not sound: {report.findings[0]}{more}", report.findings)
    return table


def read_rules(name: str | Path, params: Mapping[str, int | float] | None = None) -> Table:
    """Return a rule table as it is written, checked for its form only. See :func:`load_rules`."""
    path = _rules_path(name, Path())
    lines: dict[str, int] = {}
    document, own = _parse(path)
    lines.update({f"{path.stem}:{id_}": line for id_, line in own.items()})
    return rules.load(
        document, name=path.stem, base=_base(path.parent, lines), params=params or {}, lines=lines
    )


def _with_rows(
    name: str | Path, params: Mapping[str, int | float], rows: Sequence[Mapping[str, Any]]
) -> Table:
    lines: dict[str, int] = {}
    document = {"schema": 1, "extends": str(name), "row": [dict(row) for row in rows]}
    return rules.load(document, name=OWN_ROWS, base=_base(Path(), lines), params=params, lines=lines)


def with_lines(table: Table) -> Table:
    """Return *table*, which comes from a log, with the lines of its rows where its document is found and still the same.

    Looked at: the shipped table of its name, and a ``.toml`` file of its name in the working directory.
    """
    for name in (table.name, f"{table.name}.toml"):
        try:
            found = read_rules(name, table.params)
        except (NotFoundError, ConfigError, RulesError):
            continue
        if found == table:
            return found
    return table


def rules_file(source: str) -> Path:
    """Return the file of a shipped table, so that a reason can point into it.

    Raises:
        NotFoundError: There is none of this name.
    """
    return _shipped(f"rules/{source}")


def _base(folder: Path, lines: dict[str, int]) -> Callable[[str], Mapping[str, Any]]:
    def base(name: str) -> Mapping[str, Any]:
        document, own = _parse(_rules_path(name, folder))
        lines.update({f"{name}:{id_}": line for id_, line in own.items()})
        return document

    return base


def _is_file(path: Path) -> bool:
    """Whether a file is at *path*; none is at what no file can be called."""
    return os.path.isfile(path)  # noqa: PTH113 - pathlib raises for names that are too long


def _rules_path(name: str | Path, folder: Path) -> Path:
    text = str(name)
    if text in rule_names():
        return _shipped(f"rules/{text}")
    path = folder / text
    if text.endswith(".toml"):
        if _is_file(path):
            return path
        raise NotFoundError(
            f"rule table {text}: there is no such file; the shipped tables are {', '.join(rule_names())}"
        )
    raise NotFoundError(f"rule table {_short(text)}: there is no such table{_near(text, rule_names())}")


def _shipped(name: str) -> Path:
    folder = config_dir()
    known = sorted(p.relative_to(folder).with_suffix("").as_posix() for p in folder.rglob("*.toml"))
    if name not in known:
        raise NotFoundError(f"configuration {_short(name)}: there is no such file{_near(name, known)}")
    return folder / f"{name}.toml"


def _parse(path: Path) -> tuple[Mapping[str, Any], dict[str, int]]:
    """Return the document and the line of every row that has an id."""
    import tomllib  # a log brings its table along as JSON

    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ConfigError(
                f"configuration {path}: it is longer than {MAX_BYTES} bytes; split it or make it shorter"
            )
        text = data.decode()
        _refuse_long_keys(path, text)
        return tomllib.loads(text), _lines(text)
    except OSError as error:
        raise ConfigError(
            f"configuration {path}: it cannot be read ({error.strerror}); check its rights"
        ) from error
    except (ValueError, RecursionError) as error:
        found = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ConfigError(f"configuration {path}: it is no TOML: {found}") from error


def _refuse_long_keys(path: Path, text: str) -> None:
    for number, line in enumerate(_TEXT.sub("", text).splitlines(), 1):
        if line.partition("#")[0].count(".") > MAX_DOTS:
            raise ConfigError(
                f"configuration {path}: line {number} has a key of too many parts; use sections"
            )


def _lines(text: str) -> dict[str, int]:
    lines: dict[str, int] = {}
    start = 0
    for number, line in enumerate(text.splitlines(), 1):
        if _ROW.match(line):
            start = number
        elif start and (found := _ID.match(line)):
            lines.setdefault(found[1], start)
            start = 0
    return lines


def _near(name: str, known: tuple[str, ...] | list[str]) -> str:
    import difflib  # only a wrong name needs it

    close = difflib.get_close_matches(name, known, 1) if len(name) <= 80 else []
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(known)}, or give a .toml file"


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")


def load_repairs(name: str | Path = REPAIRS) -> tuple[Repair, ...]:
    """Return the repairs that are tried before anybody plans anew.

    Args:
        name: ``repairs`` for the shipped ones, ``none``, or a ``.toml`` file.

    Raises:
        NotFoundError: No such file.
        ConfigError: The file cannot be read, or holds something else; one line with everything that is wrong.
    """
    text = str(name)
    if text == "none":
        return ()
    if text == REPAIRS:
        return _shipped_repairs()
    path = Path(name)
    if not text.endswith(".toml") or not _is_file(path):
        hint = "give a .toml file, repairs (the shipped ones) or none"
        raise NotFoundError(f"repairs {_short(text)}: there is no such file; {hint}")
    document, _ = _parse(path)
    extends = document.get("extends")
    if extends not in (None, REPAIRS):
        raise ConfigError(
            f'repairs {path}: extends is {_short(str(extends))}; write extends = "{REPAIRS}" or leave it out'
        )
    return repairs.read(document, where=text, base=_shipped_repairs() if extends else ())


@lru_cache(maxsize=1)
def _shipped_repairs() -> tuple[Repair, ...]:
    """Read the shipped repairs once; they are values."""
    return repairs.read(read_toml(REPAIRS), where=REPAIRS)
