"""Small faults in the engine's code and tables, one at a time, and whether logs of the engine as it is show them.

    python -m tests.audit.mutants [--count N] [--seed S]

The golden logs are those of every scenario, and of sixty runs at the mercy of chance (:mod:`tests.laws.chaos`). A mutant
is one function of ``decide`` or ``apply`` with one operator, condition, constant or statement changed, one
edge of a state table, or one row of the rule table. It is shown by a golden log if the audit, made with the mutant,
finds the log wrong, or if the mutant folds it to another state, or does not make it again. Each mutant lives in a
process of its own. Prints one JSON document.
"""

import argparse
import ast
import copy
import gc
import inspect
import json
import os
import random
import resource
import signal
import sys
import textwrap
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from fsm_agent.core import machine
from fsm_agent.core.audit import replay
from fsm_agent.core.audit.audit import audit
from fsm_agent.core.engine.fold import apply
from fsm_agent.core.engine.state import Run
from fsm_agent.core.rules import table as rules
from fsm_agent.core.signals import LEGAL_DECISIONS
from fsm_agent.testing.scenario import load
from fsm_agent.testing.simulate import simulate
from tests.audit.corpus import RUN_ID, Sealed, logs, sealed
from tests.core.kit import picture
from tests.laws.chaos import Chaos

ENGINE = (
    "decide",
    "door",
    "outcomes",
    "policy",
    "people",
    "wishes",
    "changes",
    "ending",
    "derived",
    "budget",
)
FOLD = ("fold", "moved", "tally", "dependents", "arguments", "breaker", "stall")
SECONDS = 30
BYTES = 2 << 30
SURVIVED, AUDITED, REPLAYED = 10, 11, 12
CHANCES, LONG = 60, 30
UNSEEN = ("touch", "journal")
"""What serves only the undoing of tentative turns: no log can show it."""
OUTSIDE = ("commands", "_stopped", "state_digest", "decide")
"""Functions of these modules that neither make events nor fold them."""
COMPARE = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
}
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.BitOr: ast.BitAnd, ast.FloorDiv: ast.Mult}


def modules():
    """Yield the modules that may be changed."""
    for name in (*ENGINE, *FOLD):
        yield import_module(f"fsm_agent.core.engine.{name}")


def functions():
    """Return the functions of those modules by their code."""
    found = {}
    for module in modules():
        for function in vars(module).values():
            own = inspect.isfunction(function) and function.__module__ == module.__name__
            if own and not function.__closure__ and function.__name__ not in OUTSIDE:
                found[function.__code__] = function
    return found


class Golden(NamedTuple):
    """A golden log.

    Attributes:
        whole: As it is stored.
        events: As it reads.
        states: The states that it leads to, batch by batch.
        remake: Makes it again, and returns its events.
    """

    whole: Sealed
    events: list
    states: list
    remake: Callable[[], list]


def at_the_mercy_of_chance(seed):
    """Return the events of a run in which chance chooses all that happens."""
    chaos = Chaos(random.Random(seed).randrange)
    chaos.live(LONG)
    return chaos.lab.events()


def golden_logs():
    """Return all golden logs, those with the most kinds of events first."""
    makers = [
        *((RUN_ID, lambda file=log.file: list(simulate(load(file)).events)) for log in logs()),
        *(("r", lambda seed=seed: at_the_mercy_of_chance(seed)) for seed in range(CHANCES)),
    ]
    made = [(sealed(events, run), events, remake) for run, remake in makers for events in [remake()]]
    made.sort(key=lambda one: -len({(e.type, e.data.get("trigger"), e.data.get("signal")) for e in one[1]}))
    return [Golden(whole, events, folded(whole), remake) for whole, events, remake in made]


def lines_run(golden):
    """Return the lines (code, number) of those functions that making the golden logs runs."""
    known, seen = functions(), set()

    def trace(frame, what, _):
        if frame.f_code not in known:
            return None
        if what == "line":
            seen.add((frame.f_code, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        for log in golden:
            log.remake()
    finally:
        sys.settrace(None)
    return {(known[code], line) for code, line in seen}


class Change(ast.NodeTransformer):
    """Changes the one place that is asked for; counts the places."""

    def __init__(self, wanted, lines):
        self.count, self.wanted, self.lines, self.said = -1, wanted, lines, ""

    def here(self, node, what):
        if node.lineno not in self.lines:
            return False
        self.count += 1
        if self.count == self.wanted:
            self.said = f"line {node.lineno}: {what}"
        return self.count == self.wanted

    def number(self, nodes):
        """Change a whole number among *nodes* by one."""
        for place, node in enumerate(nodes):
            fits = isinstance(node, ast.Constant) and type(node.value) is int
            if fits and self.here(node, f"{node.value} + 1"):
                nodes[place] = ast.copy_location(ast.Constant(node.value + 1), node)

    def visit_Compare(self, node):
        self.generic_visit(node)
        swap, text = COMPARE.get(type(node.ops[0])), ast.unparse(node)
        if any(word in text for word in UNSEEN):
            return node
        self.number(node.comparators)
        if swap is not None and self.here(node, f"comparison turned round: {ast.unparse(node)[:60]}"):
            node.ops[0] = swap()
        return node

    def visit_BoolOp(self, node):
        self.generic_visit(node)
        if self.here(node, f"and, or: {ast.unparse(node)[:60]}"):
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return node

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and self.here(node, f"not left out: {ast.unparse(node)[:60]}"):
            return node.operand
        return node

    def visit_BinOp(self, node):
        self.generic_visit(node)
        swap = ARITHMETIC.get(type(node.op))
        right = [node.right]
        self.number(right)
        node.right = right[0]
        if swap is not None and self.here(node, f"operator: {ast.unparse(node)[:60]}"):
            node.op = swap()
        return node

    def visit_Expr(self, node):
        self.generic_visit(node)
        text = ast.unparse(node)
        fits = isinstance(node.value, ast.Call) and not any(word in text for word in UNSEEN)
        if fits and self.here(node, f"left out: {text[:60]}"):
            return ast.copy_location(ast.Pass(), node)
        return node

    def visit_Call(self, node):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            node.args[:1] = [
                self.visit(argument) for argument in node.args[:1]
            ]  # what is there has no default
            return node
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node):
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Assert(self, node):
        return node

    def visit_arguments(self, node):
        return node


def mutated(function, wanted, lines):
    """Return (code, what was changed) of the mutant; None if there is no such place."""
    source, first = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(source)))
    ast.increment_lineno(tree, first - 1)
    body = tree.body[0].body
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        del body[0]
    change = Change(wanted, lines)
    tree = ast.fix_missing_locations(change.visit(tree))
    if not change.said:
        return None
    space = {}
    exec(compile(tree, function.__code__.co_filename, "exec"), function.__globals__, space)
    return space[function.__name__].__code__, change.said


def places(golden):
    """Return every place in code that a golden scenario runs: (function, number, lines)."""
    ran = lines_run(golden)
    found = []
    for function in sorted({f for f, _ in ran}, key=lambda f: (f.__module__, f.__code__.co_firstlineno)):
        lines = frozenset(line for f, line in ran if f is function)
        number = 0
        while mutated(function, number, lines) is not None:
            found.append((function, number, lines))
            number += 1
    return found


# ── judging ───────────────────────────────────────────────────────────────────────────────────────────────────


def folded(whole):
    """Return the states that a log leads to, batch by batch, as plain values."""
    run, states = Run(whole.run), []
    for event in replay.events(whole.run, whole.records, whole.blobs.__getitem__):
        apply(run, event)
        if event.tx is None or event.seq == sum(event.tx) - 1:
            states.append(picture(run))
    return states


def shown(golden):
    """Return how the golden logs show that something is other than it was."""
    for log in golden:
        try:
            if audit(log.whole.run, log.whole.records, log.whole.blobs.__getitem__).findings:
                return AUDITED
            if folded(log.whole) != log.states or log.remake() != log.events:
                return REPLAYED
        except Exception:
            return REPLAYED
    return SURVIVED


def in_a_process(change, golden):
    """Return what is shown in a child process in which *change* was made."""
    child = os.fork()
    if not child:
        code = REPLAYED
        try:
            resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
            signal.alarm(SECONDS)  # ends a mutant that goes round for ever
            change()
            code = shown(golden)
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else REPLAYED


def code_mutants(golden, count, chance):
    """Yield (what, change) for changed code, spread over the functions."""
    found = places(golden)
    chance.shuffle(found)
    for function, number, lines in found[:count]:
        code, said = mutated(function, number, lines)

        def change(function=function, code=code):
            function.__code__ = code

        yield f"{function.__module__.removeprefix('fsm_agent.core.')}.{function.__name__} {said}", change


def edge_mutants(golden, count, chance):
    """Yield (what, change) for edges of the state tables that the golden logs use: gone, or leading elsewhere."""
    used = {
        (e.type[:-6], e.data["source"], e.data["trigger"])
        for log in golden
        for e in log.events
        if e.type in ("task_moved", "run_moved")
    }
    for name, source, trigger in chance.sample(sorted(used), min(count, len(used))):
        inner = gc.get_referents(machine.TABLES[name])[0]
        others = [s for s in machine.STATES if s not in (source, inner[source, trigger])]
        dest = chance.choice([None, *others])

        def change(inner=inner, key=(source, trigger), dest=dest):
            if dest is None:
                del inner[key]
            else:
                inner[key] = dest

        yield f"{name} {source} × {trigger} → {dest or 'gone'}", change


def row_mutants(golden, count, chance):
    """Yield (what, outcome) for rows of the rule table: golden logs are audited with the changed table in them."""
    used = {
        (e.data["rule"], e.data["state"], e.data["decide"], e.task is None)
        for log in golden
        for e in log.events
        if e.type == "decided" and not e.data["rule"].startswith("plan:")
    }
    for row, state, decide, of_run in chance.sample(sorted(used), min(count, len(used))):
        legal = LEGAL_DECISIONS["run" if of_run else "task", state] - {decide}
        other = chance.choice(sorted(legal)) if legal else None

        def judge(row=row, other=other):
            for log in golden:
                events = list(log.events)
                table = copy.deepcopy(events[0].data["rules"])
                place = next((i for i, r in enumerate(table["row"]) if r["id"] == row), None)
                if place is None:
                    continue
                if other is None:
                    del table["row"][place]
                else:
                    table["row"][place]["decide"] = other
                try:
                    digest = rules.from_canonical(table).digest
                except Exception:
                    return REPLAYED  # a table that is unsound is none
                data = {**events[0].data, "rules": table, "rules_digest": digest}
                forged = sealed([events[0]._replace(data=data), *events[1:]], log.whole.run)
                if audit(forged.run, forged.records, forged.blobs.__getitem__).findings:
                    return AUDITED
            return SURVIVED

        yield f"row {row}: {decide} → {other or 'gone'}", judge


def main():
    """Make mutants, and print what became of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    golden = golden_logs()
    edges = rows = options.count // 6
    results = []
    for what, change in [
        *code_mutants(golden, options.count - edges - rows, chance),
        *edge_mutants(golden, edges, chance),
    ]:
        results.append((what, in_a_process(change, golden)))
    results += [(what, judge()) for what, judge in row_mutants(golden, rows, chance)]
    codes = [code for _, code in results]
    print(
        json.dumps(
            {
                "mutants": len(results),
                "found wrong by the audit": codes.count(AUDITED),
                "made another log": codes.count(REPLAYED),
                "survived": [what for what, code in results if code == SURVIVED],
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
