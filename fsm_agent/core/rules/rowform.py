"""From one ``[[row]]`` of a document to a row: every name and number in it is checked here."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fsm_agent.core.rules.rows import TIERS, Condition, Row, interval, parse_range
from fsm_agent.core.rules.words import MAX_NAMES, MAX_NUMBER, MAX_TEXT, Notes, listed, near, shown
from fsm_agent.core.signals import HOME, Decision, Signal

Domain = tuple[str, ...] | tuple[int, int]

MACHINES: Final = ("task", "run")
STATES: Final = {machine: tuple(s for m, s in HOME if m == machine) for machine in MACHINES}
SIGNALS: Final = tuple(s.value for s in Signal)
DECISIONS: Final = tuple(d.value for d in Decision)

_KEYS: Final = ("id", "tier", "machine", "state", "signal", "when", "decide", "delay", "why", "say")


class RowReader:
    """Reads rows, given what the rest of the document defines."""

    def __init__(
        self,
        notes: Notes,
        params: Mapping[str, int | float],
        inputs: Mapping[str, Domain],
        delays: Iterable[str],
    ) -> None:
        """Note faults in *notes*; *params*, *inputs* and *delays* are what rows may name."""
        self._notes = notes
        self._params = params
        self._inputs = inputs
        self._delays = tuple(delays)

    def read(self, id_: str, given: Mapping[str, Any], *, source: str, line: int | None) -> Row | None:
        """Return the row, or None if something is wrong with it, which is noted."""
        notes = self._notes
        where = f"row {id_} ({source if line is None else f'{source}:{line}'})"
        before = len(notes.findings)
        notes.known(where, given, _KEYS, row=id_)
        tier, machine = given.get("tier", "rule"), given.get("machine", "task")
        for what, value, allowed in (("tier", tier, TIERS), ("machine", machine, MACHINES)):
            if value not in allowed:
                advice = f"; it is one of {listed(allowed)}"
                notes.fault(f"{where}: unknown {what} {shown(value)}{advice}", kind="name", row=id_)
        states = self._choice(where, id_, "state", given, STATES[machine] if machine in MACHINES else ())
        signals = self._choice(where, id_, "signal", given, SIGNALS)
        conditions = self._conditions(where, id_, given.get("when", {}))
        decide = decision(notes, where, given.get("decide"), row=id_)
        delay = given.get("delay")
        if delay is not None and delay not in self._delays:
            notes.fault(
                f"{where}: unknown delay {shown(delay)}{near(delay, self._delays)}", kind="name", row=id_
            )
        for key, text in (("why", given.get("why")), ("say", given.get("say", "-"))):
            if not isinstance(text, str) or not text.strip() or len(text) > MAX_TEXT:
                notes.fault(f"{where}: {key} is {shown(text)}; give the reason in words", row=id_)
        if len(notes.findings) > before or decide is None:
            return None
        return Row(
            id=id_,
            tier=tier,
            machine=machine,
            states=states,
            signals=signals,
            when=conditions,
            decide=decide,
            delay=delay,
            why=given["why"],
            say=given.get("say"),
            source=source,
            line=line,
        )

    def _choice(
        self, where: str, id_: str, key: str, row: Mapping[str, Any], known: tuple[str, ...]
    ) -> frozenset[str] | None:
        given = row.get(key)
        if given is None:
            return None
        words = (given,) if isinstance(given, str) else self._notes.texts(f"{key} of {where}", given)
        for word in words:
            if word not in known:
                self._notes.fault(
                    f"{where}: unknown {key} {shown(word)}{near(word, known)}", kind="name", row=id_
                )
        if not words:
            advice = "leave it out for all, or name at least one"
            self._notes.fault(f"{where}: {key} is {shown(given)}; {advice}", row=id_)
        return frozenset(words)

    def _conditions(self, where: str, id_: str, when: Any) -> tuple[Condition, ...]:
        if not isinstance(when, Mapping) or len(when) > MAX_NAMES:
            self._notes.fault(
                f'{where}: when is {shown(when)}; give conditions such as {{ effect = "read" }}', row=id_
            )
            return ()
        found = []
        for fact, given in when.items():
            domain = self._inputs.get(fact)
            if domain is None:
                advice = near(fact, self._inputs)
                self._notes.fault(f"{where}: unknown fact {shown(fact)}{advice}", kind="name", row=id_)
            elif isinstance(domain[0], str):
                found.append(self._values(where, id_, fact, given, tuple(str(d) for d in domain)))
            else:
                found.append(self._range(where, id_, fact, given, domain))
        # in one order, whatever the document's: a log has its members sorted
        return tuple(sorted((c for c in found if c is not None), key=lambda c: c.fact))

    def _values(
        self, where: str, id_: str, fact: str, given: Any, domain: tuple[str, ...]
    ) -> Condition | None:
        words = (given,) if isinstance(given, str) else self._notes.texts(f"{fact} of {where}", given)
        wrong = [word for word in words if word not in domain]
        if wrong or not words:
            found = shown(wrong[0] if wrong else given)
            self._notes.fault(
                f"{where}: {fact} is never {found}; it is one of {listed(domain)}", kind="name", row=id_
            )
            return None
        return Condition(fact=fact, text=tuple(v for v in domain if v in words), allowed=frozenset(words))

    def _range(self, where: str, id_: str, fact: str, given: Any, domain: Domain) -> Condition | None:
        text = str(given) if type(given) is int and abs(given) <= MAX_NUMBER else given
        text = text.strip() if isinstance(text, str) and len(text) <= MAX_TEXT else ""
        parsed = parse_range(text)
        if parsed is None:
            advice = "write N, >=N, <=N, >N, <N or A..B, with $param for a number"
            self._notes.fault(f"{where}: {fact} is {shown(given)}; {advice}", row=id_)
            return None
        operator, operands = parsed
        values = [self._notes.value(self._params, where, o if o[0] == "$" else int(o)) for o in operands]
        if not all(isinstance(value, int) for value in values):
            advice = "that is no whole number of [params]"
            self._notes.fault(
                f"{where}: {fact} is compared with {listed(operands)}; {advice}", kind="name", row=id_
            )
            return None
        return Condition(
            fact=fact,
            text="..".join(operands) if operator == ".." else operator + operands[0],
            allowed=interval(operator, values, (int(domain[0]), int(domain[1]))),
            params=tuple(o[1:] for o in operands if o[0] == "$"),
        )


def decision(notes: Notes, where: str, name: Any, row: str | None = None) -> Decision | None:
    """Return the decision called *name*, or note that there is none."""
    if isinstance(name, str) and name in DECISIONS:
        return Decision(name)
    notes.fault(f"{where}: unknown decision {shown(name)}{near(name, DECISIONS)}", kind="name", row=row)
    return None


def plain(row: Row) -> dict[str, Any]:
    """Return *row* as JSON, in normal form."""
    out: dict[str, Any] = {"id": row.id, "tier": row.tier, "machine": row.machine}
    if row.states is not None:
        out["state"] = sorted(row.states)
    if row.signals is not None:
        out["signal"] = sorted(row.signals)
    if row.when:
        out["when"] = {c.fact: c.text if isinstance(c.text, str) else list(c.text) for c in row.when}
    out |= {"decide": row.decide.value, "why": row.why}
    return out | {key: text for key, text in (("delay", row.delay), ("say", row.say)) if text is not None}
