"""What people say: yes and no to exact arguments, answers, corrections, wishes.

A word that does not fit the run as it is now is refused with what would fit, and changes nothing. Nothing executes
here: an approval is armed, and the door consumes it.
"""

from typing import Any

from fsm_agent.core import canon, door, planning
from fsm_agent.core.door import approval_digest, ask_approval, fire_failed
from fsm_agent.core.errors import PlanError, RefusedError, UnresolvedReferenceError, ValueRefusedError
from fsm_agent.core.inputs import (
    Answer,
    Approve,
    Ask,
    Edit,
    Note,
    Person,
    ReconcileAs,
    Reject,
    Resume,
    RetryTask,
    SetInputs,
)
from fsm_agent.core.machine import FINAL_RUN_STATES, WRITES, RunState, TaskState
from fsm_agent.core.outcomes import absent, settle, task_named
from fsm_agent.core.policy import escalate, fire, has_probe, settle_us
from fsm_agent.core.signals import Signal
from fsm_agent.core.state import RUN, Question, Run, Task
from fsm_agent.core.tools import argument_faults
from fsm_agent.core.turn import Turn, actor_of

_STRENGTH = ("none", "pause", "abort", "cancel")


def may_speak(who: Person) -> None:
    """Refuse a word of nobody.

    Raises:
        RefusedError: ``E-NO-NAME``.
    """
    if not isinstance(who.by, str) or not who.by.strip():
        raise RefusedError(f"person: {who.by!r} is no name; say who speaks (by=…)", code="E-NO-NAME")


def _question(turn: Turn, name: str, *kinds: str) -> Question:
    run = turn.run
    if name != RUN:
        task_named(run, name)
    question = run.questions.get(name)
    if question is None:
        open_ones = ", ".join(run.questions) or "nothing"
        raise RefusedError(
            f"task {name}: it asks for nothing now (state {_state(run, name)}); open questions: {open_ones}",
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
    if question.expires_at is not None and turn.now > question.expires_at:
        raise RefusedError(
            f"task {name}: the question expired {(turn.now - question.expires_at) / 1e6:g} s ago; nothing was done",
            task=name,
            code="E-EXPIRED",
        )
    return question


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
    may_speak(given.who)
    question = _question(turn, given.task, "approval")
    digest = given.digest
    if not isinstance(digest, str) or len(digest) < 8 or not question.digest.startswith(digest.lower()):
        raise RefusedError(
            f"task {given.task}: the approval states digest {digest!r}; the request is {question.digest[:8]} "
            "(state at least its first 8 digits)",
            task=given.task,
            code="E-DIGEST",
        )
    if given.who.by in question.approved_by:
        raise RefusedError(
            f"task {given.task}: {given.who.by} has approved already; another person must",
            task=given.task,
            code="E-SAME-APPROVER",
        )
    _answered(turn, given.task, question, "approved", given.who)
    task = turn.run.tasks[given.task]
    if task.armed is not None:
        turn.move(task, "approve", {}, actor=actor_of(given.who))


def reject(turn: Turn, given: Reject) -> None:
    """A person says no: the task is cancelled, and its words are kept."""
    may_speak(given.who)
    question = _question(turn, given.task, "approval", "answer")
    _answered(turn, given.task, question, "rejected", given.who)
    reason = f"rejected by {given.who.by}" + (f": {given.who.note}" if given.who.note else "")
    task = turn.run.tasks[given.task]
    turn.move(task, "reject", {"reason": reason}, actor=actor_of(given.who))
    fire(turn, task, Signal.REJECTED, because=reason)


def edit(turn: Turn, given: Edit) -> None:
    """Other arguments: a new request, validated and asked again. Approves nothing."""
    may_speak(given.who)
    question = _question(turn, given.task, "approval")
    run, task = turn.run, turn.run.tasks[given.task]
    spec = run.spec_of(task)
    args = {**(question.args or {}), **given.args}
    try:
        canon.check(args, "args")
    except ValueRefusedError as error:
        raise RefusedError(str(error), task=task.id, code="E-VALUE") from None
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
    may_speak(given.who)
    question = _question(turn, given.task, "answer", "decide")
    try:
        canon.check(given.value, "answer")
    except ValueRefusedError as error:
        raise RefusedError(str(error), task=given.task, code="E-VALUE") from None
    if question.kind == "answer":
        _answer_step(turn, question, given)
    else:
        _answer_decide(turn, question, given)


def _answer_step(turn: Turn, question: Question, given: Answer) -> None:
    task = turn.run.tasks[given.task]
    done_when = task.step.done_when
    if done_when is not None:
        scope = door.scope_of(turn.run, done_when.roots)
        if isinstance(given.value, dict):
            scope = {**given.value, **scope}
        scope.setdefault("result", given.value)
        verdict = done_when.evaluate(scope)
        if verdict.value is not True:
            raise RefusedError(
                f"task {task.id}: the answer does not fulfil `{done_when.text}` ({verdict.why or 'it is false'}); "
                "nothing was changed",
                task=task.id,
                code="E-ANSWER",
            )
    _answered(turn, task.id, question, "answered", given.who)
    digest = canon.value_digest("result", given.value)
    turn.move(task, "answer", {"result": given.value, "result_digest": digest}, actor=actor_of(given.who))
    fire(turn, task, Signal.SUCCESS)


def _answer_decide(turn: Turn, question: Question, given: Answer) -> None:
    value = given.value
    if not isinstance(value, dict) or not ("decide" in value or "result" in value):
        raise _bad_answer(question, given, 'it is no {"decide": …} and no {"result": …, "evidence": …}')
    words = value.get("evidence") or value.get("note") or given.who.note
    if "result" in value:
        verdict = next((a for a in ("result", "applied") if a in question.answers), None)
        if verdict is None or not isinstance(words, str) or not words.strip():
            raise _bad_answer(question, given, 'a result needs "evidence" in words, and a task to belong to')
        seq = _answered(turn, given.task, question, "answered", given.who, value=value)
        evidence = {"seq": seq, "words": words, "by": given.who.by}
        settle(turn, turn.run.tasks[given.task], value["result"], evidence, person=True)
        return
    decide = value["decide"]
    if decide not in question.answers or decide in ("result", "applied"):
        raise _bad_answer(question, given, f"it decides {decide!r}")
    if decide == "absent" and (not isinstance(words, str) or not words.strip()):
        raise _bad_answer(question, given, '"absent" needs "evidence" in words')
    accepted = _acknowledged(turn.run, value.get("acknowledge", ()))
    task = turn.run.tasks.get(given.task)
    more: dict[str, Any] = {"value": value}
    if decide == "probe" and task is not None:
        more["probe_at"] = max(turn.now + 1, task.deadline_at + settle_us(turn.run, task))
    seq = _answered(turn, given.task, question, "answered", given.who, **more)
    if decide == "retry" and task is not None:
        _retry(turn, task, given.who)
    elif decide == "skip" and task is not None:
        turn.move(
            task,
            "cancel",
            {"reason": f"skipped by {given.who.by}", "code": "optional"},
            actor=actor_of(given.who),
        )
    elif decide == "absent" and task is not None:
        absent(turn, task, {"seq": seq, "words": words, "by": given.who.by})
    elif decide == "abort":
        _wish(turn, "abort", given.who, accepted)


def _bad_answer(question: Question, given: Answer, found: str) -> RefusedError:
    return RefusedError(
        f"task {given.task}: {found}; legal answers: {', '.join(question.answers)}",
        task=given.task,
        code="E-ANSWER",
    )


def _retry(turn: Turn, task: Task, who: Person) -> None:
    turn.move(
        task,
        "retry",
        {"delay_ms": 1, "series": True, "reason": f"{who.by} lets it try again"},
        actor=actor_of(who),
    )


def may_retry(task: Task) -> bool:
    """Whether a failed task may be tried again at all: never a write whose effect is or may be there."""
    return task.effect not in WRITES or task.applied == "no"


def retry(turn: Turn, given: RetryTask) -> None:
    """A person lets a failed task try again: a new attempt series."""
    may_speak(given.who)
    task = task_named(turn.run, given.task)
    _open_run(turn.run, "retry")
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
    _retry(turn, task, given.who)


def _open_run(run: Run, verb: str) -> None:
    if run.state in FINAL_RUN_STATES:
        hint = "resume it first" if run.state is RunState.FAILED else "start a new one"
        raise RefusedError(
            f"run {run.id}: it is {run.state.value}, {verb} is not possible; {hint}", code="E-CLOSED"
        )


def reconcile_as(turn: Turn, given: ReconcileAs) -> None:
    """A person's verdict on an unknown result, or the wish to probe once more."""
    may_speak(given.who)
    run, task = turn.run, task_named(turn.run, given.task)
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
    canon.check(given.result, "result")
    data = {"verdict": given.verdict, "evidence": given.evidence, "by": given.who.by, "attempt": task.attempt}
    if given.verdict == "applied":
        data["result"] = given.result
    event = turn.emit("reconciled", data, task.id, actor_of(given.who))
    evidence = {"seq": event.seq, "words": given.evidence, "by": given.who.by}
    if run.closed:
        _after_the_end(turn, task, given, evidence)
    elif given.verdict == "applied":
        settle(turn, task, given.result, evidence, person=True)
    else:
        absent(turn, task, evidence)


def _after_the_end(turn: Turn, task: Task, given: ReconcileAs, evidence: dict[str, Any]) -> None:
    """The run is closed: the fact is recorded, nothing is decided."""
    if given.verdict == "applied":
        digest = canon.value_digest("result", given.result)
        turn.move(task, "settle", {"evidence": evidence, "result": given.result, "result_digest": digest})
    else:
        turn.move(
            task, "clear", {"evidence": evidence, "applied": "no", "reason": given.evidence}, applied="no"
        )


def _probe_again(turn: Turn, task: Task, who: Person) -> None:
    run = turn.run
    if not has_probe(run, task):
        raise RefusedError(
            f"task {task.id}: {task.tool} has no probe; say applied or absent, with evidence", task=task.id
        )
    if task.probing or task.probe_at:
        raise RefusedError(f"task {task.id}: a probe is on its way already; wait for it", task=task.id)
    _open_run(run, "a probe")
    question = run.questions.get(task.id)
    at = max(turn.now + 1, task.deadline_at + settle_us(run, task))
    if question is not None:
        _answered(turn, task.id, question, "answered", who, value={"decide": "probe"}, probe_at=at)


def wish(turn: Turn, given: Ask) -> None:
    """Record a wish: cancel outranks abort outranks pause."""
    may_speak(given.who)
    run = turn.run
    if given.wish not in ("cancel", "abort", "pause"):
        raise RefusedError(f"run {run.id}: the wish is {given.wish!r}; allowed: cancel, abort, pause")
    if run.state in (RunState.DONE, RunState.CANCELLED) or (
        run.state is RunState.FAILED and given.wish != "cancel"
    ):
        raise RefusedError(
            f"run {run.id}: it is {run.state.value} already; there is nothing to {given.wish}",
            code="E-CLOSED",
        )
    accepted = _acknowledged(run, given.acknowledged)
    more = not frozenset(accepted) <= run.acknowledged
    held = "pause" if run.paused else run.wish
    if _STRENGTH.index(given.wish) < _STRENGTH.index(held) or (given.wish == held and not more):
        raise RefusedError(
            f"run {run.id}: {held} is in force already; {given.wish} adds nothing to it", code="E-WISH"
        )
    _wish(turn, given.wish, given.who, accepted)


def _wish(turn: Turn, wanted: str, who: Person, accepted: tuple[str, ...]) -> None:
    data: dict[str, Any] = {"wish": wanted, "by": who.by, "reason": who.note or f"{who.by} asked for it"}
    if accepted:
        data["acknowledged"] = list(accepted)
    turn.emit("run_asked", data, None, actor_of(who))


def _acknowledged(run: Run, names: object) -> tuple[str, ...]:
    if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
        raise RefusedError(f"run {run.id}: acknowledge takes a list of task ids, not {names!r}")
    for name in names:
        if task_named(run, name).state is not TaskState.UNKNOWN:
            raise RefusedError(
                f"task {name}: it is {run.tasks[name].state.value}; only an unknown result can be acknowledged",
                task=name,
            )
    return tuple(names)


def resume(turn: Turn, given: Resume) -> None:
    """Lift a pause, or go on from the breakpoint of an aborted run."""
    may_speak(given.who)
    run = turn.run
    reason = given.who.note or f"{given.who.by} resumes it"
    if run.state is RunState.FAILED:
        turn.move_run("resume", reason, by=given.who.by)
        _reopen(turn, given.who)
    elif run.paused:
        turn.move_run("resume", reason, by=given.who.by)
    elif run.wish == "pause":
        turn.emit(
            "run_asked", {"wish": "none", "by": given.who.by, "reason": reason}, None, actor_of(given.who)
        )
    else:
        raise RefusedError(
            f"run {run.id}: it is {run.state.value} and not paused; there is nothing to resume",
            code="E-RESUME",
        )


def _reopen(turn: Turn, who: Person) -> None:
    for task in list(turn.run.tasks.values()):
        if task.state is TaskState.FAILED:
            if may_retry(task):
                _retry(turn, task, who)
            else:
                signal = (
                    Signal(task.trouble.signal) if task.trouble and task.trouble.signal else Signal.UNVERIFIED
                )
                escalate(turn, task, signal, f"its effect was applied, it is not repeated: {task.reason}")
        elif task.state is TaskState.UNKNOWN:
            escalate(turn, task, Signal.OUTCOME_UNKNOWN, task.reason or "its result is unknown")
        elif task.state is TaskState.CANCELLED and task.reason_code == "aborted":
            turn.move(task, "invalidate", {"reason": "the abort that cancelled it is lifted"}, applied="no")


def set_inputs(turn: Turn, given: SetInputs) -> None:
    """Correct inputs, constraint values and budgets; what waits for a person on other arguments asks again."""
    may_speak(given.who)
    run = turn.run
    inputs, constraints, budgets = _sorted_out(run, given)
    if run.state is not RunState.FAILED or inputs or constraints:
        _open_run(run, "a change")
    actor = actor_of(given.who)
    if budgets:
        turn.emit("budget_changed", {"budgets": budgets, "by": given.who.by}, None, actor)
    if inputs or constraints:
        old = {k: run.inputs.get(k) for k in inputs}
        data = {"inputs": inputs, "constraints": constraints, "was": old, "by": given.who.by}
        turn.emit("input_changed", data, None, actor)
        fire(
            turn,
            None,
            Signal.INPUT_CHANGED,
            because=", ".join((*inputs, *(f"constraints.{k}" for k in constraints))),
        )
        _ask_again(turn)


def _sorted_out(run: Run, given: SetInputs) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    inputs: dict[str, Any] = {}
    constraints: dict[str, Any] = {}
    budgets: dict[str, Any] = {}
    if not given.values:
        raise RefusedError(f"run {run.id}: nothing is set; give K=V")
    for name, value in given.values.items():
        canon.check(value, name)
        kind, _, key = name.partition(".")
        if kind == "constraints" and key:
            if key not in run.constraint_values:
                raise RefusedError(
                    f"constraint {key}: unknown; the plan has {', '.join(run.constraint_values) or 'none'}"
                )
            constraints[key] = value
        elif kind == "budgets" and key:
            budgets.update(_budget(key, value))
        elif name in run.inputs:
            inputs[name] = value
        else:
            raise RefusedError(f"input {name}: unknown; the plan has {', '.join(run.inputs) or 'none'}")
    return inputs, constraints, budgets


def _budget(key: str, value: Any) -> dict[str, Any]:
    """Return the limit under the name that :class:`Budgets` has for it."""
    try:
        limits = planning.budgets({key: value})
    except PlanError as error:
        raise RefusedError(f"budgets.{key}: {error.faults[0].message}; {error.faults[0].fix}") from None
    field = "cost_micros" if key == "cost" else key
    if not hasattr(limits, field):
        raise RefusedError(f"budgets.{key}: the part kept back is set in the plan; set the limit itself")
    return {field: getattr(limits, field)}


def _ask_again(turn: Turn) -> None:
    """Void every request whose arguments are no longer what the plan resolves to."""
    run = turn.run
    for name in [n for n, q in run.questions.items() if q.kind == "approval"]:
        question, task = run.questions[name], run.tasks[name]
        spec = run.spec_of(task)
        try:
            now = approval_digest(run, task, spec, door.resolve(run, task, spec.name)) if spec else ""
        except UnresolvedReferenceError:
            now = ""
        if now != (question.base_digest or question.digest):
            turn.move(
                task, "invalidate", {"reason": "an input that its arguments rest on changed"}, applied="no"
            )


def note(turn: Turn, given: Note) -> None:
    """Put words into the log."""
    may_speak(given.who)
    if not given.text.strip():
        raise RefusedError("note: it is empty; say something")
    if given.task is not None:
        task_named(turn.run, given.task)
    turn.emit("note_added", {"text": given.text, "by": given.who.by}, given.task, actor_of(given.who))


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
    turn.move(task, "expire", {"reason": words})
    fire_failed(turn, task, Signal.APPROVAL_EXPIRED, because=words)
