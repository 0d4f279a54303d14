"""Scripted tools for the real controller: a toolbox whose tools do what the ``calls`` of a scenario say.

For testing a plan with everything real but the other side. Delays are real time, so scripts for tests should have
none. The ledger of effects is the same :class:`~fsm_agent.testing.world.World` that simulations use.
"""

import asyncio
import builtins
from collections.abc import Callable, Mapping
from typing import Any

from fsm_agent.core.errors import UsageError
from fsm_agent.core.inputs import Call, Probe, Usage
from fsm_agent.runtime.ports import SystemPorts
from fsm_agent.runtime.tools.context import CallContext, Reconciled, ToolError
from fsm_agent.runtime.tools.toolbox import Toolbox
from fsm_agent.testing.scenario import Raised, ToolScript
from fsm_agent.testing.world import Happening, Kind, World


class ScriptedTools:
    """A world and the toolbox that acts on it.

    Args:
        scripts: What every tool does, by name; see :func:`fsm_agent.testing.scenario.parse`.
        now_us: The clock that the world reads: UTC epoch in microseconds, the same that the controller reads; left out,
            the system's.
        crash: Ends the process, for scripts with ``crash``; it must not return.

    Attributes:
        world: Counts calls and effects.
        toolbox: Hand it to the controller. Build another object for another process: a toolbox may be given to
            several controllers one after the other, and all of them act on the same world.

    Raises:
        UsageError: A script crashes, and *crash* is left out.
    """

    def __init__(
        self,
        scripts: Mapping[str, ToolScript],
        *,
        now_us: Callable[[], int] | None = None,
        crash: Callable[[], None] | None = None,
    ) -> None:
        self.world = World(scripts)
        self.toolbox = Toolbox()
        self._now_us = now_us or SystemPorts().now_us
        self._crash = crash
        for name, script in scripts.items():
            if crash is None and any(call.crash for call in script.calls):
                raise UsageError(f"tool {name!r}: its script crashes; say with crash= how the process ends")
            self._register(name, script)

    def _register(self, name: str, script: ToolScript) -> None:
        async def call(ctx: CallContext, **args: Any) -> Any:
            return await self._call(name, ctx, args)

        async def probe(ctx: CallContext, **args: Any) -> Reconciled:
            command = Probe(**_fields(name, ctx, args), repeat=False)
            return self.world.probe(command, self._now_us())

        spec = script.spec
        within = spec.confirm_within_us
        self.toolbox.add(
            call,
            effect=spec.effect,
            name=name,
            timeout_s=spec.timeout_us / 1_000_000,
            settle_s=spec.settle_us / 1_000_000,
            requires=spec.requires,
            confirm=spec.confirm,
            confirm_within_s=None if within is None else within / 1_000_000,
            secret=spec.secret,
            description=spec.description,
            reconcile=probe if spec.reconcile else None,
        )

    async def _call(self, name: str, ctx: CallContext, args: Mapping[str, Any]) -> Any:
        command = Call(**_fields(name, ctx, args))
        for happening in self.world.call(command, self._now_us()):
            wait_us = happening.at_us - self._now_us()
            if wait_us > 0:
                await asyncio.sleep(wait_us / 1_000_000)
            match happening.kind:
                case Kind.REPORT:
                    _spend(ctx, happening.script.progress_usage)
                    ctx.progress(advanced=happening.advanced)
                case Kind.COMMIT:
                    self.world.happened(happening)
                case Kind.REPLY:
                    return _reply(ctx, happening)
                case _:
                    assert self._crash is not None, "checked when the tool was registered"
                    self._crash()
        return await asyncio.Event().wait()  # it hangs for ever


def _fields(name: str, ctx: CallContext, args: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "task": ctx.task,
        "attempt": ctx.attempt,
        "tool": name,
        "args": args,
        "key": ctx.idempotency_key,
        "deadline_at": ctx.deadline_at,
    }


def _spend(ctx: CallContext, used: Usage) -> None:
    ctx.spend(tokens=used.tokens, cost=f"{used.cost_micros / 1_000_000:.6f}")


def _reply(ctx: CallContext, happening: Happening) -> Any:
    script = happening.script
    _spend(ctx, script.usage)
    if script.raised is not None:
        raise exception(script.raised)
    return script.returned


def exception(raised: Raised) -> BaseException:
    """Return an exception that looks like *raised* to whoever classifies it.

    A class that is not built in is made up under that name, so that nothing has to be installed for a test.
    """
    wait = None if raised.retry_after_us is None else raised.retry_after_us / 1_000_000
    if raised.applied is not None or (raised.code is not None and not (raised.class_name or raised.status)):
        code = raised.code if raised.code is not None else str(raised.status)
        return ToolError(code, raised.message, raised.applied or "maybe", wait)
    error = _class(raised.class_name or "Exception")(raised.message)
    for name, value in [("status_code", raised.status), ("code", raised.code), ("retry_after_s", wait)]:
        if value is not None:
            setattr(error, name, value)
    return error


def _class(name: str) -> type[BaseException]:
    known = getattr(builtins, name, None)
    if isinstance(known, type) and issubclass(known, BaseException):
        return known
    module, _, own = name.rpartition(".")
    return type(own, (Exception,), {"__module__": module or "builtins"})
