"""What a rule table can say: signals, decisions, facts, laws; made from the engine's own lists: ``docs/rules.md``.

``python tools/rulebook.py`` writes the page; a test checks that it is current.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from fsm_agent.core.rules import words
from fsm_agent.core.rules.analysis import KINDS
from fsm_agent.core.rules.laws import LAWS
from fsm_agent.core.signals import DOMAIN, HOME, LEGAL_DECISIONS, Decision

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "rules.md"
FACTS: Final = {
    "effect": "what a repetition of the call may do; a step without a tool has `read`",
    "applied": "what is proved about the effect of the last attempt; `maybe` whenever nothing is",
    "retries_left": "repeats left in the present attempt series of the step",
    "reconciles_left": "probes left in it",
    "local_replans_left": "local replans left in the run",
    "global_replans_left": "global ones",
    "signal_count": "how often this signal fired on the step in the series, or about the run, this time included",
    "repeat_streak": "how often the same failure came in a row, by its fingerprint",
    "stall_steps": "how often in a row nothing new came: reports of a call, or the same answers",
    "consecutive_replans": "replans since a step was last newly done",
    "budget_band": "how much of the budgets is left: `low` below the share `budget_low`",
    "breaker": "the circuit breaker of the step's tool",
    "replan_scope": "scope of the replan that was asked for last, for the signal `plan_rejected`",
    "has_alternative": "whether the step has a prepared alternative that was not tried",
    "has_planner": "whether whoever drives the run can ask a planner",
    "has_reconcile": "whether it can be looked up what became of the call: by the tool's probe, or by making an idempotent "
    "call again; of an unknown result only while a budget is left for it",
    "optional": "whether the plan can do without the step",
    "wish": "what a person has asked for and has not got yet",
}
DECISIONS: Final = {
    "accept": "the step is done",
    "continue": "nothing follows; the rest goes on",
    "retry": "the step is tried again, after its delay",
    "reconcile": "what became of the call is looked up, never repeated",
    "replan-local": "another plan for the failed step and what hangs on it",
    "replan-global": "another plan for everything that is not done",
    "escalate": "a person is asked, with the legal answers listed",
    "skip": "an optional step is left out",
    "abort": "the run ends, and says what was done and what was not",
}
KEYS: Final = {
    "id": "unique in the table; a row with the id of one of the table that is extended takes its place",
    "tier": "`guard`, `rule` (when left out) or `default`: the highest tier that has a fitting row answers, and in a tier "
    "exactly one may fit; `default` may only escalate or abort",
    "machine": "`task` (when left out) or `run`",
    "state": "one, or a list; left out: every state in which a signal fires",
    "signal": "one, or a list; left out: every signal of those states",
    "when": "conditions, which must all hold: a value or a list of values of a fact; of a count `N`, `>=N`, `<=N`, `>N`, "
    "`<N` or `A..B`, with `$param` for a number",
    "decide": "the decision",
    "delay": "the name of a `[delays.NAME]`: `exponential` (`base_s`, `factor`, `max_s`, `jitter`), `fixed` (`s`), `settle` "
    "(until a probe can prove something) or `breaker` (until the circuit breaker lets a call through)",
    "why": "the reason, for people",
    "say": "words for the person who is asked",
}
PARAMS: Final = {
    "retries": "repeats after the first try, in an attempt series of a step",
    "reconciles": "probes of an unknown result, in the same",
    "local_replans": "replans of a run in which only the failed step and what hangs on it may change",
    "global_replans": "replans of a run in which everything that is not done may change",
    "escalate_after": "after so many replans in a row without a newly done step a person is asked",
    "repeat_threshold": "the same failure so often in a row is `repeated_error`",
    "stall_threshold": "so many reports or answers in a row without anything new are `progress_stall`",
    "cooldown_s": "least time between two replans, in seconds",
    "inefficiency_factor": "a step that costs so many times its estimate is `inefficient`",
    "breaker_failures": "so many failures of a tool in a row open its circuit breaker",
    "breaker_open_s": "how long it stays open, in seconds",
    "longest_wait_s": "longest wait that the other side may ask for, in seconds; who asks for more is `quota_exhausted`",
    "budget_low": "share of a budget that is left when it counts as low",
}
FINDINGS: Final = {
    "format": "something cannot be read",
    "name": "there is no such fact, value, signal, state, decision, parameter or delay",
    "gap": "a signal can fire where no row fits",
    "overlap": "two rows of one tier fit the same facts; make them exclude each other",
    "unreachable": "a row, or one of its states or signals, never answers, because rows above it always do",
    "law": "a row can break a law",
    "overspend": 'a row spends a count where it can be used up; add a condition such as `retries_left = ">=1"`',
    "termination": "nothing shows that it comes to an end without a person",
    "unused": "a parameter is compared with, and changes no decision",
    "monotone": "with more left of a count or a budget a row decides more drastically than with less, as where a failure is "
    "put to a person while retries are left, and planned around when they are spent; change the rows for both, or `drop` one",
}
HEAD = """\
# What a rule table can say

*Made by `python tools/rulebook.py` from the engine's own lists; a test checks that it is current. Do not edit.*

A row fires in its states, on its signals, where all its conditions on facts hold; it decides. [How to write a
table](howto/rules.md) · [the shipped tables side by side](tables.md).

"""


def page() -> str:
    """Return the page as it should be today."""
    lines = [HEAD.rstrip(), "", "## Where which signal fires, and what a row may decide there", ""]
    lines += _table(
        ("machine", "state", "signals", "decisions"),
        [
            (
                machine,
                state,
                ", ".join(f"`{signal.value}`" for signal in signals),
                ", ".join(f"`{d.value}`" for d in Decision if d in LEGAL_DECISIONS[machine, state]),
            )
            for (machine, state), signals in HOME.items()
        ],
    )
    lines += ["", "## Keys of a row", ""]
    lines += _table(("key", "meaning"), [(f"`{name}`", text) for name, text in KEYS.items()])
    lines += ["", "A table that `extends` another one takes rows of it away by `drop = [ID, …]` beside that."]
    lines += ["", "## Decisions", ""]
    lines += _table(("decision", "what follows"), [(f"`{d.value}`", DECISIONS[d.value]) for d in Decision])
    lines += ["", "## Facts", "", "Counts stop at their upper end.", ""]
    lines += _table(
        ("fact", "values", "meaning"),
        [(f"`{name}`", _values(values), FACTS[name]) for name, values in DOMAIN.items()],
    )
    lines += [
        "",
        "## Numbers",
        "",
        "Of `[params]`; also by `--param NAME=VALUE`. A table may name more, and compare counts with them.",
        "",
    ]
    lines += _table(
        ("param", "range", "left out", "meaning"),
        [
            (f"`{n}`", f"{p.low:g} to {round(p.high):,}", f"{p.default:g}", PARAMS[n])
            for n, p in words.PARAMS.items()
        ],
    )
    lines += ["", "## Laws above every table", "", "A table that breaks one does not load.", ""]
    lines += _table(("law", "says"), [(f"`{law.id}`", law.text) for law in LAWS])
    lines += ["", "## What is found wrong with a table", "", "In the order in which it is reported.", ""]
    lines += _table(("finding", "means"), [(f"`{kind}`", FINDINGS[kind]) for kind in KINDS])
    return "\n".join(lines) + "\n"


def _values(values: tuple[str, ...] | tuple[int, int]) -> str:
    if isinstance(values[0], int):
        return f"{values[0]} to {values[1]}"
    return ", ".join(f"`{value}`" for value in values)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for cells in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
