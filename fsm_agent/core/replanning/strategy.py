"""What a plan tries, apart from how it is worded: the signature of its remaining steps, and what differs between plans.

Two strategies are the same when their remaining steps do the same with the same arguments in the same order, whatever
ids and descriptions they have. So a plan that failed is recognised when it comes back, also by way of another plan.
Of a step that names no tool the description is no mere wording: it is what a person, or the default tool, is asked.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from fsm_agent.core import canon
from fsm_agent.core.engine.state import Run
from fsm_agent.core.machine import TaskState
from fsm_agent.core.plans.members import parent_of, stated_as, walk
from fsm_agent.core.plans.plan import Plan, Step

_MEANING: Final = (
    "tool",
    "plan",
    "for_each",
    "join",
    "done_when",
    "when",
    "preconditions",
    "optional",
    "requires_confirmation",
)


def signature(plan: Plan, done: Mapping[str, str]) -> str:
    """Return the signature of the steps of *plan* that are not done.

    Args:
        plan: A plan.
        done: Digests of the done steps' calls (tool and arguments), by id.

    Returns:
        64 hex digits; equal for strategies that differ in ids and words only.
    """
    known: dict[str, str] = dict(done)
    docs = {doc["id"]: doc for doc in plan.doc["steps"]}
    marks = [_mark(step, docs[step.id], known) for step in in_order(plan.steps) if step.id not in done]
    return canon.value_digest("strategy", sorted(marks))


def in_order(steps: Sequence[Step]) -> list[Step]:
    """Return *steps* so that each comes after what it depends on."""
    by_id = {step.id: step for step in steps}
    placed: dict[str, Step] = {}
    for first in steps:
        stack = [first]
        while stack:
            step = stack[-1]
            missing = [by_id[d.id] for d in step.depends_on if d.id in by_id and d.id not in placed]
            if missing:
                stack.extend(missing)
            else:
                placed.setdefault(step.id, stack.pop())
    return list(placed.values())


def ordered(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield every step that is a task from the beginning, after what it depends on and what it is a part of."""
    for step in in_order(steps):
        yield step
        if step.for_each is None:
            yield from ordered(step.plan)


def before(steps: Sequence[Step]) -> dict[str, list[str]]:
    """Return, for every step that is a task from the beginning, what comes before it: whatever it depends on with its
    parts, and whatever the task that it is a part of depends on, and that task.
    """
    found: dict[str, list[str]] = {}
    parts = {step.id: [p.id for p in walk(step.plan)] for step in walk(steps) if step.for_each is None}
    for step in walk(steps):
        own = [name for d in step.depends_on for name in (d.id, *parts.get(d.id, ()))]
        above = parent_of(step.id)
        found[step.id] = [*own, above, *found[above]] if above else own
    return found


def documents(docs: Iterable[Mapping[str, Any]], prefix: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the id and the document of every step that is a task from the beginning."""
    for doc in docs:
        name = prefix + doc["id"]
        yield name, doc
        if "plan" in doc and "for_each" not in doc:
            yield from documents(doc["plan"]["steps"], f"{name}/")


Change = Callable[[Mapping[str, Any], frozenset[str]], Iterable[dict[str, Any]]]
"""From the document of a step, and the ids that its level has, to what stands in its place."""


def switched(docs: Iterable[Mapping[str, Any]], task: str) -> list[Any]:
    """Return the steps' documents with the next alternative of what *task* does in place of its own call.

    Args:
        docs: Of a plan.
        task: Its step has alternatives; of a record of a batch the template is switched, for all that is not done.
    """
    return replaced(docs, task, _next_alternative)


def _next_alternative(doc: Mapping[str, Any], ids: frozenset[str]) -> list[dict[str, Any]]:
    del ids
    first, *others = doc["alternatives"]
    left = {key: value for key, value in doc.items() if key not in ("alternatives", "args", "tool")}
    return [{**left, **first, **({"alternatives": others} if others else {})}]


def stated(docs: Iterable[Mapping[str, Any]], task: str) -> Mapping[str, Any] | None:
    """Return the document in which *docs* state what *task* does, of a record of a batch the template; or None."""
    found: list[Mapping[str, Any]] = []

    def note(doc: Mapping[str, Any], ids: frozenset[str]) -> list[dict[str, Any]]:
        del ids
        found.append(doc)
        return []

    replaced(docs, task, note)
    return found[0] if found else None


def replaced(docs: Iterable[Mapping[str, Any]], task: str, change: Change) -> list[Any]:
    """Return the steps' documents with what *change* makes of the one that states what *task* does."""
    return _replaced(list(docs), stated_as(task), change)


def _replaced(docs: Sequence[Mapping[str, Any]], name: str, change: Change) -> list[Any]:
    head, _, rest = name.partition("/")
    found: list[Any] = []
    for doc in docs:
        if doc["id"] != head:
            found.append(doc)
        elif not rest:
            found.extend(change(doc, frozenset(other["id"] for other in docs)))
        elif "plan" in doc:
            found.append(
                {**doc, "plan": {**doc["plan"], "steps": _replaced(doc["plan"]["steps"], rest, change)}}
            )
        else:
            found.append(doc)
    return found


def _mark(step: Step, doc: Mapping[str, Any], known: dict[str, str]) -> str:
    meaning = {key: doc[key] for key in _MEANING if key in doc}
    if _asks_in_words(doc):
        meaning["description"] = doc.get("description", "")
    meaning["args"] = _renamed(step, known)
    meaning["depends_on"] = sorted(known.get(d.id, d.id) for d in step.depends_on)
    known[step.id] = mark = canon.value_digest("step", meaning)
    return mark


def _renamed(step: Step, known: Mapping[str, str]) -> Any:
    """Return the arguments with ids in references replaced by what those steps do."""
    names = {ref.text: f"${known.get(ref.root[1:], ref.root[1:])}:{list(ref.path)}" for ref in step.args.refs}
    longest_first = sorted(names, key=len, reverse=True)

    def walk(value: Any) -> Any:
        if isinstance(value, str):
            for text in longest_first:
                value = value.replace(text, names[text])
            return value
        if isinstance(value, list):
            return [walk(item) for item in value]
        if isinstance(value, dict):
            return {key: walk(item) for key, item in value.items()}
        return value

    return walk(step.args.source)


def done_calls(run: Run) -> dict[str, str]:
    """Return what each done task of *run* called, by id: a digest of tool and arguments."""
    return {
        t.id: t.args_digest or f"answer:{t.result_digest}"
        for t in run.tasks.values()
        if t.state is TaskState.DONE
    }


@attrs.frozen(kw_only=True)
class Diff:
    """What differs between two plans, by step id in plan order.

    Attributes:
        kept: In both, the same; a done one keeps its result.
        changed: In both, not the same.
        added: Only in the new plan.
        removed: Only in the old one.
        reused: New id → old id whose result it takes over.
    """

    kept: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    reused: Mapping[str, str] = attrs.field(factory=dict)

    def to_data(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "kept": list(self.kept),
            "changed": list(self.changed),
            "added": list(self.added),
            "removed": list(self.removed),
            **({"reused": dict(self.reused)} if self.reused else {}),
        }


def diff(old: Plan, new: Plan) -> Diff:
    """Return what differs between *old* and *new*; descriptions of calls do not count."""
    before, after = stated_steps(old), stated_steps(new)
    return difference(before, after, unchanged(before, after))


def stated_steps(plan: Plan) -> dict[str, Mapping[str, Any]]:
    """Return what *plan* says of every step that is a task from the beginning, by id."""
    return dict(documents(plan.doc["steps"]))


def unchanged(
    before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]
) -> frozenset[str]:
    """Return the steps of which both say the same, words aside."""
    return frozenset(i for i, doc in after.items() if same(before.get(i), doc))


def difference(before: Collection[str], after: Collection[str], kept: Collection[str]) -> Diff:
    """Return what differs between plans of the steps *before* and *after*, in this order, of which *kept* are the same."""
    return Diff(
        kept=tuple(i for i in after if i in kept),
        changed=tuple(i for i in after if i in before and i not in kept),
        added=tuple(i for i in after if i not in before),
        removed=tuple(i for i in before if i not in after),
    )


def same(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two documents of steps say the same, words aside; one that is not there says nothing."""
    if one is None or other is None:
        return False
    return one is other or canon.encode(bare(one)) == canon.encode(bare(other))


def bare(doc: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step's document without its words, unless they are all that it says, and without the parts that are
    steps of their own.
    """
    found = {key: value for key, value in doc.items() if key != "description" or _asks_in_words(doc)}
    if "plan" in found and "for_each" not in found:
        found["plan"] = {}
    return found


def _asks_in_words(doc: Mapping[str, Any]) -> bool:
    return "tool" not in doc and "plan" not in doc


def same_calls(old: Plan, new: Plan) -> dict[str, str]:
    """Return the steps of *new* that make the call of a step of *old* under another id, and that step's id.

    What they rest on must be the same too, so that a result of the old one is a result of the new one. Steps without a
    tool are never taken for each other.
    """
    marks: dict[str, str] = {}
    own: dict[str, str] = {}
    old_docs = {doc["id"]: doc for doc in old.doc["steps"]}
    for step in in_order(old.steps):
        marks.setdefault(_mark(step, old_docs[step.id], own), step.id)
    found = {}
    theirs: dict[str, str] = {}
    docs = {doc["id"]: doc for doc in new.doc["steps"]}
    for step in in_order(new.steps):
        mark = _mark(step, docs[step.id], theirs)
        if step.tool is not None and step.id not in old_docs and mark in marks:
            found[step.id] = marks[mark]
    return found


def descendants(plan: Plan, roots: Iterable[str]) -> frozenset[str]:
    """Return *roots* and every step that depends on one of them, directly or not."""
    found = set(roots)
    earlier = before(plan.steps)
    for step in ordered(plan.steps):
        if not found.isdisjoint(earlier[step.id]):
            found.add(step.id)
    return frozenset(found)
