"""Show where the shipped rule tables differ: run over one shared set of scenarios, and compared as tables.

``python tools/tables.py`` writes ``docs/tables.md``; it takes some seconds and needs the package installed. Equal
tables, scenarios and engine give an equal page.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from fsm_agent.core.rules.diff import Region, diff
from fsm_agent.core.rules.laws import LAWS
from fsm_agent.core.rules.rows import Row
from fsm_agent.core.rules.table import Table
from fsm_agent.runtime.configs import load_rules, rules_file
from fsm_agent.testing.scenario import Scenario, load
from fsm_agent.testing.simulate import Result, simulate

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tables.md"
SCENARIOS = ROOT / "tests" / "scenarios"
MADE = "tables"
"""The folder of scenarios that were made for this page; it shows them all, of the others those that differ."""
CORNERS = "corners"
"""The folder of what happens in no run that anybody would compare tables by."""
NAMES = ("default", "conservative", "exploratory")
ENDED = "the run is"

HEAD = """\
# Three rule tables, side by side

*Made by `python tools/tables.py`; a test checks that it is current. Do not edit.*

A rule table says what happens after every outcome: `fsm-agent run PLAN --rules NAME`. All of them are proved sound
before they are used (`fsm-agent rules check NAME`), and none can break a law.
"""

DYNAMIC = """\
## In the same world

Every scenario of `tests/scenarios` is run under each table as it ships (thresholds that a scenario sets for itself are
left out), in the same simulated world, with the same people and the same chance. `×` counts decisions in a row, `–` is a
signal that never came. Every run here passed its audit.
"""

STATIC = """\
## As tables

Where two tables decide differently, whatever happens: compared exactly, region by region of facts. A line stands for
as many regions as its last column says; `fsm-agent rules diff A B` shows each with its facts and reasons.
"""


@attrs.frozen(kw_only=True)
class Compared:
    """A scenario, and what came of it under each table."""

    file: Path
    scenario: Scenario
    results: Mapping[str, Result]

    @property
    def place(self) -> str:
        """Where the scenario stands, from the folder of all."""
        return self.file.relative_to(SCENARIOS).with_suffix("").as_posix()

    def lines(self) -> list[tuple[str, ...]]:
        """Return (what, one answer per table) where the tables decide differently, or the run ends differently."""
        seen = {name: _decided(result) for name, result in self.results.items()}
        rows = [
            (f"{task}: {signal}", *(_told(seen[name].get((task, signal), ())) for name in NAMES))
            for task, signal in dict.fromkeys(itertools.chain.from_iterable(seen.values()))
        ]
        rows.append((ENDED, *(self.results[name].run for name in NAMES)))
        return [row for row in rows if len(set(row[1:])) > 1]

    @property
    def differs(self) -> bool:
        """Whether the tables lead to different decisions."""
        return len({repr(_sequence(result)) for result in self.results.values()}) > 1


def compared(tables: Mapping[str, Table]) -> list[Compared]:
    """Run every scenario under every table.

    Raises:
        SystemExit: A run broke an invariant.
    """
    found = []
    for file in sorted(file for file in SCENARIOS.rglob("*.json") if file.parent.name != CORNERS):
        scenario = load(file)
        if scenario.rules == "default" and not scenario.rows and not scenario.expect.refused:
            results = {name: simulate(scenario, rules=table) for name, table in tables.items()}
            found.append(Compared(file=file, scenario=scenario, results=results))
            for name, result in results.items():
                broken = [failure for failure in result.failures if failure.startswith("audit: ")]
                if broken:
                    raise SystemExit(f"{file} under {name}: {broken[0]}; mend that before it is shown")
    return found


def _sequence(result: Result) -> list[tuple[str, str, str]]:
    return [
        (e.task or "run", e.data["signal"], e.data["decide"]) for e in result.events if e.type == "decided"
    ]


def _decided(result: Result) -> dict[tuple[str, str], list[str]]:
    """Return (task, signal) → the decisions, oldest first; what went well is left out."""
    found: dict[tuple[str, str], list[str]] = {}
    for task, signal, decide in _sequence(result):
        if decide != "accept":
            found.setdefault((task, signal), []).append(decide)
    return found


def _told(decisions: Sequence[str]) -> str:
    runs = [(decide, len(list(group))) for decide, group in itertools.groupby(decisions)]
    return ", ".join(decide if count == 1 else f"{decide} × {count}" for decide, count in runs) or "–"


def _cost(result: Result) -> str:
    """Return what a run took, in words."""
    calls, effects = sum(result.calls.values()), sum(result.effects.values())
    words = [_many(calls, "call")]
    if effects:
        words.append(_many(effects, "effect"))
    if result.planner_calls:
        words.append(f"{_many(result.planner_calls, 'plan')} asked for")
    return ", ".join([*words, f"{result.virtual_s:.1f} s"])


def _many(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |"
    yield ""


def purposes(tables: Mapping[str, Table]) -> Iterator[str]:
    """What each table is for, in its own words, and its thresholds."""
    for name in tables:
        first = rules_file(name).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        yield f"- `{name}`: {first[0].lower()}{first[1:]}"
    yield ""
    params = dict.fromkeys(itertools.chain.from_iterable(table.params for table in tables.values()))
    rows = [(f"`{p}`", *(f"{table.params[p]:g}" for table in tables.values())) for p in params]
    yield from _grid(("threshold", *tables), [row for row in rows if len(set(row[1:])) > 1])
    yield "The laws, which hold whatever a table says:"
    yield ""
    yield from (f"- {text}" for text in dict.fromkeys(law.text for law in LAWS))
    yield ""


def made(found: Sequence[Compared]) -> Iterator[str]:
    """The scenarios that were made for this page, each with all that differs."""
    for one in found:
        if one.file.parent.name == MADE:
            yield f"### {one.scenario.name[0].upper()}{one.scenario.name[1:]}"
            yield ""
            rows = one.lines() if one.differs else [_alike(one)]
            rows.append(("it took", *(_cost(one.results[name]) for name in NAMES)))
            yield from _grid((f"`{one.place}`", *NAMES), rows)


def _alike(one: Compared) -> tuple[str, ...]:
    """Return what all tables decide, where they decide alike."""
    said = [f"{signal}: {_told(d)}" for (_, signal), d in _decided(one.results[NAMES[0]]).items()]
    return ("all alike", *(["; ".join(said)] * len(NAMES)))


def others(found: Sequence[Compared]) -> Iterator[str]:
    """Of all other scenarios those in which the tables decide differently."""
    yield "### Of the other scenarios"
    yield ""
    yield "Those of public bugs and of the articles that are not named here come out alike under all three tables."
    yield ""
    rows: list[tuple[str, ...]] = []
    for one in found:
        if one.file.parent.name != MADE and one.differs and (lines := one.lines()):
            first, *rest = lines
            rows.append((f"`{one.place}`", *first))
            rows.extend(("", *line) for line in rest)
    yield from _grid(("scenario", "task and signal", *NAMES), rows)


def static(a: Table, b: Table) -> Iterator[str]:
    """The regions in which two tables differ, those with the same rows in one line."""
    regions = diff(a, b)
    counts: dict[tuple[str, ...], int] = {}
    for region in regions:
        key = (
            "run" if region.machine == "run" else region.state,
            ", ".join(region.signals),
            *_answers(a, b, region),
        )
        counts[key] = counts.get(key, 0) + 1
    yield f"### `{a.name}` and `{b.name}`: {len(regions)} regions"
    yield ""
    head = ("state", "signals", f"`{a.name}`", f"`{b.name}`", "regions")
    yield from _grid(head, [(*key, str(count)) for key, count in counts.items()])


def _answers(a: Table, b: Table, region: Region) -> tuple[str, str]:
    one, other = _answer(region.a), _answer(region.b)
    alike = region.a is not None and region.b is not None and region.a.decide is region.b.decide
    return (f"{one}{_wait(a, region.a)}", f"{other}{_wait(b, region.b)}") if alike else (one, other)


def _answer(row: Row | None) -> str:
    return "no row" if row is None else f"{row.decide} ({row.id})"


def _wait(table: Table, row: Row | None) -> str:
    """Return how a delay grows, where only that differs."""
    if row is None or row.delay is None:
        return ""
    delay = table.delays[row.delay]
    return f", after {delay.base_s:g} s × {delay.factor:g} each time, at most {delay.max_s:g} s"


def page() -> str:
    """Return the page."""
    tables = {name: load_rules(name) for name in NAMES}
    found = compared(tables)
    parts = [HEAD, *purposes(tables), DYNAMIC, *made(found), *others(found), STATIC]
    for name in NAMES[1:]:
        parts.extend(static(tables[NAMES[0]], tables[name]))
    return "\n".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
