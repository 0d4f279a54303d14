"""A plan against a toolbox: what cannot be run is an error, what will be regretted is a warning with what to do.

Hard rules of a tool hold whatever the plan says. ``requires`` is proved here: the tools named must be done in
every way in which the step can come to start, so a dependency that is optional, or one of several of which any
may be first, proves nothing. ``confirm`` needs no fault: a person is asked anyway.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from fsm_agent.core.errors import Fault
from fsm_agent.core.language import refs
from fsm_agent.core.language.refs import Place, Template
from fsm_agent.core.plans.faults import Faults, cut, quoted, several
from fsm_agent.core.plans.graph import level
from fsm_agent.core.plans.plan import Plan, Step
from fsm_agent.core.signals import Effect
from fsm_agent.core.tools import Parameter, ToolSpec, is_secret, kind_fault, type_fault

MOST_TOP_STEPS: Final = 8
"""With more, whoever writes a plan begins to forget dependencies."""


@attrs.frozen
class _Toolbox:
    tools: Mapping[str, ToolSpec]
    default: str | None
    faults: Faults
    bits: Mapping[str, int]


def check(
    plan: Plan, tools: Mapping[str, ToolSpec], default_tool: str | None, *, warnings: bool
) -> tuple[Fault, ...]:
    """Return errors and warnings; see :func:`fsm_agent.core.plans.planning.check`."""
    required = dict.fromkeys(name for tool in tools.values() for name in tool.requires)
    bits = {name: 1 << place for place, name in enumerate(required)}
    box = _Toolbox(tools, default_tool, Faults(warnings=warnings), bits)
    _steps(box, plan.steps, "/steps", "", 0)
    faults = box.faults
    if len(plan.steps) > MOST_TOP_STEPS:
        found = f"the plan has {len(plan.steps)} top-level steps"
        fix = f'more than {MOST_TOP_STEPS} are hard to get right; put groups of them into steps with a nested "plan"'
        faults.warn("/steps", "many-steps", found, fix)
    if warnings:
        _names(plan, faults)
    return tuple(faults.found)


def _steps(box: _Toolbox, steps: Sequence[Step], at: Place, prefix: str, before: int) -> int:
    """Check *steps*, which start after the tools in the mask *before* are done; return what they do for sure."""
    if not box.bits:  # no tool wants another one before it, so the order of the steps does not matter
        for place, step in enumerate(steps):
            _step(box, step, (at, place), before)
        return before
    graph = level(steps, "", prefix, Faults())
    done: dict[int, int] = {}
    certain: set[int] = set()
    surely = 0
    for place in graph.order:
        step = steps[place]
        edges = graph.deps[place]
        if step.join == "all" or not edges:
            optional = {graph.places.get(d.id) for d in step.depends_on if d.optional}
            mask = before
            for target in edges:
                mask |= 0 if target in optional else done[target]
        else:
            mask = done[edges[0]]
            for target in edges:
                mask &= done[target]
        own = _step(box, step, (at, place), mask)
        done[place] = mask | own
        waits = all(target in certain for target in edges) if step.join == "all" else not edges
        if waits and step.when is None and not step.optional:
            certain.add(place)
            surely |= own
    for place in set(range(len(steps))) - set(graph.order):  # in a cycle: what comes before it is not asked
        _step(box, steps[place], (at, place), ~0)
    return surely


def _step(box: _Toolbox, step: Step, at: Place, before: int) -> int:
    """Check one step; return the mask of tools that are done for sure when it is done."""
    if step.plan:
        return _steps(box, step.plan, ((at, "plan"), "steps"), f"{step.id}/", before)
    name = step.tool if step.tool is not None else box.default
    if box.faults.warnings and step.done_when is None and name is not None:
        fix = 'add "done_when", such as "len(items) > 0"; what cannot be checked can be split further'
        box.faults.warn(at, "no-done-when", "nothing tells when the step is done", fix)
    if name is None:
        if step.args.source:
            fix = "name a tool; the question to the person is the description"
            box.faults.add(
                (at, "args"), "arguments-without-tool", "a step without a tool takes no arguments", fix
            )
        return 0
    _call(box, step, name, step.args, at, before)
    mask = box.bits.get(name, 0)
    for place, alternative in enumerate(step.alternatives):
        _call(box, step, alternative.tool, alternative.args, ((at, "alternatives"), place), before)
        mask &= box.bits.get(alternative.tool, 0)
    return mask


def _call(box: _Toolbox, step: Step, name: str, args: Template, at: Place, before: int) -> None:
    """Check that the tool *name* can be called with *args* after the tools in *before* are done."""
    tool = box.tools.get(name)
    if tool is None:
        fix = f"{box.faults.near(name, box.tools)}Tools here: {several(box.tools, 40)}"
        box.faults.add((at, "tool"), "unknown-tool", f"there is no tool {quoted(name)}", fix)
        return
    given: Mapping[str, Any] = args.source
    if not (tool.takes(given) or tool.takes(given, args.whole())):
        # something in it is neither of the type that is written nor unknown before the run
        _arguments(box.faults, tool, args, (at, "args"), offered=step.tool is None)
    for needed in tool.requires:
        if not before & box.bits[needed]:
            found = f"{name!r} requires that {needed!r} is done before, and no ancestor surely does it"
            fix = f"add a step with {needed!r} and let {step.id!r} depend on it, not optionally"
            box.faults.add((at, "tool"), "requires-not-done", found, fix)
    if box.faults.warnings and not tool.reconcile and tool.effect in (Effect.WRITE, Effect.IRREVERSIBLE):
        found = f"{name!r} writes, and nothing can look up whether it did"
        fix = "give the tool a reconcile probe; without one a lost reply becomes a question to a person"
        box.faults.warn((at, "tool"), "no-probe", found, fix)


# ── arguments ─────────────────────────────────────────────────────────────────────────────────────────────────


def _arguments(faults: Faults, tool: ToolSpec, args: Template, at: Place, *, offered: bool) -> None:
    """Check *args* against the signature of *tool*, word by word; *offered*: the engine adds arguments of its own."""
    given: Mapping[str, Any] = args.source
    known = {parameter.name: parameter for parameter in tool.parameters}
    for name in given:
        if name not in known and not tool.extra_arguments:
            fix = f"{faults.near(name, known)}Its arguments: {several(known, 40)}"
            faults.add((at, name), "unknown-argument", f"{tool.name!r} has no argument {quoted(name)}", fix)
    for parameter in tool.parameters:
        if parameter.name in tool.secret and is_secret(given.get(parameter.name)):
            continue  # its value is in no log, and nobody here knows its type
        if parameter.name in given:
            fault = _argument(parameter, args)
            if fault:
                found, _, fix = fault.rpartition("; ")
                found = f"{tool.name!r}: the argument {parameter.name!r} {found}"
                faults.add((at, parameter.name), "bad-argument", found, fix)
        elif parameter.required and not offered:
            found = f"{tool.name!r} needs the argument {parameter.name!r}"
            faults.add(at, "missing-argument", found, "give it, as a value or a reference")
    for name in tool.secret:
        if name in given:
            _secret(faults, refs.parse(given[name]), name, (at, name))


def _argument(parameter: Parameter, args: Template) -> str:
    """Return why what *args* has for *parameter* cannot fit, or an empty string."""
    whole, value = args.part(parameter.name)
    if whole:
        return ""  # only the run can tell
    if value is not refs.MISSING:
        return type_fault(parameter, value)
    return kind_fault(parameter, args.source[parameter.name])


def _is_whole(template: Template) -> bool:
    return len(template.refs) == 1 and template.source == template.refs[0].text


def _secret(faults: Faults, template: Template, name: str, at: Place) -> None:
    if template.constant:
        found = f"the secret {name!r} is written into the plan"
        faults.warn(at, "secret-in-plan", found, "give it as an input and refer to it, such as $inputs.token")
    elif not _is_whole(template):
        found = f"the secret {name!r} is mixed with other text"
        faults.add(at, "secret-embedded", found, "give the secret as one constant or one whole reference")


# ── names nobody provides ─────────────────────────────────────────────────────────────────────────────────────


def _names(plan: Plan, faults: Faults) -> None:
    """Warn of inputs that the plan does not have and of names in constraints that no step declares."""
    for at, ref in _inputs(plan.steps, "/steps"):
        if ref.path and isinstance(ref.path[0], str) and ref.path[0] not in plan.inputs:
            fix = f"{faults.near(ref.path[0], plan.inputs)}Give it when the run starts; the plan has {several(plan.inputs)}"
            faults.warn(at, "input-not-given", f"{cut(ref.text)} is no input of the plan", fix)
    products = _products(plan.steps)
    for place, constraint in enumerate(plan.constraints):
        for name in sorted(constraint.check.roots):
            if products is not None and name[0] != "$" and name != "value" and name not in products:
                found = f"no step declares that it produces {name!r}"
                fix = f"{faults.near(name, products)}Unless a result has it, the constraint stays unknown and is broken at the end"
                faults.warn(f"/constraints/{place}/check", "unproduced-name", found, fix)


def _inputs(steps: Iterable[Step], at: str) -> Iterable[tuple[str, refs.Ref]]:
    for place, step in enumerate(steps):
        here = f"{at}/{place}"
        seen = dict.fromkeys(ref.text for ref in step.args.refs if ref.root == "$inputs")
        for check, key in ((step.done_when, "done_when"), (step.when, "when")):
            if check is not None and "$inputs" in check.roots:
                for text in check.paths:
                    if text.startswith(("$inputs", "${inputs")):
                        yield f"{here}/{key}", refs.read(text, 0)[0]
        for text in seen:
            yield f"{here}/args", refs.read(text, 0)[0]
        yield from _inputs(step.plan, f"{here}/plan/steps")


def _products(steps: Iterable[Step]) -> set[str] | None:
    """Return what all steps declare to produce; None when one of them declares nothing."""
    out: set[str] = set()
    for step in steps:
        inner = _products(step.plan) if step.plan else step.produces
        if inner is None:
            return None
        out |= set(inner)
    return out
