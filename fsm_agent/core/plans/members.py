"""What a step is made of: the steps of a nested plan, and one step per record of a batch.

A nested step is ``s4/a``, a record of a batch ``s3[17]``, and a step of the plan that a record runs ``s3[17]/a``. A
batch's own step is the template of its records: what is said of a call (arguments, conditions that look at
``$item``, ``done_when``, confirmation) is said of each of them; the rest (dependencies, a condition without
``$item``, how many at once, what a failure means) is said of the batch.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

import attrs

from fsm_agent.core.language.expr import Expr
from fsm_agent.core.plans.plan import Dependency, Plan, Step

MAX_RECORDS: Final = 100_000
"""Most records of one batch."""
MAX_TASKS: Final = 1_000_000
"""Most tasks of one run: batches in batches must not grow beyond what a process can hold."""
ITEM: Final = frozenset({"$item", "$index"})
"""What has a value in a record only."""
_PLACES: Final = re.compile(r"\[\d+\]")
_RECORD: Final = re.compile(r"\[(\d+)\]$")


def parent_of(id: str) -> str:  # noqa: A002
    """Return the id of the task that the task *id* is a part of; empty for a step of the plan itself."""
    if id.endswith("]"):
        return id[: id.rindex("[")]
    return id.rpartition("/")[0]


def planned_as(id: str) -> str:  # noqa: A002
    """Return the id of the step that stands in the plan for the task *id*: the batch, for all that its records do."""
    return id.partition("[")[0]


def stated_as(id: str) -> str:  # noqa: A002
    """Return the id under which the plan states what the task *id* does: that of a template, for a record's."""
    return _PLACES.sub("", id)


def record_of(id: str) -> str:  # noqa: A002
    """Return the id of the innermost record that the task *id* is, or is a part of; empty for none."""
    found = id
    while found and not found.endswith("]"):
        found = found.rpartition("/")[0]
    return found


def index_of(record: str) -> int:
    """Return the place of *record* in its batch, from 0."""
    found = _RECORD.search(record)
    assert found is not None, f"{record} is no record"
    return int(found[1])


def prefixes(id: str) -> Iterator[str]:  # noqa: A002
    """Yield what the names that the step *id* may use stand for, its own level first: ``s4/``, then nothing."""
    outer = id.rpartition("/")[0]
    while outer:
        yield f"{outer}/"
        outer = outer.rpartition("/")[0]
    yield ""


def per_record(when: Expr) -> bool:
    """Whether a batch's condition is one of each record."""
    return not ITEM.isdisjoint(when.roots)


def condition(step: Step) -> Expr | None:
    """Return the condition under which *step* is looked at: not that of a batch's single records."""
    when = step.when
    return None if when is None or (step.for_each is not None and per_record(when)) else when


def template(step: Step) -> Step:
    """Return what all records of the batch *step* have in common, still under the batch's id."""
    when = step.when
    return attrs.evolve(
        step,
        depends_on=(),
        join="all",
        replaces=None,
        when=when if when is not None and per_record(when) else None,
        for_each=None,
        max_parallel=None,
        on_item_failure="stop",
        budgets=None,
    )


def renamed(step: Step, id: str) -> Step:  # noqa: A002
    """Return *step* under another id, and the steps of its plan under it."""
    return attrs.evolve(step, id=id, plan=_under(step.plan, len(step.id), id))


def _under(steps: tuple[Step, ...], cut: int, id: str) -> tuple[Step, ...]:  # noqa: A002
    return tuple(
        attrs.evolve(
            step,
            id=id + step.id[cut:],
            depends_on=tuple(Dependency(id=id + d.id[cut:], optional=d.optional) for d in step.depends_on),
            replaces=None if step.replaces is None else id + step.replaces[cut:],
            plan=_under(step.plan, cut, id),
        )
        for step in steps
    )


def every(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield every step that the plan states, those of nested plans and of batches included."""
    for step in steps:
        yield step
        if step.plan:
            yield from every(step.plan)


def walk(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield every step that is a task from the beginning, each before its parts: all but what batches will grow."""
    for step in steps:
        yield step
        if step.plan and step.for_each is None:
            yield from walk(step.plan)


@lru_cache(maxsize=4)
def readers(plan: Plan) -> Mapping[str, tuple[str, ...]]:
    """Return, for every step that others read, the tasks that read it: steps, and for what a batch's records do the batch.

    A step reads what need not be its own dependency: whatever comes before it. A plan is asked for this rarely, when a
    result has come in once more.
    """
    ids = {step.id for step in every(plan.steps)}
    found: dict[str, dict[str, None]] = {}
    for step, task in _with_tasks(plan.steps, ""):
        for name in _read(step):
            full = (plan.aliases.get(prefix + name, prefix + name) for prefix in prefixes(step.id))
            target = next((step_id for one in full if (step_id := stated_as(one)) in ids), "")
            while target:  # who reads a part reads what it is a part of
                found.setdefault(target, {})[task] = None
                target = parent_of(target)
    return {name: tuple(tasks) for name, tasks in found.items()}


def _with_tasks(steps: Iterable[Step], batch: str) -> Iterator[tuple[Step, str]]:
    """Yield every step with the task that there is for it from the beginning."""
    for step in steps:
        yield step, batch or step.id
        yield from _with_tasks(step.plan, batch or (step.id if step.for_each is not None else ""))


def _read(step: Step) -> Iterator[str]:
    """Yield the names of the steps whose results decide what *step* calls, or whether."""
    for source in (step.args, step.for_each):
        if source is not None:
            yield from (ref.root[1:] for ref in source.refs)
    for check in (step.when, *(c.check for c in step.preconditions)):
        if check is not None:
            yield from (root[1:] for root in check.roots if root[0] == "$")
