"""Figures as a table, on the screen or between two marks of a page."""

import datetime as dt
import os
import platform
import sqlite3
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.goals import Row

BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
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
    if value >= 1000:
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


def markdown(rows: Iterable[Row]) -> str:
    """Return the rows as a table in Markdown."""
    lines = [_HEAD, tuple("---" for _ in _HEAD), *map(cells, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def heading(known: dict[str, Any]) -> str:
    """Return the line above the table."""
    return (
        f"fsm_agent {known['fsm_agent']}, {known['date']}; {known['system']}, {known['cpus']} processors; Python "
        f"{known['python']}; SQLite {known['sqlite_of_ours']}, the floor's {known['sqlite_of_the_floor']}."
    )


def write(page: Path, text: str) -> None:
    """Put *text* between the marks of *page*.

    Raises:
        SystemExit: The page has no marks.
    """
    before = page.read_text(encoding="utf-8")
    head, begin, rest = before.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit(
            f"page {page}: it has no {BEGIN} with {END} after it; write them where the table belongs"
        )
    page.write_text(f"{head}{begin}\n\n{text}\n\n{end}{tail}", encoding="utf-8")


def show(row: Row) -> None:
    """Print a row as soon as it is there."""
    what, case, figure, must, aim, met, made = cells(row)
    goal = f"must {must}, aim {aim}: {met.upper() if met == 'missed' else met}" if must else ""
    print(f"{what:44.44} {case:24} {figure:>18}  {goal:34} {made}")
    sys.stdout.flush()
