"""Families about effects: done twice, cut off by a deadline, a wish or the end of the process, or not done at all."""

from typing import Any

from tests.torture.rig import EFFECTS, Doc, Rng, crashes, final, place, play, starts

ENVELOPES: tuple[Any, ...] = (
    {"ok": False, "error": "channel_not_found"},
    {"success": False, "message": ""},
    {"isError": True, "content": [{"type": "text", "text": "no such file"}]},
    {"error": "API request failed: quota"},
    "API request failed: 502 Bad Gateway",
)
VALUES: tuple[Any, ...] = (None, 0, False, "", [], {}, {"n": 1}, "done", [1, None])


def _call(rng: Rng, effect: str) -> Doc:
    """Return what one call does: everything that the world can do to a caller."""
    value = {"return": rng.choice(VALUES)}
    if effect == "read":
        return rng.choice(
            (
                value, {**value, "delay_s": rng.randrange(4)}, {"raise": {"status": 503}}, {"timeout": True},
                {"raise": {"class": "TypeError", "message": "no"}}, {"crash": "before", **value}, {"crash": "after", **value},
            )
        )  # fmt: skip
    return rng.choice(
        (
            value, {**value, "delay_s": rng.randrange(4)},
            {"raise": {"code": "no", "message": "no", "applied": "no"}},
            {"raise": {"status": 500}, "commit": bool(rng.randrange(2)), "return": {"n": 1}},
            {"timeout": True, "commit": bool(rng.randrange(2)), "return": {"n": 1}},
            {"timeout": True, "commit": True, "return": {"n": 1}, "late_s": rng.randrange(4)},
            {"return": {"success": False, "message": ""}, "commit": bool(rng.randrange(2))},
            {"crash": rng.choice(("before", "after")), "return": {"n": 1}},
        )
    )  # fmt: skip


def _tool(rng: Rng, effect: str) -> Doc:
    tool: Doc = {
        "effect": effect,
        "timeout_s": 5,
        "settle_s": 2,
        "calls": [_call(rng, effect) for _ in range(1 + rng.randrange(3))] + [{"return": {"n": 1}}],
    }
    if effect != "read" and rng.randrange(3):
        tool["reconcile"] = "truth"
    return tool


def _work(rng: Rng, count: int) -> tuple[list[Doc], Doc]:
    """Return steps in some order of dependence, one tool each, and the tools."""
    steps: list[Doc] = []
    tools: Doc = {}
    for number in range(count):
        name = f"s{number}"
        before = [s["id"] for s in steps if rng.randrange(3) == 0]
        steps.append({"id": name, "tool": f"t{number}", **({"depends_on": before} if before else {})})
        tools[f"t{number}"] = _tool(rng, rng.choice(EFFECTS))
    return steps, tools


def _yes(names: list[str]) -> list[Doc]:
    return [
        {
            "when": {"task": n, "state": "awaiting-confirmation"},
            "do": {"approve": n, "by": "ann"},
            "every": True,
        }
        for n in names
    ]


def double_effect(rng: Rng) -> None:
    """Whatever calls do and wherever the process ends: no effect twice, and each attempt is one call."""
    where = place(rng, 2)
    steps, tools = _work(rng, 1 + rng.randrange(4))
    names = [n for s in steps for n in where.names(s["id"])]
    again = [
        {
            "when": {"task": n, "decision": "escalate"},
            "do": {"answer": n, "value": {"decide": "retry"}, "by": "ann"},
        }
        for n in names
        if rng.randrange(3) == 0
    ]
    result = play(
        {
            "plan": {"inputs": where.inputs, "steps": where.put(steps)},
            "tools": tools,
            "workers": 1 + rng.randrange(8),
            "operator": [*_yes(names), *again, *crashes(rng)],
        },
        rng,
    )
    tried = starts(result)
    repeats = sum(e.type == "probe_sent" and e.data["repeat"] for e in result.events)
    for step in steps:
        begun = sum(len(tried.get(n, ())) for n in where.names(step["id"]))
        if (
            tools[step["tool"]]["effect"] != "read"
        ):  # a read that was lost along with its process may be forgotten
            assert result.calls[step["tool"]] <= begun + repeats, (
                f"{step['id']}: a call that nobody wrote down"
            )


def timeout(rng: Rng) -> None:
    """A reply before, at or after the deadline, an effect or none, a probe or none: the truth comes out, once."""
    where = place(rng)
    late = rng.choice((None, 0, 1, 2, 3, 5))
    commit, probe = bool(rng.randrange(4)), bool(rng.randrange(3))
    effect = rng.choice(EFFECTS[1:])
    first: Doc = {"timeout": True, "commit": commit, "return": {"n": 1}}
    if late is not None and commit:
        first["late_s"] = late
    tool: Doc = {"effect": effect, "timeout_s": 5, "settle_s": 3, "calls": [first, {"return": {"n": 1}}]}
    if probe:
        tool["reconcile"] = "truth"
    step: Doc = {"id": "a", "tool": "t"}
    name = where.name("a")
    waits = rng.choice((0, 3600))
    if waits:
        step["requires_confirmation"] = True
    asked = [{"at_s": waits * n, "do": {"approve": name, "by": "ann"}} for n in (1, 2, 3)]
    ends = crashes(rng, most=1, within=12)
    result = play(
        {
            "plan": {"inputs": where.inputs, "budgets": {"active_s": 120}, "steps": where.put([step])},
            "tools": {"t": tool},
            "operator": [*asked, *([] if waits else _yes([name])), *ends],
        },
        rng,
    )
    begun = starts(result)[name]
    if probe or effect == "idempotent" or ("late_s" in first and not ends):
        assert result.tasks[name] == "done", f"{result.tasks}: the truth could be known"
        assert result.effects["t"] == 1
    else:
        assert result.tasks[name] in ("unknown-result", "done")
        assert len(begun) == 1


def cancel(rng: Rng) -> None:
    """A wish at any moment: nothing starts after it, nothing vanishes, and it ends or says what it waits for."""
    where = place(rng, 2)
    steps, tools = _work(rng, 1 + rng.randrange(4))
    names = [n for s in steps for n in where.names(s["id"])]
    when: Doc = rng.choice(({"at_s": rng.randrange(12)}, {"at_seq": 3 + rng.randrange(20)}))
    result = play(
        {
            "plan": {"inputs": where.inputs, "steps": where.put(steps)},
            "tools": tools,
            "workers": 1 + rng.randrange(4),
            "operator": [*_yes(names), {**when, "do": "cancel"}, *crashes(rng, most=1)],
        },
        rng,
    )
    wished = next((e.seq for e in result.events if e.type == "run_asked"), None)
    if wished is None:
        return
    late = [e.task for found in starts(result).values() for e in found if e.seq > wished]
    assert late == [], f"started after the wish: {late}"
    assert result.run in ("cancelled", "unknown-result")
    assert result.run == "unknown-result" or "unknown-result" not in result.tasks.values()
    for name, state in result.tasks.items():
        assert state in ("done", "cancelled", "unknown-result"), f"{name} is left {state}"


def false_done(rng: Rng) -> None:
    """An error inside a value, and a check that is false, cannot be made or looks at nothing: never done."""
    where = place(rng)
    effect = rng.choice(EFFECTS)
    step: Doc = {"id": "a", "tool": "t"}
    if rng.randrange(2):
        value = rng.choice(ENVELOPES)
    else:
        value = rng.choice(({"n": 1}, {"n": None}, {}, None, [1], {"n": {"m": 1}}))
        step["done_when"] = rng.choice(
            ("n == 2", "gone == 1", "n.m.k == 1", "len(n) > 3", 'n > "x"', "all(x in n, x == 1)")
        )
    name = where.name("a")
    result = play(
        {
            "plan": {
                "inputs": where.inputs,
                "steps": where.put([step, {"id": "b", "tool": "next", "depends_on": ["a"]}]),
            },
            "tools": {
                "t": {
                    "effect": effect,
                    "timeout_s": 5,
                    "calls": [{"return": value, "commit": effect != "read"}],
                },
                "next": {"effect": "write"},
            },
            "operator": [*_yes([name]), *crashes(rng, most=1, within=12)],
        },
        rng,
    )
    assert result.tasks[name] in ("failed", "unknown-result")
    assert result.calls["next"] == 0
    assert effect in ("read", "idempotent") or len(starts(result)[name]) == 1


def persistence(rng: Rng) -> None:
    """The process ends at some events, and what comes out is what comes out when it does not."""
    where = place(rng, 2)
    steps: list[Doc] = []
    for number in range(2 + rng.randrange(3)):
        step: Doc = {"id": f"s{number}", "tool": f"t{number}"}
        if number:
            step |= {"depends_on": [f"s{number - 1}"], "args": {"of": f"$s{number - 1}.n"}}
        if rng.randrange(4) == 0:
            step["requires_confirmation"] = True
        steps.append(step)
    tools = {
        s["tool"]: {
            "effect": rng.choice(EFFECTS),
            "timeout_s": 5,
            "settle_s": 1,
            "reconcile": "truth",
            "calls": [{"return": {"n": number}, "delay_s": rng.randrange(3)}],
        }
        for number, s in enumerate(steps)
    }
    names = [n for s in steps for n in where.names(s["id"])]
    case = {
        "plan": {"inputs": where.inputs, "steps": where.put(steps)},
        "rules": {"params": {"reconciles": 9, "retries": 9}},
        "tools": tools,
        "workers": 1 + rng.randrange(4),
        "operator": _yes(names),
    }
    calm = play(case, rng)
    assert calm.run == "done"
    for most in (1, 3):
        ends = [{"at_seq": 2 + rng.randrange(len(calm.events)), "do": "crash"} for _ in range(most)]
        assert final(play({**case, "operator": [*case["operator"], *ends]}, rng)) == final(calm)
