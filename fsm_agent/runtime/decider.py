"""``Decider``: the decision layer for people who keep their own loop.

Tell it what happened, and it says what to do next by the same table, counters and machines as a run
(:mod:`fsm_agent.core.engine.decider` says how), with a log that can be audited, replayed and explained like any other.
"""

import difflib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import attrs

from fsm_agent.core import canon
from fsm_agent.core.audit import replay
from fsm_agent.core.audit.why import Explained, explain
from fsm_agent.core.classification.classify import Classifier
from fsm_agent.core.classification.fingerprint import fingerprint
from fsm_agent.core.engine import decider as core
from fsm_agent.core.engine.decide import apply
from fsm_agent.core.engine.state import RUN, Run
from fsm_agent.core.errors import RefusedError, UsageError
from fsm_agent.core.events import Event, Head, genesis, seal, to_line
from fsm_agent.core.inputs import Create, Env, Outcome
from fsm_agent.core.machine import TaskState
from fsm_agent.core.plans import planning
from fsm_agent.core.rules.table import Table
from fsm_agent.core.signals import HOME, Applied, Effect, Signal
from fsm_agent.core.tools import ToolSpec
from fsm_agent.runtime import configs
from fsm_agent.runtime.endings import Judge, read_error
from fsm_agent.runtime.engine import LEASE_US, Ports, needs_barrier
from fsm_agent.runtime.owner import is_dead, owner_name
from fsm_agent.runtime.ports import SystemPorts
from fsm_agent.runtime.vault import Vault
from fsm_agent.stores import open_store
from fsm_agent.stores.base import Lease, Store
from fsm_agent.stores.lines import blob_line, named_blobs
from fsm_agent.stores.memory import MemoryStore
from fsm_agent.stores.transfer import import_run
from fsm_agent.version import VERSION

SCHEMA: Final = "fsm-agent/decider@1"

_PLAIN: Final = {"accept": "done", "replan-local": "replan", "replan-global": "replan"}


@attrs.frozen(kw_only=True)
class Decision:
    """What to do next.

    Attributes:
        action: The table's decision: ``accept continue retry reconcile replan-local replan-global escalate skip abort``.
        rule: Id of the row that answered.
        reason: Why, in words; names the signal, its threshold and the facts.
        delay_s: Seconds to wait before a ``retry``, a look-up (``reconcile``) or a new plan; 0 for everything else.
        task: The task; None for a decision about the run.
        signal: What fired: what was observed, or what follows from it.
        state: Of the task after the decision; of the run where it is about the run.
        plan_version: How many new plans were asked for so far, this one included.
        waits_for: Tasks whose result is unknown: a new plan may not be carried out before they are settled.
        seq: Of the decision in the log.
    """

    action: str
    rule: str
    reason: str
    delay_s: float = 0.0
    task: str | None
    signal: str
    state: str
    plan_version: int
    waits_for: tuple[str, ...] = ()
    seq: int

    @property
    def decision(self) -> str:
        """The action in the plainest word: ``retry``, ``replan``, ``abort``, ``done``; else the action itself."""
        return _PLAIN.get(self.action, self.action)

    def __str__(self) -> str:
        """One line for people."""
        wait = f" in {self.delay_s:g} s" if self.delay_s else ""
        return f"{self.decision}{wait} ({self.rule}): {self.reason}"


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
        specs = _specs(tools, probes)
        steps = [{"id": name, "tool": _tool_named(specs, name, what)} for name, what in _tasks(tasks)]
        classifier = configs.load_classifier()
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
        clock = ports or SystemPorts()
        opened, own = _store(store, create=True)
        try:
            lease = opened.create(run, given.owner, now_us=clock.now_us(), ttl_us=LEASE_US)
            self._set_up(Run(run), opened, own, lease, genesis(run), clock, classifier)
            self._table = table
            self._take(core.opening(self._run, given, self._env()))
        except BaseException:
            if own:
                opened.close()
            raise

    def _set_up(
        self,
        run: Run,
        store: Store,
        own: bool,
        lease: Lease,
        head: Head,
        ports: Ports,
        classifier: Classifier,
    ) -> None:
        self._run = run
        self._store = store
        self._own_store = own
        self._lease = lease
        self._lease_until = ports.now_us() + LEASE_US
        self._head = head
        self._ports = ports
        self._table = None
        self._judge = Judge(classifier, Vault())
        self._last: Decision | None = None
        self._closed = False

    @classmethod
    def open(cls, store: Store | str | PathLike[str], run_id: str, *, ports: Ports | None = None) -> Self:
        """Go on where the log of a decider ends.

        Raises:
            NotFoundError: No such log.
            OwnedError: Another living process holds it.
            CorruptError: The log is not what was written.
        """
        opened, own = _store(store, create=False)
        try:
            self = cls._of(opened, own, run_id, ports or SystemPorts())
            self._take(core.taken_over(self._run, self._lease.epoch, self._lease.owner, self._env()))
        except BaseException:
            if own:
                opened.close()
            raise
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
        store, clock = MemoryStore(), ports or SystemPorts()
        log = "".join(f"{line}\n" for line in lines).encode()
        found = import_run(store, log, owner=owner_name(), now_us=clock.now_us())
        return cls._of(store, True, found.run, clock)

    @classmethod
    def _of(cls, store: Store, own: bool, run_id: str, ports: Ports) -> Self:
        holder = store.info(run_id).owner
        lease = store.acquire(
            run_id,
            owner_name(),
            now_us=ports.now_us(),
            ttl_us=LEASE_US,
            force=holder is not None and is_dead(holder),
        )
        run = replay.replay(run_id, store.read(run_id), store.blob)
        self = cls.__new__(cls)
        self._set_up(run, store, own, lease, store.head(run_id), ports, configs.load_classifier())
        core.forget_timers(run)
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the whole state as JSON values: it is the log, since state is nothing but its fold."""
        lines: list[str] = []
        written: set[str] = set()
        for record in self._store.read(self._run.id):
            for name in named_blobs(record.body):
                if name not in written:
                    written.add(name)
                    lines.append(blob_line(name, self._store.blob(name)).decode())
            lines.append(to_line(record).decode())
        return {"schema": SCHEMA, "run": self._run.id, "log": lines}

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
            retry_after_s: How long the other side asked to be left alone.
            result: Of an effect that was found (``reconciled_applied``), or of a success.

        Raises:
            UsageError: Unknown names.
            RefusedError: It does not fit what is known of the task; nothing was changed.
        """
        env = self._env()
        words = self._judge.words(error)
        if isinstance(what, str) and (signal := _signal(what)) in _OF_RUN:
            seen = core.Seen(task=task, signal=signal, outcome=_NO_CALL, words=words)
            return self._decided(core.observe(self._run, seen, env), None)
        spec = self._spec(task, effect, tool)
        if isinstance(what, str):
            signal = _signal(what)
            outcome = core.outcome_of(signal, spec.effect, _applied(applied), _error(spec, signal, words))
        else:
            outcome = self._judge.outcome(spec, read_error(what, self._ports.now_us))
            signal = outcome.signal or Signal.UNCLASSIFIED_ERROR
            words = words or str((outcome.error or {}).get("message", ""))
            if applied is not None:
                outcome = attrs.evolve(outcome, applied=_applied(applied) or outcome.applied)
        if retry_after_s is not None:
            outcome = attrs.evolve(outcome, retry_after_us=max(0, round(retry_after_s * 1_000_000)))
        found = _copy(result)
        if signal is Signal.SUCCESS:
            outcome = attrs.evolve(outcome, value=found)
        seen = core.Seen(
            task=task,
            signal=signal,
            outcome=outcome,
            tool=spec.name,
            args=_copy(dict(args or {})),
            words=words,
            result=found,
            named=isinstance(what, str),
        )
        return self._decided(core.observe(self._run, seen, env), task)

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
        return self._maybe(core.report(self._run, seen, advanced, self._env()), task)

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
        return self._maybe(core.before_call(self._run, seen, self._env()), task)

    def resume(self) -> None:
        """Go on after an abort: what failed may be tried again, what is done stays done.

        Raises:
            RefusedError: Nothing was aborted.
        """
        self._take(core.resume(self._run, self._env()))

    def declare(self, task: str, what: str = "read") -> None:
        """Declare another task, with its tool or effect class.

        Raises:
            UsageError: No such tool or effect class.
            RefusedError: The task is declared already.
            PlanError: No task can have this name.
        """
        self._take(core.add(self._run, task, _tool_named(self._run.tools, task, what), self._env()))

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
        events = replay.events(
            self._run.id, self._store.read(self._run.id, until=found.seq), self._store.blob
        )
        return explain(self._run.id, events, found.seq, table=self._with_lines())

    def _with_lines(self) -> Table:
        if self._table is None:
            self._table = configs.with_lines(self._run.rules)
        return self._table

    @property
    def run(self) -> Run:
        """The state: counters, tasks, breakers. Read it, never change it."""
        return self._run

    @property
    def plan_version(self) -> int:
        """How many new plans were asked for."""
        return self._run.account.planner_calls + len(self._run.replans)

    @property
    def closed(self) -> bool:
        """Whether it was aborted; :meth:`resume` goes on."""
        return self._run.closed

    def close(self) -> None:
        """Give the log up, so that anybody may go on with it. Silent when closed already."""
        if self._closed:
            return
        self._closed = True
        self._store.flush()
        self._store.release(self._lease)
        if self._own_store:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        run = self._run
        return f"<Decider {run.id} by {run.rules.name}: {run.state.value}, plan {self.plan_version}, head {run.seq}>"

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────

    def _env(self) -> Env:
        return Env(now_us=self._ports.now_us(), jitter=self._ports.jitter())

    def _seen(
        self, task: str, effect: str | None, tool: str | None, args: Mapping[str, Any] | None, words: str
    ) -> core.Seen:
        spec = self._spec(task, effect, tool)
        return core.Seen(
            task=task,
            signal=Signal.SUCCESS,
            outcome=_NO_CALL,
            tool=spec.name,
            args=_copy(dict(args or {})),
            words=self._judge.words(words),
        )

    def _spec(self, task: str, effect: str | None, tool: str | None) -> ToolSpec:
        """Return the tool that a call of *task* uses, by what was said of it."""
        run = self._run
        known = run.tasks.get(task)
        if known is None:
            raise UsageError(
                f"task {task!r}: it was not declared{_near(task, run.tasks)}, or declare it: declare({task!r})"
            )
        if tool is None:
            planned = run.tools[run.tool_of(known.step) or ""]
            if effect is None or planned.effect == effect:
                return planned
            tool = _tool_named(dict.fromkeys(Effect), task, effect)
        spec = run.tools.get(tool)
        if spec is None:
            raise UsageError(f"tool {tool!r}: it was not declared{_near(tool, run.tools)}")
        if effect is not None and spec.effect != effect:
            raise UsageError(f"tool {tool}: it was declared {spec.effect.value}, not {effect}")
        return spec

    def _take(self, events: tuple[Event, ...]) -> None:
        """Append, then apply."""
        if self._closed:
            raise RefusedError(f"decider {self._run.id}: it is closed; open its log again to go on")
        if not events:
            return
        now, run = self._ports.now_us(), self._run
        if now > self._lease_until - LEASE_US // 2:
            self._store.renew(self._lease, now_us=now, ttl_us=LEASE_US)
            self._lease_until = now + LEASE_US
        records, blobs = seal(self._head, events)
        moved = [e.data["dest"] for e in events if e.type == "run_moved"]
        self._head = self._store.append(
            self._lease,
            self._head,
            records,
            blobs=blobs,
            barrier=any(map(needs_barrier, events)),
            state=moved[-1] if moved else run.state.value,
            now_us=now,
        )
        for event in events:
            apply(run, event)
        core.forget_timers(run)

    def _maybe(self, events: tuple[Event, ...], task: str) -> Decision | None:
        if any(e.type == "decided" for e in events):
            return self._decided(events, task)
        self._take(events)
        return None

    def _decided(self, events: tuple[Event, ...], task: str | None) -> Decision:
        self._take(events)
        decisions = [e for e in events if e.type == "decided"]
        event = next((e for e in reversed(decisions) if e.task == task), decisions[-1])
        self._last = self._decision(event)
        return self._last

    def _decision(self, event: Event) -> Decision:
        run, data = self._run, event.data
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


def _store(store: Store | str | PathLike[str] | None, *, create: bool) -> tuple[Store, bool]:
    if store is None:
        return MemoryStore(), True
    if isinstance(store, str | PathLike):
        return open_store(store, create=create), True
    return store, False


def _specs(tools: Mapping[str, str] | Sequence[ToolSpec], probes: bool) -> dict[str, ToolSpec]:
    """Return the declared tools by name, and one for the unnamed calls of each effect class."""
    specs = {e.value: _spec_of(e.value, e, probes) for e in Effect}
    if isinstance(tools, Mapping):
        declared = [_spec_of(name, _effect(name, effect), probes) for name, effect in tools.items()]
    else:
        declared = list(tools)
    for spec in declared:
        if spec.name in specs:
            raise UsageError(f"tool {spec.name}: the name is taken; effect classes stand for unnamed tools")
        specs[spec.name] = spec
    return specs


def _spec_of(name: str, effect: Effect, probes: bool) -> ToolSpec:
    return ToolSpec(
        name=name, effect=effect, extra_arguments=True, reconcile=probes and effect is not Effect.READ
    )


def _effect(name: str, effect: str) -> Effect:
    try:
        return Effect(effect)
    except ValueError:
        raise UsageError(
            f"tool {name}: {effect!r} is no effect class; it is one of {', '.join(Effect)}"
        ) from None


def _tasks(tasks: Iterable[str] | Mapping[str, str]) -> list[tuple[str, str]]:
    if isinstance(tasks, str):
        raise UsageError(f"tasks: {tasks!r} is one name; give a list of names")
    found = (
        list(tasks.items()) if isinstance(tasks, Mapping) else [(name, Effect.READ.value) for name in tasks]
    )
    if not found or any(name == RUN for name, _ in found):
        raise UsageError(
            f"tasks: {[name for name, _ in found]}; give at least one name, and none of them {RUN!r}"
        )
    return found


def _tool_named(tools: Mapping[str, object], task: str, what: str) -> str:
    if what not in tools:
        raise UsageError(f"task {task}: {what!r} is no declared tool and no effect class{_near(what, tools)}")
    return what


def _signal(name: str) -> Signal:
    try:
        return Signal(name)
    except ValueError:
        raise UsageError(f"signal {name!r}: there is no such signal{_near(name, list(Signal))}") from None


def _applied(word: str | None) -> Applied | None:
    if word is not None and word not in list(Applied):
        raise UsageError(f"applied: {word!r} was given; it is one of {', '.join(Applied)}")
    return None if word is None else Applied(word)


def _near(name: str, known: Iterable[str]) -> str:
    names = list(known)
    close = difflib.get_close_matches(name, names, 1) if len(name) <= 80 else []
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(names[:40])}"


def _error(spec: ToolSpec, signal: Signal, words: str) -> dict[str, Any]:
    mark = fingerprint(tool=spec.name, signal=signal.value, code=None, class_name=None, message=words)
    return {"message": words, "fingerprint": mark}


def _copy(value: Any) -> Any:
    return canon.snapshot(value)[0]
