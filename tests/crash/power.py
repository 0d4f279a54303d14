"""Real runs on a disk that is recorded, the ledger of what they did and told, and what power cuts leave of it all."""

import asyncio
from dataclasses import dataclass, field

from fsm_agent import CallContext, Plan, Reconciled, RunController, Toolbox, ToolError

STEPS = [
    {"id": "a", "tool": "look", "args": {"n": 1}},
    {"id": "b", "tool": "look", "args": {"n": 2}},
    {"id": "c", "tool": "put", "args": {"v": "$a.v"}, "depends_on": ["a"]},
    {"id": "d", "tool": "pay", "args": {"v": "$b.v"}, "depends_on": ["b"], "requires_confirmation": True},
    {"id": "e", "tool": "pay", "args": {"v": 77}, "depends_on": ["c"]},
    {"id": "f", "tool": "look", "args": {"n": 3}, "depends_on": ["d", "e"]},
    {"id": "g", "tool": "send", "args": {"text": "$f.text"}, "depends_on": ["f"]},
]
PLAN = Plan.make({"steps": STEPS})


@dataclass
class Ledger:
    """What the world outside knows, and how much the disk had done by then.

    Attributes:
        effects: (operations done, run, key) of every effect, written down as it begins.
        told: (operations done, run, seq) of every event that somebody was told of.
    """

    operations: object
    effects: list = field(default_factory=list)
    told: list = field(default_factory=list)


def toolbox(ledger):
    """Tools that write down when they take effect; `pay` sometimes hangs up after it."""
    tools = Toolbox()
    paid = {}

    @tools.read
    async def look(n: int):
        await asyncio.sleep(0)
        return {"v": n, "text": "t" * 6000 if n == 3 else "x" * 300}

    @tools.idempotent
    async def put(v: int, *, ctx: CallContext):
        ledger.effects.append((ledger.operations(), ctx.run, ctx.idempotency_key))
        return {"v": v}

    @tools.write(settle_s=0, timeout_s=0.4)
    async def pay(v: int, *, ctx: CallContext):
        ledger.effects.append((ledger.operations(), ctx.run, ctx.idempotency_key))
        paid[ctx.idempotency_key] = {"paid": v}
        if v == 77:
            raise ToolError("unclassified_error", "the line went dead", applied="maybe")
        return paid[ctx.idempotency_key]

    @pay.reconcile
    async def find(v: int, *, ctx: CallContext):
        found = paid.get(ctx.idempotency_key)
        return Reconciled.applied(found) if found else Reconciled.absent()

    @tools.write
    async def send(text: str, *, ctx: CallContext):
        ledger.effects.append((ledger.operations(), ctx.run, ctx.idempotency_key))
        return len(text)

    return tools


async def one_run(store, ledger, name):
    def tell(events):
        ledger.told.extend((ledger.operations(), name, event.seq) for event in events)

    tools = toolbox(ledger)
    async with await RunController.start(PLAN, tools, store=store, run_id=name, listeners=[tell]) as run:
        await run.wait(timeout_s=20)
        for question in run.questions:
            await question.approve(by="ann")
        report = await run.wait(timeout_s=20)
        assert report["state"] == "done", report


def work(store, operations, names):
    """Drive runs side by side in one store, one after the other where there are many, and return the ledger."""
    ledger = Ledger(operations)

    async def together(some):
        async with asyncio.TaskGroup() as group:
            for name in some:
                group.create_task(one_run(store, ledger, name))

    for at in range(0, len(names), 2):
        asyncio.run(together(names[at : at + 2]))
    return ledger


def due(ledger, upto):
    """What must be there after a power cut behind operation *upto*: the last seq told, and the keys, by run."""
    told, keys = {}, {}
    for at, run, seq in ledger.told:
        if at <= upto:
            told[run] = max(seq, told.get(run, 0))
    for at, run, key in ledger.effects:
        if at <= upto:
            keys.setdefault(run, set()).add(key)
    return told, keys
