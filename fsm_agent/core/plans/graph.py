"""Steps as a graph: ids, edges, cycles, order. A nested plan is a graph of its own.

Everything is linear in steps and edges, also of a plan full of faults.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

import attrs

from fsm_agent.core.plans.faults import Faults, cut, quoted, several
from fsm_agent.core.plans.plan import Step
from fsm_agent.core.plans.read import MAX_ID


@attrs.define(kw_only=True, slots=False)
class Level:
    """One plan's steps, top or nested, by place.

    Attributes:
        steps: The steps.
        at: JSON pointer of their array.
        prefix: What their ids begin with: empty, or ``s4/``.
        places: Place by id; also by an id that a step replaces.
        deps: Places that each step depends on.
    """

    steps: Sequence[Step]
    at: str
    prefix: str
    places: dict[str, int]
    deps: list[list[int]] = attrs.field(factory=list)

    @cached_property
    def names(self) -> list[str]:
        """The ids that may be named, without the prefix."""
        skip = len(self.prefix)
        return [known[skip:] for known in self.places if known[skip : skip + 1] != "?"]

    @cached_property
    def order(self) -> list[int]:
        """Places in topological order; what is in a cycle or behind one is not among them."""
        return _order(self.deps)

    def name(self, place: int) -> str:
        """Return the id as the document has it."""
        return self.steps[place].id[len(self.prefix) :]


def level(
    steps: Sequence[Step], at: str, prefix: str, faults: Faults, earlier: Collection[str] | None = None
) -> Level:
    """Return *steps* as a graph; note faults of ids and edges.

    Args:
        earlier: Ids that a step may replace; None: any.
    """
    places = _places(steps, at, prefix, faults)
    _bind_replaced(steps, at, prefix, places, faults, earlier)
    graph = Level(steps=steps, at=at, prefix=prefix, places=places)
    ahead = _edges(graph, faults)
    if ahead and len(graph.order) < len(steps):
        for cycle in _cycles(graph.deps, set(range(len(steps))) - set(graph.order)):
            words = [graph.name(place) for place in [*cycle, cycle[0]]]
            shown = words if len(words) <= 20 else [*words[:10], "…", *words[-9:]]
            found = f"steps wait for each other: {' → '.join(cut(word) for word in shown)}"
            faults.add(f"{at}/{cycle[0]}/depends_on", "cycle", found, "drop one of these dependencies")
    return graph


def _places(steps: Sequence[Step], at: str, prefix: str, faults: Faults) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, step in enumerate(steps):
        if places.setdefault(step.id, place) != place:
            found = f"the id {quoted(step.id[len(prefix) :])} is that of {at}/{places[step.id]}, too"
            fix = "choose another id, also in what depends on it"
            faults.add(f"{at}/{place}/id", "duplicate-id", found, fix)
        elif prefix and len(step.id) > MAX_ID:
            found = f"with those of the enclosing plans the id has {len(step.id)} characters"
            faults.add(f"{at}/{place}/id", "bad-id", found, f"at most {MAX_ID} are allowed")
    return places


def _bind_replaced(
    steps: Sequence[Step],
    at: str,
    prefix: str,
    places: dict[str, int],
    faults: Faults,
    earlier: Collection[str] | None,
) -> None:
    """Let each id that a step replaces mean that step."""
    replaced: dict[str, int] = {}
    for place, step in enumerate(steps):
        if step.replaces is None:
            continue
        old, here = step.replaces[len(prefix) :], f"{at}/{place}/replaces"
        if step.replaces in places:
            fix = "drop that step, or replace one that is no longer in the plan"
            faults.add(here, "replaces-present", f"{old!r} is itself a step of this plan", fix)
        elif step.replaces in replaced:
            found = f"{old!r} is replaced by {at}/{replaced[step.replaces]}, too"
            faults.add(
                here, "replaces-twice", found, "let one step replace it, and the others depend on that one"
            )
        elif earlier is not None and step.replaces not in earlier:
            fix = f"{faults.near(old, earlier)}Steps that can be replaced: {several(earlier)}"
            faults.add(here, "replaces-unknown", f"the plan before has no step {old!r}", fix)
        replaced.setdefault(step.replaces, place)
    for id_, place in replaced.items():
        places.setdefault(id_, place)


def _edges(graph: Level, faults: Faults) -> bool:
    """Find what each step depends on; return whether one depends on a later one: without that there is no cycle."""
    ahead = False
    places = graph.places
    for place, step in enumerate(graph.steps):
        out: dict[int, None] = {}
        missed = 0
        for dependency in step.depends_on:
            target = places.get(dependency.id, place)
            if target == place or target in out:
                _no_edge(graph, place, len(out) + missed, faults)
                missed += 1
                continue
            out[target] = None
            if target > place:
                ahead = True
        graph.deps.append([*out])
    return ahead


def _no_edge(graph: Level, place: int, number: int, faults: Faults) -> None:
    """Note that dependency *number* of the step at *place* names no other step, or one that was named already."""
    dependency = graph.steps[place].depends_on[number]
    here = f"{graph.at}/{place}/depends_on/{number}"
    name = dependency.id[len(graph.prefix) :]
    if dependency.id not in graph.places:
        where = " beside it in the nested plan" if graph.prefix else ""
        fix = f"{faults.near(name, graph.names)}Steps here: {several(graph.names)}"
        faults.add(here, "unknown-dependency", f"there is no step {quoted(name)}{where}", fix)
    elif graph.places[dependency.id] == place:
        faults.add(here, "self-dependency", "the step depends on itself", "drop it")
    else:
        found = f"the step depends on {quoted(name)} twice"
        faults.add(here, "duplicate-dependency", found, "name it once")


def _order(deps: list[list[int]]) -> list[int]:
    """Return places so that each comes after what it depends on, as far as there is such an order."""
    behind: list[list[int]] = [[] for _ in deps]
    open_ = [len(targets) for targets in deps]
    for place, targets in enumerate(deps):
        for target in targets:
            behind[target].append(place)
    order = [place for place, count in enumerate(open_) if not count]
    for place in order:  # grows while it is walked
        for next_ in behind[place]:
            open_[next_] -= 1
            if not open_[next_]:
                order.append(next_)
    return order


def _cycles(deps: list[list[int]], rest: set[int]) -> Iterator[list[int]]:
    """Yield one cycle of each strongly connected part of *rest*; each place waits for the next."""
    for part in _parts(deps, rest):
        if len(part) < 2:
            continue
        inside = set(part)
        walked: dict[int, int] = {}
        place = min(inside)
        while place not in walked:
            walked[place] = len(walked)
            place = next(target for target in deps[place] if target in inside)
        yield list(walked)[walked[place] :]


def _parts(deps: list[list[int]], rest: set[int]) -> Iterator[list[int]]:
    """Yield the strongly connected parts of *rest* (Tarjan's algorithm, without recursion)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    walk: list[tuple[int, Iterator[int]]] = []
    for root in sorted(rest):
        if root not in number:
            walk.append((root, iter(deps[root])))
        while walk:
            place, targets = walk[-1]
            if place not in number:
                number[place] = low[place] = len(number)
                stack.append(place)
            for target in targets:
                if target not in number:
                    walk.append((target, iter(deps[target])))
                    break
                low[place] = min(low[place], low.get(target, low[place]))
            else:
                walk.pop()
                if low[place] == number[place]:
                    part: list[int] = []
                    while not part or part[-1] != place:
                        part.append(stack.pop())
                        low.pop(part[-1])  # closed: it no longer draws others to it
                    yield part
                else:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[place])
