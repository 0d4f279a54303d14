"""``Decider``: the decision layer for people who keep their own loop.

Tell it what happened, and it says what to do next by the same table, counters and machines as a run
(:mod:`fsm_agent.core.engine.decider` says how), with a log that can be audited, replayed and explained like any other.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from fsm_agent.core import canon
from fsm_agent.core.audit.answers import Explained
from fsm_agent.core.audit.why import explain
from fsm_agent.core.classification.fingerprint import fingerprint
from fsm_agent.core.classification.waits import wait_s
from fsm_agent.core.engine import decider as core
from fsm_agent.core.engine.caller import Seen
from fsm_agent.core.engine.records import RUN
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import RefusedError, UsageError
from fsm_agent.core.events import Event
from fsm_agent.core.inputs import Create, Outcome
from fsm_agent.core.machine import TaskState
from fsm_agent.core.plans import planning
from fsm_agent.core.rules.table import Table
from fsm_agent.core.signals import HOME, Applied, Effect, Signal
from fsm_agent.core.tools import ToolSpec
from fsm_agent.runtime import configs
from fsm_agent.runtime.classifying import load_classifier
from fsm_agent.runtime.deciding.decision import Decision
from fsm_agent.runtime.deciding.declared import (
    applied_named,
    near,
    signal_named,
    specs_of,
    tasks_of,
    tool_named,
)
from fsm_agent.runtime.deciding.log import DecisionLog
from fsm_agent.runtime.driving.owner import owner_name
from fsm_agent.runtime.ports import Ports, SystemPorts
from fsm_agent.runtime.secrets.vault import Vault
from fsm_agent.runtime.tools.endings import Judge, read_error
from fsm_agent.stores.base import Store
from fsm_agent.version import VERSION

SCHEMA: Final = "fsm-agent/decider@1"


class Decider:
    """Decides, step by step, what a loop of your own should do.

    ::

        decider = Decider("default", tasks=["fetch", "book"], tools={"pay": "write"})
        decision = decider.observe("transient_error", error="timeout at 12:00:01", task="fetch")
        decision.action, decision.delay_s, decision.reason

    Tasks and tools are declared, so that a mistyped name is an error and no second set of counters. Arguments,
    errors and results are written to the log as they are: leave secrets out. Not for several threads at once.
    """

    _table: Table | None

    def __init__(
        self,
        rules: Table | str | Path = "default",
        *,
        params: Mapping[str, int | float] | None = None,
        tasks: Iterable[str] | Mapping[str, str] = ("t1",),
        tools: Mapping[str, str] | Sequence[ToolSpec] = (),
        planner: bool = True,
        probes: bool = True,
        store: Store | str | PathLike[str] | None = None,
        run_id: str | None = None,
        ports: Ports | None = None,
    ) -> None:
        """Begin.

        Args:
            rules: A table, its name, or a ``.toml`` file.
            params: Named thresholds of the table to set.
            tasks: Names of what you do; or each name with its tool or effect class, ``read`` if not said.
            tools: Tools by name with their effect class, or their declarations (``toolbox.specs``). Counted together
                by the circuit breaker; without any, all calls of one effect class are one tool.
            planner: Whether you can draw a new plan when told so.
            probes: Whether you can look up what became of a call whose result is unknown; not asked of
                declarations, which say so themselves.
            store: A store, or where one is; left out, the log is in memory and grows with every observation.
            run_id: Name of the log; left out, one is made.
            ports: Time and chance, for tests.

        Raises:
            NotFoundError: No such table.
            RulesError: The table is not sound.
            UsageError: A task or tool is declared wrongly.
            ConflictError: *run_id* is taken.
        """
        table = rules if isinstance(rules, Table) else configs.load_rules(rules, params or {})
        specs = specs_of(tools, probes)
        steps = [{"id": name, "tool": tool_named(specs, name, what)} for name, what in tasks_of(tasks)]
        classifier = load_classifier()
        run = run_id if run_id is not None else f"d-{secrets.token_hex(4)}"
        given = Create(
            run=run,
            plan=planning.load({"goal": "decided step by step", "steps": steps}),
            rules=table,
            tools=tuple(specs.values()),
            inputs={},
            owner=owner_name(),
            classify_digest=classifier.digest,
            version=VERSION,
            has_planner=planner,
        )
        self._set_up(DecisionLog.create(store, given, ports or SystemPorts()), table)

    def _set_up(self, log: DecisionLog, table: Table | None) -> None:
        self._log = log
        self._table = table
        self._judge = Judge(load_classifier(), Vault())
        self._last: Decision | None = None

    @classmethod
    def open(cls, store: Store | str | PathLike[str], run_id: str, *, ports: Ports | None = None) -> Self:
        """Go on where the log of a decider ends.

        Raises:
            NotFoundError: No such log.
            OwnedError: Another living process holds it.
            CorruptError: The log is not what was written.
        """
        self = cls.__new__(cls)
        self._set_up(DecisionLog.open(store, run_id, ports or SystemPorts()), None)
        return self

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, ports: Ports | None = None) -> Self:
        """Return a decider in exactly the state that :meth:`to_json` gave; its log is in memory.

        Raises:
            UsageError: *data* is not what it gave.
            CorruptError: The log in it was changed.
        """
        lines = data.get("log")
        if data.get("schema") != SCHEMA or not isinstance(lines, list) or not lines:
            raise UsageError(f"decider: this is no state of schema {SCHEMA}; give what to_json() returned")
        self = cls.__new__(cls)
        self._set_up(DecisionLog.restore(lines, ports or SystemPorts()), None)
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the whole state as JSON values: it is the log, since state is nothing but its fold."""
        return {"schema": SCHEMA, "run": self.run.id, "log": self._log.lines}

    # ── what happened ─────────────────────────────────────────────────────────────────────────────────────────

    def observe(
        self,
        what: str | BaseException,
        *,
        error: str = "",
        task: str = "t1",
        effect: str | None = None,
        tool: str | None = None,
        args: Mapping[str, Any] | None = None,
        applied: str | None = None,
        retry_after_s: float | None = None,
        result: Any = None,
    ) -> Decision:
        """Say what happened, and learn what to do next.

        Args:
            what: The name of a signal, or the exception that the call raised. A signal's state is its home: a
                ``success`` finds the task done, an ``outcome_unknown`` unknown, a ``deadlock`` is about the run.
            error: What is known in words; the evidence of a ``reconciled_…`` signal. Compared by fingerprint, so
                times, ids and numbers in it do not matter.
            task: Which of the declared tasks; not asked where the signal is about the run.
            effect: Effect class of the call, if no tool was declared for it; left out, as before.
            tool: Which of the declared tools was called; left out, the same as before.
            args: Its arguments. Other arguments, or another tool, are another strategy.
            applied: ``no``, ``maybe`` or ``yes``: what is proved about the effect. Left out, an exception says so
                itself, and of a signal nothing is proved.
            retry_after_s: How long the other side asked to be left alone; what is no time (negative, not a number)
                says nothing.
            result: Of an effect that was found (``reconciled_applied``), or of a success.

        Raises:
            UsageError: Unknown names.
            RefusedError: It does not fit what is known of the task; nothing was changed.
        """
        env = self._log.env()
        words = self._judge.words(error)
        if isinstance(what, str) and (signal := signal_named(what)) in _OF_RUN:
            seen = Seen(task=task, signal=signal, outcome=_NO_CALL, words=words)
            return self._decided(core.observe(self.run, seen, env), None)
        spec = self._spec(task, effect, tool)
        if isinstance(what, str):
            signal = signal_named(what)
            outcome = core.outcome_of(
                signal, spec.effect, applied_named(applied), _error(spec, signal, words)
            )
        else:
            outcome = self._judge.outcome(spec, read_error(what, self._log.now_us))
            signal = outcome.signal or Signal.UNCLASSIFIED_ERROR
            words = words or str((outcome.error or {}).get("message", ""))
            if applied is not None:
                outcome = outcome._replace(applied=applied_named(applied) or outcome.applied)
        wait = None if retry_after_s is None else wait_s(retry_after_s)
        if wait is not None:
            outcome = outcome._replace(retry_after_us=round(wait * 1_000_000))
        found = _copy(result)
        if signal is Signal.SUCCESS:
            outcome = outcome._replace(value=found)
        seen = Seen(
            task=task,
            signal=signal,
            outcome=outcome,
            tool=spec.name,
            args=_copy(dict(args or {})),
            words=words,
            result=found,
            named=isinstance(what, str),
        )
        return self._decided(core.observe(self.run, seen, env), task)

    def progress(
        self,
        advanced: bool,
        *,
        task: str = "t1",
        note: str = "",
        effect: str | None = None,
        tool: str | None = None,
        args: Mapping[str, Any] | None = None,
    ) -> Decision | None:
        """Say that a task goes on, and whether that brought it nearer to its end.

        What only looks like work (a log line, the same file read again) is ``advanced=False``. Too much of it in a
        row is a stall.

        Returns:
            What to do if it has stalled, else None.

        Raises:
            UsageError: Unknown names.
            RefusedError: It does not fit what is known of the task; nothing was changed.
        """
        seen = self._seen(task, effect, tool, args, note)
        return self._maybe(core.report(self.run, seen, advanced, self._log.env()), task)

    def before_call(
        self,
        *,
        task: str = "t1",
        effect: str | None = None,
        tool: str | None = None,
        args: Mapping[str, Any] | None = None,
    ) -> Decision | None:
        """Ask the circuit breaker of the tool; None: go ahead. Else the signal is ``blocked_dependency``.

        Raises:
            UsageError: Unknown names.
            RefusedError: No call of the task can start now; nothing was changed.
        """
        seen = self._seen(task, effect, tool, args, "")
        return self._maybe(core.before_call(self.run, seen, self._log.env()), task)

    def resume(self) -> None:
        """Go on after an abort: what failed may be tried again, what is done stays done.

        Raises:
            RefusedError: Nothing was aborted.
        """
        self._log.take(core.resume(self.run, self._log.env()))

    def declare(self, task: str, what: str = "read") -> None:
        """Declare another task, with its tool or effect class.

        Raises:
            UsageError: No such tool or effect class.
            RefusedError: The task is declared already.
            PlanError: No task can have this name.
        """
        self._log.take(core.add(self.run, task, tool_named(self.run.tools, task, what), self._log.env()))

    # ── what is known ─────────────────────────────────────────────────────────────────────────────────────────

    def explain(self, decision: Decision | None = None) -> Explained:
        """Return why a decision was made, the last one if none is given: the row, where it stands, the facts, rows
        that nearly answered and the fact that they missed, and what would have changed the decision.

        Raises:
            RefusedError: Nothing was decided yet.
        """
        found = decision if decision is not None else self._last
        if found is None:
            raise RefusedError("decider: nothing was decided yet; observe something first")
        return explain(self.run.id, self._log.events(found.seq), found.seq, table=self._with_lines())

    def _with_lines(self) -> Table:
        if self._table is None:
            self._table = configs.with_lines(self.run.rules)
        return self._table

    @property
    def run(self) -> Run:
        """The state: counters, tasks, breakers. Read it, never change it."""
        return self._log.run

    @property
    def plan_version(self) -> int:
        """How many new plans were asked for."""
        return self.run.account.planner_calls + len(self.run.replans)

    @property
    def closed(self) -> bool:
        """Whether it was aborted; :meth:`resume` goes on."""
        return self.run.closed

    def close(self) -> None:
        """Give the log up, so that anybody may go on with it. Silent when closed already."""
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        run = self.run
        return f"<Decider {run.id} by {run.rules.name}: {run.state.value}, plan {self.plan_version}, head {run.seq}>"

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────

    def _seen(
        self, task: str, effect: str | None, tool: str | None, args: Mapping[str, Any] | None, words: str
    ) -> Seen:
        spec = self._spec(task, effect, tool)
        return Seen(
            task=task,
            signal=Signal.SUCCESS,
            outcome=_NO_CALL,
            tool=spec.name,
            args=_copy(dict(args or {})),
            words=self._judge.words(words),
        )

    def _spec(self, task: str, effect: str | None, tool: str | None) -> ToolSpec:
        """Return the tool that a call of *task* uses, by what was said of it."""
        run = self.run
        known = run.tasks.get(task)
        if known is None:
            raise UsageError(
                f"task {task!r}: it was not declared{near(task, run.tasks)}, or declare it: declare({task!r})"
            )
        if tool is None:
            planned = run.tools[run.tool_of(known.step) or ""]
            if effect is None or planned.effect == effect:
                return planned
            tool = tool_named(dict.fromkeys(Effect), task, effect)
        spec = run.tools.get(tool)
        if spec is None:
            raise UsageError(f"tool {tool!r}: it was not declared{near(tool, run.tools)}")
        if effect is not None and spec.effect != effect:
            raise UsageError(f"tool {tool}: it was declared {spec.effect.value}, not {effect}")
        return spec

    def _maybe(self, events: tuple[Event, ...], task: str) -> Decision | None:
        if any(e.type == "decided" for e in events):
            return self._decided(events, task)
        self._log.take(events)
        return None

    def _decided(self, events: tuple[Event, ...], task: str | None) -> Decision:
        self._log.take(events)
        decisions = [e for e in events if e.type == "decided"]
        event = next((e for e in reversed(decisions) if e.task == task), decisions[-1])
        self._last = self._decision(event)
        return self._last

    def _decision(self, event: Event) -> Decision:
        run, data = self.run, event.data
        params = data.get("params", {})
        delay_us = params.get("delay_ms", 0) * 1000
        request = run.replans.get(event.task or RUN)
        if "probe_at" in params:
            delay_us = max(0, params["probe_at"] - event.at)
        elif request is not None:
            delay_us = max(0, request.not_before - run.at)
        unknown = [t.id for t in run.tasks.values() if t.state is TaskState.UNKNOWN]
        return Decision(
            action=data["decide"],
            rule=data["rule"],
            reason=data["reason"],
            delay_s=delay_us / 1_000_000,
            task=event.task,
            signal=data["signal"],
            state=run.state.value if event.task is None else run.tasks[event.task].state.value,
            plan_version=self.plan_version,
            waits_for=tuple(unknown) if data["decide"].startswith("replan-") else (),
            seq=event.seq,
        )


_OF_RUN: Final = frozenset(HOME["run", "running"])
_NO_CALL: Final = Outcome(kind="lost", signal=Signal.PROGRESS_STALL, applied=Applied.NO)


def _error(spec: ToolSpec, signal: Signal, words: str) -> dict[str, Any]:
    mark = fingerprint(tool=spec.name, signal=signal.value, code=None, class_name=None, message=words)
    return {"message": words, "fingerprint": mark}


def _copy(value: Any) -> Any:
    return canon.snapshot(value)[0]
