"""``plan diff``: what one plan has of another: kept, changed, added, removed, and which results would be taken over.

Steps stand in the order of the new plan. A step that is in both and not the same is a new step under an old name, and
is shown as one, with what differs beneath it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from fsm_agent.core.plans.members import parent_of, walk
from fsm_agent.core.plans.plan import Plan as AnyPlan
from fsm_agent.core.plans.plan import Step
from fsm_agent.core.replanning import strategy
from fsm_agent.core.replanning.strategy import Diff
from fsm_agent.faces.drawing import graph
from fsm_agent.faces.drive.jobs import plan_file
from fsm_agent.faces.frame.screen import Screen, safe, wrapped
from fsm_agent.faces.frame.spec import Outcome
from fsm_agent.runtime.planning.plans import Plan

LANGUAGES: Final = ("en", "zh")
_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "kept": "kept",
        "new": "new",
        "removed": "removed",
        "nothing": "(none)",
        "changed": "changed: ",
        "reused": "the same call as {}",
        "equal": "the plans do the same",
    },
    "zh": {
        "kept": "复用",
        "new": "新",
        "removed": "移除",
        "nothing": "(无)",
        "changed": "改动：",
        "reused": "与 {} 是同一次调用",
        "equal": "两份计划相同",
    },
}


@attrs.frozen(kw_only=True)
class Compared:
    """Two plans and what differs.

    Attributes:
        files: Where they stand, the old one first.
        old: The old plan.
        new: The new one.
        diff: What differs, with the steps that make an old step's call under another id.
        lang: ``en`` or ``zh``.
        format: ``text`` or ``mermaid``.
    """

    files: tuple[str, str]
    old: AnyPlan
    new: AnyPlan
    diff: Diff
    lang: str
    format: str

    def changes(self, name: str) -> tuple[str, ...]:
        """Return the members in which both forms of the step *name* differ, sorted."""
        before, after = (dict(strategy.documents(plan.doc["steps"]))[name] for plan in (self.old, self.new))
        keys = sorted({*strategy.bare(before), *strategy.bare(after)})
        return tuple(key for key in keys if before.get(key) != after.get(key))


def plan_diff(screen: Screen, *, a: str, b: str, lang: str, format: str) -> Outcome:  # noqa: A002 - the option's name
    """Compare two plan files."""
    del screen
    files = plan_file(a), plan_file(b)
    old, new = (Plan.load(file) for file in files)
    diff = attrs.evolve(strategy.diff(old, new), reused=strategy.same_calls(old, new))
    return Outcome(Compared(files=files, old=old, new=new, diff=diff, lang=lang, format=format))


def plain(value: Compared, screen: Screen) -> Iterator[str]:
    """One line for each step, in words or as a flow chart."""
    if value.format == "mermaid":
        yield from mermaid(value).splitlines()
        return
    words, diff = _WORDS[value.lang], value.diff
    for step in walk(value.new.steps):
        name = safe(step.id)
        if step.id in diff.kept:
            yield f"[{words['kept']}] {name}"
        elif step.id in diff.reused:
            yield f"[{words['kept']}] {name}: {words['reused'].format(safe(diff.reused[step.id]))}"
        else:
            yield from wrapped(f"[{words['new']}] {name} <- ", _needs(step, words), screen.width)
            if step.id in diff.changed:
                yield from wrapped(f"    {words['changed']}", ", ".join(value.changes(step.id)), screen.width)
    yield from (f"[{words['removed']}] {safe(name)}" for name in diff.removed)
    if not (diff.added or diff.changed or diff.removed):
        yield words["equal"]


def _needs(step: Step, words: Mapping[str, str]) -> str:
    return ", ".join(d.id for d in step.depends_on) or words["nothing"]


def mermaid(value: Compared) -> str:
    """Return both plans as one flow chart; what is removed is dashed."""
    words, diff = _WORDS[value.lang], value.diff
    steps = list(walk(value.new.steps))
    gone = [step for step in walk(value.old.steps) if step.id in diff.removed]
    names = {step.id: f"s{i}" for i, step in enumerate([*steps, *gone], 1)}
    lines = ["flowchart LR"]
    for step in [*steps, *gone]:
        kind = _kind(step.id, diff)
        label = graph.mermaid_label(f"[{words[kind]}] {graph.label(step)}")
        lines.append(f'    {names[step.id]}["{label}"]:::{kind}')
    for step in steps:
        lines += [f"    {names[d.id]} --> {names[step.id]}" for d in step.depends_on]
        if parent_of(step.id):
            lines.append(f"    {names[parent_of(step.id)]} --o {names[step.id]}")
    for step in gone:
        lines += [f"    {names[d.id]} -.-> {names[step.id]}" for d in step.depends_on if d.id in names]
    lines += [
        "    classDef kept fill:#eee,stroke:#888,color:#333",
        "    classDef new fill:#e2f5e4,stroke:#2b7a37,color:#123",
        "    classDef removed fill:#fff,stroke:#b33,color:#b33,stroke-dasharray:4",
    ]
    return "\n".join(lines) + "\n"


def _kind(name: str, diff: Diff) -> str:
    if name in diff.removed:
        return "removed"
    return "kept" if name in diff.kept or name in diff.reused else "new"


def data(value: Compared, screen: Screen) -> dict[str, Any]:
    """``fsm-agent/plan-diff@1``."""
    del screen
    found = {
        "schema": "fsm-agent/plan-diff@1",
        "a": value.files[0],
        "b": value.files[1],
        **value.diff.to_data(),
        "reused": dict(value.diff.reused),
        "differs": {name: list(value.changes(name)) for name in value.diff.changed},
    }
    return found | {"mermaid": mermaid(value)} if value.format == "mermaid" else found
