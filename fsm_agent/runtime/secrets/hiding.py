"""People's words pass the vault too: what a person types into a secret place never reaches the log or the inbox."""

import attrs

from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import RefusedError
from fsm_agent.core.inputs import Answer, Edit, Note, ReconcileAs, Replan, SetInputs, Word
from fsm_agent.runtime.secrets.vault import Vault, secret_inputs


def hidden(word: Word, run: Run, vault: Vault) -> Word:
    """Return *word* as the log may have it; secrets stay in *vault*."""
    who = attrs.evolve(word.who, note=vault.scrub(word.who.note))
    match word:
        case Edit():
            task = run.tasks.get(word.task)
            spec = run.spec_of(task) if task is not None else None
            args = vault.hide_args(spec, word.args) if spec is not None else word.args
            return attrs.evolve(word, args=args, who=who)
        case SetInputs():
            return attrs.evolve(word, values=vault.hide_inputs(word.values, secrets_of(run)), who=who)
        case Answer():
            return attrs.evolve(word, value=vault.mask(word.value), who=who)
        case ReconcileAs():
            evidence = vault.scrub(word.evidence)
            return attrs.evolve(word, result=vault.mask(word.result), evidence=evidence, who=who)
        case Replan():
            return attrs.evolve(word, document=vault.mask(word.document), who=who)
        case Note():
            return attrs.evolve(word, text=vault.scrub(word.text), who=who)
        case _:
            return attrs.evolve(word, who=who)


def secrets_of(run: Run) -> frozenset[str]:
    """Return the names of the inputs that secret arguments rest on."""
    assert run.plan is not None, "the run has not begun"
    return frozenset(secret_inputs(run.plan.doc, run.tools.values(), run.default_tool))


def refuse_secrets(word: Word, run: Run) -> None:
    """Refuse a word that would carry a secret through the inbox, where anybody can read it.

    Raises:
        RefusedError: ``E-SECRET``; the process that drives the run takes it instead.
    """
    names: set[str] = set()
    if isinstance(word, Edit):
        task = run.tasks.get(word.task)
        spec = run.spec_of(task) if task is not None else None
        names = set(word.args) & set(spec.secret if spec is not None else ())
    elif isinstance(word, SetInputs):
        names = set(word.values) & secrets_of(run)
    if names:
        raise RefusedError(
            f"{', '.join(sorted(names))}: it is secret, and the inbox is a file; give it to the process that drives the "
            "run (resume RUN --input K=V)",
            code="E-SECRET",
        )
