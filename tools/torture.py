"""The cases that other engines failed, run by this engine or by any other one, as a table.

``python tools/torture.py`` prints it; ``--adapter MODULE:ATTR`` runs another engine on the cases that are scenarios
(see :mod:`fsm_agent.testing.torture`), and ends with 1 if one of them comes out wrong; ``--write`` puts the table of
this engine into ``docs/torture.md``. Cases that are tests in Python are run by pytest, for this engine alone, and counted
as what came out there.
"""

import argparse
import importlib
import json
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from fsm_agent.testing.scenario import load
from fsm_agent.testing.torture import Adapter, Own, judge

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "torture.md"
SCENARIOS = ROOT / "tests" / "scenarios"
CASES = ROOT / "tests" / "torture" / "cases.json"
OTHERS = ("seeds", "tables", "growing", "corners")
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


Outcomes = Mapping[str, tuple[bool | None, str]]
"""From a test in Python to whether it passed, and what to say of that."""


def rows(adapter: Adapter, outcomes: Outcomes) -> Iterator[Row]:
    """Yield every case by kind and id, carried out by *adapter*; of tests in Python it is told what came out."""
    found = [*_scenarios(adapter), *_tests(outcomes)]
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


def _cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(CASES.read_text(encoding="utf-8"))
    return found


def _tests(outcomes: Outcomes) -> Iterator[Row]:
    for case in _cases():
        passed, words = outcomes.get(case["test"], (False, "it was not run"))
        yield Row(
            kind=case["kind"],
            id=case["id"],
            source=case["source"],
            what=case["what"],
            passed=passed,
            words=words,
            where=case["test"],
        )


def not_asked() -> Outcomes:
    """Return what is said of tests in Python to another engine."""
    return {case["test"]: (None, "a test of this package in Python") for case in _cases()}


def ran() -> Outcomes:
    """Run the tests in Python by pytest, and return what came out: passed is what ran and did not fail, in all its cases."""
    names = [case["test"].partition("::") for case in _cases()]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = ["-q", "-p", "no:cacheprovider", "-o", "junit_family=xunit1", f"--junitxml={report}"]
        wanted = ["-k", " or ".join(sorted({name for _, _, name in names}))]
        files = sorted({file for file, _, _ in names})
        command = [sys.executable, "-m", "pytest", *options, *wanted, *files]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if not report.is_file():
            raise SystemExit(f"pytest: it made no report (exit {done.returncode}); {done.stdout[-500:]}")
        cases = list(ET.parse(report).iter("testcase"))  # noqa: S314  # pytest wrote it
    return {f"{file}::{name}": _outcome(cases, file, name) for file, _, name in names}


def _outcome(cases: Iterable[ET.Element], file: str, name: str) -> tuple[bool | None, str]:
    own = [
        c
        for c in cases
        if c.get("name", "").partition("[")[0] == name and Path(c.get("file", "")) == Path(file)
    ]
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in own)
    skipped = sum(case.find("skipped") is not None for case in own)
    if failed or not own:
        return False, f"{failed} of {len(own)} tests failed" if own else "there is no such test"
    if skipped == len(own):
        return None, "skipped"
    return True, f"{len(own) - skipped} passed in Python"


def recorded() -> Outcomes:
    """Return what the page says of the tests in Python: what came out when it was made."""
    marks = {mark: passed for passed, mark in MARKS.items()}
    found = re.findall(
        r"\| (.) ([^|]*) \| `([^`|]*::[^`|]*)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    return {where: (marks[mark], words) for mark, words, where in found}


def table(found: Iterable[Row]) -> str:
    """Return *found* as a table in Markdown."""
    lines = ["| kind | case | what goes wrong elsewhere | here | where |", "|---|---|---|---|---|"]
    for row in found:
        said = f"{row.what} ({row.source})" if row.source != FRESH else row.what
        cells = (row.kind, row.id, said, f"{MARKS[row.passed]} {row.words}", f"`{row.where}`")
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines)


def page(outcomes: Outcomes) -> str:
    """Return ``docs/torture.md`` with the table of today, of the tests in Python with these *outcomes*."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(rows(Own(), outcomes))}\n{END}{after}"


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
        PAGE.write_text(page(ran()), encoding="utf-8")
        return 0
    adapter = adapter_named(options.adapter) if options.adapter else Own()
    found = list(rows(adapter, ran() if isinstance(adapter, Own) else not_asked()))
    print(table(found))
    counts = {mark: sum(row.passed is passed for row in found) for passed, mark in MARKS.items()}
    print(", ".join(f"{count} {mark}" for mark, count in counts.items()))
    return 1 if counts["✖"] else 0


if __name__ == "__main__":
    sys.exit(main())
