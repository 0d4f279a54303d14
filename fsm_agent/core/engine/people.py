"""What people say about one call: yes and no to exact arguments, answers, another try, what became of it.

A word that does not fit the run as it is now is refused with what would fit, and changes nothing. Nothing executes
here: an approval is armed, and the door consumes it.
"""

from typing import Any

from fsm_agent.core import canon
from fsm_agent.core.engine import changes, derived, wishes
from fsm_agent.core.engine.arguments import (
    approval_digest,
)
from fsm_agent.core.engine.door import (
    ask_approval,
)
from fsm_agent.core.engine.failing import fire_failed
from fsm_agent.core.engine.outcomes import absent, settle, task_named
from fsm_agent.core.engine.policy import (
    ask_replan,
    escalate,
    fire,
    has_probe,
    last_signal,
    may_retry,
    settle_us,
)
from fsm_agent.core.engine.records import RUN, Question, Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.engine.turn import Turn, actor_of
from fsm_agent.core.errors import RefusedError
from fsm_agent.core.inputs import Answer, Approve, Edit, Person, ReconcileAs, Reject, RetryTask
from fsm_agent.core.machine import TaskState
from fsm_agent.core.signals import Signal
from fsm_agent.core.tools import argument_faults


def _question(turn: Turn, name: str, *kinds: str, digest: str | None = None) -> Question:
    run = turn.run
    if name != RUN:
        task_named(run, name)
    question = run.questions.get(name)
    if question is None:
        raise RefusedError(
            f"task {name}: it asks for nothing now ({_since(run, name)}state {_state(run, name)}); "
            f"open questions: {run.asking()}",
            task=name,
            code="E-NOT-ASKED",
        )
    if question.kind not in kinds:
        hint = {"approval": "approve, reject or edit", "answer": "answer or reject", "decide": "answer"}
        raise RefusedError(
            f"task {name}: it asks for a word of kind {question.kind!r}; use {hint[question.kind]}",
            task=name,
            code="E-OTHER-QUESTION",
        )
    if digest is not None:
        _same_request(name, question, digest, "answer")
    if question.expires_at is not None and turn.now >= question.expires_at:
        raise RefusedError(
            f"task {name}: the question expired {(turn.now - question.expires_at) / 1e6:g} s ago; nothing was done",
            task=name,
            code="E-EXPIRED",
        )
    return question


def _same_request(name: str, question: Question, digest: str, word: str) -> None:
    """Refuse a word that states the digest of another request than the open one."""
    if not isinstance(digest, str) or len(digest) < 8 or not question.digest.startswith(digest.lower()):
        raise RefusedError(
            f"task {name}: the {word} states digest {digest!r}; the request is {question.digest[:8]} "
            "(state at least its first 8 digits)",
            task=name,
            code="E-DIGEST",
        )


def _since(run: Run, name: str) -> str:
    """Say how the last question was answered and by whom: somebody else may have been faster."""
    verdict, by = run.answered.get(name, ("", ""))
    return f"{verdict} by {by}, " if by else f"{verdict}, " if verdict else ""


def _state(run: Run, name: str) -> str:
    return run.state.value if name == RUN else run.tasks[name].state.value


def _answered(turn: Turn, name: str, question: Question, verdict: str, who: Person, **more: Any) -> int:
    data = {
        "kind": question.kind,
        "verdict": verdict,
        "args_digest": question.digest,
        "by": who.by,
        "channel": who.channel,
    }
    if who.note:
        data["note"] = who.note
    event = turn.emit("approval_answered", {**data, **more}, None if name == RUN else name, actor_of(who))
    return event.seq


def approve(turn: Turn, given: Approve) -> None:
    """Arm an approval for exactly the call that was asked about."""
    question = _question(turn, given.task, "approval")
    _same_request(given.task, question, given.digest, "approval")
    if _person(given.who.by) in map(_person, question.approved_by):
        raise RefusedError(
            f"task {given.task}: {given.who.by} has approved already; another person must",
            task=given.task,
            code="E-SAME-APPROVER",
        )
    if given.task == RUN and turn.run.replans:
        raise RefusedError(
            f"run {turn.run.id}: the plan that was shown is being changed; it is asked about when it is there",
            code="E-DIGEST",
        )
    _answered(turn, given.task, question, "approved", given.who)
    if given.task == RUN:  # the plan as a whole; each call still asks for itself where it has to
        return
    task = turn.run.tasks[given.task]
    if task.armed is not None:
        turn.move(task, "approve", {}, actor=actor_of(given.who))


def _person(name: str) -> str:
    """Return *name* as people compare names, so that one person does not approve as two."""
    return name.strip().casefold()


def reject(turn: Turn, given: Reject) -> None:
    """A person says no: the task is cancelled, and its words are kept."""
    question = _question(turn, given.task, "approval", "answer", digest=given.digest)
    _answered(turn, given.task, question, "rejected", given.who)
    if given.task == RUN:
        wishes.record(turn, "cancel", given.who, ())
        return
    reason = f"rejected by {given.who.by}" + (f": {given.who.note}" if given.who.note else "")
    task = turn.run.tasks[given.task]
    data = {"reason": reason, "signal": Signal.REJECTED.value}
    turn.move(task, "reject", data, actor=actor_of(given.who))
    fire(turn, task, Signal.REJECTED, because=reason)


def edit(turn: Turn, given: Edit) -> None:
    """Other arguments: a new request, validated and asked again. Approves nothing."""
    question = _question(turn, given.task, "approval", digest=given.digest)
    if given.task == RUN:
        raise RefusedError(
            f"run {turn.run.id}: it asks about its plan, which has no arguments; give another plan with "
            f"`fsm-agent replan {turn.run.id} --plan FILE`",
            code="E-OTHER-QUESTION",
        )
    run, task = turn.run, turn.run.tasks[given.task]
    spec = run.spec_of(task)
    args = {**(question.args or {}), **given.args}
    faults = argument_faults(spec, args) if spec is not None else ["its tool is not in the toolbox"]
    if faults or args == question.args or spec is None:
        found = "; ".join(faults) or "the arguments are the same as before"
        raise RefusedError(
            f"task {task.id}: {found}; the request stays as it is", task=task.id, code="E-ARGUMENTS"
        )
    base = (question.base_digest or question.digest, question.base_args or question.args or {})
    _answered(turn, task.id, question, "edited", given.who, args=args)
    ask_approval(turn, task, spec, args, approval_digest(run, task, spec, args), edited_from=base)


def answer(turn: Turn, given: Answer) -> None:
    """Answer a question: the result of a step without a tool, or what to do after an escalation."""
    question = _question(turn, given.task, "answer", "decide", digest=given.digest)
    if question.kind == "answer":
        _answer_step(turn, question, given)
    else:
        _answer_decide(turn, question, given)


def _answer_step(turn: Turn, question: Question, given: Answer) -> None:
    task = turn.run.tasks[given.task]
    signal, words = derived.verify(turn.run, task, given.value)
    if signal is not None:
        raise RefusedError(
            f"task {task.id}: the answer does not fulfil its step, {words}; nothing was changed",
            task=task.id,
            code="E-ANSWER",
        )
    _answered(turn, task.id, question, "answered", given.who)
    again = bool(task.was)
    digest = canon.value_digest("result", given.value)
    turn.move(task, "answer", {"result": given.value, "result_digest": digest}, actor=actor_of(given.who))
    fire(turn, task, Signal.SUCCESS)
    if again:
        changes.result_changed(turn, task)


_ANSWER_KEYS = frozenset({"decide", "result", "evidence", "note", "acknowledge"})


def _answer_decide(turn: Turn, question: Question, given: Answer) -> None:
    value = given.value
    if not isinstance(value, dict) or ("decide" in value) == ("result" in value):
        raise _bad_answer(question, given, 'it is neither {"decide": …} nor {"result": …, "evidence": …}')
    unknown = sorted(value.keys() - _ANSWER_KEYS)
    if unknown:
        raise _bad_answer(question, given, f"it says {', '.join(unknown)}, which no answer has")
    words = value.get("evidence") or value.get("note") or given.who.note
    words = words.strip() if isinstance(words, str) else ""
    if "result" in value:
        if not words or not {"result", "applied"} & set(question.answers):
            raise _bad_answer(question, given, 'a result needs "evidence" in words, and a task to belong to')
        seq = _answered(turn, given.task, question, "answered", given.who, value=value)
        evidence = {"seq": seq, "words": words, "by": given.who.by}
        settle(turn, turn.run.tasks[given.task], value["result"], evidence, person=True)
        return
    _decide(turn, question, given, words)


def _decide(turn: Turn, question: Question, given: Answer, words: str) -> None:
    value, who, name = given.value, given.who, given.task
    decide = value["decide"]
    if decide not in question.answers:
        raise _bad_answer(question, given, f"it decides {decide!r}")
    if decide in ("result", "applied"):
        raise _bad_answer(question, given, f'{decide!r} is said as {{"result": …, "evidence": …}}')
    if decide == "absent" and not words:
        raise _bad_answer(question, given, '"absent" needs "evidence" in words')
    if "acknowledge" in value and decide != "abort":
        raise _bad_answer(question, given, "only an abort acknowledges what is unknown")
    match decide:
        case "retry":
            _answered(turn, name, question, "answered", who, value=value)
            wishes.retry_anew(turn, name, who)
        case "replan-local" | "replan-global":
            _answered(turn, name, question, "answered", who, value=value)
            asked = f"{who.by} asks for another plan" + (f": {words}" if words else "")
            task = turn.run.tasks.get(name)
            signal = last_signal(task) if task is not None else Signal(question.signal or Signal.DEADLOCK)
            ask_replan(turn, task, signal, decide.removeprefix("replan-"), asked)
        case "skip":
            _answered(turn, name, question, "answered", who, value=value)
            data = {"reason": f"skipped by {who.by}", "code": "optional"}
            turn.move(turn.run.tasks[name], "cancel", data, actor=actor_of(who))
        case "absent":
            seq = _answered(turn, name, question, "answered", who, value=value)
            absent(turn, turn.run.tasks[name], {"seq": seq, "words": words, "by": who.by})
        case "probe":
            at = _next_probe(turn, turn.run.tasks[name])
            _answered(turn, name, question, "answered", who, value=value, probe_at=at)
        case "abort":
            _abort(turn, question, given)
        case "keep" if not words:
            raise _bad_answer(question, given, '"keep" needs a "note" in words: why may it stand?')
        case _:  # continue, keep
            _answered(turn, name, question, "answered", who, value=value)


def _abort(turn: Turn, question: Question, given: Answer) -> None:
    """Wish the run aborted; an unknown result that nobody accepts stays a question."""
    run, name = turn.run, given.task
    accepted = wishes.acknowledged(run, given.value.get("acknowledge", ()))
    _answered(turn, name, question, "answered", given.who, value=given.value)
    wishes.record(turn, "abort", given.who, accepted)
    task = run.tasks.get(name)
    if task is not None and task.state is TaskState.UNKNOWN and name not in run.acknowledged:
        escalate(turn, task, Signal.OUTCOME_UNKNOWN, f"the abort waits for a word on it: {question.say}")


def _next_probe(turn: Turn, task: Task) -> int:
    """Return when a probe that a person asks for may go out: not before the effect must be visible."""
    return max(turn.now + 1, task.deadline_at + settle_us(turn.run, task))


def _bad_answer(question: Question, given: Answer, found: str) -> RefusedError:
    return RefusedError(
        f"task {given.task}: {found}; legal answers: {', '.join(question.answers)}",
        task=given.task,
        code="E-ANSWER",
    )


def retry(turn: Turn, given: RetryTask) -> None:
    """A person lets a failed task try again: a new attempt series."""
    task = task_named(turn.run, given.task)
    wishes.open_run(turn.run, "retry")
    if task.state is TaskState.UNKNOWN:
        raise RefusedError(
            f"task {task.id}: its result is unknown, and a retry could do it twice; reconcile it first",
            task=task.id,
            code="E-UNKNOWN",
        )
    if task.state is not TaskState.FAILED:
        raise RefusedError(
            f"task {task.id}: it is {task.state.value}; only a failed task can be tried again", task=task.id
        )
    if not may_retry(task):
        raise RefusedError(
            f"task {task.id}: its effect was applied; it is never repeated (answer with a result, or abort)",
            task=task.id,
            code="E-APPLIED",
        )
    wishes.retry_anew(turn, task.id, given.who)


def reconcile_as(turn: Turn, given: ReconcileAs) -> None:
    """A person's verdict on an unknown result, or the wish to probe once more."""
    task = task_named(turn.run, given.task)
    late_word = (TaskState.FAILED, TaskState.PENDING, TaskState.AWAITING)
    fits = task.state is TaskState.UNKNOWN or (
        given.verdict == "applied" and task.state in late_word and task.attempt > 0 and task.effect != "read"
    )
    if not fits:
        raise RefusedError(
            f"task {task.id}: it is {task.state.value}, not unknown-result; there is nothing to reconcile",
            task=task.id,
        )
    if given.verdict is None:
        _probe_again(turn, task, given.who)
        return
    if given.verdict not in ("applied", "absent"):
        raise RefusedError(
            f"task {task.id}: the verdict is {given.verdict!r}; allowed: applied, absent", task=task.id
        )
    if not given.evidence.strip():
        raise RefusedError(
            f"task {task.id}: a verdict needs evidence in words (how do you know?); nothing was changed",
            task=task.id,
            code="E-EVIDENCE",
        )
    data = {"verdict": given.verdict, "evidence": given.evidence, "by": given.who.by, "attempt": task.attempt}
    if given.verdict == "applied":
        data["result"] = given.result
    event = turn.emit("reconciled", data, task.id, actor_of(given.who))
    evidence = {"seq": event.seq, "words": given.evidence, "by": given.who.by}
    if given.verdict == "applied":
        settle(turn, task, given.result, evidence, person=True)
    else:
        absent(turn, task, evidence)


def _probe_again(turn: Turn, task: Task, who: Person) -> None:
    run = turn.run
    if not has_probe(run, task):
        raise RefusedError(
            f"task {task.id}: {task.tool} has no probe; say applied or absent, with evidence", task=task.id
        )
    if task.probing or task.probe_at:
        raise RefusedError(f"task {task.id}: a probe is on its way already; wait for it", task=task.id)
    wishes.open_run(run, "a probe")
    question = run.questions.get(task.id)
    at = _next_probe(turn, task)
    if question is not None:
        _answered(turn, task.id, question, "answered", who, value={"decide": "probe"}, probe_at=at)
        return
    words = f"{who.by} does not know, and asks for one more probe"
    data = {
        "verdict": "inconclusive",
        "evidence": words,
        "by": who.by,
        "attempt": task.attempt,
        "probe_at": at,
    }
    turn.emit("reconciled", data, task.id, actor_of(who))


def expire(turn: Turn, name: str) -> None:
    """Nobody answered in time."""
    run = turn.run
    question, task = run.questions[name], run.tasks[name]
    words = f"nobody answered within the time given ({question.kind})"
    data = {
        "kind": question.kind,
        "verdict": "expired",
        "args_digest": question.digest,
        "by": "",
        "channel": "clock",
    }
    turn.emit("approval_answered", data, name)
    turn.move(task, "expire", {"reason": words, "signal": Signal.APPROVAL_EXPIRED.value})
    fire_failed(turn, task, Signal.APPROVAL_EXPIRED, because=words)
