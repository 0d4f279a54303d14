"""A run whose inputs are corrected while it goes on ends as one that had the last of them from the beginning.

That is said of reads, for what had an effect may stay. A write goes out only with what it would have gone out with in a
run that had the inputs of that moment from the beginning. What a call returns hangs on its arguments. Plans have
conditions, joins, optional dependencies, references to what lies far before, nested plans, batches, and questions.
"""

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from fsm_agent.core.plans.members import parent_of
from fsm_agent.runtime.configs import load_rules
from fsm_agent.testing.scenario import parse
from fsm_agent.testing.simulate import Result, simulate

BATCH = 25
TOOLS = {"f": lambda x: (x + 1) % 3, "g": lambda x: min(x, 1), "h": lambda x: 2 * x % 3}
PARTS = ("/p", "/q", "/r", "[0]", "[1]", *(f"[{i}]/{part}" for i in (0, 1) for part in "pqr"))


class Corrected:
    """A plan, and corrections of what it is given.

    Attributes:
        inputs: At the beginning.
        last: After all corrections.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.steps = [*self.level("abcdefg"[: self.number(3, 7)], ()), {"id": "last", "tool": "slow"}]
        self.inputs = {"i": self.number(0, 2), "j": self.number(0, 2), "rows": self.rows()}
        self.last = dict(self.inputs)
        self.corrections = list(self.said())
        self.tools = {name: self.tool(name) for name in TOOLS}
        self.workers = self.number(1, 5)

    def number(self, low: int, high: int) -> int:
        return self.chance.randint(low, high)

    def maybe(self, share: float) -> bool:
        return self.chance.random() < share

    def rows(self) -> list[int]:
        return [self.number(0, 2) for _ in range(self.number(0, 2))]

    def tool(self, name: str) -> dict[str, Any]:
        calls = [
            {
                "match": {"x": x},
                "return": {"v": TOOLS[name](x)},
                "delay_s": self.chance.choice((0, 0, 1, 5, 15)),
            }
            for x in range(3)
        ]
        return {"effect": "read", "timeout_s": 300, "calls": calls}

    def said(self) -> Any:
        at = 0.0
        for _ in range(self.number(1, 4)):
            at += self.chance.choice((0.5, 1, 3, 7, 15, 40))
            key = self.chance.choice(("i", "j", "i", "j", "rows"))
            self.last[key] = self.rows() if key == "rows" else self.number(0, 2)
            yield {"at_s": at, "do": {"set_input": {key: self.last[key]}}}
            if self.maybe(0.1):
                yield {"at_s": at + self.chance.choice((0.1, 2)), "do": "crash"}

    def level(self, names: str, outside: tuple[str, ...]) -> list[dict[str, Any]]:
        """Return the steps of a plan, or of one nested in it that may read what is *outside*."""
        steps: dict[str, dict[str, Any]] = {}
        for name in names:
            step: dict[str, Any] = {"id": name}
            needs = [other for other in steps if self.maybe(0.4)]
            if needs:
                step["depends_on"] = [{"id": n, "optional": True} if self.maybe(0.15) else n for n in needs]
                if self.maybe(0.3):
                    step["join"] = self.chance.choice(("any", "first"))
            there = sure(steps, step)
            seen = [*(n for n in there if "tool" in steps[n] and "for_each" not in steps[n]), *outside]
            if self.maybe(0.25):
                what = f"${self.chance.choice(seen)}.v" if seen and self.maybe(0.5) else self.input()
                step["when"] = f"{what} != {self.number(0, 2)}"
            steps[name] = {**step, **self.work(seen, nested=names[0] == "p")}
        return list(steps.values())

    def work(self, seen: list[str], *, nested: bool) -> dict[str, Any]:
        """Return what a step does."""
        kind = self.chance.random()
        if kind < 0.07:
            return {"description": "how many?"}
        call = {"tool": self.chance.choice(tuple(TOOLS)), "args": {"x": self.value(seen)}}
        if nested or kind > 0.4:
            return call
        if kind > 0.25:
            args = {"x": self.chance.choice(("$item", call["args"]["x"]))}
            return {**call, "args": args, "for_each": "$inputs.rows"}
        inside = {"plan": {"steps": self.level("pqr"[: self.number(1, 3)], tuple(seen))}}
        return {**inside, "for_each": "$inputs.rows"} if self.maybe(0.4) else inside

    def input(self) -> str:
        return f"$inputs.{self.chance.choice('ij')}"

    def value(self, seen: list[str]) -> Any:
        if seen and self.maybe(0.6):
            return f"${self.chance.choice(seen)}.v"
        return self.input() if self.maybe(0.6) else self.number(0, 2)

    def run(self, inputs: dict[str, Any], corrections: list[Any]) -> Result:
        names = [step["id"] for step in self.steps]
        asked = (*names, *(name + part for name in names for part in PARTS))
        people = [
            {
                "when": {"task": name, "state": "awaiting-confirmation"},
                "do": {"answer": name, "value": {"v": 1}},
                "every": True,
            }
            for name in asked
        ]
        slow = {"effect": "read", "timeout_s": 900, "calls": [{"return": 1, "delay_s": 500}]}
        document = {
            "plan": {"goal": "go", "inputs": inputs, "steps": self.steps},
            "workers": self.workers,
            "tools": {**self.tools, "slow": slow},
            "operator": [*people, *corrections],
        }
        result = simulate(parse(document, "corrected"), rules=load_rules("default"))
        assert result.ok, result.failures
        return result


def sure(steps: dict[str, dict[str, Any]], step: dict[str, Any]) -> list[str]:
    """Return what is done whenever *step* starts, near and far."""
    found: dict[str, None] = {}
    left = [step]
    while left:
        one = left.pop()
        if "join" not in one:
            near = [name for name in one.get("depends_on", ()) if isinstance(name, str) and name not in found]
            found.update(dict.fromkeys(near))
            left += [steps[name] for name in near]
    return list(found)


def end_of(result: Result, rows: int) -> dict[str, Any]:
    """Return how every task ended, but for what nobody sees any more: records beyond the list, parts of what was cancelled."""
    ends = {}
    for name, state in result.tasks.items():
        above, beyond = name, any(int(i) >= rows for i in re.findall(r"\[(\d+)\]", name))
        while above := parent_of(above):
            beyond = beyond or result.tasks[above] == "cancelled"
        if not beyond:
            ends[name] = (state, result.results.get(name) if state == "done" else None)
    return ends


@pytest.mark.parametrize("first", range(0, 300, BATCH))
def test_a_run_that_was_corrected_ends_as_one_that_had_been_right_from_the_beginning(first):
    for seed in range(first, first + BATCH):
        case = Corrected(seed)
        corrected, right = case.run(case.inputs, case.corrections), case.run(case.last, [])
        assert corrected.run == right.run == "done", f"seed {seed}"
        rows = len(case.last["rows"])
        assert end_of(corrected, rows) == end_of(right, rows), f"seed {seed}"


class Paying(Corrected):
    """As :class:`Corrected`; of the steps whose results nobody reads some are writes."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        read = json.dumps(self.steps)
        for step in [
            *self.steps,
            *(part for step in self.steps for part in step.get("plan", {}).get("steps", ())),
        ]:
            if step.get("tool") in TOOLS and f"${step['id']}" not in read and self.maybe(0.6):
                step["tool"] = f"pay-{step['tool']}"
        paid = {f"pay-{name}": {**self.tool(name), "effect": "write", "reconcile": "truth"} for name in TOOLS}
        self.tools.update(paid)


def paid(result: Result) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield each write that went out, with its arguments and the inputs of that moment."""
    inputs: dict[str, Any] = {}
    for event in result.events:
        if event.type in ("run_created", "input_changed"):
            inputs = {**inputs, **event.data["inputs"]}
        elif (
            event.type == "task_moved"
            and event.data["trigger"] == "start"
            and event.data["effect"] == "write"
        ):
            yield event.task or "", event.data["args"], inputs


@pytest.mark.parametrize("first", range(0, 150, BATCH))
def test_a_write_goes_out_only_with_what_is_right_at_that_moment(first):
    for seed in range(first, first + BATCH):
        case = Paying(seed)
        right: dict[str, dict[str, Any]] = {}
        for task, args, inputs in paid(case.run(case.inputs, case.corrections)):
            mark = json.dumps(inputs)
            if mark not in right:
                right[mark] = {name: found for name, found, _ in paid(case.run(inputs, []))}
            assert right[mark].get(task) == args, f"seed {seed}: {task} under {mark}"
