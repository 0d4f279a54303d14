"""Families about plans: in what order their steps run, what their references mean, how models write and change them."""

import json
from typing import Any

import pytest

from fsm_agent.core.errors import PlanError, UnresolvedReferenceError
from fsm_agent.core.language import refs
from fsm_agent.core.plans import planning
from fsm_agent.core.plans import text as plantext
from tests.core.kit import tool
from tests.laws.replans import Gamble
from tests.torture.rig import Doc, Rng, place, play, starts


def replan(rng: Rng) -> None:
    """Failures and proposals of every kind, sound, careless and hostile: see :mod:`tests.laws.replans`."""
    Gamble(rng.randrange).play()


def scheduling(rng: Rng) -> None:
    """Any graph, any number of workers, any speed: each step once, after what it waits for, and nothing left by omission."""
    where = place(rng)
    count, workers = 1 + rng.randrange(7), 1 + rng.randrange(8)
    steps: list[Doc] = []
    tools: Doc = {}
    ends: dict[str, bool] = {}
    takes: dict[str, int] = {}
    for number in range(count):
        name = f"s{number}"
        needs = [{"id": s["id"], "optional": rng.randrange(3) == 0} for s in steps if rng.randrange(2) == 0]
        delay, fails = rng.randrange(4), rng.randrange(4) == 0
        steps.append(
            {
                "id": name,
                "tool": f"t{number}",
                "depends_on": needs,
                "optional": True,
                "on_failure": {"*": "skip"},
            }
        )
        outcome: Doc = {"raise": {"status": 404}} if fails else {"return": {"n": number}}
        tools[f"t{number}"] = {
            "effect": rng.choice(("read", "write")),
            "calls": [{**outcome, "delay_s": delay}],
        }
        if fails:
            tools[f"t{number}"]["calls"][0]["raise"] = {"code": "no", "message": "no", "applied": "no"}
        lost = any(not ends[d["id"]] and not d["optional"] for d in needs)
        ends[name] = not fails and not lost
        takes[name] = 0 if lost else delay + max((takes[d["id"]] for d in needs), default=0)
    result = play(
        {"plan": {"inputs": where.inputs, "steps": where.put(steps)}, "tools": tools, "workers": workers}, rng
    )
    begun = starts(result)
    ended = {
        e.task: e.seq
        for e in result.events
        if e.type == "task_moved" and e.data["dest"] in ("done", "cancelled") and e.data["source"] != "done"
    }
    for step in steps:
        name = where.name(step["id"])
        assert result.tasks[name] == ("done" if ends[step["id"]] else "cancelled"), (
            f"{name} is {result.tasks[name]}"
        )
        assert len(begun.get(name, ())) == result.calls[step["tool"]] <= 1
        for event in begun.get(name, ()):
            assert all(ended[where.name(d["id"])] < event.seq for d in step["depends_on"]), (
                f"{name} began too early"
            )
    assert result.run == "done"
    if workers >= count and not any(ends[s["id"]] is False for s in steps):
        assert result.virtual_s == max(takes.values()), "a step waited for one that it does not depend on"


_TEXTS = ("$s2.secret", "$$", "a", "", "$inputs.x", "${s1.v}", "price: $5", "x\u2028y", "0", "é")


def _value(rng: Rng, depth: int = 0) -> Any:
    kind = rng.randrange(9 if depth < 3 else 7)
    if kind < 3:
        return rng.choice(_TEXTS)
    if kind < 7:
        return rng.choice((None, True, False, 0, 1, -5, 2.5, 10**12))
    if kind == 7:
        return [_value(rng, depth + 1) for _ in range(rng.randrange(3))]
    return {rng.choice("abcv"): _value(rng, depth + 1) for _ in range(rng.randrange(3))}


def reference(rng: Rng) -> None:
    """Any value behind any path in any form of text: resolved exactly once, or refused by name; never half, never raw."""
    scope: Doc = {f"$s{n}": {"v": _value(rng), "l": [_value(rng), {"b": _value(rng)}]} for n in (1, 10)}
    gone = rng.randrange(5) == 0

    def known() -> tuple[str, Any]:
        root = rng.choice(("s1", "s10"))
        value = scope[f"${root}"]
        path, found = rng.choice(
            ((".v", value["v"]), (".l[0]", value["l"][0]), (".l[1].b", value["l"][1]["b"]), ("", value))
        )
        return f"{root}{path}", found

    def make(depth: int) -> tuple[Any, Any]:
        kind = rng.randrange(6 if depth < 3 else 4)
        if kind == 0:
            path, found = known()
            return (f"${path}" if rng.randrange(2) else f"${{{path}}}"), found
        if kind in (1, 2):
            template, meant = "", ""
            for _ in range(1 + rng.randrange(4)):
                path, found = known()
                plain = rng.choice(("x=", " / ", "é", "-", "$$"))
                written = (
                    found
                    if isinstance(found, str)
                    else json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
                )
                template, meant = (
                    f"{template}{plain}${{{path}}}",
                    f"{meant}{plain.replace('$$', '$')}{written}",
                )
            return template, meant
        if kind == 3:
            return 5, 5
        parts = [make(depth + 1) for _ in range(rng.randrange(3))]
        if kind == 4:
            return [p[0] for p in parts], [p[1] for p in parts]
        return {f"k{i}": p[0] for i, p in enumerate(parts)}, {f"k{i}": p[1] for i, p in enumerate(parts)}

    template, meant = make(0)
    if gone:
        template = {
            "ok": template,
            "gone": rng.choice(("$s1.nothing", "x ${s10.l[7]}", "$s9.v", "${s1.v.deeper.still}")),
        }
        if "deeper" in template["gone"] and isinstance(scope["$s1"]["v"], dict):
            return
        with pytest.raises(UnresolvedReferenceError, match=r"s1|s9"):
            refs.parse(template).resolve(scope)
        return
    found = refs.parse(template).resolve(scope)
    assert found == meant, f"{template} became {found}, not {meant}"
    assert json.dumps(found) == json.dumps(meant), "the types are kept"


_STEP_FAULTS: tuple[tuple[str, Doc], ...] = (
    ("an unknown tool", {"id": "f0", "tool": "fly"}),
    ("an unknown dependency", {"id": "f1", "tool": "look", "depends_on": ["nobody"]}),
    ("a step that waits for itself", {"id": "f2", "tool": "look", "depends_on": ["f2"]}),
    ("an unknown key", {"id": "f3", "tool": "look", "colour": "red"}),
    ("a reference to no step", {"id": "f4", "tool": "look", "args": {"x": "$nobody.v"}}),
    ("a type that does not fit", {"id": "f5", "tool": 7}),
)


def plan_json(rng: Rng) -> None:
    """One plan in any wrapping is one plan; cut anywhere it is refused; all its faults are told at once."""
    steps: list[Doc] = [
        {
            "id": f"s{n}",
            "tool": "look",
            "args": {"x": rng.choice((n, "a } ] , text", "```", "// no comment"))},
        }
        for n in range(1 + rng.randrange(4))
    ]
    document = {"goal": "go", "steps": steps}
    text = json.dumps(document, indent=rng.choice((None, 1)))
    if rng.randrange(3) == 0:
        at = rng.randrange(1, len(text))
        try:
            found = planning.load(plantext.read(text[:at]))
        except PlanError:
            return
        raise AssertionError(f"a plan that was cut off became one of {len(found.steps)} steps")
    if rng.randrange(3) == 0:
        chosen = rng.sample(_STEP_FAULTS, 1 + rng.randrange(len(_STEP_FAULTS)))
        try:
            planning.load({**document, "steps": [*steps, *(dict(doc) for _, doc in chosen)]}, tools=_TOOLS)
        except PlanError as error:
            told = {fault.at.split("/")[2] for fault in error.faults}
            assert told == {str(len(steps) + n) for n in range(len(chosen))}, f"{told} for {chosen}"
            return
        raise AssertionError(f"{chosen} passed")
    wrapped = _wrapped(rng, text)
    assert planning.load(plantext.read(wrapped)).digest == planning.load(document).digest


_TOOLS = {"look": tool("look")}


def _wrapped(rng: Rng, text: str) -> str:
    if rng.randrange(2):
        text = f"{text[:-1]}{rng.choice((',', ' , '))}{text[-1]}"
    if rng.randrange(3) == 0:
        text = text.replace("{", "{ /* so */ ", 1)
    match rng.randrange(5):
        case 0:
            text = f"```json\n{text}\n```"
        case 1:
            text = f"Sure! Here is the plan [1]:\n\n{text}\n\nGood luck."
        case 2:
            text = f"```\n{text}\n```\nAnd once more:\n```json\n{text}\n```"
        case 3:
            text = f"\ufeff{text}"
        case _:
            text = f"\n\n  {text}\n"
    return text
