"""A scripted person: what happened, and what they say to it.

A script is data. :func:`parse` reads it, :class:`Script` says which reactions are due after a batch of events;
who delivers them (the simulation, or a real run with ``--operator``) is not known here.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from fsm_agent.core.engine.arguments import (
    approval_digest,
)
from fsm_agent.core.engine.records import RUN
from fsm_agent.core.engine.state import Run
from fsm_agent.core.events import Event
from fsm_agent.core.inputs import (
    Answer,
    Approve,
    Ask,
    Edit,
    Person,
    ReconcileAs,
    Reject,
    Resume,
    RetryTask,
    SetInputs,
)
from fsm_agent.core.machine import STATES
from fsm_agent.core.signals import Decision, Signal
from fsm_agent.runtime.secrets.vault import Vault
from fsm_agent.testing.document import Node
from fsm_agent.testing.expect import same

SIGNALS = tuple(Signal)
DECISIONS = tuple(Decision)


@attrs.frozen(kw_only=True)
class Approval:
    """Yes to a call.

    Attributes:
        task: The task.
        who: Who says so.
        args: The arguments that are approved; None when the script does not state them.
        digest: The digest of the request, or None. Neither given means the request as it is now.
    """

    task: str
    who: Person
    args: Mapping[str, Any] | None = None
    digest: str | None = None


@attrs.frozen(kw_only=True)
class NewPlan:
    """A person's own plan for what remains; ``document`` is the plan as written."""

    document: Any
    who: Person


@attrs.frozen(kw_only=True)
class Crash:
    """The process dies here, and another one takes the run over."""


Action = (
    Approval | NewPlan | Crash | Reject | Edit | Answer | SetInputs | Ask | Resume | RetryTask | ReconcileAs
)


@attrs.frozen(kw_only=True)
class When:
    """The event that a reaction waits for; every part that is given must fit.

    Attributes:
        task: The task; ``run`` for a decision about the run.
        state: The state that *task* moves to.
        run: The state that the run moves to.
        signal: The signal of a decision.
        decision: What was decided.
    """

    task: str | None = None
    state: str | None = None
    run: str | None = None
    signal: str | None = None
    decision: str | None = None

    def fits(self, event: Event) -> bool:
        """Return whether *event* is what this waits for."""
        data = event.data
        if self.run is not None:
            return event.type == "run_moved" and data["dest"] == self.run
        if self.task is not None and self.task != (event.task or RUN):
            return False
        if self.state is not None:
            return event.type == "task_moved" and data["dest"] == self.state
        return (
            event.type == "decided"
            and self.signal in (None, data["signal"])
            and self.decision in (None, data["decide"])
        )


@attrs.frozen(kw_only=True)
class Reaction:
    """One line of a script. Exactly one of ``when``, ``at_us`` and ``at_seq`` is set.

    Attributes:
        when: The event that it waits for.
        at_us: Virtual time since the start, in microseconds.
        at_seq: As soon as the log has this many events.
        every: Fires for every event that fits ``when``, not only for the first.
        actions: What is done, in this order.
    """

    when: When | None = None
    at_us: int | None = None
    at_seq: int | None = None
    every: bool = False
    actions: tuple[Action, ...]


@attrs.define(eq=False)
class Script:
    """Reactions and which of them have fired."""

    reactions: tuple[Reaction, ...]
    _fired: set[int] = attrs.field(factory=set, init=False)

    def after(self, events: Iterable[Event]) -> list[int]:
        """Return the reactions that *events* call for, as places in the script, in the order of the events.

        Each counts as fired; a reaction stands here once for every time it is to fire.
        """
        waiting = [i for i, r in enumerate(self.reactions) if i not in self._fired and r.at_us is None]
        due = []
        for event in events if waiting else ():
            for index in waiting:
                if index not in self._fired and _calls_for(self.reactions[index], event):
                    due.append(index)
                    if not self.reactions[index].every:
                        self._fired.add(index)
        return due

    def timed(self) -> list[tuple[int, int]]:
        """Return (virtual time in microseconds, place) of every reaction that waits for a time."""
        return [(r.at_us, i) for i, r in enumerate(self.reactions) if r.at_us is not None]


def _calls_for(reaction: Reaction, event: Event) -> bool:
    if reaction.when is not None:
        return reaction.when.fits(event)
    return reaction.at_seq is not None and event.seq >= reaction.at_seq


_OTHER = "0" * 64
"""A digest that no request has."""


def approve(action: Approval, run: Run, vault: Vault) -> Approve:
    """Return the approval as the engine takes it: with a digest of exactly what the script states.

    A script that states nothing approves the request as it is now; one that states other arguments than those
    that are asked about gets a digest that fits no request, and is refused by the engine.

    Args:
        action: What the script says.
        run: The run as it is.
        vault: Holds the secrets, which a script states and a request hides.
    """
    digest = action.digest
    if digest is None:
        question = run.questions.get(action.task)
        task = run.tasks.get(action.task)
        spec = run.spec_of(task) if task is not None else None
        digest = question.digest if question is not None else ""
        if action.args is not None and task is None and question is not None:
            digest = question.digest if dict(action.args) == question.args else _OTHER
        if action.args is not None and task is not None and spec is not None:
            shown = question.args if question is not None else None
            if shown is None or not same(dict(action.args), vault.reveal(spec, shown)):
                digest = approval_digest(run, task, spec, vault.hide_args(spec, action.args))
    return Approve(task=action.task, digest=digest, who=action.who)


def parse(node: Node, *, real: bool = False) -> tuple[Reaction, ...]:
    """Read a script.

    Args:
        node: A list of reactions.
        real: For a run with real tools: there is no crash, and an approval must state what it approves.

    Raises:
        ScenarioError: An unknown key, or a value that does not fit.
    """
    return tuple(_reaction(item, real=real) for item in node.items("a list of reactions"))


def _reaction(node: Node, *, real: bool) -> Reaction:
    fields = node.fields("when", "at_s", "at_seq", "every", "do", required=("do",))
    given = [key for key in ("when", "at_s", "at_seq") if key in fields]
    if len(given) != 1:
        node.fail(f"{' and '.join(given) or 'no trigger'} was found", "write one of when, at_s, at_seq")
    every = fields["every"].flag() if "every" in fields else False
    if every and "when" not in fields:
        fields["every"].fail("it stands beside a point in time", "every goes with when")
    do = fields["do"]
    parts = list(do.items("an action or a list of actions")) if isinstance(do.value, list) else [do]
    if not parts:
        do.fail("an empty list was found", "write at least one action, or drop the reaction")
    return Reaction(
        when=_when(fields["when"]) if "when" in fields else None,
        at_us=fields["at_s"].seconds() if "at_s" in fields else None,
        at_seq=fields["at_seq"].count(1) if "at_seq" in fields else None,
        every=every,
        actions=tuple(_action(part, real=real) for part in parts),
    )


_WHEN = "allowed: {task, state}, {run}, {signal}, {decision}; task may stand beside signal and decision"


def _when(node: Node) -> When:
    fields = node.fields("task", "state", "run", "signal", "decision")
    keys = frozenset(fields)
    decided = keys & {"signal", "decision"}
    moved = keys in ({"run"}, {"task", "state"})
    if not moved and not (decided and keys - decided <= {"task"}):
        node.fail(f"the keys {', '.join(fields) or '(none)'} were found together", _WHEN)
    return When(
        task=fields["task"].text() if "task" in fields else None,
        state=fields["state"].choice(*STATES) if "state" in fields else None,
        run=fields["run"].choice(*STATES) if "run" in fields else None,
        signal=fields["signal"].choice(*SIGNALS) if "signal" in fields else None,
        decision=fields["decision"].choice(*DECISIONS) if "decision" in fields else None,
    )


_VERBS: dict[str, tuple[str, ...]] = {
    "approve": ("args", "digest"),
    "reject": ("digest",),
    "edit": ("args", "digest"),
    "answer": ("value", "digest"),
    "set_input": (),
    "cancel": ("acknowledge",),
    "pause": (),
    "resume": (),
    "retry": (),
    "reconcile": ("as", "evidence", "result"),
    "replan": (),
    "crash": (),
}
_NEEDED: dict[str, tuple[str, ...]] = {"edit": ("args",), "answer": ("value",)}
_BARE = ("cancel", "pause", "resume", "crash")
"""Actions that may be written as their name alone."""


def _action(node: Node, *, real: bool) -> Action:
    if isinstance(node.value, str):
        return _bare(node.choice(*_BARE), node, Person(by="operator", channel="script"), (), real=real)
    fields = node.members(f'an action, such as {{"approve": TASK}}, or one of {", ".join(_BARE)}')
    verbs = [key for key in fields if key in _VERBS]
    if len(verbs) != 1:
        node.fail(f"{' and '.join(verbs) or 'no action'} was found", f"write one of {', '.join(_VERBS)}")
    verb = verbs[0]
    fields = node.fields(verb, *_VERBS[verb], "by", "note", required=_NEEDED.get(verb, ()))
    who = Person(
        by=fields["by"].text() if "by" in fields else "operator",
        channel="script",
        note=fields["note"].words() if "note" in fields else "",
    )
    if verb in _BARE:
        if fields[verb].flag() is False:
            fields[verb].fail("false was found", f'write "{verb}": true, or drop the action')
        acknowledged = fields["acknowledge"].items("a list of tasks") if "acknowledge" in fields else ()
        return _bare(verb, node, who, tuple(part.text() for part in acknowledged), real=real)
    return _told(verb, fields, who, node if real else None)


def _bare(verb: str, node: Node, who: Person, acknowledged: tuple[str, ...], *, real: bool) -> Action:
    if verb == "resume":
        return Resume(who=who)
    if verb == "crash":
        if real:
            node.fail("a crash was found", "only a simulation can crash on purpose")
        return Crash()
    return Ask(wish=verb, who=who, acknowledged=acknowledged)


def _told(verb: str, fields: dict[str, Node], who: Person, real: Node | None) -> Action:
    if verb == "set_input":
        return SetInputs(
            values={k: n.value for k, n in fields[verb].members("inputs by name").items()}, who=who
        )
    if verb == "replan":
        return NewPlan(document=fields[verb].value, who=who)
    task = fields[verb].text()
    if verb == "approve":
        if real is not None and "args" not in fields and "digest" not in fields:
            real.fail(
                "an approval that does not say what it approves was found", "add the args or the digest"
            )
        return Approval(
            task=task,
            who=who,
            args=_arguments(fields["args"]) if "args" in fields else None,
            digest=fields["digest"].words() if "digest" in fields else None,
        )
    digest = fields["digest"].words() if "digest" in fields else None
    if verb == "reject":
        return Reject(task=task, digest=digest, who=who)
    if verb == "edit":
        return Edit(task=task, args=_arguments(fields["args"]), digest=digest, who=who)
    if verb == "answer":
        return Answer(task=task, value=fields["value"].value, digest=digest, who=who)
    if verb == "retry":
        return RetryTask(task=task, who=who)
    return ReconcileAs(
        task=task,
        verdict=fields["as"].choice("applied", "absent") if "as" in fields else None,
        who=who,
        result=fields["result"].value if "result" in fields else None,
        evidence=fields["evidence"].words() if "evidence" in fields else "",
    )


def _arguments(node: Node) -> dict[str, Any]:
    return {key: part.value for key, part in node.members("arguments by name").items()}
