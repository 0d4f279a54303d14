"""Figures as a table, on the screen or between two marks of a page."""

import datetime as dt
import os
import platform
import re
import sqlite3
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.goals import Row

_BLOCK = re.compile(r"(<!-- figures(?:: (?P<names>[^>]*?))? -->\n).*?(<!-- end of figures -->)", re.DOTALL)
_HEAD = ("what", "of", "figure", "must", "aim", "met", "made of")


def facts() -> dict[str, Any]:
    """Return what has to be known of the machine; nothing that names it."""
    import apsw

    from fsm_agent.version import VERSION

    return {
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "fsm_agent": VERSION,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "sqlite_of_the_floor": sqlite3.sqlite_version,
        "sqlite_of_ours": apsw.sqlite_lib_version(),
    }


def number(value: float) -> str:
    """Return *value* with three digits that count."""
    if value >= 1000 or value == int(value):
        return f"{round(value):,}"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def cells(row: Row) -> tuple[str, ...]:
    """Return a row of the table."""
    sign = "≥" if row.goal is not None and row.goal.more else "≤"
    limits = ("", "") if row.goal is None else tuple(f"{sign} {limit:,g}" for limit in row.goal[:2])
    made = " · ".join(f"{name} {number(value)}" for name, value in row.more.items())
    return (row.what, row.case, f"{number(row.value)} {row.unit}", *limits, row.met, made)


def markdown(rows: Iterable[Row], *, columns: int = len(_HEAD)) -> str:
    """Return the rows as a table in Markdown, of so many columns."""
    lines = [_HEAD, tuple("---" for _ in _HEAD), *map(cells, rows)]
    return "\n".join(f"| {' | '.join(line[:columns])} |" for line in lines)


def heading(known: dict[str, Any]) -> str:
    """Return the line above the table."""
    return (
        f"fsm_agent {known['fsm_agent']}, {known['date']}; {known['system']}, {known['cpus']} processors; Python "
        f"{known['python']}; SQLite {known['sqlite_of_ours']}, the floor's {known['sqlite_of_the_floor']}."
    )


def filled(text: str, rows: Sequence[Row], known: dict[str, Any]) -> str:
    """Return *text* with tables of *rows* between its marks.

    ``<!-- figures -->`` is filled with all that was found, ``<!-- figures: reads log -->`` with what is promised of these
    groups, in short; ``<!-- end of figures -->`` ends either.

    Raises:
        SystemExit: It has no marks, or a group that is named there was not measured.
    """

    def one(found: re.Match[str]) -> str:
        if found["names"] is None:
            table = f"{heading(known)}\n\n{markdown(rows)}"
        else:
            names = found["names"].split()
            missing = sorted(set(names) - {row.group for row in rows})
            if missing:
                raise SystemExit(
                    f"figures of {', '.join(missing)}: they were not measured; measure them in the same call"
                )
            quoted = [row for row in rows if row.group in names and row.goal is not None]
            table = f"{markdown(quoted, columns=3)}\n\n{heading(known)}"
        return f"{found[1]}\n{table}\n\n{found[3]}"

    text, count = _BLOCK.subn(one, text)
    if not count:
        raise SystemExit(
            "page: it has no <!-- figures --> with <!-- end of figures --> after it; write them into it"
        )
    return text


def write(page: Path, rows: Sequence[Row], known: dict[str, Any]) -> None:
    """Fill the tables of *page*."""
    page.write_text(filled(page.read_text(encoding="utf-8"), rows, known), encoding="utf-8")


def show(row: Row) -> None:
    """Print a row as soon as it is there."""
    what, case, figure, must, aim, met, made = cells(row)
    goal = f"must {must}, aim {aim}: {met.upper() if met == 'missed' else met}" if must else ""
    print(f"{what:44.44} {case:24} {figure:>18}  {goal:34} {made}")
    sys.stdout.flush()
