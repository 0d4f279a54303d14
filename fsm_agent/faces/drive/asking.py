"""A question at the terminal: what is shown, and what the typed line means.

An approval is given by typing the first characters of the digest of exactly what was shown; there is no `y`.
"""

import shlex
from collections.abc import Iterator
from typing import Any, Final

from fsm_agent.core import canon
from fsm_agent.core.engine.records import RUN, Question
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import UsageError
from fsm_agent.core.inputs import Answer, Approve, Edit, Person, Reject, Word
from fsm_agent.faces.frame.execute import pair
from fsm_agent.faces.frame.places import person
from fsm_agent.faces.frame.screen import Screen, duration, safe, short, wrapped
from fsm_agent.runtime.ports import SystemPorts

DIGITS: Final = 4
"""How many characters of a digest must be typed at least; so many are spelled out."""

EFFECTS: Final = {
    "read": "read: it changes nothing",
    "idempotent": "idempotent: a repetition changes nothing more",
    "write": "write: it changes something, and is never repeated on its own",
    "irreversible": "irreversible: it cannot be taken back",
}


def show(question: Question, run: Run, screen: Screen) -> Iterator[str]:
    """Yield the lines that show *question*, and what can be typed."""
    yield ""
    yield from described(question, run, screen)
    for line in _choices(question):  # whole: what is cut off, nobody can type
        yield from wrapped("  ", line, screen.width)


def described(question: Question, run: Run, screen: Screen) -> Iterator[str]:
    """Yield the lines that show what *question* is about, and nothing of how it is answered."""
    first, *more = wrapped(f"? {safe(question.task)}: ", question.say, screen.width)
    yield first.replace("?", screen.glyph("awaiting-confirmation"), 1)
    yield from more
    task = run.tasks.get(question.task)
    spec = run.spec_of(task) if task is not None else None
    if question.kind == "approval" and spec is not None:
        yield f"  {safe(spec.name)} is {EFFECTS[spec.effect.value]}"
    if question.kind == "approval" and question.task == RUN:
        yield from _plan(run, screen)
        yield f"  digest {question.digest[:16]}..."
        return
    for name, value in (question.args or {}).items():
        yield f"  {safe(name)} = {safe(canon.encode(value).decode())}"
    if question.base_args is not None:
        yield f"  edited; the plan says {safe(canon.encode(dict(question.base_args)).decode())}"
    parts = [f"digest {question.digest[:16]}..."] if question.kind == "approval" else []
    if question.approvers > 1:
        parts.append(f"approved by {len(question.approved_by)} of {question.approvers}")
    if question.expires_at is not None:
        parts.append(
            f"expires in {duration(max(0, question.expires_at - SystemPorts().now_us()) / 1_000_000)}"
        )
    if parts:
        yield f"  {', '.join(parts)}"


def _plan(run: Run, screen: Screen) -> Iterator[str]:
    """Yield the plan that is asked about, one step a line, in the order in which steps stand in it."""
    assert run.plan is not None, "there is a plan to ask about"
    for name, value in run.inputs.items():
        yield "  " + short(f"{name} = {canon.encode(value).decode()}", screen.width - 2)
    for step in run.plan.steps:
        spec = run.tools.get(run.tool_of(step) or "")
        kind = f" ({spec.effect.value})" if spec is not None else ""
        after = f", after {', '.join(d.id for d in step.depends_on)}" if step.depends_on else ""
        asks = ", asks before it" if step.requires_confirmation or (spec is not None and spec.confirm) else ""
        what = f"{step.id}: {run.tool_of(step) or 'a person'}{kind}{after}{asks}"
        yield "  " + short(f"{what}: {canon.encode(step.args.source).decode()}", screen.width - 2)


def _choices(question: Question) -> tuple[str, ...]:
    if question.kind == "approval":
        start = question.digest[:DIGITS]
        if question.task == RUN:
            return (f"type {start} to approve, r WORDS to reject, s to skip for now",)
        return (f"type {start} to approve, r WORDS to reject, e NAME=VALUE ... to edit, s to skip for now",)
    if question.kind == "answer":
        return ("type a and a VALUE to answer (JSON, or text), r WORDS to reject, s to skip for now",)
    forms = {
        "result": "result JSON because WORDS",
        "applied": "applied JSON because WORDS",
        "absent": "absent WORDS",
    }
    return (f"type one of: {' | '.join(forms.get(a, a) for a in question.answers)}", "or s to skip for now")


def understand(question: Question, line: str) -> Word | str | None:
    """Return what *line* says to *question*: a word for the run, None to put it off, or what is wrong with it."""
    head, _, rest = line.partition(" ")
    rest = rest.strip()
    if not line:
        return f"nothing was typed; {'; '.join(_choices(question))}"
    if head == "s" and not rest:
        return None
    if question.kind == "decide":
        return _decide(question, head, rest)
    if head == "r":
        if not rest:
            return "a rejection needs words; type r WORDS"
        return Reject(task=question.task, digest=question.digest, who=_me(rest))
    if question.kind == "answer":
        if head != "a" or not rest:
            said = f"a {line[:40]}" if line and head != "a" else "a VALUE"
            return f"{line[:40]!r} is no answer; type {said} to answer, r WORDS to reject, or s"
        return Answer(task=question.task, digest=question.digest, value=_value(rest), who=_me())
    if head == "e" and rest:
        return _edit(question, rest)
    if len(line) >= DIGITS and question.digest.startswith(line.lower()):
        return Approve(task=question.task, digest=question.digest, who=_me())
    return f"{line[:40]!r} is not how the digest begins; {'; '.join(_choices(question))}"


def _edit(question: Question, text: str) -> Word | str:
    try:
        args = dict(pair("NAME=VALUE", part) for part in shlex.split(text))
        return Edit(task=question.task, digest=question.digest, args=args, who=_me())
    except (ValueError, UsageError) as error:
        return f"e {text[:40]}: {error}"


def _decide(question: Question, head: str, rest: str) -> Word | str:
    if head not in question.answers:
        return f"{head[:40]!r} is not among the answers: {', '.join(question.answers)}"
    value: dict[str, Any] = {"decide": head}
    if head in ("result", "applied"):
        text, because, evidence = rest.rpartition(" because ")
        if not because:
            return f"type {head} JSON because WORDS"
        value = {"result": _value(text.strip()), "evidence": evidence.strip()}
    elif head == "absent":
        value["evidence"] = rest
    elif rest:
        value["note"] = rest
    return Answer(task=question.task, digest=question.digest, value=value, who=_me())


def _value(text: str) -> Any:
    try:
        return canon.loads(text)
    except ValueError:
        return text


def _me(note: str = "") -> Person:
    me = person(None, note)
    return Person(by=me.by, channel="terminal", note=note)
