"""A table is used only when it is proved sound: every place answered by one row, no law broken, and an end.

Everything is exact: the conditions of rows are boxes of finitely many facts (:mod:`fsm_agent.core.rules.boxes`), so
each check is an intersection or a difference, and each finding comes with facts at which it shows.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from operator import and_
from typing import Any, Final

import attrs

from fsm_agent.core.rules.boxes import Box, Fuel, Space, TangledError
from fsm_agent.core.rules.laws import LAWS, Law
from fsm_agent.core.rules.places import Answers, answers, domain_of, places
from fsm_agent.core.rules.rows import Finding, Row
from fsm_agent.core.rules.table import Place, Table
from fsm_agent.core.rules.termination import Bound, Circle, Proof, bound, prove
from fsm_agent.core.signals import DOMAIN, Decision

MAX_FINDINGS: Final = 100

KINDS: Final = (
    "format", "name", "gap", "overlap", "unreachable", "law", "overspend", "termination", "unused", "monotone",
)  # fmt: skip
"""Kinds of findings, in the order in which they are reported."""

SEVERITY: Final[Mapping[Decision, int]] = {
    Decision.RETRY: 1,
    Decision.RECONCILE: 1,
    Decision.REPLAN_LOCAL: 2,
    Decision.REPLAN_GLOBAL: 3,
    Decision.SKIP: 4,
    Decision.ESCALATE: 5,
    Decision.ABORT: 6,
}
"""How drastic a decision is. ``accept`` and ``continue`` are no remedy: they are compared only with what stops."""

_STOPPING: Final = 4
_BAND: Final = "budget_band"


@attrs.frozen(kw_only=True)
class Report:
    """What is known about a table after :func:`check`.

    Attributes:
        findings: What is wrong, by kind; empty for a sound table.
        proof: Why it ends, or None if that is not proved.
        bound: The most it can do between two inputs of people, or None.
    """

    findings: tuple[Finding, ...]
    proof: Proof | None = None
    bound: Bound | None = None

    @property
    def sound(self) -> bool:
        """Whether the table may be used."""
        return not self.findings

    def as_json(self) -> dict[str, Any]:
        """Return the document of ``rules check --json``."""
        limits = self.bound
        return {
            "schema": "fsm-agent/rules-check@1",
            "sound": self.sound,
            "findings": [
                {"kind": f.kind, "row": f.row, "witness": dict(f.witness), "message": f.message}
                for f in self.findings
            ],
            "proof": None if self.proof is None else str(self.proof),
            "bound": None if limits is None else attrs.asdict(limits),
        }


def check(table: Table) -> Report:
    """Return everything that is wrong with *table*, or the proof that nothing is.

    The work is bounded; a table that is too intricate to be checked within the bound is unsound.
    """
    return _Check(table).run()


class _Check:
    """One run of the analyser."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.fuel = Fuel()
        self.findings: list[Finding] = []
        self.reached: dict[str, set[Place]] = {row.id: set() for row in table.rows}
        self.overlapping: set[tuple[str, str]] = set()
        self.monotone: set[tuple[str, str, str]] = set()

    def note(self, kind: str, row: Row | None, message: str, at: Answers, box: Box) -> None:
        """Note a finding that shows at *box*."""
        witness = dict(zip(("machine", "state", "signal"), at.place, strict=True))
        facts = at.space.witness(box, self.table.initial)
        id_ = None if row is None else row.id
        self.findings.append(Finding(kind=kind, row=id_, witness={**witness, **facts}, message=message))

    def run(self) -> Report:
        proof = limits = None
        try:
            self._domains()
            for place in places():
                self._at(place)
            self._reachable()
            self._unused()
            proof, limits = self._ends()
        except TangledError:
            message = f"table {self.table.name}: its rows overlap too intricately to be checked to the end"
            self.findings.append(Finding(kind="format", message=f"{message}; use fewer conditions per row"))
        self.findings.sort(key=lambda f: KINDS.index(f.kind))
        return Report(findings=tuple(self.findings[:MAX_FINDINGS]), proof=proof, bound=limits)

    def _at(self, place: Place) -> None:
        laws = [law for law in LAWS if law.covers(*place)]
        rows = self.table.place(*place)
        costs = [self.table.decisions.get(row.decide) for row in rows]
        spent = [cost.spend for cost in costs if cost is not None and cost.spend is not None]
        also = (*(fact for law in laws for fact, _ in law.when), *spent)
        at = answers(self.table, place, rows, self.fuel, also=also)
        self._cover(at)
        for row, region in at.regions:
            if region:
                self.reached[row.id].add(place)
                self._lawful(at, row, region, laws)
                self._affordable(at, row, region)
        if not self.overlapping:  # where two rows answer at once there is nothing to compare
            self._monotone(at)

    # coverage

    def _domains(self) -> None:
        """Facts that the engine can give and the table does not know would find no row."""
        for fact, declared in self.table.inputs.items():
            home = DOMAIN[fact]
            if isinstance(home[0], str):
                missing: list[Any] = [value for value in home if value not in declared]
            elif fact in self.table.counters:
                missing = [0] if int(declared[0]) > 0 else []
            else:
                missing = [int(end) for end in home if not int(declared[0]) <= int(end) <= int(declared[1])]
            if missing:
                message = f"input {fact}: it can also be {missing[0]}; declare all its values, or leave the input out"
                self.findings.append(Finding(kind="gap", witness={fact: missing[0]}, message=message))

    def _cover(self, at: Answers) -> None:
        where = " ".join(at.place)
        if at.gap:
            what = _where(at.space, at.gap[0])
            self.note(
                "gap", None, f"{where}: no row fits{what}; add a row, or one of tier default", at, at.gap[0]
            )
        for tier, free in at.free.items():
            here = [row for row, _ in at.regions if row.tier == tier and row.id in at.boxes]
            for a, b in combinations(here, 2):
                if len(self.overlapping) >= MAX_FINDINGS:
                    return
                both = _meet(at.boxes[a.id], at.boxes[b.id])
                if both is None or (a.id, b.id) in self.overlapping:
                    continue
                found = at.space.first(free, both)
                if found is not None:
                    self.overlapping.add((a.id, b.id))
                    what = _where(at.space, found)
                    advice = "make them exclude each other"
                    message = f"{where}: rows {a.id} and {b.id} of tier {tier} both fit{what}; {advice}"
                    self.note("overlap", b, message, at, found)

    def _reachable(self) -> None:
        for row in self.table.rows:
            reached = self.reached[row.id]
            empty = next((c for c in row.when if not c.allowed), None)
            if empty is not None:
                why = f"its condition {self.table.shown(empty)} never holds"
            elif not reached:
                why = "rows of higher tiers answer everywhere, or none of its signals fires in its states"
            else:
                self._idle_names(row, reached)
                continue
            message = f"row {row.id} ({row.where}): it never answers: {why}; remove or mend it"
            self.findings.append(Finding(kind="unreachable", row=row.id, message=message))

    def _idle_names(self, row: Row, reached: set[Place]) -> None:
        """Note names in a row at which it never answers."""
        for what, index, named in (("state", 1, row.states), ("signal", 2, row.signals)):
            for name in sorted((named or set()) - {place[index] for place in reached}):
                message = (
                    f"row {row.id} ({row.where}): it never answers for {what} {name}; take {name} out of it"
                )
                self.findings.append(
                    Finding(
                        kind="unreachable",
                        row=row.id,
                        witness={"machine": row.machine, what: name},
                        message=message,
                    )
                )

    # laws and costs

    def _lawful(self, at: Answers, row: Row, region: Sequence[Box], laws: Sequence[Law]) -> None:
        where = f"row {row.id} ({row.where}) at {' '.join(at.place)}"
        for law in laws:
            if row.decide not in law.forbidden:
                continue
            forbidden = at.space.box(law.when)
            broken = (
                None
                if forbidden is None
                else next((b for box in region if (b := _meet(box, forbidden))), None)
            )
            if broken is not None:
                message = f"{where}: it decides {row.decide}{_where(at.space, broken)}, against the law {law.id}: {law.text}"
                self.note("law", row, message, at, broken)
                break
        if row.tier == "default" and row.decide not in (Decision.ESCALATE, Decision.ABORT):
            message = f"{where}: it decides {row.decide}, but the tier default may only escalate or abort"
            self.note("law", row, message, at, region[0])
        settles = row.delay is not None and self.table.delays[row.delay].kind == "settle"
        if row.decide is Decision.RECONCILE and not settles:
            message = (
                f"{where}: it reconciles without a delay of kind settle, and an early probe proves nothing"
            )
            self.note("law", row, message, at, region[0])

    def _affordable(self, at: Answers, row: Row, region: Sequence[Box]) -> None:
        cost = self.table.decisions.get(row.decide)
        counter = None if cost is None else cost.spend
        place = None if counter is None else at.space.index(counter)
        if place is None:
            return
        least = int(at.space.values(place, at.space.full[place])[0])
        none_left = at.space.mask(place, range(least, 1))
        poor = next((box for box in region if box[place] & none_left), None)
        if poor is not None:
            message = (
                f"row {row.id} ({row.where}) at {' '.join(at.place)}: it decides {row.decide}, which spends "
                f'{counter}, also where none is left; add the condition {counter} = ">=1"'
            )
            box = (*poor[:place], poor[place] & none_left, *poor[place + 1 :])
            self.note("overspend", row, message, at, box)

    # more budget is never worse

    def _monotone(self, at: Answers) -> None:
        budgets = [fact for fact in at.space.facts if fact in self.table.counters or fact == _BAND]
        for (a, here), (b, there) in combinations(at.regions, 2):
            for strict, mild, of_strict, of_mild in ((a, b, here, there), (b, a, there, here)):
                if _more_drastic(strict.decide, mild.decide):
                    for fact in budgets:
                        if (strict.id, mild.id, fact) not in self.monotone:
                            self._compare(at, fact, (strict, of_strict), (mild, of_mild))

    def _compare(
        self, at: Answers, fact: str, strict: tuple[Row, Sequence[Box]], mild: tuple[Row, Sequence[Box]]
    ) -> None:
        """Note if with more of *fact*, all else equal, the drastic row answers instead of the mild one."""
        place = at.space.index(fact)
        assert place is not None, "only facts of the space are compared"
        for one in strict[1]:
            for other in mild[1]:
                rich, poor = one[place], other[place]
                if fact == _BAND:
                    rich, poor = poor, rich  # the band's values go from much to little
                if rich.bit_length() <= (poor & -poor).bit_length():
                    continue
                met = _meet((*one[:place], 1, *one[place + 1 :]), (*other[:place], 1, *other[place + 1 :]))
                if met is not None:
                    self.monotone.add((strict[0].id, mild[0].id, fact))
                    most = one[place] & -one[place] if fact == _BAND else 1 << (one[place].bit_length() - 1)
                    box = (*met[:place], most, *met[place + 1 :])
                    message = (
                        f"{' '.join(at.place)}: with more {fact} row {strict[0].id} decides {strict[0].decide} where "
                        f"with less row {mild[0].id} decides {mild[0].decide}; more of a budget must not lead to the "
                        f"more drastic decision"
                    )
                    self.note("monotone", strict[0], message, at, box)
                    return
            self.fuel.burn(len(mild[1]))

    # thresholds

    def _unused(self) -> None:
        """Note params that conditions compare with, though a change of one changes no answer."""
        for name in sorted({param for row in self.table.rows for c in row.when for param in c.params}):
            if not any(self._matters(name, step) for step in (1, -1)):
                message = (
                    f"param {name}: rows compare with it, but one more or less changes no decision; remove it"
                )
                self.findings.append(
                    Finding(kind="unused", witness={name: self.table.params[name]}, message=message)
                )

    def _matters(self, name: str, step: int) -> bool:
        for place in places():
            rows = self.table.place(*place)
            if any(name in c.params for row in rows for c in row.when):
                moved = [_moved(self.table, row, name, step) for row in rows]
                before = answers(self.table, place, rows, self.fuel)
                after = answers(self.table, place, moved, self.fuel)
                if any(_differ(before, after)):
                    return True
        return False

    # the end

    def _ends(self) -> tuple[Proof | None, Bound | None]:
        table = self.table
        used = {row.decide: row for row in table.rows if self.reached[row.id]}
        proof = prove(used, table.decisions, table.counters)
        if isinstance(proof, Circle):
            row = used[proof.steps[0][0]]
            message = f"rows {', '.join(used[d].id for d, _ in proof.steps)} could follow each other for ever: {proof}"
            witness = {"circle": [[decision.value, counter] for decision, counter in proof.steps]}
            self.findings.append(Finding(kind="termination", row=row.id, witness=witness, message=message))
            return None, None
        return proof, bound(proof, table.decisions, table.counters)


def _differ(before: Answers, after: Answers) -> Iterator[bool]:
    """Yield for every two rows (or none) that decide differently whether they answer at the same facts."""
    for a, here in before.everywhere:
        for b, there in after.everywhere:
            if (a and (a.decide, a.delay)) != (b and (b.decide, b.delay)):
                yield any(_meet(x, y) is not None for x in here for y in there)


def _moved(table: Table, row: Row, name: str, step: int) -> Row:
    """Return *row* as it would be if the param *name* were *step* more."""
    params = {**table.params, name: table.params[name] + step}
    when = [
        c.under(params, (int(domain_of(table, c.fact)[0]), int(domain_of(table, c.fact)[1])))
        if name in c.params
        else c
        for c in row.when
    ]
    return attrs.evolve(row, when=tuple(when))


def _more_drastic(a: Decision, b: Decision) -> bool:
    if b in SEVERITY:
        return SEVERITY.get(a, 0) > SEVERITY[b]
    return SEVERITY.get(a, 0) >= _STOPPING


def _meet(a: Box, b: Box) -> Box | None:
    met = tuple(map(and_, a, b))
    return met if all(met) else None


def _where(space: Space, box: Box) -> str:
    said = ", ".join(f"{fact} {words}" for fact, words in space.describe(box).items())
    return f" where {said}" if said else ""
