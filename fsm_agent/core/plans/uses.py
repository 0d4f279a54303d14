"""Which results may be read where: a step reads its ancestors, for only they are known to come before it.

A step of a nested plan also reads what its enclosing step may read; a constraint reads every step. Whoever
declares what he ``produces`` is taken at his word: other fields cannot be read.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import attrs

from fsm_agent.core.language import refs
from fsm_agent.core.language.expr import Expr
from fsm_agent.core.language.refs import Ref, Segment, Template
from fsm_agent.core.plans.faults import Faults, cut, pointer, quoted, several
from fsm_agent.core.plans.graph import Level, level
from fsm_agent.core.plans.plan import Plan, Step

_FEW: Final = 8
"""So few places are found in a list as soon as in a set."""
_INPUTS: Final = "$inputs"
_BATCH: Final = ("$item", "$index")
_PLACE: Final = re.compile(r"\[\d+\]$")
_WHEN: Final = "a condition reads results ($s1.x) and $inputs"
_BEFORE: Final = "a precondition reads args.x, results ($s1.x) and $inputs"


@attrs.define
class Places:
    """Where each reference of a value stands; found only when something is wrong with one."""

    source: Any
    at: str
    found: list[str] | None = None

    def of(self, number: int) -> str:
        """Return the pointer of the text that holds reference *number*, in reading order from 0."""
        if self.found is None:
            self.found = list(_texts(self.source, self.at))
        return self.found[number]


@attrs.frozen
class Use:
    """Something that is read: *ref* stands at the pointer *at*, or is reference *number* of *places*."""

    ref: Ref
    at: str
    places: Places | None = None
    number: int = 0

    @property
    def place(self) -> str:
        """Pointer of the very text."""
        return self.at if self.places is None else self.places.of(self.number)


def look(plan: Plan, faults: Faults, earlier: Collection[str] | None = None) -> None:
    """Note every fault of the graph of *plan* and of what its steps and constraints read.

    Args:
        earlier: Ids that a step may replace; None: any.
    """
    top = level(plan.steps, "/steps", "", faults, earlier)
    inner = dict(_nested(plan.steps))
    unknown = _level(top, inner, faults, batched=False)
    for place, constraint in enumerate(plan.constraints):
        for use in _in_expr(constraint.check, f"/constraints/{place}/check", faults, batched=False):
            target = _target(use.ref, top, inner)
            if target is None:
                unknown.append(use)
            else:
                _check_field(use, target, faults)
    roots = [*top.names, "inputs"] if unknown else []
    for use in unknown:
        fix = f"{faults.near(use.ref.root[1:], roots)}Steps here: {several(top.names)}"
        faults.add(use.place, "unknown-reference", f"{cut(use.ref.text)} names no step of this plan", fix)


def _nested(steps: Iterable[Step]) -> Iterator[tuple[str, dict[str, Step]]]:
    """Yield, for each step with a nested plan at any depth, its id and the nested steps by id."""
    for step in steps:
        if step.plan:
            yield step.id, {nested.id: nested for nested in step.plan}
            yield from _nested(step.plan)


def _level(graph: Level, inner: dict[str, dict[str, Step]], faults: Faults, *, batched: bool) -> list[Use]:
    """Check what the steps of one plan read; return what may be meant for an enclosing plan.

    Args:
        inner: As :func:`_nested` gives it.
    """
    outside: list[Use] = []
    distant: list[tuple[int, int, Use]] = []
    sound = not faults.found
    for place, step in enumerate(graph.steps):
        near = sound and _near(step.args, graph, place)
        if near and not (
            step.done_when
            or step.when
            or step.preconditions
            or step.alternatives
            or step.for_each
            or step.plan
        ):
            continue  # nothing but its arguments reads anything
        direct: set[int] | None = None
        for use in _in_step(step, f"{graph.at}/{place}", inner, faults, args=not near, batched=batched):
            target = _target(use.ref, graph, inner)
            if target is None:
                outside.append(use)
                continue
            _check_field(use, target, faults)
            direct = set(graph.deps[place]) if direct is None else direct
            head = graph.places[_head(use.ref, graph)]
            if head not in direct:
                distant.append((place, head, use))
    _check_ancestors(graph, distant, faults)
    return outside


def _near(args: Template, graph: Level, place: int) -> bool:
    """Whether the step at *place*, in a plan of which nothing is wrong so far, may surely read all that *args* refer to.

    So it is with nearly every step: it reads what steps produce that it depends on itself. Nothing being wrong, every
    id is sound: so a root that is an id names that step, no step or record within it, and neither ``$item`` nor ``$index``.
    """
    if args.constant:
        return True
    direct: Collection[int | None] = graph.deps[place]
    if len(direct) > _FEW:
        direct = set(direct)
    places, prefix = graph.places, graph.prefix
    for ref in args.refs:
        target = places.get(prefix + ref.root[1:])
        if target is None or target not in direct:
            if ref.root == _INPUTS:
                continue
            return False
        read = graph.steps[target]
        if read.for_each is not None:
            return False
        if read.produces is not None and ref.path and ref.path[0] not in read.produces:
            return False
    return True


# ── what is read ──────────────────────────────────────────────────────────────────────────────────────────────


def _in_step(
    step: Step, at: str, inner: dict[str, dict[str, Step]], faults: Faults, *, args: bool, batched: bool
) -> Iterator[Use]:
    """Yield the results that *step* reads, its nested plan included; note names that mean nothing there.

    Its arguments are looked at only with *args*.
    """
    within = batched or step.for_each is not None
    if args:
        yield from _in_template(step.args, f"{at}/args", faults, batched=within)
    for place, alternative in enumerate(step.alternatives):
        here = f"{at}/alternatives/{place}/args"
        yield from _in_template(alternative.args, here, faults, batched=within)
    if step.for_each is not None:
        yield from _in_template(step.for_each, f"{at}/for_each", faults, batched=batched)
    if step.when is not None:
        _check_names(step.when, (), _WHEN, f"{at}/when", faults)
        yield from _in_expr(step.when, f"{at}/when", faults, batched=within)
    if step.done_when is not None:
        if step.produces is not None and not {*step.produces, "result"}.issuperset(step.done_when.roots):
            words = f'the step produces {several(step.produces)}; "result" is the whole result'
            _check_names(step.done_when, (*step.produces, "result"), words, f"{at}/done_when", faults)
        yield from _in_expr(step.done_when, f"{at}/done_when", faults, batched=within)
    for place, condition in enumerate(step.preconditions):
        here = f"{at}/preconditions/{place}/check"
        _check_names(condition.check, ("args",), _BEFORE, here, faults)
        yield from _in_expr(condition.check, here, faults, batched=within)
    if step.plan:
        graph = level(step.plan, f"{at}/plan/steps", f"{step.id}/", faults)
        yield from _level(graph, inner, faults, batched=within)


def _check_names(check: Expr, allowed: Collection[str], words: str, at: str, faults: Faults) -> None:
    for name in sorted(check.roots):
        if name[0] != "$" and name not in allowed:
            found = f"{check.text!r} reads {name!r}, which is not there"
            faults.add(at, "unknown-name", found, f"{faults.near(name, allowed)}{words}")


def _in_template(template: Template, at: str, faults: Faults, *, batched: bool) -> Iterator[Use]:
    if template.refs:
        places = Places(template.source, at)
        for number, ref in enumerate(template.refs):
            yield from _result(Use(ref, at, places, number), faults, batched=batched)


def _in_expr(check: Expr, at: str, faults: Faults, *, batched: bool) -> Iterator[Use]:
    if any(root[0] == "$" for root in check.roots):
        for text in check.paths:
            if text[0] == "$":
                yield from _result(Use(refs.read(text, 0)[0], at), faults, batched=batched)


def _result(use: Use, faults: Faults, *, batched: bool) -> Iterable[Use]:
    """Give *use* back if it reads a result; else see that what it reads is there."""
    root = use.ref.root
    if root in _BATCH and not batched:
        found = f"{cut(use.ref.text)} has a value only in a step with for_each"
        faults.add(use.place, "item-outside-batch", found, 'add "for_each", or refer to a step')
    return () if root == _INPUTS or root in _BATCH else (use,)


# ── what it means ─────────────────────────────────────────────────────────────────────────────────────────────


def _head(ref: Ref, graph: Level) -> str:
    """Return the id, in this plan, of the step that *ref* begins with."""
    return graph.prefix + _PLACE.sub("", ref.root[1:].split("/", 1)[0])


def _target(ref: Ref, graph: Level, inner: dict[str, dict[str, Step]]) -> Step | None:
    """Return the step whose result *ref* reads, or None if it is not in this plan.

    ``${s4/a.x}`` reads one step of a nested plan from outside, ``${s3[17]/a.x}`` that of one record.
    """
    place = graph.places.get(_head(ref, graph))
    if place is None:
        return None
    step: Step | None = graph.steps[place]
    for part in ref.root.split("/")[1:]:
        if step is None:
            break
        step = inner.get(step.id, {}).get(f"{step.id}/{_PLACE.sub('', part)}")
    return step


def _check_ancestors(graph: Level, distant: list[tuple[int, int, Use]], faults: Faults) -> None:
    """Note each use of a step that is no ancestor; *distant* are those of no direct dependency."""
    bits: dict[int, int] = {}
    for _, head, _ in distant:
        bits.setdefault(head, 1 << len(bits))
    above: dict[int, int] = {}
    for place in graph.order if bits else ():
        mask = 0
        for target in graph.deps[place]:
            mask |= above[target] | bits.get(target, 0)
        above[place] = mask
    for place, head, use in distant:
        if place not in above or above[place] & bits[head]:
            continue  # an ancestor; or in a cycle, of which nothing can be said
        me, it = graph.name(place), graph.name(head)
        found, fix = (
            f"{cut(use.ref.text)} reads {it!r}, which need not be done before",
            f"let {me!r} depend on {it!r}",
        )
        if place == head:
            found = f"{cut(use.ref.text)} reads the step's own result"
            fix = "done_when names the fields of the result, without $; nothing else can read it"
        faults.add(use.place, "not-an-ancestor", found, fix)


def _check_field(use: Use, step: Step, faults: Faults) -> None:
    """Note a field that *step*, which declares what it produces, does not produce."""
    path: tuple[Segment, ...] = use.ref.path
    if step.for_each is not None and path and not _PLACE.search(use.ref.root):
        if not str(path[0]).isdigit():
            fix = f"name the record, as in ${step.id}[0].{path[0]}"
            faults.add(
                use.place, "unknown-field", f"{cut(use.ref.text)}: the result of {step.id!r} is a list", fix
            )
            return
        path = path[1:]
    if step.produces is None or not path or path[0] in step.produces:
        return
    found = f"{cut(use.ref.text)}: {step.id!r} does not produce {quoted(str(path[0]))}"
    fix = f"{faults.near(str(path[0]), step.produces)}It produces {several(step.produces)}"
    faults.add(use.place, "unknown-field", found, fix)


def _texts(value: Any, at: str) -> Iterator[str]:
    """Yield, for each reference in *value*, the pointer of the text that holds it."""
    if isinstance(value, str):
        yield from [at] * len(refs.parse(value).refs)
        return
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        yield from _texts(item, pointer(at, str(key)))
