"""Families about people and limits: yes and no in every order, what was said and is so no more, retries, budgets."""

from typing import Any

from fsm_agent.core.engine.changes import drifted
from fsm_agent.core.engine.fold import apply
from fsm_agent.core.engine.state import Run
from fsm_agent.core.machine import TaskState
from tests.torture.rig import EFFECTS, Doc, Result, Rng, crashes, place, play, starts


def approval(rng: Rng) -> None:
    """Words in any order, twice, too late or never, and the process ends in between: each reaches its own call alone."""
    where = place(rng)
    count, expiry = 1 + rng.randrange(4), rng.choice((None, None, 15))
    effect = rng.choice(EFFECTS[1:])
    approvers = rng.choice((1, 1, 1, 2))
    steps: list[Doc] = []
    for number in range(count):
        step: Doc = {
            "id": f"w{number}",
            "tool": f"t{number}",
            "requires_confirmation": True,
            "args": {"n": number},
        }
        if expiry is not None:
            step["confirm_within_s"] = expiry
        if approvers == 2:
            step["approvers"] = 2
        steps.append(step)
    words: list[Doc] = []
    said: dict[str, tuple[str, float]] = {}
    times = [n + 0.5 for n in rng.sample(range(60), count * 3)]  # never at the very microsecond of an expiry
    for number in range(count):
        name, at = where.name(f"w{number}"), sorted(times[number * 3 : number * 3 + 3])
        word = rng.choice(("approve", "approve", "approve", "reject", "nothing"))
        people = [f"p{k}" for k in range(approvers)] if word == "approve" else ["p0"]
        said[name] = word, at[len(people) - 1]
        if word != "nothing":
            words += [{"at_s": t, "do": {word: name, "by": by}} for t, by in zip(at, people, strict=False)]
            other = rng.choice(("approve", "reject"))  # a second click, too late for anything
            words.append({"at_s": 60 + number, "do": {other: name, "by": "late"}})
    rng.shuffle(words)
    result = play(
        {
            "plan": {"inputs": where.inputs, "steps": where.put(steps)},
            "tools": {f"t{n}": {"effect": effect, "reconcile": "truth"} for n in range(count)},
            "workers": 1 + rng.randrange(4),
            "operator": [*words, *crashes(rng)],
        },
        rng,
    )
    for number in range(count):
        _as_said(
            result, where.name(f"w{number}"), *said[where.name(f"w{number}")], result.effects[f"t{number}"]
        )


def _as_said(result: Result, name: str, word: str, at_s: float, effects: int) -> None:
    """Check that exactly what was said of a call came of it."""
    own = [e for e in result.events if e.task == name]
    first, *more = (e for e in own if e.type == "approval_requested" and e.data["kind"] == "approval")
    over = "expires_at" in first.data and (
        word == "nothing" or result.events[0].at + at_s * 1_000_000 >= first.data["expires_at"]
    )
    absent = any(e.type == "reconciled" and e.data["verdict"] == "absent" for e in own)
    if word == "approve" and absent and not over:
        assert effects <= 1  # the process ended between the intent and the call: a person is asked once more
        return
    state = {"approve": "done", "reject": "cancelled", "nothing": "awaiting-confirmation"}[word]
    assert result.tasks[name] == ("failed" if over else state), f"{name} is {result.tasks[name]}"
    assert effects == (word == "approve" and not over)
    assert not more, f"{name} was asked {1 + len(more)} times"


def stale_plan(rng: Rng) -> None:
    """Inputs, rows and limits change at any moment: nothing starts on what is so no more, and what rested on it is made anew."""
    rows = [rng.randrange(4) for _ in range(1 + rng.randrange(3))]
    effect = rng.choice(EFFECTS)
    inner: list[Doc] = [
        {"id": "p", "tool": "look", "args": {"w": rng.choice(("$item", "$inputs.w"))}},
        {"id": "q", "tool": "act", "args": {"v": "$p.n", "w": "$item"}, "depends_on": ["p"]},
    ]
    shape = rng.randrange(3)
    batch: Doc = {
        "id": "b",
        "for_each": "$inputs.rows",
        "on_item_failure": rng.choice(("stop", "collect", 0.5)),
    }
    batch |= (
        {"plan": {"steps": inner}} if shape else {"tool": "act", "args": {"w": "$item", "u": "$inputs.w"}}
    )
    if rng.randrange(2):
        batch["max_parallel"] = 1 + rng.randrange(2)
    steps = [
        batch,
        {"id": "after", "tool": "use", "args": {"all": "$b"}, "depends_on": ["b"]},
        {"id": "last", "description": "?"},
    ]
    says: list[Doc] = []
    for _ in range(1 + rng.randrange(3)):
        value: Doc = (
            {"rows": [rng.randrange(4) for _ in range(rng.randrange(4))]}
            if rng.randrange(3)
            else {"w": rng.randrange(3)}
        )
        says.append({"at_s": 1 + rng.randrange(12), "do": {"set_input": value, "by": "ann"}})
    fails = {"raise": {"code": "not_found", "message": "none"}}
    look = [
        {"match": {"w": n}, "return": {"n": n}, "delay_s": rng.randrange(3)}
        if rng.randrange(5)
        else {"match": {"w": n}, **fails}
        for n in range(4)
    ]
    result = play(
        {
            "plan": {"inputs": {"rows": rows, "w": 1}, "steps": steps},
            "tools": {
                "look": {"effect": "read", "calls": look},
                "act": {
                    "effect": effect,
                    "confirm": rng.randrange(3) == 0,
                    "calls": [{"return": {"n": 1}, "delay_s": rng.randrange(4)}],
                },
                "use": {"effect": "read", "calls": [{"return": 1}]},
            },
            "workers": 1 + rng.randrange(4),
            "operator": [
                *says,
                *(
                    {"at_s": 30 + n, "do": {"approve": f"b[{n}]{end}", "by": "ann"}}
                    for n in range(3)
                    for end in ("", "/q")
                ),
                *crashes(rng),
            ],
        },
        rng,
    )
    run = Run("simulation")
    for event in result.events:
        if event.type == "task_moved" and event.data["trigger"] == "start":
            _starts_as_planned(run, event)
        apply(run, event)
    for task in run.tasks.values():
        if task.state is TaskState.DONE and run.plans(task) and drifted(run, task):
            surplus = task.id.startswith("b[") and int(task.id[2 : task.id.index("]")]) >= run.tasks["b"].size
            asked = task.id in run.questions
            assert surplus or (asked and task.effect != "read"), (
                f"{task.id} rests on what is so no more, and nobody is asked"
            )


def moving_rows(rng: Rng) -> None:
    """Rows come, go and change places while their calls are made, fail and are lost: no row is paid twice."""
    effect = rng.choice(EFFECTS[1:3])
    nested = rng.randrange(3) == 0
    pay: Doc = {"tool": "pay", "args": {"row": "$item"}}
    batch: Doc = {"id": "b", "for_each": "$inputs.rows", "on_item_failure": rng.choice(("stop", "collect"))}
    batch |= {"plan": {"steps": [{"id": "p", **pay}]}} if nested else pay
    if rng.randrange(2):
        batch["max_parallel"] = 1 + rng.randrange(2)
    names = [f"b[{n}]{'/p' if nested else ''}" for n in range(4)]
    says: list[Doc] = []
    for _ in range(1 + rng.randrange(3)):
        rows = rng.sample(range(5), rng.randrange(5))
        says.append({"at_s": 1 + rng.randrange(14), "do": {"set_input": {"rows": rows}, "by": "ann"}})
    if rng.randrange(4) == 0:  # the same rows in another order, by another plan
        again = {**batch, "id": "again", "for_each": rng.sample(range(5), 3)}
        plan = {"steps": [again, {"id": "last", "description": "?"}]}
        says.append({"at_s": 8 + rng.randrange(8), "do": {"replan": plan, "by": "ann"}})
    calls = [rng.choice(_PAYMENTS) for _ in range(rng.randrange(5))]
    result = play(
        {
            "plan": {
                "inputs": {"rows": rng.sample(range(5), 1 + rng.randrange(3))},
                "steps": [batch, {"id": "last", "description": "?"}],
            },
            "tools": {
                "pay": {
                    "effect": effect,
                    "timeout_s": 3,
                    "settle_s": 1,
                    "reconcile": "truth",
                    "calls": [*calls, {"return": {"n": 1}, "delay_s": 1}],
                }
            },
            "workers": 1 + rng.randrange(3),
            "operator": [
                *says,
                *(
                    {"at_s": 25, "do": {"answer": n, "value": {"decide": "retry"}, "by": "ann"}}
                    for n in names
                ),
                *crashes(rng),
            ],
        },
        rng,
    )
    paid = [done.args["row"] for done in result.ledger]
    assert len(paid) == len(set(paid)), f"rows were paid twice: {paid}"


_PAYMENTS: tuple[Doc, ...] = (
    {"return": {"n": 1}, "delay_s": 2},
    {"raise": {"code": "no", "message": "no", "applied": "no"}},
    {"timeout": True, "commit": True, "return": {"n": 1}},
    {"timeout": True, "return": {"n": 1}},
    {"crash": "after", "return": {"n": 1}},
)


def _starts_as_planned(run: Run, event: Any) -> None:
    row = event.task[2 : event.task.index("]")] if event.task.startswith("b[") else ""
    if (
        row
        and "w" in event.data["args"]
        and run.inputs["rows"][int(row) : int(row) + 1]
        and "u" in event.data["args"]
    ):
        args = event.data["args"]
        assert args == {"w": run.inputs["rows"][int(row)], "u": run.inputs["w"]}, (
            f"{event.task} starts with {args}"
        )


def retry(rng: Rng) -> None:
    """Errors of every kind, on several steps at once: tried again as often as allowed, each step by its own count."""
    where = place(rng)
    count, retries = 1 + rng.randrange(3), rng.randrange(4)
    effect = rng.choice(("read", "read", "write"))
    passing = ({"status": 503}, {"status": 502}, {"class": "ConnectionResetError", "message": "gone"})
    final = (
        {"status": 404},
        {"status": 401},
        {"status": 403},
        {"status": 422},
        {"code": "bad_request", "message": "no"},
    )
    steps: list[Doc] = []
    tools: Doc = {}
    expected: dict[str, tuple[int, bool]] = {}
    for number in range(count):
        broken = rng.randrange(4)
        kind = rng.choice(("passing", "passing", "final"))
        error = dict(rng.choice(passing if kind == "passing" else final))
        if effect == "write" and "class" not in error:
            error["applied"] = "no"
        tools[f"t{number}"] = {
            "effect": effect,
            "calls": [{"raise": error}] * broken + [{"return": {"n": 1}}],
        }
        steps.append({"id": f"s{number}", "tool": f"t{number}", "args": {"n": number}})
        name = where.name(f"s{number}")
        if not broken:
            expected[name] = (1, True)
        elif kind == "final" or (effect == "write" and "class" in error):
            expected[name] = (1, False)
        else:
            expected[name] = (min(broken, retries) + 1, broken <= retries)
    result = play(
        {
            "plan": {"inputs": where.inputs, "steps": where.put(steps)},
            "rules": {"params": {"retries": retries, "breaker_failures": 99, "repeat_threshold": 20}},
            "tools": tools,
            "workers": 1 + rng.randrange(4),
        },
        rng,
    )
    for number in range(count):
        name = where.name(f"s{number}")
        calls, done = expected[name]
        assert result.calls[f"t{number}"] == calls, f"{name}: {result.calls[f't{number}']} calls, not {calls}"
        assert (result.tasks[name] == "done") == done


def budget(rng: Rng) -> None:
    """Limits of the run and shares of nested plans: never overshot, not by a batch, a retry, a crash or a second owner."""
    where = place(rng, 3)
    count, calls = 1 + rng.randrange(5), 1 + rng.randrange(6)
    tokens = rng.choice((None, 10 * (1 + rng.randrange(6))))
    steps: list[Doc] = [
        {"id": f"s{n}", "tool": "t", "args": {"n": n}, **({"estimate": {"tokens": 10}} if tokens else {})}
        for n in range(count)
    ]
    broken = rng.randrange(3)
    use = {"usage": {"tokens": 10}} if tokens else {}
    budgets: Doc = {"tool_calls": calls, **({"tokens": tokens} if tokens else {})}
    own = where.kind == "nested" and rng.randrange(2)
    put = where.put(steps)
    if own:
        put[0]["budgets"] = budgets
    script = [{"raise": {"status": 503}, **use}] * broken + [
        {"return": {"n": 1}, "delay_s": rng.randrange(3), **use}
    ]
    result = play(
        {
            "plan": {"inputs": where.inputs, "budgets": {} if own else budgets, "steps": put},
            "rules": {"params": {"breaker_failures": 99}},
            "tools": {
                "t": {"effect": rng.choice(("read", "write", "idempotent")), "timeout_s": 9, "calls": script}
            },
            "workers": 1 + rng.randrange(8),
            "operator": crashes(rng),
        },
        rng,
    )
    begun = [e for found in starts(result).values() for e in found]
    assert len(begun) <= calls, f"{len(begun)} calls were started, {calls} are allowed"
    run = Run("simulation")
    used = []
    for _ in range(2):  # a second look at the log counts nothing again
        run = Run("simulation")
        for event in result.events:
            apply(run, event)
        used.append((run.account.tool_calls, run.account.tokens))
    assert used[0] == used[1]
    assert run.account.tool_calls <= calls
    looked_up = 10 * sum(e.type == "probe_sent" for e in result.events)  # to know is worth more than to save
    if tokens:
        assert run.account.tokens + run.account.reserved_tokens <= tokens + looked_up
    needed = count * where.rows
    if not broken and not any(e.type == "owner_changed" for e in result.events):
        fits = min(calls, needed, tokens // 10 if tokens else needed)
        assert len(begun) == fits, f"{len(begun)} of {fits} calls that fit were started"
