"""What commands about rule tables print for people: ``(value, screen) → lines``."""

from collections.abc import Iterator
from typing import Final

from fsm_agent.core.rules.analysis import Report
from fsm_agent.core.rules.rows import Delay, Finding, Row
from fsm_agent.core.rules.table import Table
from fsm_agent.core.rules.termination import Proof
from fsm_agent.faces.frame.screen import Screen, duration, safe, short, wrapped
from fsm_agent.faces.rules.files import Checks, Compared, Trial

NEAR: Final = 5
"""How many rows that did not fit are shown; ``-v`` shows all."""


def checks(value: Checks, screen: Screen) -> Iterator[str]:
    """Whether tables are sound, and why they end."""
    for name, report in value.reports:
        yield from _checked(name, report, screen)


def _checked(name: str, report: Report, screen: Screen) -> Iterator[str]:
    count = len(report.findings)
    verdict = "sound" if report.sound else f"not sound: {count} finding{'' if count == 1 else 's'}"
    yield f"{screen.glyph('done' if report.sound else 'failed')} {short(name, 50)}: {verdict}"
    for finding in report.findings:
        yield from wrapped("  ", str(finding), screen.width)
        asked = _question(name, finding)
        if asked:
            yield f"    see: fsm-agent rules test {asked}"
    if report.proof is not None:
        yield from _proof(report.proof, screen)
    if report.bound is not None:
        most = report.bound
        words = (
            f"{most.planner_calls} planner calls in a run; {most.tool_calls} calls and probes of a step, "
            f"in each of its versions {most.attempts} tries and {most.probes} probes"
        )
        yield from wrapped("  at most, until a person speaks: ", words, screen.width)


def _proof(proof: Proof, screen: Screen) -> Iterator[str]:
    """Why a run under the table comes to an end: what is spent, and who could fill it again."""
    above = "nothing fills again"
    for counters, decisions in proof.ranking:
        words = f"{', '.join(decisions)} spend {', '.join(counters)}, which {above}"
        yield from wrapped("  it ends: ", words, screen.width)
        above = "only the above fill again"


def _question(name: str, finding: Finding) -> str:
    """Return the arguments of ``rules test`` that lead to where *finding* shows, if it shows at one place."""
    facts = dict(finding.witness)
    machine, state, signal = (facts.pop(key, None) for key in ("machine", "state", "signal"))
    if machine is None or state is None or signal is None:
        return ""
    given = "".join(f" {fact}={value}" for fact, value in facts.items())
    return f"{safe(name)} {'run' if machine == 'run' else state} {signal}{given}"


def table(value: Table, screen: Screen) -> Iterator[str]:
    """A table, row by row."""
    yield f"table {safe(value.name)}: {len(value.rows)} rows, digest {value.digest}"
    yield from wrapped("params: ", ", ".join(f"{k} = {v:g}" for k, v in value.params.items()), screen.width)
    for row in value.rows:
        yield ""
        yield from table_row(value, row, screen)


def table_row(of: Table, row: Row, screen: Screen) -> Iterator[str]:
    """One row of a table."""
    yield short(f"{row.id}  ({row.tier}, {row.where})", screen.width)
    states = ", ".join(sorted(row.states)) if row.states is not None else "any state"
    signals = ", ".join(sorted(row.signals)) if row.signals is not None else "any signal"
    yield from wrapped("    at: ", f"{row.machine} in {states}, on {signals}", screen.width)
    if row.when:
        yield from wrapped("    when: ", "; ".join(of.shown(c) for c in row.when), screen.width)
    yield from wrapped("    decide: ", _decided(of, row), screen.width)
    yield from wrapped("    why: ", row.why, screen.width)
    if row.say is not None:
        yield from wrapped("    say: ", row.say, screen.width)


def _decided(of: Table, row: Row) -> str:
    """Return the decision, and how long it waits."""
    return f"{row.decide}" + (f" {_waits(of.delays[row.delay])}" if row.delay is not None else "")


def _waits(delay: Delay) -> str:
    """Return a delay in words."""
    match delay.kind:
        case "settle":
            return "once a look would be proof"
        case "breaker":
            return "once the circuit breaker lets a call by"
        case "fixed":
            return f"after {duration(delay.s)}"
        case _:
            chance = "up to " if delay.jitter == "full" else ""
            growth = f"times {delay.factor:g} each time, at most {duration(delay.max_s)}"
            return f"after {chance}{duration(delay.base_s)}, {growth}"


def compared(value: Compared, screen: Screen) -> Iterator[str]:
    """Where two tables decide differently."""
    a, b = safe(value.a.name), safe(value.b.name)
    if value.a == value.b:
        yield f"{a} and {b} are the same table"
        return
    count = len(value.regions)
    found = f"differ in {count} region{'' if count == 1 else 's'}" if count else "decide alike everywhere"
    yield from wrapped("", f"{a} and {b} {found}", screen.width)
    if value.params:
        words = (f"{name} {_number(one)} / {_number(other)}" for name, (one, other) in value.params.items())
        yield from wrapped("params: ", ", ".join(words), screen.width)
    for region in value.regions:
        yield ""
        state = "run" if region.machine == "run" else region.state
        yield from wrapped("", f"{state} on {', '.join(region.signals)}", screen.width)
        if region.where:
            facts = "; ".join(f"{fact} {words}" for fact, words in region.where.items())
            yield from wrapped("    where: ", facts, screen.width)
        yield from wrapped(f"    {a}: ", _answer(value.a, region.a), screen.width)
        yield from wrapped(f"    {b}: ", _answer(value.b, region.b), screen.width)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"


def _answer(of: Table, row: Row | None) -> str:
    return "no row" if row is None else f"{_decided(of, row)} ({row.id}, {row.where}): {row.why}"


def trial(value: Trial, screen: Screen) -> Iterator[str]:
    """What a table would decide, why, what nearly matched, and what would change it."""
    row, of = value.row, value.table
    state = "run" if value.machine == "run" else f"task {value.state}"
    yield from wrapped("", f"{state} on {value.signal}, in table {of.name}", screen.width)
    if value.seen:
        facts = ", ".join(f"{fact} = {value.facts[fact]}" for fact in value.seen)
        yield from wrapped("facts: ", facts, screen.width)
    yield from wrapped("decide: ", _decided(of, row), screen.width)
    yield from wrapped("row: ", f"{row.id} ({row.tier}, {row.where})", screen.width)
    yield from wrapped("why: ", of.reason(row, value.signal, value.facts), screen.width)
    if row.say is not None:
        yield from wrapped("say: ", row.say, screen.width)
    yield from _near(value, screen)
    yield from _otherwise(value, screen)


def _near(value: Trial, screen: Screen) -> Iterator[str]:
    shown = value.near if screen.verbose else value.near[:NEAR]
    if shown:
        yield "nearly:"
    for row, failed in shown:
        words = f"it wants {'; '.join(failed)}"
        yield from wrapped(f"    {row.decide} ({row.id}, {row.where}): ", words, screen.width)
    if len(shown) < len(value.near):
        yield f"    ... and {len(value.near) - len(shown)} more (-v shows all)"


def _otherwise(value: Trial, screen: Screen) -> Iterator[str]:
    if value.changes is None:
        advice = "the table has no answer, or two, at some other facts; see rules check"
        yield from wrapped("otherwise: ", advice, screen.width)
    elif value.changes:
        yield "otherwise:"
        for change in value.changes:
            words = f"{change.row.decide} ({change.row.id}, {change.row.where})"
            yield from wrapped(f"    {change.fact} {change.values}: ", words, screen.width)
    else:
        yield "otherwise: no single fact would change it"
