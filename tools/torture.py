"""The cases that other engines failed, run by this engine or by any other one, as a table.

``python tools/torture.py`` prints it; ``--adapter MODULE:ATTR`` runs another engine on the cases that are scenarios
(see :mod:`fsm_agent.testing.torture`), and ends with 1 if one of them comes out wrong; ``--write`` puts the table of
this engine into ``docs/torture.md``.
"""

import argparse
import importlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs

from fsm_agent.testing.scenario import load
from fsm_agent.testing.torture import Adapter, Own, judge

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "torture.md"
SCENARIOS = ROOT / "tests" / "scenarios"
CASES = ROOT / "tests" / "torture" / "cases.json"
OTHERS = ("seeds", "tables", "growing")
"""Folders of scenarios that are no torture cases."""
FRESH = "fresh look"
BEGIN, END = "<!-- the table begins -->", "<!-- the table ends -->"
MARKS = {True: "✔", False: "✖", None: "–"}


@attrs.frozen(kw_only=True)
class Row:
    """A case: its kind and id, where it comes from, what goes wrong there, what came out here, and where it stands."""

    kind: str
    id: str
    source: str
    what: str
    passed: bool | None
    words: str
    where: str


def rows(adapter: Adapter) -> Iterator[Row]:
    """Yield every case by kind and id, carried out by *adapter*; what is a test in Python only this engine can be asked."""
    found = [*_scenarios(adapter), *_tests(own=isinstance(adapter, Own))]
    yield from sorted(found, key=lambda row: (row.kind, not row.id.startswith("A"), row.id, row.where))


def _scenarios(adapter: Adapter) -> Iterator[Row]:
    for file in sorted(SCENARIOS.rglob("*.json")):
        kind = file.parent.name
        if kind in OTHERS:
            continue
        scenario = load(file)
        verdict = judge(adapter, scenario)
        name = file.stem
        yield Row(
            kind=kind,
            id=name.partition("-")[0] if scenario.source != FRESH else "new",
            source=scenario.source,
            what=scenario.what,
            passed=verdict.passed,
            words=verdict.words,
            where=f"{kind}/{name}",
        )


def _tests(*, own: bool) -> Iterator[Row]:
    cases: list[dict[str, Any]] = json.loads(CASES.read_text(encoding="utf-8"))
    for case in cases:
        yield Row(
            kind=case["kind"],
            id=case["id"],
            source=case["source"],
            what=case["what"],
            passed=True if own else None,
            words="by a test in Python" if own else "a test of this package in Python",
            where=case["test"],
        )


def table(found: Iterable[Row]) -> str:
    """Return *found* as a table in Markdown."""
    lines = ["| kind | case | what goes wrong elsewhere | here | where |", "|---|---|---|---|---|"]
    for row in found:
        said = f"{row.what} ({row.source})" if row.source != FRESH else row.what
        cells = (row.kind, row.id, said, f"{MARKS[row.passed]} {row.words}", f"`{row.where}`")
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines)


def page() -> str:
    """Return ``docs/torture.md`` with the table of today."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(rows(Own()))}\n{END}{after}"


def adapter_named(name: str) -> Adapter:
    """Return the adapter that ``MODULE:ATTR`` names; a class is called.

    Raises:
        SystemExit: There is none.
    """
    module, _, attribute = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SystemExit(f"--adapter {name}: {error}; give MODULE:ATTR, such as my_engine:Adapter") from None
    made: Adapter = found() if isinstance(found, type) else found
    return made


def main(arguments: list[str] | None = None) -> int:
    """Print or write the table; return 1 if a case came out wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--adapter", metavar="MODULE:ATTR", help="an engine to run in place of this one")
    parser.add_argument("--write", action="store_true", help="write docs/torture.md")
    options = parser.parse_args(arguments)
    if options.write:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    found = list(rows(adapter_named(options.adapter) if options.adapter else Own()))
    print(table(found))
    counts = {mark: sum(row.passed is passed for row in found) for passed, mark in MARKS.items()}
    print(", ".join(f"{count} {mark}" for mark, count in counts.items()))
    return 1 if counts["✖"] else 0


if __name__ == "__main__":
    sys.exit(main())
