"""From a document (parsed TOML or JSON) to the parts of a table: everything wrong is said at once.

Nothing here judges whether a table is sound; that is :mod:`fsm_agent.core.rules.analysis`. Work is bounded whatever
the document holds: rows, names and texts have limits, and nothing is descended into but the known keys.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from fsm_agent.core.rules.rowform import Domain, RowReader, decision, plain
from fsm_agent.core.rules.rows import SCOPES, Counter, Delay, Row, Spend
from fsm_agent.core.rules.words import (
    COUNTERS,
    MAX_COUNT,
    MAX_DEPTH,
    MAX_NAMES,
    MAX_ROWS,
    PARAMS,
    Notes,
    listed,
    near,
    number,
    shown,
)
from fsm_agent.core.signals import DOMAIN, Decision

Base = Callable[[str], Mapping[str, Any]]

_SECTIONS: Final = ("params", "inputs", "counters", "decisions", "delays")
_KEYS: Final = ("schema", "extends", "drop", *_SECTIONS, "row")
_ROW_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_PARAM: Final = re.compile(r"[a-z][a-z0-9_]{0,79}")

_DELAY_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "exponential": ("base_s", "factor", "max_s", "jitter"),
    "fixed": ("s",),
    "settle": (),
    "breaker": (),
}


@attrs.define(kw_only=True, eq=False)
class Parts:
    """What a document says, resolved, and the same as plain JSON."""

    params: dict[str, int | float] = attrs.field(factory=dict)
    inputs: dict[str, Domain] = attrs.field(factory=dict)
    counters: dict[str, Counter] = attrs.field(factory=dict)
    decisions: dict[Decision, Spend] = attrs.field(factory=dict)
    delays: dict[str, Delay] = attrs.field(factory=dict)
    rows: list[Row] = attrs.field(factory=list)
    canonical: dict[str, Any] = attrs.field(factory=dict)


class Reader(Notes):
    """Reads one document with everything it extends, and gathers what is wrong in ``findings``."""

    def __init__(self, *, name: str, lines: Mapping[str, int]) -> None:
        """Read the table *name*; *lines* maps ``source:row id`` to the row's line."""
        super().__init__()
        self.name = name
        self.parts = Parts()
        self._lines = lines
        self._sections: dict[str, dict[str, Any]] = {key: {} for key in _SECTIONS}
        self._rows: dict[str, tuple[str, Mapping[str, Any]]] = {}

    def read(
        self, document: Mapping[str, Any], *, base: Base | None, params: Mapping[str, int | float], flat: bool
    ) -> Parts:
        """Return the parts; they are complete only if there are no findings.

        Args:
            document: As parsed.
            base: Gives the document that ``extends`` names.
            params: Values that go before the document's own.
            flat: The document is a canonical one: it repeats params that nothing in it names.
        """
        for source, doc in reversed(self._chain(document, base)):
            self._lay(source, doc)
        self._read_params(params, flat=flat)
        self._read_inputs(self._sections["inputs"])
        self._read_counters(self._sections["counters"])
        self._read_decisions(self._sections["decisions"])
        self._read_delays(self._sections["delays"])
        self._read_rows()
        if not flat:
            own = document.get("params", {})
            self._unused({*params, *(own if isinstance(own, Mapping) else ())})
        return self.parts

    def _chain(self, document: Mapping[str, Any], base: Base | None) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the document and those it extends, the last one extends nothing."""
        chain = [(self.name, document)]
        while isinstance(parent := chain[-1][1].get("extends"), str):
            if base is None or len(chain) > MAX_DEPTH or parent in (name for name, _ in chain):
                self.fault(
                    f"extends of table {chain[-1][0]}: {shown(parent)} cannot be followed; "
                    f"a table extends another one, at most {MAX_DEPTH} deep, never itself"
                )
                break
            chain.append((parent, base(parent)))
        return chain

    def _lay(self, source: str, doc: Mapping[str, Any]) -> None:
        """Lay a document over those it extends."""
        self.known(f"table {source}", doc, _KEYS)
        if doc.get("schema") != 1 or isinstance(doc["schema"], bool):
            self.fault(f"schema of table {source}: {shown(doc.get('schema'))}; write schema = 1")
        if not isinstance(doc.get("extends", ""), str):
            self.fault(f"extends of table {source}: {shown(doc['extends'])}; give the name of a table")
        for key, below in self._sections.items():
            section = doc.get(key, {})
            if (
                isinstance(section, Mapping)
                and len(section) <= MAX_NAMES
                and all(isinstance(name, str) for name in section)
            ):
                below.update(section)
            else:
                advice = f"give a section of at most {MAX_NAMES} names"
                self.fault(f"[{key}] of table {source}: {shown(section)}; {advice}")
        for id_ in self.texts(f"drop of table {source}", doc.get("drop", [])):
            if self._rows.pop(id_, None) is None:
                advice = near(id_, self._rows)
                self.fault(f"drop of table {source}: there is no row {shown(id_)}{advice}", kind="name")
        self._lay_rows(source, doc.get("row", []))

    def _lay_rows(self, source: str, given: Any) -> None:
        if not isinstance(given, list | tuple) or len(given) > MAX_ROWS:
            size = f"{len(given)} rows" if isinstance(given, list | tuple) else shown(given)
            self.fault(f"row of table {source}: {size}; write at most {MAX_ROWS} [[row]] sections")
            return
        seen = set()
        for index, row in enumerate(given):
            id_ = row.get("id") if isinstance(row, Mapping) else None
            if not isinstance(id_, str) or not _ROW_ID.fullmatch(id_):
                self.fault(
                    f"row {index} of table {source}: its id is {shown(id_)}; give letters, digits, - _ ."
                )
            elif id_ in seen:
                message = f"row {id_} of table {source}: the id is given twice; give each row its own"
                self.fault(message, kind="name", row=id_)
            else:
                seen.add(id_)
                self._rows[id_] = (source, row)

    def _read_params(self, given: Mapping[str, int | float], *, flat: bool) -> None:
        section = self._sections["params"]
        left_out = {name: param.default for name, param in PARAMS.items() if not (flat and param.added)}
        values = left_out | section
        for name in given:
            if name not in values:
                advice = near(name, values)
                self.fault(f"param {shown(name)}: table {self.name} has no such param{advice}", kind="name")
        values |= {name: value for name, value in given.items() if name in values}
        for name, value in values.items():
            known = PARAMS.get(name)
            whole = known is not None and known.integer
            if not _PARAM.fullmatch(name):
                advice = "write lower-case letters, digits, _"
                self.fault(f"param {shown(name)} of table {self.name}: no name; {advice}")
            elif not number(value) or (whole and not isinstance(value, int)):
                advice = "give a whole number" if whole else "give a number"
                self.fault(f"param {name} of table {self.name}: {shown(value)}; {advice}")
            elif known is not None and not known.low <= value <= known.high:
                advice = f"allowed is {known.low:g} to {known.high:g}"
                self.fault(f"param {name} of table {self.name}: {value}; {advice}")
            else:
                self.parts.params[name] = value

    def _read_inputs(self, section: Mapping[str, Any]) -> None:
        for name, values in (section or DOMAIN).items():
            home = DOMAIN.get(name)
            where = f"input {shown(name)} of table {self.name}"
            if home is None:
                self.fault(f"{where}: there is no such fact{near(name, DOMAIN)}", kind="name")
            elif isinstance(home[0], str):
                words = self.texts(where, values)
                for word in words:
                    if word not in home:
                        advice = f"it is one of {listed(home)}"
                        self.fault(f"{where}: it never is {shown(word)}; {advice}", kind="name")
                self.parts.inputs[name] = tuple(str(w) for w in home if w in words) or tuple(
                    str(w) for w in home
                )
            else:
                pair = tuple(values) if isinstance(values, list | tuple) else ()
                whole = all(type(v) is int and 0 <= v <= MAX_COUNT for v in pair)
                if len(pair) == 2 and whole and pair[0] <= pair[1]:
                    self.parts.inputs[name] = pair
                else:
                    self.fault(f"{where}: {shown(values)}; give [lowest, highest] from 0 to {MAX_COUNT}")

    def _read_counters(self, section: Mapping[str, Any]) -> None:
        canonical: dict[str, Any] = {}
        for name, given in ({**COUNTERS, **section}).items():
            where = f"counter {shown(name)} of table {self.name}"
            if name not in COUNTERS:
                self.fault(f"{where}: there is no such counter{near(name, COUNTERS)}", kind="name")
                continue
            if not isinstance(given, Mapping):
                self.fault(f"{where}: {shown(given)}; write initial and scope")
                continue
            full = {**COUNTERS[name], **given}
            self.known(where, full, ("initial", "scope"))
            initial = self.value(self.parts.params, where, full["initial"])
            if type(initial) is not int or not 0 <= initial <= MAX_COUNT:
                advice = f"give a whole number from 0 to {MAX_COUNT}, or $param"
                self.fault(f"{where}: initial is {shown(full['initial'])}; {advice}")
            elif full["scope"] not in SCOPES:
                advice = f"it is one of {listed(SCOPES)}"
                self.fault(f"{where}: scope is {shown(full['scope'])}; {advice}", kind="name")
            else:
                self.parts.counters[name] = Counter(initial=initial, scope=full["scope"])
                canonical[name] = full
                if name in self.parts.inputs:
                    low, high = (int(bound) for bound in self.parts.inputs[name])
                    self.parts.inputs[name] = (low, max(high, initial))
        self.parts.canonical["counters"] = canonical

    def _read_decisions(self, section: Mapping[str, Any]) -> None:
        canonical: dict[str, Any] = {}
        for name, given in section.items():
            where = f"decision {shown(name)} of table {self.name}"
            decide = decision(self, where, name)
            if not isinstance(given, Mapping):
                self.fault(f"{where}: {shown(given)}; write spend and refill")
                continue
            self.known(where, given, ("spend", "refill"))
            spend, refill = given.get("spend"), self.texts(where, given.get("refill", []))
            for counter in refill if spend is None else (spend, *refill):
                if not isinstance(counter, str) or counter not in COUNTERS:
                    advice = near(counter, COUNTERS)
                    self.fault(f"{where}: there is no counter {shown(counter)}{advice}", kind="name")
            if decide is not None:
                self.parts.decisions[decide] = Spend(spend=spend, refill=refill)
                canonical[name] = {"refill": list(refill)} | ({} if spend is None else {"spend": spend})
        self.parts.canonical["decisions"] = canonical

    def _read_delays(self, section: Mapping[str, Any]) -> None:
        canonical: dict[str, Any] = {}
        for name, given in section.items():
            where = f"delay {shown(name)} of table {self.name}"
            kind = given.get("kind") if isinstance(given, Mapping) else None
            if not isinstance(kind, str) or kind not in _DELAY_KEYS:
                advice = f"it is one of {listed(_DELAY_KEYS)}"
                self.fault(f"{where}: kind is {shown(kind)}; {advice}", kind="name")
                continue
            keys = _DELAY_KEYS[kind]
            self.known(where, given, ("kind", *keys))
            values = {key: self._delay_value(where, key, given[key]) for key in keys if key in given}
            values = {key: value for key, value in values.items() if value is not None}
            self.parts.delays[name] = Delay(kind=kind, **values)
            canonical[name] = {"kind": kind} | {
                k: v if k == "jitter" else given[k] for k, v in values.items()
            }
        self.parts.canonical["delays"] = canonical

    def _delay_value(self, where: str, key: str, given: Any) -> Any:
        if key == "jitter":
            value = given if not isinstance(given, bool) else ("full" if given else "none")
            fits = value in ("full", "none")
        else:
            value = self.value(self.parts.params, where, given)
            fits = number(value) and value >= (1 if key == "factor" else 0)
        if fits:
            return value
        advice = "give seconds from 0, a factor from 1, jitter full or none"
        self.fault(f"{where}: {key} is {shown(given)}; {advice}")
        return None

    def _read_rows(self) -> None:
        parts = self.parts
        if not self._rows:
            self.fault(f"table {self.name}: it has no rows; add at least one [[row]]")
        if len(self._rows) > MAX_ROWS:
            self.fault(f"table {self.name}: it has {len(self._rows)} rows; at most {MAX_ROWS} are allowed")
            return
        reader = RowReader(self, parts.params, parts.inputs, parts.delays)
        for id_, (source, given) in self._rows.items():
            row = reader.read(id_, given, source=source, line=self._lines.get(f"{source}:{id_}"))
            if row is not None:
                parts.rows.append(row)
        parts.canonical |= {
            "schema": 1,
            "name": self.name,
            "params": dict(sorted(parts.params.items())),
            "inputs": {name: list(domain) for name, domain in parts.inputs.items()},
            "row": [plain(row) for row in parts.rows],
        }

    def _unused(self, own: Iterable[str]) -> None:
        """Note params that this document or the caller sets, though nothing reads them."""
        named = {param for row in self.parts.rows for c in row.when for param in c.params}
        for section in (self.parts.canonical["counters"], self.parts.canonical["delays"]):
            named |= {v[1:] for entry in section.values() for v in entry.values() if str(v).startswith("$")}
        for param in sorted(set(own) & set(self.parts.params) - named):
            if param not in PARAMS or not PARAMS[param].engine:
                advice = "remove it"
                message = f"param {param} of table {self.name}: no row, counter or delay uses it; {advice}"
                self.fault(message, kind="unused")
