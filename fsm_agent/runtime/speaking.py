"""What a person can say to a run, as verbs: the owner takes the word at once, everybody else through the inbox."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from fsm_agent.core import canon
from fsm_agent.core.audit import replay
from fsm_agent.core.engine.records import Question
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import ConflictError, NotFoundError, OwnedError, RefusedError
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
    Word,
)
from fsm_agent.core.plans.plan import Plan
from fsm_agent.runtime.driving.delivery import deliver
from fsm_agent.runtime.driving.driver import Driver
from fsm_agent.runtime.driving.engine import Engine
from fsm_agent.runtime.driving.letters import to_letter
from fsm_agent.runtime.driving.owner import is_dead
from fsm_agent.runtime.driving.status import shown
from fsm_agent.runtime.ports import SystemPorts
from fsm_agent.runtime.proof.heads import Heads
from fsm_agent.runtime.secrets.hiding import hidden, refuse_secrets
from fsm_agent.runtime.secrets.vault import Vault
from fsm_agent.stores.base import Store


def dead_holder(store: Store, run: str) -> str | bool:
    """Return who holds *run*, if that is a process known to be gone; else False. Somebody else may take it meanwhile."""
    try:
        owner = store.info(run).owner
    except NotFoundError:
        return False
    return owner if owner is not None and is_dead(owner) else False


def _own(value: Any) -> Any:
    """Return a copy of what a person gives, who may change it later; what no log holds is refused as it is."""
    data = canon.written(value)
    return value if data is None else canon.decode(data)


class OpenQuestion:
    """A question of a run, with the verbs that answer it. Carries the digest of exactly what was shown."""

    def __init__(self, controller: "Speaking", question: Question) -> None:
        """Bind *question* to the run that asks it."""
        self._controller = controller
        self.question = shown(question)

    def __getattr__(self, name: str) -> Any:
        """Read the question's own fields: ``task kind digest args answers say expires_at``."""
        return getattr(self.question, name)

    def __repr__(self) -> str:
        """One line."""
        q = self.question
        return f"<{q.kind} for {q.task}: {q.say!r}, digest {q.digest[:8]}, answers {', '.join(q.answers)}>"

    def _repr_html_(self) -> str:
        return question_html(self.question)

    async def approve(self, *, by: str, note: str = "") -> None:
        """Say yes to exactly this request."""
        await self._controller.approve(self.question.task, digest=self.question.digest, by=by, note=note)

    async def reject(self, *, by: str, note: str = "") -> None:
        """Say no; the note reaches whoever plans next."""
        await self._controller.reject(self.question.task, digest=self.question.digest, by=by, note=note)

    async def edit(self, *, by: str, **args: Any) -> None:
        """Change arguments; the changed request is asked again."""
        await self._controller.edit(self.question.task, args, digest=self.question.digest, by=by)

    async def answer(self, value: Any, *, by: str, note: str = "") -> None:
        """Answer it."""
        await self._controller.answer(
            self.question.task, value, digest=self.question.digest, by=by, note=note
        )


def question_html(question: Question) -> str:
    """Return a question as a notebook shows it, with the arguments that an answer is about; everything escaped."""
    from html import escape  # only a notebook needs it

    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(canon.encode(value).decode())}</td></tr>"
        for name, value in (question.args or {}).items()
    )
    head = f"{question.task}: {question.say} ({question.kind}, digest {question.digest[:8]})"
    return f"<p>{escape(head)}</p><table><tr><th>argument</th><th>value</th></tr>{rows}</table>"


class Speaking:
    """The verbs of people on one run; whoever drives or reads it builds on this.

    Attributes:
        heads: Where the log's head is kept outside of it; ``heads.fault`` says why it could not be.
    """

    def __init__(self, store: Store, run: str, *, heads: Heads) -> None:
        """Speak to *run* of *store*."""
        self._store = store
        self._id = run
        self.heads = heads
        self._engine: Engine | None = None
        self._driver: Driver | None = None
        self._vault = Vault()
        self._channel = "api"

    @property
    def run(self) -> Run:
        """The state. Read it, never change it; an attached controller folds it anew from the log."""
        if self._engine is not None:
            return self._engine.run
        return replay.replay(self._id, self._store.read(self._id), self._store.blob)

    @property
    def questions(self) -> list[OpenQuestion]:
        """What waits for a person, oldest first."""
        return [OpenQuestion(self, q) for q in self.run.questions.values()]

    def _who(self, by: str, note: str = "") -> Person:
        return Person(by=by, channel=self._channel, note=note)

    async def say(self, word: Word, *, timeout_s: float = 30.0) -> None:
        """Hand a person's word to the run's owner: this controller, or through the inbox another process.

        Raises:
            RefusedError: It does not fit the run as it is now.
            OwnedError: The owner did not answer in time; the word stays in the inbox.
            CorruptError: The log is not the one whose head is kept; the word is not put into the inbox.
        """
        if self._driver is not None:
            self._driver.say(hidden(word, self.run, self._vault))
            return
        self.heads.check(self._store, self._id)  # a word that is refused must not lie there and count later
        refuse_secrets(word, self.run)
        number = self._store.post(self._id, to_letter(word), now_us=SystemPorts().now_us())
        await self._answered(number, timeout_s)

    async def _answered(self, number: int, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while (answer := self._store.letter(number).answer) is None:
                    if self._nobody_owns():
                        self._deliver()
                    else:
                        await asyncio.sleep(0.05)
        except TimeoutError:
            raise OwnedError(
                f"run {self._id}: its owner did not answer within {timeout_s:g} s; the word stays in its inbox"
            ) from None
        if not answer["ok"]:
            raise RefusedError(answer["message"], code=answer["code"])

    def _nobody_owns(self) -> bool:
        info = self._store.info(self._id)
        return info.owner is None or info.lease_until_us <= SystemPorts().now_us() or is_dead(info.owner)

    def _deliver(self) -> None:
        """Own the run for a moment, start nothing, and take the letters."""
        try:
            dead = dead_holder(self._store, self._id)
            deliver(self._store, self._id, force=dead, heads=self.heads)
        except (OwnedError, ConflictError):
            return  # somebody else was faster; the letter is theirs

    async def approve(self, task: str, *, digest: str, by: str, note: str = "") -> None:
        """Say yes to the request with this digest (at least its first 8 hex digits)."""
        await self.say(Approve(task=task, digest=digest, who=self._who(by, note)))

    async def reject(self, task: str, *, by: str, note: str = "", digest: str | None = None) -> None:
        """Say no: the task is cancelled. With *digest* only to that request, and not to one that came after it."""
        await self.say(Reject(task=task, who=self._who(by, note), digest=digest))

    async def edit(
        self, task: str, args: Mapping[str, Any], *, by: str, note: str = "", digest: str | None = None
    ) -> None:
        """Change arguments of a waiting call; it is asked again. *digest* as for :meth:`reject`."""
        given = _own(dict(args) if isinstance(args, Mapping) else args)
        await self.say(Edit(task=task, args=given, who=self._who(by, note), digest=digest))

    async def answer(
        self, task: str, value: Any, *, by: str, note: str = "", digest: str | None = None
    ) -> None:
        """Answer a question. *digest* as for :meth:`reject`."""
        await self.say(Answer(task=task, value=_own(value), who=self._who(by, note), digest=digest))

    async def set_input(self, *, by: str = "api", **values: Any) -> None:
        """Correct inputs, ``constraints.KEY`` and ``budgets.KEY`` (pass dotted names by ``**{…}``)."""
        await self.say(SetInputs(values=_own(values), who=self._who(by)))

    async def pause(self, *, by: str = "api", note: str = "") -> None:
        """Wish that nothing more starts, until :meth:`resume`."""
        await self.say(Ask(wish="pause", who=self._who(by, note)))

    async def resume(self, *, by: str = "api", note: str = "") -> None:
        """Lift a pause, or go on after an abort."""
        await self.say(Resume(who=self._who(by, note)))

    async def cancel(self, *, by: str = "api", note: str = "", acknowledge: Sequence[str] = ()) -> None:
        """Wish the run cancelled; *acknowledge* names unknown effects that are accepted as unknown."""
        await self.say(Ask(wish="cancel", who=self._who(by, note), acknowledged=tuple(acknowledge)))

    async def retry(self, task: str, *, by: str = "api", note: str = "") -> None:
        """Let a failed task try again."""
        await self.say(RetryTask(task=task, who=self._who(by, note)))

    async def reconcile(
        self,
        task: str,
        *,
        verdict: str | None = None,
        evidence: str = "",
        result: Any = None,
        by: str = "api",
    ) -> None:
        """Say what became of an unknown result (``applied`` or ``absent``, with evidence), or ask for a probe."""
        word = ReconcileAs(
            task=task, verdict=verdict, evidence=evidence, result=_own(result), who=self._who(by)
        )
        await self.say(word)

    async def replan(self, document: Any, *, by: str = "api", note: str = "") -> None:
        """Give a plan of one's own for what remains; any accepted shape as parsed JSON, or a plan."""
        plan = dict(document.doc) if isinstance(document, Plan) else document
        await self.say(Replan(document=_own(plan), who=self._who(by, note)))

    async def note(self, text: str, *, by: str, task: str | None = None) -> None:
        """Put words into the log."""
        await self.say(Note(text=text, task=task, who=self._who(by)))

    async def fork(self, at: int, *, by: str = "api", note: str = "", run_id: str | None = None) -> str:
        """Begin a new run with the events of this one up to *at*, and return its id; open that to go on.

        Results are kept and approvals are not; what this run did behind *at* is not done again.

        Args:
            at: Number of the last event to keep; the last of a batch.
            by: Who forks.
            note: Why.
            run_id: Id of the new run; left out, one is made.

        Raises:
            RefusedError: Nothing can go on from there, this run could still act, or one of its effects is unknown.
            NotFoundError: No such event.
        """
        from fsm_agent.runtime.driving.forking import (
            fork_run,
        )  # brings the replay along, which a run does not need

        if self._engine is not None:
            self._engine.flush()
        who = self._who(by, note)
        return fork_run(
            self._store, self._id, at, who=who, ports=SystemPorts(), new=run_id, heads=self.heads
        ).run
