"""The simulated world: tools that follow a script, and a ledger of effects that no controller can write.

Time is an argument, in microseconds. :meth:`World.call` does not run a call, it tells what will happen when:
reports on the way, the effect, the reply, a crash. Whoever owns the clock lets these happenings happen in order
of time and tells the world about each effect; a crash forgets the happenings that are still to come, so a call
that is cut off before its effect never had one.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import attrs

from fsm_agent.core.inputs import Call, Probe
from fsm_agent.core.signals import Effect
from fsm_agent.runtime.tools.context import Reconciled
from fsm_agent.testing.expect import same
from fsm_agent.testing.scenario import CallScript, ProbeScript, Raised, ToolScript


class Kind(IntEnum):
    """What can happen to a call; at one instant the smaller number comes first.

    ``SILENCE`` is the end of waiting for a repetition that serves as a probe; the world never plans it.
    """

    REPORT = 1
    CRASH_BEFORE = 2
    COMMIT = 3
    CRASH_AFTER = 4
    REPLY = 5
    SILENCE = 6


@attrs.frozen(kw_only=True)
class Happening:
    """Something that happens to a call at a time.

    Attributes:
        at_us: When, in microseconds of the caller's clock.
        kind: What.
        command: The call, or the repetition that serves as a probe.
        script: What the scenario says about it.
        started_us: When the call began.
        advanced: Of a report: whether it is an advance.
    """

    at_us: int
    kind: Kind
    command: Call | Probe
    script: CallScript
    started_us: int
    advanced: bool = False


@attrs.frozen(kw_only=True)
class Done:
    """An effect, as the world remembers it.

    Attributes:
        tool: The tool that had it.
        key: The idempotency key of the call.
        args: The arguments of the call.
        result: What a probe finds.
        at_us: When it was made.
    """

    tool: str
    key: str
    args: Mapping[str, Any]
    result: Any
    at_us: int


@attrs.define(eq=False)
class _Taker:
    """Takes from a list: the first unused entry that fits, or the last fitting one once all are used."""

    scripts: Sequence[CallScript | ProbeScript]
    used: set[int] = attrs.field(factory=set)

    def take(self, args: Mapping[str, Any]) -> int | None:
        fitting = [i for i, s in enumerate(self.scripts) if s.match is None or _within(s.match, args)]
        if not fitting:
            return None
        taken = next((i for i in fitting if i not in self.used), fitting[-1])
        self.used.add(taken)
        return taken


def _within(part: Mapping[str, Any], args: Mapping[str, Any]) -> bool:
    return all(name in args and same(value, args[name]) for name, value in part.items())


class World:
    """The tools of a scenario and everything they did.

    Attributes:
        tools: What the scenario says about each.
        calls: How often each tool was called, a probing repetition included.
        effects: Every effect, oldest first.
        gaps: What was asked of a tool that the scenario says nothing about, one sentence each.
    """

    def __init__(self, tools: Mapping[str, ToolScript]) -> None:
        self.tools = dict(tools)
        self._calls = {name: _Taker(tool.calls) for name, tool in tools.items()}
        self._probes = {name: _Taker(tool.probes or ()) for name, tool in tools.items()}
        self.calls = dict.fromkeys(tools, 0)
        self.effects: list[Done] = []
        self.gaps: list[str] = []
        self._first: dict[tuple[str, str], Done] = {}

    def call(self, command: Call | Probe, now_us: int) -> list[Happening]:
        """Count a call and return what will happen to it, in order of time.

        Args:
            command: The call, or a probe that is a repetition of it.
            now_us: When it begins; nothing that is returned lies before it.
        """
        script = self._take(command)
        self.calls[command.tool] += 1
        end = now_us + script.delay_us
        reply: int | None = end
        if script.timeout:
            end = now_us
            reply = command.deadline_at + max(1, script.late_us) if script.late_us is not None else None
        found = [(end, Kind.COMMIT)] if script.commit else []
        if script.crash:
            found.append((end, Kind.CRASH_BEFORE if script.crash == "before" else Kind.CRASH_AFTER))
        if reply is not None:
            found.append((reply, Kind.REPLY))
        lasts = command.deadline_at - now_us if script.timeout else script.delay_us
        for index in range(len(script.progress)):
            found.append((now_us + lasts * (index + 1) // (len(script.progress) + 1), Kind.REPORT))
        reports = iter(script.progress)
        return [
            Happening(
                at_us=at,
                kind=kind,
                command=command,
                script=script,
                started_us=now_us,
                advanced=kind is Kind.REPORT and next(reports),
            )
            for at, kind in sorted(found)
        ]

    def _take(self, command: Call | Probe) -> CallScript:
        tool = self.tools[command.tool]
        if not tool.calls:
            return CallScript(commit=tool.spec.effect is not Effect.READ)
        index = self._calls[command.tool].take(command.args)
        if index is None:
            self.gaps.append(
                f"no call of tool {command.tool} fits the arguments {dict(command.args)!r}; "
                "add a call without match, or one that matches"
            )
            return CallScript(
                raised=Raised(class_name="LookupError", message="the scenario has no such call")
            )
        return tool.calls[index]

    def happened(self, happening: Happening) -> None:
        """Enter the effect of a call into the ledger."""
        command = happening.command
        effect = Done(
            tool=command.tool,
            key=command.key,
            args=command.args,
            result=happening.script.returned,
            at_us=happening.at_us,
        )
        known = (effect.tool, effect.key) in self._first
        if not known:
            self._first[effect.tool, effect.key] = effect
        if not known or self.tools[effect.tool].spec.effect is not Effect.IDEMPOTENT:
            self.effects.append(effect)

    def probe(self, command: Probe, now_us: int) -> Reconciled:
        """Return what a probe finds at *now_us*."""
        tool = self.tools[command.tool]
        if tool.probes is None:
            return self._truth(command, now_us - tool.lag_us)
        index = self._probes[command.tool].take(command.args)
        if index is None:
            return Reconciled.inconclusive(f"nothing is known of the arguments {dict(command.args)!r}")
        found = tool.probes[index]
        return Reconciled(verdict=found.verdict, result=found.result)

    def _truth(self, command: Probe, seen_us: int) -> Reconciled:
        effect = self._first.get((command.tool, command.key))
        if effect is None or effect.at_us > seen_us:
            return Reconciled.absent(f"the world shows no effect under key {command.key}")
        return Reconciled.applied(effect.result, f"the world shows an effect under key {command.key}")

    def effect_counts(self) -> dict[str, int]:
        """Return how many effects each tool had."""
        counts = dict.fromkeys(self.tools, 0)
        for effect in self.effects:
            counts[effect.tool] += 1
        return counts
