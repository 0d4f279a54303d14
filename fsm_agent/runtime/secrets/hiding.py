"""People's words pass the vault too: what a person types into a secret place never reaches the log or the inbox."""

from collections.abc import Mapping
from typing import Any

import attrs

from fsm_agent.core import canon
from fsm_agent.core.engine.records import Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import FsmAgentError, RefusedError
from fsm_agent.core.inputs import Answer, Edit, Note, Proposed, ReconcileAs, Replan, SetInputs, Word
from fsm_agent.core.language import refs
from fsm_agent.core.tools import ToolSpec
from fsm_agent.runtime.secrets.vault import Vault, secret_inputs


def hidden(word: Word, run: Run, vault: Vault) -> Word:
    """Return *word* as the log may have it; secrets stay in *vault*."""
    who = attrs.evolve(word.who, note=vault.scrub(word.who.note))
    match word:
        case Edit():
            spec = _spec_of(run, word.task)
            args = vault.hide_args(spec, word.args) if spec is not None else word.args
            return attrs.evolve(word, args=args, who=who)
        case SetInputs():
            return attrs.evolve(word, values=vault.hide_inputs(word.values, secrets_of(run)), who=who)
        case Answer():
            return attrs.evolve(word, value=_answer(word.value, _spec_of(run, word.task), vault), who=who)
        case ReconcileAs():
            evidence = vault.scrub(word.evidence)
            result = _result(word.result, _spec_of(run, word.task), vault)
            return attrs.evolve(word, result=result, evidence=evidence, who=who)
        case Replan():
            return attrs.evolve(word, document=vault.mask(hide_document(word.document, run, vault)), who=who)
        case Note():
            return attrs.evolve(word, text=vault.scrub(word.text), who=who)
        case _:
            return attrs.evolve(word, who=who)


def hidden_proposal(given: Proposed, vault: Vault) -> Proposed:
    """Return a planner's answer as the log may have it; one that says a secret is none, for a plan refers to it."""
    given = attrs.evolve(given, why=vault.scrub(given.why))
    if given.answer is None or vault.mask(given.answer) == given.answer:
        return given
    why = (
        given.why
        or 'the planner failed: its answer says a secret; a plan refers to it, such as "$inputs.token"'
    )
    return attrs.evolve(given, answer=vault.scrub(given.answer), why=why)


def secrets_of(run: Run) -> frozenset[str]:
    """Return the names of the inputs that secret arguments rest on."""
    assert run.plan is not None, "the run has not begun"
    return frozenset(secret_inputs(run.plan.doc, run.tools.values(), run.default_tool))


def _spec_of(run: Run, name: str) -> ToolSpec | None:
    task: Task | None = run.tasks.get(name)
    return run.spec_of(task) if task is not None else None


def _result(value: Any, spec: ToolSpec | None, vault: Vault) -> Any:
    """Return a result that a person gives as if the tool had given it."""
    return vault.mask(value) if spec is None else vault.hide_result(spec, value)


def _answer(value: Any, spec: ToolSpec | None, vault: Vault) -> Any:
    """Return an answer with its result as the tool's own, and its words still words."""
    if type(value) is not dict or "result" not in value:
        return vault.mask(value)
    words = {
        k: vault.scrub(v) if type(v) is str else vault.mask(v) for k, v in value.items() if k != "result"
    }
    return {**words, "result": _result(value["result"], spec, vault)}


def hide_document(document: Any, run: Run, vault: Vault) -> Any:
    """Return a plan that a person gives, of any shape and with any fault, with the literals in secret places replaced.

    A step whose tool nobody knows is taken to declare what any tool of the run declares.
    """
    return hide_places(document, run, vault)[0]


def hide_places(document: Any, run: Run, vault: Vault) -> tuple[Any, list[str]]:
    """Return what :func:`hide_document` does, and the JSON pointers of the places where a literal was replaced."""
    every = frozenset(name for spec in run.tools.values() for name in spec.secret)
    if not every or not canon.exact(document):
        return document, []  # what the log could not hold is refused as a whole
    rests_on, places = set(secrets_of(run)), list[str]()

    def names_of(step: Mapping[str, Any]) -> frozenset[str]:
        name = step.get("tool") or step.get("action") or run.default_tool
        spec = run.tools.get(name) if isinstance(name, str) else None
        return every if spec is None else frozenset(spec.secret)

    def args_of(step: Mapping[str, Any]) -> Any:
        given = step.get("args", step.get("params"))
        if isinstance(given, str):  # the text of a JSON object
            try:
                return canon.loads(given)
            except ValueError:
                return given
        return given

    def shared(step: Mapping[str, Any]) -> frozenset[str]:
        others = step.get("alternatives")
        args, found = args_of(step), names_of(step)
        for other in others if isinstance(others, list) and isinstance(args, dict) else ():
            same = args_of(other) if isinstance(other, dict) else None
            if isinstance(same, dict):
                found |= {n for n in names_of(other) if n in args and same.get(n) == args[n]}
        return found

    def replaced(old: Any, new: Any, at: refs.Place) -> Any:
        if new != old:
            places.append(refs.pointer(at))
        return new

    def walk(value: Any, at: refs.Place) -> Any:
        if isinstance(value, list):
            return [walk(item, (at, index)) for index, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        plain = {k: v for k, v in value.items() if k not in ("args", "params")}
        given, out = args_of(value), {k: walk(v, (at, k)) for k, v in plain.items()}
        for key in ("args", "params"):
            if key in value:
                out[key] = value[key]
        if isinstance(given, dict) and (names := shared(value) & given.keys()):
            for name in names:
                rests_on.update(_inputs_in(given[name]))
            key = "args" if "args" in value else "params"
            out[key] = {
                k: replaced(v, vault.hide_literals(v, k), ((at, key), k)) if k in names else v
                for k, v in given.items()
            }
        return out

    found = walk(document, "")
    if isinstance(found, dict) and isinstance(found.get("inputs"), dict):
        given, found["inputs"] = found["inputs"], vault.hide_inputs(found["inputs"], rests_on)
        places.extend(
            refs.pointer(("/inputs", name)) for name in given if given[name] != found["inputs"][name]
        )
    return found, places


def _inputs_in(value: Any) -> set[str]:
    try:
        found = refs.parse(value).refs
    except FsmAgentError:
        return set()  # no plan, and refused as such
    return {str(ref.path[0]) for ref in found if ref.root == "$inputs" and ref.path}


def refuse_secrets(word: Word, run: Run) -> None:
    """Refuse a word that would carry a secret through the inbox, where anybody can read it.

    Raises:
        RefusedError: ``E-SECRET``; the process that drives the run takes it instead.
    """
    names: set[str] = set()
    what, advice = "it is secret", "give it to the process that drives the run (resume RUN --input K=V)"
    match word:
        case Edit():
            spec = _spec_of(run, word.task)
            known = run.tools.values() if spec is None else (spec,)  # a name mistyped may be any tool's
            names = set(word.args) & {name for one in known for name in one.secret}
        case SetInputs():
            declared = secrets_of(run)
            mistyped = (
                {name for name in word.values if "." not in name and name not in run.inputs}
                if declared
                else set()
            )
            names = set(word.values) & declared or mistyped
            if names == mistyped:
                what = f"it is no input of this run ({', '.join(run.inputs)}), some of which are secret"
        case ReconcileAs() | Answer():
            spec = _spec_of(run, word.task)
            given = word.result if isinstance(word, ReconcileAs) else word.value
            inner = given.get("result") if isinstance(given, dict) else None
            held = {key for value in (given, inner) if isinstance(value, dict) for key in value}
            names = held & set(spec.secret) if spec is not None else set()
            advice = "leave it out, or say it in the process that drives the run"
        case Replan() if hide_places(word.document, run, Vault())[1]:
            names, what = {"plan"}, "it holds a secret that a tool declares"
            advice = 'let it refer to an input ("$inputs.K"), or give it in the process that drives the run'
        case _:
            return
    if names:
        raise RefusedError(
            f"{', '.join(sorted(names))}: {what}, and the inbox is a file; {advice}", code="E-SECRET"
        )
