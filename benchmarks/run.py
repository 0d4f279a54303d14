"""Every figure that is promised or quoted, by one command: ``python benchmarks/run.py``.

Ours and the floor run in turns in this process, so their ratio means something on a machine that does other things as
well. ``--quick`` takes less than a minute, ``--full`` adds 100,000 steps and records, ``--only NAME`` measures a part, ``--peers`` sets
this engine beside others (each in a virtual environment of its own, which is made at the first time), ``--json FILE`` keeps
everything, ``--write PAGE…`` puts the tables between the marks of pages. The exit code is 1 if a promise is not kept and
``--check`` was given.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import again, beside, parts, running, sizes, table, where
from benchmarks.goals import Row
from benchmarks.settings import Settings
from benchmarks.timing import ROUNDS

GROUPS: dict[str, Callable[[Settings], Iterator[Row]]] = {
    "disk": running.disk,
    "memory": running.memory,
    "reads": running.reads,
    "writes": running.writes,
    "chain": running.serial,
    "straggler": running.straggler,
    "growth": sizes.growth,
    "log": sizes.log,
    "alive": sizes.memory,
    "reopen": again.reopen,
    "finish": again.finish,
    "decide": parts.decide,
    "fold": parts.fold,
    "audit": parts.audit,
    "plan": parts.plan,
    "replan": parts.replan,
    "install": parts.installation,
    "where": where.where,
}
"""What there is to be measured, by name."""


def parser() -> argparse.ArgumentParser:
    """Return what the command line is read with."""
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--only", nargs="*", choices=GROUPS, metavar="NAME", help=f"of {', '.join(GROUPS)}")
    found.add_argument("--quick", action="store_true")
    found.add_argument("--full", action="store_true")
    found.add_argument("--rounds", type=int, default=ROUNDS)
    found.add_argument(
        "--peers", action="store_true", help="beside others; with --only, nothing else but what is named"
    )
    found.add_argument(
        "--cache", type=Path, help="where their environments are kept; the user's cache by default"
    )
    found.add_argument(
        "--kept", type=Path, metavar="FILE", help="what --json kept: its groups that are not measured now"
    )
    found.add_argument("--json", type=Path, metavar="FILE")
    found.add_argument("--write", type=Path, nargs="+", default=[], metavar="PAGE")
    found.add_argument("--check", action="store_true")
    found.add_argument(
        "--folder", type=Path, help="where files are made and removed; the system's by default"
    )
    return found


def kept_rows(file: Path, known: dict[str, Any], measured: set[str]) -> list[Row]:
    """Return the rows that *file* kept of groups that are not among those *measured* now.

    Raises:
        SystemExit: They are of another day, machine or version.
    """
    found = json.loads(file.read_text(encoding="utf-8"))
    if found["facts"] != known:
        raise SystemExit(
            f"figures {file}: they are of {found['facts']}, now it is {known}; measure them again"
        )
    return [Row.from_json(row) for row in found["rows"] if row["group"] not in measured]


def keep(file: Path, known: dict[str, Any], rows: list[Row]) -> None:
    """Keep what was found, and what has to be known of the machine, in *file*."""
    kept = {"facts": known, "rows": [row.as_json() for row in rows]}
    file.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> int:
    """Measure, print, keep."""
    options = parser().parse_args()
    known = table.facts()
    named = list(options.only if options.only is not None else GROUPS) + (["peers"] if options.peers else [])
    groups = GROUPS | {"peers": lambda settings: beside.rows(settings, options.cache or beside.cache())}
    kept = [] if options.kept is None else kept_rows(options.kept, known, set(named))
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=options.folder) as folder:
        settings = Settings(
            folder=Path(folder), quick=options.quick, full=options.full, rounds=max(1, options.rounds)
        )
        for name in named:
            for row in groups[name](settings):
                rows.append(row)
                table.show(row)
            if options.json:  # group by group: what a later one breaks is not lost
                keep(options.json, known, [*kept, *rows])
    order = [*GROUPS, "peers"]
    found = sorted([*kept, *rows], key=lambda row: order.index(row.group))
    for page in options.write:
        table.write(page, found, known)
    return int(options.check and any(row.met == "missed" for row in found))


if __name__ == "__main__":
    sys.exit(main())
