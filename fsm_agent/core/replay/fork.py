"""A new run from the beginning of another: results are kept, approvals are dropped, and no effect is made again.

The events up to the cut are the parent's own, byte for byte, but for the first, which names the new run and where it
comes from; so the fork proves its parent's head, and its whole past can be audited. All runs of a family make keys
under one id, that of the first: a call that any of them has made has the same key in every other. What the family did
behind the cut is told to the new run when it begins, as done, with the result it had. What is not known there must be
found out before, in the run that did it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from fsm_agent.core import canon
from fsm_agent.core.audit.replay import take
from fsm_agent.core.engine.arguments import scope_of
from fsm_agent.core.engine.ending import proceed
from fsm_agent.core.engine.outcomes import absent, ended, inconclusive
from fsm_agent.core.engine.policy import fire
from fsm_agent.core.engine.records import Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.engine.turn import Turn, actor_of
from fsm_agent.core.errors import RefusedError
from fsm_agent.core.events import Event
from fsm_agent.core.inputs import Env, Outcome, Person
from fsm_agent.core.machine import FINAL_RUN_STATES, WRITES, RunState, TaskState
from fsm_agent.core.replay.ledger import Effect, Ledger
from fsm_agent.core.replay.player import Replay
from fsm_agent.core.signals import Applied, Signal

_ENDED = frozenset({RunState.DONE, RunState.CANCELLED})
_SETTLES = frozenset({TaskState.PENDING, TaskState.FAILED, TaskState.UNKNOWN})


@attrs.frozen(kw_only=True)
class Known:
    """What the family knows of a call that is not settled at the cut.

    Attributes:
        run: The run that made it.
        effect: Its intent, with what came of it.
        there: Whether it took effect.
    """

    run: str
    effect: Effect
    there: bool

    def to_data(self) -> dict[str, Any]:
        """Return what the log of the fork says of it."""
        made = self.effect
        names = ("task", "tool", "effect", "key", "args_digest", "seq")
        return {"run": self.run, **{name: getattr(made, name) for name in names}}


def check_family(run: Run) -> None:
    """Refuse to fork while *run*, as it is at the end of its log, could still act: both would make the same calls.

    Raises:
        RefusedError: It could go on, and it has tools that change something.
    """
    changes = [spec.name for spec in run.tools.values() if spec.effect != "read"]
    if run.state in _ENDED or not changes:
        return
    how = "it was aborted and can be resumed" if run.state is RunState.FAILED else f"it is {run.state.value}"
    raise RefusedError(
        f"run {run.id}: {how}, and it can call {', '.join(changes[:4])}; two of one family would do the same things. "
        f"end it first: fsm-agent cancel {run.id}",
        code="E-FORK",
    )


def cut(log: Replay, seq: int) -> Run:
    """Go to the place where *log* is to be cut and return the state there.

    Raises:
        NotFoundError: The log has no such event.
        RefusedError: No run can go on from there.
    """
    run = log.at(seq)
    where = f"fork of {log.id} at event {seq}"
    first, count = (log.event.tx or (seq, 1)) if log.event is not None else (1, 1)
    if seq and seq != first + count - 1:
        raise RefusedError(
            f"{where}: it stands inside the batch of events {first} to {first + count - 1}; fork at {first - 1} or "
            f"{first + count - 1}",
            code="E-FORK",
        )
    why = _why_not(run)
    if why:
        raise RefusedError(f"{where}: {why}; fork at another event (1 to {log.last})", code="E-FORK")
    return run


def _why_not(run: Run) -> str:
    if run.plan is None:
        return "it has no plan there"
    if run.state in FINAL_RUN_STATES:
        return f"the run had ended there ({run.state.value})"
    if run.wish in ("cancel", "abort"):
        return f"it was asked to {run.wish} there"
    return "the plan as a whole was under review there" if run.unreviewed else ""


def origin(log: Replay, seq: int) -> dict[str, Any]:
    """Return what the fork's first event says of where it comes from: run, seq, hash, and the same of the parent."""
    created = log.events[0].data
    found = {"run": log.id, "seq": seq, "hash": log.heads[seq].hash.hex()}
    return {**found, "was": created["forked_from"]} if "forked_from" in created else found


def first_body(parent: bytes, run: str, source: Mapping[str, Any]) -> bytes:
    """Return the body of the first event of a fork named *run*: the parent's own, with the new name and *source*."""
    body = canon.decode(parent)
    data = body["data"]
    root = data.get("root", data["run"])
    body["data"] = {**data, "run": run, "root": root, "forked_from": dict(source)}
    return canon.encode(body)


def parents_first(body: bytes) -> bytes:
    """Return the body of the parent's first event, as that of the fork's tells it; byte for byte, whoever wrote it."""
    found = canon.decode(body)
    source = found["data"]["forked_from"]
    data = {k: v for k, v in found["data"].items() if k not in ("forked_from", "root")}
    if "was" in source:
        data |= {"forked_from": source["was"], "root": found["data"]["root"]}
    return canon.encode({**found, "data": {**data, "run": source["run"]}})


# ── what the family did ───────────────────────────────────────────────────────────────────────────────────────


def known_effects(
    prefix: Iterable[Event], family: Iterable[tuple[str, Sequence[Event]]], run: Run
) -> tuple[Known, ...]:
    """Return what the family knows of every call that is not settled at the cut.

    Args:
        prefix: The events up to the cut.
        family: Every run of the family with its whole log, the parent's too.
        run: The state at the cut.

    Raises:
        RefusedError: What became of a write is not known, or the plan at the cut has no step for it.
    """
    kept = Ledger()
    for event in prefix:
        kept.add(event)
    settled = {e.key for e in kept.effects.values() if e.applied == "yes"}
    open_there = {e.key for e in kept.effects.values() if e.applied == "maybe"}
    found: dict[str, Known] = {}
    for name, events in family:
        for known in (
            *_told(events),
            *(Known(run=name, effect=e, there=e.applied == "yes") for e in _made(events)),
        ):
            effect = known.effect
            if effect.key in settled:
                continue
            _refuse_unknown(name, effect)
            before = found.get(effect.key)
            if (before is not None and before.there) or effect.applied == "maybe":
                continue  # what is not known of a call that may be repeated is looked up by repeating it
            if known.there or effect.key in open_there:
                found[effect.key] = known
    for known in found.values():
        if known.there and known.effect.task not in run.tasks:
            raise RefusedError(
                f"run {known.run}: {known.effect.task} called {known.effect.tool} at event {known.effect.seq}, and the "
                "plan at the cut has no such step, so the fork would lose sight of it; fork at a later event",
                code="E-FORK",
            )
    return tuple(found.values())


def _made(events: Iterable[Event]) -> Iterable[Effect]:
    """Return the last word on every effect that a run made; what is there is there, whatever a later attempt says."""
    ledger = Ledger()
    for event in events:
        ledger.add(event)
    found: dict[str, Effect] = {}
    rank = ("no", "maybe", "yes")
    for effect in ledger.effects.values():
        other = found.get(effect.key)
        if other is None or rank.index(effect.applied) >= rank.index(other.applied):
            found[effect.key] = effect
    return found.values()


def _told(events: Iterable[Event]) -> Iterable[Known]:
    """Return what a fork was told of its family when it began; the run that made it may be gone by now."""
    found: dict[str, Known] = {}
    for event in events:
        data = event.data
        if event.type == "run_forked":
            for told in data["effects"]:
                names = ("task", "tool", "effect", "key", "args_digest", "seq")
                effect = Effect(
                    **{name: told[name] for name in names},
                    attempt=0,
                    args={},
                    at=event.at,
                    approval=None,
                    applied="yes",
                )
                found[effect.key] = Known(run=told["run"], effect=effect, there=True)
        elif (
            event.type == "task_moved"
            and data["trigger"] == "settle"
            and data.get("call", {}).get("key") in found
        ):
            known = found[data["call"]["key"]]
            result = (data["result"],)
            found[known.effect.key] = attrs.evolve(known, effect=attrs.evolve(known.effect, result=result))
    return found.values()


def _refuse_unknown(run: str, effect: Effect) -> None:
    """Refuse what a run does not know, where repeating the call could do it twice."""
    if effect.applied == "maybe" and effect.effect in WRITES:
        raise RefusedError(
            f"run {run}: what became of {effect.task} ({effect.tool}, event {effect.seq}) is not known; find it out "
            f"first: fsm-agent reconcile {run} {effect.task} --as applied|absent --evidence TEXT",
            task=effect.task,
            code="E-UNKNOWN",
        )


# ── the new run begins ────────────────────────────────────────────────────────────────────────────────────────


def begin(
    run: Run, source: Mapping[str, Any], known: Sequence[Known], who: Person, env: Env
) -> tuple[Event, ...]:
    """Return the events with which a fork begins, behind those that it has from its parent; *run* is as they leave it.

    Nothing starts: whoever resumes the run drives it.

    Args:
        run: The state at the cut, folded under the new name.
        source: From :func:`origin`.
        known: From :func:`known_effects`.
        who: Who forks; answers for what is told of the family's effects.
        env: Time and chance.
    """
    turn = Turn(run, env._replace(slots=0))
    there = [k for k in known if k.there]
    data = {
        "run": run.id,
        "from": {name: source[name] for name in ("run", "seq", "hash")},
        "effects": [k.to_data() for k in there],
        "epoch": 1,
        "idle_us": turn.now - run.at,
        "by": who.by,
        **({"note": who.note} if who.note else {}),
    }
    event = turn.emit("run_forked", data, None, actor_of(who))
    by_task = {k.effect.task: k for k in sorted(known, key=lambda k: (k.there, bool(k.effect.result)))}
    for task in list(run.tasks.values()):
        turn.cause = event.seq
        _bring_over(turn, task, by_task.get(task.id), who)
    proceed(turn)
    return tuple(turn.events)


def _bring_over(turn: Turn, task: Task, known: Known | None, who: Person) -> None:
    """End what is under way in the parent, ask anew what was asked there, and tell what is known."""
    if task.state is TaskState.RUNNING:
        words = f"the run was forked while {task.tool} was running; nobody here heard its answer"
        applied = Applied.NO if task.effect == "read" else Applied.MAYBE
        lost = Outcome(kind="lost", signal=Signal.INTERRUPTED, applied=applied, error={"message": words})
        ended(turn, task, lost)
    elif task.state is TaskState.AWAITING:
        turn.move(task, "invalidate", {"reason": "the run was forked; what was asked there is asked anew"})
    if known is not None and known.there and task.state in _SETTLES and _fits(turn.run, task, known.effect):
        _settle(turn, task, known, who)
    elif known is not None and not known.there and task.state is TaskState.UNKNOWN:
        words = f"it did not happen, run {known.run} says of its event {known.effect.seq}"
        absent(turn, task, _said(turn, task, "absent", words, who))
    elif task.probing:
        words = f"the run was forked while {task.tool} was looked up; nobody here heard the answer"
        inconclusive(turn, task, words, by="recovery")


def _fits(run: Run, task: Task, made: Effect) -> bool:
    """Whether there is a result, and ``done_when`` is true of it; else the effect is there, and a person has to see to it."""
    done_when = task.step.done_when
    if not made.result or done_when is None:
        return bool(made.result)
    (value,) = made.result
    scope = scope_of(run, done_when.roots)
    if isinstance(value, dict):
        scope = {**value, **scope}
    scope.setdefault("result", value)
    return done_when.evaluate(scope).value is True


def _settle(turn: Turn, task: Task, known: Known, who: Person) -> None:
    """The call was made by the family: the task is done, with the result that it had there."""
    made = known.effect
    (result,) = made.result
    words = f"run {known.run} made this call at its event {made.seq}"
    evidence = _said(turn, task, "applied", words, who, result=result)
    call = {name: getattr(made, name) for name in ("tool", "effect", "args_digest", "key")}
    data = {
        "evidence": evidence,
        "result": result,
        "result_digest": canon.value_digest("result", result),
        "call": call,
        "signal": Signal.RECONCILED_APPLIED.value,
    }
    turn.move(task, "settle", data)
    fire(turn, task, Signal.RECONCILED_APPLIED, because=words)


def _said(turn: Turn, task: Task, verdict: str, words: str, who: Person, **more: Any) -> dict[str, Any]:
    """Record a verdict that rests on the family's logs, and return it as evidence."""
    data = {"verdict": verdict, "evidence": words, "by": who.by, "attempt": task.attempt, **more}
    event = turn.emit("reconciled", data, task.id, actor_of(who))
    return {"seq": event.seq, "words": words, "by": who.by}


def folded(run: str, events: Iterable[Event]) -> Run:
    """Return the state of *run* after *events*."""
    state = Run(run)
    for event in events:
        take(state, event)
    return state
