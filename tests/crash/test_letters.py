"""A person's word that came in a letter is taken once, and its writer hears what became of it, whoever died between."""

import asyncio
import contextlib
import threading

import pytest

from fsm_agent import RunController, Toolbox, ToolError
from fsm_agent.core.audit import replay
from fsm_agent.core.audit.audit import audit
from fsm_agent.core.errors import ConflictError, StoreError
from fsm_agent.core.events import from_body
from fsm_agent.core.inputs import (
    Answer,
    Approve,
    Ask,
    Edit,
    Note,
    Person,
    ReconcileAs,
    Reject,
    Replan,
    Resume,
    RetryTask,
    SetInputs,
)
from fsm_agent.runtime.driving.delivery import deliver
from fsm_agent.runtime.driving.letters import to_letter
from fsm_agent.stores import open_store
from fsm_agent.stores.transfer import export_run, import_run
from fsm_agent.testing.faulty_store import Crash, FaultyStore
from tests.runtime.runs import go, one, plan_of, toolbox

ANN = Person(by="ann", note="because")


class DiesAtTheAnswer(FaultyStore):
    """The process ends when the word is in the log and its letter is about to be answered."""

    def answer(self, lease, letter, answer):
        del lease, letter, answer
        self.crash()
        self.changes()  # which is refused like everything from now on


def tools():
    """One tool that works, one that fails for good, and one whose reply is lost."""
    box = Toolbox()
    box.add(lambda w=0: w, effect="read", name="look")

    @box.read
    def fail():
        raise ToolError("auth_denied", "no")

    @box.write(settle_s=0)
    def pay(n: int):
        raise ToolError("unclassified_error", "the line went dead", applied="maybe")

    return box


PARKED = {
    "held": plan_of(
        {"id": "t", "tool": "look", "args": {"w": "$inputs.w"}, "requires_confirmation": True},
        inputs={"w": 1},
    ),
    "failed": plan_of({"id": "t", "tool": "fail", "on_failure": {"*": "escalate"}}),
    "aborted": plan_of({"id": "t", "tool": "fail", "on_failure": {"*": "abort"}}),
    "unknown": plan_of({"id": "t", "tool": "pay", "args": {"n": 1}}),
}
WORDS = [
    ("held", lambda q: Approve(task="t", digest=q.digest, who=ANN)),
    ("held", lambda q: Approve(task="t", digest="0" * 8, who=ANN)),
    ("held", lambda q: Reject(task="t", who=ANN)),
    ("held", lambda q: Edit(task="t", args={"w": 9}, who=ANN)),
    ("held", lambda q: SetInputs(values={"w": 2}, who=ANN)),
    ("held", lambda q: SetInputs(values={"budgets.tool_calls": 9}, who=ANN)),
    ("held", lambda q: Ask(wish="pause", who=ANN)),
    ("held", lambda q: Ask(wish="cancel", who=ANN)),
    ("held", lambda q: Note(text="x" * 9000, who=ANN)),
    ("held", lambda q: Replan(document={"steps": [{"id": "u", "tool": "look"}]}, who=ANN)),
    ("failed", lambda q: Answer(task="t", value={"decide": "retry"}, who=ANN)),
    ("failed", lambda q: Answer(task="t", value={"result": 1, "evidence": "seen"}, who=ANN)),
    ("failed", lambda q: RetryTask(task="t", who=ANN)),
    ("failed", lambda q: RetryTask(task="nobody", who=ANN)),
    ("aborted", lambda q: Resume(who=ANN)),
    ("unknown", lambda q: ReconcileAs(task="t", verdict="applied", result=1, evidence="seen", who=ANN)),
    ("unknown", lambda q: ReconcileAs(task="t", verdict="absent", evidence="asked", who=ANN)),
    ("unknown", lambda q: ReconcileAs(task="t", verdict=None, who=ANN)),
]


def parked(kind):
    """A disk on which such a run waits, owned by nobody; and its question, if it asks one."""

    async def scenario():
        store = FaultyStore()
        async with await RunController.start(PARKED[kind], tools(), store=store, run_id="r") as run:
            await run.wait()
        return store.survivor(kept=store.soft_changes()), run.run.questions.get("t")

    return go(scenario())


def state(store):
    """What must be as if nobody had died."""
    run = replay.replay("r", store.read("r"), store.blob)
    return {
        "run": run.state,
        "wish": (run.wish, run.paused),
        "inputs": run.inputs,
        "budgets": run.budgets,
        "plan": run.plan_version,
        "tasks": {t.id: (t.state, t.attempt, t.args_digest, t.result) for t in run.tasks.values()},
        "questions": {name: q.kind for name, q in run.questions.items()},
    }


def of_letters(store):
    """The events that name a letter."""
    events = [from_body(record.body) for record in store.read("r")]
    return [event for event in events if event.actor is not None and "letter" in event.actor]


@pytest.mark.parametrize("number", range(len(WORDS)))
def test_a_letter_whose_reader_died_before_answering_is_neither_taken_twice_nor_refused(number):
    kind, word = WORDS[number]
    disk, question = parked(kind)
    letter = disk.post("r", to_letter(word(question)), now_us=5)
    calm = disk.copy()
    deliver(calm, "r")
    dying = DiesAtTheAnswer(disk)
    with pytest.raises(Crash):
        deliver(dying, "r")
    for kept in (0, dying.soft_changes()):
        survivor = dying.survivor(kept=kept)
        assert survivor.letter(letter).answer is None
        deliver(survivor, "r", force=True)
        assert survivor.letter(letter).answer == calm.letter(letter).answer
        assert state(survivor) == state(calm)
        assert len(of_letters(survivor)) == len(of_letters(calm)) == 1
        found = audit("r", survivor.read("r"), survivor.blob, head=survivor.head("r"))
        assert found.findings == ()


def test_a_letter_whose_answer_found_the_store_locked_is_answered_the_next_time():
    """The owner goes on: the word is in the log, and only the answer is missing."""

    class Locked(FaultyStore):
        times = 2

        def answer(self, lease, letter, answer):
            self.times -= 1
            if self.times >= 0:
                raise StoreError("store :faulty:: another process kept it locked; try again")
            super().answer(lease, letter, answer)

    async def scenario():
        store = Locked()
        plan = one("look", requires_confirmation=True)
        async with await RunController.start(plan, tools(), store=store, run_id="r") as run:
            await run.wait()
            async with await RunController.attach(store, "r") as other:
                await other.approve("t", digest=run.questions[0].digest, by="ann")
            assert (await run.wait())["state"] == "done"
        assert store.times < 0
        assert len(of_letters(store.survivor())) == 1

    go(scenario())


def test_a_number_that_comes_again_in_another_store_is_another_letter(tmp_path):
    """An imported log names letters of the store where it was written."""

    async def scenario():
        here, there = tmp_path / "here.db", tmp_path / "there.db"
        plan = one("do", requires_confirmation=True)
        async with await RunController.start(plan, toolbox(lambda: 1), store=here, run_id="r") as run:
            await run.wait()
        async with await RunController.attach(here, "r") as other:
            await other.note("first", by="ann")
        first, second = open_store(here), open_store(there)
        with (tmp_path / "log").open("wb") as file:
            export_run(first, "r", file)
        import_run(second, tmp_path / "log", owner="ann", now_us=1)
        with contextlib.suppress(ConflictError):
            second.release(second.acquire("r", "ann", now_us=2**60, ttl_us=1))
        async with await RunController.attach(second, "r") as other:
            await other.note("second", by="ann")
        texts = [from_body(r.body).data.get("text") for r in second.read("r")]
        assert [text for text in texts if text] == ["first", "second"]
        assert len({event.actor["letter"].split("@")[0] for event in of_letters(second)}) == 1
        first.close()
        second.close()

    go(scenario())


@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl"])
def test_a_letter_that_arrives_at_the_moment_of_the_close_is_answered_once(tmp_path, name):
    """By the owner that is about to leave, or by whoever finds that nobody is there any more."""
    texts = [f"word {number}" for number in range(12)]

    async def scenario():
        place = tmp_path / name
        plan = one("do", requires_confirmation=True)
        async with await RunController.start(plan, toolbox(lambda: 1), store=place, run_id="r") as run:
            await run.wait()

        def say(text, ready):
            async def words():
                async with await RunController.attach(place, "r") as other:
                    ready.wait()
                    await other.note(text, by="ann")

            asyncio.run(words())

        for text in texts:
            ready = threading.Barrier(2)
            run = await RunController.open(place, "r", toolbox(lambda: 1))
            said = asyncio.get_running_loop().run_in_executor(None, say, text, ready)
            await asyncio.to_thread(ready.wait)
            await run.close()
            await said
        store = open_store(place)
        assert store.letters("r") == []
        found = [from_body(r.body).data.get("text") for r in store.read("r")]
        assert [text for text in found if text] == texts
        store.close()

    go(scenario())
