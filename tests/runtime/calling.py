"""A stand-in for the driver: it sends commands to real calls and hears what they report, in order."""

import asyncio
import itertools
import threading

from fsm_agent.core.inputs import Call, Probe, Returned, StopCall
from fsm_agent.runtime.classifying import load_classifier
from fsm_agent.runtime.driving.calls import Calls
from fsm_agent.runtime.secrets.vault import Vault
from fsm_agent.runtime.tools.toolbox import Toolbox

CLASSIFIER = load_classifier()
FAR = 10**15
PATIENCE_S = 10


class Shell:
    """Stands where the driver stands: sends commands, hears inputs in order."""

    def __init__(self, tools, **options):
        self.tools = tools
        self.vault = Vault()
        self.heard = asyncio.Queue()
        self.threads = set()
        self.clock = itertools.count(1_000_000, 1_000)
        self.calls = Calls(
            tools,
            CLASSIFIER,
            run_id="run-1",
            vault=self.vault,
            report=self._report,
            clock_us=self.clock.__next__,
            **options,
        )

    def _report(self, given):
        self.threads.add(threading.get_ident())
        self.heard.put_nowait(given)

    async def __aenter__(self):
        await self.calls.__aenter__()
        return self

    async def __aexit__(self, *error):
        await self.calls.__aexit__(*error)
        assert self.threads <= {threading.get_ident()}, "reports come from the loop's thread"

    def start(self, tool, attempt=1, task="t", key="k", **args):
        self.calls.start(Call(task=task, attempt=attempt, tool=tool, args=args, key=key, deadline_at=FAR))

    def probe(self, tool, repeat=False, deadline_at=FAR, attempt=1, **args):
        self.calls.probe(
            Probe(
                task="t",
                attempt=attempt,
                tool=tool,
                args=args,
                key="k",
                repeat=repeat,
                deadline_at=deadline_at,
            )
        )

    def stop(self, cut_off, attempt=1):
        self.calls.stop(StopCall(task="t", attempt=attempt, cut_off=cut_off))

    async def next(self):
        return await asyncio.wait_for(self.heard.get(), PATIENCE_S)

    async def outcome(self):
        given = await self.next()
        assert isinstance(given, Returned)
        return given.outcome

    async def until(self, true):
        """Let the loop turn until something holds; threads may have to come to their end first."""
        async with asyncio.timeout(PATIENCE_S):
            while not true():  # noqa: ASYNC110
                await asyncio.sleep(0)  # what is awaited happens in threads of the pool, which tell nobody

    def silent(self):
        return self.heard.empty()


def box(effect="read", **options):
    """Register one function as ``tool`` in a new toolbox."""

    def register(fn):
        tools = Toolbox()
        tools.add(fn, effect=effect, name="tool", **options)
        return tools

    return register


def outcome_of(tools, **args):
    async def main():
        async with Shell(tools) as shell:
            shell.start("tool", **args)
            outcome = await shell.outcome()
            assert shell.calls.open_calls == 0
            assert not shell.calls.running("t", 1)
        assert shell.silent()
        return outcome

    return asyncio.run(main())


def raising(error):
    def tool():
        raise error

    return tool
