"""The normal form of a plan becomes values. Nothing is checked here: what is not in normal form never comes here.

:func:`build` serves both ways in, a document that has just been checked and one from our own log; so what a log
yields is what was adopted.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from fsm_agent.core import canon
from fsm_agent.core.language import expr, refs
from fsm_agent.core.plans.numbers import micros
from fsm_agent.core.plans.plan import (
    Alternative,
    Budgets,
    Condition,
    Constraint,
    Dependency,
    Estimate,
    OnFailure,
    OpenStep,
    Plan,
    Step,
)
from fsm_agent.core.signals import Decision

NO_BUDGETS: Final = Budgets()
"""The budgets of a plan that has none: always this very value."""
_new: Final = tuple.__new__
"""Makes a dependency without a call of Python."""


@attrs.define
class Parsed:
    """Expressions by text and templates by the very value, which they hold: each is parsed once per document.

    ``standing`` are the steps that are taken over from another plan, by id, each with its very document: what that says
    was read before.
    """

    exprs: dict[str, expr.Expr] = attrs.field(factory=dict)
    templates: dict[int, refs.Template] = attrs.field(factory=dict)
    standing: dict[str, tuple[Mapping[str, Any], Step]] = attrs.field(factory=dict)

    def take_over(self, docs: Iterable[Any], base: Plan) -> list[Any]:
        """Return *docs* with the very documents of *base* where those say the same, byte for byte.

        No function is called for one that is the very document already, so that a long plan costs little.
        """
        own = {step.id: (doc, step) for step, doc in zip(base.steps, base.doc["steps"], strict=True)}
        found, standing = [*docs], self.standing
        for place, doc in enumerate(found):
            if doc.__class__ is not dict or "id" not in doc or doc["id"].__class__ is not str:
                continue  # it is none, and a fault
            name = doc["id"]
            if name in own and (own[name][0] is doc or canon.encode(own[name][0]) == canon.encode(doc)):
                found[place], standing[name] = own[name][0], own[name]
        return found

    def stands(self, doc: Any) -> bool:
        """Whether *doc* is one of those that were taken over."""
        known = self.standing.get(doc["id"]) if type(doc) is dict and type(doc.get("id")) is str else None
        return known is not None and known[0] is doc

    def expr(self, text: str) -> expr.Expr:
        """Return *text* compiled.

        Raises:
            ExpressionError: It is no expression.
        """
        found = self.exprs.get(text)
        if found is None:
            found = expr.compile(text)
            self.exprs[text] = self.exprs[found.text] = found
        return found

    def template(self, value: Any, at: refs.Place) -> refs.Template:
        """Return *value*, which stands at *at*, as a template.

        Raises:
            ExpressionError: A reference in it is malformed.
        """
        found = self.templates.get(id(value))
        if found is None:
            found = self.templates[id(value)] = refs.parse(value, at)
        return found


def build(doc: Mapping[str, Any], parsed: Parsed) -> dict[str, Any]:
    """Return the fields of a plan, all but ``doc`` and ``digest``, from its normal form."""
    steps = steps_of(doc["steps"], "", "/steps", parsed)
    return {
        "goal": doc.get("goal", ""),
        "inputs": doc.get("inputs", {}),
        "constraints": tuple(
            Constraint(
                key=c["key"],
                value=c.get("value"),
                check=parsed.expr(c["check"]),
                severity=c.get("severity", "stop"),
                say=c.get("say", ""),
            )
            for c in doc.get("constraints", ())
        ),
        "budgets": budgets(doc["budgets"]) if "budgets" in doc else NO_BUDGETS,
        "steps": steps,
        "aliases": {step.replaces: step.id for step in steps if step.replaces is not None},
    }


def steps_of(docs: list[dict[str, Any]], prefix: str, at: refs.Place, parsed: Parsed) -> tuple[Step, ...]:
    """Return the steps of one plan; ids of a nested one begin with *prefix*, such as ``s4/``."""
    known = parsed.standing
    return tuple(
        [
            known[doc["id"]][1]
            if doc["id"] in known and known[doc["id"]][0] is doc
            else _step(doc, prefix, (at, place), parsed)
            for place, doc in enumerate(docs)
        ]
    )


def _step(doc: Mapping[str, Any], prefix: str, at: refs.Place, parsed: Parsed) -> Step:
    fields = doc
    if not _MADE.isdisjoint(doc):
        fields = {**doc}
        _make(fields, doc, prefix, at, parsed)
    step = OpenStep(**fields)
    step.id = prefix + step.id
    if "args" in doc:
        step.args = parsed.template(doc["args"], (at, "args"))
    if "depends_on" in doc:
        step.depends_on = tuple(
            [
                _new(Dependency, (prefix + item, False))
                if isinstance(item, str)
                else Dependency(id=prefix + item["id"], optional=True)
                for item in doc["depends_on"]
            ]
        )
    return step.closed()


_MADE: Final = frozenset(
    {"done_when", "when", "for_each", "produces", "preconditions", "timeout_s", "confirm_within_s"}
    | {"alternatives", "on_failure", "estimate", "plan", "budgets", "replaces"}
)
"""The rarer keys whose value in a step is another than in its document."""


def _make(
    fields: dict[str, Any], doc: Mapping[str, Any], prefix: str, at: refs.Place, parsed: Parsed
) -> None:
    """Let *fields* hold what the keys of :data:`_MADE` in *doc* mean."""
    for key in [key for key in doc if key in _MADE]:
        value = fields.pop(key)
        match key:
            case "for_each":
                fields[key] = parsed.template(value, (at, key))
            case "done_when" | "when":
                fields[key] = parsed.expr(value)
            case "produces":
                fields[key] = tuple(value)
            case "preconditions":
                fields[key] = tuple([_precondition(item, parsed) for item in value])
            case "timeout_s" | "confirm_within_s":
                fields[key[:-2] + "_us"] = round(value * 1e6)
            case "alternatives":
                fields[key] = tuple(
                    Alternative(tool=a["tool"], args=parsed.template(a["args"], (((at, key), place), "args")))
                    for place, a in enumerate(value)
                )
            case "on_failure":
                fields[key] = {
                    signal: OnFailure(decide=Decision(row["decide"]), say=row.get("say", ""))
                    for signal, row in value.items()
                }
            case "estimate":
                fields[key] = Estimate(
                    tokens=value.get("tokens", 0),
                    seconds=float(value.get("seconds", 0)),
                    cost_micros=micros(value.get("cost", "0")),
                )
            case "plan":
                fields[key] = steps_of(
                    value["steps"], f"{prefix}{doc['id']}/", ((at, "plan"), "steps"), parsed
                )
            case "budgets":
                fields[key] = budgets(value)
            case _:  # "replaces"
                fields[key] = prefix + value


def _precondition(doc: Mapping[str, Any], parsed: Parsed) -> Condition:
    severity, say = doc.get("severity", "stop"), doc.get("say", "")
    return Condition(check=parsed.expr(doc["check"]), severity=severity, say=say)


def budgets(doc: Mapping[str, Any]) -> Budgets:
    """Return the limits whose normal form is *doc*."""
    reserve = doc.get("reserve", {})
    active = doc.get("active_s")
    return Budgets(
        tool_calls=doc.get("tool_calls"),
        planner_calls=doc.get("planner_calls"),
        tokens=doc.get("tokens"),
        cost_micros=micros(doc["cost"]) if "cost" in doc else None,
        active_s=float(active) if active is not None else None,
        local_replans=doc.get("local_replans"),
        global_replans=doc.get("global_replans"),
        reserve_tool_calls=reserve.get("tool_calls", 0),
        reserve_tokens=reserve.get("tokens", 0),
        reserve_cost_micros=micros(reserve.get("cost", "0")),
        reserve_active_s=float(reserve.get("active_s", 0)),
    )
