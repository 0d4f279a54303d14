"""What can stand next in a line: only what makes sense now. The rows of the table say what may follow, the run what it names."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from fsm_agent.core.engine.state import Run
from fsm_agent.core.machine import STATES
from fsm_agent.core.signals import Decision, Signal
from fsm_agent.faces.frame.spec import Command, Param
from fsm_agent.faces.repl import legal
from fsm_agent.faces.repl.conditions import BUDGETS
from fsm_agent.faces.table.prompt import ALIASES, AT_PROMPT
from fsm_agent.runtime.configs import rule_names

_SHOWN: Final = 200
"""Of more candidates only the first so many are offered."""


class Candidate(NamedTuple):
    """Something that can stand next: its text, how many characters of it are typed, and what it is."""

    text: str
    typed: int
    about: str = ""


class Known(NamedTuple):
    """What completion knows: the run that the prompt is at, and the ids of the store's runs."""

    run: Run | None
    runs: tuple[str, ...] = ()


def complete(line: str, known: Known) -> list[Candidate]:
    """Return what can stand at the end of *line*, the part before the cursor."""
    part = line.rpartition(";")[2].lstrip()
    words = part.split()
    typed = "" if not part or part[-1].isspace() else words.pop()
    name, given = named(words)
    if name is None:
        return _names(words, typed, known.run)
    found = _values(AT_PROMPT[name], given, typed, known)
    return [Candidate(text, len(typed), about) for text, about in found if text.startswith(typed)][:_SHOWN]


def named(words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Return the command that *words* begin with, and the words after its name."""
    two = " ".join(words[:2])
    if len(words) > 1 and two in AT_PROMPT:
        return two, words[2:]
    if words:
        name = ALIASES.get(words[0], words[0])
        if name in AT_PROMPT:
            return name, words[1:]
    return None, words


def ghost(line: str) -> str:
    """Return what is still to be typed after *line*, in the words of the usage; empty if that is not known."""
    if not line.endswith(" ") or '"' in line or "'" in line:
        return ""
    name, given = named(line.rpartition(";")[2].split())
    if name is None:
        return ""
    row = AT_PROMPT[name]
    places = [p for p in arguments(row) if not p.flags]
    used = len([word for word in given if not word.startswith("-")])
    rest = [p.shown for p in places[used:]] + [
        f"{p.shown}" for p in row.params if p.flags and p.required and p.flags[0] not in given
    ]
    if given and given[-1].startswith("-"):
        return ""
    return " ".join(rest)


def arguments(row: Command) -> tuple[Param, ...]:
    """Return the parameters of *row* as the prompt takes them: without the run that it is at."""
    return tuple(p for p in row.params if not (p.kind == "run" and p.name == "run"))


def _names(words: Sequence[str], typed: str, run: Run | None) -> list[Candidate]:
    """Return the commands that make sense now, by their next word."""
    found: dict[str, str] = {}
    for name, row in AT_PROMPT.items():
        parts = name.split()
        if len(parts) > len(words) and parts[: len(words)] == list(words) and legal.makes_sense(row, run):
            word = parts[len(words)]
            about = row.help if len(parts) == len(words) + 1 else f"{word} ..."
            if word.startswith(typed):
                found.setdefault(word, about)
    return [Candidate(word, len(typed), about) for word, about in found.items()]


def _values(row: Command, given: Sequence[str], typed: str, known: Known) -> Iterable[tuple[str, str]]:
    params = arguments(row)
    flags = {flag: p for p in params for flag in p.flags}
    before = flags.get(given[-1]) if given else None
    if before is not None and before.kind != "flag":
        return _of(before, typed, known)
    if typed.startswith("-"):
        used = {p.name for flag, p in flags.items() if flag in given and not p.many}
        return [(p.flags[0], p.help) for p in params if p.flags and p.name not in used]
    places = [p for p in params if not p.flags]
    count = _positions(given, flags)
    if not places or (count >= len(places) and not places[-1].many):
        return [(p.flags[0], p.help) for p in params if p.flags] if not typed else []
    place = places[min(count, len(places) - 1)]
    if place.kind == "pairs":
        return _pairs(row, given, known.run)
    if place.kind == "json":
        return _answers(given, known.run)
    return _of(place, typed, known)


def _answers(given: Sequence[str], run: Run | None) -> list[tuple[str, str]]:
    """Return the legal answers to the question of the task that is named."""
    question = run.questions.get(given[0]) if run is not None and given else None
    if question is None or question.kind != "decide":
        return []
    evidence = '"evidence":'
    return [
        (f'{{"result":{{}},{evidence}""}}' if answer == "result" else f'{{"decide":"{answer}"}}', answer)
        for answer in question.answers
        if answer not in ("applied", "absent")  # those are what reconcile is for
    ]


def _positions(given: Sequence[str], flags: dict[str, Param]) -> int:
    count, skip = 0, False
    for word in given:
        if skip:
            skip = False
        elif word in flags:
            skip = flags[word].kind != "flag"
        else:
            count += 1
    return count


def _of(param: Param, typed: str, known: Known) -> Iterable[tuple[str, str]]:
    """Return what can stand for *param*: (text, what it is)."""
    run = known.run
    match param.kind:
        case "task" if run is not None:
            return [
                (name, run.tasks[name].state.value if name in run.tasks else "the run")
                for name in legal.tasks(run, param.among)
            ]
        case "run":
            return [(name, "") for name in known.runs]
        case "choice":
            return [(choice, "") for choice in param.choices]
        case "condition" if run is not None:
            return _conditions(run)
        case "row" if run is not None:
            return [(row.id, row.decide.value) for row in run.rules.rows]
        case "command":
            return [(name, row.help) for name, row in AT_PROMPT.items()]
        case "file":
            shipped = [(name, "shipped") for name in rule_names()] if param.name == "rules" else []
            return [*shipped, *((path, "") for path in paths(typed))]
        case _:
            return []


def _conditions(run: Run) -> list[tuple[str, str]]:
    found = [(t.id, f"before it starts; it is {t.state.value}") for t in run.tasks.values()]
    found += [("until", "")]
    found += [(f"state={state}", "") for state in STATES]
    found += [(f"signal={signal.value}", "") for signal in Signal]
    found += [(f"decision={decision.value}", "") for decision in Decision]
    found += [(f"budget.{name}<", "a number, or a share such as 20%") for name in BUDGETS]
    return found


def _pairs(row: Command, given: Sequence[str], run: Run | None) -> list[tuple[str, str]]:
    """Return the names that a value can be given to."""
    if run is None:
        return []
    if row.name == "edit" and given:
        question = run.questions.get(given[0])
        return [(f"{name}=", "") for name in (question.args or {})] if question is not None else []
    names = [f"{name}=" for name in run.inputs]
    if run.plan is not None:
        names += [f"constraints.{c.key}=" for c in run.plan.constraints]
    names += [f"budgets.{name}=" for name in BUDGETS]
    return [(name, "") for name in names]


def paths(typed: str) -> list[str]:
    """Return the files and directories whose names begin as *typed*."""
    folder, _, begin = typed.rpartition("/")
    where = Path(folder or ("/" if typed.startswith("/") else ".")).expanduser()
    try:
        entries = sorted(os.scandir(where), key=lambda entry: entry.name)
    except OSError:
        return []
    lead = f"{folder}/" if "/" in typed else ""
    return [
        f"{lead}{entry.name}{'/' if entry.is_dir() else ''}"
        for entry in entries
        if entry.name.startswith(begin) and (begin.startswith(".") or not entry.name.startswith("."))
    ]
