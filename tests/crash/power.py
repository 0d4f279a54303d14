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
PLAN = Plan.make({"inputs": {"late": ""}, "steps": STEPS})


@dataclass
class Ledger:
    """What the world outside knows, and how much the disk had done by then.

    Attributes:
        effects: (operations done, run, key) of every effect, written down as it begins.
        told: (operations done, run, seq) of every event that somebody was told of: by the log of lines, by a word that
            came back accepted, or by a head that was kept elsewhere.
    """

    operations: object
    effects: list = field(default_factory=list)
    told: list = field(default_factory=list)


def toolbox(ledger, known=()):
    """Tools that write down when they take effect; `pay` sometimes hangs up after it.

    Args:
        ledger: Where.
        known: Keys of effects that have happened before; `pay` and `send` refuse to have them again.
    """
    tools = Toolbox()
    paid = {key: {"paid": "before"} for key in known}

    @tools.read
    async def look(n: int):
        await asyncio.sleep(0)
        return {"v": n, "text": "t" * 6000 if n == 3 else "x" * 300}

    @tools.idempotent(settle_s=0, timeout_s=1)
    async def put(v: int, *, ctx: CallContext):
        ledger.effects.append((ledger.operations(), ctx.run, ctx.idempotency_key))
        return {"v": v}

    @tools.write(settle_s=0, timeout_s=0.4)
    async def pay(v: int, *, ctx: CallContext):
        assert ctx.idempotency_key not in paid
        ledger.effects.append((ledger.operations(), ctx.run, ctx.idempotency_key))
        paid[ctx.idempotency_key] = {"paid": v}
        if v == 77:
            raise ToolError("unclassified_error", "the line went dead", applied="maybe")
        return paid[ctx.idempotency_key]

    @pay.reconcile
    async def find(v: int, *, ctx: CallContext):
        found = paid.get(ctx.idempotency_key)
        return Reconciled.applied(found) if found else Reconciled.absent()

    @tools.write(settle_s=0, timeout_s=1)
    async def send(text: str, *, ctx: CallContext):
        assert ctx.idempotency_key not in paid
        ledger.effects.append((ledger.operations(), ctx.run, ctx.idempotency_key))
        return len(text)

    return tools


async def one_run(store, ledger, name):
    def tell(events):
        ledger.told.extend((ledger.operations(), name, event.seq) for event in events)

    def accepted():
        ledger.told.append((ledger.operations(), name, run.head.seq))

    tools = toolbox(ledger)
    async with await RunController.start(PLAN, tools, store=store, run_id=name, listeners=[tell]) as run:
        run.heads.signer = Kept(ledger)
        await run.note("it may begin", by="ann")
        accepted()
        await run.wait(until=lambda status: status.tasks["a"].state != "pending", timeout_s=20)
        await run.set_input(late="word", by="ann")
        accepted()
        await run.wait(timeout_s=20)
        for question in run.questions:
            await question.approve(by="ann")
            accepted()
        report = await run.wait(timeout_s=20)
        assert report["state"] == "done", report


@dataclass
class Kept:
    """Whoever keeps heads elsewhere relies on it that the log has them."""

    ledger: Ledger

    def sign(self, run, head):
        self.ledger.told.append((self.ledger.operations(), run, head.seq))


async def go_on(store, name, happened):
    """Take a run over after a power cut, and bring it to its end as a person would who can look at the world.

    Args:
        store: What the power cut has left.
        name: The run.
        happened: Keys of the effects that had happened.

    Returns:
        The ledger of what was done now.
    """
    ledger = Ledger(lambda: 0)
    store.acquire(
        name, "nobody", now_us=0, ttl_us=0, force=True
    )  # its owner is dead, though this process lives
    async with await RunController.open(store, name, toolbox(ledger, happened), lease_s=5) as run:
        for _ in range(9):
            report = await run.wait(timeout_s=20)
            if report["state"] == "done":
                return ledger
            for question in run.questions:
                if question.kind == "approval":
                    await question.approve(by="ann")
                    continue
                task = run.run.tasks[question.task]  # a write without a probe: somebody looks
                verdict = "applied" if task.key in happened else "absent"
                await run.reconcile(task.id, verdict=verdict, evidence="looked", result=1, by="ann")
        raise AssertionError(report)


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
